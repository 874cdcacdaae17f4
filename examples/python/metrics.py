"""Lets `tarn top` read the figures of the program, and prints the largest allocation site."""

import tarn
import tarn.metrics

pool = tarn.mr.PoolMemoryResource()
tracker = tarn.mr.TrackingResourceAdaptor(pool, capture_stacks=True)  # for the sites alone
tarn.mr.set_current_device_resource(tracker)
tarn.metrics.listen()

buffers = [tarn.DeviceBuffer(size=size << 20) for size in (1, 2, 3)]
figures = tarn.metrics.collect()
print(f"{figures['pools'][0]['live']} bytes are live, most of them at:")
print(figures["trackers"][0]["sites"][0]["location"])
