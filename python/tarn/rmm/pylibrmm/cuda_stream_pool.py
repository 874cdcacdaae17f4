"""A fixed set of streams: tarn.CudaStreamPool under RMM's name."""

from __future__ import annotations

from tarn import CudaStreamPool

__all__ = ["CudaStreamPool"]
