"""`tarn convert`: each form is read by an independent reader, and by `tarn log` where it is a log."""

import gzip
import importlib.util
import json
import pickle
import re
from pathlib import Path

import binary_log
import pytest
from binary_log import ALLOCATE, FAILURE, FREE
from cli_tool import NBEP7, RMM, refused, tarn_tool

FORMS = ("nbep7", "rmm", "binary", "torch-snapshot", "perfetto", "collapsed", "speedscope")
MIB = 1 << 20


def sample():
    """A log of two devices: two blocks are live at the end, and one of them was held until exit."""
    made = binary_log.BinaryLog(host="box", command="python train.py")
    main = ("main", "/me/a;\n.py", 9)
    deep = made.stack(("empty", "/v/site-packages/x.py", 3), main)
    flat = made.stack(main)
    gone = made.stack(("", "<exit>", 0))
    base = 0x7F00_0000_0000
    made.add(1000, ALLOCATE, base, 3 * MIB, deep, duration=400)
    made.add(2000, ALLOCATE, base + 3 * MIB, 100, flat, stream=7)
    made.pool(2500, 0, 8 * MIB, 3 * MIB)
    made.add(3000, ALLOCATE, base + 64 * MIB, MIB, flat, device=1)
    made.add(4000, FREE, base, 0, flat)
    made.add(5000, FAILURE, 0, 1 << 40, flat)
    made.add(5500, ALLOCATE, base, 5, deep)
    made.mark(6000, "<exit>")
    made.add(7000, FREE, base + 3 * MIB, 0, gone)
    return made, base


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "in.tarn"
    path.write_bytes(sample()[0].bytes())
    return path


def convert(source, form, *args):
    """Return the path of the converted log."""
    out = source.parent / f"out.{form}"
    done = tarn_tool("convert", source, "--to", form, "-o", out, *args)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("\n") <= 1, done.stderr
    return out


def figures(path):
    told = json.loads(tarn_tool("log", "--json", path).stdout)
    names = ("events", "allocations", "frees", "failures", "peak_live_bytes", "end_live_bytes")
    return [told[name] for name in names]


@pytest.mark.parametrize("form", ["nbep7", "rmm", "binary"])
def test_a_log_has_the_same_figures_in_each_form(source, form):
    assert figures(convert(source, form)) == figures(source) == [7, 4, 2, 1, 4 * MIB + 100, MIB + 5]


def test_a_log_comes_back_from_a_binary_one(tmp_path):
    text = NBEP7 + "Alloc,0,0x10,none,100,0,0,1,0.500000000,0.600000000,0.100000000,/a/b.py:7\n"
    text += "Free,0,0x10,none,100,0,0,0,1.500000000,1.700000000,0.200000000,<gc>\n"
    (tmp_path / "a.csv").write_text(text)
    assert tarn_tool("convert", tmp_path / "a.csv", "-o", tmp_path / "b.tarn").returncode == 0
    assert tarn_tool("convert", tmp_path / "b.tarn", "-o", tmp_path / "c.csv").returncode == 0
    assert (tmp_path / "c.csv").read_text().splitlines() == text.splitlines()


def test_a_binary_log_keeps_the_marks_and_their_times(source):
    def marks(path):
        events = json.loads(convert(path, "perfetto").read_text())["traceEvents"]
        return [event["ts"] for event in events if event["name"] == "<exit>"]

    assert marks(convert(source, "binary")) == marks(source) != []


def test_says_once_what_a_form_has_no_place_for(source, tmp_path):
    done = tarn_tool("convert", source, "-o", tmp_path / "a.rmm.csv")
    assert done.stderr == (
        "tarn convert: rmm has no place for: devices, locations, call stacks, pool rows, marks, "
        "the process\n"
    )
    rmm = tmp_path / "r.csv"
    rmm.write_text(RMM + "1,00:00:01.0,allocate,0x10,100,0\n")
    assert tarn_tool("convert", rmm, "-o", tmp_path / "b.rmm.csv").stderr == ""


@pytest.mark.parametrize(("at", "lines"), [
    ("peak", ["main (/me/a,?.py:9);empty (/v/site-packages/x.py:3) 3145728",
              "main (/me/a,?.py:9) 1048676"]),
    ("end", ["main (/me/a,?.py:9) 1048576",
             "main (/me/a,?.py:9);empty (/v/site-packages/x.py:3) 5"]),
    ("held", ["main (/me/a,?.py:9) 1048676",
              "main (/me/a,?.py:9);empty (/v/site-packages/x.py:3) 5"]),
    ("total", ["main (/me/a,?.py:9);empty (/v/site-packages/x.py:3) 3145733",
               "main (/me/a,?.py:9) 1048676"]),
])  # fmt: skip
def test_collapsed_stacks_have_the_bytes_of_a_time(source, at, lines):
    assert convert(source, "collapsed", "--at", at).read_text().splitlines() == lines


def test_speedscope_has_a_sample_for_each_stack(source):
    told = json.loads(convert(source, "speedscope").read_text())
    assert told["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    frames = told["shared"]["frames"]
    assert [frame["name"] for frame in frames] == ["main", "empty"]
    assert frames[0] == {"name": "main", "file": "/me/a;\n.py", "line": 9}
    (profile,) = told["profiles"]
    assert profile["type"] == "sampled" and profile["unit"] == "bytes"
    assert profile["samples"] == [[0, 1], [0]]
    assert profile["weights"] == [3 * MIB, MIB + 100]
    assert profile["startValue"] == 0 and profile["endValue"] == sum(profile["weights"])


def test_perfetto_has_async_events_with_an_end_for_each_freed_block(source):
    events = json.loads(convert(source, "perfetto").read_text())["traceEvents"]
    by_phase = {phase: [e for e in events if e["ph"] == phase] for phase in "beCiM"}
    ended = {event["id"]: event for event in by_phase["e"]}
    begun = {event["id"]: event for event in by_phase["b"]}
    assert len(begun) == 4 and len(ended) == 2
    for number, event in ended.items():
        start = begun[number]
        assert (event["name"], event["cat"]) == (start["name"], start["cat"])
        assert event["ts"] > start["ts"]
    assert begun["0x1"]["ts"] == 1.0 and begun["0x1"]["args"]["bytes"] == 3 * MIB
    live = [e["args"]["bytes"] for e in by_phase["C"] if e["name"] == "live bytes of device 0"]
    assert live == [3 * MIB, 3 * MIB + 100, 100, 105, 5]
    assert "reserved bytes of pool 1" in {event["name"] for event in by_phase["C"]}
    assert {e["name"] for e in by_phase["i"]} == {"growth", "failed allocation", "<exit>"}
    assert {event["pid"] for event in events} == {4711}
    assert [(e["name"], e["args"]) for e in by_phase["M"]] == [
        ("process_name", {"name": "python train.py"})
    ]


def test_perfetto_has_the_fields_that_the_viewer_requires(source):
    """The format of trace events: what Perfetto's importer counts as an error otherwise."""
    told = json.loads(convert(source, "perfetto").read_text())
    assert told["displayTimeUnit"] == "ns"
    alive = set()
    for event in told["traceEvents"]:
        assert type(event["pid"]) is int and type(event["tid"]) is int
        assert type(event["ts"]) in (int, float) and event["ts"] >= 0  # microseconds
        assert type(event["name"]) is str and event["name"]
        if event["ph"] in "be":  # an async event is known by its category and its id
            key = (event["cat"], event["id"])
            assert (key in alive) == (event["ph"] == "e"), event
            alive ^= {key}
        elif event["ph"] == "C":
            assert [type(value) for value in event["args"].values()] == [int]
        elif event["ph"] == "i":
            assert event["s"] == "g"
        else:
            assert (event["ph"], event["name"]) == ("M", "process_name")
    assert len(alive) == 2  # blocks that are never freed


def test_a_torch_snapshot_has_its_documented_fields(source):
    base = sample()[1]
    raw = convert(source, "torch-snapshot").read_bytes()
    assert raw[:2] == b"\x80\x02"
    told = pickle.loads(raw)
    first, second = told["device_traces"]
    assert [event["action"] for event in first] == [
        *("alloc", "alloc", "free_requested", "free_completed", "oom", "alloc"),
        *("free_requested", "free_completed"),
    ]  # fmt: skip
    assert [event["action"] for event in second] == ["alloc"]
    assert first[0]["addr"] == base and first[2]["size"] == 3 * MIB
    assert first[0]["time_us"] == 1_700_000_000_000_001
    assert [frame["name"] for frame in first[0]["frames"]] == ["empty", "main"]
    assert first[5]["frames"] == first[0]["frames"]
    assert first[4]["size"] == 1 << 40 and "device_free" in first[4] and "addr" not in first[4]
    assert [segment["device"] for segment in told["segments"]] == [0, 1]
    for segment in told["segments"]:
        at = segment["address"]
        for block in segment["blocks"]:
            assert block["address"] == at
            at += block["size"]
        assert at == segment["address"] + segment["total_size"]
        live = [b for b in segment["blocks"] if b["state"] == "active_allocated"]
        assert segment["allocated_size"] == sum(block["requested_size"] for block in live)
        assert live and all(block["frames"] for block in live)


def test_pytorchs_own_viewer_reads_the_snapshot(source):
    spec = importlib.util.find_spec("torch")
    if spec is None:
        pytest.skip("PyTorch is not installed")
    path = Path(spec.origin).parent / "cuda" / "_memory_viz.py"
    module_spec = importlib.util.spec_from_file_location("memory_viz", path)
    viz = importlib.util.module_from_spec(module_spec)
    module_spec.loader.exec_module(viz)  # the file alone: it does not import torch
    told = pickle.loads(convert(source, "torch-snapshot").read_bytes())
    assert "segments: 2" in viz.segsum(told)
    assert "OutOfMemoryError" in viz.trace(told)
    assert "snapshot.pickle" in viz.trace_plot(told)
    flames = []
    viz.memory(told, format_flamegraph=flames.append)
    assert re.search(r"active_allocated;.*main;x\.py:3:empty 5\n", flames[0])


def test_the_suffix_selects_the_form(source, tmp_path):
    for name, begin in {
        "a.csv": b"Event Type",
        "a.rmm.csv": b"Thread,",
        "a.tarn": b"TARNLOG\0",
        "a.pickle": b"\x80\x02",
        "a.json": b'{\n  "displayTimeUnit"',
        "a.collapsed": b"main",
        "a.speedscope.json": b'{\n  "$schema"',
    }.items():
        assert tarn_tool("convert", source, "-o", tmp_path / name).returncode == 0
        assert (tmp_path / name).read_bytes().startswith(begin), name


def test_reads_gzip_and_writes_to_stdout(source, tmp_path):
    packed = tmp_path / "in.gz"
    packed.write_bytes(gzip.compress(source.read_bytes()))
    done = tarn_tool("convert", packed, "--to", "collapsed", "--output", "-")
    assert done.stdout == convert(source, "collapsed").read_text()


@pytest.mark.parametrize("form", FORMS)
def test_an_empty_log_has_an_empty_output_of_each_form(tmp_path, form):
    source = tmp_path / "in.csv"
    source.write_text(NBEP7)
    out = convert(source, form)
    if form == "torch-snapshot":
        assert pickle.loads(out.read_bytes()) == {"device_traces": [[]], "segments": []}
    elif form in ("perfetto", "speedscope"):
        json.loads(out.read_text())


def test_wrong_uses_are_refused_and_leave_no_output(source, tmp_path):
    out = tmp_path / "x.csv"
    refused(2, "exactly one log", "convert", "-o", out)
    refused(2, "--output is required", "convert", source)
    refused(2, "tells no form", "convert", source, "-o", tmp_path / "x")
    refused(2, "unknown form svg", "convert", source, "--to", "svg", "-o", out)
    refused(2, "--at is for", "convert", source, "--at", "end", "-o", out)
    refused(2, "not now", "convert", source, "--at", "now", "-o", out)
    refused(2, "cannot go to stdout", "convert", source, "--to", "rmm", "-o", "-")
    refused(1, "is the log itself", "convert", source, "-o", source)
    refused(1, "cannot open", "convert", tmp_path / "none", "-o", out)
    refused(1, "cannot create", "convert", source, "-o", tmp_path / "no" / "a.json")
    bad = tmp_path / "bad.csv"
    bad.write_text(NBEP7 + "Alloc,0\n")
    for form in FORMS:
        refused(1, "bad.csv:2", "convert", bad, "--to", form, "-o", out)
        assert not out.exists()
    assert figures(source)[0] == 7


def test_a_full_disk_is_an_error(source):
    refused(1, "No space left", "convert", source, "--to", "perfetto", "-o", "/dev/full")


def test_the_commands_of_the_page_about_logs_work(tmp_path):
    page = (Path(__file__).parents[2] / "docs" / "logs.md").read_text()
    blocks = re.findall(r"```sh\n(.*?)```", page, re.S)
    commands = [line.split() for block in blocks for line in block.splitlines()]
    held, converted = [c for c in commands if c[1] == "log"], [c for c in commands if c[1] != "log"]
    assert len(held) == 2 and len(converted) == 7
    (tmp_path / "log.tarn").write_bytes(sample()[0].bytes())
    allow = re.search(r"```text\n(# caches.*?)```", page, re.S)
    (tmp_path / "allow.txt").write_text(allow[1])
    for command in converted + held:
        done = tarn_tool(*command[1:], cwd=tmp_path)
        assert done.returncode == ("--fail-on-held" in command), (command, done.stderr)
    assert figures(tmp_path / "again.tarn") == figures(tmp_path / "log.tarn")


@pytest.mark.parametrize("form", FORMS)
def test_a_failure_leaves_an_older_output_and_no_other_file(tmp_path, form):
    log, out = tmp_path / "in.csv", tmp_path / "out"
    log.write_text(NBEP7 + "\nnot a row\n")
    out.write_text("older")
    refused(1, "columns", "convert", log, "--to", form, "-o", out)
    assert out.read_text() == "older"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.csv", "out"]


def test_an_output_keeps_its_link_and_its_permissions(source, tmp_path):
    out, link = tmp_path / "real", tmp_path / "link"
    out.touch(mode=0o600)
    link.symlink_to(out)
    assert tarn_tool("convert", source, "--to", "nbep7", "-o", link).returncode == 0
    assert link.is_symlink() and out.stat().st_mode & 0o777 == 0o600
    assert out.read_text().startswith(NBEP7)
