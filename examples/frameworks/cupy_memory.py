"""Gives memory of a pool of Tarn to an array of CuPy, without a kernel."""

import cupy
import tarn
import tarn.cupy

pool = tarn.mr.PoolMemoryResource(maximum_pool_size="64MiB")
stream = tarn.Stream()
with cupy.cuda.using_allocator(tarn.cupy.Allocator(pool, stream)):
    array = cupy.ndarray((1000, 10), "f4")
print(f"{array.nbytes} bytes of CuPy's, {pool.statistics().live} live in the pool")
del array  # freed in the order of `stream`
print(f"{pool.statistics().live} live in the pool")
