"""Calls tarn.use() in each Python process that `tarn run` starts.

`tarn.pth` imports this module if TARN_USE names frameworks, or is `all`. The module is not in the
package, because importing Tarn takes 0.1 s. Only processes that import a framework import Tarn.

PYTEST_DONT_REWRITE: pytest would warn that it cannot rewrite a module that is imported already.
"""

from __future__ import annotations

import atexit
import importlib.abc
import importlib.machinery
import os
import resource
import sys
import threading
from collections.abc import Sequence
from types import ModuleType

FRAMEWORKS = ("numba", "numba_cuda_mlir", "cupy", "torch", "cuda.core", "warp")  # as tarn.use()


class _Finder(importlib.abc.MetaPathFinder):
    """Calls tarn.use() before the first import of a framework; it finds nothing itself."""

    def __init__(self, frameworks: list[str] | None) -> None:
        self._frameworks = frameworks
        self._lock = threading.RLock()
        self._is_done = False

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return what the finders after this one find, with that of tarn.use()."""
        if self._is_done or fullname not in (self._frameworks or FRAMEWORKS):
            return None
        with self._lock:  # another thread imports its framework after the call
            if not self._is_done:
                import tarn

                tarn.use(frameworks=self._frameworks)
                self._is_done = True
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            spec: importlib.machinery.ModuleSpec | None = None
            if finder is not self and find is not None:
                spec = find(fullname, path, target)
            if spec is not None:
                return spec
        return None


def _end() -> None:
    """Mark the beginning of the interpreter's exit in the log, and report."""
    native = sys.modules.get("tarn._tarn")
    if native is not None:
        native.log_exiting()
    if os.environ.get("TARN_RUN_PID") == str(os.getpid()):
        _report(native is not None)


def _report(used_tarn: bool) -> None:
    """Print why the program of `tarn run` allocated no memory from Tarn, if that is so.

    Nothing large is imported here: `eval` of a text, as in namedtuple(), would have a program that
    Ctrl-C ended exit with 1.
    """
    log = os.environ.get("TARN_LOG")
    reason: str | None = "the program imported no framework that Tarn serves"
    if used_tarn:
        from tarn import _run

        reason = _run.why_nothing_came()
    elif not log and resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss > 0:
        return  # its children may have allocated, such as the workers of pytest-xdist
    if reason is None:
        return
    children = _logs_of_children(log) if log else []
    if children:
        reason += f"; the logs of its child processes are {', '.join(children)}"
    print(f"tarn run: Tarn allocated no memory: {reason}", file=sys.stderr)


def _logs_of_children(log: str) -> list[str]:
    """Return the files LOG.PID that exist."""
    folder, name = os.path.split(log)
    found = [file for file in os.listdir(folder or ".") if file.startswith(f"{name}.")]
    return sorted(os.path.join(folder, file) for file in found if file[len(name) + 1 :].isdigit())


def start() -> None:
    """Prepare this process. The handler of atexit is the earliest, and so runs last.

    A Python with the folders lib and lib64 reads `tarn.pth` twice.
    """
    if any(isinstance(finder, _Finder) for finder in sys.meta_path):
        return
    names = os.environ["TARN_USE"]
    frameworks = None if names == "all" else names.split(",")
    sys.meta_path.insert(0, _Finder(frameworks))
    atexit.register(_end)
