"""Lets all arrays of CuPy come from a pool of Tarn."""

import cupy
import tarn

tarn.use("pool", frameworks="cupy")  # before the first array
x = cupy.arange(1 << 20, dtype="f4")
stream = cupy.cuda.Stream(non_blocking=True)
stream.wait_event(cupy.cuda.get_current_stream().record())
with stream:
    y = cupy.sqrt(x) * 2  # allocated on `stream`, and freed in its order
stream.synchronize()
tarn.cupy.free_on(x, stream)  # `stream` was the last to use it
pool = tarn.mr.get_current_device_resource()
print(f"sum {float(y.sum()):.0f}, {pool.statistics().live} bytes live")
