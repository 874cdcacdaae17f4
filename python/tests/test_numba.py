"""tarn.numba, member by member, in one process with Numba on top."""

import concurrent.futures
import ctypes
import gc
import inspect
import multiprocessing
import pickle
import threading
import weakref

import numba_support
import pytest
from numba_support import manager_of_device

np = pytest.importorskip("numpy")
pytest.importorskip("numba")

import tarn  # noqa: E402
import tarn.numba  # noqa: E402
from numba import cuda  # noqa: E402
from numba.cuda.cudadrv import driver  # noqa: E402

tarn.numba.use_tarn_for_numba()


@pytest.fixture(autouse=True)
def nothing_is_left():
    context = cuda.current_context()
    tarn._tarn.log_close()
    yield
    gc.collect()
    context.deallocations.clear()
    assert manager_of_device().live == 0


def log():
    return numba_support.rows(tarn.csv_log())


def events_but_frees():
    """Return the events of the log. Frees that other tests left pending are flushed before
    a second try."""
    return [row["Event Type"] for row in log() if row["Event Type"] != "Free"]


def line_here():
    return inspect.currentframe().f_back.f_lineno


# --- registration and the interface -----------------------------------------------------


def test_the_manager_is_one_of_numbas_with_version_1():
    manager = cuda.current_context().memory_manager
    assert isinstance(manager, tarn.numba.TarnNumbaManager)
    assert isinstance(manager, cuda.HostOnlyCUDAMemoryManager)
    assert manager.interface_version == 1


def test_the_same_registration_twice_is_no_error():
    tarn.numba.use_tarn_for_numba()
    tarn.numba.use_tarn_for_numba(cuda)
    assert tarn.numba.manager_class() is tarn.numba.manager_class(cuda)
    assert driver._memory_manager is tarn.numba.TarnNumbaManager


def test_an_instance_without_a_context_tells_its_version_and_can_be_reset():
    instance = tarn.numba.TarnNumbaManager(context=None)
    assert instance.interface_version == 1
    instance.reset()


def test_an_instance_needs_to_be_told_of_a_context():
    with pytest.raises(RuntimeError, match="Memory manager requires a context"):
        tarn.numba.TarnNumbaManager()


def test_a_thousand_initializes_change_nothing():
    manager = cuda.current_context().memory_manager
    behind = manager._manager
    for _ in range(1000):
        manager.initialize()
    assert manager._manager is behind


def test_another_context_on_the_same_device_has_the_same_manager_behind_it():
    present = cuda.current_context()
    other = driver.Context(present.device, present.handle)
    other.memory_manager.initialize()
    assert other.memory_manager is not present.memory_manager
    assert other.memory_manager._manager is present.memory_manager._manager
    by_number = driver.Context(driver.binding.CUdevice(0), present.handle)
    assert by_number.memory_manager._device_manager() is manager_of_device()
    odd = driver.Context(inspect, present.handle)  # Numba 0.56's tests have a test case here
    odd.push()
    assert odd.memalloc(10).size == 10
    assert odd.memory_manager._manager is manager_of_device()
    odd.pop()


HOST = np.zeros(8)


@pytest.mark.parametrize(
    "use",
    [
        lambda manager: manager.prepare_for_use(),
        lambda manager: manager.memalloc(8),
        lambda manager: manager.memhostalloc(8),
        lambda manager: manager.mempin(HOST, HOST.ctypes.data, HOST.nbytes),
        lambda manager: manager.memallocmanaged(8),
        lambda manager: manager.get_memory_info(),
        lambda manager: manager.defer_cleanup().__enter__(),
    ],
)
def test_a_call_before_initialize_prepares_the_manager(use):
    present = cuda.current_context()
    manager = driver.Context(present.device, present.handle).memory_manager
    use(manager)
    assert manager._manager is manager_of_device()


# --- device memory ----------------------------------------------------------------------


def test_arrays_come_from_the_current_resource_and_go_back(counted):
    host = np.arange(1000.0)
    array = cuda.to_device(host)
    assert counted.live_bytes == 8000
    np.testing.assert_array_equal(array.copy_to_host(), host)
    del array
    assert counted.live_bytes == 0


def test_a_block_goes_back_to_the_resource_that_it_came_from(counted):
    array = cuda.device_array(10)
    tarn.mr.set_current_device_resource(tarn.mr.CudaMemoryResource())
    cuda.device_array(10)
    assert counted.live_bytes == 80 and counted.allocations == 1
    del array
    assert counted.live_bytes == 0


def test_a_resource_written_in_python_serves():
    class Own(tarn.mr.DeviceMemoryResource):
        def __init__(self):
            super().__init__()
            self.upstream, self.sizes = tarn.mr.CudaMemoryResource(), []

        def allocate(self, nbytes, stream=tarn.DEFAULT_STREAM):
            self.sizes.append(nbytes)
            return self.upstream.allocate(nbytes, stream)

        def deallocate(self, ptr, nbytes, stream=tarn.DEFAULT_STREAM):
            self.sizes.append(-nbytes)
            self.upstream.deallocate(ptr, nbytes, stream)

    own = Own()
    tarn.use_tarn_for_numba(resource=own)
    array = cuda.to_device(np.arange(5.0))
    np.testing.assert_array_equal(array.copy_to_host(), np.arange(5.0))
    del array
    assert own.sizes == [40, -40]
    tarn.mr.set_current_device_resource(None)


def test_memalloc_gives_what_users_of_numbas_pointers_read():
    memory = cuda.current_context().memalloc(1000)
    assert isinstance(memory, cuda.MemoryPointer)
    assert isinstance(memory.device_ctypes_pointer, ctypes.c_size_t)
    assert memory.device_ctypes_pointer.value == memory.device_pointer_value
    assert int(memory.handle) == memory.device_pointer_value
    assert memory.device_pointer_value % 256 == 0
    assert (memory.size, memory._cuda_memsize_, memory.refct) == (1000, 1000, 1)
    assert memory.is_managed and memory.owner is memory and memory.__cuda_memory__


def test_the_pointer_is_written_where_numbas_code_writes_it():
    memory = cuda.current_context().memalloc(1000)
    memory._cuda_memsize_ = 77
    assert (memory._cuda_memsize_, memory.size) == (77, 1000)
    del memory._cuda_memsize_
    assert memory._cuda_memsize_ == 1000
    memory.refct += 2
    assert memory.refct == 3
    memory.mark = "any attribute, too"
    assert memory.mark and "mark" in vars(memory)
    other = cuda.current_context().memalloc(8)
    memory.context = other.context
    assert memory.context.device.id == 0
    for name in ("size", "owner", "handle", "device_pointer", "is_managed"):
        with pytest.raises(AttributeError):
            setattr(memory, name, None)


def test_the_pointer_is_a_weak_referents_and_ends_a_finalizer_of_the_user():
    memory, ended = cuda.current_context().memalloc(1000), []
    weakref.finalize(memory, ended.append, "ended")
    proxy = weakref.proxy(memory)
    assert proxy.size == 1000
    del memory
    assert ended == ["ended"]
    with pytest.raises(ReferenceError):
        proxy.size


def test_the_pointer_is_filled_and_seen_through_windows():
    memory = cuda.current_context().memalloc(16)
    memory.memset(7)
    memory.memset(1, count=4)
    view = memory.view(2, 6)
    assert isinstance(view.owner, cuda.MemoryPointer) and view.size == 4
    assert view.device_pointer_value == memory.device_pointer_value + 2
    host = np.zeros(16, "u1")
    driver.device_to_host(host, memory, 16)
    assert host.tolist() == [1] * 4 + [7] * 12
    driver.device_to_host(host, view, 4)
    assert host[:4].tolist() == [1, 1, 7, 7]
    assert memory.refct == 2
    del view
    assert memory.refct == 1


def test_nobody_makes_pointers_and_managers_need_the_right_things():
    pointer_class = type(cuda.current_context().memalloc(1))
    with pytest.raises(TypeError):
        pointer_class()
    with pytest.raises(TypeError):
        tarn._tarn.MemoryPointer()
    plugin = tarn._tarn.Plugin()
    with pytest.raises(RuntimeError, match="_prepare"):
        plugin._allocate(1)
    with pytest.raises(TypeError, match="MemoryPointer, not dict"):
        plugin._prepare(manager_of_device(), dict, None)
    with pytest.raises(AttributeError, match="_begin"):
        plugin.memalloc(1)


def test_pointers_in_a_cycle_are_collected(counted):
    memory = cuda.current_context().memalloc(800)
    memory.context = [memory]
    del memory
    assert counted.live_bytes == 800
    gc.collect()
    assert counted.live_bytes == 0


def test_sizes_may_be_numpy_integers():
    assert cuda.current_context().memalloc(np.int64(64)).size == 64


def test_bad_sizes_are_refused_before_anything_happens(counted):
    context = cuda.current_context()
    for size in (-1, 2**64):
        with pytest.raises(OverflowError):
            context.memalloc(size)
    with pytest.raises(TypeError):
        context.memalloc(1.5)
    assert counted.allocations == 0


def test_zero_bytes_are_an_empty_pointer_and_no_error(counted):
    memory = cuda.current_context().memalloc(0)
    assert memory.device_pointer_value is None and memory.size == 0
    assert cuda.device_array(0).__cuda_array_interface__["data"] == (0, False)
    assert counted.allocations == 0 and log() == []
    with pytest.raises(RuntimeError, match="non-empty slice into empty slice"):
        memory.view(0, 1)


def test_a_view_keeps_its_block_alive(counted):
    host = np.arange(100.0)
    array = cuda.to_device(host)
    part = array[10:90][5:10]
    del array
    assert counted.live_bytes == 800
    np.testing.assert_array_equal(part.copy_to_host(), host[15:20])
    del part
    assert counted.live_bytes == 0


def test_views_have_the_words_of_numbas():
    memory = cuda.current_context().memalloc(100)
    with pytest.raises(RuntimeError, match="size cannot be negative"):
        memory.view(50, 40)
    assert memory.own().view(10).size == 90


def test_memory_is_freed_once():
    memory = cuda.current_context().memalloc(100)
    memory.free()
    assert manager_of_device().live == 0
    with pytest.raises(RuntimeError, match="Freeing dead memory"):
        memory.free()


def test_owned_pointers_do_not_free_what_others_hold(counted):
    memory = cuda.current_context().memalloc(100)
    first, second = memory.own(), memory.own()
    del first, second
    assert counted.live_bytes == 100


# --- host and managed memory ------------------------------------------------------------


@pytest.mark.parametrize("make", [cuda.pinned_array, cuda.mapped_array, cuda.managed_array])
def test_host_and_managed_arrays_hold_their_values_and_go_back(make):
    array = make((10, 10))
    array[:] = np.arange(100.0).reshape(10, 10)
    assert array.sum() == 4950
    if make is not cuda.pinned_array:
        driver.device_memset(array, 0, array.nbytes)
        cuda.synchronize()
        assert not array.any()
    assert manager_of_device().live == 1
    del array
    assert manager_of_device().live == 0


@pytest.mark.parametrize("make", [cuda.pinned_array, cuda.mapped_array, cuda.managed_array])
def test_empty_host_and_managed_arrays_are_arrays(make):
    assert make(0).shape == (0,)


def host_flags(address):
    """Return the flags of the cuMemHostAlloc call; 0 within a block."""
    result, flags = driver.binding.cuMemHostGetFlags(address)
    return flags if int(result) == 0 else 0


PORTABLE, WRITE_COMBINED = 1, 4  # CU_MEMHOSTALLOC_…


@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize("portable", [False, True])
def test_flags_of_host_memory_reach_the_driver(mapped, portable):
    """The driver reports portable memory only if it is write-combined."""
    memhostalloc = cuda.current_context().memory_manager.memhostalloc
    for memory in (
        memhostalloc(64, mapped=mapped, portable=portable, wc=True),
        memhostalloc(64, mapped, portable, True),
    ):
        flags = host_flags(memory._bufptr_) & (PORTABLE | WRITE_COMBINED)
        assert flags == WRITE_COMBINED | portable
        assert hasattr(memory, "device_pointer_value") == mapped
    plain = memhostalloc(64, mapped=mapped, portable=portable, wc=False)
    assert not host_flags(plain._bufptr_) & WRITE_COMBINED


def test_each_argument_reaches_the_manager_in_c():
    """Flags that no driver reports afterwards are recorded during the call."""
    behind, calls, host = manager_of_device(), [], np.zeros(10)

    class Noting:
        def __getattr__(self, name):
            def noted(*arguments):
                calls.append((name, *arguments))
                return getattr(behind, name)(*arguments)

            return noted

    class Watched(tarn.numba.TarnNumbaManager):
        _manager = Noting()

    watched = Watched(context=cuda.current_context())
    for mapped, portable, wc in ((0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)):
        watched.memhostalloc(100 + portable, bool(mapped), bool(portable), bool(wc))
        assert calls.pop() == ("memhostalloc", 100 + portable, mapped, portable, wc)
    watched.mempin(host, host.ctypes.data, 80, mapped=True)
    assert calls.pop() == ("mempin", host, host.ctypes.data, 80, True)
    watched.mempin(host, ctypes.c_void_p(host.ctypes.data), 80)
    assert calls.pop() == ("mempin", host, host.ctypes.data, 80, False)
    for attach_global in (False, True):
        watched.memallocmanaged(24, attach_global)
        assert calls.pop() == ("memallocmanaged", 24, attach_global)
    watched.memallocmanaged(0)
    assert calls.pop() == ("memallocmanaged", 1, True)
    assert not calls


def test_an_owner_of_pinned_memory_is_kept_with_it():
    """Numba's object keeps the owner alive, in both kinds."""
    manager = cuda.current_context().memory_manager
    for mapped in (False, True):

        class Owner(np.ndarray):
            pass

        owner = np.zeros(10).view(Owner)
        ended = weakref.ref(owner)
        memory = manager.mempin(owner, owner.ctypes.data, owner.nbytes, mapped=mapped)
        assert memory.owned is owner
        del owner
        gc.collect()
        assert ended() is not None
        del memory
        gc.collect()
        assert ended() is None


def test_a_block_of_pinned_memory_keeps_its_owner():
    class Owner(np.ndarray):
        pass

    owner = np.zeros(10).view(Owner)
    ended = weakref.ref(owner)
    block = manager_of_device().mempin(owner, owner.ctypes.data, owner.nbytes)
    del owner
    assert ended() is not None
    block.release()
    del block
    assert ended() is None


def test_all_flags_of_host_memory_are_taken():
    manager = manager_of_device()
    for mapped in (False, True):
        block = manager.memhostalloc(64, mapped, portable=True, wc=True)
        assert block.kind == ("mapped" if mapped else "pinned")
        assert block.host and block.alive
    assert manager.memallocmanaged(64, attach_global=False).kind == "managed"


def test_memory_that_was_pinned_is_unpinned_at_once_even_while_cleanup_waits():
    array = np.zeros(1000)
    with cuda.defer_cleanup():
        for use in (cuda.pinned, cuda.mapped, cuda.pinned, cuda.mapped):
            with use(array):
                assert manager_of_device().live == 1
            gc.collect()
            assert manager_of_device().live == 0


def test_a_mapped_host_array_is_seen_by_the_device():
    array = np.arange(1000.0)
    with cuda.mapped(array) as window:
        np.testing.assert_array_equal(window.copy_to_host(), array)


def test_pinning_twice_is_numbas_error_and_tarns():
    array = np.zeros(1000)
    with cuda.pinned(array):
        with pytest.raises(driver.CudaAPIError, match="ALREADY_REGISTERED") as caught:
            with cuda.pinned(array):
                pass
    assert caught.value.code == 712
    assert isinstance(caught.value, tarn.TarnError)


# --- running out ------------------------------------------------------------------------


@pytest.fixture
def limited(counted):
    limit = tarn.mr.LimitingResourceAdaptor(counted.mr, 10_240)
    tarn.mr.set_current_device_resource(limit)
    return limit


def test_out_of_memory_is_numbas_error_and_tarns_and_a_memory_error(limited):
    with pytest.raises(driver.CudaAPIError, match="CUDA_ERROR_OUT_OF_MEMORY") as caught:
        cuda.device_array(20_000, dtype="u1")
    error = caught.value
    assert error.code == driver.binding.CUresult.CUDA_ERROR_OUT_OF_MEMORY
    assert isinstance(error, tarn.OutOfMemoryError) and isinstance(error, MemoryError)
    assert str(error).startswith("[2] Call to tarn results in") and "10240" in str(error)
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy), copy.code) == (type(error), str(error), error.code)


def test_out_of_memory_of_the_driver_is_the_same():
    total = cuda.current_context().get_memory_info().total
    with pytest.raises(driver.CudaAPIError, match="CUDA_ERROR_OUT_OF_MEMORY") as caught:
        cuda.device_array(4 * total, dtype="u1")
    assert isinstance(caught.value, tarn.OutOfMemoryError) and caught.value.native == 2
    assert events_but_frees() == ["Alloc Failure"] * 2


def pending_array(holder, size):
    """Memory that is freed when the pending deallocations of a context or manager are flushed."""
    held = [cuda.device_array(size, dtype="u1")]

    def drop(handle):
        held.clear()

    holder.deallocations.add_item(drop, None)


class Exhausted(tarn.mr.DeviceMemoryResource):
    """A resource that raises Python's own exception when out of memory."""

    error = MemoryError("none left")

    def allocate(self, nbytes, stream=tarn.DEFAULT_STREAM):
        raise self.error

    def deallocate(self, ptr, nbytes, stream=tarn.DEFAULT_STREAM): ...


def test_out_of_memory_of_a_resource_written_in_python_is_the_same():
    exhausted = Exhausted()
    tarn.mr.set_current_device_resource(exhausted)
    with pytest.raises(driver.CudaAPIError, match="none left") as caught:
        cuda.device_array(10)
    assert isinstance(caught.value, tarn.OutOfMemoryError) and caught.value.code == 2
    assert caught.value.status == 1 and caught.value.__cause__ is exhausted.error
    assert events_but_frees() == ["Alloc Failure"] * 2


@pytest.mark.parametrize("under_a_limit", [False, True])
def test_where_a_resource_has_no_numbers_the_devices_are_told(under_a_limit):
    resource = tarn.mr.PinnedHostMemoryResource() if under_a_limit else Exhausted()
    if under_a_limit:
        resource = tarn.mr.LimitingResourceAdaptor(resource, 1 << 20)
    tarn.mr.set_current_device_resource(resource)
    total = tarn.device_info().total_bytes
    assert cuda.current_context().get_memory_info().total == total
    with pytest.raises(MemoryError):
        cuda.device_array(2 << 20)
    assert {int(row["Total Memory"]) for row in log()} == {total}


def test_running_out_flushes_what_is_pending_and_tries_again(limited):
    context = cuda.current_context()
    for holder in (context, context.memory_manager):
        pending_array(holder, 8000)
        array = cuda.device_array(8000, dtype="u1")
        assert limited.get_allocated_bytes() == 8192  # one block, rounded up
        del array


def test_nothing_is_flushed_while_cleanup_waits(limited):
    context = cuda.current_context()
    with cuda.defer_cleanup():
        pending_array(context, 8000)
        with pytest.raises(MemoryError):
            cuda.device_array(8000, dtype="u1")
    context.deallocations.clear()


def test_a_program_that_failed_goes_on(limited):
    for _ in range(3):
        with pytest.raises(MemoryError):
            cuda.device_array(20_000, dtype="u1")
        np.testing.assert_array_equal(cuda.to_device(np.ones(9)).copy_to_host(), np.ones(9))


# --- frees that fail --------------------------------------------------------------------


class Keeping(tarn.mr.DeviceMemoryResource):
    """A resource that fails frees for a while: those for which `keeps` returns true."""

    def __init__(self, upstream):
        self.upstream, self.keeps = upstream, lambda ptr: True

    def allocate(self, nbytes, stream=tarn.DEFAULT_STREAM):
        return self.upstream.allocate(nbytes, stream)

    def deallocate(self, ptr, nbytes, stream=tarn.DEFAULT_STREAM):
        if self.keeps and self.keeps(ptr):
            raise KeyError("kept")
        self.upstream.deallocate(ptr, nbytes, stream)


@pytest.fixture
def keeping(counted):
    keeping = Keeping(counted.mr)
    tarn.mr.set_current_device_resource(keeping)
    yield keeping
    keeping.keeps = None
    tarn.reclaim_deferred_frees()
    assert tarn.deferred_frees() == (0, 0, 0, 0)


def events():
    return [(row["Event Type"], row["Current Allocs"]) for row in log()]


def test_a_free_that_fails_is_reported_and_the_log_has_it_when_it_is_done(keeping, unraisable):
    first, second = cuda.device_array(10), cuda.device_array(20)
    address = first.device_ctypes_pointer.value
    line = line_here() + 1
    del first
    assert [type(error) for error in unraisable] == [KeyError]
    assert events() == [("Alloc", "1"), ("Alloc", "2")]
    assert tarn._tarn.log_counts() == tarn._tarn.log_counts()[:2] + (2,)
    assert tarn.deferred_frees() == (1, 80, 0, 0)
    del second
    assert [type(error) for error in unraisable] == [KeyError] * 2
    assert tarn.deferred_frees() == (2, 240, 0, 0)
    with pytest.raises(KeyError, match="kept"):
        tarn.reclaim_deferred_frees()
    assert tarn.deferred_frees() == (2, 240, 0, 0) and len(unraisable) == 2
    keeping.keeps = None
    tarn.reclaim_deferred_frees()
    assert tarn.deferred_frees() == (0, 0, 0, 0)
    assert events() == [("Alloc", "1"), ("Alloc", "2"), ("Free", "1"), ("Free", "0")]
    row = log()[2]
    assert int(row["Address"], 16) == address
    assert row["Location"] == f"{__file__}:{line}"


def test_a_free_that_fails_again_is_not_reported_again(keeping, unraisable):
    manager = manager_of_device()
    for _ in range(3):
        manager.memalloc(80)
    assert tarn.deferred_frees().failed == 3 and len(unraisable) == 3
    keeping.keeps = None
    manager.memalloc(80)
    assert tarn.deferred_frees() == (0, 0, 0, 0) and len(unraisable) == 3
    assert [event for event, _ in events()].count("Free") == 4
    assert events()[-1] == ("Free", "0")


def test_an_address_has_its_late_free_in_the_log_before_it_is_handed_out_again(keeping, unraisable):
    manager = manager_of_device()
    first, other = manager.memalloc(80), manager.memalloc(80)
    address, stays = first.address, other.address
    del first, other
    keeping.keeps = lambda ptr: ptr == stays
    with pytest.raises(KeyError):
        tarn.reclaim_deferred_frees()
    assert tarn.deferred_frees().failed == 1
    again = manager.memalloc(80)
    assert again.address == address  # otherwise this test shows nothing
    found = [row["Event Type"] for row in log() if int(row["Address"], 16) == address]
    assert found == ["Alloc", "Free", "Alloc"]
    keeping.keeps = None
    tarn.reclaim_deferred_frees()
    del again
    assert events()[-1] == ("Free", "0")


def test_a_free_that_is_asked_for_raises_what_it_fails_of(keeping, unraisable):
    memory = cuda.current_context().memalloc(80)
    with pytest.raises(KeyError, match="kept"):
        memory.free()
    with pytest.raises(RuntimeError, match="Freeing dead memory"):
        memory.free()
    block = manager_of_device().memalloc(8)
    with pytest.raises(KeyError, match="kept"):
        block.release()
    assert not block.release() and not block.alive
    assert tarn.deferred_frees() == (2, 88, 0, 0) and unraisable == []


def test_a_free_that_fails_is_reported_without_a_log_too(keeping, unraisable):
    tarn.numba.use_tarn_for_numba(logging=False)
    cuda.device_array(10)
    tarn.numba.use_tarn_for_numba(logging=True)
    assert [type(error) for error in unraisable] == [KeyError] and log() == []


def test_a_report_says_which_memory_it_is_about(keeping, monkeypatch):
    reports = []
    monkeypatch.setattr("sys.unraisablehook", lambda args: reports.append(args.object))
    array = cuda.device_array(10)
    where = f"free of 80 bytes at {array.device_ctypes_pointer.value:#x} of device 0, "
    del array
    assert len(reports) == 1 and reports[0].startswith(where)


def test_what_waits_for_the_end_of_cleanup_is_counted_and_its_failure_raised(keeping):
    with pytest.raises(KeyError, match="kept"):
        with cuda.defer_cleanup():
            cuda.device_array(10)
            assert tarn.deferred_frees() == (0, 0, 1, 80)
    assert tarn.deferred_frees() == (1, 80, 0, 0)
    keeping.keeps = None
    with cuda.defer_cleanup():
        cuda.device_array(10)
    assert tarn.deferred_frees() == (0, 0, 0, 0)


def test_a_buffer_is_not_blamed_for_what_waits_meanwhile(counted, unraisable):
    class Dropping(Keeping):
        def deallocate(self, ptr, nbytes, stream=tarn.DEFAULT_STREAM):
            self.array = None
            self.upstream.deallocate(ptr, nbytes, stream)

    dropping = Dropping(tarn.mr.CudaMemoryResource())
    with cuda.defer_cleanup():
        dropping.array = cuda.device_array(10)
        buffer = tarn.DeviceBuffer(size=8, mr=dropping)
        del buffer
        assert tarn.deferred_frees() == (0, 0, 1, 80)
    assert unraisable == []


def test_a_reset_that_cannot_free_reports_it(keeping, unraisable):
    array = cuda.device_array(10)
    with pytest.raises(KeyError, match="kept"):
        cuda.current_context().reset()
    assert [type(error) for error in unraisable] == [KeyError]
    assert tarn.deferred_frees() == (1, 80, 0, 0)
    keeping.keeps = None
    cuda.current_context().reset()
    assert tarn.deferred_frees() == (0, 0, 0, 0)
    del array


# --- the other members ------------------------------------------------------------------


def test_memory_info_is_a_pair_with_names():
    array = cuda.device_array(1 << 20)
    info = cuda.current_context().get_memory_info()
    assert isinstance(info, cuda.MemoryInfo)
    assert info.total == tarn.device_info().total_bytes
    assert info.free < info.total and tuple(info) == (info.free, info.total)
    del array


def test_cleanup_waits_until_the_last_end(counted):
    with cuda.defer_cleanup():
        with cuda.defer_cleanup():
            cuda.device_array(100)
            assert counted.live_bytes == 800
        assert counted.live_bytes == 800
    assert counted.live_bytes == 0


def test_cleanup_is_done_when_the_block_is_left_by_an_exception(counted):
    with pytest.raises(KeyError), cuda.defer_cleanup():
        cuda.device_array(100)
        raise KeyError
    assert counted.live_bytes == 0


def test_reset_takes_back_what_arrays_still_hold(counted):
    context = cuda.current_context()
    array, managed = cuda.device_array(100), cuda.managed_array(100)
    pinned = cuda.pinned_array(100)
    context.reset()
    assert counted.live_bytes == 0
    assert manager_of_device().live == 1  # the host may still touch pinned memory
    pinned[:] = 7
    del array, managed, pinned
    np.testing.assert_array_equal(cuda.to_device(np.ones(5)).copy_to_host(), np.ones(5))


def test_reset_works_with_no_context_current(counted):
    manager = cuda.current_context().memory_manager
    array = cuda.device_array(100)
    while driver.driver.pop_active_context() is not None:
        pass
    manager.reset()
    assert counted.live_bytes == 0
    del array
    assert cuda.device_array(100).size == 100


def test_an_array_of_before_a_reset_cannot_free_what_came_after(counted):
    context = cuda.current_context()
    old = cuda.device_array(100)
    address = old.device_ctypes_pointer.value
    context.reset()
    new = cuda.to_device(np.arange(100.0))
    assert new.device_ctypes_pointer.value == address  # otherwise this test shows nothing
    del old
    assert counted.live_bytes == 800
    np.testing.assert_array_equal(new.copy_to_host(), np.arange(100.0))


# --- other processes --------------------------------------------------------------------


@pytest.fixture(scope="module")
def child():
    spawn = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=spawn) as pool:
        yield pool


@pytest.fixture
def plain_memory(counted):
    """Another process frees nothing here, so exported memory needs no counter."""
    tarn.mr.set_current_device_resource(None)


def test_an_array_is_read_by_another_process(child, plain_memory):
    host = np.arange(100.0)
    array = cuda.to_device(host)
    for part, expected in ((array, host), (array[10:20], host[10:20])):
        handle = cuda.current_context().get_ipc_handle(part.gpu_data)
        assert isinstance(handle, cuda.IpcHandle)
        assert len(bytes(handle.handle.reserved)) == 64
        copy = pickle.loads(pickle.dumps(handle))
        assert (copy.size, copy.offset) == (expected.nbytes, handle.offset)
        read = child.submit(numba_support.read_ipc_array, handle, expected.size)
        assert read.result(60) == expected.tolist()


def test_an_array_of_a_pool_over_cudas_memory_is_read_by_another_process(child):
    """Open a handle of CUDA's own, with the offset of the block in its segment."""
    with tarn.numba.using_resource("cuda-pool"):
        arrays = [cuda.to_device(np.arange(100.0) + i) for i in range(3)]
        handle = cuda.current_context().get_ipc_handle(arrays[2][10:20].gpu_data)
        read = child.submit(numba_support.read_ipc_array, handle, 10)
        assert handle.offset > 80
        assert read.result(60) == [12.0 + i for i in range(10)]
        del arrays, handle


def test_a_handle_that_reaches_beyond_its_allocation_is_refused(child, plain_memory):
    array = cuda.to_device(np.arange(100.0))
    beyond = [(2**40, 0), (8, 2**40), (8, 2**63), (8, -8), (0, 0)]
    if tarn.driver_info().is_simulator:  # a driver may map more than requested
        beyond += [(801, 0), (8, 796), (8, 800)]
    for size, offset in beyond:
        handle = cuda.current_context().get_ipc_handle(array.gpu_data)
        assert handle.offset == 0  # of the resource `cuda`: an allocation of its own
        handle.size, handle.offset = size, offset
        words = child.submit(numba_support.fail_to_open, handle).result(60)
        assert f"{size} bytes at offset {offset} exceed the allocation of" in words


def test_memory_that_came_from_elsewhere_is_exported_too(child, plain_memory):
    class Foreign:
        def __init__(self, array):
            self.array = array
            self.__cuda_array_interface__ = array.__cuda_array_interface__

    array = cuda.to_device(np.arange(10.0))
    foreign = cuda.as_cuda_array(Foreign(array[5:]))
    handle = cuda.current_context().get_ipc_handle(foreign.gpu_data)
    read = child.submit(numba_support.read_ipc_array, handle, 5)
    assert read.result(60) == [5, 6, 7, 8, 9]


def test_memory_without_a_handle_is_refused_in_words():
    tarn.mr.set_current_device_resource(tarn.mr.CudaAsyncMemoryResource())
    array = cuda.to_device(np.arange(10.0))
    with pytest.raises(tarn.NotSupportedError, match="cannot be exported"):
        array.get_ipc_handle()
    del array
    tarn.mr.set_current_device_resource(None)


def test_an_error_comes_back_from_another_process_as_what_it_is(child):
    failed = child.submit(numba_support.raise_out_of_memory, 4096)
    with pytest.raises(driver.CudaAPIError, match="4096") as caught:
        failed.result(60)
    assert isinstance(caught.value, tarn.OutOfMemoryError) and caught.value.code == 2


# --- the log ----------------------------------------------------------------------------


def test_a_row_has_real_values_in_every_column():
    line, array = line_here(), cuda.to_device(np.zeros(1 << 19))  # more than a page
    address = array.device_ctypes_pointer.value
    del array
    one, two = log()
    assert list(one) == [
        "Event Type",
        "Device ID",
        "Address",
        "Stream",
        "Size (bytes)",
        "Free Memory",
        "Total Memory",
        "Current Allocs",
        "Start",
        "End",
        "Elapsed",
        "Location",
    ]
    assert (one["Event Type"], two["Event Type"]) == ("Alloc", "Free")
    total = cuda.current_context().get_memory_info().total
    for row in (one, two):
        assert row["Device ID"] == "0" and row["Stream"] == "none"
        assert int(row["Address"], 16) == address and row["Size (bytes)"] == "4194304"
        assert 0 < int(row["Free Memory"]) <= int(row["Total Memory"]) == total
        assert float(row["End"]) >= float(row["Start"])
        assert float(row["Elapsed"]) == pytest.approx(
            float(row["End"]) - float(row["Start"]), abs=2e-9
        )
    assert (one["Current Allocs"], two["Current Allocs"]) == ("1", "0")
    if tarn.driver_info().is_simulator:  # others may allocate memory of a GPU meanwhile
        assert int(one["Free Memory"]) < int(two["Free Memory"])
    assert one["Location"] == f"{__file__}:{line}"
    assert two["Location"] == f"{__file__}:{line + 2}"


def test_all_kinds_of_memory_are_in_the_log():
    host = np.zeros(100)
    cuda.device_array(100), cuda.pinned_array(100), cuda.mapped_array(100)
    cuda.managed_array(100)
    with cuda.pinned(host), cuda.mapped(np.zeros(100)):
        pass
    gc.collect()
    found = log()
    assert sum(row["Event Type"] == "Alloc" for row in found) == 6
    assert sum(row["Event Type"] == "Free" for row in found) == 6
    assert {row["Size (bytes)"] for row in found} == {"800"}
    assert found[-1]["Current Allocs"] == "0"
    assert all(row["Location"].startswith(__file__ + ":") for row in found)


def test_a_location_with_quotes_and_commas_is_quoted():
    code = compile("array = cuda.device_array(3)", 'a "b", c.py', "exec")
    exec(code, {"cuda": cuda})
    gc.collect()
    assert log()[0]["Location"] == 'a "b", c.py:1'


def test_what_a_collection_frees_says_so():
    gc.disable()
    try:
        cycle = [cuda.device_array(10)]
        cycle.append(cycle)
        del cycle
        gc.collect()
    finally:
        gc.enable()
    assert log()[-1]["Location"] == "<gc>"


def test_a_failure_has_a_row(limited):
    with pytest.raises(MemoryError):
        cuda.device_array(20_000, dtype="u1")
    assert [(row["Event Type"], row["Size (bytes)"]) for row in log()] == [
        ("Alloc Failure", "20000"),
        ("Alloc Failure", "20000"),
    ]


@pytest.mark.parametrize("logging", [True, False])
def test_loggers_beneath_see_the_place_in_the_program(tmp_path, logging):
    upstream = tarn.mr.LoggingResourceAdaptor(
        tarn.mr.CudaMemoryResource(), str(tmp_path / "log.csv"), format="nbep7"
    )
    tarn.mr.set_current_device_resource(upstream)
    tarn.numba.use_tarn_for_numba(logging=logging)
    line, array = line_here(), cuda.device_array(10)
    del array
    tarn.numba.use_tarn_for_numba()
    tarn.mr.set_current_device_resource(None)
    upstream.flush()
    found = numba_support.rows((tmp_path / "log.dev0.csv").read_text())
    assert [(row["Event Type"], row["Location"]) for row in found] == [
        ("Alloc", f"{__file__}:{line}"), ("Free", f"{__file__}:{line + 1}")
    ]  # fmt: skip


def test_many_threads_leave_a_log_in_which_no_address_is_out_twice():
    def work():
        for size in range(1, 200):
            array = cuda.device_array(size)
            array.copy_to_device(np.ones(size))
            cuda.pinned_array(size)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    out = set()
    found = log()
    for row in found:
        if row["Event Type"] == "Alloc":
            assert row["Address"] not in out
            out.add(row["Address"])
        else:
            out.remove(row["Address"])
    assert not out and len(found) == 4 * 199 * 4


def test_the_log_remembers_a_bounded_number_of_rows():
    manager = manager_of_device()
    before = tarn._tarn.log_counts()[0]
    for _ in range(33_000):
        manager.memalloc(1).release()
    seen, kept, live = tarn._tarn.log_counts()
    assert (seen - before, kept, live) == (66_000, 65_536, 0)
    assert len(log()) == 65_536


def test_logging_can_be_turned_off_and_on():
    tarn.numba.use_tarn_for_numba(logging=False)
    array = cuda.device_array(10)
    tarn.numba.use_tarn_for_numba(logging=True)
    del array  # its allocation is in no log, so neither is its free
    cuda.device_array(10)
    gc.collect()
    assert [row["Current Allocs"] for row in log()] == ["1", "0"]


# --- the C types alone ------------------------------------------------------------------


def test_a_pointer_tells_where_it_is_and_was():
    block = manager_of_device().memalloc(1000)
    assert (block.bytes, block.device, block.kind, block.count) == (1000, 0, "device", 1)
    address = block.address
    assert block.alive and block.host is None
    assert block.release() and not block.release()
    assert (block.alive, block.address, block.count) == (False, address, 0)
    with pytest.raises(TypeError):
        tarn._tarn.Pointer()


def test_a_view_of_a_pointer_is_checked_and_keeps_it():
    block = manager_of_device().memalloc(1000)
    view = block.view(100, 200)
    assert (view.address, view.bytes) == (block.address + 100, 200)
    with pytest.raises(BufferError, match="1 live views"):
        block.release()
    for offset, size in ((0, 1001), (1000, 1), (-1, 2), (1, -1)):
        with pytest.raises(ValueError):
            block.view(offset, size)
    nested = view.view(0, 100)
    del view, nested
    assert block.release()
    with pytest.raises(ValueError, match="already freed"):
        block.view(0, 1)


def test_a_manager_of_no_device_is_refused():
    with pytest.raises(tarn.InvalidArgumentError, match="device 77"):
        tarn._tarn.Manager(77)


class Noting(tarn.mr.DeviceMemoryResource):
    """A resource that records the streams of its calls."""

    def __init__(self, upstream):
        self.upstream, self.streams = upstream, []

    def allocate(self, nbytes, stream=tarn.DEFAULT_STREAM):
        self.streams.append(stream)
        return self.upstream.allocate(nbytes, stream)

    def deallocate(self, ptr, nbytes, stream=tarn.DEFAULT_STREAM):
        self.streams.append(stream)
        self.upstream.deallocate(ptr, nbytes, stream)


def both_memallocs():
    return manager_of_device().memalloc, cuda.current_context().memory_manager.memalloc


def test_memalloc_may_name_a_stream(counted):
    """Memory is allocated and freed on that stream."""
    noting = Noting(counted.mr)
    tarn.mr.set_current_device_resource(noting)
    stream = tarn.Stream()
    for memalloc in both_memallocs():
        for named, expected in (
            (tarn.DEFAULT_STREAM, tarn.DEFAULT_STREAM),
            (stream, stream),
            (cuda.external_stream(stream.handle), stream),
            (None, tarn.NO_STREAM),
        ):
            tarn._tarn.log_close()
            memalloc(100, named)
            assert noting.streams == [expected] * 2
            name = "none" if expected == tarn.NO_STREAM else f"{expected.handle:#x}"
            assert {row["Stream"] for row in log()} == {"0" if name == "0x0" else name}
            noting.streams.clear()
    cuda.current_context().memory_manager.memalloc(100, stream=0)
    assert noting.streams == [tarn.NO_STREAM] * 2


def test_memory_keeps_the_stream_that_it_goes_back_on(unraisable):
    """Otherwise the driver would get the handle of a destroyed stream."""
    keeping = Keeping(Noting(tarn.mr.CudaAsyncMemoryResource()))
    tarn.mr.set_current_device_resource(keeping)
    for memalloc in both_memallocs():
        for kept in (False, True):  # freed at once; and by a retry, after the end of the memory
            keeping.keeps = (lambda ptr: True) if kept else None
            stream = tarn.Stream()
            handle = stream.handle
            memory = memalloc(100, stream)
            del stream
            gc.collect()
            del memory
            assert tarn.deferred_frees().failed == kept
            keeping.keeps = None
            tarn.reclaim_deferred_frees()
            assert keeping.upstream.streams[-1].handle == handle
    assert [type(error) for error in unraisable] == [KeyError] * 2
    tarn.synchronize()
