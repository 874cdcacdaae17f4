"""The log of a process that tarn.numba serves: its file, its name in children, its end.

The rows are made in C (log.c); here is decided when the log begins, whose frames it passes
over, and which file a process may write to.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import os
import sys
import weakref
from typing import Any

from . import _tarn

_process: int | None = None  # whose log is set up; a forked child is another


def _internal_paths(driver: Any) -> list[str]:
    """Where code lives that stands between a user's program and an allocation."""
    names = ("numba", "numba_cuda", "numba_cuda_mlir", "cuda.core", "cuda.bindings")
    modules = [sys.modules[name] for name in (*names, __package__) if name in sys.modules]
    folders = [path for module in modules for path in getattr(module, "__path__", ())]
    folders.append(os.path.dirname(os.path.dirname(driver.__file__)))
    return [os.path.join(folder, "") for folder in folders] + [
        module.__file__ for module in (contextlib, functools, weakref) if module.__file__
    ]


def _first_process() -> str:
    """The process that the log's own name is for. A child that multiprocessing made is not
    it, though it may be the first one to ask: its siblings would take the same file."""
    multiprocessing = sys.modules.get("multiprocessing.process")
    parent: Any = multiprocessing.parent_process() if multiprocessing else None
    return str(parent.pid if parent else os.getpid())


def _open_file() -> None:
    """Open the file that TARN_LOG asks for, under the name that this process may use."""
    path = os.environ.get("TARN_LOG")
    if not path:
        return
    process = str(os.getpid())
    if "TARN_LOG_PID" not in os.environ:  # so that children do not take the same file
        os.environ["TARN_LOG_PID"] = _first_process()
        os.environ["TARN_LOG"] = path = os.path.abspath(path)
    is_child = os.environ["TARN_LOG_PID"] != process
    # A pool ends its workers with a signal, at which nothing could still be written.
    _tarn.log_open(f"{path}.{process}" if is_child else path, each_row=is_child)
    if "multiprocessing.util" in sys.modules:  # forked children end with os._exit()
        sys.modules["multiprocessing.util"].Finalize(None, _flush, exitpriority=-1000)


def _flush() -> None:
    """A log that ends early has to say so: it looks like a whole one."""
    try:
        _tarn.log_flush()
    except _tarn.TarnError as error:
        print(f"tarn.numba: the log is not whole: {error}", file=sys.stderr)


def _begin_exit() -> None:
    _tarn.log_exiting()
    _flush()


def set_up(driver: Any) -> None:
    """Begin the log of this process, unless it has begun. `driver` is Numba's module."""
    global _process
    if _process == os.getpid():
        return
    _tarn.log_internal(_internal_paths(driver))
    _open_file()
    if _tarn.log_collecting not in gc.callbacks:
        gc.callbacks.append(_tarn.log_collecting)
        atexit.register(_begin_exit)
    _process = os.getpid()
