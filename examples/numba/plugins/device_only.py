"""device_only.py -- a memory manager for Numba: device memory from tarn.mr, the rest Numba's.

The shortest correct plugin, for libraries with device memory of their own: put your allocation in
the place of `tarn.DeviceBuffer`. Programs that use Tarn under Numba take `tarn.numba` instead,
which does all of this in C, and more. docs/writing-a-plugin.md explains each step.

    NUMBA_CUDA_MEMORY_MANAGER=device_only python program.py

Memory returns to the resource as soon as the last array over it ends, inside `cuda.defer_cleanup()`
too; that defers only Numba's own host memory.
"""

import itertools
import weakref

import tarn
from numba import cuda


class DeviceOnlyManager(cuda.GetIpcHandleMixin, cuda.HostOnlyCUDAMemoryManager):
    """One instance per Context of Numba, and one without, whose version Numba reads."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)  # takes context=; no call of CUDA is allowed here
        self._buffers = {}
        self._numbers = itertools.count()

    @property
    def interface_version(self):
        return 1

    def initialize(self):
        """Called before every call of numba.cuda. Numba flushes mapped and managed memory when a
        fifth of the capacity is pending; if it stayed 0, each such free would flush."""
        if not self.deallocations.memory_capacity:
            self.deallocations.memory_capacity = self.get_memory_info().total

    def memalloc(self, size):
        buffer = self._allocate(size)
        # The number, not the address, is the key: after a reset the address may belong to another
        # block, which the finalizer of the old one must not remove.
        number = next(self._numbers)
        self._buffers[number] = buffer
        return cuda.MemoryPointer(
            weakref.proxy(self.context),
            address_for_numba(buffer.ptr),
            size,
            finalizer=make_finalizer(self._buffers, number),
        )

    def _allocate(self, size):
        """Allocate without a stream, because Numba names none. Out of memory is final only if
        Numba's flush of its pending memory did not help."""
        try:
            return tarn.DeviceBuffer(size=size, stream=tarn.NO_STREAM)
        except MemoryError:
            self.deallocations.clear()
            return tarn.DeviceBuffer(size=size, stream=tarn.NO_STREAM)

    def get_memory_info(self):
        free, total = tarn.mr.available_device_memory()
        return cuda.MemoryInfo(free=free, total=total)

    def reset(self):
        """May be called before initialize(), and with no context current."""
        super().reset()
        self._buffers.clear()


def make_finalizer(buffers, number):
    """It must not refer to the manager or the pointer; otherwise neither would ever end."""

    def finalizer():
        buffers.pop(number, None)  # already gone after a reset

    return finalizer


def address_for_numba(address):
    """Return an address in the type that this Numba requires: ints of the driver's type with
    cuda.bindings, and a ctypes integer with the ctypes binding of Numba's built-in target."""
    driver = cuda.cudadrv.driver
    if getattr(driver, "USE_NV_BINDING", True):
        return driver.binding.CUdeviceptr(address)
    import ctypes

    return ctypes.c_uint64(address)


_numba_memory_manager = DeviceOnlyManager  # for the environment variable


if __name__ == "__main__":
    import numpy

    cuda.set_memory_manager(DeviceOnlyManager)  # before the first use of CUDA
    counter = tarn.mr.StatisticsResourceAdaptor(tarn.mr.CudaMemoryResource())
    tarn.mr.set_current_device_resource(counter)
    array = cuda.to_device(numpy.zeros(10))
    print(f"{counter.allocation_counts.current_bytes} bytes are live")
    del array
    print(f"{counter.allocation_counts.current_bytes} bytes are live")
