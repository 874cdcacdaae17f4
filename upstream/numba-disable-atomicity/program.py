"""Numba's switch for counts without atomics returns the old count: nothing is ever freed."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from numba_leaks import leaked, report

import numpy as np
from numba import njit
from numba.core.runtime import nrtdynmod

nrtdynmod._disable_atomicity = 1  # before the runtime's functions are compiled


@njit
def make(n):
    a = np.empty(n)
    a[0] = 1.0
    return a[n - 1] * 0.0 + a.size


count = leaked(make, 8)
report(count != 0, f"{count} arrays of 10 were not freed")
