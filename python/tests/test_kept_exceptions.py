"""The lifetime of an exception of a resource written in Python.

The exception lives until the call returns that it ended or that swallowed it. Its traceback refers
to every local of every caller.
"""

import contextlib
import ctypes
import gc
import pathlib
import threading
import weakref

import pytest
import tarn
from tarn import _tarn, mr

MIB = 1 << 20


class Local:
    """An object in a local variable of a function that calls Tarn."""


class Upstream(mr.DeviceMemoryResource):
    """A resource that raises the exceptions of its lists, one per call."""

    def __init__(self):
        super().__init__()
        self.source = mr.CudaMemoryResource()
        self.allocate_raises, self.deallocate_raises, self.info_raises = [], [], []

    def allocate(self, nbytes, stream=tarn.DEFAULT_STREAM):
        if self.allocate_raises:
            raise self.allocate_raises.pop()
        return self.source.allocate(nbytes, stream)

    def deallocate(self, ptr, nbytes, stream=tarn.DEFAULT_STREAM):
        if self.deallocate_raises:
            raise self.deallocate_raises.pop()
        self.source.deallocate(ptr, nbytes, stream)

    def memory_info(self):
        if self.info_raises:
            raise self.info_raises.pop()
        return 1 * MIB, 2 * MIB


@pytest.fixture
def upstream():
    return Upstream()


@pytest.fixture
def libtarn():
    """The library of the extension, for calls that bypass Python."""
    [path] = {str(p.resolve()) for p in pathlib.Path(tarn.get_library_dir()).glob("libtarn.so.*")}
    return ctypes.CDLL(path)


def local_of(work):
    """Return a weak reference to an object that lived in the function that called `work`."""

    def caller():
        local = Local()
        work()
        return weakref.ref(local)

    return caller()


def test_a_refusal_that_a_pool_got_over_is_dropped(upstream):
    pool = mr.PoolMemoryResource(upstream)
    kept = tarn.DeviceBuffer(size=4 * MIB, mr=pool)
    tarn.DeviceBuffer(size=8 * MIB, mr=pool)  # and freed again: memory that the pool can return
    upstream.allocate_raises = [MemoryError("full")]
    local = local_of(lambda: tarn.DeviceBuffer(size=32 * MIB, mr=pool))
    assert upstream.allocate_raises == [] and local() is None
    del kept


@pytest.mark.parametrize("error", [MemoryError("full"), KeyError("no")])
def test_an_exception_of_a_function_of_the_program_keeps_no_frames(error):
    """A cycle through a frame would keep the local variables of all callers, buffers among them."""

    def fail(*_):
        raise type(error)(*error.args)

    below = mr.LimitingResourceAdaptor(mr.CudaMemoryResource(), 0)
    callback = mr.CallbackMemoryResource(fail, fail)
    asked = mr.FailureCallbackResourceAdaptor(below, fail)

    def work():
        for resource in callback, asked:
            with contextlib.suppress(MemoryError, RuntimeError):
                resource.allocate(100)

    assert local_of(work)() is None


def test_a_question_for_the_log_that_fails_is_dropped(upstream):
    before = mr.set_current_device_resource(upstream)
    manager = _tarn.Manager(0, logging=True)
    upstream.info_raises = [RuntimeError("optional")] * 2
    local = local_of(lambda: manager.memalloc(100))
    assert upstream.info_raises == [] and local() is None
    mr.set_current_device_resource(before)


def test_a_free_that_fails_and_is_reported_is_dropped(upstream, unraisable):
    error = ValueError("no")

    def work():
        buffer = tarn.DeviceBuffer(size=8, mr=upstream)
        upstream.deallocate_raises = [error]
        del buffer

    local = local_of(work)
    assert unraisable == [error]
    unraisable.clear()
    error.__traceback__ = None
    assert local() is None


def test_an_exception_that_was_raised_and_caught_is_not_kept_besides(upstream):
    def work():
        upstream.allocate_raises = [KeyError("no")]
        with pytest.raises(KeyError):
            upstream_limiter.allocate(100)

    upstream_limiter = mr.LimitingResourceAdaptor(upstream, MIB)
    local = local_of(work)
    gc.collect()  # pytest's record of the exception is a cycle
    assert local() is None


def test_a_call_of_c_code_keeps_nothing(upstream, libtarn):
    before = mr.set_current_device_resource(upstream)
    resource, block = ctypes.c_void_p(), ctypes.c_ulonglong()
    assert libtarn.tarn_device_resource(0, ctypes.byref(resource)) == 0

    def work():
        upstream.allocate_raises = [KeyError("no")]
        status = libtarn.tarn_resource_allocate(
            resource, ctypes.c_size_t(100), ctypes.c_size_t(0), None, ctypes.byref(block)
        )
        assert status == 7  # TARN_PLUGIN_FAILURE

    assert local_of(work)() is None
    libtarn.tarn_resource_release(resource)
    mr.set_current_device_resource(before)


def test_a_failure_of_the_same_words_later_is_not_taken_for_it(upstream):
    """A message stays the thread's last one until another call fails."""
    pool = mr.PoolMemoryResource(upstream)
    upstream.allocate_raises = [MemoryError("full")]
    swallowed = upstream.allocate_raises[0]
    tarn.DeviceBuffer(size=MIB, mr=mr.BinningMemoryResource(pool, 20, 20))
    upstream.allocate_raises = [MemoryError("full")]
    with pytest.raises(MemoryError) as caught:
        mr.LimitingResourceAdaptor(upstream, MIB).allocate(100)
    assert caught.value is not swallowed


def test_an_error_of_tarn_in_the_resource_keeps_its_status(upstream):
    """A manager reports the device's memory where a resource supports no query."""
    upstream.info_raises = [tarn.NotSupportedError("upstream: no query")]
    before = mr.set_current_device_resource(upstream)
    total = _tarn.Manager(0).get_memory_info()[1]
    assert upstream.info_raises == [] and total == tarn.device_info().total_bytes
    mr.set_current_device_resource(before)


def test_what_ended_the_call_comes_out_whatever_failed_after_it(upstream):
    """The log row of a failure queries the free memory, and that fails, too."""
    before = mr.set_current_device_resource(upstream)
    manager = _tarn.Manager(0, logging=True)
    first = ZeroDivisionError("from allocate")
    upstream.allocate_raises, upstream.info_raises = [first], [RuntimeError("from info")]
    with pytest.raises(ZeroDivisionError) as caught:
        manager.memalloc(100)
    assert caught.value is first and upstream.info_raises == []
    mr.set_current_device_resource(before)


def test_calls_within_the_resource_drop_nothing_of_the_call_around_it(upstream):
    class Nested(Upstream):
        def allocate(self, nbytes, stream=tarn.DEFAULT_STREAM):
            upstream.allocate_raises = [KeyError("inner")]
            with pytest.raises(KeyError):
                upstream.allocate(nbytes)
            tarn.DeviceBuffer(size=8, mr=self.source)
            return super().allocate(nbytes, stream)

        def deallocate(self, ptr, nbytes, stream=tarn.DEFAULT_STREAM):
            tarn.DeviceBuffer(size=8, mr=self.source)
            super().deallocate(ptr, nbytes, stream)

    nested, error = Nested(), ZeroDivisionError("outer")
    pool = mr.LimitingResourceAdaptor(nested, MIB)
    nested.allocate_raises = [error]
    with pytest.raises(ZeroDivisionError) as caught:
        pool.allocate(100)
    assert caught.value is error


def test_the_failure_of_a_pool_has_that_of_its_upstream_as_its_cause(upstream):
    pool = mr.PoolMemoryResource(upstream, synchronize_on_oom=False)
    upstream.allocate_raises = [MemoryError(f"full {i}") for i in range(100)]
    with pytest.raises(tarn.OutOfMemoryError, match="python: MemoryError: full") as caught:
        tarn.DeviceBuffer(size=4 * MIB, mr=pool)
    cause = caught.value.__cause__
    assert isinstance(cause, MemoryError) and str(cause) in str(caught.value)
    assert cause.__traceback__ is not None
    upstream.allocate_raises = []
    assert tarn.DeviceBuffer(size=4 * MIB, mr=pool).size == 4 * MIB


def test_of_many_failures_in_one_call_the_last_few_are_kept(capfd):
    """The end of a pool whose blocks cannot be returned tries each of them twice."""
    made = []

    class Failure(Exception):
        pass

    def failure():
        error = Failure()
        made.append(weakref.ref(error))
        return error

    class Refusing(Upstream):
        most = 0
        refuses = False

        def deallocate(self, ptr, nbytes, stream=tarn.DEFAULT_STREAM):
            if not self.refuses:
                return super().deallocate(ptr, nbytes, stream)
            Refusing.most = max(Refusing.most, sum(one() is not None for one in made))
            raise failure()

    refusing = Refusing()
    pool = mr.PoolMemoryResource(refusing, growth="2MiB")
    buffers = [tarn.DeviceBuffer(size=2 * MIB, mr=pool) for _ in range(20)]
    del buffers
    refusing.refuses = True

    def work():
        nonlocal pool
        del pool

    assert local_of(work)() is None
    assert len(made) >= 20 and all(one() is None for one in made)
    assert Refusing.most <= 8
    assert capfd.readouterr().err.count("tarn: warning: pool:") == 1  # C code cannot raise


def test_each_thread_has_its_own(upstream, quick_switches):
    """Failures of many threads at once: each one gets the exception of its own call."""
    limiter = mr.LimitingResourceAdaptor(upstream, MIB)
    wrong = []

    class Mine(Exception):
        pass

    class Raising(Upstream):
        def allocate(self, nbytes, stream=tarn.DEFAULT_STREAM):
            raise Mine(threading.get_ident())

    limiter = mr.LimitingResourceAdaptor(Raising(), MIB)

    def work():
        for _ in range(300):
            try:
                limiter.allocate(100)
            except Mine as error:
                if error.args[0] != threading.get_ident():
                    wrong.append(error)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_message_that_was_cut_within_a_character_is_a_message():
    """All of 480 bytes."""
    refusing = Upstream()
    refusing.allocate_raises = [MemoryError("x" + "ä" * 400)]
    pool = mr.LimitingResourceAdaptor(refusing, MIB)
    with pytest.raises(MemoryError):
        pool.allocate(100)
    with pytest.raises(tarn.TarnError, match="cannot create .*ä"):
        mr.LoggingResourceAdaptor(pool, "/no such folder/x" + "ä" * 400)
