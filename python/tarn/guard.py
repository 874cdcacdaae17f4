"""Guard mode: finds writes outside of blocks, writes into freed blocks, and second frees.

The environment variable ``TARN_POOL_DEBUG`` switches it on for all memory of a process, under any
framework. Reports appear on stderr.
"""

from __future__ import annotations

from typing import NamedTuple

from tarn import _tarn
from tarn._tarn import DeviceMemoryResource, UpstreamResourceAdaptor

__all__ = ["GuardCounts", "GuardResourceAdaptor", "check", "counts", "enable"]

DEFAULT = "guard,poison,quarantine"


class GuardCounts(NamedTuple):
    """What a guard has done so far."""

    guarded: int
    """Allocations with a guard."""
    unguarded: int
    """Allocations that could get none."""
    checks: int
    """Checks that were compared."""
    unchecked: int
    """Checks of guarded blocks that were not possible."""
    pending: int
    """Checks that wait for the device."""
    reports: int
    """Reports."""
    quarantined_blocks: int
    """Freed blocks that wait for their reuse."""
    quarantined_bytes: int
    """Their bytes, with red zones."""


def enable(options: str = DEFAULT) -> None:
    """Switch guard mode on for all resources of the process, until it ends.

    It applies to memory that is allocated from now on.

    Parameters
    ----------
    options : str
        Items with commas between them: ``guard`` or ``guard=1/N`` for one block of N, ``poison``,
        ``quarantine`` or ``quarantine=SIZE``, ``zone=SIZE``, ``stacks=N``, ``abort``.

    Raises
    ------
    InvalidArgumentError
        An item is wrong.
    TarnError
        Guard mode is on, by the environment or an earlier call.
    """
    _tarn._guard_enable(options)


def check() -> int:
    """Check all blocks of the process now, and return the number of all reports.

    The call waits for the device. Reports appear on stderr.

    Raises
    ------
    TarnError
        Guard mode is off for the process.
    """
    return _tarn._guard_check(None)


def counts() -> GuardCounts:
    """Return the counts of guard mode for the process.

    Raises
    ------
    TarnError
        Guard mode is off for the process.
    """
    return GuardCounts(*_tarn._guard_counts(None))


class GuardResourceAdaptor(UpstreamResourceAdaptor):
    """Guard the allocations of one resource.

    Parameters
    ----------
    upstream_mr : DeviceMemoryResource
        The resource beneath; the adaptor keeps it alive.
    options : str
        The items of `tarn.guard.enable()`.

    Raises
    ------
    InvalidArgumentError
        An item is wrong.
    """

    def __init__(self, upstream_mr: DeviceMemoryResource, options: str = DEFAULT) -> None:
        super().__init__(upstream_mr)
        _tarn._wrap_guard(self, options)

    def __repr__(self) -> str:
        return f"<tarn.mr.{type(self).__name__} over {self.upstream_mr!r}>"

    def check(self) -> int:
        """Check all blocks of this guard now, and return the number of all its reports.

        The call waits for the device.
        """
        return _tarn._guard_check(self)

    @property
    def counts(self) -> GuardCounts:
        """The counts of this guard."""
        return GuardCounts(*_tarn._guard_counts(self))
