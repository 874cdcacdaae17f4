"""host_failures.py -- test programs with each host allocation of libtarn failing in turn.

    tools/host_failures.py --library build/release/lib/libtarn_failing.so --bin build/release/bin \\
        --driver build/release/lib/tarn/sim/libcuda.so.1 [--runs 40] [--seconds 100] [--mode once|on|both] \\
        [PATTERN]

A check of a test fails where an allocation fails, and that is no defect. A crash is one, also of
the test, and so is a hang and a report of a sanitizer. Each program runs once to count its
allocations, and then at most RUNS times a mode, with the failing one spread over all of them. A
program that takes long has fewer runs, as many as SECONDS have room for, and one a mode at least.
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

# Each kills itself or children on purpose, or has its own failing allocations.
LEFT_OUT = re.compile(r"unit-(prune|sim|aot|messages|plan-host_failures)")
HANGS_AFTER_S = 60
TIMES_SECONDS = 3  # a program may take so many times its seconds
REPORT = re.compile(r"(ERROR: AddressSanitizer|runtime error:|double free|corrupted|munmap_chunk)")


class Bench:
    """How programs run."""

    def __init__(self, given: argparse.Namespace) -> None:
        self.given = given
        self.base = {
            **os.environ,
            "TARN_DRIVER": os.path.abspath(given.driver),
            "TARN_BUILD": os.path.abspath(given.bin.parent),
            "CMOCKA_MESSAGE_OUTPUT": "STDOUT",
            "ASAN_OPTIONS": "allocator_may_return_null=1:detect_leaks=0:verify_asan_link_order=0",
            "LD_PRELOAD": os.path.abspath(given.library),
        }

    def run(self, program: pathlib.Path, failing: str, **more: str) -> tuple[int | str, str]:
        """The exit status, or 'hang', and what it wrote."""
        process = subprocess.Popen(
            [program.absolute()], env={**self.base, "TARN_FAILING": failing, **more},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
            start_new_session=True, cwd=self.given.folder,
        )  # fmt: skip
        try:
            output, _ = process.communicate(timeout=HANGS_AFTER_S)
            code: int | str = process.returncode
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
            code = "hang"
        return code, output.decode(errors="replace")

    def count(self, program: pathlib.Path) -> int:
        """Allocations of the program itself: the last line, which its own end writes."""
        path = pathlib.Path(self.given.folder) / f"{program.name}.count"
        code, _ = self.run(program, "ONCE:1000000000", TARN_FAILING_COUNT=str(path))
        text = path.read_text() if path.exists() else ""
        return int(text.splitlines()[-1].split()[0]) if code == 0 and text else 0


def is_defect(code: int | str, output: str) -> bool:
    """A crash, a hang or a report. cmocka catches signals, and says so.

    A test that has failed leaves its objects behind, so what happens after it says nothing."""
    failed = re.search(r"^\[  (FAILED|ERROR ) .*(?!exception)", output, re.MULTILINE)
    crashed = re.search(r"Test failed with exception", output)
    if failed and (not crashed or failed.start() < output.rfind("\n", 0, crashed.start())):
        return code == "hang"
    # Tests in C have no C++ runtime, so that an exception of tarn/torch.h ends them.
    is_of_test = code == -signal.SIGABRT and re.search(
        r"abort\(\) called by \S*/bin/|tarn: no C\+\+ runtime to throw with", output
    )
    return (
        code == "hang"
        or (isinstance(code, int) and code < 0 and not is_of_test)
        or "Test failed with exception" in output
        or REPORT.search(output) is not None
    )


def last_lines(output: str) -> str:
    return "".join(f"    {line[:300]}\n" for line in output.splitlines()[-4:])


def sweep(bench: Bench, program: pathlib.Path) -> tuple[str, int, list[str]]:
    """Returns the program, the number of its runs, and its defects."""
    began = time.monotonic()
    total = bench.count(program)
    took = time.monotonic() - began
    runs, defects = 0, []
    modes = ("ONCE", "ON") if bench.given.mode == "both" else (bench.given.mode.upper(),)
    most = min(bench.given.runs, max(1, int(bench.given.seconds / took / len(modes))))
    step = max(1, -(-total // most))
    for mode in modes:
        for nth in range(1 + bench.given.offset % step, total + 1, step):
            if runs > 0 and time.monotonic() - began > TIMES_SECONDS * bench.given.seconds:
                break  # runs that fail may take longer: hangs, for example
            failing = f"{mode}:{nth}"
            code, output = bench.run(program, failing)
            runs += 1
            if is_defect(code, output):
                defects.append(f"{program.name} {failing}: {code}\n" + last_lines(output))
    return f"{program.name} ({total})", runs, defects


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", required=True)
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--driver", required=True)
    parser.add_argument("--runs", type=int, default=40, help="runs of a program in each mode")
    parser.add_argument("--seconds", type=float, default=100, help="most seconds of a program")
    parser.add_argument("--offset", type=int, default=0, help="shifts the failing allocations")
    parser.add_argument("--mode", choices=("once", "on", "both"), default="both")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("pattern", nargs="?", default=r"(unit|torture|conformance)-")
    given = parser.parse_args()
    programs = [
        path for path in sorted(given.bin.iterdir())
        if re.match(given.pattern, path.name) and not LEFT_OUT.match(path.name)
    ]  # fmt: skip
    summary: collections.Counter[str] = collections.Counter()
    with tempfile.TemporaryDirectory() as given.folder:
        bench = Bench(given)
        with concurrent.futures.ThreadPoolExecutor(given.jobs) as pool:
            for name, runs, defects in pool.map(lambda path: sweep(bench, path), programs):
                print(f"{name}: {runs} runs, {len(defects)} defects", flush=True)
                print("".join(defects), end="", flush=True)
                summary.update(programs=1, runs=runs, defects=len(defects))
    print(", ".join(f"{count} {what}" for what, count in summary.items()))
    return 1 if summary["defects"] or not summary["runs"] else 0


if __name__ == "__main__":
    sys.exit(main())
