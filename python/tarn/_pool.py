"""A pool's statistics, blocks and out-of-memory report: the tuples that tarn.mr returns.

C returns dicts whose keys are the members of the structs in include/tarn/pool.h. A name
that is missing on either side is an error here.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tarn import _tarn


class PoolStatistics(NamedTuple):
    """The memory and the counters of a pool; bytes where a comment does not say otherwise."""

    live: int  # in live blocks, as rounded by the pool
    live_requested: int  # in live blocks, as requested
    live_blocks: int  # how many
    thread_cached: int  # cached by threads for their next allocation
    cached: int  # free
    unfenced: int  # free bytes that only one stream may use so far
    captured: int  # retained for graphs
    reserved: int  # from upstream; live + thread_cached + cached + captured
    suspended: int  # of these, without physical memory now
    maximum: int | None  # None: no limit
    peak_allocated: int  # the most live and thread-cached bytes at once
    peak_reserved: int
    largest_free: int  # the largest free block
    fragmentation: float  # 1 - largest_free / cached
    allocations: int  # counts from here on
    frees: int
    failures: int
    cache_hits: int  # allocations served from the thread's cache,
    same_stream: int  # ... from memory freed on the same stream,
    completed: int  # ... from memory whose last use is done,
    steals: int  # ... from another stream's memory, behind a wait,
    grown: int  # ... from new memory
    stream_waits: int  # driver calls: cuStreamWaitEvent,
    events_recorded: int  # ... cuEventRecord,
    queries: int  # ... cuEventQuery and cuStreamQuery,
    growths: int  # ... maps,
    shrinks: int  # ... unmaps,
    moves: int  # ... moves of reclaimable memory,
    device_synchronizations: int  # ... device-wide waits,
    driver_calls: int  # ... and all of these
    streams: int  # streams that the pool knows
    metadata: int  # bytes of host memory
    no_stream_deferred: int  # bytes deferred because they were freed without a stream
    size_classes: dict[int, int]  # allocations of n to 2n - 1 bytes, by n


class PoolBlock(NamedTuple):
    """A block of PoolMemoryResource.snapshot()."""

    address: int
    bytes: int  # as the pool rounds
    requested_bytes: int  # of a live block, as requested; else 0
    state: str  # see _STATES
    stream_id: int  # of the stream that it is bound to; 0: no stream
    segment: int  # the first address of the range that it lies in


class PoolOomReport(NamedTuple):
    """The reason why an allocation ran out of memory; `text` is the complete message."""

    requested: int
    alignment: int
    live: int
    thread_cached: int
    cached: int
    unfenced: int
    captured: int
    reserved: int
    maximum: int | None
    same_stream: int  # free on the requesting stream
    other_streams: int  # free on other streams
    completed: int  # free for all streams
    largest_free: int  # the largest free block that this stream could use
    fragmentation: float  # of the pool, as in its statistics
    device_free: int  # as the driver reports
    device_total: int
    attempts: int  # callbacks that were called
    upstream_message: str  # the error message of growing
    text: str


class PoolCaptureStatistics(NamedTuple):
    """Memory retained for a captured graph; bytes where a comment does not say otherwise."""

    retained: int  # free, for the graph alone
    live: int  # in live blocks of the graph, as rounded by the pool
    live_blocks: int  # how many
    streams: int  # streams of the capture with memory here
    has_ended: bool  # released, or the graph is gone


class PoolCapture:
    """The memory of a captured graph: what PoolMemoryResource.get_capture() gives.

    Each launch uses the memory that a capturing stream allocates and frees. So it stays with
    the graph and is reused only within the same capture. It returns to the pool by release(),
    or automatically when the graph and everything instantiated from it are gone. If an object
    ends without release(), only the second applies.

    pool: the resource of this memory.
    """

    __slots__ = ("__weakref__", "_memory", "pool")

    def __init__(self, pool: _tarn.UpstreamResourceAdaptor, stream: Any) -> None:
        self.pool = pool
        self._memory = _tarn._pool_get_capture(pool, stream)

    def __repr__(self) -> str:
        state = "released" if self.is_released else f"{self.statistics().retained} bytes retained"
        return f"<tarn.mr.PoolCapture of {self.pool!r}: {state}>"

    def release(self, stream: Any = _tarn.DEFAULT_STREAM) -> None:
        """Release the memory, in the order of `stream`, on which the last launch was queued.

        The caller guarantees that the graph is not launched any more. Where get_capture()
        returned several objects for one capture, the last release counts. Live blocks stay
        live. A second call does nothing.

        Raises InvalidArgumentError for a stream that captures, or is of another device; then
        nothing is released.
        """
        self._memory.release(stream)

    @property
    def is_released(self) -> bool:
        """Was release() called?"""
        return self._memory.is_released

    def statistics(self) -> PoolCaptureStatistics:
        """The memory retained for the graph. Once released: zeros, and has_ended."""
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
    return None if number == _NO_LIMIT else number


def block_of(block: tuple[int, int, int, int, int, int]) -> PoolBlock:
    """A block from C, with the name of its state."""
    address, size, asked, state, stream_id, segment = block
    return PoolBlock(address, size, asked, _STATES[state], stream_id, segment)


def last_oom_report() -> PoolOomReport | None:
    """The reason why this thread's last allocation from a pool failed; None where none has."""
    found = _tarn._pool_last_oom_report()
    if found is None:
        return None
    return PoolOomReport(**{**found, "maximum": maximum_of(found["maximum"])})
