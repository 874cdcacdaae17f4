"""Finds why a program allocated no memory from Tarn, for the report of `tarn run` at its end.

Examples: the program set a manager of its own, ran on Numba's simulator, or never used CUDA.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from tarn import _frameworks

_DRIVERS = ("numba.cuda.cudadrv.driver", "numba_cuda_mlir.numba_cuda.cudadrv.driver")


def why_nothing_came() -> str | None:
    """Return why no memory of this process came through Tarn; None if some did."""
    native: Any = sys.modules.get("tarn._tarn")
    if native is not None and native.log_counts()[0] > 0:
        return None
    drivers = [sys.modules[name] for name in _DRIVERS if name in sys.modules]
    others = {
        name: state
        for name, state in _frameworks.states().items()
        if not name.startswith("numba") and not (drivers and name == "cuda.core")  # Numba's import
    }
    if "active" in others.values() and "TARN_LOG" not in os.environ:
        return None  # it may have allocated: without a log nothing is counted
    plugin: Any = sys.modules.get("tarn.numba")
    if plugin is not None and plugin._Settings.trouble:
        return str(plugin._Settings.trouble)
    if plugin is not None and not plugin._is_logging() and other_manager() is None:
        return None  # likewise
    if os.environ.get("NUMBA_ENABLE_CUDASIM", "0") not in ("", "0"):
        return "NUMBA_ENABLE_CUDASIM is set: Numba ran on its simulator"
    if drivers:
        return _why_not_with(drivers[0])
    imported = [f"{name} is {state}" for name, state in others.items() if state != "pending"]
    return "; ".join(imported) or "the program imported no framework that Tarn serves"


def other_manager() -> str | None:
    """Return the name of a manager that is not Tarn's and that Numba uses; None: there is none."""
    for name in _DRIVERS:
        manager = getattr(sys.modules.get(name), "_memory_manager", None)
        if manager is not None and not getattr(manager, "__module__", "").startswith("tarn."):
            return f"{manager.__module__}.{getattr(manager, '__qualname__', manager)}"
    return None


def _why_not_with(driver: Any) -> str:
    """Return the reason that the state of Numba's driver module gives."""
    manager = driver._memory_manager
    if manager is None:
        return "Numba created no CUDA context"
    if getattr(manager, "__module__", "").startswith("tarn."):
        return "the program requested no memory from Numba"
    name = f"{manager.__module__}.{getattr(manager, '__qualname__', manager)}"
    if manager is driver.NumbaCUDAMemoryManager:
        return f"NUMBA_CUDA_MEMORY_MANAGER was changed: Numba's own manager ({name}) was used"
    return f"the program set another memory manager: {name}"
