"""A fixed set of streams that a program takes in turn."""

from __future__ import annotations

import itertools

from tarn._tarn import Stream


class CudaStreamPool:
    """A fixed set of streams of the current device, handed out in turn.

    Several callers may get the same stream. The streams end with the pool and its last stream
    objects.

    Parameters
    ----------
    pool_size : int
        Number of streams.
    flags : CudaStreamFlags
        The flags of all streams.

    Raises
    ------
    ValueError
        `pool_size` is less than 1, or the flags are unknown.
    NoDriverError
        No driver can be opened.
    """

    def __init__(self, pool_size: int = 16, flags: int = 0) -> None:
        if pool_size < 1:
            raise ValueError(f"pool_size is {pool_size}, it has to be at least 1")
        self._streams = [Stream(flags=flags) for _ in range(pool_size)]
        self._turns = itertools.count()

    def get_stream(self, stream_id: int | None = None) -> Stream:
        """Return the next stream, or the one with a number.

        Parameters
        ----------
        stream_id : int, optional
            The number, modulo the size of the pool. None: the next stream.

        Raises
        ------
        OverflowError
            `stream_id` is negative.
        """
        if stream_id is not None and stream_id < 0:
            raise OverflowError(f"stream_id is {stream_id}, it has to be at least 0")
        number = next(self._turns) if stream_id is None else stream_id
        return self._streams[number % len(self._streams)]

    def get_pool_size(self) -> int:
        """Return the number of streams."""
        return len(self._streams)
