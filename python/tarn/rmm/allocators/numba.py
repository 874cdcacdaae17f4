"""Numba's device memory from the current device resource: tarn.numba under RMM's name."""

from __future__ import annotations

from tarn.numba import TarnNumbaManager as RMMNumbaManager
from tarn.numba import _numba_memory_manager

__all__ = ["RMMNumbaManager", "_numba_memory_manager"]
