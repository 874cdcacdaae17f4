"""A loader that acts when its module has been loaded."""

from __future__ import annotations

import importlib.abc
import importlib.util
from collections.abc import Callable
from types import ModuleType
from typing import Any


class LoaderThen(importlib.abc.Loader):
    """Loads the module as its own loader does, and then acts on it."""

    def __init__(self, original: Any, act: Callable[[ModuleType], None]):
        self._original = original
        self._act = act

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)

    def create_module(self, spec: Any) -> ModuleType | None:
        """Create the module as its own loader does."""
        module: ModuleType | None = self._original.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Run the module, and act."""
        self._original.exec_module(module)
        self._act(module)


def spec_then(name: str, act: Callable[[ModuleType], None]) -> Any:
    """Return the specification of a module with a loader that acts behind its own."""
    spec = importlib.util.find_spec(name)
    if spec is not None and spec.loader is not None:
        spec.loader = LoaderThen(spec.loader, act)
    return spec
