"""The functions of PyTorch's core that have to do with allocators."""

import ctypes


class _PoolId(ctypes.Structure):
    _fields_ = [("first", ctypes.c_uint64), ("second", ctypes.c_uint64)]


_ALLOCATE = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p)
_FREE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p)
_SETTERS = {
    "set_reset_fn": (None,),
    "set_record_stream_fn": (None, ctypes.c_void_p, ctypes.c_void_p),
    "set_memory_fraction_fn": (None, ctypes.c_double, ctypes.c_int),
    "set_begin_allocate_to_pool": (None, ctypes.c_int, _PoolId, ctypes.c_void_p),
    "set_end_allocate_to_pool_fn": (None, ctypes.c_int, _PoolId),
    "set_release_pool": (None, ctypes.c_int, _PoolId),
}


class _cuda_CUDAAllocator:
    """A pluggable allocator; `calls` has the functions that it was given."""

    def __init__(self, allocate, free):
        self.allocate = _ALLOCATE(allocate)
        self.free = _FREE(free)
        self.calls = {}

    def __getattr__(self, name):
        if name not in _SETTERS:
            raise AttributeError(name)

        def set_call(address):
            self.calls[name] = ctypes.CFUNCTYPE(*_SETTERS[name])(address)

        return set_call


def _cuda_customAllocator(allocate, free):
    return _cuda_CUDAAllocator(allocate, free)


current = None


def _cuda_changeCurrentAllocator(allocator):
    global current
    if current is not None:
        raise RuntimeError("Can't swap an already initialized allocator")
    current = allocator


def _cuda_memoryStats(device):
    raise RuntimeError("CUDAPluggableAllocator does not yet support getDeviceStats.")


def _cuda_resetPeakMemoryStats(device):
    raise RuntimeError("CUDAPluggableAllocator does not yet support resetPeakStats.")


def _cuda_memorySnapshot(selected):
    raise RuntimeError("CUDAPluggableAllocator does not yet support snapshot.")


def _cuda_getMemoryFraction(device):
    raise RuntimeError("CUDAPluggableAllocator does not yet support getMemoryFraction.")


def _accelerator_getDeviceStats(device):
    return {}
