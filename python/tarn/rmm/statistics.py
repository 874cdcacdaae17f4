"""The memory that a program or a part of it allocates, counted by the current device resource.

Statistics are enabled while the current device resource is a tarn.mr.StatisticsResourceAdaptor.
Where they are not, the functions return None and a profiler records nothing.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any, ClassVar, TypeVar, cast

from tarn.mr import (
    Statistics,
    StatisticsResourceAdaptor,
    get_current_device_resource,
    set_current_device_resource,
)

__all__ = [
    "ProfilerContext",
    "ProfilerRecords",
    "Statistics",
    "default_profiler_records",
    "enable_statistics",
    "get_statistics",
    "pop_statistics",
    "profiler",
    "push_statistics",
    "statistics",
]

_Function = TypeVar("_Function", bound=Callable[..., Any])


def _counter() -> StatisticsResourceAdaptor | None:
    """Return the current device resource, if it counts."""
    found = get_current_device_resource()
    return found if isinstance(found, StatisticsResourceAdaptor) else None


def enable_statistics() -> None:
    """Put a StatisticsResourceAdaptor over the current device resource, if it is none."""
    if _counter() is None:
        set_current_device_resource(StatisticsResourceAdaptor(get_current_device_resource()))


def get_statistics() -> Statistics | None:
    """Return the counts of the topmost set; None if statistics are not enabled."""
    counter = _counter()
    return counter.allocation_counts if counter else None


def push_statistics() -> Statistics | None:
    """Begin a new set of counts, and return the counts of the one before.

    Returns
    -------
    Statistics or None
        None if statistics are not enabled.
    """
    counter = _counter()
    return counter.push_counters() if counter else None


def pop_statistics() -> Statistics | None:
    """End the topmost set of counts, and return its counts.

    Returns
    -------
    Statistics or None
        None if statistics are not enabled.

    Raises
    ------
    IndexError
        Only the lowest set is left.
    """
    counter = _counter()
    return counter.pop_counters() if counter else None


@contextlib.contextmanager
def statistics() -> Iterator[None]:
    """Count the allocations within a with statement, in a set of counts of its own.

    If statistics are not enabled, they are for the length of the statement.

    Raises
    ------
    ValueError
        The current device resource is another one at the end of the statement.
    """
    before = None if push_statistics() is not None else get_current_device_resource()
    if before is not None:
        enable_statistics()
    counter = get_current_device_resource()
    try:
        yield
    finally:
        if get_current_device_resource() is not counter:
            raise ValueError("the current device resource was changed within statistics()")
        if before is None:
            pop_statistics()
        else:
            set_current_device_resource(before)


class ProfilerRecords:
    """The memory of functions and code blocks by name, as profilers record it.

    All methods may be called from any thread.
    """

    @dataclass
    class MemoryRecord:
        """The memory of all calls of one function or code block.

        Attributes
        ----------
        num_calls : int
            Number of calls.
        memory_total : int
            Sum of the bytes of all allocations.
        memory_peak : int
            The most bytes that were live at once in a call.
        """

        num_calls: int = 0
        memory_total: int = 0
        memory_peak: int = 0

        def add(self, memory_total: int, memory_peak: int) -> None:
            """Add one call.

            Parameters
            ----------
            memory_total : int
                Bytes of all its allocations.
            memory_peak : int
                The most bytes that were live at once.
            """
            self.num_calls += 1
            self.memory_total += memory_total
            self.memory_peak = max(self.memory_peak, memory_peak)

    _LEGEND: ClassVar[tuple[tuple[str, str], ...]] = (
        ("ncalls", "number of times the function or code block was called"),
        ("memory_peak", "peak memory allocated in function or code block (in bytes)"),
        ("memory_total", "total memory allocated in function or code block (in bytes)"),
    )

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._records: dict[str, ProfilerRecords.MemoryRecord] = {}

    def add(self, name: str, data: Statistics) -> None:
        """Add one call.

        Parameters
        ----------
        name : str
            Name of the function or code block.
        data : Statistics
            The counts of the call.
        """
        with self._lock:
            record = self._records.setdefault(name, ProfilerRecords.MemoryRecord())
            record.add(memory_total=data.total_bytes, memory_peak=data.peak_bytes)

    @property
    def records(self) -> dict[str, ProfilerRecords.MemoryRecord]:
        """The records by name, as a new dict."""
        with self._lock:
            return dict(self._records)

    def report(self, ordered_by: str = "memory_peak") -> str:
        """Return a table of all records.

        Parameters
        ----------
        ordered_by : {"num_calls", "memory_peak", "memory_total"}
            The column by which the rows are sorted, the largest first.
        """
        rows = sorted(
            self.records.items(), key=lambda row: getattr(row[1], ordered_by), reverse=True
        )
        lines = ["Memory Profiling", "================", ""]
        if not rows:
            return "\n".join([*lines, "No data, maybe profiling wasn't enabled?"])
        lines.append("Legends:")
        lines.extend(f"  {name:<12} - {meaning}" for name, meaning in self._LEGEND)
        lines += ["", f"Ordered by: {ordered_by}", ""]
        lines.append("ncalls     memory_peak    memory_total  filename:lineno(function)")
        for name, row in rows:
            lines.append(
                f"{row.num_calls:6,d} {row.memory_peak:15,d} {row.memory_total:15,d}  {name}"
            )
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.records})"

    def __str__(self) -> str:
        return self.report()


default_profiler_records = ProfilerRecords()


def _get_descriptive_name_of_object(obj: Any) -> str:
    """Return `file:line(name)` of a function, which may be decorated."""
    innermost: Any = inspect.unwrap(obj)
    _, line = inspect.getsourcelines(innermost)
    return f"{inspect.getfile(innermost)}:{line}({innermost.__qualname__})"


class ProfilerContext:
    """Record the memory of a with statement, or of each call of a decorated function.

    It records nothing while statistics are not enabled.

    Parameters
    ----------
    records : ProfilerRecords
        Where the memory is recorded.
    name : str
        Name of the record. A with statement needs one. "" in a decorator: file, line and name of
        the function.
    """

    def __init__(self, records: ProfilerRecords, name: str) -> None:
        self._records = records
        self._name = name

    def __call__(self, func: _Function) -> _Function:
        """Return a function that calls `func` and records the memory of the call."""
        name = self._name or _get_descriptive_name_of_object(func)

        @functools.wraps(func)
        def profiled(*args: Any, **kwargs: Any) -> Any:
            push_statistics()
            try:
                return func(*args, **kwargs)
            finally:
                self._end(name)

        return cast(_Function, profiled)

    def __enter__(self) -> ProfilerContext:
        if not self._name:
            raise ValueError("a profiler needs a name when it is used in a with statement")
        push_statistics()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._end(self._name)

    def _end(self, name: str) -> None:
        """Record the topmost set of counts, if there is one."""
        found = pop_statistics()
        if found is not None:
            self._records.add(name=name, data=found)


def profiler(
    *, records: ProfilerRecords = default_profiler_records, name: str = ""
) -> ProfilerContext:
    """Return a profiler, for a with statement or as a decorator.

    Parameters
    ----------
    records : ProfilerRecords
        Where the memory is recorded.
    name : str
        As in ProfilerContext.
    """
    return ProfilerContext(records, name)
