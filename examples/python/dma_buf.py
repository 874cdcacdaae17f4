"""A dma-buf descriptor of device memory, as the driver of a network card needs it."""

import os

import tarn
import tarn.ipc

buffer = tarn.DeviceBuffer(size=1 << 20, mr=tarn.mr.ExportableMemoryResource())
made = tarn.ipc.dma_buf(buffer)
try:  # ibv_reg_dmabuf_mr(pd, made.offset, buffer.size, iova, made.fd, access)
    print(f"{buffer.size} bytes at offset {made.offset} of {made.size}")
finally:
    os.close(made.fd)
