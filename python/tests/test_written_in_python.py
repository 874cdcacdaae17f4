"""Resources that are written in Python, at every place where C code calls them."""

import ctypes
import gc
import re
import threading
import weakref

import native_thread
import pytest
import tarn
from tarn import mr


class Own(mr.DeviceMemoryResource):
    """A resource that records its calls, with memory of one of Tarn's resources."""

    def __init__(self, source=None):
        self.source = source or mr.CudaMemoryResource()
        self.calls = []

    def allocate(self, nbytes, stream=tarn.DEFAULT_STREAM):
        self.calls.append(("allocate", nbytes, stream))
        return self.source.allocate(nbytes, stream)

    def deallocate(self, ptr, nbytes, stream=tarn.DEFAULT_STREAM):
        self.calls.append(("deallocate", nbytes, stream))
        self.source.deallocate(ptr, nbytes, stream)


class Refusing(Own):
    """A resource that raises a given exception."""

    def __init__(self, error):
        super().__init__()
        self.error = error

    def allocate(self, nbytes, stream=tarn.DEFAULT_STREAM):
        raise self.error


@pytest.fixture
def own(counted):
    return Own(counted.mr)


def test_a_buffer_is_allocated_and_freed_by_it(own):
    stream = tarn.Stream()
    buffer = tarn.DeviceBuffer(size=100, stream=stream, mr=own)
    assert buffer.mr is own
    del buffer
    assert own.calls == [("allocate", 100, stream), ("deallocate", 100, stream)]


def test_it_gets_the_named_streams_themselves(own):
    """It may compare them with `is`."""
    streams = [
        tarn.DEFAULT_STREAM, tarn.LEGACY_DEFAULT_STREAM, tarn.PER_THREAD_DEFAULT_STREAM,
        tarn.NO_STREAM,
    ]  # fmt: skip
    for stream in streams:
        tarn.DeviceBuffer(size=10, stream=stream, mr=own)
        (*_, allocated), (*_, freed) = own.calls
        assert allocated is stream and freed is stream
        own.calls.clear()


def test_it_can_be_in_charge_of_a_device(own):
    before = mr.set_current_device_resource(own)
    assert mr.get_current_device_resource() is own
    tarn.DeviceBuffer(size=10)
    assert mr.set_current_device_resource(before) is own
    assert [call[:2] for call in own.calls] == [("allocate", 10), ("deallocate", 10)]


def test_a_device_that_does_not_exist_does_not_become_its_own(own):
    count = tarn.driver_info().device_count
    with pytest.raises(tarn.InvalidArgumentError, match=f"device {count} does not exist"):
        mr.set_per_device_resource(count, own)
    assert own.device is None
    before = mr.set_per_device_resource(count - 1, own)
    assert own.device == count - 1
    mr.set_per_device_resource(count - 1, before)


def test_it_can_be_under_every_adaptor(own, tmp_path):
    adaptors = [
        mr.LimitingResourceAdaptor(own, 1 << 20),
        mr.StatisticsResourceAdaptor(own),
        mr.LoggingResourceAdaptor(own, tmp_path / "log"),
    ]
    for count, adaptor in enumerate(adaptors, 1):
        assert adaptor.upstream_mr is own
        adaptor.deallocate(adaptor.allocate(10), 10)
        assert len(own.calls) == 2 * count


def test_an_adaptor_of_ones_own_calls_super(counted):
    class Doubling(mr.UpstreamResourceAdaptor):
        def __init__(self, upstream_mr, factor):
            super().__init__(upstream_mr)
            self.factor = factor

        def allocate(self, nbytes, stream=tarn.DEFAULT_STREAM):
            return super().allocate(self.factor * nbytes, stream)

        def deallocate(self, ptr, nbytes, stream=tarn.DEFAULT_STREAM):
            super().deallocate(ptr, self.factor * nbytes, stream)

    doubling = Doubling(counted.mr, factor=2)
    assert doubling.upstream_mr is counted.mr
    buffer = tarn.DeviceBuffer(size=100, mr=mr.LimitingResourceAdaptor(doubling, 1 << 20))
    assert counted.live_bytes == 200
    del buffer
    assert counted.live_bytes == 0


def test_an_adaptor_that_defines_nothing_passes_on(counted):
    class Plain(mr.UpstreamResourceAdaptor):
        pass

    buffer = tarn.DeviceBuffer(size=100, mr=Plain(counted.mr))
    assert counted.live_bytes == 100
    del buffer


def test_a_source_of_tarn_can_be_derived_from():
    seen = []

    class Spy(mr.CudaMemoryResource):
        def allocate(self, nbytes, stream=tarn.DEFAULT_STREAM):
            seen.append(nbytes)
            return super().allocate(nbytes, stream)

    spy = Spy()
    tarn.DeviceBuffer(size=7, mr=spy)
    mr.StatisticsResourceAdaptor(spy).allocate(0)
    assert seen == [7]


class Words(Exception):
    pass


@pytest.mark.parametrize(
    "error", [Words("no"), KeyboardInterrupt(), MemoryError("full"), tarn.OutOfMemoryError("x")]
)
def test_its_exception_comes_out_of_the_outer_call(error):
    refusing = Refusing(error)
    stack = mr.LimitingResourceAdaptor(mr.StatisticsResourceAdaptor(refusing), 1 << 20)
    for call in (
        lambda: tarn.DeviceBuffer(size=8, mr=refusing),
        lambda: tarn.DeviceBuffer(size=8, mr=stack),
        lambda: stack.allocate(8),
    ):
        with pytest.raises(type(error)) as caught:
            call()
        assert caught.value is error
        assert caught.traceback[-1].name == "allocate"
    assert stack.get_allocated_bytes() == 0


def test_c_code_sees_memory_error_as_out_of_memory():
    with pytest.raises(MemoryError):
        mr.LimitingResourceAdaptor(Refusing(MemoryError("full")), 1 << 20).allocate(8)


def test_an_old_exception_does_not_come_out_of_a_later_failure(counted):
    with pytest.raises(Words):
        tarn.DeviceBuffer(size=8, mr=Refusing(Words("first")))
    with pytest.raises(tarn.InvalidArgumentError):
        counted.mr.deallocate(4096, 8)


def test_an_exception_in_a_finalizer_goes_to_the_hook_and_the_block_is_tried_again(own, unraisable):
    class Failing(Own):
        def deallocate(self, ptr, nbytes, stream=tarn.DEFAULT_STREAM):
            if not self.calls.count("failed"):
                self.calls.append("failed")
                raise Words("from deallocate")
            super().deallocate(ptr, nbytes, stream)

    failing = Failing(own.source)
    buffer = tarn.DeviceBuffer(size=8, mr=failing)
    del buffer
    assert [type(error) for error in unraisable] == [Words]
    tarn.DeviceBuffer(size=8, mr=own)
    assert failing.calls[-1][0] == "deallocate"


def test_an_exception_that_is_under_way_survives_a_finalizer(own):
    with pytest.raises(Words, match="outer"):
        try:
            buffer = tarn.DeviceBuffer(size=8, mr=own)
            raise Words("outer")
        finally:
            del buffer
    assert own.calls[-1][0] == "deallocate"


@pytest.mark.parametrize("result", [0, 257, -1, "x", None, 2**64])
def test_an_address_that_cannot_be_is_refused(result):
    class Wrong(mr.DeviceMemoryResource):
        returned = []

        def allocate(self, nbytes, stream=tarn.DEFAULT_STREAM):
            return result

        def deallocate(self, ptr, nbytes, stream=tarn.DEFAULT_STREAM):
            self.returned.append((ptr, nbytes))

    words = re.escape(f"allocate() of Wrong returned {result!r} for 8 bytes: the ")
    with pytest.raises((ValueError, TypeError), match=words):
        tarn.DeviceBuffer(size=8, mr=Wrong())
    assert Wrong.returned == ([(257, 8)] if result == 257 else [])


class Short(Own):
    """A resource that allocates half of the requested bytes."""

    def allocate(self, nbytes, stream=tarn.DEFAULT_STREAM):
        return super().allocate(nbytes // 2, stream)

    def deallocate(self, ptr, nbytes, stream=tarn.DEFAULT_STREAM):
        super().deallocate(ptr, nbytes // 2, stream)


@pytest.mark.parametrize(
    "source", [mr.CudaMemoryResource, mr.CudaAsyncMemoryResource, mr.ManagedMemoryResource]
)
def test_fewer_bytes_than_were_requested_are_refused_and_given_back(source):
    counted = mr.StatisticsResourceAdaptor(source())
    after_it = counted.allocate(4000)  # adjacent memory that an overflow would overwrite
    short = Short(counted)
    words = r"allocate\(\) of Short returned \d+ for 8000 bytes: .* has 4000 bytes from"
    for _ in range(2):
        with pytest.raises(ValueError, match=words):
            tarn.DeviceBuffer(size=8000, mr=short)
    counted.deallocate(after_it, 4000)
    assert counted.allocation_counts.current_bytes == 0


def test_a_block_of_a_pool_is_as_long_as_the_driver_knows(counted):
    """It does not know blocks within its allocations; a whole gigabyte is unambiguous."""
    for source in (mr.PoolMemoryResource(), mr.PoolMemoryResource(mr.CudaMemoryResource())):
        own = Own(source)
        for size in (8, 1 << 30):
            assert tarn.DeviceBuffer(size=size, mr=own).size == size


def test_a_refused_block_whose_return_fails_is_reported(unraisable, own):
    class Failing(Short):
        def deallocate(self, ptr, nbytes, stream=tarn.DEFAULT_STREAM):
            super().deallocate(ptr, nbytes, stream)
            raise Words("from deallocate")

    with pytest.raises(ValueError, match="8000 bytes"):
        tarn.DeviceBuffer(size=8000, mr=Failing(own.source))
    assert [type(error) for error in unraisable] == [Words]


def test_memory_of_another_device_is_refused(sim_process):
    code = """
import tarn
from tarn import mr
class Elsewhere(mr.DeviceMemoryResource):
    source = mr.StatisticsResourceAdaptor(mr.CudaMemoryResource(device=1))
    def allocate(self, nbytes, stream=tarn.DEFAULT_STREAM):
        return self.source.allocate(nbytes, stream)
    def deallocate(self, ptr, nbytes, stream=tarn.DEFAULT_STREAM):
        self.source.deallocate(ptr, nbytes, stream)
try:
    tarn.DeviceBuffer(size=80, mr=Elsewhere())
except ValueError as error:
    print(str(error).partition("are ")[2], Elsewhere.source.allocation_counts.current_bytes)
"""
    assert sim_process(code, TARN_SIM="devices=2") == "memory of device 1, not of device 0 0"


class Repeating(Own):
    """A resource that always returns one block."""

    block = 0

    def allocate(self, nbytes, stream=tarn.DEFAULT_STREAM):
        self.block = self.block or super().allocate(1 << 20, stream)
        return self.block

    def deallocate(self, ptr, nbytes, stream=tarn.DEFAULT_STREAM):
        if self.calls[-1] == "fail":
            raise Words("not today")


def test_a_block_that_is_in_use_is_not_handed_out_again(own, unraisable):
    repeating = Repeating(own.source)
    first = tarn.DeviceBuffer(size=8, mr=repeating)
    words = f"allocate.. of Repeating returned {first.ptr} for 16 bytes: .* belongs to a live block"
    for maker in (repeating, mr.LimitingResourceAdaptor(repeating, 1 << 20)):
        with pytest.raises(ValueError, match=words):
            tarn.DeviceBuffer(size=16, mr=maker)
    first.copy_from_host(b"abcdefgh")
    assert first.tobytes() == b"abcdefgh"
    del first
    second = tarn.DeviceBuffer(size=16, mr=repeating)
    repeating.calls.append("fail")
    del second  # whose free fails
    with pytest.raises(ValueError, match=words):
        tarn.DeviceBuffer(size=16, mr=repeating)
    repeating.calls.append("work")
    tarn.DeviceBuffer(size=8, mr=own)  # and with it the deferred one
    assert tarn.DeviceBuffer(size=16, mr=repeating).ptr == repeating.block
    own.source.deallocate(repeating.block, 1 << 20)


def test_a_block_that_went_with_its_context_may_be_handed_out_again(sim_process):
    code = """
import ctypes, tarn
from tarn import mr
class Own(mr.DeviceMemoryResource):
    source = mr.CudaMemoryResource()
    def allocate(self, nbytes, stream=tarn.DEFAULT_STREAM):
        return self.source.allocate(nbytes, stream)
    def deallocate(self, ptr, nbytes, stream=tarn.DEFAULT_STREAM):
        self.source.deallocate(ptr, nbytes, stream)
own = Own()
before = tarn.DeviceBuffer(size=80, mr=own)
assert ctypes.CDLL(tarn.driver_info().path).cuDevicePrimaryCtxReset_v2(0) == 0
after = tarn.DeviceBuffer(size=80, mr=own)
print(after.ptr == before.ptr)
"""
    assert sim_process(code) == "True"


@pytest.mark.parametrize(
    "info", [(-1, 5), (2**80, 2**81), (6, 5), (2**64, 2**64), (0, -1), 5, ("a", "b")]
)
def test_numbers_of_memory_that_cannot_be_are_refused(own, info):
    own.memory_info = lambda: info
    mr.set_current_device_resource(own)
    words = re.escape(f"memory_info() of Own returned {info!r}, not (free, total)")
    with pytest.raises((ValueError, TypeError), match=words):
        tarn._tarn.Manager(0).get_memory_info()
    own.memory_info = lambda: (2**63, 2**64 - 1)
    assert tarn._tarn.Manager(0).get_memory_info() == (2**63, 2**64 - 1)


@pytest.mark.parametrize("released", [-1, 2**70, "much", None])
def test_a_trim_that_gives_back_what_cannot_be_is_refused(own, released):
    own.trim = lambda keep: released
    mr.set_current_device_resource(own)
    words = re.escape(f"trim() of Own returned {released!r}, not a number of bytes")
    with pytest.raises((ValueError, TypeError), match=words):
        tarn._tarn.Manager(0).reset()
    own.trim = lambda keep: 7
    tarn._tarn.Manager(0).reset()


def test_a_pool_passes_its_stream_only_to_a_class_that_supports_streams(own):
    stream = tarn.Stream()
    for supports, expected in ((False, tarn.NO_STREAM), (True, stream)):
        own.supports_streams = supports
        pool = mr.PoolMemoryResource(own)
        pool.deallocate(pool.allocate(1000, stream), 1000, stream)
        assert own.calls[-1][2] == expected
        del pool


def test_an_error_in_supports_streams_is_raised(own):
    class Unsure(Own):
        @property
        def supports_streams(self):
            raise ValueError("who knows")

    with pytest.raises(ValueError, match="who knows"):
        mr.PoolMemoryResource(Unsure())


def test_half_a_resource_is_a_type_error():
    class Half(mr.DeviceMemoryResource):
        def allocate(self, nbytes, stream=tarn.DEFAULT_STREAM):
            return 4096

    buffer = tarn.DeviceBuffer(size=0, mr=Half())
    assert buffer.ptr == 0
    with pytest.raises(TypeError):
        Half().deallocate(4096, 8)


def test_nothing_is_kept_alive_once_it_is_out_of_use(counted):
    own = Own(counted.mr)
    gone = weakref.ref(own)
    buffer = tarn.DeviceBuffer(size=8, mr=mr.StatisticsResourceAdaptor(own))
    mr.set_current_device_resource(own)
    mr.set_current_device_resource(None)
    del own
    gc.collect()
    assert gone() is not None
    del buffer
    gc.collect()
    assert gone() is None


def test_a_thread_unknown_to_python_can_drop_the_last_reference_to_it():
    api, library = ctypes.pythonapi, native_thread.LIBRARY
    api.PyCapsule_GetPointer.restype = library.tarn_resource_retain.restype = ctypes.c_void_p
    api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    library.tarn_resource_retain.argtypes = [ctypes.c_void_p]
    own = Own()
    ended = weakref.ref(own)
    capsule = tarn._tarn._resource_capsule(own)
    resource = api.PyCapsule_GetPointer(capsule, b"tarn_resource")
    library.tarn_resource_retain(resource)
    del own, capsule
    gc.collect()
    assert ended() is not None
    native_thread.call(library.tarn_resource_release, resource)
    assert ended() is None


def test_a_cycle_through_a_buffer_is_collected(counted):
    own = Own(counted.mr)
    own.buffer = tarn.DeviceBuffer(size=8, mr=mr.CudaMemoryResource())
    own.buffer_of_its_own_source = tarn.DeviceBuffer(size=8, mr=own.source)
    gone = weakref.ref(own)
    del own
    gc.collect()
    assert gone() is None and counted.live_bytes == 0


def test_it_is_called_from_many_threads(own):
    limiter = mr.LimitingResourceAdaptor(own, 1 << 30)

    def work():
        for _ in range(50):
            tarn.DeviceBuffer(size=64, mr=limiter)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(own.calls) == 2 * 8 * 50


AT_EXIT = """
import tarn
from tarn import mr

class Own(mr.DeviceMemoryResource):
    source = mr.CudaMemoryResource()
    def allocate(self, nbytes, stream=tarn.DEFAULT_STREAM):
        return self.source.allocate(nbytes, stream)
    def deallocate(self, ptr, nbytes, stream=tarn.DEFAULT_STREAM):
        self.source.deallocate(ptr, nbytes, stream)

mr.set_current_device_resource(Own())
kept = tarn.DeviceBuffer.to_device(b"abc")
import builtins
builtins.kept_longer = tarn.DeviceBuffer.to_device(b"abc")
stream = tarn.Stream()
print("ok")
"""


def test_a_process_with_one_in_charge_ends_quietly(sim_process):
    assert sim_process(AT_EXIT) == "ok"


def test_a_class_that_is_changed_later_is_seen_to_be():
    class Mine(tarn.mr.UpstreamResourceAdaptor):
        pass

    mr = Mine(tarn.mr.CudaMemoryResource())
    asked = []

    def allocate(self, nbytes, stream=tarn.DEFAULT_STREAM):
        asked.append(nbytes)
        return tarn.mr.UpstreamResourceAdaptor.allocate(self, nbytes, stream)

    for _ in range(3):
        tarn.DeviceBuffer(size=10, mr=mr)
    Mine.allocate = allocate
    tarn.DeviceBuffer(size=20, mr=mr)
    assert asked == [20]
    del Mine.allocate
    tarn.DeviceBuffer(size=30, mr=mr)
    assert asked == [20]


class Passing(mr.UpstreamResourceAdaptor):
    """An adaptor that only forwards calls."""

    def allocate(self, nbytes, stream=0):
        return self.upstream_mr.allocate(nbytes, stream)

    def deallocate(self, ptr, nbytes, stream=0):
        self.upstream_mr.deallocate(ptr, nbytes, stream)


def test_no_more_than_64_resources_stack_whatever_they_are_written_in():
    makers = [
        Passing,
        mr.StatisticsResourceAdaptor,
        lambda upstream: mr.LimitingResourceAdaptor(upstream, 1 << 40),
    ]
    top = mr.CudaMemoryResource()
    with pytest.raises(tarn.InvalidArgumentError, match="at most 64 can be stacked"):
        for i in range(100):
            top = makers[i % 3](top)
    assert 62 <= i <= 66
    top.deallocate(top.allocate(1000), 1000)


@pytest.mark.parametrize("nbytes", [2**63, 2**64 - 256])
def test_a_size_that_python_cannot_hold_is_out_of_memory(nbytes):
    own = Own()
    with pytest.raises(tarn.OutOfMemoryError, match=f"cannot allocate {nbytes} bytes, the maximum"):
        mr.StatisticsResourceAdaptor(own).allocate(nbytes)
    assert own.calls == []
