/* samples.c -- samples that are served from slots.
 *
 * A sample as an ordinary block takes seven calls of the driver. A slot takes a share of
 * those of its batch, and most allocations and frees need not make the context current.
 * The first sample of a size finds no slot: it is an ordinary block, and has slots made. So
 * is each sample while the device is far behind the program.
 */
#include "guard/samples.h"
#include "base/mutex_assert.h"
#include "guard/blocks.h"
#include "guard/slot_batches.h"
#include "guard/slot_frees.h"
#include "resource/discards.h"

enum { LOW = 4 }; /* free slots of a set, below which batches are queried */
/* Most bytes of freed slots, beside the quarantine, above which no more are made. */
#define MOST_WAITING ((uint64_t)16 << 20)

/* --- allocations --- */

/* Find the stride for a block; 0: it gets no slot. While a pool is suspended, its slots are
 * not mapped. */
static size_t stride_for(const struct tarn__guard *guard, size_t bytes, size_t alignment)
{
    return guard->slots && !tarn__discards_any_suspended()
               ? tarn__slot_sets_stride(guard, bytes, alignment)
               : 0;
}

struct tarn__guard_block *tarn__samples_take_quickly(struct tarn__guard *guard,
                                                     const tarn_resource *resource,
                                                     size_t bytes, size_t alignment,
                                                     tarn_stream stream)
{
    size_t stride = stride_for(guard, bytes, alignment);
    struct tarn__order_known known;

    if (stride == 0 || !tarn__order_find_quickly(resource, stream, &known))
        return NULL;
    struct tarn__guard_block *slot =
        tarn__slot_sets_take(guard, resource, stride, known.context_generation, LOW);
    if (slot)
        tarn__slot_sets_lay_out(guard, slot, bytes);
    return slot;
}

static bool may_make(struct tarn__guard *guard)
{
    tarn__mutex_lock(&guard->lock);
    bool is_below =
        guard->slots->waiting_bytes <= guard->options.quarantine_bytes + MOST_WAITING;
    tarn__mutex_unlock(&guard->lock);
    return is_below;
}

struct tarn__guard_block *tarn__samples_take(struct tarn__guard *guard,
                                             struct tarn__workspace_use *use,
                                             tarn_resource *resource, size_t bytes,
                                             size_t alignment)
{
    size_t stride = stride_for(guard, bytes, alignment);

    if (stride == 0)
        return NULL;
    tarn__slot_batches_poll(guard);
    struct tarn__guard_block *slot =
        tarn__slot_sets_take(guard, resource, stride, use->scope.context_generation, 0);
    if (slot)
        tarn__slot_sets_lay_out(guard, slot, bytes);
    else if (may_make(guard))
        tarn__slot_batches_make(guard, use, resource, stride);
    return slot;
}

void tarn__samples_begin(struct tarn__guard *guard, struct tarn__guard_block *slot)
{
    tarn__mutex_lock(&guard->lock);
    slot->is_live = true;
    slot->site.is_freed = false;
    guard->counts.guarded++;
    tarn__mutex_unlock(&guard->lock);
}

/* --- frees --- */

tarn_status tarn__samples_take_live(struct tarn__guard *guard,
                                    const tarn_resource *resource,
                                    tarn_device_ptr address, size_t bytes,
                                    struct tarn__guard_block **out,
                                    struct tarn__guard_site *site_out)
{
    tarn_status status = TARN_OK;
    struct tarn__guard_block wrong;

    *out = NULL;
    if (!guard->slots)
        return TARN_OK;
    tarn__blocks_lock_live(guard);
    tarn__mutex_lock(&guard->lock);
    struct tarn__guard_block *slot = tarn__slot_sets_find(guard, address);
    bool is_live = slot && slot->is_live;
    bool is_right = is_live && slot->site.bytes == bytes &&
                    tarn_resource_is_equal(slot->resource, resource);
    if (is_right) {
        slot->is_live = false;
        *out = slot;
    } else if (is_live) {
        wrong = *slot;
    } else if (slot && slot->site.is_freed && !tarn__blocks_is_stale(slot)) {
        *site_out = slot->site;
    }
    tarn__mutex_unlock(&guard->lock);
    tarn__blocks_unlock_live(guard);
    if (is_live && !is_right)
        status = tarn__blocks_wrong_free(&wrong, resource, bytes);
    return status;
}

bool tarn__samples_free_quickly(struct tarn__guard *guard, struct tarn__guard_block *slot,
                                tarn_stream stream)
{
    struct tarn__order_known known;

    return !guard->options.poison &&
           tarn__order_find_quickly(slot->resource, stream, &known) &&
           known.context_generation == slot->context_generation &&
           tarn__slot_frees_join(guard, slot, &known);
}

void tarn__samples_leave(struct tarn__guard *guard, struct tarn__guard_block *block)
{
    if (block->set)
        tarn__slot_sets_leave(guard, block);
}

bool tarn__samples_free(struct tarn__guard *guard, struct tarn__workspace_use *use,
                        struct tarn__guard_block *block, enum tarn__order order,
                        tarn_stream stream, CUstream_ handle)
{
    if (block->set && order != TARN__ORDER_CAPTURED &&
        tarn__slot_frees_add(guard, use, block, order, stream, handle))
        return true;
    tarn__samples_leave(guard, block);
    return false;
}

/* --- the other operations --- */

tarn_status tarn__samples_settle(struct tarn__guard *guard)
{
    tarn_status status = TARN_OK;

    for (int device = 0; guard->slots && device < TARN__DEVICES_MAX; device++) {
        tarn_status settled =
            tarn__driver_gone() ? TARN_OK : tarn__slot_batches_settle(guard, device);
        if (settled != TARN_OK)
            status = settled;
    }
    return status;
}

void tarn__samples_flush(struct tarn__guard *guard, tarn_resource *resource)
{
    tarn__samples_settle(guard);
    if (guard->slots)
        tarn__slot_sets_retire_ready(guard, resource);
}

size_t tarn__samples_waiting(const struct tarn__guard *guard, uint64_t *bytes_out)
{
    tarn__assert_mutex_held(&guard->lock.mutex);

    *bytes_out = guard->slots ? guard->slots->waiting_bytes : 0;
    return guard->slots ? guard->slots->waiting : 0;
}

bool tarn__samples_requested_bytes(const struct tarn__guard *guard,
                                   tarn_device_ptr address, size_t *out)
{
    tarn__assert_mutex_held(&guard->lock.mutex);

    const struct tarn__guard_block *slot = tarn__slot_sets_find(guard, address);

    if (!slot || !slot->is_live)
        return false;
    *out = slot->site.bytes;
    return true;
}

void tarn__samples_drop(struct tarn__guard *guard)
{
    if (guard->slots)
        tarn__slot_batches_drop(guard);
}
