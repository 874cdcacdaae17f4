"""line_coverage.py -- lines and branches of the library that the C tests reach, module by module.

    python3 tools/line_coverage.py [--jobs N] [--tests REGEX] [--uncovered FILE]

It builds build/coverage with clang, runs the tests of ctest, and prints a table of the modules.
--uncovered writes each line that no test reaches, as FILE:LINE. A failing test is reported and does
not end the run: an instrumented process is slower. Processes that are killed write no profile.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "coverage"
PROFILES = BUILD / "profiles"
FLAGS = "-fprofile-instr-generate -fcoverage-mapping"
KINDS = ("lines", "branches")


def tool(name: str) -> str:
    """Return the tool of the same LLVM as clang, which reads its profiles."""
    text = subprocess.run(["clang", "--version"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"clang version (\d+)", text)
    version = found.group(1) if found else ""
    own = Path(f"/usr/lib/llvm-{version}/bin/{name}")
    return str(own) if own.exists() else name


def build(jobs: int) -> None:
    """Build the tests with counters. The pruner, a library of its own, is not part of it."""
    links = [f"-DCMAKE_{kind}_LINKER_FLAGS={FLAGS}" for kind in ("EXE", "SHARED", "MODULE")]
    options = ["-DCMAKE_BUILD_TYPE=Debug", "-DTARN_TESTS=ON", "-DTARN_PRUNE=OFF"]
    options += ["-DTARN_EXAMPLES=OFF", f"-DCMAKE_C_FLAGS={FLAGS}", *links]
    environment = {**os.environ, "CC": "clang", "CXX": "clang++"}
    command = ["cmake", "-G", "Ninja", "-S", str(ROOT), "-B", str(BUILD), *options]
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", BUILD, "-j", str(jobs), "--", "--quiet"], check=True)


def run_tests(jobs: int, tests: str) -> None:
    """Run the tests; each program merges its counts into one of a few files."""
    for old in PROFILES.glob("*.profraw"):
        old.unlink()
    environment = {**os.environ, "LLVM_PROFILE_FILE": str(PROFILES / "%4m.profraw")}
    command = ["ctest", "--test-dir", str(BUILD), "-j", str(jobs), "-Q", "-R", tests]
    if subprocess.run(command, env=environment).returncode:
        print("coverage: tests failed: see", BUILD / "Testing/Temporary/LastTestsFailed.log")


def measured() -> dict:
    """Return the report of llvm-cov on libtarn and on the programs that link its objects."""
    profile = BUILD / "all.profdata"
    raw = [str(path) for path in PROFILES.glob("*.profraw")]
    merge = [tool("llvm-profdata"), "merge", "-sparse", "-failure-mode=all", "-o", profile, *raw]
    subprocess.run(merge, check=True)
    inside = [*(BUILD / "bin").glob("unit-p[lo]*"), *(BUILD / "bin").glob("unit-ipc-*")]
    objects = [BUILD / "lib/libtarn.so", *sorted(inside)]
    command = [tool("llvm-cov"), "export", f"-instr-profile={profile}", str(objects[0])]
    command += [f"-object={path}" for path in objects[1:]] + [str(ROOT / "src")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["data"][0]


def uncovered_lines(segments: list[list]) -> list[int]:
    """Return the lines that lie in regions with the count 0 alone."""
    hit, missed = set(), set()
    for one, two in zip(segments, segments[1:], strict=False):
        line, _, count, has_count, _, is_gap = one
        if has_count and not is_gap:
            (hit if count else missed).update(range(line, two[0] + 1))
    return sorted(missed - hit)


def report(data: dict, uncovered: Path | None) -> None:
    """Print the table, and write the list of lines."""
    sums: dict[str, collections.Counter] = collections.defaultdict(collections.Counter)
    rows = []
    for file in data["files"]:
        path = Path(file["filename"]).relative_to(ROOT)
        for kind in KINDS:
            for what in ("count", "covered"):
                for module in (path.parts[1], "all"):
                    sums[module][kind, what] += file["summary"][kind][what]
        rows += [f"{path}:{line}" for line in uncovered_lines(file["segments"])]
    print(f"{'module':<10} {'lines':>7} {'covered':>8} {'branches':>9} {'covered':>8}")
    for module, values in sorted(sums.items(), key=lambda item: (item[0] == "all", item[0])):
        parts = []
        for kind in KINDS:
            total, covered = values[kind, "count"], values[kind, "covered"]
            parts.append(f"{total:>7} {100 * covered / max(total, 1):>6.1f} %")
        print(f"{module:<10} {'   '.join(parts)}")
    if uncovered:
        uncovered.write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
        print(f"{len(rows)} lines without a test: {uncovered}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="programs at once")
    parser.add_argument("--tests", default=".", help="the tests to run, a regex of ctest")
    parser.add_argument("--uncovered", type=Path, help="file for the lines that no test reaches")
    parser.add_argument("--only-report", action="store_true", help="use the profiles of before")
    options = parser.parse_args()
    if not options.only_report:
        build(options.jobs or 1)
        run_tests(options.jobs or 1, options.tests)
    report(measured(), options.uncovered)
    return 0


if __name__ == "__main__":
    sys.exit(main())
