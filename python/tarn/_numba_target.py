"""The Numbas that have the memory interface of NBEP 7, and their differences.

numba-cuda and numba-cuda-mlir call the driver through cuda-bindings. The target that is part
of Numba itself calls it through ctypes, unless configured otherwise. All have the same classes,
most of them as public names of their `cuda` module. A Target is Tarn's view of one of these
modules. Importing this module does not import Numba.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
from collections.abc import Callable
from typing import Any

from . import _tarn

_HANDLE_BYTES = 64  # of a CUipcMemHandle


class Target:
    """One Numba; target_of() and target_of_driver() create one Target for each."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver  # the module that has the interface
        self.name: str = driver.__name__
        package = self.name.removesuffix(".cudadrv.driver")
        self.cuda: Any = importlib.import_module(package)  # the public names
        self.is_ctypes = not getattr(driver, "USE_NV_BINDING", True)

    @property
    def as_address(self) -> Callable[[int], Any]:
        """The type of a device address in this Numba."""
        if self.is_ctypes:
            return ctypes.c_uint64
        made: Callable[[int], Any] = self.driver.binding.CUdeviceptr
        return made

    def as_host(self, address: int) -> Any:
        """Return a host address in this Numba's type."""
        return ctypes.c_void_p(address) if self.is_ctypes else address

    def result(self, number: int) -> Any:
        """Return a result of the driver in the type of the errors' `code`."""
        if self.is_ctypes:
            return number
        try:
            return self.driver.binding.CUresult(number)
        except ValueError:  # newer than the bindings
            return number

    def result_name(self, number: int) -> str:
        """Return the name of a result of the driver."""
        code = self.result(number)
        names = getattr(self.driver, "ERROR_MAP", {})  # of the ctypes binding
        return str(getattr(code, "name", names.get(number, f"error {number}")))

    def device(self, number: int) -> Any:
        """Return Numba's own object for a device."""
        return self.cuda.gpus[number]

    def keep_context(self, number: int) -> None:
        """Retain the primary context once more at each reset, which may be a close.

        cuda.close() resets and then releases the primary context, which cuda.core retains only
        at the first use. So a second close would end it while other code still uses it. The
        ctypes binding retains it at each use after a close.
        """
        if not self.is_ctypes:
            device = self.driver.binding.CUdevice(number)
            self.driver.driver.cuDevicePrimaryCtxRetain(device)

    # --- handles for other processes ---
    #
    # Numba's IpcHandle reads and writes CUipcMemHandle.reserved, which cuda-bindings lacks
    # since 13.4: there Numba's own handles cannot be pickled. Tarn's can, with any version.

    def ipc_handle(self, base: Any, words: bytes, size: int, source: Any, offset: int) -> Any:
        """Return Numba's IpcHandle over 64 bytes; `base` is the exporter's memory, or None."""
        raw_class, handle_class = _ipc_classes(self)
        if self.is_ctypes:
            raw = raw_class.from_buffer_copy(words)
        else:
            raw = raw_class()
            raw.reserved = words
        return handle_class(base, raw, size, source, offset)

    def ipc_words(self, handle: Any) -> bytes:
        """Return the 64 bytes of a handle that Numba created."""
        return bytes(handle) if self.is_ctypes else _words_of(handle)


@functools.cache
def target_of_driver(name: str) -> Target:
    """Return the Target whose interface is in the module of this name."""
    return Target(importlib.import_module(name))


def _default_cuda() -> Any:
    """Import numba.cuda, or numba_cuda_mlir.cuda without it."""
    try:
        from numba import cuda

        return cuda
    except ImportError as missing:  # Numba is missing, or has no CUDA
        if missing.name not in ("numba", "numba.cuda"):
            raise
    try:
        return importlib.import_module("numba_cuda_mlir.cuda")
    except ModuleNotFoundError as missing:
        if missing.name not in ("numba_cuda_mlir", "numba_cuda_mlir.cuda"):
            raise
    raise ModuleNotFoundError(
        "tarn.numba: this Python has no Numba with CUDA: install numba-cuda "
        "(pip install numba-cuda), or numba-cuda-mlir",
        name="numba_cuda",
    )


def is_simulator(cuda: Any = None) -> bool:
    """Return True if a cuda module is Numba's simulator, which NUMBA_ENABLE_CUDASIM selects.

    None stands for the module of target_of().
    """
    if cuda is None:
        cuda = _default_cuda()
    return not hasattr(cuda, "BaseCUDAMemoryManager") and (
        hasattr(cuda, "simulator") or "simulator" in cuda.__name__
    )


def target_of(cuda: Any = None) -> Target:
    """Return the Target of a cuda module.

    None stands for `numba.cuda`, or for `numba_cuda_mlir.cuda` without Numba.
    """
    if cuda is None:
        cuda = _default_cuda()
    base = getattr(cuda, "BaseCUDAMemoryManager", None)
    if base is None:
        raise RuntimeError(
            "tarn.numba: NUMBA_ENABLE_CUDASIM is set, so Numba runs on its simulator, "
            "which has no GPU memory"
            if is_simulator(cuda)
            else f"tarn.numba: {cuda.__name__} does not support memory managers (NBEP 7)"
        )
    return target_of_driver(base.__module__)


# --- the classes of handles -------------------------------------------------------------


def _words_of(handle: Any) -> bytes:
    """Return the 64 bytes of a handle of cuda-bindings."""
    return ctypes.string_at(handle.getPtr(), _HANDLE_BYTES)


def _set_words(handle: Any, words: bytes) -> None:
    """Set the 64 bytes of a handle of cuda-bindings."""
    ctypes.memmove(handle.getPtr(), bytes(words), _HANDLE_BYTES)


def _rebuild_ipc(name: str, words: bytes, size: int, source: Any, offset: int) -> Any:
    """For pickle: create a handle that another process exported."""
    return target_of_driver(name).ipc_handle(None, words, size, source, offset)


def _reduce_ipc(self: Any) -> Any:
    """For pickle: return the parts of a handle."""
    words = self._target.ipc_words(self.handle)
    return _rebuild_ipc, (
        self._target.name, words, self.size, self.source_info, self.offset,
    )  # fmt: skip


def _open_direct(self: Any, context: Any) -> Any:
    """Open a handle as Numba does; the opened memory has to have the size in the handle."""
    target = self._target
    memory = super(_ipc_classes(target)[1], self).open_direct(context)
    begin = memory.device_pointer_value - self.offset
    opened = target.cuda.MemoryPointer(context, target.as_address(begin), 1)
    size = int(target.driver.device_extents(opened)[1]) - begin
    if self.offset < 0 or not 0 < self.size <= size - self.offset:
        del memory
        self.close()
        raise _tarn.InvalidArgumentError(
            f"ipc: {self.size} bytes at offset {self.offset} exceed the allocation of {size} bytes"
        )
    return memory


@functools.cache
def _ipc_classes(target: Target) -> tuple[Any, Any]:
    """Return the driver's handle class with accessible bytes, and Numba's class around one."""
    raw: Any = ctypes.c_byte * _HANDLE_BYTES
    if not target.is_ctypes:
        members = {"__module__": __name__, "reserved": property(_words_of, _set_words)}
        raw = type("TarnIpcMemHandle", (target.driver.binding.CUipcMemHandle,), members)
    members = {
        "__module__": __name__,
        "__reduce__": _reduce_ipc,
        "open_direct": _open_direct,
        "_target": target,
    }
    return raw, type("TarnIpcHandle", (target.cuda.IpcHandle,), members)
