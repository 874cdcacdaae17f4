"""python -m tarn.prune [--mode MODE] [--stats] [--profile] PROGRAM | -m MODULE [ARGUMENTS]

Runs a Python program whose Numba functions are pruned by Tarn, in the processes that it starts
too. MODE is sound, llvmlite or assume_calls_keep. --profile counts the increfs that run in this
process, and prints them by the rule that kept them.
"""

from __future__ import annotations

import runpy
import sys

import tarn.prune
from tarn.prune import _profile
from tarn.prune._library import MODES


def _say_totals() -> None:
    """Print the counts of the whole process on stderr."""
    report = tarn.prune.statistics()
    words = ", ".join(f"{name} {count}" for name, count in report._asdict().items())
    print(f"tarn.prune: {words}", file=sys.stderr)


def _usage() -> int:
    """Print the usage on stderr and return the exit status."""
    print(__doc__, end="", file=sys.stderr)
    return 2


def main(arguments: list[str]) -> int:
    """Run the program that the arguments name; return the exit status."""
    mode, stats, profile = "sound", False, False
    while arguments and arguments[0] in ("--mode", "--stats", "--profile"):
        option = arguments.pop(0)
        if option == "--stats":
            stats = True
        elif option == "--profile":
            profile = True
        elif not arguments or arguments[0] not in MODES:
            return _usage()
        else:
            mode = arguments.pop(0)
    is_module = arguments[:1] == ["-m"]
    program = arguments[1:] if is_module else arguments
    if not program or program[0].startswith("-"):
        return _usage()

    tarn.prune.install(mode)
    if profile:
        from tarn.prune import _numba

        _numba.install(mode, profile=True)
    sys.argv = program
    try:
        if is_module:
            sys.path[0] = ""
            runpy.run_module(program[0], run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(program[0], run_name="__main__")
    finally:
        if stats:
            _say_totals()
        if profile:
            print(_profile.table(_profile.read()), file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
