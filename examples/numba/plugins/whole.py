"""whole.py -- a memory manager for Numba that provides every kind of memory itself.

It derives from `BaseCUDAMemoryManager`, so no memory is Numba's. Device, pinned, mapped and managed
memory come from resources of `tarn.mr`. They cannot lock existing pages; for that the manager makes
a pair of driver calls.

    NUMBA_CUDA_MEMORY_MANAGER=whole python program.py

`cuda.defer_cleanup()` keeps every block of device, host and managed memory until its last end:
freeing one waits for the device. Pages are unlocked at once all the same.
"""

import contextlib
import itertools
import weakref

import tarn
from numba import cuda

driver = cuda.cudadrv.driver


class WholeManager(cuda.GetIpcHandleMixin, cuda.BaseCUDAMemoryManager):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._held = {}  # number of an allocation -> its owner
        self._numbers = itertools.count()
        self._pending = []  # blocks that wait for the end of defer_cleanup()
        self._depth = 0
        self._resources = None

    @property
    def interface_version(self):
        return 1

    def initialize(self):
        """Called very often. The context is current and may be used."""
        if self._resources is None:
            self._resources = {
                "device": tarn.mr.CudaMemoryResource(),
                "host": tarn.mr.PinnedHostMemoryResource(),
                "managed": tarn.mr.ManagedMemoryResource(),
            }

    # --- allocating ---

    def memalloc(self, size):
        return self._allocate(cuda.MemoryPointer, "device", size)

    def memhostalloc(self, size, mapped, portable, wc):
        """The resource's host memory is always mapped and portable, and never write-combined: a
        hint that a manager may ignore."""
        kind = cuda.MappedMemory if mapped else cuda.PinnedMemory
        return self._allocate(kind, "host", size).own()

    def memallocmanaged(self, size, attach_global):
        """Not in Numba's base class; without it managed_array() is an AttributeError."""
        return self._allocate(driver.ManagedMemory, "managed", size).own()

    def mempin(self, owner, pointer, size, mapped):
        flags = driver.binding.CU_MEMHOSTREGISTER_DEVICEMAP if mapped else 0
        driver.driver.cuMemHostRegister(pointer, size, flags)
        kind = cuda.MappedMemory if mapped else cuda.PinnedMemory
        return self._wrap(kind, pointer, size, Pages(pointer), owner).own()

    def _allocate(self, kind, memory, size):
        resource = self._resources[memory]
        buffer = tarn.DeviceBuffer(size=max(size, 1), stream=tarn.NO_STREAM, mr=resource)
        address = buffer.ptr  # of host memory too: the host and the device use one address
        if memory != "host":
            address = driver.binding.CUdeviceptr(address)
        return self._wrap(kind, address, size, buffer)

    def _wrap(self, kind, address, size, block, owner=None):
        """Return Numba's object for a block. The result of own() for mapped and managed memory
        refers to that object weakly and calls its finalizer after the last reference. So a table
        keeps it until then. Device and pinned memory end with the object itself."""
        number = next(self._numbers)
        finalizer = make_finalizer(weakref.ref(self), number)
        memory = kind(weakref.proxy(self.context), address, size, owner=owner, finalizer=finalizer)
        counted = isinstance(memory, driver.AutoFreePointer)
        self._held[number] = block, memory if counted else None
        return memory

    # --- freeing ---

    def let_go(self, number):
        """Unlock pages at once, free memory at the end of defer_cleanup()."""
        block, _ = self._held.pop(number, (None, None))  # already gone after a reset
        if self._depth > 0 and not isinstance(block, Pages):
            self._pending.append(block)

    @contextlib.contextmanager
    def defer_cleanup(self):
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            if self._depth == 0:
                self._pending.clear()

    def reset(self):
        """End all memory of this context, also if arrays still refer to it. May be called before
        initialize(), and with no context current; Tarn's resources make their own current."""
        self._held.clear()
        self._pending.clear()
        self._resources = None

    # --- the rest ---

    def get_memory_info(self):
        return cuda.MemoryInfo(*tarn.mr.available_device_memory())


class Pages:
    """Host memory that is locked during the lifetime of this object."""

    def __init__(self, pointer):
        weakref.finalize(self, driver.driver.cuMemHostUnregister, pointer)


def make_finalizer(manager_ref, number):
    """Not a method: a bound method would keep the manager alive."""

    def finalizer():
        manager = manager_ref()
        if manager is not None:
            manager.let_go(number)

    return finalizer


_numba_memory_manager = WholeManager
