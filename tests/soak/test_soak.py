"""The soak for a short time: nothing grows, and each planted fault is found.

The programs are those of `./check soak-hours`. TARN_SOAK_BUILD names the build.
"""

import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import time

import growth
import pytest
import run as soak_run

HERE = pathlib.Path(__file__).parent
BUILD = pathlib.Path(os.environ.get("TARN_SOAK_BUILD", HERE.parents[1] / "build/release"))


def command(folder, program, turns, every, *options):
    return [
        sys.executable, str(HERE / "run.py"), str(folder), "--build", str(BUILD), "--programs", program,
        "--seconds", "1500", "--turns", str(turns), "--every", str(every), "--drift", "2", *options,
    ]  # fmt: skip


def soak(*arguments):
    """Return the code and the output of a run."""
    done = subprocess.run(command(*arguments), text=True, capture_output=True, timeout=1600)
    return done.returncode, done.stdout + done.stderr


TURNS = {"pool": (480, 12), "frameworks": (96, 3)}


@pytest.mark.parametrize("program", soak_run.PROGRAMS)
def test_nothing_grows(tmp_path, program):
    code, output = soak(tmp_path, program, *TURNS[program])
    assert code == 0, output
    assert "FAIL" not in output and output.count("ok   descriptors") >= 1


PLANTED = {
    "heap": "heap_bytes",
    "pages": "rss_bytes",
    "device": "live_bytes",
    "descriptor": "descriptors",
    "thread": "threads",
    "slow": "pair_ns",
}
ALL_PLANTED = [(program, plant) for program in soak_run.PROGRAMS for plant in PLANTED]


def finds(folder, program, plant):
    """64 bytes a turn, a page a turn; each 16th turn a block, a descriptor, a thread; a slow-down."""
    turns, every = TURNS[program]
    if plant == "heap":
        turns *= 2 if program == "pool" else 4
    code, output = soak(folder, program, turns, every, "--plant", plant)
    process, column = ("owner" if program == "pool" else program), PLANTED[plant]
    if program == "frameworks" and plant == "heap":
        column = "objects"
    assert code == 1, output
    found = output.splitlines()[-1].partition(": ")[2].split(", ")
    assert f"{process}.{column}" in found, output


@pytest.mark.parametrize("program, plant", [("pool", "device"), ("frameworks", "descriptor")])
def test_a_planted_fault_is_found(tmp_path, program, plant):
    finds(tmp_path, program, plant)


@pytest.mark.full
@pytest.mark.parametrize("program, plant", ALL_PLANTED)
def test_each_planted_fault_is_found(tmp_path, program, plant):
    finds(tmp_path, program, plant)


def wait_for_rows(path, count):
    deadline = time.monotonic() + 120
    while not path.exists() or len(path.read_text().splitlines()) < count:
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_a_run_that_was_stopped_continues_with_the_next_turn(tmp_path):
    arguments = tmp_path, "pool", 240, 6
    stopped = subprocess.Popen(command(*arguments), stdout=subprocess.PIPE, text=True)
    wait_for_rows(tmp_path / "pool.tsv", 8)
    stopped.send_signal(signal.SIGTERM)
    output, _ = stopped.communicate(timeout=60)
    assert stopped.returncode == soak_run.UNFINISHED, output
    state = json.loads((tmp_path / "state.json").read_text())
    code, output = soak(*arguments)
    assert code in (0, 1) and "owner: " in output, output  # 1: the warm-up of two short parts
    rows = growth.read(tmp_path / "pool.tsv")["owner"]
    first = [row["part"] for row in rows].index(2)
    assert rows[first - 1]["turn"] == state["programs"]["pool"]["turn"] < rows[first]["turn"]
    assert [row["turn"] for row in rows] == [6.0 * (i + 1) for i in range(40)]
    assert [row["seconds"] for row in rows] == sorted(row["seconds"] for row in rows)
    assert soak_run.read_state(tmp_path, seed=9)["seed"] == 9  # it was judged: a new run begins
    assert not (tmp_path / "pool.tsv").exists()


def test_a_killed_program_is_a_failure_and_its_samples_stay(tmp_path):
    running = subprocess.Popen(
        command(tmp_path, "pool", 10_000, 6), stdout=subprocess.PIPE, text=True
    )
    samples = tmp_path / "pool.tsv"
    wait_for_rows(samples, 2)
    children = pathlib.Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text()
    os.kill(int(children.split()[0]), signal.SIGKILL)
    output, _ = running.communicate(timeout=60)
    assert running.returncode == 1 and "pool ended with -9" in output
    state = json.loads((tmp_path / "state.json").read_text())
    assert state["programs"]["pool"]["turn"] == growth.read(samples)["owner"][-1]["turn"]


# --- the judgement, on made-up samples ----------------------------------------------------


def rows(count=120, parts=1, **figures):
    """Return samples; a figure is a function of (turn, random numbers)."""
    rng = random.Random(7)
    made = []
    for i in range(count):
        row = dict.fromkeys(growth.COLUMNS[1:], 1000.0)
        row.update(part=float(i * parts // count), turn=float(100 * i))
        row.update({name: float(value(100 * i, rng)) for name, value in figures.items()})
        made.append(row)
    return made


def failures(made):
    return [column for column, *_, holds in growth.judge(made) if not holds]


def test_constant_figures_and_noise_pass():
    assert failures(rows()) == []
    assert failures(rows(pair_ns=lambda turn, rng: 3500 * rng.choice((1, 1, 1, 1.5, 3)))) == []
    assert failures(rows(heap_bytes=lambda turn, rng: 1e6 + rng.randrange(100_000))) == []


def test_load_in_most_windows_at_the_end_is_no_drift():
    def loaded(turn, rng):
        return 3500 * (1.5 if turn > 8000 and turn % 1000 < 600 else 1)

    assert failures(rows(pair_ns=loaded)) == []


@pytest.mark.parametrize("parts", [1, 5])
@pytest.mark.parametrize(
    "column, figure",
    [
        ("heap_bytes", lambda turn, rng: 1e6 + 64 * turn + rng.randrange(10_000)),
        ("rss_bytes", lambda turn, rng: 1e8 + 4096 * turn),
        ("device_bytes", lambda turn, rng: turn // 600 * (2 << 20)),
        ("live_bytes", lambda turn, rng: turn // 16),
        ("descriptors", lambda turn, rng: 10 + turn // 500),
        ("threads", lambda turn, rng: 10 + turn // 500),
        ("pair_ns", lambda turn, rng: (3500 + turn / 4) * rng.choice((1, 1, 1, 2))),
    ],
)
def test_growth_is_found_in_one_part_and_in_several(column, figure, parts):
    assert failures(rows(parts=parts, **{column: figure})) == [column]


def test_growth_in_the_warm_up_does_not_count():
    assert failures(rows(heap_bytes=lambda turn, rng: min(turn, 2900) * 1000)) == []


@pytest.mark.parametrize("column", ["heap_bytes", "rss_bytes"])
def test_one_late_step_is_no_growth_and_repeated_ones_are(column):
    step = 2 << 20
    assert failures(rows(**{column: lambda turn, rng: 1e6 + step * (turn > 8000)})) == []
    assert failures(rows(**{column: lambda turn, rng: 1e6 + step * (turn // 1000)})) == [column]


def test_too_few_samples_are_no_result():
    with pytest.raises(growth.TooFewSamples):
        growth.judge(rows(count=11))
