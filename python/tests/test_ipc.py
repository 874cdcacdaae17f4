"""tarn.ipc: memory of one process in another, and Numba's arrays on memory of a server."""

import concurrent.futures
import gc
import multiprocessing
import pickle
import time

import ipc_support
import numba_support
import numpy as np
import pytest
import tarn
import tarn.ipc
import tarn.numba
from numba import cuda

tarn.numba.use_tarn_for_numba()

PATTERN = bytes(range(256)) * 16


@pytest.fixture(autouse=True)
def plain_memory(counted):
    """Other processes may release blocks on the server's thread, unseen by a counter."""
    tarn.mr.set_current_device_resource(None)


@pytest.fixture
def start():
    """Create a child process; all of them end with the test."""
    pools = []

    def start():
        spawn = multiprocessing.get_context("spawn")
        pool = concurrent.futures.ProcessPoolExecutor(1, mp_context=spawn)
        pools.append(pool)
        return lambda function, *args, **kwargs: pool.submit(function, *args, **kwargs).result(100)

    yield start
    for pool in pools:
        pool.shutdown()
    wait_for(leases=0)


def wait_for(**wanted):
    """Wait until counts are equal; the server's thread notices ends a little later."""
    end = time.monotonic() + 100
    while any(tarn.ipc.counts()[name] != value for name, value in wanted.items()):
        assert time.monotonic() < end, (wanted, tarn.ipc.counts())
        time.sleep(0.001)


def exportable_async():
    return tarn.mr.CudaAsyncMemoryResource(enable_ipc=True)


UPSTREAM = {
    "cuda": tarn.mr.CudaMemoryResource,
    "exportable": tarn.mr.ExportableMemoryResource,
    "async": exportable_async,
}


def resource_of(name):
    resource = UPSTREAM[name.split()[-1]]()
    return tarn.mr.PoolMemoryResource(resource) if name.startswith("pool") else resource


def pattern_in(resource):
    buffer = tarn.DeviceBuffer(size=len(PATTERN), mr=resource)
    buffer.copy_from_host(PATTERN)
    return buffer


@pytest.mark.parametrize("name", [*UPSTREAM, *(f"pool over {name}" for name in UPSTREAM)])
def test_memory_is_read_and_written_by_another_process(start, name):
    child = start()
    buffer = pattern_in(resource_of(name))
    handle = tarn.ipc.export(buffer)
    assert pickle.loads(pickle.dumps(handle)) == handle
    assert child(ipc_support.read, handle) == (PATTERN, 0)
    child(ipc_support.overwrite, handle, PATTERN[::-1])
    assert buffer.tobytes() == PATTERN[::-1]


@pytest.mark.parametrize("name", ["cuda", "pool over exportable", "async", "pool over async"])
def test_a_served_block_stays_as_long_as_it_is_leased(start, name):
    one, other = start(), start()
    resource = resource_of(name)
    buffer = pattern_in(resource)
    served = tarn.ipc.serve(buffer)
    address = buffer.ptr
    process = one(ipc_support.keep, served.handle)
    assert [(lease.process, lease.address) for lease in tarn.ipc.leases()] == [(process, address)]
    del buffer
    served.close()
    gc.collect()
    others = [tarn.DeviceBuffer(size=len(PATTERN), mr=resource) for _ in range(20)]
    assert all(block.ptr != address for block in others)
    kind, words = other(ipc_support.fail, served.handle)
    assert kind == "TarnError" and "freed" in words
    assert "not open" in one(ipc_support.let_go, served.handle)
    wait_for(leases=0, served=0)


def test_a_served_block_stays_if_its_buffer_grows(start):
    child = start()
    limiter = tarn.mr.LimitingResourceAdaptor(tarn.mr.CudaMemoryResource(), 1 << 20)
    buffer = pattern_in(limiter)
    served = tarn.ipc.serve(buffer)
    address, before = buffer.ptr, limiter.get_allocated_bytes()
    buffer.resize(10 * len(PATTERN))
    buffer.copy_from_host(bytes(buffer.size))
    assert buffer.ptr != address
    assert child(ipc_support.read, served.handle) == (PATTERN, 0)
    served.close()
    wait_for(leases=0, served=0)
    assert limiter.get_allocated_bytes() > before
    del buffer
    assert limiter.get_allocated_bytes() == 0


class Grows(tarn.DeviceBuffer):
    """A buffer that moves as soon as its address has been read."""

    @property
    def __cuda_array_interface__(self):
        interface = super().__cuda_array_interface__
        self.resize(2 * self.size)
        return interface


def test_what_is_served_is_the_block_that_a_buffer_has_moved_to(start):
    """Another thread may resize it meanwhile."""
    child = start()
    buffer = Grows(size=len(PATTERN), mr=tarn.mr.CudaMemoryResource())
    with tarn.ipc.serve(buffer) as served:
        buffer.copy_from_host(2 * PATTERN)
        assert (served.ptr, served.size) == (buffer.ptr, 2 * len(PATTERN))
        assert child(ipc_support.read, served.handle)[0] == 2 * PATTERN


def test_a_lease_ends_with_its_process(start):
    child = start()
    buffer = pattern_in(tarn.mr.ExportableMemoryResource())
    with tarn.ipc.serve(buffer) as served:
        child(ipc_support.keep, served.handle)
        assert tarn.ipc.counts()["leases"] == 1
        with pytest.raises(concurrent.futures.process.BrokenProcessPool):
            child(ipc_support.die)
        wait_for(leases=0)
    assert served.closed
    with pytest.raises(ValueError, match="not open"):
        served.close()


def test_a_copy_is_the_importers_own(start):
    child = start()
    buffer = pattern_in(tarn.mr.ExportableMemoryResource())
    handle = tarn.ipc.export(buffer)
    for device in (0, 1) if numba_support.CAN_HAVE_TWO_DEVICES else (0,):
        assert child(ipc_support.read, handle, device=device, copy=True) == (PATTERN, 0)


def test_memory_of_a_pool_that_cuda_core_made_for_export_is_opened_by_others(start):
    core = pytest.importorskip("cuda.core")
    child = start()
    device = core.Device(0)
    device.set_current()
    options = core.DeviceMemoryResourceOptions(ipc_enabled=True)
    pool = core.DeviceMemoryResource(device, options=options)
    stream = device.create_stream()
    buffer = pool.allocate(len(PATTERN), stream=stream)
    stream.sync()  # its allocation is done

    class Array:
        __cuda_array_interface__ = {
            "shape": (buffer.size,),
            "typestr": "|u1",
            "data": (int(buffer.handle), False),
            "version": 3,
        }

    cuda.as_cuda_array(Array()).copy_to_device(np.frombuffer(PATTERN, np.uint8))
    with tarn.ipc.serve(Array(), device=0) as served:
        for handle in (served.handle, tarn.ipc.export(Array(), device=0)):
            assert child(ipc_support.read, handle) == (PATTERN, 0)
    wait_for(leases=0, served=0)
    buffer.close(stream)
    stream.sync()
    pool.close()


def test_what_cannot_be_opened_is_refused_in_words(start):
    child = start()
    buffer = pattern_in(tarn.mr.ExportableMemoryResource())
    handle = tarn.ipc.export(buffer)
    with pytest.raises(tarn.InvalidArgumentError, match="exported by this process"):
        tarn.ipc.open(handle)
    garbage = handle._replace(reserved=handle.reserved[:30] + bytes(34))
    assert "is invalid" in child(ipc_support.fail, garbage)[1]
    assert child(ipc_support.fail, handle._replace(reserved=b"short"))[0] == "ValueError"
    assert child(ipc_support.fail, handle._replace(size=-1))[0] == "OverflowError"
    assert "exceed the allocation" in child(ipc_support.fail, handle._replace(size=2**63))[1]
    del buffer
    assert "freed" in child(ipc_support.fail, handle)[1]
    with pytest.raises(tarn.NotSupportedError, match="cannot be exported"):
        tarn.ipc.export(pattern_in(tarn.mr.PoolMemoryResource()))
    for default in (False, True):
        usual = tarn.mr.CudaAsyncMemoryResource(use_default_pool=default)
        with pytest.raises(tarn.NotSupportedError, match="pool is not exportable"):
            tarn.ipc.serve(pattern_in(usual))
    strided = cuda.to_device(np.arange(10.0))[::2]
    with pytest.raises(ValueError, match="contiguous"):
        tarn.ipc.export(strided)


# --- Numba's arrays -----------------------------------------------------------------------


@pytest.fixture(params=["pool over exportable", "async"])
def on_a_server(request):
    """Make Numba's memory servable to other processes."""
    with tarn.numba.using_resource(resource_of(request.param)):
        yield


def test_numbas_arrays_on_such_memory_are_opened_by_others(start, on_a_server):
    child = start()
    host = np.arange(100.0)
    array = cuda.to_device(host)
    for part in (slice(0, 100), slice(10, 20)):
        handle = array[part].get_ipc_handle()
        assert handle._ipc_handle.handle.reserved[:7] == b"tarnipc"
        expected = array[part].copy_to_host()
        assert child(ipc_support.use_array, handle, 3) == (expected.tolist(), 0)
        np.testing.assert_array_equal(array[part].copy_to_host(), expected * 3)


@pytest.mark.parametrize("name", ["pool over exportable", "async"])
def test_memory_on_a_server_that_came_by_the_array_interface_is_opened_by_others(start, name):
    child = start()
    data = np.arange(64.0)
    buffer = tarn.DeviceBuffer.to_device(data, mr=resource_of(name))
    array = cuda.as_cuda_array(buffer).view(np.float64)
    expected = data[8:16].tolist()
    assert child(ipc_support.use_array, array[8:16].get_ipc_handle(), 2) == (expected, 0)
    np.testing.assert_array_equal(np.frombuffer(buffer.tobytes())[8:16], data[8:16] * 2)


def test_numbas_errors_for_such_handles_are_numbas(start, on_a_server):
    child = start()
    array = cuda.to_device(np.arange(10.0))
    handle = array.get_ipc_handle()
    with pytest.raises(ValueError, match="opening IpcHandle from original process"):
        handle.open()
    with pytest.raises(ValueError, match="IpcHandle not opened"):
        handle.close()
    assert child(ipc_support.misuse_array, handle) == [
        "IpcHandle is already opened",
        "IpcHandle not opened",
    ]


@pytest.mark.skipif(not numba_support.CAN_HAVE_TWO_DEVICES, reason="needs two devices")
def test_a_staged_array_of_such_memory_does_not_need_its_handle(start, on_a_server):
    child = start()
    host = np.arange(100.0)
    array = cuda.to_device(host)
    handle = cuda.current_context().get_ipc_handle(array.gpu_data)
    assert child(ipc_support.staged_array, handle, 100) == (host.tolist(), 0)
