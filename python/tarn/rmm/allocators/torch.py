"""PyTorch's memory from the current device resource."""

from __future__ import annotations

from typing import Any

__all__ = ["rmm_torch_allocator"]

rmm_torch_allocator: Any = None  # None where RMM has None: without PyTorch, or without a GPU
