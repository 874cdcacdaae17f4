"""The programs of examples/frameworks, and one pool under four frameworks, on a real driver."""

import ast
import os
import pathlib
import subprocess
import sys

import pytest
import tarn

pytestmark = pytest.mark.skipif(tarn.driver_info().is_simulator, reason="needs kernels")

FOLDER = pathlib.Path(__file__).parents[2] / "examples/frameworks"


def run(*arguments):
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, timeout=300, env=os.environ
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def imports(path):
    """Return the modules that a program imports, without Tarn's, which have to be there."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module for node in nodes if isinstance(node, ast.ImportFrom)]
    return [name for name in names if name.partition(".")[0] != "tarn"]


@pytest.mark.parametrize("path", sorted(FOLDER.rglob("*.py")), ids=lambda path: path.stem)
def test_the_program_runs(path):
    for name in imports(path):
        pytest.importorskip(name)
    print(run(str(path)))


TOGETHER = """
import tarn
states = tarn.use("pool", frameworks=["numba", "cupy", "cuda.core"])
import cupy, numpy as np
from numba import cuda
from cuda.core import Device

assert tarn.use(frameworks=["numba", "cupy", "cuda.core"]) == dict.fromkeys(states, "active")

@cuda.jit
def double(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] *= 2

ours = cuda.to_device(np.arange(1 << 20, dtype="f4"))
double[ours.size // 256, 256](ours)
cuda.synchronize()
theirs = cupy.asarray(ours) + 1
core = Device(0)
core.set_current()
stream = core.create_stream()
buffer = core.allocate(1 << 20, stream=stream)
buffer.fill(7, stream=stream)
bytes_ = cupy.from_dlpack(tarn.DeviceBuffer.from_dlpack(buffer, stream=stream))
assert int(bytes_.sum()) == 7 << 20
assert float(theirs.sum(dtype="f8")) == sum(2.0 * i + 1 for i in range(1 << 20))
double[4, 256](np.ones(1024, "f4"))  # a host array, through cuda.core
pool = tarn.mr.get_current_device_resource()
assert cupy.get_default_memory_pool().total_bytes() == 0
assert pool.statistics().live_blocks >= 3
print("together", pool.statistics().live)
"""


def test_numba_cupy_and_cuda_core_allocate_from_one_pool():
    for name in "numba", "cupy", "cuda.core":
        pytest.importorskip(name)
    assert run("-c", TOGETHER).startswith("together")


HOOK = """
import tarn, sys
print(tarn.use())
import torch, cupy
print(tarn.use()["cupy"], tarn.use()["torch"])
x = torch.arange(1000, device="cuda")
y = cupy.from_dlpack(x)
assert int(y.sum()) == 499500
"""


def test_frameworks_that_are_imported_later_are_configured():
    for name in "torch", "cupy":
        pytest.importorskip(name)
    print(run("-c", HOOK))


TWO_DEVICES = """
import tarn
tarn.use("pool")
import cupy, torch
from numba import cuda
from tarn import mr

@cuda.jit
def add(near, far):
    i = cuda.grid(1)
    if i < near.size:
        near[i] += far[i]

first = torch.arange(1 << 20, device="cuda:0", dtype=torch.int64)
second = first.to("cuda:1")
torch.cuda.synchronize(1)
with cupy.cuda.Device(1):
    doubled = cupy.from_dlpack(second) * 2
    assert doubled.device.id == 1
    cupy.cuda.Device(1).synchronize()
    with cuda.gpus[1]:
        add[1 << 12, 256](cuda.as_cuda_array(second), cuda.as_cuda_array(doubled))
        cuda.synchronize()
assert (second.cpu() == 3 * first.cpu()).all()
for number, bytes_ in (0, first.nbytes), (1, 2 * second.nbytes):
    assert mr.get_per_device_resource(number).statistics().live_requested >= bytes_
assert cupy.get_default_memory_pool().total_bytes() == 0
"""


def test_pytorch_cupy_and_numba_share_the_pools_of_two_devices():
    for name in "torch", "cupy", "numba":
        pytest.importorskip(name)
    if tarn.driver_info().device_count < 2:
        pytest.skip("it needs two devices")
    run("-c", TWO_DEVICES)
