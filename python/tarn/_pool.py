"""What a pool says of itself: the tuples that tarn.mr hands out.

C gives dicts whose keys are the members of the structs in include/tarn/pool.h, so a name
that is missing on either side is an error here.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tarn import _tarn


class PoolStatistics(NamedTuple):
    """What a pool has and did; bytes where a comment does not say otherwise."""

    live: int  # in blocks that are out, as rounded by the pool
    live_requested: int  # the same, as asked for
    live_blocks: int  # how many
    thread_cached: int  # kept by threads for their next allocation
    cached: int  # free
    unfenced: int  # of the free bytes, those that one stream alone may have as yet
    captured: int  # kept for graphs
    reserved: int  # taken from upstream; live + parked + cached + captured
    suspended: int  # of these, without physical memory at the moment
    maximum: int | None  # None: no limit
    peak_allocated: int  # most bytes live and parked at once
    peak_reserved: int
    largest_free: int  # the largest free block
    fragmentation: float  # 1 - largest_free / cached
    allocations: int  # counts from here on
    frees: int
    failures: int
    cache_hits: int  # allocations that the thread served itself with what it keeps,
    same_stream: int  # ... that the stream's own free memory served,
    completed: int  # ... memory whose last use is done,
    steals: int  # ... another stream's memory, behind a wait,
    grown: int  # ... new memory
    stream_waits: int  # driver calls: cuStreamWaitEvent,
    events_recorded: int  # ... cuEventRecord,
    queries: int  # ... cuEventQuery and cuStreamQuery,
    growths: int  # ... maps,
    shrinks: int  # ... unmaps,
    moves: int  # ... moves of idle memory,
    device_synchronizations: int  # ... waits for the device,
    driver_calls: int  # ... and all of these
    streams: int  # streams that the pool knows
    metadata: int  # bytes of host memory
    no_stream_deferred: int  # bytes that are held back: no stream was named at their free
    size_classes: dict[int, int]  # allocations of n to 2n - 1 bytes, by n


class PoolBlock(NamedTuple):
    """A block of PoolMemoryResource.snapshot()."""

    address: int
    bytes: int  # as the pool rounds
    requested_bytes: int  # of a live block, as asked for; else 0
    state: str  # see _STATES
    stream_id: int  # of the stream that it is bound to; 0: of none
    segment: int  # the first address of the range that it lies in


class PoolOomReport(NamedTuple):
    """Why an allocation failed for want of memory; `text` has all of it in words."""

    requested: int
    alignment: int
    live: int
    thread_cached: int
    cached: int
    unfenced: int
    captured: int
    reserved: int
    maximum: int | None
    same_stream: int  # free on the stream that asked
    other_streams: int  # free on other streams
    completed: int  # free for anybody
    largest_free: int  # of what this stream could have had
    fragmentation: float  # of the pool, as in its statistics
    device_free: int  # as the driver says
    device_total: int
    attempts: int  # callbacks that were asked
    upstream_message: str  # what growing said
    text: str


class PoolCaptureStatistics(NamedTuple):
    """What is kept for a captured graph; bytes where a comment does not say otherwise."""

    retained: int  # free, and nobody's but the graph's
    live: int  # in blocks of the graph that are out, as rounded by the pool
    live_blocks: int  # how many
    streams: int  # of the capture, that had memory here
    has_ended: bool  # it was let go: released, or the graph is gone


class PoolCapture:
    """The memory of a captured graph: what PoolMemoryResource.get_capture() gives.

    What a capturing stream allocates and frees is used at each launch, so it stays with the
    graph and is handed out again within the same capture alone. It comes back by release(),
    or by itself when the graph and all that was instantiated from it are gone. An object
    that goes without release() says nothing: then the second holds.

    pool: the resource that it is of.
    """

    __slots__ = ("__weakref__", "_memory", "pool")

    def __init__(self, pool: _tarn.UpstreamResourceAdaptor, stream: Any) -> None:
        self.pool = pool
        self._memory = _tarn._pool_get_capture(pool, stream)

    def __repr__(self) -> str:
        state = "released" if self.is_released else f"{self.statistics().retained} bytes kept"
        return f"<tarn.mr.PoolCapture of {self.pool!r}: {state}>"

    def release(self, stream: Any = _tarn.DEFAULT_STREAM) -> None:
        """Let the memory go, in the order of `stream`, on which the last launch was queued.

        With this you say that the graph is not launched any more. Where get_capture() gave
        several objects for one capture, the last release counts. Blocks that are out stay
        so. Again it does nothing.

        Raises InvalidArgumentError for a stream that captures, or is of another device:
        nothing was let go.
        """
        self._memory.release(stream)

    @property
    def is_released(self) -> bool:
        """Was release() called?"""
        return self._memory.is_released

    def statistics(self) -> PoolCaptureStatistics:
        """What is kept for the graph. Once released: zeros, and has_ended."""
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
    """A block as C gives it, with the word for its state."""
    address, size, asked, state, stream_id, segment = block
    return PoolBlock(address, size, asked, _STATES[state], stream_id, segment)


def last_oom_report() -> PoolOomReport | None:
    """Why this thread's last allocation from a pool failed; None where none has."""
    found = _tarn._pool_last_oom_report()
    if found is None:
        return None
    return PoolOomReport(**{**found, "maximum": maximum_of(found["maximum"])})
