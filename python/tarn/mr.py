"""Memory resources: objects that allocate and free device memory.

Names and arguments are those of rmm.mr; docs/rmm-names.md lists the equal ones. A source
allocates memory of the device that is current when it is created, or of `device=`. Adaptors
stack in any order and keep their upstreams alive.
"""

from __future__ import annotations

import os
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
)
from tarn._tarn import (
    DeviceMemoryResource,
    Statistics,
    UpstreamResourceAdaptor,
    get_current_device_resource,
    get_per_device_resource,
    set_current_device_resource,
    set_per_device_resource,
)

__all__ = [
    "BinningMemoryResource",
    "CudaAsyncMemoryResource",
    "CudaMemoryResource",
    "CupyMemoryResource",
    "DeviceMemoryResource",
    "ExportableMemoryResource",
    "FixedSizeMemoryResource",
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
    "Statistics",
    "StatisticsResourceAdaptor",
    "UpstreamResourceAdaptor",
    "available_device_memory",
    "get_current_device_resource",
    "get_per_device_resource",
    "last_oom_report",
    "set_current_device_resource",
    "set_per_device_resource",
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
        return int(float(digits) * _UNITS[unit])
    except (KeyError, ValueError, OverflowError):
        raise ValueError(f"{size!r} is not a number of bytes") from None


def _device_of(device: int | None) -> int:
    return _tarn.current_device() if device is None else device


class _Source(DeviceMemoryResource):
    def __repr__(self) -> str:
        return f"<tarn.mr.{type(self).__name__} of device {self.device}>"


class CudaMemoryResource(_Source):
    """cuMemAlloc and cuMemFree. Frees wait for the device; streams are ignored.

    Raises NoDriverError, InvalidArgumentError for a device that does not exist.
    """

    def __init__(self, *, device: int | None = None) -> None:
        _tarn._open_cuda(self, _device_of(device))


class CudaAsyncMemoryResource(_Source):
    """The driver's stream-ordered pool (cuMemAllocAsync).

    initial_pool_size: bytes to reserve at once; an int, or a string such as "4GiB".
    release_threshold: bytes that stay cached when the device is synchronized; None: all.
    enable_ipc: other processes may open its memory (tarn.ipc).
    enable_fabric: not offered; NotSupportedError.
    use_default_pool: the device's own pool instead of a new one. It cannot be exported:
        with enable_ipc InvalidArgumentError.

    Raises NotSupportedError where the device has no pools, or cannot export them.
    """

    def __init__(
        self,
        initial_pool_size: int | str | None = None,
        release_threshold: int | None = None,
        enable_ipc: bool = False,
        enable_fabric: bool = False,
        *,
        device: int | None = None,
        use_default_pool: bool = False,
    ) -> None:
        if enable_fabric:
            raise _tarn.NotSupportedError("async: enable_fabric is not supported")
        # In C 0 means the default, which is to keep all; 1 byte is never kept.
        keep = 0 if release_threshold is None else max(release_threshold, 1)
        initial = _bytes_of(initial_pool_size)
        number = _device_of(device)
        _tarn._open_async(self, number, initial, keep, use_default_pool, enable_ipc)


class ManagedMemoryResource(_Source):
    """Managed memory (cuMemAllocManaged): host and device may both use it.

    Raises NotSupportedError where the device has none.
    """

    def __init__(self, *, device: int | None = None) -> None:
        _tarn._open_managed(self, _device_of(device))


class ExportableMemoryResource(_Source):
    """Device memory that other processes may open (tarn.ipc): blocks of whole 2 MiB. Put a
    PoolMemoryResource over it for small ones.

    Raises NotSupportedError where the device cannot.
    """

    def __init__(self, *, device: int | None = None) -> None:
        _tarn._open_exportable(self, _device_of(device))


class PinnedHostMemoryResource(_Source):
    """Page-locked host memory, mapped into the device (cuMemHostAlloc)."""

    def __init__(self, *, device: int | None = None) -> None:
        _tarn._open_pinned(self, _device_of(device))


class _Adaptor(UpstreamResourceAdaptor):
    def __repr__(self) -> str:
        return f"<tarn.mr.{type(self).__name__} over {self.upstream_mr!r}>"


class LimitingResourceAdaptor(_Adaptor):
    """Keeps live memory within `allocation_limit` bytes; over it: OutOfMemoryError.

    Each block counts rounded up to 256 bytes.
    """

    def __init__(self, upstream_mr: DeviceMemoryResource, allocation_limit: int) -> None:
        super().__init__(upstream_mr)
        _tarn._wrap_limiter(self, allocation_limit)

    def get_allocated_bytes(self) -> int:
        """Bytes that count against the limit now."""
        return _tarn._limiter_used(self)

    def get_allocation_limit(self) -> int:
        """The limit in bytes."""
        return _tarn._limiter_limit(self)


_FORMATS = {"nbep7": 0, "rmm": 1}


class LoggingResourceAdaptor(_Adaptor):
    """Writes a line for each allocation and each free to a CSV file.

    log_file_name: the file; None: the environment variable RMM_LOG_FILE. As RMM does,
        `.devN` goes in before the extension, N being the device. An existing file is
        emptied.
    format: "rmm" (Thread,Time,Action,Pointer,Size,Stream), or "nbep7", 12 columns. The last,
        Location, is the line of the program: the first frame that is neither Tarn's nor
        Numba's nor that of a plugin for Numba.

    Raises ValueError where neither names a file, TarnError where it cannot be written.
    """

    def __init__(
        self,
        upstream_mr: DeviceMemoryResource,
        log_file_name: str | os.PathLike[str] | None = None,
        *,
        format: str = "rmm",
    ) -> None:
        name = os.environ.get("RMM_LOG_FILE") if log_file_name is None else log_file_name
        if not name:
            raise ValueError("log_file_name is required, or the environment variable RMM_LOG_FILE")
        if format not in _FORMATS:
            raise ValueError(f"format has to be one of {', '.join(_FORMATS)}, not {format!r}")
        super().__init__(upstream_mr)
        stem, extension = os.path.splitext(os.path.abspath(os.fspath(name)))
        self._file_name = f"{stem}.dev{_device_of(upstream_mr.device)}{extension}"
        _log_places.know()
        _tarn._wrap_logger(self, self._file_name, _FORMATS[format])

    def flush(self) -> None:
        """Write all lines to the file."""
        _tarn._logger_flush(self)

    def get_file_name(self) -> str:
        """The file's absolute path, `.devN` included."""
        return self._file_name


class StatisticsResourceAdaptor(_Adaptor):
    """Counts bytes (as requested) and blocks: current, peak and total.

    The counts are a stack: push_counters() begins a new set; pop_counters() ends it and
    merges it into the one beneath.
    """

    def __init__(self, upstream_mr: DeviceMemoryResource) -> None:
        super().__init__(upstream_mr)
        _tarn._wrap_counter(self)

    @property
    def allocation_counts(self) -> Statistics:
        """The counts since the last push, or since the beginning."""
        return _tarn._counter_read(self)

    def push_counters(self) -> Statistics:
        """Begin a new set of counts; returns the one before."""
        return _tarn._counter_push(self)

    def pop_counters(self) -> Statistics:
        """End the topmost set and return it. Raises IndexError for the lowest one."""
        try:
            return _tarn._counter_pop(self)
        except _tarn.InvalidArgumentError as error:
            raise IndexError(str(error)) from None


class _PoolCalls(UpstreamResourceAdaptor):
    """The methods of a pool and of a slab, which is a pool."""

    _callbacks: list[Callable[[int, int], bool]] | None = None

    def __repr__(self) -> str:
        return f"<tarn.mr.{type(self).__name__} of device {self.device}>"

    def pool_size(self) -> int:
        """Bytes taken from upstream: `statistics().reserved`."""
        return self.statistics().reserved

    def statistics(self) -> PoolStatistics:
        """The memory and the counters of the pool."""
        found = _tarn._pool_statistics(self)
        return PoolStatistics(**{**found, "maximum": maximum_of(found["maximum"])})

    def snapshot(self) -> list[PoolBlock]:
        """All blocks, by address.

        Up to 1,024 blocks are in their state at one moment. More blocks come in such parts, and
        blocks that changed between two parts are "in_transit".
        """
        return [block_of(block) for block in _tarn._pool_snapshot(self)]

    def get_capture(self, stream: Any) -> PoolCapture:
        """The memory of the capture in progress on `stream`: call this before it ends.

        stream: the capturing stream, or one that joined it; a tarn.Stream, an int (a
            CUstream), or any object with __cuda_stream__.

        Raises TarnError if it does not capture, or its capture is lost.
        """
        return PoolCapture(self, stream)

    def trim(self, keep_bytes: int | str = 0) -> int:
        """Release free memory over `keep_bytes`; return the released bytes."""
        return _tarn._trim(self, _bytes_of(keep_bytes))

    @property
    def maximum_pool_size(self) -> int | None:
        """The most bytes that the pool may have; None: no limit. Can be set.

        Raises InvalidArgumentError for less than the live bytes.
        """
        return self.statistics().maximum

    @maximum_pool_size.setter
    def maximum_pool_size(self, maximum: int | str | None) -> None:
        _tarn._pool_set_maximum(self, _bytes_of(maximum))

    def suspend(self, keep: bool = False) -> None:
        """Release all physical memory; addresses stay (vLLM's sleep mode).

        No work may use the memory until resume(). keep: the contents of live blocks are kept in
        page-locked host memory; else they are lost.

        Raises NotSupportedError for a pool with an upstream.
        """
        _tarn._pool_suspend(self, keep)

    def resume(self) -> None:
        """Map all memory again at the same addresses.

        Raises OutOfMemoryError; then the pool stays suspended.
        """
        _tarn._pool_resume(self)

    @property
    def generation(self) -> int:
        """Incremented whenever addresses lose their memory (trim, suspend)."""
        return _tarn._pool_generation(self)

    def set_peer_access(self, device: int, access: bool = True) -> None:
        """Let another device use this memory, or no longer."""
        _tarn._pool_set_peer_access(self, device, access)

    def add_oom_callback(self, callback: Callable[[int, int], bool]) -> None:
        """Call `callback(nbytes, attempt)` before an allocation fails for want of memory.

        It may free something, also of this pool, and return True. Then the search is repeated,
        and if memory is still short, all are called again, up to 16 times for one allocation;
        `attempt` counts from 0. Several callbacks are called in turn. A callback may remove
        itself and others. Its own allocations call no callback. An exception of it goes to
        sys.unraisablehook, and counts as False. Callbacks end with this object.
        """
        if not callable(callback):
            raise TypeError(f"{callback!r} is not callable")
        if self._callbacks is None:
            self._callbacks = []
            try:
                _tarn._pool_begin_oom_callbacks(self)
            except BaseException:
                self._callbacks = None
                raise
        self._callbacks.append(callback)

    def remove_oom_callback(self, callback: Callable[[int, int], bool]) -> None:
        """Remove a callback. Raises ValueError where it is not registered.

        A call that another thread has begun continues.
        """
        (self._callbacks or []).remove(callback)


_NO_STREAM = ("synchronize", "event", "single-stream")  # in the order of the C enum


class PoolMemoryResource(_PoolCalls):
    """A pool: freed memory is reused, on all streams, without the driver.

    upstream_mr: the source of its memory. None: the device itself, in one range of
        addresses, which is faster, wastes less and can be suspended.
    initial_pool_size: bytes to reserve at the start; an int, or a string such as "4GiB".
        None: none (RMM: half of the free memory; here growing is cheap).
    maximum_pool_size: the most bytes of the pool, of which whole pages of 2 MiB are used; None:
        no limit.
    growth: grow by at least this; 0: by more as the pool grows, 2 MiB to 256 MiB.
    release_threshold: release reclaimable memory over this at once; 0: only in trim().
    grow_first: grow before stealing memory of another stream behind a wait.
    synchronize_on_oom: wait for the device before the pool reports out of memory. Also wait,
        instead of growing, once streams that were destroyed without Stream.register() left
        64 MiB or half of the peak unusable. False: that memory stays unusable.
    resume_on_use: an allocation resumes a suspended pool, instead of failing.
    no_stream: the policy for memory that is freed without a stream, as Numba does, while work
        on any stream may still use it. "synchronize": it is deferred, and one wait for the
        device serves many frees; no capture ends. "event": an event serves instead, and a wait
        for it is rare; it ends captures on non-blocking streams unknown to Tarn.
        "single-stream": the program promises to use one stream, and the memory is reused at
        once.
    no_stream_limit: defer at most this much of it before an allocation waits; 0: by the sizes
        of the pool, the device and the request, at least 16 MiB.

    Streams created by Stream.register() cost the least.

    Raises OutOfMemoryError where the initial bytes are unavailable,
    InvalidArgumentError where they are over the maximum.
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
    ) -> None:
        if no_stream not in _NO_STREAM:
            known = ", ".join(_NO_STREAM)
            raise ValueError(f"no_stream has to be one of {known}, not {no_stream!r}")
        _tarn._open_pool(
            self,
            upstream_mr,
            _pool_device(upstream_mr, device),
            _bytes_of(initial_pool_size),
            _bytes_of(maximum_pool_size),
            _bytes_of(growth),
            _bytes_of(release_threshold),
            grow_first,
            not synchronize_on_oom,
            resume_on_use,
            _NO_STREAM.index(no_stream),
            _bytes_of(no_stream_limit),
        )


def _pool_device(upstream_mr: DeviceMemoryResource | None, device: int | None) -> int:
    """The given device; by default the upstream's (-1), if there is one."""
    return -1 if upstream_mr is not None and device is None else _device_of(device)


class FixedSizeMemoryResource(_PoolCalls):
    """Blocks of `block_size` bytes for all requests up to that size; otherwise a pool.

    blocks_to_preallocate: allocate this many at the start, and grow by as many.
    maximum_blocks: never have memory for more, in whole pages of 2 MiB; None: no limit.

    A larger request is an OutOfMemoryError.
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


class BinningMemoryResource(_Adaptor):
    """Sends each request to the bin for its size, and a request that fits no bin upstream.

    min_size_exponent, max_size_exponent: bins of fixed size for the powers of two from
        2**min to 2**max; -1: none but those of add_bin().
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
        """Serve requests of up to `allocation_size` from `bin_resource`.

        None: by a new FixedSizeMemoryResource. A bin of that size stays as it is.

        Raises TarnError while blocks are live: they are freed by their size.
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
        """The resources of the bins, in the order in which they were added."""
        return list((self._bins or {}).values())

    def trim(self, keep_bytes: int | str = 0) -> int:
        """Release free memory of the bins and of upstream; upstream keeps `keep_bytes`."""
        return _tarn._trim(self, _bytes_of(keep_bytes))


def available_device_memory() -> tuple[int, int]:
    """Bytes of the current device: free and total."""
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
        "limiter": LimitingResourceAdaptor,
        "counter": StatisticsResourceAdaptor,
    }
)
