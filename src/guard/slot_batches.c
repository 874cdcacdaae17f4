/* slot_batches.c -- the closed batches of slots, which wait for their events.
 *
 * A thread takes a batch out of the list before it makes a call of the driver, so that no
 * lock is held. A batch whose event is not complete returns to the end of the list.
 */
#include "guard/slot_batches.h"
#include "base/error.h"
#include "base/mutex_assert.h"
#include "driver/quiesce.h"
#include "guard/blocks.h"
#include "resource/discards.h"
#include <stdlib.h>

enum { POLLED_AT_ONCE = 4, MADE_AT_ONCE = 16 };

/* --- a batch --- */

struct tarn__slot_batch *tarn__slot_batches_new(enum tarn__slot_batch_state state,
                                                const struct tarn__order_known *known)
{
    struct tarn__slot_batch *batch = calloc(1, sizeof *batch);

    if (batch)
        *batch = (struct tarn__slot_batch){.state = state, .known = *known};
    return batch;
}

bool tarn__slot_batches_has_capacity(const struct tarn__slot_batch *batch)
{
    return batch->count < TARN__SLOTS_IN_BATCH &&
           batch->bytes + TARN__SLOTS_MOST_STRIDE <= TARN__WORKSPACE_BATCH;
}

void tarn__slot_batches_join(struct tarn__slot_batch *batch,
                             struct tarn__guard_block *slot)
{
    batch->slots[batch->count++] = slot;
    batch->bytes += slot->base_bytes;
}

/* --- the list --- */

void tarn__slot_batches_append(struct tarn__guard *guard, struct tarn__slot_batch *batch)
{
    struct tarn__slots *slots = guard->slots;

    batch->next = NULL;
    tarn__mutex_lock(&guard->lock);
    *slots->end = batch;
    slots->end = &batch->next;
    tarn__mutex_unlock(&guard->lock);
}

/* Take the first batch of the list. It is in hand then. */
static struct tarn__slot_batch *take_first(struct tarn__guard *guard)
{
    struct tarn__slots *slots = guard->slots;

    tarn__mutex_lock(&guard->lock);
    struct tarn__slot_batch *batch = slots->first;
    if (batch) {
        slots->first = batch->next;
        if (!batch->next)
            slots->end = &slots->first;
        guard->in_hand++;
    }
    tarn__mutex_unlock(&guard->lock);
    return batch;
}

/* Count slots that are no longer freed and unchecked. `lock` held. */
static void stop_waiting(struct tarn__guard *guard, const struct tarn__slot_batch *batch)
{
    tarn__assert_mutex_held(&guard->lock.mutex);

    if (batch->is_new)
        return;
    guard->slots->waiting -= batch->count;
    guard->slots->waiting_bytes -= batch->bytes;
}

/* --- the end of a batch --- */

/* Return what a batch has of a workspace. */
static void release(struct tarn__guard *guard, struct tarn__workspace_use *use,
                    struct tarn__slot_batch *batch)
{
    tarn__workspace_put_event(guard, use, batch->event);
    if (batch->buffer)
        tarn__workspace_put_buffer(guard, use, batch->buffer);
    free(batch);
}

/* Have the resource get the slots back. No work uses them but that of the guard's own
 * stream. */
static void retire(struct tarn__guard *guard, struct tarn__slot_batch *batch)
{
    tarn__mutex_lock(&guard->lock);
    stop_waiting(guard, batch);
    tarn__mutex_unlock(&guard->lock);
    for (size_t i = 0; i < batch->count; i++)
        tarn__slot_sets_retire(guard, batch->slots[i]);
    batch->count = 0;
}

/* Have the slots free again. */
static void reuse(struct tarn__guard *guard, struct tarn__slot_batch *batch)
{
    tarn__mutex_lock(&guard->lock);
    stop_waiting(guard, batch);
    for (size_t i = 0; i < batch->count; i++)
        tarn__slot_sets_put(guard, batch->slots[i]);
    tarn__mutex_unlock(&guard->lock);
    batch->count = 0;
}

/* Return true if a batch has to wait: younger frees do not exceed the quarantine yet, or a
 * pool is suspended. */
static bool is_in_quarantine(struct tarn__guard *guard,
                             const struct tarn__slot_batch *batch)
{
    if (batch->is_new)
        return false;
    tarn__mutex_lock(&guard->lock);
    uint64_t younger = guard->slots->freed_bytes - batch->freed_bytes;
    tarn__mutex_unlock(&guard->lock);
    return younger < guard->options.quarantine_bytes || tarn__discards_any_suspended();
}

static bool is_complete(const struct tarn__workspace_use *use, CUevent_ event)
{
    return !event || use->scope.calls->event_query(event) == CUDA_SUCCESS_;
}

/* Do for a batch what is possible without a wait. In a workspace of its generation. Returns
 * true if the batch has ended, and is freed. */
static bool advance(struct tarn__guard *guard, struct tarn__workspace_use *use,
                    struct tarn__slot_batch *batch)
{
    if (batch->state == TARN__SLOT_BATCH_UNKNOWN || !is_complete(use, batch->event) ||
        (batch->state == TARN__SLOT_BATCH_USED &&
         !tarn__slot_checks_queue(guard, use, batch)) ||
        !is_complete(use, batch->event))
        return false;
    if (!batch->is_new)
        tarn__slot_checks_compare(guard, batch);
    if (batch->is_refilled)
        reuse(guard, batch);
    else
        retire(guard, batch);
    release(guard, use, batch);
    return true;
}

/* Do for a batch in hand what is possible without a wait. Returns true if it has ended.
 * Otherwise it returns to the list. */
static bool try_batch(struct tarn__guard *guard, struct tarn__slot_batch *batch)
{
    struct tarn__workspace_use use;
    bool is_over = false;

    if (!tarn__context_generation_is_current(batch->known.device,
                                             batch->known.context_generation)) {
        retire(guard, batch);
        free(batch);
        return true;
    }
    if (tarn__workspace_enter(guard, batch->known.device, &use) == TARN_OK) {
        if (use.scope.context_generation == batch->known.context_generation)
            is_over = advance(guard, &use, batch);
        tarn__workspace_leave(&use);
    }
    if (!is_over)
        tarn__slot_batches_append(guard, batch);
    return is_over;
}

void tarn__slot_batches_poll(struct tarn__guard *guard)
{
    struct tarn__kept_error last = tarn__error_keep();

    for (int i = 0; i < POLLED_AT_ONCE && !tarn__driver_gone(); i++) {
        struct tarn__slot_batch *batch = take_first(guard);
        if (!batch)
            break;
        if (batch->state == TARN__SLOT_BATCH_USED && is_in_quarantine(guard, batch))
            tarn__slot_batches_append(guard, batch);
        else
            try_batch(guard, batch);
        tarn__blocks_leave_hand(guard);
    }
    tarn__error_restore(&last);
}

/* --- new slots --- */

void tarn__slot_batches_make(struct tarn__guard *guard, struct tarn__workspace_use *use,
                             tarn_resource *resource, size_t stride)
{
    struct tarn__order_known known = {use->device, TARN__ORDER_NO_STREAM,
                                      use->scope.context_generation};
    struct tarn__slot_batch *batch =
        tarn__slot_batches_new(TARN__SLOT_BATCH_USED, &known);
    struct tarn__guard_block *slot;

    if (!batch)
        return;
    batch->is_new = true;
    while (batch->count < MADE_AT_ONCE && tarn__slot_batches_has_capacity(batch) &&
           (slot = tarn__slot_sets_make(guard, use, resource, stride)) != NULL)
        tarn__slot_batches_join(batch, slot);
    if (tarn__slot_checks_queue(guard, use, batch)) {
        tarn__slot_batches_append(guard, batch);
        return;
    }
    retire(guard, batch);
    release(guard, use, batch);
}

/* --- on request --- */

/* Take all batches of a device, open and closed. They are in hand together. Those with
 * a buffer are the first: others need it. */
static struct tarn__slot_batch *take_all(struct tarn__guard *guard, int device)
{
    struct tarn__slots *slots = guard->slots;
    struct tarn__slot_batch *taken = NULL, **end = &taken, **link = &slots->first;

    tarn__mutex_lock(&guard->lock);
    while (*link) {
        struct tarn__slot_batch *batch = *link;
        if (batch->known.device != device) {
            link = &batch->next;
            continue;
        }
        *link = batch->next;
        if (batch->state == TARN__SLOT_BATCH_QUEUED) {
            batch->next = taken;
            taken = batch;
            end = end == &taken ? &batch->next : end;
        } else {
            *end = batch;
            end = &batch->next;
        }
    }
    slots->end = link;
    for (size_t i = 0; i < TARN__SLOTS_STREAMS; i++) {
        struct tarn__slot_batch *batch = slots->open[i];
        if (!batch || batch->known.device != device)
            continue;
        slots->open[i] = NULL;
        batch->state = TARN__SLOT_BATCH_UNKNOWN;
        *end = batch;
        end = &batch->next;
    }
    *end = NULL;
    guard->in_hand += taken != NULL;
    tarn__mutex_unlock(&guard->lock);
    return taken;
}

/* End a batch after a wait for the device. In a workspace. Returns false if a call
 * failed. */
static bool end_now(struct tarn__guard *guard, struct tarn__workspace_use *use,
                    struct tarn__slot_batch *batch)
{
    if (batch->state == TARN__SLOT_BATCH_UNKNOWN)
        batch->state = TARN__SLOT_BATCH_USED;
    if (batch->state == TARN__SLOT_BATCH_USED &&
        batch->known.context_generation == use->scope.context_generation &&
        !tarn__slot_checks_queue(guard, use, batch)) {
        tarn__slot_batches_append(guard, batch);
        return false;
    }
    use->scope.calls->stream_synchronize(tarn__workspace_stream(use));
    return try_batch(guard, batch);
}

tarn_status tarn__slot_batches_settle(struct tarn__guard *guard, int device)
{
    struct tarn__slot_batch *batch = take_all(guard, device), *next;
    struct tarn__workspace_use use;
    bool is_done;

    if (!batch)
        return TARN_OK;
    tarn_status status = tarn__workspace_enter(guard, device, &use);
    bool is_idle =
        status == TARN_OK && tarn__quiesce_device(use.scope.calls) == CUDA_SUCCESS_;
    is_done = is_idle;
    for (; batch; batch = next) {
        next = batch->next;
        if (is_idle)
            is_done = end_now(guard, &use, batch) && is_done;
        else
            tarn__slot_batches_append(guard, batch);
    }
    if (status == TARN_OK)
        tarn__workspace_leave(&use);
    tarn__blocks_leave_hand(guard);
    if (is_done)
        return TARN_OK;
    return tarn_error_set(TARN_DRIVER_FAILURE,
                          "guard: a check of freed blocks failed, device %d", device);
}

/* Forget the batches of a device. Their slots are in quarantine then. */
static void drop(struct tarn__guard *guard, int device)
{
    struct tarn__slot_batch *batch = take_all(guard, device), *next;
    struct tarn__workspace_use use;

    if (!batch)
        return;
    for (; batch; batch = next) {
        next = batch->next;
        retire(guard, batch);
        if (!tarn__driver_gone() &&
            tarn__workspace_enter(guard, device, &use) == TARN_OK) {
            if (use.scope.context_generation == batch->known.context_generation)
                tarn__workspace_put_event(guard, &use, batch->event);
            tarn__workspace_leave(&use);
        }
        free(batch);
    }
    tarn__blocks_leave_hand(guard);
}

void tarn__slot_batches_drop(struct tarn__guard *guard)
{
    for (int device = 0; device < TARN__DEVICES_MAX; device++)
        drop(guard, device);
}
