"""Requests more than the largest free block of a pool, and prints why the allocation fails."""

import tarn

# Over an upstream the pool has segments at fixed addresses, so free blocks cannot be joined.
pool = tarn.mr.PoolMemoryResource(tarn.mr.CudaMemoryResource(), maximum_pool_size="64MiB")
tarn.mr.set_current_device_resource(pool)


def load(number):
    return tarn.DeviceBuffer(size=(number % 3 + 1) << 20)


def gather():
    return tarn.DeviceBuffer(size=40 << 20)


images = [load(number) for number in range(30)]
kept = images[::3]
del images
try:
    gather()
except tarn.OutOfMemoryError as error:
    print(error)
    print(tarn.mr.last_oom_report().text)
