"""Device memory for other processes of the same user.

The owner makes a handle and sends it, pickled or otherwise. The importer opens it::

    with tarn.ipc.serve(buffer) as served:      # the owner
        queue.put(served.handle)
        ...

    with tarn.ipc.open(queue.get()) as memory:  # the importer
        ...                                     # memory.__cuda_array_interface__

A *plain* handle (`export`) names memory: the two processes have to agree on its lifetime. A
*served* handle (`serve`) names a block. The block stays allocated while a process has it
open, even if that process is killed. docs/ipc.md lists the memory that can be exported and
the trust that it needs: an importer of a block can use the whole allocation around it.
Unpickling runs code, so unpickle only data that your own user sent.

A handle has all ways to the memory that the memory has: the socket of its owner, for processes of
the same machine, and a fabric handle, for those of other nodes. open() takes the one that works
here. Between nodes the program carries the messages about the lease::

    with tarn.ipc.open(handle, ask=send_and_receive) as memory:  # the importer
        ...
    reply = tarn.ipc.answer(request)                              # the owner, for each message
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Any, NamedTuple

from . import _tarn

__all__ = [
    "DmaBuf",
    "Handle",
    "Lease",
    "Opened",
    "Served",
    "answer",
    "counts",
    "dma_buf",
    "export",
    "leases",
    "open",
    "serve",
]


class Handle(NamedTuple):
    """The data that another process needs to open a block.

    Attributes
    ----------
    reserved : bytes
        64 bytes: a CUipcMemHandle, or bytes of Tarn that name a server.
    size : int
        Size of the block in bytes.
    offset : int
        Offset of the block in the allocation of the handle, in bytes.
    device : int
        The owner's number of the device.
    uuid : bytes
        16 bytes: the UUID of that device, which may have another number in another process.
    fabric : bytes
        160 bytes for processes of other nodes: a fabric handle, and the place of the block in
        its allocation. Empty if the memory has none.
    """

    reserved: bytes
    size: int
    offset: int
    device: int
    uuid: bytes
    fabric: bytes = b""


class DmaBuf(NamedTuple):
    """A dma-buf descriptor of device memory, as dma_buf() returns it.

    Attributes
    ----------
    fd : int
        The file descriptor. The caller closes it with os.close().
    offset : int
        Offset of the memory in the range of the descriptor, in bytes.
    size : int
        Size of the range in bytes: a multiple of the host's page size.
    """

    fd: int
    offset: int
    size: int


class Lease(NamedTuple):
    """A block of this process that another process has open.

    Attributes
    ----------
    process : int
        Process id of the importer.
    since_ns : int
        Begin of the lease, in nanoseconds of CLOCK_MONOTONIC.
    address : int
        Address of the block.
    size : int
        Size of the block in bytes.
    """

    process: int
    since_ns: int
    address: int
    size: int


class _Memory:
    """Memory that ends at close(), or at the end of a with statement."""

    def __init__(self, memory: _tarn.IpcMemory) -> None:
        self._memory = memory

    @property
    def ptr(self) -> int:
        """Address of the memory on the device; it stays readable after close()."""
        return self._memory.address

    @property
    def size(self) -> int:
        """Size of the memory in bytes."""
        return self._memory.bytes

    @property
    def device(self) -> int:
        """Number of the device that uses the memory."""
        return self._memory.device

    @property
    def closed(self) -> bool:
        """Whether close() was called."""
        return self._memory.closed

    def close(self) -> None:
        """Release the memory.

        Raises
        ------
        ValueError
            The memory is released already.
        """
        self._memory.close()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *unused: object) -> None:
        if not self.closed:
            self.close()


class Opened(_Memory):
    """Memory of another process, as open() returns it.

    No work may use the memory after close(), which waits for pending work. The memory stays open
    until close() or the end of the object.

    A lease that was begun with open(ask=...) lasts for its time, or until close(). The end of the
    object sends no message, so the lease then expires.
    """

    def __init__(
        self,
        memory: _tarn.IpcMemory,
        granted: bytes | None = None,
        ask: Callable[[bytes], bytes] | None = None,
    ) -> None:
        super().__init__(memory)
        self._granted = granted
        self._ask = ask

    def close(self) -> None:
        """Release the memory, and end its lease if open(ask=...) began one.

        Raises
        ------
        ValueError
            The memory is released already.
        Exception
            That of `ask`. The memory is released, and the lease expires.
        """
        super().close()
        if self._granted is not None and self._ask is not None:
            self._ask(_tarn.fabric_end(self._granted))

    def renew(self, lease: float = 60.0) -> float:
        """Begin the time of the lease again.

        Parameters
        ----------
        lease : float
            Seconds, from 0.001 to 3600.

        Returns
        -------
        float
            Seconds that the lease lasts, from the call on.

        Raises
        ------
        ValueError
            The memory was opened without a lease that has a time.
        TarnError
            The lease has expired. The block may have been reused.
        Exception
            That of `ask`.
        """
        if self._granted is None or self._ask is None:
            raise ValueError("ipc: this memory has no lease to renew")
        reply = self._ask(_tarn.fabric_renew(self._granted, _milliseconds(lease)))
        return _tarn.fabric_check(reply) / 1000

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The memory as an array of bytes, version 3 of the interface.

        Raises
        ------
        AttributeError
            The memory is closed.
        """
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
    """Memory of this process that others may open, as serve() returns it.

    After close() no process may open the memory any more. A process that has it open keeps it.

    Attributes
    ----------
    handle : Handle
        The served handle, for other processes.
    """

    def __init__(self, memory: _tarn.IpcMemory) -> None:
        super().__init__(memory)
        self.handle = Handle(*_tarn.ipc_export(memory, True), _fabric_of(memory))


def _fabric_of(memory: _tarn.IpcMemory) -> bytes:
    """Return the fabric handle of memory; empty if it has none."""
    try:
        return _tarn.fabric_export(memory)
    except _tarn.NotSupportedError:
        return b""


def _milliseconds(seconds: float) -> int:
    """Return a time as the C functions take it; at least 1."""
    return max(1, min(int(seconds * 1000), 2**31 - 1))


def _extent(data: Any) -> tuple[int, int]:
    """Return the address and the size in bytes of an object with an array interface."""
    interface = data.__cuda_array_interface__
    if interface.get("strides") is not None:
        raise ValueError("ipc: only contiguous memory can be exported")
    size = int(interface["typestr"][2:])
    for extent in interface["shape"]:
        size *= extent
    return interface["data"][0], size


def _hold(data: Any, device: int | None) -> _tarn.IpcMemory:
    """Return `data` as memory that can be exported, which keeps `data` alive."""
    if isinstance(data, _tarn.Pointer):
        return _tarn.ipc_retain(data)
    address, size = _extent(data)
    if device is None:
        device = getattr(getattr(data, "mr", None), "device", None)
    if device is None:
        device = _tarn.current_device()
    return _tarn.ipc_hold(address, size, device, data)


def export(data: Any, *, device: int | None = None) -> Handle:
    """Return a plain handle of device memory.

    The handle does not keep the memory alive: the two processes agree on its lifetime.

    Parameters
    ----------
    data : DeviceBuffer or object with __cuda_array_interface__
        The memory; contiguous. A Pointer of the extension is allowed too.
    device : int, optional
        Number of the device. None: that of `data.mr`, or the current device.

    Returns
    -------
    Handle
        A handle for processes of the same user on this machine.

    Raises
    ------
    NotSupportedError
        Memory of this resource has no handles, see docs/ipc.md.
    InvalidArgumentError
        The memory is empty.
    ValueError
        The memory is not contiguous.
    TarnError
        The server of this process does not start, or a driver call failed.
    """
    memory = _hold(data, device)
    return Handle(*_tarn.ipc_export(memory, False), _fabric_of(memory))


def dma_buf(data: Any, *, over_pcie: bool = False, device: int | None = None) -> DmaBuf:
    """Export device memory as a dma-buf descriptor, for the driver of another device.

    A network card registers it, for example with ibv_reg_dmabuf_mr(). The descriptor does not
    keep the memory: close it, and end the work that uses it, before the memory is freed.

    Parameters
    ----------
    data : DeviceBuffer or object with __cuda_array_interface__
        The memory; contiguous. ExportableMemoryResource, pools over it and pools without an
        upstream resource have such memory. An H200 rejects 8 KiB of CudaMemoryResource.
    over_pcie : bool
        A mapping over PCIe, for systems whose devices are also linked to the host by NVLink. An
        H200 did not support it.
    device : int, optional
        Number of the device. None: that of `data.mr`, or the current device.

    Returns
    -------
    DmaBuf
        The descriptor, and where the memory lies in it.

    Raises
    ------
    NotSupportedError
        The driver has no dma-buf, or none of this memory, or none over PCIe.
    InvalidArgumentError
        The memory is empty.
    ValueError
        The memory is not contiguous.
    TarnError
        A driver call failed.
    """
    return DmaBuf(*_tarn.ipc_dma_buf(_hold(data, device), over_pcie))


def serve(data: Any, *, device: int | None = None) -> Served:
    """Serve device memory to other processes.

    Parameters
    ----------
    data : DeviceBuffer or object with __cuda_array_interface__
        The memory; contiguous. It is kept until close() and the end of the last lease.
    device : int, optional
        Number of the device. None: that of `data.mr`, or the current device.

    Returns
    -------
    Served
        The memory with its handle.

    Raises
    ------
    NotSupportedError, InvalidArgumentError, ValueError, TarnError
        As in export().
    """
    return Served(_hold(data, device))


def open(
    handle: Handle,
    *,
    device: int | None = None,
    copy: bool = False,
    timeout: float = 10.0,
    ask: Callable[[bytes], bytes] | None = None,
    lease: float = 60.0,
) -> Opened:
    """Open a handle of another process, on this machine or on another node.

    The socket of the owner is tried first. Where it or the device of the memory is not here, the
    fabric handle is opened, if the handle has one.

    Parameters
    ----------
    handle : Handle
        A handle of export() or of Served.handle.
    device : int, optional
        Number of the device that uses the memory. None: the device of the memory. If the device
        cannot reach the memory, the result is a copy.
    copy : bool
        Copy the block in any case. This process alone owns the copy, which is memory of the
        device's current resource. Not with a fabric handle.
    timeout : float
        Seconds to wait for the owner's answer; at least 0.001.
    ask : callable, optional
        For a fabric handle: sends a message to answer() of the owner, and returns the reply. None:
        no lease. The two processes then agree on the lifetime of the block.
    lease : float
        Seconds of that lease, from 0.001 to 3600. Opened.renew() begins them again.

    Returns
    -------
    Opened
        The memory, until close() or the end of the object.

    Raises
    ------
    InvalidArgumentError
        The bytes are no handle, or the handle is of this process itself or of another user.
    ValueError
        The parts of the handle have the wrong length, or the device number is invalid.
    OutOfMemoryError
        Memory is unavailable.
    NotSupportedError
        The driver cannot open such memory.
    TarnError
        The block was freed, the owner has ended or does not answer in time, or no device here
        has that UUID. For a fabric handle: it is stale, or the owner rejects the lease.
    Exception
        That of `ask`.
    """
    number = -1 if device is None else device
    try:
        memory = _tarn.ipc_open(tuple(handle[:5]), number, copy, _milliseconds(timeout))
        return Opened(memory)
    except _tarn.TarnError as error:
        if not handle.fabric or copy or not _may_be_elsewhere(error):
            raise
    return _open_fabric(handle.fabric, device, ask, lease)


def _may_be_elsewhere(error: _tarn.TarnError) -> bool:
    """Return True if neither the device nor the owner is here: a handle of another node."""
    return error.native in (errno.ENODEV, errno.ECONNREFUSED)


def _open_fabric(
    fabric: bytes, device: int | None, ask: Callable[[bytes], bytes] | None, lease: float
) -> Opened:
    """Open a fabric handle, with a lease if there is a way to the owner."""
    number = _tarn.current_device() if device is None else device
    if ask is None:
        return Opened(_tarn.fabric_open(fabric, None, number))
    granted = ask(_tarn.fabric_begin(fabric, _milliseconds(lease)))
    _tarn.fabric_check(granted)
    try:
        memory = _tarn.fabric_open(fabric, granted, number)
    except BaseException:
        ask(_tarn.fabric_end(granted))
        raise
    return Opened(memory, granted, ask)


def answer(request: bytes) -> bytes:
    """Answer a message of an importer about a lease, in the owner of the memory.

    Parameters
    ----------
    request : bytes
        The message, as the `ask` of open() got it. Wrong bytes change nothing.

    Returns
    -------
    bytes
        The reply, also a rejection: `ask` returns it.

    Raises
    ------
    InvalidArgumentError, TypeError, ValueError
        The bytes are no request to this process.
    TarnError
        Exit has begun, or this is a forked child.
    """
    return _tarn.fabric_answer(request)


def leases() -> list[Lease]:
    """Return the leases that other processes have on blocks of this process.

    Returns
    -------
    list of Lease
        The leases, from the server of this process.
    """
    return [Lease(*lease) for lease in _tarn.ipc_leases()]


def counts() -> dict[str, int]:
    """Return the numbers of the memory that this process shares.

    Returns
    -------
    dict of str to int
        "segments": live allocations of exportable memory.
        "served": pointers with a served handle.
        "leases": leases of other processes on blocks of this process.
        "connections": connections to the server, leases included.
        "mapped": allocations of other processes that are open here.
        "descriptors": file descriptors that Tarn has open for sharing.
        "requests": requests that the server answered, rejected ones included.
        "rejected": rejected requests and dropped connections.

    Notes
    -----
    The numbers are those of `tarn_ipc_get_counts()`. They are exact while no call is under way.
    """
    return _tarn.ipc_counts()
