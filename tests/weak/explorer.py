"""explorer.py -- run a model in every order that a memory model allows.

The explorer knows the state of the memory and, for each thread, the results that its operations have
had. A generator that receives the same results yields the same operation. So a state can be left and
entered again without a copy of the threads, and a state that was reached before is not explored
again. A model is wrong if a thread raises Violation, if a plain access races, if no thread can go on,
or if `check` rejects what the threads return.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from c11 import C11, Race
from sources import Site
from tso import Tso

MACHINES = {"c11": C11, "tso": Tso}


class Violation(Exception):
    """An assertion of a model does not hold."""


def need(holds, what):
    """Raise Violation unless an assertion of a model holds."""
    if not holds:
        raise Violation(what)


@dataclasses.dataclass(frozen=True)
class Model:
    """A litmus test: threads, their locations, and the sites of the source that they model."""

    name: str
    initial: Mapping[str, Any]
    threads: tuple[Callable, ...]
    sites: Mapping[str, Site]
    check: Callable[..., None] = lambda *results: None
    # Weaker orders that the explorer has to find, as "site: order", for each machine.
    needed: frozenset[str] = frozenset()
    needed_on_tso: frozenset[str] = frozenset()


@dataclasses.dataclass(frozen=True)
class Result:
    """What an exploration found."""

    states: int
    violation: str | None
    trace: tuple[str, ...]


class Threads:
    """The next operation of each thread, by the results of those before it."""

    def __init__(self, model, orders):
        self._model, self._orders, self._known = model, orders, {}

    def at(self, thread, results):
        """Return ("next", operation), ("done", value) or ("wrong", message)."""
        key = thread, results
        if key not in self._known:
            self._known[key] = self._replay(thread, results)
        return self._known[key]

    def _replay(self, thread, results):
        generator = self._model.threads[thread](self._orders)
        try:
            operation = next(generator)
            for result in results:
                operation = generator.send(result)
        except StopIteration as end:
            return "done", end.value
        except Violation as violation:
            return "wrong", f"thread {thread}: {violation}"
        return "next", operation


def explore(model, machine, changes=None, most=3_000_000):
    """Explore a model; `changes` has other orders for some of its sites."""
    orders = {name: site.order for name, site in model.sites.items()} | (changes or {})
    memory = MACHINES[machine](model.initial, len(model.threads))
    threads = Threads(model, orders)
    first = memory.first, ((),) * len(model.threads)
    came_from = {first: None}
    waiting = [first]
    while waiting:
        state = waiting.pop()
        try:
            successors = list(expand(model, memory, threads, state))
        except (Violation, Race) as wrong:
            return Result(len(came_from), str(wrong), trace_to(came_from, state))
        for step, after in successors:
            if after not in came_from:
                came_from[after] = state, step
                waiting.append(after)
        if len(came_from) > most:
            raise RuntimeError(f"{model.name}: more than {most} states")
    return Result(len(came_from), None, ())


def expand(model, memory, threads, state):
    """Yield (description, next state) for each step from a state; raise what is wrong with it."""
    contents, results = state
    found = [threads.at(i, of_thread) for i, of_thread in enumerate(results)]
    for kind, value in found:
        if kind == "wrong":
            raise Violation(value)
    running = [i for i, (kind, _) in enumerate(found) if kind == "next"]
    if not running:
        model.check(*(value for _, value in found))
    can_go_on = False
    for thread in running:
        operation = found[thread][1]
        for result, after in memory.steps(contents, thread, operation):
            can_go_on = True
            changed = results[:thread] + ((*results[thread], result),) + results[thread + 1 :]
            yield f"thread {thread}: {describe(operation)} -> {result}", (after, changed)
    for step, after in memory.background(contents):
        can_go_on = True
        yield step, (after, results)
    if running and not can_go_on:
        raise Violation("no thread can go on")


def describe(operation):
    shown = (
        str(value)
        for value in vars(operation).values()
        if not callable(value) and value is not None
    )
    return f"{type(operation).__name__.lower()} {' '.join(shown)}".strip()


def trace_to(came_from, state):
    """Return the steps from the first state to this one."""
    steps = []
    while came_from[state] is not None:
        state, step = came_from[state]
        steps.append(step)
    return tuple(reversed(steps))
