"""Vectors that grow by a factor: `std::vector`, a builder of columns, a list of results.

Each stream fills a few vectors at a time. A vector that is full gets a block that is larger by
the factor, its contents are copied, and the old block is freed. Full-grown vectors stay for a
while. With a factor of 2 all blocks that a vector left together are smaller than its next one;
with 1.5 they are large enough, if they are side by side.

What matters: the factor in `percent` (150, 160 or 200), one or several streams, and AT_A_TIME.
"""

from .sizes import log_normal
from .trace import interleave

AT_A_TIME = 3
FIRST, FIRST_SIGMA = 40_000, 0.8
LAST, LAST_SIGMA, LAST_MOST = 40 << 20, 1.2, 400 << 20
KEPT = 4


def vector(trace, rng, stream, kept):
    """Yield vectors, one after the other, without end."""
    while True:
        size = log_normal(rng, FIRST, FIRST_SIGMA)
        last = log_normal(rng, LAST, LAST_SIGMA, LAST_MOST)
        block = trace.allocate(size, stream)
        while size < last:
            yield
            size = size * trace.parameters["percent"] // 100
            larger = trace.allocate(size, stream)
            trace.free(block)
            block = larger
        kept.append(block)
        yield
        if len(kept) > KEPT:
            trace.free(kept.pop(rng.randrange(len(kept))))


def generate(trace, rng):
    tasks = []
    for stream in range(trace.streams):
        kept = []
        tasks += [vector(trace, rng, stream, kept) for _ in range(AT_A_TIME)]
    interleave(trace, rng, tasks)
