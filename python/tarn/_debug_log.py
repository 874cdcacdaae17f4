"""The debug log: messages about the program's use of memory, by level.

They go to the file that RMM_DEBUG_LOG_FILE names, else to the standard error. Tarn's warnings
are not part of it (tarn_set_warning_handler() in C).
"""

from __future__ import annotations

import enum
import os
import sys
import threading
import time
from typing import TextIO


class level_enum(enum.IntEnum):
    """The levels of the debug log, from the most to the least detailed.

    Attributes
    ----------
    trace, debug, info, warn, error, critical : int
        0 to 5: the level of a message, and the least one that is written.
    off, n_levels : int
        6 and 7: no message is written.
    """

    trace = 0
    debug = 1
    info = 2
    warn = 3
    error = 4
    critical = 5
    off = 6
    n_levels = 7


_lock = threading.Lock()  # held across a fork: no thread of the parent has it in the child
os.register_at_fork(
    before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release
)
_level = level_enum.info
_flush_level = level_enum.info
_file: TextIO | None = None


def _check(level: level_enum) -> level_enum:
    """Return a level; anything else is a TypeError, as in RMM."""
    if not isinstance(level, level_enum):
        raise TypeError(f"level must be an instance of the level_enum enum, not {level!r}")
    return level


def should_log(level: level_enum) -> bool:
    """Return True if a message of this level is written."""
    return _check(level) >= _level and level < level_enum.off


def set_logging_level(level: level_enum) -> None:
    """Set the least level that is written."""
    global _level
    _level = _check(level)


def get_logging_level() -> level_enum:
    """Return the least level that is written."""
    return _level


def set_flush_level(level: level_enum) -> None:
    """Set the least level whose messages are flushed at once."""
    global _flush_level
    _flush_level = _check(level)


def get_flush_level() -> level_enum:
    """Return the least level whose messages are flushed at once."""
    return _flush_level


def _out() -> TextIO:
    """Return the file of the log; the lock is held."""
    global _file
    name = os.environ.get("RMM_DEBUG_LOG_FILE")
    if name and _file is None:
        _file = open(name, "a", encoding="utf-8")  # noqa: SIM115
    return _file or sys.stderr


def write(level: level_enum, message: str) -> None:
    """Write a message, if its level is written."""
    if not should_log(level):
        return
    seconds, nanoseconds = divmod(time.time_ns(), 10**9)
    now = f"{time.strftime('%H:%M:%S', time.localtime(seconds))}:{nanoseconds // 1000:06}"
    with _lock:
        out = _out()
        out.write(f"[{threading.get_native_id():6}][{now}][{level.name:6}] {message}\n")
        if level >= _flush_level:
            out.flush()


def flush_logger() -> None:
    """Write all buffered messages."""
    with _lock:
        _out().flush()
