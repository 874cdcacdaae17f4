"""nbep7_draft.py -- the plugin of NBEP 7's first draft, in the spelling that Numba took.

It follows the draft's class member by member, on a resource of Tarn in the place of RMM's C calls.
Comments name the members that have another name or form today. It shows the shape of a plugin; copy
device_only.py beside it instead.

Device memory returns at once, in `cuda.defer_cleanup()` too, each time behind a device-wide wait;
Numba's host memory waits for the end of it.

    python nbep7_draft.py
"""

import contextlib
import os
import tempfile

import numpy as np
import tarn
from numba import cuda

driver = cuda.cudadrv.driver  # the draft's module `memory` never came to be


class Library:
    """The library of the plugin, in the form of the draft: calls that allocate and free on a
    stream, a repeatable start that frees everything, and a log."""

    def __init__(self):
        self._device, self._out = None, set()

    def reinitialize(self, logging=False):
        for handle in list(self._out):
            self.free(handle, 0)
        self._device = tarn.mr.CudaMemoryResource()
        if logging:
            path = os.path.join(tempfile.mkdtemp(), "log.csv")
            self._device = tarn.mr.LoggingResourceAdaptor(self._device, path, format="nbep7")

    def alloc(self, nbytes, stream):
        handle = Block(self._device.allocate(nbytes, stream), nbytes)
        self._out.add(handle)
        return handle

    def free(self, handle, stream):
        """Free once. The key is the handle, not the address, which another block may have by now."""
        if handle in self._out:
            self._out.remove(handle)
            self._device.deallocate(handle.address, handle.nbytes, stream)

    def csv_log(self):
        self._device.flush()
        with open(self._device.get_file_name()) as log:
            return log.read()


class Block:
    def __init__(self, address, nbytes):
        self.address, self.nbytes = address, nbytes


library = Library()


class DraftNumbaManager(cuda.HostOnlyCUDAMemoryManager):
    # The draft's constructor takes `logging` alone. Numba's calls it with context=, which has to
    # reach the base class; a class attribute replaces the switch.
    logging = True

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._initialized = False

    def memalloc(self, nbytes, stream=0):  # Numba passes the size alone
        handle = library.alloc(nbytes, stream)
        context = cuda.current_context()
        pointer = driver.binding.CUdeviceptr(handle.address)  # draft: ctypes.c_uint64
        finalizer = _make_finalizer(handle, stream)
        return cuda.MemoryPointer(context, pointer, nbytes, finalizer=finalizer)

    def get_ipc_handle(self, memory, stream=0):  # Numba passes the memory alone
        """For the allocation around the memory, of which the block may be a part: the handle names
        the allocation, and the offset is the position in it."""
        base, _ = driver.device_extents(memory)
        handle = driver.driver.cuIpcGetMemHandle(base)  # draft: 64 bytes of ctypes
        source_info = cuda.current_context().device.get_device_identity()
        offset = memory.device_ctypes_pointer.value - int(base)
        return cuda.IpcHandle(memory, handle, memory.size, source_info, offset=offset)

    def get_memory_info(self):
        return cuda.MemoryInfo(*tarn.mr.available_device_memory())

    def initialize(self):  # draft: prepare_for_use
        super().initialize()
        if not self._initialized:
            library.reinitialize(self.logging)
            self._initialized = True

    def reset(self):
        """May be called before initialize()."""
        super().reset()
        if self._initialized:
            library.reinitialize(self.logging)

    @contextlib.contextmanager
    def defer_cleanup(self):
        with super().defer_cleanup():
            yield

    @property
    def interface_version(self):  # not in the draft
        return 1


def _make_finalizer(handle, stream):
    """Numba calls a finalizer without arguments, so they are bound here."""

    def finalizer():
        library.free(handle, stream)

    return finalizer


def use_draft_for_numba():
    cuda.set_memory_manager(DraftNumbaManager)


_numba_memory_manager = DraftNumbaManager


if __name__ == "__main__":
    use_draft_for_numba()
    a = np.zeros(10)
    d_a = cuda.to_device(a)
    del d_a
    print(library.csv_log())
