/* slot_frees.c -- frees of slots, and the open batches of their streams.
 *
 * A batch is closed by the free that fills it: that free passes the stream, on which the
 * event is recorded. At most TARN__SLOTS_STREAMS streams have an open batch. A free of
 * another one is a batch of its own.
 */
#include "guard/slot_frees.h"
#include "base/mutex_assert.h"
#include "driver/quiesce.h"
#include "driver/stream.h"
#include "guard/slot_batches.h"

/* Return true if a batch has capacity for two slots of any stride. */
static bool has_capacity_for_two(const struct tarn__slot_batch *batch)
{
    return batch->count + 1 < TARN__SLOTS_IN_BATCH &&
           batch->bytes + 2 * TARN__SLOTS_MOST_STRIDE <= TARN__WORKSPACE_BATCH;
}

/* Find the stream of a free. Returns false if the driver cannot tell its id. */
static bool find_known(const struct tarn__workspace_use *use, enum tarn__order order,
                       tarn_stream stream, CUstream_ handle,
                       struct tarn__order_known *out)
{
    struct tarn__stream_identity identity;
    unsigned long long id = TARN__LEGACY_ID;

    *out = (struct tarn__order_known){use->device, TARN__ORDER_NO_STREAM,
                                      use->scope.context_generation};
    if (order == TARN__ORDER_NONE)
        return true;
    if (!tarn__stream_identify(stream, &identity))
        return false;
    if (identity.registration)
        id = identity.registration->id;
    else if (!identity.is_legacy && stream != TARN_STREAM_NONE &&
             tarn__stream_query_id("guard", &use->scope, (tarn_stream)handle, &id) !=
                 TARN_OK)
        return false;
    out->stream_id = id;
    return true;
}

/* Find the place of the open batch of a stream, or an empty place. NULL: there is none.
 * `lock` held. */
static struct tarn__slot_batch **find_open(struct tarn__guard *guard,
                                           const struct tarn__order_known *known)
{
    tarn__assert_mutex_held(&guard->lock.mutex);

    struct tarn__slot_batch **empty = NULL;

    for (size_t i = 0; i < TARN__SLOTS_STREAMS; i++) {
        struct tarn__slot_batch **place = &guard->slots->open[i];
        if (!*place)
            empty = place;
        else if ((*place)->known.stream_id == known->stream_id &&
                 (*place)->known.device == known->device &&
                 (*place)->known.context_generation == known->context_generation)
            return place;
    }
    return empty;
}

/* Add a freed slot to an open batch. `lock` held. */
static void join_freed(struct tarn__guard *guard, struct tarn__slot_batch *batch,
                       struct tarn__guard_block *slot)
{
    tarn__assert_mutex_held(&guard->lock.mutex);

    struct tarn__slots *slots = guard->slots;

    tarn__slot_batches_join(batch, slot);
    slots->waiting++;
    slots->waiting_bytes += slot->base_bytes;
    slots->freed_bytes += slot->base_bytes;
    batch->freed_bytes = slots->freed_bytes;
}

bool tarn__slot_frees_join(struct tarn__guard *guard, struct tarn__guard_block *slot,
                           const struct tarn__order_known *known)
{
    tarn__mutex_lock(&guard->lock);
    struct tarn__slot_batch **place = find_open(guard, known);
    bool joins = place && *place && has_capacity_for_two(*place);
    if (joins)
        join_freed(guard, *place, slot);
    tarn__mutex_unlock(&guard->lock);
    return joins;
}

/* Add a slot to the batch of a stream. Sets `*full_out` to a batch that has to be closed, or
 * NULL. Returns false without host memory. */
static bool join_open(struct tarn__guard *guard, struct tarn__guard_block *slot,
                      const struct tarn__order_known *known,
                      struct tarn__slot_batch **full_out)
{
    struct tarn__slot_batch *alone = NULL, *batch;
    bool closes_now = known->stream_id == TARN__ORDER_NO_STREAM && guard->options.poison;

    *full_out = NULL;
    tarn__mutex_lock(&guard->lock);
    struct tarn__slot_batch **place = find_open(guard, known);
    if (!place) /* too many streams: a batch of its own */
        place = &alone;
    if (!*place)
        *place = tarn__slot_batches_new(TARN__SLOT_BATCH_OPEN, known);
    batch = *place;
    if (batch)
        join_freed(guard, batch, slot);
    if (batch &&
        (place == &alone || closes_now || !tarn__slot_batches_has_capacity(batch))) {
        *place = NULL;
        *full_out = batch;
    }
    tarn__mutex_unlock(&guard->lock);
    return batch;
}

/* Wait for the device, and poison blocks that were freed without a stream. Returns false if
 * the wait failed. */
static bool wait_for_device(struct tarn__guard *guard, struct tarn__workspace_use *use,
                            struct tarn__slot_batch *batch)
{
    const struct tarn__calls *calls = use->scope.calls;
    CUstream_ stream = tarn__workspace_stream(use);

    if (tarn__quiesce_device(calls) != CUDA_SUCCESS_)
        return false;
    if (!guard->options.poison)
        return true;
    for (size_t i = 0; i < batch->count; i++) {
        struct tarn__guard_block *slot = batch->slots[i];
        slot->is_poisoned =
            calls->memset_d8_async(slot->site.address, TARN_GUARD_POISON_BYTE,
                                   slot->site.bytes, stream) == CUDA_SUCCESS_;
    }
    /* The program's next write would be before the poison otherwise. */
    calls->stream_synchronize(stream);
    return true;
}

/* Record the event of a batch on its stream. Returns false if a call failed. */
static bool record(struct tarn__guard *guard, struct tarn__workspace_use *use,
                   struct tarn__slot_batch *batch, CUstream_ handle)
{
    const struct tarn__calls *calls = use->scope.calls;
    CUevent_ event = tarn__workspace_take_event(guard, use);

    if (event && (calls->event_record(event, handle) == CUDA_SUCCESS_ ||
                  calls->event_record(event, handle) == CUDA_SUCCESS_)) {
        batch->event = event;
        return true;
    }
    tarn__workspace_put_event(guard, use, event);
    return false;
}

bool tarn__slot_frees_add(struct tarn__guard *guard, struct tarn__workspace_use *use,
                          struct tarn__guard_block *slot, enum tarn__order order,
                          tarn_stream stream, CUstream_ handle)
{
    struct tarn__order_known known;
    struct tarn__slot_batch *full;

    if (!find_known(use, order, stream, handle, &known))
        return false;
    if (guard->options.poison && order == TARN__ORDER_STREAM)
        slot->is_poisoned =
            use->scope.calls->memset_d8_async(slot->site.address, TARN_GUARD_POISON_BYTE,
                                              slot->site.bytes, handle) == CUDA_SUCCESS_;
    if (!join_open(guard, slot, &known, &full))
        return false;
    if (!full)
        return true;
    bool is_covered = order == TARN__ORDER_NONE ? wait_for_device(guard, use, full)
                                                : record(guard, use, full, handle);
    full->state = is_covered ? TARN__SLOT_BATCH_USED : TARN__SLOT_BATCH_UNKNOWN;
    tarn__slot_batches_append(guard, full);
    tarn__slot_batches_poll(guard);
    return true;
}
