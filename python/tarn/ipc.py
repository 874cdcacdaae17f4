"""Device memory for other processes of the same user.

The owner makes a handle and sends it, pickled or otherwise; the importer opens it::

    with tarn.ipc.serve(buffer) as served:      # the owner
        queue.put(served.handle)
        ...

    with tarn.ipc.open(queue.get()) as memory:  # the importer
        ...                                     # memory.__cuda_array_interface__

A *plain* handle (`export`) names memory: the two processes have to agree on its lifetime. A
*served* one (`serve`) names a block, which stays as long as a process has it open, however
that ends. docs/ipc.md lists the memory that can be exported and the trust that it needs: an
importer of a block can use the whole allocation around it. Unpickling runs code, so unpickle
only data that your own user sent.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from . import _tarn

__all__ = [
    "Handle",
    "Lease",
    "Opened",
    "Served",
    "counts",
    "export",
    "leases",
    "open",
    "serve",
]


class Handle(NamedTuple):
    """The data that another process needs to open a block."""

    reserved: bytes
    size: int
    offset: int
    device: int  # the owner's number of the device
    uuid: bytes  # of that device


class Lease(NamedTuple):
    """A block of this process that another process has open."""

    process: int
    since_ns: int  # CLOCK_MONOTONIC
    address: int
    size: int


class _Memory:
    """Memory that ends by close(), or with a with statement."""

    def __init__(self, memory: _tarn.IpcMemory) -> None:
        self._memory = memory

    @property
    def ptr(self) -> int:
        return self._memory.address

    @property
    def size(self) -> int:
        return self._memory.bytes

    @property
    def device(self) -> int:
        return self._memory.device

    @property
    def closed(self) -> bool:
        return self._memory.closed

    def close(self) -> None:
        """Release it; ValueError if it is released already."""
        self._memory.close()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *unused: object) -> None:
        if not self.closed:
            self.close()


class Opened(_Memory):
    """Memory of another process. No work may use it after close(), which waits for pending
    work."""

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        if self.closed:
            raise AttributeError("ipc: this memory is not open")
        return {
            "shape": (self.size,),
            "typestr": "|u1",
            "data": (self.ptr, False),
            "version": 3,
            "strides": None,
            "stream": None,
        }

    def __repr__(self) -> str:
        state = " closed" if self.closed else ""
        return f"<tarn.ipc.Opened{state} {self.size} bytes at {self.ptr:#x} on {self.device}>"


class Served(_Memory):
    """Memory of this process that others may open by `handle`. After close() no process may open
    it any more; a process that has it open keeps it."""

    def __init__(self, memory: _tarn.IpcMemory) -> None:
        super().__init__(memory)
        self.handle = Handle(*_tarn.ipc_export(memory, True))


def _extent(data: Any) -> tuple[int, int]:
    """The address and the length of an object with an array interface."""
    interface = data.__cuda_array_interface__
    if interface.get("strides") is not None:
        raise ValueError("ipc: only contiguous memory can be exported")
    size = int(interface["typestr"][2:])
    for extent in interface["shape"]:
        size *= extent
    return interface["data"][0], size


def _hold(data: Any, device: int | None) -> _tarn.IpcMemory:
    """`data` as memory that can be exported, and keeps it."""
    if isinstance(data, _tarn.Pointer):
        return _tarn.ipc_retain(data)
    address, size = _extent(data)
    if device is None:
        device = getattr(getattr(data, "mr", None), "device", None)
    if device is None:
        device = _tarn.current_device()
    return _tarn.ipc_hold(address, size, device, data)


def export(data: Any, *, device: int | None = None) -> Handle:
    """A plain handle of a Pointer, a DeviceBuffer, or any contiguous object with
    ``__cuda_array_interface__``, on `device` (its own, or the current one)."""
    return Handle(*_tarn.ipc_export(_hold(data, device), False))


def serve(data: Any, *, device: int | None = None) -> Served:
    """Serve `data` to other processes; it is kept until close() and the end of the last lease."""
    return Served(_hold(data, device))


def open(
    handle: Handle,
    *,
    device: int | None = None,
    copy: bool = False,
    timeout: float = 10.0,
) -> Opened:
    """Open a handle for `device` (default: the one that the memory lies on). If that device does
    not reach the memory, or with `copy`, the result is a copy that this process owns.
    `timeout`: seconds that the owner has to answer."""
    number = -1 if device is None else device
    milliseconds = max(1, min(int(timeout * 1000), 2**31 - 1))
    return Opened(_tarn.ipc_open(tuple(handle), number, copy, milliseconds))


def leases() -> list[Lease]:
    """The leases that other processes have on blocks of this process."""
    return [Lease(*lease) for lease in _tarn.ipc_leases()]


def counts() -> dict[str, int]:
    """Counts of the sharing between this process and others; as ``tarn_ipc_counts``."""
    return _tarn.ipc_counts()
