#!/usr/bin/env python3
"""prune_numba.py -- Numba's own tests with Tarn's pruner in the place of llvmlite's.

    prune_numba.py MODE TESTS...     e.g. sound numba.tests.test_nrt numba.tests.test_listobject

A `sitecustomize` installs the pruner, so that it is there in the processes too that some
tests start. Prints what the pruner did in all of them; exit code 1 if a test failed or if
nothing was pruned.
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import tempfile

HOOK = """
import atexit, json, os
import tarn.prune

tarn.prune.install({mode!r})

def note():
    with open({folder!r} + f"/{{os.getpid()}}.json", "w") as file:
        json.dump(tarn.prune.statistics()._asdict(), file)

atexit.register(note)
"""


def totals(folder: str) -> dict[str, int]:
    sums: dict[str, int] = {}
    for path in pathlib.Path(folder).glob("*.json"):
        for name, count in json.loads(path.read_text()).items():
            sums[name] = sums.get(name, 0) + count
    sums.pop("peak_bytes", None)  # of one process each, no sum
    return sums


def main() -> int:
    if len(sys.argv) < 3 or sys.argv[1] not in ("sound", "llvmlite", "assume_calls_keep"):
        print(__doc__.split("\n\n")[1], file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        hook = pathlib.Path(folder, "sitecustomize.py")
        hook.write_text(HOOK.format(mode=sys.argv[1], folder=folder))
        path = os.pathsep.join(filter(None, [folder, os.environ.get("PYTHONPATH")]))
        command = [sys.executable, "-m", "numba.runtests", *sys.argv[2:]]
        done = subprocess.run(command, env={**os.environ, "PYTHONPATH": path})
        sums = totals(folder)
    print(", ".join(f"{name} {count}" for name, count in sums.items()))
    return 0 if done.returncode == 0 and sums.get("per_block", 0) > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
