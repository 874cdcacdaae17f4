"""Lets all arrays of Warp come from a pool of Tarn."""

import tarn
import warp as wp

tarn.use("pool", frameworks="warp")  # before wp.init()


@wp.kernel
def double(x: wp.array(dtype=float)):
    i = wp.tid()
    x[i] = 2.0 * x[i]


x = wp.full(1 << 20, 3.0, dtype=float, device="cuda:0")
wp.launch(double, dim=x.size, inputs=[x], device="cuda:0")
pool = tarn.mr.get_current_device_resource()
print(f"{x.numpy().sum():.0f}, {pool.statistics().live} bytes live")
