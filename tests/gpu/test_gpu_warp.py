"""Warp's arrays on Tarn's pool, with kernels on several streams, on a real driver.

tests/install/test_warp.py has what needs no kernel. README.md says how to bring Warp to the machine.
"""

import gc
import random

import pytest

np = pytest.importorskip("numpy")
wp = pytest.importorskip("warp")

import tarn  # noqa: E402
import tarn.warp  # noqa: E402

pytestmark = pytest.mark.skipif(tarn.driver_info().is_simulator, reason="Warp needs a GPU")
wp.set_module_options({"enable_backward": False})

COUNT = 1 << 20
SLOW = 300_000  # turns of a loop: some milliseconds


@wp.kernel
def slow_copy(source: wp.array(dtype=float), target: wp.array(dtype=float), turns: int):
    i = wp.tid()
    delay = float(0.0)  # noqa: UP018  (a variable of a kernel)
    for turn in range(turns):  # noqa: B007
        delay = delay * 0.5 + 1.0
    if delay > 100.0:  # it never is: the loop has to end before the element is read
        i = 0
    target[i] = source[i]


@wp.kernel
def add(x: wp.array(dtype=float), value: float):
    i = wp.tid()
    x[i] = x[i] + value


@pytest.fixture(scope="module", autouse=True)
def used():
    """Serve Warp for all tests here."""
    assert tarn.use("pool", frameworks="warp") == {"warp": "active"}
    yield
    wp.set_cuda_allocator(None)
    tarn.mr.set_current_device_resource(None)


@pytest.fixture(autouse=True)
def pool(used):
    """Return the pool, in which each test leaves nothing."""
    wp.zeros(1, dtype=float, device="cuda:0")  # the first use makes the pool
    pool = tarn.mr.get_current_device_resource()
    gc.collect()
    before = pool.statistics().live
    yield pool
    gc.collect()
    wp.synchronize()
    assert pool.statistics().live == before


def full(value, count=COUNT):
    return wp.full(count, value, dtype=float, device="cuda:0")


def test_arrays_are_blocks_of_the_pool_and_kernels_use_them(pool):
    before = pool.statistics().live_requested
    x = full(2.0)
    assert pool.statistics().live_requested == before + 4 * COUNT
    wp.launch(add, dim=COUNT, inputs=[x, 1.0], device="cuda:0")
    assert (x.numpy() == 3.0).all()


def test_memory_is_reused_at_once_on_one_stream(pool):
    first = full(1.0)
    address = first.ptr
    del first
    again = full(2.0)
    if not tarn.warp._streams.has_several(wp.get_device("cuda:0")):
        assert again.ptr == address
    assert (again.numpy() == 2.0).all()


def test_an_array_that_another_stream_uses_is_not_reused_before_it_is_done(pool):
    own = wp.get_stream("cuda:0")
    other = wp.Stream("cuda:0")
    source, target = full(7.0), full(0.0)
    other.wait_stream(own)
    wp.launch(slow_copy, dim=COUNT, inputs=[source, target, SLOW], stream=other)
    del source
    gc.collect()
    more = [full(9.0) for _ in range(4)]
    wp.synchronize()
    assert (target.numpy() == 7.0).all()
    assert all((x.numpy() == 9.0).all() for x in more)


@pytest.mark.parametrize("seed", range(4))
def test_random_work_on_several_streams_finds_its_patterns(pool, seed):
    rng = random.Random(seed)
    streams = [wp.get_stream("cuda:0"), *(wp.Stream("cuda:0") for _ in range(3))]
    wrong = 0
    live = []
    for turn in range(1, 300):
        stream = rng.choice(streams)
        with wp.ScopedStream(stream, sync_enter=False):
            count = rng.choice((1000, 50_000, COUNT))
            live.append((full(float(turn), count), float(turn), stream))
            if rng.random() < 0.3:
                array, value, before = rng.choice(live)
                copy = full(0.0, array.size)
                stream.wait_stream(before)
                wp.launch(slow_copy, dim=array.size, inputs=[array, copy, 10_000], stream=stream)
                live.append((copy, value, stream))
        while len(live) > rng.randrange(4, 12):
            array, value, before = live.pop(rng.randrange(len(live)))
            if rng.random() < 0.2:
                wp.synchronize_stream(before)
                wrong += int((array.numpy() != value).sum())
            del array
    wp.synchronize()
    for array, value, _ in live:
        wrong += int((array.numpy() != value).sum())
    del live, array
    assert wrong == 0


def test_a_graph_keeps_the_memory_of_its_arrays(pool):
    x = full(1.0)
    wp.load_module(device="cuda:0")
    with wp.ScopedCapture(device="cuda:0") as capture:
        inside = wp.empty(COUNT, dtype=float, device="cuda:0")
        wp.copy(inside, x)
        wp.launch(add, dim=COUNT, inputs=[inside, 1.0], device="cuda:0")
        wp.copy(x, inside)
        del inside
    for _ in range(5):
        wp.capture_launch(capture.graph)
        assert (full(50.0).numpy() == 50.0).all()  # it may not have the graph's memory
    assert (x.numpy() == 6.0).all()
    del capture


def test_out_of_memory_is_a_runtime_error_and_leaks_nothing(pool):
    limited = tarn.warp.Allocator(tarn.mr.LimitingResourceAdaptor(pool, 1 << 20))
    with wp.ScopedAllocator("cuda:0", limited):
        with pytest.raises(RuntimeError) as caught:
            full(1.0)
        assert isinstance(caught.value, tarn.OutOfMemoryError)
        assert (full(3.0, 1000).numpy() == 3.0).all()


@pytest.mark.skipif(tarn.driver_info().device_count < 2, reason="needs two GPUs")
def test_each_device_has_a_pool_of_its_own():
    arrays = [wp.full(COUNT, 1.0 + i, dtype=float, device=f"cuda:{i}") for i in range(2)]
    pools = [tarn.mr.get_per_device_resource(i) for i in range(2)]
    assert pools[0] is not pools[1]
    for i, array in enumerate(arrays):
        wp.launch(add, dim=COUNT, inputs=[array, 1.0], device=f"cuda:{i}")
        assert (array.numpy() == 2.0 + i).all()
        assert pools[i].statistics().live >= 4 * COUNT
