"""cuda.core's GPU memory from Tarn: a MemoryResource for cuda.core, nvmath, and others on it.

::

    tarn.use(frameworks="cuda.core")                   # Device.allocate() of all threads
    Device(0).memory_resource = tarn.cuda_core.MemoryResource()   # that of this thread
    buffer = tarn.cuda_core.MemoryResource(pool).allocate(1 << 20, stream=stream)

Importing this module imports cuda.core.
"""

from __future__ import annotations

import weakref
from typing import Any

from cuda import core
from cuda.core import Buffer, Device

from tarn import _frameworks, _resources, _tarn, mr
from tarn._own_errors import own_error

__all__ = ["MemoryResource"]

_NEEDED = "1.2"  # from_handle() of older ones takes no stream

_frameworks.check_version("cuda.core", core.__version__, _NEEDED)

from cuda.core._utils.cuda_utils import CUDAError  # noqa: E402


class MemoryResource(core.MemoryResource):  # type: ignore[misc]
    """A memory resource of cuda.core whose memory is Tarn's.

    Memory is allocated and freed in the order of the streams that cuda.core names: a buffer is
    ready on the stream of its allocation, and is freed on that one or on the one of close().

    Parameters
    ----------
    resource : DeviceMemoryResource, optional
        The source. None: the current resource of the device at each allocation. A block returns to
        the resource that it came from.
    device : int, optional
        Number of the device. None: that of `resource`, else the current device.

    Raises
    ------
    TypeError
        `resource` is no resource.
    ValueError
        `resource` is of another device.
    """

    is_device_accessible = True
    is_host_accessible = False
    is_managed = False

    def __init__(
        self, resource: mr.DeviceMemoryResource | None = None, *, device: int | None = None
    ) -> None:
        if resource is not None:
            _resources.check("tarn.cuda_core", resource)
        own = None if resource is None else resource.device
        if device is None:
            device = _tarn.current_device() if own is None else own
        if own not in (None, device):
            raise ValueError(f"tarn.cuda_core: the resource is of device {own}, not of {device}")
        self._resource = resource
        self._device = device
        self._live: dict[int, _tarn.DeviceBuffer] = {}  # by address

    def __repr__(self) -> str:
        return f"<tarn.cuda_core.MemoryResource of device {self._device}>"

    @property
    def device_id(self) -> int:
        """Number of the device."""
        return self._device

    def allocate(self, size: int, *, stream: Any) -> Buffer:
        """Allocate a buffer.

        Parameters
        ----------
        size : int
            Size in bytes.
        stream : cuda.core.Stream or cuda.core.graph.GraphBuilder
            The buffer is ready for work that is queued on this stream from now on.

        Returns
        -------
        cuda.core.Buffer
            The buffer. It is freed on `stream`, or on the stream of its close().

        Raises
        ------
        CUDAError
            The resource has no more memory, or a driver call failed. The error is also Tarn's, such
            as tarn.OutOfMemoryError.
        TypeError
            `stream` is no stream.
        ValueError
            The stream is of another device.
        """
        own = self._stream_of(stream)
        try:
            resource = self._resource or _resources.current(self._device)
            block = _tarn.DeviceBuffer(size=size, stream=own, mr=resource)
        except (_tarn.TarnError, MemoryError) as error:
            raise own_error(error, CUDAError) from None
        buffer = Buffer.from_handle(block.ptr, size, mr=self, stream=stream)
        if block.ptr:
            self._live[block.ptr] = block
        return buffer

    def deallocate(self, ptr: Any, size: int, *, stream: Any) -> None:
        """Free the block of a buffer; cuda.core calls it.

        Parameters
        ----------
        ptr : int or object with __int__
            The address; 0 frees nothing.
        size : int
            Size in bytes, as at the allocation.
        stream : cuda.core.Stream or cuda.core.graph.GraphBuilder
            All work on the block is queued on it, or ordered before it.

        Raises
        ------
        ValueError
            The address is not a live block of this resource, or has another size. Nothing has
            changed.
        """
        address = int(ptr)
        if address == 0 and size == 0:
            return
        block = self._live.get(address)
        if block is None or block.size != size:
            what = "it is not live" if block is None else f"it was allocated with {block.size}"
            raise _tarn.InvalidArgumentError(
                f"tarn.cuda_core: {size} bytes at {address:#x}: {what}"
            )
        block.reserve(0, self._stream_of(stream))
        del self._live[address]

    def _stream_of(self, stream: Any) -> _tarn.Stream:
        """Return a stream of cuda.core as Tarn's, which keeps it alive."""
        if stream is None or isinstance(stream, int):
            raise TypeError(f"tarn.cuda_core: {stream!r} is not a stream of cuda.core")
        stream = getattr(stream, "stream", stream)  # a GraphBuilder has one
        device = getattr(getattr(stream, "device", None), "device_id", self._device)
        if device != self._device:
            raise ValueError(
                f"tarn.cuda_core: the stream is of device {device}, and the memory is of device "
                f"{self._device}"
            )
        return _tarn.Stream(stream)


# --- all devices of all threads ---

_cores: Any = Device.memory_resource  # cuda.core's own property
_by_program: weakref.WeakValueDictionary[int, Device] = weakref.WeakValueDictionary()


def _get(device: Device) -> Any:
    """Return the resource of a Device: the program's, or Tarn's."""
    present = device._memory_resource
    is_default = present is None or type(present) is core.DeviceMemoryResource
    if is_default and id(device) not in _by_program:
        _cores.fset(device, MemoryResource(device=device.device_id))
    return _cores.fget(device)


def _set(device: Device, resource: Any) -> None:
    """Set the resource of a Device for the program."""
    _cores.fset(device, resource)
    _by_program[id(device)] = device


def _configure() -> None:
    """Let each Device of cuda.core allocate from Tarn, for tarn.use().

    cuda.core has a Device object for each thread, with a resource of its own. So Tarn replaces the
    property of the class. A resource that the program sets stays.
    """
    if Device.memory_resource is _cores:
        Device.memory_resource = property(_get, _set, None, _cores.__doc__)
