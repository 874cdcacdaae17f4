/* waits.c -- facts about the calls that wait for work on the device.
 *
 * Each call is made while a gate holds a non-blocking stream, with which the call has
 * nothing to do. The facts decide which calls a pool may make while other streams work.
 */
#include "facts.h"

#include <stdlib.h>
#include <string.h>

static struct {
    CUdeviceptr pointer, managed, pooled;
    void *host, *heap;
    CUstream stream, to_destroy, held;
    CUevent event;
    CUmemoryPool pool;
    struct range range;
    CUcontext other;
} its;

#define WAITERS(X)                                                                    \
    X(cuMemAlloc, cuMemAlloc(&its.pointer, 4 * MIB))                                  \
    X(cuMemFree, cuMemFree(its.pointer))                                              \
    X(cuMemFree_small, cuMemFree(block(256)))                                         \
    X(cuMemFree_0, cuMemFree(0))                                                      \
    X(cuMemAllocManaged, cuMemAllocManaged(&its.managed, 4 * MIB, 1))                 \
    X(cuMemFree_managed, cuMemFree(its.managed))                                      \
    X(cuMemHostAlloc, cuMemHostAlloc(&its.host, MIB, 0))                              \
    X(cuMemFreeHost, cuMemFreeHost(its.host))                                         \
    X(cuMemHostRegister, cuMemHostRegister(its.heap, MIB, 0))                         \
    X(cuMemHostUnregister, cuMemHostUnregister(its.heap))                             \
    X(cuMemAllocAsync, cuMemAllocAsync(&its.pooled, 4 * MIB, its.stream))             \
    X(cuMemFreeAsync, cuMemFreeAsync(its.pooled, its.stream))                         \
    X(cuMemAllocAsync_again, cuMemAllocAsync(&its.pooled, 4 * MIB, its.stream))       \
    X(cuMemFree_of_async, cuMemFree(its.pooled))                                      \
    X(cuMemPoolTrimTo, cuMemPoolTrimTo(its.pool, 0))                                  \
    X(cuMemAddressReserve, cuMemAddressReserve(&its.range.pointer, 2 * MIB, 0, 0, 0)) \
    X(cuMemCreate,                                                                    \
      cuMemCreate(&its.range.handle, 2 * MIB,                                         \
                  &(CUmemAllocationProp){1, 0, {1, 0}, 0, {0, 0, 0, {0}}}, 0))        \
    X(cuMemMap, cuMemMap(its.range.pointer, 2 * MIB, 0, its.range.handle, 0))         \
    X(cuMemSetAccess,                                                                 \
      cuMemSetAccess(its.range.pointer, 2 * MIB, &(CUmemAccessDesc){{1, 0}, 3}, 1))   \
    X(cuMemUnmap, cuMemUnmap(its.range.pointer, 2 * MIB))                             \
    X(cuMemRelease, cuMemRelease(its.range.handle))                                   \
    X(cuMemAddressFree, cuMemAddressFree(its.range.pointer, 2 * MIB))                 \
    X(cuStreamCreate, cuStreamCreate(&its.to_destroy, 0))                             \
    X(cuStreamDestroy, cuStreamDestroy(its.to_destroy))                               \
    X(cuStreamSynchronize_other, cuStreamSynchronize(its.stream))                     \
    X(cuStreamSynchronize_held, cuStreamSynchronize(its.held))                        \
    X(cuStreamSynchronize_legacy, cuStreamSynchronize(NULL))                          \
    X(cuStreamQuery_held, cuStreamQuery(its.held))                                    \
    X(cuEventCreate, cuEventCreate(&its.event, 2))                                    \
    X(cuEventRecord_held, cuEventRecord(its.event, its.held))                         \
    X(cuEventDestroy_pending, cuEventDestroy(its.event))                              \
    X(cuMemGetInfo, cuMemGetInfo(&(size_t){0}, &(size_t){0}))                         \
    X(cuCtxCreate, cuCtxCreate(&its.other, 0, device))                                \
    X(cuCtxDestroy_other, cuCtxDestroy(its.other))                                    \
    X(cuCtxSynchronize, cuCtxSynchronize())                                           \
    X(cuMemcpyHtoD, cuMemcpyHtoD(block(256), its.heap, 256))                          \
    X(cuMemcpyDtoD, cuMemcpyDtoD(block(256), block(256), 256))                        \
    X(cuMemsetD8, cuMemsetD8(block(256), 1, 256))

#define CALL(name, expression)                \
    static CUresult call_##name(void *unused) \
    {                                         \
        (void)unused;                         \
        return expression;                    \
    }
WAITERS(CALL)
#undef CALL

static const struct {
    const char *name;
    CUresult (*call)(void *);
} rows[] = {
#define ROW(name, expression) {#name, call_##name},
    WAITERS(ROW)};

static void waiting(void)
{
    struct gate gate;

    its.heap = malloc(MIB);
    its.stream = new_stream(CU_STREAM_NON_BLOCKING);
    its.held = new_stream(CU_STREAM_NON_BLOCKING);
    cuDeviceGetDefaultMemPool(&its.pool, device);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        gate_close(&gate, its.held);
        /* Creating a context takes long, with or without work. */
        patience_ms = strncmp(rows[i].name, "cuCtx", 5) ? 250 : 3000;
        fact_waits(rows[i].name, rows[i].call, NULL, &gate);
    }
}

/* The same for a busy blocking stream, if the result may differ. */
static void waiting_blocking(void)
{
    struct gate gate;

    its.held = new_stream(CU_STREAM_DEFAULT);
    its.stream = new_stream(CU_STREAM_DEFAULT);
    gate_close(&gate, its.held);
    fact_waits("blocking.cuStreamCreate", call_cuStreamCreate, NULL, &gate);
    gate_close(&gate, its.held);
    fact_waits("blocking.cuMemAlloc", call_cuMemAlloc, NULL, &gate);
    gate_close(&gate, its.held);
    fact_waits("blocking.cuMemFree", call_cuMemFree, NULL, &gate);
    gate_close(&gate, its.held);
    fact_waits("blocking.cuMemAllocAsync", call_cuMemAllocAsync, NULL, &gate);
    gate_close(&gate, its.held);
    fact_waits("blocking.cuMemFreeAsync", call_cuMemFreeAsync, NULL, &gate);
    gate_close(&gate, its.held);
    fact_waits("blocking.cuStreamSynchronize_other", call_cuStreamSynchronize_other, NULL,
               &gate);
    gate_close(&gate, its.held);
    fact_waits("blocking.cuStreamSynchronize_legacy", call_cuStreamSynchronize_legacy,
               NULL, &gate);
}

static const struct part parts[] = {
    {"waiting", waiting, ALONE},
    {"waiting_blocking", waiting_blocking, ALONE},
    END_OF_PARTS,
};
const struct theme theme_waits = {"waits", parts, true};
