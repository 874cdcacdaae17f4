"""Fills a pool in Python; the report tells why an allocation fails, and which line holds memory."""

import tarn

pool = tarn.mr.PoolMemoryResource(maximum_pool_size="64MiB")
tracker = tarn.mr.TrackingResourceAdaptor(pool, capture_stacks=True)
tarn.mr.set_current_device_resource(tracker)

kept = tarn.DeviceBuffer(size=40 << 20)
try:
    tarn.DeviceBuffer(size=30 << 20)
except MemoryError:
    print(tarn.mr.last_oom_report().text)
    print(tracker.get_outstanding_allocations_str())
