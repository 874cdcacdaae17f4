"""Distributions of sizes and lengths that are the same on every machine.

`random.Random` gives the same integers and fractions everywhere, but its lognormvariate() and
expovariate() call the C library's log and cos, whose last bit differs. Here are only sums,
products and comparisons.
"""

import bisect
import functools
import itertools
import math

LOG2_E = 1.4426950408889634
# Of 2**x for 0 <= x < 1: Taylor's series of exp(x * ln 2).
TERMS = list(
    itertools.accumulate(range(1, 13), lambda term, i: term * 0.6931471805599453 / i, initial=1.0)
)


def exp2(x):
    whole = math.floor(x)
    value = 0.0
    for term in reversed(TERMS):
        value = value * (x - whole) + term
    return math.ldexp(value, whole)


def normal(rng):
    """Standard normal, by the sum of twelve uniform ones: never beyond 6."""
    return sum(rng.random() for _ in range(12)) - 6.0


def log_normal(rng, median, sigma, most=None):
    """A whole number around `median`, at least 1; `sigma` is that of the natural logarithm."""
    value = int(median * exp2(LOG2_E * sigma * normal(rng)))
    return max(1, value if most is None else min(value, most))


@functools.cache
def harmonic(count):
    return list(itertools.accumulate(1.0 / rank for rank in range(1, count + 1)))


def zipf(rng, count):
    """A rank from 1 to `count`; rank k is k times rarer than rank 1."""
    sums = harmonic(count)
    return min(bisect.bisect(sums, rng.random() * sums[-1]) + 1, count)


def zipf_parts(rng, total, count):
    """`total` in `count` parts of Zipf's sizes, in random order; none is 0."""
    sums = harmonic(count)
    parts = [max(1, int(total / (rank * sums[-1]))) for rank in range(1, count + 1)]
    rng.shuffle(parts)
    return parts


def geometric(rng, mean):
    """At least 1; each further one as likely as the one before."""
    count = 1
    while rng.random() * mean > 1.0:
        count += 1
    return count
