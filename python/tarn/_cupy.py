"""CuPy's memory pool as a resource, so that Numba can allocate from it.

A pool is any object with the methods of cupy.cuda.MemoryPool. Its malloc() returns objects
that have an address and free their block when they end. It keeps free blocks by stream: by
CuPy's current stream at the time of the allocation. So an allocation makes its stream CuPy's
current one. A free on another stream than that of the allocation waits for that stream first.

CuPy is imported when a resource is created, not by importing this module.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from typing import Any

from tarn import _tarn

_NAMELESS = -1  # the handle that means NO_STREAM


class CupyMemoryResource(_tarn.DeviceMemoryResource):
    """Allocate from a memory pool of CuPy, so that CuPy and other libraries share it.

    Parameters
    ----------
    pool : cupy.cuda.MemoryPool or cupy.cuda.MemoryAsyncPool, optional
        The pool, or an object with the same malloc(); the resource keeps it alive. None: the
        pool of CuPy's own arrays, cupy.get_default_memory_pool().

    Attributes
    ----------
    pool : object
        The pool.

    Raises
    ------
    ImportError
        No pool is given and CuPy is not installed.

    Notes
    -----
    A pool allocates on the current device, and one resource serves one device. A caller without
    a stream has to wait for the blocks itself, as tarn.numba does.

    A pool that is not CuPy's cannot use CuPy's streams, so allocations on a stream wait for the
    device. Tarn cannot set the device of such a pool: the program makes the device current.
    """

    def __init__(self, pool: Any = None) -> None:
        super().__init__()
        if pool is None:
            pool = importlib.import_module("cupy").get_default_memory_pool()
        is_cupys = type(pool).__module__.partition(".")[0] == "cupy"
        self._cupy: Any = sys.modules["cupy"] if is_cupys else None
        self._blocks: dict[int, tuple[Any, int, int]] = {}  # address: block, bytes, stream
        self.pool = pool

    def __repr__(self) -> str:
        return f"<tarn.mr.CupyMemoryResource of device {self.device} over {self.pool!r}>"

    def allocate(self, nbytes: int, stream: Any = _tarn.DEFAULT_STREAM) -> int:
        """Allocate a block from the pool, for work that is queued on a stream from now on.

        Parameters
        ----------
        nbytes : int
            Size in bytes. 0 allocates nothing.
        stream : Stream, int or object with __cuda_stream__
            The stream of the first use.

        Returns
        -------
        int
            The address; 0 for 0 bytes.

        Raises
        ------
        MemoryError
            CuPy's OutOfMemoryError, unchanged.
        TypeError
            `stream` is None.
        """
        stream = _stream_of(stream)
        if nbytes == 0:
            return 0
        with self._on_device(), self._on_stream(stream):
            block = self.pool.malloc(nbytes)
        self._blocks[block.ptr] = block, nbytes, _handle_of(stream)
        return int(block.ptr)

    def deallocate(self, ptr: int, nbytes: int, stream: Any = _tarn.DEFAULT_STREAM) -> None:
        """Free a block of this resource, in the order of a stream.

        Parameters
        ----------
        ptr : int
            The address that allocate() returned.
        nbytes : int
            Size in bytes, as at the allocation.
        stream : Stream, int or object with __cuda_stream__
            The stream of the last use. If it is not that of the allocation, the call waits for it.

        Raises
        ------
        InvalidArgumentError
            The address is not a live allocation of this resource, or has another size.
        TypeError
            `stream` is None.
        """
        stream = _stream_of(stream)
        if ptr == 0 and nbytes == 0:
            return
        block, expected, handle = self._blocks.get(ptr, (None, 0, 0))
        if block is None or nbytes != expected:
            what = (
                "it is not a live allocation of this resource"
                if block is None
                else f"it was allocated with {expected}"
            )
            raise _tarn.InvalidArgumentError(f"cupy: {nbytes} bytes at {ptr:#x}: {what}")
        # The pool will reuse the block on the stream that it came from.
        if _handle_of(stream) not in (handle, _NAMELESS):
            stream.synchronize()
        del self._blocks[ptr]

    def memory_info(self) -> tuple[int, int]:
        """Return the free and the total bytes of the device.

        Returns
        -------
        tuple of (int, int)
            Free bytes, as the driver reports them, with those that the pool caches; total bytes.
        """
        info = _tarn.device_info(self._number())
        with self._on_device():
            free = info.free_bytes + self.pool.free_bytes()
        return min(free, info.total_bytes), info.total_bytes  # other threads allocate meanwhile

    def trim(self, keep_bytes: int = 0) -> int:
        """Release free memory of the pool.

        Parameters
        ----------
        keep_bytes : int
            Nothing is released if the pool has at most this many free bytes. Otherwise CuPy releases
            all segments that are free as a whole.

        Returns
        -------
        int
            The released bytes.
        """
        with self._on_device():
            before = int(self.pool.total_bytes())
            if self.pool.free_bytes() > keep_bytes:
                self.pool.free_all_blocks()
            return before - int(self.pool.total_bytes())

    def _number(self) -> int:
        """Return the number of the device, or of the current one before the first use."""
        return _tarn.current_device() if self.device is None else self.device

    def _on_device(self) -> contextlib.AbstractContextManager[Any]:
        """Make the device current: CuPy uses the CUDA runtime's current device."""
        if self._cupy is None or self.device in (None, self._cupy.cuda.runtime.getDevice()):
            return contextlib.nullcontext()
        device: contextlib.AbstractContextManager[Any] = self._cupy.cuda.Device(self.device)
        return device

    def _on_stream(self, stream: _tarn.Stream) -> contextlib.AbstractContextManager[Any]:
        """Set the pool's stream; if that is impossible, wait so that no work is pending."""
        if _handle_of(stream) == _NAMELESS:
            return contextlib.nullcontext()
        if self._cupy is None:
            _tarn.synchronize(self._number())
            return contextlib.nullcontext()
        streams = self._cupy.cuda
        if hasattr(streams.Stream, "from_external"):  # since CuPy 14
            known: contextlib.AbstractContextManager[Any] = streams.Stream.from_external(stream)
        else:
            known = streams.ExternalStream(stream.handle)
        return known


def _stream_of(stream: Any) -> _tarn.Stream:
    """Return `stream` as a Stream."""
    if stream is None:
        raise TypeError("cupy: None is not a stream")
    return stream if isinstance(stream, _tarn.Stream) else _tarn.Stream(stream)


def _handle_of(stream: _tarn.Stream) -> int:
    """Return the CUstream of a Stream, or -1 for NO_STREAM."""
    return _NAMELESS if stream == _tarn.NO_STREAM else stream.handle
