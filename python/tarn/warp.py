"""Warp's arrays from Tarn: an allocator for warp.set_cuda_allocator() and warp.ScopedAllocator.

::

    tarn.use(frameworks="warp")                        # all arrays on CUDA devices
    with wp.ScopedAllocator("cuda:0", tarn.warp.Allocator(resource)):
        ...

An array is allocated on the current stream of its device. Its memory is freed in the order of that
stream, or of the default stream once the program has made a warp.Stream: Warp names no stream at a
free, and all streams that Warp makes are ordered with the default stream. Importing this module
imports Warp, but does not initialise it.
"""

from __future__ import annotations

import collections
import gc
from typing import Any, NamedTuple

from tarn import _frameworks, _resources, _tarn, mr  # first: see _clash.py

# isort: split

import warp

__all__ = ["Allocator"]

_NEEDED = "1.19"  # the first that was tried with set_cuda_allocator()

_LEGACY = _tarn.Stream(1)  # the default stream, which waits for all blocking streams

_frameworks.check_version("Warp", warp.config.version, _NEEDED)


class _Block(NamedTuple):
    resource: mr.DeviceMemoryResource
    size: int  # bytes
    stream: Any  # warp.Stream of the allocation


class _Streams:
    """Counts the streams that exist for Warp: each device has one of its own from the start."""

    def __init__(self) -> None:
        self._of_device: collections.Counter[int] = collections.Counter()
        self._init = warp.Stream.__init__
        for found in gc.get_objects():
            if issubclass(type(found), warp.Stream):
                self._note(found)
        warp.Stream.__init__ = self._make_init()

    def _make_init(self) -> Any:
        def init_and_count(stream: Any, *args: Any, **options: Any) -> None:
            self._init(stream, *args, **options)
            self._note(stream)

        init_and_count.__doc__ = self._init.__doc__
        return init_and_count

    def _note(self, stream: Any) -> None:
        if stream.cuda_stream:  # not the default stream, which is ordered with the others
            self._of_device[stream.device.ordinal] += 1

    def has_several(self, device: Any) -> bool:
        """Return True if work of a device may be on another stream than the device's own."""
        return self._of_device[device.ordinal] > 1


_streams: _Streams | None = None  # from the first Allocator on


class Allocator:
    """Allocates the memory of Warp's arrays.

    Parameters
    ----------
    resource : DeviceMemoryResource, optional
        The source. None: the current resource of the array's device at each allocation. A block
        returns to the resource that it came from.

    Raises
    ------
    TypeError
        `resource` is no resource.
    """

    deallocate_requires_context_guard = False  # Warp need not make the device current

    def __init__(self, resource: mr.DeviceMemoryResource | None = None) -> None:
        if resource is not None:
            _resources.check("tarn.warp", resource)
        global _streams
        if _streams is None:
            _streams = _Streams()
        self._resource = resource
        self._live: dict[int, _Block] = {}  # by address

    def allocate(self, size_in_bytes: int) -> int:
        """Allocate a block of the current device; Warp calls it.

        Parameters
        ----------
        size_in_bytes : int
            Size in bytes.

        Returns
        -------
        int
            The address; 0 for 0 bytes.

        Raises
        ------
        RuntimeError
            The resource has no more memory (tarn.OutOfMemoryError), or is of another device
            (tarn.InvalidArgumentError).
        """
        device = _tarn.current_device()
        resource = _resources.current(device) if self._resource is None else self._resource
        if resource.device not in (None, device):
            raise _tarn.InvalidArgumentError(
                f"tarn.warp: the resource is of device {resource.device}, and the array is on "
                f"device {device}"
            )
        stream = warp.get_device(f"cuda:{device}").stream
        address = resource.allocate(size_in_bytes, stream)
        if address:
            self._live[address] = _Block(resource, size_in_bytes, stream)
        return address

    def deallocate(self, ptr: int, size_in_bytes: int) -> None:
        """Free a block; Warp calls it.

        The free is in the order of the stream of the allocation while the device has only its own
        stream, or captures. Else it is in the order of the default stream, so that work that is
        queued on any stream of Warp may still use the block.

        Parameters
        ----------
        ptr : int
            The address; 0 frees nothing.
        size_in_bytes : int
            Size in bytes, as at the allocation.

        Raises
        ------
        RuntimeError
            The address is not a live block of this allocator, or has another size. Nothing has
            changed.
        """
        block = self._live.get(ptr)
        if block is not None and block.size == size_in_bytes:
            del self._live[ptr]  # first: another thread may get the address
            try:
                block.resource.deallocate(ptr, size_in_bytes, _stream_of_free(block.stream))
            except BaseException:
                self._live[ptr] = block
                raise
        elif ptr or size_in_bytes:
            what = "it is not live" if block is None else f"it was allocated with {block.size}"
            raise _tarn.InvalidArgumentError(
                f"tarn.warp: {size_in_bytes} bytes at {ptr:#x}: {what}"
            )


def _stream_of_free(stream: Any) -> Any:
    device = stream.device
    is_alone = _streams is None or not _streams.has_several(device)
    return stream if is_alone or device.is_capturing else _LEGACY


def _configure() -> None:
    """Allocate Warp's arrays from the current device resources, for tarn.use().

    Warp makes its devices in warp.init(), which prints, and reads settings that a program changes
    before. So Tarn does not call it, and adds itself to its end.
    """
    context = warp._src.context
    if context.runtime is not None:
        _serve()
    elif not hasattr(context.init, "of_warp"):
        context.init = warp.init = _initializer(context.init)


def _initializer(init: Any) -> Any:
    """Return Warp's init() with an end at which Tarn becomes the allocator."""

    def init_with_tarn() -> None:
        is_first = warp._src.context.runtime is None
        init()
        if is_first and warp.get_cuda_devices():
            warp.set_cuda_allocator(Allocator())

    init_with_tarn.__doc__ = init.__doc__
    init_with_tarn.of_warp = init  # type: ignore[attr-defined]
    return init_with_tarn


def _serve() -> None:
    """Set the allocator of an initialised Warp, unless there are arrays or another allocator."""
    devices = warp.get_cuda_devices()
    for device in devices:
        present = device._custom_allocator
        if present is not None and not isinstance(present, Allocator):
            raise RuntimeError(f"Warp has another allocator on {device}: {present!r}")
        held = warp.get_mempool_used_mem_current(device) if device.is_mempool_supported else 0
        if present is None and held:
            raise RuntimeError(
                f"Warp's pool holds {held} bytes on {device}: call tarn.use() before warp.init()"
            )
    if not all(isinstance(device._custom_allocator, Allocator) for device in devices):
        warp.set_cuda_allocator(Allocator())
