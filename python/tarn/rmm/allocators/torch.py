"""PyTorch's memory from the current device resource, which Tarn does not offer yet."""

from __future__ import annotations

import importlib.util
from typing import Any

__all__ = ["rmm_torch_allocator"]

if importlib.util.find_spec("torch") is not None:
    raise ImportError("tarn.rmm.allocators.torch is not supported: use the real rmm for PyTorch")

rmm_torch_allocator: Any = None
