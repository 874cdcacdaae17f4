"""Ends of objects without a caller that could get an error: by the last reference, in a collection,
at exit, on another thread.

Code that runs then may raise, fail or call Tarn. Each failure is reported once (in Python to
sys.unraisablehook), memory is accounted for, and nothing is freed twice.
"""

import ctypes
import gc
import subprocess
import sys
import threading

import pytest
import tarn
from tarn import _tarn, ipc, mr

MIB = 1 << 20


class Failure(Exception):
    pass


class Source(mr.DeviceMemoryResource):
    """A resource that counts its blocks, and calls `on_free` at each free."""

    def __init__(self):
        super().__init__()
        self.source = mr.CudaMemoryResource()
        self.live, self.twice, self.on_free = {}, [], lambda ptr: None

    def allocate(self, nbytes, stream=tarn.DEFAULT_STREAM):
        address = self.source.allocate(nbytes, stream)
        self.live[address] = nbytes
        return address

    def deallocate(self, ptr, nbytes, stream=tarn.DEFAULT_STREAM):
        self.on_free(ptr)
        if self.live.pop(ptr, None) != nbytes:
            self.twice.append(ptr)
            return
        self.source.deallocate(ptr, nbytes, stream)

    def memory_info(self):
        return MIB, 2 * MIB


# --- actions in the middle of a free ---------------------------------------------------------


def raises(source):
    """Fail the first try of each block."""
    tried = set()

    def on_free(ptr):
        if ptr not in tried:
            tried.add(ptr)
            raise Failure(ptr)

    return on_free


def fails(source):
    """Make a call that Tarn rejects."""
    tried = set()

    def on_free(ptr):
        if ptr not in tried:
            tried.add(ptr)
            source.source.deallocate(4096, 8)

    return on_free


def allocates_and_frees(source):
    """Allocate from the resource that is in the middle of a free."""
    inside = []

    def on_free(ptr):
        if not inside:
            inside.append(ptr)
            buffer = tarn.DeviceBuffer(size=100, mr=source)
            buffer.resize(1000)
            buffer.copy()
            del buffer
            inside.clear()

    return on_free


def releases_others(source):
    """Free blocks that were kept until now, each in the free of the previous one."""
    kept = [tarn.DeviceBuffer(size=8, mr=source) for _ in range(5)]

    def on_free(ptr):
        if kept:
            kept.pop()

    return on_free


def collects(source):
    def on_free(ptr):
        gc.collect()

    return on_free


def raises_and_allocates(source):
    one, other = raises(source), allocates_and_frees(source)

    def on_free(ptr):
        other(ptr)
        one(ptr)

    return on_free


ACTS = [raises, fails, allocates_and_frees, releases_others, collects, raises_and_allocates]
WHO_RAISE = {raises: Failure, fails: tarn.InvalidArgumentError, raises_and_allocates: Failure}


# --- objects that end --------------------------------------------------------------------------


class NumbaLike(_tarn.MemoryPointer):
    @classmethod
    def _as_address(cls, number):
        return number


def a_buffer(source):
    return tarn.DeviceBuffer(size=100, mr=source)


def a_buffer_of_adaptors(source):
    return tarn.DeviceBuffer(
        size=100, mr=mr.LimitingResourceAdaptor(mr.StatisticsResourceAdaptor(source), MIB)
    )


def a_pointer(source):
    return manager_over(source, False).memalloc(100)


def a_pointer_with_a_row(source):
    return manager_over(source, True).memalloc(100)


def a_view(source):
    return manager_over(source, False).memalloc(100).view(10, 10)


def memory_for_numba(source):
    plugin = _tarn.Plugin()
    plugin._prepare(manager_over(source, True), NumbaLike, None)
    return plugin.memalloc(100)


def shared_memory(source):
    return _tarn.ipc_retain(a_pointer(source))


def manager_over(source, logging):
    before = mr.set_current_device_resource(source)
    try:
        manager = _tarn.Manager(0, logging=logging)
        manager.memalloc(1)  # it is prepared
        return manager
    finally:
        manager_over.befores.append(before)


manager_over.befores = []

THINGS = [
    a_buffer, a_buffer_of_adaptors, a_pointer, a_pointer_with_a_row, a_view, memory_for_numba,
    shared_memory,
]  # fmt: skip


# --- ways to end -------------------------------------------------------------------------------


def by_its_last_reference(things):
    things.clear()


def in_a_collection(things):
    cycle = [things[:]]
    cycle.append(cycle)
    things.clear()
    del cycle
    gc.collect()


def on_another_thread(things):
    thread = threading.Thread(target=things.clear)
    thread.start()
    thread.join()


def in_the_middle_of_an_exception(things):
    with pytest.raises(ZeroDivisionError):
        try:
            raise ZeroDivisionError
        finally:
            things.clear()


WAYS = [
    by_its_last_reference, in_a_collection, on_another_thread, in_the_middle_of_an_exception,
]  # fmt: skip


@pytest.fixture(autouse=True)
def same_resource_afterwards():
    before = mr.get_current_device_resource()
    yield
    manager_over.befores.clear()
    mr.set_current_device_resource(before)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("thing", THINGS)
@pytest.mark.parametrize("act", ACTS)
def test_a_free_in_which_something_happens(act, thing, way, unraisable):
    source = Source()
    things = [thing(source) for _ in range(3)]
    blocks = len(source.live)
    source.on_free = act(source)
    way(things)
    reported = [type(error) for error in unraisable]
    # A reported block is freed again at the end of the next one, and succeeds then. Allocations of
    # the action itself may fail to be freed, too.
    if act in (raises, fails):
        assert reported == [WHO_RAISE[act]] * 3
    elif act is raises_and_allocates:
        assert set(reported) == {Failure} and len(set(map(str, unraisable))) == len(reported)
    else:
        assert reported == []
    unraisable.clear()
    source.on_free = lambda ptr: None
    tarn.DeviceBuffer(size=8, mr=source)
    mr.set_current_device_resource(None)
    gc.collect()
    assert source.live == {} and source.twice == [] and blocks > 0
    assert unraisable == []


def test_a_free_that_fails_for_good_is_reported_once_however_often_it_is_tried(unraisable):
    source = Source()

    def never(ptr):
        raise Failure

    buffer = tarn.DeviceBuffer(size=8, mr=source)
    source.on_free = never
    del buffer
    for _ in range(10):
        tarn.DeviceBuffer(size=8, mr=mr.CudaMemoryResource())
    assert [type(error) for error in unraisable] == [Failure]
    source.on_free = lambda ptr: None
    tarn.DeviceBuffer(size=8, mr=source)
    assert source.live == {}


def test_failures_of_others_are_not_reported_again(unraisable, quick_switches):
    """Many threads use one resource that fails the first free of each block."""
    sources = [Source() for _ in range(4)]

    def work(source):
        source.on_free = raises(source)
        for _ in range(50):
            tarn.DeviceBuffer(size=8, mr=source)

    threads = [threading.Thread(target=work, args=(source,)) for source in sources]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for source in sources:
        source.on_free = lambda ptr: None
    for _ in range(1000):
        tarn.DeviceBuffer(size=8)
    assert all(source.live == {} and source.twice == [] for source in sources)
    assert {type(error) for error in unraisable} == {Failure}


# --- owners, callbacks, logs ---------------------------------------------------------------------


class Owner:
    """Of memory that is page-locked, or that other processes may have open."""

    def __init__(self, act):
        self.act = act
        self.ends = 0

    def __del__(self):
        self.ends += 1
        ended.append(self.ends)
        self.act()


ended = []


def fail():
    raise Failure


def use_tarn():
    tarn.DeviceBuffer(size=100).copy()
    ipc.export(tarn.DeviceBuffer(size=2 * MIB, mr=mr.CudaMemoryResource()))
    ipc.counts(), ipc.leases()
    gc.collect()


@pytest.mark.parametrize("act, error", [(fail, Failure), (use_tarn, None)])
@pytest.mark.parametrize("way", WAYS)
def test_the_end_of_an_owner(act, error, way, unraisable):
    host = (ctypes.c_char * (1 << 16))()
    address = ctypes.addressof(host)
    manager = _tarn.Manager(0)
    device = tarn.DeviceBuffer(size=100)
    things = [
        manager.mempin(Owner(act), address, len(host)),
        _tarn.ipc_hold(device.ptr, 100, 0, Owner(act)),
    ]
    ended.clear()
    way(things)
    assert ended == [1, 1]
    assert [type(one) for one in unraisable] == ([error] * 2 if error else [])
    unraisable.clear()  # their tracebacks keep the memory


class Adaptor(mr.UpstreamResourceAdaptor):
    def __del__(self):
        ended.append(1)
        self.act()


@pytest.mark.parametrize("act, error", [(fail, Failure), (use_tarn, None)])
@pytest.mark.parametrize("way", WAYS)
def test_the_end_of_a_resource_of_ones_own(act, error, way, unraisable):
    class Written(Adaptor):
        def allocate(self, nbytes, stream=tarn.DEFAULT_STREAM):
            return super().allocate(nbytes, stream)

        def deallocate(self, ptr, nbytes, stream=tarn.DEFAULT_STREAM):
            super().deallocate(ptr, nbytes, stream)

    things = [Adaptor(mr.CudaMemoryResource()), Written(mr.CudaMemoryResource())]
    for one in things:
        one.act = act
    del one
    things.append(tarn.DeviceBuffer(size=100, mr=things[1]))
    things.append(mr.PoolMemoryResource(things[1], initial_pool_size=2 * MIB))
    ended.clear()
    way(things)
    assert ended == [1, 1]
    assert [type(one) for one in unraisable] == ([error] * 2 if error else [])
    unraisable.clear()  # their tracebacks keep the memory


@pytest.mark.parametrize("way", WAYS)
def test_a_log_that_cannot_be_written_is_one_warning_when_its_resource_ends(
    way, unraisable, tmp_path, capfd
):
    (tmp_path / "log.dev0").symlink_to("/dev/full")
    things = [mr.LoggingResourceAdaptor(mr.CudaMemoryResource(), tmp_path / "log")]
    things.append(tarn.DeviceBuffer(size=8, mr=things[0]))
    way(things)
    assert unraisable == []
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == 1 and "log.dev0" in lines[0] and "No space left on device" in lines[0]


AT_EXIT = """
import atexit, builtins, gc, os, sys, threading
import tarn
from tarn import _tarn, mr

class Source(mr.DeviceMemoryResource):
    def __init__(self):
        super().__init__()
        self.source = mr.CudaMemoryResource()
        self.live = {}
    def allocate(self, nbytes, stream=tarn.DEFAULT_STREAM):
        address = self.source.allocate(nbytes, stream)
        self.live[address] = nbytes
        return address
    def deallocate(self, ptr, nbytes, stream=tarn.DEFAULT_STREAM):
        if "raise" in act and ptr not in tried:
            tried.add(ptr)
            raise ValueError("from deallocate")
        if "call" in act and not inside:
            inside.append(1)
            tarn.DeviceBuffer(size=8, mr=self).resize(1000)
            inside.clear()
        if self.live.pop(ptr, None) != nbytes:
            os.write(2, b"freed twice")
        self.source.deallocate(ptr, nbytes, stream)

act, where = sys.argv[1:]
tried, inside = set(), []
source = Source()
pool = mr.PoolMemoryResource(source)
mr.set_current_device_resource(source)
manager = _tarn.Manager(0)
things = [
    tarn.DeviceBuffer(size=100), tarn.DeviceBuffer(size=100, mr=pool), manager.memalloc(100),
    manager.memalloc(100).view(0, 10), tarn.Stream().register(), mr.StatisticsResourceAdaptor(pool),
]
if where == "main":
    pass
elif where == "builtins":
    builtins.things = things
elif where == "atexit":
    atexit.register(things.clear)
elif where == "cycle":
    things.append(things)
elif where == "end":
    class Last:
        def __init__(self, things):
            self.things = things
        def __del__(self):
            self.things.clear()
    builtins.last = Last(things)
elif where == "thread":
    started = threading.Event()
    def wait(things=things):
        started.set()
        while True:
            tarn.DeviceBuffer(size=1 << 21, mr=pool), tarn.DeviceBuffer(size=8, mr=source)
    for _ in range(3):
        threading.Thread(target=wait, daemon=True).start()
    started.wait()
del things
print("ok", flush=True)
"""


@pytest.mark.parametrize("where", ["main", "builtins", "atexit", "cycle", "end", "thread"])
@pytest.mark.parametrize("act", ["nothing", "raise", "call", "raise call"])
def test_the_end_of_a_program(act, where):
    done = subprocess.run(
        [sys.executable, "-c", AT_EXIT, act, where], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stderr
    assert "freed twice" not in done.stderr and "Fatal" not in done.stderr
    if "raise" not in act:
        assert done.stderr == ""
