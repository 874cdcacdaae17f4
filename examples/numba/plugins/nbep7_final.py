"""nbep7_final.py -- the plugin of NBEP 7 as it was agreed, in today's spelling.

The class of the proposal, on Tarn's current device resource in the place of RMM's C calls. It
differs from the proposal in three points. An address is no `ctypes.c_uint64` (Numba's bindings
cannot read one). The 64 bytes of a handle are the driver's own type (a ctypes array cannot be
pickled). Blocks are allocated and freed without a stream (on stream 0 they are in no order with
work on non-blocking streams).

Device memory returns to the resource at once, in `cuda.defer_cleanup()` too; Numba's host memory
waits for the end of it.

    python nbep7_final.py
    NUMBA_CUDA_MEMORY_MANAGER=nbep7_final python program.py
"""

import contextlib

import tarn
from numba.cuda import (
    GetIpcHandleMixin,
    HostOnlyCUDAMemoryManager,
    MemoryInfo,
    MemoryPointer,
    cudadrv,
    set_memory_manager,
)


class FinalNumbaManager(GetIpcHandleMixin, HostOnlyCUDAMemoryManager):
    # get_ipc_handle() comes from the mixin that Numba added later: the handle of the allocation
    # around the memory, and the offset in it.

    def memalloc(self, size):
        buffer = tarn.DeviceBuffer(size=size, stream=tarn.NO_STREAM)
        pointer = cudadrv.driver.binding.CUdeviceptr(buffer.ptr)
        finalizer = _make_finalizer(buffer)
        return MemoryPointer(self.context, pointer, size, finalizer=finalizer)

    def get_memory_info(self):
        return MemoryInfo(*tarn.mr.available_device_memory())

    def initialize(self):
        """Nothing to do, except in the base class."""
        super().initialize()

    @contextlib.contextmanager
    def defer_cleanup(self):
        with super().defer_cleanup():
            yield

    @property
    def interface_version(self):
        return 1


def _make_finalizer(buffer):
    """A finalizer without arguments, as Numba calls it. The buffer frees its block when it ends,
    and that is when Numba drops the finalizer after calling it."""
    held = [buffer]

    def finalizer():
        held.clear()

    return finalizer


def use_final_for_numba():
    set_memory_manager(FinalNumbaManager)


_numba_memory_manager = FinalNumbaManager


if __name__ == "__main__":
    import tempfile

    import numpy as np
    from numba import cuda

    path = f"{tempfile.mkdtemp()}/log.csv"
    upstream = tarn.mr.CudaMemoryResource()
    log = tarn.mr.LoggingResourceAdaptor(upstream, path, format="nbep7")
    tarn.mr.set_current_device_resource(log)
    use_final_for_numba()
    a = np.zeros(10)
    d_a = cuda.to_device(a)
    del d_a
    log.flush()
    with open(log.get_file_name()) as rows:
        print(rows.read())
