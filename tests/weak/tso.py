"""tso.py -- the memory model of x86 (TSO): each thread has a buffer of stores, first in first out.

A load reads the newest store of its own buffer, or else memory. A buffer writes its oldest store to
memory at any time. A seq_cst store, a read-modify-write and a fence wait until the own buffer is
empty; the process barrier waits for all buffers. Other memory orders need no instruction here, so
only the order of a store and a later load can be wrong.
"""

from __future__ import annotations

from operations import Await, Change, Fence, Load, ProcessBarrier, Read, Store, Write

SEQ_CST = "seq_cst"


class Tso:
    """The machine for the locations and the number of threads of a model."""

    name = "tso"

    def __init__(self, initial, threads):
        self.index = {name: i for i, name in enumerate(initial)}
        self.first = (tuple(initial.values()), ((),) * threads)

    def background(self, state):
        """Yield (name, next state) for the oldest store of each buffer."""
        memory, buffers = state
        for thread, buffer in enumerate(buffers):
            if buffer:
                (at, value), *rest = buffer
                after = buffers[:thread] + (tuple(rest),) + buffers[thread + 1 :]
                yield (
                    f"the buffer of thread {thread} writes",
                    (memory[:at] + (value,) + memory[at + 1 :], after),
                )

    def steps(self, state, thread, operation):
        memory, buffers = state
        own = buffers[thread]
        match operation:
            case Fence(order=order):
                if not own or order != SEQ_CST:
                    yield None, state
                return
            case ProcessBarrier(order=order):
                if not any(buffers) or order != SEQ_CST:
                    yield None, state
                return
        at = self.index[operation.location]
        newest = next((value for i, value in reversed(own) if i == at), memory[at])
        match operation:
            case Read() | Load():
                yield newest, state
            case Await():
                if newest == operation.value:
                    yield newest, state
            case Change():
                yield from self.change(state, thread, operation, at)
            case Store(order=order) if order == SEQ_CST:
                if not own:
                    yield None, (memory[:at] + (operation.value,) + memory[at + 1 :], buffers)
            case Store() | Write():
                grown = (*own, (at, operation.value))
                yield None, (memory, buffers[:thread] + (grown,) + buffers[thread + 1 :])

    def change(self, state, thread, operation, at):
        memory, buffers = state
        if buffers[thread]:
            return
        old = memory[at]
        if operation.expected is None or old == operation.expected:
            yield old, (memory[:at] + (operation.change(old),) + memory[at + 1 :], buffers)
        elif not operation.waits:
            yield old, state
