"""Passes buffers to other libraries by DLPack, and takes theirs."""

import numpy as np
import tarn
from cuda.core import Device

device = Device(0)
device.set_current()
stream = device.create_stream()
theirs = device.allocate(1000, stream=stream)
theirs.fill(7, stream=stream)
ours = tarn.DeviceBuffer.from_dlpack(theirs, stream=stream)  # the same memory
print(f"{ours.tobytes(stream)[:3]} at {ours.ptr:#x}")

pinned = tarn.DeviceBuffer.to_device(b"bytes", mr=tarn.mr.PinnedHostMemoryResource())
print(np.from_dlpack(pinned))
