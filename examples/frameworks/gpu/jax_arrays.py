"""Passes memory of Tarn to JAX and back by DLPack."""

import os

os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"  # before the import of JAX

import jax
import numpy as np
import tarn

buffer = tarn.DeviceBuffer.to_device(np.arange(200, dtype="u1"), mr=tarn.mr.PoolMemoryResource())
array = jax.dlpack.from_dlpack(buffer)  # the same memory
doubled = (array.astype("uint32") * 2).block_until_ready()
back = tarn.DeviceBuffer.from_dlpack(doubled)
values = np.frombuffer(back.tobytes(), "u4")
print(f"{values.sum()} is {sum(range(0, 400, 2))}")
