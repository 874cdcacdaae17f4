"""Numba's GPU memory from Tarn: the memory manager of NBEP 7.

Either of these makes Numba allocate all device, mapped, pinned and managed memory of a program
from Tarn::

    import tarn.numba
    tarn.numba.use_tarn_for_numba()          # before the first use of CUDA

    NUMBA_CUDA_MEMORY_MANAGER=tarn python program.py

The module serves numba-cuda, numba-cuda-mlir and the CUDA target that is part of Numba. Device
memory comes from the device's current resource (``tarn.mr``). So a program can change the
resource at any time without changing the manager. ``using_resource()`` changes it for a while.

Environment:

- ``TARN_RESOURCE``: the name of the current resource, set at first use. It is one of cuda, async,
  async-exportable, managed, pinned, pool, cuda-pool, slab, binning and exportable.
- ``TARN_LOG``: a file for the log.
- ``TARN_LOG_PID``: the process that writes to that file. All others write to ``FILE.PID``.

Numba is imported when it is first needed, not by importing this module.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from tarn import _log as log
from tarn import _numba_host_arrays as host_arrays
from tarn import _numba_ipc, _tarn
from tarn import _numba_types as types
from tarn import _resources as resources
from tarn._numba_target import Target, is_simulator, target_of, target_of_driver
from tarn._resources import using_resource

__all__ = ["TarnNumbaManager", "manager_class", "use_tarn_for_numba", "using_resource"]  # noqa: F822

_INTERFACE_VERSION = 1
_PIN_AT_LEAST = 1  # bytes: an empty host array needs an address all the same
_MODES = ("any-stream", "single-stream")


class _Settings:
    """The settings of use_tarn_for_numba() and of the environment."""

    lock = threading.RLock()
    logging = True
    single_stream = False
    host_arrays = True
    trouble: str | None = None  # why the last attempt to begin failed
    # One manager for each device, whatever the number of Numba's Contexts on it.
    managers: dict[tuple[str, int], Any] = {}


def _is_logging() -> bool:
    """Return True if a call or the environment requested the log."""
    return _Settings.logging or log.is_covering_all


def _log_all() -> None:
    """Log the blocks of the managers that exist, too: for log.cover_all()."""
    for manager in _Settings.managers.values():
        manager.logging = True


# --- the manager -----------------------------------------------------------------------


def _takes_nbytes(method: Callable[..., Any]) -> Callable[..., Any]:
    """Accept `nbytes`, the name in NBEP 7's draft, for the `size` of Numba's managers."""

    @functools.wraps(method)
    def named(*arguments: Any, **keywords: Any) -> Any:
        if "nbytes" in keywords:
            keywords["size"] = keywords.pop("nbytes")
        return method(*arguments, **keywords)

    return named


class _ManagerOperations(_tarn.Plugin):
    """The members of NBEP 7; manager_class() puts them on top of Numba's base class.

    Numba creates one instance for each of its Contexts. The instances of a device share one
    manager, because several Contexts may use one primary context. Before initialize() an instance
    has no manager: Numba creates one without a context to query the version.

    initialize() and memalloc(), which Numba calls for every array, are in C (plugin.c).
    They call _begin() before a first use, and _again() after a failure.
    """

    _target: Target
    context: Any
    allocations: dict[int, Any]
    deallocations: Any

    @property
    def interface_version(self) -> int:
        """The version of the memory interface of NBEP 7: 1."""
        return _INTERFACE_VERSION

    def _begin(self) -> None:
        """Prepare the manager of the device, and serve Numba from it."""
        with _Settings.lock:
            try:
                manager = self._device_manager()
                manager.initialize()
            except Exception as error:
                _Settings.trouble = str(error)
                raise
            _Settings.trouble = None
            context = weakref.proxy(self.context)
            self._prepare(manager, types.pointer_class(self._target), context)
        if _Settings.host_arrays:
            host_arrays.serve(self.context.device, self)

    def _device_manager(self) -> Any:
        """Return the manager of the device with the current settings; the first call creates it."""
        device = self._device_number()
        key = (self._target.name, device)
        if _is_logging():
            log.set_up()
        if key not in _Settings.managers:
            _Settings.managers[key] = _tarn.Manager(device, _is_logging())
            if resources.was_asked_for():
                _warn_of_manager(_Settings.managers[key].name)
        resources.choose(device, resources.DEFAULT)
        _Settings.managers[key].logging = _is_logging()
        _Settings.managers[key].single_stream = _Settings.single_stream
        return _Settings.managers[key]

    def _device_number(self) -> int:
        """Return the number of the device of this instance's context."""
        device = self.context.device  # a Device, or the CUdevice of a hand-made Context
        try:
            return int(getattr(device, "id", device))
        except TypeError:  # or anything: some of Numba's tests pass themselves
            return _tarn.current_device()

    def _attempt(self, allocate: Callable[..., Any], *arguments: Any) -> Any:
        """Allocate; after a failure continue with _again()."""
        try:
            return allocate(*arguments)
        except (MemoryError, _tarn.TarnError) as error:
            return self._again(error, allocate, *arguments)

    def _again(self, error: Exception, allocate: Callable[..., Any], *arguments: Any) -> Any:
        """Reclaim deferred frees and allocate once more, as Numba's own manager does."""
        if not isinstance(error, MemoryError):  # also Python's own, from a resource in Python
            raise types.as_numba_error(self._target, error) from None
        self.deallocations.clear()
        self.context.deallocations.clear()
        try:
            return allocate(*arguments)
        except _tarn.TarnError as second:
            raise types.as_numba_error(self._target, second) from None
        except MemoryError as second:
            raise types.as_numba_error(self._target, second) from second

    def _host_memory(self, block: Any, size: int, mapped: bool, owner: Any = None) -> Any:
        """Return Numba's own object for a block that the host can access."""
        context, host = weakref.proxy(self.context), self._target.as_host(block.host)
        if not mapped:  # nothing to forget: the block's own release() is the finalizer
            pinned = self._target.cuda.PinnedMemory
            return pinned(context, host, size, owner=owner, finalizer=block.release).own()
        key = next(_keys)
        forget = types.finalizer(block, self.allocations, key)
        memory = self._target.cuda.MappedMemory(context, host, size, owner=owner, finalizer=forget)
        self.allocations[key] = memory  # own() refers to it weakly
        return memory.own()

    def prepare_for_use(self) -> None:
        """Prepare the manager, as initialize(): the name in NBEP 7's draft."""
        self.initialize()

    @_takes_nbytes
    def memhostalloc(
        self, size: int, mapped: bool = False, portable: bool = False, wc: bool = False
    ) -> Any:
        """Allocate page-locked host memory.

        Parameters
        ----------
        size : int
            Size in bytes; `nbytes` is another name of it.
        mapped : bool
            Map the memory into the device.
        portable : bool
            Make the memory page-locked for all contexts.
        wc : bool
            Use write-combined memory.

        Returns
        -------
        MappedMemory or PinnedMemory
            Numba's own object; the memory is freed with it.

        Raises
        ------
        CudaAPIError
            Memory is unavailable, also after Numba's pending deallocations were freed. The error is
            Tarn's too, for example OutOfMemoryError.
        """
        self.initialize()
        allocate = self._manager.memhostalloc
        block = self._attempt(allocate, max(size, _PIN_AT_LEAST), mapped, portable, wc)
        return self._host_memory(block, size, mapped)

    def mempin(self, owner: Any, pointer: Any, size: int, mapped: bool = False) -> Any:
        """Page-lock existing host memory.

        Parameters
        ----------
        owner : object
            The object that owns the memory; it is kept until the memory is unlocked.
        pointer : int or ctypes pointer
            The address.
        size : int
            Size in bytes.
        mapped : bool
            Map the memory into the device.

        Returns
        -------
        MappedMemory or PinnedMemory
            Numba's own object; the memory is unlocked with it.

        Raises
        ------
        CudaAPIError
            The driver cannot lock the memory.
        """
        self.initialize()
        address = getattr(pointer, "value", pointer)  # ctypes has objects for addresses
        block = self._attempt(self._manager.mempin, owner, address, size, mapped)
        return self._host_memory(block, size, mapped, owner)

    def memallocmanaged(self, size: int, attach_global: bool = True) -> Any:
        """Allocate managed memory, which host and device can use.

        Parameters
        ----------
        size : int
            Size in bytes.
        attach_global : bool
            True: any stream may use the memory. False: host and one stream at a time, see
            cuMemAllocManaged.

        Returns
        -------
        ManagedMemory
            Numba's own object; the memory is freed with it.

        Raises
        ------
        CudaAPIError
            Memory is unavailable.
        """
        self.initialize()
        allocate = self._manager.memallocmanaged
        block = self._attempt(allocate, max(size, _PIN_AT_LEAST), attach_global)
        key = next(_keys)
        self.allocations[key] = memory = self._target.driver.ManagedMemory(
            weakref.proxy(self.context),
            self._target.as_address(block.address),
            size,
            finalizer=types.finalizer(block, self.allocations, key),
        )
        return memory.own()

    def get_ipc_handle(self, memory: Any, stream: Any = 0) -> Any:
        """Return a handle with which another process opens device memory.

        Parameters
        ----------
        memory : MemoryPointer
            The memory; the handle keeps it in this process.
        stream : object
            Ignored; a parameter of NBEP 7's draft. The caller has waited for the memory.

        Returns
        -------
        IpcHandle
            Numba's own object. It can be pickled.

        Raises
        ------
        CudaAPIError
            The memory has no handles, see docs/ipc.md.
        """
        block = getattr(memory, "owner", None)
        if not isinstance(block, _tarn.MemoryPointer):  # another library's, by the array interface
            foreign = _numba_ipc.handle_of_foreign(self._target, memory, self._device_number())
            if foreign is not None:
                return foreign
            theirs = self._target.cuda.GetIpcHandleMixin.get_ipc_handle(self, memory)
            words = self._target.ipc_words(theirs.handle)
            return self._target.ipc_handle(
                memory, words, memory.size, theirs.source_info, theirs.offset
            )
        words, offset = self._export(block)
        inside = memory.device_pointer_value - block.address
        offset += inside
        source = self._target.device(self._manager.device).get_device_identity()
        if _numba_ipc.is_served(words):  # VMM memory has no CUDA handle
            return _numba_ipc.handle_of(self._target, memory, block, inside, source)
        return self._target.ipc_handle(memory, words, memory.size, source, offset)

    def _export(self, block: Any) -> tuple[bytes, int]:
        """Return the handle of the allocation around a block, and the block's offset in it."""
        try:
            words, _, offset = self._manager.get_ipc_handle(block)
        except _tarn.TarnError as error:
            raise types.as_numba_error(self._target, error) from None
        return words, offset

    def get_memory_info(self) -> Any:
        """Return the free and the total memory of the device.

        Returns
        -------
        MemoryInfo
            Bytes, from the current resource of the device. If the resource reports none, they come
            from the driver.

        Raises
        ------
        CudaAPIError
            A driver call failed.
        """
        self.initialize()
        try:
            free, total = self._manager.get_memory_info()
        except _tarn.TarnError as error:
            raise types.as_numba_error(self._target, error) from None
        return self._target.cuda.MemoryInfo(free=free, total=total)

    def reset(self) -> None:
        """Free all memory of Numba's context.

        It may come before initialize(), and with no context current. The next use prepares the
        manager again.
        """
        super().reset()  # type: ignore[misc]
        self._unprepare()
        if self._manager is not None:
            self._manager.reset()
            self._target.keep_context(self._manager.device)
            resources.begin_anew(self._manager.device)

    @contextlib.contextmanager
    def defer_cleanup(self) -> Iterator[None]:
        """Defer the frees of this context until the end of a with statement."""
        self.initialize()
        with super().defer_cleanup():  # type: ignore[misc]
            self._manager.defer_cleanup_begin()
            try:
                yield
            finally:
                self._manager.defer_cleanup_end()


_keys = itertools.count()


# --- registering -----------------------------------------------------------------------


@functools.cache
def _class_for(target: Target) -> Any:
    """Create the manager class over the base class of one Numba."""
    members = {
        "__module__": __name__,
        "__qualname__": "TarnNumbaManager",
        "__doc__": "Numba's memory manager that serves from Tarn's current resource.",
        "_target": target,
    }
    base = target.cuda.HostOnlyCUDAMemoryManager
    return type(base)("TarnNumbaManager", (_ManagerOperations, base), members)


def manager_class(cuda: Any = None) -> Any:
    """Return the manager class for a cuda module; always the same class.

    Parameters
    ----------
    cuda : module, optional
        The module. None: `numba.cuda`, or `numba_cuda_mlir.cuda` without Numba.

    Returns
    -------
    type
        A class for the module's set_memory_manager().

    Raises
    ------
    ModuleNotFoundError
        No Numba with CUDA is installed.
    RuntimeError
        The module has no memory interface, for example because it is Numba's simulator.
    """
    return _class_for(target_of(cuda))


class _VersionOnly:
    """The instance that Numba creates without a context, to query the version."""

    interface_version = _INTERFACE_VERSION


def _numba_memory_manager(*, context: Any) -> Any:
    """Create the manager of a Context, where the environment names this module.

    The Context determines which Numba that is.
    """
    if context is None:
        return _VersionOnly()
    return _class_for(target_of_driver(type(context).__module__))(context=context)


def _check_not_too_late(driver: Any, wanted: Any) -> None:
    """Raise RuntimeError if Numba has another manager already, or a context with one.

    NBEP 7 requires this of Numba, which silently keeps the old manager.
    """
    present = driver._memory_manager
    if present in (wanted, _numba_memory_manager):
        return
    contexts = [d.id for d in driver.driver.devices.values() if d.primary_context]
    if contexts:
        raise RuntimeError(
            f"tarn.numba: too late: Numba has a context on device {contexts[0]} already, "
            f"with {_name_of(present)}. Call use_tarn_for_numba() before the first use of "
            "CUDA, or set NUMBA_CUDA_MEMORY_MANAGER=tarn.numba"
        )
    if present is not None and present is not driver.NumbaCUDAMemoryManager:
        raise RuntimeError(
            f"tarn.numba: another memory manager was set before: {_name_of(present)}"
        )


def _name_of(manager: Any) -> str:
    """Return the full name of a manager class."""
    module = getattr(manager, "__module__", "?")
    return f"{module}.{getattr(manager, '__qualname__', repr(manager))}"


def _warn_of_environment() -> None:
    """Warn that a call overrides NUMBA_CUDA_MEMORY_MANAGER."""
    named = os.environ.get("NUMBA_CUDA_MEMORY_MANAGER", "default")
    if named not in ("default", *resources.MODULES):
        warnings.warn(
            f"tarn.numba: NUMBA_CUDA_MEMORY_MANAGER={named} is ignored: "
            "use_tarn_for_numba() was called",
            stacklevel=3,
        )


def _warn_of_manager(name: str) -> None:
    """Warn that managers other than Tarn's default ignore resources."""
    if name != "resource":
        warnings.warn(
            f"tarn.numba: memory comes from the manager {name} that TARN_MEMORY_MANAGER or "
            "the program has set, not from the requested resource",
            stacklevel=2,
        )


def use_tarn_for_numba(
    cuda: Any = None,
    resource: Any = None,
    logging: bool = True,
    mode: str = "any-stream",
    host_arrays: bool = True,
) -> None:
    """Make Numba allocate its GPU memory from Tarn.

    The call has to come before the first use of CUDA. A second call changes the settings. On
    Numba's simulator (NUMBA_ENABLE_CUDASIM) the call warns and does nothing.

    Parameters
    ----------
    cuda : module, optional
        The module to serve: ``numba.cuda``, ``numba_cuda_mlir.cuda`` or another with the same
        interface. None: ``numba.cuda``, or ``numba_cuda_mlir.cuda`` without Numba.
    resource : DeviceMemoryResource or str, optional
        The source of device memory: a resource of ``tarn.mr``, for its device, or the name of
        one (``"async"``). A named one serves the devices in use at once. It serves other devices
        from their first use, unless the program has set another resource there. None:
        ``"cuda-pool"``, a pool over memory of ``cuMemAlloc``.
    logging : bool
        Keep the log that ``tarn.csv_log()`` returns. A row costs about a microsecond, and now
        and then a query to the driver for its free memory.
    mode : {"any-stream", "single-stream"}
        ``"any-stream"``: memory is safe on all streams. ``"single-stream"``: the program
        promises that all its work is on the default stream, so that memory is reused at once.
    host_arrays : bool
        Memory for host arrays that are passed to kernels comes from Tarn too, where Numba takes
        it from cuda.core.

    Raises
    ------
    ModuleNotFoundError
        No Numba with CUDA is installed.
    RuntimeError
        Numba has a context with another manager, or another manager is set.
    ValueError
        `mode` or the name of the resource is unknown.
    TypeError
        `resource` is neither a resource of ``tarn.mr`` nor a name.
    """
    if mode not in _MODES:
        raise ValueError(f"tarn.numba: unknown mode {mode!r}; the modes are {', '.join(_MODES)}")
    if is_simulator(cuda):
        warnings.warn(
            "tarn.numba: NUMBA_ENABLE_CUDASIM is set: Numba runs on its simulator, which has "
            "no GPU memory, so Tarn allocates no memory",
            stacklevel=2,
        )
        return
    target = target_of(cuda)
    manager = _class_for(target)
    _check_not_too_late(target.driver, manager)
    if resource is not None:
        resources.serve_from(resource)
    resources.is_for_numba = True
    _Settings.logging = logging
    _Settings.single_stream = mode == "single-stream"
    _Settings.host_arrays = host_arrays
    if target.driver._memory_manager not in (manager, _numba_memory_manager):
        _warn_of_environment()
        target.cuda.set_memory_manager(manager)
    for present in _Settings.managers.values():
        present.logging = _is_logging()
        present.single_stream = _Settings.single_stream
        if resource is not None:
            _warn_of_manager(present.name)


def _configure() -> None:
    """Set the manager of each Numba that is imported, for tarn.use().

    The settings of an earlier call of use_tarn_for_numba() stay. Without one there is no log,
    unless TARN_LOG requests it. A manager that the environment names stays as well: Numba looks
    it up at its first use.
    """
    for name in ("numba.cuda", "numba_cuda_mlir.cuda"):
        cuda = sys.modules.get(name)
        if cuda is None:
            continue
        if is_simulator(cuda):
            raise RuntimeError("NUMBA_ENABLE_CUDASIM is set: Numba runs on its simulator")
        target = target_of(cuda)
        is_found = resources.is_named() and target.driver._memory_manager is None
        if not is_found and target.driver._memory_manager is not _class_for(target):
            use_tarn_for_numba(cuda, logging=False)


def __getattr__(name: str) -> Any:
    """Create the class TarnNumbaManager at its first use, when Numba is available."""
    if name == "TarnNumbaManager":
        return manager_class()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
