/* guard.c -- guarded allocations and frees, and the life of a guard. guard.h describes the life
 * of a block.
 *
 * A block whose free fails is live again, as the contract of resources says. Its bytes may
 * have the poison by then.
 */
#include "guard/guard.h"
#include "base/error.h"
#include "base/warn.h"
#include "driver/stream.h"
#include "guard/annotations.h"
#include "guard/blocks.h"
#include "guard/checks.h"
#include "guard/damage.h"
#include "guard/order.h"
#include "guard/quarantine.h"
#include "guard/slot_batches.h"
#include "guard/samples.h"
#include "guard/sweep.h"
#include "guard/zones.h"
#include "resource/intercept.h"
#include "resource/operations.h"
#include "trace/stack.h"
#include <stdlib.h>

/* --- allocations --- */

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

/* Capture the call stack of an allocation or a free. */
static tarn_stack capture_site(const struct tarn__guard *guard)
{
    unsigned depth = guard->options.stack_depth;

    return depth > 0 ? tarn_stack_capture(depth)
                     : tarn__stack_capture_caller(tarn__intercept_caller);
}

/* Enter a block of the program. Its address, bytes and red zones are set. */
static void begin_block(struct tarn__guard *guard, struct tarn__guard_block *block,
                        tarn_stream stream, tarn_device_ptr *out)
{
    block->site.allocated_on = tarn__stream_number(stream);
    block->site.allocation = capture_site(guard);
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

tarn_status tarn__guard_allocate(struct tarn__guard *guard, tarn_resource *resource,
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

/* --- frees --- */

/* Report a second free of a block that the guard keeps. */
static tarn_status reject_second_free(struct tarn__guard *guard,
                                      const struct tarn__guard_site *site)
{
    tarn_guard_report report = {.damage = TARN_GUARD_FREED_TWICE};

    report.again = capture_site(guard);
    tarn__damage_report(guard, site, &report);
    return tarn_error_set(TARN_INVALID_ARGUMENT,
                          "guard: 0x%llx of %zu bytes was freed before", site->address,
                          site->bytes);
}

/* Free a block on a stream, or keep it and set `*is_kept_out`. In a workspace. */
static tarn_status free_on_stream(struct tarn__guard *guard,
                                  struct tarn__workspace_use *use,
                                  struct tarn__guard_block *block, tarn_stream stream,
                                  CUstream_ handle, bool *is_kept_out)
{
    tarn__quarantine_finish_use(guard, use, block, handle);
    *is_kept_out = tarn__quarantine_begin(guard, use, block, handle);
    if (*is_kept_out) {
        tarn__blocks_put_freed(guard, &guard->quarantine, block);
        return TARN_OK;
    }
    block->is_filled = false;
    return tarn__quarantine_return(block, stream);
}

/* Free a block that is no slot. Sets `*is_kept_out` if the guard keeps it. In a
 * workspace. */
static tarn_status free_ordinary(struct tarn__guard *guard,
                                 struct tarn__workspace_use *use,
                                 struct tarn__guard_block *block, enum tarn__order order,
                                 tarn_stream stream, CUstream_ handle, bool *is_kept_out)
{
    switch (order) {
    case TARN__ORDER_STREAM:
        return free_on_stream(guard, use, block, stream, handle, is_kept_out);
    case TARN__ORDER_NONE:
        tarn__blocks_put_freed(guard, &guard->unordered, block);
        *is_kept_out = true;
        return TARN_OK;
    default:
        tarn__quarantine_count_unchecked(guard);
        return tarn__quarantine_return(block, stream);
    }
}

/* Return a block to its resource without a check: its context was reset, or the
 * driver is gone. */
static tarn_status free_without_check(struct tarn__guard *guard,
                                      struct tarn__guard_block *block, tarn_stream stream)
{
    tarn__samples_leave(guard, block);
    return tarn__quarantine_return(block, stream);
}

/* Free a block whose record was taken. Sets `*is_kept_out` if the guard keeps it. In a
 * workspace. */
static tarn_status free_block(struct tarn__guard *guard, struct tarn__workspace_use *use,
                              struct tarn__guard_block *block, tarn_stream stream,
                              bool *is_kept_out)
{
    CUstream_ handle = NULL;

    if (block->context_generation != use->scope.context_generation)
        return free_without_check(guard, block, stream);
    enum tarn__order order =
        tarn__order_find(block->resource, &use->scope, stream, &handle);
    *is_kept_out = tarn__samples_free(guard, use, block, order, stream, handle);
    return *is_kept_out
               ? TARN_OK
               : free_ordinary(guard, use, block, order, stream, handle, is_kept_out);
}

/* Note the free of a block whose record was taken. */
static void note_free(const struct tarn__guard *guard, struct tarn__guard_block *block,
                      tarn_stream stream)
{
    block->site.is_freed = true;
    block->site.freed_on = tarn__stream_number(stream);
    block->site.free = capture_site(guard);
}

/* Free a block whose record was taken. If that fails, the block is live again. */
static tarn_status free_taken(struct tarn__guard *guard, struct tarn__guard_block *block,
                              tarn_stream stream)
{
    struct tarn__workspace_use use;
    bool is_kept = false;

    bool has_workspace =
        !tarn__driver_gone() &&
        tarn__workspace_enter(guard, block->site.device, &use) == TARN_OK;
    tarn_status status = has_workspace ? free_block(guard, &use, block, stream, &is_kept)
                                       : free_without_check(guard, block, stream);
    if (status == TARN_OK && !is_kept)
        tarn__quarantine_end_block(guard, has_workspace ? &use : NULL, block);
    if (has_workspace)
        tarn__workspace_leave(&use);
    if (status != TARN_OK) {
        struct tarn__kept_error why = tarn__error_keep();
        tarn__blocks_put_live(guard, block);
        tarn__error_restore(&why);
    }
    return status;
}

tarn_status tarn__guard_deallocate(struct tarn__guard *guard, tarn_resource *resource,
                                   tarn_device_ptr address, size_t bytes,
                                   size_t alignment, tarn_stream stream)
{
    struct tarn__guard_site freed_before = {0};
    struct tarn__guard_block *block;
    tarn_status status =
        tarn__samples_take_live(guard, resource, address, bytes, &block, &freed_before);

    if (status == TARN_OK && block) {
        note_free(guard, block, stream);
        if (tarn__samples_free_quickly(guard, block, stream))
            return TARN_OK;
    }
    struct tarn__kept_error last = tarn__error_keep();
    if (status == TARN_OK && !block && !freed_before.address) {
        tarn__checks_poll(guard);
        status = tarn__blocks_take_live(guard, resource, address, bytes, &block,
                                        &freed_before);
        if (block)
            note_free(guard, block, stream);
    }
    if (status != TARN_OK)
        return status;
    if (!block && freed_before.address)
        return reject_second_free(guard, &freed_before);
    if (!block)
        return tarn__operations_deallocate(resource, address, bytes, alignment, stream);
    status = free_taken(guard, block, stream);
    if (status != TARN_OK)
        return status;
    if (tarn__quarantine_must_settle(guard))
        tarn__quarantine_settle(guard);
    tarn__quarantine_shorten(guard, NULL, guard->options.quarantine_bytes);
    tarn__error_restore(&last);
    return TARN_OK;
}

/* --- the other operations --- */

bool tarn__guard_requested_bytes(struct tarn__guard *guard, tarn_device_ptr block,
                                 size_t *out)
{
    tarn__mutex_lock(&guard->lock);
    struct tarn__guard_block **found = tarn__map_get(&guard->blocks, block);
    if (found)
        *out = (*found)->site.bytes;
    bool is_found = found || tarn__samples_requested_bytes(guard, block, out);
    tarn__mutex_unlock(&guard->lock);
    return is_found;
}

void tarn__guard_flush(struct tarn__guard *guard, tarn_resource *resource)
{
    tarn__quarantine_settle(guard);
    tarn__samples_flush(guard, resource);
    tarn__quarantine_shorten(guard, resource, 0);
}

void tarn__guard_wait_for_hands(struct tarn__guard *guard)
{
    tarn__mutex_lock(&guard->lock);
    while (guard->in_hand > 0 && !tarn__driver_gone())
        pthread_cond_wait(&guard->hand_is_empty, &guard->lock.mutex);
    tarn__mutex_unlock(&guard->lock);
}

tarn_status tarn__guard_check(struct tarn__guard *guard)
{
    tarn_status status = tarn__driver_check();

    if (status != TARN_OK)
        return status;
    tarn__quarantine_settle(guard);
    status = tarn__samples_settle(guard);
    for (int device = 0; device < TARN__DEVICES_MAX; device++) {
        tarn_status checked = tarn__workspace_is_used(guard, device)
                                  ? tarn__sweep_device(guard, device)
                                  : TARN_OK;
        if (checked != TARN_OK)
            status = checked;
    }
    tarn_status finished = tarn__checks_finish(guard);
    return status != TARN_OK ? status : finished;
}

void tarn__guard_counts(struct tarn__guard *guard, tarn_guard_counts *out)
{
    size_t size = out->size;
    uint64_t bytes;

    tarn__mutex_lock(&guard->lock);
    size_t waiting = tarn__samples_waiting(guard, &bytes);
    *out = guard->counts;
    out->pending += waiting;
    out->quarantined_blocks = waiting + guard->quarantine.count + guard->unordered.count;
    out->quarantined_bytes = bytes + guard->quarantine.bytes + guard->unordered.bytes;
    tarn__mutex_unlock(&guard->lock);
    out->size = size;
}

/* --- begin and end --- */

struct tarn__guard *tarn__guard_create(const tarn_guard_options *options, bool has_marks)
{
    struct tarn__guard *guard = calloc(1, sizeof *guard);

    if (!guard)
        return NULL;
    tarn__annotations_stop();
    guard->options = *options;
    guard->has_marks = has_marks;
    pthread_mutex_init(&guard->live_lock, NULL);
    pthread_cond_init(&guard->hand_is_empty, NULL);
    tarn__mutex_init(&guard->lock, NULL);
    tarn__map_init(&guard->blocks, sizeof(struct tarn__guard_block *));
    tarn__map_init(&guard->freed, sizeof(struct tarn__guard_block *));
    tarn__blocks_init_list(&guard->quarantine);
    tarn__blocks_init_list(&guard->unordered);
    guard->check_end = &guard->first_check;
    if (options->guard && options->sample > 1)
        guard->slots = tarn__slot_sets_create(); /* without it samples cost more */
    return guard;
}

/* Return true if the guard has freed blocks. */
static bool has_freed(struct tarn__guard *guard)
{
    uint64_t bytes;

    tarn__mutex_lock(&guard->lock);
    size_t freed = guard->quarantine.count + guard->unordered.count +
                   tarn__samples_waiting(guard, &bytes);
    tarn__mutex_unlock(&guard->lock);
    return freed > 0;
}

void tarn__guard_destroy(struct tarn__guard *guard)
{
    tarn__guard_check(guard);
    tarn__guard_flush(guard, NULL);
    if (has_freed(guard))
        tarn__guard_flush(guard, NULL); /* a call failed; it is tried once more */
    tarn__checks_finish(guard);
    tarn__samples_drop(guard);
    if (guard->quarantine.count + guard->unordered.count > 0 && !tarn__driver_gone())
        tarn__warn("guard: %zu freed blocks are leaked, since their free failed",
                   guard->quarantine.count + guard->unordered.count);
    tarn__quarantine_drop(guard, &guard->quarantine);
    tarn__quarantine_drop(guard, &guard->unordered);
    tarn__checks_drop(guard);
    tarn__workspace_end_all(guard);
    tarn__mutex_destroy(&guard->lock);
    pthread_mutex_destroy(&guard->live_lock);
    pthread_cond_destroy(&guard->hand_is_empty);
    tarn__map_free(&guard->blocks);
    tarn__map_free(&guard->freed);
    tarn__slot_sets_destroy(guard->slots);
    free(guard);
}
