#!/usr/bin/env python3
"""prune_executed.py -- the increfs that programs execute, and what they take, by pruner.

    prune_executed.py [--rounds N] [--modes MODE,...] [PROGRAM...]
    prune_executed.py --profile [PROGRAM...]

Each program of PROGRAMS is compiled in each mode, in a process of its own. NRT_incref gets one
more instruction there, which counts its calls with an object. Prints for each program the increfs
of one run, and with --rounds the shortest time of a run without the counter and the CPU time of
the compilation, by turns. The modes:

    stock               Numba as it is
    runtime             Tarn's runtime
    sound               Tarn's pruner
    assume_calls_keep   Tarn's pruner, which shows what releasing calls cost
    both                Tarn's runtime and pruner
    single              the same with threads="single"

--profile prints the increfs that run under Tarn's pruner, by the rule that kept them.
"""

from __future__ import annotations

import argparse
import ctypes
import subprocess
import sys

MODES = ("stock", "runtime", "sound", "assume_calls_keep", "both", "single")

# Modes that execute the same increfs.
PRUNERS = {"runtime": "stock", "both": "sound", "single": "sound"}

HEAD = """
import numpy as np
from numba import njit, typed, types, float64, int64, deferred_type, optional
from numba.experimental import jitclass, structref

@njit
def mk(v):
    a = np.empty(3)
    a[:] = v
    return a

@jitclass([("arr", float64[::1]), ("total", float64)])
class Box:
    def __init__(self, arr):
        self.arr = arr
        self.total = 0.0

    def add(self, v):
        self.total += v * self.arr[0]

node_type = deferred_type()

@jitclass([("value", float64), ("next", optional(node_type))])
class Node:
    def __init__(self, value, next):
        self.value = value
        self.next = next

node_type.define(Node.class_type.instance_type)

@njit(inline="never", no_cpython_wrapper=True)
def far(a, i):
    r = 0.0
    for k in range(3):
        r += np.sin(a[k] + i) * np.cos(a[k] - i) + np.exp(-i) + np.log(i + 1.0)
        if r > 1e6:
            raise ValueError("large")
    return r
"""

PROGRAMS = {
    "array slices": """
@njit
def run(n):
    a, t = np.ones(100), 0.0
    for i in range(n):
        b = a[i % 50:]
        t += b[:10].sum()
    return t
""",
    "arrays made in a loop": """
@njit
def run(n):
    t = 0.0
    for i in range(n):
        a = mk(i)
        b = a + 1.0
        t += b[1]
    return t
""",
    "list of arrays": """
@njit
def run(n):
    l = [mk(i) for i in range(10)]
    t = 0.0
    for i in range(n):
        x = l[i % 10]
        t += x[0]
    return t
""",
    "list of arrays, changed": """
@njit
def run(n):
    l = [mk(1.0)]
    t = 0.0
    for i in range(n):
        l.append(mk(i))
        x = l[0]
        l.pop(0)
        t += x[0]
    return t
""",
    "list of arrays, calls": """
@njit
def run(n):
    l = [mk(i) for i in range(10)]
    t = 0.0
    for i in range(n):
        x = l[i % 10]
        t += far(x, i) + x[1]
    return t
""",
    "typed list of arrays": """
@njit
def run(n):
    l = typed.List()
    for i in range(10):
        l.append(mk(i))
    t = 0.0
    for i in range(n):
        x = l[i % 10]
        t += x[0]
    return t
""",
    "typed list of arrays, replaced": """
@njit
def run(n):
    l = typed.List()
    for i in range(10):
        l.append(mk(i))
    t = 0.0
    for i in range(n):
        x = l[i % 10]
        l[(i + 1) % 10] = x
        t += x[0]
    return t
""",
    "typed dict of arrays": """
@njit
def run(n):
    d = typed.Dict()
    for i in range(10):
        d[i] = mk(i)
    t = 0.0
    for i in range(n):
        x = d[i % 10]
        t += x[0]
    return t
""",
    "typed dict of strings": """
@njit
def run(n):
    d = typed.Dict()
    for i in range(10):
        d[str(i)] = i
    t = 0
    for i in range(n // 10):
        k = str(i % 10)
        if k in d:
            t += d[k]
    return float(t)
""",
    "jitclass with an array": """
@njit
def run(n):
    b = Box(mk(1.0))
    for i in range(n):
        b.add(1.0)
        x = b.arr
        b.total += x[1]
    return b.total
""",
    "jitclass, calls": """
@njit
def run(n):
    b = Box(mk(1.0))
    for i in range(n):
        x = b.arr
        b.total += far(x, i) + x[1]
    return b.total
""",
    "linked list": """
@njit
def run(n):
    head = Node(0.0, None)
    for i in range(100):
        head = Node(i * 1.0, head)
    t = 0.0
    for i in range(n // 100):
        at = head
        while at.next is not None:
            t += at.value
            at = at.next
    return t
""",
    "tuples of arrays": """
@njit
def run(n):
    p, t = (mk(1.0), mk(2.0)), 0.0
    for i in range(n):
        a, b = p
        p = (b, a)
        t += p[0][0]
    return t
""",
    "tuples of arrays, calls": """
@njit
def run(n):
    p, t = (mk(1.0), mk(2.0)), 0.0
    for i in range(n):
        a, b = p
        p = (b, a)
        t += far(a, i) + b[0]
    return t
""",
    "strings": """
@njit
def run(n):
    s, t = "some words to count", 0
    for i in range(n // 100):
        for word in s.split():
            if word.startswith("wo"):
                t += len(word)
    return float(t)
""",
    "sets": """
@njit
def run(n):
    t = 0
    for i in range(n // 100):
        s = set([1, 2, i])
        s.add(i + 1)
        t += len(s)
    return float(t)
""",
    "generator of arrays": """
@njit
def items(l, n):
    for i in range(n):
        yield l[i % 10]

@njit
def run(n):
    l, t = [mk(i) for i in range(10)], 0.0
    for x in items(l, n):
        t += x[0]
    return t
""",
    "function as argument": """
@njit("float64(float64[::1], int64)")
def one(a, i):
    return a[0] + i

@njit("float64(float64[::1], int64)")
def two(a, i):
    return a[1] - i

@njit
def run(n):
    fs, l, t = (one, two), [mk(i) for i in range(10)], 0.0
    f = fs[0]
    for i in range(n):
        x = l[i % 10]
        t += f(x, i) + x[2]
    return t
""",
    "try and except": """
@njit
def run(n):
    l, t = [mk(i) for i in range(10)], 0.0
    for i in range(n):
        x = l[i % 10]
        try:
            t += far(x, i)
        except Exception:
            t -= 1.0
        t += x[0]
    return t
""",
    "sums and products": """
@njit
def run(n):
    a, b, t = np.ones(10), np.ones(10), 0.0
    for i in range(n // 10):
        c = a * b
        d = c.reshape(2, 5)
        t += d.T.sum() + np.sort(a)[0] + np.concatenate((a, b))[3]
    return t
""",
}

TAIL = """
import sys, time
n = 20000
start = time.thread_time()
run(100)
compiled = time.thread_time() - start
before = count.value
run(n)
executed = count.value - before
best = 1e9
for _ in range({rounds}):
    start = time.thread_time()
    run(n)
    best = min(best, time.thread_time() - start)
print(executed, best, compiled)
"""


def count_increfs() -> ctypes.c_int64:
    """Make NRT_incref count its calls; the counter."""
    from llvmlite import ir
    from numba.core.runtime import nrtdynmod

    count = ctypes.c_int64(0)
    define = nrtdynmod._define_nrt_incref

    def define_and_count(module, atomic_incr):
        define(module, atomic_incr)
        block = module.get_global("NRT_incref").basic_blocks[-1]
        builder = ir.IRBuilder()
        builder.position_before(block.terminator)
        word = ir.IntType(64)
        place = ir.Constant(word, ctypes.addressof(count)).inttoptr(word.as_pointer())
        builder.atomic_rmw("add", place, ir.Constant(word, 1), "monotonic")

    nrtdynmod._define_nrt_incref = define_and_count
    return count


def child(name: str, mode: str, counting: bool, rounds: int) -> None:
    if mode in ("runtime", "both", "single"):
        import tarn.nrt

        tarn.nrt.install(threads="single" if mode == "single" else "any")
    count = count_increfs() if counting else ctypes.c_int64(0)
    if mode not in ("stock", "runtime"):
        import tarn.prune

        tarn.prune.install("assume_calls_keep" if mode == "assume_calls_keep" else "sound")
    text = HEAD + PROGRAMS[name] + TAIL.format(rounds=rounds)
    exec(compile(text, name, "exec"), {"__name__": "__main__", "count": count})


def profile(name: str) -> None:
    """Run a program once, and print the increfs that ran."""
    from tarn.prune import _numba, _profile

    _numba.install("sound", profile=True)
    text = HEAD + PROGRAMS[name] + "\nrun(20000)\n"
    exec(compile(text, name, "exec"), {"__name__": "__main__"})
    print(f"{name}: {_profile.table(_profile.read())}", flush=True)


def measure(name: str, mode: str, counting: bool, rounds: int) -> tuple[int, float, float]:
    command = [sys.executable, __file__, "--child", name, mode, str(int(counting)), str(rounds)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{name}, {mode}: {done.stderr}")
    executed, seconds, compiled = done.stdout.split()
    return int(executed), float(seconds), float(compiled)


def main() -> int:
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2], sys.argv[3], sys.argv[4] == "1", int(sys.argv[5]))
        return 0
    if sys.argv[1:2] == ["--profiled"]:
        profile(sys.argv[2])
        return 0
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=0, help="timed runs; 0: do not time")
    parser.add_argument("--modes", default="stock,runtime,both,single")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("programs", nargs="*", default=list(PROGRAMS))
    arguments = parser.parse_args()
    modes = arguments.modes.split(",")
    if not set(modes) <= set(MODES):
        parser.error(f"modes are {', '.join(MODES)}")
    if arguments.profile:
        for name in arguments.programs:
            subprocess.run([sys.executable, __file__, "--profiled", name], check=True)
        return 0
    print(f"{'':32}", *(f"{mode:>18}" for mode in modes))
    for name in arguments.programs:
        pruners = {PRUNERS.get(mode, mode) for mode in modes}
        executed = {pruner: measure(name, pruner, True, 0)[0] for pruner in pruners}
        counts = [executed[PRUNERS.get(mode, mode)] for mode in modes]
        print(f"{name:32}", *(f"{count:18}" for count in counts), flush=True)
        if arguments.rounds:
            rows = [measure(name, mode, False, arguments.rounds)[1:] for mode in modes]
            print(f"{'  run, ms':32}", *(f"{row[0] * 1e3:18.3f}" for row in rows))
            print(
                f"{'  compilation, ms':32}", *(f"{row[1] * 1e3:18.0f}" for row in rows), flush=True
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
