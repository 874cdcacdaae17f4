"""Counts the increfs that run, by the rule that kept them.

The pruner puts a counter before each incref that stays in a module that will run. The counters
are in this process, so nothing that is counted may come from a cache on disk or go there.
"""

from __future__ import annotations

import ctypes
import os
import threading
import uuid
from typing import Any, NamedTuple

from tarn.prune import _library
from tarn.prune._library import Kept


class Counted(NamedTuple):
    """Increfs that ran.

    Attributes
    ----------
    kept : Kept
        The incref and the rule that kept it.
    executed : int
        How often it ran with an object.
    """

    kept: Kept
    executed: int


_lock = threading.Lock()
_counters: list[tuple[Kept, Any]] = []  # never removed: code has their addresses
key = f"profile {os.getpid()} {uuid.uuid4()}"  # in the key of Numba's cache


def _add(_: Any, pointer: Any) -> int:
    """Return the address of a counter for an incref."""
    counter = ctypes.c_uint64(0)
    with _lock:
        _counters.append((_library.kept_of(pointer), counter))
    return ctypes.addressof(counter)


counter = _library.Counter(_add)


def read() -> list[Counted]:
    """Return the increfs that ran, the most often executed first."""
    with _lock:
        rows = [Counted(kept, counter.value) for kept, counter in _counters]
    return sorted((row for row in rows if row.executed), key=lambda row: -row.executed)


def table(rows: list[Counted]) -> str:
    """Return the increfs that ran as text: by rule, and the places that run most."""
    total = sum(row.executed for row in rows)
    rules: dict[str, int] = {}
    for row in rows:
        rules[row.kept.message] = rules.get(row.kept.message, 0) + row.executed
    lines = [f"increfs executed: {total}"]
    for message, count in sorted(rules.items(), key=lambda item: -item[1]):
        lines.append(f"{count:14} {100 * count / total:5.1f} %  {message}")
    lines += [f"{row.executed:14}          {row.kept}" for row in rows[:10]]
    return "\n".join(lines)
