"""The kernels of kernels.NumbaKernels. They are functions of a module for Numba's own simulator."""

from numba import cuda


@cuda.jit
def fill(x, key):
    i = cuda.grid(1)
    if i < x.size:
        x[i] = i ^ key


@cuda.jit
def change(x, key):
    i = cuda.grid(1)
    if i < x.size:
        x[i] = x[i] ^ key


@cuda.jit
def check(x, key, wrong):
    i = cuda.grid(1)
    if i < x.size and x[i] != (i ^ key):
        cuda.atomic.add(wrong, 0, 1)
