"""What the comparisons of frameworks share: runs of programs in turns, each in a process of its own."""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import subprocess
import sys
import time


def parser(description, programs, **defaults):
    """Return a parser with the options of a comparison."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--one", nargs=2, metavar=("PROGRAM", "ALLOCATOR"))
    parser.add_argument("--programs", nargs="+", choices=programs, default=list(programs))
    parser.add_argument("--allocators", nargs="+", help="in place of those of each program")
    parser.add_argument("--steps", type=int, help="in place of each program's own number")
    parser.add_argument("--warm-up", type=int)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seconds", type=float, help="start no run after this time")
    parser.add_argument("--json", help="write all figures to this file")
    parser.set_defaults(**defaults)
    return parser


def pool_options(text):
    """Return the options of a pool, NAME=VALUE with commas between."""
    return dict(option.split("=") for option in text.split(",") if option)


def simulator_path():
    """Return the path of the driver simulator that the package has."""
    import tarn

    return os.path.join(tarn.get_library_dir(), "tarn", "sim", "libcuda.so.1")


def environment(simulator="memory=140GiB"):
    """Return the environment of a run: other libraries find the driver that Tarn uses.

    `simulator` has its options.
    """
    settings = {**os.environ}
    for name in ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "NUMBA_CUDA_MEMORY_MANAGER"):
        settings.pop(name, None)
    driver = settings.get("TARN_DRIVER")
    if driver:
        if driver == "sim":
            driver = simulator_path()
        settings["LD_LIBRARY_PATH"] = os.path.dirname(driver)
        settings.setdefault("TARN_SIM", simulator)
    return settings


def options(arguments, *names):
    """Return the arguments of these names as a command has them, without those that are None."""
    given = [(name, getattr(arguments, name)) for name in names]
    return [
        text
        for name, value in given
        if value is not None
        for text in (f"--{name.replace('_', '-')}", str(value))
    ]


def run_process(what, command, settings, seconds):
    """Run a script, and return its figures, which are its last line; None if it failed.

    A race that the simulator reports is a failure, too.
    """
    try:
        done = subprocess.run(
            [sys.executable, *command], env=settings, text=True, capture_output=True,
            timeout=seconds,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        print(f"{what}: not done after {seconds:g} s", flush=True)
        return None
    if done.returncode != 0 or " race: " in done.stderr:
        print(f"{what}: exit {done.returncode}\n{done.stderr[-3000:]}", flush=True)
        return None
    return json.loads(done.stdout.splitlines()[-1])


def run_all(arguments, allocators_of, run):
    """Run all programs in turns while there is time; return the figures.

    `run` gets a program, an allocator and the arguments; it returns figures or None.
    """
    began, runs = time.monotonic(), []
    for _ in range(arguments.rounds):
        for name in arguments.programs:
            for allocator in allocators_of(name):
                if time.monotonic() - began > arguments.seconds:
                    print(f"no time for {name} {allocator}")
                    continue
                found = run(name, allocator, arguments)
                if found is not None:
                    runs.append(found)
                    print(json.dumps(found), flush=True)
    return runs


def save(runs, path):
    """Write the figures to a file, if there is a path."""
    if path:
        pathlib.Path(path).write_text(json.dumps(runs, indent=1) + "\n")
