"""Lets RMM allocate from a pool of Tarn, and Tarn from a resource of RMM."""

import rmm
import tarn

pool = tarn.mr.PoolMemoryResource(maximum_pool_size="64MiB")
mr = tarn.mr.to_rmm(pool)  # a rmm.mr.DeviceMemoryResource
rmm.mr.set_per_device_resource(0, mr)  # for cuDF and other users of RMM
counter = rmm.mr.StatisticsResourceAdaptor(mr)  # adaptors of RMM work on it
buffer = rmm.DeviceBuffer(size=1 << 20, mr=counter)
print(f"RMM: {counter.allocation_counts.current_bytes} bytes, Tarn: {pool.statistics().live}")

upstream = tarn.mr.from_rmm(counter)  # a tarn.mr.DeviceMemoryResource
other = tarn.DeviceBuffer(size=1000, mr=upstream)
print(f"RMM: {counter.allocation_counts.current_bytes} bytes, compiled: {mr.compiled}")
