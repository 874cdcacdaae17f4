"""The functions of torch.cuda that tarn.torch uses, and tensors without PyTorch: plain blocks."""

import contextlib
from types import SimpleNamespace

from . import _C

_state = SimpleNamespace(initialized=False, device=0, pools=[])
_utils = SimpleNamespace(_get_device_index=lambda device: int(str(device).rpartition(":")[2]))


def init():
    _state.initialized = True


def is_initialized():
    return _state.initialized


def _is_in_bad_fork():
    return False


def current_device():
    return _state.device


@contextlib.contextmanager
def device(number):
    before, _state.device = _state.device, number
    yield
    _state.device = before


def get_allocator_backend():
    return "native" if _C.current is None else "pluggable"


def empty_cache():
    _C.current.calls["set_reset_fn"]()


class MemPool:
    """A pool that takes each tensor as a segment of its own."""

    def __init__(self, allocator, use_on_oom=False, no_split=False):
        self.allocator = allocator
        self.bound = _state.device
        self.id = (0, 1)


@contextlib.contextmanager
def use_mem_pool(pool, device=None):
    assert device == pool.bound
    _state.pools.append(pool.allocator)
    yield
    _state.pools.pop()


class Tensor:
    """A block of the allocator in use."""

    def __init__(self, bytes, device=0, stream=None):
        init()
        self.arguments = (bytes, device, stream)
        self.allocator = _state.pools[-1] if _state.pools else _C.current
        self.address = self.allocator.allocate(*self.arguments)

    def record_stream(self, stream):
        self.allocator.calls["set_record_stream_fn"](self.address, stream)

    def drop(self):
        self.allocator.free(self.address, *self.arguments)
        self.address = None
