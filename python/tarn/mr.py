"""Memory resources: things that hand out device memory and take it back.

Names and arguments are those of rmm.mr; docs/rmm-names.md lists what is the same. A source
hands out memory of the device that is current when it is made, or of `device=`. Adaptors
stack in any order and keep what is beneath them alive.
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
    """A number of bytes, from that or from words such as "4GiB" or "1.5 MB"; None is 0."""
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
        raise ValueError(f"{size!r} is no number of bytes") from None


def _device_of(device: int | None) -> int:
    return _tarn.current_device() if device is None else device


class _Source(DeviceMemoryResource):
    def __repr__(self) -> str:
        return f"<tarn.mr.{type(self).__name__} of device {self.device}>"


class CudaMemoryResource(_Source):
    """cuMemAlloc and cuMemFree. Frees wait for the device; streams are ignored.

    Raises NoDriverError, InvalidArgumentError for a device that is not there.
    """

    def __init__(self, *, device: int | None = None) -> None:
        _tarn._open_cuda(self, _device_of(device))


class CudaAsyncMemoryResource(_Source):
    """The driver's stream-ordered pool (cuMemAllocAsync).

    initial_pool_size: bytes to reserve at once; an int, or words such as "4GiB".
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
            raise _tarn.NotSupportedError("async: memory for other machines is not offered")
        # In C 0 stands for the default, which is to keep all; 1 byte is never kept.
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
    """Keeps what is out within `allocation_limit` bytes; over it: OutOfMemoryError.

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
            raise ValueError("give log_file_name, or set RMM_LOG_FILE")
        if format not in _FORMATS:
            raise ValueError(f"format is one of {', '.join(_FORMATS)}, not {format!r}")
        super().__init__(upstream_mr)
        stem, extension = os.path.splitext(os.path.abspath(os.fspath(name)))
        self._file_name = f"{stem}.dev{_device_of(upstream_mr.device)}{extension}"
        _log_places.know()
        _tarn._wrap_logger(self, self._file_name, _FORMATS[format])

    def flush(self) -> None:
        """Hand all lines to the file."""
        _tarn._logger_flush(self)

    def get_file_name(self) -> str:
        """The file's absolute path, `.devN` included."""
        return self._file_name


class StatisticsResourceAdaptor(_Adaptor):
    """Counts bytes (as asked for) and blocks: now, at most, in all.

    The counts are a stack: push_counters() begins a new set, pop_counters() ends it and
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
    """What can be asked of a pool and of a slab, which is one."""

    _callbacks: list[Callable[[int, int], bool]] | None = None

    def __repr__(self) -> str:
        return f"<tarn.mr.{type(self).__name__} of device {self.device}>"

    def pool_size(self) -> int:
        """Bytes taken from upstream: `statistics().reserved`."""
        return self.statistics().reserved

    def statistics(self) -> PoolStatistics:
        """What the pool has and did."""
        found = _tarn._pool_statistics(self)
        return PoolStatistics(**{**found, "maximum": maximum_of(found["maximum"])})

    def snapshot(self) -> list[PoolBlock]:
        """All blocks, by address.

        They are as they were at one moment, up to 1,024 of them; of more, each such part is,
        and what changed across two parts is "in_transit".
        """
        return [block_of(block) for block in _tarn._pool_snapshot(self)]

    def get_capture(self, stream: Any) -> PoolCapture:
        """The memory of the capture that goes on on `stream`: ask before it ends.

        stream: the capturing stream, or one that joined it; a tarn.Stream, an int (a
            CUstream), or anything with __cuda_stream__.

        Raises TarnError where it does not capture, or its capture is lost.
        """
        return PoolCapture(self, stream)

    def trim(self, keep_bytes: int | str = 0) -> int:
        """Give free memory over `keep_bytes` back; returns how much that was."""
        return _tarn._trim(self, _bytes_of(keep_bytes))

    @property
    def maximum_pool_size(self) -> int | None:
        """The most bytes that it may have; None: no limit. Can be set.

        Raises InvalidArgumentError for less than what is out.
        """
        return self.statistics().maximum

    @maximum_pool_size.setter
    def maximum_pool_size(self, maximum: int | str | None) -> None:
        _tarn._pool_set_maximum(self, _bytes_of(maximum))

    def suspend(self, keep: bool = False) -> None:
        """Give all physical memory back; addresses stay.

        Nothing may use the memory until resume(). keep: what live blocks hold is kept in
        page-locked host memory; else it is lost.

        Raises NotSupportedError for a pool with an upstream.
        """
        _tarn._pool_suspend(self, keep)

    def resume(self) -> None:
        """Have all of it back at the same addresses. Raises OutOfMemoryError: it sleeps on."""
        _tarn._pool_resume(self)

    @property
    def generation(self) -> int:
        """Counts up whenever memory goes from under addresses (trim, sleep)."""
        return _tarn._pool_generation(self)

    def set_peer_access(self, device: int, access: bool = True) -> None:
        """Let another device use this memory, or no longer."""
        _tarn._pool_set_peer_access(self, device, access)

    def add_oom_callback(self, callback: Callable[[int, int], bool]) -> None:
        """Have `callback(nbytes, attempt)` asked before an allocation fails.

        It may free something, also of this pool, and return True: then the search is
        repeated, and where memory is still short all are asked again, up to 16 times for one
        allocation; `attempt` counts from 0. Of several each is asked in turn. It may remove
        itself and others. What it allocates asks no callback. What it raises goes to
        sys.unraisablehook, and counts as False. Callbacks go with this object.
        """
        if not callable(callback):
            raise TypeError(f"{callback!r} cannot be called")
        if self._callbacks is None:
            self._callbacks = []
            try:
                _tarn._pool_begin_oom_callbacks(self)
            except BaseException:
                self._callbacks = None
                raise
        self._callbacks.append(callback)

    def remove_oom_callback(self, callback: Callable[[int, int], bool]) -> None:
        """Ask it no more. Raises ValueError where it is not there.

        A call that another thread has begun goes on.
        """
        (self._callbacks or []).remove(callback)


_NO_STREAM = ("synchronize", "event", "single-stream")  # as tarn_pool_no_stream_policy counts them


class PoolMemoryResource(_PoolCalls):
    """A pool: what is freed is handed out again, to all streams, without the driver.

    upstream_mr: where its memory comes from. None: the device itself, in one range of
        addresses, which is faster, wastes less and can sleep.
    initial_pool_size: bytes to have from the start; an int, or words such as "4GiB".
        None: none (RMM: half of what is free; here growing is cheap).
    maximum_pool_size: the most bytes to have, of which whole pages of 2 MiB are used; None:
        all that there is.
    growth: grow by at least this; 0: by more as the pool grows, 2 MiB to 256 MiB.
    release_threshold: give idle memory over this back at once; 0: only in trim().
    grow_first: grow before memory of another stream is taken behind a wait.
    synchronize_on_oom: wait for the device before out of memory is said, and, instead of
        growing, once streams that were destroyed without Stream.register() left 64 MiB or half
        of the peak unusable. False: what they left stays unusable.
    resume_on_use: an allocation wakes a pool that sleeps, instead of failing.
    no_stream: what is done about memory that is freed by a program that names no stream,
        as Numba, and that work on any stream may still use. "synchronize": it is held back, and
        one wait for the device serves many frees; no capture ends. "event": an event
        serves instead, for which mostly nobody waits; it ends captures on non-blocking streams
        that Tarn does not know of. "single-stream": the program promises to use one stream,
        and has it again at once.
    no_stream_limit: hold this much of it back at most before an allocation waits; 0: by
        the sizes of the pool, the device and the request, at least 16 MiB.

    Streams made by Stream.register() cost the least.

    Raises OutOfMemoryError where the initial bytes are not to be had,
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
            raise ValueError(f"no_stream={no_stream!r} is none of {', '.join(_NO_STREAM)}")
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
    """That of upstream (-1) where there is one and no other is named."""
    return -1 if upstream_mr is not None and device is None else _device_of(device)


class FixedSizeMemoryResource(_PoolCalls):
    """Blocks of `block_size` bytes for all requests of up to that; a pool in all else.

    blocks_to_preallocate: have this many from the start, and grow by as many.
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
            raise ValueError(f"a block has {block_size} bytes; at least 1 is needed")
        place = _pool_device(upstream_mr, device)
        most = 0 if maximum_blocks is None else maximum_blocks
        _tarn._open_slab(self, upstream_mr, place, block_size, blocks_to_preallocate, most)


class BinningMemoryResource(_Adaptor):
    """Sends each request to the bin for its size, and what fits into none upstream.

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
            raise ValueError(f"no bins from 2**{low} to 2**{high}")
        _tarn._open_binning(self, upstream_mr, 0, 0)
        for exponent in range(low, high + 1) if low >= 0 else ():
            self.add_bin(1 << exponent)

    def add_bin(
        self, allocation_size: int, bin_resource: DeviceMemoryResource | None = None
    ) -> None:
        """Have requests of up to `allocation_size` served by `bin_resource`.

        None: by a new FixedSizeMemoryResource. A bin of that size stays as it is.

        Raises TarnError while blocks are out: they go back by their size.
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
        """Give what is free in bins and upstream back; upstream keeps `keep_bytes`."""
        return _tarn._trim(self, _bytes_of(keep_bytes))


def available_device_memory() -> tuple[int, int]:
    """Bytes of the current device: free, and in all."""
    info = _tarn.device_info(_tarn.current_device())
    return (info.free_bytes, info.total_bytes)


# A C resource that comes from elsewhere becomes an object of the class that fits.
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
