"""The plugin for pytest: the fixture tarn_sim."""

import sys

import pytest
from cli_tool import TOOL

pytest_plugins = ["pytester"]

TESTS = """
import ctypes
import pytest

libcuda = ctypes.CDLL("libcuda.so.1")
BYTES = 4096

def allocate():
    address = ctypes.c_uint64()
    return address if libcuda.cuMemAlloc_v2(ctypes.byref(address), BYTES) == 0 else None

def ready():
    context = ctypes.c_void_p()
    assert libcuda.cuInit(0) == 0
    assert libcuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
    assert libcuda.cuCtxSetCurrent(context) == 0

def test_each_call_fails_once(tarn_sim):
    ready()
    reached = []
    for nth in tarn_sim.each_fault():
        blocks = [allocate() for _ in range(3)]
        reached.append([i for i, block in enumerate(blocks, 1) if block is None])
        for block in blocks:
            if block is not None:
                assert libcuda.cuMemFree_v2(block) == 0
        if nth == 3:
            break
    assert reached == [[1], [2], [3]]
    assert tarn_sim.live_bytes == 0

def test_the_last_run_has_no_fault(tarn_sim):
    ready()
    runs = 0
    for nth in tarn_sim.each_fault():
        runs += 1
        block = allocate()
        if block is not None and libcuda.cuMemFree_v2(block):
            assert libcuda.cuMemFree_v2(block) == 0
    assert (runs, tarn_sim.faults, tarn_sim.live_bytes) == (3, 0, 0)

def test_races_are_counted(tarn_sim):
    ready()
    tarn_sim.configure(races="on")
    block, streams = allocate(), [ctypes.c_void_p(), ctypes.c_void_p()]
    for stream in streams:
        assert libcuda.cuStreamCreate(ctypes.byref(stream), 1) == 0
        assert libcuda.cuMemsetD8Async(block, 1, ctypes.c_size_t(BYTES), stream) == 0
    assert tarn_sim.races == 1 and "cuMemsetD8Async" in tarn_sim.race
    assert libcuda.cuCtxSynchronize() == 0 and libcuda.cuMemFree_v2(block) == 0

def test_options_are_those_of_the_page(tarn_sim):
    with pytest.raises(ValueError, match="host-memory"):
        tarn_sim.configure(host_memory="3")
    with pytest.raises(ValueError, match="kind is 'nth'"):
        next(tarn_sim.each_fault("nth"))
    tarn_sim.configure(launches="ignore")
    assert tarn_sim.unknown_reads == 0
"""


@pytest.fixture
def run(pytester):
    """Run the tests under `tarn sim`, or without it."""

    def run(*command):
        pytester.makepyfile(test_it=TESTS)
        words = [*command, sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rs"]
        return pytester.run(*words)

    return run


def test_the_fixture_controls_the_simulator(run):
    result = run(TOOL, "sim", "--memory", "1GiB", "--")
    result.assert_outcomes(passed=4)


def test_without_the_simulator_its_tests_are_skipped(pytester):
    pytester.makepyfile(test_it="def test_it(tarn_sim):\n    assert False\n")
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-rs")
    result.assert_outcomes(skipped=1)
    assert "tarn sim -- pytest" in "\n".join(result.outlines)
