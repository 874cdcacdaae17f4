"""bench/together: frameworks that share one pool, at full size on the driver simulator.

The simulator runs no kernels, so copies check both ends of each array there. On a GPU the same test
runs the kernels. TARN_TORCH_CUDART names the library of torch_cudart.c; with it PyTorch takes part.
"""

import copy
import importlib.util
import json
import os
import pathlib
import subprocess
import sys

import numba_support
import pytest
import tarn

FOLDER = pathlib.Path(__file__).parents[2] / "bench/together"

for module in ("numba_cuda", "cupy", "cuda.core"):
    pytest.importorskip(module)


def load(name):
    """Return a module of the folder; other folders have files of the same name."""
    spec = importlib.util.spec_from_file_location(f"together_{name}", FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


compare = load("compare")
ON_SIM = tarn.driver_info().is_simulator


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """Run the comparison once; return its figures and its output."""
    path = tmp_path_factory.mktemp("together") / "figures.json"
    command = [sys.executable, str(FOLDER / "compare.py"), "--rounds", "1", "--phases", "16"]
    done = subprocess.run(
        [*command, "--json", str(path)],
        env=dict(os.environ), text=True, capture_output=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(path.read_text()), done.stdout


def test_all_libraries_pass_arrays_to_each_other_on_one_pool(recorded):
    runs, _ = recorded
    for run in runs:
        names = list(run["versions"])
        pairs = {f"{one} -> {other}" for one in names for other in names if one != other}
        assert set(run["passed"]) == pairs and min(run["passed"].values()) > 10
        assert run["elements_checked"] > 100_000
        assert set(run["wrong"]) == set(names) and not any(run["wrong"].values())
    wanted = {"numba", "cupy", "cuda.core"}
    if not ON_SIM or os.environ.get("TARN_TORCH_CUDART"):
        wanted |= {"torch"} if importlib.util.find_spec("torch") else set()
    assert wanted <= set(runs[0]["versions"])


def test_the_bytes_of_each_library_come_from_the_pool(recorded):
    runs, _ = recorded
    for run in runs:
        if run["allocator"] == "own":
            assert run["counters"] == {} and min(run["reserved"].values()) > 0
            continue
        counted = run["counters"].values()
        assert sum(one["allocations"] for one in counted) == run["pool"]["allocations"]
        assert min(one["bytes"] for one in counted) > 4 * run["unit"]
        assert max(one["peak"] for one in counted) < run["peak_live"]


def test_a_limit_of_1_1_times_the_peak_is_enough(recorded):
    runs, output = recorded
    limited = [run for run in runs if run["limit"]]
    assert [run["limit"] for run in limited] == [int(1.1 * runs[0]["peak_live"])]
    assert limited[0]["pool"]["failures"] == 0
    assert limited[0]["pool"]["peak_reserved"] <= limited[0]["limit"]
    assert "ok    no run with the limit is out of memory" in output
    assert "FAIL" not in output


@pytest.mark.parametrize(
    "condition, change",
    [
        ("no element is wrong", lambda run: run["wrong"].update(numba=1)),
        ("each library holds 10%", lambda run: run["at_peak"].update(numba=1 << 20)),
        ("no run with the limit", lambda run: run["pool"].update(failures=1)),
        ("the pool has not reserved", lambda run: run["pool"].update(peak_reserved=1 << 40)),
    ],
)
def test_a_condition_that_does_not_hold_is_reported(recorded, condition, change):
    runs = copy.deepcopy(recorded[0])
    for run in runs:
        if run["allocator"] == "tarn":
            change(run)
    failed = [text for text, held in compare.conditions(runs, 1).items() if not held]
    assert [text.startswith(condition) for text in failed] == [True]


def test_a_missing_run_and_too_little_difference_are_reported(recorded):
    runs = copy.deepcopy(recorded[0])
    own = next(run for run in runs if run["allocator"] == "own")
    own["versions"] = runs[0]["versions"]
    own["used_peak"] = 2 * runs[-1]["used_peak"]
    assert all(compare.conditions(runs, 1).values())
    own["used_peak"] = runs[-1]["used_peak"]
    failed = [text for text, held in compare.conditions(runs, 1).items() if not held]
    assert failed == ["Tarn uses 30% less of the device (0.0%)"]
    failed = [text for text, held in compare.conditions(runs[:-1], 1).items() if not held]
    assert failed == ["no run with the limit is out of memory"]


# --- the work on arrays -----------------------------------------------------------------

ADD_FOLDER = f"import sys; sys.path.insert(0, {str(FOLDER)!r})\n"


@pytest.mark.skipif(not ON_SIM, reason="for drivers without kernels")
def test_copies_find_a_wrong_element_at_either_end():
    numba_support.fork_code(
        ADD_FOLDER
        + """
import tarn
from numba import cuda
from kernels import Copies, called, driver_module
cuda.current_context()
buffer = tarn.DeviceBuffer(size=4 * 100_000)
work = Copies(lambda array: array.ptr, 0)
for count, place in (1, 0), (100, 99), (5000, 4999), (100_000, 0), (100_000, 99_999):
    work.fill(buffer, count, 12345)
    work.change(buffer, count, 1 << 30)
    before = work.wrong()
    work.check(buffer, count, 12345 ^ 1 << 30)
    assert work.wrong() == before and work.checked(count) == min(count, 8192)
    called(driver_module().cuMemsetD8(buffer.ptr + 4 * place, 0xEE, 1))
    work.check(buffer, count, 12345 ^ 1 << 30)
    assert work.wrong() == before + 1
"""
    )


@pytest.mark.skipif(not ON_SIM, reason="the simulator finds races")
def test_a_missing_wait_between_the_streams_is_found():
    code = """
import argparse
import tarn
tarn.open_driver()
import program
before = program.order
program.order = lambda after, behind: None if program.order.is_off else before(after, behind)
program.order.is_off = ORDER_IS_OFF
program.run(argparse.Namespace(
    libraries=["numba", "cuda.core"], allocator="tarn", limit=None, unit=1 << 26, seed=1, phases=2
))
"""
    for is_off in False, True:
        done = numba_support.fork(
            ADD_FOLDER + code.replace("ORDER_IS_OFF", str(is_off)), TARN_SIM="races=on"
        )
        assert (" race: " in done.stderr) == is_off, done.stdout + done.stderr


def test_numbas_kernels_find_each_wrong_element():
    code = """
import numpy as np
from numba import cuda
from kernels import NumbaKernels, pattern
work = NumbaKernels(cuda.stream())
array = cuda.device_array(1000, "i4")
assert work.wrong() == 0
work.fill(array, 1000, 77)
work.change(array, 1000, 1 << 30)
assert (array.copy_to_host() == pattern(0, 1000, 77 ^ 1 << 30)).all()
work.check(array, 1000, 77 ^ 1 << 30)
assert work.wrong() == 0
work.check(array, 1000, 78)
assert work.wrong() == 1000
"""
    changes = {"NUMBA_ENABLE_CUDASIM": "1"} if ON_SIM else {}
    done = numba_support.run(["-W", "ignore", "-c", ADD_FOLDER + code], **changes)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif(not ON_SIM, reason="for drivers without kernels")
def test_the_kernels_of_cuda_core_compile_and_are_launched():
    code = """
import tarn
tarn.open_driver()
from cuda.core import Device
from kernels import CoreKernels
from libraries import CoreArray
device = Device(0)
device.set_current()
stream = device.create_stream()
work = CoreKernels(device, stream)
buffer = device.allocate(4000, stream=stream)
array = CoreArray(buffer, int(buffer.handle))
for operation in work.fill, work.change, work.check:
    try:
        operation(array, 1000, 5)
    except Exception as error:
        assert "NOT_SUPPORTED" in str(error), error
    else:
        raise AssertionError("the simulator launches no kernel")
assert work.wrong() == 0
"""
    done = numba_support.fork(ADD_FOLDER + code)
    assert done.returncode == 0, done.stdout + done.stderr


def test_pytorchs_operations_find_each_wrong_element():
    torch = pytest.importorskip("torch")
    kernels = load("kernels")
    work = kernels.TorchOperations(None, "cpu")
    count = kernels.PIECE + 5
    array = torch.empty(count, dtype=torch.int32)
    work.fill(array, count, 77)
    work.change(array, count, 1 << 30)
    assert (array.numpy() == kernels.pattern(0, count, 77 ^ 1 << 30)).all()
    work.check(array, count, 77 ^ 1 << 30)
    assert work.wrong() == 0
    array[[0, count - 1]] = -1
    work.check(array, count, 77 ^ 1 << 30)
    assert work.wrong() == 2
