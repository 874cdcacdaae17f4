"""tarn.rmm in the place of the package `rmm`, for libraries that import it themselves."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from types import ModuleType

_OURS = "tarn.rmm"
_THEIRS = "rmm"
# Parts of the errors with which an extension fails that imports RMM's Cython interface.
_CYTHON = ("__pyx_capi__", "__pyx_vtable__", "size changed, may indicate binary", "tarn.rmm.")


def _is_theirs(name: str) -> bool:
    return name == _THEIRS or name.startswith(_THEIRS + ".")


def _ours(name: str) -> str:
    """Return the module that takes the place of `rmm` or `rmm.…`."""
    return _OURS + name[len(_THEIRS) :]


class _Alias(importlib.abc.Loader):
    """Load a module of tarn.rmm under RMM's name: both names are one module."""

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        module = importlib.import_module(_ours(spec.name))
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec  # the import has replaced it


class _Extension(importlib.machinery.ExtensionFileLoader):
    """Load an extension, and explain the failure of one that needs RMM's Cython interface."""

    def exec_module(self, module: ModuleType) -> None:
        try:
            super().exec_module(module)
        except Exception as error:
            if not any(mark in str(error) for mark in _CYTHON) or not self._names_rmm():
                raise
            raise ImportError(
                f"{self.name} uses the Cython interface of rmm, which tarn.rmm does not have: "
                "import the real rmm, and pass it a resource of Tarn with tarn.mr.to_rmm()",
                name=self.name,
                path=str(self.path),
            ) from error

    def _names_rmm(self) -> bool:
        """Return True if the file names a module of RMM."""
        with open(self.path, "rb") as file:
            return b"rmm.pylibrmm" in file.read()


class _Modules(importlib.abc.MetaPathFinder):
    """Find `rmm` and its modules in tarn.rmm."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if not _is_theirs(fullname) or importlib.util.find_spec(_ours(fullname)) is None:
            return None
        return importlib.machinery.ModuleSpec(fullname, _Alias(), is_package=True)


class _Extensions(importlib.abc.MetaPathFinder):
    """Find extensions where Python finds them, and load them with an explanation."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is None or type(spec.loader) is not importlib.machinery.ExtensionFileLoader:
            return None
        spec.loader = _Extension(spec.loader.name, spec.loader.path)
        return spec


def install_as_rmm() -> None:
    """Make `import rmm` import tarn.rmm in this process, in any library.

    It serves libraries that use RMM's Python names. An extension that uses RMM's Cython interface,
    as those of cuDF do, fails with an ImportError. Such a library needs the real RMM, over a
    resource of `tarn.mr.to_rmm()`.

    Raises
    ------
    RuntimeError
        The real RMM is imported already.
    """
    present = sys.modules.get(_THEIRS)
    if present is sys.modules[_OURS]:
        return
    if present is not None:
        raise RuntimeError(
            f"rmm is imported already, from {present.__file__}: call install_as_rmm() before, "
            "or pass it a resource of Tarn with tarn.mr.to_rmm()"
        )
    finders = sys.meta_path
    python = importlib.machinery.PathFinder
    finders.insert(finders.index(python) if python in finders else len(finders), _Extensions())
    finders.insert(0, _Modules())
    importlib.import_module(_THEIRS)
