"""nbep7_cupy.py -- Numba on CuPy's memory pool, with handles for other processes.

NBEP 7 shows this with a plugin that lacked those handles, so that eight of Numba's tests failed.
Here Tarn's manager serves, and CuPy's pool is the resource beneath it, so no operation is missing.
The printed lines are the proposal's.

    python nbep7_cupy.py
    NUMBA_CUDA_MEMORY_MANAGER=nbep7_cupy python program.py

Blocks return to the pool when the last array over them ends. In `cuda.defer_cleanup()` blocks wait
for its end, because CuPy may get them only after a device-wide wait. Empty segments return to the
driver only at a reset.

Without the lines it is one call, anywhere before the first use of CUDA:

    tarn.use_tarn_for_numba(resource=tarn.mr.CupyMemoryResource())
"""

import tarn
import tarn.numba
from tarn import mr


class TellingPool(mr.CupyMemoryResource):
    """Return CuPy's default pool, with a log line for each block."""

    def allocate(self, nbytes, stream=tarn.DEFAULT_STREAM):
        address = super().allocate(nbytes, stream)
        print(f"Allocated {nbytes} bytes at {address:x}")
        return address

    def deallocate(self, ptr, nbytes, stream=tarn.DEFAULT_STREAM):
        print(f"Freeing {nbytes} bytes at {ptr:x}")
        super().deallocate(ptr, nbytes, stream)


def use_cupy_mm_for_numba():
    tarn.use_tarn_for_numba(resource=TellingPool())


def __getattr__(name):
    """Numba reads `_numba_memory_manager` if the environment names this module."""
    if name != "_numba_memory_manager":
        raise AttributeError(name)
    for device in range(tarn.driver_info().device_count):
        mr.set_per_device_resource(device, mr.CupyMemoryResource())
    return tarn.numba.TarnNumbaManager


if __name__ == "__main__":
    import numpy as np
    from numba import cuda

    use_cupy_mm_for_numba()
    a = np.zeros(10)
    d_a = cuda.to_device(a)
    del d_a
