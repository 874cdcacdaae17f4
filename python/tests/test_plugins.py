"""Plugins for a stock Numba that are written in Python: those of examples/numba/plugins.

Each passes the same exercises (plugin_exercises.py), in a process of its own. The plugin on CuPy's
pool uses a replacement of CuPy here (stand_in_cupy).
"""

import functools
import json
import pathlib
import re

import pytest
import tarn
from numba_support import rows, run

pytest.importorskip("numpy")
pytest.importorskip("numba")

import plugin_exercises

PLUGINS = pathlib.Path(__file__).parents[2] / "examples" / "numba" / "plugins"
STAND_IN = pathlib.Path(__file__).with_name("stand_in_cupy")
MANAGERS = ["device_only", "whole", "nbep7_draft", "nbep7_final", "nbep7_cupy"]
NAMES = [exercise.__name__ for exercise in plugin_exercises.EXERCISES]


def with_plugins(arguments, **changes):
    return run(arguments, PYTHONPATH=f"{PLUGINS}:{STAND_IN}", **changes)


@functools.cache
def outcomes(manager):
    """Return the error of each exercise (None: no error), and the complete output."""
    done = with_plugins([plugin_exercises.__file__], NUMBA_CUDA_MEMORY_MANAGER=manager)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return {line["exercise"]: line["trouble"] for line in lines}, done


@pytest.mark.parametrize("exercise", NAMES)
@pytest.mark.parametrize("manager", MANAGERS)
def test_a_manager_passes(manager, exercise):
    """Each manager passes each exercise."""
    found, done = outcomes(manager)
    assert exercise in found, f"exit code {done.returncode}: {done.stderr}"
    assert found[exercise] is None, found[exercise]


@pytest.mark.parametrize("manager", MANAGERS)
def test_a_manager_ends_without_a_word(manager):
    """Check the output of finalizers after the last exercise, and at exit."""
    done = outcomes(manager)[1]
    assert (done.returncode, done.stderr) == (0, "")


SHORT = """
import tarn
from device_only import DeviceOnlyManager
from numba import cuda

pool = tarn.mr.PoolMemoryResource()

class Short(DeviceOnlyManager):
    def memalloc(self, size):
        buffer = tarn.DeviceBuffer(size=size // 2, stream=tarn.NO_STREAM, mr=pool)
        pointer = super().memalloc(1)
        return cuda.MemoryPointer(pointer.context, buffer.ptr, size, owner=(buffer, pointer))

_numba_memory_manager = Short
"""


def test_a_manager_that_hands_out_too_little_does_not_pass(tmp_path):
    (tmp_path / "short_manager.py").write_text(SHORT)
    done = run(
        [plugin_exercises.__file__], PYTHONPATH=f"{tmp_path}:{PLUGINS}",
        NUMBA_CUDA_MEMORY_MANAGER="short_manager",
    )  # fmt: skip
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    found = {line["exercise"]: line["trouble"] for line in lines}
    assert "AssertionError" in found["arrays_have_all_their_bytes"], done.stderr
    assert done.returncode == 1


DEFERRING = """
import gc, sys
import tarn
from numba import cuda

def is_back():
    gc.collect()
    if "cupy" in sys.modules:
        return sys.modules["cupy"].get_default_memory_pool().used_bytes() == 0
    return tarn.device_info().free_bytes == tarn.device_info().total_bytes

cuda.device_array(10)
assert is_back()
with cuda.defer_cleanup():
    cuda.device_array(10)
    print(is_back())
print(is_back())
"""


@pytest.mark.skipif(not tarn.driver_info().is_simulator, reason="others may use the card")
@pytest.mark.parametrize("manager", MANAGERS)
def test_deferred_cleanup_does_with_device_memory_what_the_manager_says(manager):
    """Each states in its module docstring when memory returns."""
    text = (PLUGINS / f"{manager}.py").read_text().split('"""')[1]
    at_once = re.search(r"(at once|as soon as)[^;]*defer_cleanup", text) is not None
    waits = re.search(r"defer_cleanup[^;.]* (its|last)\s+(last\s+)?end", text) is not None
    assert at_once != waits
    done = with_plugins(["-c", DEFERRING], NUMBA_CUDA_MEMORY_MANAGER=manager)
    assert done.stdout.split() == [str(at_once), "True"], done.stderr


# --- the programs of the proposal -------------------------------------------------------


PROGRAM = ["    d_a = cuda.to_device(a)", "    del d_a"]


@pytest.mark.parametrize("name", ["nbep7_draft", "nbep7_final"])
def test_the_program_of_the_proposal_prints_its_log(name):
    """One array of 80 bytes is allocated and freed."""
    done = with_plugins([str(PLUGINS / f"{name}.py")])
    assert done.returncode == 0, done.stderr
    one, two = rows(done.stdout.strip())
    assert (one["Event Type"], one["Size (bytes)"], one["Current Allocs"]) == (
        "Alloc", "80", "1"
    )  # fmt: skip
    assert (two["Event Type"], two["Size (bytes)"], two["Current Allocs"]) == (
        "Free", "80", "0"
    )  # fmt: skip
    assert one["Address"] == two["Address"]
    program = (PLUGINS / f"{name}.py").read_text().splitlines()
    lines = [program.index(line) + 1 for line in PROGRAM]
    assert [row["Location"] for row in (one, two)] == [
        f"{PLUGINS / name}.py:{line}" for line in lines
    ]


def test_the_program_on_cupys_pool_prints_its_lines():
    """The program on CuPy's pool prints the proposal's lines."""
    done = with_plugins([str(PLUGINS / "nbep7_cupy.py")])
    assert done.returncode == 0, done.stderr
    one, two = done.stdout.splitlines()
    address = re.fullmatch("Allocated 80 bytes at ([0-9a-f]+)", one)[1]
    assert two == f"Freeing 80 bytes at {address}"


LOCATED = """
import sys
import nbep7_draft, numpy
from numba import cuda

def work():
    array = cuda.device_array(10)
    del array

work()
print(nbep7_draft.library.csv_log())
"""


def test_a_plugin_is_passed_over_in_the_log(tmp_path):
    """The line is the program's; neither the plugin nor Numba prints it."""
    program = tmp_path / "program.py"
    program.write_text(LOCATED)
    done = with_plugins([str(program)], NUMBA_CUDA_MEMORY_MANAGER="nbep7_draft")
    assert [row["Location"] for row in rows(done.stdout.strip())] == [
        f"{program}:7", f"{program}:8"
    ], done.stderr  # fmt: skip


def test_the_shortest_plugin_says_what_is_out():
    done = with_plugins([str(PLUGINS / "device_only.py")])
    assert done.stdout == "80 bytes are live\n0 bytes are live\n", done.stderr


# --- a library that has a plugin --------------------------------------------------------

REGISTERED = """
import optional
from numba import cuda
print(optional.register(), type(cuda.current_context().memory_manager).__name__)
"""


def test_a_library_registers_its_plugin_where_there_is_a_numba():
    """A library registers its plugin if Numba is installed."""
    done = with_plugins(["-c", REGISTERED])
    assert done.stdout == "True DeviceOnlyManager\n", done.stderr


def test_a_library_goes_on_where_there_is_no_numba():
    """Without Numba the library works, and the module with the plugin is not imported."""
    code = """
import sys
sys.modules["numba"] = None  # as if it were not installed
import optional
print(optional.register(), "device_only" in sys.modules)
"""
    done = with_plugins(["-c", code])
    words = "Numba not importable - not registering EMM Plugin\nFalse False\n"
    assert done.stdout == words, done.stderr
