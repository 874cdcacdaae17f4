"""Tarn: one small library that manages the GPU memory of a process.

`tarn.mr` has the memory resources, and `tarn.numba` puts Numba's memory under them. `tarn.nrt`
has the runtime for the code that Numba compiles for CPUs. A `DeviceBuffer` is a block of memory
as an object. Names follow RMM's. Importing tarn loads no driver and needs neither Numba
nor numpy.
"""

from __future__ import annotations

import enum
import os
from typing import Any

from tarn import _tarn, mr, nrt  # noqa: F401
from tarn._tarn import (
    DEFAULT_STREAM,
    LEGACY_DEFAULT_STREAM,
    NO_STREAM,
    PER_THREAD_DEFAULT_STREAM,
    DeferredFrees,
    DeviceBuffer,
    DeviceInfo,
    DriverInfo,
    InvalidArgumentError,
    NoDriverError,
    NotSupportedError,
    OutOfMemoryError,
    Stream,
    TarnError,
    __version__,
    csv_log,
    current_device,
    deferred_frees,
    device_info,
    driver_info,
    open_driver,
    reclaim_deferred_frees,
    synchronize,
)

__all__ = [
    "DEFAULT_STREAM",
    "LEGACY_DEFAULT_STREAM",
    "NO_STREAM",
    "PER_THREAD_DEFAULT_STREAM",
    "CudaStreamFlags",
    "DeferredFrees",
    "DeviceBuffer",
    "DeviceInfo",
    "DriverInfo",
    "InvalidArgumentError",
    "NoDriverError",
    "NotSupportedError",
    "OutOfMemoryError",
    "Stream",
    "TarnError",
    "__version__",
    "csv_log",
    "current_device",
    "deferred_frees",
    "device_info",
    "driver_info",
    "get_include",
    "get_library_dir",
    "mr",
    "nrt",
    "open_driver",
    "reclaim_deferred_frees",
    "synchronize",
    "use_tarn_for_numba",
]


class CudaStreamFlags(enum.IntEnum):
    """How a new Stream is created."""

    SYNC_DEFAULT = 0  # waits for the default stream, and vice versa
    NON_BLOCKING = 1


def use_tarn_for_numba(cuda: Any = None, resource: Any = None, **options: Any) -> None:
    """Put Numba's memory under Tarn: see tarn.numba.use_tarn_for_numba()."""
    from tarn import numba

    numba.use_tarn_for_numba(cuda, resource, **options)


def __getattr__(name: str) -> Any:
    """The class that Numba looks up where NUMBA_CUDA_MEMORY_MANAGER is `tarn`. It is created at
    that lookup; without Numba there is none."""
    if name == "_numba_memory_manager":
        from tarn import numba

        return numba._numba_memory_manager
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def get_include() -> str:
    """The folder for a C compiler's -I: `#include <tarn/tarn.h>`."""
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "include")


def get_library_dir() -> str:
    """The folder of libtarn, for a linker's -L and -rpath.

    The process that imports tarn has loaded this library: link to it, and not to another
    copy, or the process has two registries.
    """
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib")
