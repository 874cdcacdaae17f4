"""Lets cuda.core allocate from a pool of Tarn."""

import tarn
from cuda.core import Device

tarn.use("pool", frameworks="cuda.core")
device = Device(0)
device.set_current()
stream = device.create_stream()
buffer = device.allocate(1 << 20, stream=stream)  # a block of the pool
buffer.fill(7, stream=stream)
pool = tarn.mr.get_current_device_resource()
print(f"{pool.statistics().live} bytes are live")
buffer.close(stream)  # the memory is reused in the order of `stream`

own = tarn.cuda_core.MemoryResource(tarn.mr.PoolMemoryResource(maximum_pool_size="64MiB"))
part = own.allocate(1000, stream=stream)
print(f"{part.size} bytes of {part.memory_resource}")
