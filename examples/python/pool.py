"""Uses a pool as the current device resource: buffers on a registered stream, statistics, trim."""

import tarn

pool = tarn.mr.PoolMemoryResource(maximum_pool_size="64MiB")
tarn.mr.set_current_device_resource(pool)
stream = tarn.Stream(flags=tarn.CudaStreamFlags.NON_BLOCKING).register()

for number in range(1000):
    buffer = tarn.DeviceBuffer(size=(number % 64 + 1) * 1000, stream=stream)
del buffer

seen = pool.statistics()
print(f"{seen.allocations} allocations, {seen.driver_calls} driver calls")

cache = [tarn.DeviceBuffer(size=40 << 20, stream=stream)]
pool.add_oom_callback(lambda nbytes, attempt: bool(cache and cache.pop()))
large = tarn.DeviceBuffer(size=50 << 20, stream=stream)  # the cache frees memory
print(f"{seen.maximum} bytes at most, {pool.statistics().live} live")

try:
    tarn.DeviceBuffer(size=100 << 20)
except tarn.OutOfMemoryError:
    print(tarn.mr.last_oom_report().text)

del large
stream.synchronize()
del stream  # unregistered: the pool knows that its work is done
print(f"trim gave {pool.trim()} bytes back")
