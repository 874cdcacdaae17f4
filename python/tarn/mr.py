"""Memory resources: objects that allocate and free device memory.

Names and arguments are those of rmm.mr; docs/rmm-names.md lists the equal ones. A source
allocates memory of the device that is current when it is created, or of `device=`. Adaptors
stack in any order and keep their upstreams alive.

Sizes are bytes. Where a size may be a string, the units are those of "4GiB" and "1.5 MB". A
string without a known unit raises ValueError.
"""

from __future__ import annotations

import functools
import os
import weakref
from collections.abc import Callable
from typing import Any

from tarn import _log_places, _tarn
from tarn._cupy import CupyMemoryResource
from tarn._pool import (
    PoolBlock,
    PoolCapture,
    PoolCaptureStatistics,
    PoolOomReport,
    PoolStatistics,
    block_of,
    last_oom_report,
    maximum_of,
    note_pool,
)
from tarn._python_resources import (
    CallbackMemoryResource,
    FailureCallbackResourceAdaptor,
)
from tarn._rmm_bridge import from_rmm, to_rmm
from tarn._tarn import (
    DeviceMemoryResource,
    Statistics,
    UpstreamResourceAdaptor,
    get_current_device_resource,
    get_per_device_resource,
    set_current_device_resource,
    set_per_device_resource,
)
from tarn._torch_snapshot import write_snapshot
from tarn._tracking import TrackingResourceAdaptor
from tarn.guard import GuardResourceAdaptor

__all__ = [
    "ArenaMemoryResource",
    "BinningMemoryResource",
    "CallbackMemoryResource",
    "CudaAsyncManagedMemoryResource",
    "CudaAsyncMemoryResource",
    "CudaAsyncViewMemoryResource",
    "CudaMemoryResource",
    "CupyMemoryResource",
    "DeviceMemoryResource",
    "ExportableMemoryResource",
    "FailureCallbackResourceAdaptor",
    "FixedSizeMemoryResource",
    "GuardResourceAdaptor",
    "LimitingResourceAdaptor",
    "LoggingResourceAdaptor",
    "ManagedMemoryResource",
    "PinnedHostMemoryResource",
    "PoolBlock",
    "PoolCapture",
    "PoolCaptureStatistics",
    "PoolMemoryResource",
    "PoolOomReport",
    "PoolStatistics",
    "PrefetchResourceAdaptor",
    "SamHeadroomMemoryResource",
    "Statistics",
    "StatisticsResourceAdaptor",
    "SystemMemoryResource",
    "TrackingResourceAdaptor",
    "UpstreamResourceAdaptor",
    "available_device_memory",
    "from_rmm",
    "get_current_device_resource",
    "get_per_device_resource",
    "last_oom_report",
    "set_current_device_resource",
    "set_per_device_resource",
    "to_rmm",
]

_UNITS = {
    "": 1, "b": 1,
    "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12, "pb": 10**15,
    "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40, "pib": 2**50,
}  # fmt: skip


def _bytes_of(size: int | str | None) -> int:
    """A number of bytes, from an int or a string such as "4GiB" or "1.5 MB"; None is 0."""
    if size is None:
        return 0
    if not isinstance(size, str):
        return size
    text = size.strip()
    digits = text.rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
    unit = text[len(digits) :].lower()
    try:
        number = int(float(digits) * _UNITS[unit])
    except (KeyError, ValueError, OverflowError):
        raise ValueError(f"Could not parse {size!r} as a number of bytes") from None
    if text.startswith("-") or number >= 1 << 63:
        raise ValueError(f"{size!r} as a number of bytes is not between 0 and 2**63 - 1")
    return number


def _device_of(device: int | None) -> int:
    """Return the device number, or that of the current device for None."""
    return _tarn.current_device() if device is None else device


class _Source(DeviceMemoryResource):
    """The base of the resources that have no upstream."""

    def __repr__(self) -> str:
        return f"<tarn.mr.{type(self).__name__} of device {self.device}>"


class CudaMemoryResource(_Source):
    """Allocate with cuMemAlloc and free with cuMemFree.

    A free waits for the device. The resource ignores streams. All objects of a device share one
    C resource.

    Parameters
    ----------
    device : int, optional
        Number of the device. None: the current device.

    Raises
    ------
    NoDriverError
        No driver can be opened.
    InvalidArgumentError
        The device does not exist.
    """

    def __init__(self, *, device: int | None = None) -> None:
        _tarn._open_cuda(self, _device_of(device))


class _DriverPoolCalls(_Source):
    """The calls of a resource over a stream-ordered pool of the driver."""

    def pool_handle(self) -> int:
        """Return the driver's pool, a CUmemoryPool as an int."""
        return _tarn._async_pool(self)

    def trim(self, keep_bytes: int | str = 0) -> int:
        """Release free memory of the driver's pool.

        Parameters
        ----------
        keep_bytes : int or str
            Free bytes that the driver's pool keeps.

        Returns
        -------
        int
            The released bytes.
        """
        return _tarn._trim(self, _bytes_of(keep_bytes))


class CudaAsyncMemoryResource(_DriverPoolCalls):
    """Allocate from a stream-ordered pool of the driver with cuMemAllocAsync.

    Parameters
    ----------
    initial_pool_size : int or str, optional
        Bytes to reserve at once. None: none.
    release_threshold : int or str, optional
        Bytes that stay cached when the device is synchronized. None: all.
    enable_ipc : bool
        Allow other processes to open the memory (tarn.ipc).
    enable_fabric : bool
        Not supported: True raises NotSupportedError.
    device : int, optional
        Number of the device. None: the current device.
    use_default_pool : bool
        Use the device's default pool instead of a new one. Its memory cannot be exported.

    Raises
    ------
    NotSupportedError
        The device has no pools, or cannot export them, or `enable_fabric` is True.
    InvalidArgumentError
        The device does not exist, or `use_default_pool` and `enable_ipc` are both True.
    OutOfMemoryError
        The initial bytes are unavailable.
    ValueError
        A size is a string without a known unit.
    """

    def __init__(
        self,
        initial_pool_size: int | str | None = None,
        release_threshold: int | str | None = None,
        enable_ipc: bool = False,
        enable_fabric: bool = False,
        *,
        device: int | None = None,
        use_default_pool: bool = False,
    ) -> None:
        if enable_fabric:
            raise _tarn.NotSupportedError(
                "async: enable_fabric: Requested IPC memory handle type not supported"
            )
        # In C 0 means the default, which is to keep all; 1 byte is never kept.
        keep = 0 if release_threshold is None else max(_bytes_of(release_threshold), 1)
        initial = _bytes_of(initial_pool_size)
        number = _device_of(device)
        _tarn._open_async(self, number, initial, keep, use_default_pool, enable_ipc, False, 0)


class CudaAsyncViewMemoryResource(_DriverPoolCalls):
    """Allocate from a stream-ordered pool of the driver that the program has made.

    Parameters
    ----------
    pool_handle : cudaMemPool_t, CUmemoryPool or int
        The pool. The program keeps it until the resource and its blocks have ended.
    device : int, optional
        Number of the device. None: the current device.

    Raises
    ------
    ValueError
        `pool_handle` is no handle, or 0.
    NotSupportedError
        The device has no pools.
    InvalidArgumentError
        The device does not exist.

    Notes
    -----
    An allocation from a pool that the program has destroyed raises OutOfMemoryError.
    """

    def __init__(self, pool_handle: Any, *, device: int | None = None) -> None:
        try:
            number = int(pool_handle)
        except (TypeError, ValueError):
            number = 0
        if number <= 0:
            raise ValueError(
                f"pool_handle must be a cudaMemPool_t or CUmemoryPool: {pool_handle!r}"
            )
        self._handle = pool_handle
        _tarn._open_async(self, _device_of(device), 0, 0, False, False, False, number)


class CudaAsyncManagedMemoryResource(_DriverPoolCalls):
    """Allocate managed memory from a stream-ordered pool of the driver.

    Host and device can use the memory. The pool is a new one and keeps all freed memory.

    Parameters
    ----------
    device : int, optional
        Number of the device. None: the current device.

    Raises
    ------
    NotSupportedError
        The driver is older than CUDA 13, or the device cannot use managed memory while the host
        does.
    InvalidArgumentError
        The device does not exist.
    """

    def __init__(self, *, device: int | None = None) -> None:
        _tarn._open_async(self, _device_of(device), 0, 0, False, False, True, 0)


class ManagedMemoryResource(_Source):
    """Allocate managed memory, which host and device can use, with cuMemAllocManaged.

    Parameters
    ----------
    device : int, optional
        Number of the device. None: the current device.

    Raises
    ------
    NotSupportedError
        The device has no managed memory.
    InvalidArgumentError
        The device does not exist.
    """

    def __init__(self, *, device: int | None = None) -> None:
        _tarn._open_managed(self, _device_of(device))


class ExportableMemoryResource(_Source):
    """Allocate device memory that other processes may open, and NCCL or UCX may register.

    A block is one allocation of cuMemCreate, of a multiple of 2 MiB, and never moves. All devices
    that can reach its device may access it. It is capable of GPUDirect RDMA if the device is. It
    can be exported with tarn.ipc. A PoolMemoryResource over this resource serves small blocks. A
    free waits for the device.

    Parameters
    ----------
    cache_size : int or str, optional
        Most bytes of freed blocks that stay mapped, for blocks of the same size. A block that was
        exported does not stay. trim() releases the kept memory. None: nothing is kept.
    device : int, optional
        Number of the device. None: the current device.

    Raises
    ------
    NotSupportedError
        The device cannot export memory as file descriptors.
    InvalidArgumentError
        The device does not exist.
    OverflowError
        `cache_size` is negative.
    ValueError
        `cache_size` is a string without a known unit.
    """

    def __init__(self, *, cache_size: int | str | None = None, device: int | None = None) -> None:
        _tarn._open_exportable(self, _device_of(device), _bytes_of(cache_size))

    def trim(self, keep_bytes: int | str = 0) -> int:
        """Release freed blocks that stay mapped, the oldest first.

        Parameters
        ----------
        keep_bytes : int or str
            Bytes of freed blocks to keep.

        Returns
        -------
        int
            The released bytes.

        Raises
        ------
        TarnError
            A driver call failed.
        ValueError
            `keep_bytes` is a string without a known unit.
        """
        return _tarn._trim(self, _bytes_of(keep_bytes))


class PinnedHostMemoryResource(_Source):
    """Allocate page-locked host memory, mapped into the device, with cuMemHostAlloc.

    Parameters
    ----------
    device : int, optional
        Number of the device. None: the current device.

    Raises
    ------
    InvalidArgumentError
        The device does not exist.
    """

    def __init__(self, *, device: int | None = None) -> None:
        _tarn._open_pinned(self, _device_of(device))


class SystemMemoryResource(_Source):
    """Allocate ordinary host memory, which the device reads and writes by itself.

    A free waits for the device. The resource ignores streams.

    Parameters
    ----------
    device : int, optional
        Number of the device. None: the current device.

    Raises
    ------
    NotSupportedError
        The device cannot access pageable host memory.
    InvalidArgumentError
        The device does not exist.
    """

    def __init__(self, *, device: int | None = None) -> None:
        _tarn._open_system(self, _device_of(device), False, 0)


class SamHeadroomMemoryResource(_Source):
    """Allocate ordinary host memory, and keep some memory of the device free.

    It is a SystemMemoryResource that advises the driver: the part of a block that fits into the
    free memory of the device, less `headroom`, should be there. The rest should be on the host.

    Parameters
    ----------
    headroom : int
        Bytes of the device to leave free.
    device : int, optional
        Number of the device. None: the current device.

    Raises
    ------
    NotSupportedError
        The device cannot access pageable host memory.
    InvalidArgumentError
        The device does not exist.
    """

    def __init__(self, headroom: int, *, device: int | None = None) -> None:
        _tarn._open_system(self, _device_of(device), True, headroom)


class _Adaptor(UpstreamResourceAdaptor):
    """The base of the resources that have an upstream and take a name for repr() from it."""

    def __repr__(self) -> str:
        return f"<tarn.mr.{type(self).__name__} over {self.upstream_mr!r}>"


class LimitingResourceAdaptor(_Adaptor):
    """Keep the live memory of an upstream within a number of bytes.

    An allocation over the limit raises OutOfMemoryError. Each block counts with its size,
    rounded up to 256 bytes.

    Parameters
    ----------
    upstream_mr : DeviceMemoryResource
        The resource beneath; the adaptor keeps it alive.
    allocation_limit : int
        The limit in bytes; it never changes.
    """

    def __init__(self, upstream_mr: DeviceMemoryResource, allocation_limit: int) -> None:
        super().__init__(upstream_mr)
        _tarn._wrap_limiter(self, allocation_limit)

    def get_allocated_bytes(self) -> int:
        """Return the bytes that count against the limit now."""
        return _tarn._limiter_used(self)

    def get_allocation_limit(self) -> int:
        """Return the limit in bytes."""
        return _tarn._limiter_limit(self)


_FORMATS = {"nbep7": 0, "rmm": 1, "binary": 2}


class LoggingResourceAdaptor(_Adaptor):
    """Write a line for each allocation and each free to a CSV file, or a row to a binary log.

    Requests for 0 bytes have lines, too. An existing file is emptied. The file ends with the
    object. Lines reach the file within a second, so a killed process loses at most those of its
    last second. A failure of the log does not fail the allocation. It is one warning on stderr,
    and flush() reports it.

    Parameters
    ----------
    upstream_mr : DeviceMemoryResource
        The resource beneath; the adaptor keeps it alive.
    log_file_name : str or path, optional
        The file. None: the environment variable RMM_LOG_FILE. As in RMM, `.devN` is added before
        the extension, N being the number of the device.
    format : {"rmm", "nbep7", "binary"}
        "binary" has call stacks, and the state of a pool that is beneath. A process that is killed
        loses no row. A forked process has a file of its own, with its id at the end of the name.
        "rmm" has the columns Thread, Time, Action, Pointer, Size, Stream. "nbep7" has 12 columns.
        The last one, Location, is a line of the program: the first frame that is neither
        Tarn's nor Numba's nor that of a plugin for Numba.
    auto_flush : bool
        Write each line to the file at once, so that a killed process loses none. A line then
        costs a system call, about a microsecond. A binary log has each row at once.
    stacks : int, optional
        Frames of the call stack in each row of a binary log, at most 128. 1, the default, has the
        line of the program as the Location of "nbep7", 0 has none.
    ring : int or str, optional
        The size of a binary log that keeps its newest rows alone, such as "64MiB"; at least 1 MiB.

    Raises
    ------
    ValueError
        Neither `log_file_name` nor RMM_LOG_FILE names a file, `format` is unknown, or does not
        have `stacks` or `ring`.
    TarnError
        The file cannot be written.
    """

    def __init__(
        self,
        upstream_mr: DeviceMemoryResource,
        log_file_name: str | os.PathLike[str] | None = None,
        *,
        format: str = "rmm",
        auto_flush: bool = False,
        stacks: int | None = None,
        ring: int | str | None = None,
    ) -> None:
        name = os.environ.get("RMM_LOG_FILE") if log_file_name is None else log_file_name
        if not name:
            raise ValueError("log_file_name is required, or the environment variable RMM_LOG_FILE")
        if format not in _FORMATS:
            raise ValueError(f"format has to be one of {', '.join(_FORMATS)}, not {format!r}")
        if format != "binary" and not (stacks is None and ring is None):
            raise ValueError(f"stacks and ring are for format='binary', not {format!r}")
        if stacks is not None and not 0 <= stacks <= 128:
            raise ValueError(f"stacks has to be from 0 to 128, not {stacks!r}")
        super().__init__(upstream_mr)
        stem, extension = os.path.splitext(os.path.abspath(os.fspath(name)))
        self._file_name = f"{stem}.dev{_device_of(upstream_mr.device)}{extension}"
        _log_places.know()
        depth = 0 if format != "binary" else 1 if stacks is None else stacks
        size = _bytes_of(ring)
        _tarn._wrap_logger(self, self._file_name, _FORMATS[format], auto_flush, depth, size)

    def flush(self) -> None:
        """Write all buffered lines to the file.

        Raises
        ------
        TarnError
            The file could not be written, now or since the last flush.
        """
        _tarn._logger_flush(self)

    def get_file_name(self) -> str:
        """Return the absolute path of the file, `.devN` included."""
        return self._file_name


class StatisticsResourceAdaptor(_Adaptor):
    """Count bytes, as requested, and blocks: current, peak and total.

    The counts are a stack. push_counters() begins a new set. pop_counters() ends it and merges
    it into the set beneath. Requests for 0 bytes and failed requests do not count.

    Parameters
    ----------
    upstream_mr : DeviceMemoryResource
        The resource beneath; the adaptor keeps it alive.
    """

    def __init__(self, upstream_mr: DeviceMemoryResource) -> None:
        super().__init__(upstream_mr)
        _tarn._wrap_counter(self)

    @property
    def allocation_counts(self) -> Statistics:
        """The counts of the topmost set, from the C counter, as a Statistics.

        The set begins at the last push that was not popped, or at the creation of the object.
        """
        return _tarn._counter_read(self)

    def push_counters(self) -> Statistics:
        """Begin a new set of counts, all 0.

        Returns
        -------
        Statistics
            The counts of the set that was topmost before.
        """
        return _tarn._counter_push(self)

    def pop_counters(self) -> Statistics:
        """End the topmost set of counts and merge it into the set beneath.

        Returns
        -------
        Statistics
            The counts of the set that ended.

        Raises
        ------
        IndexError
            Only the lowest set is left.
        """
        try:
            return _tarn._counter_pop(self)
        except _tarn.InvalidArgumentError:
            raise IndexError("cannot pop the last counter pair: no push began it") from None


class PrefetchResourceAdaptor(_Adaptor):
    """Prefetch each new block of managed memory to the device.

    The prefetch has no effect on memory that is not managed.

    Parameters
    ----------
    upstream_mr : DeviceMemoryResource
        The resource beneath; the adaptor keeps it alive.
    """

    def __init__(self, upstream_mr: DeviceMemoryResource) -> None:
        super().__init__(upstream_mr)
        _tarn._wrap_prefetcher(self)


class _PoolCalls(UpstreamResourceAdaptor):
    """The methods of a pool and of a slab, which is a pool."""

    _callbacks: list[Callable[[int, int], bool]] | None = None
    _registration: object = None  # of the C pool's callback, which all its objects share

    def __repr__(self) -> str:
        return f"<tarn.mr.{type(self).__name__} of device {self.device}>"

    def pool_size(self) -> int:
        """Return the bytes taken from upstream: `statistics().reserved`."""
        return self.statistics().reserved

    def statistics(self) -> PoolStatistics:
        """Return the memory and the counters of the pool as a PoolStatistics.

        The numbers come from the pool's own counters. They are exact while no other call on the
        pool is under way. Memory by which another thread, or the pool's own, grows the pool counts
        as live meanwhile.
        """
        found = _tarn._pool_statistics(self)
        return PoolStatistics(**{**found, "maximum": maximum_of(found["maximum"])})

    def mark_step(self) -> None:
        """Mark the begin of a step of the program, for a pool that follows or learns plans.

        The next allocation of each thread on each stream is its first one in the plan again. A
        pool with `plan="learn"` records the step, or follows the plan of an earlier one like it.
        Other pools ignore the call. `tarn.step()` marks the current resource.
        """
        _tarn._pool_mark_step(self)

    def reset_peaks(self) -> None:
        """Restart `recent_peak_allocated` and `recent_peak_reserved` at the present bytes.

        The peaks since the creation of the pool stay.
        """
        _tarn._pool_reset_peaks(self)

    def snapshot(self) -> list[PoolBlock]:
        """Return all blocks of the pool, in the order of their addresses.

        Returns
        -------
        list of PoolBlock
            Up to 1,024 blocks are in their state at one moment. A larger pool is copied in such
            parts. Blocks that changed between two parts are "in_transit".

        Raises
        ------
        MemoryError
            Host memory for the copy is unavailable.
        """
        return [block_of(block) for block in _tarn._pool_snapshot(self)]

    def dump_snapshot(self, filename: str | os.PathLike[str]) -> None:
        """Write the blocks of the pool as a memory snapshot of PyTorch.

        Its viewer is at pytorch.org/memory_viz, and `python -m torch.cuda._memory_viz stats FILE`
        prints a summary. The blocks have no call stacks; `tarn convert` makes a snapshot with
        them of a log.

        Parameters
        ----------
        filename : str or path-like
            The file to write, a pickle. An existing file is replaced.

        Raises
        ------
        MemoryError
            Host memory for the copy is unavailable.
        OSError
            The file cannot be written.
        """
        write_snapshot(filename, self.snapshot(), self.device or 0)

    def get_capture(self, stream: Any) -> PoolCapture:
        """Return the memory of the capture in progress on a stream.

        Call this before the capture ends.

        Parameters
        ----------
        stream : Stream, int or object with __cuda_stream__
            The capturing stream, or one that joined the capture. An int is a CUstream.

        Returns
        -------
        PoolCapture
            An object that shares the memory with other objects for the same capture.

        Raises
        ------
        TarnError
            The stream does not capture, or its capture is lost.
        InvalidArgumentError
            The stream belongs to another context, or was unregistered.
        """
        return PoolCapture(self, stream)

    def trim(self, keep_bytes: int | str = 0) -> int:
        """Release free memory above a number of bytes.

        Parameters
        ----------
        keep_bytes : int or str
            Free bytes that the pool keeps.

        Returns
        -------
        int
            The released bytes.

        Raises
        ------
        TarnError
            The upstream of the pool makes this call during a call of the pool.
        ValueError
            `keep_bytes` is a string without a known unit.
        """
        return _tarn._trim(self, _bytes_of(keep_bytes))

    @property
    def maximum_pool_size(self) -> int | None:
        """The most bytes that the pool reserves; None: no maximum.

        It can be set, also while the pool is in use. The pool releases reclaimable memory over a
        new maximum at once, and the rest as it becomes reclaimable. 0 and None remove the maximum.

        Raises
        ------
        InvalidArgumentError
            The new maximum is less than the live bytes.
        """
        return self.statistics().maximum

    @maximum_pool_size.setter
    def maximum_pool_size(self, maximum: int | str | None) -> None:
        _tarn._pool_set_maximum(self, _bytes_of(maximum))

    def suspend(self, keep: bool = False) -> None:
        """Release all physical memory and keep the addresses.

        vLLM calls this sleep mode. The call waits for the device. No work may use the memory until
        resume(). On failure nothing has changed.

        Parameters
        ----------
        keep : bool
            True keeps the contents of live blocks in page-locked host memory. False discards them.

        Raises
        ------
        NotSupportedError
            The pool does not use VMM: it has an upstream, or the device has no VMM.
        OutOfMemoryError
            Host memory for the contents is unavailable.
        """
        _tarn._pool_suspend(self, keep)

    def resume(self) -> None:
        """Map all memory of a suspended pool again, at the same addresses.

        On failure the pool stays suspended.

        Raises
        ------
        OutOfMemoryError
            The device has too little free memory.
        NotSupportedError
            The pool does not use VMM.
        """
        _tarn._pool_resume(self)

    @property
    def generation(self) -> int:
        """The number of times that the pool removed physical memory from its addresses.

        A trim, a suspension and a move of memory increase it. The pool counts them.
        """
        return _tarn._pool_generation(self)

    def set_peer_access(self, device: int, access: bool = True) -> None:
        """Allow or forbid another device to use the memory of the pool.

        The setting covers all memory of the pool, present and future. Set it before the pool is
        used.

        Parameters
        ----------
        device : int
            Number of the other device.
        access : bool
            True: the other device reads and writes the memory. False: it has no access.

        Raises
        ------
        InvalidArgumentError
            The device does not exist, or is the pool's own.
        NotSupportedError
            The pool does not use VMM, or the devices cannot reach each other.
        TarnError
            A driver call failed, for example because the pool has moved memory already.
        """
        _tarn._pool_set_peer_access(self, device, access)

    def add_oom_callback(self, callback: Callable[[int, int], bool]) -> None:
        """Call a function before an allocation fails for lack of memory.

        The callback may free memory, also of this pool, and return True. Then the pool searches
        again. If memory is still short, the pool calls all callbacks again, up to 16 times for one
        allocation.

        Parameters
        ----------
        callback : callable
            `callback(nbytes, attempt)` returns True if it freed memory. `nbytes` is the size of the
            request in bytes. `attempt` counts the calls for one allocation from 0. The pool keeps
            the callback until it is removed or until this object ends.

        Raises
        ------
        TypeError
            `callback` is not callable.
        TarnError
            C code has added the 8 callbacks that a pool can have. The callbacks of Python count as
            one, on all objects of the pool together.

        Notes
        -----
        The pool calls the callbacks in the order in which they were added, on the thread that
        allocates. A callback may remove itself and others. Its own allocations call no callback. An
        exception in it goes to sys.unraisablehook and counts as False.
        """
        if not callable(callback):
            raise TypeError(f"{callback!r} is not callable")
        if self._callbacks is None:
            self._registration = _tarn._pool_begin_oom_callbacks(self)
            self._callbacks = []
        self._callbacks.append(callback)

    def remove_oom_callback(self, callback: Callable[[int, int], bool]) -> None:
        """Remove an out-of-memory callback.

        A call that another thread has begun continues.

        Parameters
        ----------
        callback : callable
            A callback that add_oom_callback() added.

        Raises
        ------
        ValueError
            The pool has no such callback.
        """
        (self._callbacks or []).remove(callback)


_NO_STREAM = ("synchronize", "event", "single-stream")  # in the order of the C enum


class PoolMemoryResource(_PoolCalls):
    """Reuse freed memory on all streams of a device, mostly without the driver.

    Parameters
    ----------
    upstream_mr : DeviceMemoryResource, optional
        The resource that the pool takes its memory from; the pool keeps it alive. None: the
        device itself, in one range of addresses. That is faster, wastes less and can be
        suspended.
    initial_pool_size : int or str, optional
        Bytes to reserve at the start. None: none. RMM reserves half of the free memory instead.
    maximum_pool_size : int or str, optional
        The most bytes of the pool. It uses whole pages of 2 MiB of them. None: no maximum.
    device : int, optional
        Number of the device. None: the upstream's, or the current device.
    growth : int or str
        The fewest bytes by which the pool grows. 0: a step of 2 MiB to 256 MiB, which grows with
        the pool.
    release_threshold : int or str
        Free bytes above which a free releases reclaimable memory. 0: a free releases none.
    grow_first : bool
        True: grow before the pool reuses memory of another stream behind a wait. False: after.
    synchronize_on_oom : bool
        True: wait for the device before the pool reports out of memory. The pool also waits,
        instead of growing, once destroyed or idle raw streams left `max(64 MiB, peak_allocated / 2)`
        bytes unusable. False: that memory stays unusable.
    resume_on_use : bool
        True: an allocation resumes a suspended pool. False: it raises TarnError.
    no_stream : {"synchronize", "event", "single-stream"}
        The policy for memory that was freed without a stream, see Notes.
    no_stream_limit : int or str
        Bytes of deferred no-stream frees at which an allocation waits instead of growing. 0:
        by the sizes of the pool, the device and the request, at least 16 MiB.
    policy : {"default", "tight"}
        "tight": reserve little more than the live bytes; growth and compaction take several
        times as long. "default": balance memory and time.
    moves : {"default", "never"}
        "default": the pool may map free physical memory at other addresses. A live block never
        moves. "never": physical memory stays at its first address, for memory that UCX, NCCL or
        RDMA registers. It leaves it only in trim(), in suspend(), by a lower maximum_pool_size, and
        at the end of the pool: deregister it before. The pool reserves more, and can fail where
        "default" finds memory.
    background_thread : bool
        True: a thread grows the pool ahead of demand while its peak rises. It also returns idle
        memory when the device has less than `max(2 GiB, total / 10)` free, down to
        `initial_pool_size`: within a second, or later if the pool took it back before. With
        `moves="never"` it returns none. False: the pool starts no thread. A pool with an upstream
        has none.
    plan : str or path-like, optional
        File of `tarn plan`: the pool hands out the addresses of this plan where its own rules
        allow that. Then it has no thread caches, and a plan that does not pay turns itself off.
        "learn": the pool makes plans of the steps that mark_step() or `tarn.step()` marks, and
        follows them where a step is repeated. "detect": as "learn", and the pool guesses where a
        step begins; the first mark of the program ends that. Files of these names are "./learn"
        and "./detect". None of it with an upstream. None: no plan.

    Raises
    ------
    OSError
        The file of the plan cannot be read.
    TarnError
        The file is no plan, it is damaged, or the device has no VMM.
    OutOfMemoryError
        The initial bytes are unavailable.
    InvalidArgumentError
        The initial bytes are over the maximum, the upstream is of another device, or the device
        does not exist. Or `moves` is "never", and there is a `release_threshold`, or `plan` is
        "learn" or "detect".
    ValueError
        `no_stream`, `policy` or `moves` is unknown, or a size is a string without a known unit.

    Notes
    -----
    Numba frees memory without a stream. Work on any stream may still use such memory.

    - "synchronize": the pool defers its reuse. One device-wide wait serves many frees, and ends
      no capture.
    - "event": the pool records an event instead, and mostly no thread waits. Recording it ends
      captures on non-blocking streams that Tarn does not know.
    - "single-stream": the program promises to use one stream. The pool reuses the memory at once.

    Streams of Stream.register() cost the pool the least.
    """

    def __init__(
        self,
        upstream_mr: DeviceMemoryResource | None = None,
        initial_pool_size: int | str | None = None,
        maximum_pool_size: int | str | None = None,
        *,
        device: int | None = None,
        growth: int | str = 0,
        release_threshold: int | str = 0,
        grow_first: bool = False,
        synchronize_on_oom: bool = True,
        resume_on_use: bool = False,
        no_stream: str = "synchronize",
        no_stream_limit: int | str = 0,
        policy: str = "default",
        moves: str = "default",
        background_thread: bool = False,
        plan: str | os.PathLike[str] | None = None,
    ) -> None:
        initial, maximum = _bytes_of(initial_pool_size), _bytes_of(maximum_pool_size)
        learns = plan in ("learn", "detect")
        if maximum and initial > maximum:
            raise _tarn.InvalidArgumentError(
                f"pool: Initial pool size exceeds the maximum pool size: {initial} > {maximum} bytes"
            )
        if policy not in ("default", "tight"):
            raise ValueError(f"policy has to be 'default' or 'tight', not {policy!r}")
        if moves not in ("default", "never"):
            raise ValueError(f"moves has to be 'default' or 'never', not {moves!r}")
        if no_stream not in _NO_STREAM:
            known = ", ".join(_NO_STREAM)
            raise ValueError(f"no_stream has to be one of {known}, not {no_stream!r}")
        _tarn._open_pool(
            self,
            upstream_mr,
            _pool_device(upstream_mr, device),
            initial,
            maximum,
            _bytes_of(growth),
            _bytes_of(release_threshold),
            grow_first,
            not synchronize_on_oom,
            resume_on_use,
            _NO_STREAM.index(no_stream),
            _bytes_of(no_stream_limit),
            policy == "tight",
            moves == "never",
            background_thread,
            None if learns else plan,
            learns,
            plan == "detect",
        )
        note_pool(self)


def _pool_device(upstream_mr: DeviceMemoryResource | None, device: int | None) -> int:
    """The given device; by default the upstream's (-1), if there is one."""
    return -1 if upstream_mr is not None and device is None else _device_of(device)


class ArenaMemoryResource(_PoolCalls):
    """Reuse memory of one size, taken from upstream at once.

    It is a pool of `arena_size` bytes that does not grow.

    Parameters
    ----------
    upstream_mr : DeviceMemoryResource
        The resource that the arena takes its memory from; the arena keeps it alive.
    arena_size : int or str, optional
        Bytes of the arena. None: half of the device's free memory.
    dump_log_on_failure : bool
        Append a report of the arena to the file `rmm_arena_memory_dump.log` in the current
        folder when an allocation fails.

    Raises
    ------
    InvalidArgumentError
        `arena_size` is less than 1 MiB, or the upstream is no resource of the device.
    OutOfMemoryError
        The bytes are unavailable.
    ValueError
        `arena_size` is a string without a known unit.
    """

    def __init__(
        self,
        upstream_mr: DeviceMemoryResource,
        arena_size: int | str | None = None,
        dump_log_on_failure: bool = False,
    ) -> None:
        if not isinstance(upstream_mr, DeviceMemoryResource):
            raise TypeError(f"{upstream_mr!r} is not a tarn.mr.DeviceMemoryResource")
        size = available_device_memory()[0] // 2 if arena_size is None else _bytes_of(arena_size)
        if size < 1 << 20:
            raise _tarn.InvalidArgumentError(
                f"arena: arena_size is {size} bytes, it has to be at least 1 MiB"
            )
        _tarn._open_pool(self, upstream_mr, -1, size, size)
        note_pool(self)
        if dump_log_on_failure:
            self.add_oom_callback(functools.partial(_dump, weakref.ref(self)))


def _dump(arena: weakref.ref[ArenaMemoryResource], nbytes: int, attempt: int) -> bool:
    """Append the report of an arena that has no room to the file that RMM writes, too."""
    pool = arena()
    if pool is not None and attempt == 0:
        numbers = pool.statistics()
        with open("rmm_arena_memory_dump.log", "a", encoding="utf-8") as file:
            file.write(f"{pool!r} has no memory for {nbytes} bytes\n{numbers}\n")
            for block in pool.snapshot():
                file.write(f"{block}\n")
    return False


class FixedSizeMemoryResource(_PoolCalls):
    """Serve all requests of up to `block_size` bytes with blocks of that size.

    It is a pool otherwise. A larger request raises OutOfMemoryError.

    Parameters
    ----------
    upstream_mr : DeviceMemoryResource, optional
        The resource that the blocks come from; it is kept alive. None: the device itself.
    block_size : int
        Bytes of a block.
    blocks_to_preallocate : int
        Number of blocks to allocate at the start, and by which to grow.
    device : int, optional
        Number of the device. None: the upstream's, or the current device.
    maximum_blocks : int, optional
        The most blocks that there is memory for, in whole pages of 2 MiB. None: no maximum.

    Raises
    ------
    ValueError
        `block_size` is less than 1.
    OutOfMemoryError
        The first blocks are unavailable.
    InvalidArgumentError
        `blocks_to_preallocate` is over `maximum_blocks`, the upstream is of another device, or
        the device does not exist.
    """

    def __init__(
        self,
        upstream_mr: DeviceMemoryResource | None = None,
        block_size: int = 1 << 20,
        blocks_to_preallocate: int = 128,
        *,
        device: int | None = None,
        maximum_blocks: int | None = None,
    ) -> None:
        if block_size <= 0:
            raise ValueError(f"block_size is {block_size}, it has to be at least 1")
        place = _pool_device(upstream_mr, device)
        most = 0 if maximum_blocks is None else maximum_blocks
        _tarn._open_slab(self, upstream_mr, place, block_size, blocks_to_preallocate, most)
        note_pool(self)
        self._block_size = block_size

    def get_block_size(self) -> int:
        """Return the bytes of a block, as passed to the constructor."""
        return self._block_size


class BinningMemoryResource(_Adaptor):
    """Serve each request from the bin for its size, and all other requests from upstream.

    Parameters
    ----------
    upstream_mr : DeviceMemoryResource
        The resource for requests that fit no bin; it is kept alive.
    min_size_exponent : int
        The smallest bin has blocks of 2**min_size_exponent bytes. -1: no bins.
    max_size_exponent : int
        The largest bin has blocks of 2**max_size_exponent bytes. -1: no bins.

    Raises
    ------
    ValueError
        One exponent alone is negative, or the minimum is over the maximum.
    """

    _bins: dict[int, DeviceMemoryResource] | None = None

    def __init__(
        self,
        upstream_mr: DeviceMemoryResource,
        min_size_exponent: int = -1,
        max_size_exponent: int = -1,
    ) -> None:
        low, high = min_size_exponent, max_size_exponent
        if (low < 0) != (high < 0) or low > high:
            raise ValueError(
                f"min_size_exponent {low} exceeds max_size_exponent {high}, or only one is set"
            )
        _tarn._open_binning(self, upstream_mr, 0, 0)
        for exponent in range(low, high + 1) if low >= 0 else ():
            self.add_bin(1 << exponent)

    def add_bin(
        self, allocation_size: int, bin_resource: DeviceMemoryResource | None = None
    ) -> None:
        """Serve requests of up to `allocation_size` bytes from another resource.

        An existing bin of that size stays as it is. Live blocks return to the resource that they
        came from.

        Parameters
        ----------
        allocation_size : int
            The largest request for this bin, in bytes.
        bin_resource : DeviceMemoryResource, optional
            The resource of the bin; it is kept alive. None: a new FixedSizeMemoryResource.

        Raises
        ------
        TarnError
            `bin_resource` makes the stack deeper, and another resource has this one as its
            upstream already.
        InvalidArgumentError
            The bin is of another device, or there are 64 bins already.
        ValueError
            `allocation_size` is 0.
        """
        bins = self._bins or {}
        if allocation_size in bins:
            return
        if bin_resource is None:
            bin_resource = FixedSizeMemoryResource(self.upstream_mr, allocation_size, 0)
        _tarn._binning_add(self, allocation_size, bin_resource)
        self._bins = {**bins, allocation_size: bin_resource}

    @property
    def bin_mrs(self) -> list[DeviceMemoryResource]:
        """The resources of the bins, as a new list in the order in which they were added."""
        return list((self._bins or {}).values())

    def trim(self, keep_bytes: int | str = 0) -> int:
        """Release free memory of the bins and of upstream.

        Parameters
        ----------
        keep_bytes : int or str
            Free bytes that upstream keeps.

        Returns
        -------
        int
            The released bytes.
        """
        return _tarn._trim(self, _bytes_of(keep_bytes))


def available_device_memory() -> tuple[int, int]:
    """Return the free and the total bytes of the current device, as the driver reports them."""
    info = _tarn.device_info(_tarn.current_device())
    return (info.free_bytes, info.total_bytes)


# A C resource without a Python object gets an object of the matching class.
_tarn._resource_types.update(
    {
        "cuda": CudaMemoryResource,
        "async": CudaAsyncMemoryResource,
        "managed": ManagedMemoryResource,
        "exportable": ExportableMemoryResource,
        "pinned": PinnedHostMemoryResource,
        "pool": PoolMemoryResource,
        "slab": FixedSizeMemoryResource,
        "binning": BinningMemoryResource,
        "system": SystemMemoryResource,
        "prefetcher": PrefetchResourceAdaptor,
        "failure_callback": FailureCallbackResourceAdaptor,
        "limiter": LimitingResourceAdaptor,
        "counter": StatisticsResourceAdaptor,
        "tracker": TrackingResourceAdaptor,
        "guard": GuardResourceAdaptor,
    }
)
