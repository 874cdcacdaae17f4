"""tarn.cupy: CuPy's arrays from Tarn, with CuPy itself on the driver simulator.

CuPy needs the CUDA runtime for its current stream, which the simulator cannot serve. So the
allocators here have a stream of their own, or CuPy gets a function that returns one.
tests/gpu/test_gpu_cupy.py has the rest.
"""

import importlib.util

import numba_support
import pytest

if importlib.util.find_spec("cupy") is None:
    pytest.skip("CuPy is not installed", allow_module_level=True)

PRELUDE = """
import gc, os, pickle, warnings
import tarn
tarn.open_driver()
import cupy, numpy
import tarn.cupy

pool = tarn.mr.PoolMemoryResource()
stream, other = tarn.Stream(), tarn.Stream()
live = lambda: pool.statistics().live_blocks
allocator = tarn.cupy.Allocator(pool, stream)
OutOfMemoryError = cupy.cuda.memory.OutOfMemoryError
CUDARuntimeError = cupy.cuda.runtime.CUDARuntimeError

def array(bytes):
    return cupy.ndarray((bytes,), "u1")

def fails(kind, call):
    try:
        call()
    except kind as error:
        return error
    raise AssertionError("no error")
"""
USE = """
assert tarn.use(pool, frameworks="cupy") == {"cupy": "active"}
cupy.cuda.get_current_stream = lambda: now[0]
now = [stream]
"""
WITH = "cupy.cuda.set_allocator(allocator)\n"


def cupy_code(code, **changes):
    return numba_support.run_code(PRELUDE + code, **changes)


# --- the allocator ----------------------------------------------------------------------


def test_arrays_are_blocks_of_the_resource():
    cupy_code("""
with cupy.cuda.using_allocator(allocator):
    one, two = array(1000), array(5)
assert live() == 2 and pool.statistics().live_requested == 1005
assert one.data.ptr != two.data.ptr and one.data.mem.size == 1000
view = one[100:200]
del one
assert live() == 2 and view.data.ptr == view.base.data.ptr + 100 if view.base is not None else 1
del view, two
assert live() == 0
""")


def test_no_bytes_are_no_block():
    cupy_code(WITH + "assert array(0).data.ptr == 0 and live() == 0")


def test_without_a_resource_it_is_the_current_one_at_each_allocation():
    cupy_code("""
cupy.cuda.set_allocator(tarn.cupy.Allocator(stream=stream))
tarn.mr.set_current_device_resource(pool)
one = array(100)
second = tarn.mr.PoolMemoryResource()
tarn.mr.set_current_device_resource(second)
two = array(100)
assert (live(), second.statistics().live_blocks) == (1, 1)
del one, two
assert (live(), second.statistics().live_blocks) == (0, 0)
""")


def test_memory_is_freed_on_the_stream_of_its_allocation():
    cupy_code(
        USE
        + """
one = array(1 << 20)
assert one.data.mem._owner.stream == stream
now[0] = other
address = one.data.ptr
del one
now[0] = stream
before = pool.statistics().same_stream
assert array(1 << 20).data.ptr == address
assert pool.statistics().same_stream == before + 1
"""
    )


def test_another_stream_can_be_named_for_the_free():
    cupy_code(
        WITH
        + """
one = array(1 << 20)
view = one[:10]
tarn.cupy.free_on(view, other)
address = one.data.ptr
del one, view
cupy.cuda.set_allocator(tarn.cupy.Allocator(pool, other))
before = pool.statistics().same_stream
assert array(1 << 20).data.ptr == address
assert pool.statistics().same_stream == before + 1
"""
    )


def test_memory_that_is_not_tarns_has_no_stream_to_name():
    cupy_code("""
memory = cupy.cuda.UnownedMemory(4096, 10, None, 0)
foreign = cupy.ndarray((10,), "u1", memptr=cupy.cuda.MemoryPointer(memory, 0))
fails(ValueError, lambda: tarn.cupy.free_on(foreign, stream))
cupy.cuda.set_allocator(allocator)
fails(TypeError, lambda: tarn.cupy.free_on(array(10), None))
fails(TypeError, lambda: tarn.cupy.free_on(array(10), "x"))
""")


def test_out_of_memory_is_cupys_error_and_tarns():
    cupy_code("""
limited = tarn.mr.LimitingResourceAdaptor(pool, 1 << 20)
cupy.cuda.set_allocator(tarn.cupy.Allocator(limited, stream))
error = fails(OutOfMemoryError, lambda: array(1 << 21))
assert isinstance(error, tarn.OutOfMemoryError) and isinstance(error, MemoryError)
assert "limiter: 2097152 bytes exceed" in str(error)
again = pickle.loads(pickle.dumps(error))
assert type(again) is type(error) and str(again) == str(error)
array(1000)
assert live() == 0
""")


@pytest.mark.skipif(not numba_support.CAN_HAVE_TWO_DEVICES, reason="needs two devices")
def test_other_failures_are_cupys_error_and_tarns():
    cupy_code("""
second = tarn.mr.CudaMemoryResource(device=1)
cupy.cuda.set_allocator(tarn.cupy.Allocator(second, stream))
error = fails(CUDARuntimeError, lambda: array(10))
assert isinstance(error, tarn.InvalidArgumentError) and error.status == 1
assert pickle.loads(pickle.dumps(error)).status == 1
assert "the resource is of device 1, and the current device is 0" in str(error)
""", TARN_SIM="devices=2")  # fmt: skip


def test_wrong_arguments_are_refused():
    cupy_code("""
fails(TypeError, lambda: tarn.cupy.Allocator(5))
fails(TypeError, lambda: tarn.cupy.Allocator(pool, "x"))
fails(OverflowError, lambda: allocator(-1))
fails(TypeError, lambda: allocator("10"))
""")


def test_a_forked_child_gets_cupys_error():
    cupy_code("""
cupy.cuda.set_allocator(tarn.cupy.Allocator(tarn.mr.CudaMemoryResource(device=0), stream))
array(10)
warnings.simplefilter("ignore")  # Python 3.12 warns of threads
child = os.fork()
if child == 0:
    try:
        array(10)
    except (CUDARuntimeError, OutOfMemoryError) as error:
        os._exit(0 if isinstance(error, tarn.TarnError) else 2)
    os._exit(1)
assert os.waitpid(child, 0)[1] == 0
""")


# --- pinned memory ----------------------------------------------------------------------


def test_pinned_memory_comes_from_a_pool():
    cupy_code("""
pinned = tarn.mr.PoolMemoryResource(tarn.mr.PinnedHostMemoryResource())
allocate = tarn.cupy.PinnedAllocator(pinned)
memory = allocate(4096)
host = numpy.frombuffer(memory, "u1", 4096)
host[:] = 7
assert pinned.statistics().live_blocks == 1
assert tarn.DeviceBuffer(ptr=memory.ptr, size=4096).tobytes() == b"\\7" * 4096
del memory, host
gc.collect()
assert pinned.statistics().live_blocks == 0
assert tarn.cupy.PinnedAllocator()(0).ptr == 0
limited = tarn.mr.LimitingResourceAdaptor(pinned, 1000)
fails(OutOfMemoryError, lambda: tarn.cupy.PinnedAllocator(limited)(2000))
""")


# --- the whole program ------------------------------------------------------------------


def test_all_arrays_of_a_program_come_from_the_current_resource():
    cupy_code(
        USE
        + """
one = array(1000)
assert live() == 1
with cupy.cuda.using_allocator(tarn.cupy.Allocator(tarn.mr.CudaMemoryResource(), stream)):
    array(1000)
assert live() == 1
assert tarn.use() and isinstance(cupy.cuda.get_allocator(), tarn.cupy.Allocator)
"""
    )


def test_another_allocator_of_the_program_stays():
    cupy_code("""
own = lambda size: None
cupy.cuda.set_allocator(own)
assert "CuPy has another allocator" in tarn.use()["cupy"]
fails(RuntimeError, lambda: tarn.use(frameworks="cupy"))
assert cupy.cuda.get_allocator() is own
""")


def test_a_pool_that_holds_arrays_is_not_replaced():
    cupy_code("""
class Pool:
    used, freed = 5000, 0
    def malloc(self, size): ...
    def used_bytes(self): return self.used
    def free_all_blocks(self): self.freed += 1
held = Pool()
cupy.get_default_memory_pool = lambda: held
cupy.cuda.set_allocator(held.malloc)
assert tarn.use()["cupy"].startswith("skipped: CuPy's pool holds 5000 bytes of live arrays")
fails(RuntimeError, lambda: tarn.use(frameworks="cupy"))
held.used = 0
assert tarn.use()["cupy"] == "active" and held.freed == 1
""")


def test_inside_using_allocator_cupy_refuses():
    cupy_code("""
with cupy.cuda.using_allocator(allocator):
    state = tarn.use()["cupy"]
assert state.startswith("skipped: "), state
assert tarn.use()["cupy"] == "active"
""")


def test_a_version_that_is_too_old_is_refused():
    code = """
import cupy
cupy.__version__ = "13.6.0"
import tarn
print(tarn.use()["cupy"])
"""
    assert numba_support.run_code(code) == (
        "skipped: tarn.use: CuPy 13.6.0 is too old: version 14.0 or later is needed"
    )
