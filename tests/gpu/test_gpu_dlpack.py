"""DLPack between Tarn and CuPy, PyTorch, JAX and cuda.core, on a real driver."""

import gc
import os

import pytest

np = pytest.importorskip("numpy")

import tarn  # noqa: E402
from tarn import mr  # noqa: E402

pytestmark = pytest.mark.skipif(tarn.driver_info().is_simulator, reason="needs kernels")

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
COUNT = 1 << 16
HOST = np.arange(COUNT, dtype="u4").astype("u1")


@pytest.fixture
def pool():
    pool = mr.PoolMemoryResource()
    yield pool
    gc.collect()
    tarn.synchronize()
    assert pool.statistics().live == 0


def from_cupy(buffer):
    cupy = pytest.importorskip("cupy")
    return cupy.from_dlpack(buffer)


def from_torch(buffer):
    torch = pytest.importorskip("torch")
    return torch.from_dlpack(buffer)


def from_jax(buffer):
    jax = pytest.importorskip("jax")
    return jax.dlpack.from_dlpack(buffer)


def host(array):
    """Return the values of an array of any library."""
    if hasattr(array, "get"):
        return array.get()
    return array.cpu().numpy() if hasattr(array, "cpu") else np.asarray(array)


@pytest.mark.parametrize("take", [from_cupy, from_torch, from_jax])
@pytest.mark.parametrize("own", [True, False])
def test_a_buffer_is_an_array_of_another_library(pool, take, own):
    stream = tarn.Stream(flags=1) if own else tarn.DEFAULT_STREAM
    buffer = tarn.DeviceBuffer.to_device(HOST, stream=stream, mr=pool)
    array = take(buffer)
    address = buffer.ptr
    del buffer
    gc.collect()
    assert pool.statistics().live_blocks == 1
    assert (host(array) == HOST).all()
    assert (host(array + 1) == HOST + 1).all()
    del array
    gc.collect()
    assert pool.statistics().live_blocks == 0 and address


@pytest.mark.parametrize("take", [from_cupy, from_torch, from_jax])
def test_an_array_of_another_library_is_a_buffer(pool, take):
    made = take(tarn.DeviceBuffer.to_device(HOST, mr=pool)) + 1  # the library's own memory
    stream = tarn.Stream(flags=1)
    buffer = tarn.DeviceBuffer.from_dlpack(made, stream=stream)
    assert buffer.size == COUNT
    assert buffer.tobytes(stream) == (HOST + 1).tobytes()
    del made
    gc.collect()
    assert buffer.tobytes(stream) == (HOST + 1).tobytes()


def test_managed_memory_goes_to_cupy():
    cupy = pytest.importorskip("cupy")
    buffer = tarn.DeviceBuffer.to_device(HOST, mr=mr.ManagedMemoryResource())
    assert buffer.__dlpack_device__() == (13, 0)
    assert (cupy.from_dlpack(buffer).get() == HOST).all()


def test_a_consumers_stream_waits_for_a_slow_producer(pool):
    cupy = pytest.importorskip("cupy")
    slow = cupy.RawKernel(
        """
extern "C" __global__ void slow_fill(unsigned char *target, int count) {
    for (int i = 0; i < 100; i++) __nanosleep(1000000);
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) target[i] = 7;
}
""",
        "slow_fill",
    )
    producer, consumer = (cupy.cuda.Stream(non_blocking=True) for _ in range(2))
    buffer = tarn.DeviceBuffer(size=COUNT, stream=producer, mr=pool)
    with producer:
        slow((COUNT // 256,), (256,), (np.uint64(buffer.ptr), np.int32(COUNT)))
    with consumer:
        array = cupy.from_dlpack(buffer)
        total = int(array.astype("i8").sum())
    assert total == 7 * COUNT


def test_memory_is_not_reused_while_the_consumer_reads_it(pool):
    """The buffer and the array end while a kernel of the consumer's stream still reads."""
    cupy = pytest.importorskip("cupy")
    slow = cupy.RawKernel(
        """
extern "C" __global__ void slow_copy(const unsigned char *s, unsigned char *t, int count) {
    for (int i = 0; i < 100; i++) __nanosleep(1000000);
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) t[i] = s[i];
}
""",
        "slow_copy",
    )
    consumer = cupy.cuda.Stream(non_blocking=True)
    producer = tarn.Stream(flags=1)
    wrong = 0
    for _ in range(5):
        buffer = tarn.DeviceBuffer.to_device(HOST, stream=producer, mr=pool)
        with consumer:
            target = cupy.zeros(COUNT, "u1")
            array = cupy.from_dlpack(buffer)
            slow((COUNT // 256,), (256,), (array, target, np.int32(COUNT)))
        del array, buffer
        other = tarn.DeviceBuffer.to_device(b"\2" * COUNT, stream=producer, mr=pool)
        consumer.synchronize()
        producer.synchronize()
        wrong += int((target.get() != HOST).sum())
        del other
    assert wrong == 0


def test_addresses_of_no_memory_are_refused_on_this_driver():
    buffer = tarn.DeviceBuffer(size=1 << 20, mr=mr.CudaMemoryResource())

    class Freed:
        __dlpack_device__ = buffer.__dlpack_device__
        capsule = buffer.__dlpack__()

        def __dlpack__(self, **keywords):
            return self.capsule

    assert tarn.DeviceBuffer.from_dlpack(Freed()).ptr == buffer.ptr
    assert tarn.DeviceBuffer(size=10, mr=mr.PoolMemoryResource()).__dlpack_device__() == (2, 0)
    assert tarn.DeviceBuffer(size=10, mr=mr.CudaAsyncMemoryResource()).__dlpack_device__() == (2, 0)
    assert tarn.DeviceBuffer(size=10, mr=mr.PinnedHostMemoryResource()).__dlpack_device__()[0] == 3
