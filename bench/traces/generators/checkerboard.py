"""Every other block is freed, then larger ones are asked for: the oldest way to break memory up.

No program does only this, but a cache whose entries grow does it for a while: a rehash, a
column that gets a wider type. In each round blocks of nearly one size fill the memory, every
other one (or two of three, or one of four) is freed, and blocks that are up to twice as large
as the holes fill it again.

What matters: BLOCKS in a round and the steps of GROWTH. The kind keeps to the requested peak
itself. Sizes of a round stay within a factor of three, so a sequence of Robson's, which
forces every allocator to waste, does not arise.
"""

BLOCKS = [300, 900, 2000]
GROWTH = [(9, 8), (3, 2), (7, 4), (2, 1)]
PATTERNS = [(2, 1), (3, 2), (4, 1)]  # of so many blocks so many are freed


def fill(trace, rng, size, stream):
    """Blocks of about `size` until there is no more room."""
    blocks = []
    while True:
        one = size + rng.randrange(size // 16 + 1)
        if one > trace.room() or trace.is_done():
            return blocks
        blocks.append(trace.allocate(one, stream))


def generate(trace, rng):
    most = max(20, trace.target_operations // 8)
    while not trace.is_done():
        stream = rng.randrange(trace.streams)
        size = trace.target_peak // min(rng.choice(BLOCKS), most) + rng.randrange(4096)
        blocks = fill(trace, rng, size, stream)
        for numerator, denominator in rng.sample(GROWTH, 2):
            of, freed = rng.choice(PATTERNS)
            holes = [block for i, block in enumerate(blocks) if i % of < freed]
            blocks = [block for i, block in enumerate(blocks) if i % of >= freed]
            trace.free_all(holes)
            blocks += fill(
                trace, rng, size * numerator // denominator, (stream + 1) % trace.streams
            )
        trace.free_all(blocks)
