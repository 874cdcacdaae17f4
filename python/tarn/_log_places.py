"""The files that the Location of a row skips: Tarn's, the frameworks', and those between.

The extension writes the rows. log_site.c walks the stack; this module names the files to skip.
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
    "tarn", "numba", "numba_cuda", "numba_cuda_mlir", "cuda.core", "cuda.bindings", "cupy",
    "cupyx", "torch", "warp", "rmm",
)  # fmt: skip


def _folders(package: str) -> list[str]:
    """Return the folders of a package's code without importing the package itself."""
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError, AttributeError):  # it, or its parent package, does not exist
        return []
    return [os.path.join(path, "") for path in (spec and spec.submodule_search_locations) or ()]


def know() -> None:
    """Name the files that the walk of the stack skips, and record garbage collections.

    The first call costs a millisecond. The result is the same in all of a process.
    """
    if _tarn.log_collecting in gc.callbacks:
        return
    folders = [folder for package in _PACKAGES for folder in _folders(package)]
    files = [module.__file__ for module in (contextlib, functools, weakref) if module.__file__]
    _tarn.log_internal(folders + files)
    gc.callbacks.append(_tarn.log_collecting)
