"""Shows every block to tracemalloc while it traces.

Large blocks come from CPython's raw allocator one by one, and tracemalloc sees them. Small
blocks share chunks, and it would see those instead. So they come one by one too while it traces.
tracemalloc has no notification of its start, so its start() and stop() are wrapped.
"""

from __future__ import annotations

import functools
import sys
from typing import Any

from tarn import _tarn

ONE_BY_ONE = 64

_wanted = [0]  # the modes that the program has set


def set_wanted(modes: int) -> None:
    """Set the modes, and add those that tracemalloc needs."""
    _wanted[0] = modes
    _apply()


def _apply() -> None:
    """Set the modes of the runtime for the present state of tracemalloc."""
    import _tracemalloc

    tracing = ONE_BY_ONE if _tracemalloc.is_tracing() else 0
    _tarn.nrt_set_modes(_wanted[0] | tracing)


def _followed(function: Any) -> Any:
    """Return a function that also sets the modes at its end."""

    @functools.wraps(function)
    def wrapper(*arguments: Any, **names: Any) -> Any:
        try:
            return function(*arguments, **names)
        finally:
            _apply()

    wrapper.__tarn_nrt__ = True  # type: ignore[attr-defined]
    return wrapper


def follow() -> None:
    """Follow tracemalloc from now on, whatever code starts it."""
    import _tracemalloc

    if not hasattr(_tracemalloc.start, "__tarn_nrt__"):
        _wanted[0] = _tarn.nrt_modes()
        for name in ("start", "stop"):
            wrapper = _followed(getattr(_tracemalloc, name))
            for module in (_tracemalloc, sys.modules.get("tracemalloc")):
                if module is not None:
                    setattr(module, name, wrapper)
    _apply()
