/* allocations.c -- allocations of guarded blocks, and of others where a guard is not possible.
 */
#include "guard/allocations.h"
#include "base/error.h"
#include "driver/stream.h"
#include "guard/blocks.h"
#include "guard/checks.h"
#include "guard/samples.h"
#include "guard/zones.h"
#include "resource/operations.h"
#include <stdlib.h>

static tarn_status allocate_larger(struct tarn__guard *guard, tarn_resource *resource,
                                   size_t bytes, size_t alignment, tarn_stream stream,
                                   struct tarn__guard_block *block)
{
    size_t offset;

    if (!tarn__zones_lay_out(guard, bytes, alignment, &offset, block))
        return TARN_OUT_OF_MEMORY;
    tarn_status status = tarn__operations_allocate(resource, block->base_bytes, alignment,
                                                   stream, &block->base);
    if (status == TARN_OK)
        block->site.address = block->base + offset;
    return status;
}

static void count_allocation(struct tarn__guard *guard, bool is_guarded)
{
    tarn__mutex_lock(&guard->lock);
    if (is_guarded)
        guard->counts.guarded++;
    else
        guard->counts.unguarded++;
    tarn__mutex_unlock(&guard->lock);
}

/* Enter a block of the program. Its address, bytes and red zones are set. */
static void begin_block(struct tarn__guard *guard, struct tarn__guard_block *block,
                        tarn_stream stream, tarn_device_ptr *out)
{
    block->site.allocated_on = tarn__stream_number(stream);
    block->site.allocation = tarn__guard_capture_site(guard);
    *out = block->site.address; /* once it is live, another thread may free it */
    if (block->set)
        tarn__samples_begin(guard, block);
    else
        tarn__blocks_put_live(guard, block);
}

/* Allocate a guarded block that is no slot. In a workspace. */
static tarn_status allocate_guarded(struct tarn__guard *guard,
                                    struct tarn__workspace_use *use,
                                    tarn_resource *resource, size_t bytes,
                                    size_t alignment, tarn_stream stream,
                                    enum tarn__order order, CUstream_ handle,
                                    tarn_device_ptr *out)
{
    struct tarn__guard_block *block = calloc(1, sizeof *block);

    if (!block || !tarn__blocks_reserve(guard)) {
        free(block);
        return tarn_error_set(TARN_OUT_OF_MEMORY, "guard: no host memory");
    }
    tarn_status status =
        allocate_larger(guard, resource, bytes, alignment, stream, block);
    if (status == TARN_OUT_OF_MEMORY) {
        tarn__guard_flush(guard, NULL);
        status = allocate_larger(guard, resource, bytes, alignment, stream, block);
    }
    if (status != TARN_OK) {
        tarn__blocks_release(guard);
        free(block);
        return status;
    }
    block->resource = resource;
    block->site.resource = tarn_resource_name(resource);
    block->site.device = tarn_resource_device(resource);
    tarn__zones_begin(guard, use, block, order, handle);
    count_allocation(guard, true);
    begin_block(guard, block, stream, out);
    return TARN_OK;
}

/* Allocate a slot, or another guarded block. In a workspace. */
static tarn_status allocate_any(struct tarn__guard *guard,
                                struct tarn__workspace_use *use, tarn_resource *resource,
                                size_t bytes, size_t alignment, tarn_stream stream,
                                tarn_device_ptr *out)
{
    CUstream_ handle = NULL;
    enum tarn__order order = tarn__order_find(resource, &use->scope, stream, &handle);

    if (order == TARN__ORDER_CAPTURED)
        return TARN_NOT_SUPPORTED;
    struct tarn__guard_block *slot =
        tarn__samples_take(guard, use, resource, bytes, alignment);
    if (!slot)
        return allocate_guarded(guard, use, resource, bytes, alignment, stream, order,
                                handle, out);
    begin_block(guard, slot, stream, out);
    return TARN_OK;
}

/* Allocate a guarded block. Returns false if the block can have no guard. */
static bool allocate_in_workspace(struct tarn__guard *guard, tarn_resource *resource,
                                  size_t bytes, size_t alignment, tarn_stream stream,
                                  tarn_device_ptr *out)
{
    int device = tarn_resource_device(resource);
    tarn_status status = TARN_NOT_SUPPORTED;
    struct tarn__workspace_use use;

    if (device == TARN_DEVICE_NONE || tarn__driver_gone())
        return false;
    struct tarn__kept_error last = tarn__error_keep();
    tarn__checks_poll(guard);
    if (tarn__workspace_enter(guard, device, &use) == TARN_OK) {
        status = allocate_any(guard, &use, resource, bytes, alignment, stream, out);
        tarn__workspace_leave(&use);
    }
    tarn__error_restore(&last);
    return status == TARN_OK;
}

tarn_status tarn__allocations_allocate(struct tarn__guard *guard, tarn_resource *resource,
                                       size_t bytes, size_t alignment, tarn_stream stream,
                                       tarn_device_ptr *out)
{
    struct tarn__guard_block *slot =
        tarn__samples_take_quickly(guard, resource, bytes, alignment, stream);

    if (slot) {
        begin_block(guard, slot, stream, out);
        return TARN_OK;
    }
    if (allocate_in_workspace(guard, resource, bytes, alignment, stream, out))
        return TARN_OK;
    count_allocation(guard, false);
    return tarn__operations_allocate(resource, bytes, alignment, stream, out);
}
