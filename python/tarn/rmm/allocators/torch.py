"""PyTorch's memory from the current device resource.

As under RMM, torch.Tensor.record_stream() has no effect: a tensor that another stream uses has to
live until that stream is done with it.
"""

from __future__ import annotations

import importlib
from typing import Any

from tarn import _tarn

__all__ = ["rmm_torch_allocator"]


def _allocator() -> Any:
    """Return the allocator for PyTorch; None without PyTorch, or where it finds no GPU."""
    try:
        torch_memory = importlib.import_module("torch.cuda.memory")
        cuda = importlib.import_module("torch.cuda")
    except ImportError:
        return None
    if not cuda.is_available():
        return None
    return torch_memory.CUDAPluggableAllocator(
        _tarn.__file__, "tarn_rmm_torch_allocate", "tarn_rmm_torch_deallocate"
    )


rmm_torch_allocator: Any = _allocator()
