"""`tarn report`: its figures are those of a replay in memory, and of `tarn log`."""

import json
import random
import subprocess

import pytest
from cli_tool import TOOL, tarn_tool
from report_logs import ALLOCATE, FAILURE, FREE, NONE, blocks, csv, path_of
from report_oracle import Oracle

MS = 10**6
PLACES = [f"/home/ann/part{i % 3}/mod{i}.py:{i + 1}" for i in range(9)] + ["", "<other>", "a:b:7"]


def report(data, *args):
    """The data blocks of the page of a log."""
    done = subprocess.run([TOOL, "report", "-", "-o", "-", *args], input=data, capture_output=True)
    assert done.returncode == 0, done.stderr
    return blocks(done.stdout)


def random_rows(seed):
    """A log with all that may be in one: late rows, repeated addresses, frees of nothing."""
    rng = random.Random(seed)
    rows, live, time = [], [], rng.randrange(10**12)
    step = 10 ** rng.randrange(2, 12)
    places = rng.sample(PLACES, rng.randrange(1, len(PLACES)))
    streams = rng.choice([[NONE], [0, 7, NONE], list(range(3, 90))])
    huge = rng.choice([7, 2**53 + 1])
    exit_at = rng.choice([None, None, rng.randrange(400)])
    for number in range(rng.choice([1, 20, 400, 400, 400])):
        time += rng.choice([0, 1, rng.randrange(step), rng.randrange(step)])
        start = max(0, time - rng.choice([0, 0, 0, rng.randrange(step)]))
        end = start + rng.choice([0, 0, rng.randrange(1000), rng.randrange(step)])
        address = rng.choice(live) if live and rng.random() < 0.6 else rng.randrange(1, 10**6) * 16
        size = rng.choice([0, 1, 512, rng.randrange(10**9), huge])
        place = rng.choice(places)
        if exit_at is not None and number >= exit_at:
            place = rng.choice(["<exit>", "<gc>", place])
        action = rng.choice([ALLOCATE] * 5 + [FREE] * 4 + [FAILURE])
        if rng.random() < 0.02:
            address = 0
        if action == FREE and live and rng.random() < 0.8:
            address = live.pop(rng.randrange(len(live)))
            place = rng.choice([place, "<gc>"])
        elif action == ALLOCATE:
            live.append(address)
        elif action == FAILURE:
            address = 0
        rows.append((action, address, rng.choice(streams), size, start, place, end))
    return rows


def place_of(block, frame):
    """The location of a frame, as the log has it."""
    if frame >= len(block["frames"]):
        return ""
    _function, file, line, *_ = block["frames"][frame]
    return f"{file}:{line}" if line else file


def by_place(block, entries):
    """The bytes of each location in a list of nodes."""
    found = {}
    for node, size in entries.items():
        path = path_of(block, node)
        assert len(path) <= 1
        place = f"{path[0][1]}:{path[0][2]}" if path and path[0][2] else path[0][1] if path else ""
        found[place] = found.get(place, 0) + size
    return {place: size for place, size in found.items() if size}


def first(entries):
    return {node: pair[0] for node, pair in entries.items()}


def check_columns(block, oracle):
    assert (block["width"], block["start"]) == (oracle.width, oracle.start)
    assert len(block["columns"]) == len(oracle.columns)
    for found, wanted in zip(block["columns"], oracle.columns):
        for name in "max", "min", "offset", "allocations", "frees":
            assert found[name] == getattr(wanted, name), name


def check_bands(block, oracle):
    streams = {NONE: "no stream", 0: "default stream"}
    for name, bands in block["bands"].items():
        for column, wanted in enumerate(oracle.columns):
            assert sum(band["bytes"][column] for band in bands) == wanted.max
        for band in bands:
            for column, wanted in enumerate(oracle.columns):
                values = wanted.values
                if band["kind"] == 1 or band["label"] == "further streams":
                    continue
                if name == "site":
                    key = "site", place_of(block, band["frame"]) if band["kind"] == 0 else ""
                elif name == "stream":
                    raw = [s for k, s in values if k == "stream"]
                    texts = {streams.get(s, f"stream {s:#x}"): s for s in raw}
                    key = "stream", texts.get(band["label"])
                else:
                    continue
                assert band["bytes"][column] == values.get(key, 0), (name, band["label"])


def check_snapshots(block, oracle):
    for column, time, values in block["snapshots"]:
        wanted = oracle.columns[column]
        assert time == oracle.start + column * oracle.width + wanted.offset
        assert by_place(block, values) == oracle.sites_at(wanted.values)
    largest = max(column.max for column in oracle.columns)
    assert largest in [oracle.columns[column].max for column, *_ in block["snapshots"]]


def check_parts(parts, place, oracle):
    """Each 64th of the columns has at least the bytes of the site at the maxima in it."""
    count = len(oracle.columns)
    for part, most in enumerate(parts):
        for column in oracle.columns[part * count // 64 : (part + 1) * count // 64]:
            assert most >= column.values.get(("site", place), 0)


def check_sites(block, oracle):
    assert len(block["sites"]) == len(oracle.sites)
    for found in block["sites"]:
        place = place_of(block, found["frame"])
        wanted = oracle.sites[place]
        for name in "total", "count", "frees", "largest":
            assert found[name] == wanted[name]
        assert found["peak"] == oracle.sites_at(oracle.at_peak).get(place, 0)
        assert found["held"] == oracle.held[place]
        assert max(found["parts"]) >= found["peak"]
        check_parts(found["parts"], place, oracle)
        lifetimes = sorted(wanted["lifetimes"])
        for name, share in ("median", 0.5), ("p99", 0.99):
            if lifetimes:
                exact = lifetimes[max(0, -int(-share * len(lifetimes) // 1) - 1)]
                assert exact <= found[name] <= exact * 1.125 + 1


def check(rows):
    oracle = Oracle(rows)
    (block,) = report(csv(rows))
    meta = block["meta"]
    assert (meta["peak_bytes"], meta["rows"]) == (oracle.peak, len(rows))
    if oracle.peak:
        assert meta["peak_ns"] == oracle.peak_ns
    assert meta["moved"] == oracle.moved
    assert meta["held_bytes"] == sum(oracle.held.values())
    check_columns(block, oracle)
    check_bands(block, oracle)
    check_snapshots(block, oracle)
    check_sites(block, oracle)
    assert by_place(block, first(block["peak"])) == oracle.sites_at(oracle.at_peak)
    assert by_place(block, first(block["held"])) == {p: n for p, n in oracle.held.items() if n}
    assert sum(blocks for _, blocks in block["peak"].values()) == len(peak_blocks(rows))
    return block, oracle


def peak_blocks(rows):
    """The blocks that are live at the peak: all rows up to it, replayed."""
    live, most, found = {}, 0, {}
    for action, address, _stream, size, *_ in rows:
        if action == ALLOCATE and address:
            live[address] = size
        elif action == FREE:
            live.pop(address, None)
        if sum(live.values()) > most:
            most, found = sum(live.values()), dict(live)
    return found


def check_log(rows):
    """Compare the figures with those of `tarn log`."""
    data = csv(rows)
    (block,) = report(data)
    told = json.loads(tarn_tool("log", "--json", "-", input=data).stdout)
    meta = block["meta"]
    for name, key in (
        ("rows", "events"),
        ("allocations", "allocations"),
        ("frees", "frees"),
        ("failures", "failures"),
        ("unmatched_frees", "unmatched_frees"),
        ("double_allocations", "double_allocations"),
        ("problems", "problem_count"),
        ("peak_bytes", "peak_live_bytes"),
        ("end_bytes", "end_live_bytes"),
        ("total_bytes", "total_bytes"),
        ("duration_ns", "duration_ns"),
    ):
        assert meta[name] == told[key], name


def test_the_figures_of_random_logs_are_those_of_a_replay():
    for seed in range(60):
        check(random_rows(seed))


def test_the_figures_of_random_logs_are_those_of_tarn_log():
    for seed in range(1000, 1030):
        check_log(random_rows(seed))


@pytest.mark.full
def test_the_figures_of_a_thousand_random_logs_are_those_of_a_replay():
    for seed in range(2000, 3000):
        rows = random_rows(seed)
        check(rows)
        if seed % 4 == 0:
            check_log(rows)


@pytest.mark.parametrize("sites", [7, 16])
def test_adjacent_bands_have_different_colours(sites):
    """There are up to 16 bands, 12 colours, and 7 hues: the last colours repeat hues with a hatch."""
    for seed in range(40):
        rng = random.Random(seed)
        rows, address = [], 1 << 20
        for number in range(sites):  # each has more than 5 % of the peak
            for step in range(rng.randrange(1, 4)):
                rows.append((ALLOCATE, address, NONE, 90 + number, step, f"f{seed}.py:{number}"))
                address += 4096
        (block,) = report(csv(rows))
        for bands in block["bands"].values():
            plain = [band["colour"] for band in bands if band["kind"] == 0]
            assert all(a != b for a, b in zip(plain, plain[1:])), (seed, plain)
            assert len(set(plain)) == min(len(plain), 12)
            if len(plain) <= 7:
                assert len({colour % 7 for colour in plain}) == len(plain), (seed, plain)
