"""Classes that are Numba's and Tarn's at once: errors and pointers."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from . import _tarn
from ._numba_target import Target, target_of_driver

# --- errors ----------------------------------------------------------------------------


def _rebuild_error(driver_name: str, kind: str, words: str, code: int, status: int) -> Any:
    """For pickle: create such an error of another process."""
    target = target_of_driver(driver_name)
    return _numba_error(target, getattr(_tarn, kind), words, code, status)


class _ErrorOperations:
    """The methods of errors that are Tarn's and Numba's at once."""

    def __reduce__(self) -> Any:
        error: Any = self
        kind = error._tarn_class.__name__
        name = error._target.name
        return _rebuild_error, (name, kind, error.words, int(error.code), error.status)

    def __str__(self) -> str:
        error: Any = self
        return f"[{int(error.code)}] {error.msg}"


@functools.cache
def _error_class(target: Target, tarn_class: type) -> type:
    """Create a class that programs catch as Tarn's error and as Numba's CudaAPIError."""
    members = {"_target": target, "_tarn_class": tarn_class, "__module__": "tarn.numba"}
    bases = (_ErrorOperations, tarn_class, target.driver.CudaAPIError)
    return type(tarn_class.__name__, bases, members)


def _numba_error(target: Target, kind: type, words: str, number: int, status: int) -> Any:
    """Create an error of both kinds from a CUresult and a message."""
    code = target.result(number)
    error: Any = _error_class(target, kind)(code, words)
    error.code, error.native, error.status, error.words = code, number, status, words
    error.msg = f"Call to tarn results in {target.result_name(number)}: {words}"
    error.args = (code, error.msg)
    return error


def as_numba_error(target: Target, error: Any) -> Any:
    """Return the same failure for a program that catches Numba's errors.

    Errors that did not come from a driver, and would not with Numba's own manager, are returned
    unchanged.
    """
    if isinstance(error, MemoryError):
        words = str(error) or type(error).__name__
        return _numba_error(target, _tarn.OutOfMemoryError, words, 2, _OUT_OF_MEMORY)
    if not error.native:
        return error
    kind = next(c for c in type(error).__mro__ if c.__name__ in _TARN_ERRORS)
    return _numba_error(target, kind, str(error), error.native, error.status)


_OUT_OF_MEMORY = 1  # the tarn_status
_TARN_ERRORS = (
    "OutOfMemoryError",
    "InvalidArgumentError",
    "NotSupportedError",
    "NoDriverError",
    "TarnError",
)


# --- memory ----------------------------------------------------------------------------


@functools.cache
def pointer_class(target: Target) -> Any:
    """Create the MemoryPointer class of one Numba; the block is freed with the object.

    Numba ties the life of a MemoryPointer's memory to the object. It ties that of an
    AutoFreePointer to a count, which to_device() reduces to zero before it returns.
    """
    numbas = target.cuda.MemoryPointer
    members = {
        "__module__": "tarn.numba",
        "__doc__": "Memory that Numba's arrays hold; Tarn's.",
        "_as_address": staticmethod(target.as_address),
        "view": numbas.view,  # and not that of Tarn's Pointer
    }
    return type("TarnMemoryPointer", (_tarn.MemoryPointer, numbas), members)


def finalizer(block: Any, allocations: dict[int, Any], key: int) -> Callable[[], None]:
    """Return a function that frees a host or managed block and removes it from `allocations`."""

    def finalize() -> None:
        allocations.pop(key, None)
        block.release()

    return finalize
