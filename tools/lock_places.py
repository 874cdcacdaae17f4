"""lock_places.py -- where libtarn takes its locks, and where a test forks while one is held.

    tools/lock_places.py --build build/release [--held]

It reads the calls of pthread_mutex_lock() and pthread_mutex_trylock() from the disassembled library,
runs unit-forks_held of that build, and prints the places that the test did not reach: function, file
and line. --held prints those where a thread held the lock at a fork.
"""

from __future__ import annotations

import argparse
import collections
import os
import pathlib
import re
import subprocess
import sys
import tempfile

LOCK = re.compile(r"pthread_mutex_(try)?lock@plt$")
INSTRUCTION = re.compile(r" +([0-9a-f]+):\s+(?:bnd )?(call|jmp)? *(?:[0-9a-f]+ <([^>+]+)>)?")


def output(*command: object) -> str:
    text = [str(part) for part in command]
    return subprocess.run(text, check=True, capture_output=True, text=True).stdout


def places(library: pathlib.Path) -> list[int]:
    """The addresses after each call: what the called function sees as its caller.

    A function that ends with a jump to the lock's function passes its own caller on."""
    lines = output("objdump", "-d", "--no-show-raw-insn", library).splitlines()
    lockers = {""}
    found: list[int] = []
    while True:
        known, function, is_call = len(lockers), "", False
        found = []
        for line in lines:
            if line.endswith(">:"):
                function, is_call = line.split("<")[1][:-2], False
            elif match := INSTRUCTION.match(line):
                if is_call:
                    found.append(int(match[1], 16))
                takes = bool(match[3]) and (bool(LOCK.search(match[3])) or match[3] in lockers)
                is_call = takes and match[2] == "call"
                if takes and match[2] == "jmp" and match[3] != function:
                    lockers.add(function)
        if len(lockers) == known:
            return found


def held(build: pathlib.Path) -> set[int]:
    """The addresses at which the test forked."""
    with tempfile.NamedTemporaryFile("r") as file:
        environment = {
            **os.environ,
            "TARN_TEST_PLACES": file.name,
            "TARN_BUILD": str(build),
            "TARN_DRIVER": str(build / "lib/tarn/sim/libcuda.so.1"),
        }
        subprocess.run([build / "bin/unit-forks_held"], check=True, env=environment,
                       stdout=subprocess.DEVNULL)  # fmt: skip
        return {int(line, 16) for line in file.read().split()}


def names(library: pathlib.Path, addresses: list[int]) -> list[str]:
    """`file:line function` of each address; inlined functions of headers have their caller's."""
    found = []
    for address in addresses:
        rows = output("addr2line", "-f", "-i", "-e", library, hex(address - 1)).splitlines()
        pairs = list(zip(rows[::2], rows[1::2], strict=True))
        function, place = next((pair for pair in pairs if ".h:" not in pair[1]), pairs[-1])
        found.append(f"{place.partition('/src/')[2] or place} {function}".split(" (")[0])
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build/release"))
    parser.add_argument("--held", action="store_true", help="print what the test reached")
    given = parser.parse_args()
    build = given.build.resolve()
    library = build / "lib/libtarn.so"
    every, reached = places(library), held(build)
    wanted = [place for place in every if (place in reached) == given.held]
    for name, count in sorted(collections.Counter(names(library, wanted)).items()):
        print(name + (f" ({count})" if count > 1 else ""))
    print(f"a thread held a lock at {len(reached & set(every))} of {len(every)} places")
    return 0


if __name__ == "__main__":
    sys.exit(main())
