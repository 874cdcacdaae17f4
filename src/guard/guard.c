/* guard.c -- guarded allocations and frees, and the quarantine. guard.h describes the life
 * of a block.
 *
 * A block whose free fails is live again, as the contract of resources says. Its bytes may
 * have the poison by then.
 */
#include "guard/guard.h"
#include "base/error.h"
#include "base/mutex_assert.h"
#include "base/size.h"
#include "base/warn.h"
#include "driver/quiesce.h"
#include "driver/stream.h"
#include "guard/checks.h"
#include "guard/damage.h"
#include "resource/block_generation.h"
#include "resource/intercept.h"
#include "resource/internal.h"
#include "resource/operations.h"
#include <stdlib.h>

/* Most blocks that were freed without a stream, before one wait covers them. */
enum { UNORDERED_BLOCKS = 64 };
#define UNORDERED_BYTES ((uint64_t)64 << 20)

/* --- lists --- */

static void list_init(struct tarn__guard_list *list)
{
    *list = (struct tarn__guard_list){.end = &list->first};
}

/* `lock` held. */
static void list_append(struct tarn__guard *guard, struct tarn__guard_list *list,
                        struct tarn__guard_block *block)
{
    tarn__assert_mutex_held(&guard->lock.mutex);

    block->next = NULL;
    *list->end = block;
    list->end = &block->next;
    list->count++;
    list->bytes += block->base_bytes;
}

/* Take the oldest block of `resource` (NULL: of any). `lock` held. */
static struct tarn__guard_block *list_take(struct tarn__guard *guard,
                                           struct tarn__guard_list *list,
                                           const tarn_resource *resource)
{
    tarn__assert_mutex_held(&guard->lock.mutex);

    struct tarn__guard_block **link = &list->first, *block;

    while (*link && resource && (*link)->resource != resource)
        link = &(*link)->next;
    block = *link;
    if (!block)
        return NULL;
    *link = block->next;
    if (list->end == &block->next)
        list->end = link;
    list->count--;
    list->bytes -= block->base_bytes;
    return block;
}

/* --- the tables --- */

/* Keep live and freed blocks as they are, while they are checked. A forked child does not
 * take this lock: its parent may hold it across calls of the driver. */
static void lock_live(struct tarn__guard *guard)
{
    if (!tarn__driver_gone())
        pthread_mutex_lock(&guard->live_lock);
}

static void unlock_live(struct tarn__guard *guard)
{
    if (!tarn__driver_gone())
        pthread_mutex_unlock(&guard->live_lock);
}

/* Reserve an entry in each table, so that a block can change from one to the other. */
static bool reserve_entry(struct tarn__guard *guard)
{
    tarn__mutex_lock(&guard->lock);
    size_t wanted = guard->pending + guard->blocks.count + guard->freed.count + 1;
    bool is_reserved = tarn__map_reserve(&guard->blocks, wanted - guard->blocks.count) &&
                       tarn__map_reserve(&guard->freed, wanted - guard->freed.count);
    guard->pending += is_reserved;
    tarn__mutex_unlock(&guard->lock);
    return is_reserved;
}

static void release_entry(struct tarn__guard *guard)
{
    tarn__mutex_lock(&guard->lock);
    guard->pending--;
    tarn__mutex_unlock(&guard->lock);
}

static bool has_mark(const struct tarn__guard_block *block)
{
    return (block->site.address & TARN__INTERCEPT_MARK) != 0;
}

/* Count a live block without the mark, or one less. */
static void count_unmarked(const struct tarn__guard *guard,
                           const struct tarn__guard_block *block, bool is_less)
{
    if (guard->has_marks && !has_mark(block))
        tarn__intercept_count_unmarked(is_less);
}

/* Enter a live block, with its reserved entry. */
static void put_live(struct tarn__guard *guard, struct tarn__guard_block *block)
{
    struct tarn__guard_block *old = NULL;

    count_unmarked(guard, block, false);
    tarn__mutex_lock(&guard->lock);
    block->site.is_freed = false;
    /* The memory of a context that was reset is allocated again. */
    tarn__map_take(&guard->blocks, block->site.address, &old);
    tarn__map_put(&guard->blocks, block->site.address, &block);
    guard->pending--;
    tarn__mutex_unlock(&guard->lock);
    if (old)
        count_unmarked(guard, old, true);
    free(old);
}

/* Keep a freed block in a list. The entry of an older one with its address, of a context
 * that was reset, becomes a reserved one. */
static void put_freed(struct tarn__guard *guard, struct tarn__guard_list *list,
                      struct tarn__guard_block *block)
{
    tarn__mutex_lock(&guard->lock);
    guard->pending += tarn__map_take(&guard->freed, block->site.address, NULL);
    tarn__map_put(&guard->freed, block->site.address, &block);
    guard->pending--;
    list_append(guard, list, block);
    tarn__mutex_unlock(&guard->lock);
}

/* Take the oldest kept block of `resource` (NULL: of any) if more than `keep_bytes` are in
 * the list. It is in hand then, and its entry stays reserved. */
static struct tarn__guard_block *take_freed(struct tarn__guard *guard,
                                            struct tarn__guard_list *list,
                                            const tarn_resource *resource,
                                            uint64_t keep_bytes)
{
    struct tarn__guard_block *found = NULL, **entry;

    lock_live(guard);
    tarn__mutex_lock(&guard->lock);
    if (list->bytes > keep_bytes)
        found = list_take(guard, list, resource);
    entry = found ? tarn__map_get(&guard->freed, found->site.address) : NULL;
    if (entry && *entry == found)
        guard->pending += tarn__map_take(&guard->freed, found->site.address, NULL);
    guard->in_hand += found != NULL;
    tarn__mutex_unlock(&guard->lock);
    unlock_live(guard);
    return found;
}

/* End the handling of a block that take_freed() returned. */
static void leave_hand(struct tarn__guard *guard)
{
    tarn__mutex_lock(&guard->lock);
    if (--guard->in_hand == 0)
        pthread_cond_broadcast(&guard->hand_is_empty);
    tarn__mutex_unlock(&guard->lock);
}

/* --- the order of a call --- */

enum order {
    ON_STREAM, /* the guard's work goes to the stream */
    NO_STREAM, /* no stream orders the block */
    CAPTURED,  /* the stream captures, or cannot be asked */
};

/* Find the stream on which the guard works for a call with `stream`. A resource that does
 * not order memory by stream ignores the stream, which may be none. */
static enum order order_of(const tarn_resource *resource, const struct tarn__scope *scope,
                           tarn_stream stream, CUstream_ *out)
{
    CUstreamCaptureStatus_ status = CU_STREAM_CAPTURE_STATUS_NONE_;
    struct tarn__stream_identity identity;

    if (!tarn_resource_supports_streams(resource) ||
        (stream == TARN_STREAM_NONE && !resource->none_is_default &&
         tarn_resource_supports_no_stream(resource)))
        return NO_STREAM;
    if (tarn__stream_check("guard", scope, stream, tarn_resource_device(resource)) !=
            TARN_OK ||
        !tarn__stream_identify(stream, &identity) ||
        scope->calls->stream_is_capturing(identity.handle, &status) != CUDA_SUCCESS_ ||
        status != CU_STREAM_CAPTURE_STATUS_NONE_)
        return CAPTURED;
    *out = identity.handle;
    return ON_STREAM;
}

/* --- allocations --- */

/* Lay out a block. Returns false if the sizes overflow. */
static bool lay_out(const struct tarn__guard *guard, size_t bytes, size_t alignment,
                    size_t *offset_out, struct tarn__guard_block *block)
{
    size_t zone = guard->options.guard ? guard->options.zone_bytes : 0;
    size_t front = 0, whole;

    if (zone > 0) {
        if (!tarn__size_round_up(zone + TARN_ALIGNMENT, 2 * (size_t)TARN_ALIGNMENT,
                                 &front))
            return false;
        front -= TARN_ALIGNMENT; /* 256 more than a multiple of 512 */
    }
    if (!tarn__size_round_up(front, alignment, offset_out) ||
        !tarn__size_add(*offset_out, bytes, &whole) ||
        !tarn__size_add(whole, zone, &whole) ||
        !tarn__size_round_up(whole, TARN_ALIGNMENT, &block->base_bytes))
        return false;
    block->front = front;
    block->back = zone > 0 ? block->base_bytes - *offset_out - bytes : 0;
    block->alignment = alignment;
    block->site.bytes = bytes;
    return true;
}

/* Queue the fill of the red zones and the event behind it. */
static bool fill(struct tarn__guard *guard, struct tarn__workspace_use *use,
                 struct tarn__guard_block *block, CUstream_ stream)
{
    const struct tarn__calls *calls = use->scope.calls;
    tarn_device_ptr address = block->site.address;

    if (block->front == 0)
        return false;
    if (!block->event)
        block->event = tarn__workspace_take_event(guard, use);
    return block->event &&
           calls->memset_d8_async(address - block->front, TARN_GUARD_ZONE_BYTE,
                                  block->front, stream) == CUDA_SUCCESS_ &&
           calls->memset_d8_async(address + block->site.bytes, TARN_GUARD_ZONE_BYTE,
                                  block->back, stream) == CUDA_SUCCESS_ &&
           calls->event_record(block->event, stream) == CUDA_SUCCESS_;
}

/* Fill the red zones of a new block. In a workspace. A block without a stream is ready for
 * all streams, so the fill has to be over. It waits for no work of the program. */
static void begin_block(struct tarn__guard *guard, struct tarn__workspace_use *use,
                        struct tarn__guard_block *block, enum order order,
                        CUstream_ stream)
{
    block->context_generation = use->scope.context_generation;
    if (order == ON_STREAM) {
        block->is_filled = fill(guard, use, block, stream);
        return;
    }
    stream = tarn__workspace_fill_stream(use);
    block->is_filled = fill(guard, use, block, stream) &&
                       use->scope.calls->stream_synchronize(stream) == CUDA_SUCCESS_;
}

/* Allocate with red zones. In a workspace. TARN_OUT_OF_MEMORY: the resource has no
 * memory. */
static tarn_status allocate_larger(struct tarn__guard *guard, tarn_resource *resource,
                                   size_t bytes, size_t alignment, tarn_stream stream,
                                   struct tarn__guard_block *block)
{
    size_t offset;

    if (!lay_out(guard, bytes, alignment, &offset, block))
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

/* Allocate a guarded block. In a workspace. */
static tarn_status allocate_guarded(struct tarn__guard *guard,
                                    struct tarn__workspace_use *use,
                                    tarn_resource *resource, size_t bytes,
                                    size_t alignment, tarn_stream stream,
                                    enum order order, CUstream_ handle,
                                    tarn_device_ptr *out)
{
    struct tarn__guard_block *block = calloc(1, sizeof *block);

    if (!block || !reserve_entry(guard)) {
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
        release_entry(guard);
        free(block);
        return status;
    }
    block->resource = resource;
    block->site.resource = tarn_resource_name(resource);
    block->site.device = tarn_resource_device(resource);
    block->site.allocated_on = tarn__stream_number(stream);
    block->site.allocation = tarn_stack_capture(guard->options.stack_depth);
    begin_block(guard, use, block, order, handle);
    *out = block->site.address;
    put_live(guard, block);
    return TARN_OK;
}

tarn_status tarn__guard_allocate(struct tarn__guard *guard, tarn_resource *resource,
                                 size_t bytes, size_t alignment, tarn_stream stream,
                                 tarn_device_ptr *out)
{
    int device = tarn_resource_device(resource);
    tarn_status status = TARN_NOT_SUPPORTED;
    struct tarn__workspace_use use;
    CUstream_ handle = NULL;

    if (device != TARN_DEVICE_NONE && !tarn__driver_gone()) {
        struct tarn__kept_error last = tarn__error_keep();
        tarn__checks_poll(guard);
        if (tarn__workspace_enter(guard, device, &use) == TARN_OK) {
            enum order order = order_of(resource, &use.scope, stream, &handle);
            if (order != CAPTURED)
                status = allocate_guarded(guard, &use, resource, bytes, alignment, stream,
                                          order, handle, out);
            tarn__workspace_leave(&use);
        }
        tarn__error_restore(&last);
    }
    count_allocation(guard, status == TARN_OK);
    return status == TARN_OK
               ? TARN_OK
               : tarn__operations_allocate(resource, bytes, alignment, stream, out);
}

/* --- the end of a block --- */

/* Return a block to its resource. After a reset another block may have its address. */
static tarn_status return_block(const struct tarn__guard_block *block, tarn_stream stream)
{
    uint64_t before = tarn__block_generation_set(block->context_generation);
    tarn_status status = tarn__operations_deallocate(
        block->resource, block->base, block->base_bytes, block->alignment, stream);

    tarn__block_generation_set(before);
    return status;
}

/* Drop the record of a block that its resource has again. Its entry stays reserved. In a
 * workspace, or with NULL. */
static void end_block(struct tarn__guard *guard, struct tarn__workspace_use *use,
                      struct tarn__guard_block *block)
{
    if (use && use->scope.context_generation == block->context_generation)
        tarn__workspace_put_event(guard, use, block->event);
    release_entry(guard);
    free(block);
}

static void count_unchecked(struct tarn__guard *guard)
{
    tarn__mutex_lock(&guard->lock);
    guard->counts.unchecked++;
    tarn__mutex_unlock(&guard->lock);
}

/* Queue the check of a freed block, and the poison. `stream` is behind its last use. In a
 * workspace. */
static void finish_use(struct tarn__guard *guard, struct tarn__workspace_use *use,
                       struct tarn__guard_block *block, CUstream_ stream)
{
    const struct tarn__calls *calls = use->scope.calls;
    bool is_ordered = !block->event ||
                      calls->stream_wait_event(stream, block->event, 0) == CUDA_SUCCESS_;

    if (block->is_reported)
        block->is_filled = false; /* a second report would repeat the first one */
    if (!is_ordered || !tarn__checks_queue(guard, use, block, stream, TARN__CHECKS_ZONES))
        count_unchecked(guard);
    if (!is_ordered)
        block->is_filled = false;
    block->is_reported = false;
    if (guard->options.poison && is_ordered)
        block->is_poisoned =
            calls->memset_d8_async(block->site.address, TARN_GUARD_POISON_BYTE,
                                   block->site.bytes, stream) == CUDA_SUCCESS_;
}

/* Fill the red zones again, so that the end of the quarantine finds later writes alone,
 * and record the event that the end waits for. */
static bool begin_quarantine(struct tarn__guard *guard, struct tarn__workspace_use *use,
                             struct tarn__guard_block *block, CUstream_ stream)
{
    if (!guard->options.quarantine_bytes)
        return false;
    block->is_filled = fill(guard, use, block, stream);
    if (block->is_filled)
        return true;
    if (!block->event)
        block->event = tarn__workspace_take_event(guard, use);
    return block->event &&
           use->scope.calls->event_record(block->event, stream) == CUDA_SUCCESS_;
}

/* Return a block at the end of its quarantine, after a last check, on the guard's own
 * stream. In a workspace of its device. */
static tarn_status end_quarantine(struct tarn__guard *guard,
                                  struct tarn__workspace_use *use,
                                  struct tarn__guard_block *block)
{
    CUstream_ stream = tarn__workspace_stream(use);
    bool is_current = block->context_generation == use->scope.context_generation;

    if (is_current && !block->is_reported) {
        if (use->scope.calls->stream_wait_event(stream, block->event, 0) != CUDA_SUCCESS_)
            return TARN_DRIVER_FAILURE;
        if (!tarn__checks_queue(guard, use, block, stream,
                                TARN__CHECKS_ZONES | TARN__CHECKS_POISON))
            count_unchecked(guard);
        block->is_filled = block->is_poisoned = false; /* if the block comes here again */
    }
    return return_block(block, tarn__workspace_registered(use));
}

/* Return the oldest blocks of the quarantine until `keep_bytes` are left. `resource`: its
 * blocks alone. A block whose free fails stays, and a later call tries again. */
static void shorten_quarantine(struct tarn__guard *guard, tarn_resource *resource,
                               uint64_t keep_bytes)
{
    struct tarn__kept_error last = tarn__error_keep();
    struct tarn__workspace_use use;
    struct tarn__guard_block *block;

    while (!tarn__driver_gone() &&
           (block = take_freed(guard, &guard->quarantine, resource, keep_bytes))) {
        tarn_status status = tarn__workspace_enter(guard, block->site.device, &use);
        if (status == TARN_OK) {
            status = end_quarantine(guard, &use, block);
            if (status == TARN_OK)
                end_block(guard, &use, block);
            tarn__workspace_leave(&use);
        }
        if (status != TARN_OK)
            put_freed(guard, &guard->quarantine, block);
        leave_hand(guard);
        if (status != TARN_OK)
            break;
    }
    tarn__error_restore(&last);
}

/* --- frees without a stream --- */

/* Do the work of a free for a block that no work uses any more. In a workspace. */
static tarn_status free_unordered(struct tarn__guard *guard,
                                  struct tarn__workspace_use *use,
                                  struct tarn__guard_block *block)
{
    CUstream_ stream = tarn__workspace_stream(use);

    if (block->context_generation == use->scope.context_generation) {
        finish_use(guard, use, block, stream);
        if (begin_quarantine(guard, use, block, stream)) {
            put_freed(guard, &guard->quarantine, block);
            return TARN_OK;
        }
        block->is_filled = false; /* if the free fails, the block comes here again */
    }
    tarn_status status = return_block(block, tarn__workspace_registered(use));
    if (status == TARN_OK)
        end_block(guard, use, block);
    return status;
}

/* Free a block after a wait for its device. A block for which a call fails stays. In a
 * workspace. */
static void settle_block(struct tarn__guard *guard, struct tarn__workspace_use *use,
                         struct tarn__guard_block *block)
{
    if (free_unordered(guard, use, block) != TARN_OK)
        put_freed(guard, &guard->unordered, block);
    leave_hand(guard);
}

/* Free the blocks that were freed on `device` without a stream. Waits for the device. */
static void settle_device(struct tarn__guard *guard, int device)
{
    struct tarn__workspace_use use;
    struct tarn__guard_block *block;

    if (tarn__workspace_enter(guard, device, &use) != TARN_OK)
        return;
    tarn__mutex_lock(&guard->lock);
    size_t count = guard->unordered.count; /* later ones are not covered by the wait */
    tarn__mutex_unlock(&guard->lock);
    bool is_done = tarn__quiesce_device(use.scope.calls) == CUDA_SUCCESS_;
    for (; is_done && count > 0; count--) {
        block = take_freed(guard, &guard->unordered, NULL, 0);
        if (!block)
            break;
        if (block->site.device == device) {
            settle_block(guard, &use, block);
        } else {
            put_freed(guard, &guard->unordered, block);
            leave_hand(guard);
        }
    }
    tarn__workspace_leave(&use);
}

static bool is_used(struct tarn__guard *guard, int device)
{
    tarn__mutex_lock(&guard->lock);
    bool is_found = guard->workspaces[device] != NULL;
    tarn__mutex_unlock(&guard->lock);
    return is_found;
}

/* Free the blocks that were freed without a stream. Waits for their devices. */
static void settle(struct tarn__guard *guard)
{
    struct tarn__kept_error last = tarn__error_keep();

    for (int device = 0; device < TARN__DEVICES_MAX && !tarn__driver_gone(); device++)
        if (guard->unordered.first && is_used(guard, device))
            settle_device(guard, device);
    tarn__error_restore(&last);
}

static bool is_unordered_full(struct tarn__guard *guard)
{
    tarn__mutex_lock(&guard->lock);
    bool is_full = guard->unordered.count >= UNORDERED_BLOCKS ||
                   guard->unordered.bytes >= UNORDERED_BYTES;
    tarn__mutex_unlock(&guard->lock);
    return is_full;
}

/* --- frees --- */

/* Report a second free of a block that the guard keeps. */
static tarn_status reject_second_free(struct tarn__guard *guard,
                                      const struct tarn__guard_site *site)
{
    tarn_guard_report report = {.damage = TARN_GUARD_FREED_TWICE};

    report.again = tarn_stack_capture(guard->options.stack_depth);
    tarn__damage_report(guard, site, &report);
    return tarn_error_set(TARN_INVALID_ARGUMENT,
                          "guard: 0x%llx of %zu bytes was freed before", site->address,
                          site->bytes);
}

static tarn_status check_free(const struct tarn__guard_block *block,
                              const tarn_resource *resource, size_t bytes)
{
    if (block->site.bytes != bytes)
        return tarn_error_set(
            TARN_INVALID_ARGUMENT,
            "guard: 0x%llx was allocated with %zu bytes, freed with %zu",
            block->site.address, block->site.bytes, bytes);
    if (!tarn_resource_is_equal(block->resource, resource))
        return tarn_error_set(
            TARN_INVALID_ARGUMENT,
            "guard: 0x%llx is a block of another resource (\"%s\"), freed on \"%s\"",
            block->site.address, block->site.resource, tarn_resource_name(resource));
    return TARN_OK;
}

/* Return true if the address may be another owner's by now. */
static bool is_stale(const struct tarn__guard_block *block)
{
    return !tarn__context_generation_is_current(block->site.device,
                                                block->context_generation);
}

/* Take the record of a live block, which keeps its entry. NULL with TARN_OK: the guard
 * does not have the block. A second free sets `*site_out`. */
static tarn_status take_live(struct tarn__guard *guard, const tarn_resource *resource,
                             tarn_device_ptr address, size_t bytes,
                             struct tarn__guard_block **out,
                             struct tarn__guard_site *site_out)
{
    struct tarn__guard_block **live, **freed, *found = NULL, copy;
    tarn_status status = TARN_OK;

    lock_live(guard);
    tarn__mutex_lock(&guard->lock);
    live = tarn__map_get(&guard->blocks, address);
    freed = live ? NULL : tarn__map_get(&guard->freed, address);
    if (freed && !is_stale(*freed))
        *site_out = (*freed)->site;
    if (live)
        copy = **live;
    if (live && copy.site.bytes == bytes &&
        tarn_resource_is_equal(copy.resource, resource)) {
        tarn__map_take(&guard->blocks, address, &found);
        guard->pending++;
    }
    tarn__mutex_unlock(&guard->lock);
    unlock_live(guard);
    if (found)
        count_unmarked(guard, found, true);
    else if (live)
        status = check_free(&copy, resource, bytes);
    *out = found;
    return status;
}

/* Free a block on a stream, or keep it and set `*is_kept_out`. In a workspace. */
static tarn_status free_on_stream(struct tarn__guard *guard,
                                  struct tarn__workspace_use *use,
                                  struct tarn__guard_block *block, tarn_stream stream,
                                  CUstream_ handle, bool *is_kept_out)
{
    finish_use(guard, use, block, handle);
    *is_kept_out = begin_quarantine(guard, use, block, handle);
    if (*is_kept_out) {
        put_freed(guard, &guard->quarantine, block);
        return TARN_OK;
    }
    block->is_filled = false;
    return return_block(block, stream);
}

/* Free a block whose record was taken. Sets `*is_kept_out` if the guard keeps it. In a
 * workspace. */
static tarn_status free_block(struct tarn__guard *guard, struct tarn__workspace_use *use,
                              struct tarn__guard_block *block, tarn_stream stream,
                              bool *is_kept_out)
{
    CUstream_ handle = NULL;

    if (block->context_generation != use->scope.context_generation)
        return return_block(block, stream);
    switch (order_of(block->resource, &use->scope, stream, &handle)) {
    case ON_STREAM:
        return free_on_stream(guard, use, block, stream, handle, is_kept_out);
    case NO_STREAM:
        put_freed(guard, &guard->unordered, block);
        *is_kept_out = true;
        return TARN_OK;
    default:
        count_unchecked(guard);
        return return_block(block, stream);
    }
}

static tarn_status free_taken(struct tarn__guard *guard, struct tarn__guard_block *block,
                              tarn_stream stream)
{
    struct tarn__workspace_use use;
    bool is_kept = false;

    block->site.is_freed = true;
    block->site.freed_on = tarn__stream_number(stream);
    block->site.free = tarn_stack_capture(guard->options.stack_depth);
    bool has_workspace =
        !tarn__driver_gone() &&
        tarn__workspace_enter(guard, block->site.device, &use) == TARN_OK;
    tarn_status status = has_workspace ? free_block(guard, &use, block, stream, &is_kept)
                                       : return_block(block, stream);
    if (status == TARN_OK && !is_kept)
        end_block(guard, has_workspace ? &use : NULL, block);
    if (has_workspace)
        tarn__workspace_leave(&use);
    if (status != TARN_OK) {
        struct tarn__kept_error why = tarn__error_keep();
        put_live(guard, block);
        tarn__error_restore(&why);
    }
    return status;
}

tarn_status tarn__guard_deallocate(struct tarn__guard *guard, tarn_resource *resource,
                                   tarn_device_ptr address, size_t bytes,
                                   size_t alignment, tarn_stream stream)
{
    struct tarn__kept_error last = tarn__error_keep();
    struct tarn__guard_site freed_before = {0};
    struct tarn__guard_block *block;

    tarn__checks_poll(guard);
    tarn_status status =
        take_live(guard, resource, address, bytes, &block, &freed_before);
    if (status != TARN_OK)
        return status;
    if (!block && freed_before.address)
        return reject_second_free(guard, &freed_before);
    if (!block)
        return tarn__operations_deallocate(resource, address, bytes, alignment, stream);
    status = free_taken(guard, block, stream);
    if (status != TARN_OK)
        return status;
    if (is_unordered_full(guard))
        settle(guard);
    shorten_quarantine(guard, NULL, guard->options.quarantine_bytes);
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
    tarn__mutex_unlock(&guard->lock);
    return found;
}

void tarn__guard_flush(struct tarn__guard *guard, tarn_resource *resource)
{
    settle(guard);
    shorten_quarantine(guard, resource, 0);
}

void tarn__guard_wait_for_hands(struct tarn__guard *guard)
{
    tarn__mutex_lock(&guard->lock);
    while (guard->in_hand > 0 && !tarn__driver_gone())
        pthread_cond_wait(&guard->hand_is_empty, &guard->lock.mutex);
    tarn__mutex_unlock(&guard->lock);
}

/* --- checks on request --- */

enum { CHECKED_AT_ONCE = 32 };

/* Copy the addresses of a table into an array that the caller frees. NULL: no host
 * memory. */
static uint64_t *copy_addresses(struct tarn__guard *guard, const struct tarn__map *map,
                                size_t *count_out)
{
    size_t cursor = 0, count = 0;
    uint64_t address;
    void *value;

    tarn__mutex_lock(&guard->lock);
    uint64_t *addresses = malloc((map->count + 1) * sizeof *addresses);
    while (addresses && tarn__map_next(map, &cursor, &address, &value))
        addresses[count++] = address;
    tarn__mutex_unlock(&guard->lock);
    *count_out = count;
    return addresses;
}

/* Queue the check of a block on the guard's own stream, if it is still in the table. In a
 * workspace, with live_lock. Returns false if a call failed. */
static bool queue_one(struct tarn__guard *guard, struct tarn__workspace_use *use,
                      const struct tarn__map *map, uint64_t address)
{
    CUstream_ stream = tarn__workspace_stream(use);

    tarn__mutex_lock(&guard->lock);
    struct tarn__guard_block **found = tarn__map_get(map, address);
    struct tarn__guard_block *block = found ? *found : NULL;
    tarn__mutex_unlock(&guard->lock);
    if (!block || block->site.device != use->device || block->is_reported ||
        block->context_generation != use->scope.context_generation || !block->event)
        return true;
    return use->scope.calls->stream_wait_event(stream, block->event, 0) ==
               CUDA_SUCCESS_ &&
           tarn__checks_queue(guard, use, block, stream,
                              TARN__CHECKS_ZONES | TARN__CHECKS_POISON |
                                  TARN__CHECKS_REPEATED);
}

/* Check the blocks of a table that are on the device of a workspace. The memory of a block
 * stays until it is copied, since its free needs live_lock. */
static bool check_table(struct tarn__guard *guard, struct tarn__workspace_use *use,
                        const struct tarn__map *map)
{
    size_t count;
    uint64_t *addresses = copy_addresses(guard, map, &count);
    bool is_done = addresses != NULL;

    for (size_t i = 0; is_done && i < count;) {
        pthread_mutex_lock(&guard->live_lock);
        for (size_t n = 0; n < CHECKED_AT_ONCE && i < count; n++, i++)
            is_done = queue_one(guard, use, map, addresses[i]) && is_done;
        CUresult_ result =
            use->scope.calls->stream_synchronize(tarn__workspace_stream(use));
        pthread_mutex_unlock(&guard->live_lock);
        is_done =
            is_done && result == CUDA_SUCCESS_ && tarn__checks_finish(guard) == TARN_OK;
    }
    free(addresses);
    return is_done;
}

static tarn_status check_device(struct tarn__guard *guard, int device)
{
    struct tarn__workspace_use use;
    tarn_status status = tarn__workspace_enter(guard, device, &use);

    if (status != TARN_OK)
        return status;
    if (tarn__quiesce_device(use.scope.calls) != CUDA_SUCCESS_ ||
        !check_table(guard, &use, &guard->blocks) ||
        !check_table(guard, &use, &guard->freed))
        status = tarn_error_set(TARN_DRIVER_FAILURE,
                                "guard: a check of all blocks failed, device %d", device);
    tarn__workspace_leave(&use);
    return status;
}

tarn_status tarn__guard_check(struct tarn__guard *guard)
{
    tarn_status status = tarn__driver_check();

    if (status != TARN_OK)
        return status;
    settle(guard);
    for (int device = 0; device < TARN__DEVICES_MAX; device++) {
        tarn_status checked =
            is_used(guard, device) ? check_device(guard, device) : TARN_OK;
        if (checked != TARN_OK)
            status = checked;
    }
    tarn_status finished = tarn__checks_finish(guard);
    return status != TARN_OK ? status : finished;
}

void tarn__guard_counts(struct tarn__guard *guard, tarn_guard_counts *out)
{
    size_t size = out->size;

    tarn__mutex_lock(&guard->lock);
    *out = guard->counts;
    out->quarantined_blocks = guard->quarantine.count + guard->unordered.count;
    out->quarantined_bytes = guard->quarantine.bytes + guard->unordered.bytes;
    tarn__mutex_unlock(&guard->lock);
    out->size = size;
}

/* --- begin and end --- */

struct tarn__guard *tarn__guard_create(const tarn_guard_options *options, bool has_marks)
{
    struct tarn__guard *guard = calloc(1, sizeof *guard);

    if (!guard)
        return NULL;
    guard->options = *options;
    guard->has_marks = has_marks;
    pthread_mutex_init(&guard->live_lock, NULL);
    pthread_cond_init(&guard->hand_is_empty, NULL);
    tarn__mutex_init(&guard->lock, NULL);
    tarn__map_init(&guard->blocks, sizeof(struct tarn__guard_block *));
    tarn__map_init(&guard->freed, sizeof(struct tarn__guard_block *));
    list_init(&guard->quarantine);
    list_init(&guard->unordered);
    guard->check_end = &guard->first_check;
    return guard;
}

/* Free the records of blocks whose free failed: their resource has them still. */
static void drop_list(struct tarn__guard *guard, struct tarn__guard_list *list)
{
    struct tarn__guard_block *block;

    while ((block = take_freed(guard, list, NULL, 0)) != NULL)
        end_block(guard, NULL, block);
}

void tarn__guard_destroy(struct tarn__guard *guard)
{
    tarn__guard_check(guard);
    tarn__guard_flush(guard, NULL);
    if (guard->quarantine.count + guard->unordered.count > 0)
        tarn__guard_flush(guard, NULL); /* a call failed; it is tried once more */
    tarn__checks_finish(guard);
    if (guard->quarantine.count + guard->unordered.count > 0 && !tarn__driver_gone())
        tarn__warn("guard: %zu freed blocks are leaked, since their free failed",
                   guard->quarantine.count + guard->unordered.count);
    drop_list(guard, &guard->quarantine);
    drop_list(guard, &guard->unordered);
    tarn__checks_drop(guard);
    tarn__workspace_end_all(guard);
    tarn__mutex_destroy(&guard->lock);
    pthread_mutex_destroy(&guard->live_lock);
    pthread_cond_destroy(&guard->hand_is_empty);
    tarn__map_free(&guard->blocks);
    tarn__map_free(&guard->freed);
    free(guard);
}
