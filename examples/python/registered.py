"""Memory that NCCL or UCX registers: one handle for a block, and the same address again."""

import tarn

resource = tarn.mr.ExportableMemoryResource(cache_size="64MiB")
buffer = tarn.DeviceBuffer(size=8 << 20, mr=resource)
address = buffer.ptr  # ncclCommRegister(communicator, address, 8 << 20, &handle)
del buffer  # after ncclCommDeregister()
again = tarn.DeviceBuffer(size=8 << 20, mr=resource)
assert again.ptr == address  # the memory stayed mapped at its place
print(f"{again.size} bytes at {again.ptr:#x}")
