"""The modules that RMM compiles: buffers, streams, resources, the debug log."""

from __future__ import annotations

from tarn.rmm.pylibrmm import (
    cuda_stream_pool,
    device_buffer,
    helper,
    logger,
    memory_resource,
    stream,
    utils,
)
from tarn.rmm.pylibrmm.device_buffer import DeviceBuffer

__all__ = [
    "DeviceBuffer",
    "cuda_stream_pool",
    "device_buffer",
    "helper",
    "logger",
    "memory_resource",
    "stream",
    "utils",
]
