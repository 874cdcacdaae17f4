"""run.py -- run both programs of the soak for a time, in one go or in parts, and judge the samples.

    run.py FOLDER --build build/release [--python PYTHON] [--seconds N] [--window MS] [--seed N]
    run.py FOLDER --build build/release --gpu [...]
    run.py FOLDER --build build/release --programs pool --turns N --every N

FOLDER gets state.json, with the seed and the turn of each program, and for each program its samples
(NAME.tsv), its log and its output. A run that was stopped by SIGINT, SIGTERM or a power failure goes
on with the turn after its last sample. After a run that was judged, a new one begins. --stop-after N
stops it after N seconds, for a long run in parts. With --turns the run ends after that many turns,
and has a sample after each --every turns: the same on a slow machine. The programs run on the
driver simulator of the build, with --gpu on the machine's own driver.

The exit code is 0 if nothing grew, 1 if something did, and 75 (EX_TEMPFAIL) if time is left.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import growth

HERE = pathlib.Path(__file__).parent
UNFINISHED = 75
PROGRAMS = ("pool", "frameworks")

# Without caches of threads and with one arena, the bytes in blocks of malloc() are exact.
EXACT_HEAP = "glibc.malloc.tcache_count=0:glibc.malloc.arena_max=1"


def read_state(folder, seed):
    """Return the state of a run, or that of a new one."""
    path = folder / "state.json"
    state = json.loads(path.read_text()) if path.exists() else {"is_judged": True}
    if not state.get("is_judged"):
        return state
    for name in PROGRAMS:
        (folder / f"{name}.tsv").unlink(missing_ok=True)
    return {"seed": seed, "part": 0, "programs": {name: {"turn": 0, "ms": 0} for name in PROGRAMS}}


def write_state(folder, state):
    """Note what the samples say, and replace the state as a whole."""
    for name, program in state["programs"].items():
        path = folder / f"{name}.tsv"
        lines = path.read_text().splitlines() if path.exists() else []
        if lines:
            row = dict(zip(growth.COLUMNS, lines[-1].split("\t")))
            program.update(turn=int(row["turn"]), ms=int(float(row["seconds"]) * 1000))
    new = folder / "state.json.new"
    new.write_text(json.dumps(state, indent=1) + "\n")
    new.replace(folder / "state.json")


def has_time(name, options, state):
    """Return True if a program has not come to its end: there is time for another window."""
    program = state["programs"][name]
    if options.turns:
        return program["turn"] + options.every <= options.turns
    return program["ms"] + 2 * options.window < options.seconds * 1000


def command_of(name, options, state, folder):
    """Return the command that continues a program."""
    program = state["programs"][name]
    start = {
        "pool": [options.build / "bin/soak"],
        "frameworks": [options.python, HERE / "frameworks.py"],
    }
    return [
        *start[name],
        *("--samples", folder / f"{name}.tsv"),
        *("--log", folder / f"{name}.log"),
        *("--seconds", str(options.seconds - program["ms"] // 1000)),
        *("--window", str(options.window)),
        *("--seed", str(state["seed"])),
        *("--turn", str(program["turn"])),
        *("--part", str(state["part"])),
        *("--after", str(program["ms"])),
        *(["--turns", str(options.turns), "--every", str(options.every)] if options.turns else []),
        *(["--plant", options.plant] if options.plant else []),
    ]


def environment(options, folder):
    """Return the environment of the programs: by default, the simulator of the build."""
    ipc = folder / "ipc"
    ipc.mkdir(mode=0o700, exist_ok=True)
    own = {**os.environ, "TARN_IPC_DIR": str(ipc), "GLIBC_TUNABLES": EXACT_HEAP}
    if options.gpu:
        own.pop("TARN_DRIVER", None)
        return own
    simulator = options.build / "lib/tarn/sim"
    own["TARN_DRIVER"] = str(simulator / "libcuda.so.1")
    own["LD_LIBRARY_PATH"] = f"{simulator}:{own.get('LD_LIBRARY_PATH', '')}".rstrip(":")
    return own


def run_part(options, state, folder):
    """Run the programs that have time left, until they end, one fails or the part is over."""
    running = {}
    for name in options.programs:
        if has_time(name, options, state):
            command = list(map(str, command_of(name, options, state, folder)))
            with open(folder / f"{name}.out", "a") as output:
                running[name] = subprocess.Popen(
                    command, env=environment(options, folder), stdout=output, stderr=output
                )
    stop_at = time.monotonic() + options.stop_after
    signals = []
    for number in signal.SIGINT, signal.SIGTERM:
        signal.signal(number, lambda number, frame: signals.append(number))
    is_asked = False
    while None in (codes := [process.poll() for process in running.values()]):
        time.sleep(0.1)
        must_end = signals or any(codes) or time.monotonic() > stop_at
        if must_end and not is_asked:
            is_asked = True
            for process in running.values():
                process.terminate()
    failed = [name for name, process in running.items() if process.returncode]
    for name in failed:
        print(f"{name} ended with {running[name].returncode}:")
        print((folder / f"{name}.out").read_text()[-2000:])
    return not failed


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--gpu", action="store_true", help="on the machine's own driver")
    parser.add_argument("--seconds", type=int, default=7200)
    parser.add_argument("--window", type=int, default=60000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--stop-after", type=float, default=float("inf"))
    parser.add_argument("--programs", nargs="+", choices=PROGRAMS, default=PROGRAMS)
    parser.add_argument("--plant", default="")
    parser.add_argument("--turns", type=int, default=0)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--drift", type=float, default=growth.DRIFT, help="of a time: at most")
    options = parser.parse_args()
    folder = options.folder.absolute()
    options.build = options.build.absolute()
    folder.mkdir(parents=True, exist_ok=True)

    state = read_state(folder, options.seed)
    write_state(folder, state)  # after a power failure: what the samples say
    state["part"] += 1
    write_state(folder, state)
    worked = run_part(options, state, folder)
    write_state(folder, state)
    if not worked:
        return 1
    left = [name for name in options.programs if has_time(name, options, state)]
    if left:
        print(f"time is left for {', '.join(left)}: run the command again")
        return UNFINISHED
    state["is_judged"] = True
    write_state(folder, state)
    most_growth = growth.GROWTH_ON_GPU if options.gpu else growth.GROWTH
    grown = [
        found
        for name in options.programs
        for found in growth.report(folder / f"{name}.tsv", options.drift, most_growth)
    ]
    if grown:
        print(f"what grows: {', '.join(grown)}")
    return 1 if grown else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except growth.TooFewSamples as error:
        sys.exit(f"run.py: {error}")
