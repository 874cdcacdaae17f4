"""CuPy itself and its pool under Numba, on a real driver.

python/tests/test_cupy.py is the same on a replacement of CuPy; here kernels of both run.
"""

import concurrent.futures
import gc
import multiprocessing

import pytest

np = pytest.importorskip("numpy")
cupy = pytest.importorskip("cupy")
pytest.importorskip("numba")

import tarn  # noqa: E402
import tarn.numba  # noqa: E402
from numba import cuda  # noqa: E402

pytestmark = pytest.mark.skipif(tarn.driver_info().is_simulator, reason="CuPy needs a GPU")

COUNT = 1 << 14


@pytest.fixture(scope="module")
def pool():
    """Use CuPy's own under Numba for all tests here."""
    tarn.use_tarn_for_numba(resource=tarn.mr.CupyMemoryResource())
    yield cupy.get_default_memory_pool()
    tarn.mr.set_current_device_resource(None)


@pytest.fixture(autouse=True)
def nothing_is_left(pool):
    before = pool.used_bytes()
    yield
    gc.collect()
    cuda.current_context().deallocations.clear()
    assert pool.used_bytes() == before


@cuda.jit
def scale(x, factor):
    i = cuda.grid(1)
    if i < x.size:
        x[i] *= factor


@cuda.jit
def slow_copy(source, target):
    for _ in range(100):
        cuda.nanosleep(1_000_000)
    i = cuda.grid(1)
    if i < source.size:
        target[i] = source[i]


@cuda.jit
def fill(x, value):
    i = cuda.grid(1)
    if i < x.size:
        x[i] = value


def launch(kernel, stream=0):
    return kernel[COUNT // 256, 256, stream]


def test_numbas_arrays_are_the_pools_blocks(pool):
    used = pool.used_bytes()
    array = cuda.device_array(1000)
    assert pool.used_bytes() == used + 8192
    del array
    assert pool.used_bytes() == used


def test_kernels_of_both_work_on_one_array(pool):
    array = cuda.to_device(np.arange(float(COUNT)))
    launch(scale)(array, 2.0)
    cuda.synchronize()
    seen = cupy.asarray(array)
    assert float(seen.sum()) == COUNT * (COUNT - 1)
    seen += 1
    cupy.cuda.get_current_stream().synchronize()
    np.testing.assert_array_equal(array.copy_to_host(), 2.0 * np.arange(COUNT) + 1)


def test_what_one_gives_back_the_other_gets(pool):
    pool.free_all_blocks()
    array = cuda.device_array(1 << 20, dtype="u1")
    address = array.device_ctypes_pointer.value
    del array
    other = cupy.empty(1 << 20, dtype="u1")
    assert other.data.ptr == address


@pytest.mark.parametrize("non_blocking", [False, True])
def test_memory_that_numba_freed_is_not_overwritten_while_it_is_read(pool, non_blocking):
    """The next array is CuPy's, from the same pool, and another stream writes to it."""
    streams = [cupy.cuda.Stream(non_blocking=non_blocking) for _ in range(2)]
    x, y = (cuda.external_stream(stream.ptr) for stream in streams)
    wrong = 0
    for _ in range(5):
        source, target = cuda.device_array(COUNT), cuda.device_array(COUNT)
        launch(fill, x)(source, 1.0)
        launch(fill, x)(target, 0.0)
        cuda.synchronize()
        launch(slow_copy, x)(source, target)
        del source
        other = cupy.empty(COUNT)
        launch(fill, y)(cuda.as_cuda_array(other, sync=False), 2.0)
        cuda.synchronize()
        wrong += int((target.copy_to_host() != 1.0).sum())
        del target, other
    assert wrong == 0


def test_streams_have_blocks_of_their_own(pool):
    one, other = (tarn.Stream(flags=tarn.CudaStreamFlags.NON_BLOCKING) for _ in range(2))
    address = tarn.DeviceBuffer(size=512, stream=one).ptr
    block = tarn.DeviceBuffer(size=512, stream=other)
    assert block.ptr != address
    assert tarn.DeviceBuffer(size=512, stream=one).ptr == address


def test_a_limit_of_the_pool_is_out_of_memory_to_numba(pool):
    pool.free_all_blocks()
    limit = pool.get_limit()
    pool.set_limit(size=pool.total_bytes() + (1 << 20))
    try:
        with pytest.raises(MemoryError, match="Out of memory allocating"):
            cuda.device_array(1 << 21, dtype="u1")
    finally:
        pool.set_limit(size=limit)
    cuda.device_array(1 << 21, dtype="u1")


def test_a_trim_frees_the_pools_whole_blocks(pool):
    cuda.device_array(64 << 20, dtype="u1")
    assert tarn.mr.get_current_device_resource().trim() >= 64 << 20


def read(handle, count):
    array = handle.open_array(cuda.current_context(), shape=count, dtype=np.dtype("f8"))
    values = array.copy_to_host()
    del array
    handle.close()
    return values.tolist()


def test_another_process_reads_a_block_in_the_middle_of_a_segment(pool):
    pool.free_all_blocks()
    cuda.device_array(1 << 20, dtype="u1")  # a free chunk, which the next blocks split
    first, array = cuda.device_array(1000), cuda.to_device(np.arange(1000.0))
    cuda.synchronize()
    handle = cuda.current_context().get_ipc_handle(array[500:].gpu_data)
    assert handle.offset >= 8192 + 4000
    spawn = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=spawn) as processes:
        values = processes.submit(read, handle, 500).result(120)
    assert values == list(range(500, 1000))
    del first


def test_cupys_pool_of_the_driver_serves_too(pool):
    if not tarn.device_info().has_memory_pools:
        pytest.skip("the device has no pools")
    before = tarn.mr.get_current_device_resource()
    resource = tarn.mr.CupyMemoryResource(cupy.cuda.MemoryAsyncPool())
    with tarn.numba.using_resource(resource):
        array = cuda.to_device(np.ones(COUNT))
        launch(scale)(array, 3.0)
        assert array.copy_to_host().sum() == 3.0 * COUNT
        with pytest.raises(tarn.NotSupportedError):
            array.get_ipc_handle()
        del array
    assert tarn.mr.get_current_device_resource() is before
