"""The resource of Numba under tarn.numba: temporary resources, modes, host arrays of kernels."""

import gc
import threading

import numba_support
import pytest

np = pytest.importorskip("numpy")
pytest.importorskip("numba")

import tarn  # noqa: E402
import tarn.numba  # noqa: E402
from numba import cuda  # noqa: E402
from numba_support import fork_code, rows, run_code  # noqa: E402

tarn.numba.use_tarn_for_numba()

ON_SIM = tarn.driver_info().is_simulator

# Numba warns that host arrays in kernels, and small grids, are slow.
pytestmark = [
    pytest.mark.filterwarnings("ignore:Host array used"),
    pytest.mark.filterwarnings("ignore:Grid size"),
]


@pytest.fixture(autouse=True)
def nothing_is_left():
    manager = numba_support.manager_of_device()
    tarn._tarn.log_close()
    yield
    gc.collect()
    assert manager.live == 0


def counter():
    return tarn.mr.StatisticsResourceAdaptor(tarn.mr.CudaMemoryResource())


def live(resource):
    return resource.allocation_counts.current_bytes


def test_live_blocks_of_a_manager_are_those_with_memory():
    manager = numba_support.manager_of_device()
    kept = [manager.memalloc(size) for size in (0, 100, 0)]
    assert manager.live == 1
    del kept
    assert manager.live == 0


# --- a temporary resource ---------------------------------------------------------------


def test_memory_of_the_block_comes_from_the_resource_and_goes_back_to_it(counted):
    mine = counter()
    with tarn.numba.using_resource(mine) as given:
        assert given is mine
        inside = cuda.device_array(100)
    outside = cuda.device_array(10)
    assert (live(mine), counted.live_bytes) == (800, 80)
    del inside, outside
    assert (live(mine), counted.live_bytes) == (0, 0)


def test_blocks_of_before_go_back_to_where_they_came_from(counted):
    before = cuda.device_array(100)
    with tarn.numba.using_resource(counter()) as mine:
        del before
        assert (counted.live_bytes, live(mine)) == (0, 0)


def test_it_nests_and_ends_with_an_exception(counted):
    outer, inner = counter(), counter()
    with tarn.numba.using_resource(outer):
        with pytest.raises(KeyError), tarn.numba.using_resource(inner):
            one = cuda.device_array(1)
            raise KeyError
        two = cuda.device_array(2)
    assert (live(outer), live(inner)) == (16, 8)
    assert tarn.mr.get_current_device_resource() is counted.mr
    del one, two


def test_a_name_makes_the_resource():
    with tarn.numba.using_resource("pool") as pool:
        assert type(pool) is tarn.mr.PoolMemoryResource
        array = cuda.to_device(np.arange(10.0))
        assert pool.statistics().live_blocks == 1
    np.testing.assert_array_equal(array.copy_to_host(), np.arange(10.0))
    del array
    assert pool.statistics().live_blocks == 0


@pytest.mark.parametrize(
    ("name", "upstream"),
    [("exportable", tarn.mr.ExportableMemoryResource), ("cuda-pool", tarn.mr.CudaMemoryResource)],
)
def test_a_name_makes_a_pool_over_its_resource(name, upstream):
    with tarn.numba.using_resource(name) as pool:
        assert type(pool) is tarn.mr.PoolMemoryResource
        assert type(pool.upstream_mr) is upstream


def test_the_bins_are_for_256_bytes_to_1_mib():
    with tarn.numba.using_resource("binning") as binning:
        pool, bins = binning.upstream_mr, len(binning.bin_mrs)
        for nbytes, live_in_pool in ((1, 0), (1 << 20, 0), ((1 << 20) + 1, 1)):
            array = cuda.device_array(nbytes, np.int8)
            assert pool.statistics().live_blocks == live_in_pool + len(filled(binning))
            del array
    assert bins == 13


def filled(binning):
    """Return the bins that have memory of the pool: each takes one block of it."""
    return [one for one in binning.bin_mrs if one.statistics().reserved]


def test_what_is_no_resource_is_refused_and_changes_nothing(counted):
    for wrong, error in (("goldmine", ValueError), (7, TypeError), (None, TypeError)):
        with pytest.raises(error), tarn.numba.using_resource(wrong):
            pass
    assert tarn.mr.get_current_device_resource() is counted.mr


def test_other_threads_are_served_from_it_too(counted):
    """A device has one current resource for all threads."""
    arrays = []
    with tarn.numba.using_resource(counter()) as mine:
        thread = threading.Thread(target=lambda: arrays.append(cuda.device_array(100)))
        thread.start()
        thread.join()
        assert (live(mine), counted.live_bytes) == (800, 0)
    arrays.clear()
    assert live(mine) == 0


def test_an_object_that_outlives_the_block_keeps_its_resource():
    with tarn.numba.using_resource(counter()) as mine:
        array = cuda.to_device(np.arange(5.0))
    del mine
    gc.collect()
    np.testing.assert_array_equal(array.copy_to_host(), np.arange(5.0))


@pytest.mark.skipif(not numba_support.CAN_HAVE_TWO_DEVICES, reason="needs two devices")
def test_it_is_for_one_device_and_before_the_first_use():
    code = """
import tarn.numba
from numba import cuda
tarn.numba.use_tarn_for_numba()
with tarn.numba.using_resource("async", device=1):
    for number in (0, 1):
        with cuda.gpus[number]:
            cuda.device_array(1)
            print(type(tarn.mr.get_per_device_resource(number)).__name__)
own = tarn.mr.CudaMemoryResource(device=1)
with tarn.numba.using_resource(own):
    print(tarn.mr.get_per_device_resource(1) is own)
"""
    words = fork_code(code, TARN_SIM="devices=2", TARN_RESOURCE="managed").split()
    assert words == ["ManagedMemoryResource", "CudaAsyncMemoryResource", "True"]


@pytest.mark.parametrize("module", ["tarn", "tarn.numba"])
def test_a_first_use_in_the_block_finds_the_default_where_the_environment_registers(module):
    """Otherwise the block's resource would be taken for one of the program's, and stay."""
    code = """
import tarn.numba
from numba import cuda
with tarn.numba.using_resource("cuda"):
    cuda.device_array(1)
print(type(tarn.mr.get_current_device_resource()).__name__)
"""
    assert run_code(code, NUMBA_CUDA_MEMORY_MANAGER=module) == "PoolMemoryResource"


def test_a_first_use_in_the_block_does_not_put_another_resource_in_charge():
    code = """
import tarn.numba
from numba import cuda
tarn.numba.use_tarn_for_numba()
with tarn.numba.using_resource("cuda"):
    cuda.device_array(1)
    print(type(tarn.mr.get_current_device_resource()).__name__)
print(type(tarn.mr.get_current_device_resource()).__name__)
"""
    words = fork_code(code, TARN_RESOURCE="async").split()
    assert words == ["CudaMemoryResource", "CudaAsyncMemoryResource"]


# --- modes ------------------------------------------------------------------------------


@pytest.fixture
def single_stream():
    tarn.numba.use_tarn_for_numba(mode="single-stream")
    yield
    tarn.numba.use_tarn_for_numba()


def test_with_one_stream_memory_comes_and_goes_on_the_default_stream(single_stream):
    cuda.device_array(10)
    gc.collect()
    assert [row["Stream"] for row in rows(tarn.csv_log())] == ["0", "0"]


def test_with_one_stream_a_pool_hands_out_what_was_freed_last(single_stream):
    with tarn.numba.using_resource("pool"):
        first = cuda.device_array(1000)
        address = first.device_ctypes_pointer.value
        del first
        assert cuda.device_array(1000).device_ctypes_pointer.value == address


def test_a_mode_that_there_is_not_is_refused_and_nothing_changes():
    with pytest.raises(
        ValueError, match="unknown mode 'fast'; the modes are any-stream, single-stream"
    ):
        tarn.numba.use_tarn_for_numba(mode="fast", resource="goldmine")
    assert numba_support.manager_of_device().single_stream is False


def test_the_mode_holds_for_devices_that_come_later():
    code = """
import tarn.numba
from numba import cuda
tarn.use_tarn_for_numba(mode="single-stream")
print(cuda.current_context().memory_manager._manager.single_stream)
"""
    assert fork_code(code) == "True"


# --- host arrays of kernels -------------------------------------------------------------


@cuda.jit
def touch(array):
    if array.size:
        array[0] = 1


def launch(array):
    """Pass a host array to a kernel; the kernel need not run."""
    try:
        touch[1, 1](array)
    except Exception as error:
        assert ON_SIM and "NOT_SUPPORTED" in str(error), error


def test_host_arrays_that_are_passed_to_kernels_come_from_tarn(counted):
    launch(np.zeros(1000))
    gc.collect()
    assert [row["Size (bytes)"] for row in rows(tarn.csv_log())] == ["8000", "8000"]
    assert (counted.allocations, counted.live_bytes) == (1, 0)


def test_they_do_where_the_environment_registers():
    code = HOST_ARRAYS.replace("USE", "").replace("WHAT", "device.memory_resource")
    assert fork_code(code, NUMBA_CUDA_MEMORY_MANAGER="tarn.numba") == "TarnMemoryResource"


def test_they_do_in_every_thread(counted):
    threads = [threading.Thread(target=launch, args=(np.zeros(9),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    gc.collect()
    assert (counted.allocations, counted.live_bytes) == (4, 0)


def test_an_empty_host_array_is_no_error(counted):
    launch(np.zeros(0))
    assert counted.allocations == 0


def test_cuda_cores_users_get_buffers_of_tarns(counted):
    device = cuda.current_context().device._dev
    resource = device.memory_resource
    assert (resource.device_id, resource.is_device_accessible) == (0, True)
    assert not resource.is_host_accessible and not resource.is_managed
    buffer = device.allocate(4096, stream=device.default_stream)
    assert buffer.memory_resource is resource and buffer.size == 4096
    assert counted.live_bytes == 4096
    buffer.close()
    assert counted.live_bytes == 0


HOST_ARRAYS = """
import tarn.numba, cuda.core
from numba import cuda as numba_cuda
device = cuda.core.Device(0)
device.set_current()
USE
device.memory_resource = WHAT
numba_cuda.device_array(1)
print(type(device.memory_resource).__name__)
"""


@pytest.mark.parametrize(
    "use, what, expected",
    [
        ("tarn.use_tarn_for_numba()", "device.memory_resource", "TarnMemoryResource"),
        (
            "tarn.use_tarn_for_numba(host_arrays=False)",
            "cuda.core.LegacyPinnedMemoryResource()",
            "LegacyPinnedMemoryResource",
        ),
        (
            "class Own(cuda.core.LegacyPinnedMemoryResource): ...\ntarn.use_tarn_for_numba()",
            "Own()",
            "Own",
        ),
    ],
)
def test_a_resource_of_the_program_stays_and_tarns_can_be_left_out(use, what, expected):
    code = HOST_ARRAYS.replace("USE", use).replace("WHAT", what)
    assert fork_code(code) == expected
