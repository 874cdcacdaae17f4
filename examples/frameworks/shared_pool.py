"""Lets Numba and cuda.core allocate from one pool: what one frees, the other gets."""

import tarn

# At the top of the program, before or after the imports. Numba's memory does not fit twice.
tarn.use(tarn.mr.PoolMemoryResource(maximum_pool_size="64MiB"))

from cuda.core import Device
from numba import cuda

MIB = 1 << 20


def show(what):
    figures = tarn.mr.get_current_device_resource().statistics()
    print(
        f"{what:<25} {figures.live // MIB:>3} MiB live, {figures.reserved // MIB:>3} MiB reserved"
    )


array = cuda.device_array(48 * MIB, "u1")
address = array.device_ctypes_pointer.value
show("Numba has 48 MiB:")
del array
show("Numba freed them:")
device = Device(0)
device.set_current()
buffer = device.allocate(48 * MIB, stream=device.create_stream())
show("cuda.core has 48 MiB:")
print(f"cuda.core has {'the' if int(buffer.handle) == address else 'other than the'} "
      "memory that Numba freed")  # fmt: skip
