"""Lets Numba and cuda.core allocate from one pool of Tarn."""

import tarn

tarn.use("pool")  # at the top of the program, before or after the imports

import numpy as np
from cuda.core import Device
from numba import cuda

array = cuda.to_device(np.zeros(1000))
device = Device(0)
device.set_current()
buffer = device.allocate(1000, stream=device.create_stream())
pool = tarn.mr.get_current_device_resource()
print(f"{pool.statistics().live_blocks} blocks are live; {tarn.use()}")
