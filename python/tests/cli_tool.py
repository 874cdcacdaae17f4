"""Runs the command `tarn` for its tests: the one beside the interpreter, or TARN_TOOL."""

import os
import subprocess
import sys
from pathlib import Path

TOOL = os.environ.get("TARN_TOOL") or str(Path(sys.executable).parent / "tarn")

NBEP7 = (
    "Event Type,Device ID,Address,Stream,Size (bytes),Free Memory,Total Memory,"
    "Current Allocs,Start,End,Elapsed,Location\n"
)
RMM = "Thread,Time,Action,Pointer,Size,Stream\n"


def tarn_tool(*args, input=None, cwd=None, **environment):
    """Run the tool. Variables of None are removed from the environment."""
    changed = {**os.environ, **environment}
    changed.pop("CUDA_VISIBLE_DEVICES", None)  # of a GPU; most tests are for the simulator
    changed = {name: value for name, value in changed.items() if value is not None}
    if isinstance(input, str):
        input = input.encode()
    done = subprocess.run(
        [TOOL, *map(str, args)], input=input, cwd=cwd, env=changed, capture_output=True
    )
    done.stdout = done.stdout.decode()
    done.stderr = done.stderr.decode()
    return done


def refused(code, says, *args, **options):
    """Check that the tool ends with `code`, prints nothing, and reports the reason on stderr first."""
    done = tarn_tool(*args, **options)
    assert done.returncode == code, done.stderr
    assert done.stdout == ""
    first = done.stderr.splitlines()[0]
    assert says in first, first
    if code == 1:
        assert done.stderr.count("\n") == 1, done.stderr
    return done
