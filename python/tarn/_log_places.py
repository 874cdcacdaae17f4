"""Whose frames the Location of a row passes over: Tarn's, Numba's, and what lies between
them and a program.

The rows are made in C. log_site.c walks the stack; this module names the files to skip.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib.util
import os
import weakref

from . import _tarn

_PACKAGES = (
    "tarn", "numba", "numba_cuda", "numba_cuda_mlir", "cuda.core", "cuda.bindings"
)  # fmt: skip


def _folders(package: str) -> list[str]:
    """Where the code of a package lies; the package itself is not imported."""
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError, AttributeError):  # it, or what it is in, is not there
        return []
    return [os.path.join(path, "") for path in (spec and spec.submodule_search_locations) or ()]


def know() -> None:
    """Name the files that the walk of the stack skips, and have collections noted.
    Costs a millisecond the first time; the answer is the same in all of a process."""
    if _tarn.log_collecting in gc.callbacks:
        return
    folders = [folder for package in _PACKAGES for folder in _folders(package)]
    files = [module.__file__ for module in (contextlib, functools, weakref) if module.__file__]
    _tarn.log_internal(folders + files)
    gc.callbacks.append(_tarn.log_collecting)
