"""DeviceBuffers in Dask's messages: by IPC or a fabric handle, through the host otherwise.

Dask passes the handshake of a connection to the serializer of a type. A worker with the plugin adds
an announcement to its handshakes: its place (place()) and its process id. The sender compares the
place with its own. If they are equal, the worker can open its memory. The sender then sends a
served handle (tarn.ipc) in place of the bytes. If they differ, and both have fabric handles, the
sender sends a handle with one. A recipient without an announcement may be a process
without this module. It gets Dask's pickle, as without the plugin.

The sender keeps the block until the receiver has acknowledged its handle, or for _KEEP_S seconds.
The receiver copies the block into memory of its own, closes it, and then acknowledges.

A receiver that cannot open a handle announces no place from then on; or no fabric, if the handle
came from another place. It raises EOFError, which Dask
treats as a broken connection. Dask then fetches the data again over a new connection. The sender
then sends bytes through the host.
"""

from __future__ import annotations

import functools
import logging
import os
import secrets
import threading
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from tarn import _tarn, ipc

# isort: split

import dask.sizeof
from distributed.protocol.cuda import cuda_deserialize, cuda_serialize
from distributed.protocol.serialize import dask_deserialize, dask_serialize

_ANNOUNCEMENT = "tarn"  # key in the handshake of a connection
_HANDLER = "tarn_received"  # the handler of acknowledgements in a worker
_IPC_MIN_BYTES = 1 << 20  # smaller blocks go faster through the host
_KEEP_S = 60.0
_ANSWER_S = 5.0

_logger = logging.getLogger("distributed.tarn")
_lock = threading.Lock()
_workers: dict[str, Any] = {}  # the workers of this process with the plugin, by id
_exports: dict[str, _Export] = {}  # by token: blocks that receivers have not acknowledged
_received: dict[str, list[str]] = {}  # by address of the owner: tokens to acknowledge
# Why this process opens no memory of this place (False) or of other places (True) any more.
_failures: dict[bool, str] = {}


class _Export(NamedTuple):
    """A block that a receiver may open, and the end of its time (time.monotonic())."""

    memory: ipc.Served
    end: float


def register() -> None:
    """Register the serializers of DeviceBuffer with Dask, and its size."""
    dask_serialize.register(_tarn.DeviceBuffer, _serialize)
    dask_deserialize.register(_tarn.DeviceBuffer, _deserialize)
    cuda_serialize.register(_tarn.DeviceBuffer, _cuda_serialize)
    cuda_deserialize.register(_tarn.DeviceBuffer, _cuda_deserialize)
    dask.sizeof.sizeof.register(_tarn.DeviceBuffer, lambda buffer: int(buffer.nbytes))


# --- the workers of this process ---


def attach(worker: Any) -> None:
    """Have a worker announce itself to other workers, and take their acknowledgements."""
    with _lock:
        _workers[worker.id] = worker
    worker.handlers[_HANDLER] = _end_exports
    _announce(worker)


def detach(worker: Any) -> None:
    """Undo attach(); with the last worker of the process, its exported blocks are released."""
    with _lock:
        if _workers.pop(worker.id, None) is None:
            return
        is_last = not _workers
    worker.handlers.pop(_HANDLER, None)
    _announce(worker)
    if is_last:
        _end_exports(list(_exports))


@functools.cache
def place() -> str:
    """Return where this process runs: two processes at one place can open each other's memory.

    They have one kernel, user, socket directory and set of devices. Containers on one machine
    differ in their namespaces.
    """
    names = ("TARN_IPC_DIR", "XDG_RUNTIME_DIR")
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        kernel = file.read().strip()
    spaces = [os.readlink(f"/proc/self/ns/{kind}") for kind in ("mnt", "pid")]
    devices = os.environ.get("CUDA_VISIBLE_DEVICES", "all").split(",")
    parts = [kernel, *spaces, os.geteuid(), *map(os.environ.get, names), sorted(devices)]
    return "|".join(map(str, parts))


def _announce(worker: Any) -> None:
    """Set the handshake of a worker's next connections, and close those that are not in use."""
    overrides = dict(worker.rpc.connection_args.get("handshake_overrides") or {})
    overrides.pop(_ANNOUNCEMENT, None)
    if worker.id in _workers:
        overrides[_ANNOUNCEMENT] = {
            "place": "" if False in _failures else place(),
            "process": os.getpid(),
            "fabric": True not in _failures and _has_fabric(),
        }
    arguments = {**worker.rpc.connection_args, "handshake_overrides": overrides}
    worker.rpc.connection_args = arguments
    worker.loop.add_callback(worker.rpc.collect)


def _any_worker() -> Any:
    """Return a worker of this process with the plugin, or None."""
    with _lock:
        return next(iter(_workers.values()), None)


# --- the sender ---


def _serialize(buffer: Any, context: Any = None) -> tuple[dict[str, Any], list[Any]]:
    """Return the header and the frames of a buffer for a recipient that has announced itself."""
    announcement = _announcement_in(context)
    if announcement is None or type(buffer) is not _tarn.DeviceBuffer:
        raise NotImplementedError("Dask's pickle serves this object")
    end_expired()
    is_near = _is_near(announcement)
    if buffer.size >= _IPC_MIN_BYTES and (is_near or _is_on_fabric(announcement)):
        header = _export(buffer, not is_near)
        if header is not None:
            return header, []
    frames = [memoryview(buffer.copy_to_host(stream=buffer.stream))] if buffer.size else []
    return {"size": buffer.size}, frames


def _announcement_in(context: Any) -> Mapping[str, Any] | None:
    """Return the announcement in the handshake of a message's recipient, or None."""
    recipient = context.get("recipient") if isinstance(context, Mapping) else None
    found = recipient.get(_ANNOUNCEMENT) if isinstance(recipient, Mapping) else None
    return found if isinstance(found, Mapping) else None


def _is_near(announcement: Mapping[str, Any]) -> bool:
    """Return True if the recipient is another process that can open memory of this one."""
    return (
        _any_worker() is not None
        and announcement.get("place") == place()
        and announcement.get("process") != os.getpid()
    )


@functools.cache
def _has_fabric() -> bool:
    """Return True if the device of this process has fabric handles."""
    return bool(_tarn.device_info(_tarn.current_device()).has_fabric)


def _is_on_fabric(announcement: Mapping[str, Any]) -> bool:
    """Return True if the recipient, at another place, may open fabric handles of this process."""
    return (
        _any_worker() is not None
        and announcement.get("fabric") is True
        and announcement.get("place") not in ("", place())
        and _has_fabric()
    )


def _export(buffer: Any, is_far: bool) -> dict[str, Any] | None:
    """Return a header with a handle; None if the memory of the buffer has none for that place."""
    worker = _any_worker()
    try:
        buffer.stream.synchronize()
        memory = ipc.serve(buffer)
    except _tarn.TarnError as error:
        _logger.debug("tarn.dask: no handle of %d bytes: %s", buffer.size, error)
        return None
    if is_far and not memory.handle.fabric:
        memory.close()
        return None
    token = secrets.token_hex(8)
    with _lock:
        _exports[token] = _Export(memory, time.monotonic() + _KEEP_S)
    return {
        "size": buffer.size,
        "handle": list(memory.handle),
        "token": token,
        "owner": worker.address,
        "process": os.getpid(),
        "far": is_far,
    }


def _end_exports(tokens: Any) -> None:
    """Release the blocks of these tokens; the handler of a receiver's acknowledgement."""
    for token in tokens:
        with _lock:
            export = _exports.pop(token, None)
        if export is not None:
            export.memory.close()


def end_expired() -> None:
    """Release the blocks whose receivers have not acknowledged them in time."""
    now = time.monotonic()
    with _lock:
        expired = [token for token, export in _exports.items() if export.end <= now]
    _end_exports(expired)


def exports() -> int:
    """Return the number of blocks that wait for an acknowledgement."""
    return len(_exports)


# --- the receiver ---


def _deserialize(header: Any, frames: Any) -> Any:
    """Return a new buffer of a message."""
    size = header.get("size") if isinstance(header, Mapping) else None
    if type(size) is not int or size < 0:
        raise ValueError(f"tarn.dask: {header!r:.200} is no header of a DeviceBuffer")
    if "handle" in header:
        return _open(header, size)
    received = sum(memoryview(frame).nbytes for frame in frames)
    if received != size or len(frames) != (size > 0):
        raise ValueError(
            f"tarn.dask: {len(frames)} frames of {received} bytes, and the header has {size} bytes"
        )
    return _tarn.DeviceBuffer.to_device(frames[0] if size else b"")


def _open(header: Mapping[str, Any], size: int) -> Any:
    """Return a new buffer with a copy of the block behind a handle, and acknowledge it."""
    handle, owner, token = _parts_of(header)
    process, is_far = header.get("process"), header.get("far") is True
    try:
        return _copy(handle, size)
    except MemoryError:
        raise
    except _tarn.TarnError as error:
        # If the owner has ended, a transfer of bytes would have failed, too.
        if is_far or os.path.exists(f"/proc/{process}"):
            _fall_back(owner, str(error), is_far)
        raise EOFError(f"tarn.dask: {size} bytes of {owner} cannot be opened: {error}") from error
    finally:
        _acknowledge(owner, token)


def _parts_of(header: Mapping[str, Any]) -> tuple[ipc.Handle, str, str]:
    """Return the handle, the owner's address and the token of a header."""
    try:
        handle = ipc.Handle(*header["handle"])
        owner, token = header["owner"], header["token"]
    except (TypeError, KeyError):
        raise ValueError("tarn.dask: the header has an incomplete handle") from None
    wanted = {"reserved": bytes, "size": int, "offset": int, "device": int, "uuid": bytes}
    wanted["fabric"] = bytes
    is_right = all(type(getattr(handle, name)) is kind for name, kind in wanted.items())
    if not is_right or type(owner) is not str or type(token) is not str:
        raise ValueError("tarn.dask: the parts of the handle have the wrong types")
    return handle, owner, token


def _copy(handle: ipc.Handle, size: int) -> Any:
    """Return a copy of the block behind a handle, complete on return."""
    if handle.size != size:
        raise ValueError(f"the handle has {handle.size} bytes and the header {size}")
    with ipc.open(handle, device=_tarn.current_device(), timeout=_ANSWER_S) as memory:
        buffer = _tarn.DeviceBuffer(size=size)
        buffer.copy_from_device(memory)
        buffer.stream.synchronize()
    return buffer


def _fall_back(owner: str, reason: str, is_far: bool) -> None:
    """Announce no place or no fabric, so that those senders send bytes through the host."""
    with _lock:
        is_first = is_far not in _failures
        _failures.setdefault(is_far, reason)
        workers = list(_workers.values())
    if not is_first:
        return
    _logger.warning(
        "tarn.dask: memory of %s cannot be opened: %s. This process receives all data %sthrough "
        "the host from now on.",
        owner,
        reason,
        "of other nodes " if is_far else "",
    )
    for worker in workers:
        _announce(worker)


def _acknowledge(owner: str, token: str) -> None:
    """Tell the owner of a block, soon, that it need not keep the block any more."""
    worker = _any_worker()
    if worker is None:
        return
    with _lock:
        tokens = _received.setdefault(owner, [])
        tokens.append(token)
        is_first = len(tokens) == 1
    if is_first:
        worker.loop.add_callback(_send_acknowledgements, worker, owner)


async def _send_acknowledgements(worker: Any, owner: str) -> None:
    """Send the tokens of an owner; it keeps its blocks for a while if it gets none."""
    with _lock:
        tokens = _received.pop(owner, [])
    try:
        await getattr(worker.rpc(owner), _HANDLER)(tokens=tokens)
    except Exception as error:  # the owner has ended, or lies
        _logger.debug("tarn.dask: no acknowledgement to %s: %r", owner, error)


# --- device memory in messages: UCX ---


def _cuda_serialize(buffer: Any) -> tuple[dict[str, Any], list[Any]]:
    """Return the header of a buffer, and the buffer itself as the frame."""
    if type(buffer) is not _tarn.DeviceBuffer:
        raise NotImplementedError("Dask's pickle serves this object")
    buffer.stream.synchronize()  # the transport knows no streams
    return {"size": buffer.size}, [buffer]


def _cuda_deserialize(header: Any, frames: Any) -> Any:
    """Return the frame if it is a buffer of Tarn, else a copy of it in a new buffer."""
    size = header.get("size") if isinstance(header, Mapping) else None
    frame: Any = frames[0] if len(frames) == 1 else None
    if type(size) is not int or _bytes_of(frame) != size:
        raise ValueError(f"tarn.dask: {header!r:.200} does not describe {len(frames)} frames")
    if type(frame) is _tarn.DeviceBuffer:
        return frame
    buffer = _tarn.DeviceBuffer(size=size)
    if size:
        buffer.copy_from_device(frame)
        buffer.stream.synchronize()
    return buffer


def _bytes_of(frame: Any) -> int | None:
    """Return the bytes of a frame, on the device or the host; None for another object."""
    size: int | None = getattr(frame, "nbytes", len(frame) if isinstance(frame, bytes) else None)
    return size
