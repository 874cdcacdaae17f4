"""A replacement of PyTorch for machines without it: what tarn.torch uses of its allocators.

Names and errors are PyTorch's. An allocator calls the functions that it was given, by their
addresses, as PyTorch does. So a test reaches the functions of libtarn.
"""

import ctypes
from types import SimpleNamespace

ctypes.CDLL("libstdc++.so.6")  # as PyTorch does

from . import _C, cuda  # noqa: E402, F401

__version__ = "2.11.0+cu130"
version = SimpleNamespace(cuda="13.0")
OutOfMemoryError = type("OutOfMemoryError", (RuntimeError,), {})
