"""tarn.cuda_core: cuda.core's buffers from Tarn. None needs a kernel: all run on the simulator."""

import importlib.util
import pickle

import numba_support
import pytest
import tarn

if importlib.util.find_spec("cuda") is None or importlib.util.find_spec("cuda.core") is None:
    pytest.skip("cuda.core is not installed", allow_module_level=True)

PRELUDE = """
import ctypes, gc, pickle, threading
import tarn
from cuda.core import *
from cuda.core._utils.cuda_utils import CUDAError
import tarn.cuda_core

device = Device(0)
device.set_current()
stream = device.create_stream()
pool = tarn.mr.PoolMemoryResource()
live = lambda: pool.statistics().live_blocks

def fails(kind, call):
    try:
        call()
    except kind as error:
        return error
    raise AssertionError("no error")
"""


def core(code, **changes):
    return numba_support.fork_code(PRELUDE + code, **changes)


# --- the resource -----------------------------------------------------------------------


def test_buffers_are_blocks_of_the_resource():
    core("""
resource = tarn.cuda_core.MemoryResource(pool)
assert (resource.device_id, resource.is_device_accessible) == (0, True)
assert (resource.is_host_accessible, resource.is_managed) == (False, False)
buffer = resource.allocate(1000, stream=stream)
assert buffer.size == 1000 and live() == 1 and buffer.memory_resource is resource
assert buffer.__dlpack_device__() == (2, 0)
buffer.close()
assert live() == 0
buffer = resource.allocate(1000, stream=stream)
del buffer
assert live() == 0
""")


def test_bytes_go_through_a_buffer():
    core("""
resource = tarn.cuda_core.MemoryResource(pool)
host = LegacyPinnedMemoryResource()
source, target = host.allocate(4096), host.allocate(4096)
ctypes.memset(int(source.handle), 7, 4096)
buffer, other = (resource.allocate(4096, stream=stream) for _ in range(2))
buffer.copy_from(source, stream=stream)
other.copy_from(buffer, stream=stream)
other.copy_to(target, stream=stream)
stream.sync()
assert ctypes.string_at(int(target.handle), 4096) == b"\\7" * 4096
""")


def test_without_a_resource_it_is_the_current_one_at_each_allocation():
    core("""
resource = tarn.cuda_core.MemoryResource()
tarn.mr.set_current_device_resource(pool)
first = resource.allocate(100, stream=stream)
other = tarn.mr.PoolMemoryResource()
tarn.mr.set_current_device_resource(other)
second = resource.allocate(100, stream=stream)
assert (live(), other.statistics().live_blocks) == (1, 1)
first.close(); second.close()
assert (live(), other.statistics().live_blocks) == (0, 0)
""")


def test_a_buffer_is_freed_on_the_stream_that_is_named():
    """Memory that was freed on a stream is reused at once on that stream."""
    core("""
last = device.create_stream()
for close in lambda b: b.close(last), lambda b: b.set_deallocation_stream(last):
    pool = tarn.mr.PoolMemoryResource()
    resource = tarn.cuda_core.MemoryResource(pool)
    buffer = resource.allocate(1 << 20, stream=stream)
    address = int(buffer.handle)
    close(buffer)
    del buffer
    again = resource.allocate(1 << 20, stream=last)
    assert int(again.handle) == address
    assert pool.statistics().same_stream == 1
    again.close()
""")


def test_no_bytes_are_no_block():
    core("""
buffer = tarn.cuda_core.MemoryResource(pool).allocate(0, stream=stream)
assert buffer.size == 0 and int(buffer.handle) == 0 and live() == 0
buffer.close()
""")


def test_out_of_memory_is_cuda_cores_error_and_tarns():
    core("""
limited = tarn.mr.LimitingResourceAdaptor(pool, 1 << 20)
resource = tarn.cuda_core.MemoryResource(limited)
error = fails(CUDAError, lambda: resource.allocate(1 << 21, stream=stream))
assert isinstance(error, tarn.OutOfMemoryError) and isinstance(error, MemoryError)
assert "limiter: 2097152 bytes exceed" in str(error), error
again = pickle.loads(pickle.dumps(error))
assert type(again) is type(error) and str(again) == str(error)
assert (again.status, again.native) == (error.status, error.native)
resource.allocate(1 << 10, stream=stream).close()
assert live() == 0
""")


def test_errors_of_a_resource_in_python_are_passed_on():
    core("""
class Failing(tarn.mr.DeviceMemoryResource):
    def allocate(self, nbytes, stream):
        raise error
    def deallocate(self, ptr, nbytes, stream):
        pass
resource = tarn.cuda_core.MemoryResource(Failing())
error = MemoryError("mine")
assert "mine" in str(fails(CUDAError, lambda: resource.allocate(10, stream=stream)))
error = KeyError("mine")
fails(KeyError, lambda: resource.allocate(10, stream=stream))
""")


def test_wrong_streams_and_addresses_are_refused_and_nothing_leaks():
    core("""
resource = tarn.cuda_core.MemoryResource(pool)
for wrong in None, 0, 5, "x", object():
    fails(TypeError, lambda: resource.allocate(10, stream=wrong))
fails(OverflowError, lambda: resource.allocate(-1, stream=stream))
fails(TypeError, lambda: resource.allocate("10", stream=stream))
buffer = resource.allocate(1000, stream=stream)
address = int(buffer.handle)
for pointer, size in (address, 999), (address + 256, 1000), (0, 1), (12345, 10):
    error = fails(ValueError, lambda: resource.deallocate(pointer, size, stream=stream))
    assert f"{size} bytes at {pointer:#x}" in str(error)
fails(TypeError, lambda: resource.deallocate(address, 1000, stream=None))
assert live() == 1
resource.deallocate(address, 1000, stream=stream)
fails(ValueError, lambda: resource.deallocate(address, 1000, stream=stream))
assert live() == 0
fails(TypeError, lambda: tarn.cuda_core.MemoryResource(5))
import os, sys
os._exit(0)  # the buffer would free its block again
""")


def test_a_graph_captures_an_allocation():
    core("""
resource = tarn.cuda_core.MemoryResource(pool)
builder = device.create_graph_builder().begin_building()
buffer = resource.allocate(4096, stream=builder)
buffer.fill(7, stream=builder)
buffer.close(builder)
graph = builder.end_building().complete()
graph.launch(stream)
stream.sync()
assert live() == 0
""")


def test_threads_allocate_and_free_at_once():
    core("""
resource = tarn.cuda_core.MemoryResource(pool)
def work():
    Device(0).set_current()
    own = Device(0).create_stream()
    for size in range(1, 300):
        resource.allocate(size, stream=own).close()
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert live() == 0
""")


@pytest.mark.skipif(not numba_support.CAN_HAVE_TWO_DEVICES, reason="needs two devices")
def test_another_device_is_refused():
    core(
        """
fails(ValueError, lambda: tarn.cuda_core.MemoryResource(pool, device=1))
other = tarn.cuda_core.MemoryResource(device=1)
assert other.device_id == 1
error = fails(ValueError, lambda: other.allocate(10, stream=stream))
assert "the stream is of device 0, and the memory is of device 1" in str(error)
""",
        TARN_SIM="devices=2",
    )


def test_a_forked_child_gets_cuda_cores_error():
    core("""
import os, warnings
warnings.simplefilter("ignore")  # Python 3.12 warns of threads
tarn.cuda_core.MemoryResource(pool).allocate(10, stream=stream).close()
child = os.fork()
if child == 0:
    cuda = tarn.mr.CudaMemoryResource(device=0)
    resource = tarn.cuda_core.MemoryResource(cuda, device=0)
    try:
        resource.allocate(10, stream=stream)
    except CUDAError as error:
        os._exit(0 if isinstance(error, tarn.TarnError) else 2)
    os._exit(1)
assert os.waitpid(child, 0)[1] == 0
""")


# --- all devices ------------------------------------------------------------------------

USE = "assert tarn.use(pool, frameworks='cuda.core') == {'cuda.core': 'active'}\n"


def test_devices_of_all_threads_allocate_from_tarn():
    core(
        USE
        + """
device.allocate(100, stream=stream).close()
def work():
    own = Device(0)
    own.set_current()
    buffers.append(own.allocate(100, stream=own.create_stream()))
buffers = []
thread = threading.Thread(target=work)
thread.start(); thread.join()
assert live() == 1 and len(buffers) == 1
assert pool.statistics().allocations == 2
buffers.clear()
"""
    )


def test_a_device_that_was_used_before_changes_too():
    core(
        "early = device.allocate(100, stream=stream)\n"
        + USE
        + """
late = device.allocate(100, stream=stream)
assert live() == 1
early.close(); late.close()
"""
    )


def test_a_resource_that_the_program_sets_stays():
    core(
        USE
        + """
own = DeviceMemoryResource(device)
device.memory_resource = own
assert device.memory_resource is own
device.allocate(100, stream=stream).close()
assert pool.statistics().allocations == 0
"""
    )
    core(
        """
own = LegacyPinnedMemoryResource()
device.memory_resource = own
"""
        + USE
        + "assert device.memory_resource is own"
    )


def test_numbas_host_arrays_come_from_the_same_pool():
    """numba-cuda takes the memory of host arrays from cuda.core."""
    pytest.importorskip("numba")
    code = """
import tarn
states = tarn.use("pool")
from numba import cuda
import cuda.core
assert tarn.use()["numba"] == tarn.use()["cuda.core"] == "active"
array = cuda_module.device_array(1000, "u1")
device = cuda.core.Device(0)
device.set_current()
buffer = device.allocate(1000, stream=device.create_stream())
pool = tarn.mr.get_current_device_resource()
print(pool.statistics().live_blocks, tarn.csv_log().count("\\n"))
buffer.close()
""".replace("from numba import cuda\n", "from numba import cuda as cuda_module\n")
    assert numba_support.run_code(code) == "2 1"


def test_a_version_that_is_too_old_is_refused():
    code = """
import sys, types, warnings
from cuda import core
core.__version__ = "1.1.0"
import tarn
print(tarn.use()["cuda.core"])
"""
    assert numba_support.run_code(code) == (
        "skipped: tarn.use: cuda.core 1.1.0 is too old: version 1.2 or later is needed"
    )


def test_an_error_of_both_kinds_keeps_its_words():
    from tarn._own_errors import own_error

    class Theirs(Exception):
        def __init__(self, one, two, three):
            raise AssertionError("never called")

        def __str__(self):
            return "theirs"

    error = own_error(tarn.NotSupportedError("words"), Theirs, status=7)
    assert isinstance(error, Theirs) and isinstance(error, tarn.NotSupportedError)
    assert (str(error), error.status) == ("words", 7)
    plain = own_error(MemoryError(), ValueError)
    assert isinstance(plain, tarn.OutOfMemoryError) and str(plain) == "MemoryError"
    again = pickle.loads(pickle.dumps(plain))
    assert (type(again), str(again)) == (type(plain), "MemoryError")
