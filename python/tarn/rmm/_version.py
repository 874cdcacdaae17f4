"""Tarn's version under RMM's names."""

from __future__ import annotations

from tarn._tarn import __version__

__all__ = ["__git_commit__", "__version__"]

__git_commit__ = ""
