"""The work on arrays: fill, change and check every element, by kernels or by copies.

Element i of an array with the key k is `i ^ k`, as int32. So arrays with different keys differ in
every element, and an element that another array has overwritten is wrong. Keys are not negative.

Each class here does the same three operations in the order of one stream::

    fill(array, count, key)     write all elements
    change(array, count, key)   change the key of the array to its old key ^ `key`
    check(array, count, key)    count the elements that are not those of this key

wrong() waits for the stream and returns the count. checked(count) is the number of elements that
check() covers: all of them. Copies is for a driver without kernels, and covers both ends alone.
"""

from __future__ import annotations

from typing import Any

THREADS = 256
PIECE = 1 << 22  # elements that PyTorch checks at once: its operations need temporary memory

# For CuPy and cuda.core.
SOURCE = """
extern "C" __global__ void fill(int *x, int count, int key) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) x[i] = i ^ key;
}
extern "C" __global__ void change(int *x, int count, int key) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) x[i] ^= key;
}
extern "C" __global__ void check(const int *x, int count, int key, int *wrong) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count && x[i] != (i ^ key)) atomicAdd(wrong, 1);
}
"""


def blocks_for(count):
    """Return the number of blocks of THREADS threads for this number of elements."""
    return (count + THREADS - 1) // THREADS


class Kernels:
    """Work that covers all elements."""

    def checked(self, count):
        return count


class NumbaKernels(Kernels):
    """Kernels of numba.cuda."""

    def __init__(self, stream):
        import array_kernels

        self._kernels, self._stream = array_kernels, stream
        self._wrong = array_kernels.cuda.device_array(1, "i4", stream=stream)
        self._run("fill", self._wrong, 1, 0)  # writes a 0

    def _run(self, name, array, count, *more):
        kernel = getattr(self._kernels, name)
        kernel[blocks_for(count), THREADS, self._stream](array, *more)

    def fill(self, array, count, key):
        self._run("fill", array, count, key)

    def change(self, array, count, key):
        self._run("change", array, count, key)

    def check(self, array, count, key):
        self._run("check", array, count, key, self._wrong)

    def wrong(self):
        return int(self._wrong.copy_to_host(stream=self._stream)[0])


class CupyKernels(Kernels):
    """Kernels of CuPy."""

    def __init__(self, stream):
        import cupy
        import numpy

        self._int, self._stream = numpy.int32, stream
        module = cupy.RawModule(code=SOURCE)
        self._functions = {name: module.get_function(name) for name in ("fill", "change", "check")}
        with stream:
            self._wrong = cupy.zeros(1, "i4")

    def _launch(self, name, array, count, key, *more):
        with self._stream:
            arguments = (array, self._int(count), self._int(key), *more)
            self._functions[name]((blocks_for(count),), (THREADS,), arguments)

    def fill(self, array, count, key):
        self._launch("fill", array, count, key)

    def change(self, array, count, key):
        self._launch("change", array, count, key)

    def check(self, array, count, key):
        self._launch("check", array, count, key, self._wrong)

    def wrong(self):
        return int(self._wrong.get(stream=self._stream)[0])


class TorchOperations(Kernels):
    """Operations of PyTorch; a check has temporary tensors of PIECE elements.

    The device can be the host's: the operations are the same.
    """

    def __init__(self, stream, device="cuda"):
        import torch

        self._torch, self._stream, self._device = torch, stream, device
        with torch.cuda.stream(stream):
            self._wrong = torch.zeros(1, dtype=torch.int64, device=device)

    def _pieces(self, array, count):
        """Yield the first index of each piece, its elements, and the indices of them."""
        torch = self._torch
        for first in range(0, count, PIECE):
            last = min(first + PIECE, count)
            yield (
                array[first:last],
                torch.arange(first, last, dtype=torch.int32, device=self._device),
            )

    def fill(self, array, count, key):
        with self._torch.cuda.stream(self._stream):
            for piece, index in self._pieces(array, count):
                piece.copy_(index.bitwise_xor_(key))

    def change(self, array, count, key):
        with self._torch.cuda.stream(self._stream):
            array.bitwise_xor_(key)

    def check(self, array, count, key):
        with self._torch.cuda.stream(self._stream):
            for piece, index in self._pieces(array, count):
                self._wrong += (piece != index.bitwise_xor_(key)).sum()

    def wrong(self):
        with self._torch.cuda.stream(self._stream):
            return int(self._wrong.item())


class CoreKernels(Kernels):
    """Kernels that cuda.core compiles; arrays are addresses."""

    def __init__(self, device, stream):
        import numpy
        from cuda.core import LaunchConfig, Program, ProgramOptions, launch

        options = ProgramOptions(std="c++17", arch=f"sm_{device.arch}")
        code = Program(SOURCE, "c++", options).compile("cubin")
        self._kernels = {name: code.get_kernel(name) for name in ("fill", "change", "check")}
        self._launch_config, self._launch, self._int = LaunchConfig, launch, numpy.int32
        self._device, self._stream = device, stream
        self._wrong = device.allocate(4, stream=stream)
        self._wrong.fill(0, stream=stream)

    def _run(self, name, array, count, key, *more):
        config = self._launch_config(grid=blocks_for(count), block=THREADS)
        arguments = (array.address, self._int(count), self._int(key), *more)
        self._launch(self._stream, config, self._kernels[name], *arguments)

    def fill(self, array, count, key):
        self._run("fill", array, count, key)

    def change(self, array, count, key):
        self._run("change", array, count, key)

    def check(self, array, count, key):
        self._run("check", array, count, key, int(self._wrong.handle))

    def wrong(self):
        host = numpy_of(int(self._wrong.handle), 1, int(self._stream.handle))
        return int(host[0])


class Copies:
    """The same for both ends of arrays, by copies and by the host's processor."""

    EDGE = 1 << 12  # elements of an end

    def __init__(self, address_of, handle):
        self._address_of, self._handle, self._wrong = address_of, handle, 0

    def _ends(self, array, count):
        """Yield the first index, the number and the address of the elements of each end."""
        for first, last in ((0, min(count, self.EDGE)), (max(self.EDGE, count - self.EDGE), count)):
            if first < last:
                yield first, last - first, self._address_of(array) + 4 * first

    def fill(self, array, count, key):
        for first, part, address in self._ends(array, count):
            self._write(address, pattern(first, part, key))

    def change(self, array, count, key):
        for _, part, address in self._ends(array, count):
            self._write(address, numpy_of(address, part, self._handle) ^ key)

    def check(self, array, count, key):
        for first, part, address in self._ends(array, count):
            host = numpy_of(address, part, self._handle)
            self._wrong += int((host != pattern(first, part, key)).sum())

    def checked(self, count):
        return min(count, 2 * self.EDGE)

    def wrong(self):
        return self._wrong

    def _write(self, address, host):
        """Queue a copy to the device; the driver stages the pageable memory of the host."""
        driver = driver_module()
        called(driver.cuMemcpyHtoDAsync(address, host.ctypes.data, host.nbytes, self._handle))


def pattern(first, count, key):
    """Return elements of an array with this key, from an index on."""
    import numpy

    return numpy.arange(first, first + count, dtype="i4") ^ numpy.int32(key)


def numpy_of(address, count, handle):
    """Copy int32 elements to the host, in the order of a stream."""
    import numpy

    host = numpy.empty(count, "i4")
    driver = driver_module()
    called(driver.cuMemcpyDtoHAsync(host.ctypes.data, address, host.nbytes, handle))
    called(driver.cuStreamSynchronize(handle))
    return host


# --- driver calls ---------------------------------------------------------------------------------


def driver_module() -> Any:
    from cuda.bindings import driver

    return driver


def called(result) -> Any:
    """Return the values of a driver call; raise RuntimeError if it failed."""
    status, *values = result
    if int(status) != 0:
        raise RuntimeError(f"a driver call failed: {status}")
    return values[0] if len(values) == 1 else tuple(values)


def order(after, before):
    """Let a stream wait for the work that another one has now; both are handles."""
    driver = driver_module()
    event = called(driver.cuEventCreate(2))  # without times
    called(driver.cuEventRecord(event, before))
    called(driver.cuStreamWaitEvent(after, event, 0))
    called(driver.cuEventDestroy(event))


def used_bytes():
    """Return the bytes of the current device that are in use, by the driver's count."""
    free, total = called(driver_module().cuMemGetInfo())
    return total - free
