"""The log of a process that tarn.numba serves: its file, its name in child processes, its end.

The extension writes the rows (log.c). This module decides when the log begins and which file a
process may write to.
"""

from __future__ import annotations

import atexit
import os
import sys
from typing import Any

from . import _log_places, _tarn

_process: int | None = None  # process of this log; a forked child is another
_is_registered = False  # an atexit handler; a forked child inherits it


def _first_process() -> str:
    """Return the id of the process that uses the log's own name.

    It is no child of multiprocessing, though such a child may call this first: its siblings would
    take the same file.
    """
    multiprocessing = sys.modules.get("multiprocessing.process")
    parent: Any = multiprocessing.parent_process() if multiprocessing else None
    return str(parent.pid if parent else os.getpid())


def _open_file() -> None:
    """Open the file of TARN_LOG, under the name that this process may use."""
    path = os.environ.get("TARN_LOG")
    if not path:
        return
    process = str(os.getpid())
    if "TARN_LOG_PID" not in os.environ:  # so that children do not take the same file
        os.environ["TARN_LOG_PID"] = _first_process()
        os.environ["TARN_LOG"] = path = os.path.abspath(path)
    is_child = os.environ["TARN_LOG_PID"] != process
    # A pool ends its workers with a signal; then no row could still be written.
    _tarn.log_open(f"{path}.{process}" if is_child else path, each_row=is_child)


def set_up() -> None:
    """Begin the log of this process, unless it has begun."""
    global _is_registered, _process
    if _process == os.getpid():
        return
    _log_places.know()
    _open_file()
    if not _is_registered:
        atexit.register(_tarn.log_exiting)
    _is_registered, _process = True, os.getpid()
