"""Numba's GPU memory under Tarn: the plugin of NBEP 7.

Either of these puts all device, mapped, pinned and managed memory of a program under Tarn::

    import tarn.numba
    tarn.numba.use_tarn_for_numba()          # before the first use of CUDA

    NUMBA_CUDA_MEMORY_MANAGER=tarn.numba python program.py

Device memory comes from the device's current resource (``tarn.mr``), so what serves a
program can be changed at any time without changing the manager.

Environment: ``TARN_RESOURCE`` (cuda, async, managed, pinned, pool, slab or binning: the
current resource, set at first use), ``TARN_LOG`` (a file for the log) and ``TARN_LOG_PID``
(the process that writes to that very file; all others write to ``FILE.PID``).

Numba is imported when it is first needed, not by importing this module.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import importlib
import itertools
import os
import sys
import threading
import warnings
import weakref
from typing import Any, Callable, Iterator

from . import _numba_types as types
from . import _tarn

__all__ = ["TarnNumbaManager", "manager_class", "use_tarn_for_numba"]

_INTERFACE_VERSION = 1
_PIN_AT_LEAST = 1  # bytes: an empty host array needs an address all the same


class _Settings:
    """What use_tarn_for_numba() and the environment asked for."""

    lock = threading.RLock()
    logging = True
    resource: str | None = None  # name of the resource for devices that have the default
    log_pid: int | None = None  # process whose log is set up; a forked child is another
    trouble: str | None = None  # why the last attempt to begin failed
    # One manager for each device, whatever the number of Numba's Contexts on it.
    managers: dict[tuple[str, int], Any] = {}


# --- the log ---------------------------------------------------------------------------


def _internal_paths(driver: Any) -> list[str]:
    """Where code lives that stands between a user's program and an allocation."""
    names = ("numba", "numba_cuda", "cuda.core", "cuda.bindings", __package__)
    modules = [sys.modules[name] for name in names if name in sys.modules]
    folders = [path for module in modules for path in getattr(module, "__path__", ())]
    folders.append(os.path.dirname(os.path.dirname(driver.__file__)))
    return [os.path.join(folder, "") for folder in folders] + [
        module.__file__ for module in (contextlib, functools, weakref) if module.__file__
    ]


def _first_process() -> str:
    """The process that the log's own name is for. A child that multiprocessing made is not
    it, though it may be the first one to ask: its siblings would take the same file."""
    multiprocessing = sys.modules.get("multiprocessing.process")
    parent: Any = multiprocessing.parent_process() if multiprocessing else None
    return str(parent.pid if parent else os.getpid())


def _open_log_file() -> None:
    """Open the file that TARN_LOG asks for, under the name that this process may use."""
    path = os.environ.get("TARN_LOG")
    if not path:
        return
    process = str(os.getpid())
    if "TARN_LOG_PID" not in os.environ:  # so that children do not take the same file
        os.environ["TARN_LOG_PID"] = _first_process()
        os.environ["TARN_LOG"] = path = os.path.abspath(path)
    is_child = os.environ["TARN_LOG_PID"] != process
    # A pool ends its workers with a signal, at which nothing could still be written.
    _tarn.log_open(f"{path}.{process}" if is_child else path, each_row=is_child)
    if "multiprocessing.util" in sys.modules:  # forked children end with os._exit()
        sys.modules["multiprocessing.util"].Finalize(None, _flush_log, exitpriority=-1000)


def _flush_log() -> None:
    """A log that ends early has to say so: it looks like a whole one."""
    try:
        _tarn.log_flush()
    except _tarn.TarnError as error:
        print(f"tarn.numba: the log is not whole: {error}", file=sys.stderr)


def _begin_exit() -> None:
    _tarn.log_exiting()
    _flush_log()


def _set_up_log(driver: Any) -> None:
    if _Settings.log_pid == os.getpid():
        return
    _tarn.log_internal(_internal_paths(driver))
    _open_log_file()
    if _tarn.log_collecting not in gc.callbacks:
        gc.callbacks.append(_tarn.log_collecting)
        atexit.register(_begin_exit)
    _Settings.log_pid = os.getpid()


# --- which resource --------------------------------------------------------------------


def _resource_class(name: str) -> Any:
    from . import mr

    def binning(device: int) -> mr.BinningMemoryResource:
        return mr.BinningMemoryResource(mr.PoolMemoryResource(device=device), 8, 20)

    classes = {
        "cuda": mr.CudaMemoryResource,
        "async": mr.CudaAsyncMemoryResource,
        "managed": mr.ManagedMemoryResource,
        "pinned": mr.PinnedHostMemoryResource,
        "pool": mr.PoolMemoryResource,
        "slab": mr.FixedSizeMemoryResource,
        "binning": binning,
    }
    if name not in classes:
        known = ", ".join(classes)
        raise ValueError(f"tarn.numba: there is no resource {name!r}, only {known}")
    return classes[name]


def _set_resource(device: int) -> None:
    """Put the resource in charge that was asked for by name, unless the program has put
    one there itself."""
    from . import mr

    name = _Settings.resource or os.environ.get("TARN_RESOURCE")
    if not name:
        return
    make = _resource_class(name)
    if type(mr.get_per_device_resource(device)) is mr.CudaMemoryResource:
        mr.set_per_device_resource(device, make(device=device))


def _serve_from(resource: Any) -> None:
    """What a program asks for itself holds at once, on the devices that are in use; a name
    holds for the others at their first use."""
    from . import mr

    if isinstance(resource, str):
        make = _resource_class(resource)
        for device in {device for _, device in _Settings.managers}:
            mr.set_per_device_resource(device, make(device=device))
        _Settings.resource = resource
    elif not isinstance(resource, mr.DeviceMemoryResource):
        raise TypeError(f"tarn.numba: {resource!r} is no resource of tarn.mr, and no name")
    elif resource.device is None:  # of a class that is written in Python
        mr.set_current_device_resource(resource)
    else:
        mr.set_per_device_resource(resource.device, resource)


# --- the manager -----------------------------------------------------------------------


class _ManagerOperations:
    """The members of NBEP 7; manager_class() puts them on top of Numba's base class.

    There is one instance a Context of Numba's. What they stand for belongs to the device,
    because several Contexts may stand for one primary context. Until initialize() there
    is nothing: Numba makes an instance without a context to ask for the version.
    """

    _driver: Any
    _pointer_class: type
    context: Any
    allocations: dict[int, Any]
    deallocations: Any

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._manager: Any = None  # the _tarn.Manager of the device
        self._ready = False

    @property
    def interface_version(self) -> int:
        return _INTERFACE_VERSION

    def initialize(self) -> None:
        """Comes before every call of numba.cuda, so it has to cost nothing."""
        if not self._ready:
            self._begin()

    def _begin(self) -> None:
        with _Settings.lock:
            try:
                self._manager = self._device_manager()
                self._manager.initialize()
            except Exception as error:
                _Settings.trouble = str(error)
                raise
            _Settings.trouble = None
            self._ready = True

    def _device_manager(self) -> Any:
        device = self._device_number()
        key = (self._driver.__name__, device)
        logging = _Settings.logging or "TARN_LOG" in os.environ
        if logging:
            _set_up_log(self._driver)
        if key not in _Settings.managers:
            manager = _tarn.Manager(device, logging)
            _set_resource(device)
            _Settings.managers[key] = manager
        _Settings.managers[key].logging = logging
        return _Settings.managers[key]

    def _device_number(self) -> int:
        device = self.context.device  # a Device, or the CUdevice of a hand-made Context
        return int(getattr(device, "id", device))

    def _attempt(self, allocate: Callable[..., Any], *arguments: Any) -> Any:
        """As Numba's own manager: out of memory means flush what is pending, and again."""
        try:
            return allocate(*arguments)
        except MemoryError:  # a resource written in Python may raise Python's own
            self.deallocations.clear()
            self.context.deallocations.clear()
        except _tarn.TarnError as error:
            raise types.as_numba_error(self._driver, error) from None
        try:
            return allocate(*arguments)
        except _tarn.TarnError as error:
            raise types.as_numba_error(self._driver, error) from None
        except MemoryError as error:
            raise types.as_numba_error(self._driver, error) from error

    def memalloc(self, size: int) -> Any:
        self.initialize()
        block = self._attempt(self._manager.memalloc, size)
        memory: Any = self._pointer_class(
            weakref.proxy(self.context), types.pointer_type(self._driver)(block.address), size
        )
        memory._block = block
        memory.is_managed = True
        return memory

    def _host_memory(self, block: Any, size: int, mapped: bool, owner: Any = None) -> Any:
        """Numba's own object for a block that the host sees."""
        key = next(_keys)
        finalizer = types.finalizer(block, self.allocations, key)
        make = self._driver.MappedMemory if mapped else self._driver.PinnedMemory
        memory = make(
            weakref.proxy(self.context), block.host, size, owner=owner, finalizer=finalizer
        )
        if mapped:
            self.allocations[key] = memory  # own() refers to it weakly
        return memory.own()

    def memhostalloc(
        self, size: int, mapped: bool = False, portable: bool = False, wc: bool = False
    ) -> Any:
        self.initialize()
        allocate = self._manager.memhostalloc
        block = self._attempt(allocate, max(size, _PIN_AT_LEAST), mapped, portable, wc)
        return self._host_memory(block, size, mapped)

    def mempin(self, owner: Any, pointer: int, size: int, mapped: bool = False) -> Any:
        self.initialize()
        block = self._attempt(self._manager.mempin, owner, pointer, size, mapped)
        return self._host_memory(block, size, mapped, owner)

    def memallocmanaged(self, size: int, attach_global: bool = True) -> Any:
        self.initialize()
        allocate = self._manager.memallocmanaged
        block = self._attempt(allocate, max(size, _PIN_AT_LEAST), attach_global)
        key = next(_keys)
        self.allocations[key] = memory = self._driver.ManagedMemory(
            weakref.proxy(self.context),
            types.pointer_type(self._driver)(block.address),
            size,
            finalizer=types.finalizer(block, self.allocations, key),
        )
        return memory.own()

    def get_ipc_handle(self, memory: Any) -> Any:
        owner = getattr(memory, "owner", None)
        if isinstance(owner, self._pointer_class):
            block: Any = owner._block  # type: ignore[attr-defined]
            words, base = self._export(block)
        else:  # memory that came from elsewhere, by the array interface
            base, _ = self._driver.device_extents(memory)
            words = types.words_of(self._driver.driver.cuIpcGetMemHandle(base))
        device = self._driver.driver.get_device(self._device_number())
        identity = device.get_device_identity()
        offset = memory.device_ctypes_pointer.value - base
        return types.ipc_handle(
            self._driver, memory, words, memory.size, identity, offset
        )

    def _export(self, block: Any) -> tuple[bytes, int]:
        """The handle of the allocation around a block, and where that begins."""
        try:
            words, _, offset = self._manager.get_ipc_handle(block)
        except _tarn.TarnError as error:
            raise types.as_numba_error(self._driver, error) from None
        return words, block.address - offset

    def get_memory_info(self) -> Any:
        self.initialize()
        try:
            free, total = self._manager.get_memory_info()
        except _tarn.TarnError as error:
            raise types.as_numba_error(self._driver, error) from None
        return self._driver.MemoryInfo(free=free, total=total)

    def reset(self) -> None:
        """May come before initialize(), and with no context current."""
        super().reset()  # type: ignore[misc]
        if self._manager is not None:
            self._manager.reset()
            self._keep_context()
        self._ready = False

    def _keep_context(self) -> None:
        """cuda.close() resets and then releases the primary context, which cuda.core
        retains at the first use alone: the second close would end it under everybody who
        still uses it. So each reset, which may be a close, retains it once more."""
        device = self._driver.binding.CUdevice(self._device_number())
        self._driver.driver.cuDevicePrimaryCtxRetain(device)

    @contextlib.contextmanager
    def defer_cleanup(self) -> Iterator[None]:
        self.initialize()
        with super().defer_cleanup():  # type: ignore[misc]
            self._manager.defer_cleanup_begin()
            try:
                yield
            finally:
                self._manager.defer_cleanup_end()


_keys = itertools.count()


# --- registering -----------------------------------------------------------------------


def _driver_of(cuda: Any) -> Any:
    """The module that has the interface in this Numba."""
    if cuda is None:
        from numba import cuda
    driver = getattr(getattr(cuda, "cudadrv", None), "driver", None)
    if driver is None:
        driver = importlib.import_module(f"{cuda.__name__}.cudadrv.driver")
    if not hasattr(driver, "HostOnlyCUDAMemoryManager"):
        raise RuntimeError(
            "tarn.numba: NUMBA_ENABLE_CUDASIM is set, so Numba runs on its simulator, "
            "which has no memory to manage"
        )
    return driver


@functools.lru_cache(maxsize=None)
def _class_for(driver: Any) -> type:
    members = {
        "__module__": __name__,
        "__qualname__": "TarnNumbaManager",
        "__doc__": "Numba's memory manager that serves from Tarn's current resource.",
        "_driver": driver,
        "_pointer_class": type(
            "TarnMemoryPointer",
            (types.PointerOperations, driver.MemoryPointer),
            {"__module__": __name__},
        ),
    }
    bases = (_ManagerOperations, driver.HostOnlyCUDAMemoryManager)
    made: type = type(driver.HostOnlyCUDAMemoryManager)("TarnNumbaManager", bases, members)
    return made


def manager_class(cuda: Any = None) -> type:
    """The manager for a cuda module (``numba.cuda`` if none is given); always the same."""
    return _class_for(_driver_of(cuda))


def _check_not_too_late(driver: Any, wanted: type) -> None:
    """NBEP 7 demands this of Numba, which says nothing and goes on with the old one."""
    present = driver._memory_manager
    if present is wanted:
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
            f"tarn.numba: another memory manager is set already: {_name_of(present)}"
        )


def _name_of(manager: Any) -> str:
    module = getattr(manager, "__module__", "?")
    return f"{module}.{getattr(manager, '__qualname__', repr(manager))}"


def _warn_of_environment() -> None:
    named = os.environ.get("NUMBA_CUDA_MEMORY_MANAGER", "default")
    if named not in ("default", __name__):
        warnings.warn(
            f"tarn.numba: NUMBA_CUDA_MEMORY_MANAGER={named} is ignored: "
            "use_tarn_for_numba() was called",
            stacklevel=3,
        )


def use_tarn_for_numba(
    cuda: Any = None, resource: Any = None, logging: bool = True
) -> None:
    """Put Numba's memory under Tarn. Has to come before the first use of CUDA; a second
    call is no error.

    :param cuda: the module to serve: ``numba.cuda`` (the default), or another with the
        same interface.
    :param resource: what device memory comes from: a resource of ``tarn.mr``, for its
        device, or the name of one (``"async"``), which devices in use get at once and
        others at first use unless the program has put something else there. Without it
        the device's current resource serves. Raises ValueError for an unknown name.
    :param logging: keep the log that ``tarn.csv_log()`` shows. A row costs about a
        question to the driver for its free memory.
    """
    driver = _driver_of(cuda)
    manager = _class_for(driver)
    _check_not_too_late(driver, manager)
    if resource is not None:
        _serve_from(resource)
    _Settings.logging = logging
    if driver._memory_manager is not manager:
        _warn_of_environment()
        driver.set_memory_manager(manager)
    for present in _Settings.managers.values():
        present.logging = logging or "TARN_LOG" in os.environ


def __getattr__(name: str) -> Any:
    """`_numba_memory_manager` is what Numba asks for when the environment names this
    module; it and the class are made when Numba is there."""
    if name in ("_numba_memory_manager", "TarnNumbaManager"):
        return manager_class()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
