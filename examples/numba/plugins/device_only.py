"""device_only.py -- a memory manager for Numba: device memory from tarn.mr, the rest Numba's.

The shortest plugin that is right, for libraries with device memory of their own: put it
where `tarn.DeviceBuffer` stands here. Programs that want Tarn under Numba take `tarn.numba`
instead, which does all of this in C, and more. docs/writing-a-plugin.md explains each step.

    NUMBA_CUDA_MEMORY_MANAGER=device_only python program.py

Memory goes back to the resource as soon as the last array over it has gone, inside
`cuda.defer_cleanup()` too; that holds back Numba's own host memory alone.
"""

import itertools
import weakref

import tarn
from numba import cuda


class DeviceOnlyManager(cuda.GetIpcHandleMixin, cuda.HostOnlyCUDAMemoryManager):
    """One instance a Context of Numba's, and one without, which is asked for the version."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)  # takes context=; nothing of CUDA may be called
        self._buffers = {}
        self._numbers = itertools.count()

    @property
    def interface_version(self):
        return 1

    def initialize(self):
        """Comes before every call of numba.cuda. Numba flushes mapped and managed memory
        when a fifth of the capacity is pending; left at 0, each such free would flush."""
        if not self.deallocations.memory_capacity:
            self.deallocations.memory_capacity = self.get_memory_info().total

    def memalloc(self, size):
        buffer = self._allocate(size)
        # The number, not the address, is the key: after a reset the address may belong to
        # another block, which the finalizer of the old one must leave alone.
        number = next(self._numbers)
        self._buffers[number] = buffer
        return cuda.MemoryPointer(
            weakref.proxy(self.context),
            address_for_numba(buffer.ptr),
            size,
            finalizer=make_finalizer(self._buffers, number),
        )

    def _allocate(self, size):
        """Without a stream: Numba names none. Out of memory is final only when what Numba
        holds back went and it did not help."""
        try:
            return tarn.DeviceBuffer(size=size, stream=tarn.NO_STREAM)
        except MemoryError:
            self.deallocations.clear()
            return tarn.DeviceBuffer(size=size, stream=tarn.NO_STREAM)

    def get_memory_info(self):
        free, total = tarn.mr.available_device_memory()
        return cuda.MemoryInfo(free=free, total=total)

    def reset(self):
        """May come before initialize(), and comes with no context current."""
        super().reset()
        self._buffers.clear()


def make_finalizer(buffers, number):
    """It must not hold the manager or the pointer, or neither would ever go."""

    def finalizer():
        buffers.pop(number, None)  # it is gone already after a reset

    return finalizer


def address_for_numba(address):
    """What this Numba wants addresses in: ints of the driver's type with cuda.bindings, and
    a ctypes integer with the ctypes binding of the Numba that brings its own numba.cuda."""
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
    print(f"{counter.allocation_counts.current_bytes} bytes are out")
    del array
    print(f"{counter.allocation_counts.current_bytes} bytes are out")
