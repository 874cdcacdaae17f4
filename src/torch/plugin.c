/* plugin.c -- the functions of a pluggable allocator of PyTorch, for all tensors of a
 * program. */
#include <tarn/pool.h>
#include <tarn/torch.h>
#include "base/error.h"
#include "base/warn.h"
#include "driver/driver.h"
#include "torch/tensor_counts.h"
#include "torch/graph_pools.h"
#include "torch/recorded_streams.h"
#include "torch/torch_resource.h"
#include "torch/torch_error.h"
#include "torch/waiting_frees.h"
#include "trace/stack.h"
#include <string.h>

/* --- allocate --- */

/* Note the capture of a stream, and that the block belongs to it. If host memory is short,
 * a free on recorded streams cannot know the latter. So the block goes back. */
static tarn_status note_capture(tarn_resource *resource, size_t bytes, int device,
                                tarn_stream stream, tarn_device_ptr block)
{
    if (!tarn__graph_pools_note(device, stream))
        return TARN_OK;
    tarn_status status = tarn__recorded_streams_captured(block);
    if (status == TARN_OK)
        return TARN_OK;
    struct tarn__kept_error kept = tarn__error_keep();
    tarn_resource_deallocate(resource, block, bytes, 0, stream);
    return tarn__error_restore(&kept);
}

/* Allocate. If memory is short, wait for the frees that wait for streams, and try again. */
static tarn_status allocate(tarn_resource *resource, size_t bytes, int device,
                            tarn_stream stream, tarn_device_ptr *out)
{
    bool in_capture = tarn__graph_pools_is_open();

    if (!in_capture)
        tarn__waiting_frees_poll();
    tarn_status status = tarn_resource_allocate(resource, bytes, 0, stream, out);
    if (status == TARN_OUT_OF_MEMORY) {
        struct tarn__kept_error kept = tarn__error_keep();
        if (!tarn__waiting_frees_finish(in_capture))
            return tarn__error_restore(&kept);
        tarn__tensor_counts_retry(device);
        status = tarn_resource_allocate(resource, bytes, 0, stream, out);
    }
    if (status == TARN_OK && in_capture)
        status = note_capture(resource, bytes, device, stream, *out);
    return status;
}

void *tarn_torch_allocate(size_t bytes, int device, tarn_stream stream)
{
    tarn_device_ptr block = 0;
    tarn_resource *resource = NULL;

    if (bytes == 0)
        return NULL;
    tarn_status status = tarn__torch_resource_use(device, &resource);
    if (status == TARN_OK) {
        const char *previous = tarn__stack_set_library("libtorch.so");
        status = allocate(resource, bytes, device, stream, &block);
        tarn__stack_set_library(previous);
    }
    if (status == TARN_OUT_OF_MEMORY && resource)
        tarn__tensor_counts_out_of_memory(device);
    if (status != TARN_OK)
        tarn__torch_error_throw(status, bytes, device);
    tarn__tensor_counts_allocation(device, bytes);
    return (void *)(uintptr_t)block;
}

/* --- deallocate --- */

void tarn_torch_deallocate(void *address, size_t bytes, int device, tarn_stream stream)
{
    struct tarn__torch_record record;
    struct tarn__torch_block block = {.resource = tarn__torch_resource_get(device),
                                      .address = (uintptr_t)address,
                                      .bytes = bytes,
                                      .device = device,
                                      .stream = stream};

    if (!address || tarn__driver_gone())
        return;
    if (!block.resource) {
        tarn__warn("torch: a free failed: device %d has no memory of PyTorch", device);
        return;
    }
    tarn__tensor_counts_free(device, bytes);
    if (tarn__recorded_streams_take(block.address, &record)) {
        tarn__waiting_frees_free(&block, &record);
        tarn__recorded_streams_end(&record);
    } else {
        tarn__waiting_frees_return(&block, stream);
    }
    if (!tarn__graph_pools_is_open())
        tarn__waiting_frees_poll();
}

void tarn_torch_record_stream(void *block, tarn_stream stream)
{
    if (!block || tarn__driver_gone())
        return;
    tarn_status status = tarn__recorded_streams_add((uintptr_t)block, stream);
    if (status != TARN_OK)
        tarn__torch_error_throw(status, 0, 0);
}

/* --- other calls --- */

void tarn_torch_empty_cache(void)
{
    size_t released;

    if (tarn__driver_gone())
        return;
    tarn__waiting_frees_poll();
    for (int device = 0; device < tarn__driver_device_count(); device++) {
        tarn_resource *resource = tarn__torch_resource_get(device);
        if (resource && tarn_resource_trim(resource, 0, &released) != TARN_OK)
            tarn__warn("torch: empty_cache: %s", tarn_error_last()->message);
    }
}

static tarn_status set_fraction(double fraction, int device)
{
    tarn_resource *resource = NULL;
    tarn_device_info info;
    tarn_status status = tarn__torch_resource_use(device, &resource);

    if (status == TARN_OK)
        status = tarn_driver_device_info(device, &info);
    if (status != TARN_OK)
        return status;
    tarn_resource *pool = tarn__torch_resource_pool(resource);
    if (!pool)
        return tarn_error_set(TARN_NOT_SUPPORTED,
                              "torch: the resource of device %d is %s, which has no "
                              "maximum: it is no pool",
                              device, tarn_resource_name(resource));
    double bytes = (double)info.total_bytes * fraction;
    status = tarn_pool_set_maximum(pool, bytes < 1 ? 1 : (size_t)bytes);
    tarn_resource_release(pool);
    return status;
}

void tarn_torch_set_memory_fraction(double fraction, int device)
{
    tarn_status status = set_fraction(fraction, device);

    if (status != TARN_OK)
        tarn__torch_error_throw(status, 0, device);
}

/* --- statistics --- */

tarn_status tarn_torch_get_statistics(int device, tarn_torch_statistics *out)
{
    tarn_torch_statistics all;
    tarn_status status = tarn__device_check("torch", device);

    if (status == TARN_OK && (!out || out->size < sizeof out->size))
        status =
            tarn_error_set(TARN_INVALID_ARGUMENT,
                           "torch: get_statistics: out is NULL, or out.size is not set");
    if (status != TARN_OK)
        return status;
    tarn__tensor_counts_get(device, &all);
    size_t known = out->size < sizeof all ? out->size : sizeof all;
    all.size = known;
    memcpy(out, &all, known);
    return TARN_OK;
}

tarn_status tarn_torch_reset_peaks(int device)
{
    tarn_status status = tarn__device_check("torch", device);

    if (status != TARN_OK)
        return status;
    tarn__tensor_counts_reset_peaks(device);
    tarn_resource *pool = tarn__torch_resource_pool(tarn__torch_resource_get(device));
    if (pool && !tarn__driver_gone())
        tarn_pool_reset_peaks(pool);
    tarn_resource_release(pool); /* not the last reference */
    return TARN_OK;
}

tarn_status tarn_torch_reset_totals(int device)
{
    tarn_status status = tarn__device_check("torch", device);

    if (status == TARN_OK)
        tarn__tensor_counts_reset_totals(device);
    return status;
}
