"""A plain model of resources: which blocks are live, what each adaptor counts, what fails.

A Node stands for one object of tarn.mr. An allocation counts at its node and at each node beneath,
down to the first one that passes other sizes on: a pool, a guard, a binning resource.
"""

import dataclasses

import tarn
from tarn import mr

ROUNDED = 256  # a limiter charges multiples of it
QUANTUM = 512  # of a pool


def charge_of(nbytes):
    return -(-nbytes // ROUNDED) * ROUNDED


class Counts:
    """The counts of a StatisticsResourceAdaptor: a stack of sets."""

    def __init__(self):
        self.sets = [[0] * 6]

    def add(self, nbytes, count):
        for values in self.sets:
            values[0] += nbytes
            values[1] += count
            values[2] = max(values[2], values[0])
            values[3] = max(values[3], values[1])
            if count > 0:
                values[4] += nbytes
                values[5] += 1

    def top(self):
        return tuple(self.sets[-1])

    def push(self):
        before = self.top()
        self.sets.append([0] * 6)
        return before

    def pop(self):
        return tuple(self.sets.pop())


@dataclasses.dataclass(eq=False)
class Node:
    """One resource."""

    mr: object
    kind: str
    upstream: "Node | None" = None
    passes_on: bool = False  # the upstream gets the same calls
    is_bounded: bool = False  # it can be out of memory for reasons that the model has not
    is_exact: bool = True  # each call comes through the model
    limit: int | None = None
    block_size: int | None = None  # of a slab
    resumes: bool = False  # an allocation resumes a suspended pool
    has_thread: bool = False  # of a pool
    is_suspended: bool = False
    used: int = 0  # what a limiter has charged
    failures: list = dataclasses.field(default_factory=list)  # calls of a failure callback
    expected_failures: list = dataclasses.field(default_factory=list)
    rows: list = dataclasses.field(default_factory=list)  # of a log
    knows_rows: bool = True
    live: dict = dataclasses.field(default_factory=dict)  # address: bytes
    counts: Counts = dataclasses.field(default_factory=Counts)
    kept: list = dataclasses.field(default_factory=list)  # the out-of-memory callbacks

    def chain(self):
        """Return the nodes that see the same calls as this one, from the top."""
        nodes = [self]
        while nodes[-1].passes_on:
            nodes.append(nodes[-1].upstream)
        return nodes

    def beneath(self):
        """Return this node and all beneath it."""
        nodes = [self]
        while nodes[-1].upstream is not None:
            nodes.append(nodes[-1].upstream)
        return nodes

    def is_asleep(self):
        return any(node.is_suspended for node in self.beneath())

    def note_allocation(self, address, nbytes):
        for node in self.chain():
            assert address not in node.live
            node.live[address] = nbytes
            node.used += charge_of(nbytes)
            node.counts.add(nbytes, 1)
            node.rows.append(("allocate", address, nbytes))

    def note_free(self, address, nbytes):
        for node in self.chain():
            assert node.live.pop(address) == nbytes
            node.used -= charge_of(nbytes)
            node.counts.add(-nbytes, -1)
            node.rows.append(("free", address, nbytes))

    def note_failure(self, nbytes):
        """Note an allocation that failed at the first limiter without room, or else at the end."""
        for node in self.chain():
            node.rows.append(("allocate failure", 0, nbytes))
            if node.refuses(nbytes):
                return
            if node.kind == "failure callback":
                node.expected_failures.append(nbytes)

    def refuses(self, nbytes):
        return self.limit is not None and self.used + charge_of(nbytes) > self.limit

    def error_of(self, nbytes):
        """Return the exceptions that an allocation may raise; False first: it has to."""
        if any(node.refuses(nbytes) for node in self.chain()):
            return (False, tarn.OutOfMemoryError)
        errors = []
        for node in self.beneath():
            if node.is_bounded or node.limit is not None:
                errors.append(tarn.OutOfMemoryError)
            if node.is_suspended:
                errors.append(tarn.TarnError)
        return (True, *errors)

    def check(self):
        """Compare what the resource reports with the model."""
        if not self.is_exact:
            return
        if self.kind == "statistics":
            assert tuple(self.mr.allocation_counts) == self.counts.top()
        elif self.kind == "limiting":
            assert self.mr.get_allocated_bytes() == self.used
        elif self.kind == "tracking":
            assert self.mr.get_allocated_bytes() == sum(self.live.values())
        elif self.kind == "failure callback":
            assert self.failures == self.expected_failures
        elif self.kind == "guard":
            assert self.mr.check() == 0
        elif isinstance(self.mr, (mr.PoolMemoryResource, mr.FixedSizeMemoryResource)):
            self.check_pool()

    def check_pool(self):
        seen = self.mr.statistics()
        assert seen.live_blocks == len(self.live)
        assert seen.live_requested == sum(self.live.values())
        assert seen.allocations == self.counts.sets[0][5]
        assert seen.allocations - seen.frees == len(self.live)
        assert seen.live >= seen.live_requested and seen.unfenced <= seen.cached
        if self.has_thread:  # memory by which it grows the pool now counts as live
            return
        parts = seen.live + seen.thread_cached + seen.cached + seen.captured
        # A segment of another resource loses the bytes before a multiple of the quantum.
        lost = QUANTUM * seen.growths if self.upstream is not None else 0
        assert parts <= seen.reserved <= parts + lost
        assert seen.suspended == (seen.reserved if self.is_suspended else 0)
        assert seen.peak_reserved >= seen.reserved and seen.peak_allocated >= seen.live
