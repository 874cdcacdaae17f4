/* start.c -- prepares a process for a part: opened, initialized, ready. */
#include "facts.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

CUdevice device;
CUcontext context;

void open_driver(void)
{
    const char *path = getenv("TARN_DRIVER");

    if (!calls_open(path && *path ? path : "libcuda.so.1"))
        _exit(77);
}

void init_driver(void)
{
    open_driver();
    if (cuInit(0) != CUDA_SUCCESS || cuDeviceGet(&device, 0) != CUDA_SUCCESS) {
        fprintf(stderr, "driver_facts: no device\n");
        _exit(78);
    }
}

static void nothing(void *data)
{
    (void)data;
}

/* The first fill or host function may load code or start threads, and that may wait for
 * the device. Behind a closed gate it would wait forever, so it runs here. */
static void warm_up(void)
{
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr a = block(4096), b = block(4096);

    cuMemsetD8Async(a, 0, 4096, stream);
    cuMemsetD8Async(a + 1, 0, 99, stream);
    cuMemsetD16Async(a, 0, 64, stream);
    cuMemsetD32Async(a, 0, 64, stream);
    cuMemcpyDtoDAsync(b, a, 4096, stream);
    cuMemcpyDtoDAsync(b, a, 1, stream);
    cuLaunchHostFunc(stream, nothing, NULL);
    cuStreamSynchronize(stream);
    peek(b);
    cuMemFree(a);
    cuMemFree(b);
    cuStreamDestroy(stream);
}

void ready(void)
{
    init_driver();
    if (cuDevicePrimaryCtxRetain(&context, device) != CUDA_SUCCESS ||
        cuCtxSetCurrent(context) != CUDA_SUCCESS) {
        fprintf(stderr, "driver_facts: no context\n");
        _exit(78);
    }
    warm_up();
}

int devices(void)
{
    int count = 0;

    cuDeviceGetCount(&count);
    return count;
}
