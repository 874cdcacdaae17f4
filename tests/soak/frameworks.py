"""Numba, CuPy and cuda.core on one pool, for hours; pool.c has the other half.

    frameworks.py --samples FILE --log FILE [--seconds N] [--window MS] [--turns N] [--every N]
                  [--seed N] [--turn N] [--part N] [--after MS] [--plant WHAT]

A turn is three phases of bench/together: the libraries allocate arrays, pass them to each other and
check their bytes. All arrays are dropped at the end of a turn. The options, the samples and the
planted faults are those of pool.c. On a GPU kernels write and check the bytes, and PyTorch takes part
if it is installed.
"""

import argparse
import ctypes
import gc
import os
import pathlib
import random
import signal
import statistics
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "bench/together"))

import libraries
import program
import tarn
from tarn import mr

UNIT = 1 << 22
PHASES = 0, 5, 10  # in each of them another library has its peak
BATCHES, PAIRS = 8, 64  # of a turn; the fastest batch counts
PLANT_EVERY = 16


class Heap(ctypes.Structure):
    """struct mallinfo2."""

    NAMES = (
        "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks",
        "fordblks", "keepcost",
    )  # fmt: skip
    _fields_ = [(name, ctypes.c_size_t) for name in NAMES]


mallinfo2 = ctypes.CDLL(None).mallinfo2
mallinfo2.restype = Heap


class Together(program.Together):
    """Arrays of few sizes: numba-cuda keeps an object for each shape until the process ends."""

    def make(self, owner, count):
        super().make(owner, 1 << (count.bit_length() - 1))


class NumbaByDlpack(libraries.Numba):
    """Arrays of Numba that others view by DLPack. PyTorch 2.11 leaks two objects with each view by
    `__cuda_array_interface__` (PyTorch's issue 194877)."""

    def with_dlpack(self, array):
        import cupy

        return cupy.asarray(array)


class NoFigures:
    """What Together asks for in a benchmark, which does nothing here."""

    def sample(self):
        pass

    def note(self):
        pass

    def check_counters(self):
        pass


class Soak:
    """The libraries on one pool, and the faults that were planted."""

    def __init__(self, options):
        self.options, self.turn = options, options.turn
        tarn.open_driver()
        self.pool = mr.PoolMemoryResource()
        self.logged = mr.LoggingResourceAdaptor(
            self.pool, options.log, format="binary", ring="1MiB", stacks=4
        )
        self.used = libraries.chosen(libraries.available())
        if not libraries.on_simulator():
            self.used = [
                NumbaByDlpack() if library.name == "numba" else library for library in self.used
            ]
        for library in self.used:
            library.attach(self.logged)
        for library in self.used:
            library.begin(not libraries.on_simulator())
        self.times = []
        self.planted = []

    def run_turn(self):
        self.turn += 1
        together = Together(self.used, UNIT, self.options.seed * 1_000_003 + self.turn)
        for phase in PHASES:
            together.run_phase(phase, NoFigures())
        together.end()
        if any(together.wrong().values()):
            raise RuntimeError(f"turn {self.turn}: wrong elements: {together.wrong()}")
        self.measure()
        self.plant()

    def measure(self):
        """Note the CPU time of a buffer that is allocated and freed."""
        fastest = float("inf")
        for _ in range(BATCHES):
            begin = time.thread_time_ns()
            for _ in range(PAIRS):
                tarn.DeviceBuffer(size=4096, mr=self.logged)
            if self.options.plant == "slow":
                while time.thread_time_ns() - begin < self.turn * PAIRS * 60:
                    pass
            fastest = min(fastest, (time.thread_time_ns() - begin) // PAIRS)
        self.times.append(fastest)

    def plant(self):
        """Make the fault of --plant."""
        what = self.options.plant
        if what == "heap":
            self.planted.append(random.randbytes(64))
        if what == "pages":
            self.planted.append(bytearray(1 << 18))
        if self.turn % PLANT_EVERY:
            return
        if what == "device":
            self.planted.append(tarn.DeviceBuffer(size=4096, mr=self.pool))
        if what == "descriptor":
            os.open("/dev/null", os.O_RDONLY)
        if what == "thread":
            threading.Thread(target=threading.Event().wait, daemon=True).start()

    def row(self, ms):
        """Return a row of samples; the pool is trimmed first."""
        found = self.pool.statistics()
        self.pool.trim()
        self.pool.reset_peaks()
        gc.collect()
        free, total = mr.available_device_memory()
        heap = mallinfo2()
        pages = int(pathlib.Path("/proc/self/statm").read_text().split()[1])
        pair_ns, self.times = int(statistics.median(self.times)), []
        return [
            "frameworks", self.options.part, f"{ms / 1000:.1f}", self.turn,
            pages * os.sysconf("SC_PAGESIZE"), heap.uordblks + heap.hblkhd, total - free,
            found.live, found.recent_peak_reserved, len(os.listdir("/proc/self/fd")) - 1,
            len(os.listdir("/proc/self/task")), pair_ns, sys.getallocatedblocks(),
        ]  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", required=True)
    parser.add_argument("--log", required=True)
    parser.add_argument("--plant", default="")
    parser.add_argument("--seconds", type=float, default=20)
    defaults = {"window": 500, "turns": sys.maxsize, "every": 0, "seed": 1}
    for name in "window", "turns", "every", "seed", "turn", "part", "after":
        parser.add_argument(f"--{name}", type=int, default=defaults.get(name, 0))
    options = parser.parse_args()

    asked_to_end = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: asked_to_end.set())
    soak = Soak(options)
    begin, next_row, ms = time.monotonic(), options.window, 0

    def goes_on():
        has_time = ms < options.seconds * 1000 and soak.turn < options.turns
        return has_time and not asked_to_end.is_set()

    with open(options.samples, "a") as samples:
        while goes_on():
            soak.run_turn()
            ms = int((time.monotonic() - begin) * 1000)
            if soak.turn % options.every == 0 if options.every else ms >= next_row:
                print(*soak.row(options.after + ms), sep="\t", file=samples, flush=True)
                next_row = ms + options.window
    print(f"{soak.turn} turns so far", flush=True)


if __name__ == "__main__":
    main()
