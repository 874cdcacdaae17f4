#!/usr/bin/env python3
"""Checks with Clang that functions hold the locks that they, or the fields they use, require.

    thread_safety.py              prints Clang's warnings, and the functions that it does not analyse
    thread_safety.py --planted    prints the locks whose absence Clang does not see

src/base/thread_safety.h has the annotations. The modules in ANNOTATED have them; elsewhere Clang
has nothing to check. Only the library's own files are checked, not the tests.
"""

import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import locks
from calls import called_name, tokens
from project import MODULES, PROJECT, sources

ANNOTATED = ("pool",)

COMMAND = ("clang", "-fsyntax-only", "-std=gnu11", "-Wno-everything", "-Wthread-safety",
           "-fno-caret-diagnostics", "-Iinclude", "-Isrc")  # fmt: skip

# What takes or releases a lock: functions that Clang does not analyse.
TAKES = {
    "tarn__pool_lock": "tarn__pool_unlock",
    "tarn__pool_take_device_wait": "tarn__pool_leave_device_wait",
    "tarn__thread_cache_enter": "tarn__thread_cache_leave",
    "tarn__thread_cache_exclude_owner": "tarn__thread_cache_admit_owner",
    "take_pools": "leave_pools",
}
PRIMITIVES = {
    *TAKES.keys(),
    *TAKES.values(),
    "tarn__pool_leave_growth",
    "tarn__pool_try_device_wait",
    "tarn__pool_try_growth",
}

# The other functions that Clang does not analyse. A comment on each has the reason.
ESCAPES = {
    # a lock that only some calls take
    "sum_caches",
    "tarn_pool_generation",
    "tarn_pool_get_statistics",
    # a field that either of two locks guards
    "tarn__budget_fail",
    # no other thread uses the pool
    "free_events",
    "free_pool",
    "has_background",
    "is_all_completed",
    "new_pool",
    "open_area",
    "open_pool",
    "tarn__captures_free",
    "tarn__heap_free",
}

ESCAPE = "TARN__NO_THREAD_SAFETY_ANALYSIS"
REQUIRES = re.compile(r"(\w+)\((?:[^();]|\([^()]*\))*\)\s*TARN__(?:REQUIRES|ASSERTS)\(")


def warnings(path: Path, text: str | None = None) -> list[str]:
    """Return Clang's warnings about a C file, or about another text in its place."""
    given = text if text is not None else path.read_text()
    # The name of the file in its warnings, and a folder for its own #include.
    given = f'#line 1 "{path.relative_to(PROJECT)}"\n{given}'
    done = subprocess.run(
        [*COMMAND, "-x", "c", "-"], input=given, capture_output=True, text=True, cwd=PROJECT
    )
    lines = [line for line in done.stderr.splitlines() if re.search(r": (warning|error): ", line)]
    if done.returncode != 0 and not lines:
        raise RuntimeError(done.stderr)
    return lines


def c_files(module: str) -> dict[Path, str]:
    """Return the C files of a module and their texts."""
    folder = next(PROJECT / found.folder for found in MODULES if found.name == module)
    return {path: path.read_text() for path in sorted(folder.rglob("*.c"))}


def planted(text: str) -> list[tuple[int, str]]:
    """Return each text in which one lock is not taken, with its line: the call that takes the lock
    and the call behind it that releases it are empty statements."""
    found = []
    for take, leave in TAKES.items():
        for match in re.finditer(rf"^ +{take}\([^;]*\);", text, re.MULTILINE):
            rest = re.sub(rf"\b{leave}\([^;]*\);", ";", text[match.end() :], count=1)
            line = text.count("\n", 0, match.start()) + 1
            found.append((line, f"{text[: match.start()]};{rest}"))
    return found


def not_analysed(files: Mapping[str, str]) -> set[str]:
    """Return the functions that Clang does not analyse."""
    found = set()
    for text in files.values():
        for match in re.finditer(rf"\b{ESCAPE}\b[^;{{}}]*\{{", text):
            begin = max(text.rfind(end, 0, match.start()) for end in ";{}") + 1
            head = text[begin : match.start()]
            if name := called_name([*tokens(re.sub(r"(?s)^.*\n *#[^\n]*\n", "", head))]):
                found.add(name)
    return found


def not_annotated(files: Mapping[str, str]) -> list[str]:
    """Return the functions that assert a lock and have no annotation that Clang checks."""
    shared = {name for path, text in files.items() if path.endswith(".h")
              for name in REQUIRES.findall(text)}  # fmt: skip
    lines = []
    for path, text in files.items():
        annotated = shared | set(REQUIRES.findall(text))
        for body in locks.read(text)[1]:
            if body.asserted and body.function not in annotated:
                lines.append(f"{path}: {body.function} is not annotated")
    return lines


def main(arguments: list[str]) -> int:
    for module in ANNOTATED:
        for path, text in c_files(module).items():
            for line in warnings(path, text):
                print(line)
            for number, changed in planted(text) if arguments == ["--planted"] else ():
                if not warnings(path, changed):
                    print(f"{path.relative_to(PROJECT)}:{number}: not seen")
        print(f"{module}: not analysed: {', '.join(sorted(not_analysed(sources()[module])))}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
