#!/usr/bin/env python3
"""Prints one table of the benchmarks' results: a row for each figure, a column for each peer.

    table.py RESULTS.jsonl... [--out results.json]

If a figure was measured several times, the median counts. The ratio to Tarn's figure (of `Tarn
registered`, or of `Tarn`) is in brackets. --out writes all of it as JSON, including the ratios.
bench/compare.py makes its own tables of the same rows.
"""

import collections
import json
import statistics
import sys

OURS = ["Tarn registered", "Tarn", "Tarn raw"]


def read(paths):
    """Return {(bench, case, metric): {who: median}}, in the order of the input."""
    found = collections.defaultdict(lambda: collections.defaultdict(list))
    for path in paths:
        with open(path, encoding="utf-8") as file:
            for line in filter(str.strip, file):
                row = json.loads(line)
                key = row["bench"], row["case"], row["metric"]
                found[key][row["who"]].append(row["value"])
    return {
        key: {who: statistics.median(values) for who, values in row.items()}
        for key, row in found.items()
    }


def cell(value, base):
    """Format a value, and its ratio to the base."""
    if value is None:
        return "-"
    text = f"{value:.3f}" if value < 10 else f"{value:,.0f}"
    return f"{text} ({value / base:.1f})" if base and value != base else text


def base_of(row):
    """Return Tarn's figure of a row, or None."""
    return next((row[name] for name in OURS if row.get(name)), None)


def ratios(row):
    """Return the ratios of the others' figures to Tarn's."""
    base = base_of(row)
    return {who: round(value / base, 3) for who, value in row.items()} if base else {}


def lines(table):
    peers = list(dict.fromkeys(who for row in table.values() for who in row))
    yield " | ".join(["what".ljust(58), *(who.rjust(17) for who in peers)])
    for (_, case, metric), row in table.items():
        base = base_of(row)
        cells = [cell(row.get(who), base).rjust(17) for who in peers]
        yield " | ".join([f"{case}, {metric}".ljust(58), *cells])


def write(table, path):
    """Keep a table as JSON, as bench/results has it."""
    rows = [
        {"bench": bench, "case": case, "metric": metric, "median": row, "ratio": ratios(row)}
        for (bench, case, metric), row in table.items()
    ]
    with open(path, "w", encoding="utf-8") as file:
        json.dump(rows, file, indent=1)
        file.write("\n")


def main(arguments):
    out = arguments[arguments.index("--out") + 1] if "--out" in arguments else None
    paths = [a for a in arguments if a not in ("--out", out)]
    table = read(paths)
    for line in lines(table):
        print(line)
    if out:
        write(table, out)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
