"""Captures of graphs on streams that Tarn knows, and the memory that a pool keeps for them.

The tests make real captures with the driver's own calls: those of the driver that Tarn has open,
and cuda.bindings and cuda.core if they are installed.
"""

import ctypes
import gc
import importlib.util
import threading
import time

import pytest
import tarn
from driver_support import RELAXED, Driver
from numba_support import fork_code
from tarn.mr import PoolMemoryResource

MIB = 1 << 20


@pytest.fixture
def driver():
    """The driver, with the context of device 0 current."""
    tarn.open_driver()
    driver, before = Driver(), ctypes.c_void_p()
    driver.context = ctypes.c_void_p()
    driver.cuDevicePrimaryCtxRetain(ctypes.byref(driver.context), 0)
    driver.cuCtxGetCurrent(ctypes.byref(before))
    driver.cuCtxSetCurrent(driver.context)
    yield driver
    driver.cuCtxSetCurrent(before)
    driver.cuDevicePrimaryCtxRelease_v2(0)


@pytest.fixture
def pool():
    """A pool with memory for one large block that does not wait for it."""
    return PoolMemoryResource(None, None, 4 * MIB, synchronize_on_oom=False)


@pytest.fixture
def stream():
    with tarn.Stream(flags=1).register() as opened:
        yield opened


def buffer(pool, stream, size=3 * MIB):
    return tarn.DeviceBuffer(size=size, mr=pool, stream=stream)


def has_room(pool, stream):
    try:
        buffer(pool, stream)
    except tarn.OutOfMemoryError:
        return False
    return True


def until(condition):
    """Wait until the driver reports, on a thread of its own, that a graph is gone."""
    for _ in range(20000):
        if condition():
            return
        time.sleep(0.0005)
    raise AssertionError("it never came")


# --- registered streams -----------------------------------------------------------------


class Torch:
    """As torch.cuda.Stream before PyTorch 2.10."""

    def __init__(self, handle):
        self.cuda_stream = handle


class Cupy:
    """As cupy.cuda.Stream before CuPy 14."""

    def __init__(self, handle):
        self.ptr = handle


Cupy.__module__ = "cupy.cuda.stream"


class Protocol:
    def __init__(self, handle):
        self.handle = handle

    def __cuda_stream__(self):
        return (0, self.handle)


@pytest.mark.parametrize("kind", [int, tarn.Stream, Protocol, Torch, Cupy])
def test_a_stream_of_any_kind_is_opened_for_a_while(kind, pool):
    raw = tarn.Stream()
    with tarn.Stream(kind(raw.handle)).register() as opened:
        assert opened.is_registered and opened == raw
        assert tarn.DeviceBuffer.to_device(b"abc", stream=opened, mr=pool).tobytes() == b"abc"
    assert not opened.is_registered and opened == raw
    assert tarn.DeviceBuffer.to_device(b"abc", stream=kind(raw.handle)).tobytes() == b"abc"


def test_what_only_looks_like_a_stream_is_none(pool):
    stranger = Cupy(0)
    for thing in (buffer(pool, 0, 100), Torch("0"), Torch(None), type("Own", (), {"ptr": 0})()):
        with pytest.raises(TypeError, match="is not a stream"):
            tarn.Stream(thing)
    stranger.ptr = 1.5
    with pytest.raises(TypeError, match="is not a stream"):
        tarn.Stream(stranger)


def test_a_buffer_outlives_the_opening_of_its_stream(pool, unraisable):
    with tarn.Stream(flags=1).register() as opened:
        kept = tarn.DeviceBuffer.to_device(b"kept", stream=opened, mr=pool)
        alias = tarn.Stream(opened)
        other = tarn.DeviceBuffer.to_device(b"other", stream=alias, mr=pool)
    assert kept.stream is opened and opened.handle == alias.handle > 2
    assert kept.__cuda_array_interface__["stream"] == opened.handle
    assert kept.tobytes(stream=kept.stream) == b"kept"
    assert other.tobytes(stream=alias) == b"other"
    del kept, other
    gc.collect()
    assert unraisable == [] and pool.statistics().live_blocks == 0


def test_a_buffer_grows_and_is_copied_after_its_stream_was_closed(pool):
    with tarn.Stream(flags=1).register() as opened:
        one = tarn.DeviceBuffer.to_device(b"abc", stream=opened, mr=pool)
    one.resize(MIB, stream=opened)
    two = one.copy()
    opened.synchronize()
    assert two.tobytes()[:3] == b"abc"
    assert len(one.__reduce__()[1][0]) == MIB


def test_closing_is_for_opened_streams_and_may_be_done_again(pool):
    raw = tarn.Stream()
    with pytest.raises(tarn.InvalidArgumentError, match="not a registered stream"):
        raw.unregister()
    with pytest.raises(tarn.InvalidArgumentError, match="not a registered stream"):
        tarn.DEFAULT_STREAM.unregister()
    with pytest.raises(tarn.InvalidArgumentError, match="not a registered stream"), raw:
        pass
    opened = raw.register()
    with pytest.raises(tarn.InvalidArgumentError, match="not a registered stream"):
        tarn.Stream(opened).unregister()
    opened.unregister()
    opened.unregister()
    with pytest.raises(tarn.InvalidArgumentError, match="not a registered stream"):
        opened.announce_capture(True)
    with pytest.raises(tarn.InvalidArgumentError, match="not a registered stream"), opened:
        pass
    raw.synchronize()
    with opened.register() as again:  # it is the stream for which it was registered
        assert again.is_registered and again == raw


def test_a_stream_that_is_opened_twice_is_closed_twice(pool):
    raw = tarn.Stream(flags=1)
    with raw.register() as one:
        with raw.register() as two:
            kept = buffer(pool, two)
        assert one.is_registered and not two.is_registered
        del kept
        assert has_room(pool, one)


def test_what_was_raised_within_comes_through():
    with pytest.raises(ZeroDivisionError), tarn.Stream().register() as opened:
        1 // 0
    assert not opened.is_registered


def test_closing_tells_others_what_was_freed(pool):
    other = tarn.Stream(flags=1)
    with tarn.Stream(flags=1).register() as opened:
        buffer(pool, opened)
        opened.synchronize()
    assert has_room(pool, other)


# --- announcements ----------------------------------------------------------------------


def hits(pool, stream):
    """Return whether the pool allocates without a query about the stream."""
    before = pool.statistics().cache_hits
    for _ in range(10):
        buffer(pool, stream, 4096)
    return pool.statistics().cache_hits - before


def test_a_stream_that_is_announced_is_asked_at_every_call(pool, stream):
    assert hits(pool, stream) > 0
    with stream.capturing() as announced:
        assert announced is stream
        assert hits(pool, stream) == 0
        with stream.capturing():
            pass
        assert hits(pool, stream) == 0
    assert hits(pool, stream) > 0
    with stream.capturing():
        assert hits(pool, stream) == 0


def test_a_capture_is_announced_on_opened_streams_alone(stream):
    for thing in (tarn.Stream(), tarn.DEFAULT_STREAM):
        with pytest.raises(tarn.InvalidArgumentError, match="not a registered"), thing.capturing():
            pass
    with stream.capturing():
        stream.unregister()
    with pytest.raises(tarn.InvalidArgumentError, match="not a registered"), stream.capturing():
        pass


def test_an_announcement_counts_for_every_opening_of_the_stream(driver, pool):
    raw = tarn.Stream(flags=1)
    with raw.register() as one, raw.register() as two:
        assert hits(pool, two) > 0
        with one.capturing():
            assert hits(pool, two) == 0
            with raw.register() as later:
                assert hits(pool, later) == 0
            with two.capturing():
                pass
            assert hits(pool, two) == 0
        assert hits(pool, two) > 0


def test_the_end_is_not_announced_while_the_stream_captures(driver, pool, stream):
    with pytest.raises(tarn.TarnError, match="still capturing"), stream.capturing():
        driver.begin(stream)
    assert hits(pool, stream) == 0
    with pytest.raises(tarn.TarnError, match="still capturing"):
        stream.announce_capture(False)
    driver.cuGraphDestroy(driver.end(stream))
    stream.announce_capture(False)
    assert hits(pool, stream) > 0


def test_what_went_wrong_in_a_capture_is_what_is_raised(driver, pool, stream):
    with pytest.raises(ZeroDivisionError), stream.capturing():
        driver.begin(stream)
        1 // 0
    assert hits(pool, stream) == 0
    driver.cuGraphDestroy(driver.end(stream))
    with stream.capturing():
        pass
    assert hits(pool, stream) > 0


def test_events_of_a_pool_leave_an_announced_capture_alone(driver, stream):
    pool = PoolMemoryResource(no_stream="event", no_stream_limit=4 * MIB)
    with stream.capturing():
        driver.begin(stream)
        for _ in range(40):
            buffer(pool, tarn.NO_STREAM, MIB)
        driver.cuGraphDestroy(driver.end(stream))
    assert pool.statistics().events_recorded == 0 < pool.statistics().device_synchronizations


# --- memory of graphs -------------------------------------------------------------------


def captured(driver, pool, stream, value=7):
    """A graph that fills a block of the pool, and the memory that the pool keeps for it."""
    with stream.capturing():
        driver.begin(stream)
        block = buffer(pool, stream)
        driver.fill(block, value, stream)
        memory = pool.get_capture(stream)
        assert memory.statistics().live_blocks == 1
        del block
        return driver.end(stream), memory


def test_memory_of_a_graph_is_its_own_until_it_is_released(driver, pool, stream):
    graph, memory = captured(driver, pool, stream)
    assert memory.pool is pool and not memory.is_released
    assert memory.statistics() == (3 * MIB, 0, 0, 1, False)
    assert memory.statistics().retained == pool.statistics().captured
    assert "3145728 bytes retained" in repr(memory)
    assert not has_room(pool, stream)
    runnable = driver.instantiate(graph)
    for _ in range(2):
        driver.launch(runnable, stream)
    memory.release(stream)
    assert memory.is_released and "released" in repr(memory)
    assert memory.statistics() == (0, 0, 0, 0, True)
    assert has_room(pool, stream)
    memory.release(stream)
    driver.cuGraphExecDestroy(runnable)
    driver.cuGraphDestroy(graph)


def test_memory_of_a_graph_comes_back_with_the_end_of_the_graph(driver, pool, stream):
    graph, memory = captured(driver, pool, stream)
    runnable = driver.instantiate(graph)
    driver.cuGraphDestroy(graph)
    stream.synchronize()
    assert not memory.statistics().has_ended and not has_room(pool, stream)
    driver.cuGraphExecDestroy(runnable)
    until(lambda: memory.statistics().has_ended)
    assert memory.statistics() == (0, 0, 0, 0, True) and not memory.is_released
    assert has_room(pool, stream)
    memory.release(stream)


def test_an_object_that_goes_says_nothing_about_the_graph(driver, pool, stream, unraisable):
    graph, memory = captured(driver, pool, stream)
    again = memory
    del memory, again
    gc.collect()
    assert not has_room(pool, stream) and pool.statistics().captured == 3 * MIB
    driver.cuGraphDestroy(graph)
    until(lambda: has_room(pool, stream))
    assert pool.statistics().captured == 0 and unraisable == []


def test_the_last_release_of_several_counts(driver, pool, stream):
    with stream.capturing():
        driver.begin(stream)
        one = pool.get_capture(stream)
        buffer(pool, stream)
        two = pool.get_capture(tarn.Stream(stream.handle))
        graph = driver.end(stream)
    one.release(stream)
    assert one.is_released and two.statistics().retained == 3 * MIB
    assert not has_room(pool, stream)
    two.release(stream)
    assert has_room(pool, stream)
    driver.cuGraphDestroy(graph)


def test_streams_that_join_a_capture_are_of_it(driver, pool, stream):
    with stream.capturing(), tarn.Stream(flags=1).register() as other, other.capturing():
        join, back = ctypes.c_void_p(), ctypes.c_void_p()
        driver.cuEventCreate(ctypes.byref(join), 2)
        driver.cuEventCreate(ctypes.byref(back), 2)
        driver.begin(stream, RELAXED)
        driver.cuEventRecord(join, ctypes.c_void_p(stream.handle))
        driver.cuStreamWaitEvent(ctypes.c_void_p(other.handle), join, 0)
        first, second = buffer(pool, stream, MIB), buffer(pool, other, MIB)
        memory = pool.get_capture(other)
        driver.fill(second, 1, other)
        with pytest.raises(tarn.TarnError, match="still capturing"):
            other.announce_capture(False)
        driver.cuEventRecord(back, ctypes.c_void_p(other.handle))
        driver.cuStreamWaitEvent(ctypes.c_void_p(stream.handle), back, 0)
        graph = driver.end(stream)
    assert memory.statistics() == (0, 2 * MIB, 2, 2, False)
    del first
    assert memory.statistics() == (MIB, MIB, 1, 2, False)
    memory.release(stream)
    assert pool.statistics().captured == 0 and pool.statistics().live_blocks == 1
    del second
    for event in (join, back):
        driver.cuEventDestroy_v2(event)
    driver.cuGraphDestroy(graph)


def test_what_does_not_capture_has_no_memory_of_a_graph(pool, stream):
    for thing in (stream, stream.handle, tarn.DEFAULT_STREAM, tarn.NO_STREAM):
        with pytest.raises(tarn.TarnError, match="is not capturing"):
            pool.get_capture(thing)
    for thing in (None, "stream", 1.5):
        with pytest.raises(TypeError):
            pool.get_capture(thing)
    with pytest.raises(TypeError):
        pool.get_capture()


def test_what_is_no_pool_keeps_nothing_for_graphs(driver, stream):
    cuda = tarn.mr.CudaMemoryResource()
    driver.begin(stream)
    with pytest.raises(tarn.InvalidArgumentError):
        tarn.mr.PoolCapture(cuda, stream)
    with pytest.raises(TypeError):
        tarn.mr.PoolCapture(7, stream)
    with pytest.raises(TypeError):
        tarn._tarn.GraphMemory()
    with pytest.raises(TypeError):
        tarn._tarn.Announcement()
    driver.cuGraphDestroy(driver.end(stream))


def test_a_release_that_is_refused_changes_nothing(driver, pool, stream):
    graph, memory = captured(driver, pool, stream)
    with tarn.Stream(flags=1).register() as closed:
        value = tarn.Stream(closed)
    driver.begin(stream)
    for thing, error in [
        (stream, tarn.InvalidArgumentError),
        (None, TypeError),
        ("stream", TypeError),
        (7, tarn.InvalidArgumentError),
    ]:
        with pytest.raises(error):
            memory.release(thing)
        assert not memory.is_released and memory.statistics().retained == 3 * MIB
    driver.cuGraphDestroy(driver.end(stream))
    memory.release(value)
    assert memory.is_released
    driver.cuGraphDestroy(graph)


@pytest.mark.skipif(tarn.driver_info().device_count < 2, reason="one device")
def test_memory_of_a_graph_is_released_on_its_own_device(driver, pool, stream):
    graph, memory = captured(driver, pool, stream)
    other = PoolMemoryResource(device=1)
    context, before = ctypes.c_void_p(), ctypes.c_void_p()
    driver.cuCtxGetCurrent(ctypes.byref(before))
    driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 1)
    driver.cuCtxSetCurrent(context)
    elsewhere = tarn.Stream()
    driver.cuCtxSetCurrent(before)
    for thing in (elsewhere, elsewhere.register() if tarn.current_device() else elsewhere):
        with pytest.raises(tarn.InvalidArgumentError):
            memory.release(thing)
    with pytest.raises(tarn.InvalidArgumentError):
        other.get_capture(stream)
    memory.release(stream)
    driver.cuGraphDestroy(graph)
    del elsewhere, thing
    driver.cuDevicePrimaryCtxRelease_v2(1)


# --- failing captures -------------------------------------------------------------------


def test_a_lost_capture_gives_its_memory_back(driver, stream):
    pool = PoolMemoryResource(None, None, 4 * MIB)
    number = ctypes.c_ulonglong()
    with stream.capturing():
        driver.begin(stream)
        block = buffer(pool, stream)
        memory = pool.get_capture(stream)
        # A query of its id ends it.
        assert driver.library.cuStreamGetId(ctypes.c_void_p(stream.handle), ctypes.byref(number))
        with pytest.raises(tarn.TarnError, match="is not capturing, its capture was invalidated"):
            pool.get_capture(stream)
        del block
        driver.lose(stream)
    until(lambda: memory.statistics().has_ended)
    assert pool.statistics().captured == 0 and has_room(pool, stream)
    memory.release(stream)


def test_a_stream_that_is_closed_while_it_captures_goes_on_capturing(driver, pool):
    opened = tarn.Stream(flags=1).register()
    with opened.capturing():
        driver.begin(opened)
        block = buffer(pool, opened)
        opened.unregister()
        driver.fill(block, 1, opened)
        memory = pool.get_capture(opened)
        del block
        assert memory.statistics().retained == 3 * MIB
        graph = driver.end(opened)
    assert not has_room(pool, opened)
    memory.release(opened)
    assert has_room(pool, opened)
    driver.cuGraphDestroy(graph)


def test_a_stream_that_goes_while_it_captures_takes_nothing_along(driver, pool, unraisable):
    raw = ctypes.c_void_p()
    driver.cuStreamCreate(ctypes.byref(raw), 1)
    opened = tarn.Stream(raw.value).register()
    opened.announce_capture(True)
    driver.begin(opened)
    memory = (buffer(pool, opened), pool.get_capture(opened))[1]
    graph = driver.end(opened)
    del opened
    gc.collect()
    driver.cuStreamDestroy_v2(raw)
    assert memory.statistics() == (3 * MIB, 0, 0, 1, False)
    other = tarn.Stream(flags=1)
    memory.release(other)
    assert has_room(pool, other) and unraisable == []
    driver.cuGraphDestroy(graph)


def test_a_block_of_a_graph_outlives_the_graph(driver, pool, stream, unraisable):
    with stream.capturing():
        driver.begin(stream)
        block = buffer(pool, stream)
        memory = pool.get_capture(stream)
        graph = driver.end(stream)
    assert memory.statistics() == (0, 3 * MIB, 1, 1, False)
    memory.release(stream)
    driver.cuGraphDestroy(graph)
    assert block.size == 3 * MIB and not has_room(pool, stream)
    del block
    assert has_room(pool, stream) and unraisable == []


def test_memory_of_a_graph_keeps_its_pool_and_returns_it_at_its_end(driver, stream, unraisable):
    upstream = tarn.mr.StatisticsResourceAdaptor(tarn.mr.CudaMemoryResource())
    graph, memory = captured(driver, PoolMemoryResource(upstream), stream)
    gc.collect()
    assert memory.statistics().retained == 3 * MIB == memory.pool.statistics().captured
    cycle = [memory]
    cycle.append(cycle)
    del memory, cycle
    gc.collect()
    assert upstream.allocation_counts.current_bytes == 0
    driver.cuGraphDestroy(graph)
    assert unraisable == []


def test_hundreds_of_graphs_leave_nothing(driver, stream):
    pool = PoolMemoryResource(None, None, 4 * MIB)
    seen = []
    for turn in range(300):
        graph, memory = captured(driver, pool, stream)
        driver.cuGraphDestroy(graph)
        if turn % 2:
            memory.release(stream)
        else:
            until(lambda memory=memory: memory.statistics().has_ended)
        seen.append(pool.statistics())
    for name in "captured", "live_blocks", "reserved", "streams", "metadata":
        assert getattr(seen[-1], name) == getattr(seen[9], name)


def test_of_threads_that_release_at_once_one_does(driver, stream, unraisable):
    for _ in range(20):
        pool = PoolMemoryResource()
        graph, memory = captured(driver, pool, stream)
        ready = threading.Barrier(4)

        def release(memory=memory, ready=ready):
            ready.wait()
            memory.release(stream)
            memory.statistics()

        threads = [threading.Thread(target=release) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert memory.is_released and pool.statistics().captured == 0
        driver.cuGraphDestroy(graph)
    assert unraisable == []


def test_threads_capture_side_by_side(driver):
    pool, failed = PoolMemoryResource(), []

    def work(number):
        try:
            driver.cuCtxSetCurrent(driver.context)
            with tarn.Stream(flags=1).register() as mine:
                for turn in range(20):
                    value = number * 32 + turn
                    with mine.capturing():
                        driver.begin(mine, RELAXED)
                        block = buffer(pool, mine, 4096)
                        driver.fill(block, value, mine)
                        memory = pool.get_capture(mine)
                        graph = driver.end(mine)
                    runnable = driver.instantiate(graph)
                    driver.launch(runnable, mine)
                    mine.synchronize()
                    target = bytearray(4096)
                    block.copy_to_host(target, stream=mine)
                    mine.synchronize()
                    assert target == bytes([value]) * 4096
                    driver.cuGraphExecDestroy(runnable)
                    driver.cuGraphDestroy(graph)
                    del block
                    memory.release(mine)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert (pool.statistics().live_blocks, pool.statistics().captured) == (0, 0)


def test_a_capture_that_is_abandoned_gives_its_memory_back(driver, pool, unraisable):
    stream = tarn.Stream(flags=1)
    driver.begin(stream)
    memory = (buffer(pool, stream), pool.get_capture(stream))[1]
    del stream  # destroyed while it captures
    gc.collect()
    until(lambda: memory.statistics().has_ended)
    memory.release()
    assert has_room(pool, tarn.Stream(flags=1)) and unraisable == []


def test_a_stream_is_closed_by_a_callback_of_its_own_allocation(pool, unraisable):
    stream = tarn.Stream(flags=1).register()
    kept = [buffer(pool, stream)]

    def give_up(nbytes, attempt):
        stream.unregister()
        return bool(kept and kept.pop())

    pool.add_oom_callback(give_up)
    block = buffer(pool, stream)
    assert not stream.is_registered and block.size == 3 * MIB
    del block
    assert pool.statistics().live_blocks == 0 and unraisable == []


def test_a_stream_that_is_closed_while_others_use_it_is_closed_and_no_more(unraisable):
    """That is not allowed. The call may fail, but no memory is lost."""
    pool = PoolMemoryResource()
    for _ in range(20):
        stream, failed = tarn.Stream(flags=1).register(), []
        ready = threading.Barrier(4)

        def work(stream=stream, failed=failed, ready=ready):
            ready.wait()
            for _ in range(20):
                try:
                    buffer(pool, stream, 4096)
                except tarn.InvalidArgumentError:
                    continue
                except BaseException as error:
                    failed.append(error)

        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        ready.wait()
        stream.unregister()
        for thread in threads:
            thread.join()
        assert failed == []
    assert pool.statistics().live_blocks == 0 and unraisable == []


@pytest.mark.parametrize(
    "upstream",
    [
        tarn.mr.CudaMemoryResource,
        tarn.mr.CudaAsyncMemoryResource,
        tarn.mr.PinnedHostMemoryResource,
        tarn.mr.ManagedMemoryResource,
    ],
)
def test_pools_and_slabs_on_any_upstream_grow_in_a_capture(driver, stream, upstream):
    for pool in (
        PoolMemoryResource(upstream()),
        tarn.mr.FixedSizeMemoryResource(upstream(), 4 * MIB, 1),
    ):
        graph, memory = captured(driver, pool, stream)
        assert memory.statistics().retained >= 3 * MIB
        runnable = driver.instantiate(graph)
        driver.launch(runnable, stream)
        memory.release(stream)
        assert pool.statistics().captured == 0
        driver.cuGraphExecDestroy(runnable)
        driver.cuGraphDestroy(graph)


def test_memory_of_a_graph_is_let_go_while_the_pool_sleeps(driver, stream):
    pool = PoolMemoryResource()
    graph, memory = captured(driver, pool, stream)
    pool.suspend()
    assert memory.statistics().retained == 3 * MIB
    memory.release(stream)
    assert pool.statistics().captured == 0
    pool.resume()
    assert has_room(pool, stream)
    driver.cuGraphDestroy(graph)


def test_what_goes_in_the_middle_of_an_allocation_harms_nothing(driver, stream, unraisable):
    class Collecting(tarn.mr.UpstreamResourceAdaptor):
        def allocate(self, nbytes, stream=tarn.DEFAULT_STREAM):
            gc.collect()
            return super().allocate(nbytes, stream)

        def deallocate(self, ptr, nbytes, stream=tarn.DEFAULT_STREAM):
            gc.collect()
            super().deallocate(ptr, nbytes, stream)

    pool = PoolMemoryResource(Collecting(tarn.mr.CudaMemoryResource()))
    gc.disable()
    try:
        for turn in range(5):
            graph, memory = captured(driver, pool, stream)
            opened = tarn.Stream(flags=1).register()
            opened.announce_capture(True)
            cycle = [memory, opened]
            cycle.append(cycle)
            del memory, opened, cycle
            driver.cuGraphDestroy(graph)
            buffer(pool, stream, (turn + 4) * MIB)
            pool.trim()
    finally:
        gc.enable()
    assert unraisable == []


# --- processes --------------------------------------------------------------------------

KEPT = """
import ctypes, os, tarn
tarn.open_driver()
cuda = ctypes.CDLL(tarn.driver_info().path)
pool = tarn.mr.PoolMemoryResource()
raw, context = ctypes.c_void_p(), ctypes.c_void_p()
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert cuda.cuCtxSetCurrent(context) == 0
assert cuda.cuStreamCreate(ctypes.byref(raw), 1) == 0
stream = tarn.Stream(raw.value).register()
stream.announce_capture(True)
assert cuda.cuStreamBeginCapture_v2(ctypes.c_void_p(stream.handle), 0) == 0
tarn.DeviceBuffer(size=1 << 20, mr=pool, stream=stream)
memory, other = pool.get_capture(stream), pool.get_capture(stream)
graph = ctypes.c_void_p()
"""
END = """
assert cuda.cuStreamEndCapture(ctypes.c_void_p(stream.handle), ctypes.byref(graph)) == 0
stream.announce_capture(False)
"""


@pytest.mark.parametrize("ends", [END, ""])
def test_a_program_may_end_with_all_of_it(ends, sim_process):
    assert sim_process(KEPT + ends + "print(memory.statistics().retained)") == str(MIB)


def test_a_forked_child_may_let_all_of_it_go(sim_process):
    code = (
        KEPT
        + END
        + """
child = os.fork()
if child == 0:
    assert memory.statistics().retained == 1 << 20
    memory.release(stream)
    del other
    stream.unregister()
    del pool, memory, stream
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
assert memory.statistics() == (1 << 20, 0, 0, 1, False)
memory.release(stream)
other.release(stream)
print(pool.statistics().captured)
"""
    )
    assert sim_process(code) == "0"


def test_after_a_reset_of_the_device_all_of_it_goes(sim_process):
    code = (
        KEPT
        + END
        + """
assert cuda.cuDevicePrimaryCtxReset_v2(0) == 0
memory.release(stream)
assert memory.is_released
del other
stream.unregister()
del memory, pool, stream
print("gone")
"""
    )
    assert sim_process(code) == "gone"


HAS_CORE = importlib.util.find_spec("cuda") and importlib.util.find_spec("cuda.core")


@pytest.mark.skipif(not HAS_CORE, reason="cuda.core is not installed")
def test_a_graph_builder_of_cuda_core_captures_on_a_pool():
    fork_code("""
from cuda.core import Device
import tarn

pool = tarn.mr.PoolMemoryResource(None, None, 4 << 20, synchronize_on_oom=False)
device = Device(0)
device.set_current()
stream = device.create_stream()
builder = stream.create_graph_builder()
with tarn.Stream(stream).register() as opened, opened.capturing():
    builder.begin_building()
    buffer = tarn.DeviceBuffer(size=3 << 20, mr=pool, stream=builder)
    memory = pool.get_capture(builder)
    assert memory.statistics() == (0, 3 << 20, 1, 1, False)
    del buffer
    graph = builder.end_building().complete()
assert memory.statistics() == (3 << 20, 0, 0, 1, False)
graph.launch(stream)
memory.release(stream)
assert pool.statistics().captured == 0
stream.sync()
graph.close()
""")


@pytest.mark.skipif(not HAS_CORE, reason="cuda.bindings is not installed")
def test_the_bare_bindings_capture_on_a_pool():
    fork_code("""
from cuda.bindings import driver
import tarn

def good(answer):
    code, *values = answer
    assert code == driver.CUresult.CUDA_SUCCESS, code
    return values[0] if len(values) == 1 else values

pool = tarn.mr.PoolMemoryResource()
good(driver.cuInit(0))
good(driver.cuCtxSetCurrent(good(driver.cuDevicePrimaryCtxRetain(0))))
raw = good(driver.cuStreamCreate(1))
mode = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
with tarn.Stream(int(raw)).register() as stream, stream.capturing():
    good(driver.cuStreamBeginCapture(raw, mode))
    buffer = tarn.DeviceBuffer(size=4096, mr=pool, stream=stream)
    good(driver.cuMemsetD8Async(buffer.ptr, 9, 4096, raw))
    memory = pool.get_capture(stream)
    graph = good(driver.cuStreamEndCapture(raw))
runnable = good(driver.cuGraphInstantiate(graph, 0))
good(driver.cuGraphLaunch(runnable, raw))
good(driver.cuStreamSynchronize(raw))
assert buffer.tobytes() == b"\\t" * 4096
del buffer
memory.release(int(raw))
good(driver.cuGraphExecDestroy(runnable))
good(driver.cuGraphDestroy(graph))
good(driver.cuStreamDestroy(raw))
""")


HAS_NUMBA = importlib.util.find_spec("numba_cuda")


@pytest.mark.skipif(not HAS_NUMBA, reason="numba-cuda is not installed")
def test_a_stream_of_numba_captures_on_a_pool():
    fork_code("""
import ctypes
from numba import cuda
import tarn

pool = tarn.mr.PoolMemoryResource()
stream = cuda.stream()
driver = ctypes.CDLL(tarn.driver_info().path)
graph = ctypes.c_void_p()
with tarn.Stream(stream).register() as opened, opened.capturing():
    handle = ctypes.c_void_p(opened.handle)
    assert driver.cuStreamBeginCapture_v2(handle, 2) == 0
    buffer = tarn.DeviceBuffer(size=4096, mr=pool, stream=stream)
    array = cuda.as_cuda_array(buffer, sync=False)
    array.copy_to_device(cuda.pinned_array(4096, "u1"), stream=stream)
    memory = pool.get_capture(stream)
    assert memory.statistics().live_blocks == 1
    del array, buffer
    assert driver.cuStreamEndCapture(handle, ctypes.byref(graph)) == 0
assert memory.statistics().retained == 4096
memory.release(stream)
assert driver.cuGraphDestroy(graph) == 0
""")
