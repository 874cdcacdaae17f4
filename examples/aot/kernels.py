"""Compiles functions of arrays for main.c, which contains no Python.

python kernels.py FOLDER      writes FOLDER/kernels.o and FOLDER/kernels.h
"""

import sys

import numpy as np
from tarn.nrt import aot


def norm(a):
    if a.size == 0:
        raise ValueError("no items")
    return np.sqrt((a * a).sum())


def smooth(a, width):
    padded = np.concatenate((a[:width][::-1], a, a[-width:][::-1]))
    sums = np.cumsum(padded)
    return (sums[2 * width :] - sums[: -2 * width]) / (2 * width)


def grid(rows, columns):
    return np.arange(rows * columns).astype(np.float64).reshape(rows, columns)


def columns(a):
    sums = np.zeros(a.shape[1])  # a.sum(axis=0) raises with values of the run: unsupported
    for row in a:
        sums += row
    return sums


def walk(seed, steps):
    np.random.seed(seed)
    place = 0.0
    for _ in range(steps):
        place += np.random.normal(0.0, 1.0)
    return place


FUNCTIONS = {
    "norm": (norm, "float64(float64[::1])"),
    "smooth": (smooth, "float64[::1](float64[::1], int64)"),
    "grid": (grid, "float64[:, ::1](int64, int64)"),
    "columns": (columns, "float64[::1](float64[:, ::1])"),
    "walk": (walk, "float64(int64, int64)"),
}

if __name__ == "__main__":
    aot.compile_ahead("kernels", FUNCTIONS, sys.argv[1] if sys.argv[1:] else ".")
