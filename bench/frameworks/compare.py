"""Time and memory of CuPy and Numba on Tarn, beside their own allocators: three programs of each.

    python bench/frameworks/compare.py              all programs in turns: own, tarn, own, tarn ...
    python bench/frameworks/compare.py --programs sort rays --rounds 5 --json FILE
    python bench/frameworks/compare.py --one PROGRAM ALLOCATOR

The allocators are the framework's own, and Tarn, with options of the pool after a colon. Each run
is a process of its own. The time is the sum of the steps after the warm-up, and each step ends with
a wait for the device. `used` is the most memory that the driver had in use, beyond that before the
first array; the programs read it where most is live. A run on Tarn also reports its peak of live
bytes. The checksums of a program have to be equal under all allocators. The last lines name what
does not hold, and the exit status is 1 then.

`--few-steps N` repeats N different steps, each once a round and in a new order. A pool with
`tarn:plan=learn` is told where steps begin, and can learn them. Behind the table are the peaks of
reserved and of live bytes behind the warm-up, which should then be a few rounds.

`--dry` launches no kernel of Numba, so that the simulator (TARN_DRIVER=sim) counts the memory of
the programs at full size. The values, the times and the checksums say nothing then.
"""

from __future__ import annotations

import json
import os
import pathlib
import random
import statistics
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "support"))

import turns  # noqa: E402

GIB = 1 << 30
PROGRAMS = {
    "poisson": "cupy", "kmeans": "cupy", "images": "cupy",
    "particles": "numba", "sort": "numba", "rays": "numba",
}  # fmt: skip
# Numba frees without a stream. The options bound the memory that waits for the device.
ALLOCATORS = {
    "cupy": ("own", "tarn"),
    "numba": ("own", "tarn", "tarn:no_stream_limit=64MiB,policy=tight"),
}
TIME, CHECKSUM, LEAST_PEAK = 1.02, 1e-6, 2 * GIB  # ratio; relative difference; bytes
LONGEST = 60  # seconds of a run


# --- one run --------------------------------------------------------------------------------------


def make(name, scale, note, is_dry=False):
    """Return a program: its object, and the function that waits for the device."""
    rng = random.Random(1)
    if PROGRAMS[name] == "cupy":
        import cupy
        import cupy_programs

        kind = cupy_programs.PROGRAMS[name]
        return kind(cupy, scale or kind.scale, rng, note), cupy.cuda.Device().synchronize
    import numba_kernels
    import numba_programs
    from numba import cuda

    numba_kernels.IS_DRY = is_dry
    kind = numba_programs.PROGRAMS[name]
    return kind(scale or kind.scale, rng, note), cuda.synchronize


class Memory:
    """The most bytes in use by the driver's count, and the most live bytes by Tarn's."""

    def __init__(self, counter):
        from cuda.bindings import driver

        self._driver, self._counter = driver, counter
        self.used = 0
        self.before = self._now()

    def _now(self):
        status, free, total = self._driver.cuMemGetInfo()
        if int(status) != 0:
            raise RuntimeError(f"cuMemGetInfo failed: {status}")
        return total - free

    def note(self):
        self.used = max(self.used, self._now() - self.before)

    def peak_live(self):
        return self._counter.allocation_counts.peak_bytes if self._counter else None


def attach(framework, options):
    """Let a framework allocate from a pool of Tarn; return the pool and a counter above it."""
    import tarn

    pool = tarn.mr.PoolMemoryResource(**turns.pool_options(options))
    counter = tarn.mr.StatisticsResourceAdaptor(pool)
    if framework == "numba":
        tarn.use_tarn_for_numba(resource=counter, logging=False)
    else:
        tarn.use(counter, frameworks="cupy")
    return pool, counter


class FewSteps:
    """The random numbers of each step, so that the steps are `count` different ones."""

    def __init__(self, count):
        self.count, self.order, self.rng = count, [], random.Random(2)

    def next(self):
        self.order = self.order or self.rng.sample(range(self.count), self.count)
        return random.Random(self.order.pop())


def begin(framework):
    """Make the context of the device."""
    if framework == "numba":
        from numba import cuda

        cuda.current_context()
    else:
        import cupy

        cupy.cuda.runtime.free(0)


def pool_figures(pool):
    """Return the figures of a pool behind the warm-up; {} without one."""
    if pool is None:
        return {}
    found = pool.statistics()
    names = ("recent_peak_reserved", "recent_peak_allocated", "steps_learned", "plans_made")
    return {name: getattr(found, name) for name in (*names, "plans_worse", "planned_share")}


def run_one(name, allocator, arguments):
    """Run a program, and return its figures."""
    framework = PROGRAMS[name]
    kind, _, options = allocator.partition(":")
    pool, counter = attach(framework, options) if kind == "tarn" else (None, None)
    begin(framework)
    memory = Memory(counter)
    program, synchronize = make(name, arguments.scale, memory.note, arguments.dry)
    few_steps = FewSteps(arguments.few_steps) if arguments.few_steps else None
    times = []
    for at in range(arguments.steps or program.steps):
        if pool is not None and at == arguments.warm_up:
            pool.reset_peaks()
        if few_steps:
            program.rng = few_steps.next()
        began = time.perf_counter()
        if pool is not None:
            pool.mark_step()
        program.step()
        synchronize()
        times.append(time.perf_counter() - began)
        memory.note()
    if not arguments.dry:
        program.check()
    return {
        "program": name,
        "framework": framework,
        "allocator": allocator,
        "scale": program.scale,
        "seconds": sum(times[arguments.warm_up :]),
        "warm_up_seconds": sum(times[: arguments.warm_up]),
        "used": memory.used,
        "peak_live": memory.peak_live(),
        **pool_figures(pool),
        "checksum": 0 if arguments.dry else program.checksum(),
    }


# --- all runs -------------------------------------------------------------------------------------


def environment():
    """Return the environment of a run, in which compiled kernels are kept."""
    settings = turns.environment()
    settings.setdefault("NUMBA_CACHE_DIR", os.path.join(tempfile.gettempdir(), "tarn-kernels"))
    return settings


def run_process(name, allocator, arguments):
    """Run a program in a process, and return its figures; None if it failed."""
    command = [str(HERE / "compare.py"), "--one", name, allocator, *["--dry"] * arguments.dry]
    command += turns.options(arguments, "scale", "steps", "warm_up", "few_steps")
    return turns.run_process(f"{name} {allocator}", command, environment(), LONGEST)


def allocators_of(name, arguments):
    return arguments.allocators or ALLOCATORS[PROGRAMS[name]]


def median(runs, key):
    return statistics.median(run[key] for run in runs)


class Compared:
    """The medians of a program under Tarn, beside those under its own allocator."""

    def __init__(self, name, allocator, own, tarn):
        self.name, self.allocator = name, allocator
        self.seconds = median(own, "seconds"), median(tarn, "seconds")
        self.used = median(own, "used"), median(tarn, "used")
        self.peak_live = median(tarn, "peak_live")
        self.sums = sorted({run["checksum"] for run in own + tarn})
        self.time_ratio = self.seconds[1] / max(self.seconds[0], 1e-9)
        self.used_ratio = self.used[1] / max(self.used[0], 1)

    def failures(self, with_sizes, with_times):
        """Return what does not hold."""
        lines = []
        if self.sums[-1] - self.sums[0] > CHECKSUM * abs(self.sums[-1]):
            lines.append(f"the checksums differ: {self.sums}")
        if with_times and self.time_ratio > TIME:
            lines.append(f"{self.time_ratio:.3f} times the time of its own allocator, not {TIME}")
        if self.used_ratio > 1:
            lines.append(f"{self.used_ratio:.3f} times the memory of its own allocator")
        if with_sizes and self.peak_live < LEAST_PEAK:
            lines.append(f"the peak of live bytes is below {LEAST_PEAK / GIB:g} GiB")
        return [f"{self.name} {self.allocator}: {line}" for line in lines]


def compared(runs):
    """Return a Compared for each program and each kind of Tarn that ran."""
    groups = {}
    for run in runs:
        groups.setdefault((run["program"], run["allocator"]), []).append(run)
    return [
        Compared(name, allocator, groups[name, "own"], group)
        for (name, allocator), group in groups.items()
        if allocator != "own" and (name, "own") in groups
    ]


def print_table(pairs):
    """Print a line for each pair: medians of its rounds, and ratios of Tarn's to the own ones."""
    wide = max([9, *(len(pair.allocator) for pair in pairs)])
    print(
        f"program    {'allocator':{wide}}  own s   tarn s  ratio  own used GiB  tarn used GiB  "
        "ratio  peak live GiB"
    )
    for pair in pairs:
        print(
            f"{pair.name:10} {pair.allocator:{wide}}  "
            f"{pair.seconds[0]:6.3f}  {pair.seconds[1]:6.3f}  "
            f"{pair.time_ratio:5.3f}  {pair.used[0] / GIB:12.3f}  {pair.used[1] / GIB:13.3f}  "
            f"{pair.used_ratio:5.3f}  {pair.peak_live / GIB:13.3f}"
        )


def print_peaks(runs):
    """Print the peaks of each pool behind the warm-up, and what it learned."""
    for run in runs:
        if "recent_peak_reserved" not in run:
            continue
        reserved, live = run["recent_peak_reserved"], run["recent_peak_allocated"]
        print(
            f"{run['program']} {run['allocator']}: reserved {reserved / GIB:.3f} GiB, "
            f"{reserved / max(live, 1):.4f} times the live bytes; plans: {run['plans_made']} made, "
            f"{run['plans_worse']} worse, {run['planned_share']:.3f} planned"
        )


def failures(runs, arguments):
    """Return what does not hold, as lines."""
    pairs = compared(runs)
    there = {(pair.name, pair.allocator) for pair in pairs}
    lines = [
        f"{name} {allocator}: there is no run beside the own allocator"
        for name in arguments.programs
        for allocator in allocators_of(name, arguments)
        if allocator != "own" and (name, allocator) not in there
    ]
    for pair in pairs:
        lines += pair.failures(with_sizes=arguments.scale is None, with_times=not arguments.dry)
    return lines


def main():
    parser = turns.parser(__doc__.splitlines()[0], PROGRAMS, warm_up=2, seconds=140)
    parser.add_argument("--scale", type=int, help="elements, in place of each program's own scale")
    parser.add_argument("--few-steps", type=int, metavar="N", help="repeat so many different steps")
    parser.add_argument("--dry", action="store_true", help="no kernels: Numba's memory alone")
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(run_one(*arguments.one, arguments)), flush=True)
        return
    runs = turns.run_all(arguments, lambda name: allocators_of(name, arguments), run_process)
    print_table(compared(runs))
    if arguments.few_steps:
        print_peaks(runs)
    turns.save(runs, arguments.json)
    found = failures(runs, arguments)
    for line in found:
        print(f"FAIL  {line}")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
