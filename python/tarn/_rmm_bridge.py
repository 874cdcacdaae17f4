"""Resources of Tarn for RMM, and resources of RMM for Tarn.

RMM's C++ code uses a `rmm.mr.DeviceMemoryResource` through a C++ object that the Python object
holds. A class that a program derives from it in Python has none. So to_rmm() needs a class of
RMM that can call Tarn. There are two:

- callback: `rmm.mr.CallbackMemoryResource`, which calls Python for each allocation.
- compiled: the extension tarn/_build/rmm.cpp, a class derived from RMM's in C++. It follows the
  layout of RMM's objects, so it is compiled on first use against the headers of the installed
  RMM (tarn._build).

RMM is imported by the first call, not by importing this module.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
import sys
import threading
import warnings
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from types import ModuleType
from typing import Any

from tarn import _build, _tarn

_lock = threading.Lock()
_extension: ModuleType | _build.BuildError | None = None  # None: not tried yet

# The bytes of an object of RMM's class that rmm.cpp expects: head, table of functions, c_ref.
_RMM_OBJECT_BYTES = object.__basicsize__ + 8 + 32


def _forget_lock() -> None:
    """Replace the lock in a forked child: a thread that held it does not exist there."""
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_forget_lock)


class _Bridge:
    """What both kinds of RMM objects over a resource of Tarn have."""

    compiled: bool
    reason: str | None
    tarn_resource: _tarn.DeviceMemoryResource

    def __repr__(self) -> str:
        form = "compiled" if self.compiled else "callback"
        return f"<rmm.mr.DeviceMemoryResource ({form}) over {self.tarn_resource!r}>"


class _Upstream(_tarn.DeviceMemoryResource):
    """What both kinds of Tarn objects over a resource of RMM have."""

    rmm_resource: Any
    compiled: bool

    def __repr__(self) -> str:
        return f"<tarn.mr.DeviceMemoryResource of device {self.device} over {self.rmm_resource!r}>"


class _CallbackUpstream(_Upstream):
    """A resource of RMM as one of Tarn, by calls of Python."""

    compiled = False
    supports_streams = True  # RMM: the memory is ready on the stream of the allocation

    def __init__(self, mr: Any) -> None:
        super().__init__()
        self.rmm_resource = mr
        self._streams = importlib.import_module("rmm.pylibrmm.stream")
        _tarn._resource_capsule(self)  # the first use sets the device

    def allocate(self, nbytes: int, stream: Any = _tarn.DEFAULT_STREAM) -> int:
        with _OnDevice(self.device):
            return int(self.rmm_resource.allocate(nbytes, self._stream_of(stream)))

    def deallocate(self, ptr: int, nbytes: int, stream: Any = _tarn.DEFAULT_STREAM) -> None:
        with _OnDevice(self.device):
            self.rmm_resource.deallocate(ptr, nbytes, self._stream_of(stream))

    def _stream_of(self, stream: Any) -> Any:
        """Return `stream` as RMM's; memory without a stream is in the order of the legacy one."""
        if isinstance(stream, self._streams.Stream):
            return stream
        if stream == _tarn.NO_STREAM:
            return self._streams.LEGACY_DEFAULT_STREAM
        return self._streams.Stream(stream)


class _OnDevice:
    """Make a device current for RMM, which expects that; nothing where it is already."""

    def __init__(self, device: int | None) -> None:
        self._device = device
        self._before: int | None = None

    def __enter__(self) -> None:
        current = _tarn.current_device()
        if self._device is not None and current != self._device:
            importlib.import_module("rmm._cuda.gpu").setDevice(self._device)
            self._before = current

    def __exit__(self, *raised: object) -> None:
        if self._before is not None:
            importlib.import_module("rmm._cuda.gpu").setDevice(self._before)


def to_rmm(resource: _tarn.DeviceMemoryResource, compiled: bool | None = None) -> Any:
    """Return a `rmm.mr.DeviceMemoryResource` that allocates from a resource of Tarn.

    RMM, cuDF and other users of RMM accept the result wherever they take a resource.

    Parameters
    ----------
    resource : DeviceMemoryResource
        The resource of Tarn; the result, and copies that RMM makes of it, keep it alive.
    compiled : bool, optional
        True: use an extension that calls Tarn without Python. The first call compiles it, which
        takes some seconds; later ones find it in a cache of the user. False: use
        `rmm.mr.CallbackMemoryResource`, which takes the GIL and calls Python for each allocation.
        None: the extension where it can be compiled, else the callbacks.

    Returns
    -------
    rmm.mr.DeviceMemoryResource
        The resource of RMM. Its attribute `tarn_resource` is `resource`. `compiled` is True or
        False. `reason` has the message why `compiled=None` chose the callbacks; else it is None.
        For a resource of from_rmm() the result is the one of RMM beneath it.

    Raises
    ------
    ImportError
        RMM is not installed.
    TypeError
        `resource` is not a resource of Tarn.
    RuntimeError
        `compiled` is True and the extension cannot be compiled or loaded. The message names what
        is missing, or has the errors of the compiler.

    Warns
    -----
    RuntimeWarning
        `compiled` is None, all requirements are there, and the extension cannot be compiled or
        loaded.

    Notes
    -----
    If memory is short, RMM raises its own MemoryError (`rmm::out_of_memory` in C++) with Tarn's
    message. All other errors of an allocation are a RuntimeError. RMM cannot pass on the error of
    a free: it goes to sys.unraisablehook.
    """
    if isinstance(resource, _Upstream):
        return resource.rmm_resource
    importlib.import_module("rmm.mr")
    capsule = _tarn._resource_capsule(resource)
    if compiled is False:
        return _callback_class()(resource, None)
    try:
        extension = _load_extension()
    except _build.BuildError as error:
        if compiled:
            raise
        _warn(error)
        return _callback_class()(resource, str(error))
    return _compiled_class(extension)(resource, capsule)


def from_rmm(mr: Any, compiled: bool | None = None) -> _tarn.DeviceMemoryResource:
    """Return a resource of Tarn that allocates from a resource of RMM.

    Its device is the one that is current now, as that of `mr` has to be for RMM.

    Parameters
    ----------
    mr : rmm.mr.DeviceMemoryResource
        The resource of RMM; the result keeps it alive.
    compiled : bool, optional
        True: call RMM in C++, by the extension of to_rmm(). False: by its Python methods. None: the
        extension where it can be compiled.

    Returns
    -------
    DeviceMemoryResource
        The resource of Tarn. Its attribute `rmm_resource` is `mr`. `compiled` is True or False. For
        a resource of to_rmm() the result is the one of Tarn beneath it.

    Raises
    ------
    ImportError
        RMM is not installed.
    TypeError
        `mr` is not a resource of RMM.
    RuntimeError
        `compiled` is True and the extension cannot be compiled or loaded.

    Warns
    -----
    RuntimeWarning
        As in to_rmm().
    """
    if isinstance(mr, _Bridge):
        return mr.tarn_resource
    base = importlib.import_module("rmm.mr").DeviceMemoryResource
    if not isinstance(mr, base):
        raise TypeError(f"{mr!r} is not a rmm.mr.DeviceMemoryResource")
    if compiled is False:
        return _CallbackUpstream(mr)
    try:
        extension = _load_extension()
    except _build.BuildError as error:
        if compiled:
            raise
        _warn(error)
        return _CallbackUpstream(mr)
    return _CompiledUpstream(mr, extension)


class _CompiledUpstream(_Upstream):
    """A resource of RMM as one of Tarn, by calls of C++."""

    compiled = True

    def __init__(self, mr: Any, extension: ModuleType) -> None:
        super().__init__()
        self.rmm_resource = mr
        _tarn._adopt_capsule(self, extension.upstream_capsule(mr, _tarn.current_device()))


@functools.cache
def _callback_class() -> type[Any]:
    """Return the class of RMM objects that call Python."""
    base: Any = importlib.import_module("rmm.mr").CallbackMemoryResource

    class CallbackBridge(_Bridge, base):  # type: ignore[misc]
        compiled = False

        def __init__(self, resource: _tarn.DeviceMemoryResource, reason: str | None) -> None:
            # Its methods pass a resource written in Python streams of Tarn, as other callers do.
            calls = _tarn.UpstreamResourceAdaptor(resource)
            free = functools.partial(_tarn._deallocate_or_report, calls)
            super().__init__(calls.allocate, free)
            self.tarn_resource = resource
            self.reason = reason

    return CallbackBridge


@functools.cache
def _compiled_class(extension: ModuleType) -> type[Any]:
    """Return the class of RMM objects that call Tarn in C++."""
    base: Any = extension.TarnMemoryResource

    class CompiledBridge(_Bridge, base):  # type: ignore[misc]
        compiled = True
        reason = None

    return CompiledBridge


def _load_extension() -> ModuleType:
    """Return the extension; compile it on the first call in a process, if the cache lacks it."""
    global _extension
    with _lock:
        if _extension is None:
            try:
                _extension = _import(_build_extension())
            except _build.BuildError as error:
                _extension = error
        found = _extension
    if isinstance(found, _build.BuildError):
        raise type(found)(str(found)) from found
    return found


def _build_extension() -> Path:
    """Find the requirements, and compile the extension or find it in the cache."""
    rmm = importlib.import_module("rmm")
    size = importlib.import_module("rmm.mr").DeviceMemoryResource.__basicsize__
    if size != _RMM_OBJECT_BYTES:
        raise _build.MissingError(
            f"RMM 26.10 is missing: objects of RMM {rmm.__version__} have {size} bytes, not "
            f"{_RMM_OBJECT_BYTES}"
        )
    library = _build.find_loaded_library("librmm.so")
    package = Path(_tarn.__file__).parent
    beside = library.parent.parent / "include"  # in a wheel and in a conda environment
    hint = f"librmm of RMM {rmm.__version__}"
    _build.find_compiler()
    include_dirs = [
        _build.find_python_headers(),
        _build.find_header("tarn/tarn.hpp", [package / "include"], "tarn-gpu from a wheel"),
        _build.find_header("rmm/resource_ref.hpp", [beside], hint),
        _build.find_header("cuda/memory_resource", [beside / "rapids", beside], hint),
        _build.find_header("cuda_runtime_api.h", _cuda_folders(), "nvidia-cuda-runtime"),
    ]
    return _build.build(
        "tarn_rmm",
        [_build.SOURCES / "rmm.cpp"],
        include_dirs=include_dirs,
        libraries=[_build.find_loaded_library("libtarn.so"), library],
        key=[_tarn.__version__, rmm.__version__, sys.version, *EXTENSION_SUFFIXES],
    )


def _cuda_folders() -> list[str | Path | None]:
    """Return where the headers of the CUDA runtime may be."""
    folders: list[str | Path | None] = []
    try:
        pathfinder: Any = importlib.import_module("cuda.pathfinder")
        folders.append(pathfinder.find_nvidia_header_directory("cudart"))
    except (ImportError, AttributeError, RuntimeError):
        pass  # an older cuda-pathfinder
    for name in ("CUDA_HOME", "CUDA_PATH"):
        if os.environ.get(name):
            folders.append(Path(os.environ[name]) / "include")
    return [*folders, Path("/usr/local/cuda/include")]


def _import(file: Path) -> ModuleType:
    """Import the extension from its file."""
    spec = importlib.util.spec_from_file_location("tarn_rmm", file)
    assert spec is not None and spec.loader is not None
    try:
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    except ImportError as error:
        raise _build.BuildError(f"{file} cannot be loaded: {error}") from error
    return module


def _warn(error: _build.BuildError) -> None:
    """Warn of an extension that failed although its requirements are there."""
    if not isinstance(error, _build.MissingError):
        warnings.warn(f"tarn.mr: RMM is called by callbacks of Python: {error}", RuntimeWarning, 3)
