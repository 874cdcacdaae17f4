"""Quiet, then thousands of blocks at once, which are freed in another order.

Imitates a solver that rebuilds its mesh, or a loader that unpacks an archive: for long only a
few arrays come and go; then comes a block for each piece, and the pieces go in another order:
by size, at random, backwards, or every eighth first. A few of them stay until the next burst.

What matters: BLOCKS in a burst, QUIET operations between two, and SURVIVORS, which lie spread
over the memory that the next burst wants.
"""

from .sizes import log_normal

BLOCKS = (2000, 6000)
QUIET = 600
PIECE, PIECE_SIGMA, PIECE_MOST = 300_000, 1.2, 64 << 20
ARRAY, ARRAY_SIGMA = 1_500_000, 0.8
SURVIVORS = 0.02


def be_quiet(trace, rng, stream, operations):
    held = []
    for _ in range(operations // 2):
        held.append(trace.allocate(log_normal(rng, ARRAY, ARRAY_SIGMA), stream))
        if len(held) > 5:
            trace.free(held.pop(rng.randrange(6)))
    trace.free_all(held)


def other_order(rng, blocks):
    """The blocks in one of four orders."""
    order = rng.randrange(4)
    if order == 0:
        rng.shuffle(blocks)
    elif order == 1:
        blocks.sort(key=lambda block: (block.bytes, block.slot))
    elif order == 2:
        blocks.reverse()
    else:
        blocks = [block for first in range(8) for block in blocks[first::8]]
    return blocks


def generate(trace, rng):
    part = min(1.0, trace.target_operations / 60_000)
    survivors = []
    while not trace.is_done():
        stream = rng.randrange(trace.streams)
        be_quiet(trace, rng, stream, int(QUIET * part))
        count = int(rng.randrange(*BLOCKS) * part) + 1
        blocks = []
        for i in range(count):
            size = log_normal(rng, PIECE, PIECE_SIGMA, PIECE_MOST)
            blocks.append(
                trace.allocate(size, (stream + i * trace.streams // count) % trace.streams)
            )
        trace.free_all(survivors)
        stays = [rng.random() < SURVIVORS for _ in blocks]
        survivors = [block for block, is_kept in zip(blocks, stays) if is_kept]
        leaving = [block for block, is_kept in zip(blocks, stays) if not is_kept]
        trace.free_all(other_order(rng, leaving))
