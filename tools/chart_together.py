"""The picture of bench/together: device memory over time, on own allocators and on one pool.

tools/chart.py draws it from the newest recorded figures, a list of runs that
bench/together/compare.py has written.
"""

from __future__ import annotations

import json
import pathlib
from typing import Any
from xml.sax.saxutils import escape

FILE = "together.svg"
GIB = 1 << 30

NAMES = {"numba": "Numba", "cupy": "CuPy", "torch": "PyTorch", "cuda.core": "cuda.core"}
COLORS = {"numba": "#54aeff", "cupy": "#4ac26b", "torch": "#ee9a5d", "cuda.core": "#c297ff"}
USED, LIMIT = "#1f2328", "#cf222e"
TEXT, MUTED, LINE = "#1f2328", "#57606a", "#d0d7de"

WIDTH, MARGIN, GAP, AXIS = 800, 20, 24, 30  # pixels
TOP, PLOT = 150, 230
FONT = "-apple-system, 'Segoe UI', 'Noto Sans', Helvetica, Arial, 'DejaVu Sans', sans-serif"


def panels(runs: list[dict[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    """Return heading and run of each panel: own allocators, and Tarn with a limit."""
    own = [run for run in runs if run["allocator"] == "own"]
    limited = [run for run in runs if run["limit"]]
    if not own or not limited:
        raise SystemExit(f"{FILE}: the figures have no run of both kinds")
    return [("Own allocators", own[-1]), ("One pool of Tarn", limited[-1])]


def label(used: int) -> str:
    """Return the text at the end of the line of the driver's memory."""
    return f"{used / GIB:.1f} GiB in use"


def stacked(run: dict[str, Any]) -> list[list[int]]:
    """Return the sums of live bytes up to each library, for each sample."""
    sums = []
    for sample in run["samples"]:
        *live, _used = sample
        sums.append([sum(live[: count + 1]) for count in range(len(live))])
    return sums


def words(x: float, y: float, size: int, text: str, color: str = TEXT, more: str = "") -> str:
    return (
        f'<text x="{x:g}" y="{y:g}" font-size="{size}" fill="{color}"{more}>{escape(text)}</text>'
    )


def path_of(points: list[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)


def panel(heading: str, run: dict[str, Any], left: float, width: float, most: float) -> list[str]:
    """Return the elements of one panel; `most` bytes are its height."""
    bottom = TOP + PLOT
    count = len(run["samples"])
    xs = [left + width * i / max(count - 1, 1) for i in range(count)]

    def height(value: float) -> float:
        return bottom - PLOT * value / most

    parts = [words(left, TOP - 14, 14, heading, more=' font-weight="bold"')]
    before = [0] * count
    sums = stacked(run)
    for index, name in enumerate(run["versions"]):
        upper = [row[index] for row in sums]
        edge = [(x, height(value)) for x, value in zip(xs, upper)]
        back = [(x, height(value)) for x, value in zip(xs, before)]
        parts.append(f'<path d="{path_of(edge + back[::-1])}z" fill="{COLORS[name]}"/>')
        before = upper
    used = [(x, height(sample[-1])) for x, sample in zip(xs, run["samples"])]
    parts.append(f'<path d="{path_of(used)}" fill="none" stroke="{USED}" stroke-width="2"/>')
    end = ' text-anchor="end" font-weight="bold"'
    over = min(y for _, y in used) - 7
    if run["limit"]:
        y = height(run["limit"])
        over = min(over, y - 7)
        parts.append(
            f'<path d="M{left:g} {y:.1f}H{left + width:g}" stroke="{LIMIT}" '
            'stroke-dasharray="4 3"/>'
        )
        parts.append(words(left + 4, y - 7, 12, f"limit {run['limit'] / GIB:.1f} GiB", LIMIT))
    parts.append(words(left + width, over, 12, label(run["used_peak"]), more=end))
    return parts


def grid(left: float, width: float, most: float) -> list[str]:
    """Return the lines of the vertical axis of a panel, and their values."""
    step = next(step for step in (1, 2, 5, 10, 20, 50, 100, 200) if most / GIB / step <= 6)
    parts = []
    for value in range(0, int(most / GIB) + 1, step):
        y = TOP + PLOT * (1 - value * GIB / most)
        parts.append(f'<path d="M{left:g} {y:.1f}H{left + width:g}" stroke="{LINE}"/>')
        parts.append(words(left - 6, y + 4, 11, str(value), MUTED, ' text-anchor="end"'))
    return parts


def legend(names: list[str]) -> list[str]:
    """Return the colours of the libraries, and the line of the driver."""
    parts, x = [], MARGIN
    for name in names:
        parts.append(f'<rect x="{x}" y="98" width="12" height="12" fill="{COLORS[name]}"/>')
        parts.append(words(x + 18, 108, 12, f"{NAMES[name]}, live"))
        x += 125
    parts.append(f'<path d="M{x} 104h14" stroke="{USED}" stroke-width="2"/>')
    parts.append(words(x + 20, 108, 12, "in use on the device"))
    return parts


def draw(runs: list[dict[str, Any]], where: str) -> str:
    """Return the SVG of recorded runs."""
    both = panels(runs)
    most = 1.15 * max(max(run["used_peak"], run["limit"] or 0) for _, run in both)
    title = "Four frameworks in one process"
    about = "GiB over the phases of one program. Lower is better."
    height = TOP + PLOT + 30
    width = (WIDTH - 2 * MARGIN - GAP) / 2 - AXIS
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'width="{WIDTH}" height="{height}" font-family="{FONT}" role="img">',
        f"<title>{escape(title)}</title>",
        f"<desc>{escape(f'{about} {where}')}</desc>",
        f'<rect x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="10" '
        f'fill="#ffffff" stroke="{LINE}"/>',
        words(MARGIN, 36, 20, title, more=' font-weight="bold"'),
        words(MARGIN, 60, 13, about, MUTED),
        words(MARGIN, 79, 13, where, MUTED),
        *legend(list(both[1][1]["versions"])),
    ]
    for index, (heading, run) in enumerate(both):
        left = MARGIN + AXIS + index * (width + AXIS + GAP)
        parts += grid(left, width, most) + panel(heading, run, left, width, most)
    return "\n".join([*parts, "</svg>", ""])


def newest(results: pathlib.Path) -> pathlib.Path | None:
    """Return the newest file of figures, if there is one."""
    return max(
        results.glob("together/*-????-??-??.json"), key=lambda path: path.stem[-10:], default=None
    )


def picture(path: pathlib.Path, where: str) -> str:
    """Return the SVG of a file of figures."""
    return draw(json.loads(path.read_text()), where)
