"""The time of a call, as the benchmarks of Python's libraries measure it."""

import statistics
import time

BATCHES = 21


def median_ns(call, pairs, clock=time.perf_counter_ns):
    """Return the median over batches of the mean time of a call; a batch has `pairs` of them."""
    means = []
    for _ in range(BATCHES):
        start = clock()
        for _ in range(pairs):
            call()
        means.append((clock() - start) / pairs)
    return statistics.median(means)
