"""Sizes that are strings."""

from __future__ import annotations

from tarn.mr import _bytes_of

__all__ = ["parse_bytes"]


def parse_bytes(s: int | str) -> int:
    """Return a number of bytes from an int, or from a string such as "4GiB".

    Parameters
    ----------
    s : int or str
        The size.

    Raises
    ------
    ValueError
        The string has no known unit.
    """
    return _bytes_of(s)
