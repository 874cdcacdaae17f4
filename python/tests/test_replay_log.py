"""Tests of bench/torch/replay_log.py, which repeats a log of PyTorch on pools."""

import csv
import json
import pathlib
import subprocess
import sys

import pytest

PROGRAM = pathlib.Path(__file__).parents[2] / "bench/torch/replay_log.py"
COLUMNS = (
    *("Event Type", "Device ID", "Address", "Stream", "Size (bytes)", "Free Memory"),
    *("Total Memory", "Current Allocs", "Start", "End", "Elapsed", "Location"),
)
MIB = 1 << 20
SHAPES, STEPS, FIRST = 3, 60, 30


def rows(step):
    """Yield the events of a step: blocks that are live at once, and then the optimizer's."""
    sizes = [(4 + i + step % SHAPES) * MIB for i in range(12)]
    for kind in ("Alloc", "Free"):
        for i, size in enumerate(sizes):
            yield kind, hex(4096 * (i + 1)), size, "program.py:3"
    for kind in ("Alloc", "Free"):
        yield kind, "0x1", 512, "program.py:7"


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "log.csv"
    with open(path, "w", newline="") as file:
        out = csv.writer(file)
        out.writerow(COLUMNS)
        for step in range(STEPS):
            for kind, address, size, location in rows(step):
                out.writerow([kind, 0, address, 0, size, 0, 0, 0, 0, 0, 0, location])
    return path


def replay(log, *arguments):
    command = [sys.executable, PROGRAM, log, "--mark", "program.py:7", "--wait", "0", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


@pytest.mark.parametrize(
    "behind", [(), ("--behind", "--seed", "2"), ("--behind", "--two-threads"), ("--two-threads",)]
)
def test_a_log_is_repeated_on_each_allocator(log, behind):
    done = replay(log, "--from", str(FIRST), *behind)
    assert done.returncode == 0, done.stderr
    plain, learned = (json.loads(line) for line in done.stdout.splitlines())
    assert plain["allocator"] == "tarn"
    assert plain["planned"] == 0
    live = sum(4 + i + SHAPES - 1 for i in range(12)) * MIB
    assert plain["live"] == learned["live"] == live
    assert 1 <= plain["reserved : live"] < 1.3
    assert plain["steps"] == learned["steps"] >= STEPS - FIRST - 1
    assert learned["planned"] >= 12 * (learned["steps"] - 1)
    assert learned["plan_state"] == "followed"
    assert learned["moves"] == 0


def test_a_log_with_fewer_steps_is_an_error(log):
    done = replay(log, "--from", "100", "--allocators", "tarn")
    assert done.returncode != 0
    assert f"the log has {STEPS - 1} steps, --from is 100" in done.stderr
