"""A trace as a generator makes it: what is live, how much it is, and the rows of the file.

A generator asks for nominal sizes. Most kinds run twice: the first run is not written and
measures the peak, the second multiplies the sizes so that the peak is the requested one. A
kind that looks at `room()` keeps to the requested peak itself.
"""

import typing

HEADER = "Thread,Time,Action,Pointer,Size,Stream\n"
UNSCALED_BYTES = 4096  # smaller blocks are counters and offsets: they keep their size
GRANULE = 4  # sizes are whole elements
STEP_US, SECOND_US = 50, 1_000_000
BASE, SLOT_BYTES = 0x7F00_0000_0000, 512
STREAM_BASE, STREAM_BYTES = 0x55D0_C000_0000, 0x1000
ROWS_AT_ONCE = 8192
ENDED = object()


def time_prefix(seconds):
    """The start of the rows of this second, up to the point."""
    return f"1,{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}."


class Block(typing.NamedTuple):
    slot: int
    bytes: int
    nominal: int  # before the scale
    stream: int


class Trace:
    """A trace in the making. `write` takes text; without it the trace is only measured."""

    def __init__(self, streams, operations, peak, parameters=None, *, write=None, scale=1.0):
        self.streams = streams
        self.target_operations = operations
        self.target_peak = peak
        self.parameters = parameters or {}
        self.scale = scale
        self.operations = 0
        self.live = self.peak = 0
        self._live_blocks = {}  # by slot, in the order of allocation
        self._free_slots = []
        self._slots = 0
        self._write = write
        self._rows = [HEADER]
        self._seconds = self._us = 0
        self._prefix = time_prefix(0)

    def is_done(self):
        """Are there as many operations as the trace shall have, with the frees to come?"""
        return self.operations + len(self._live_blocks) >= self.target_operations

    def room(self):
        """Bytes up to the requested peak."""
        return self.target_peak - self.live

    def allocate(self, size, stream=0):
        """A block of about `size` bytes (nominal: before the scale)."""
        size = nominal = max(int(size), 1)
        if size >= UNSCALED_BYTES:
            size = (int(size * self.scale) + GRANULE - 1) // GRANULE * GRANULE
        if self._free_slots:
            slot = self._free_slots.pop()
        else:
            slot = self._slots
            self._slots += 1
        block = Block(slot, size, nominal, stream)
        self._live_blocks[slot] = block
        self.live += size
        if self.live > self.peak:
            self.peak = self.live
        self._row("allocate", block, stream)
        return block

    def free(self, block, stream=None):
        """Free a block, on its own stream or on another one."""
        del self._live_blocks[block.slot]
        self._free_slots.append(block.slot)
        self.live -= block.bytes
        self._row("free", block, block.stream if stream is None else stream)

    def free_all(self, blocks, stream=None):
        for block in blocks:
            self.free(block, stream)

    def finish(self):
        """Free what is live, oldest first, and write the last rows."""
        self.free_all(list(self._live_blocks.values()))
        self._flush()

    def _row(self, action, block, stream):
        self.operations += 1
        if self._write is None:
            return
        self._us += STEP_US
        if self._us >= SECOND_US:
            self._seconds += self._us // SECOND_US
            self._us %= SECOND_US
            self._prefix = time_prefix(self._seconds)
        self._rows.append(
            f"{self._prefix}{self._us:06},{action},{BASE + block.slot * SLOT_BYTES:#x},"
            f"{block.bytes},{STREAM_BASE + (stream + 1) * STREAM_BYTES:#x}\n"
        )
        if len(self._rows) >= ROWS_AT_ONCE:
            self._flush()

    def _flush(self):
        if self._write is not None:
            self._write("".join(self._rows))
        self._rows.clear()


def advance_one(rng, tasks):
    """Advance one of the tasks (Python generators), chosen at random; one that ends leaves."""
    at = rng.randrange(len(tasks))
    if next(tasks[at], ENDED) is ENDED:
        tasks.pop(at)


def interleave(trace, rng, tasks):
    """Advance the tasks in random order until the trace is done.

    Trace.finish() frees what they hold then.
    """
    tasks = list(tasks)
    while tasks and not trace.is_done():
        advance_one(rng, tasks)
