"""tarn.use() on two devices: Numba, CuPy and cuda.core on the pools of both, and wrong resources.

On a machine with two GPUs the same tests run with CuPy's own streams and with a kernel that reads
the other device's memory. tests/gpu/torch_programs.py has PyTorch's tests with two devices.
"""

import importlib.util

import numba_support
import pytest

for module in ("numba_cuda", "cupy", "cuda"):
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"{module} is not installed", allow_module_level=True)

pytestmark = pytest.mark.skipif(not numba_support.CAN_HAVE_TWO_DEVICES, reason="needs two devices")

BEGIN = """
import contextlib, gc
import tarn
tarn.open_driver()
assert tarn.use("pool", frameworks=["numba", "cupy", "cuda.core"])
import cupy
import numpy as np
from cuda.core import Device
from numba import cuda
from tarn import mr

ON_SIM = tarn.driver_info().is_simulator
streams = {}
if ON_SIM:  # CuPy has no current stream there
    cupy.cuda.get_current_stream = lambda: streams[tarn._tarn.current_device()]

@contextlib.contextmanager
def device(number):
    # All three libraries use this device inside the block.
    with cuda.gpus[number], contextlib.nullcontext() if ON_SIM else cupy.cuda.Device(number):
        core = Device(number)
        core.set_current()
        if number not in streams:
            streams[number] = tarn.Stream(flags=1)
        yield core
    Device(0).set_current()

def of_numba(core):
    return cuda.device_array(1000, "u1")

def of_cupy(core):
    return cupy.ndarray((2000,), "u1")

def of_core(core):
    return core.allocate(3000, stream=core.create_stream())

MAKE = {"numba": of_numba, "cupy": of_cupy, "cuda.core": of_core}

def address(array):
    if isinstance(array, cupy.ndarray):
        return array.data.ptr
    handle = getattr(array, "handle", None)
    return int(handle) if handle is not None else array.device_ctypes_pointer.value

class Interface:
    # An array of CuPy, which needs the CUDA runtime for an interface of its own.
    def __init__(self, array):
        self.array = array
        self.__cuda_array_interface__ = {
            "shape": array.shape, "typestr": "|u1", "data": (array.data.ptr, False), "version": 3
        }

def live(number):
    gc.collect()
    return mr.get_per_device_resource(number).statistics().live_requested

def fails(kind, call):
    try:
        call()
    except kind as error:
        return error
    raise AssertionError("no error")
"""


def two(code):
    return numba_support.fork_code(
        BEGIN + code, TARN_SIM="devices=2", NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS="0"
    )


def test_each_framework_allocates_from_the_pool_of_each_device():
    two("""
arrays = {}
for number in 0, 1, 0, 1:
    with device(number) as core:
        made = {name: make(core) for name, make in MAKE.items()}
        if number not in arrays:
            arrays[number] = made
        pool = mr.get_per_device_resource(number)
        assert type(pool) is mr.PoolMemoryResource and pool.device == number
        blocks = {block.address for block in pool.snapshot() if block.state == "live"}
        assert {address(array) for array in made.values()} <= blocks, number
    del made
    assert live(number) == 6000
assert live(0) == live(1) == 6000
pools = [mr.get_per_device_resource(number) for number in (0, 1)]
assert pools[0] is not pools[1]
# The current device at a free is not that of the array.
with device(1):
    arrays[0].clear()
    assert (live(0), live(1)) == (0, 6000)
with device(0):
    arrays[1].clear()
    assert live(1) == 0
""")


def test_arrays_pass_between_the_devices_once_the_pools_are_open_to_each_other():
    two("""
for number in 0, 1:
    with device(number) as core:
        of_numba(core)  # makes the pool of the device
info = [mr.get_per_device_resource(number) for number in (0, 1)]
try:
    for number in 0, 1:
        info[number].set_peer_access(1 - number)
except tarn.NotSupportedError:
    raise SystemExit(0)  # these two devices cannot reach each other

host = (np.arange(3000) % 251).astype("u1")
for source, target in (0, 1), (1, 0):
    with device(source) as core:
        first = cuda.to_device(host)
        stream = core.create_stream()
        buffer = core.allocate(3000, stream=stream)
        buffer.fill(7 + source, stream=stream)
        stream.sync()
    with device(target) as core:
        copy = cuda.device_array(3000, "u1")
        copy.copy_to_device(first)
        assert (copy.copy_to_host() == host).all()
        stream = core.create_stream()
        other = core.allocate(3000, stream=stream)
        other.copy_from(buffer, stream=stream)
        array = tarn.DeviceBuffer.from_dlpack(other, stream=stream)
        assert array.tobytes(stream) == bytes([7 + source]) * 3000
        theirs = cupy.ndarray((3000,), "u1")
        view = cuda.as_cuda_array(Interface(theirs) if ON_SIM else theirs, sync=False)
        view.copy_to_device(first)
        assert (view.copy_to_host() == host).all()
        if not ON_SIM:
            @cuda.jit
            def add(near, far, wrong):
                i = cuda.grid(1)
                if i < near.size and near[i] != far[i]:
                    cuda.atomic.add(wrong, 0, 1)
            wrong = cuda.to_device(np.zeros(1, "i4"))
            add[12, 256](copy, first, wrong)  # reads the other device
            assert wrong.copy_to_host()[0] == 0
            del wrong
        del copy, array, other, theirs, view
    del first, buffer
assert (live(0), live(1)) == (0, 0)
""")


ELSEWHERE = """
class Elsewhere(mr.DeviceMemoryResource):  # memory of device 1 for any device
    source = mr.StatisticsResourceAdaptor(mr.CudaMemoryResource(device=1))
    def allocate(self, nbytes, stream=tarn.DEFAULT_STREAM):
        return self.source.allocate(nbytes, stream)
    def deallocate(self, ptr, nbytes, stream=tarn.DEFAULT_STREAM):
        self.source.deallocate(ptr, nbytes, stream)
"""


def test_memory_of_the_wrong_device_reaches_no_framework_and_goes_back():
    two(
        ELSEWHERE
        + """
for number in 0, 1:
    with device(number) as core:
        for make in MAKE.values():
            make(core)
with device(0) as core:
    before = mr.set_per_device_resource(0, Elsewhere())
    for name, make in MAKE.items():
        error = fails(ValueError, lambda: make(core))  # of the class in Python, as it raises
        assert "memory of device 1, not of device 0" in str(error), error
        assert Elsewhere.source.allocation_counts.current_bytes == 0
    mr.set_per_device_resource(0, before)
    kept = [make(core) for make in MAKE.values()]  # all of them go on
    assert live(0) == 6000
    del kept
    assert live(0) == 0
"""
    )


def test_a_resource_of_another_device_cannot_serve_a_device():
    two("""
import tarn.cuda_core, tarn.cupy, tarn.numba
pools = [mr.PoolMemoryResource(device=number) for number in (0, 1)]
with device(0) as core:
    calls = [
        lambda: mr.set_per_device_resource(0, pools[1]),
        lambda: tarn.numba.using_resource(pools[1], device=0).__enter__(),
        lambda: tarn.cuda_core.MemoryResource(pools[1], device=0),
        lambda: tarn.cuda_core.MemoryResource(pools[1]).allocate(9, stream=core.create_stream()),
    ]
    for call in calls:
        fails(ValueError, call)
    allocate = tarn.cupy.Allocator(pools[1])
    assert "device 1" in str(fails(cupy.cuda.runtime.CUDARuntimeError, lambda: allocate(9)))
    of_numba(core)
    assert [pool.statistics().allocations for pool in pools] == [0, 0]
    assert mr.get_per_device_resource(0).device == 0
    tarn.use(pools[1], frameworks=[])  # its own device, not the current one
    assert mr.get_per_device_resource(1) is pools[1]
with device(1) as core:
    kept = [make(core) for make in MAKE.values()]
    assert pools[1].statistics().live_requested == 6000
""")
