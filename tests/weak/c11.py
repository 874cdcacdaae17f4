"""c11.py -- the memory model of C11, as an abstract machine with views.

Each location has a list of messages, its modification order. A message has a value and a view. A
view has an index into the list of each location: a thread cannot read an older message there. A
release store passes the view of its thread on, and an acquire load takes over the view of the
message. A store may enter the list anywhere behind the view of its thread, but not between a
read-modify-write and what that read. So relaxed accesses of two threads can be seen in any order
that C11 allows, except that a load never reads a later store in its own thread's order.

seq_cst accesses and fences are in one order. An access sees the last seq_cst store before it and
all that fences before it saw, or later messages; a fence passes on what its thread has seen.
Plain accesses are checked for data races: a view also counts the plain loads of each thread.

A state is a tuple, so that the explorer knows the states where it has been:

    messages  for each location, a tuple of (value, view, belongs to the message before)
    threads   for each thread, its view, its view for acquire fences and for release fences
    strong    the view of seq_cst fences
    last      for each location, the index of its last seq_cst store
    loads     for each location, the number of the last plain load of each thread
"""

from __future__ import annotations

from operations import (
    Await,
    Change,
    Fence,
    Load,
    ProcessBarrier,
    Read,
    Store,
    Write,
    acquires,
    releases,
)

SEQ_CST = "seq_cst"


class Race(Exception):
    """Two accesses of a plain location, which nothing orders."""


def join(*views):
    return tuple(map(max, *views))


def put(values, index, value):
    return values[:index] + (value,) + values[index + 1 :]


class C11:
    """The machine for the locations and the number of threads of a model."""

    name = "c11"

    def __init__(self, initial, threads):
        self.index = {name: i for i, name in enumerate(initial)}
        self.names = tuple(initial)
        self.threads = threads
        self.zero = (0,) * (len(initial) + threads)
        self.first = (
            tuple(((value, self.zero, False),) for value in initial.values()),
            ((self.zero,) * 3,) * threads,
            self.zero,
            (0,) * len(initial),
            ((0,) * threads,) * len(initial),
        )

    def steps(self, state, thread, operation):
        """Yield (result, next state) for each outcome of an operation."""
        match operation:
            case Read():
                yield self.read(state, thread, operation)
            case Write():
                yield self.write(state, thread, operation)
            case Load():
                yield from self.loads(state, thread, operation)
            case Await():
                for result, after in self.loads(state, thread, operation):
                    if result == operation.value:
                        yield result, after
            case Store():
                yield from self.stores(state, thread, operation)
            case Change():
                yield from self.changes(state, thread, operation)
            case Fence(order="seq_cst"):
                yield None, self.fence(state, [thread])
            case ProcessBarrier(order="seq_cst"):
                everyone = range(self.threads)
                yield None, self.fence(self.fence(state, everyone), everyone)
            case Fence() | ProcessBarrier():
                yield None, state

    def background(self, state):
        """There are no steps of the machine itself."""
        return ()

    # --- plain accesses -----------------------------------------------------------------

    def read(self, state, thread, operation):
        messages, threads, strong, last, loads = state
        at = self.index[operation.location]
        view = threads[thread][0]
        if view[at] != len(messages[at]) - 1:
            raise Race(f"thread {thread} reads {operation.location} beside a store")
        own = len(self.names) + thread
        number = view[own] + 1
        loads = put(loads, at, put(loads[at], thread, number))
        after = self.with_view(threads, thread, put(view, own, number))
        return messages[at][-1][0], (messages, after, strong, last, loads)

    def write(self, state, thread, operation):
        messages, threads, strong, last, loads = state
        at = self.index[operation.location]
        view = threads[thread][0]
        seen = view[len(self.names) :]
        if view[at] != len(messages[at]) - 1:
            raise Race(f"thread {thread} writes {operation.location} beside a store")
        if any(number > seen[i] for i, number in enumerate(loads[at]) if i != thread):
            raise Race(f"thread {thread} writes {operation.location} beside a load")
        messages = put(messages, at, (*messages[at], (operation.value, self.zero, False)))
        after = self.with_view(threads, thread, put(view, at, view[at] + 1))
        return None, (messages, after, strong, last, loads)

    def with_view(self, threads, thread, view):
        """Return the threads; one has another view, which its fences know, too."""
        _, for_acquire, for_release = threads[thread]
        return put(threads, thread, (view, join(view, for_acquire), for_release))

    # --- atomic accesses ----------------------------------------------------------------

    def visible(self, state, thread, at, order):
        """Return the index of the oldest message that a load can read."""
        _, threads, strong, last, _ = state
        oldest = threads[thread][0][at]
        return max(oldest, strong[at], last[at]) if order == SEQ_CST else oldest

    def load(self, state, thread, at, index, order):
        """Return the state after a load of a message."""
        messages, threads, strong, last, loads = state
        view, for_acquire, for_release = threads[thread]
        passed = messages[at][index][1]
        view = put(view, at, max(view[at], index))
        for_acquire = join(for_acquire, view, passed)
        if acquires(order):
            view = join(view, passed)
        threads = put(threads, thread, (view, for_acquire, for_release))
        return messages, threads, strong, last, loads

    def loads(self, state, thread, operation):
        at = self.index[operation.location]
        messages = state[0][at]
        for index in range(self.visible(state, thread, at, operation.order), len(messages)):
            after = self.load(state, thread, at, index, operation.order)
            yield messages[index][0], after

    def stores(self, state, thread, operation):
        at = self.index[operation.location]
        messages = state[0][at]
        for index in range(self.visible(state, thread, at, operation.order) + 1, len(messages) + 1):
            if index == len(messages) or not messages[index][2]:
                yield (
                    None,
                    self.insert(
                        state, thread, at, index, operation.value, operation.order, None, False
                    ),
                )

    def changes(self, state, thread, operation):
        at = self.index[operation.location]
        messages = state[0][at]
        for index in range(self.visible(state, thread, at, operation.order), len(messages)):
            old, passed, _ = messages[index]
            if operation.expected is not None and old != operation.expected:
                if not operation.waits:
                    yield old, self.load(state, thread, at, index, operation.failure)
                continue
            if index + 1 < len(messages) and messages[index + 1][2]:
                continue  # another read-modify-write has read it
            after = self.load(state, thread, at, index, operation.order)
            new = operation.change(old)
            after = self.insert(after, thread, at, index + 1, new, operation.order, passed, True)
            yield old, after

    def insert(self, state, thread, at, index, value, order, passed, belongs):
        """Return the state with one more message; `passed` is the view that it continues."""
        messages, threads, strong, last, loads = state

        def shift(view):
            return put(view, at, view[at] + 1) if view[at] >= index else view

        messages = tuple(
            tuple((old, shift(view), glued) for old, view, glued in of_location)
            for of_location in messages
        )
        threads = tuple(tuple(map(shift, views)) for views in threads)
        strong, last = shift(strong), shift(last)
        view, for_acquire, for_release = threads[thread]
        view = put(view, at, index)
        own = put(self.zero, at, index)
        message = join(own, view if releases(order) else for_release)
        if passed is not None:
            message = join(message, shift(passed))
        entered = messages[at][:index] + ((value, message, belongs),) + messages[at][index:]
        messages = put(messages, at, entered)
        threads = put(threads, thread, (view, join(for_acquire, view), for_release))
        if order == SEQ_CST:
            last = put(last, at, index)
        return messages, threads, strong, last, loads

    def fence(self, state, fenced):
        """Return the state after seq_cst fences of some threads."""
        messages, threads, strong, last, loads = state
        strong = join(strong, last + (0,) * self.threads)
        for thread in fenced:
            strong = join(strong, threads[thread][1])
            threads = put(threads, thread, (strong,) * 3)
        return messages, threads, strong, last, loads
