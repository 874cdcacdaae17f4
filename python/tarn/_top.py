"""The data of `tarn top`: rows of figures of processes, and rates between two samples.

This module draws nothing. top.py shows the rows on a terminal.
"""

from __future__ import annotations

from collections import deque
from typing import Any, NamedTuple

from tarn._openmetrics import dicts

HISTORY = 120  # samples that the curve of a process keeps


class PoolRow(NamedTuple):
    """A pool of a process in one sample. Rates count from the sample before; None: there is none."""

    pid: int
    command: str
    device: int
    resource: str
    live: int
    reserved: int
    peak: int
    maximum: int | None
    allocations_per_second: float | None
    hit_share: float | None
    failures: int
    driver_calls_per_second: float | None


class SiteRow(NamedTuple):
    """An allocation site of a process."""

    pid: int
    location: str
    bytes: int
    blocks: int


def size(count: int | None) -> str:
    """Return bytes as text of at most three digits and a binary unit; None as a dash."""
    if count is None:
        return "-"
    value, units = float(count), ("B", "KiB", "MiB", "GiB", "TiB")
    for unit in units:
        if value < 999.5 or unit == units[-1]:
            break
        value /= 1024
    digits = 0 if unit == "B" or value >= 99.95 else 1 if value >= 9.995 else 2
    return f"{value:.{digits}f} {unit}"


def rate(value: float | None) -> str:
    """Return a rate as text."""
    if value is None:
        return "-"
    if value < 999.5:
        return f"{value:.3g}"
    if value < 999.5e3:
        return f"{value / 1e3:.3g}k"
    return f"{value / 1e6:.3g}M"


def _number(figures: dict[str, Any], key: str) -> int:
    """Return a number that another process sent; 0 for anything else."""
    found = figures.get(key)
    return found if isinstance(found, int) and not isinstance(found, bool) and found >= 0 else 0


def curve(values: list[int], highest: int, width: int, height: int) -> str:
    """Return lines of bars from 0 to `highest`: the latest value is at the right."""
    shown = values[-width:]
    eighths = [
        min(8 * height, round(8 * height * one / highest)) if highest else 0 for one in shown
    ]
    lines = []
    for row in reversed(range(height)):
        cells = (" ▁▂▃▄▅▆▇█"[max(0, min(8, one - 8 * row))] for one in eighths)
        lines.append("".join(cells).rjust(width))
    return "\n".join(lines)


def printable(text: Any) -> str:
    """Return text that another process sent, without control characters."""
    return "".join(c if c.isprintable() else "?" for c in str(text))


class _Process:
    """What is remembered of a process between two samples."""

    def __init__(self) -> None:
        self.time: float | None = None
        self.counters: dict[int, dict[str, int]] = {}
        self.live: deque[int] = deque(maxlen=HISTORY)
        self.reserved: deque[int] = deque(maxlen=HISTORY)


class Watch:
    """Turns the figures of processes into rows; remembers one sample for the rates."""

    def __init__(self) -> None:
        self._known: dict[int, _Process] = {}

    def sample(self, figures: list[dict[str, Any]]) -> list[PoolRow]:
        """Return a row for each pool, by process."""
        pids = {_number(one, "pid") for one in figures}
        self._known = {pid: one for pid, one in self._known.items() if pid in pids}
        return [row for one in figures for row in self._rows(one)]

    def history(self, pid: int) -> tuple[list[int], list[int]]:
        """Return the live and the reserved bytes of a process in the latest samples."""
        known = self._known.get(pid)
        return (list(known.live), list(known.reserved)) if known else ([], [])

    def _rows(self, figures: dict[str, Any]) -> list[PoolRow]:
        """Return the rows of a process, and remember this sample."""
        known = self._known.setdefault(_number(figures, "pid"), _Process())
        now = figures.get("time")
        now = float(now) if isinstance(now, int | float) else None
        seconds = now - known.time if now is not None and known.time is not None else 0.0
        pools = dicts(figures, "pools")
        rows = [
            self._row(figures, pool, known.counters.get(number, {}), seconds)
            for number, pool in enumerate(pools)
        ]
        known.time = now
        known.counters = {
            number: {
                key: _number(pool, key) for key in ("allocations", "cache_hits", "driver_calls")
            }
            for number, pool in enumerate(pools)
        }
        known.live.append(sum(row.live for row in rows))
        known.reserved.append(sum(row.reserved for row in rows))
        return rows

    @staticmethod
    def _row(
        process: dict[str, Any], pool: dict[str, Any], before: dict[str, int], seconds: float
    ) -> PoolRow:
        """Return the row of a pool. A counter below its value before is that of another pool."""

        def gained(key: str) -> int | None:
            count = _number(pool, key) - before.get(key, 0)
            return count if before and seconds > 0 and count >= 0 else None

        allocations, calls, hits = (
            gained("allocations"),
            gained("driver_calls"),
            gained("cache_hits"),
        )
        maximum = pool.get("maximum")
        return PoolRow(
            pid=_number(process, "pid"),
            command=printable(process.get("command", "")),
            device=_number(pool, "device"),
            resource=printable(pool.get("resource", "")),
            live=_number(pool, "live"),
            reserved=_number(pool, "reserved"),
            peak=_number(pool, "peak_allocated"),
            maximum=maximum if isinstance(maximum, int) else None,
            allocations_per_second=None if allocations is None else allocations / seconds,
            hit_share=hits / allocations if allocations and hits is not None else None,
            failures=_number(pool, "failures"),
            driver_calls_per_second=None if calls is None else calls / seconds,
        )


def sites(figures: list[dict[str, Any]]) -> list[SiteRow]:
    """Return a row for each site of the trackers, the most bytes first."""
    rows = [
        SiteRow(
            _number(process, "pid"),
            printable(site.get("location", "")),
            _number(site, "bytes"),
            _number(site, "blocks"),
        )
        for process in figures
        for tracker in dicts(process, "trackers")
        for site in dicts(tracker, "sites")
    ]
    return sorted(rows, key=lambda row: (-row.bytes, row.pid, row.location))
