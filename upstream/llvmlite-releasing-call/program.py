"""llvmlite's pass removes a pair around a call that drops the object's last other reference.

The call is a function that is too large to be inlined. With the argument `callback` it is a ctypes
callback, one basic block.
"""

import ctypes
import os
import sys

if os.environ.get("PYTHONMALLOC") != "debug":  # which fills freed memory
    os.environ["PYTHONMALLOC"] = "debug"
    os.execv(sys.executable, [sys.executable, *sys.argv])

import llvmlite
import numpy as np
from numba import float64, njit
from numba.experimental import jitclass


@njit
def filled(value):
    a = np.empty(3)
    a[:] = value
    return a


@jitclass([("array", float64[::1]), ("total", float64)])
class Box:
    def __init__(self, array):
        self.array = array
        self.total = 0.0


@njit
def make(value):
    return Box(filled(value))


# A function of 60 conditions: LLVM does not inline it.
lines = "".join(
    f"    total += np.sin(v * {i}.5) * np.cos(v + {i}.25)\n    if total > {i}: total -= v * {i}\n"
    for i in range(60)
)
text = f"def replace(box, new, v):\n    box.array = new\n    total = 0.0\n{lines}    box.total = total\n"
exec(text)
replace = njit(replace)  # noqa: F821  # of exec()


@njit
def by_function(box, new, v):
    x = box.array
    try:
        replace(box, new, v)
    except Exception:
        return 0.0
    return x[0] + x[1] + x[2] + 0.0 * (box.total + new[0])


@njit
def set_array(box, new):
    box.array = new


box, new, kept = make(1.0), filled(2.0), []


@ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)
def callback(number):
    set_array(box, new)
    kept.append(np.full(3, 7.0))
    return number


@njit
def by_callback(box):
    x = box.array
    callback(1)
    return x[0] + x[1] + x[2]


is_callback = sys.argv[1:] == ["callback"]
got = by_callback(box) if is_callback else by_function(box, new, 0.25)
print(
    f"{'fixed' if got == 3.0 else 'shown'}: the result is {got}, expected 3.0 "
    f"(llvmlite {llvmlite.__version__})"
)
