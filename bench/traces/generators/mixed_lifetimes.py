"""Few long-lived blocks among many short ones: weights and caches beside temporaries.

Imitates a service that holds models and a cache of arrays (CuPy, RAPIDS behind a web server)
while each request works with temporary arrays. Weights live to the end; an entry of the cache
lives until Zipf's law forgets it; a temporary lives for a few operations. Every twentieth free
happens on another stream.

What matters: the shares of the peak (WEIGHT_SHARE, CACHE_SHARE) and the sizes: entries of the
cache are allocated between temporaries and outlive them, which breaks free memory up.
"""

from .sizes import geometric, log_normal, zipf

WEIGHT_SHARE, CACHE_SHARE = 0.35, 0.45
WEIGHT, WEIGHT_SIGMA = 6 << 20, 1.0
ENTRY, ENTRY_SIGMA = 700_000, 1.3
TEMPORARY, TEMPORARY_SIGMA = 150_000, 1.8
HELD_MEAN = 24  # temporaries of a stream
LARGEST_SHARE = 64  # no block is larger than this part of the peak


def generate(trace, rng):
    largest = trace.target_peak // LARGEST_SHARE
    few = max(1, 40_000 // trace.target_operations)  # short traces need larger blocks
    weights = 0
    while weights < trace.target_peak * WEIGHT_SHARE:
        size = log_normal(rng, WEIGHT * few, WEIGHT_SIGMA, largest)
        weights += trace.allocate(size, rng.randrange(trace.streams)).nominal
    cache, cached = [], 0
    held = [[] for _ in range(trace.streams)]
    while not trace.is_done():
        stream = rng.randrange(trace.streams)
        for _ in range(geometric(rng, 4)):
            size = log_normal(rng, TEMPORARY, TEMPORARY_SIGMA, largest)
            held[stream].append(trace.allocate(size, stream))
        while held[stream] and rng.random() * (len(held[stream]) + HELD_MEAN) > HELD_MEAN // 2:
            block = held[stream].pop(rng.randrange(len(held[stream])))
            other = rng.randrange(trace.streams) if rng.random() < 0.05 else stream
            trace.free(block, other)
        if rng.random() < 0.25 or cached < weights // 8:
            size = log_normal(rng, ENTRY * few, ENTRY_SIGMA, largest)
            cache.append(trace.allocate(size, stream))
            cached += cache[-1].nominal
        while cached > trace.target_peak * CACHE_SHARE:
            block = cache.pop(len(cache) - zipf(rng, len(cache)))
            cached -= block.nominal
            trace.free(block)
