/* pageable.c -- facts about the copies and fills that are done when the call returns.
 *
 * Each call is made behind a closed gate, on the gated stream. A call that returns has
 * deferred its work. Then the source is changed before the gate opens, and the bytes show
 * whether the call had kept a copy.
 */
#include "facts.h"

#include <stdlib.h>
#include <string.h>

struct copy {
    CUdeviceptr device_memory;
    unsigned char *host;
    size_t bytes;
    CUstream stream;
};

static CUresult htod_async(void *data)
{
    struct copy *copy = data;
    return cuMemcpyHtoDAsync(copy->device_memory, copy->host, copy->bytes, copy->stream);
}

static CUresult dtoh_async(void *data)
{
    struct copy *copy = data;
    return cuMemcpyDtoHAsync(copy->host, copy->device_memory, copy->bytes, copy->stream);
}

static CUresult htod(void *data)
{
    struct copy *copy = data;
    return cuMemcpyHtoD(copy->device_memory, copy->host, copy->bytes);
}

static CUresult dtoh(void *data)
{
    struct copy *copy = data;
    return cuMemcpyDtoH(copy->host, copy->device_memory, copy->bytes);
}

static CUresult dtod(void *data)
{
    struct copy *copy = data;
    return cuMemcpyDtoD(copy->device_memory, copy->device_memory + copy->bytes,
                        copy->bytes);
}

static CUresult any_dtod(void *data)
{
    struct copy *copy = data;
    return cuMemcpy(copy->device_memory, copy->device_memory + copy->bytes, copy->bytes);
}

static CUresult fill(void *data)
{
    struct copy *copy = data;
    return cuMemsetD8(copy->device_memory, 1, copy->bytes);
}

static CUresult fill_async(void *data)
{
    struct copy *copy = data;
    return cuMemsetD8Async(copy->device_memory, 1, copy->bytes, copy->stream);
}

static CUresult fill_host(void *data)
{
    struct copy *copy = data;
    return cuMemsetD8((CUdeviceptr)(uintptr_t)copy->host, 1, copy->bytes);
}

/* Check whether the call waits behind a gate, and which bytes of the source arrive: 1, or
 * those written after the call (2). */
static void behind_gate(const char *name, CUresult (*call)(void *), unsigned char *host,
                        size_t bytes, unsigned int flags, bool to_device)
{
    struct copy copy = {block_of(2 * bytes, 0), host, bytes, new_stream(flags)};
    struct gate gate;
    CUresult result;

    memset(host, 1, bytes);
    gate_close(&gate, copy.stream);
    bool waited = waits(call, &copy, &gate, &result);
    memset(host, 2, bytes);
    gate_open(&gate);
    fact(name, "%s, %s%s", waited ? "waits" : "does not wait", result_name(result),
         !to_device                      ? ""
         : peek(copy.device_memory) == 1 ? ", the old bytes"
         : peek(copy.device_memory) == 2 ? ", the new bytes"
                                         : ", no bytes");
    cuMemFree(copy.device_memory);
    cuStreamDestroy(copy.stream);
}

static void asynchronous(void)
{
    unsigned char *heap = malloc(MIB), *pin = pinned(MIB);

    behind_gate("htod_async.pageable_1KiB", htod_async, heap, KIB, 1, true);
    behind_gate("htod_async.pageable_64KiB", htod_async, heap, 64 * KIB, 1, true);
    behind_gate("htod_async.pageable_1MiB", htod_async, heap, MIB, 1, true);
    behind_gate("htod_async.pinned_1KiB", htod_async, pin, KIB, 1, true);
    behind_gate("htod_async.pinned_1MiB", htod_async, pin, MIB, 1, true);
    behind_gate("dtoh_async.pageable_1KiB", dtoh_async, heap, KIB, 1, false);
    behind_gate("dtoh_async.pageable_1MiB", dtoh_async, heap, MIB, 1, false);
    behind_gate("dtoh_async.pinned_1MiB", dtoh_async, pin, MIB, 1, false);
    behind_gate("memset_async", fill_async, heap, MIB, 1, false);
    free(heap);
    cuMemFreeHost(pin);
}

/* Calls without a stream run on the legacy one, which a blocking stream holds up. */
static void synchronous(void)
{
    unsigned char *heap = malloc(MIB), *pin = pinned(MIB);

    behind_gate("htod.pageable_1KiB", htod, heap, KIB, 0, true);
    behind_gate("htod.pageable_64KiB", htod, heap, 64 * KIB, 0, true);
    behind_gate("htod.pageable_1MiB", htod, heap, MIB, 0, true);
    behind_gate("htod.pinned_1KiB", htod, pin, KIB, 0, true);
    behind_gate("htod.pinned_1MiB", htod, pin, MIB, 0, true);
    behind_gate("dtoh.pageable_1KiB", dtoh, heap, KIB, 0, false);
    behind_gate("dtoh.pinned_1MiB", dtoh, pin, MIB, 0, false);
    behind_gate("dtod", dtod, heap, MIB, 0, false);
    behind_gate("any_dtod", any_dtod, heap, MIB, 0, false);
    behind_gate("memset", fill, heap, MIB, 0, false);
    behind_gate("memset.pinned_memory", fill_host, pin, MIB, 0, false);
    free(heap);
    cuMemFreeHost(pin);
}

/* The same beside a gate on a non-blocking stream, which does not hold them up. */
static void beside(void)
{
    unsigned char *heap = malloc(MIB);

    behind_gate("beside.htod", htod, heap, MIB, 1, true);
    behind_gate("beside.dtoh", dtoh, heap, MIB, 1, false);
    behind_gate("beside.dtod", dtod, heap, MIB, 1, false);
    behind_gate("beside.memset", fill, heap, MIB, 1, false);
    free(heap);
}

static const struct part parts[] = {
    {"asynchronous", asynchronous, TOGETHER},
    {"synchronous", synchronous, TOGETHER},
    {"beside", beside, TOGETHER},
    END_OF_PARTS,
};
const struct theme theme_pageable = {"pageable", parts, true};
