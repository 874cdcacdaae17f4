"""tarn.DeviceBuffer, and copies between addresses.

A copy on the default stream is complete on return. On another stream the caller synchronizes the
stream, and keeps the host object until then.
"""

from __future__ import annotations

from typing import Any

from tarn import _tarn
from tarn._tarn import DEFAULT_STREAM, DeviceBuffer

__all__ = [
    "DeviceBuffer",
    "copy_device_to_ptr",
    "copy_host_to_ptr",
    "copy_ptr_to_host",
    "to_device",
]


def to_device(b: Any, stream: Any = DEFAULT_STREAM) -> DeviceBuffer:
    """Return a new buffer with a copy of the bytes of a host object.

    Parameters
    ----------
    b : object with a contiguous buffer
        The bytes.
    stream : Stream, int or object with __cuda_stream__
        The stream of the allocation and of the copy.
    """
    return DeviceBuffer.to_device(b, stream)


def copy_ptr_to_host(db: int, hb: Any, stream: Any = DEFAULT_STREAM) -> None:
    """Copy from an address into a host object, as many bytes as that has.

    Parameters
    ----------
    db : int
        The address of the first byte.
    hb : object with a writable contiguous buffer
        The destination.
    stream : Stream, int or object with __cuda_stream__
        The stream of the copy.
    """
    _tarn._copy_to_host(hb, db, stream)


def copy_host_to_ptr(hb: Any, db: int, stream: Any = DEFAULT_STREAM) -> None:
    """Copy all bytes of a host object to an address.

    Parameters
    ----------
    hb : object with a contiguous buffer
        The bytes.
    db : int
        The address of the destination.
    stream : Stream, int or object with __cuda_stream__
        The stream of the copy.
    """
    _tarn._copy_from_host(db, hb, stream)


def copy_device_to_ptr(d_src: int, d_dst: int, count: int, stream: Any = DEFAULT_STREAM) -> None:
    """Copy bytes between two addresses.

    Parameters
    ----------
    d_src, d_dst : int
        The addresses of the source and of the destination.
    count : int
        Number of bytes.
    stream : Stream, int or object with __cuda_stream__
        The stream of the copy.
    """
    _tarn._copy(d_dst, d_src, count, stream)
