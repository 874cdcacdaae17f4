"""A pool's statistics, blocks and out-of-memory report: the tuples that tarn.mr returns.

The extension returns dicts whose keys are the members of the structs in
include/tarn/pool.h. A name that is missing on either side is an error here.
"""

from __future__ import annotations

import weakref
from typing import Any, NamedTuple

from tarn import _tarn

_live: weakref.WeakSet[Any] = weakref.WeakSet()


def note_pool(pool: Any) -> None:
    """Note a new pool of the process, for live_pools()."""
    _live.add(pool)


def live_pools() -> list[Any]:
    """Return the pools of the process that Python objects have, in the order of their devices."""
    while True:
        try:
            return sorted(_live, key=lambda pool: pool.device)
        except RuntimeError:  # another thread has added one
            continue


class PoolStatistics(NamedTuple):
    """The memory and the counters of a pool, as PoolMemoryResource.statistics() returns them.

    The numbers come from the pool's counters. `reserved` is
    `live + thread_cached + cached + captured`.

    Attributes
    ----------
    live : int
        Bytes in live blocks, as rounded by the pool.
    live_requested : int
        Bytes in live blocks, as requested.
    live_blocks : int
        Number of live blocks.
    thread_cached : int
        Bytes in thread caches.
    cached : int
        Free bytes.
    unfenced : int
        Free bytes without an event fence: one stream alone can reuse them.
    captured : int
        Bytes retained for graphs.
    reserved : int
        Bytes taken from upstream, or mapped.
    suspended : int
        Reserved bytes without physical memory now.
    maximum : int or None
        Maximum in bytes; None: no maximum.
    peak_allocated : int
        The most bytes that were live and thread-cached at once.
    peak_reserved : int
        The most bytes that were reserved at once.
    largest_free : int
        Bytes of the largest free block.
    fragmentation : float
        `1 - largest_free / cached`; 0 if nothing is cached.
    allocations, frees, failures : int
        Number of allocations, frees and failed allocations.
    cache_hits : int
        Allocations from a thread cache. A thread that frees fewer than one block in 10 us
        bypasses its caches.
    same_stream : int
        Allocations from memory that was freed on the same stream.
    completed : int
        Allocations from memory whose last use is done.
    steals : int
        Allocations from another stream's memory, behind a wait.
    grown : int
        Allocations that grew the pool.
    stream_waits : int
        Calls of cuStreamWaitEvent.
    events_recorded : int
        Calls of cuEventRecord and cuCtxRecordEvent.
    queries : int
        Calls of cuEventQuery and cuStreamQuery.
    growths, shrinks : int
        Times that the pool mapped or obtained memory, and unmapped or returned it.
    moves : int
        Moves of free memory.
    device_synchronizations : int
        Device-wide waits.
    driver_calls : int
        Driver calls of the pool, its creation included. `stream_waits`, `events_recorded` and
        `queries` are part of it. `growths`, `shrinks`, `moves` and `device_synchronizations`
        are operations of several calls each. Calls that only query a stream, the current
        context or the device are not counted.
    streams : int
        Number of streams that the pool knows.
    metadata : int
        Host bytes that the pool uses for itself.
    no_stream_deferred : int
        Cached bytes of no-stream frees, which the pool still defers.
    orphaned : int
        Cached bytes of ended streams, and of raw streams that have stopped calling. Only a
        device-wide wait completes them.
    recent_peak_allocated, recent_peak_reserved : int
        `peak_allocated` and `peak_reserved` since the last PoolMemoryResource.reset_peaks().
    planned, plan_missed : int
        Number of allocations at an address of the plan; and of others, while it is followed.
    plan_resynchronized : int
        Number of times that the last eight sizes told the place in the plan.
    plan_state : {"none", "followed", "off: missed", "off: memory", "learning", "off: unrepeated", \
"off: moves"}
        What the pool does with its plan. It is off after two steps in a row in which less than
        90 % of the bytes were planned, or in which the pool had too much memory. A pool that
        learns is "learning" while it has no plan. It is "off: unrepeated" if no step was repeated,
        or no plan could be made; and "off: moves" if memory moved too often: in each of three
        times 32 steps it made more driver calls for memory than a fifth of its allocations.
    planned_share : float
        Part of the bytes of the last step that used a plan, at addresses of that: 0 to 1.
    steps_learned, plans_made : int
        Number of steps that a pool with `plan="learn"` recorded; and of the plans made of them.
    plans_worse : int
        Number of plans that it does not follow, since it would reserve more than without one.
        Those with whose beginnings other work begins count, too.
    size_classes : dict of int to int
        Number of allocations of n to 2n - 1 requested bytes, by n, a power of two.
    """

    live: int
    live_requested: int
    live_blocks: int
    thread_cached: int
    cached: int
    unfenced: int
    captured: int
    reserved: int
    suspended: int
    maximum: int | None
    peak_allocated: int
    peak_reserved: int
    largest_free: int
    fragmentation: float
    allocations: int
    frees: int
    failures: int
    cache_hits: int
    same_stream: int
    completed: int
    steals: int
    grown: int
    stream_waits: int
    events_recorded: int
    queries: int
    growths: int
    shrinks: int
    moves: int
    device_synchronizations: int
    driver_calls: int
    streams: int
    metadata: int
    no_stream_deferred: int
    orphaned: int
    recent_peak_allocated: int
    recent_peak_reserved: int
    planned: int
    plan_missed: int
    plan_resynchronized: int
    plan_state: str
    planned_share: float
    steps_learned: int
    plans_made: int
    plans_worse: int
    size_classes: dict[int, int]


class PoolBlock(NamedTuple):
    """A block of PoolMemoryResource.snapshot().

    Attributes
    ----------
    address : int
        First address of the block.
    bytes : int
        Size in bytes, as rounded by the pool.
    requested_bytes : int
        Size in bytes as requested, for a live block; else 0.
    state : str
        "live", "thread_cached", "completed", "fenced", "unfenced", "captured", "unmapped" or
        "in_transit".
    stream_id : int
        The block is free in the order of this stream; 0: no stream.
    segment : int
        First address of the range around the block.
    """

    address: int
    bytes: int
    requested_bytes: int
    state: str
    stream_id: int
    segment: int


class PoolOomReport(NamedTuple):
    """The reason why an allocation from a pool failed for lack of memory.

    The pool fills it at the failure. `live` to `maximum` are as in PoolStatistics.

    Attributes
    ----------
    requested : int
        Bytes that were requested.
    alignment : int
        Alignment that was requested, in bytes.
    live, thread_cached, cached, unfenced, captured, reserved : int
        Bytes of the pool by state.
    maximum : int or None
        Maximum of the pool in bytes; None: no maximum.
    same_stream : int
        Bytes that are free on the stream of the request.
    other_streams : int
        Bytes that are free on other streams.
    completed : int
        Bytes that are free for every stream.
    largest_free : int
        Bytes of the largest block that the stream could use.
    fragmentation : float
        Fragmentation of the pool, as in PoolStatistics.
    device_free, device_total : int
        Free and total bytes of the device, as the driver reports them.
    attempts : int
        Number of times that callbacks returned True and the pool searched again.
    upstream_message : str
        Error message of the last attempt to grow.
    text : str
        The complete message, in several lines.
    """

    requested: int
    alignment: int
    live: int
    thread_cached: int
    cached: int
    unfenced: int
    captured: int
    reserved: int
    maximum: int | None
    same_stream: int
    other_streams: int
    completed: int
    largest_free: int
    fragmentation: float
    device_free: int
    device_total: int
    attempts: int
    upstream_message: str
    text: str


class PoolCaptureStatistics(NamedTuple):
    """The memory that a pool retains for a captured graph.

    Attributes
    ----------
    retained : int
        Free bytes that only this capture can use.
    live : int
        Bytes of its live blocks, as rounded by the pool.
    live_blocks : int
        Number of its live blocks.
    streams : int
        Streams of the capture that allocated or freed here.
    has_ended : bool
        The memory was released, or the graph is destroyed.
    """

    retained: int
    live: int
    live_blocks: int
    streams: int
    has_ended: bool


class PoolCapture:
    """The memory of a captured graph, as PoolMemoryResource.get_capture() returns it.

    Each launch uses the memory that a capturing stream allocated and freed. So the memory stays
    with the graph, and only the same capture reuses it. It returns to the pool at release(), or
    when the graph and everything instantiated from it are destroyed. If an object ends without
    release(), only the second applies.

    Parameters
    ----------
    pool : PoolMemoryResource or FixedSizeMemoryResource
        The pool.
    stream : Stream, int or object with __cuda_stream__
        A stream that captures.

    Attributes
    ----------
    pool : UpstreamResourceAdaptor
        The resource of this memory; the object keeps it alive.
    """

    __slots__ = ("__weakref__", "_memory", "pool")

    def __init__(self, pool: _tarn.UpstreamResourceAdaptor, stream: Any) -> None:
        self.pool = pool
        self._memory = _tarn._pool_get_capture(pool, stream)

    def __repr__(self) -> str:
        state = "released" if self.is_released else f"{self.statistics().retained} bytes retained"
        return f"<tarn.mr.PoolCapture of {self.pool!r}: {state}>"

    def release(self, stream: Any = _tarn.DEFAULT_STREAM) -> None:
        """Release the memory in the order of a stream.

        The caller guarantees that the graph is not launched any more. The last launch was queued on
        `stream`. If several objects share one capture, the last release counts. Live blocks stay
        live. A second call does nothing.

        Parameters
        ----------
        stream : Stream, int or object with __cuda_stream__
            The stream of the last launch.

        Raises
        ------
        InvalidArgumentError
            The stream captures, or is of another device. Then nothing is released.
        """
        self._memory.release(stream)

    @property
    def is_released(self) -> bool:
        """Whether release() has released the memory through this object."""
        return self._memory.is_released

    def statistics(self) -> PoolCaptureStatistics:
        """Return the memory that the pool retains for the graph.

        Returns
        -------
        PoolCaptureStatistics
            The numbers, from the pool. After release(): zeros, and `has_ended`.
        """
        return PoolCaptureStatistics(*self._memory.statistics())


_STATES = (
    "live",
    "thread_cached",
    "completed",
    "fenced",
    "unfenced",
    "captured",
    "unmapped",
    "in_transit",
)
_NO_LIMIT = 2**64 - 1


def maximum_of(number: int) -> int | None:
    """Return a maximum of C, in bytes, as None if there is none."""
    return None if number == _NO_LIMIT else number


def block_of(block: tuple[int, int, int, int, int, int]) -> PoolBlock:
    """Return a block of the extension with the name of its state."""
    address, size, asked, state, stream_id, segment = block
    return PoolBlock(address, size, asked, _STATES[state], stream_id, segment)


def last_oom_report() -> PoolOomReport | None:
    """Return why this thread's last failed allocation from a pool ran out of memory.

    Returns
    -------
    PoolOomReport or None
        The report of the pool; None if no allocation of this thread has failed.
    """
    found = _tarn._pool_last_oom_report()
    if found is None:
        return None
    return PoolOomReport(**{**found, "maximum": maximum_of(found["maximum"])})
