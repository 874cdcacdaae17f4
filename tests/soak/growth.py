"""growth.py -- judge the samples of a soak: does a figure grow, does the time of a pair drift?

    growth.py SAMPLES...

A file of samples has rows of tab-separated figures, with the columns of COLUMNS. A part is a run of
one process. The first quarter of a part is its warm-up and does not count.

Growth is the median of the slopes between any two rows of a part (Theil-Sen), times the turns of
all parts. Up to half of the rows can be wrong without a change of it. A time drifts if the lower
quartile of the last third of the rows exceeds that of the first third: load of the machine lengthens
many windows, but not the fastest ones.
"""

from __future__ import annotations

import itertools
import statistics
import sys

COLUMNS = (
    "process", "part", "seconds", "turn", "rss_bytes", "heap_bytes", "device_bytes", "live_bytes",
    "peak_bytes", "descriptors", "threads", "pair_ns", "objects",
)  # fmt: skip

# What a figure may grow by in a run of any length. The limits are above the steps in which a figure
# changes without a leak: a handle of the pool has 2 MiB.
GROWTH = {
    "rss_bytes": 1 << 20,
    "heap_bytes": 16 << 10,
    "device_bytes": 1 << 20,
    "live_bytes": 0,
    "descriptors": 0.5,
    "threads": 0.5,
    "objects": 250,
}
# The tables of a GPU's driver grow by some 20 KiB in 23,000 turns; those of libtarn do not.
GROWTH_ON_GPU = {**GROWTH, "heap_bytes": 64 << 10}
ONE_STEP = {"rss_bytes", "heap_bytes"}  # the largest step in a part is no leak: a table doubles
DRIFT = 1.25  # of the time of a pair, as a ratio
PEAK_DRIFT = 1.5
WARM_UP = 0.25
FEWEST = 9  # rows that can be judged


class TooFewSamples(Exception):
    """A run was too short to be judged."""


def read(path):
    """Return the rows of a file of samples, by process."""
    processes = {}
    with open(path) as lines:
        for line in lines:
            name, *values = line.rstrip("\n").split("\t")
            row = dict(zip(COLUMNS[1:], map(float, values)))
            processes.setdefault(name, []).append(row)
    return processes


def warm(rows):
    """Return the rows of each part after its warm-up."""
    parts = [list(part) for _, part in itertools.groupby(rows, key=lambda row: row["part"])]
    return [part[int(len(part) * WARM_UP + 0.999) :] for part in parts]


def at_largest_step(part, column):
    """Return the rows before the largest increase between two rows, and those after it."""
    steps = [after[column] - before[column] for before, after in itertools.pairwise(part)]
    at = steps.index(max(steps)) + 1 if steps else 0
    return [part[:at], part[at:]]


def growth(parts, column):
    """Return by how much a figure has grown in all parts, without one step of each."""
    if column in ONE_STEP:
        parts = [piece for part in parts for piece in at_largest_step(part, column)]
    slopes = [
        (later[column] - earlier[column]) / (later["turn"] - earlier["turn"])
        for part in parts
        for earlier, later in itertools.combinations(part, 2)
        if later["turn"] > earlier["turn"]
    ]
    turns = sum(part[-1]["turn"] - part[0]["turn"] for part in parts if part)
    return statistics.median(slopes) * turns


def drift(rows, column):
    """Return the ratio of a figure at the end of a run to that at its begin."""
    third = len(rows) // 3
    begin, end = (
        statistics.quantiles([row[column] for row in part], n=4)[0]
        for part in (rows[:third], rows[-third:])
    )
    return end / begin if begin else 1.0


def judge(rows, most_drift=DRIFT, most_growth=GROWTH):
    """Return the findings on one process: (column, figure, limit, whether it holds)."""
    parts = warm(rows)
    judged = [row for part in parts for row in part]
    if len(judged) < FEWEST:
        raise TooFewSamples(f"{len(judged)} samples after the warm-up, {FEWEST} are needed")
    drifting = {"pair_ns": most_drift, "peak_bytes": max(most_drift, PEAK_DRIFT)}
    found = []
    for column in COLUMNS:
        if column not in rows[0]:
            continue
        if column in most_growth:
            found.append((column, growth(parts, column), most_growth[column]))
        elif column in drifting:
            found.append((column, drift(judged, column), drifting[column]))
    return [(column, figure, limit, figure <= limit) for column, figure, limit in found]


def report(path, most_drift=DRIFT, most_growth=GROWTH):
    """Print the findings on all processes of a file; return the names of the figures that grow."""
    failed = []
    for process, rows in read(path).items():
        print(f"{process}: {len(rows)} samples, {rows[-1]['turn']:.0f} turns")
        for column, figure, limit, holds in judge(rows, most_drift, most_growth):
            kind = "grows by" if column in GROWTH else "ratio"
            word = "ok  " if holds else "FAIL"
            last = rows[-1][column]
            print(f"  {word} {column}: {last:.0f}, {kind} {figure:.2f}, at most {limit}")
            if not holds:
                failed.append(f"{process}.{column}")
    return failed


if __name__ == "__main__":
    try:
        sys.exit(1 if [name for path in sys.argv[1:] for name in report(path)] else 0)
    except TooFewSamples as error:
        sys.exit(f"growth.py: {error}")
