#!/usr/bin/env python3
"""All kinds of generated traces on Tarn and on its peers, and where Tarn is not first.

    compare.py [--kind KIND]... [--seed N]... [--trace FILE]... [--quick] [--budget SECONDS]
               [--peers tarn,driver,rmm,torch] [--who SPEC]... [--threads N] [--out FILE]
    compare.py --make [--kind KIND]...
    compare.py --from results.jsonl [--out results.json]

Makes the traces (bench/traces/generate.py; those in the folder --traces are used again), then
runs bench-peers on them, which measures all allocators alike: the empty loop, Tarn with raw and
with registered streams, the driver's pool, and RMM and PyTorch if their shims are there
(tests/gpu/bench.sh builds build/gpu-bench/libpeer_*.so). Tarn does five passes, the others two.
Tarn and RMM run a second time with as much initial memory as RMM's arena starts with. One more
process counts Tarn's driver calls, on the driver's side (bench/timed). --who pool:OPTIONS adds
a pool with options.

It prints a table for each trace and device: ns are the mean of all operations with the clock's
part, which the empty loop shows; r:l is peak reserved : peak live so far; calls are driver calls
in 1,000 pairs of the second pass, and by pool those that the pool's statistics have; fails are
failed allocations with 1.05 x the peak live. `over the aims:` has a line for each figure of Tarn
that is over the aim for it (reserved memory by the number of streams, p99.9, driver calls, no
failures). A last section, `not first:`, has a line for each figure in which an allocator beats
Tarn:

- first pass, ns: peers that start empty and reserve at most 1.5 x the peak live, from 1.2 x on;
- allocators with initial memory are compared with each other, by their times;
- a pass in which an allocation of another allocator failed without a maximum does not count;
- vectors that grow are marked: they need not be first.

What is missing, and what failed, is named at the end. A trace has at most 400,000 operations,
unless --operations or --full says otherwise. --quick has shorter traces and two passes. --budget
ends the run in time, and names what did not run. --jsonl keeps the rows, --out the medians for
bench/results. TARN_DRIVER=sim makes it a rehearsal, whose times say nothing.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import selectors
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

BENCH = pathlib.Path(__file__).resolve().parent
PROJECT = BENCH.parent
sys.path[:0] = [str(BENCH / "peers"), str(BENCH / "traces")]

import generate  # noqa: E402
import table  # noqa: E402

PASSES = {"first": "1st", "second": "2nd", "fifth": "5th"}
FAILED = "failed with 1.05 x live"
CALLS = {"calls": "driver calls/1000 pairs", "by pool": "counted by the pool/1000 pairs"}
# Heading and metric of each column; less is better in all of them.
COLUMNS = [
    *((f"{head} ns", f"{which} pass, mean ns") for which, head in PASSES.items()),
    *((f"{head} p99.9", f"{which} pass, p99.9 ns") for which, head in PASSES.items()),
    *((f"{head} r:l", f"{which} pass, reserved:live") for which, head in PASSES.items()),
    *((head, f"second pass, {metric}") for head, metric in CALLS.items()),
    *((f"{head} fails", f"{which} pass, {FAILED}") for which, head in PASSES.items()),
]
WIDTH = 9
NEED_NOT_BE_FIRST = "vectors-"
LOOP = "empty loop"
INITIAL = ", initial"
INITIAL_FACTOR = 1.5  # of the peak live; what RMM's arena needs for most traces
EMPTY_MOST, EMPTY_SLACK = 1.5, 1.2  # of the first pass, see above
# The most reserved:live of traces with at most so many streams, by the policy of the pool.
RESERVED = [(4, 1.10), (16, 1.15), (32, 1.25)]
RESERVED_TIGHT = [(1, 1.05), (4, 1.08), (32, 1.11)]
RESERVED_ENDED = 2
RESERVED_VECTORS = 1.5
TIGHT = "policy=tight"
SHIMS = {"rmm": "libpeer_rmm.so", "torch": "libpeer_torch.so"}
GROUPS = ["tarn", "driver", *SHIMS]
OPERATIONS_MOST, QUICK_OPERATIONS = 400_000, 20_000
TRACES_AT_ONCE = 6  # in one process, so that all allocators have a part if the time is short


# --- running --------------------------------------------------------------------------------


class Program(NamedTuple):
    """A command, to which traces are appended, and which of its rows are kept."""

    name: str
    command: list
    environment: dict
    keeps: object


class Runner:
    """Runs programs one after the other, appends their rows to a file, and notes what fails."""

    def __init__(self, jsonl, silence, budget=None):
        self.jsonl = jsonl
        self.silence = silence
        self.deadline = time.monotonic() + budget if budget else None
        self.notes = []

    def time_left(self, most):
        return most if self.deadline is None else min(most, self.deadline - time.monotonic())

    def run(self, program, traces):
        """Run the program on the traces; where it fails, it runs again on the rest of them."""
        left = list(traces)
        while left:
            if self.time_left(1) <= 0:
                self.notes.append(f"{program.name}: no time left for {len(left)} traces")
                return
            at, problem = self.run_once(program, left)
            if problem:
                where = left[max(at, 0)].name
                self.notes.append(f"{program.name}: {where}: {problem}")
            if not problem or at < 0:
                return
            left = left[at + 1 :]

    def run_once(self, program, traces):
        """The number of the trace that was begun last, and what went wrong, or None."""
        with tempfile.TemporaryDirectory() as folder:
            rows, errors = pathlib.Path(folder, "rows"), pathlib.Path(folder, "errors")
            command = [*program.command[:1], "--json", str(rows), *program.command[1:]]
            try:
                with open(errors, "wb") as stderr:
                    process = subprocess.Popen(
                        [*command, *map(str, traces)],
                        stdout=subprocess.PIPE,
                        stderr=stderr,
                        env={**os.environ, **program.environment},
                    )
            except OSError as error:
                return -1, str(error)
            with process:
                at, problem = self.follow(program, process)
            if problem is None and process.returncode != 0:
                last = errors.read_text(errors="replace").strip().splitlines()
                problem = f"exit {process.returncode}: {(last or ['no message'])[-1]}"
            self.keep(program, rows)
        return at, problem

    def follow(self, program, process):
        """Read what the program prints until it ends. Ends it if it prints nothing for long."""
        at, rest = -1, b""
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while True:
                seconds = self.time_left(self.silence)
                if seconds <= 0 or not selector.select(seconds):
                    process.kill()
                    late = self.time_left(1) <= 0
                    return at, "no time left" if late else f"silent for {self.silence} s"
                data = os.read(process.stdout.fileno(), 1 << 16)
                if not data:
                    return at, None
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    if line.startswith(b"== "):
                        at += 1
                        print(f"-- {program.name}: {line.decode()[3:]}", flush=True)

    def keep(self, program, path):
        lines = path.read_text().splitlines() if path.exists() else []
        with open(self.jsonl, "a", encoding="utf-8") as out:
            for line in lines:
                try:
                    row = json.loads(line)
                except json.JSONDecodeError:
                    continue  # cut off where the program was ended
                if program.keeps(row):
                    out.write(json.dumps(row) + "\n")


def is_of_a_trace(row):
    return row["case"].endswith(" device")


def is_a_count(row):
    return is_of_a_trace(row) and row["metric"].endswith(tuple(CALLS.values()))


def is_no_count(row):
    return is_of_a_trace(row) and not is_a_count(row)


def driver_that_counts(build):
    """The environment in which bench/timed is the driver, before the one that is used."""
    used = os.environ.get("TARN_DRIVER")
    if used == "sim":
        used = str(build / "lib/tarn/sim/libcuda.so.1")
    counting = {"TARN_DRIVER": str(build / "bench/timed/libcuda.so.1")}
    return {**counting, "TARN_TIMED": used} if used else counting


def programs_of(options, notes):
    """The programs to run on every trace; notes what is missing."""
    program = options.build / "bin/bench-peers"
    if not program.exists():
        notes.append(f"no bench-peers: {program} is missing")
        return []
    base = [str(program), "--traces-only", "--threads", str(options.threads)]
    if options.device != "both":
        base.append(f"--{options.device}")
    passes = ["--passes", str(options.passes), "--other-passes", str(min(options.passes, 2))]
    runs = [*base, *passes, "--seconds", str(options.seconds)]
    runs += ["--initial", str(INITIAL_FACTOR)] if options.initial else []
    own = [word for spec in ["pool", *options.who] for word in ("--who", spec)]
    programs = []
    if "tarn" in options.peers or "driver" in options.peers:
        specs = ["--who", "empty"]
        specs += own if "tarn" in options.peers else []
        specs += ["--who", "async"] if "driver" in options.peers else []
        programs.append(Program("Tarn and the driver's pool", [*runs, *specs], {}, is_no_count))
    if "tarn" in options.peers:
        environment = driver_that_counts(options.build)
        if pathlib.Path(environment["TARN_DRIVER"]).exists():
            count = [*base, "--no-clock", "--limit", "0", "--passes", "2", *own]
            count += ["--seconds", str(options.seconds)]
            programs.append(Program("driver calls", count, environment, is_a_count))
        else:
            notes.append(f"no driver calls: {environment['TARN_DRIVER']} is missing")
    for name, file in SHIMS.items():
        path = options.shims / file
        if name in options.peers and not path.exists():
            notes.append(f"no {name}: {path} is missing")
        elif name in options.peers:
            programs.append(Program(name, [*runs, "--peer", str(path)], {}, is_no_count))
    return programs


def make_trace(kind, seed, path, sizes):
    """Make one trace, in a process of its own; returns an error message, or None."""
    unfinished = path.with_name(f"{os.getpid()}-unfinished.csv.gz")
    try:
        generate.generate_file(kind, seed, unfinished, **sizes)
    except generate.BadTrace as error:
        return f"no {path.name}: {error}"
    unfinished.rename(path)
    return None


def sizes_of(kind, options):
    """The arguments of generate_file() that are not the kind's own."""
    most = None if options.full else QUICK_OPERATIONS if options.quick else OPERATIONS_MOST
    operations = options.operations
    if operations is None and most and generate.KINDS[kind].operations > most:
        operations = most
    sizes = {"operations": operations, "peak": options.peak}
    return {key: value for key, value in sizes.items() if value}


def make_traces(options, notes):
    """The files of traces, in order; makes those that are not there, all at once."""
    options.traces.mkdir(parents=True, exist_ok=True)
    wanted = {}
    for kind in options.kind:
        for seed in options.seed:
            sizes = sizes_of(kind, options)
            suffix = "".join(f"-{key}{value}" for key, value in sizes.items())
            path = options.traces / f"{kind}-seed{seed}{suffix}.csv.gz"
            wanted[path] = (kind, seed, path, sizes)
    missing = [arguments for path, arguments in wanted.items() if not path.exists()]
    if missing:
        print(f"-- making {len(missing)} traces in {options.traces}", flush=True)
        with concurrent.futures.ProcessPoolExecutor() as pool:
            made = pool.map(make_trace, *zip(*missing, strict=True))
            notes.extend(filter(None, made))
    return [path for path in wanted if path.exists()] + options.trace


def run_all(options, runner):
    traces = make_traces(options, runner.notes)
    programs = [] if options.make else programs_of(options, runner.notes)
    for i in range(0, len(traces), TRACES_AT_ONCE):
        for program in programs:
            runner.run(program, traces[i : i + TRACES_AT_ONCE])


# --- tables ---------------------------------------------------------------------------------


def cell(value):
    if value is None:
        return "-"
    return f"{value:.3f}" if value < 10 and value % 1 else f"{value:,.0f}"


def trace_tables(rows):
    """Lines: for each case a row for each allocator."""
    for case in sorted({case for _, case, _ in rows}):
        columns = [rows.get(("peers", case, metric), {}) for _, metric in COLUMNS]
        yield f"== {case}"
        names = dict.fromkeys(who for column in columns for who in column)
        width = max(map(len, names), default=0)
        yield " ".join([" " * width, *(head.rjust(WIDTH) for head, _ in COLUMNS)])
        for who in names:
            cells = (cell(column.get(who)).rjust(WIDTH) for column in columns)
            yield " ".join([who.ljust(width), *cells])
        yield ""


def is_ours(who):
    return who.startswith("Tarn")


def is_time(metric):
    return metric.endswith(" ns")


def rivals(rows, case, metric, who):
    """The allocators that `who` is compared with, and the ratio that counts as first."""
    which = metric.partition(" pass, ")[0]
    failed = rows.get(("peers", case, f"{which} pass, failed"), {})  # without a maximum
    others = {
        other: value
        for other, value in rows["peers", case, metric].items()
        if not is_ours(other) and other != LOOP and other not in failed
    }
    if INITIAL in who:
        with_initial = {name: value for name, value in others.items() if INITIAL in name}
        return (with_initial if is_time(metric) else {}), 1
    if not (is_time(metric) and metric.startswith("first")):
        return others, 1
    reserved = rows.get(("peers", case, "first pass, reserved:live"), {})
    empty = {
        name: value
        for name, value in others.items()
        if INITIAL not in name and reserved.get(name, 0) <= EMPTY_MOST
    }
    return empty, EMPTY_SLACK


def times(value, best):
    return f"{value / best:.2f} x" if best else "the winner has none"


def not_first(rows):
    """Lines: each figure of Tarn's that another allocator beats; and how many there were."""
    lines, compared = [], 0
    metrics = {metric for _, metric in COLUMNS if not metric.endswith(tuple(CALLS.values()))}
    for bench, case, metric in rows:
        if bench != "peers" or metric not in metrics:
            continue
        row = rows[bench, case, metric]
        for who in filter(is_ours, row):
            others, slack = rivals(rows, case, metric, who)
            if not others:
                continue
            compared += 1
            winner = min(others, key=lambda name: (others[name], name))
            if row[who] > others[winner] * slack:
                exempt = ", need not be" if case.startswith(NEED_NOT_BE_FIRST) else ""
                lines.append(
                    f"{case}, {metric}: {who} {cell(row[who])}, {winner} "
                    f"{cell(others[winner])} ({times(row[who], others[winner])}{exempt})"
                )
    return lines, compared


# --- aims -----------------------------------------------------------------------------------


def streams_of(case):
    """The streams of a trace of a known kind, by its name; else None."""
    kind = generate.KINDS.get(case.partition("-seed")[0])
    return kind and kind.streams


def most_reserved(who, case, metric):
    """The aim for reserved:live; None: there is none. Traces of more than 32 streams,
    which end, have a bound of their own, and so have vectors that grow."""
    if case.startswith(NEED_NOT_BE_FIRST):
        return RESERVED_VECTORS
    streams = streams_of(case)
    if streams is None or (TIGHT in who and metric.startswith("first")):
        return None
    aims = RESERVED_TIGHT if TIGHT in who else RESERVED
    return next((most for count, most in aims if streams <= count), RESERVED_ENDED)


def aim(who, case, metric):
    """The most that a figure of Tarn may be; None: there is no such aim."""
    busy = case.endswith("busy device")
    if metric.endswith(FAILED):
        return 0
    if metric == "second pass, p99.9 ns":
        return 10_000 if busy else 5_000
    if metric.endswith("reserved:live"):
        return most_reserved(who, case, metric)
    if metric == f"second pass, {CALLS['calls']}" and not busy and streams_of(case) == 4:
        return 20
    return None


def over_the_aims(rows):
    """Lines: each figure of Tarn's that is over its aim; and how many there were."""
    lines, checked = [], 0
    for (bench, case, metric), row in rows.items():
        if bench != "peers" or " threads, " in case:
            continue
        for who, value in row.items():
            most = aim(who, case, metric) if is_ours(who) and INITIAL not in who else None
            if most is None:
                continue
            checked += 1
            if value > most:
                lines.append(f"{case}, {metric}: {who} {cell(value)}, aim {cell(most)}")
    return lines, checked


def report(rows, notes):
    """All lines of the report."""
    yield from trace_tables(rows)
    if notes:
        yield "missing:"
        yield from (f"  {note}" for note in notes)
    lines, checked = over_the_aims(rows)
    yield f"over the aims: {len(lines)} of {checked} figures"
    yield from (f"  {line}" for line in sorted(lines))
    lines, compared = not_first(rows)
    yield f"not first: {len(lines)} of {compared} figures"
    yield from (f"  {line}" for line in sorted(lines))


# --- the command line -----------------------------------------------------------------------


def groups(text):
    names = text.split(",")
    unknown = [name for name in names if name not in GROUPS]
    if unknown:
        raise argparse.ArgumentTypeError(f"{unknown[0]} is none of {', '.join(GROUPS)}")
    return names


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add = parser.add_argument
    add("--kind", action="append", choices=list(generate.KINDS), help="default: all")
    add("--seed", action="append", type=int, help="default: 1")
    add("--trace", action="append", type=pathlib.Path, default=[], help="a further trace")
    add("--peers", type=groups, default=GROUPS, help=f"default: {','.join(GROUPS)}")
    add("--who", action="append", default=[], metavar="SPEC", help="a further pool:OPTIONS")
    add("--device", choices=["idle", "busy", "both"], default="both")
    add("--threads", type=generate.positive, default=1)
    add("--passes", type=generate.positive, help="of Tarn; default: 5")
    add("--no-initial", dest="initial", action="store_false", help="only those that start empty")
    add("--quick", action="store_true", help="fewer operations, two passes, nothing with initial")
    add("--full", action="store_true", help="as many operations as the kind has")
    add("--operations", type=generate.positive, help="of each trace; default: its kind's")
    add("--peak", type=generate.parse_bytes, metavar="BYTES")
    add("--traces", type=pathlib.Path, default=PROJECT / "build/traces", metavar="FOLDER")
    add("--build", type=pathlib.Path, default=PROJECT / "build/release", metavar="FOLDER")
    add("--shims", type=pathlib.Path, default=PROJECT / "build/gpu-bench", metavar="FOLDER")
    add("--seconds", type=float, default=10, help="of the passes of one allocator; default: 10")
    add("--silence", type=float, default=120, help="end a program that prints nothing so long")
    add("--budget", type=float, metavar="SECONDS", help="of the whole run")
    add("--make", action="store_true", help="make the traces, and no more")
    add("--from", dest="rows", type=pathlib.Path, metavar="JSONL", help="run nothing")
    add("--jsonl", type=pathlib.Path, help="keep the rows")
    add("--out", type=pathlib.Path, help="JSON for bench/results")
    options = parser.parse_args(arguments)
    if options.kind is None:
        options.kind = [] if options.trace else list(generate.KINDS)
    options.seed = options.seed or [1]
    options.passes = options.passes or (2 if options.quick else 5)
    options.initial = options.initial and not options.quick
    return options


def main(arguments):
    options = parse(arguments)
    notes = []
    with tempfile.TemporaryDirectory() as folder:
        jsonl = options.rows or options.jsonl or pathlib.Path(folder, "rows.jsonl")
        if not options.rows:
            jsonl.write_text("")
            runner = Runner(jsonl, options.silence, options.budget)
            run_all(options, runner)
            notes = runner.notes
        rows = table.read([jsonl])
    rows = {key: row for key, row in rows.items() if key[0] == "peers"}
    if options.make:
        print("\n".join(notes), end="\n" if notes else "")
        return 1 if notes else 0
    if options.out:
        table.write(rows, options.out)
    for line in report(rows, notes):
        print(line)
    return 0 if rows else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
