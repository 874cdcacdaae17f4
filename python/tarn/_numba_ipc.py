"""Numba's IpcHandle for memory without a CUDA handle, which a server (tarn.ipc) names."""

from __future__ import annotations

import functools
import weakref
from typing import Any

from . import _numba_types as types
from . import _tarn
from ._numba_target import Target, _ipc_classes, target_of_driver

_MAGIC = b"tarnipc"
_TIMEOUT_MS = 10000


def is_served(words: bytes) -> bool:
    """Return True if these 64 bytes name a server, and not an allocation of cuMemAlloc."""
    return words.startswith(_MAGIC)


class _Operations:
    """The members that replace those of Numba's class; its errors keep their messages."""

    _target: Target
    base: Any
    size: int
    source_info: Any
    _impl: Any
    _parts: tuple[Any, ...]  # of tarn.ipc.Handle

    def _open(self, context: Any, copy: bool) -> Any:
        """Open the handle for the device of a context, as memory or as a copy."""
        if self.base is not None:
            raise ValueError("opening IpcHandle from original process")
        if self._impl is not None:
            raise ValueError("IpcHandle is already opened")
        device = int(context.device.id)
        try:
            opened = _tarn.ipc_open(self._parts, device, copy, _TIMEOUT_MS)
        except _tarn.TarnError as error:
            raise types.as_numba_error(self._target, error) from None
        memory = self._target.cuda.MemoryPointer(
            weakref.proxy(context), self._target.as_address(opened.address), self.size
        )
        memory._tarn_opened = opened  # the pointer keeps the memory alive
        self._impl = (opened, copy)
        return memory

    def open_direct(self, context: Any) -> Any:
        """Open the memory itself, as Numba's IpcHandle."""
        return self._open(context, copy=False)

    def open_staged(self, context: Any) -> Any:
        """Open a copy, which belongs to the holder of the pointer; close() leaves it unchanged."""
        return self._open(context, copy=True)

    def close(self) -> None:
        """Close the handle; ValueError if it is not open."""
        if self._impl is None:
            raise ValueError("IpcHandle not opened")
        (opened, copy), self._impl = self._impl, None
        if not copy:
            opened.close()

    def __reduce__(self) -> Any:
        return _rebuild, (self._target.name, self._parts, self.source_info)


@functools.cache
def _class(target: Target) -> Any:
    """Create the handle class over the class of one Numba."""
    _, base = _ipc_classes(target)
    return type("TarnServedIpcHandle", (_Operations, base), {"__module__": __name__})


def _make(target: Target, base: Any, parts: tuple[Any, ...], source: Any) -> Any:
    """Create a handle from the parts of a tarn.ipc.Handle."""
    reserved, size, offset = parts[:3]
    raw = target.ipc_handle(None, reserved, size, source, offset).handle
    handle = _class(target)(base, raw, size, source, offset)
    handle._parts = parts
    return handle


def _rebuild(name: str, parts: tuple[Any, ...], source: Any) -> Any:
    """For pickle: create a handle that another process exported."""
    return _make(target_of_driver(name), None, parts, source)


def handle_of(target: Target, memory: Any, block: Any, inside: int, source: Any) -> Any:
    """Return the handle of `memory`, which begins `inside` bytes into a block of Tarn's."""
    reserved, _, offset, device, uuid = _tarn.ipc_export(block, False)
    parts = (reserved, memory.size, offset + inside, device, uuid)
    return _make(target, memory, parts, source)


def handle_of_foreign(target: Target, memory: Any, device: int) -> Any:
    """Return the handle of memory that did not come from Numba, if a server names it; else None."""
    try:
        held = _tarn.ipc_hold(memory.device_pointer_value, memory.size, device, memory)
        parts = _tarn.ipc_export(held, False)
    except _tarn.TarnError:
        return None  # Numba's own path has Numba's own messages
    if not is_served(parts[0]):
        return None
    source = target.device(device).get_device_identity()
    return _make(target, memory, parts, source)
