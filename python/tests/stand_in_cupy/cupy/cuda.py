"""cupy.cuda: Device, streams, MemoryPool. See the package."""

import collections
import ctypes
import threading
import types
import weakref

UNIT = 512
SEGMENT = 4 << 20

_driver = ctypes.CDLL("libcuda.so.1")
_thread = threading.local()


class CUDARuntimeError(RuntimeError):
    def __init__(self, name, status):
        super().__init__(f"{name}: {status}")
        self.status = status


class OutOfMemoryError(MemoryError):
    def __init__(self, size, total, limit=0):
        super().__init__(
            f"Out of memory allocating {size:,} bytes (allocated so far: {total:,} bytes, "
            f"limit set to: {limit:,} bytes)."
        )


def _call(name, *arguments):
    status = getattr(_driver, name)(*arguments)
    if status != 0:
        raise CUDARuntimeError(name, status)


# --- devices and streams ----------------------------------------------------------------


def current_context():
    context = ctypes.c_void_p()
    _call("cuCtxGetCurrent", ctypes.byref(context))
    return context


def _get_device():
    """The current device as in the CUDA runtime: that of the current context, else 0, whose context
    it retains."""
    device = ctypes.c_int()
    if not current_context().value:
        _set_device(0)
    _call("cuCtxGetDevice", ctypes.byref(device))
    return device.value


_primary = {}


def _set_device(number):
    if number not in _primary:
        context = ctypes.c_void_p()
        _call("cuDevicePrimaryCtxRetain", ctypes.byref(context), number)
        _primary[number] = context
    _call("cuCtxSetCurrent", _primary[number])


def release_contexts(current):
    """For tests: check that this module has not changed the current context, and restore `current`."""
    _call("cuCtxSetCurrent", current)
    while _primary:
        _call("cuDevicePrimaryCtxRelease_v2", _primary.popitem()[0])


runtime = types.SimpleNamespace(getDevice=_get_device, setDevice=_set_device)


class Device:
    def __init__(self, number):
        self.id = number

    def __enter__(self):
        self._before = _get_device()
        _set_device(self.id)
        return self

    def __exit__(self, *error):
        _set_device(self._before)


class ExternalStream:
    def __init__(self, handle):
        self.ptr = handle

    def __enter__(self):
        self._before = _current_stream()
        _thread.stream = self.ptr
        return self

    def __exit__(self, *error):
        _thread.stream = self._before


class Stream(ExternalStream):
    @classmethod
    def from_external(cls, stream):
        return cls(stream.__cuda_stream__()[1])


def _current_stream():
    return getattr(_thread, "stream", 0)


# --- the pool ---------------------------------------------------------------------------


class Memory:
    """A complete allocation of the driver."""

    def __init__(self, size):
        address = ctypes.c_uint64()
        _call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
        self.ptr, self.size = address.value, size


class PooledMemory:
    """A block that returns to its pool when its last reference ends."""

    def __init__(self, pool, ptr, size, stream):
        self.ptr, self.size = ptr, size
        weakref.finalize(self, pool.take_back, ptr, size, stream)


class MemoryPointer:
    def __init__(self, mem, offset):
        self.mem, self.ptr = mem, mem.ptr + offset


class SingleDeviceMemoryPool:
    """Free parts of segments by the stream that freed them, first fit."""

    def __init__(self):
        self._lock = threading.RLock()
        self._segments = {}  # address -> bytes
        self._free = collections.defaultdict(dict)  # stream -> address -> bytes
        self._used = 0
        self._limit = 0

    def malloc(self, size):
        size = -(-size // UNIT) * UNIT
        stream = _current_stream()
        with self._lock:
            ptr = self._find(size, stream)
            if ptr is None:
                ptr = self._grow(size, stream)
            self._used += size
        return MemoryPointer(PooledMemory(self, ptr, size, stream), 0)

    def _find(self, size, stream):
        free = self._free[stream]
        for ptr, length in sorted(free.items()):
            if length >= size:
                del free[ptr]
                if length > size:
                    free[ptr + size] = length - size
                return ptr
        return None

    def _grow(self, size, stream):
        length = max(size, SEGMENT)
        if self._limit and self.total_bytes() + length > self._limit:
            raise OutOfMemoryError(size, self.total_bytes(), self._limit)
        try:
            segment = Memory(length)
        except CUDARuntimeError:
            self.free_all_blocks()
            try:
                segment = Memory(length)
            except CUDARuntimeError:
                raise OutOfMemoryError(size, self.total_bytes(), self._limit) from None
        self._segments[segment.ptr] = length
        self._free[stream][segment.ptr] = length
        return self._find(size, stream)

    def take_back(self, ptr, size, stream):
        with self._lock:
            self._used -= size
            free = self._free[stream]
            free[ptr] = size
            self._merge(free)

    def _merge(self, free):
        """Coalesce neighbours in one segment."""
        merged, last = {}, None
        for ptr, length in sorted(free.items()):
            if last is not None and last + merged[last] == ptr and ptr not in self._segments:
                merged[last] += length
            else:
                merged[ptr], last = length, ptr
        free.clear()
        free.update(merged)

    def free_all_blocks(self, stream=None):
        with self._lock:
            for free in self._free.values():
                for ptr in [p for p, n in free.items() if self._segments.get(p) == n]:
                    _call("cuMemFree_v2", ctypes.c_uint64(ptr))
                    del free[ptr], self._segments[ptr]

    def total_bytes(self):
        return sum(self._segments.values())

    def used_bytes(self):
        return self._used

    def free_bytes(self):
        return self.total_bytes() - self._used

    def n_free_blocks(self):
        return sum(len(free) for free in self._free.values())

    def set_limit(self, size):
        self._limit = size

    def get_limit(self):
        return self._limit


class MemoryPool:
    """One pool per device: each method is that of the current device's."""

    def __init__(self):
        self._pools = collections.defaultdict(SingleDeviceMemoryPool)

    def __getattr__(self, name):
        return getattr(self._pools[_get_device()], name)
