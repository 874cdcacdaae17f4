"""The levels of the debug log."""

from __future__ import annotations

from tarn._debug_log import level_enum

__all__ = ["level_enum"]
