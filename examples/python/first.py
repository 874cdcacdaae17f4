"""Allocates from Tarn in Python: a limit and a count over the driver's allocator."""

import tarn
from tarn import mr

counter = mr.StatisticsResourceAdaptor(mr.CudaMemoryResource())
limiter = mr.LimitingResourceAdaptor(counter, allocation_limit=1 << 20)
mr.set_current_device_resource(limiter)

buffer = tarn.DeviceBuffer.to_device(bytes(range(80)))
assert buffer.tobytes() == bytes(range(80))
print(counter.allocation_counts)
try:
    tarn.DeviceBuffer(size=2 << 20)
except tarn.OutOfMemoryError as error:
    print(error)
