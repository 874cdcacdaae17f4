"""List the buffers that are still allocated, and the lines that allocated them."""

import tarn

tracker = tarn.mr.TrackingResourceAdaptor(tarn.mr.PoolMemoryResource(), capture_stacks=True)
kept = []


def step(number):
    """The part of the program in which a leak is suspected."""
    scratch = tarn.DeviceBuffer(size=4096, mr=tracker)
    if number % 10 == 0:
        kept.append(scratch)


for number in range(20):
    step(number)
print(tracker.get_outstanding_allocations_str())
assert tracker.get_allocated_bytes() == 2 * 4096
kept.clear()
