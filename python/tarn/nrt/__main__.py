"""Run a program on Tarn's runtime: `python -m tarn.nrt [-m MODULE | -c CODE | FILE] ARGS...`.

The program runs in this process as Python would run it. Numba uses Tarn's runtime when it is
imported, and so does every Python that the program starts. With --threads=single compiled code
counts references without atomics, until something can run without the GIL.
"""

from __future__ import annotations

import builtins
import os
import runpy
import sys

USAGE = "usage: python -m tarn.nrt [--threads=single] [-m MODULE | -c CODE | FILE] ARGS..."


def _run_code(code: str) -> None:
    """Run the text of a program, as `python -c` does."""
    from tarn.nrt import _program

    sys.argv = ["-c", *sys.argv[3:]]
    if not sys.flags.safe_path:
        sys.path[0] = ""
    module = sys.modules["__main__"]
    module.__dict__.clear()
    module.__dict__.update(
        __name__="__main__", __builtins__=builtins, __doc__=None, __package__=None,
        __loader__=None, __spec__=None,
    )  # fmt: skip
    _program.run_source(code, "<string>", module)


def _run_module(name: str) -> None:
    """Run a module, as `python -m` does."""
    sys.argv = ["-m", *sys.argv[3:]]  # runpy writes the file's name over the "-m"
    sys.modules["__main__"].__dict__.pop("__file__", None)
    runpy._run_module_as_main(name)  # type: ignore[attr-defined]  # what `python -m` does


def _run_path(path: str) -> None:
    """Run a file, or a folder with a `__main__.py`."""
    from tarn.nrt import _program

    del sys.argv[0]
    if os.path.isdir(path):
        runpy.run_path(path, run_name="__main__")
    else:
        _program.run_file(path, "tarn.nrt")


def main() -> None:
    """Run the program that the command line names."""
    from tarn import nrt

    threads = "any"
    if sys.argv[1:2] == ["--threads=single"]:
        threads = "single"
        del sys.argv[1]
    words = sys.argv[1:]
    if not words or words[0] in ("-h", "--help"):
        print(USAGE, file=sys.stderr if not words else sys.stdout)
        raise SystemExit(0 if words else 2)
    runners = {"-m": _run_module, "-c": _run_code}
    if words[0].startswith("-") and (words[0] not in runners or len(words) < 2):
        print(USAGE, file=sys.stderr)
        raise SystemExit(2)
    nrt.install(threads=threads)
    if words[0] in runners:
        runners[words[0]](words[1])
    else:
        _run_path(words[0])


if __name__ == "__main__":
    # By its own name: the globals of this module are about to become the program's.
    from tarn.nrt import __main__ as runner

    runner.main()
