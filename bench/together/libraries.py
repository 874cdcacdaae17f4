"""One interface to the arrays of Numba, CuPy, PyTorch and cuda.core, each on a stream of its own.

A library here allocates arrays of int32, views an array of another library without a copy, and
works on both in the order of its stream. How an array passes is the consumer's choice: DLPack where
both have it, else `__cuda_array_interface__` (CAI).

`attach(resource)` makes a library allocate from a resource of Tarn, before its first array. Without
it the library has its own allocator. On the driver simulator CuPy has no CUDA runtime: its arrays
are made and viewed by address there, and need Tarn.
"""

from __future__ import annotations

import os
from typing import Any

from kernels import (
    Copies,
    CoreKernels,
    CupyKernels,
    NumbaKernels,
    TorchOperations,
    called,
    driver_module,
)


class Interface:
    """Memory of a library without `__cuda_array_interface__`, as an object that has one."""

    def __init__(self, address, count, owner):
        self._owner = owner
        self.__cuda_array_interface__ = {
            "shape": (count,),
            "typestr": "<i4",
            "data": (address, False),
            "version": 3,
            "strides": None,
            "stream": None,
        }


class Numba:
    """Arrays of numba.cuda. It consumes CAI."""

    name = "numba"
    routes = "CAI"

    def attach(self, resource):
        import tarn.numba

        tarn.numba.use_tarn_for_numba(resource=resource, logging=False)

    def begin(self, has_kernels):
        import numba_cuda
        from numba import cuda

        self._cuda, self.version = cuda, numba_cuda.__version__
        cuda.current_context()
        self.stream = cuda.stream()
        self.handle = int(self.stream.handle)
        self.work = NumbaKernels(self.stream) if has_kernels else Copies(self.address, self.handle)

    def allocate(self, count):
        return self._cuda.device_array(count, "i4", stream=self.stream)

    def view(self, array, count, producer):
        return self._cuda.as_cuda_array(producer.with_interface(array, count), sync=False)

    def address(self, array):
        return array.device_ctypes_pointer.value

    def with_interface(self, array, count):
        return array

    def with_dlpack(self, array):
        return None

    def reserved(self):
        """Return the bytes of live arrays and of frees that Numba defers; it has no cache."""
        manager = self._cuda.current_context().memory_manager
        live = sum(memory.size for memory in manager.allocations.values())
        return live + manager.deallocations._size

    def release(self):
        self._cuda.current_context().memory_manager.deallocations.clear()


class Cupy:
    """Arrays of CuPy. It consumes DLPack, and CAI of Numba."""

    name = "cupy"

    def attach(self, resource):
        import cupy
        import tarn.cupy

        cupy.cuda.set_allocator(tarn.cupy.Allocator(resource))

    def begin(self, has_kernels):
        import cupy

        self._cupy, self.version = cupy, cupy.__version__
        self.stream = cupy.cuda.Stream(non_blocking=True)
        self.handle = self.stream.ptr
        self.work = CupyKernels(self.stream) if has_kernels else Copies(self.address, self.handle)

    def allocate(self, count):
        with self.stream:
            return self._cupy.empty(count, "i4")

    def view(self, array, count, producer):
        with self.stream:
            shared = producer.with_dlpack(array)
            if shared is None:
                return self._cupy.asarray(producer.with_interface(array, count))
            return self._cupy.from_dlpack(shared).view("i4")

    def address(self, array):
        return array.data.ptr

    def with_interface(self, array, count):
        return array

    def with_dlpack(self, array):
        return array

    def reserved(self):
        return self._cupy.get_default_memory_pool().total_bytes()

    def release(self):
        self._cupy.get_default_memory_pool().free_all_blocks()


class CupyWithoutRuntime(Cupy):
    """CuPy on the driver simulator: it has no streams and no exchange of arrays of its own."""

    def attach(self, resource):
        import cupy
        import tarn
        import tarn.cupy

        self.stream = tarn.Stream()
        cupy.cuda.set_allocator(tarn.cupy.Allocator(resource, self.stream))

    def begin(self, has_kernels):
        import cupy

        self._cupy, self.version = cupy, cupy.__version__
        self.handle = self.stream.handle
        self.work = Copies(self.address, self.handle)

    def allocate(self, count):
        return self._cupy.ndarray((count,), "i4")

    def view(self, array, count, producer):
        shared = producer.with_interface(array, count)
        address = shared.__cuda_array_interface__["data"][0]
        memory = self._cupy.cuda.UnownedMemory(address, 4 * count, shared, 0)
        pointer = self._cupy.cuda.MemoryPointer(memory, 0)
        return self._cupy.ndarray((count,), "i4", memptr=pointer)

    def with_interface(self, array, count):
        return Interface(array.data.ptr, count, array)

    def with_dlpack(self, array):
        return None

    def reserved(self):
        return 0

    def release(self):
        pass


class Torch:
    """Tensors of PyTorch. It consumes DLPack, and CAI of Numba."""

    name = "torch"

    def attach(self, resource):
        import tarn.torch

        tarn.torch.use(resource)
        import torch

        torch.empty(1, device="cuda")  # PyTorch keeps the resource of its first tensor

    def begin(self, has_kernels):
        import torch

        self._torch, self.version = torch, torch.__version__
        self.stream = torch.cuda.Stream()
        self.handle = self.stream.cuda_stream
        self.work = (
            TorchOperations(self.stream) if has_kernels else Copies(self.address, self.handle)
        )

    def allocate(self, count):
        with self._torch.cuda.stream(self.stream):
            return self._torch.empty(count, dtype=self._torch.int32, device="cuda")

    def view(self, array, count, producer):
        with self._torch.cuda.stream(self.stream):
            shared = producer.with_dlpack(array)
            if shared is None:
                return self._torch.as_tensor(producer.with_interface(array, count), device="cuda")
            return self._torch.from_dlpack(shared).view(self._torch.int32)

    def address(self, array):
        return array.data_ptr()

    def with_interface(self, array, count):
        return array

    def with_dlpack(self, array):
        return array

    def reserved(self):
        return self._torch.cuda.memory_reserved()

    def release(self):
        self._torch.cuda.empty_cache()


class CoreArray:
    """A buffer of cuda.core, or a view of another library's array, with its address."""

    def __init__(self, owner, address):
        self.owner, self.address = owner, address


class Core:
    """Buffers of cuda.core. It consumes DLPack, and CAI of Numba."""

    name = "cuda.core"
    _resource: Any = None

    def attach(self, resource):
        import tarn.cuda_core

        self._resource = tarn.cuda_core.MemoryResource(resource)

    def begin(self, has_kernels):
        import cuda.core as core

        self.version = core.__version__
        self._device = core.Device(0)
        self._device.set_current()
        if self._resource is not None:
            self._device.memory_resource = self._resource
        self._view = core.utils.StridedMemoryView
        self.stream = self._device.create_stream()
        self.handle = int(self.stream.handle)
        self.work = (
            CoreKernels(self._device, self.stream)
            if has_kernels
            else Copies(self.address, self.handle)
        )

    def allocate(self, count):
        buffer = self._device.allocate(4 * count, stream=self.stream)
        return CoreArray(buffer, int(buffer.handle))

    def view(self, array, count, producer):
        shared = producer.with_dlpack(array)
        if shared is None:
            shared = producer.with_interface(array, count)
            view = self._view.from_cuda_array_interface(shared, stream_ptr=-1)
        else:
            view = self._view.from_dlpack(shared, stream_ptr=-1)
        return CoreArray(view, view.ptr)

    def address(self, array):
        return array.address

    def with_interface(self, array, count):
        return Interface(array.address, count, array)

    def with_dlpack(self, array):
        return array.owner

    def reserved(self):
        return self._device.memory_resource.attributes.reserved_mem_current

    def release(self):
        pool = self._device.memory_resource.handle
        called(driver_module().cuMemPoolTrimTo(pool, 0))


def on_simulator():
    """Return True if the driver of this process is the simulator."""
    import tarn

    return tarn.driver_info().is_simulator


def chosen(names):
    """Return the libraries with these names, in the order in which they have to be attached.

    Numba comes last: it allocates from the current resource, which attaching PyTorch sets.
    """
    classes = {
        "torch": Torch,
        "cupy": CupyWithoutRuntime if on_simulator() else Cupy,
        "cuda.core": Core,
        "numba": Numba,
    }
    return [classes[name]() for name in classes if name in names]


def available():
    """Return the names of the libraries that can run here."""
    import importlib.util

    if on_simulator() and not os.environ.get("TARN_TORCH_CUDART"):
        present = ("numba", "cupy", "cuda.core")
    else:
        present = ("numba", "cupy", "torch", "cuda.core")
    modules = {"numba": "numba_cuda"}
    return [name for name in present if find(modules.get(name, name), importlib.util)]


def find(module, util):
    """Return True if a module is installed."""
    try:
        return util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False
