"""Resources that are functions of the program.

Their methods run for each block, so they cost a microsecond and more. They are for debugging
and for programs that free memory of their own before an allocation fails.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from tarn import _tarn
from tarn._tarn import DeviceMemoryResource, UpstreamResourceAdaptor

_PASSED_ON = (MemoryError, RuntimeError, KeyboardInterrupt, SystemExit, GeneratorExit)


def _fail(error: BaseException) -> NoReturn:
    """Raise what a function of the program raised, as one of the types that callers expect.

    MemoryError, RuntimeError and the exceptions that end a program stay as they are. Any other
    exception becomes the cause of a RuntimeError with the same words.
    """
    try:
        if isinstance(error, _PASSED_ON):
            raise error
        raise RuntimeError(str(error)) from error
    finally:
        del error  # the traceback has this frame: a cycle would keep the callers' variables alive


class CallbackMemoryResource(DeviceMemoryResource):
    """Allocate and free with two functions of the program.

    Parameters
    ----------
    allocate_func : callable
        `allocate_func(nbytes, stream)` returns the address of a block.
    deallocate_func : callable
        `deallocate_func(ptr, nbytes, stream)` frees a block.

    Notes
    -----
    An exception of a function reaches the caller as a RuntimeError with the same words and with
    the exception as its cause. MemoryError, RuntimeError, KeyboardInterrupt and SystemExit reach
    it unchanged.
    """

    def __init__(
        self,
        allocate_func: Callable[[int, Any], int],
        deallocate_func: Callable[[int, int, Any], None],
    ) -> None:
        super().__init__()
        self._allocate_func = allocate_func
        self._deallocate_func = deallocate_func

    def __repr__(self) -> str:
        return f"<tarn.mr.{type(self).__name__} of {self._allocate_func!r}>"

    def allocate(self, nbytes: int, stream: Any = _tarn.DEFAULT_STREAM) -> int:
        """Return the address of a block, from the program's function."""
        given = _stream_of(stream)
        try:
            return self._allocate_func(nbytes, given)
        except BaseException as error:
            _fail(error)

    def deallocate(self, ptr: int, nbytes: int, stream: Any = _tarn.DEFAULT_STREAM) -> None:
        """Free a block with the program's function."""
        given = _stream_of(stream)
        try:
            self._deallocate_func(ptr, nbytes, given)
        except BaseException as error:
            _fail(error)


def _stream_of(stream: Any) -> _tarn.Stream:
    """Return a stream argument as a Stream. Stream(None) would be a new stream."""
    if isinstance(stream, _tarn.Stream):
        return stream
    if stream is None:
        raise TypeError("stream argument cannot be None, DEFAULT_STREAM is the default stream")
    return _tarn.Stream(stream)


class FailureCallbackResourceAdaptor(UpstreamResourceAdaptor):
    """Call a function before an allocation fails for lack of memory.

    Parameters
    ----------
    upstream_mr : DeviceMemoryResource
        The resource beneath; the adaptor keeps it alive.
    callback : callable
        `callback(nbytes)` returns True if the adaptor should ask upstream again, which it does
        without a limit. An exception in it fails the allocation, as in CallbackMemoryResource.
    """

    def __init__(self, upstream_mr: DeviceMemoryResource, callback: Callable[[int], bool]) -> None:
        super().__init__(upstream_mr)
        self._callback = callback
        _tarn._wrap_failure_callback(self)

    def __repr__(self) -> str:
        return f"<tarn.mr.{type(self).__name__} over {self.upstream_mr!r}>"

    def _ask(self, nbytes: int) -> bool:
        """Return what the callback returns; the C adaptor calls it."""
        try:
            return bool(self._callback(nbytes))
        except BaseException as error:
            _fail(error)
