"""Replaces Numba's runtime with Tarn's, under one module name.

Numba's compiled code reaches its runtime through the module
`numba.core.runtime._nrt_python` alone. A finder before all others finds Tarn's extension for
that name and for no other, so no file of Numba is changed.

A child process gets the finder from `tarn.pth`, which imports this module where
TARN_NRT is set. Nothing else is imported until Numba is.
"""

from __future__ import annotations

import atexit
import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
from types import ModuleType
from typing import Any

NAME = "numba.core.runtime._nrt_python"
# "1": processes that start with it run Numba on Tarn; "single": with threads="single", too
VARIABLE = "TARN_NRT"


def extension_path() -> str:
    """Return the file of Tarn's `_nrt_python`, which lies beside the package's modules."""
    folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    for suffix in importlib.machinery.EXTENSION_SUFFIXES:
        path = os.path.join(folder, "_nrt_python" + suffix)
        if os.path.exists(path):
            return path
    raise ImportError(f"tarn.nrt: cannot find _nrt_python in {folder}")


class Loader(importlib.machinery.ExtensionFileLoader):
    """Loads the extension; from then on tracemalloc sees every block."""

    def exec_module(self, module: Any) -> None:
        """Load the module, and keep the allocator that the program has chosen."""
        from tarn.nrt import _sites, _tracing

        super().exec_module(module)
        atexit.register(_sites.keep_names)
        original = module.memsys_use_cpython_allocator
        module.memsys_use_cpython_allocator = (  # Numba's import calls it
            lambda: None if _State.allocator_chosen else original()
        )
        if _counts_without_a_switch():
            module.memsys_enable_stats()
        _tracing.follow()


def _counts_without_a_switch() -> bool:
    """Return True for a Numba before 0.57, whose statistics are always on."""
    words = getattr(sys.modules.get("numba"), "__version__", "").split(".")
    return words[0] == "0" and len(words) > 1 and words[1].isdigit() and int(words[1]) < 57


class Finder(importlib.abc.MetaPathFinder):
    """Finds Tarn's extension under Numba's name."""

    def find_spec(self, name: str, path: Any = None, target: ModuleType | None = None) -> Any:
        """Return the specification of the extension for Numba's name; None for all others."""
        if name != NAME:
            return None
        file = extension_path()
        return importlib.util.spec_from_file_location(name, file, loader=Loader(name, file))


class _State:
    """Whether the program has chosen an allocator."""

    allocator_chosen = False


def keep_allocator(chosen: bool) -> None:
    """Keep the allocator that the program has chosen when Numba is imported."""
    _State.allocator_chosen = chosen


def is_ours(module: ModuleType) -> bool:
    """Return True if Numba's runtime module is Tarn's."""
    return hasattr(module, "tarn_version")


def in_place() -> bool:
    """Return True if Numba runs on Tarn's runtime now, or will after its import."""
    loaded = sys.modules.get(NAME)
    if loaded is not None:
        return is_ours(loaded)
    return any(isinstance(finder, Finder) for finder in sys.meta_path)


def put_in_place() -> None:
    """Put the finder first, once; RuntimeError where Numba has its own runtime already."""
    loaded = sys.modules.get(NAME)
    if loaded is not None and not is_ours(loaded):
        raise RuntimeError(
            "tarn.nrt: too late, Numba has loaded its own runtime "
            f"({getattr(loaded, '__file__', '?')}): install before the first import of numba"
        )
    if not any(isinstance(finder, Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, Finder())


def start() -> None:
    """Act as the hook of `tarn.pth` in each process, where TARN_NRT is 1."""
    wish = os.environ.get(VARIABLE, "")
    if wish in ("", "0"):
        return
    if wish not in ("1", "single"):
        raise ValueError(f"tarn.nrt: {VARIABLE} has to be 0, 1 or single, not {wish!r}")
    if wish == "single":
        from tarn.nrt import _threads

        _threads.put_in_place(wish)
    put_in_place()
