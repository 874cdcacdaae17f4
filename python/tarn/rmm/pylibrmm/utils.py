"""Arguments that are streams."""

from __future__ import annotations

from typing import Any

from tarn._python_resources import _stream_of
from tarn._tarn import Stream

__all__ = ["as_stream"]


def as_stream(stream: Any) -> Stream:
    """Return a stream argument as a Stream.

    Parameters
    ----------
    stream : Stream, int or object with __cuda_stream__
        The argument.

    Raises
    ------
    TypeError
        `stream` is None, or no stream.
    """
    return _stream_of(stream)
