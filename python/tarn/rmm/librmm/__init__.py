"""The package in which RMM has its C++ declarations; Tarn has none."""

from __future__ import annotations

from tarn.rmm.librmm import _logger

__all__ = ["_logger"]
