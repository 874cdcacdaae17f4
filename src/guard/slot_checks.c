/* slot_checks.c -- the check and the fill of a batch of slots, in few calls of the driver.
 *
 * Slots are used in the order of their addresses at first, so that most batches are few
 * runs. A run cannot span two allocations of the driver. If a call for a run fails, each
 * slot of these sets has a call of its own from then on.
 */
#include "guard/slot_checks.h"
#include "guard/checks.h"
#include "resource/discards.h"
#include <stdlib.h>

/* --- the copies and the fill --- */

static int by_address(const void *one, const void *two)
{
    const struct tarn__guard_block *const *a = one, *const *b = two;

    return (*a)->base<(*b)->base ? -1 : (*a)->base>(*b)->base;
}

/* Find the bytes of the run that begins at `first`: of adjacent slots that one call can
 * span. */
static size_t run_at(const struct tarn__slot_batch *batch, size_t first,
                     size_t *count_out)
{
    tarn_device_ptr base = batch->slots[first]->base;
    size_t bytes = 0, next = first;

    while (next < batch->count && batch->slots[next]->base == base + bytes &&
           (next == first || !atomic_load(&batch->slots[next]->set->is_split)))
        bytes += batch->slots[next++]->base_bytes;
    *count_out = next - first;
    return bytes;
}

/* Have each slot of a run be one of its own, after a call that failed. Returns false if it
 * is. */
static bool split_run(const struct tarn__slot_batch *batch, size_t first, size_t count)
{
    for (size_t i = first; i < first + count; i++)
        atomic_store(&batch->slots[i]->set->is_split, true);
    return count > 1;
}

/* Queue the copies into the buffer. Returns false if a call failed. */
static bool copy(const struct tarn__slot_batch *batch, const struct tarn__calls *calls,
                 CUstream_ stream)
{
    unsigned char *to = batch->buffer->bytes;
    size_t count;

    for (size_t i = 0; i < batch->count;) {
        size_t bytes = run_at(batch, i, &count);
        if (calls->memcpy_dtoh_async(to, batch->slots[i]->base, bytes, stream) ==
            CUDA_SUCCESS_) {
            to += bytes;
            i += count;
        } else if (!split_run(batch, i, count)) {
            return false;
        }
    }
    return true;
}

/* Queue the fill. Returns false if a call failed. */
static bool fill(const struct tarn__slot_batch *batch, const struct tarn__calls *calls,
                 CUstream_ stream)
{
    size_t count;

    for (size_t i = 0; i < batch->count; i++)
        batch->slots[i]->discards = tarn__discards();
    for (size_t i = 0; i < batch->count;) {
        size_t bytes = run_at(batch, i, &count);
        if (calls->memset_d8_async(batch->slots[i]->base, TARN_GUARD_ZONE_BYTE, bytes,
                                   stream) == CUDA_SUCCESS_)
            i += count;
        else if (!split_run(batch, i, count))
            return false;
    }
    return true;
}

/* Leave out the slots whose bytes may be lost. */
static void choose_checks(struct tarn__slot_batch *batch)
{
    for (size_t i = 0; i < batch->count; i++)
        if (batch->slots[i]->discards != tarn__discards())
            batch->slots[i]->is_filled = batch->slots[i]->is_poisoned = false;
}

/* Return true if the memory of all slots is mapped. */
static bool is_mapped(const struct tarn__workspace_use *use,
                      const struct tarn__slot_batch *batch)
{
    bool is_mapped = true;

    for (size_t i = 0; is_mapped && tarn__discards_any_suspended() && i < batch->count;
         i++)
        is_mapped = tarn__workspace_is_mapped(use, batch->slots[i]->base);
    return is_mapped;
}

bool tarn__slot_checks_queue(struct tarn__guard *guard, struct tarn__workspace_use *use,
                             struct tarn__slot_batch *batch)
{
    const struct tarn__calls *calls = use->scope.calls;
    CUstream_ stream = tarn__workspace_stream(use);

    if (!batch->event)
        batch->event = tarn__workspace_take_event(guard, use);
    if (!batch->event)
        return false;
    if (!batch->is_new) {
        batch->buffer =
            tarn__workspace_take_buffer(guard, use, TARN__WORKSPACE_FOR_BATCH);
        if (!batch->buffer)
            return false;
        choose_checks(batch);
    }
    qsort(batch->slots, batch->count, sizeof *batch->slots, by_address);
    if (is_mapped(use, batch)) {
        batch->is_copied = batch->buffer && copy(batch, calls, stream);
        batch->is_refilled = fill(batch, calls, stream);
    }
    /* Without an event the buffer cannot be used, and the slots not be filled in order. */
    if (calls->event_record(batch->event, stream) != CUDA_SUCCESS_ &&
        calls->event_record(batch->event, stream) != CUDA_SUCCESS_) {
        batch->is_copied = batch->is_refilled = false;
        if (calls->stream_synchronize(stream) != CUDA_SUCCESS_)
            batch->buffer = NULL; /* a copy may be under way */
        tarn__workspace_put_event(guard, use, batch->event);
        batch->event = NULL;
    }
    batch->state = TARN__SLOT_BATCH_QUEUED;
    return true;
}

/* --- the comparison --- */

/* Count the checks of a batch that were made, and those that were not possible. */
static void count_checks(struct tarn__guard *guard, size_t checked, size_t unchecked)
{
    tarn__mutex_lock(&guard->lock);
    guard->counts.checks += checked;
    guard->counts.unchecked += unchecked;
    tarn__mutex_unlock(&guard->lock);
}

void tarn__slot_checks_compare(struct tarn__guard *guard,
                               const struct tarn__slot_batch *batch)
{
    const unsigned char *copy = batch->buffer ? batch->buffer->bytes : NULL;
    size_t checked = 0;

    for (size_t i = 0; i < batch->count; i++) {
        const struct tarn__guard_block *slot = batch->slots[i];
        if (batch->is_copied && slot->is_filled)
            tarn__checks_compare(guard, slot, copy);
        checked += batch->is_copied && slot->is_filled;
        if (copy)
            copy += slot->base_bytes;
    }
    count_checks(guard, checked, batch->count - checked);
}
