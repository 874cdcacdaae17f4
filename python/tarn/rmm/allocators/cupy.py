"""CuPy's memory from the current device resource."""

from __future__ import annotations

import importlib
from typing import Any

from tarn._tarn import DeviceBuffer, Stream

__all__ = ["rmm_cupy_allocator"]


def rmm_cupy_allocator(nbytes: int) -> Any:
    """Allocate for CuPy on its current stream.

    Pass the function to `cupy.cuda.set_allocator`.

    Parameters
    ----------
    nbytes : int
        Size in bytes.

    Returns
    -------
    cupy.cuda.MemoryPointer
        The block. It ends with the last array on it.

    Raises
    ------
    ModuleNotFoundError
        CuPy is not installed.
    """
    cupy = importlib.import_module("cupy")
    buffer = DeviceBuffer(size=nbytes, stream=Stream(cupy.cuda.get_current_stream()))
    device = -1 if buffer.ptr else cupy.cuda.device.get_device_id()
    memory = cupy.cuda.UnownedMemory(
        ptr=buffer.ptr, size=buffer.size, owner=buffer, device_id=device
    )
    return cupy.cuda.memory.MemoryPointer(memory, 0)
