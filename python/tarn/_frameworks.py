"""tarn.use(): the frameworks that it configures, and the import hook for the later ones.

A framework has a name, the module that a program imports, and a module of tarn that configures
it. That module of tarn has one function for this file::

    def _configure() -> None

It makes the framework allocate from the current device resource of each device, which
_resources.current() returns. A second call has no effect. A framework that cannot be configured
raises an exception of its own kind, whose text is the reason: it holds memory already, it is too
old, or the process is a forked child. _configure() runs once the framework's module is complete,
and imports no framework that the program does not import.

No framework is imported here. A module of tarn is imported when its framework is.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import re
import sys
import threading
import warnings
from collections.abc import Iterable, Sequence
from types import ModuleType
from typing import Any, NamedTuple

from tarn import _resources

_ACTIVE = "active"
_PENDING = "pending"


class _Framework(NamedTuple):
    """A framework: the module whose import it begins with, and the module of tarn for it."""

    module: str
    configured_by: str


_FRAMEWORKS = {
    "numba": _Framework("numba.cuda", "tarn.numba"),
    "numba_cuda_mlir": _Framework("numba_cuda_mlir.cuda", "tarn.numba"),
    "cupy": _Framework("cupy", "tarn.cupy"),
    "torch": _Framework("torch", "tarn.torch"),
    "cuda.core": _Framework("cuda.core", "tarn.cuda_core"),
    "warp": _Framework("warp", "tarn.warp"),
}
_NAMES = {framework.module: name for name, framework in _FRAMEWORKS.items()}

_lock = threading.RLock()
_states: dict[str, str] = {}  # name -> _ACTIVE, _PENDING, or "skipped: " and the reason
_named: set[str] = set()  # the frameworks that a call named: their failures are raised


def use(resource: Any = None, frameworks: str | Iterable[str] | None = None) -> dict[str, str]:
    """Make the frameworks of this process allocate their GPU memory from Tarn.

    Call it at the top of a program. Frameworks that are imported are configured now, the others
    when the program first imports them. The function itself imports none.

    Parameters
    ----------
    resource : DeviceMemoryResource or str, optional
        The source of device memory: a resource of ``tarn.mr``, for its device, or the name of
        one (``"async"``) for all devices. None: on a device for which the program has set no
        resource, a pool over memory of ``cuMemAlloc``.
    frameworks : str or iterable of str, optional
        Names of frameworks. None: all that Tarn supports.

    Returns
    -------
    dict of str to str
        For each framework ``"active"``, ``"pending"`` if it is not imported yet, or ``"skipped: "``
        and the reason.

    Raises
    ------
    ValueError
        The name of a framework or of the resource is unknown.
    TypeError
        `resource` is neither a resource of ``tarn.mr`` nor a name.
    Exception
        A framework in `frameworks` cannot be configured, for example because it holds memory
        already. The type is the framework's own. The frameworks before it stay configured.
    """
    names = _names_of(frameworks)
    if resource is not None:
        _resources.serve_from(resource)
    with _lock:  # from here on the hook configures what any thread imports
        if frameworks is not None:
            _named.update(names)
        for name in names:
            if _states.get(name) != _ACTIVE:
                _states[name] = _PENDING
        if not any(isinstance(finder, _Hook) for finder in sys.meta_path):
            sys.meta_path.insert(0, _Hook())
    for name in names:
        if _FRAMEWORKS[name].module in sys.modules:
            importlib.import_module(_FRAMEWORKS[name].module)  # another thread may be at it
            _configure(name)
    return {name: _states[name] for name in names}


def states() -> dict[str, str]:
    """Return the state of each framework that a call of use() has named, as use() returns it."""
    return dict(_states)


def known() -> list[str]:
    """Return the names of the frameworks that use() configures."""
    return list(_FRAMEWORKS)


def may_allocate(name: str) -> bool:
    """Return False if a framework is not imported, or is a build without CUDA."""
    module: Any = sys.modules.get(_FRAMEWORKS[name].module)
    return module is not None and not (name == "torch" and module.version.cuda is None)


def _names_of(frameworks: str | Iterable[str] | None) -> list[str]:
    """Return the names of frameworks in an argument of use(), once each."""
    if frameworks is None:
        return known()
    names = [frameworks] if isinstance(frameworks, str) else list(frameworks)
    unknown = [name for name in names if name not in _FRAMEWORKS]
    if unknown:
        names_known = ", ".join(known())
        raise ValueError(f"tarn.use: unknown framework {unknown[0]!r}; the names are {names_known}")
    return list(dict.fromkeys(names))


def _configure(name: str) -> None:
    """Configure an imported framework and note its state; raise the failure of a named one."""
    with _lock:
        if _states[name] == _ACTIVE:
            return
        try:
            module: Any = importlib.import_module(_FRAMEWORKS[name].configured_by)
            module._configure()
        except Exception as error:
            _states[name] = f"skipped: {error}"
            if name in _named:
                raise
        else:
            _states[name] = _ACTIVE


def check_version(name: str, version: str, needed: str) -> None:
    """Raise ImportError if the version of an imported framework is older than the needed one.

    Parameters
    ----------
    name : str
        Name of the distribution, for the message.
    version : str
        Its version, such as "14.2.0rc1".
    needed : str
        The oldest version that works, such as "13.0".
    """
    if _numbers_of(version) < _numbers_of(needed):
        raise ImportError(
            f"tarn.use: {name} {version} is too old: version {needed} or later is needed"
        )


def _numbers_of(version: str) -> list[int]:
    """Return the first three numbers of a version: [14, 2, 0] of "14.2.0rc1" and of "14.2"."""
    numbers = [int(part) for part in re.findall(r"\d+", version.partition("+")[0])]
    return [*numbers, 0, 0, 0][:3]


# --- the import hook ---


class _Hook(importlib.abc.MetaPathFinder):
    """Finds the module of a pending framework as Python does, and configures it after its import."""

    def __init__(self) -> None:
        self._searching = threading.local()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return the spec of a pending framework, with a loader that configures it."""
        name = _NAMES.get(fullname)
        if name is None or _states.get(name) != _PENDING:
            return None
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            if finder is self or find is None:
                continue
            spec: importlib.machinery.ModuleSpec | None = find(fullname, path, target)
            if spec is not None:
                if hasattr(spec.loader, "exec_module"):
                    spec.loader = _Loader(name, spec.loader)
                return spec
        return None


class _Loader(importlib.abc.Loader):
    """Loads a framework with its own loader, and configures it then."""

    def __init__(self, name: str, loader: Any) -> None:
        self._name = name
        self._loader = loader

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        """Create the module with the framework's own loader."""
        module: ModuleType | None = self._loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Execute the module, which sees its own loader, and configure the framework."""
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        _configure(self._name)
        if _states[self._name] != _ACTIVE:
            warnings.warn(
                f"tarn.use: {self._name} is {_states[self._name]}", RuntimeWarning, stacklevel=2
            )
