"""Counted memory for compiled code: Numba's runtime (NRT), implemented by Tarn.

`python -m tarn.nrt program.py` runs an unchanged program with a stock Numba on Tarn's runtime,
and all Python processes that it starts. `install()` does the same for this process before it
imports Numba. `stats()` has counters that are always on. `leaks()` lists the allocation sites of
live memory. `use_device_runtime()` is for kernels, under numba-cuda.
"""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from tarn import _tarn
from tarn.nrt import _finder, _sites, _threads
from tarn.nrt._sites import Site

__all__ = [
    "Site",
    "Stats",
    "counts_atomically",
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
    """The runtime's counters since the process began.

    They come from libtarn's default runtime, whether Numba or a C library runs on it. Bytes are
    requested bytes without headers, except `bytes_chunks` and `bytes_quarantine`.

    Attributes
    ----------
    alloc : int
        Blocks allocated: MemInfos with their memory, and memory without a MemInfo.
    free : int
        Blocks freed.
    mi_alloc : int
        MemInfos allocated.
    mi_free : int
        MemInfos freed.
    failed : int
        Allocations that failed; no other counter includes them.
    misuses : int
        Detected misuses: second releases, and bytes written past an end.
    bytes_total : int
        Bytes of all blocks ever allocated.
    bytes_live : int
        Bytes of live blocks.
    bytes_peak : int
        The most live bytes so far.
    bytes_chunks : int
        Bytes of chunks taken from the allocator for small blocks.
    bytes_quarantine : int
        Bytes of freed blocks in quarantine, plus 64 for each.
    histogram : tuple of int
        Blocks allocated, by size. [0] counts 0 bytes, [n] counts 2**(n-1) to 2**n - 1 bytes.
        The last one also counts all larger blocks.
    """

    alloc: int
    free: int
    mi_alloc: int
    mi_free: int
    failed: int
    misuses: int
    bytes_total: int
    bytes_live: int
    bytes_peak: int
    bytes_chunks: int
    bytes_quarantine: int
    histogram: tuple[int, ...]


def install(children: bool = True, threads: str = "any") -> None:
    """Use Tarn's runtime instead of Numba's, before Numba is imported.

    Installing twice is no error.

    Parameters
    ----------
    children : bool
        Python processes that this one starts use it too, through TARN_NRT in their environment.
    threads : {"any", "single"}
        "single": compiled code counts references without atomics, until something is compiled or
        loaded that runs without the GIL. docs/nrt-numba.md lists what that is.

    Raises
    ------
    RuntimeError
        Numba has loaded its own runtime already, or `threads` is chosen too late.
    ValueError
        `threads` is unknown.
    """
    _threads.put_in_place(threads)
    _finder.put_in_place()
    if children:
        os.environ[_finder.VARIABLE] = "single" if threads == "single" else "1"


def counts_atomically() -> bool:
    """Return True if compiled code counts references with atomics now.

    It does unless install(threads="single") was called, and then from the first function on that
    runs without the GIL.
    """
    return _threads.flag_is_set()


def installed() -> bool:
    """Return True if Numba runs on Tarn's runtime, or will when it is imported."""
    return _finder.in_place()


def stats() -> Stats:
    """Return the runtime's counters, which always count.

    Returns
    -------
    Stats
        The counters. The switch of Numba's own functions for statistics has no effect on them.
    """
    return Stats(*_tarn.nrt_stats())


def snapshot() -> list[Site]:
    """Return the live memory by allocation site, the most bytes first.

    Returns
    -------
    list of Site
        The sites of blocks that were allocated in the mode `sites`: debug("sites").

    Raises
    ------
    OutOfMemoryError
        Host memory for the list is unavailable.
    """
    return _sites.read()


def leaks(since: list[Site] | None = None) -> list[Site]:
    """Return the live memory that was not in an earlier snapshot, the most bytes first.

    Parameters
    ----------
    since : list of Site, optional
        A result of snapshot(). None: nothing, so all live memory is returned.

    Returns
    -------
    list of Site
        The growth of each site. A site that did not grow is left out.
    """
    return _sites.difference(since or [], snapshot())


def debug(*modes: str) -> tuple[str, ...]:
    """Set the debug modes by name; no name switches them off.

    The modes apply to blocks that are allocated from now on. tarn/nrt.h documents each.

    Parameters
    ----------
    *modes : str
        poison, guard, quarantine, sites, trace, abort, unpooled, report, slabs.

    Returns
    -------
    tuple of str
        The modes before the call.

    Raises
    ------
    InvalidArgumentError
        A name is unknown.
    """
    from tarn.nrt import _tracing

    wanted = _tarn.nrt_modes_parse(",".join(modes)) if modes else 0
    before = debug_modes()
    _tracing.set_wanted(wanted)
    return before


def debug_modes() -> tuple[str, ...]:
    """Return the names of the debug modes that are on."""
    return tuple(name for name, bit in MODES.items() if _tarn.nrt_modes() & bit)


def trim() -> int:
    """Return unused memory to its allocator.

    Returns
    -------
    int
        The released bytes.
    """
    return _tarn.nrt_trim()


def use_resource(resource: Any = None) -> None:
    """Allocate the memory of compiled code from a resource.

    np.empty() in a jitted function is pinned memory after
    `use_resource(tarn.mr.PinnedHostMemoryResource())`. A block always returns to the resource
    that it came from.

    Parameters
    ----------
    resource : DeviceMemoryResource, optional
        The resource, which is kept until the process ends. None: CPython's allocator, which is
        the default.

    Raises
    ------
    InvalidArgumentError
        The host cannot reach the memory of the resource.
    TypeError
        `resource` is no resource of tarn.mr.
    """
    if resource is None:
        _tarn.nrt_use_python()
    else:
        _tarn.nrt_use_resource(resource)
    _finder.keep_allocator(resource is not None)


def use_device_runtime() -> None:
    """Link Tarn's device runtime with kernels that are compiled from now on.

    It is `device.cu` in this folder and replaces numba-cuda's in this process. numba-cuda's switch
    NUMBA_CUDA_ENABLE_NRT still decides whether kernels have a runtime at all. A second call is no
    error.

    Raises
    ------
    RuntimeError
        A function was compiled with numba-cuda's runtime already, there is no numba-cuda, or
        Tarn does not know its version.
    """
    from tarn.nrt import _device

    _device.use()


def device_runtime_in_use() -> bool:
    """Return True if kernels that are compiled now use Tarn's device runtime.

    Raises
    ------
    RuntimeError
        There is no numba-cuda with a device runtime, or Tarn does not know its version.
    """
    from tarn.nrt import _device

    return _device.in_use()
