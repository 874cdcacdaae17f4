"""Device memory from Tarn for host arrays that are passed straight to kernels.

numba-cuda copies them into memory of cuda.core's `Device.memory_resource` and not into memory of
its manager. Tarn sets that attribute, unless the program has set it.
"""

from __future__ import annotations

import functools
from typing import Any


@functools.cache
def _resource_class(base: type) -> Any:
    """Create cuda.core's interface over a manager of tarn.numba."""

    class TarnMemoryResource(base):  # type: ignore[misc]
        """Memory of a device from Tarn, with cuda.core's interface.

        New memory has no pending work of any stream. Memory is not reused while earlier work uses it,
        whatever streams are specified: cuda.core's buffers may outlive the stream of their creation.
        """

        is_device_accessible = True
        is_host_accessible = False
        is_managed = False

        def __init__(self, manager: Any, device: int) -> None:
            self._manager = manager
            self._device = device
            self._memory: dict[int, Any] = {}

        @property
        def device_id(self) -> int:
            """Number of the device."""
            return self._device

        def allocate(self, size: int, stream: Any = None) -> Any:
            """Allocate `size` bytes and return cuda.core's Buffer; `stream` is ignored."""
            from cuda.core import Buffer

            memory = self._manager.memalloc(size)
            address = memory.device_pointer_value or 0
            self._memory[address] = memory
            return Buffer.from_handle(address, size, mr=self)

        def deallocate(self, ptr: Any, size: int, stream: Any = None) -> None:
            """Free the block at `ptr`; `size` and `stream` are ignored."""
            self._memory.pop(int(ptr), None)

    return TarnMemoryResource


def serve(device: Any, manager: Any) -> None:
    """Let Numba's `device` allocate memory for host arrays from `manager`.

    A resource that the program has set there stays.
    """
    of_core = getattr(device, "_dev", None)  # numba-cuda since 0.25, and numba-cuda-mlir
    if of_core is None or not hasattr(of_core, "memory_resource"):
        return
    from cuda.core import MemoryResource

    present = of_core.memory_resource
    ours = _resource_class(MemoryResource)
    if isinstance(present, ours) or type(present).__module__.startswith("cuda.core"):
        of_core.memory_resource = ours(manager, of_core.device_id)
