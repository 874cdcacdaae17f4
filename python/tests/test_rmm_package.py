"""tarn.rmm: a script that was written for RMM runs unchanged.

Each test is about one behaviour on which such scripts depend. The tests of names are in
test_rmm_names.py, and tools/rmm_suite.py runs RMM's own tests.
"""

import ctypes
import gc
import os
import pickle
import sys
import threading
import types
import weakref

import pytest
import tarn
import tarn.rmm as rmm
from tarn import _debug_log
from tarn.rmm.pylibrmm import device_buffer
from tarn.rmm.pylibrmm.memory_resource import _memory_resource

MIB = 1 << 20


@pytest.fixture(autouse=True)
def default_resources(counted):
    """Start without any resource set, and end so."""
    tarn.mr.set_current_device_resource(None)
    yield
    rmm.reinitialize()
    tarn.mr.set_current_device_resource(None)


def current():
    return rmm.mr.get_current_device_resource()


# --- initialization ---


def test_reinitialize_replaces_the_resource_after_its_hooks():
    order = []
    first = rmm.register_reinitialize_hook(lambda: order.append(1))
    again = rmm.register_reinitialize_hook(order.append, 2)
    rmm.register_reinitialize_hook(order.append, 3)
    try:
        kept = rmm.DeviceBuffer(size=100)
        rmm.reinitialize(pool_allocator=True, initial_pool_size="2kib", maximum_pool_size="8kib")
        assert order == [3, 2, 1]
        assert isinstance(current(), rmm.mr.PoolMemoryResource)
        assert current().maximum_pool_size == 8192 and rmm.DeviceBuffer(size=8192).ptr
        assert isinstance(kept.mr, rmm.mr.CudaMemoryResource)
        rmm.unregister_reinitialize_hook(again)
        rmm.reinitialize(managed_memory=True, devices=[0])
        assert order == [3, 2, 1, 1] and isinstance(current(), rmm.mr.ManagedMemoryResource)
    finally:
        rmm.unregister_reinitialize_hook(first)
    assert rmm.is_initialized() and rmm.mr.is_initialized()


@pytest.mark.parametrize(
    "sizes, error, words",
    [
        ((2048, 1024), RuntimeError, "Initial pool size exceeds the maximum pool size"),
        (("2k", "8k"), ValueError, "Could not parse"),
    ],
)
def test_reinitialize_explains_sizes_that_cannot_be(sizes, error, words):
    with pytest.raises(error, match=words):
        rmm.reinitialize(True, initial_pool_size=sizes[0], maximum_pool_size=sizes[1])


def test_the_current_resource_is_one_object_until_another_is_set():
    default = current()
    assert current() is default and rmm.mr.get_per_device_resource(0) is default
    assert rmm.DeviceBuffer(size=8).mr is default
    pool = rmm.mr.PoolMemoryResource(default)
    assert rmm.mr.set_current_device_resource(pool) is default
    assert current() is pool
    assert rmm.mr.set_current_device_resource(None) is pool
    assert current() is current()


# It has two devices.
TWO_DEVICES = """
import os, tarn, tarn.rmm as rmm
gpu, kinds = rmm._cuda.gpu, lambda: [type(rmm.mr.get_per_device_resource(i)).__name__ for i in (0, 1)]
rmm.reinitialize(pool_allocator=True, devices=[0, 1], logging=True, log_file_name="x.csv")
print(*sorted(map(os.path.basename, rmm.get_log_filenames().values())), *kinds())
pools = [rmm.mr.get_per_device_resource(i).get_upstream() for i in (0, 1)]
print(*(type(pool).__name__ for pool in pools), *(pool.device for pool in pools))
rmm.reinitialize(managed_memory=True, devices=1)
print(*kinds())
gpu.setDevice(1)
buffer = rmm.DeviceBuffer(size=8)
print(gpu.getDevice(), buffer.mr.device, type(buffer.mr).__name__, gpu.getDeviceCount())
rmm.reinitialize(devices=None)
print(*kinds(), rmm.get_log_filenames())
"""


def test_reinitialize_sets_the_resources_of_the_devices_and_resets_the_others(
    sim_process, tmp_path, monkeypatch
):
    pytest.importorskip("cuda.bindings.driver")
    monkeypatch.chdir(tmp_path)
    assert sim_process(TWO_DEVICES, TARN_SIM="devices=2").splitlines() == [
        "x.dev0.csv x.dev1.csv LoggingResourceAdaptor LoggingResourceAdaptor",
        "PoolMemoryResource PoolMemoryResource 0 1",
        "CudaMemoryResource ManagedMemoryResource",
        "1 1 ManagedMemoryResource 2",
        "CudaMemoryResource CudaMemoryResource {0: None}",
    ]


# --- logs ---


def test_logging_is_enabled_and_disabled_for_the_devices_in_use(tmp_path):
    pool = rmm.mr.PoolMemoryResource(rmm.mr.CudaMemoryResource())
    rmm.mr.set_current_device_resource(pool)
    rmm.enable_logging(log_file_name=str(tmp_path / "a.csv"))
    rmm.enable_logging(log_file_name=str(tmp_path / "b.csv"))  # a log stays
    assert rmm.get_log_filenames() == {0: str(tmp_path / "a.dev0.csv")}
    assert current().get_upstream() is pool
    rmm.DeviceBuffer(size=1000)
    _memory_resource._flush_logs()
    assert (tmp_path / "a.dev0.csv").read_text().count(",1000,") == 2
    rmm.disable_logging()
    assert current() is pool and rmm.get_log_filenames() == {0: None}


def test_reinitialize_with_logging_needs_a_file_name(tmp_path, monkeypatch):
    monkeypatch.delenv("RMM_LOG_FILE", raising=False)
    with pytest.raises(ValueError, match="RMM_LOG_FILE"):
        rmm.reinitialize(logging=True)
    monkeypatch.setenv("RMM_LOG_FILE", str(tmp_path / "x"))
    rmm.reinitialize(logging=True)
    assert rmm.get_log_filenames() == {0: str(tmp_path / "x.dev0")}


def test_the_debug_log_has_levels(capsys):
    level = rmm.level_enum
    mr = rmm.mr.TrackingResourceAdaptor(rmm.mr.CudaMemoryResource())
    kept = rmm.DeviceBuffer(size=77, mr=mr)
    assert rmm.get_logging_level() == level.info and not rmm.should_log(level.debug)
    mr.log_outstanding_allocations()
    assert capsys.readouterr().err == ""
    rmm.set_logging_level(level.debug)
    rmm.set_flush_level(level.warn)
    try:
        assert rmm.get_flush_level() == level.warn
        mr.log_outstanding_allocations()
        rmm.flush_logger()
        assert f"{kept.ptr:#x}: 77 B" in capsys.readouterr().err
    finally:
        rmm.set_logging_level(level.info)
        rmm.set_flush_level(level.info)
    for call in (rmm.set_logging_level, rmm.set_flush_level, rmm.should_log):
        with pytest.raises(TypeError):
            call(2)


def test_the_debug_log_keeps_messages_below_the_flush_level(tmp_path, sim_process):
    code = """
import os, tarn.rmm as rmm
mr = rmm.mr.TrackingResourceAdaptor(rmm.mr.CudaMemoryResource())
kept, level = rmm.DeviceBuffer(size=77, mr=mr), rmm.level_enum
rmm.set_logging_level(level.debug)
size = lambda: os.path.getsize(os.environ["RMM_DEBUG_LOG_FILE"])
mr.log_outstanding_allocations()
found = [size()]
rmm.flush_logger()
found.append(size())
rmm.set_flush_level(level.debug)
mr.log_outstanding_allocations()
print(found[0] == 0, found[1] > 0, size() == 2 * found[1])
"""
    file = tmp_path / "debug.log"
    assert sim_process(code, RMM_DEBUG_LOG_FILE=str(file)) == "True True True"
    assert file.read_text().count(": 77 B") == 2


def test_a_forked_child_finds_no_lock_of_its_parents_threads():
    taken = []
    thread = threading.Thread(target=lambda: taken.append(_memory_resource._lock.acquire()))
    thread.start()
    thread.join()  # it has ended with the lock
    try:
        child = os.fork()
        if child == 0:
            free = _memory_resource._lock.acquire(blocking=False) and _debug_log._lock.acquire(
                False
            )
            os._exit(0 if free else 1)
        assert taken and os.waitpid(child, 0)[1] == 0
    finally:
        _memory_resource._forget_lock()


# --- statistics ---


def test_statistics_count_within_a_with_statement():
    before = current()
    assert rmm.statistics.get_statistics() is None
    assert rmm.statistics.push_statistics() is None and rmm.statistics.pop_statistics() is None
    with rmm.statistics.statistics():
        outer = current()
        one = rmm.DeviceBuffer(size=20)
        with rmm.statistics.statistics():
            assert current() is outer
            two = rmm.DeviceBuffer(size=10)
            assert rmm.statistics.get_statistics().current_bytes == 10
        found = rmm.statistics.get_statistics()
        assert (found.current_bytes, found.peak_count, found.total_bytes) == (30, 2, 30)
        del one, two
        with pytest.raises(IndexError, match="cannot pop the last counter pair"):
            rmm.statistics.pop_statistics()
    assert current() is before
    with pytest.raises(ValueError, match="was changed"), rmm.statistics.statistics():
        rmm.mr.set_current_device_resource(before)


def test_a_profiler_records_functions_and_blocks():
    records = rmm.statistics.ProfilerRecords()
    assert "No data" in records.report()

    @rmm.statistics.profiler(records=records)
    def work():
        return [rmm.DeviceBuffer(size=100) for _ in range(10)]

    work()  # statistics are not enabled
    assert records.records == {}
    rmm.statistics.enable_statistics()
    rmm.statistics.enable_statistics()
    work()
    with rmm.statistics.profiler(records=records, name="block"):
        rmm.DeviceBuffer(size=50)
        rmm.DeviceBuffer(size=50)
    with pytest.raises(ValueError, match="needs a name"), rmm.statistics.profiler():
        pass
    name = rmm.statistics._get_descriptive_name_of_object(work)
    assert name.endswith("work)") and __file__ in name
    record = rmm.statistics.ProfilerRecords.MemoryRecord
    assert records.records == {name: record(1, 1000, 1000), "block": record(1, 100, 50)}
    report = records.report(ordered_by="memory_total").splitlines()
    assert report[0] == "Memory Profiling" and report[-2].endswith(name)
    assert report[-1].split() == ["1", "50", "100", "block"]
    rmm.reinitialize()


# --- resources ---


@pytest.mark.parametrize(
    "raised, caught",
    [
        (MemoryError, MemoryError),
        (RuntimeError, RuntimeError),
        (ValueError, RuntimeError),
        (BaseException, RuntimeError),
        (KeyboardInterrupt, KeyboardInterrupt),
    ],
)
def test_a_failing_callback_raises_what_rmm_raises(raised, caught):
    def fail(*_):
        raise raised("my error")

    for mr in (
        rmm.mr.CallbackMemoryResource(fail, fail),
        rmm.mr.FailureCallbackResourceAdaptor(
            rmm.mr.LimitingResourceAdaptor(rmm.mr.CudaMemoryResource(), 8), fail
        ),
    ):
        with pytest.raises(caught, match="my error"):
            rmm.DeviceBuffer(size=256, mr=mr)


def test_callbacks_get_sizes_and_streams(counted):
    calls = []
    mr = rmm.mr.CallbackMemoryResource(
        lambda size, stream: calls.append((size, stream)) or counted.mr.allocate(size, stream),
        lambda ptr, size, stream: counted.mr.deallocate(ptr, size, stream),
    )
    stream = tarn.Stream()
    kept = rmm.DeviceBuffer(size=10, stream=stream, mr=mr)
    assert calls == [(10, stream)] and counted.live_bytes == 10
    del kept
    assert counted.live_bytes == 0
    with pytest.raises(TypeError, match="stream argument cannot be None"):
        mr.allocate(8, None)


def test_a_failure_callback_frees_memory_of_any_resource():
    kept, asked = [], []
    limit = rmm.mr.LimitingResourceAdaptor(rmm.mr.CudaMemoryResource(), 1024)

    def spill(nbytes):
        asked.append(nbytes)
        return bool(kept) and not kept.clear()

    mr = rmm.mr.FailureCallbackResourceAdaptor(limit, spill)
    kept.append(rmm.DeviceBuffer(size=1000, mr=mr))
    assert rmm.DeviceBuffer(size=600, mr=mr).size == 600 and asked == [600]
    with pytest.raises(MemoryError):
        rmm.DeviceBuffer(size=5000, mr=mr)
    assert asked == [600, 5000] and mr.get_upstream() is limit


def test_a_failure_callback_works_beneath_c_adaptors_and_ends_with_its_object():
    limit = rmm.mr.LimitingResourceAdaptor(rmm.mr.CudaMemoryResource(), 1024)
    kept = []

    class Spilling(rmm.mr.FailureCallbackResourceAdaptor):
        def __init__(self):
            super().__init__(limit, self.spill)  # a cycle

        def spill(self, nbytes):
            return bool(kept) and not kept.clear()

    counter = rmm.mr.StatisticsResourceAdaptor(Spilling())
    kept.append(rmm.DeviceBuffer(size=1000, mr=counter))
    assert rmm.DeviceBuffer(size=600, mr=counter).size == 600 and kept == []
    assert counter.allocation_counts.total_count == 2
    end = weakref.ref(counter.upstream_mr)
    del counter
    gc.collect()
    assert end() is None and limit.get_allocated_bytes() == 0


def test_a_failure_callback_lets_exceptions_through_c_adaptors():
    def fail(nbytes):
        raise ValueError("my error")

    mr = rmm.mr.FailureCallbackResourceAdaptor(
        rmm.mr.LimitingResourceAdaptor(rmm.mr.CudaMemoryResource(), 8), fail
    )
    with pytest.raises(RuntimeError, match="my error") as caught:
        rmm.DeviceBuffer(size=256, mr=rmm.mr.StatisticsResourceAdaptor(mr))
    assert isinstance(caught.value.__cause__, ValueError)


# Numba allocates and frees without a stream. A wait for the device would fail here.
WITHOUT_A_STREAM = """
import sys, tarn
from numba import cuda
pool = tarn.mr.PoolMemoryResource()
tarn.use_tarn_for_numba(resource=tarn.mr.FailureCallbackResourceAdaptor(pool, lambda nbytes: False))
array = cuda.device_array(1000)
del array
print(pool.statistics().frees)
"""


def test_a_failure_callback_adds_no_wait_to_memory_without_a_stream():
    pytest.importorskip("numba")
    from numba_support import run_code

    assert run_code(WITHOUT_A_STREAM, TARN_SIM="fail=call:cuCtxSynchronize") == "1"


def test_tracking_adaptors_stack_and_know_the_callers():
    lower = rmm.mr.TrackingResourceAdaptor(rmm.mr.CudaMemoryResource(), capture_stacks=True)
    upper = rmm.mr.TrackingResourceAdaptor(lower)
    kept = [rmm.DeviceBuffer(size=1000, mr=mr) for mr in (lower, upper)]
    assert (lower.get_allocated_bytes(), upper.get_allocated_bytes()) == (2000, 1000)
    text = lower.get_outstanding_allocations_str()
    assert f"{kept[0].ptr:#x}: 1000 B" in text and "test_rmm_package.py" in text
    assert upper.get_outstanding_allocations_str() == f"{kept[1].ptr:#x}: 1000 B\n"
    with pytest.raises(tarn.InvalidArgumentError):
        upper.deallocate(kept[1].ptr, 999)
    assert upper.get_allocated_bytes() == 1000
    kept.clear()
    assert upper.get_outstanding_allocations_str() == lower.get_outstanding_allocations_str() == ""


@pytest.mark.parametrize("size", [0, 1000, "1023kib"])
def test_an_arena_has_at_least_a_megabyte(size):
    with pytest.raises(RuntimeError, match="at least 1 MiB"):
        rmm.mr.ArenaMemoryResource(rmm.mr.CudaMemoryResource(), size)


def test_an_arena_stays_at_its_size_and_reports_a_failure(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    upstream = rmm.mr.StatisticsResourceAdaptor(rmm.mr.CudaMemoryResource())
    arena = rmm.mr.ArenaMemoryResource(upstream, "4MiB", dump_log_on_failure=True)
    assert type(arena) is rmm.mr.ArenaMemoryResource and arena.get_upstream() is upstream
    assert upstream.allocation_counts.current_bytes == arena.pool_size() == 4 * MIB
    with pytest.raises(MemoryError):
        rmm.DeviceBuffer(size=5 * MIB, mr=arena)
    assert "for 5242880 bytes" in (tmp_path / "rmm_arena_memory_dump.log").read_text()
    assert upstream.allocation_counts.peak_bytes == 4 * MIB
    with pytest.raises(TypeError):
        rmm.mr.ArenaMemoryResource(None)


def test_a_view_allocates_from_the_pool_of_another():
    owner = rmm.mr.CudaAsyncMemoryResource()
    view = rmm.mr.CudaAsyncViewMemoryResource(owner.pool_handle())
    assert view.pool_handle() == owner.pool_handle() != 0
    assert rmm.DeviceBuffer.to_device(b"abc", mr=view).tobytes() == b"abc"
    for handle in (0, None, "x"):
        with pytest.raises(ValueError, match="must be a cudaMemPool_t or CUmemoryPool"):
            rmm.mr.CudaAsyncViewMemoryResource(handle)


def test_managed_memory_is_prefetched():
    try:
        managed = rmm.mr.experimental.CudaAsyncManagedMemoryResource()
    except tarn.NotSupportedError:
        pytest.skip("the driver is older than CUDA 13")
    assert managed.pool_handle() != 0
    for mr in (managed, rmm.mr.PrefetchResourceAdaptor(rmm.mr.ManagedMemoryResource())):
        kept = rmm.DeviceBuffer.to_device(b"abc", mr=mr)
        kept.prefetch()
        kept.prefetch(-1, tarn.Stream())
        assert kept.tobytes() == b"abc"
    rmm.DeviceBuffer(size=8).prefetch()  # not managed: no effect
    with pytest.raises(tarn.InvalidArgumentError):
        kept.prefetch(1000)


# Each driver call that a class has to make fails; the message names the call.
FAILING_CALLS = {
    "rmm.DeviceBuffer(size=8, mr=rmm.mr.ManagedMemoryResource()).prefetch()": "cuMemPrefetchAsync",
    "rmm.DeviceBuffer(size=8, mr=over(rmm.mr.ManagedMemoryResource()))": "cuMemPrefetchAsync",
    "rmm.DeviceBuffer(size=8, mr=rmm.mr.SamHeadroomMemoryResource(1 << 20))": "cuMemAdvise",
    "rmm.DeviceBuffer(size=8, mr=rmm.mr.PinnedHostMemoryResource())": "cuMemHostAlloc",
    "rmm.mr.experimental.CudaAsyncManagedMemoryResource()": "cuMemPoolCreate",
}


@pytest.mark.parametrize("code", FAILING_CALLS)
def test_a_failing_driver_call_shows_that_it_is_made(sim_process, code):
    call = FAILING_CALLS[code]
    program = f"""
import tarn, tarn.rmm as rmm
over = rmm.mr.PrefetchResourceAdaptor
try:
    {code}
except tarn.TarnError as error:
    print(error)
"""
    said = sim_process(program, TARN_SIM=f"attribute=88:1,fail=call:{call}")
    assert f"{call} failed" in said
    assert sim_process(program, TARN_SIM="attribute=88:1") == ""


def test_managed_memory_of_a_driver_pool_is_managed(sim_process):
    pytest.importorskip("cuda.bindings.driver")
    code = """
import tarn, tarn.rmm as rmm
from cuda.bindings import driver
attribute = driver.CUpointer_attribute.CU_POINTER_ATTRIBUTE_IS_MANAGED
for mr in (rmm.mr.experimental.CudaAsyncManagedMemoryResource(), rmm.mr.CudaAsyncMemoryResource()):
    buffer = rmm.DeviceBuffer(size=8, mr=mr)
    print(bool(driver.cuPointerGetAttribute(attribute, buffer.ptr)[1]))
"""
    assert sim_process(code).split() == ["True", "False"]


def test_memory_for_other_machines_is_refused_with_rmms_words():
    with pytest.raises(RuntimeError, match="Requested IPC memory handle type not supported$"):
        rmm.mr.CudaAsyncMemoryResource(enable_fabric=True)


def test_slabs_know_their_block_size():
    slab = rmm.mr.FixedSizeMemoryResource(rmm.mr.CudaMemoryResource(), 4096, 0)
    assert slab.get_block_size() == 4096


# --- buffers, streams, copies ---


class Reduced(tarn.DeviceBuffer):
    def __reduce__(self):
        return (bytes, (self.tobytes(),))


@pytest.mark.parametrize("content", [b"", b"abc"])
def test_a_pickle_of_protocol_5_has_the_bytes_beside_it(content):
    kept = rmm.DeviceBuffer.to_device(content)
    beside = []
    text = pickle.dumps(kept, protocol=5, buffer_callback=beside.append)
    assert [bytes(part) for part in beside] == [content]
    assert pickle.loads(text, buffers=beside).tobytes() == content
    for protocol in (2, 4, 5):
        assert pickle.loads(pickle.dumps(kept, protocol)).tobytes() == content
    assert pickle.loads(pickle.dumps(Reduced.to_device(b"xy"), 5)) == b"xy"


def test_a_pool_of_streams_hands_them_out_in_turn():
    pool = rmm.pylibrmm.cuda_stream_pool.CudaStreamPool(3, tarn.CudaStreamFlags.NON_BLOCKING)
    streams = [pool.get_stream() for _ in range(4)]
    assert pool.get_pool_size() == 3 and len(set(streams)) == 3 and streams[3] == streams[0]
    assert pool.get_stream(4) == streams[1]
    with pytest.raises(OverflowError):
        pool.get_stream(-1)
    with pytest.raises(ValueError, match="at least 1"):
        tarn.CudaStreamPool(0)
    driver = pytest.importorskip("cuda.bindings.driver")
    assert driver.cuStreamGetFlags(streams[0].__cuda_stream__()[1])[1] == 1


def test_copies_between_addresses():
    kept, other = rmm.DeviceBuffer(size=3), rmm.DeviceBuffer(size=3)
    into = bytearray(3)
    device_buffer.copy_host_to_ptr(b"abc", kept.ptr)
    device_buffer.copy_device_to_ptr(kept.ptr, other.ptr, 3)
    device_buffer.copy_ptr_to_host(other.ptr, into)
    assert into == b"abc" and device_buffer.to_device(b"x").tobytes() == b"x"
    for call in (
        lambda: device_buffer.copy_host_to_ptr(b"abc", kept.ptr, None),
        lambda: device_buffer.copy_ptr_to_host(kept.ptr, into, None),
        lambda: device_buffer.copy_device_to_ptr(kept.ptr, other.ptr, 3, None),
        lambda: rmm.pylibrmm.utils.as_stream(None),
    ):
        with pytest.raises(TypeError, match="stream argument cannot be None"):
            call()
    with pytest.raises(BufferError):
        device_buffer.copy_ptr_to_host(kept.ptr, b"abc")


def test_a_copy_between_addresses_waits_for_no_stream_but_the_default_one():
    library = ctypes.CDLL(tarn.driver_info().path)
    gate, ended = threading.Event(), []
    held_up = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda data: ended.append(gate.wait(10)))
    source, target = rmm.DeviceBuffer.to_device(b"abc"), rmm.DeviceBuffer.to_device(b"xyz")
    slow = tarn.Stream(flags=1)
    assert library.cuLaunchHostFunc(ctypes.c_void_p(slow.handle), held_up, None) == 0
    device_buffer.copy_device_to_ptr(source.ptr, target.ptr, 3, slow)
    assert ended == []
    gate.set()
    slow.synchronize()
    assert target.tobytes() == b"abc"


FAILED_COPY = """
import tarn
from tarn.rmm.pylibrmm import device_buffer
one, other = tarn.DeviceBuffer(size=3), tarn.DeviceBuffer(size=3)
try:
    device_buffer.copy_device_to_ptr(one.ptr, other.ptr, 3)
except tarn.TarnError as error:
    print(error)
"""


def test_a_copy_between_addresses_that_fails_is_an_error(sim_process):
    assert "cuMemcpyAsync" in sim_process(FAILED_COPY, TARN_SIM="fail=call:cuMemcpyAsync")


def test_streams_fail_with_rmms_words():
    stream = rmm.pylibrmm.stream.Stream()
    assert rmm.pylibrmm.utils.as_stream(stream) is stream
    with pytest.raises(ValueError, match="flags may only be specified when obj is None"):
        rmm.pylibrmm.stream.Stream(stream, flags=1)
    later = types.SimpleNamespace(__cuda_stream__=lambda: (1, 2))
    with pytest.raises(NotImplementedError, match="version: '1'"):
        rmm.pylibrmm.stream.Stream(later)


# --- other libraries ---


def test_gpu_answers_about_the_driver():
    gpu = rmm._cuda.gpu
    assert gpu.getDevice() == 0 and gpu.getDeviceCount() == tarn.driver_info().device_count
    assert gpu.driverGetVersion() == tarn.driver_info().version
    assert gpu.deviceGetName(0) == tarn.device_info(0).name and gpu.runtimeGetVersion() >= 12000
    pytest.importorskip("cuda.bindings.driver")
    assert gpu.getDeviceAttribute(75, 0) == tarn.device_info(0).compute_capability[0]
    with pytest.raises(gpu.CUDADriverError, match="CUDA_ERROR_INVALID_DEVICE"):
        gpu.getDeviceAttribute(75, 1000)
    gpu.setDevice(0)


def test_cupy_gets_memory_on_its_stream(monkeypatch, counted):
    rmm.mr.set_current_device_resource(counted.mr)
    stream = tarn.Stream()
    cuda = types.SimpleNamespace(
        get_current_stream=lambda: stream,
        device=types.SimpleNamespace(get_device_id=lambda: 7),
        UnownedMemory=lambda **given: types.SimpleNamespace(**given),
        memory=types.SimpleNamespace(MemoryPointer=lambda mem, offset: (mem, offset)),
    )
    monkeypatch.setitem(sys.modules, "cupy", types.SimpleNamespace(cuda=cuda))
    from tarn.rmm.allocators.cupy import rmm_cupy_allocator

    mem, offset = rmm_cupy_allocator(42)
    assert (mem.size, mem.device_id, offset) == (42, -1, 0) and mem.ptr == mem.owner.ptr
    assert mem.owner.stream == stream and counted.live_bytes == 42
    mem, _ = rmm_cupy_allocator(0)
    assert (mem.ptr, mem.size, mem.device_id) == (0, 0, 7)
    del mem
    gc.collect()


# One process of its own: it changes what `import rmm` finds, and its devices access host memory.
AS_RMM = """
import importlib.util, pathlib, pickle, sys
where = importlib.util.find_spec("rmm")
import tarn, tarn.rmm
tarn.rmm.install_as_rmm()
tarn.rmm.install_as_rmm()
import rmm, rmm.mr, rmm.statistics, rmm.pylibrmm.stream
from rmm.pylibrmm.memory_resource._memory_resource import _flush_logs
assert rmm is tarn.rmm and rmm.mr.PoolMemoryResource is tarn.mr.PoolMemoryResource
assert rmm.__spec__.name == rmm.__name__ == "tarn.rmm"
assert sys.modules["rmm.pylibrmm.stream"] is sys.modules["tarn.rmm.pylibrmm.stream"]
try:
    import rmm.nothing
except ModuleNotFoundError:
    pass
for mr in (rmm.mr.SystemMemoryResource(), rmm.mr.SamHeadroomMemoryResource(headroom=1 << 20)):
    for over in (mr, rmm.mr.PoolMemoryResource(mr, 1 << 20)):
        buffer = rmm.DeviceBuffer.to_device(b"abc", mr=over)
        assert buffer.tobytes() == b"abc"
        buffer.prefetch()
        del buffer
if where is None:
    print("no RMM")
    raise SystemExit
# An extension of the installed RMM, under another name: a client of its Cython interface.
import librmm
librmm.load_library()
file = next((pathlib.Path(where.origin).parent / "pylibrmm").glob("cuda_stream_pool.*.so"))
(pathlib.Path(sys.argv[1]) / file.name).symlink_to(file)
sys.path.insert(0, sys.argv[1])
try:
    import cuda_stream_pool
except ImportError as error:
    print(error)
"""


def test_rmm_is_tarn_for_libraries_that_import_it(sim_process, tmp_path):
    code = f"import sys; sys.argv = ['', {str(tmp_path)!r}]\n{AS_RMM}"
    said = sim_process(code, TARN_SIM="attribute=88:1")
    assert said == "no RMM" or ("Cython interface" in said and "tarn.mr.to_rmm()" in said)


def test_rmm_that_is_imported_already_is_not_replaced(monkeypatch):
    real = types.ModuleType("rmm")
    real.__file__ = "/somewhere/rmm/__init__.py"
    monkeypatch.setitem(sys.modules, "rmm", real)
    with pytest.raises(RuntimeError, match="somewhere.*tarn.mr.to_rmm"):
        rmm.install_as_rmm()
    assert not any(type(finder).__module__ == "tarn.rmm._install" for finder in sys.meta_path)


def test_system_memory_needs_a_device_that_accesses_it():
    if rmm._cuda.gpu.getDeviceAttribute(88, 0):
        pytest.skip("this device accesses pageable host memory")
    for make in (rmm.mr.SystemMemoryResource, lambda: rmm.mr.SamHeadroomMemoryResource(1)):
        with pytest.raises(tarn.NotSupportedError, match="cannot access pageable host memory"):
            make()
