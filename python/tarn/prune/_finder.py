"""Installs the pruner in a process that inherited TARN_PRUNE, when Numba is imported.

`tarn.pth` imports this module where TARN_PRUNE is set: in a spawned process, in the server
of a `forkserver` and in what the server forks. A finder before all others waits for the module
that the pruner changes, and installs the pruner when that module has been loaded.
"""

from __future__ import annotations

import importlib.abc
import importlib.util
import os
import sys
import warnings
from types import ModuleType
from typing import Any

import tarn
from tarn.prune._library import MODES

NAME = "numba.core.codegen"
VARIABLE = "TARN_PRUNE"  # a mode: processes that start with it prune in that mode


class _Loader(importlib.abc.Loader):
    """Loads the module as its own loader does, and then installs the pruner."""

    def __init__(self, original: Any, mode: str):
        self._original = original
        self._mode = mode

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)

    def create_module(self, spec: Any) -> ModuleType | None:
        """Create the module as its own loader does."""
        module: ModuleType | None = self._original.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Run the module, and install the pruner; warn if it cannot be installed."""
        self._original.exec_module(module)
        from tarn.prune import _numba

        try:
            _numba.install(self._mode)
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
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, self._mode)
        return spec


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
