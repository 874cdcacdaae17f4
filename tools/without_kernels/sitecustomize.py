"""Lets programs run on the driver simulator that launch kernels: no kernel is launched.

    PYTHONPATH=tools/without_kernels tarn run --driver sim --log program.tlog program.py

The simulator runs no kernels, so each launch fails there. With this folder in PYTHONPATH a launch of
Numba, or of a cupy.RawKernel, does nothing. All memory calls are as with kernels; results of kernels
are undefined. CuPy has no CUDA runtime on the simulator: its arrays are on one stream, and
cupy.asarray() takes objects with __cuda_array_interface__ alone. PyTorch needs the library of
python/tests/torch_cudart.c. Its convolutions, matrix products and attention, which call cuDNN and
cuBLAS, allocate their results, and convolutions a workspace as well: a quarter of a byte for each
element of the input, which is a guess.
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


def change_torch(torch):
    """Let the functions of cuDNN and cuBLAS allocate their results, forward and backward."""

    class Results(torch.autograd.Function):
        @staticmethod
        def forward(ctx, shape, dtype, workspace, *inputs):
            ctx.save_for_backward(*inputs)
            ctx.workspace = workspace
            allocated = allocate_workspace(workspace, inputs[0])
            result = torch.empty(shape, dtype=dtype, device=inputs[0].device)
            del allocated
            return result

        @staticmethod
        def backward(ctx, gradient):
            gradients = []
            for x, is_needed in zip(ctx.saved_tensors, ctx.needs_input_grad[3:]):
                allocated = allocate_workspace(ctx.workspace, x)
                gradients.append(torch.empty_like(x) if is_needed else None)
                del allocated
            return None, None, None, *gradients

    def allocate_workspace(size, beside):
        return torch.empty(size, dtype=torch.uint8, device=beside.device) if size else None

    def results(shape, *inputs, workspace=0):
        inputs = [x for x in inputs if x is not None]
        dtype = inputs[0].dtype
        if torch.is_autocast_enabled("cuda"):
            dtype = torch.get_autocast_dtype("cuda")
            inputs = [x.to(dtype) for x in inputs]
        return Results.apply(shape, dtype, workspace, *inputs)

    def conv2d(x, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
        kernel = weight.shape[2:]
        stride, padding, dilation = (
            (value, value) if isinstance(value, int) else value
            for value in (stride, padding, dilation)
        )
        sides = (
            (side + 2 * padding[i] - dilation[i] * (kernel[i] - 1) - 1) // stride[i] + 1
            for i, side in enumerate(x.shape[2:])
        )
        shape = (x.shape[0], weight.shape[0], *sides)
        return results(shape, x, weight, bias, workspace=x.numel() // 4)

    def linear(x, weight, bias=None):
        return results((*x.shape[:-1], weight.shape[0]), x, weight, bias)

    def attention(query, key, value, *arguments, **options):
        return results((*query.shape[:-1], value.shape[-1]), query, key, value)

    functions = torch.nn.functional
    functions.conv2d, functions.linear = conv2d, linear
    functions.scaled_dot_product_attention = attention


CHANGES = {
    "torch": change_torch,
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
