"""CupyMemoryResource: CuPy's pool as a resource.

The tests use a replacement of CuPy (stand_in_cupy): CuPy needs the CUDA runtime, which the driver
simulator does not support. tests/gpu/test_cupy.py is for the real one.
"""

import gc
import json
import pathlib
import subprocess
import sys
import threading

import numba_support
import pytest
import tarn
from tarn import mr

FOLDER = pathlib.Path(__file__).with_name("stand_in_cupy")
ROOT = pathlib.Path(__file__).parents[2]
SUITE = ROOT / "tools" / "numba_suite.py"


@pytest.fixture
def cupy(monkeypatch):
    """Use the replacement for one test. Afterwards the real one is imported again, and the previous
    context is current."""
    monkeypatch.syspath_prepend(str(FOLDER))
    forget_cupy(monkeypatch)
    import cupy

    context = cupy.cuda.current_context()
    yield cupy
    cupy.cuda.release_contexts(context)
    forget_cupy(monkeypatch)


def forget_cupy(monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == "cupy"]:
        monkeypatch.delitem(sys.modules, name)


@pytest.fixture
def resource(cupy):
    resource = mr.CupyMemoryResource()
    mr.set_current_device_resource(resource)
    yield resource
    mr.set_current_device_resource(None)
    gc.collect()
    assert resource.pool.used_bytes() == 0
    resource.trim()


# --- the resource -----------------------------------------------------------------------


def test_without_a_cupy_it_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(ImportError, match="cupy"):
        mr.CupyMemoryResource()


def test_it_is_on_the_pool_that_cupys_arrays_come_from(cupy, resource):
    assert resource.pool is cupy.get_default_memory_pool()
    own = cupy.cuda.MemoryPool()
    assert mr.CupyMemoryResource(own).pool is own


def test_blocks_come_from_the_pool_and_go_back_to_it(resource):
    buffers = [tarn.DeviceBuffer(size=1000), tarn.DeviceBuffer(size=5)]
    assert resource.pool.used_bytes() == 1024 + 512
    buffers.clear()
    assert resource.pool.used_bytes() == 0
    assert resource.pool.total_bytes() == resource.pool.free_bytes() > 0


def test_a_block_is_one_that_cupy_does_not_hand_out(cupy, resource):
    ours, theirs = tarn.DeviceBuffer(size=512), resource.pool.malloc(512)
    assert theirs.ptr != ours.ptr
    before = ours.ptr
    del ours
    assert resource.pool.malloc(512).ptr == before


def test_values_survive(resource):
    data = bytes(range(256)) * 100
    assert tarn.DeviceBuffer.to_device(data).tobytes() == data


@pytest.mark.parametrize("wrong", [0, 999, 1001])
def test_wrong_bytes_and_foreign_blocks_are_refused_and_nothing_changes(resource, wrong):
    block = resource.allocate(1000)
    with pytest.raises(tarn.InvalidArgumentError, match="cupy: .* it was allocated with 1000"):
        resource.deallocate(block, wrong)
    with pytest.raises(tarn.InvalidArgumentError, match="not a live allocation"):
        resource.deallocate(block + 512, 1000)
    assert resource.pool.used_bytes() == 1024
    resource.deallocate(block, 1000)
    with pytest.raises(tarn.InvalidArgumentError, match="not a live allocation"):
        resource.deallocate(block, 1000)


def test_no_bytes_are_no_block(resource):
    assert resource.allocate(0) == 0
    resource.deallocate(0, 0)
    with pytest.raises(TypeError):
        resource.allocate(10, None)


def test_cupys_out_of_memory_is_a_memory_error(cupy, resource):
    resource.pool.set_limit(1 << 20)
    with pytest.raises(MemoryError, match="limit set to: 1,048,576 bytes"):
        tarn.DeviceBuffer(size=1 << 21)
    with pytest.raises(MemoryError):
        mr.LimitingResourceAdaptor(resource, 1 << 30).allocate(1 << 21)
    resource.pool.set_limit(0)


def test_free_memory_counts_what_the_pool_keeps(resource):
    free, total = mr.available_device_memory()
    tarn.DeviceBuffer(size=1 << 20)
    assert resource.memory_info()[1] == total
    if tarn.driver_info().is_simulator:  # a GPU has other users, too
        assert mr.available_device_memory()[0] < free
        assert resource.memory_info() == (free, total)


def test_a_trim_gives_whole_segments_back(resource):
    kept = tarn.DeviceBuffer(size=1 << 20)
    other = tarn.DeviceBuffer(size=8 << 20)
    reserved = resource.pool.total_bytes()
    del other
    assert resource.trim(64 << 20) == 0
    assert resource.trim() == 8 << 20
    assert resource.pool.total_bytes() == reserved - (8 << 20)
    del kept


# --- streams ----------------------------------------------------------------------------


def test_the_pool_is_told_of_the_stream(resource):
    """Its frees are reused on the same stream, and on no other."""
    one, other = tarn.Stream(), tarn.Stream()
    address = tarn.DeviceBuffer(size=512, stream=one).ptr
    assert tarn.DeviceBuffer(size=512, stream=other).ptr != address
    assert tarn.DeviceBuffer(size=512).ptr != address
    assert tarn.DeviceBuffer(size=512, stream=one).ptr == address


def test_an_opened_stream_is_the_same(resource):
    stream = tarn.Stream(flags=tarn.CudaStreamFlags.NON_BLOCKING)
    opened = stream.register()
    address = tarn.DeviceBuffer(size=512, stream=stream).ptr
    assert tarn.DeviceBuffer(size=512, stream=opened).ptr == address


def waits(monkeypatch, resource, *pairs):
    """Return the number of stream waits for each pair (allocated on, freed on)."""
    found = []
    for allocated_on, freed_on in pairs:
        waited = []
        monkeypatch.setattr("tarn._cupy._stream_of", lambda s, waited=waited: Watched(s, waited))
        block = resource.allocate(512, allocated_on)
        resource.deallocate(block, 512, freed_on)
        found.append(len(waited))
    return found


class Watched:
    """A stream that records the waits for it."""

    def __init__(self, stream, waited):
        self.stream, self.waited = stream, waited

    def __getattr__(self, name):
        return getattr(self.stream, name)

    def __eq__(self, other):
        return self.stream == other

    def synchronize(self):
        self.waited.append(self.stream)
        self.stream.synchronize()


def test_a_block_that_is_freed_on_another_stream_waits_for_that(resource, monkeypatch):
    one, other = tarn.Stream(), tarn.Stream()
    found = waits(
        monkeypatch,
        resource,
        (one, one),
        (one, other),
        (tarn.NO_STREAM, tarn.NO_STREAM),
        (tarn.NO_STREAM, one),
        (one, tarn.NO_STREAM),
    )
    assert found == [0, 1, 0, 1, 0]


def test_a_pool_that_is_not_cupys_serves_too(cupy):
    """It needs malloc(). It gets no stream, so the resource waits for streams."""

    class Pool:
        def __init__(self):
            self.inner = cupy.cuda.SingleDeviceMemoryPool()

        def malloc(self, size):
            return self.inner.malloc(size)

    resource = mr.CupyMemoryResource(Pool())
    stream = tarn.Stream()
    data = b"x" * 1000
    with cupy.cuda.Device(0):
        buffer = tarn.DeviceBuffer.to_device(data, stream=stream, mr=resource)
    assert buffer.tobytes() == data
    del buffer
    assert resource.pool.inner.used_bytes() == 0
    resource.pool.inner.free_all_blocks()


def test_it_is_called_from_many_threads(resource):
    def work():
        for size in range(1, 200):
            block = resource.allocate(size * 100)
            resource.deallocate(block, size * 100)
            tarn.DeviceBuffer(size=size, stream=tarn.NO_STREAM)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert resource.pool.used_bytes() == 0


# --- several devices --------------------------------------------------------------------


@pytest.mark.skipif(tarn.driver_info().device_count < 2, reason="needs two devices")
def test_each_device_has_its_part_of_the_pool(cupy):
    resources = [mr.CupyMemoryResource(), mr.CupyMemoryResource()]
    for device, resource in enumerate(resources):
        mr.set_per_device_resource(device, resource)
    block = resources[1].allocate(100)
    with cupy.cuda.Device(1):
        assert resources[1].pool.used_bytes() == 512
        resources[1].deallocate(block, 100)
        resources[1].trim()
    with cupy.cuda.Device(0):
        assert resources[0].pool.total_bytes() == 0
        for device in (0, 1):
            mr.set_per_device_resource(device, None)


# --- resources written in Python, seen from C -------------------------------------------


class Telling(mr.DeviceMemoryResource):
    """A resource with more members than allocate() and deallocate()."""

    info, trims = (10 << 20, 20 << 20), None

    def __init__(self):
        self.source, self.trims = mr.CudaMemoryResource(), []

    def allocate(self, nbytes, stream=tarn.DEFAULT_STREAM):
        return self.source.allocate(nbytes, stream)

    def deallocate(self, ptr, nbytes, stream=tarn.DEFAULT_STREAM):
        self.source.deallocate(ptr, nbytes, stream)

    def memory_info(self):
        return self.info

    def trim(self, keep_bytes):
        self.trims.append(keep_bytes)
        return 7


def manager():
    return tarn._tarn.Manager(0, False)


def test_a_manager_asks_it_for_its_numbers():
    mr.set_current_device_resource(telling := Telling())
    assert manager().get_memory_info() == (10 << 20, 20 << 20)
    for wrong in (5, (1,), ("a", "b")):
        telling.info = wrong
        with pytest.raises(TypeError):
            manager().get_memory_info()


def test_a_reset_of_a_manager_trims_it():
    mr.set_current_device_resource(telling := Telling())
    manager().reset()
    assert telling.trims == [0]


def test_a_trim_that_fails_is_told():
    class Failing(Telling):
        def trim(self, keep_bytes):
            raise KeyError("no")

    mr.set_current_device_resource(Failing())
    with pytest.raises(KeyError):
        manager().reset()


def test_an_adaptor_that_has_neither_passes_both_on():
    class Plain(mr.UpstreamResourceAdaptor):
        def allocate(self, nbytes, stream=tarn.DEFAULT_STREAM):
            return super().allocate(nbytes, stream)

    pool = mr.PoolMemoryResource()
    mr.set_current_device_resource(Plain(pool))
    tarn.DeviceBuffer(size=1 << 20)
    assert pool.statistics().reserved > 0
    assert manager().get_memory_info()[1] == tarn.device_info().total_bytes
    manager().reset()
    assert pool.statistics().reserved == 0


# --- Numba on it ------------------------------------------------------------------------

NUMBA = """
import cupy, gc, numpy, tarn
from numba import cuda
tarn.use_tarn_for_numba(resource=tarn.mr.CupyMemoryResource())
pool = cupy.get_default_memory_pool()
"""


def run_on_the_pool(code):
    pytest.importorskip("numba")
    return numba_support.fork_code(NUMBA + code, PYTHONPATH=str(FOLDER))


def test_numbas_arrays_are_the_pools_blocks():
    """The operations of the proposal's program."""
    code = """
array = cuda.to_device(numpy.zeros(10))
assert pool.used_bytes() == 512, pool.used_bytes()
del array
assert pool.used_bytes() == 0 and pool.total_bytes() == 4 << 20
print(tarn.csv_log())
"""
    log = numba_support.rows(run_on_the_pool(code))
    assert [(row["Event Type"], row["Size (bytes)"]) for row in log] == [
        ("Alloc", "80"),
        ("Free", "80"),
    ]


def test_blocks_wait_for_the_end_of_defer_cleanup_and_segments_for_a_reset():
    """Blocks return at the end of defer_cleanup(), empty segments at a reset."""
    code = """
with cuda.defer_cleanup():
    cuda.to_device(numpy.zeros(10))
    assert pool.used_bytes() == 512
assert pool.used_bytes() == 0 and pool.total_bytes() == 4 << 20
held = cuda.device_array(10)
cuda.current_context().reset()
assert pool.used_bytes() == pool.total_bytes() == 0
print("fine")
"""
    assert run_on_the_pool(code) == "fine"


def test_memory_that_numba_holds_back_is_given_up_before_the_pool_is_out_of_it():
    code = """
pool.set_limit(8 << 20)
with cuda.defer_cleanup():
    for _ in range(3):
        cuda.device_array(4 << 20, dtype="u1")
try:
    cuda.device_array(16 << 20, dtype="u1")
except cuda.cudadrv.driver.CudaAPIError as error:
    assert isinstance(error, MemoryError) and error.code == 2
    print(error.words)
"""
    assert "limit set to: 8,388,608 bytes" in run_on_the_pool(code)


# A queued copy on one stream still reads an array when that is deleted. CuPy reuses its block, and
# another stream overwrites it. No stream waits for another.
TWO_STREAMS = """
from numba.cuda.cudadrv import driver
cuda.current_context()
streams = [tarn.Stream(flags=tarn.CudaStreamFlags.NON_BLOCKING) for _ in range(2)]
x, y = (cuda.external_stream(stream.handle) for stream in streams)
wrong = 0
for _ in range(20):
    source = cuda.to_device(numpy.ones(4096, "u1"))
    target = cuda.to_device(numpy.zeros(4096, "u1"))
    cuda.synchronize()
    target.copy_to_device(source, stream=x)
    del source
    block = pool.malloc(4096)
    driver.driver.cuMemsetD8Async(block.ptr, 7, 4096, y.handle)
    cuda.synchronize()
    wrong += int((target.copy_to_host() != 1).sum())
    del block, target
print(wrong > 0)
"""

# The prototype of NBEP 7: a block returns to CuPy with its array.
HASTY = """
import cupy, numpy, tarn
from numba import cuda
pool = cupy.get_default_memory_pool()

class Hasty(cuda.HostOnlyCUDAMemoryManager):
    interface_version = 1
    def initialize(self): ...
    def get_memory_info(self): ...
    def get_ipc_handle(self, memory): ...
    def memalloc(self, size):
        held = [pool.malloc(size)]
        return cuda.MemoryPointer(self.context, held[0].ptr, size, finalizer=held.clear)

cuda.set_memory_manager(Hasty)
"""


@pytest.mark.skipif(not tarn.driver_info().is_simulator, reason="needs streams that are late")
@pytest.mark.parametrize("begin, is_wrong", [(NUMBA, False), (HASTY, True)])
def test_no_array_is_overwritten_while_a_stream_still_reads_it(begin, is_wrong):
    pytest.importorskip("numba")
    found = numba_support.fork_code(
        begin + TWO_STREAMS, PYTHONPATH=str(FOLDER), TARN_SIM="mode=seeded,seed=1"
    )
    assert found == str(is_wrong)


def test_arrays_that_are_left_at_the_end_say_nothing():
    code = """
left = [cuda.device_array(1000), cuda.mapped_array(1000)]
with cuda.defer_cleanup():
    cuda.device_array(1000)
print("fine")
"""
    assert run_on_the_pool(code) == "fine"


def test_a_handle_has_the_offset_of_the_block_in_its_segment():
    """The offset of an IPC handle is that of the block in its segment."""
    code = """
first, second = cuda.to_device(numpy.zeros(1000)), cuda.to_device(numpy.ones(10))
handle = second.get_ipc_handle()
assert handle._ipc_handle.offset == 8192, handle._ipc_handle.offset
part = second[5:].get_ipc_handle()
print(part._ipc_handle.offset - handle._ipc_handle.offset)
"""
    assert run_on_the_pool(code) == "40"


MODULES = [  # which the simulator runs completely, as it has no kernel
    "cudadrv.test_cuda_memory", "cudadrv.test_host_alloc", "cudadrv.test_pinned",
    "cudapy.test_ipc",
]  # fmt: skip


def test_numbas_own_tests_end_without_an_error_on_the_pool(tmp_path):
    """The prototype of NBEP 7 had 8 errors, all because of missing handles."""
    pytest.importorskip("numba_cuda")
    out = tmp_path / "lines"
    env = numba_support.environment(
        NUMBA_CUDA_MEMORY_MANAGER="nbep7_cupy",
        PYTHONPATH=f"{ROOT / 'examples/numba/plugins'}:{FOLDER}",
    )
    names = [f"numba.cuda.tests.{name}" for name in MODULES]
    command = [sys.executable, SUITE, "module", *names, out]
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    lines = map(json.loads, out.read_text().splitlines())
    ends = {line["id"]: line for line in lines}
    wrong = [end for end in ends.values() if end["outcome"] not in ("pass", "skip")]
    assert len(ends) > 20 and not wrong, wrong
