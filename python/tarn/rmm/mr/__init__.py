"""RMM's memory resources: the classes of tarn.mr, and the log of all devices."""

from __future__ import annotations

from tarn.rmm.mr import experimental
from tarn.rmm.pylibrmm.memory_resource import _memory_resource
from tarn.rmm.pylibrmm.memory_resource._memory_resource import *  # noqa: F403

__all__ = ["experimental"]
__all__ += _memory_resource.__all__
