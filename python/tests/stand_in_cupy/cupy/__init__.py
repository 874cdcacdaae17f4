"""A replacement of CuPy for machines without a CUDA runtime: its memory pool alone.

Names and behaviour are CuPy's, for users of its pool: blocks of whole units, free blocks by device
and stream, parts of larger allocations. `free_all_blocks()` frees complete segments. Memory is
cuMemAlloc's, in segments of several MiB, so that most blocks have an offset.
"""

from . import cuda

_default_pool = cuda.MemoryPool()


def get_default_memory_pool():
    return _default_pool
