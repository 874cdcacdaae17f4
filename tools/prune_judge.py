#!/usr/bin/env python3
"""prune_judge.py -- prune many random functions and have the interpreter judge them.

    prune_judge.py TARN INTERPRETER [--first-seed N] [--seeds N] [--plain]

Each seed gives 500 functions: those of prune_balanced.py, or with `--plain` those of
prune_random.py. `tarn prune` prunes them twice: with the shapes for pairs, and with all shapes
under the assumption that the caller holds all parameters (tests/prune/interpret.c). For all
shapes prune_repair.py adds the references that plain functions lack: the others are not judged. A run can be continued with the next seed, which the last line names.
SIGTERM ends it behind the current seed.
Exit code 1: a function was broken.
"""

from __future__ import annotations

import argparse
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

import prune_balanced
import prune_random
import prune_repair

BATCH = 500  # functions of one seed
PAIRS = "--shapes=per_bb,diamond,fanout,fanout_raise"
WAYS = {"pairs": ([PAIRS], []), "all shapes": ([], ["held"])}


def batch(seed: int, plain: bool) -> str:
    """In every second seed references are transferred; in two of four functions call what may
    release references."""
    keeping, calling = seed % 2 == 1, seed % 4 >= 2
    if plain:
        return prune_random.module(
            seed, 0, BATCH, seed % 8 == 0, keeping, calling, carrying=seed % 8 >= 4
        )
    return prune_balanced.module(seed, 0, BATCH, keeping, calling)


class Judge:
    """Prunes and judges; `totals` are sums over all batches."""

    def __init__(self, tarn: str, interpreter: str, runs: int):
        self.tarn, self.interpreter, self.runs = tarn, interpreter, runs
        self.totals = {
            way: dict.fromkeys(("judged", "runs", "removed", "broken"), 0) for way in WAYS
        }

    def prune(self, text: str, options: list[str]) -> tuple[str, int]:
        command = [self.tarn, "prune", "--stats", *options, "-"]
        done = subprocess.run(command, input=text, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"tarn prune: {done.stderr}")
        found = re.search(r"removed +(\d+)", done.stderr)
        assert found, done.stderr
        return done.stdout, int(found[1])

    def judge(self, text: str, folder: pathlib.Path, way: str) -> list[str]:
        """The lines of the interpreter for the functions that were broken."""
        options, words = WAYS[way]
        after, removed = self.prune(text, options)
        (folder / "before.ll").write_text(text)
        (folder / "after.ll").write_text(after)
        command = [self.interpreter, "before.ll", "after.ll", str(self.runs), "0", *words]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        if done.returncode not in (0, 1):
            raise RuntimeError(f"{self.interpreter}: {done.returncode} {done.stderr}")
        *lines, last = done.stdout.splitlines()
        counts = {key: int(value) for key, value in (word.split("=") for word in last.split())}
        sums = self.totals[way]
        sums["judged"] += counts["functions"] - counts["unjudged"]
        sums["runs"] += counts["runs"]
        sums["removed"] += removed
        sums["broken"] += counts["failures"]
        return lines

    def report(self, generated: int) -> str:
        rows = [
            f"{way}: {generated} generated, {sums['judged']} judged in {sums['runs']} runs, "
            f"{sums['removed']} operations removed, {sums['broken']} broken"
            for way, sums in self.totals.items()
        ]
        return "\n".join(rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("tarn")
    parser.add_argument("interpreter")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--plain", action="store_true", help="functions of prune_random.py")
    parser.add_argument("--runs", type=int, default=24, help="of each function")
    arguments = parser.parse_args()
    interpreter = str(pathlib.Path(arguments.interpreter).resolve())
    judge = Judge(arguments.tarn, interpreter, arguments.runs)
    end = arguments.first_seed + arguments.seeds
    stopped: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: stopped.append(number))
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(arguments.first_seed, end):
            text = batch(seed, arguments.plain)
            for way, (_, words) in WAYS.items():
                whole = prune_repair.repair(text) if arguments.plain and words else text
                for line in judge.judge(whole, pathlib.Path(folder), way):
                    print(f"seed {seed}, {way}: {line}", flush=True)
            done = seed + 1 - arguments.first_seed
            if done % 100 == 0 or seed + 1 == end or stopped:
                print(f"{judge.report(done * BATCH)}\nnext seed: {seed + 1}", flush=True)
            if stopped:
                break
    return any(sums["broken"] for sums in judge.totals.values())


if __name__ == "__main__":
    sys.exit(main())
