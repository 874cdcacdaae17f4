#!/usr/bin/env python3
"""All kinds of generated traces on Tarn and on its peers, and where Tarn is not first.

    compare.py [--kind KIND]... [--seed N]... [--trace FILE]... [--out results.json]
    compare.py --from results.jsonl [--out results.json]

Makes the traces (bench/traces/generate.py; those in the folder --traces are used again), then
runs on each of them, in a process of its own:

- bench-pool_traces: Tarn with raw and with registered streams, and the driver's pool; passes
  1, 2 and 5, on an idle and on a busy device, and failures with 1.05 x the peak live;
- bench-peers: Tarn, the driver's pool, and RMM and PyTorch if their shims are there
  (tests/gpu/bench.sh builds build/gpu-bench/libpeer_*.so). It has 16 streams: those of a trace
  with more share them. In neither program a stream ends before the trace does.

It prints a table for each trace: ns are the mean of all operations, p99.9 is that of the second
pass, r:l is peak reserved : peak live. A last section, `not first:`, has a line for each figure in
which an allocator beats Tarn: figures are compared within a program only, for the two do not
time alike. Vectors that grow are marked: they need not be first. What is missing, and what
failed, is named at the end. --jsonl keeps the rows, --out the medians for bench/results.
TARN_DRIVER=sim makes it a rehearsal, whose times say nothing.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

BENCH = pathlib.Path(__file__).resolve().parent
PROJECT = BENCH.parent
sys.path[:0] = [str(BENCH / "peers"), str(BENCH / "traces")]

import generate  # noqa: E402
import table  # noqa: E402

PASSES = {1: "first", 2: "second", 5: "fifth"}
HEADS = {1: "1st", 2: "2nd", 5: "5th"}
FAILED = "failed with 1.05 x live"
# Heading and metric of each column; less is better in all of them.
COLUMNS = [
    *((f"{HEADS[i]} ns", f"{which} pass, mean ns") for i, which in PASSES.items()),
    ("p99.9 ns", "second pass, p99.9 ns"),
    *((f"{HEADS[i]} r:l", f"{which} pass, reserved:live") for i, which in PASSES.items()),
    ("fails", FAILED),
]
NEED_NOT_BE_FIRST = "vectors-"
SHIMS = {"RMM": "libpeer_rmm.so", "PyTorch": "libpeer_torch.so"}


# --- rows: one form for both programs -------------------------------------------------------


def allocator(who, registered):
    """`Tarn raw` of the resource `pool`; a pool's options stand behind it."""
    if who == "async":
        return "driver pool"
    name, _, options = who.partition(":")
    if name != "pool":
        return who
    return ("Tarn registered" if registered else "Tarn raw") + (options and f", {options}")


def pool_traces_row(row, registered, passes):
    """A row of bench-pool_traces as bench-peers would write it, or None."""
    trace, _, device = row["case"].rpartition(" ")
    which, _, what = row["metric"].partition(" ")
    if which == "limited":
        metric = FAILED
    else:
        number = 1 if which == "first" else passes
        metric = f"{PASSES[number]} pass, {'mean ns' if what == 'ns' else what}"
    who = allocator(row["who"], registered)
    return {**row, "who": who, "case": f"{trace}, {device} device", "metric": metric}


def peers_row(row):
    """A row of bench-peers, or None where it is not about a trace."""
    if not row["case"].endswith(" device"):
        return None
    return row


# --- running --------------------------------------------------------------------------------


class Runner:
    """Runs programs one after the other, appends their rows to a file, and notes what fails."""

    def __init__(self, jsonl, seconds):
        self.jsonl = jsonl
        self.seconds = seconds
        self.notes = []

    def run(self, what, command, convert):
        print(f"-- {what}", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "rows")
            try:
                done = subprocess.run(
                    [*command[:1], "--json", str(path), *command[1:]],
                    capture_output=True,
                    text=True,
                    timeout=self.seconds,
                )
                if done.returncode != 0:
                    last = (done.stderr.strip().splitlines() or ["no message"])[-1]
                    self.notes.append(f"{what}: exit {done.returncode}: {last}")
            except OSError as error:
                self.notes.append(f"{what}: {error}")
            except subprocess.TimeoutExpired:
                self.notes.append(f"{what}: not done after {self.seconds} s")
            lines = path.read_text().splitlines() if path.exists() else []
        with open(self.jsonl, "a", encoding="utf-8") as out:
            for line in lines:
                try:
                    row = convert(json.loads(line))
                except json.JSONDecodeError:
                    continue  # cut off where the program was killed
                if row:
                    out.write(json.dumps(row) + "\n")


def run_pool_traces(runner, program, resources, trace):
    for registered in (False, True):
        own = [spec for spec in resources if not registered or spec.startswith("pool")]
        options = [word for spec in own for word in ("--resource", spec)]
        options += ["--registered"] if registered else []
        for passes in (2, 5):
            limit = ["--limit", "1.05" if passes == 2 else "0"]
            runner.run(
                f"{trace.name}: pool_traces, {'registered' if registered else 'raw'} streams, "
                f"{passes} passes",
                [str(program), *options, "--passes", str(passes), *limit, str(trace)],
                lambda row, r=registered, p=passes: pool_traces_row(row, r, p),
            )


def run_peers(runner, program, shims, trace):
    for name, choice in [
        ("Tarn and the driver's pool", []),
        *((name, ["--only-peers", "--peer", str(shim)]) for name, shim in shims.items()),
    ]:
        command = [str(program), "--quick", "--skip", "holes", *choice, str(trace)]
        runner.run(f"{trace.name}: peers, {name}", command, peers_row)


def make_traces(options, notes):
    """The files of traces, in order; makes those that are not there."""
    folder = options.traces
    folder.mkdir(parents=True, exist_ok=True)
    sizes = {"operations": options.operations, "peak": options.peak}
    suffix = "".join(f"-{key}{value}" for key, value in sizes.items() if value)
    paths = []
    for kind in options.kind:
        for seed in options.seed:
            path = folder / f"{kind}-seed{seed}{suffix}.csv.gz"
            if not path.exists():
                print(f"-- making {path}", flush=True)
                unfinished = path.with_name("unfinished.csv.gz")
                try:
                    generate.generate_file(kind, seed, unfinished, **sizes)
                except generate.BadTrace as error:
                    notes.append(f"no {path.name}: {error}")
                    continue
                unfinished.rename(path)
            paths.append(path)
    return paths + options.trace


def run_all(options, runner):
    programs = {name: options.build / "bin" / name for name in ("bench-pool_traces", "bench-peers")}
    shims = {name: options.shims / file for name, file in SHIMS.items()}
    for name, path in [*programs.items(), *shims.items()]:
        if not path.exists():
            runner.notes.append(f"no {name}: {path} is missing")
    shims = {name: path for name, path in shims.items() if path.exists()}
    for trace in make_traces(options, runner.notes):
        if programs["bench-pool_traces"].exists():
            run_pool_traces(runner, programs["bench-pool_traces"], options.resource, trace)
        if programs["bench-peers"].exists():
            run_peers(runner, programs["bench-peers"], shims, trace)


# --- tables ---------------------------------------------------------------------------------


def cell(value):
    if value is None:
        return "-"
    return f"{value:.3f}" if value < 10 and value % 1 else f"{value:,.0f}"


def trace_tables(rows):
    """Lines: for each program and case a row for each allocator."""
    cases = dict.fromkeys((bench, case) for bench, case, _ in rows)
    for bench, case in sorted(cases, key=lambda key: (key[1], key[0])):
        columns = [rows.get((bench, case, metric), {}) for _, metric in COLUMNS]
        yield f"== {case} ({bench})"
        names = dict.fromkeys(who for column in columns for who in column)
        width = max(map(len, names), default=0)
        yield " ".join([" " * width, *(head.rjust(10) for head, _ in COLUMNS)])
        for who in names:
            cells = (cell(column.get(who)).rjust(10) for column in columns)
            yield " ".join([who.ljust(width), *cells])
        yield ""


def is_ours(who):
    return who.startswith("Tarn")


def times(value, best):
    return f"{value / best:.2f} x" if best else "the winner has none"


def not_first(rows):
    """Lines: each figure of Tarn's that another allocator beats; and how many there were."""
    lines, compared = [], 0
    for (bench, case, metric), row in rows.items():
        others = {who: value for who, value in row.items() if not is_ours(who)}
        if metric not in dict(COLUMNS).values() or not others:
            continue
        winner = min(others, key=lambda who: (others[who], who))
        best = others[winner]
        for who in filter(is_ours, row):
            compared += 1
            if row[who] > best:
                exempt = ", need not be" if case.startswith(NEED_NOT_BE_FIRST) else ""
                lines.append(
                    f"{case}, {metric} ({bench}): {who} {cell(row[who])}, {winner} {cell(best)} "
                    f"({times(row[who], best)}{exempt})"
                )
    return lines, compared


def report(rows, notes):
    """All lines of the report."""
    yield from trace_tables(rows)
    if notes:
        yield "missing:"
        yield from (f"  {note}" for note in notes)
    lines, compared = not_first(rows)
    yield f"not first: {len(lines)} of {compared} figures"
    yield from (f"  {line}" for line in sorted(lines))


# --- the command line -----------------------------------------------------------------------


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add = parser.add_argument
    add("--kind", action="append", choices=list(generate.KINDS), help="default: all")
    add("--seed", action="append", type=int, help="default: 1")
    add("--trace", action="append", type=pathlib.Path, default=[], help="a further trace")
    add("--operations", type=generate.positive, help="of each trace; default: its kind's")
    add("--peak", type=generate.parse_bytes, metavar="BYTES")
    add("--traces", type=pathlib.Path, default=PROJECT / "build/traces", metavar="FOLDER")
    add("--build", type=pathlib.Path, default=PROJECT / "build/release", metavar="FOLDER")
    add("--shims", type=pathlib.Path, default=PROJECT / "build/gpu-bench", metavar="FOLDER")
    add("--resource", action="append", metavar="SPEC", help="as bench-pool_traces")
    add("--seconds", type=generate.positive, default=300, help="limit of one program")
    add("--from", dest="rows", type=pathlib.Path, metavar="JSONL", help="run nothing")
    add("--jsonl", type=pathlib.Path, help="keep the rows")
    add("--out", type=pathlib.Path, help="JSON for bench/results")
    options = parser.parse_args(arguments)
    if options.kind is None:
        options.kind = [] if options.trace else list(generate.KINDS)
    options.seed = options.seed or [1]
    options.resource = options.resource or ["pool", "async"]
    return options


def main(arguments):
    options = parse(arguments)
    notes = []
    with tempfile.TemporaryDirectory() as folder:
        jsonl = options.rows or options.jsonl or pathlib.Path(folder, "rows.jsonl")
        if not options.rows:
            jsonl.write_text("")
            runner = Runner(jsonl, options.seconds)
            run_all(options, runner)
            notes = runner.notes
        rows = table.read([jsonl])
    if options.out:
        table.write(rows, options.out)
    for line in report(rows, notes):
        print(line)
    return 0 if rows else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
