"""Limits on the GPU memory of a test: a plugin for pytest.

::

    @pytest.mark.limit_gpu_memory("1 GiB")    # at the peak, above what was live before the test
    @pytest.mark.limit_gpu_leaks("0 B")       # left at the end, at each place that allocates

The markers correspond to those of pytest-memray, for GPU memory. All memory under Tarn counts, also
that of the frameworks of tarn.use(). Tarn is imported only if a test has a marker. For that reason
this module is not in the package.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Generator, Iterable
from typing import Any, NamedTuple

import pytest

_MARKERS = (
    "limit_gpu_memory(limit): fail the test if its GPU memory exceeds the limit, such as '1 GiB'",
    "limit_gpu_leaks(location_limit, filter_fn=None, warmups=0): fail the test if more than the "
    "limit is live at its end at one place; filter_fn(stack) returns whether a block counts; "
    "warmups is the number of runs before the one that counts",
)
_NAMES = ("limit_gpu_memory", "limit_gpu_leaks")
_DEPTH = 16
_PLACES_SHOWN = 10


class StackFrame(NamedTuple):
    """A frame of a call stack, with the names of pytest-memray."""

    function: str
    filename: str
    lineno: int


class Stack(NamedTuple):
    """The call stack of an allocation, the innermost frame first."""

    frames: tuple[StackFrame, ...]


class _Place(NamedTuple):
    """The blocks of one call stack."""

    stack: Stack
    bytes: int
    blocks: int


# --- what pytest calls ---


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers."""
    for marker in _MARKERS:
        config.addinivalue_line("markers", marker)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Begin tarn.use() before the first test, if one has a marker: frameworks hold no memory yet."""
    if any(_marks_of(item) for item in session.items):
        _use_tarn()


@pytest.hookimpl(wrapper=True)  # type: ignore[untyped-decorator]
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Measure a test with a marker."""
    marks = _marks_of(item)
    if not marks:
        return (yield)
    limit, leaks = _read(marks)
    _use_tarn()
    _check_managers(marks)
    for _ in range(leaks.warmups if leaks else 0):
        item.runtest()
    measured = _Measured(limit)
    result = yield
    _check_managers(marks)  # the test may have imported a framework
    measured.check(limit, leaks)
    return result


# --- the markers ---


def _marks_of(item: pytest.Item) -> dict[str, pytest.Mark]:
    """Return the closest marker of each name."""
    found = {name: item.get_closest_marker(name) for name in _NAMES}
    return {name: mark for name, mark in found.items() if mark is not None}


class _Leaks(NamedTuple):
    """The arguments of limit_gpu_leaks."""

    location_limit: int
    filter_fn: Callable[[Stack], bool] | None
    warmups: int


def _limit_gpu_memory(limit: int | str) -> int:
    """Return the bytes of a limit."""
    return _bytes_of("limit_gpu_memory", limit)


def _limit_gpu_leaks(
    location_limit: int | str,
    filter_fn: Callable[[Stack], bool] | None = None,
    warmups: int = 0,
) -> _Leaks:
    """Return the arguments, checked."""
    if not isinstance(warmups, int) or warmups < 0:
        raise ValueError(f"warmups is {warmups!r}, it has to be a number from 0 on")
    return _Leaks(_bytes_of("limit_gpu_leaks", location_limit), filter_fn, warmups)


def _read(marks: dict[str, pytest.Mark]) -> tuple[int | None, _Leaks | None]:
    """Return the arguments of the markers; a wrong one fails the test."""
    limit = leaks = None
    for name, mark in marks.items():
        try:
            if name == "limit_gpu_memory":
                limit = _limit_gpu_memory(*mark.args, **mark.kwargs)
            else:
                leaks = _limit_gpu_leaks(*mark.args, **mark.kwargs)
        except (TypeError, ValueError) as error:
            pytest.fail(f"{name}: {error}", pytrace=False)
    return limit, leaks


def _bytes_of(name: str, limit: int | str) -> int:
    """Return a number of bytes, from an int or from a text such as "1 GiB"."""
    from tarn import mr

    if not isinstance(limit, int | str):
        raise TypeError(f"{limit!r} is no number of bytes")
    count = mr._bytes_of(limit)
    if count < 0:
        raise ValueError(f"{limit!r} is less than 0 bytes")
    return count


# --- measuring ---


def _use_tarn() -> None:
    """Have all frameworks allocate from Tarn, and count all of that memory."""
    import tarn
    from tarn import _log

    tarn.use()
    _log.cover_all(_DEPTH)


def _check_managers(marks: Iterable[str]) -> None:
    """Fail or skip a test whose memory is not counted."""
    import tarn
    from tarn import _frameworks, _run

    names = " and ".join(marks)
    tarn.use()
    for name, state in _frameworks.states().items():
        if not state.startswith("skipped") or not _frameworks.may_allocate(name):
            continue
        if "NUMBA_ENABLE_CUDASIM" in state:
            pytest.skip(f"{names}: {name} uses no GPU memory: {state.partition(': ')[2]}")
        _fail_uncounted(names, name, state.partition(": ")[2])
    other = _run.other_manager()
    if other is not None:
        _fail_uncounted(names, "numba", f"the program set another memory manager: {other}")


def _fail_uncounted(marks: str, framework: str, reason: str) -> None:
    """Fail a test: a limit on memory that is not counted would never be exceeded."""
    pytest.fail(
        f"{marks}: the memory of {framework} is not Tarn's, and cannot be counted: {reason}\n"
        "`tarn run pytest` has it under Tarn from the start.",
        pytrace=False,
    )


class _Measured:
    """The memory of one test."""

    def __init__(self, limit: int | None) -> None:
        from tarn import _tarn

        gc.collect()
        self._live_before = _tarn._live_mark(-1 if limit is None else limit)
        self._lost_before = _tarn._live_counts()[2]

    def check(self, limit: int | None, leaks: _Leaks | None) -> None:
        """Fail the test if it exceeded a limit."""
        from tarn import _tarn

        _, peak, lost = _tarn._live_counts()
        over = _tarn._live_over()
        texts = []
        if lost > self._lost_before:
            texts.append("there was no host memory to count all blocks of the test")
        used = peak - self._live_before
        if limit is not None and used > limit:
            texts.append(
                f"limit_gpu_memory: the test used {_text(used)} of GPU memory at its peak, and "
                f"its limit is {_text(limit)}\n\nWhen it first exceeded the limit, these blocks "
                f"of the test were live:\n{_list(_places(over))}"
            )
        if leaks is not None:
            texts += _leak_texts(leaks)
        if texts:
            pytest.fail("\n\n".join(texts), pytrace=False)


def _leak_texts(leaks: _Leaks) -> list[str]:
    """Return the text of a failure for what is live, if that is too much."""
    from tarn import _tarn

    gc.collect()
    if _tarn._live_blocks():  # frees may wait for the device
        _tarn.synchronize()
        _tarn.reclaim_deferred_frees()
        gc.collect()
    places = [
        place
        for place in _places(_tarn._live_blocks())
        if leaks.filter_fn is None or leaks.filter_fn(place.stack)
    ]
    over = [place for place in places if place.bytes > leaks.location_limit]
    if not over:
        return []
    total = sum(place.bytes for place in over)
    number = "1 place" if len(over) == 1 else f"{len(over)} places"
    return [
        f"limit_gpu_leaks: {_text(total)} of GPU memory are live at the end of the test, at "
        f"{number} with more than {_text(leaks.location_limit)}:\n{_list(over)}"
    ]


# --- places ---


def _stack_of(block: tuple[Any, ...]) -> Stack:
    """Return the call stack of a block, without the frames of pytest."""
    from tarn import _tarn

    _, _, _, file, line, stack = block
    frames = [StackFrame(*frame[:3]) for frame in _tarn._stack_frames(stack)]
    for i, frame in enumerate(frames):
        if "/_pytest/" in frame.filename or "/pluggy/" in frame.filename:
            frames = frames[:i]
            break
    return Stack(tuple(frames) or (StackFrame("", file, line),))


def _places(blocks: list[tuple[Any, ...]]) -> list[_Place]:
    """Return the places of blocks, the one with the most bytes first."""
    found: dict[Stack, list[int]] = {}
    for block in blocks:
        counts = found.setdefault(_stack_of(block), [0, 0])
        counts[0] += block[1]
        counts[1] += 1
    places = [_Place(stack, *counts) for stack, counts in found.items()]
    return sorted(places, key=lambda place: place.bytes, reverse=True)


def _list(places: list[_Place]) -> str:
    """Return the places as text, each with its call stack, the innermost frame last."""
    lines = []
    for place in places[:_PLACES_SHOWN]:
        blocks = "1 block" if place.blocks == 1 else f"{place.blocks} blocks"
        lines.append(f"  {_text(place.bytes)} in {blocks}, allocated at")
        for frame in reversed(place.stack.frames):
            where = f", line {frame.lineno}" if frame.lineno > 0 else ""
            function = f", in {frame.function}" if frame.function else ""
            lines.append(f'    File "{frame.filename}"{where}{function}')
    if len(places) > _PLACES_SHOWN:
        rest = sum(place.bytes for place in places[_PLACES_SHOWN:])
        lines.append(f"  {_text(rest)} at {len(places) - _PLACES_SHOWN} more places")
    return "\n".join(lines)


def _text(count: int) -> str:
    """Return bytes as text: "1.50 GiB"."""
    if count < 1024:
        return f"{count} B"
    value, units = count / 1024, ["KiB", "MiB", "GiB", "TiB"]
    while value >= 1024 and len(units) > 1:
        value /= 1024
        del units[0]
    return f"{value:.2f} {units[0]}"
