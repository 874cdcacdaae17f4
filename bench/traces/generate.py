#!/usr/bin/env python3
"""Makes allocation traces for the benchmarks, the same ones from the same seed everywhere.

    generate.py KIND [--seed N] [--streams N] [--operations N] [--peak BYTES] [-o FILE.csv.gz]
    generate.py --list
    generate.py --check [KIND...] [--seed N]

Without -o the file is KIND-seedN.csv.gz in the current folder; one that does not end in .gz is
plain text. BYTES may be 4GiB or 512MiB. The text depends only on the arguments; how small it
gets depends on zlib. --check makes small traces of all kinds and verifies them.

generators/ has a file for each kind of program; its docstring says what it imitates.
"""

import argparse
import contextlib
import dataclasses
import gzip
import hashlib
import io
import pathlib
import random
import re
import sys

from generators import (
    bursts,
    checkerboard,
    checkpointing,
    drift,
    graph_sampling,
    growing_vectors,
    image_pipeline,
    joins,
    kv_blocks,
    mixed_lifetimes,
    task_streams,
)
from generators.trace import HEADER, STREAM_BASE, STREAM_BYTES, Trace

GIB = 1 << 30
PEAK_TOLERANCE = 0.05
SCALED_WELL = 0.01  # a measured peak this near needs no other scale
SCALES_MOST = 6
CHECK_OPERATIONS, CHECK_PEAK, CHECK_STREAMS_MOST = 3000, GIB, 100
TIME = re.compile(r"(\d\d):([0-5]\d):([0-5]\d)\.(\d{6})")


@dataclasses.dataclass(frozen=True)
class Kind:
    """A generator with its defaults. `regulates`: it keeps to the requested peak itself."""

    module: object
    streams: int
    operations: int
    peak: int
    regulates: bool = False
    parameters: dict = dataclasses.field(default_factory=dict)


def vectors(percent, streams):
    return Kind(growing_vectors, streams, 40_000, 4 * GIB, parameters={"percent": percent})


KINDS = {
    "joins-8": Kind(joins, 8, 120_000, 6 * GIB),
    "joins-16": Kind(joins, 16, 160_000, 8 * GIB),
    "joins-32": Kind(joins, 32, 240_000, 12 * GIB),
    "graph-sampling": Kind(graph_sampling, 4, 80_000, 2 * GIB),
    "image-pipeline": Kind(image_pipeline, 9, 120_000, 3 * GIB),
    "kv-blocks": Kind(kv_blocks, 1, 120_000, 16 * GIB, regulates=True),
    "checkpointing": Kind(checkpointing, 1, 80_000, 8 * GIB),
    "mixed-lifetimes": Kind(mixed_lifetimes, 4, 120_000, 6 * GIB),
    "checkerboard": Kind(checkerboard, 1, 60_000, 4 * GIB, regulates=True),
    "vectors-150": vectors(150, 1),
    "vectors-160": vectors(160, 1),
    "vectors-200": vectors(200, 1),
    "vectors-150-4": vectors(150, 4),
    "vectors-160-4": vectors(160, 4),
    "vectors-200-4": vectors(200, 4),
    "bursts": Kind(bursts, 4, 100_000, 4 * GIB),
    "task-streams": Kind(task_streams, 1000, 80_000, 2 * GIB),
    "drift": Kind(drift, 4, 10_000_000, 4 * GIB, regulates=True),
}


class BadTrace(Exception):
    """A trace is not what was asked for."""


def run(kind, name, seed, trace):
    KINDS[name].module.generate(trace, random.Random(f"{name} {seed}"))
    trace.finish()
    return trace


def find_scale(kind, name, seed, streams, operations, peak):
    """The factor for sizes with which the peak is the requested one."""
    scale = 1.0
    for _ in range(SCALES_MOST):
        trace = run(
            kind, name, seed, Trace(streams, operations, peak, kind.parameters, scale=scale)
        )
        if abs(trace.peak - peak) <= SCALED_WELL * peak:
            return scale
        scale *= peak / trace.peak
    raise BadTrace(f"{name}: no scale of sizes gives a peak of {peak} bytes")


def generate(name, seed, write, streams=None, operations=None, peak=None):
    """Write a trace of the kind `name`; None: the kind's default. Returns the Trace."""
    kind = KINDS[name]
    streams = streams or kind.streams
    operations = operations or kind.operations
    peak = peak or kind.peak
    scale = 1.0
    if not kind.regulates:
        scale = find_scale(kind, name, seed, streams, operations, peak)
    trace = Trace(streams, operations, peak, kind.parameters, write=write, scale=scale)
    return run(kind, name, seed, trace)


@contextlib.contextmanager
def text_file(path):
    """Open a file for text; a `.gz` name makes it compressed, without a name or a time inside."""
    with open(path, "wb") as raw:
        if not str(path).endswith(".gz"):
            yield io.TextIOWrapper(raw, encoding="ascii", newline="", write_through=True)
            return
        with gzip.GzipFile("", "wb", compresslevel=1, fileobj=raw, mtime=0) as packed:
            yield io.TextIOWrapper(packed, encoding="ascii", newline="", write_through=True)


def generate_file(name, seed, path, **sizes):
    """As generate(), into a file; one that could not be finished is not left behind."""
    try:
        with text_file(path) as file:
            return generate(name, seed, file.write, **sizes)
    except BaseException:
        pathlib.Path(path).unlink(missing_ok=True)
        raise


# --- the check ---------------------------------------------------------------------------


@dataclasses.dataclass
class Found:
    """What verify() saw."""

    operations: int = 0
    peak: int = 0
    streams: set = dataclasses.field(default_factory=set)


def must(condition, line, what):
    if not condition:
        raise BadTrace(f"line {line}: {what}")


def row_us(text, line):
    match = TIME.fullmatch(text)
    must(match, line, f"{text!r} is not a time HH:MM:SS.uuuuuu")
    hours, minutes, seconds, us = map(int, match.groups())
    must(hours < 24, line, "a time after the end of the day")
    return ((hours * 60 + minutes) * 60 + seconds) * 1_000_000 + us


def verify(lines):
    """Read a trace as Tarn's reader does, and follow its blocks."""
    lines = iter(lines)
    must(next(lines, None) == HEADER, 1, "not the header of RMM's log")
    found, live, live_bytes, before = Found(), {}, 0, -1
    for number, line in enumerate(lines, 2):
        must(line.endswith("\n"), number, "no end of the line")
        fields = line[:-1].split(",")
        must(len(fields) == 6, number, f"{len(fields)} columns")
        thread, time, action, pointer, size, stream = fields
        now = row_us(time, number)
        must(now >= before, number, "the time goes back")
        before = now
        must(thread.isdecimal() and size.isdecimal(), number, "not a number")
        pointer, size, stream = int(pointer, 16), int(size), int(stream, 16)
        must(pointer > 0 and size > 0, number, "no pointer or no size")
        if action == "allocate":
            must(pointer not in live, number, f"{pointer:#x} is live already")
            live[pointer] = size
            live_bytes += size
        else:
            must(action == "free", number, f"{action!r} is no action")
            must(live.pop(pointer, None) == size, number, f"{pointer:#x} is not such a block")
            live_bytes -= size
        found.peak = max(found.peak, live_bytes)
        found.operations += 1
        found.streams.add(stream)
    must(not live, found.operations + 1, f"{len(live)} blocks are live at the end")
    return found


def check_kind(name, seed):
    """Verify small traces of a kind; returns a line about it."""
    streams = min(KINDS[name].streams, CHECK_STREAMS_MOST)
    sizes = {"streams": streams, "operations": CHECK_OPERATIONS, "peak": CHECK_PEAK}
    texts = []
    for one in (seed, seed, seed + 1):
        text = io.StringIO()
        generate(name, one, text.write, **sizes)
        texts.append(text.getvalue())
    must(texts[0] == texts[1], 1, "the same seed gives another trace")
    must(texts[0] != texts[2], 1, "another seed gives the same trace")
    for text in (texts[0], texts[2]):
        found = verify(io.StringIO(text))
        expected = {STREAM_BASE + (i + 1) * STREAM_BYTES for i in range(streams)}
        must(found.streams == expected, 1, f"{len(found.streams)} streams, not {streams}")
        error = abs(found.peak / CHECK_PEAK - 1)
        must(error <= PEAK_TOLERANCE, 1, f"the peak is {found.peak}, not {CHECK_PEAK}")
        error = abs(found.operations / CHECK_OPERATIONS - 1)
        must(error <= 0.5, 1, f"{found.operations} operations, not {CHECK_OPERATIONS}")
    digest = hashlib.sha256(texts[0].encode()).hexdigest()[:16]
    found = verify(io.StringIO(texts[0]))
    return f"{name:16} {found.operations:6} operations, {len(found.streams):3} streams, {digest}"


def check(names, seed):
    failed = 0
    for name in names:
        try:
            print(check_kind(name, seed), flush=True)
        except BadTrace as error:
            print(f"{name:16} FAILED: {error}")
            failed += 1
    print(f"{len(names)} kinds, {failed} failed")
    return failed > 0


# --- the command line --------------------------------------------------------------------


def list_kinds():
    for name, kind in KINDS.items():
        title = kind.module.__doc__.partition("\n")[0]
        print(f"{name:16} {kind.streams:4} {kind.operations:10,} {kind.peak >> 30:3} GiB  {title}")


def parse_bytes(text):
    match = re.fullmatch(r"(\d+)(KiB|MiB|GiB)?", text)
    if not match or int(match[1]) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size such as 4GiB")
    return int(match[1]) << {None: 0, "KiB": 10, "MiB": 20, "GiB": 30}[match[2]]


def positive(text):
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return number


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("kinds", metavar="KIND", nargs="*", choices=[*KINDS, []])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--streams", type=positive)
    parser.add_argument("--operations", type=positive)
    parser.add_argument("--peak", type=parse_bytes, metavar="BYTES")
    parser.add_argument("-o", dest="out", metavar="FILE")
    parser.add_argument("--list", action="store_true", help="kinds and their defaults")
    parser.add_argument("--check", action="store_true", help="verify small traces")
    options = parser.parse_args(arguments)
    if not options.list and not options.check and len(options.kinds) != 1:
        parser.error("name one KIND, or --list, or --check")
    return options


def main(arguments):
    options = parse(arguments)
    if options.list:
        list_kinds()
        return 0
    if options.check:
        return check(options.kinds or list(KINDS), options.seed)
    name = options.kinds[0]
    path = options.out or f"{name}-seed{options.seed}.csv.gz"
    sizes = {key: getattr(options, key) for key in ("streams", "operations", "peak")}
    trace = generate_file(name, options.seed, path, **sizes)
    print(
        f"{path}: {trace.operations:,} operations, {trace.streams} streams, "
        f"peak live {trace.peak / GIB:.3f} GiB, seed {options.seed}"
    )
    if abs(trace.peak / trace.target_peak - 1) > PEAK_TOLERANCE:
        print(
            f"{path}: the peak was to be {trace.target_peak / GIB:.3f} GiB: more --operations "
            "or a smaller --peak",
            file=sys.stderr,
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
