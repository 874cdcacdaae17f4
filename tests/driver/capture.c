/* capture.c -- facts about the calls that are allowed while a stream captures: the whole
 * table.
 *
 * Each row is a call, made during one capture per cell: three modes, from the capturing
 * thread and from another. A cell is the call's result, and `lost` if the call ended the
 * capture. Two tables: the capturing stream is non-blocking, or blocking. The first rows
 * are the calls that matter to pools.
 */
#include "facts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct {
    CUstream capturing, other;
    CUevent event, timed, second;
    CUdeviceptr pointer, target, managed;
    void *pin, *heap;
    CUmemoryPool pool;
    CUgraphExec exec;
} its;

/* Objects that a call creates are destroyed after the capture. */
static CUdeviceptr left_pointer;

static CUresult relaxed(CUresult (*call)(void))
{
    int mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    CUresult result = cuThreadExchangeStreamCaptureMode(&mode);

    if (result == CUDA_SUCCESS)
        result = call();
    cuThreadExchangeStreamCaptureMode(&mode);
    return result;
}

static CUresult query(void)
{
    return cuEventQuery(its.event);
}

static CUresult alloc_free(void)
{
    CUdeviceptr pointer = 0;
    CUresult result = cuMemAlloc(&pointer, MIB);

    return result == CUDA_SUCCESS ? cuMemFree(pointer) : result;
}

static CUresult record_context(void)
{
    return cuCtxRecordEvent(context, its.event);
}

static CUresult record_legacy(void)
{
    return cuEventRecord(its.event, NULL);
}

static CUresult host_alloc_free(void)
{
    void *memory = NULL;
    CUresult result = cuMemHostAlloc(&memory, MIB, 0);

    return result == CUDA_SUCCESS ? cuMemFreeHost(memory) : result;
}

static CUresult create_release(void)
{
    CUmemAllocationProp prop = vmm_prop();
    CUmemGenericAllocationHandle handle = 0;
    CUresult result = cuMemCreate(&handle, 2 * MIB, &prop, 0);

    return result == CUDA_SUCCESS ? cuMemRelease(handle) : result;
}

static CUresult whole_mapping(void)
{
    CUmemAllocationProp prop = vmm_prop();
    CUmemAccessDesc access = vmm_access(3);
    CUmemGenericAllocationHandle handle = 0;
    CUdeviceptr at = 0;
    CUresult result = cuMemAddressReserve(&at, 2 * MIB, 0, 0, 0);

    if (!result)
        result = cuMemCreate(&handle, 2 * MIB, &prop, 0);
    if (!result)
        result = cuMemMap(at, 2 * MIB, 0, handle, 0);
    if (!result)
        result = cuMemRelease(handle);
    if (!result)
        result = cuMemSetAccess(at, 2 * MIB, &access, 1);
    if (!result)
        result = cuMemUnmap(at, 2 * MIB);
    return result ? result : cuMemAddressFree(at, 2 * MIB);
}

static CUresult event_create_destroy(void)
{
    CUevent event = NULL;
    CUresult result = cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);

    return result == CUDA_SUCCESS ? cuEventDestroy(event) : result;
}

static CUresult async_pair(CUstream stream)
{
    CUdeviceptr pointer = 0;
    CUresult result = cuMemAllocAsync(&pointer, MIB, stream);

    return result == CUDA_SUCCESS ? cuMemFreeAsync(pointer, stream) : result;
}

static CUresult stream_create_destroy(unsigned int flags)
{
    CUstream stream = NULL;
    CUresult result = cuStreamCreate(&stream, flags);

    return result == CUDA_SUCCESS ? cuStreamDestroy(stream) : result;
}

static CUresult free_plain(void)
{
    CUresult result = cuMemFree(its.pointer);

    if (result == CUDA_SUCCESS)
        its.pointer = 0;
    return result;
}

static CUresult register_unregister(void)
{
    CUresult result = cuMemHostRegister(its.heap, 65536, 0);

    return result == CUDA_SUCCESS ? cuMemHostUnregister(its.heap) : result;
}

static CUresult pool_create_destroy(void)
{
    CUmemPoolProps props = {.allocType = 1, .location = {1, device}};
    CUmemoryPool pool = NULL;
    CUresult result = cuMemPoolCreate(&pool, &props);

    return result == CUDA_SUCCESS ? cuMemPoolDestroy(pool) : result;
}

static CUresult retain_release(void)
{
    CUcontext out;
    CUresult result = cuDevicePrimaryCtxRetain(&out, device);

    return result == CUDA_SUCCESS ? cuDevicePrimaryCtxRelease(device) : result;
}

static CUresult set_threshold(void)
{
    uint64_t value = 0;

    return cuMemPoolSetAttribute(its.pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &value);
}

static CUresult capture_other(void)
{
    CUgraph graph = NULL;
    CUresult result = cuStreamBeginCapture(its.other, CU_STREAM_CAPTURE_MODE_RELAXED);

    if (result == CUDA_SUCCESS)
        result = cuStreamEndCapture(its.other, &graph);
    if (graph)
        cuGraphDestroy(graph);
    return result;
}

static void nothing(void *data)
{
    (void)data;
}

static void nothing_callback(CUstream stream, CUresult status, void *data)
{
    (void)stream, (void)status, (void)data;
}

static CUresult capture_info(CUstream stream)
{
    int status;
    uint64_t id;

    return cuStreamGetCaptureInfo(stream, &status, &id, NULL, NULL, NULL);
}

#define CAP its.capturing
#define ROWS(X)                                                                        \
    X("cuStreamGetId(capturing)", cuStreamGetId(CAP, &(unsigned long long){0}))        \
    X("cuStreamGetId(other)", cuStreamGetId(its.other, &(unsigned long long){0}))      \
    X("cuStreamIsCapturing", cuStreamIsCapturing(CAP, &(int){0}))                      \
    X("cuEventRecord(capturing)", cuEventRecord(its.event, CAP))                       \
    X("cuEventRecord(other)", cuEventRecord(its.event, its.other))                     \
    X("cuEventQuery", query())                                                         \
    X("cuStreamWaitEvent(other)", cuStreamWaitEvent(its.other, its.event, 0))          \
    X("cuCtxRecordEvent", record_context())                                            \
    X("cuMemGetInfo", cuMemGetInfo(&(size_t){0}, &(size_t){0}))                        \
    X("cuMemAlloc", cuMemAlloc(&left_pointer, MIB))                                    \
    X("cuMemFree", free_plain())                                                       \
    X("cuMemCreate+Release", create_release())                                         \
    X("cuMemGetAddressRange",                                                          \
      cuMemGetAddressRange(&(CUdeviceptr){0}, &(size_t){0}, its.pointer))              \
    X("cuMemHostAlloc+Free", host_alloc_free())                                        \
    X("cuCtxSynchronize", cuCtxSynchronize())                                          \
    X("cuStreamSynchronize(other)", cuStreamSynchronize(its.other))                    \
    X("cuStreamQuery(other)", cuStreamQuery(its.other))                                \
    X("cuEventSynchronize(done)", cuEventSynchronize(its.event))                       \
    X("cuEventRecord(legacy)", record_legacy())                                        \
    X("reserve+create+map+access+unmap", whole_mapping())                              \
    X("cuEventCreate+Destroy", event_create_destroy())                                 \
    X("cuMemAllocAsync+FreeAsync(other)", async_pair(its.other))                       \
    X("cuMemAllocAsync+FreeAsync(capturing)", async_pair(CAP))                         \
    X("cuStreamGetCaptureInfo", capture_info(CAP))                                     \
    X("relaxed-cuCtxSynchronize", relaxed(cuCtxSynchronize))                           \
    X("relaxed-cuCtxRecordEvent", relaxed(record_context))                             \
    X("relaxed-cuEventRecord(legacy)", relaxed(record_legacy))                         \
    X("relaxed-cuEventQuery", relaxed(query))                                          \
    X("relaxed-cuMemAlloc+Free", relaxed(alloc_free))                                  \
    X("cuStreamQuery(capturing)", cuStreamQuery(CAP))                                  \
    X("cuStreamSynchronize(capturing)", cuStreamSynchronize(CAP))                      \
    X("cuStreamGetFlags(capturing)", cuStreamGetFlags(CAP, &(unsigned int){0}))        \
    X("cuStreamGetPriority(capturing)", cuStreamGetPriority(CAP, &(int){0}))           \
    X("cuStreamGetCtx(capturing)", cuStreamGetCtx(CAP, &(CUcontext){0}))               \
    X("cuStreamGetDevice(capturing)", cuStreamGetDevice(CAP, &(CUdevice){0}))          \
    X("cuStreamQuery(legacy)", cuStreamQuery(NULL))                                    \
    X("cuStreamSynchronize(legacy)", cuStreamSynchronize(NULL))                        \
    X("cuStreamGetFlags(legacy)", cuStreamGetFlags(NULL, &(unsigned int){0}))          \
    X("cuStreamGetCaptureInfo(legacy)", capture_info(NULL))                            \
    X("cuStreamQuery(per-thread)", cuStreamQuery(CU_STREAM_PER_THREAD))                \
    X("cuStreamCreate+Destroy(blocking)", stream_create_destroy(0))                    \
    X("cuStreamCreate+Destroy(non-blocking)", stream_create_destroy(1))                \
    X("cuMemAllocManaged", cuMemAllocManaged(&left_pointer, MIB, 1))                   \
    X("cuMemHostRegister+Unregister", register_unregister())                           \
    X("cuMemAllocPitch", cuMemAllocPitch(&left_pointer, &(size_t){0}, 100, 4, 4))      \
    X("cuMemAllocAsync(legacy)", async_pair(NULL))                                     \
    X("cuMemFreeAsync(capturing)-of-outside", cuMemFreeAsync(its.pointer, CAP))        \
    X("cuMemPoolTrimTo", cuMemPoolTrimTo(its.pool, 0))                                 \
    X("cuMemPoolCreate+Destroy", pool_create_destroy())                                \
    X("cuMemPoolSetAttribute", set_threshold())                                        \
    X("cuMemPoolGetAttribute", cuMemPoolGetAttribute(its.pool, 7, &(uint64_t){0}))     \
    X("cuMemcpyDtoD", cuMemcpyDtoD(its.target, its.pointer, 256))                      \
    X("cuMemcpyHtoD", cuMemcpyHtoD(its.target, its.heap, 256))                         \
    X("cuMemcpyDtoH", cuMemcpyDtoH(its.heap, its.target, 256))                         \
    X("cuMemsetD8", cuMemsetD8(its.target, 1, 256))                                    \
    X("cuMemcpyDtoDAsync(capturing)",                                                  \
      cuMemcpyDtoDAsync(its.target, its.pointer, 256, CAP))                            \
    X("cuMemcpyDtoDAsync(other)",                                                      \
      cuMemcpyDtoDAsync(its.target, its.pointer, 256, its.other))                      \
    X("cuMemcpyDtoDAsync(legacy)",                                                     \
      cuMemcpyDtoDAsync(its.target, its.pointer, 256, NULL))                           \
    X("cuMemcpyHtoDAsync(capturing)-pageable",                                         \
      cuMemcpyHtoDAsync(its.target, its.heap, 256, CAP))                               \
    X("cuMemcpyHtoDAsync(other)-pageable",                                             \
      cuMemcpyHtoDAsync(its.target, its.heap, 256, its.other))                         \
    X("cuMemcpyDtoHAsync(capturing)-pageable",                                         \
      cuMemcpyDtoHAsync(its.heap, its.target, 256, CAP))                               \
    X("cuMemcpyDtoHAsync(other)-pageable",                                             \
      cuMemcpyDtoHAsync(its.heap, its.target, 256, its.other))                         \
    X("cuMemcpyDtoHAsync(capturing)-pinned",                                           \
      cuMemcpyDtoHAsync(its.pin, its.target, 256, CAP))                                \
    X("cuMemsetD8Async(capturing)", cuMemsetD8Async(its.target, 1, 256, CAP))          \
    X("cuLaunchHostFunc(capturing)", cuLaunchHostFunc(CAP, nothing, NULL))             \
    X("cuLaunchHostFunc(other)", cuLaunchHostFunc(its.other, nothing, NULL))           \
    X("cuStreamAddCallback(capturing)",                                                \
      cuStreamAddCallback(CAP, nothing_callback, NULL, 0))                             \
    X("cuMemPrefetchAsync(capturing)",                                                 \
      cuMemPrefetchAsync(its.managed, MIB, device, CAP))                               \
    X("cuMemPrefetchAsync(other)",                                                     \
      cuMemPrefetchAsync(its.managed, MIB, device, its.other))                         \
    X("cuMemAdvise", cuMemAdvise(its.managed, MIB, 2, device))                         \
    X("cuStreamAttachMemAsync(capturing)",                                             \
      cuStreamAttachMemAsync(CAP, its.managed, 0, CU_MEM_ATTACH_GLOBAL))               \
    X("cuEventRecordWithFlags(external)",                                              \
      cuEventRecordWithFlags(its.event, CAP, CU_EVENT_RECORD_EXTERNAL))                \
    X("cuStreamWaitEvent(external)",                                                   \
      cuStreamWaitEvent(CAP, its.event, CU_EVENT_WAIT_EXTERNAL))                       \
    X("cuEventElapsedTime", cuEventElapsedTime(&(float){0}, its.timed, its.timed))     \
    X("cuEventDestroy(recorded-before)", cuEventDestroy(its.second))                   \
    X("cuCtxWaitEvent", cuCtxWaitEvent(context, its.event))                            \
    X("cuCtxGetCurrent", cuCtxGetCurrent(&(CUcontext){0}))                             \
    X("cuCtxGetFlags", cuCtxGetFlags(&(unsigned int){0}))                              \
    X("cuDevicePrimaryCtxRetain+Release", retain_release())                            \
    X("cuDeviceGetAttribute", cuDeviceGetAttribute(&(int){0}, 75, 0))                  \
    X("cuPointerGetAttribute",                                                         \
      cuPointerGetAttribute(&(int){0}, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, its.pointer)) \
    X("cuMemHostGetDevicePointer",                                                     \
      cuMemHostGetDevicePointer(&(CUdeviceptr){0}, its.pin, 0))                        \
    X("cuMemHostGetFlags", cuMemHostGetFlags(&(unsigned int){0}, its.pin))             \
    X("cuIpcGetMemHandle", cuIpcGetMemHandle(&(CUipcMemHandle){{0}}, its.pointer))     \
    X("cuStreamBeginCapture(capturing)", cuStreamBeginCapture(CAP, 2))                 \
    X("cuStreamBegin+EndCapture(other)", capture_other())                              \
    X("cuGraphLaunch(other)", cuGraphLaunch(its.exec, its.other))                      \
    X("cuGraphLaunch(legacy)", cuGraphLaunch(its.exec, NULL))                          \
    X("cuMemFree(0)", cuMemFree(0))                                                    \
    X("cuMemFreeHost(NULL)", cuMemFreeHost(NULL))                                      \
    X("cuMemAlloc(0-bytes)", cuMemAlloc(&(CUdeviceptr){0}, 0))

static const char *const row_names[] = {
#define NAME(name, expression) name,
    ROWS(NAME)};
enum { ROW_COUNT = sizeof row_names / sizeof *row_names };

/* Make the call of row `index`. The rows are tried one by one, which keeps each on one
 * line. */
static CUresult row_call(int index)
{
    int at = 0;
#define TRY(name, expression) \
    if (at++ == index)        \
        return expression;
    ROWS(TRY)
    return -1;
}

static CUresult row_in_thread(void *index)
{
    return row_call(*(int *)index);
}

static void cell_begin(void)
{
    its.event = new_event();
    its.second = new_event();
    cuEventRecord(its.event, its.other);
    cuEventRecord(its.second, its.other);
    its.pointer = block(MIB);
    left_pointer = 0;
    cuCtxSynchronize();
}

static void cell_end(void)
{
    int capturing = 0;
    CUgraph graph = NULL;

    cuStreamIsCapturing(its.other, &capturing);
    if (capturing)
        cuStreamEndCapture(its.other, &graph);
    if (its.pointer)
        cuMemFree(its.pointer);
    if (left_pointer)
        cuMemFree(left_pointer);
    cuCtxSynchronize();
    cuEventDestroy(its.event);
}

/* Make one call during one capture, and append the result to `text`. */
static void cell(int row, int mode, bool on_other_thread, char *text, size_t bytes)
{
    CUgraph graph = NULL;
    size_t used = strlen(text);

    cell_begin();
    cuStreamBeginCapture(its.capturing, mode);
    CUresult result = on_other_thread ? in_thread(row_in_thread, &row) : row_call(row);
    CUresult end = cuStreamEndCapture(its.capturing, &graph);
    snprintf(text + used, bytes - used, "%d%s%s", result == NOT_FOUND_HERE ? -1 : result,
             end ? " lost" : "", on_other_thread ? (mode < 2 ? "; " : "") : ", ");
    if (graph)
        cuGraphDestroy(graph);
    cell_end();
}

static void row(const char *table, int index)
{
    static const char *const modes[] = {"global ", "thread-local ", "relaxed "};
    char text[300] = "";

    for (int mode = 0; mode < 3; mode++) {
        strcat(text, modes[mode]);
        cell(index, mode, false, text, sizeof text);
        cell(index, mode, true, text, sizeof text);
    }
    fact(named("%s.%s", table, row_names[index]), "%s", text);
}

static CUgraphExec small_graph(void)
{
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUgraph graph = NULL;
    CUgraphExec exec = NULL;

    cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    cuMemsetD8Async(its.target, 1, 256, stream);
    cuStreamEndCapture(stream, &graph);
    cuGraphInstantiate(&exec, graph, 0);
    cuGraphDestroy(graph);
    cuStreamDestroy(stream);
    return exec;
}

static void table(const char *name, unsigned int flags)
{
    its.target = block(MIB);
    its.pin = pinned(65536);
    its.heap = aligned_alloc(4096, 65536);
    memset(its.heap, 0, 65536);
    cuMemAllocManaged(&its.managed, MIB, CU_MEM_ATTACH_GLOBAL);
    cuDeviceGetDefaultMemPool(&its.pool, device);
    its.exec = small_graph();
    its.other = new_stream(CU_STREAM_NON_BLOCKING);
    cuEventCreate(&its.timed, CU_EVENT_DEFAULT);
    cuEventRecord(its.timed, its.other);
    cuCtxSynchronize();
    for (int i = 0; i < ROW_COUNT; i++) {
        its.capturing = new_stream(flags);
        row(name, i);
        cuStreamDestroy(its.capturing);
    }
}

static void non_blocking(void)
{
    table("non_blocking", CU_STREAM_NON_BLOCKING);
}

static void blocking(void)
{
    table("blocking", CU_STREAM_DEFAULT);
}

static const struct part parts[] = {
    {"non_blocking", non_blocking, RISKY},
    {"blocking", blocking, RISKY},
    END_OF_PARTS,
};
const struct theme theme_capture = {"capture", parts, false};
