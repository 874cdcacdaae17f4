"""Every other block is freed, then larger ones are asked for: the oldest way to break memory up.

No program does only this, but a cache whose entries grow does it for a while: a rehash, a
column that gets a wider type. In each round blocks of nearly one size fill a space, every
other one (or two of three, or one of four) is freed, and blocks that are up to twice as large
as the holes fill it again. Large blocks do so in most of the memory, small ones in the rest.

What matters: LARGE, the number of large blocks, and SMALL_PART, the part of the peak that has
small ones. A hole of a large block has whole pages, which a pool on virtual memory can use
elsewhere. A hole of a small one has none, so no pool can use it for a larger block: were all
blocks small, every allocator would waste up to half, as in Robson's sequences. The kind keeps
to the requested peak itself.
"""

LARGE = [32, 48, 80]
SMALL = [600, 2000, 4000]
SMALL_PART = 32
GROWTH = [(9, 8), (3, 2), (7, 4), (2, 1)]
PATTERNS = [(2, 1), (3, 2), (4, 1)]  # of so many blocks so many are freed


def fill(trace, rng, blocks, size, space, stream):
    """Add blocks of about `size` until they fill `space` bytes."""
    used = sum(block.bytes for block in blocks)
    while not trace.is_done():
        one = size + rng.randrange(size // 16 + 1)
        if one + 4 > space - used:
            return
        blocks.append(trace.allocate(one, stream))
        used += blocks[-1].bytes


def free_some(trace, rng, blocks):
    """Free the blocks of a pattern; returns the others."""
    of, freed = rng.choice(PATTERNS)
    trace.free_all(block for i, block in enumerate(blocks) if i % of < freed)
    return [block for i, block in enumerate(blocks) if i % of >= freed]


def generate(trace, rng):
    part = trace.target_peak // SMALL_PART
    most = max(20, trace.target_operations // 16)
    while not trace.is_done():
        stream = rng.randrange(trace.streams)
        boards = []
        for space, counts in ((trace.target_peak - part, LARGE), (part, SMALL)):
            size = space // min(rng.choice(counts), most) + rng.randrange(4096)
            boards.append(([], size, space))
            fill(trace, rng, *boards[-1], stream)
        for numerator, denominator in rng.sample(GROWTH, 2):
            stream = (stream + 1) % trace.streams
            for at, (blocks, size, space) in enumerate(boards):
                boards[at] = free_some(trace, rng, blocks), size, space
                fill(trace, rng, boards[at][0], size * numerator // denominator, space, stream)
        for blocks, _, _ in boards:
            trace.free_all(blocks)
