"""A generator that is made in compiled code and never finished keeps its arguments."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from numba_leaks import leaked, report

import numpy as np
from numba import njit


@njit
def unfinished():
    a = np.zeros(3)
    map(int, a)  # a generator; nothing asks for its items


count = leaked(unfinished)
report(count > 0, f"{count} arrays leaked in 10 calls")
