"""Ten million operations whose sizes drift: what a process asks for after days.

Imitates a long-lived service whose requests change with the hours: the median size wanders up
and down by a factor of SPAN, the live memory falls and fills up again, and every block has the
same chance to be the next one freed. A pool that is good for the first hour is not yet good.

What matters: the number of operations, SPAN, and how far the live memory falls (LOW). The kind
keeps to the requested peak itself, and is written while it is made: only live blocks are held
in memory.
"""

from .sizes import log_normal

SPAN = 16
LOW = 0.6
BLOCKS = 24_000  # live at the peak, about
SIGMA = 1.2
TABLE = 4096
PERIOD = 200  # allocations between two steps of the median


def generate(trace, rng):
    table = [log_normal(rng, 1 << 16, SIGMA) for _ in range(TABLE)]
    middle = trace.target_peak // (2 * min(BLOCKS, max(64, trace.target_operations // 8)))
    largest = trace.target_peak // 32
    median, limit = middle, trace.target_peak
    held = []
    since = 0
    while not trace.is_done():
        since += 1
        if since % PERIOD == 0:
            median = median * rng.randrange(900, 1112) // 1000
            median = max(middle * 4 // SPAN, min(median, middle * SPAN // 4))
        if since % (PERIOD * 50) == 0:
            limit = int(trace.target_peak * (LOW + (1 - LOW) * rng.random()))
            limit = trace.target_peak if rng.random() < 0.3 else limit
        size = min((table[rng.getrandbits(12)] * median >> 16) + rng.getrandbits(9), largest)
        while trace.live + size + 4 > limit and held:
            at = int(rng.random() * len(held))
            held[at], held[-1] = held[-1], held[at]
            trace.free(held.pop())
        held.append(trace.allocate(size, int(rng.random() * trace.streams)))
