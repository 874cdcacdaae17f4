"""line_coverage.py -- lines and branches that the tests reach, module by module.

    python3 tools/line_coverage.py [--jobs N] [--tests REGEX] [--uncovered FILE]
    python3 tools/line_coverage.py --extension [--jobs N] [--tests REGEX] [--uncovered FILE]

It builds build/coverage with clang, runs the tests, and prints a table of the modules: of the library
with the C tests, or of the Python extension with the tests of the package. These need .venv with Tarn
in it. .venv-coverage has the instrumented Tarn before the packages of .venv.

--uncovered writes each line that no test reaches, as FILE:LINE. A failing test is reported and does
not end the run: an instrumented process is slower.

The run fails where fewer than 95 % of the lines are reached. tools/uncovered.txt lists the functions
with lines that no test reaches, with a reason each; the run fails where another function has such lines.
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
VENV = ROOT / ".venv-coverage"
LISTED = ROOT / "tools" / "uncovered.txt"
FLAGS = "-fprofile-instr-generate -fcoverage-mapping"
# Counters lie in mapped files (%c), which all processes of a program share (%m). So a process that is
# killed, or ends by _exit(), counts as well.
MAPPED = "-mllvm -runtime-counter-relocation -Wno-unused-command-line-argument"  # not of links
PROFILE = "%m%c.profraw"
KINDS = ("lines", "branches")
LEAST = 95.0  # percent of the lines
# Valgrind does not read the debug information of clang, and the counters export symbols.
WITHOUT = "valgrind|nrt-seen|headers-exports"


def tool(name: str) -> str:
    """Return the tool of the same LLVM as clang, which reads its profiles."""
    text = subprocess.run(["clang", "--version"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"clang version (\d+)", text)
    version = found.group(1) if found else ""
    own = Path(f"/usr/lib/llvm-{version}/bin/{name}")
    return str(own) if own.exists() else name


def build(jobs: int, *options: str, targets: tuple[str, ...] = ()) -> None:
    """Build with counters. The pruner, a library of its own, is not part of it."""
    links = [f"-DCMAKE_{kind}_LINKER_FLAGS={FLAGS}" for kind in ("EXE", "SHARED", "MODULE")]
    common = ["-DCMAKE_BUILD_TYPE=Debug", "-DTARN_TESTS=ON", "-DTARN_PRUNE=OFF"]
    common += ["-DTARN_EXAMPLES=OFF", f"-DCMAKE_C_FLAGS={FLAGS} {MAPPED}", *links, *options]
    environment = {**os.environ, "CC": "clang", "CXX": "clang++"}
    command = ["cmake", "-G", "Ninja", "-S", str(ROOT), "-B", str(BUILD), *common]
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
    wanted = ["--target", *targets] if targets else []
    command = ["cmake", "--build", str(BUILD), "-j", str(jobs), *wanted, "--", "--quiet"]
    subprocess.run(command, check=True)


def counting() -> dict[str, str]:
    """Remove the counts of before; return an environment whose processes add theirs to one file each
    program and library."""
    for old in PROFILES.glob("*.profraw"):
        old.unlink()
    return {**os.environ, "LLVM_PROFILE_FILE": str(PROFILES / PROFILE)}


def run_tests(jobs: int, tests: str) -> None:
    """Run the C tests."""
    command = ["ctest", "--test-dir", str(BUILD), "-j", str(jobs), "-Q", "-R", tests, "-E", WITHOUT]
    if subprocess.run(command, env=counting()).returncode:
        print("coverage: tests failed: see", BUILD / "Testing/Temporary/LastTestsFailed.log")


def install_extension(jobs: int) -> None:
    """Make .venv-coverage: the instrumented Tarn, and after it the packages of .venv."""
    python = str((ROOT / ".venv/bin/python").resolve())
    targets = ("tarn", "tarn_static", "tarn_sim", "tarn_sim_alias", "tarn_aot", "tarn_cli")
    build(jobs, "-DTARN_PYTHON=ON", f"-DPython_EXECUTABLE={python}",
          targets=(*targets, "tarn_python", "tarn_nrt_python"))  # fmt: skip
    subprocess.run([python, "-m", "venv", "--clear", "--without-pip", str(VENV)], check=True)
    (site,) = VENV.glob("lib/python3*/site-packages")
    (packages,) = (ROOT / ".venv").glob("lib/python3*/site-packages")
    (site / "lent.pth").write_text(f"import site; site.addsitedir({str(packages)!r})\n")
    command = ["cmake", "--install", str(BUILD), "--prefix", str(VENV)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def run_python_tests(jobs: int, tests: str) -> None:
    """Run the tests of the package that need no pruner."""
    found = sorted((ROOT / "python/tests").glob("test_*.py"))
    names = (path for path in found if "prune" not in path.name and re.search(tests, path.name))
    command = [str(VENV / "bin/python"), "-m", "pytest", "-q", "-m", "not full and not pruner"]
    command += ["-n", str(jobs), "--dist", "loadfile", *map(str, names)]
    environment = {"TARN_DRIVER": "sim", **counting()}
    if subprocess.run(command, env=environment, cwd=ROOT).returncode:
        print("coverage: tests failed: see above")


def measured(objects: list[Path], folder: str) -> dict:
    """Return the report of llvm-cov on the files of a folder in these objects."""
    profile = BUILD / "all.profdata"
    raw = [str(path) for path in PROFILES.glob("*.profraw")]
    merge = [tool("llvm-profdata"), "merge", "-sparse", "-failure-mode=all", "-o", profile, *raw]
    subprocess.run(merge, check=True)
    command = [tool("llvm-cov"), "export", f"-instr-profile={profile}", str(objects[0])]
    command += [f"-object={path}" for path in objects[1:]] + [str(ROOT / folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["data"][0]


def of_library() -> dict:
    """Return the report on libtarn and on the programs that link its objects."""
    inside = [*(BUILD / "bin").glob("unit-p[lo]*"), *(BUILD / "bin").glob("unit-ipc-*")]
    return measured([BUILD / "lib/libtarn.so", *sorted(inside)], "src")


def of_extension() -> dict:
    return measured(sorted((BUILD / "python/tarn").glob("*.so")), "python/ext")


def uncovered_lines(segments: list[list]) -> list[int]:
    """Return the lines that lie in regions with the count 0 alone."""
    hit, missed = set(), set()
    for one, two in zip(segments, segments[1:], strict=False):
        line, _, count, has_count, _, is_gap = one
        if has_count and not is_gap:
            (hit if count else missed).update(range(line, two[0] + 1))
    return sorted(missed - hit)


def module_of(path: Path) -> str:
    """The row of the table for a file: a folder of src, or of the extension."""
    return path.parts[1] if path.parts[0] == "src" else str(path.parent)


def report(data: dict, uncovered: Path | None) -> tuple[float, list[tuple[Path, int]]]:
    """Print the table, and write the list of lines. Return the share of lines, and the list."""
    sums: dict[str, collections.Counter] = collections.defaultdict(collections.Counter)
    rows = []
    for file in data["files"]:
        path = Path(file["filename"]).relative_to(ROOT)
        for kind in KINDS:
            for what in ("count", "covered"):
                for module in (module_of(path), "all"):
                    sums[module][kind, what] += file["summary"][kind][what]
        rows += [(path, line) for line in uncovered_lines(file["segments"])]
    print(f"{'module':<14} {'lines':>7} {'covered':>8} {'branches':>9} {'covered':>8}")
    for module, values in sorted(sums.items(), key=lambda item: (item[0] == "all", item[0])):
        parts = []
        for kind in KINDS:
            total, covered = values[kind, "count"], values[kind, "covered"]
            parts.append(f"{total:>7} {100 * covered / max(total, 1):>6.1f} %")
        print(f"{module:<14} {'   '.join(parts)}")
    if uncovered:
        text = "".join(f"{path}:{line}\n" for path, line in rows)
        uncovered.write_text(text, encoding="utf-8")
        print(f"{len(rows)} lines without a test: {uncovered}")
    lines = sums["all"]
    return 100 * lines["lines", "covered"] / max(lines["lines", "count"], 1), rows


def function_at(path: Path, line: int) -> str:
    """The function around a line: the last name before it that begins at the left edge."""
    lines = (ROOT / path).read_text(encoding="utf-8").splitlines()
    for text in reversed(lines[:line]):
        text = re.sub(r"__attribute__\(\(.*?\)\) ?", "", text)
        if found := re.match(r"[A-Za-z_].*?(\w+)\(", text):
            return found[1]
    return "?"


def listed() -> dict[tuple[str, str], str]:
    """The reasons of tools/uncovered.txt, by file and function."""
    rows = {}
    for line in LISTED.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            file, function, reason = line.split(None, 2)
            rows[file, function] = reason
    return rows


def has_enough(share: float) -> bool:
    if share < LEAST:
        print(f"coverage: {share:.1f} % of the lines, less than {LEAST:.0f} %")
    return share >= LEAST


def has_listed_alone(rows: list[tuple[Path, int]], folder: str) -> bool:
    """Compare the functions of a folder with the list."""
    reasons = {key: reason for key, reason in listed().items() if key[0].startswith(folder)}
    missed = collections.defaultdict(list)
    for path, line in rows:
        missed[str(path), function_at(path, line)].append(line)
    for key in sorted(set(reasons) - set(missed)):
        print(f"reached, and still in {LISTED.name}: {' '.join(key)}")
    unlisted = sorted(set(missed) - set(reasons))
    for key in unlisted:
        print(f"not in {LISTED.name}: {' '.join(key)}: lines {missed[key]}")
    return not unlisted


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--extension", action="store_true", help="of the Python extension")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="programs at once")
    parser.add_argument("--tests", default=".", help="the tests to run: a regex")
    parser.add_argument("--uncovered", type=Path, help="file for the lines that no test reaches")
    parser.add_argument("--only-report", action="store_true", help="use the profiles of before")
    options = parser.parse_args()
    if options.extension:
        if not options.only_report:
            install_extension(options.jobs)
            run_python_tests(options.jobs, options.tests)
        share, rows = report(of_extension(), options.uncovered)
        is_listed = has_listed_alone(rows, "python/ext/")
    else:
        if not options.only_report:
            build(options.jobs, "-DTARN_PYTHON=OFF")
            run_tests(options.jobs, options.tests)
        share, rows = report(of_library(), options.uncovered)
        is_listed = has_listed_alone(rows, "src/")
    return 0 if has_enough(share) and is_listed else 1


if __name__ == "__main__":
    sys.exit(main())
