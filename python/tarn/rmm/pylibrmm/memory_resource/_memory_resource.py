"""The names of tarn.mr, and the functions that concern the resources of all devices."""

from __future__ import annotations

import os
import threading

from tarn import _tarn
from tarn.mr import (
    ArenaMemoryResource,
    BinningMemoryResource,
    CallbackMemoryResource,
    CudaAsyncMemoryResource,
    CudaAsyncViewMemoryResource,
    CudaMemoryResource,
    DeviceMemoryResource,
    FailureCallbackResourceAdaptor,
    FixedSizeMemoryResource,
    LimitingResourceAdaptor,
    LoggingResourceAdaptor,
    ManagedMemoryResource,
    PinnedHostMemoryResource,
    PoolMemoryResource,
    PrefetchResourceAdaptor,
    SamHeadroomMemoryResource,
    StatisticsResourceAdaptor,
    SystemMemoryResource,
    TrackingResourceAdaptor,
    UpstreamResourceAdaptor,
    available_device_memory,
    get_current_device_resource,
    get_per_device_resource,
    set_current_device_resource,
    set_per_device_resource,
)

__all__ = [
    "ArenaMemoryResource",
    "BinningMemoryResource",
    "CallbackMemoryResource",
    "CudaAsyncMemoryResource",
    "CudaAsyncViewMemoryResource",
    "CudaMemoryResource",
    "DeviceMemoryResource",
    "FailureCallbackResourceAdaptor",
    "FixedSizeMemoryResource",
    "LimitingResourceAdaptor",
    "LoggingResourceAdaptor",
    "ManagedMemoryResource",
    "PinnedHostMemoryResource",
    "PoolMemoryResource",
    "PrefetchResourceAdaptor",
    "SamHeadroomMemoryResource",
    "StatisticsResourceAdaptor",
    "SystemMemoryResource",
    "TrackingResourceAdaptor",
    "UpstreamResourceAdaptor",
    "available_device_memory",
    "disable_logging",
    "enable_logging",
    "get_current_device_resource",
    "get_log_filenames",
    "get_per_device_resource",
    "is_initialized",
    "set_current_device_resource",
    "set_per_device_resource",
]

# The devices whose resource was set or logged by a function of this module.
_devices: set[int] = set()
_lock = threading.RLock()


def _forget_lock() -> None:
    """Replace the lock in a forked child: a thread that held it does not exist there."""
    global _lock
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_forget_lock)


def _initialize(
    pool_allocator: bool = False,
    managed_memory: bool = False,
    initial_pool_size: int | str | None = None,
    maximum_pool_size: int | str | None = None,
    devices: int | list[int] | None = 0,
    logging: bool = False,
    log_file_name: str | None = None,
) -> None:
    """Replace the current device resources, as reinitialize() does after its hooks."""
    chosen = [0] if devices is None else [devices] if isinstance(devices, int) else list(devices)
    with _lock:
        for device in _known() - set(chosen):
            set_per_device_resource(device, None)
        _devices.clear()
        for device in chosen:
            made: DeviceMemoryResource
            kind = ManagedMemoryResource if managed_memory else CudaMemoryResource
            made = kind(device=device)
            if pool_allocator:
                made = PoolMemoryResource(made, initial_pool_size, maximum_pool_size)
            if logging:
                made = LoggingResourceAdaptor(made, log_file_name)
            set_per_device_resource(device, made)
            _devices.add(device)


def _known() -> set[int]:
    """Return the devices whose current device resource the program may have set."""
    count = _tarn.driver_info().device_count
    return _devices | {number for number in range(count) if _tarn._resource_was_set(number)}


def is_initialized() -> bool:
    """Return True: Tarn needs no initialization."""
    return True


def _flush_logs() -> None:
    """Write the buffered lines of the current device resources that are logs."""
    for device in _known():
        found = get_per_device_resource(device)
        if isinstance(found, LoggingResourceAdaptor):
            found.flush()


def enable_logging(log_file_name: str | None = None) -> None:
    """Put a LoggingResourceAdaptor over the current resource of each device that has one set.

    Without such a device it is device 0. A resource that is a log stays as it is.

    Parameters
    ----------
    log_file_name : str, optional
        The file, as in LoggingResourceAdaptor; `.devN` is added for each device.

    Raises
    ------
    ValueError
        Neither `log_file_name` nor RMM_LOG_FILE names a file.
    """
    with _lock:
        for device in _known() or {0}:
            found = get_per_device_resource(device)
            if not isinstance(found, LoggingResourceAdaptor):
                set_per_device_resource(device, LoggingResourceAdaptor(found, log_file_name))
            _devices.add(device)


def disable_logging() -> None:
    """Replace each current device resource that is a log by the resource beneath it."""
    with _lock:
        for device in _known():
            found = get_per_device_resource(device)
            if isinstance(found, LoggingResourceAdaptor):
                set_per_device_resource(device, found.get_upstream())


def get_log_filenames() -> dict[int, str | None]:
    """Return the log of each device whose current device resource was set.

    Returns
    -------
    dict of int to str or None
        The path by the number of the device; None where the resource is no log.
    """
    files: dict[int, str | None] = {}
    for device in sorted(_known()):
        found = get_per_device_resource(device)
        files[device] = found.get_file_name() if isinstance(found, LoggingResourceAdaptor) else None
    return files
