"""A stream for each task: created when the task starts, destroyed when it ends.

Imitates a server or a scheduler of tasks (Dask, a web service with CuPy) that gives each
request a new stream. Streams are numbered in the order in which the tasks start, and no number
comes again. A task's blocks are freed on its stream, the last ones right before its end.

What matters: the number of streams, which is that of the tasks, and CONCURRENT tasks at any
time. The operations are shared out among the tasks.
"""

from .sizes import log_normal
from .trace import advance_one

CONCURRENT = 8
INPUT, INPUT_SIGMA = 24 << 20, 0.7
ARRAY, ARRAY_SIGMA, ARRAY_MOST = 2 << 20, 1.4, 256 << 20


def task(trace, rng, stream, pairs):
    """One task, as a Python generator."""
    inputs = [trace.allocate(log_normal(rng, INPUT, INPUT_SIGMA), stream) for _ in range(2)]
    held = []
    for _ in range(max(1, pairs - 2)):
        held.append(trace.allocate(log_normal(rng, ARRAY, ARRAY_SIGMA, ARRAY_MOST), stream))
        yield
        if len(held) > 4 or rng.random() < 0.4:
            trace.free(held.pop(rng.randrange(len(held))))
    trace.free_all(held)
    trace.free_all(inputs)


def generate(trace, rng):
    pairs = max(3, trace.target_operations // (2 * trace.streams))
    running, started = [], 0
    while running or started < trace.streams:
        if started < trace.streams and len(running) < CONCURRENT:
            own_pairs = rng.randrange(pairs // 2, pairs * 3 // 2) + 1
            running.append(task(trace, rng, started, own_pairs))
            next(running[-1])  # its inputs come before those of the next one
            started += 1
        advance_one(rng, running)
