"""DLPack: buffers for other libraries, and arrays of other libraries as buffers."""

import ctypes
import gc
import threading

import pytest
import tarn
from tarn import mr

np = pytest.importorskip("numpy")

TEXT = bytes(range(200))
ON_SIM = tarn.driver_info().is_simulator
CUDA, PINNED, MANAGED = 2, 3, 13

# --- the types of DLPack, as a consumer or a producer in C has them ----------------------


class Device(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int32), ("id", ctypes.c_int32)]


class Dtype(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", Device),
        ("ndim", ctypes.c_int32),
        ("dtype", Dtype),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Managed(ctypes.Structure):
    _fields_ = [("tensor", Tensor), ("context", ctypes.c_void_p), ("deleter", DELETER)]


class Versioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", DELETER),
        ("flags", ctypes.c_uint64),
        ("tensor", Tensor),
    ]


api = ctypes.pythonapi
api.PyCapsule_New.restype = ctypes.py_object
api.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
api.PyCapsule_GetPointer.restype = ctypes.c_void_p
api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
api.PyCapsule_GetName.restype = ctypes.c_char_p
api.PyCapsule_GetName.argtypes = [ctypes.py_object]
api.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]
NAMES = {False: b"dltensor", True: b"dltensor_versioned"}
USED = {False: b"used_dltensor", True: b"used_dltensor_versioned"}


def tensor_of(capsule, versioned=False):
    """Return what a consumer in C reads, which keeps the capsule."""
    pointer = api.PyCapsule_GetPointer(capsule, NAMES[versioned])
    found = (Managed, Versioned)[versioned].from_address(pointer)
    found.capsule = capsule
    return found


def take(capsule, versioned=False):
    """Take the tensor over, as a consumer does; the caller calls its deleter."""
    managed = tensor_of(capsule, versioned)
    api.PyCapsule_SetName(capsule, USED[versioned])
    del managed.capsule
    return managed


def end(managed):
    managed.deleter(ctypes.addressof(managed))


class Producer:
    """An array of another library: a tensor over some memory, which may be wrong."""

    def __init__(self, owner, versioned=True, name=None, announced=None, **changes):
        self.owner, self.versioned = owner, versioned
        self.deleted, self.streams = 0, []
        self.name = name or NAMES[versioned]
        self.managed = (Managed, Versioned)[versioned]()
        if versioned:
            self.managed.major = changes.pop("major", 1)
            self.managed.flags = changes.pop("flags", 0)
        tensor = self.managed.tensor
        self.shape = (ctypes.c_int64 * 4)(*changes.pop("shape", (owner.size,)))
        strides = changes.pop("strides", None)
        self.strides = (ctypes.c_int64 * 4)(*strides) if strides else None
        tensor.data, tensor.device, tensor.ndim = owner.ptr, Device(CUDA, 0), 1
        tensor.dtype, tensor.shape = Dtype(1, 8, 1), self.shape
        tensor.strides = self.strides if strides else None
        for field, value in changes.items():
            setattr(tensor, field, value)
        self.announced = announced or (tensor.device.type, tensor.device.id)
        self.deleter = DELETER(self._delete)
        self.managed.deleter = self.deleter

    def _delete(self, address):
        self.deleted += address == ctypes.addressof(self.managed)

    def __dlpack_device__(self):
        return self.announced

    def __dlpack__(self, *, stream=None, max_version=None):
        self.streams.append(stream)
        return api.PyCapsule_New(ctypes.addressof(self.managed), self.name, None)


class Same(Producer):
    """A producer that always returns one capsule."""

    def __dlpack__(self, **keywords):
        return self.capsule


class Old(Producer):
    """A producer of before DLPack 1."""

    def __init__(self, owner):
        super().__init__(owner, versioned=False)

    def __dlpack__(self, stream=None):
        return super().__dlpack__(stream=stream)


@pytest.fixture
def memory():
    """Return a buffer that `counted` does not count: pytest keeps it for too long."""
    return tarn.DeviceBuffer.to_device(TEXT, mr=mr.CudaMemoryResource())


# --- export: what a consumer reads ------------------------------------------------------


@pytest.mark.parametrize("version", [None, (0, 8)])
def test_a_buffer_is_an_array_of_bytes(memory, version):
    tensor = tensor_of(memory.__dlpack__(max_version=version)).tensor
    assert (tensor.data, tensor.byte_offset) == (memory.ptr, 0)
    assert (tensor.device.type, tensor.device.id) == memory.__dlpack_device__() == (CUDA, 0)
    assert (tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes) == (1, 8, 1)
    assert (tensor.ndim, tensor.shape[0], tensor.strides[0]) == (1, len(TEXT), 1)


@pytest.mark.parametrize("version", [(1, 0), (1, 3), (2, 0)])
def test_who_knows_version_one_gets_it(memory, version):
    managed = tensor_of(memory.__dlpack__(max_version=version), True)
    assert (managed.major, managed.minor, managed.flags) == (1, 0, 0)
    assert (managed.tensor.data, managed.tensor.shape[0]) == (memory.ptr, len(TEXT))


def test_the_device_is_that_of_the_memory():
    kinds = {
        mr.ManagedMemoryResource: MANAGED,
        mr.PinnedHostMemoryResource: PINNED,
        mr.PoolMemoryResource: CUDA,
        mr.CudaMemoryResource: CUDA,
    }
    for kind, number in kinds.items():
        assert tarn.DeviceBuffer(size=10, mr=kind()).__dlpack_device__() == (number, 0)
    assert tarn.DeviceBuffer(size=0).__dlpack_device__() == (CUDA, 0)


@pytest.mark.skipif(tarn.driver_info().device_count < 2, reason="needs two devices")
def test_the_number_is_that_of_the_device():
    buffer = tarn.DeviceBuffer(size=10, mr=mr.CudaMemoryResource(device=1))
    assert buffer.__dlpack_device__() == (CUDA, 1)


def test_numpy_reads_pinned_and_managed_memory():
    stream = tarn.Stream()
    for kind in mr.PinnedHostMemoryResource, mr.ManagedMemoryResource:
        buffer = tarn.DeviceBuffer.to_device(TEXT, stream=stream, mr=kind())
        assert np.from_dlpack(buffer).tobytes() == TEXT


def test_no_bytes_have_no_address():
    tensor = tensor_of(tarn.DeviceBuffer(size=0).__dlpack__()).tensor
    assert (tensor.data, tensor.shape[0]) == (None, 0)


def test_a_copy_is_another_block(counted):
    memory = tarn.DeviceBuffer.to_device(TEXT)
    capsule = memory.__dlpack__(copy=True, max_version=(1, 0))
    managed = tensor_of(capsule, True)
    assert managed.tensor.data != memory.ptr and managed.flags == 2
    memory.copy_from_host(b"x" * len(TEXT))
    assert bytes(tarn.DeviceBuffer(ptr=managed.tensor.data, size=len(TEXT))) == TEXT
    assert counted.live_bytes == 2 * len(TEXT)
    del capsule, managed
    assert counted.live_bytes == len(TEXT)


@pytest.mark.parametrize("copy", [None, False])
def test_otherwise_nothing_is_copied(copy, counted):
    memory = tarn.DeviceBuffer.to_device(TEXT)
    allocations = counted.allocations
    capsule = memory.__dlpack__(copy=copy)
    assert tensor_of(capsule).tensor.data == memory.ptr
    assert counted.allocations == allocations


def test_a_class_derived_in_python_cannot_return_something_else_as_its_copy():
    class Derived(tarn.DeviceBuffer):
        def copy(self):
            return 5

    buffer = Derived.to_device(TEXT)
    assert tensor_of(buffer.__dlpack__(copy=True)).tensor.shape[0] == len(TEXT)


# --- export: arguments ------------------------------------------------------------------


@pytest.mark.parametrize("stream", [0, -2, -(1 << 40)])
def test_numbers_that_name_no_stream_are_refused(memory, stream):
    with pytest.raises(ValueError, match=f"dlpack: {stream} is not a stream"):
        memory.__dlpack__(stream=stream)


@pytest.mark.parametrize("stream", ["1", 1.0, (1,), tarn.DEFAULT_STREAM])
def test_a_stream_is_a_number(memory, stream):
    with pytest.raises(TypeError, match="a stream is None or a number"):
        memory.__dlpack__(stream=stream)
    with pytest.raises(OverflowError):
        memory.__dlpack__(stream=1 << 64)


@pytest.mark.parametrize("name", ["max_version", "dl_device"])
@pytest.mark.parametrize("value", [1, (1,), (1, 2, 3), "ab", [1, 0]])
def test_a_version_and_a_device_are_pairs(memory, name, value):
    with pytest.raises(TypeError, match=f"{name} is None or a pair of numbers"):
        memory.__dlpack__(**{name: value})


@pytest.mark.parametrize("name", ["max_version", "dl_device"])
def test_a_version_and_a_device_are_numbers(memory, name):
    for value in ("1", 0), (1, "0"):
        with pytest.raises(TypeError, match="int"):
            memory.__dlpack__(**{name: value})
    for value in (1 << 64, 0), (1, -(1 << 64)):
        with pytest.raises(OverflowError):
            memory.__dlpack__(**{name: value})


def test_arguments_have_names(memory):
    with pytest.raises(TypeError):
        memory.__dlpack__(1)


def test_another_device_is_refused(memory):
    assert memory.__dlpack__(dl_device=(CUDA, 0))
    for device in (1, 0), (CUDA, 1), (MANAGED, 0):
        with pytest.raises(BufferError, match="on device"):
            memory.__dlpack__(dl_device=device)


@pytest.mark.skipif(tarn.driver_info().device_count < 2, reason="needs two devices")
def test_a_stream_of_another_device_is_refused_and_nothing_leaks(counted):
    buffer = tarn.DeviceBuffer(size=10, stream=tarn.Stream())
    live = counted.live_bytes
    mr.set_per_device_resource(1, mr.CudaMemoryResource(device=1))
    other = foreign_stream()
    with pytest.raises(tarn.InvalidArgumentError):
        buffer.__dlpack__(stream=other.handle, copy=True)
    assert counted.live_bytes == live
    mr.set_per_device_resource(1, None)


def foreign_stream():
    """Return a stream of device 1."""
    from cuda.core import Device as Core

    Core(1).set_current()
    try:
        return tarn.Stream(Core(1).create_stream())
    finally:
        Core(0).set_current()


# --- export: lifetimes ------------------------------------------------------------------


@pytest.mark.parametrize("versioned", [False, True])
def test_an_unused_capsule_keeps_the_block_until_its_end(counted, versioned):
    buffer = tarn.DeviceBuffer.to_device(TEXT)
    capsule = buffer.__dlpack__(max_version=(versioned, 0))
    del buffer
    gc.collect()
    assert counted.live_bytes == len(TEXT)
    del capsule
    assert counted.live_bytes == 0


@pytest.mark.parametrize("versioned", [False, True])
def test_a_tensor_that_was_taken_over_lives_until_its_deleter(counted, versioned):
    buffer = tarn.DeviceBuffer.to_device(TEXT)
    capsule = buffer.__dlpack__(max_version=(versioned, 0))
    managed = take(capsule, versioned)
    del buffer, capsule
    gc.collect()
    assert counted.live_bytes == len(TEXT)
    end(managed)
    assert counted.live_bytes == 0


def test_a_buffer_may_grow_while_it_is_used(counted):
    buffer = tarn.DeviceBuffer.to_device(TEXT)
    managed = take(buffer.__dlpack__())
    address = buffer.ptr
    buffer.resize(10_000)
    assert buffer.ptr != address == managed.tensor.data
    assert tarn.DeviceBuffer(ptr=address, size=len(TEXT)).tobytes() == TEXT
    live = counted.live_bytes
    end(managed)
    assert counted.live_bytes == live - len(TEXT)


def test_deleters_run_in_other_threads_without_the_gil(counted, quick_switches):
    """ctypes releases the GIL for the call."""
    many = [take(tarn.DeviceBuffer(size=100).__dlpack__()) for _ in range(400)]
    threads = [
        threading.Thread(target=lambda part=many[i::4]: [end(one) for one in part])
        for i in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counted.live_bytes == 0


def test_a_deleter_keeps_the_exception_of_its_thread(memory):
    class Ends:
        def __init__(self):
            self.capsule = memory.__dlpack__()

        def work(self):
            capsule = self.__dict__.pop("capsule")
            assert capsule
            raise KeyError("mine")  # the capsule ends while it is passed on

    with pytest.raises(KeyError, match="mine"):
        Ends().work()


LEFT = """
import ctypes, os, tarn, warnings
warnings.simplefilter("ignore")  # Python 3.12 warns of a fork beside threads
buffer = tarn.DeviceBuffer.to_device(b"abc")
left = [buffer.__dlpack__(), buffer.__dlpack__(max_version=(1, 0))]
api, libc = ctypes.pythonapi, ctypes.CDLL(None)
api.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_void_p]
libc.strdup.restype = ctypes.c_void_p
taken = buffer.__dlpack__()
api.PyCapsule_SetName(taken, libc.strdup(b"used_dltensor"))  # the name outlives the capsule
"""


def test_capsules_that_are_left_at_the_end_say_nothing(sim_process):
    assert sim_process(LEFT) == ""


def test_a_forked_child_may_end_what_it_inherits(sim_process):
    code = """
child = os.fork()
if child == 0:
    left.clear()
    del buffer
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
print(buffer.tobytes())
"""
    assert sim_process(LEFT + code) == "b'abc'"


# --- export: the order of streams -------------------------------------------------------

ORDER = """
import ctypes, tarn
SIZE = 1 << 16
producer, consumer = (tarn.Stream(flags=1) for _ in range(2))
source = tarn.DeviceBuffer.to_device(b"\\1" * SIZE)
wrong = 0
for _ in range(20):
    buffer = tarn.DeviceBuffer.to_device(b"\\0" * SIZE)
    target = tarn.DeviceBuffer.to_device(b"\\0" * SIZE)
    tarn.synchronize()
    buffer.reserve(0, stream=producer)
    buffer.copy_from_device(source, stream=producer)
    capsule = buffer.__dlpack__(stream=STREAM)
    target.copy_from_device(Array(buffer), stream=consumer)
    tarn.synchronize()
    wrong += target.tobytes() != b"\\1" * SIZE
print(wrong > 0)
"""
ARRAY = """
class Array:
    def __init__(self, buffer):
        self.__cuda_array_interface__ = {**buffer.__cuda_array_interface__, "stream": None}
"""


@pytest.mark.skipif(not ON_SIM, reason="needs streams that are late")
@pytest.mark.parametrize("stream, is_wrong", [("consumer.handle", False), ("-1", True)])
def test_the_stream_that_is_named_waits_and_no_other(sim_process, stream, is_wrong):
    code = ARRAY + ORDER.replace("STREAM", stream)
    assert sim_process(code, TARN_SIM="mode=seeded,seed=1") == str(is_wrong)


PINNED_ORDER = """
import ctypes, tarn
SIZE = 1 << 16
producer = tarn.Stream(flags=1)
source = tarn.DeviceBuffer.to_device(b"\\1" * SIZE)
wrong = 0
for _ in range(20):
    buffer = tarn.DeviceBuffer(size=SIZE, stream=producer, mr=tarn.mr.PinnedHostMemoryResource())
    tarn.synchronize()
    ctypes.memset(buffer.ptr, 0, SIZE)
    buffer.copy_from_device(source, stream=producer)
    capsule = buffer.__dlpack__(stream=STREAM)
    wrong += ctypes.string_at(buffer.ptr, SIZE) != b"\\1" * SIZE
    tarn.synchronize()
print(wrong > 0)
"""


@pytest.mark.skipif(not ON_SIM, reason="needs streams that are late")
@pytest.mark.parametrize("stream, is_wrong", [("None", False), ("-1", True)])
def test_the_host_waits_for_memory_that_it_can_read(sim_process, stream, is_wrong):
    code = PINNED_ORDER.replace("STREAM", stream)
    assert sim_process(code, TARN_SIM="mode=seeded,seed=1") == str(is_wrong)


@pytest.mark.parametrize("stream", [None, 1, 2])
def test_the_default_streams_have_numbers(stream):
    buffer = tarn.DeviceBuffer(size=10, stream=tarn.Stream())
    assert buffer.__dlpack__(stream=stream)


REUSE = """
pool = tarn.mr.PoolMemoryResource()
tarn.mr.set_current_device_resource(pool)
producer, consumer = (tarn.Stream(flags=1) for _ in range(2))
pattern, other = (tarn.DeviceBuffer.to_device(bytes([i]) * 4096) for i in (1, 2))
wrong = 0
for _ in range(20):
    target = tarn.DeviceBuffer.to_device(b"\\0" * 4096)
    buffer = tarn.DeviceBuffer.to_device(b"\\1" * 4096, stream=producer)
    capsule = buffer.__dlpack__(stream=consumer.handle)
    tarn.synchronize()
    target.copy_from_device(Array(buffer), stream=consumer)
    del buffer, capsule          # while the consumer reads
    after = tarn.DeviceBuffer(size=4096, stream=producer)
    after.copy_from_device(other, stream=producer)
    tarn.synchronize()
    wrong += target.tobytes() != b"\\1" * 4096
print(wrong)
"""


@pytest.mark.skipif(not ON_SIM, reason="needs streams that are late")
def test_memory_is_not_reused_while_the_consumers_stream_reads_it(sim_process):
    code = "import tarn\n" + ARRAY + REUSE
    assert sim_process(code, TARN_SIM="mode=seeded,seed=1") == "0"


# --- import -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [lambda m: Producer(m), lambda m: Producer(m, False), Old])
def test_an_array_is_a_buffer_over_the_same_memory(memory, kind, counted):
    producer = kind(memory)
    allocations = counted.allocations
    buffer = tarn.DeviceBuffer.from_dlpack(producer)
    assert (buffer.ptr, buffer.size, counted.allocations) == (memory.ptr, len(TEXT), allocations)
    assert buffer.tobytes() == TEXT
    buffer.copy_from_host(b"xyz")
    assert memory.tobytes()[:3] == b"xyz"
    assert producer.deleted == 0
    del buffer
    assert producer.deleted == 1


@pytest.mark.parametrize(
    "bits, lanes, shape, bytes", [(64, 1, (5, 5), 200), (32, 4, (2, 3), 96), (8, 1, (), 1)]
)
def test_elements_of_any_type_are_bytes(memory, bits, lanes, shape, bytes):
    dtype = Dtype(2, bits, lanes)
    producer = Producer(memory, dtype=dtype, shape=shape, ndim=len(shape))
    assert tarn.DeviceBuffer.from_dlpack(producer).size == bytes


def test_an_offset_moves_the_beginning(memory):
    buffer = tarn.DeviceBuffer.from_dlpack(Producer(memory, byte_offset=10, shape=(5,)))
    assert (buffer.ptr, buffer.tobytes()) == (memory.ptr + 10, TEXT[10:15])


def test_strides_of_contiguous_arrays_are_taken(memory):
    for shape, strides in ((4, 5), (5, 1)), ((1, 7), (99, 1)), ((7, 1), (1, 99)):
        producer = Producer(memory, ndim=2, shape=shape, strides=strides)
        assert tarn.DeviceBuffer.from_dlpack(producer).size == shape[0] * shape[1]


def test_a_producer_is_given_the_number_of_the_stream(memory):
    stream = tarn.Stream()
    wanted = [
        (tarn.DEFAULT_STREAM, 1), (tarn.LEGACY_DEFAULT_STREAM, 1),
        (tarn.PER_THREAD_DEFAULT_STREAM, 2), (stream, stream.handle), (tarn.NO_STREAM, 1),
    ]  # fmt: skip
    for given, number in wanted:
        producer = Producer(memory)
        tarn.DeviceBuffer.from_dlpack(producer, stream=given)
        assert producer.streams == [number]
    pinned = tarn.DeviceBuffer(size=10, mr=mr.PinnedHostMemoryResource())
    producer = Producer(pinned, device=Device(PINNED, 0))
    tarn.DeviceBuffer.from_dlpack(producer)
    assert producer.streams == [None]


def test_a_copy_is_the_programs_own(memory, counted):
    producer = Producer(memory, flags=1)  # read-only
    buffer = tarn.DeviceBuffer.from_dlpack(producer, copy=True)
    assert producer.deleted == 1 and buffer.ptr != memory.ptr
    assert buffer.tobytes() == TEXT and buffer.mr is counted.mr


def test_what_outgrows_the_array_is_the_programs_own(memory, counted):
    producer = Producer(memory)
    buffer = tarn.DeviceBuffer.from_dlpack(producer)
    buffer.resize(10)
    assert buffer.ptr == memory.ptr and producer.deleted == 0
    buffer.resize(1000, stream=tarn.Stream())
    assert buffer.ptr != memory.ptr and producer.deleted == 1
    assert buffer.tobytes()[:10] == TEXT[:10]


def test_an_array_can_be_passed_on(memory):
    producer = Producer(memory)
    capsule = tarn.DeviceBuffer.from_dlpack(producer).__dlpack__(stream=2)
    assert tensor_of(capsule).tensor.data == memory.ptr and producer.deleted == 0
    del capsule
    assert producer.deleted == 1


def test_a_buffer_of_tarns_comes_back(counted):
    memory = tarn.DeviceBuffer.to_device(TEXT)
    again = tarn.DeviceBuffer.from_dlpack(memory, stream=tarn.Stream())
    assert again.ptr == memory.ptr
    del memory
    assert counted.live_bytes == len(TEXT)
    del again
    assert counted.live_bytes == 0


def test_no_bytes_need_no_memory(memory):
    producer = Producer(memory, shape=(0,), data=None)
    buffer = tarn.DeviceBuffer.from_dlpack(producer)
    assert (buffer.size, buffer.ptr) == (0, 0)
    del buffer
    assert producer.deleted == 1


@pytest.mark.skipif(not ON_SIM, reason="needs streams that are late")
def test_the_end_of_a_buffer_waits_for_its_stream(sim_process):
    """The producer may reuse the memory from then on."""
    code = """
import tarn
stream = tarn.Stream(flags=1)
source = tarn.DeviceBuffer.to_device(b"\\1" * 4096)
wrong = 0
for _ in range(20):
    memory = tarn.DeviceBuffer.to_device(b"\\0" * 4096)
    buffer = tarn.DeviceBuffer.from_dlpack(memory, stream=stream)
    tarn.synchronize()
    buffer.copy_from_device(source, stream=stream)
    del buffer
    memory.copy_from_host(b"\\2" * 4096, stream=tarn.Stream(flags=1))
    tarn.synchronize()
    wrong += memory.tobytes() != b"\\2" * 4096
print(wrong)
"""
    assert sim_process(code, TARN_SIM="mode=seeded,seed=1") == "0"


# --- import: faulty and hostile producers -----------------------------------------------

WRONG = {
    "negative dimension": {"shape": (-1,)},
    "product overflows": {"ndim": 3, "shape": (1 << 40, 1 << 40, 1 << 40)},
    "more bytes than addresses": {"shape": ((1 << 63) - 1,)},
    "no dimensions at all": {"ndim": -1},
    "too many dimensions": {"ndim": 1 << 20},
    "no shape": {"shape_": None},
    "no bits": {"dtype": Dtype(1, 0, 1)},
    "no lanes": {"dtype": Dtype(1, 8, 0)},
    "half a byte": {"dtype": Dtype(1, 4, 1)},
    "not contiguous": {"shape": (10,), "strides": (2,)},
    "the other order": {"ndim": 2, "shape": (4, 5), "strides": (1, 4)},
    "no address": {"data": None},
    "the offset wraps around": {"byte_offset": (1 << 64) - 1},
    "another device than announced": {"announced": (CUDA, 1)},
    "another type than announced": {"announced": (MANAGED, 0)},
    "memory of the host": {"device": Device(1, 0)},
    "read-only": {"flags": 1},
    "another version": {"major": 2},
    "used": {"name": b"used_dltensor_versioned"},
    "another capsule": {"name": b"tarn_resource"},
}


@pytest.mark.parametrize("changes", WRONG.values(), ids=WRONG.keys())
def test_a_wrong_tensor_is_refused_and_stays_the_producers(memory, changes, counted):
    changes = dict(changes)
    producer = Producer(memory, **{k: v for k, v in changes.items() if k != "shape_"})
    if "shape_" in changes:
        producer.managed.tensor.shape = None
    live = counted.live_bytes
    with pytest.raises((BufferError, tarn.InvalidArgumentError), match="dlpack|driver|device"):
        tarn.DeviceBuffer.from_dlpack(producer)
    gc.collect()
    assert producer.deleted == 0 and counted.live_bytes == live


@pytest.mark.parametrize("last, says", [(2**64 - 1, "driver|device"), (2**64, "are no memory")])
def test_a_tensor_ends_before_the_end_of_the_address_space(memory, last, says):
    producer = Producer(memory, shape=(1000,), data=last - 1000)
    with pytest.raises((BufferError, tarn.InvalidArgumentError), match=says) as caught:
        tarn.DeviceBuffer.from_dlpack(producer)
    assert ("are no memory" in str(caught.value)) == (last == 2**64)


def test_more_bytes_than_the_allocation_has_are_refused():
    memory = tarn.DeviceBuffer(size=1000, mr=mr.CudaMemoryResource())
    producer = Producer(memory, shape=(1 << 40,))
    with pytest.raises(tarn.InvalidArgumentError, match="extend beyond their allocation"):
        tarn.DeviceBuffer.from_dlpack(producer)
    assert producer.deleted == 0


def test_addresses_of_no_memory_are_refused():
    memory = tarn.DeviceBuffer(size=1 << 20, mr=mr.CudaMemoryResource())
    producer = Producer(memory)
    freed, memory, producer.owner = memory.ptr, None, None
    for address in freed, 4096, ctypes.addressof(producer.managed):
        producer.managed.tensor.data = address
        with pytest.raises(tarn.InvalidArgumentError, match="the driver knows no memory"):
            tarn.DeviceBuffer.from_dlpack(producer)
    assert producer.deleted == 0


def test_things_that_are_no_arrays_are_refused(memory):
    class Half:
        def __dlpack__(self):
            return None

    for thing in None, 5, b"abc", Half():
        with pytest.raises(TypeError, match="has no __dlpack__"):
            tarn.DeviceBuffer.from_dlpack(thing)
    with pytest.raises(BufferError, match="type 1, not CUDA"):
        tarn.DeviceBuffer.from_dlpack(np.zeros(3))


@pytest.mark.parametrize("returned", [None, 5, b"dltensor", object()])
def test_things_that_are_no_capsules_are_refused(memory, returned):
    class Liar(Producer):
        def __dlpack__(self, **keywords):
            return returned

    with pytest.raises(BufferError, match="not an unused capsule"):
        tarn.DeviceBuffer.from_dlpack(Liar(memory))


@pytest.mark.parametrize("device", [None, 5, (2,), (2, 0, 0), ("a", "b"), (2, 1 << 40), (2, -1)])
def test_things_that_are_no_devices_are_refused(memory, device):
    producer = Producer(memory)
    producer.announced = device
    with pytest.raises((TypeError, ValueError, OverflowError, BufferError)):
        tarn.DeviceBuffer.from_dlpack(producer)
    assert producer.deleted == 0


@pytest.mark.parametrize("error", [KeyError, MemoryError, KeyboardInterrupt])
def test_errors_of_a_producer_are_passed_on(memory, error):
    class Failing(Producer):
        def __dlpack__(self, **keywords):
            raise error("no")

    with pytest.raises(error):
        tarn.DeviceBuffer.from_dlpack(Failing(memory))


def test_a_tensor_without_a_deleter_needs_none(memory):
    producer = Producer(memory)
    producer.managed.deleter = DELETER()
    assert tarn.DeviceBuffer.from_dlpack(producer).tobytes() == TEXT


def test_a_capsule_is_taken_over_once(memory):
    producer = Producer(memory)
    capsule = producer.__dlpack__()
    producer.__class__ = Same
    producer.capsule = capsule
    buffer = tarn.DeviceBuffer.from_dlpack(producer)
    assert api.PyCapsule_GetName(capsule) == USED[True]
    with pytest.raises(BufferError, match="not an unused capsule"):
        tarn.DeviceBuffer.from_dlpack(producer)
    del buffer, capsule, producer.capsule
    assert producer.deleted == 1


def test_a_resource_of_python_that_takes_the_capsule_meanwhile_is_found_out(memory):
    producer = Producer(memory)
    capsule = producer.__dlpack__()
    producer.__class__ = Same
    producer.capsule = capsule

    class Thief(mr.DeviceMemoryResource):
        @property
        def supports_streams(self):
            api.PyCapsule_SetName(capsule, USED[True])
            return False

        def allocate(self, nbytes, stream=tarn.DEFAULT_STREAM):
            return 0

        def deallocate(self, ptr, nbytes, stream=tarn.DEFAULT_STREAM):
            pass

    with pytest.raises(BufferError, match="not an unused capsule"):
        tarn.DeviceBuffer.from_dlpack(producer, mr=Thief())
    assert producer.deleted == 0


@pytest.mark.skipif(tarn.driver_info().device_count < 2, reason="needs two devices")
def test_a_resource_of_another_device_is_refused(memory):
    producer = Producer(memory)
    with pytest.raises(tarn.InvalidArgumentError, match="`mr` is of device 1"):
        tarn.DeviceBuffer.from_dlpack(producer, mr=mr.CudaMemoryResource(device=1))
    assert producer.deleted == 0


def test_threads_import_and_end_arrays_at_once(quick_switches):
    memory = tarn.DeviceBuffer.to_device(TEXT)
    failures = []

    def work():
        for _ in range(200):
            buffer = tarn.DeviceBuffer.from_dlpack(memory)
            if buffer.ptr != memory.ptr:
                failures.append(buffer)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
