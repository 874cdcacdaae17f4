"""Tarn: one small library that manages the GPU memory of a process.

`tarn.mr` has the memory resources. `tarn.use()` makes the frameworks of a process allocate from
them, and `tarn.torch` PyTorch alone. `tarn.nrt` has the runtime for the code that Numba compiles for CPUs. `tarn.ipc` shares device memory with
other processes, and `tarn.prune` removes reference counts from compiled code. A `DeviceBuffer`
is a block of memory as an object. Names follow RMM's. Importing tarn loads no driver and needs
neither Numba nor numpy.
"""

from __future__ import annotations

import enum
import os
import warnings
from typing import Any

from tarn import _clash, _log, _tarn, mr, nrt  # noqa: F401
from tarn._frameworks import use
from tarn._steps import step
from tarn._stream_pool import CudaStreamPool
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
    "CudaStreamPool",
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
    "step",
    "synchronize",
    "use",
    "use_tarn_for_numba",
]


_clash.yield_names()
_log.begin()


class CudaStreamFlags(enum.IntEnum):
    """Flags for the creation of a Stream, as in CUDA.

    Attributes
    ----------
    SYNC_DEFAULT : int
        0: the stream and the default stream wait for each other.
    NON_BLOCKING : int
        1: they do not wait for each other.
    """

    SYNC_DEFAULT = 0
    NON_BLOCKING = 1


def use_tarn_for_numba(cuda: Any = None, resource: Any = None, **options: Any) -> None:
    """Make Numba allocate its GPU memory from Tarn.

    Parameters
    ----------
    cuda : module, optional
        The module to serve. None: `numba.cuda`.
    resource : DeviceMemoryResource or str, optional
        The source of device memory.
    **options
        `logging`, `mode` and `host_arrays` of tarn.numba.use_tarn_for_numba().

    Raises
    ------
    ModuleNotFoundError, RuntimeError, TypeError, ValueError
        As in tarn.numba.use_tarn_for_numba().
    """
    from tarn import numba

    numba.use_tarn_for_numba(cuda, resource, **options)


def _listen() -> None:
    """Let `tarn top` read the figures of this process; a failure is a warning."""
    from tarn import metrics

    try:
        metrics.listen()
    except OSError as error:
        warnings.warn(f"TARN_METRICS is set: {error}", stacklevel=3)


def __getattr__(name: str) -> Any:
    """Return the class that Numba looks up where NUMBA_CUDA_MEMORY_MANAGER is `tarn`.

    The class is created at that lookup. Without Numba there is none.
    """
    if name == "_numba_memory_manager":
        from tarn import numba

        return numba._numba_memory_manager
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def get_include() -> str:
    """Return the folder of Tarn's headers, for the -I of a C compiler.

    Returns
    -------
    str
        An absolute path; the headers are in its folder `tarn`.
    """
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "include")


def get_library_dir() -> str:
    """Return the folder of libtarn, for the -L and -rpath of a linker.

    The process that imports tarn has loaded this library. Link to it and to no other copy:
    another copy has another registry of resources.

    Returns
    -------
    str
        An absolute path.
    """
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib")


if os.environ.get("TARN_METRICS") == "1":
    _listen()
