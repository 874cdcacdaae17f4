"""CuPy's arrays on Tarn's pool, with kernels on several streams, on a real driver.

python/tests/test_frameworks_cupy.py has what needs no kernel.
"""

import gc
import threading
import time

import pytest

np = pytest.importorskip("numpy")
cupy = pytest.importorskip("cupy")

import tarn  # noqa: E402
import tarn.cupy  # noqa: E402

pytestmark = pytest.mark.skipif(tarn.driver_info().is_simulator, reason="CuPy needs a GPU")

COUNT = 1 << 20
SLOW = cupy.RawKernel(
    """
extern "C" __global__ void slow_copy(const float *source, float *target, int count) {
    for (int i = 0; i < 100; i++) __nanosleep(1000000);
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) target[i] = source[i];
}
""",
    "slow_copy",
)


def slow_copy(source, target):
    SLOW((source.size // 256,), (256,), (source, target, np.int32(source.size)))


@pytest.fixture(scope="module", autouse=True)
def used():
    """Serve CuPy for all tests here."""
    assert tarn.use("pool", frameworks="cupy") == {"cupy": "active"}
    yield
    cupy.cuda.set_allocator(cupy.get_default_memory_pool().malloc)
    tarn.mr.set_current_device_resource(None)


@pytest.fixture(autouse=True)
def pool(used):
    """Return the pool, in which each test leaves nothing."""
    cupy.zeros(1)  # the first use makes the pool
    pool = tarn.mr.get_current_device_resource()
    gc.collect()
    before = pool.statistics().live
    yield pool
    gc.collect()
    cupy.cuda.Device().synchronize()
    assert pool.statistics().live == before
    assert cupy.get_default_memory_pool().total_bytes() == 0


def test_arrays_are_blocks_of_the_pool_and_kernels_use_them(pool):
    before = pool.statistics().live_requested
    x = cupy.arange(COUNT, dtype="f8")
    assert pool.statistics().live_requested == before + x.nbytes
    assert float((x * 2).sum()) == COUNT * (COUNT - 1)
    a = cupy.random.rand(512, 512)
    np.testing.assert_allclose(cupy.asnumpy(a @ a), cupy.asnumpy(a) @ cupy.asnumpy(a), rtol=1e-9)
    assert (cupy.sort(x[::-1]) == x).all()


def test_out_of_memory_is_cupys(pool):
    with pytest.raises(cupy.cuda.memory.OutOfMemoryError, match="pool"):
        cupy.empty(1 << 45, "u1")


@pytest.mark.parametrize("non_blocking", [False, True])
def test_memory_is_not_overwritten_while_its_own_stream_reads_it(pool, non_blocking):
    """Allocated and read on one stream; it ends while another stream is current."""
    x, y = (cupy.cuda.Stream(non_blocking=non_blocking) for _ in range(2))
    wrong = 0
    for _ in range(5):
        with x:
            source, target = cupy.ones(COUNT, "f4"), cupy.zeros(COUNT, "f4")
            slow_copy(source, target)
        with y:
            del source
            other = cupy.full(COUNT, 2, "f4")
        cupy.cuda.Device().synchronize()
        wrong += int((target != 1).sum())
        del other, target
    assert wrong == 0


@pytest.mark.parametrize("named", [True, False])
def test_memory_is_freed_in_the_order_of_the_stream_that_is_named(pool, named):
    """Allocated on one stream, read last on another. Without free_on() the bytes are reused."""
    x, y = (cupy.cuda.Stream(non_blocking=True) for _ in range(2))
    wrong = 0
    for _ in range(5):
        with x:
            source = cupy.ones(COUNT, "f4")
            target = cupy.zeros(COUNT, "f4")
        x.synchronize()
        with y:
            slow_copy(source, target)
        if named:
            tarn.cupy.free_on(source, y)
        del source
        with x:
            other = cupy.full(COUNT, 2, "f4")
        cupy.cuda.Device().synchronize()
        wrong += int((target != 1).sum())
        del other, target
    print("elements overwritten:", wrong)
    assert (wrong == 0) == named


def test_a_capture_allocates(pool):
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        x = cupy.arange(1000, dtype="f4")
        result = cupy.zeros(1000, "f4")
        cupy.multiply(x, 2, out=result)  # compiles
        stream.begin_capture()
        cupy.multiply(x * 3, 2, out=result)  # with a temporary array
        graph = stream.end_capture()
        for _ in range(3):
            result.fill(0)
            graph.launch(stream)
            stream.synchronize()
            assert (result == x * 6).all()
    del graph


def rounds_of_threads(allocator):
    """Compute in four threads, each on a stream of its own; return the seconds and the mistakes."""
    mistakes = []

    def work(number, sizes):
        with cupy.cuda.using_allocator(allocator), cupy.cuda.Stream(non_blocking=True) as stream:
            for size in sizes:
                x = cupy.full(size * 100, number, "i4")
                if int((x + x).sum()) != 2 * number * size * 100:
                    mistakes.append((number, size))
            stream.synchronize()

    work(1, [1])  # compiles
    begin = time.perf_counter()
    threads = [threading.Thread(target=work, args=(i, range(1, 80))) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.perf_counter() - begin, mistakes


def test_threads_compute_at_once(pool, capsys):
    """The time of both pools is printed: most of it is that threads wait for the GIL."""
    own = cupy.cuda.MemoryPool()
    ours, mistakes = rounds_of_threads(tarn.cupy.Allocator())
    theirs, _ = rounds_of_threads(own.malloc)
    own.free_all_blocks()
    with capsys.disabled():
        print(f"\n316 rounds of four threads: Tarn {ours:.2f} s, CuPy's pool {theirs:.2f} s")
    assert not mistakes


def test_pinned_memory_carries_copies(pool):
    cupy.cuda.set_pinned_memory_allocator(tarn.cupy.PinnedAllocator())
    try:
        host = np.arange(COUNT, dtype="f4")
        for _ in range(20):
            x = cupy.asarray(host)
            np.testing.assert_array_equal(cupy.asnumpy(x), host)
    finally:
        own = cupy.get_default_pinned_memory_pool()
        cupy.cuda.set_pinned_memory_allocator(own.malloc)


def test_the_cost_of_a_pair_is_printed(pool, capsys):
    """An allocation and its free, beside CuPy's own pool: the least of batches, in us."""

    def cost(allocate):
        least = 1e9
        for _ in range(50):
            begin = time.perf_counter()
            for _ in range(1000):
                allocate(1 << 20)
            least = min(least, (time.perf_counter() - begin) / 1000)
        return least * 1e6

    own = cupy.cuda.MemoryPool()
    ours, theirs = cost(tarn.cupy.Allocator()), cost(own.malloc)
    own.free_all_blocks()
    with capsys.disabled():
        print(f"\nallocate and free 1 MiB: Tarn {ours:.2f} us, CuPy's pool {theirs:.2f} us")
