"""Uses a buffer on two streams: one waits for the other before the use, and before the free.

The streams are cuda.core's; `consumer.wait(producer)` records an event and waits for it, as
PyTorch's `consumer.wait_stream(producer)` does.
"""

import tarn
from cuda.core import Device

data = bytes(range(256)) * 4096
pool = tarn.mr.PoolMemoryResource(maximum_pool_size="64MiB")
device = Device(0)
device.set_current()
producer, consumer = device.create_stream(), device.create_stream()

block = tarn.DeviceBuffer.to_device(data, stream=producer, mr=pool)
consumer.wait(producer)  # before the first use on `consumer`
result = tarn.DeviceBuffer(ptr=block.ptr, size=block.size, stream=consumer, mr=pool)
producer.wait(consumer)  # before the free, which is on `producer`
del block

# The same memory again, now freed on the stream that used it last.
block = tarn.DeviceBuffer.to_device(bytes(len(data)), stream=producer, mr=pool)
consumer.wait(producer)
other = tarn.DeviceBuffer(ptr=block.ptr, size=block.size, stream=consumer, mr=pool)
block.resize(block.size, stream=consumer)  # the buffer's stream from now on
del block

assert result.tobytes(consumer) == data
assert other.tobytes(consumer) == bytes(len(data))
print(f"{pool.statistics().reserved} bytes are reserved")
