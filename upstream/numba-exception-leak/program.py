"""A compiled function that raises keeps the references that it holds at that time."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from numba_leaks import leaked, report

import numpy as np
from numba import njit


@njit
def out_of_range(n):
    items = [np.ones(3)]
    return items[n].sum()


count = leaked(out_of_range, 5)
report(count > 0, f"{count} MemInfos leaked in 10 calls that raise IndexError")
