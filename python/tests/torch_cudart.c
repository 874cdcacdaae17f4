/* torch_cudart.c -- the functions of the CUDA runtime that PyTorch calls, on the driver.
 *
 * PyTorch runs on the driver simulator with this library preloaded, because the CUDA
 * runtime itself does not start there. Memory, streams, events, copies, captures and graphs
 * are those of the driver. Kernels are not launched: their results are undefined. Inside a
 * capture a launch becomes a memset node of no tensor, so that the graph is not empty.
 */
#define _GNU_SOURCE
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#undef cudaGetDeviceProperties
#undef cudaStreamGetCaptureInfo
#undef cudaMallocAsync

CUresult cuStreamGetCaptureInfo_v2(CUstream, CUstreamCaptureStatus *, cuuint64_t *,
                                   CUgraph *, const CUgraphNode **, size_t *);

enum { DEVICES = 16, KERNEL_BYTES = 512 };

static _Thread_local int current_device;
static _Thread_local cudaError_t last_error;
static CUcontext contexts[DEVICES];
static CUdeviceptr scratch[DEVICES]; /* the target of memsets for kernels in captures */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static cudaError_t note(CUresult result)
{
    if (result != CUDA_SUCCESS)
        last_error = (cudaError_t)result;
    return (cudaError_t)result;
}

/* Make the primary context of the current device current. */
static CUresult enter(void)
{
    CUresult result = cuInit(0);

    pthread_mutex_lock(&lock);
    if (result == CUDA_SUCCESS && !contexts[current_device])
        result = cuDevicePrimaryCtxRetain(&contexts[current_device], current_device);
    pthread_mutex_unlock(&lock);
    return result == CUDA_SUCCESS ? cuCtxSetCurrent(contexts[current_device]) : result;
}

#define RUN(call)                     \
    do {                              \
        CUresult entered_ = enter();  \
        if (entered_ != CUDA_SUCCESS) \
            return note(entered_);    \
        return note(call);            \
    } while (0)

/* --- devices --- */

cudaError_t cudaGetDeviceCount(int *out)
{
    CUresult result = cuInit(0);

    return note(result == CUDA_SUCCESS ? cuDeviceGetCount(out) : result);
}

cudaError_t cudaGetDevice(int *out)
{
    *out = current_device;
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int device)
{
    int count;

    if (cudaGetDeviceCount(&count) != cudaSuccess || device < 0 || device >= count)
        return note(CUDA_ERROR_INVALID_DEVICE);
    current_device = device;
    return note(enter());
}

cudaError_t cudaDeviceGetAttribute(int *out, enum cudaDeviceAttr attribute, int device)
{
    return note(cuDeviceGetAttribute(out, (CUdevice_attribute)attribute, device));
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *out, int device)
{
    memset(out, 0, sizeof *out);
    cuDeviceGetName(out->name, sizeof out->name, device);
    cuDeviceTotalMem(&out->totalGlobalMem, device);
    out->major = 9;
    out->multiProcessorCount = 132;
    out->maxThreadsPerMultiProcessor = 2048;
    out->maxThreadsPerBlock = 1024;
    out->maxThreadsDim[0] = out->maxThreadsDim[1] = 1024;
    out->maxThreadsDim[2] = 64;
    out->maxGridSize[0] = 2147483647;
    out->maxGridSize[1] = out->maxGridSize[2] = 65535;
    out->warpSize = 32;
    out->sharedMemPerBlock = 49152;
    out->sharedMemPerBlockOptin = 232448;
    out->sharedMemPerMultiprocessor = 233472;
    out->regsPerBlock = out->regsPerMultiprocessor = 65536;
    out->l2CacheSize = 60 << 20;
    out->textureAlignment = 512;
    out->unifiedAddressing = 1;
    return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int *out, int device, int peer)
{
    return note(cuDeviceCanAccessPeer(out, device, peer));
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags)
{
    (void)peer, (void)flags;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    *least = 0;
    *greatest = -5;
    return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize(void)
{
    RUN(cuCtxSynchronize());
}

cudaError_t cudaDriverGetVersion(int *out)
{
    return note(cuDriverGetVersion(out));
}

cudaError_t cudaRuntimeGetVersion(int *out)
{
    *out = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaGetLastError(void)
{
    cudaError_t error = last_error;

    last_error = cudaSuccess;
    return error;
}

cudaError_t cudaPeekAtLastError(void)
{
    return last_error;
}

const char *cudaGetErrorName(cudaError_t error)
{
    const char *text = NULL;

    return cuGetErrorName((CUresult)error, &text) == CUDA_SUCCESS ? text : "unknown";
}

const char *cudaGetErrorString(cudaError_t error)
{
    const char *text = NULL;

    return cuGetErrorString((CUresult)error, &text) == CUDA_SUCCESS ? text : "unknown";
}

/* --- memory --- */

cudaError_t cudaMalloc(void **out, size_t bytes)
{
    RUN(cuMemAlloc((CUdeviceptr *)out, bytes));
}

cudaError_t cudaFree(void *block)
{
    RUN(block ? cuMemFree((CUdeviceptr)block) : CUDA_SUCCESS);
}

cudaError_t cudaMemGetInfo(size_t *free_out, size_t *total_out)
{
    RUN(cuMemGetInfo(free_out, total_out));
}

cudaError_t cudaHostAlloc(void **out, size_t bytes, unsigned flags)
{
    RUN(cuMemHostAlloc(out, bytes, flags));
}

cudaError_t cudaFreeHost(void *block)
{
    RUN(cuMemFreeHost(block));
}

static CUdeviceptr at(const void *pointer)
{
    return (CUdeviceptr)(uintptr_t)pointer;
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
    (void)kind;
    RUN(cuMemcpy(at(to), at(from), bytes));
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes,
                            enum cudaMemcpyKind kind, cudaStream_t stream)
{
    (void)kind;
    RUN(cuMemcpyAsync(at(to), at(from), bytes, stream));
}

cudaError_t cudaMemcpyPeerAsync(void *to, int to_device, const void *from,
                                int from_device, size_t bytes, cudaStream_t stream)
{
    (void)to_device, (void)from_device;
    RUN(cuMemcpyAsync(at(to), at(from), bytes, stream));
}

cudaError_t cudaMemset(void *to, int value, size_t bytes)
{
    RUN(cuMemsetD8(at(to), (unsigned char)value, bytes));
}

cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream)
{
    RUN(cuMemsetD8Async(at(to), (unsigned char)value, bytes, stream));
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *out,
                                     const void *pointer)
{
    unsigned type = 0;
    int device = 0;

    memset(out, 0, sizeof *out);
    if (enter() != CUDA_SUCCESS ||
        cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at(pointer)) !=
            CUDA_SUCCESS)
        return cudaSuccess; /* unregistered */
    cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, at(pointer));
    out->type = type == CU_MEMORYTYPE_DEVICE ? cudaMemoryTypeDevice : cudaMemoryTypeHost;
    out->device = device;
    out->devicePointer = out->hostPointer = (void *)pointer;
    return cudaSuccess;
}

/* --- streams and events --- */

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *out, unsigned flags, int priority)
{
    (void)priority;
    RUN(cuStreamCreate(out, flags));
}

cudaError_t cudaStreamCreate(cudaStream_t *out)
{
    return cudaStreamCreateWithPriority(out, 0, 0);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    RUN(cuStreamDestroy(stream));
}

cudaError_t cudaStreamGetPriority(cudaStream_t stream, int *out)
{
    (void)stream;
    *out = 0;
    return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    CUresult result = enter();

    if (result == CUDA_SUCCESS)
        result = cuStreamQuery(stream);
    return result == CUDA_ERROR_NOT_READY ? cudaErrorNotReady : note(result);
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    RUN(cuStreamSynchronize(stream));
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    RUN(cuStreamWaitEvent(stream, event, flags));
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned flags)
{
    RUN(cuEventCreate(out, flags));
}

cudaError_t cudaEventCreate(cudaEvent_t *out)
{
    return cudaEventCreateWithFlags(out, 0);
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    RUN(cuEventDestroy(event));
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    RUN(cuEventRecord(event, stream));
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream,
                                     unsigned flags)
{
    (void)flags;
    return cudaEventRecord(event, stream);
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    CUresult result = enter();

    if (result == CUDA_SUCCESS)
        result = cuEventQuery(event);
    return result == CUDA_ERROR_NOT_READY ? cudaErrorNotReady : note(result);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    RUN(cuEventSynchronize(event));
}

cudaError_t cudaEventElapsedTime(float *out, cudaEvent_t from, cudaEvent_t to)
{
    (void)from, (void)to;
    *out = 1;
    return cudaSuccess;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t call, void *data)
{
    RUN(cuLaunchHostFunc(stream, call, data));
}

/* --- captures and graphs --- */

cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode)
{
    return note(cuThreadExchangeStreamCaptureMode((CUstreamCaptureMode *)mode));
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *out)
{
    RUN(cuStreamIsCapturing(stream, (CUstreamCaptureStatus *)out));
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
    RUN(cuStreamBeginCapture(stream, (CUstreamCaptureMode)mode));
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *out)
{
    RUN(cuStreamEndCapture(stream, out));
}

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream,
                                     enum cudaStreamCaptureStatus *status,
                                     unsigned long long *id, cudaGraph_t *graph,
                                     const cudaGraphNode_t **dependencies,
                                     const cudaGraphEdgeData **edges, size_t *count)
{
    cuuint64_t number = 0;
    CUgraph ignored;
    CUresult result = enter();

    if (edges)
        *edges = NULL;
    if (count)
        *count = 0;
    if (dependencies)
        *dependencies = NULL;
    if (result == CUDA_SUCCESS)
        result = cuStreamGetCaptureInfo_v2(stream, (CUstreamCaptureStatus *)status,
                                           &number, graph ? graph : &ignored, NULL, NULL);
    if (id)
        *id = number;
    return note(result);
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *out, cudaGraph_t graph,
                                          unsigned long long flags)
{
    (void)flags;
    RUN(cuGraphInstantiateWithFlags(out, graph, 0));
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
    RUN(cuGraphLaunch(exec, stream));
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    RUN(cuGraphDestroy(graph));
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    RUN(cuGraphExecDestroy(exec));
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count)
{
    RUN(cuGraphGetNodes(graph, nodes, count));
}

/* --- kernels --- */

void **__cudaRegisterFatBinary(void *binary)
{
    static void *handle;

    (void)binary;
    return &handle;
}

void __cudaRegisterFatBinaryEnd(void **handle)
{
    (void)handle;
}

void __cudaUnregisterFatBinary(void **handle)
{
    (void)handle;
}

void __cudaRegisterFunction(void **handle, const char *host, char *device,
                            const char *name, int limit, void *a, void *b, void *c,
                            void *d, int *size)
{
    (void)handle, (void)host, (void)device, (void)name, (void)limit;
    (void)a, (void)b, (void)c, (void)d, (void)size;
}

void __cudaRegisterVar(void **handle, char *host, char *device, const char *name,
                       int external, size_t bytes, int constant, int global)
{
    (void)handle, (void)host, (void)device, (void)name;
    (void)external, (void)bytes, (void)constant, (void)global;
}

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, void *stream);
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, void *stream)
{
    (void)grid, (void)block, (void)shared, (void)stream;
    return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared,
                                       void *stream)
{
    *grid = *block = (dim3){1, 1, 1};
    *shared = 0;
    *(void **)stream = NULL;
    return cudaSuccess;
}

cudaError_t __cudaGetKernel(cudaKernel_t *out, const void *host)
{
    *out = (cudaKernel_t)host;
    return cudaSuccess;
}

/* In a capture: a node that uses no tensor. */
static cudaError_t launch(cudaStream_t stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    CUresult result = enter();

    if (result == CUDA_SUCCESS && stream)
        cuStreamIsCapturing(stream, &status);
    if (status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
        return note(result);
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    cuThreadExchangeStreamCaptureMode(&mode);
    if (!scratch[current_device])
        result = cuMemAlloc(&scratch[current_device], KERNEL_BYTES);
    cuThreadExchangeStreamCaptureMode(&mode);
    if (result == CUDA_SUCCESS)
        result = cuMemsetD8Async(scratch[current_device], 0, KERNEL_BYTES, stream);
    return note(result);
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **args,
                               size_t shared, cudaStream_t stream)
{
    (void)kernel, (void)grid, (void)block, (void)args, (void)shared;
    return launch(stream);
}

cudaError_t cudaLaunchKernel(const void *function, dim3 grid, dim3 block, void **args,
                             size_t shared, cudaStream_t stream)
{
    (void)function, (void)grid, (void)block, (void)args, (void)shared;
    return launch(stream);
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *function,
                                void **args)
{
    (void)function, (void)args;
    return launch(config->stream);
}

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *out, const void *function)
{
    (void)function;
    memset(out, 0, sizeof *out);
    out->maxThreadsPerBlock = 1024;
    out->binaryVersion = out->ptxVersion = 90;
    return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void *function, enum cudaFuncAttribute attribute,
                                 int value)
{
    (void)function, (void)attribute, (void)value;
    return cudaSuccess;
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int *out, const void *function, int block, size_t shared, unsigned flags)
{
    (void)function, (void)block, (void)shared, (void)flags;
    *out = 2;
    return cudaSuccess;
}
