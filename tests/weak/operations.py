"""operations.py -- what a thread of a model does: one operation on one location at a time.

A thread of a model is a generator. It yields operations and receives their results:

    def reader(order):
        if (yield Load("is_ready", order["reader.ready"])):
            value = yield Read("value")

`order` gives the memory order that the source has at a site (sources.py).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

RELAXED, ACQUIRE, RELEASE, ACQ_REL, SEQ_CST = "relaxed", "acquire", "release", "acq_rel", "seq_cst"


def acquires(order):
    return order in (ACQUIRE, ACQ_REL, SEQ_CST)


def releases(order):
    return order in (RELEASE, ACQ_REL, SEQ_CST)


@dataclasses.dataclass(frozen=True)
class Read:
    """A plain load: a data race if another thread's store is not ordered with it."""

    location: str


@dataclasses.dataclass(frozen=True)
class Write:
    """A plain store: a data race if another thread's access is not ordered with it."""

    location: str
    value: Any


@dataclasses.dataclass(frozen=True)
class Load:
    """An atomic load."""

    location: str
    order: str


@dataclasses.dataclass(frozen=True)
class Await:
    """Atomic loads until one returns `value`; the last one has the order."""

    location: str
    value: Any
    order: str


@dataclasses.dataclass(frozen=True)
class Store:
    """An atomic store."""

    location: str
    value: Any
    order: str


@dataclasses.dataclass(frozen=True)
class Change:
    """A read-modify-write: the new value is `change(old)`; the result is the old one.

    With `expected` it is a compare-exchange: another old value is loaded with the order `failure`.
    With `waits`, the operation waits for the expected value, as taking a lock does.
    """

    location: str
    change: Callable[[Any], Any]
    order: str
    expected: Any = None
    failure: str = RELAXED
    waits: bool = False


@dataclasses.dataclass(frozen=True)
class Fence:
    """atomic_thread_fence(memory_order_seq_cst); with another order nothing happens."""

    order: str = SEQ_CST


@dataclasses.dataclass(frozen=True)
class ProcessBarrier:
    """membarrier(2): a full fence on all threads at once; with another order nothing happens."""

    order: str = SEQ_CST


def lock(location, order=ACQUIRE):
    return Change(location, lambda _: 1, order, expected=0, waits=True)


def unlock(location, order=RELEASE):
    return Store(location, 0, order)


def exchange(location, value, order):
    return Change(location, lambda _: value, order)


def add(location, more, order):
    return Change(location, lambda old: old + more, order)


def compare_exchange(location, expected, value, order, failure=RELAXED):
    return Change(location, lambda _: value, order, expected=expected, failure=failure)
