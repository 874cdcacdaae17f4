"""The log of a process: what it covers, its file, and its end.

The extension writes the rows (log.c). TARN_LOG requests rows for all memory under Tarn: that of
Numba's manager and that of all resources (log_observer.c). A block that passes through several
resources has one row. This module reads the environment and chooses the name of the file.
"""

from __future__ import annotations

import atexit
import os
import sys
import warnings
from typing import Any

from . import _log_places, _tarn

_NBEP7, _BINARY = 0, 2  # of tarn_trace_format
_FORMATS = {"csv": _NBEP7, "binary": _BINARY}
_DEPTH_MAX = 128
_RING_MIN = 1 << 20
_DIGITS_MAX = 20

_process: int | None = None  # process of this log; a forked child is another
_is_registered = False  # an atexit handler; a forked child inherits it
_depth = 1  # of the call stacks
is_covering_all = False  # rows for all resources, and for every manager


def _first_process() -> int:
    """Return the process that uses the log's own name.

    It is no child of multiprocessing, though such a child may call this first: its siblings would
    take the same file.
    """
    multiprocessing = sys.modules.get("multiprocessing.process")
    parent: Any = multiprocessing.parent_process() if multiprocessing else None
    return parent.pid if parent else os.getpid()


def _number(name: str, least: int, most: int, default: int) -> int:
    """Return a whole number of the environment; a warning replaces a wrong one."""
    text = os.environ.get(name) or str(default)
    # int() refuses thousands of digits
    if len(text) <= _DIGITS_MAX and text.isdecimal() and least <= int(text) <= most:
        return int(text)
    warnings.warn(f"tarn: {name}={text} is ignored: it has to be {least} to {most}", stacklevel=2)
    return default


def _format_of(path: str) -> int:
    """Return the format of a file: that of TARN_LOG_FORMAT, else by its suffix."""
    name = os.environ.get("TARN_LOG_FORMAT") or ("csv" if path.endswith(".csv") else "binary")
    if name in _FORMATS:
        return _FORMATS[name]
    known = ", ".join(_FORMATS)
    warnings.warn(f"tarn: TARN_LOG_FORMAT={name} is ignored: the formats are {known}", stacklevel=2)
    return _NBEP7


def _ring_bytes() -> int:
    """Return the size of the ring that the environment requests; 0: the log is complete."""
    text = os.environ.get("TARN_LOG_RING") or None
    from . import mr

    try:
        count = mr._bytes_of(text)
    except ValueError:
        count = -1
    if text and count < _RING_MIN:
        warnings.warn(f"tarn: TARN_LOG_RING={text} is ignored: it has to be a size of 1MiB or more",
                      stacklevel=2)  # fmt: skip
        return 0
    return count


def _register_end() -> None:
    """Mark the beginning of the interpreter's exit, once.

    The earliest handler of atexit runs last. So the blocks that the program frees in its own
    handlers are not those that only the exit frees. Under `tarn run` the handler of _tarn_start
    is the earliest.
    """
    global _is_registered
    if not _is_registered and "_tarn_start" not in sys.modules:
        atexit.register(_tarn.log_exiting)
    _is_registered = True


def cover_all(depth: int) -> None:
    """Begin rows for all memory under Tarn, with call stacks of `depth` frames or more."""
    global _depth, is_covering_all
    if is_covering_all and depth <= _depth:
        return
    _log_places.know()
    _tarn.log_observe()
    _depth = max(depth, _depth)
    _tarn.log_set_depth(_depth)
    is_covering_all = True
    numba: Any = sys.modules.get("tarn.numba")
    if numba is not None:
        numba._log_all()


def begin() -> None:
    """Begin the log that the environment requests, for a process that imports tarn."""
    path = os.environ.get("TARN_LOG")
    if not path:
        return
    if "TARN_LOG_PID" not in os.environ:  # so that children do not take the same file
        try:
            path = os.path.abspath(path)
        except OSError as error:  # the current directory was removed
            warnings.warn(f"tarn: TARN_LOG={path} is ignored: {error}", stacklevel=2)
            return
        os.environ["TARN_LOG_PID"] = str(_first_process())
        os.environ["TARN_LOG"] = path
    owner = _number("TARN_LOG_PID", 0, 2**31, 0)
    form, depth, ring = _format_of(path), _number("TARN_LOG_STACKS", 1, _DEPTH_MAX, 1), 0
    if form == _BINARY:
        ring = _ring_bytes()
    else:  # a row of text has no call stack
        depth = 1
    _tarn.log_set_file(path, owner, form, depth if form == _BINARY else 0, ring)
    _register_end()
    try:
        cover_all(depth)
    except _tarn.TarnError as error:
        warnings.warn(f"tarn: TARN_LOG has the rows of Numba alone: {error}", stacklevel=2)


def set_up() -> None:
    """Prepare the log of this process for Numba's manager, unless it is prepared.

    A file that cannot be written is reported here, at Numba's first use.
    """
    global _process
    if _process == os.getpid():
        return
    _log_places.know()
    _tarn.log_open_file()
    _register_end()
    _process = os.getpid()
