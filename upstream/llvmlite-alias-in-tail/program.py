"""llvmlite's pass releases an array too early: compiled code reads freed memory."""

import os
import sys

if os.environ.get("PYTHONMALLOC") != "debug":  # which fills freed memory
    os.environ["PYTHONMALLOC"] = "debug"
    os.execv(sys.executable, [sys.executable, *sys.argv])

import llvmlite
import numpy as np
from numba import njit


@njit
def make(value):
    a = np.empty(3)
    a[:] = value
    return a


@njit
def early(n, flag):
    arrays = [make(1.0), make(1.0)]
    x = arrays[0]
    if flag:
        n += 1
    arrays.pop(0)
    return x[0] + n


got = early(3, True)
print(
    f"{'fixed' if got == 5.0 else 'shown'}: the result is {got}, expected 5.0 "
    f"(llvmlite {llvmlite.__version__})"
)
