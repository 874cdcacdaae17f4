"""Lets programs run on the driver simulator that launch kernels: no kernel is launched.

    PYTHONPATH=tools/without_kernels tarn run --driver sim --log program.tlog program.py

The simulator runs no kernels, so each launch fails there. With this folder in PYTHONPATH a launch of
Numba, or of a cupy.RawKernel, does nothing. All memory calls are as with kernels; results of kernels
are undefined. CuPy has no CUDA runtime on the simulator: its arrays are on one stream, and
cupy.asarray() takes objects with __cuda_array_interface__ alone. PyTorch needs the library of
python/tests/torch_cudart.c.
"""

import importlib.util
import sys


def change_numba(dispatcher):
    """Let launches do nothing."""
    dispatcher.launch = lambda *arguments: None


class RawKernel:
    """A kernel that does nothing."""

    def __init__(self, *arguments, **options):
        pass

    def __call__(self, *arguments, **options):
        pass


def change_cupy(cupy):
    """Replace what needs the CUDA runtime."""
    import tarn

    streams = []

    def get_current_stream():
        if not streams:
            streams.append(tarn.Stream())
        return streams[0]

    def asarray(array):
        shared = array.__cuda_array_interface__
        memory = cupy.cuda.UnownedMemory(shared["data"][0], array.nbytes, array, 0)
        return cupy.ndarray(array.shape, array.dtype, cupy.cuda.MemoryPointer(memory, 0))

    cupy.asarray = asarray
    cupy.RawKernel = RawKernel
    cupy.cuda.get_current_stream = get_current_stream


CHANGES = {
    "numba_cuda.numba.cuda.dispatcher": change_numba,
    "numba.cuda.dispatcher": change_numba,
    "cupy": change_cupy,
}


class Finder:
    """Changes modules after their import."""

    def __init__(self):
        self.is_busy = False

    def find_spec(self, name, path=None, target=None):
        """Return the spec of a module to change; other finders find all others."""
        if self.is_busy or name not in CHANGES:
            return None
        self.is_busy = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self.is_busy = False
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            CHANGES[name](module)

        spec.loader.exec_module = exec_module
        return spec


sys.meta_path.insert(0, Finder())
