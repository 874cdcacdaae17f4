"""Memory resources: things that hand out device memory and take it back.

Names and arguments are those of rmm.mr; docs/rmm-names.md lists what is the same. A source
hands out memory of the device that is current when it is made, or of `device=`. Adaptors
stack in any order and keep what is beneath them alive.
"""

from __future__ import annotations

import os

from tarn import _tarn
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
    "CudaAsyncMemoryResource",
    "CudaMemoryResource",
    "DeviceMemoryResource",
    "LimitingResourceAdaptor",
    "LoggingResourceAdaptor",
    "ManagedMemoryResource",
    "PinnedHostMemoryResource",
    "Statistics",
    "StatisticsResourceAdaptor",
    "UpstreamResourceAdaptor",
    "available_device_memory",
    "get_current_device_resource",
    "get_per_device_resource",
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
    enable_ipc, enable_fabric: not offered; NotSupportedError.
    use_default_pool: the device's own pool instead of a new one.

    Raises NotSupportedError where the device has no pools.
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
        if enable_ipc or enable_fabric:
            raise _tarn.NotSupportedError("async: memory for other processes is not offered")
        # In C 0 stands for the default, which is to keep all; 1 byte is never kept.
        keep = 0 if release_threshold is None else max(release_threshold, 1)
        initial = _bytes_of(initial_pool_size)
        _tarn._open_async(self, _device_of(device), initial, keep, use_default_pool)


class ManagedMemoryResource(_Source):
    """Managed memory (cuMemAllocManaged): host and device may both use it.

    Raises NotSupportedError where the device has none.
    """

    def __init__(self, *, device: int | None = None) -> None:
        _tarn._open_managed(self, _device_of(device))


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
    format: "rmm" (Thread,Time,Action,Pointer,Size,Stream), or "nbep7", 12 columns.

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
        "pinned": PinnedHostMemoryResource,
        "limiter": LimitingResourceAdaptor,
        "counter": StatisticsResourceAdaptor,
    }
)

