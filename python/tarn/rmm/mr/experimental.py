"""Resources that RMM calls experimental."""

from __future__ import annotations

from tarn.mr import CudaAsyncManagedMemoryResource

__all__ = ["CudaAsyncManagedMemoryResource"]
