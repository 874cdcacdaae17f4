"""tarn.DeviceBuffer."""

import copy
import functools
import gc
import pickle
import sys

import pytest
import tarn
from driver_support import Driver, Simulator

np = pytest.importorskip("numpy")

TEXT = b"The quick brown fox jumps over the lazy dog" * 100


class Array:
    """Another library's device array."""

    def __init__(self, **interface):
        self.__cuda_array_interface__ = interface


def test_a_buffer_has_a_size_and_an_address(counted):
    buffer = tarn.DeviceBuffer(size=1000)
    assert (buffer.size, buffer.nbytes, len(buffer), buffer.capacity()) == (1000,) * 4
    assert buffer.ptr % 256 == 0 and buffer.ptr != 0
    assert buffer.mr is counted.mr and buffer.stream is tarn.DEFAULT_STREAM
    assert counted.live_bytes == 1000
    assert sys.getsizeof(buffer) >= 1000
    del buffer
    assert counted.live_bytes == 0


def test_an_empty_buffer_has_no_memory(counted):
    for buffer in (tarn.DeviceBuffer(), tarn.DeviceBuffer.to_device(b"")):
        assert (buffer.size, buffer.ptr) == (0, 0)
        assert bytes(buffer) == b"" and len(buffer.copy_to_host()) == 0
        assert buffer.copy().size == 0
    assert counted.live_bytes == 0


def test_arguments_are_keywords_as_with_rmm():
    with pytest.raises(TypeError):
        tarn.DeviceBuffer(0, 8)


@pytest.mark.parametrize("make", [bytes, bytearray, memoryview, lambda b: np.frombuffer(b, "u1")])
def test_bytes_survive_the_way_to_the_device_and_back(make):
    buffer = tarn.DeviceBuffer.to_device(make(TEXT))
    assert buffer.tobytes() == bytes(buffer) == TEXT
    back = buffer.copy_to_host()
    assert isinstance(back, np.ndarray) and back.dtype == np.uint8
    assert back.tobytes() == TEXT
    target = bytearray(len(TEXT) + 3)
    assert buffer.copy_to_host(target) is target
    assert target == TEXT + b"\0\0\0"


def test_arrays_of_other_types_are_taken_as_bytes():
    numbers = np.arange(1000, dtype="f8").reshape(10, 100)
    buffer = tarn.DeviceBuffer.to_device(numbers)
    assert buffer.size == numbers.nbytes
    back = np.empty_like(numbers)
    buffer.copy_to_host(ary=back)
    assert (back == numbers).all()
    with pytest.raises((BufferError, ValueError)):
        tarn.DeviceBuffer.to_device(numbers[:, ::2])


def test_a_buffer_is_made_of_what_is_at_an_address():
    source = tarn.DeviceBuffer.to_device(TEXT)
    assert bytes(tarn.DeviceBuffer(ptr=source.ptr, size=9)) == TEXT[:9]
    host = np.frombuffer(TEXT, "u1")
    assert bytes(tarn.DeviceBuffer(ptr=host.ctypes.data, size=len(TEXT))) == TEXT


def test_copies_are_independent(counted):
    buffer = tarn.DeviceBuffer.to_device(b"abc")
    for twin in (buffer.copy(), copy.copy(buffer)):
        assert twin.ptr != buffer.ptr and twin.mr is buffer.mr
        twin.copy_from_host(b"xyz")
        assert (bytes(twin), bytes(buffer)) == (b"xyz", b"abc")


def test_host_bytes_go_to_the_beginning():
    buffer = tarn.DeviceBuffer.to_device(b"abcdef")
    buffer.copy_from_host(b"xy")
    buffer.copy_from_host(b"")
    assert bytes(buffer) == b"xycdef"


def test_what_does_not_fit_is_refused():
    buffer = tarn.DeviceBuffer.to_device(b"abc")
    with pytest.raises(ValueError, match="4 bytes, more than the 3"):
        buffer.copy_from_host(b"abcd")
    with pytest.raises(ValueError, match="2 bytes, 3 are required"):
        buffer.copy_to_host(bytearray(2))
    with pytest.raises(ValueError, match="4 bytes, more than the 3"):
        buffer.copy_from_device(tarn.DeviceBuffer(size=4))
    with pytest.raises((BufferError, TypeError)):
        buffer.copy_to_host(b"abc")
    assert bytes(buffer) == b"abc"


def test_device_arrays_are_copied():
    source = tarn.DeviceBuffer.to_device(np.arange(10, dtype="i4"))
    buffer = tarn.DeviceBuffer(size=40)
    buffer.copy_from_device(source)
    assert bytes(buffer) == bytes(source)
    for strides in ({}, {"strides": None}, {"strides": (4,)}):
        array = Array(data=(source.ptr + 8, False), shape=(2,), typestr="<i4", **strides)
        buffer.copy_from_device(array)
        assert bytes(buffer)[:8] == np.array([2, 3], "i4").tobytes()
    stream = tarn.Stream()
    buffer.copy_from_device(
        Array(data=(source.ptr, True), shape=(1,), typestr="<i4", stream=stream.handle),
        stream=stream,
    )
    stream.synchronize()
    assert bytes(buffer)[:4] == b"\0\0\0\0"


@pytest.fixture
def simulator():
    """The simulator, which finds operations on the same bytes that nothing orders."""
    tarn.open_driver()
    simulator = Simulator()
    if not simulator.library:
        pytest.skip("the driver is no simulator")
    simulator.configure("races=on")
    yield simulator
    simulator.configure(None)


@pytest.mark.parametrize(
    "name, races",
    [(lambda stream: stream.handle, 0), (lambda stream: stream, 0), (lambda stream: None, 1)],
)
def test_a_copy_comes_after_the_work_of_the_stream_that_an_array_names(simulator, name, races):
    producer, consumer = (tarn.Stream(flags=1) for _ in range(2))
    source, target = (tarn.DeviceBuffer(size=64) for _ in range(2))
    before = simulator.races()
    Driver().fill(source, 7, producer)
    interface = {**source.__cuda_array_interface__, "stream": name(producer)}
    target.copy_from_device(Array(**interface), stream=consumer)
    tarn.synchronize()
    assert simulator.races() - before == races


ON_DEVICE_1 = """
import ctypes, tarn
from tarn import mr
driver = ctypes.CDLL(tarn.driver_info().path)
first, second = ctypes.c_void_p(), ctypes.c_void_p()
for number, context in (0, first), (1, second):
    assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), number) == 0
driver.cuCtxSetCurrent(second)
stream = tarn.Stream(flags=1)
driver.cuCtxSetCurrent(first)
buffer = tarn.DeviceBuffer(size=3, stream=stream, mr=mr.ManagedMemoryResource(device=1))
buffer.copy_from_host(b"abc")
target = bytearray(3)
buffer.copy_to_host(target)
other = buffer.copy()
other.copy_from_device(buffer)
other.prefetch(1)
print(tarn.current_device(), bytes(target), other.tobytes(), buffer.__dlpack_device__())
"""


def test_a_buffer_is_copied_on_the_device_of_its_memory_whatever_the_current_one(sim_process):
    said = sim_process(ON_DEVICE_1, TARN_SIM="devices=2")
    assert said == "0 b'abc' b'abc' (13, 1)"


@pytest.mark.parametrize(
    "array",
    [
        object(),
        b"abc",
        Array(),
        Array(data=(4096, False), shape=(2, 2), typestr="<i4"),
        Array(data=(4096, False), shape=(2,), strides=(8,), typestr="<i4"),
        Array(data=(4096, False), shape=(2,), typestr="i"),
        Array(data=(4096, False), shape=(2,)),
        Array(data=None, shape=(2,), typestr="<i4"),
        Array(data=(4096, False), shape=(2**62,), typestr="<i8"),
        Array(data=(4096, False), shape=(-1,), typestr="<i8"),
    ],
)
def test_other_arrays_are_refused(array):
    with pytest.raises((ValueError, OverflowError)):
        tarn.DeviceBuffer(size=64).copy_from_device(array)


def test_the_array_interface_names_the_stream_to_wait_for():
    stream = tarn.Stream()
    buffer = tarn.DeviceBuffer(size=10, stream=stream)
    assert buffer.__cuda_array_interface__ == {
        "data": (buffer.ptr, False),
        "shape": (10,),
        "strides": None,
        "typestr": "|u1",
        "version": 3,
        "stream": stream.handle,
    }
    assert tarn.DeviceBuffer(size=1).__cuda_array_interface__["stream"] is None
    empty = tarn.DeviceBuffer().__cuda_array_interface__
    assert (empty["data"], empty["shape"]) == ((0, False), (0,))


def test_pickling_carries_the_bytes(counted):
    for stream in (tarn.DEFAULT_STREAM, tarn.Stream(flags=1)):
        buffer = tarn.DeviceBuffer.to_device(TEXT, stream=stream)
        twin = pickle.loads(pickle.dumps(buffer))
        assert bytes(twin) == TEXT and twin.mr is counted.mr


def test_derived_classes_keep_their_class():
    class Mine(tarn.DeviceBuffer):
        pass

    mine = Mine.to_device(b"abc")
    assert type(mine) is Mine and type(mine.copy()) is Mine


def test_resizing_keeps_the_bytes(counted):
    buffer = tarn.DeviceBuffer.to_device(b"abcdef")
    address = buffer.ptr
    buffer.resize(3)
    assert (bytes(buffer), buffer.ptr, buffer.capacity()) == (b"abc", address, 6)
    buffer.resize(6)
    assert buffer.ptr == address
    stream = tarn.Stream()
    buffer.resize(1000, stream=stream)
    assert (buffer.size, buffer.stream) == (1000, stream)
    assert buffer.tobytes(stream)[:3] == b"abc"
    buffer.reserve(5000, stream)
    assert (buffer.size, buffer.capacity()) == (1000, 5000)
    assert buffer.tobytes(stream)[:3] == b"abc"
    assert counted.live_bytes == 5000


def test_a_failed_resize_changes_nothing(counted):
    buffer = tarn.DeviceBuffer.to_device(b"abc")
    with pytest.raises(MemoryError):
        buffer.resize(2 * tarn.device_info().total_bytes)
    assert (bytes(buffer), buffer.size, buffer.capacity()) == (b"abc", 3, 3)
    empty = tarn.DeviceBuffer()
    empty.resize(10)
    assert empty.size == 10 and counted.live_bytes == 13


def test_a_buffer_keeps_its_resource_and_its_stream_alive(counted):
    buffer = tarn.DeviceBuffer(
        size=10,
        stream=tarn.Stream(),
        mr=tarn.mr.LimitingResourceAdaptor(counted.mr, 1 << 20),
    )
    gc.collect()
    assert buffer.mr.get_allocated_bytes() == 256
    assert buffer.stream.handle > 2
    assert tarn.Stream(buffer.stream) == buffer.stream


def test_a_foreign_stream_is_kept_and_shown_as_a_stream():
    class Foreign:
        own = tarn.Stream()

        def __cuda_stream__(self):
            return (0, self.own.handle)

    foreign = Foreign()
    buffer = tarn.DeviceBuffer(size=10, stream=foreign)
    assert foreign in gc.get_referents(buffer)
    assert isinstance(buffer.stream, tarn.Stream) and buffer.stream == Foreign.own


@pytest.mark.parametrize("kind", ["PinnedHostMemoryResource", "ManagedMemoryResource"])
def test_other_kinds_of_memory_hold_bytes_too(kind):
    buffer = tarn.DeviceBuffer.to_device(TEXT, mr=getattr(tarn.mr, kind)())
    assert bytes(buffer) == TEXT


@pytest.mark.parametrize("kind", ["CudaMemoryResource", "CudaAsyncMemoryResource"])
def test_a_buffer_without_a_stream_can_be_used_on_any(kind):
    stream = tarn.Stream(flags=1)
    for _ in range(10):
        buffer = tarn.DeviceBuffer(
            size=len(TEXT), stream=tarn.NO_STREAM, mr=getattr(tarn.mr, kind)()
        )
        assert buffer.stream is tarn.NO_STREAM
        buffer.copy_from_host(TEXT, stream=stream)
        assert buffer.tobytes(stream) == TEXT


def test_what_is_no_resource_is_refused():
    with pytest.raises(TypeError):
        tarn.DeviceBuffer(size=8, mr="cuda")
    with pytest.raises(TypeError):
        tarn.DeviceBuffer.to_device("text")


def test_arguments_are_taken_however_they_are_spelt():
    assert tarn.DeviceBuffer(size=5).size == 5
    assert tarn.DeviceBuffer(**{"".join(["si", "ze"]): 5}).size == 5
    assert tarn.DeviceBuffer.__new__(tarn.DeviceBuffer, size=5).size == 5
    assert functools.partial(tarn.DeviceBuffer, size=5)(mr=None).size == 5
    for wrong in (lambda: tarn.DeviceBuffer(5), lambda: tarn.DeviceBuffer(bytes=5)):
        with pytest.raises(TypeError):
            wrong()
    with pytest.raises(TypeError):
        tarn.DeviceBuffer(5, size=5)


def test_a_class_derived_from_it_has_its_own_arguments():
    class Named(tarn.DeviceBuffer):
        def __new__(cls, name, **more):
            return super().__new__(cls, **more)

        def __init__(self, name, **more):
            self.name = name

    assert Named("mine", size=5).size == 5
    assert Named("mine", size=5).name == "mine"
