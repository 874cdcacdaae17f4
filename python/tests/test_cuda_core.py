"""cuda.core and cuda.bindings, independent of Tarn, on the driver that TARN_DRIVER names.

All of them run in a process of their own, in which `libcuda.so.1` is that driver, as under `tarn
run`. None needs a kernel, so all behave alike on a GPU.
"""

import importlib.util

import pytest
import tarn
from numba_support import fork, fork_code, run, run_code

if importlib.util.find_spec("cuda") is None or importlib.util.find_spec("cuda.core") is None:
    pytest.skip("cuda.core is not installed", allow_module_level=True)

ON_SIM = tarn.driver_info().is_simulator

PRELUDE = """
import ctypes
from cuda.core import *

SIZE = 1 << 16
PATTERN = bytes(i * 7 % 251 for i in range(SIZE))

device = Device(0)
device.set_current()
stream = device.create_stream()
host = LegacyPinnedMemoryResource()

def bytes_of(buffer):
    return ctypes.string_at(int(buffer.handle), buffer.size)

def patterned():
    "Pinned memory with the pattern."
    buffer = host.allocate(SIZE)
    ctypes.memmove(int(buffer.handle), PATTERN, SIZE)
    return buffer

def copies(buffer, other):
    "The pattern goes through both buffers and comes back."
    source, target = patterned(), host.allocate(SIZE)
    buffer.copy_from(source, stream=stream)
    other.copy_from(buffer, stream=stream)
    other.copy_to(target, stream=stream)
    stream.sync()
    assert bytes_of(target) == PATTERN

def fills(buffer):
    target = host.allocate(SIZE)
    for value, wanted in (7, b"\\7"), (b"\\1\\2", b"\\1\\2"), (b"\\1\\2\\3\\4", b"\\1\\2\\3\\4"):
        buffer.fill(value, stream=stream)
        target.copy_from(buffer, stream=stream)
        stream.sync()
        assert bytes_of(target) == wanted * (SIZE // len(wanted))

def serves(resource, is_filled=True):
    buffers = [resource.allocate(SIZE, stream=stream) for _ in range(2)]
    assert buffers[0].size == SIZE and int(buffers[0].handle) != int(buffers[1].handle)
    copies(*buffers)
    if is_filled:
        fills(buffers[0])
    for buffer in buffers:
        buffer.close(stream)
    stream.sync()
"""


def core(code, **changes):
    return fork_code(PRELUDE + code, **changes)


# --- devices, streams, events -----------------------------------------------------------


def test_a_device_says_what_it_is():
    core("""
assert device.device_id == 0 and device.name and len(device.uuid.replace("-", "")) == 32
assert device.compute_capability >= (7, 0) and device.arch
assert device.properties.max_threads_per_block >= 1024
assert device.properties.memory_pools_supported
assert [each.device_id for each in Device.get_all_devices()] == list(
    range(len(Device.get_all_devices())))
assert device.context.handle is not None
""")


def test_streams_have_priorities_and_wait_for_events():
    core("""
low = device.create_stream(options=StreamOptions(nonblocking=True, priority=0))
high = device.create_stream(options=StreamOptions(nonblocking=False, priority=-1))
assert (low.is_nonblocking, high.is_nonblocking) == (True, False)
assert (low.priority, high.priority) == (0, -1)
assert low.device.device_id == 0 and low.context == device.context
resource, target = device.memory_resource, host.allocate(SIZE)
buffer = resource.allocate(SIZE, stream=low)
for value in range(50):
    buffer.fill(value, stream=low)
    high.wait(low)
    target.copy_from(buffer, stream=high)
    low.wait(high.record())
high.sync()
assert bytes_of(target) == b"\\x31" * SIZE
buffer.close(low)
low.sync()
""")


def test_events_tell_when_they_are_done_and_how_long_it_took():
    core("""
options = EventOptions(timing_enabled=True)
buffer = device.memory_resource.allocate(SIZE, stream=stream)
first = stream.record(options=options)
buffer.fill(1, stream=stream)
last = stream.record(options=options)
last.sync()
assert first.is_done and last.is_done
assert 0 <= last - first < 60_000
untimed = stream.record()
untimed.sync()
try:
    untimed - first
except RuntimeError as error:
    pass
else:
    raise AssertionError("an event without timing has a time")
buffer.close(stream)
stream.sync()
""")


# --- memory -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "resource",
    [
        "device.memory_resource",
        "DeviceMemoryResource(device)",
        "DeviceMemoryResource(device, DeviceMemoryResourceOptions(max_size=1 << 24))",
        "LegacyPinnedMemoryResource()",
    ],
)
def test_memory_of_a_resource_carries_bytes(resource):
    core(f"serves({resource})")


def test_a_pool_counts_and_is_bounded():
    core("""
pool = DeviceMemoryResource(device, DeviceMemoryResourceOptions(max_size=1 << 26))
buffers = [pool.allocate(1 << 22, stream=stream) for _ in range(4)]
assert pool.attributes.used_mem_current == 1 << 24
try:
    pool.allocate(1 << 28, stream=stream)
except Exception as error:
    assert "OUT_OF_MEMORY" in str(error), error
else:
    raise AssertionError("there is more than the pool may have")
for buffer in buffers:
    buffer.close(stream)
stream.sync()
assert pool.attributes.used_mem_current == 0 and pool.attributes.used_mem_high == 1 << 24
""")


def test_pinned_memory_is_the_hosts_and_device_memory_is_not():
    core("""
pinned, memory = patterned(), device.memory_resource.allocate(SIZE, stream=stream)
assert (pinned.is_host_accessible, pinned.is_device_accessible) == (True, True)
assert (memory.is_host_accessible, memory.is_device_accessible) == (False, True)
assert (pinned.__dlpack_device__()[0], memory.__dlpack_device__()) == (3, (2, 0))
memory.close(stream)
stream.sync()
""")


GROWING = """
resource = VirtualMemoryResource(device)
memory, source = resource.allocate(1 << 21), host.allocate(1 << 21)
target = host.allocate(3 << 21)
ctypes.memmove(int(source.handle), PATTERN * 32, 1 << 21)
memory.copy_from(source, stream=stream)
stream.sync()
memory = resource.modify_allocation(memory, 3 << 21)
assert memory.size == 3 << 21
target.copy_from(memory, stream=stream)
stream.sync()
assert bytes_of(target)[: 1 << 21] == PATTERN * 32
memory.fill(9, stream=stream)
target.copy_from(memory, stream=stream)
stream.sync()
assert bytes_of(target) == b"\\t" * (3 << 21)
memory.close()
print("grown")
"""


def test_virtual_memory_grows_and_keeps_its_bytes():
    done = fork(PRELUDE + GROWING)
    assert (done.returncode, done.stdout) == (0, "grown\n"), done.stderr
    # It frees two ranges as if they were one, which an H200 and the simulator reject.
    assert "CUDA_ERROR_INVALID_VALUE" in done.stderr and done.stderr.count("\n") == 1


def test_virtual_memory_carries_bytes():
    core("""
buffers = [VirtualMemoryResource(device).allocate(1 << 21) for _ in range(2)]
source, target = host.allocate(1 << 21), host.allocate(1 << 21)
ctypes.memmove(int(source.handle), PATTERN * 32, 1 << 21)
buffers[0].copy_from(source, stream=stream)
buffers[1].copy_from(buffers[0], stream=stream)
target.copy_from(buffers[1], stream=stream)
stream.sync()
assert bytes_of(target) == PATTERN * 32
for buffer in buffers:
    buffer.close()
""")


@pytest.mark.parametrize(
    "resource",
    [
        "PinnedMemoryResource()",
        "PinnedMemoryResource(PinnedMemoryResourceOptions(max_size=1 << 26))",
        "PinnedMemoryResource(PinnedMemoryResourceOptions(numa_id=0))",
        "ManagedMemoryResource()",
        "ManagedMemoryResource(ManagedMemoryResourceOptions())",
        "ManagedMemoryResource(ManagedMemoryResourceOptions(preferred_location=0))",
    ],
)
def test_memory_of_pools_of_the_host_is_everybodys(resource):
    """Not filled by the driver: a GPU need not do that for host memory."""
    core(f"""
has = device.properties
if not has.host_memory_pools_supported or not has.host_numa_memory_pools_supported:
    assert not {ON_SIM}
    raise SystemExit
resource = {resource}
serves(resource, is_filled=False)
buffer, target = resource.allocate(SIZE, stream=stream), host.allocate(SIZE)
stream.sync()
assert (buffer.is_host_accessible, buffer.is_device_accessible) == (True, True)
ctypes.memmove(int(buffer.handle), PATTERN, SIZE)
target.copy_from(buffer, stream=stream)
stream.sync()
assert bytes_of(target) == PATTERN
assert resource.attributes.used_mem_current == SIZE
buffer.close(stream)
stream.sync()
assert resource.attributes.used_mem_current == 0
""")


# --- graphs -----------------------------------------------------------------------------


def test_a_captured_graph_runs_as_often_as_it_is_launched():
    core("""
memory, target = device.memory_resource.allocate(SIZE, stream=stream), host.allocate(SIZE)
source = patterned()
stream.sync()
builder = device.create_graph_builder().begin_building()
memory.copy_from(source, stream=builder)
target.copy_from(memory, stream=builder)
graph = builder.end_building().complete()
assert bytes_of(target) != PATTERN
graph.upload(stream)
for turn in range(3):
    ctypes.memset(int(source.handle), turn, SIZE)
    graph.launch(stream)
    stream.sync()
    assert bytes_of(target) == bytes([turn]) * SIZE
graph.close()
memory.close(stream)
stream.sync()
""")


def test_a_graph_has_branches_and_memory_of_its_own():
    core("""
targets = [host.allocate(SIZE) for _ in range(2)]
resource = GraphMemoryResource(device)
builder = device.create_graph_builder().begin_building()
memory = resource.allocate(SIZE, stream=builder)
memory.fill(5, stream=builder)
left, right = builder.split(2)
targets[0].copy_from(memory, stream=left)
targets[1].copy_from(memory, stream=right)
builder = left.join(left, right)
memory.close(builder)
graph = builder.end_building().complete()
for _ in range(2):
    for target in targets:
        ctypes.memset(int(target.handle), 0, SIZE)
    graph.launch(stream)
    stream.sync()
    assert [bytes_of(target) for target in targets] == [b"\\5" * SIZE] * 2
graph.close()
""")


# --- other processes --------------------------------------------------------------------

SHARING = {
    "device": "DeviceMemoryResource(device, DeviceMemoryResourceOptions(max_size=1 << 24,"
    " ipc_enabled=True))",
    "pinned": "PinnedMemoryResource(PinnedMemoryResourceOptions(max_size=1 << 24,"
    " ipc_enabled=True)) if device.properties.host_numa_memory_pools_supported else exit()",
}

SHARED = (
    PRELUDE.replace("device = ", "import multiprocessing\ndevice = ")
    + """
def child(resource, queue):
    buffer = queue.get(timeout=60)
    target = host.allocate(SIZE)
    target.copy_from(buffer, stream=stream)
    stream.sync()
    assert bytes_of(target) == PATTERN
    source = host.allocate(SIZE)
    ctypes.memset(int(source.handle), 9, SIZE)
    buffer.copy_from(source, stream=stream)
    stream.sync()
    buffer.close()

if __name__ == "__main__":
    multiprocessing.set_start_method("spawn")
    resource = SHARING_RESOURCE
    buffer, source = resource.allocate(SIZE, stream=stream), patterned()
    buffer.copy_from(source, stream=stream)
    stream.sync()
    queue = multiprocessing.Queue()
    process = multiprocessing.Process(target=child, args=(resource, queue))
    process.start()
    queue.put(buffer)
    process.join(60)
    assert process.exitcode == 0
    source.copy_from(buffer, stream=stream)
    stream.sync()
    assert bytes_of(source) == b"\\t" * SIZE
    buffer.close(stream)
    stream.sync()
"""
)


@pytest.mark.parametrize("kind", ["device", "pinned"])
def test_another_process_reads_and_writes_memory_of_a_pool(tmp_path, kind):
    program = tmp_path / "program.py"
    program.write_text(SHARED.replace("SHARING_RESOURCE", SHARING[kind]))
    done = run([str(program)])
    assert (done.returncode, done.stderr) == (0, "")


# --- cuda.bindings ----------------------------------------------------------------------

BINDINGS = """
import ctypes
from cuda.bindings import driver

def good(answer):
    code, *values = answer
    assert code == driver.CUresult.CUDA_SUCCESS, code
    return values[0] if len(values) == 1 else values

good(driver.cuInit(0))
device = good(driver.cuDeviceGet(0))
context = good(driver.cuDevicePrimaryCtxRetain(device))
good(driver.cuCtxSetCurrent(context))

version = good(driver.cuDriverGetVersion())
assert version >= 12000
address, status = good(driver.cuGetProcAddress(b"cuMemGetInfo", version, 0))
assert status == driver.CUdriverProcAddressQueryResult.CU_GET_PROC_ADDRESS_SUCCESS
free, total = ctypes.c_size_t(), ctypes.c_size_t()
get = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(int(address))
assert get(ctypes.addressof(free), ctypes.addressof(total)) == 0
assert total.value == good(driver.cuMemGetInfo())[1]

source, target = bytes(range(256)) * 16, bytearray(4096)
stream = good(driver.cuStreamCreate(driver.CUstream_flags.CU_STREAM_NON_BLOCKING))
memory = good(driver.cuMemAllocAsync(len(source), stream))
good(driver.cuMemcpyHtoDAsync(memory, source, len(source), stream))
good(driver.cuMemcpyDtoHAsync(target, memory, len(source), stream))
good(driver.cuStreamSynchronize(stream))
assert target == source
kind = driver.CUpointer_attribute.CU_POINTER_ATTRIBUTE_MEMORY_TYPE
device_memory = driver.CUmemorytype.CU_MEMORYTYPE_DEVICE
assert int(good(driver.cuPointerGetAttribute(kind, memory))) == int(device_memory)
good(driver.cuMemFreeAsync(memory, stream))
good(driver.cuStreamDestroy(stream))
assert driver.cuMemFree(memory)[0] == driver.CUresult.CUDA_ERROR_INVALID_VALUE
good(driver.cuDevicePrimaryCtxRelease(device))
"""


def test_the_bare_bindings_find_their_functions_by_name_and_version():
    run_code(BINDINGS)
