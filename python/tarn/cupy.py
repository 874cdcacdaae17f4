"""CuPy's GPU memory from Tarn: an allocator for CuPy's arrays, and one for pinned memory.

::

    tarn.use(frameworks="cupy")                        # all arrays of the program
    with cupy.cuda.using_allocator(tarn.cupy.Allocator(resource)):
        ...                                            # the arrays of this thread in here

An array is allocated on CuPy's current stream, and its memory is freed in the order of that
stream, whatever the current stream is then. free_on() names another one. Importing this module
imports CuPy.
"""

from __future__ import annotations

from typing import Any

from tarn import _frameworks, _resources, _tarn, mr  # first: see _clash.py
from tarn._own_errors import own_error

# isort: split

import cupy

__all__ = ["Allocator", "PinnedAllocator", "free_on"]

_NEEDED = "14.0"  # the first with Stream.from_external() and __cuda_stream__

_INVALID_VALUE = 1  # cudaErrorInvalidValue; the other numbers are those of the driver

_frameworks.check_version("CuPy", cupy.__version__, _NEEDED)


class Allocator:
    """Allocates the memory of CuPy's arrays, for cupy.cuda.set_allocator() and using_allocator().

    Parameters
    ----------
    resource : DeviceMemoryResource, optional
        The source. None: the current resource of the current device at each allocation.
    stream : Stream, int or object with __cuda_stream__, optional
        The stream of all allocations and frees. None: CuPy's current stream at the allocation.

    Raises
    ------
    TypeError
        `resource` is no resource, or `stream` is no stream.
    """

    def __init__(self, resource: mr.DeviceMemoryResource | None = None, stream: Any = None) -> None:
        if resource is not None:
            _resources.check("tarn.cupy", resource)
        self._resource = resource
        self._stream = None if stream is None else _tarn.Stream(stream)

    def __call__(self, size: int) -> Any:
        """Allocate memory of the current device.

        Parameters
        ----------
        size : int
            Size in bytes.

        Returns
        -------
        cupy.cuda.MemoryPointer
            The memory, which is freed with the last array on it.

        Raises
        ------
        cupy.cuda.memory.OutOfMemoryError
            The resource has no more memory. The error is also a tarn.OutOfMemoryError.
        cupy.cuda.runtime.CUDARuntimeError
            Another failure, such as a resource of another device. It is also a tarn.TarnError; its
            `status` is CUDA's, as CuPy has it.
        """
        try:
            device = _tarn.current_device()
            buffer = _tarn.DeviceBuffer(
                size=size,
                stream=cupy.cuda.get_current_stream() if self._stream is None else self._stream,
                mr=self._resource_of(device),
            )
        except (_tarn.TarnError, MemoryError) as error:
            raise _as_cupy_error(error) from None
        memory = cupy.cuda.UnownedMemory(buffer.ptr, size, buffer, device)
        return cupy.cuda.MemoryPointer(memory, 0)

    def _resource_of(self, device: int) -> Any:
        """Return the resource that serves a device."""
        if self._resource is None:
            return _resources.current(device)
        if self._resource.device not in (None, device):
            raise _tarn.InvalidArgumentError(
                f"tarn.cupy: the resource is of device {self._resource.device}, and the current "
                f"device is {device}"
            )
        return self._resource


class PinnedAllocator:
    """Allocates CuPy's pinned memory, for cupy.cuda.set_pinned_memory_allocator().

    The memory comes from a pool of Tarn over pinned memory. The pool does not reuse a block while
    earlier work, on any stream, can still use it.

    Parameters
    ----------
    resource : DeviceMemoryResource, optional
        A resource of pinned memory. None: a new pool over tarn.mr.PinnedHostMemoryResource.
    """

    def __init__(self, resource: mr.DeviceMemoryResource | None = None) -> None:
        self._resource = resource or mr.PoolMemoryResource(mr.PinnedHostMemoryResource())

    def __call__(self, size: int) -> Any:
        """Allocate pinned memory.

        Parameters
        ----------
        size : int
            Size in bytes.

        Returns
        -------
        cupy.cuda.PinnedMemoryPointer
            The memory, which is freed with the last object on it.

        Raises
        ------
        cupy.cuda.memory.OutOfMemoryError, cupy.cuda.runtime.CUDARuntimeError
            As for Allocator.
        """
        try:
            memory = _PinnedMemory(size=size, stream=_tarn.NO_STREAM, mr=self._resource)
        except (_tarn.TarnError, MemoryError) as error:
            raise _as_cupy_error(error) from None
        return cupy.cuda.PinnedMemoryPointer(memory, 0)


class _PinnedMemory(_tarn.DeviceBuffer):
    """Pinned memory with the attributes of cupy.cuda.PinnedMemory: `ptr` and `size`."""

    def __int__(self) -> int:
        return self.ptr


def free_on(array: Any, stream: Any) -> None:
    """Name the stream in whose order the memory of an array will be freed.

    Call it after work of another stream than the one of the allocation has used the array, and
    after `stream` waits for all work on the array.

    Parameters
    ----------
    array : cupy.ndarray
        The array; views share its memory and so the stream.
    stream : Stream, int or object with __cuda_stream__
        The stream, which the memory keeps alive.

    Raises
    ------
    ValueError
        The memory of the array is not from Allocator.
    TypeError
        `stream` is no stream.
    """
    buffer = getattr(array.data.mem, "_owner", None)
    if not isinstance(buffer, _tarn.DeviceBuffer):
        raise ValueError("tarn.cupy: the memory of the array is not Tarn's")
    buffer.reserve(0, stream)


def _as_cupy_error(error: Exception) -> Exception:
    """Return a failure of Tarn as an exception of CuPy's."""
    if isinstance(error, MemoryError):
        return own_error(error, cupy.cuda.memory.OutOfMemoryError)
    status = getattr(error, "native", 0) or _INVALID_VALUE
    return own_error(error, cupy.cuda.runtime.CUDARuntimeError, status=status)


def _configure() -> None:
    """Allocate CuPy's arrays from the current device resources, for tarn.use()."""
    present = cupy.cuda.get_allocator()
    if isinstance(present, Allocator):
        cupy.cuda.set_allocator(present)  # CuPy refuses that inside using_allocator()
        return
    pool = cupy.get_default_memory_pool()
    if present != pool.malloc:
        raise RuntimeError(f"CuPy has another allocator: {present!r}")
    held = _bytes_in_use(pool)
    if held:
        raise RuntimeError(
            f"CuPy's pool holds {held} bytes of live arrays: call tarn.use() before the first one"
        )
    cupy.cuda.set_allocator(Allocator())


def _bytes_in_use(pool: Any) -> int:
    """Return the bytes of CuPy's live arrays on the current device; release what is only cached."""
    try:
        held = int(pool.used_bytes())
        if held == 0:
            pool.free_all_blocks()
    except cupy.cuda.runtime.CUDARuntimeError:  # without a CUDA runtime there are no arrays
        return 0
    return held
