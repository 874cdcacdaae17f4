"""Installs the pruner in a process that inherited TARN_PRUNE, when Numba is imported.

`tarn.pth` imports this module where TARN_PRUNE is set: in a spawned process, in the server
of a `forkserver` and in what the server forks. A finder before all others waits for the module
that the pruner changes, and installs the pruner when that module has been loaded.
"""

from __future__ import annotations

import importlib.abc
import os
import sys
import warnings
from types import ModuleType
from typing import Any

import tarn
from tarn import _loaders
from tarn.prune._library import MODES

NAME = "numba.core.codegen"
VARIABLE = "TARN_PRUNE"  # a mode: processes that start with it prune in that mode


def _install(mode: str) -> None:
    """Install the pruner; warn if it cannot be installed."""
    from tarn.prune import _numba

    try:
        _numba.install(mode)
    except tarn.NotSupportedError as error:
        warnings.warn(f"tarn.prune: not installed: {error}", RuntimeWarning, stacklevel=2)


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the module that the pruner changes, once."""

    def __init__(self, mode: str):
        self._mode = mode

    def find_spec(self, name: str, path: Any = None, target: ModuleType | None = None) -> Any:
        """Return the specification of the module with another loader; None for all others."""
        if name != NAME:
            return None
        sys.meta_path.remove(self)
        return _loaders.spec_then(name, lambda module: _install(self._mode))


def start() -> None:
    """Act as the hook of `tarn.pth` in each process, where TARN_PRUNE is a mode."""
    mode = os.environ.get(VARIABLE, "")
    if mode in ("", "0"):
        return
    if mode not in MODES:
        raise ValueError(
            f"tarn.prune: {VARIABLE} has to be 0 or one of {', '.join(MODES)}, not {mode!r}"
        )
    if NAME not in sys.modules:
        sys.meta_path.insert(0, _Finder(mode))
