#!/usr/bin/env python3
"""Build Tarn and run its tests; the last line is `N passed, N failed`.

    ./check                 every step that CI runs
    ./check STEP...         these steps, and before them what they need
    ./check --only STEP...  these steps and nothing else
    ./check --full          every step there is
    ./check --full --continue  those that have not passed on this commit
    ./check --list          the steps: usual time, CPU budget, what each does

Two steps run side by side: where one waits or has a single process, the other uses the cores.
A step writes its output to build/check/STEP.log. A step that fails shows the end of it and
the command that repeats this step alone. Once everything is installed no step needs a
network. Root or sudo is needed where Debian packages are missing.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import resource
import signal
import subprocess
import sys
import threading
import time

import count_results
import steps

RESULTS = pathlib.Path("build/check")
PASSED = "passed.tsv"  # in RESULTS: commit, step, seconds, CPU seconds
AT_ONCE = 2  # steps that run side by side
SHOWN_LINES = 150  # of the output of a step that failed
SLOWER = 10  # times its usual time, and a step is stopped
LEAST_LIMIT_S = 600

# Tests name the simulator themselves; settings of the caller must not reach them.
FOREIGN = (
    "CMOCKA_MESSAGE_OUTPUT", "CMOCKA_TEST_FILTER", "CUDA_VISIBLE_DEVICES", "NUMBA_CUDA_DRIVER",
    "NUMBA_CUDA_MEMORY_MANAGER", "NUMBA_ENABLE_CUDASIM", "PYTHONPATH", "RMM_LOG_FILE",
)  # fmt: skip


class Outcome:
    """How a step went."""

    def __init__(self, code: int | None, wall: float = 0, cpu: float = 0, why: str = "") -> None:
        self.code, self.wall, self.cpu, self.why = code, wall, cpu, why

    @property
    def good(self) -> bool:
        return self.code == 0


def environment(step: steps.Step) -> dict[str, str]:
    """What a step sees: nothing of the caller's settings of Tarn, Numba or a GPU."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in FOREIGN and not name.startswith("TARN_")
    }
    jobs = str(len(os.sched_getaffinity(0)))
    return {**kept, "TARN_DRIVER": "sim", "JOBS": jobs, "STEP": step.name, "RESULTS": str(RESULTS)}


def fits(step: steps.Step) -> bool:
    """Can this machine run the step at all?"""
    if not step.debian:
        return True
    asked = ["sh", "-c", ". tools/setup.sh; fits_debian_numba"]
    return subprocess.run(asked, check=False).returncode == 0


def commit() -> str | None:
    """Return the commit of the checkout; None if files differ from it, or without git."""
    asked = ["git", "status", "--branch", "--porcelain=v2"]
    done = subprocess.run(asked, check=False, capture_output=True, text=True)
    lines = done.stdout.splitlines()
    if not lines or not all(line.startswith("#") for line in lines):
        return None
    return lines[0].removeprefix("# branch.oid ")


def passed(found: str | None) -> set[str]:
    """Return the names of the steps that have passed on a commit."""
    file = RESULTS / PASSED
    rows = [line.split("\t") for line in file.read_text().splitlines()] if file.exists() else []
    return {row[1] for row in rows if row[0] == found}


class Running:
    """A step that runs, with all that it starts, until it ends or its limit is over."""

    def __init__(self, step: steps.Step) -> None:
        self.step = step
        self.commit = commit()
        self.began = time.monotonic()
        self.limit = max(LEAST_LIMIT_S, SLOWER * step.wall)
        self.is_stopped = False
        for old in RESULTS.glob(f"{step.name}.*"):
            old.unlink()
        line = f". tools/setup.sh; . tools/steps.sh; {step.command}"
        with open(RESULTS / f"{step.name}.log", "wb") as log:
            self.process = subprocess.Popen(
                ["sh", "-c", line], stdin=subprocess.DEVNULL, stdout=log,
                stderr=subprocess.STDOUT, env=environment(step), start_new_session=True,
            )  # fmt: skip
        self.timer = threading.Timer(self.limit, self.stop)
        self.timer.start()

    def stop(self) -> None:
        self.is_stopped = True
        os.killpg(self.process.pid, signal.SIGKILL)

    def ended(self, status: int, usage: resource.struct_rusage) -> Outcome:
        """What os.wait4() gave for its process: the usage of all that it started and awaited."""
        self.timer.cancel()
        code = self.process.returncode = os.waitstatus_to_exitcode(status)
        why = f"stopped after {self.limit} s" if self.is_stopped else f"exit {code}"
        wall = time.monotonic() - self.began
        if code == 0 and self.commit and self.commit == commit():
            with open(RESULTS / PASSED, "a", encoding="utf-8") as file:
                cpu = usage.ru_utime + usage.ru_stime
                file.write(f"{self.commit}\t{self.step.name}\t{wall:.0f}\t{cpu:.0f}\n")
        return Outcome(code, wall, usage.ru_utime + usage.ru_stime, why)


def show_failure(step: steps.Step, outcome: Outcome) -> None:
    """The end of its output, and how to repeat it."""
    text = (RESULTS / f"{step.name}.log").read_text(errors="replace")
    for line in text.splitlines()[-SHOWN_LINES:]:
        print("    " + line)
    print(f"{step.name}: FAILED ({outcome.why}), {outcome.wall:.0f} s; "
          f"output: {RESULTS}/{step.name}.log")  # fmt: skip
    print(f"{step.name}: again, alone: ./check --only {step.name}")


def show(step: steps.Step, outcome: Outcome) -> None:
    """How a step went that has ended."""
    if not outcome.good:
        show_failure(step, outcome)
        return
    over = f", over its budget of {step.cpu}" if outcome.cpu > step.cpu else ""
    print(f"{step.name}: ok, {outcome.wall:.0f} s, {outcome.cpu:.0f} CPU seconds{over}")


def startable(waiting: list[steps.Step], running: list[steps.Step]) -> steps.Step | None:
    """The first step that may start beside those that run. Nothing overtakes a step that runs
    alone."""
    if len(running) == AT_ONCE or any(step.alone for step in running):
        return None
    unfinished = {step.name for step in waiting + running}
    for step in waiting:
        if not unfinished.intersection(step.needs):
            return None if step.alone and running else step
    return None


def run(chosen: list[steps.Step]) -> dict[steps.Step, Outcome]:
    """Run each step after those that it needs, unless one of these failed."""
    waiting, running = list(chosen), dict[int, Running]()
    outcomes: dict[steps.Step, Outcome] = {}
    try:
        while waiting or running:
            while step := startable(waiting, [one.step for one in running.values()]):
                waiting.remove(step)
                bad = [other.name for other, outcome in outcomes.items()
                       if other.name in step.needs and not outcome.good]  # fmt: skip
                if bad:
                    print(f"{step.name}: not run, it needs {', '.join(bad)}")
                    outcomes[step] = Outcome(None, why="not run")
                else:
                    started = Running(step)
                    running[started.process.pid] = started
            if running:
                pid, status, usage = os.wait4(-1, 0)
                one = running.pop(pid)
                outcomes[one.step] = one.ended(status, usage)
                show(one.step, outcomes[one.step])
    finally:
        for one in running.values():  # after an interrupt
            one.timer.cancel()
            one.stop()
            one.process.wait()
    return {step: outcomes[step] for step in chosen}


def counts(step: steps.Step, outcome: Outcome) -> tuple[count_results.Counts, str]:
    """The tests of a step: those of its file, or the step itself. What failed counts at
    least once, also where its file says nothing of it."""
    if step.setup:
        return count_results.NOTHING if outcome.good else count_results.ONE_FAILED, ""
    if not step.junit:
        return count_results.Counts(int(outcome.good), int(not outcome.good), 0), ""
    found, wrong = count_results.suite(RESULTS / f"{step.name}.xml")
    if not outcome.good and found.failed == 0:
        return count_results.add(found, count_results.ONE_FAILED), outcome.why
    return found, wrong


def report(outcomes: dict[steps.Step, Outcome], wall: float) -> bool:
    """The table at the end. True: nothing failed, and something ran."""
    total = count_results.NOTHING
    print()
    for step, outcome in outcomes.items():
        found, wrong = counts(step, outcome)
        total = count_results.add(total, found)
        if step.junit or found.failed:
            print(count_results.line(step.name, found, wrong))
    cpu = sum(outcome.cpu for outcome in outcomes.values())
    over = [step.name for step, outcome in outcomes.items() if outcome.cpu > step.cpu]
    print(f"{wall / 60:.1f} minutes, {cpu:.0f} CPU seconds"
          + (f"; over budget: {', '.join(over)}" if over else ""))  # fmt: skip
    if not total.passed and not total.failed and not all(step.setup for step in outcomes):
        total = count_results.ONE_FAILED
    print(f"{total.passed} passed, {total.failed} failed")
    return not total.failed


def with_needs(names: list[str]) -> list[steps.Step]:
    """The steps of these names and all that they need, in the order of the table."""
    by_name = {step.name: step for step in steps.STEPS}
    wanted: set[str] = set()
    while names:
        name = names.pop()
        if name not in wanted:
            wanted.add(name)
            names.extend(by_name[name].needs)
    return [step for step in steps.STEPS if step.name in wanted]


def choose(given: argparse.Namespace) -> list[steps.Step]:
    """The steps to run, those left out that do not fit the machine."""
    if given.full:
        wanted = list(steps.STEPS)
    elif given.only:
        wanted = [step for step in steps.STEPS if step.name in given.steps]
    else:
        wanted = with_needs(given.steps or [step.name for step in steps.PLAIN])
    left_out = [step for step in wanted if step.debian and not fits(step)]
    for step in left_out:
        print(f"{step.name}: left out, it needs Debian 12 with its own Python 3.11")
    if given.resume:
        names = passed(commit())
        done = [step for step in wanted if step.name in names and not step.setup]
        print(f"{len(done)} steps left out, which have passed on this commit")
        left_out += done
    return [step for step in wanted if step not in left_out]


def print_list() -> None:
    for kind, table in (("./check", steps.PLAIN), ("./check --full, besides", steps.FULL)):
        print(f"{kind}: {sum(s.wall for s in table) / AT_ONCE / 60:.0f} minutes, "
              f"budget {sum(s.cpu for s in table)} CPU seconds")  # fmt: skip
        for step in table:
            print(f"  {step.name:<22} {step.wall:>5} s {step.cpu:>6} CPU s  {step.about}")


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="./check", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("steps", nargs="*", metavar="STEP")
    parser.add_argument("--only", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--full", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--continue", dest="resume", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--list", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    known = {step.name for step in steps.STEPS}
    unknown = [name for name in given.steps if name not in known]
    if unknown:
        parser.error(f"no step is named {', '.join(unknown)}; ./check --list has them")
    if given.only and not given.steps:
        parser.error("--only needs the name of a step")
    if given.resume and not given.full:
        parser.error("--continue goes with --full")
    if given.full and given.steps:
        parser.error("--full runs every step: name none")
    return given


def main(arguments: list[str]) -> int:
    given = parse(arguments)
    if given.list:
        print_list()
        return 0
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a kill ends the steps, too
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    RESULTS.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    outcomes = run(choose(given))
    return 0 if report(outcomes, time.monotonic() - began) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
