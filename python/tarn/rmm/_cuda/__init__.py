"""Queries about the driver and its devices."""

from __future__ import annotations

from tarn.rmm._cuda import gpu

__all__ = ["gpu"]
