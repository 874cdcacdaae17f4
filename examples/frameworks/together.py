"""Passes memory of cuda.core to Numba by DLPack and __cuda_array_interface__, on one pool."""

import tarn

tarn.use("pool")

from cuda.core import Device
from numba import cuda

device = Device(0)
device.set_current()
stream = device.create_stream()
buffer = device.allocate(1000, stream=stream)  # cuda.core's, on a stream
buffer.fill(7, stream=stream)
shared = tarn.DeviceBuffer.from_dlpack(buffer, stream=stream)
array = cuda.as_cuda_array(shared)  # Numba's view; its stream waits for `stream`
other = cuda.device_array(1000, "u1")  # Numba's own, from the same pool
other.copy_to_device(array)
pool = tarn.mr.get_current_device_resource()
print(f"{other.copy_to_host()[:3]}, {pool.statistics().live_requested} bytes are live")
