"""The module of RMM that has the memory resources: the names of tarn.mr."""

from __future__ import annotations

from tarn.rmm.pylibrmm.memory_resource import _memory_resource, experimental
from tarn.rmm.pylibrmm.memory_resource._memory_resource import *  # noqa: F403

__all__ = ["experimental"]
__all__ += _memory_resource.__all__
