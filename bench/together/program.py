"""One process with Numba, CuPy, PyTorch and cuda.core on four streams: one run, one line of JSON.

    python bench/together/program.py --allocator tarn
    python bench/together/program.py --allocator tarn --limit 8000000000
    python bench/together/program.py --allocator own

`tarn`: all libraries allocate from one pool of Tarn, which may have a limit. `own`: each has its
own allocator. The program is the same.

Time has phases. In each phase each library has a target for its live bytes, and each has its peak
in other phases. It drops arrays above its target and a third of the others, and makes new ones of
random sizes. An array passes between libraries: its owner fills it, a second library changes it in
place, and a third one checks every element before the owner drops it. Each has its own stream.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import time

from kernels import order, used_bytes
from libraries import available, chosen, on_simulator

GIB = 1 << 30
PHASES = 16  # after which the targets repeat
LEVELS = {0: 4.0, 1: 3.0, 2: 1.5}  # target by distance from the peak's phase, in units; else 1
SMALLEST, LARGEST = 32, 4  # arrays have a 32nd to a 4th of a unit
NAMES = ("numba", "cupy", "torch", "cuda.core")


class Array:
    """A live array: its owner, its elements, and the key that they have now."""

    def __init__(self, owner, data, count, key):
        self.owner, self.data, self.count, self.key = owner, data, count, key


class Together:
    """The libraries and their live arrays."""

    def __init__(self, libraries, unit, seed):
        self.libraries, self.unit = libraries, unit
        self.rng = random.Random(seed)
        self.arrays = {library.name: [] for library in libraries}
        self.live = {library.name: 0 for library in libraries}
        self.passed = {}  # "producer -> consumer" -> number of arrays
        self.made = self.elements = 0

    def another(self, *present):
        """Return a library other than these, if there is one."""
        others = [library for library in self.libraries if library not in present]
        return self.rng.choice(others or [x for x in self.libraries if x is not present[-1]])

    def hand(self, array, consumer, operation, key):
        """Let a library work on an array of another one, between the streams' waits."""
        owner = array.owner
        order(consumer.handle, owner.handle)
        view = consumer.view(array.data, array.count, owner)
        if consumer.address(view) != owner.address(array.data):
            raise RuntimeError(f"{consumer.name} has a copy of the array of {owner.name}")
        operation(view, array.count, key)
        order(owner.handle, consumer.handle)
        name = f"{owner.name} -> {consumer.name}"
        self.passed[name] = self.passed.get(name, 0) + 1

    def make(self, owner, count):
        """Make an array that two libraries have written."""
        key, change = self.rng.randrange(1 << 31), self.rng.randrange(1 << 31)
        array = Array(owner, owner.allocate(count), count, key ^ change)
        owner.work.fill(array.data, count, key)
        second = self.another(owner)
        self.hand(array, second, second.work.change, change)
        array.second = second
        self.arrays[owner.name].append(array)
        self.live[owner.name] += 4 * count
        self.made += 1

    def drop(self, owner):
        """Check all elements of a random array of a library, and drop it."""
        arrays = self.arrays[owner.name]
        array = arrays.pop(self.rng.randrange(len(arrays)))
        third = self.another(array.second, owner)
        self.hand(array, third, third.work.check, array.key)
        self.live[owner.name] -= 4 * array.count
        self.elements += third.work.checked(array.count)

    def target(self, turn, phase):
        """Return the bytes that a library shall have in a phase."""
        peak = turn * PHASES // len(self.libraries)
        distance = (phase - peak) % PHASES
        return int(LEVELS.get(min(distance, PHASES - distance), 1.0) * self.unit)

    def shrink(self, turn, phase):
        owner = self.libraries[turn]
        for _ in range(len(self.arrays[owner.name]) // 3):
            self.drop(owner)
        while self.live[owner.name] > self.target(turn, phase):
            self.drop(owner)

    def grow(self, turn, phase, after_each):
        owner = self.libraries[turn]
        least = self.unit // SMALLEST
        while (left := self.target(turn, phase) - self.live[owner.name]) >= least:
            size = min(self.rng.randrange(least, self.unit // LARGEST), left)
            self.make(owner, size // 4)
            after_each()

    def run_phase(self, phase, figures):
        turns = range(len(self.libraries))
        for turn in turns:
            self.shrink(turn, phase)
        figures.sample()
        for turn in turns:
            self.grow(turn, phase, figures.note)
            figures.sample()
        figures.check_counters()

    def end(self):
        for owner in self.libraries:
            while self.arrays[owner.name]:
                self.drop(owner)

    def wrong(self):
        """Wait for all streams, and return the number of wrong elements."""
        return {library.name: library.work.wrong() for library in self.libraries}


class Figures:
    """What a run measures: the driver's memory, and the counters of Tarn if it serves."""

    def __init__(self, together, pool, total, counters):
        self.together, self.pool, self.total, self.counters = together, pool, total, counters
        self.used_before = used_bytes()
        self.base = self.counted()
        self.used_peak = self.peak = 0
        self.at_peak, self.samples = {}, []

    def counted(self):
        """Return the live bytes of each library, by the counters or else by its arrays."""
        if self.counters is None:
            return dict(self.together.live)
        return {
            name: counter.allocation_counts.current_bytes for name, counter in self.counters.items()
        }

    def note(self):
        """Note the peaks."""
        used = used_bytes() - self.used_before
        self.used_peak = max(self.used_peak, used)
        live = self.counted()
        if sum(live.values()) > self.peak:
            self.peak, self.at_peak = sum(live.values()), live
        return used

    def sample(self):
        """Add a sample for the picture: live bytes of each library, and the driver's memory."""
        self.samples.append([*self.together.live.values(), self.note()])

    def check_counters(self):
        """Raise unless the live bytes of each library came from the pool, to the byte."""
        if self.counters is None:
            return
        now = self.counted()
        for name, bytes_ in self.together.live.items():
            if now[name] - self.base[name] != bytes_:
                raise RuntimeError(
                    f"{name} has {bytes_} live bytes, the pool served {now[name] - self.base[name]}"
                )


def attach(libraries, limit):
    """Let all libraries allocate from one new pool; return it and the counters above it."""
    import tarn
    from tarn import mr

    tarn.open_driver()
    pool = mr.PoolMemoryResource(maximum_pool_size=limit)
    total = mr.StatisticsResourceAdaptor(pool)
    counters = {library.name: mr.StatisticsResourceAdaptor(total) for library in libraries}
    for library in libraries:
        library.attach(counters[library.name])
    return pool, total, counters


def warm_up(together, pool):
    """Load all kernels and pass an array each way; then return cached memory to the device."""
    for owner in together.libraries:
        for consumer in together.libraries:
            if consumer is not owner:
                array = Array(owner, owner.allocate(1000), 1000, 5)
                owner.work.fill(array.data, 1000, 3)
                together.hand(array, consumer, consumer.work.change, 6)
                together.hand(array, consumer, consumer.work.check, 5)
    together.wrong()
    together.passed.clear()
    gc.collect()  # a cycle may hold an array, which the counters would lose in a later phase
    if pool is not None:
        pool.trim()
        return
    for library in together.libraries:
        library.release()


def run(arguments):
    """Run the program, and return its figures."""
    libraries = chosen(arguments.libraries)
    pool = total = counters = None
    if arguments.allocator == "tarn":
        pool, total, counters = attach(libraries, arguments.limit)
    for library in libraries:
        library.begin(not on_simulator())
    libraries.sort(key=lambda library: NAMES.index(library.name))
    together = Together(libraries, arguments.unit, arguments.seed)
    warm_up(together, pool)
    figures = Figures(together, pool, total, counters)
    began = time.perf_counter()
    for phase in range(arguments.phases):
        together.run_phase(phase, figures)
    reserved = {} if counters else {library.name: library.reserved() for library in libraries}
    together.end()
    wrong = together.wrong()
    return {
        "allocator": arguments.allocator,
        "limit": arguments.limit,
        "unit": arguments.unit,
        "phases": arguments.phases,
        "seed": arguments.seed,
        "simulator": on_simulator(),
        "versions": {library.name: library.version for library in libraries},
        "seconds": time.perf_counter() - began,
        "arrays": together.made,
        "elements_checked": together.elements,
        "wrong": wrong,
        "passed": together.passed,
        "peak_live": total.allocation_counts.peak_bytes if total else figures.peak,
        "at_peak": figures.at_peak,
        "used_peak": figures.used_peak,
        "reserved": reserved,
        "pool": pool_figures(pool),
        "counters": counter_figures(counters),
        "samples": figures.samples,
    }


def pool_figures(pool):
    """Return figures of the pool that all libraries share."""
    if pool is None:
        return {}
    wanted = (
        "peak_reserved", "allocations", "failures", "same_stream", "completed", "steals",
        "cache_hits", "grown", "growths", "shrinks", "moves", "device_synchronizations",
    )  # fmt: skip
    found = pool.statistics()._asdict()
    return {name: found[name] for name in wanted}


def counter_figures(counters):
    """Return what each library has allocated from the pool."""
    return {
        name: {
            "allocations": found.total_count,
            "bytes": found.total_bytes,
            "peak": found.peak_bytes,
        }
        for name, counter in (counters or {}).items()
        for found in [counter.allocation_counts]
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--allocator", choices=("tarn", "own"), default="tarn")
    parser.add_argument("--limit", type=int, help="maximum of the pool in bytes")
    parser.add_argument("--unit", type=int, default=GIB, help="bytes of one level, default 1 GiB")
    parser.add_argument("--phases", type=int, default=2 * PHASES)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--libraries", nargs="+", choices=NAMES, default=available())
    print(json.dumps(run(parser.parse_args())), flush=True)


if __name__ == "__main__":
    main()
