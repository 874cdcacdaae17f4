"""The command `tarn top`: the pools of running processes on a terminal.

The program `tarn` runs this command as tarn-top. It finds a process that called
tarn.metrics.listen(), or that has TARN_METRICS=1 in its environment. The live view needs the
package textual; `--once` does not.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Sequence
from typing import Any

from tarn._metrics_command import parser_of, read_all
from tarn._top import PoolRow, SiteRow, Watch, curve, rate, sites, size

__all__ = ["main"]

_POOL_COLUMNS = (
    "PID", "dev", "pool", "live", "reserved", "peak", "maximum", "alloc/s", "hits", "failed",
    "calls/s", "command",
)  # fmt: skip
_SITE_COLUMNS = ("PID", "bytes", "blocks", "site")
_NOBODY = (
    "no process of this user listens: set TARN_METRICS=1 for it, or let it call "
    "tarn.metrics.listen()"
)


def _pool_cells(row: PoolRow) -> list[str]:
    """Return the cells of a pool, in the order of the columns."""
    kind = row.resource.removesuffix("MemoryResource")
    hits = "-" if row.hit_share is None else f"{row.hit_share:.0%}"
    return [
        str(row.pid), str(row.device), kind, size(row.live), size(row.reserved), size(row.peak),
        size(row.maximum), rate(row.allocations_per_second), hits, str(row.failures),
        rate(row.driver_calls_per_second), row.command,
    ]  # fmt: skip


def _site_cells(row: SiteRow) -> list[str]:
    """Return the cells of a site, in the order of the columns."""
    return [str(row.pid), size(row.bytes), str(row.blocks), row.location]


def _table(columns: Sequence[str], rows: list[list[str]], width: int) -> list[str]:
    """Return lines of a table; the last column is text, cut from the left at the width."""
    widths = [
        max([len(name), *(len(row[i]) for row in rows)]) for i, name in enumerate(columns[:-1])
    ]
    room = max(20, width - sum(widths) - 2 * len(widths))

    def line(cells: Sequence[str]) -> str:
        last = cells[-1] if len(cells[-1]) <= room else "…" + cells[-1][1 - room :]
        return "  ".join(
            [*(c.rjust(w) for c, w in zip(cells, widths, strict=False)), last]
        ).rstrip()

    return [line(cells) for cells in (columns, *rows)]


def _lines(rows: list[PoolRow], found: list[SiteRow], width: int) -> list[str]:
    """Return what --once prints."""
    lines = _table(_POOL_COLUMNS, [_pool_cells(row) for row in rows], width)
    if found:
        lines += ["", *_table(_SITE_COLUMNS, [_site_cells(row) for row in found], width)]
    return lines


def _once(pids: Sequence[int]) -> int:
    """Print the rows as they are now."""
    figures, problems = read_all(pids)
    for problem in problems:
        print(f"tarn top: {problem}", file=sys.stderr)
    if not figures:
        if not problems:
            print(f"tarn top: {_NOBODY}", file=sys.stderr)
        return 1
    width = shutil.get_terminal_size((120, 24)).columns
    print("\n".join(_lines(Watch().sample(figures), sites(figures), width)))
    return 1 if problems else 0


def _app(pids: Sequence[int], interval: float) -> Any:
    """Return the application; raises ModuleNotFoundError where textual is missing."""
    from textual.app import App, ComposeResult
    from textual.binding import Binding
    from textual.containers import Horizontal, Vertical
    from textual.widgets import DataTable, Footer, Header, Static

    class Top(App):  # type: ignore[misc]
        """Two tables, and the curves of the selected process."""

        TITLE = "tarn top"
        CSS = """
        #pools { height: auto; min-height: 4; max-height: 50%; }
        #sites { height: 1fr; }
        #curves { height: 7; margin: 1 0; }
        .curve { width: 1fr; padding: 0 1; }
        #live, #reserved { height: 5; color: $primary; text-wrap: nowrap; }
        #problem { height: auto; color: $warning; padding: 0 1; }
        """
        BINDINGS = [
            Binding("q", "quit", "Quit"),
            Binding("space", "pause", "Pause"),
            Binding("s", "sort", "Sort by the next column"),
        ]
        SORTS = ("live", "reserved", "allocations_per_second", "pid")

        def __init__(self) -> None:
            super().__init__()
            self.watch, self.paused, self.sort = Watch(), False, 0
            self.rows: list[PoolRow] = []

        def compose(self) -> ComposeResult:
            yield Header()
            yield Static("", id="problem", markup=False)
            yield DataTable(id="pools", cursor_type="row", zebra_stripes=True)
            with Horizontal(id="curves"):
                for name in ("live", "reserved"):
                    with Vertical(classes="curve"):
                        yield Static("", id=f"{name}-text", markup=False)
                        yield Static("", id=name, markup=False)
            yield DataTable(id="sites", cursor_type="none", zebra_stripes=True)
            yield Footer()

        def on_mount(self) -> None:
            self.query_one("#pools", DataTable).add_columns(*_POOL_COLUMNS)
            self.query_one("#sites", DataTable).add_columns(*_SITE_COLUMNS)
            self.query_one("#pools", DataTable).focus()
            self.refresh_figures()
            self.set_interval(interval, self.refresh_figures)

        def refresh_figures(self) -> None:
            """Look again; the reading is on a thread, since a process may answer late."""
            if not self.paused:
                self.run_worker(self._read, thread=True, exclusive=True, group="read")

        def _read(self) -> None:
            try:
                figures, problems = read_all(pids)
            except OSError as error:
                figures, problems = [], [str(error)]
            self.call_from_thread(self.show, figures, problems)

        def show(self, figures: list[dict[str, Any]], problems: list[str]) -> None:
            """Draw the figures of a sample."""
            if self.paused:
                return
            self.rows = self.watch.sample(figures)
            if not figures and not problems:
                problems = [_NOBODY]
            self.query_one("#problem", Static).update("\n".join(problems))
            self._fill("#pools", [_pool_cells(row) for row in self._sorted()])
            self._fill("#sites", [_site_cells(row) for row in sites(figures)])
            self._draw_curves()

        def _sorted(self) -> list[PoolRow]:
            name = self.SORTS[self.sort]
            self.sub_title = f"by {name.replace('_per_second', '/s')}"
            if name == "pid":
                return sorted(self.rows)
            return sorted(self.rows, key=lambda row: -(getattr(row, name) or 0))

        def _fill(self, name: str, rows: list[list[str]]) -> None:
            """Replace the rows of a table; the cursor stays where it is."""
            from rich.text import Text

            table = self.query_one(name, DataTable)
            cursor = table.cursor_row
            table.clear()
            for cells in rows:
                last = Text(cells[-1], no_wrap=True)
                table.add_row(*(Text(cell, justify="right") for cell in cells[:-1]), last)
            if rows:
                table.move_cursor(row=min(cursor, len(rows) - 1))

        def _selected(self) -> PoolRow | None:
            rows = self._sorted()
            at = self.query_one("#pools", DataTable).cursor_row
            return rows[at] if 0 <= at < len(rows) else None

        def on_data_table_row_highlighted(self) -> None:
            """Show the curves of the process beneath the cursor."""
            self._draw_curves()

        def _draw_curves(self) -> None:
            row = self._selected()
            curves = self.watch.history(row.pid) if row else ([], [])
            highest = max([0, *curves[0], *curves[1]])  # both have the same scale
            for name, values in zip(("live", "reserved"), curves, strict=True):
                head = f"{name} of process {row.pid}: at most {size(max(values))}" if row else ""
                self.query_one(f"#{name}-text", Static).update(head)
                bars = self.query_one(f"#{name}", Static)
                bars.update(curve(values, highest, max(1, bars.size.width), 5))

        def action_pause(self) -> None:
            """Stop or go on."""
            self.paused = not self.paused
            self.sub_title = "paused" if self.paused else ""
            self.refresh_figures()

        def action_sort(self) -> None:
            """Sort by the next column."""
            self.sort = (self.sort + 1) % len(self.SORTS)
            self._fill("#pools", [_pool_cells(row) for row in self._sorted()])
            self._draw_curves()

    return Top()


def _parser() -> argparse.ArgumentParser:
    parser = parser_of("top", "Show the pools of running processes.")
    parser.add_argument("--once", action="store_true", help="print the tables once and exit")
    parser.add_argument(
        "--interval",
        type=float,
        default=1.0,
        metavar="SECONDS",
        help="time between refreshes; default 1",
    )
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command, and return its exit code."""
    parser = _parser()
    given = parser.parse_args(arguments)
    if not 0.05 <= given.interval <= 3600:
        parser.error(f"--interval is {given.interval}; it has to be from 0.05 to 3600 seconds")
    if given.once:
        return _once(given.pids)
    try:
        app = _app(given.pids, given.interval)
    except ModuleNotFoundError as error:
        print(
            f"tarn top: the module {error.name} is missing: pip install 'tarn-gpu[top]', or use "
            "tarn top --once",
            file=sys.stderr,
        )
        return 1
    return app.run() or 0
