"""Counted memory for compiled code: Numba's runtime, as Tarn has it.

`python -m tarn.nrt program.py` runs an unchanged program, and all Python processes that it
starts, with a stock Numba on Tarn's runtime; `install()` does the same for this process
before it imports Numba. `stats()` has counters that are always on, `leaks()` says who
allocated what is still out. `use_device_runtime()` is for kernels, under numba-cuda.
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
    """What the runtime has counted since the process began."""

    alloc: int  # blocks made: MemInfos with their memory, and raw ones
    free: int  # of them given back
    mi_alloc: int  # MemInfos made
    mi_free: int  # of them gone
    failed: int  # allocations that were not to be had
    misuses: int  # second releases, bytes written past an end
    bytes_total: int  # of all blocks ever made
    bytes_live: int  # of those that are out
    bytes_peak: int  # the most that were out at a time
    bytes_chunks: int  # taken from the allocator for small blocks
    bytes_quarantine: int  # freed, and held back
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
    """The runtime's counters. They always run, whatever Numba's own functions show."""
    return Stats(*_tarn.nrt_stats())


def snapshot() -> list[Site]:
    """What is out now, by who allocated it, the most bytes first.

    Who allocated is known of blocks made while the mode `sites` was on: debug("sites").
    """
    return _sites.read()


def leaks(since: list[Site] | None = None) -> list[Site]:
    """What is out now and was not in the snapshot `since`, the most bytes first."""
    return _sites.difference(since or [], snapshot())


def debug(*modes: str) -> tuple[str, ...]:
    """Set the debug modes, by name; none: off. Returns those before.

    poison, guard, quarantine, sites, trace, abort, unpooled, report, slabs: tarn/nrt.h
    says what each does. They hold for blocks made from now on.
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
    """Give memory that no block needs back to where it came from; returns the bytes."""
    return _tarn.nrt_trim()


def use_resource(resource: Any = None) -> None:
    """Take memory of compiled code from a resource; None: from CPython, as at first.

    np.empty() in a jitted function is pinned memory after
    `use_resource(tarn.mr.PinnedHostMemoryResource())`. A block goes back to where it came
    from, whenever. The resource is kept until the process ends; InvalidArgumentError
    where the host cannot reach its memory.
    """
    if resource is None:
        _tarn.nrt_use_python()
    else:
        _tarn.nrt_use_resource(resource)
    _finder.keep_allocator(resource is not None)


def use_device_runtime() -> None:
    """Link Tarn's device runtime, not numba-cuda's, with kernels that are compiled from now on.

    It is `device.cu` in this folder. Whether kernels have a runtime at all is still
    numba-cuda's switch, NUMBA_CUDA_ENABLE_NRT. Twice is no error; RuntimeError where a
    function was compiled with numba-cuda's already, where there is no numba-cuda, and where
    it is one that Tarn does not know. It holds for this process.
    """
    from tarn.nrt import _device

    _device.use()


def device_runtime_in_use() -> bool:
    """Do kernels that are compiled now get Tarn's device runtime?"""
    from tarn.nrt import _device

    return _device.in_use()
