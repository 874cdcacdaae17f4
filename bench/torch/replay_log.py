"""Repeat a log of compare.py on pools, step by step: which memory a plan needs, and moves.

    TARN_LOG=log.csv python bench/torch/compare.py --one transformer tarn --few-shapes 8 --steps 104
    python bench/torch/replay_log.py log.csv [--allocators NAME...] [--behind] [--seed N] [--steps]

The log is one of a GPU, for example; the replay runs on the driver simulator, in seconds. A step ends
with the optimizer's, which the log has as a line of the program: --mark, compare.py's by default.

The simulator is idle by default: each free is completed at once. With --behind each allocation queues
a memset, the device is behind (the simulator's seeded mode, with --seed), and the program waits for it
behind each mark, as compare.py does. A GPU is more like that.

PyTorch's backward pass is the work of another thread, which has thread caches of its own. With
--two-threads a second thread repeats each step from its peak of live bytes on, until these are
near their least.

A pool makes smaller handles once it is some seconds old. So the replay begins --wait seconds after it
makes the pool, as PyTorch does.

The result has reserved : live, driver calls and moves of the steps from --from on, one line for each
allocator. --steps prints each step.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import csv
import ctypes
import json
import os
import pathlib
import subprocess
import sys
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "support"))

import turns

HERE = pathlib.Path(__file__).resolve()
MIB, GIB = 1 << 20, 1 << 30
FIGURES = (
    "driver_calls",
    "moves",
    "growths",
    "planned",
    "plan_missed",
    "plans_made",
    "plans_worse",
)
COLUMNS = ("Event Type", "Address", "Size (bytes)", "Location")


def optimizer_line():
    """Return the line of compare.py that calls the optimizer, as FILE:LINE."""
    lines = (HERE.parent / "compare.py").read_text().splitlines()
    return f"compare.py:{1 + next(i for i, line in enumerate(lines) if 'optimizer.step()' in line)}"


def steps_of(path, mark):
    """Yield the steps of a log, lists of rows: an address and its bytes, or None for bytes that are
    freed. Rows behind the last mark are left out."""
    in_mark, rows = False, []
    with open(path, newline="") as file:
        for row in csv.DictReader(file):
            kind, address, size, location = (row[name] for name in COLUMNS)
            if location != "<none>":  # frees of the interpreter are of no line
                if in_mark and not location.endswith(mark):
                    yield rows
                    rows = []
                in_mark = location.endswith(mark)
            if kind in ("Alloc", "Free"):
                rows.append((address, int(size) if kind == "Alloc" else None))


class Device:
    """The simulator's device, with work of its own behind each allocation."""

    def __init__(self):
        self.cu = ctypes.CDLL(os.environ["TARN_DRIVER"])
        self.cu.cuMemsetD8Async.argtypes = (
            ctypes.c_uint64,
            ctypes.c_ubyte,
            ctypes.c_size_t,
            ctypes.c_void_p,
        )
        self.memory = ctypes.c_uint64()
        self.context = ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), 0)
        self.begin_thread()
        self.call("cuMemAlloc_v2", ctypes.byref(self.memory), 512)

    def call(self, name, *arguments):
        status = getattr(self.cu, name)(*arguments)
        if status:
            raise RuntimeError(f"{name}: error {status}")

    def begin_thread(self):
        self.call("cuCtxSetCurrent", self.context)

    def work(self):
        self.call("cuMemsetD8Async", self.memory.value, 0, 16, None)

    def wait(self):
        self.call("cuCtxSynchronize")


class Replay:
    """A pool that repeats a log, and its peaks in the present step."""

    def __init__(self, allocator, device, two_threads):
        import tarn

        options = turns.pool_options(allocator.partition(":")[2])
        self.pool = tarn.mr.PoolMemoryResource(device=0, **options)
        self.device = device
        self.blocks = {}
        self.live = self.peak_live = self.peak_reserved = 0
        self.thread = None
        if two_threads:
            self.thread = concurrent.futures.ThreadPoolExecutor(
                1, initializer=device.begin_thread if device else None
            )

    def repeat_step(self, rows):
        """Repeat the rows of a step, some of them in the second thread if there is one."""
        if not self.thread:
            self.repeat_rows(rows)
            return
        first, last = self.backward_of(rows)
        self.repeat_rows(rows[:first])
        self.thread.submit(self.repeat_rows, rows[first:last]).result()
        self.repeat_rows(rows[last:])

    def backward_of(self, rows):
        """Return the rows from the peak of live bytes on, until these are near their least."""
        sizes = {address: size for address, (_, size) in self.blocks.items()}
        live, lives = self.live, []
        for address, size in rows:
            live -= sizes.pop(address, 0)  # none: it may be older than the log
            if size is not None:
                sizes[address] = size
                live += size
            lives.append(live)
        peak = max(range(len(lives)), key=lives.__getitem__, default=0)
        near = min(lives[peak:], default=0) + max(lives, default=0) // 20
        ends = (at for at in range(peak, len(lives)) if lives[at] <= near)
        return peak, next(ends, len(lives) - 1) + 1

    def repeat_rows(self, rows):
        for address, size in rows:
            self.repeat(address, size)

    def repeat(self, address, size):
        if size is None:
            block = self.blocks.pop(address, None)  # it may be older than the log
            if block:
                self.pool.deallocate(*block)
                self.live -= block[1]
            return
        self.blocks[address] = (self.pool.allocate(size), size)
        self.live += size
        self.peak_live = max(self.peak_live, self.live)
        if size >= MIB:
            self.note_reserved()
        if self.device:
            self.device.work()

    def end(self):
        """Free what the log leaves; the program of the log ended with it."""
        for block in self.blocks.values():
            self.pool.deallocate(*block)
        self.blocks.clear()

    def note_reserved(self):
        self.peak_reserved = max(self.peak_reserved, self.pool.statistics().reserved)

    def mark(self):
        """End a step; return its peaks of live and reserved bytes, and the figures up to now."""
        self.note_reserved()
        peaks = self.peak_live, self.peak_reserved
        self.pool.mark_step()
        if self.device:
            self.device.wait()
        statistics = self.pool.statistics()
        self.peak_live, self.peak_reserved = self.live, statistics.reserved
        return *peaks, [getattr(statistics, name) for name in FIGURES]


def since(before, now):
    """Return the figures between two marks."""
    return {name: b - a for name, a, b in zip(FIGURES, before, now)}


def run(options):
    """Replay the log on one allocator; print a line."""
    replay = Replay(options.one, Device() if options.behind else None, options.two_threads)
    time.sleep(options.wait)
    steps = []
    for rows in steps_of(options.log, options.mark):
        replay.repeat_step(rows)
        steps.append(replay.mark())
        if options.steps:
            live, reserved, now = steps[-1]
            before = steps[-2][2] if len(steps) > 1 else [0] * len(now)
            memory = f"live {live / GIB:.3f} reserved {reserved / GIB:.3f} GiB"
            print(len(steps), memory, since(before, now))
        time.sleep(options.pause)  # plans are made meanwhile
    replay.end()
    last = steps[options.first :]
    if not last:
        raise SystemExit(
            f"replay_log.py: the log has {len(steps)} steps, --from is {options.first}"
        )
    live, reserved = max(step[0] for step in last), max(step[1] for step in last)
    before = steps[options.first - 1][2] if options.first else [0] * len(FIGURES)
    print(
        json.dumps(
            {
                "allocator": options.one,
                "reserved : live": round(reserved / live, 4),
                "live": live,
                "steps": len(last),
                **since(before, last[-1][2]),
                "plan_state": replay.pool.statistics().plan_state,
            }
        )
    )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("log")
    parser.add_argument("--allocators", nargs="+", default=["tarn", "tarn:plan=learn"])
    parser.add_argument("--mark", default=optimizer_line(), metavar="FILE:LINE")
    parser.add_argument("--from", dest="first", type=int, default=64, metavar="STEP")
    parser.add_argument("--behind", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--two-threads", action="store_true")
    parser.add_argument("--steps", action="store_true")
    parser.add_argument("--pause", type=float, default=0.01, help="seconds behind each step")
    parser.add_argument("--wait", type=float, default=3, help="seconds before the first step")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        run(options)
        return
    sim = f"memory=141GiB,mode=seeded,seed={options.seed},latency=20000-40000"
    environment = {
        **os.environ,
        "TARN_DRIVER": turns.simulator_path(),
        "TARN_SIM": sim if options.behind else "memory=141GiB",
    }
    for allocator in options.allocators:
        command = [sys.executable, str(HERE), *sys.argv[1:], "--one", allocator]
        code = subprocess.run(command, env=environment, check=False).returncode
        if code:
            sys.exit(code)


if __name__ == "__main__":
    main()
