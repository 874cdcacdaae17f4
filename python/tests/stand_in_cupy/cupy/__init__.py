"""What stands for CuPy where there is no CUDA runtime: its memory pool, and nothing else.

Names and manners are CuPy's as far as a user of its pool sees them: blocks of whole units,
free blocks by device and stream, pieces of larger allocations, `free_all_blocks()` that
gives back what is whole. Memory is cuMemAlloc's, in segments of several MiB, so that most
blocks have an offset in theirs.
"""

from . import cuda

_default_pool = cuda.MemoryPool()


def get_default_memory_pool():
    return _default_pool
