"""Counted memory for compiled code: Numba's runtime, as Tarn has it.

`python -m tarn.nrt program.py` runs an unchanged program, and all Python processes that it
starts, with a stock Numba on Tarn's runtime. `install()` does the same for this process
before it imports Numba. `stats()` has counters that are always on. `leaks()` lists the
allocation sites of live memory. `use_device_runtime()` is for kernels, under numba-cuda.
"""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from tarn import _tarn
from tarn.nrt import _finder, _sites
from tarn.nrt._sites import Site

__all__ = [
    "Site",
    "Stats",
    "debug",
    "debug_modes",
    "device_runtime_in_use",
    "install",
    "installed",
    "leaks",
    "snapshot",
    "stats",
    "trim",
    "use_device_runtime",
    "use_resource",
]

MODES = {
    "poison": 1,
    "guard": 2,
    "quarantine": 4,
    "sites": 8,
    "trace": 16,
    "abort": 32,
    "unpooled": 64,
    "report": 128,
    "slabs": 256,
}


class Stats(NamedTuple):
    """The runtime's counters since the process began."""

    alloc: int  # blocks allocated: MemInfos with their memory, and raw ones
    free: int  # blocks freed
    mi_alloc: int  # MemInfos allocated
    mi_free: int  # MemInfos freed
    failed: int  # allocations that failed
    misuses: int  # second releases, bytes written past an end
    bytes_total: int  # of all blocks ever allocated
    bytes_live: int  # of live blocks
    bytes_peak: int  # the most live bytes at a time
    bytes_chunks: int  # taken from the allocator for small blocks
    bytes_quarantine: int  # freed, and kept in quarantine
    histogram: tuple[int, ...]  # blocks by size: 0 bytes, then 2**(n-1) .. 2**n - 1


def install(children: bool = True) -> None:
    """Put Tarn's runtime in place of Numba's, before Numba is imported.

    With `children` the Python processes that this one starts get it too, through TARN_NRT
    in their environment. Installing twice is no error; RuntimeError where Numba has loaded
    its own runtime already.
    """
    _finder.put_in_place()
    if children:
        os.environ[_finder.VARIABLE] = "1"


def installed() -> bool:
    """Does Numba run on Tarn's runtime, or will it when it is imported?"""
    return _finder.in_place()


def stats() -> Stats:
    """The runtime's counters. They always count, whatever Numba's own functions show."""
    return Stats(*_tarn.nrt_stats())


def snapshot() -> list[Site]:
    """Live memory by allocation site, the most bytes first.

    The site is known for blocks that were allocated in the mode `sites`: debug("sites").
    """
    return _sites.read()


def leaks(since: list[Site] | None = None) -> list[Site]:
    """Live memory that was not in the snapshot `since`, the most bytes first."""
    return _sites.difference(since or [], snapshot())


def debug(*modes: str) -> tuple[str, ...]:
    """Set the debug modes, by name; none: off. Returns those before.

    poison, guard, quarantine, sites, trace, abort, unpooled, report, slabs: tarn/nrt.h
    documents each. They apply to blocks allocated from now on.
    """
    from tarn.nrt import _tracing

    wanted = _tarn.nrt_modes_parse(",".join(modes)) if modes else 0
    before = debug_modes()
    _tracing.set_wanted(wanted)
    return before


def debug_modes() -> tuple[str, ...]:
    """The names of the debug modes that are on."""
    return tuple(name for name, bit in MODES.items() if _tarn.nrt_modes() & bit)


def trim() -> int:
    """Return unused memory to its allocator; return the number of bytes."""
    return _tarn.nrt_trim()


def use_resource(resource: Any = None) -> None:
    """Allocate the memory of compiled code from a resource; None: from CPython, the default.

    np.empty() in a jitted function is pinned memory after
    `use_resource(tarn.mr.PinnedHostMemoryResource())`. A block always returns to the resource
    that it came from. The resource is kept until the process ends. InvalidArgumentError where
    the host cannot reach its memory.
    """
    if resource is None:
        _tarn.nrt_use_python()
    else:
        _tarn.nrt_use_resource(resource)
    _finder.keep_allocator(resource is not None)


def use_device_runtime() -> None:
    """Link Tarn's device runtime, not numba-cuda's, with kernels that are compiled from now on.

    It is `device.cu` in this folder. numba-cuda's switch NUMBA_CUDA_ENABLE_NRT still decides
    whether kernels have a runtime at all. A second call is no error. RuntimeError where a
    function was compiled with numba-cuda's runtime already, where there is no numba-cuda, and
    where Tarn does not know its version. It applies to this process.
    """
    from tarn.nrt import _device

    _device.use()


def device_runtime_in_use() -> bool:
    """Do kernels that are compiled now get Tarn's device runtime?"""
    from tarn.nrt import _device

    return _device.in_use()
