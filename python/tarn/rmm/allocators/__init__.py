"""Allocators for CuPy, Numba and PyTorch. Each module is imported by its own name."""
