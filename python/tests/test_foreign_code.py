"""Other code that runs in the middle of a call: `__index__`, `__del__`, a resource written in
Python, the garbage collector, another thread.

Whatever it does to the objects of that call, memory stays valid: ./check runs this under ASan, too.
"""

import ctypes
import gc
import sys
import threading
import weakref

import pytest
import tarn
from tarn import _tarn, mr

MIB = 1 << 20


class Source(mr.DeviceMemoryResource):
    """A resource over `source` that calls `hook` in the middle of an allocation, and before a free."""

    def __init__(self, source=None):
        super().__init__()
        self.source = source or mr.CudaMemoryResource()
        self.hook = self.free_hook = lambda: None

    def allocate(self, nbytes, stream=tarn.DEFAULT_STREAM):
        self.hook()
        return self.source.allocate(nbytes, stream)

    def deallocate(self, ptr, nbytes, stream=tarn.DEFAULT_STREAM):
        self.free_hook()
        self.source.deallocate(ptr, nbytes, stream)


class Index:
    """A number whose reading calls `hook`."""

    def __init__(self, number, hook):
        self.number, self.hook = number, hook

    def __index__(self):
        self.hook()
        return self.number


class StreamLike:
    """The default stream, by the protocol; calls `hook` when it is queried, or when it ends."""

    def __init__(self, hook=lambda: None, end=lambda: None):
        self.hook, self.end = hook, end

    def __cuda_stream__(self):
        self.hook()
        return 0, 0

    def __del__(self):
        self.end()


def churn():
    """Allocate other objects in the place of freed memory."""
    return [bytearray(b"A" * size) for size in range(16, 256, 8) for _ in range(50)]


class Neighbours:
    """Live blocks around free memory of a pool; they detect writes outside it."""

    def __init__(self, count=200, size=1000):
        self.pool = mr.PoolMemoryResource(mr.CudaMemoryResource())
        self.content = b"n" * size
        self.all = [tarn.DeviceBuffer.to_device(self.content, mr=self.pool) for _ in range(count)]

    def hole(self):
        del self.all[len(self.all) // 2]

    def are_whole(self):
        return all(one.tobytes() == self.content for one in self.all)


@pytest.fixture
def busy_interpreter(quick_switches):
    """Threads change all the time, and the collector runs as often as possible."""
    threshold = gc.get_threshold()
    gc.set_threshold(1)
    yield
    gc.set_threshold(*threshold)


def at_once(*works):
    """Run each of these in a thread of its own; raise their exceptions."""
    raised = []

    def run(work):
        try:
            work()
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if raised:
        raise raised[0]


# --- attributes that are read of an array ---------------------------------------------------


@pytest.mark.parametrize("gone", ["stream", "shape", "typestr", "strides", "data"])
def test_an_interface_whose_address_takes_its_own_entries_away(gone):
    source = tarn.DeviceBuffer.to_device(b"x" * 64)
    buffer = tarn.DeviceBuffer(size=64)
    entries = {"shape": (64,), "typestr": "|u1", "strides": (1,), "version": 3}

    class Array:
        @property
        def __cuda_array_interface__(self):
            interface = dict(entries, stream=StreamLike())

            def hook():
                del interface[gone]
                gc.collect()
                self.kept = churn()

            interface["data"] = (Index(source.ptr, hook), False)
            return interface

    for _ in range(5):
        buffer.copy_from_host(b"\0" * 64)
        buffer.copy_from_device(Array())
        assert buffer.tobytes() == b"x" * 64


def test_the_stream_of_an_interface_stays_until_it_was_waited_for():
    source = tarn.DeviceBuffer.to_device(b"x" * 64)
    buffer = tarn.DeviceBuffer(size=64)

    class Array:
        @property
        def __cuda_array_interface__(self):
            return {
                "shape": (64,), "typestr": "|u1", "data": (source.ptr, False),
                "version": 3, "stream": tarn.Stream(flags=1),
            }  # fmt: skip

    buffer.copy_from_device(Array())
    assert buffer.tobytes() == b"x" * 64


@pytest.mark.parametrize("typestr", ["|u-1", "<f", "<f+8", "<f 8", "|u18446744073709551615"])
def test_an_item_has_a_number_of_bytes(typestr):
    class Array:
        __cuda_array_interface__ = {"shape": (2,), "typestr": typestr, "data": (256, False)}

    with pytest.raises(ValueError):
        tarn.DeviceBuffer(size=8).copy_from_device(Array())


@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError])
def test_what_reading_an_attribute_raises_is_raised(error):
    class Broken:
        @property
        def __cuda_array_interface__(self):
            raise error

        @property
        def cuda_stream(self):
            raise error

    with pytest.raises(error):
        tarn.DeviceBuffer(size=8).copy_from_device(Broken())
    with pytest.raises(error):
        tarn.Stream(Broken())


# --- a buffer that is resized during a resize, a copy or a query ------------------------------


@pytest.mark.parametrize("how", ["reserve", "resize"])
def test_the_end_of_a_buffers_stream_resizes_it(how):
    neighbours = Neighbours()
    buffer = tarn.DeviceBuffer(
        size=10, stream=StreamLike(end=lambda: buffer.resize(50_000)), mr=neighbours.pool
    )
    neighbours.hole()
    getattr(buffer, how)(1000)
    assert buffer.size <= buffer.capacity()
    buffer.copy_from_host(b"!" * buffer.size)
    assert neighbours.are_whole()


@pytest.mark.parametrize("first, second", [(1000, 50_000), (50_000, 1000), (9, 1000)])
def test_an_allocation_for_a_buffer_resizes_it(first, second):
    neighbours = Neighbours()
    source = Source(neighbours.pool)
    buffer = tarn.DeviceBuffer(size=10, mr=source)
    neighbours.hole()

    def again():
        source.hook = lambda: None
        buffer.resize(second, StreamLike())

    source.hook = again
    buffer.resize(first)
    assert buffer.size <= buffer.capacity()
    buffer.copy_from_host(b"!" * buffer.size)
    assert neighbours.are_whole() and isinstance(buffer.stream, tarn.Stream)
    source.hook = lambda: None  # no collector sees a cycle through C code


def test_the_free_of_a_block_resizes_the_buffer():
    neighbours = Neighbours()
    source = Source(neighbours.pool)
    buffer = tarn.DeviceBuffer(size=10, mr=source)
    sizes = [100_000, 50_000, 20]

    def again():
        if sizes:
            buffer.resize(sizes.pop())

    source.free_hook = again
    buffer.resize(1000)
    assert buffer.size <= buffer.capacity()
    buffer.copy_from_host(b"!" * buffer.size)
    assert neighbours.are_whole()
    source.free_hook = lambda: None


def test_a_copy_of_a_buffer_changes_the_buffer():
    pool = mr.PoolMemoryResource()
    source = Source(pool)
    buffer = tarn.DeviceBuffer.to_device(b"abc" * 100, stream=StreamLike(), mr=source)
    kept = []

    def change():
        source.hook = lambda: None
        buffer.resize(10_000, StreamLike())
        gc.collect()
        kept.append(churn())
        kept.extend(tarn.DeviceBuffer.to_device(b"z" * 300, mr=pool) for _ in range(10))
        buffer.copy_from_host(b"\0" * 10_000)

    source.hook = change
    assert buffer.copy().tobytes() == b"abc" * 100
    assert buffer.tobytes() == b"\0" * 10_000


def test_the_stream_of_a_buffer_gives_it_another_one():
    kept = []

    def change():
        buffer.resize(10, StreamLike())
        kept.append(churn())

    buffer = tarn.DeviceBuffer(size=10, stream=StreamLike())
    first = buffer.stream  # reads it once
    buffer = tarn.DeviceBuffer(size=10, stream=first)
    assert buffer.stream is first
    owner = StreamLike()
    buffer = tarn.DeviceBuffer(size=10, stream=owner)
    owner.hook = change
    del owner
    assert buffer.stream.handle == 0


def test_a_buffer_is_resized_by_one_thread_and_copied_by_others(busy_interpreter):
    """The source of a copy stays until the copy is done, and no other owner gets it."""
    pool = mr.PoolMemoryResource(mr.CudaMemoryResource())
    content = b"n" * 1000
    other = tarn.DeviceBuffer.to_device(content, mr=pool)
    wrong = []

    for _ in range(10):
        buffer = tarn.DeviceBuffer(size=1000, mr=pool)
        done = threading.Event()

        def write():
            while not done.is_set():
                buffer.copy_from_host(b"!" * 1000)
                buffer.copy_from_device(other)

        def read():
            while not done.is_set():
                buffer.tobytes(), buffer.copy(), buffer.stream

        def take():
            while not done.is_set():
                mine = [tarn.DeviceBuffer.to_device(content, mr=pool) for _ in range(20)]
                wrong.extend(one for one in mine if one.tobytes() != content)

        def grow():
            for size in range(1100, 20_000, 300):
                buffer.resize(size, StreamLike())
                buffer.resize(1000)
            done.set()

        at_once(write, write, read, take, grow)
    assert wrong == []


def test_a_block_in_use_outlives_the_streams_that_its_buffer_has_had():
    """Hold up a copy on its stream while the buffer moves twice. The second stream is destroyed
    before the copy is done."""
    driver = ctypes.CDLL(tarn.driver_info().path)
    gate = threading.Event()
    held_up = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda data: gate.wait(30) and None)
    neighbours = Neighbours(count=20)
    slow = tarn.Stream(flags=1)
    buffer = tarn.DeviceBuffer.to_device(b"abc" * 100, mr=neighbours.pool)
    assert driver.cuLaunchHostFunc(ctypes.c_void_p(slow.handle), held_up, None) == 0
    read = []
    thread = threading.Thread(target=lambda: read.append(buffer.tobytes(slow)))
    thread.start()
    for size in (1000, 10_000):
        buffer.stream.synchronize()  # the next move is on another stream
        buffer.resize(size, tarn.Stream(flags=1))
    gc.collect()
    gate.set()
    thread.join()
    assert read == [b"abc" * 100]
    assert buffer.tobytes(buffer.stream)[:300] == b"abc" * 100  # behind the copy of the last move
    assert neighbours.are_whole()


def test_an_upstream_uses_the_pool_above_it_while_that_grows_and_shrinks():
    """A collection in its methods may end any object, and the finalizers may allocate from the
    pool."""
    source = Source()
    pool = mr.PoolMemoryResource(source, initial_pool_size=2 * MIB)
    refused, inside = [], []

    def use_the_pool():
        if inside:
            return
        inside.append(1)
        for use in (
            lambda: tarn.DeviceBuffer(size=100, mr=pool),
            lambda: tarn.DeviceBuffer(size=64 * MIB, mr=pool),
            pool.trim,
            lambda: setattr(pool, "maximum_pool_size", None),
        ):
            try:
                use()
            except tarn.TarnError as error:
                refused.append(str(error))
        inside.clear()

    source.hook = source.free_hook = use_the_pool
    buffer = tarn.DeviceBuffer(size=16 * MIB, mr=pool)
    del buffer
    assert pool.trim() > 0
    assert refused and all("called the pool while it was growing" in text for text in refused)
    source.hook = source.free_hook = lambda: None
    assert pool.statistics().live == 0


# --- incomplete objects, and objects of unexpected types --------------------------------------


def test_nobody_sees_a_part_of_a_buffer():
    source = Source()
    seen = []

    def look():
        for one in gc.get_objects():
            if type(one) is tarn.DeviceBuffer and one.mr is source:
                seen.append((one.size, one.ptr, one.mr, one.stream, repr(one), one.capacity()))

    source.hook = look
    whole = tarn.DeviceBuffer(size=10, mr=source)
    tarn.DeviceBuffer(size=10, mr=source)
    assert [one[0] for one in seen] == [10] and seen[0][1] == whole.ptr


@pytest.mark.parametrize("bad", [{"mr": 5}, {"stream": None}, {"size": 13}, {"size": 1 << 62}])
def test_the_end_of_a_buffer_that_was_never_made_is_not_called(bad):
    class Watched(tarn.DeviceBuffer):
        def __del__(self):
            ends.append((self.size, self.ptr, self.mr, self.stream, bytes(self)))

    class Unlucky(Source):
        def allocate(self, nbytes, stream=tarn.DEFAULT_STREAM):
            if nbytes == 13:
                raise MemoryError("unlucky")
            return super().allocate(nbytes, stream)

    ends = []
    with pytest.raises((TypeError, MemoryError)):
        Watched(**{"size": 8, "mr": Unlucky(), **bad})
    assert ends == []
    Watched(size=8)
    assert len(ends) == 1


class Small:
    __slots__ = ()


@pytest.mark.parametrize(
    "junk", [object(), 5, "x", 1.5, b"", (), [], type, Small(), mr.CudaMemoryResource, tarn]
)
def test_what_is_no_resource_is_a_type_error(junk):
    for _ in range(3):
        with pytest.raises(TypeError, match="is not a tarn.mr.DeviceMemoryResource"):
            tarn.DeviceBuffer(size=1, mr=junk)
        with pytest.raises(TypeError, match="is not a tarn.mr.DeviceMemoryResource"):
            tarn.DeviceBuffer.to_device(b"x", mr=junk)
        for adaptor in (mr.StatisticsResourceAdaptor, mr.PoolMemoryResource):
            with pytest.raises(TypeError):
                adaptor(junk)
        with pytest.raises(TypeError):
            mr.set_current_device_resource(junk)


def test_functions_of_the_extension_want_a_resource_that_has_one():
    for junk in (5, object(), mr.DeviceMemoryResource(), mr.PoolMemoryResource):
        for name in (
            "_counter_read", "_limiter_used", "_pool_statistics", "_pool_resume",
            "_pool_begin_oom_callbacks", "_pool_generation", "_pool_snapshot",
        ):  # fmt: skip
            with pytest.raises((TypeError, ValueError)):
                getattr(_tarn, name)(junk)


def test_a_class_for_resources_that_is_none_is_passed_over():
    before = mr.get_current_device_resource()
    for junk in (5, int, Small, tarn.DeviceBuffer):
        _tarn._resource_types["cuda"], kept = junk, _tarn._resource_types["cuda"]
        try:
            mr.set_current_device_resource(None)
            assert type(mr.get_current_device_resource()) is mr.DeviceMemoryResource
        finally:
            _tarn._resource_types["cuda"] = kept
    mr.set_current_device_resource(before)


def test_a_resource_is_initialised_once_whoever_is_quicker(busy_interpreter):
    """Two threads, or the code that looks up the class's methods, call __init__() again."""
    makers = [
        lambda one: mr.CudaAsyncMemoryResource.__init__(one, initial_pool_size=MIB),
        lambda one: mr.PoolMemoryResource.__init__(one, initial_pool_size=2 * MIB),
        lambda one: mr.LimitingResourceAdaptor.__init__(one, upstream, MIB),
    ]
    classes = [mr.CudaAsyncMemoryResource, mr.PoolMemoryResource, mr.LimitingResourceAdaptor]
    upstream = mr.CudaMemoryResource()
    for cls, make in zip(classes, makers):
        for _ in range(10):
            one, results = cls.__new__(cls), []

            def init(one=one, make=make, results=results):
                try:
                    make(one)
                    results.append(True)
                except ValueError as error:
                    assert "initialised only once" in str(error)

            at_once(init, init, init)
            assert results == [True]
            one.deallocate(one.allocate(100), 100)


def test_the_search_for_a_resources_methods_initialises_it():
    class Meta(type):
        def __getattribute__(cls, name):
            if name == "allocate" and pending:
                pending.pop().__init__(first)
            return super().__getattribute__(name)

    class Upstream(mr.UpstreamResourceAdaptor, metaclass=Meta):
        pass

    pending = []
    first, second = mr.CudaMemoryResource(), Upstream(mr.CudaMemoryResource())
    Upstream.changed = True  # so that the methods are looked up again
    adaptor = mr.UpstreamResourceAdaptor.__new__(mr.UpstreamResourceAdaptor)
    pending.append(adaptor)
    with pytest.raises(ValueError, match="initialised only once"):
        adaptor.__init__(second)
    assert adaptor.upstream_mr is first and pending == []
    before = sys.getrefcount(second)
    del adaptor
    gc.collect()
    assert sys.getrefcount(second) == before


class Derived(mr.UpstreamResourceAdaptor):
    pass


@pytest.mark.parametrize(
    "link, first",
    [
        (mr.UpstreamResourceAdaptor, mr.CudaMemoryResource),
        (Derived, mr.CudaMemoryResource),
        (tarn.Stream, tarn.Stream),
    ],
)
def test_a_long_chain_of_objects_ends(link, first):
    one = first()
    for _ in range(300_000):
        one = link(one)
    del one


def test_memory_that_is_asked_for_its_address_while_it_makes_it():
    class Memory(_tarn.MemoryPointer):
        @classmethod
        def _as_address(cls, number):
            made.append(object())
            if len(made) < 3:
                assert memory.device_pointer is memory.handle  # noqa: F821
            return made[-1]

    made = []
    manager, plugin = _tarn.Manager(0), _tarn.Plugin()
    plugin._prepare(manager, Memory, None)
    memory = plugin.memalloc(100)
    first = memory.device_pointer
    assert memory.device_pointer is first and memory.handle is first
    counts = sorted(sys.getrefcount(one) for one in made)
    del first, memory
    gc.collect()
    # A list's reference and the argument's; superfluous ones have no other.
    assert [sys.getrefcount(one) for one in made] == [counts[0]] * len(made)


def test_a_plugin_is_prepared_anew_in_the_middle_of_an_allocation():
    class First(_tarn.MemoryPointer):
        pass

    class Context:
        pass

    source = Source()
    before = mr.set_current_device_resource(source)
    plugin = _tarn.Plugin()
    plugin._prepare(_tarn.Manager(0), First, Context())
    gone = weakref.ref(First)

    def change():
        nonlocal First
        source.hook = lambda: None
        plugin._prepare(_tarn.Manager(0), type("Second", (_tarn.MemoryPointer,), {}), Context())
        del First
        gc.collect()
        kept.append(churn())

    kept = []
    source.hook = change
    memory = plugin._allocate(100)
    assert type(memory) is gone() and isinstance(memory.context, Context)
    assert type(plugin._allocate(10)).__name__ == "Second"
    mr.set_current_device_resource(before)


def test_numbers_of_ipc_are_checked():
    with pytest.raises(OverflowError):
        _tarn.ipc_hold(-1, 8, 0, None)
    with pytest.raises(OverflowError):
        _tarn.ipc_hold(1 << 64, 8, 0, None)
    handle = (b"\0" * 64, 8, 0, 0, b"\0" * 16)
    for device in (-2, 2**31 - 1):
        with pytest.raises(ValueError):
            _tarn.ipc_open(handle, device, False, 0)


def test_memory_info_of_less_than_nothing_is_refused():
    class Lying(Source):
        def memory_info(self):
            return -1, 5

    before = mr.set_current_device_resource(Lying())
    with pytest.raises(ValueError, match=r"returned \(-1, 5\), not \(free, total\)"):
        _tarn.Manager(0).get_memory_info()
    mr.set_current_device_resource(before)


NAMES = """
from tarn import _tarn
for bad in ([5], [(1, 2)], ["ab"], 5):
    try:
        _tarn.nrt_set_names(bad)
    except TypeError:
        pass
print("ok")
"""


def test_names_of_functions_are_pairs(sim_process):
    assert sim_process(NAMES) == "ok"
