"""Tarn's errors as a framework's own: an exception that a program of either catches."""

from __future__ import annotations

import functools
from typing import Any

from tarn import _tarn

_KINDS = (
    _tarn.OutOfMemoryError,
    _tarn.InvalidArgumentError,
    _tarn.NotSupportedError,
    _tarn.NoDriverError,
    _tarn.TarnError,
)


def own_error(error: Exception, base: type[Exception], **attributes: Any) -> Exception:
    """Return the failure `error` as an exception of Tarn's class and of the framework's `base`.

    Parameters
    ----------
    error : TarnError or MemoryError
        The failure. A MemoryError that is not Tarn's becomes an OutOfMemoryError.
    base : type
        A class of exceptions of the framework.
    **attributes
        Attributes that the framework's exceptions have; they replace Tarn's of the same name.
    """
    kind = next((k for k in _KINDS if isinstance(error, k)), _tarn.OutOfMemoryError)
    state = {
        "status": getattr(error, "status", 1),
        "native": getattr(error, "native", 2),
        **attributes,
    }
    return _make(kind, base, str(error) or type(error).__name__, state)


def _make(kind: Any, base: Any, text: str, state: dict[str, Any]) -> Exception:
    """Create an exception of both classes; pickle calls it, too."""
    both = _class_of(kind, base)
    made: Exception = both.__new__(both, text)
    made.__dict__.update(state)
    return made


@functools.cache
def _class_of(kind: Any, base: Any) -> Any:
    """Return the class with both bases. It has no __init__ of the framework's."""

    def reduce(self: Exception) -> tuple[Any, ...]:
        return _make, (kind, base, self.args[0], dict(self.__dict__))

    members = {
        "__module__": kind.__module__,
        "__doc__": kind.__doc__,
        "__init__": lambda self, *args: None,
        "__str__": Exception.__str__,
        "__reduce__": reduce,
    }
    return type(kind)(kind.__name__, (kind, base), members)
