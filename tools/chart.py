#!/usr/bin/env python3
"""Draw the charts in docs/images from the results of the benchmarks.

    tools/chart.py [RESULTS.json]            write them
    tools/chart.py --check [RESULTS.json]    exit 1 if docs/images has anything else

Without a file they take the newest one of bench/results. chart_together.py adds a picture of the
newest file of bench/results/together.
"""

from __future__ import annotations

import dataclasses
import json
import math
import pathlib
import re
import sys
from xml.sax.saxutils import escape

import chart_together

PROJECT = pathlib.Path(__file__).resolve().parents[1]
RESULTS = PROJECT / "bench/results"
IMAGES = PROJECT / "docs/images"

MACHINES = {"h200": "NVIDIA H200"}
# The names that the benchmarks write, and the names in the charts.
NAMES = {
    "Tarn": "Tarn pool",
    "Tarn raw": "Tarn, raw stream",
    "Tarn registered": "Tarn, registered stream",
    "driver pool": "CUDA driver pool",
    "CuPy": "CuPy pool",
    "PyTorch": "PyTorch allocator",
}

WIDTH, MARGIN, NAME_WIDTH = 800, 20, 190  # pixels
ROW, BAR = 26, 16
LABEL_WIDTH = 62  # of the longest value, such as "1,030 ns"
TARN, OTHER, TEXT, MUTED, LINE = "#1f6feb", "#a8b0b9", "#1f2328", "#57606a", "#d0d7de"
FONT = "-apple-system, 'Segoe UI', 'Noto Sans', Helvetica, Arial, 'DejaVu Sans', sans-serif"


@dataclasses.dataclass(frozen=True)
class Chart:
    """One picture: a row for each library, a column for each case."""

    file: str
    title: str
    about: tuple[str, ...]  # lines below the title
    bench: str
    metric: str
    cases: tuple[tuple[str, str], ...]  # name in the results, heading
    unit: str
    digits: int
    most: float = math.inf  # a longer bar is cut here, with a gap that shows it
    mark: float = 0.0  # a line through all bars of a column; 0: none


CHARTS = (
    Chart(
        "pair.svg",
        "Time to allocate and free one block",
        (
            "Nanoseconds for a pair of calls that reuses cached memory, by size of the block.",
            "One thread, one stream. Rows by geometric mean. Lower is better.",
        ),
        "peers",
        "ns",
        (("pair of 256", "256 B"), ("pair of 1048576", "1 MiB"), ("pair of 1073741824", "1 GiB")),
        " ns",
        0,
    ),
    Chart(
        "reserved.svg",
        "Reserved memory relative to live memory",
        (
            "Peak reserved bytes / peak live bytes in two passes of a trace, on an idle device.",
            "The dashed line is 1: live memory alone. Rows by geometric mean. Lower is better.",
        ),
        "peers",
        "second pass, reserved:live",
        (
            ("etl, idle device", "etl"),
            ("etl-4-streams, idle device", "etl, 4 streams"),
            ("llm, idle device", "llm"),
            ("small-arrays, idle device", "small arrays"),
        ),
        " ×",
        2,
        most=3.0,
        mark=1.0,
    ),
    Chart(
        "python.svg",
        "Time to make and drop one buffer in Python",
        (
            "tarn.DeviceBuffer, rmm.DeviceBuffer and cupy.cuda.alloc(), by size of the buffer.",
            "One thread, one stream. Rows by geometric mean. Lower is better.",
        ),
        "python",
        "ns",
        (
            ("DeviceBuffer(256) and back", "256 B"),
            ("DeviceBuffer(1048576) and back", "1 MiB"),
            ("DeviceBuffer(67108864) and back", "64 MiB"),
        ),
        " ns",
        0,
    ),
)


def newest() -> pathlib.Path:
    """The file of bench/results with the latest date in its name."""
    return max(RESULTS.glob("*-????-??-??.json"), key=lambda path: path.stem[-10:])


def measured(path: pathlib.Path) -> str:
    """Where and when the results of a file were measured: its name says it."""
    match = re.fullmatch(r"(.+)-(\d{4}-\d\d-\d\d)", path.stem)
    if not match:
        raise SystemExit(f"{path}: the name is not MACHINE-YYYY-MM-DD.json")
    machine = MACHINES.get(match[1], match[1])
    folder = "bench/results/together" if path.parent.name == "together" else "bench/results"
    return f"{machine}, {match[2]}. Data: {folder}/{path.name}"


def table(chart: Chart, results: list[dict]) -> dict[str, list[float]]:
    """{name in the chart: a value for each case}, the smallest first.

    The order is that of the geometric mean. A library without a value in some case is left out.
    """
    found = {
        (row["bench"], row["case"], row["metric"]): {
            NAMES.get(name, name): value for name, value in row["median"].items()
        }
        for row in results
    }
    columns = [found.get((chart.bench, case, chart.metric), {}) for case, _ in chart.cases]
    rows = {
        name: [column[name] for column in columns]
        for name in columns[0]
        if all(column.get(name) for column in columns)
    }
    if not rows:
        raise SystemExit(f"{chart.file}: the results have no {chart.bench}, {chart.metric}")
    return dict(sorted(rows.items(), key=lambda row: (math.prod(row[1]), row[0])))


def words(
    x: float, y: float, size: int, text: str, color: str = TEXT, weight: str = "normal"
) -> str:
    return (
        f'<text x="{x:g}" y="{y:g}" font-size="{size}" font-weight="{weight}" '
        f'fill="{color}">{escape(text)}</text>'
    )


def bar(chart: Chart, x: float, y: float, scale: float, value: float, color: str) -> list[str]:
    """A bar with its value behind it."""
    length = round(min(value, chart.most) * scale, 1)
    parts = [f'<rect x="{x:g}" y="{y:g}" width="{length:g}" height="{BAR}" fill="{color}"/>']
    if value > chart.most:
        gap = x + length - 12
        parts.append(
            f'<path d="M{gap:g} {y + BAR + 1:g}l4 {-BAR - 2}h4l-4 {BAR + 2}z" fill="#ffffff"/>'
        )
    label = f"{value:,.{chart.digits}f}{chart.unit}"
    parts.append(words(x + length + 5, y + BAR - 3.5, 12, label))
    return parts


def draw(chart: Chart, results: list[dict], where: str) -> str:
    """The SVG of a chart."""
    rows = table(chart, results)
    about = [*chart.about, where]
    top = 66 + 19 * len(about)  # of the column headings' baseline
    bottom = top + 10 + ROW * len(rows)
    height = bottom + 14
    column = (WIDTH - 2 * MARGIN - NAME_WIDTH) / len(chart.cases)
    scale = (column - LABEL_WIDTH) / min(chart.most, max(max(row) for row in rows.values()))
    left = [MARGIN + NAME_WIDTH + column * i for i in range(len(chart.cases))]

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'width="{WIDTH}" height="{height}" font-family="{FONT}" role="img">',
        f"<title>{escape(chart.title)}</title>",
        f"<desc>{escape(' '.join(about))}</desc>",
        f'<rect x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="10" '
        f'fill="#ffffff" stroke="{LINE}"/>',
        words(MARGIN, 36, 20, chart.title, weight="bold"),
    ]
    parts += [words(MARGIN, 60 + 19 * i, 13, line, MUTED) for i, line in enumerate(about)]
    for x, (_, heading) in zip(left, chart.cases):
        parts.append(words(x, top, 13, heading, weight="bold"))
        parts.append(f'<path d="M{x:g} {top + 8}V{bottom}" stroke="{LINE}"/>')
    for i, (name, values) in enumerate(rows.items()):
        y = top + 10 + ROW * i + (ROW - BAR) / 2
        ours = name.startswith("Tarn")
        weight = "bold" if ours else "normal"
        parts.append(words(MARGIN, y + BAR - 3.5, 13, name, weight=weight))
        for x, value in zip(left, values):
            parts += bar(chart, x, y, scale, value, TARN if ours else OTHER)
    if chart.mark:
        for x in left:
            at = round(x + chart.mark * scale, 1)
            parts.append(
                f'<path d="M{at:g} {top + 8}V{bottom}" stroke="{TEXT}" stroke-dasharray="3 3"/>'
            )
    return "\n".join([*parts, "</svg>", ""])


def pictures(path: pathlib.Path) -> dict[str, str]:
    """{name of the file: its text} of all charts."""
    results = json.loads(path.read_text())
    drawn = {chart.file: draw(chart, results, measured(path)) for chart in CHARTS}
    together = chart_together.newest(RESULTS)
    if together is not None:
        drawn[chart_together.FILE] = chart_together.picture(together, measured(together))
    return drawn


def differing(path: pathlib.Path) -> list[str]:
    """Names of files in docs/images that differ from what this program would write."""
    there = {file.name: file.read_text() for file in IMAGES.glob("*.svg")}
    drawn = pictures(path)
    return sorted(name for name in there | drawn if there.get(name) != drawn.get(name))


def main(arguments: list[str]) -> int:
    check = "--check" in arguments
    paths = [argument for argument in arguments if argument != "--check"]
    if len(paths) > 1 or any(path.startswith("-") for path in paths):
        print(__doc__, file=sys.stderr)
        return 2
    path = pathlib.Path(paths[0]) if paths else newest()
    if check:
        differs = differing(path)
        for name in differs:
            print(f"docs/images/{name} differs from {path.name}: run tools/chart.py")
        return 1 if differs else 0
    IMAGES.mkdir(parents=True, exist_ok=True)
    for name, text in pictures(path).items():
        (IMAGES / name).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
