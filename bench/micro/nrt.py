#!/usr/bin/env python3
"""Measures MemInfos of Numba's own core and of Tarn's, side by side in one run.

    bench/micro/nrt.py BUILD [--sizes] [--rounds N]     BUILD: build/release

Needs Numba (any Python that has it). Prints nanoseconds for allocating and releasing a block of 64
bytes, the median of all rounds. The cores take turns within a round, so that other load on the
machine affects both. Numba's core runs without and with its statistics; Tarn's always counts. The
first lines are the memory that a live block costs.

With --sizes: blocks of 0 bytes to 16 MiB, as MemInfo_alloc() and MemInfo_alloc_aligned() make
them, with one and with two threads. Both cores take their memory from CPython's raw allocator, as
Numba has it.
"""

import argparse
import ctypes
import os
import pathlib
import resource
import statistics

P = ctypes.c_void_p
SIZE = 64
KIB = 1024
SIZES = (0, 16, 64, 256, KIB, 1088, 1100, 2 * KIB, 4 * KIB, 10_000, 16 * KIB, 32 * KIB)
SIZES += (64 * KIB, 100_000, 128 * KIB, 256 * KIB, KIB * KIB, 4 * KIB * KIB, 16 * KIB * KIB)


def address(function):
    return ctypes.cast(function, P).value


def cores(build):
    import numba.core.runtime._nrt_python as own

    tarn = ctypes.CDLL(str(next(pathlib.Path(build).glob("lib/libtarn.so"))))
    helpers = own.c_helpers
    core = P * 3
    return own, {
        "numba": core(helpers["MemInfo_alloc"], helpers["MemInfo_release"]),
        "tarn": core(address(tarn.tarn_nrt_MemInfo_alloc), address(tarn.tarn_nrt_MemInfo_release)),
        "malloc": core(address(ctypes.CDLL(None).malloc), address(ctypes.CDLL(None).free)),
    }


def aligned_cores(build, table):
    """Return both cores with their function for aligned blocks, on CPython's raw allocator."""
    import numba.core.runtime._nrt_python as own

    tarn = ctypes.CDLL(str(next(pathlib.Path(build).glob("lib/libtarn.so"))))
    raw = [
        address(getattr(ctypes.pythonapi, f"PyMem_Raw{name}"))
        for name in ("Malloc", "Realloc", "Free")
    ]
    tarn.tarn_nrt_MemSys_set_allocator(*map(P, raw))
    aligned = {
        "numba": own.c_helpers["MemInfo_alloc_aligned"],
        "tarn": address(tarn.tarn_nrt_MemInfo_alloc_aligned),
    }
    return {name: (P * 3)(table[name][0], table[name][1], aligned[name]) for name in aligned}


def loops(build):
    library = ctypes.CDLL(str(pathlib.Path(build, "bench/libbench_nrt_loops.so")))
    long, size = ctypes.c_long, ctypes.c_size_t
    shapes = {
        "nrt_pairs": [P, size, long],
        "nrt_pairs_two": [P, size, long],
        "nrt_pairs_among": [P, size, long, long],
        "nrt_batches": [P, size, long, long],
        "nrt_passed_on": [P, size, long, long],
    }
    for name, arguments in shapes.items():
        function = getattr(library, name)
        function.argtypes, function.restype = arguments, ctypes.c_double
    library.nrt_many.argtypes, library.nrt_many.restype = [P, size, long], P
    library.nrt_many_end.argtypes = [P, P, long]
    return library


def resident():
    """Without file-backed pages: those of programs are loaded while they run, 0.4 MB here."""
    with open("/proc/self/statm") as statm:
        _, resident, of_files = statm.read().split()[:3]
    return (int(resident) - int(of_files)) * resource.getpagesize()


def overhead(library, core, count=1_000_000):
    """Return the resident bytes that a live block costs beyond its own; in a fresh process."""
    receive, send = os.pipe()
    if os.fork() == 0:
        library.nrt_many(core, SIZE, 1000)  # needed by the first blocks, and by no later one
        before = resident()
        library.nrt_many(core, SIZE, count)
        cost = (resident() - before) / count - 8 - SIZE  # 8: the loop's own array
        os.write(send, f"{cost:.2f}".encode())
        os._exit(0)
    os.wait()
    return os.read(receive, 100).decode()


def compare_sizes(library, plain, aligned, rounds):
    """Print both cores for each size: plain and aligned blocks, with one and two threads."""
    count = 100_000  # a round of each case: 20 stretches
    print(f"{os.cpu_count()} cores; ns a block, medians of {rounds} rounds: Numba, Tarn, ratio")
    heads = (f"{kind}, {threads}" for kind in ("alloc", "aligned") for threads in ("one", "two"))
    print(f"{'bytes':>10}", *(f"{head:>24}" for head in heads))
    for size in SIZES:
        row = []
        for table in (plain, aligned):
            for loop in (library.nrt_pairs, library.nrt_pairs_two):
                seen = {"numba": [], "tarn": []}
                for _ in range(rounds):
                    for name, times in seen.items():
                        times.append(loop(table[name], size, count))
                row.append([statistics.median(times) for times in seen.values()])
        cells = (f"{numba:10.1f}{tarn:8.1f}{tarn / numba:6.2f}" for numba, tarn in row)
        print(f"{size:10}", *cells, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("build")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--sizes", action="store_true", help="blocks of 0 bytes to 16 MiB")
    options = parser.parse_args()
    own, table = cores(options.build)
    library = loops(options.build)
    if options.sizes:
        aligned = aligned_cores(options.build, table)
        compare_sizes(library, table, aligned, options.rounds)
        return
    cases = {
        "one thread": lambda c: library.nrt_pairs(c, SIZE, 1_000_000),
        "two threads, each its own": lambda c: library.nrt_pairs_two(c, SIZE, 1_000_000),
        "one thread, 10^6 live": lambda c: library.nrt_pairs_among(c, SIZE, 1_000_000, 1_000_000),
        "batches of 64": lambda c: library.nrt_batches(c, SIZE, 640_000, 64),
        "batches of 64, freed on another thread": lambda c: library.nrt_passed_on(
            c, SIZE, 640_000, 64
        ),
        "batches of 4096": lambda c: library.nrt_batches(c, SIZE, 819_200, 4096),
        "batches of 4096, freed on another thread": lambda c: library.nrt_passed_on(
            c, SIZE, 819_200, 4096
        ),
    }
    for name in ("numba", "tarn"):
        print(f"{name}: {overhead(library, table[name])} bytes a live block beyond its {SIZE}")
    print(f"{os.cpu_count()} cores; ns a block of {SIZE} bytes, medians of {options.rounds} rounds")
    print(f"{'':42}{'Numba':>9}{'counting':>10}{'Tarn':>8}{'ratio':>8}{'malloc':>9}")
    for name, case in cases.items():
        seen = {key: [] for key in ("numba", "counting", "tarn", "malloc")}
        for _ in range(options.rounds):
            own.memsys_disable_stats()
            seen["numba"].append(case(table["numba"]))
            seen["tarn"].append(case(table["tarn"]))
            seen["malloc"].append(case(table["malloc"]))
            own.memsys_enable_stats()
            seen["counting"].append(case(table["numba"]))
        own.memsys_disable_stats()
        mid = {key: statistics.median(values) for key, values in seen.items()}
        print(
            f"{name:42}{mid['numba']:9.1f}{mid['counting']:10.1f}{mid['tarn']:8.1f}"
            f"{mid['tarn'] / mid['numba']:8.2f}{mid['malloc']:9.1f}"
        )


if __name__ == "__main__":
    main()
