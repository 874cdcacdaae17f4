"""Objects that are Numba's and Tarn's at once: errors, pointers, handles.

Each is made for the driver module of the Numba that asks, because there is more than one
with this interface. None of them imports Numba.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib
from typing import Any, Callable

from . import _tarn

# --- errors ----------------------------------------------------------------------------


def _rebuild_error(driver_name: str, kind: str, words: str, code: int, status: int) -> Any:
    """For pickle: such an error of another process."""
    driver = importlib.import_module(driver_name)
    return _numba_error(driver, getattr(_tarn, kind), words, code, status)


class _ErrorOperations:
    """What the errors have that are Tarn's and Numba's at once."""

    def __reduce__(self) -> Any:
        error: Any = self
        kind = error._tarn_class.__name__
        name = error._driver.__name__
        return _rebuild_error, (name, kind, error.words, int(error.code), error.status)

    def __str__(self) -> str:
        error: Any = self
        return f"[{int(error.code)}] {error.msg}"


@functools.lru_cache(maxsize=None)
def _error_class(driver: Any, tarn_class: type) -> type:
    """A class that programs catch as Tarn's error and as Numba's CudaAPIError."""
    members = {"_driver": driver, "_tarn_class": tarn_class, "__module__": "tarn.numba"}
    bases = (_ErrorOperations, tarn_class, driver.CudaAPIError)
    return type(tarn_class.__name__, bases, members)


def _numba_error(driver: Any, kind: type, words: str, number: int, status: int) -> Any:
    code: Any = number
    with contextlib.suppress(ValueError, AttributeError):
        code = driver.binding.CUresult(number)
    name = getattr(code, "name", f"error {number}")
    error: Any = _error_class(driver, kind)(code, words)
    error.code, error.native, error.status, error.words = code, number, status, words
    error.msg = f"Call to tarn results in {name}: {words}"
    error.args = (code, error.msg)
    return error


def as_numba_error(driver: Any, error: Any) -> Any:
    """The same failure for a program that knows Numba's errors; those that did not come
    from a driver, and would not have with Numba's own manager, stay as they are."""
    if isinstance(error, MemoryError):
        words = str(error) or type(error).__name__
        return _numba_error(driver, _tarn.OutOfMemoryError, words, 2, _OUT_OF_MEMORY)
    if not error.native:
        return error
    kind = next(c for c in type(error).__mro__ if c.__name__ in _TARN_ERRORS)
    return _numba_error(driver, kind, str(error), error.native, error.status)


_OUT_OF_MEMORY = 1  # the tarn_status
_TARN_ERRORS = (
    "OutOfMemoryError",
    "InvalidArgumentError",
    "NotSupportedError",
    "NoDriverError",
    "TarnError",
)


# --- memory ----------------------------------------------------------------------------


def pointer_type(driver: Any) -> Callable[[int], Any]:
    """What this Numba wants device addresses in."""
    if getattr(driver, "USE_NV_BINDING", True):
        of_driver: Callable[[int], Any] = driver.binding.CUdeviceptr
        return of_driver
    return ctypes.c_uint64  # the ctypes binding of the target that is part of Numba


class PointerOperations:
    """A MemoryPointer whose block goes back when the object goes.

    Numba ties the life of a MemoryPointer's memory to the object (an AutoFreePointer's to
    a count, which to_device() takes to zero on its way). So it is enough to own the block.
    """

    _block: Any

    def free(self) -> None:
        if not self._block.release():
            raise RuntimeError("Freeing dead memory")


def finalizer(block: Any, allocations: dict[int, Any], key: int) -> Callable[[], None]:
    """Give a host or managed block back, and forget it."""

    def finalize() -> None:
        allocations.pop(key, None)
        block.release()

    return finalize


# --- handles for other processes -------------------------------------------------------
#
# Numba's IpcHandle reads and writes CUipcMemHandle.reserved, which cuda-bindings has no
# more since 13.4: there Numba's own handles cannot be pickled. Tarn's can, with either.

_HANDLE_BYTES = 64


def words_of(handle: Any) -> bytes:
    return ctypes.string_at(handle.getPtr(), _HANDLE_BYTES)


def _set_words(handle: Any, words: bytes) -> None:
    ctypes.memmove(handle.getPtr(), bytes(words), _HANDLE_BYTES)


def ipc_handle(
    driver: Any, base: Any, words: bytes, size: int, source: Any, offset: int
) -> Any:
    """Numba's IpcHandle over 64 bytes; `base` is the exporter's memory, or None."""
    raw_class, handle_class = _ipc_classes(driver)
    raw = raw_class()
    raw.reserved = words
    return handle_class(base, raw, size, source, offset)


def _rebuild_ipc(
    driver_name: str, words: bytes, size: int, source: Any, offset: int
) -> Any:
    """For pickle: a handle that another process exported."""
    driver = importlib.import_module(driver_name)
    return ipc_handle(driver, None, words, size, source, offset)


def _reduce_ipc(self: Any) -> Any:
    words = (self._driver.__name__, self.handle.reserved, self.size)
    return _rebuild_ipc, (*words, self.source_info, self.offset)


@functools.lru_cache(maxsize=None)
def _ipc_classes(driver: Any) -> tuple[type, type]:
    """The driver's handle with its bytes in reach, and Numba's object around one."""
    raw = type(
        "TarnIpcMemHandle",
        (driver.binding.CUipcMemHandle,),
        {"__module__": __name__, "reserved": property(words_of, _set_words)},
    )
    members = {"__module__": __name__, "__reduce__": _reduce_ipc, "_driver": driver}
    return raw, type("TarnIpcHandle", (driver.IpcHandle,), members)
