"""Pools from Python: PoolMemoryResource, FixedSizeMemoryResource, BinningMemoryResource."""

import ctypes
import gc
import os
import pickle
import threading

import pytest
import tarn
from tarn.mr import BinningMemoryResource, FixedSizeMemoryResource, PoolMemoryResource

MIB = 1 << 20


def buffer(mr, size=MIB, **more):
    return tarn.DeviceBuffer(size=size, mr=mr, **more)


@pytest.fixture(params=["device", "cuda", "pinned"])
def pool(request):
    upstream = {
        "device": lambda: None,
        "cuda": tarn.mr.CudaMemoryResource,
        "pinned": tarn.mr.PinnedHostMemoryResource,
    }[request.param]
    return PoolMemoryResource(upstream())


def test_a_pool_hands_out_memory_that_keeps_what_is_copied_there(pool):
    data = bytes(range(256)) * 100
    assert tarn.DeviceBuffer.to_device(data, mr=pool).tobytes() == data
    stream = tarn.Stream().register()
    assert tarn.DeviceBuffer.to_device(data, mr=pool, stream=stream).tobytes() == data


def test_a_pool_says_what_it_is(pool):
    assert pool.device == 0
    assert repr(pool) == "<tarn.mr.PoolMemoryResource of device 0>"
    assert isinstance(pool, tarn.mr.UpstreamResourceAdaptor)
    assert pool.upstream_mr is pool.get_upstream()


def test_a_pool_counts_what_it_does(pool):
    kept = buffer(pool, 1000)
    for _ in range(10):
        buffer(pool)
    found = pool.statistics()
    assert found.allocations == 11 and found.frees == 10 and found.failures == 0
    assert found.live_blocks == 1 and found.live_requested == 1000 and found.live >= 1000
    assert found.maximum is None
    assert sum(found.size_classes.values()) == 11 and found.size_classes[MIB] == 10
    assert found.live + found.thread_cached + found.cached == found.reserved == pool.pool_size()
    assert 0 <= found.fragmentation <= 1
    assert found.cache_hits + found.same_stream + found.completed + found.steals + found.grown == 11
    del kept
    assert pool.statistics().live_blocks == 0


def test_what_is_freed_is_handed_out_again(pool):
    first = buffer(pool)
    address = first.ptr
    del first
    assert buffer(pool).ptr == address


def test_initial_and_maximum_are_bytes_or_words():
    pool = PoolMemoryResource(None, "4MiB", 8 * MIB)
    assert pool.pool_size() >= 4 * MIB and pool.maximum_pool_size == 8 * MIB
    kept = buffer(pool, 6 * MIB)
    with pytest.raises(tarn.OutOfMemoryError):
        buffer(pool, 6 * MIB)
    del kept
    buffer(pool, 6 * MIB)
    with pytest.raises(tarn.InvalidArgumentError):
        PoolMemoryResource(None, "4MiB", "2MiB")
    with pytest.raises(ValueError, match="Could not parse .* as a number of bytes"):
        PoolMemoryResource(None, "some")


@pytest.mark.parametrize("size", [10**9, "1GB", 5 * MIB])
def test_a_pool_has_all_of_its_maximum_from_the_start(size):
    pool = PoolMemoryResource(None, size, size)
    assert pool.maximum_pool_size - 2 * MIB < pool.pool_size() <= pool.maximum_pool_size


def test_a_pool_grows_by_at_least_what_it_was_told():
    pool = PoolMemoryResource(growth="48MiB")
    buffer(pool)
    assert pool.pool_size() == 48 * MIB
    assert pool.statistics().grown == 1


def test_a_pool_gives_back_what_is_over_its_threshold():
    pool = PoolMemoryResource(growth=2 * MIB, release_threshold="16MiB")
    kept = [buffer(pool, 4 * MIB) for _ in range(16)]
    assert pool.pool_size() == 64 * MIB
    kept.clear()
    for _ in range(100):  # an event fence has to cover the free memory, and to be completed
        tarn.synchronize()
        buffer(pool, MIB)
    assert pool.pool_size() <= 16 * MIB


def test_a_pool_waits_for_the_device_before_it_fails_unless_told_not_to():
    def ask_on_another_stream(**options):
        pool = PoolMemoryResource(None, None, 2 * MIB, **options)
        stream = tarn.Stream(flags=1)
        buffer(pool, 2 * MIB, stream=stream)  # and back, without a fence
        buffer(pool, 2 * MIB)
        return pool.statistics().device_synchronizations

    assert ask_on_another_stream() == 1
    with pytest.raises(tarn.OutOfMemoryError):
        ask_on_another_stream(synchronize_on_oom=False)


def test_the_options_of_a_pool_are_taken_by_their_names_alone():
    pool = PoolMemoryResource(
        grow_first=True, resume_on_use=True, no_stream="event", no_stream_limit=0
    )
    buffer(pool)
    with pytest.raises(TypeError):
        PoolMemoryResource(None, None, None, 0)
    buffer(PoolMemoryResource(policy="tight"))
    buffer(PoolMemoryResource(background_thread=True))
    with pytest.raises(ValueError, match="policy has to be 'default' or 'tight'"):
        PoolMemoryResource(policy="small")
    buffer(PoolMemoryResource(moves="never"))
    with pytest.raises(ValueError, match="moves has to be 'default' or 'never'"):
        PoolMemoryResource(moves="seldom")
    with pytest.raises(tarn.InvalidArgumentError, match="release_threshold_bytes 1048576"):
        PoolMemoryResource(moves="never", release_threshold="1 MiB")
    with pytest.raises(TypeError, match="grow_frist"):
        PoolMemoryResource(grow_frist=True)
    for size in -1, "-1MiB", "1 MiB more":
        with pytest.raises((ValueError, OverflowError)):
            PoolMemoryResource(growth=size)


def test_other_devices_use_a_pool_where_they_may():
    pool = PoolMemoryResource()
    with pytest.raises(tarn.InvalidArgumentError, match="owns the pool"):
        pool.set_peer_access(0)
    with pytest.raises(tarn.InvalidArgumentError):
        pool.set_peer_access(99)
    with pytest.raises(tarn.InvalidArgumentError):
        pool.set_peer_access(-1, False)
    if tarn.driver_info().device_count > 1:
        pool.set_peer_access(1)
        pool.set_peer_access(1, access=False)
        with pytest.raises(tarn.NotSupportedError):
            PoolMemoryResource(tarn.mr.CudaMemoryResource()).set_peer_access(1)


def test_the_limit_changes_while_the_pool_lives(pool):
    kept = buffer(pool, 4 * MIB)
    with pytest.raises(tarn.InvalidArgumentError):
        pool.maximum_pool_size = MIB
    pool.maximum_pool_size = "64MiB"
    assert pool.maximum_pool_size == 64 * MIB
    with pytest.raises(tarn.OutOfMemoryError):
        buffer(pool, 100 * MIB)
    pool.maximum_pool_size = None
    assert pool.maximum_pool_size is None
    buffer(pool, 100 * MIB)
    del kept


def test_trim_gives_back_what_is_free(pool):
    buffer(pool, 64 * MIB)
    tarn.synchronize()
    assert pool.trim() >= 64 * MIB
    assert pool.pool_size() == 0
    assert pool.trim() == 0


def test_a_snapshot_has_every_block(pool):
    kept = [buffer(pool, size) for size in (100, MIB, 5000)]
    blocks = pool.snapshot()
    live = {block.address: block for block in blocks if block.state == "live"}
    assert sorted(live) == sorted(one.ptr for one in kept)
    assert sorted(block.requested_bytes for block in live.values()) == [100, 5000, MIB]
    assert blocks == sorted(blocks, key=lambda block: block.address)
    for before, after in zip(blocks, blocks[1:], strict=False):
        assert before.address + before.bytes <= after.address
        assert before.segment <= before.address
    del kept


def test_a_dumped_snapshot_is_one_of_pytorch_with_all_blocks(pool, tmp_path):
    kept = [buffer(pool, size) for size in (100, MIB, 5000)]
    del kept[1]
    path = tmp_path / "pool.pickle"
    pool.dump_snapshot(path)
    raw = path.read_bytes()
    assert raw[1] <= 4  # the protocol
    told = pickle.loads(raw)
    assert told["device_traces"] == [[]]
    live = {}
    for segment in told["segments"]:
        at = segment["address"]
        for block in segment["blocks"]:
            assert block["address"] == at
            at += block["size"]
            if block["state"] == "active_allocated":
                live[block["address"]] = block["requested_size"]
        assert at == segment["address"] + segment["total_size"]
    assert live == {kept[0].ptr: 100, kept[1].ptr: 5000}
    assert sum(segment["total_size"] for segment in told["segments"]) == pool.pool_size()
    with pytest.raises(OSError, match="No such file"):
        pool.dump_snapshot(tmp_path / "none" / "x")


def test_the_report_says_why_memory_is_out():
    pool = PoolMemoryResource(None, None, 8 * MIB)
    kept = buffer(pool, 4 * MIB)
    with pytest.raises(tarn.OutOfMemoryError):
        buffer(pool, 16 * MIB)
    report = tarn.mr.last_oom_report()
    assert report.requested == 16 * MIB and report.maximum == 8 * MIB
    assert report.live == 4 * MIB and report.attempts == 0
    assert report.fragmentation == pool.statistics().fragmentation
    assert str(16 * MIB) in report.text or "16" in report.text
    seen = []
    thread = threading.Thread(target=lambda: seen.append(tarn.mr.last_oom_report()))
    thread.start()
    thread.join()
    assert seen == [None]
    del kept


def test_a_callback_is_asked_before_memory_is_out():
    pool = PoolMemoryResource(None, None, 8 * MIB)
    kept = [buffer(pool, 6 * MIB)]
    asked = []

    def free_some(nbytes, attempt):
        asked.append((nbytes, attempt))
        return bool(kept and kept.pop())

    pool.add_oom_callback(free_some)
    buffer(pool, 4 * MIB)
    assert asked == [(4 * MIB, 0)] and kept == []
    with pytest.raises(tarn.OutOfMemoryError):
        buffer(pool, 16 * MIB)
    pool.remove_oom_callback(free_some)
    count = len(asked)
    with pytest.raises(tarn.OutOfMemoryError):
        buffer(pool, 16 * MIB)
    assert len(asked) == count
    with pytest.raises(ValueError):
        pool.remove_oom_callback(free_some)
    with pytest.raises(TypeError):
        pool.add_oom_callback(7)


def test_what_a_callback_raises_is_told_and_memory_is_out(unraisable):
    pool = PoolMemoryResource(None, None, 8 * MIB)
    pool.add_oom_callback(lambda nbytes, attempt: 1 // 0)
    with pytest.raises(tarn.OutOfMemoryError):
        buffer(pool, 16 * MIB)
    assert [type(one) for one in unraisable] == [ZeroDivisionError]


def test_a_callback_that_promises_for_ever_is_asked_sixteen_times():
    pool = PoolMemoryResource(None, None, 8 * MIB)
    asked = []
    pool.add_oom_callback(lambda nbytes, attempt: asked.append(attempt) or True)
    for _ in range(2):
        asked.clear()
        with pytest.raises(tarn.OutOfMemoryError):
            buffer(pool, 16 * MIB)
        assert asked == list(range(16))


def test_a_callback_may_remove_itself_and_others():
    pool = PoolMemoryResource(None, None, 8 * MIB)
    asked = []

    def once(nbytes, attempt):
        asked.append("once")
        pool.remove_oom_callback(once)
        pool.remove_oom_callback(never)
        return True

    def never(nbytes, attempt):
        asked.append("never")
        return True

    def always(nbytes, attempt):
        asked.append("always")
        return False

    for callback in once, never, always:
        pool.add_oom_callback(callback)
    for _ in range(2):
        with pytest.raises(tarn.OutOfMemoryError):
            buffer(pool, 16 * MIB)
    assert asked == ["once", "always", "always", "always"]


def test_a_callback_that_raises_keeps_nobody_from_being_asked(unraisable):
    pool = PoolMemoryResource(None, None, 8 * MIB)
    kept = [buffer(pool, 6 * MIB)]
    pool.add_oom_callback(lambda nbytes, attempt: 1 // 0)
    pool.add_oom_callback(lambda nbytes, attempt: bool(kept and kept.pop()))
    buffer(pool, 4 * MIB)
    assert kept == []
    assert [type(one) for one in unraisable] == [ZeroDivisionError]


def test_what_a_callback_allocates_asks_none():
    pool = PoolMemoryResource(None, None, 8 * MIB)
    asked = []

    def allocate(nbytes, attempt):
        asked.append(attempt)
        with pytest.raises(tarn.OutOfMemoryError):
            buffer(pool, nbytes)
        return False

    pool.add_oom_callback(allocate)
    with pytest.raises(tarn.OutOfMemoryError):
        buffer(pool, 16 * MIB)
    assert asked == [0]


def test_a_callback_is_removed_while_another_thread_runs_it():
    pool = PoolMemoryResource(None, None, 8 * MIB)
    inside, leave, asked = threading.Event(), threading.Event(), []

    def stay(nbytes, attempt):
        asked.append(attempt)
        inside.set()
        return leave.wait(60)

    def allocate():
        with pytest.raises(tarn.OutOfMemoryError):
            buffer(pool, 16 * MIB)

    pool.add_oom_callback(stay)
    thread = threading.Thread(target=allocate)
    thread.start()
    assert inside.wait(60)
    pool.remove_oom_callback(stay)
    leave.set()
    thread.join()
    assert asked == [0]


def test_a_callback_that_holds_its_pool_is_no_leak():
    def pools():
        gc.collect()
        return sum(type(one) is PoolMemoryResource for one in gc.get_objects())

    before = pools()
    pool = PoolMemoryResource()
    pool.add_oom_callback(lambda nbytes, attempt, held=pool: False)
    assert pools() == before + 1
    del pool
    assert pools() == before


@pytest.fixture
def wrap():
    """Return new Python objects of a C pool, which outlives each of them."""
    libtarn = ctypes.CDLL(os.path.join(tarn.get_library_dir(), "libtarn.so.0.2"))
    native = ctypes.c_void_p()

    def begin(pool):
        before = tarn.mr.get_current_device_resource()
        tarn.mr.set_current_device_resource(pool)
        assert libtarn.tarn_device_resource(0, ctypes.byref(native)) == 0
        tarn.mr.set_current_device_resource(before)

    def make(pool=None):
        if pool is not None:
            begin(pool)
        before = tarn.mr.get_current_device_resource()
        tarn.mr.set_current_device_resource(None)
        assert libtarn.tarn_device_set_resource(0, native, None) == 0
        made = tarn.mr.get_current_device_resource()
        tarn.mr.set_current_device_resource(before)
        return made

    yield make
    libtarn.tarn_resource_release(native)


def test_all_python_objects_of_a_pool_can_have_callbacks(wrap):
    pool = PoolMemoryResource(None, None, 8 * MIB)
    objects = [pool, wrap(pool), *(wrap() for _ in range(20))]
    assert len({id(one) for one in objects}) == 22
    asked = []
    for i, one in enumerate(objects):
        one.add_oom_callback(lambda nbytes, attempt, i=i: asked.append(i))
    del one, objects[10:]
    with pytest.raises(tarn.OutOfMemoryError):
        buffer(pool, 16 * MIB)
    assert asked == list(range(10))


def test_objects_that_end_leave_no_callback_in_the_pool(wrap):
    made = wrap(PoolMemoryResource(None, None, 8 * MIB))
    asked = []
    for i in range(20):
        made.add_oom_callback(lambda nbytes, attempt, i=i: asked.append(i))
        made = None  # no object of the pool has callbacks now
        made = wrap()
    with pytest.raises(tarn.OutOfMemoryError):
        buffer(made, 16 * MIB)
    assert asked == []


def test_the_last_object_of_a_pool_ends_while_threads_call_its_callbacks(wrap):
    done = threading.Event()
    pool = wrap(PoolMemoryResource(None, None, 8 * MIB))

    def allocate():
        while not done.is_set():
            with pytest.raises(tarn.OutOfMemoryError):
                buffer(pool, 16 * MIB)

    threads = [threading.Thread(target=allocate) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(200):
        other = wrap()
        other.add_oom_callback(lambda nbytes, attempt: False)
        del other
    done.set()
    for thread in threads:
        thread.join()


def test_a_callback_may_end_the_last_object_that_has_it(wrap):
    pool, asked = wrap(PoolMemoryResource(None, None, 8 * MIB)), []
    others = [wrap()]
    others[0].add_oom_callback(lambda nbytes, attempt: asked.append(others.clear()))
    for _ in range(2):
        with pytest.raises(tarn.OutOfMemoryError):
            buffer(pool, 16 * MIB)
    assert len(asked) == 1


def test_a_pool_sleeps_and_wakes_at_the_same_addresses():
    pool = PoolMemoryResource()
    data = b"asleep" * 1000
    kept = tarn.DeviceBuffer.to_device(data, mr=pool)
    address, before = kept.ptr, pool.generation
    pool.suspend(keep=True)
    assert pool.statistics().suspended > 0 and pool.generation > before
    with pytest.raises(tarn.TarnError, match="is suspended"):
        buffer(pool)
    pool.resume()
    assert pool.statistics().suspended == 0
    assert kept.ptr == address and kept.tobytes() == data
    buffer(pool)


def test_a_pool_wakes_by_itself_where_that_was_asked_for():
    pool = PoolMemoryResource(resume_on_use=True)
    buffer(pool)
    pool.suspend()
    buffer(pool)
    assert pool.statistics().suspended == 0


def test_a_pool_on_an_upstream_does_not_sleep():
    with pytest.raises(tarn.NotSupportedError):
        PoolMemoryResource(tarn.mr.CudaMemoryResource()).suspend()


RESET = """
import ctypes, gc, tarn
from tarn import mr

cuda = ctypes.CDLL(tarn.driver_info().path)
free, total = ctypes.c_size_t(), ctypes.c_size_t()

def used():
    context = ctypes.c_void_p()
    cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
    cuda.cuCtxPushCurrent_v2(context)
    cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))
    cuda.cuCtxPopCurrent_v2(ctypes.byref(context))
    return total.value - free.value

for upstream in [lambda: None, mr.CudaMemoryResource, mr.CudaAsyncMemoryResource]:
    for live in [False, True]:
        pool = mr.PoolMemoryResource(upstream(), initial_pool_size=1 << 30)
        block = tarn.DeviceBuffer(size=1000, mr=pool)
        if not live:
            del block
        assert cuda.cuDevicePrimaryCtxReset_v2(0) == 0
        block = pool = None
        gc.collect()
        print(used())
"""


def test_a_pool_returns_its_memory_after_somebody_reset_the_context(sim_process):
    assert set(sim_process(RESET).split()) == {"0"}


def test_streams_hand_memory_to_each_other(pool):
    streams = [tarn.Stream(flags=1).register() for _ in range(3)] + [tarn.Stream(flags=1)]
    for i in range(200):
        data = bytes([i % 256]) * 4096
        one = tarn.DeviceBuffer.to_device(data, mr=pool, stream=streams[i % 4])
        assert one.tobytes(stream=streams[i % 4]) == data


def test_threads_share_a_pool(pool):
    failed = []

    def work(number):
        stream = tarn.Stream(flags=1).register()
        for i in range(200):
            data = bytes([number * 16 + i % 16]) * (1000 + i)
            one = tarn.DeviceBuffer.to_device(data, mr=pool, stream=stream)
            if one.tobytes(stream=stream) != data:
                failed.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert pool.statistics().live_blocks == 0


def test_a_pool_takes_memory_of_a_resource_written_in_python(counted):
    class Mine(tarn.mr.UpstreamResourceAdaptor):
        taken = 0

        def allocate(self, nbytes, stream=tarn.DEFAULT_STREAM):
            Mine.taken += nbytes
            return super().allocate(nbytes, stream)

        def deallocate(self, ptr, nbytes, stream=tarn.DEFAULT_STREAM):
            Mine.taken -= nbytes
            super().deallocate(ptr, nbytes, stream)

    pool = PoolMemoryResource(Mine(counted.mr))
    buffer(pool)
    assert Mine.taken == pool.pool_size() == counted.live_bytes
    del pool
    gc.collect()
    assert Mine.taken == 0 and counted.live_bytes == 0


def test_a_pool_is_the_current_resource_and_outlives_its_name():
    pool = PoolMemoryResource()
    tarn.mr.set_current_device_resource(pool)
    assert tarn.mr.get_current_device_resource() is pool
    one = tarn.DeviceBuffer(size=MIB)
    assert one.mr is pool
    tarn.mr.set_current_device_resource(None)
    del pool
    gc.collect()
    assert one.mr.statistics().live_blocks == 1


def test_a_pool_that_c_made_is_the_same_class():
    wrapped = type(PoolMemoryResource())
    assert tarn._tarn._resource_types["pool"] is wrapped
    assert tarn._tarn._resource_types["slab"] is FixedSizeMemoryResource


def test_questions_to_what_is_no_pool_are_refused():
    cuda = tarn.mr.CudaMemoryResource()
    with pytest.raises(tarn.InvalidArgumentError):
        tarn._tarn._pool_statistics(cuda)
    with pytest.raises(TypeError):
        tarn._tarn._pool_statistics(7)
    pool = PoolMemoryResource()
    with pytest.raises(ValueError, match="once"):
        pool.__init__()


def test_a_device_that_is_not_there_is_refused():
    with pytest.raises(tarn.InvalidArgumentError):
        PoolMemoryResource(device=99)


# --- blocks of one size, and bins


@pytest.mark.parametrize("upstream", [None, tarn.mr.CudaMemoryResource])
def test_blocks_of_one_size_serve_all_requests_up_to_that(upstream):
    slab = FixedSizeMemoryResource(upstream and upstream(), 1 << 16, 4)
    assert slab.pool_size() >= 4 << 16
    stream = tarn.Stream().register()
    kept = [buffer(slab, size, stream=stream) for size in (1, 1000, 1 << 16)]
    assert slab.statistics().live == 3 << 16
    with pytest.raises(tarn.OutOfMemoryError, match="65537"):
        buffer(slab, (1 << 16) + 1)
    del kept
    assert slab.statistics().live_blocks == 0
    stream.synchronize()
    del stream  # unregistering it tells the slab that all work is done
    assert slab.trim() > 0 and slab.pool_size() == 0


def test_blocks_of_one_size_are_of_one_mib_as_rmm_has_them():
    slab = FixedSizeMemoryResource()
    assert slab.pool_size() >= 128 * MIB
    buffer(slab, MIB)
    with pytest.raises(tarn.OutOfMemoryError):
        buffer(slab, MIB + 1)
    with pytest.raises(ValueError):
        FixedSizeMemoryResource(None, 0)


@pytest.mark.parametrize("size, count", [(4096, 128), (MIB, 3), (3 * MIB, 1)])
def test_all_blocks_of_the_maximum_can_be_had(size, count):
    slab = FixedSizeMemoryResource(None, size, count, maximum_blocks=count)
    kept = [buffer(slab, size) for _ in range(count)]
    assert slab.statistics().live_blocks == count
    assert slab.pool_size() < count * size + 2 * MIB
    del kept


def test_there_are_never_more_blocks_than_the_maximum():
    slab = FixedSizeMemoryResource(None, MIB, 1, maximum_blocks=4)
    kept = [buffer(slab) for _ in range(4)]
    with pytest.raises(tarn.OutOfMemoryError):
        buffer(slab)
    del kept


def test_bins_serve_the_sizes_that_they_are_for(counted):
    binning = BinningMemoryResource(counted.mr, 10, 12)
    assert len(binning.bin_mrs) == 3
    stream = tarn.Stream().register()
    kept = [buffer(binning, size, stream=stream) for size in (1, 1024, 1025, 4096)]
    small, middle, large = (one.statistics().live_blocks for one in binning.bin_mrs)
    assert (small, middle, large) == (2, 1, 1)
    before = counted.live_bytes
    kept.append(buffer(binning, 4097))
    assert counted.live_bytes == before + 4097
    kept.clear()
    assert counted.live_bytes > 0
    stream.synchronize()
    del stream
    binning.trim()
    assert counted.live_bytes == 0


def test_a_bin_is_any_resource(counted):
    mine = tarn.mr.StatisticsResourceAdaptor(tarn.mr.CudaMemoryResource())
    binning = BinningMemoryResource(counted.mr)
    binning.add_bin(1000, mine)
    binning.add_bin(1000, counted.mr)
    assert binning.bin_mrs == [mine]
    one = buffer(binning, 500)
    assert mine.allocation_counts.current_bytes == 500
    binning.add_bin(400)
    binning.add_bin(2000)
    del one
    assert mine.allocation_counts.current_bytes == 0
    assert binning.get_upstream() is counted.mr
    assert repr(binning).startswith("<tarn.mr.BinningMemoryResource over ")


@pytest.mark.parametrize("exponents", [(5, -1), (-1, 5), (12, 10), (60, 70)])
def test_bins_that_cannot_be_are_refused(exponents):
    with pytest.raises((ValueError, OverflowError, tarn.TarnError)):
        BinningMemoryResource(tarn.mr.CudaMemoryResource(), *exponents)
