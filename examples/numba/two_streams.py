"""Uses an array on two streams: its bytes need an event, its memory does not."""

import numpy as np
from numba import cuda

host = np.arange(1 << 17, dtype=np.float64)
producer, consumer = cuda.stream(), cuda.stream()
written = cuda.event()

for number in range(5):
    array = cuda.to_device(host + number, stream=producer)
    other = cuda.device_array_like(array)
    written.record(producer)
    written.wait(consumer)  # before the first use on `consumer`
    other.copy_to_device(array, stream=consumer)
    del array  # no event, although `consumer` may still read it

result = other.copy_to_host(stream=consumer)
consumer.synchronize()
assert (result == host + 4).all()
print("fine")
