/* slot_batches.c -- batches of freed slots: their event, their check and their fill.
 *
 * A thread takes a batch out of the list before it makes a call of the driver, so that no
 * lock is held. A batch whose event is not complete returns to the end of the list.
 *
 * The slots of a batch are sorted by their addresses. Each run of adjacent ones has one copy
 * and one fill. Slots are used in the order of their addresses at first, so that most
 * batches are few runs.
 */
#include "guard/slot_batches.h"
#include "base/error.h"
#include "base/mutex_assert.h"
#include "driver/quiesce.h"
#include "driver/stream.h"
#include "guard/blocks.h"
#include "guard/checks.h"
#include "guard/quarantine.h"
#include "resource/discards.h"
#include <stdlib.h>

enum { POLLED_AT_ONCE = 4, MADE_AT_ONCE = 16 };

enum state {
    OPEN,    /* frees join it */
    UNKNOWN, /* no event could be recorded: a wait for the device has to end it */
    USED,    /* `event` is behind the program's work; NULL: the work is complete */
    QUEUED   /* `event` is behind the copies and the fill */
};

struct tarn__slot_batch {
    struct tarn__slot_batch *next;
    enum state state;
    struct tarn__order_known known; /* the stream of the frees, and the context */
    uint64_t freed_bytes; /* the guard's at the last free: for the quarantine */
    bool is_new;          /* of slots that were never used */
    bool is_copied, is_refilled;
    CUevent_ event;
    struct tarn__workspace_buffer *buffer;
    size_t bytes; /* of all slots */
    size_t count;
    struct tarn__guard_block *slots[TARN__SLOTS_IN_BATCH];
};

/* --- the list --- */

static void append(struct tarn__guard *guard, struct tarn__slot_batch *batch)
{
    struct tarn__slots *slots = guard->slots;

    batch->next = NULL;
    tarn__mutex_lock(&guard->lock);
    *slots->end = batch;
    slots->end = &batch->next;
    slots->batch_count++;
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
        slots->batch_count--;
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

/* Count the checks of a batch that were made, and those that were not possible. */
static void count_checks(struct tarn__guard *guard, size_t checked, size_t unchecked)
{
    tarn__mutex_lock(&guard->lock);
    guard->counts.checks += checked;
    guard->counts.unchecked += unchecked;
    tarn__mutex_unlock(&guard->lock);
}

static void compare(struct tarn__guard *guard, const struct tarn__slot_batch *batch)
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

/* --- the check and the fill --- */

static int by_address(const void *one, const void *two)
{
    const struct tarn__guard_block *const *a = one, *const *b = two;

    return (*a)->base < (*b)->base ? -1 : (*a)->base > (*b)->base;
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

    for (size_t i = 0;
         is_mapped && tarn__discards_any_suspended() && i < batch->count; i++)
        is_mapped = tarn__workspace_is_mapped(use, batch->slots[i]->base);
    return is_mapped;
}

/* Queue the check and the fill of slots that no work uses. In a workspace. Returns false if
 * there is no buffer or no event for it. */
static bool queue(struct tarn__guard *guard, struct tarn__workspace_use *use,
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
    batch->state = QUEUED;
    return true;
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
    if (batch->state == UNKNOWN || !is_complete(use, batch->event) ||
        (batch->state == USED && !queue(guard, use, batch)) ||
        !is_complete(use, batch->event))
        return false;
    if (!batch->is_new)
        compare(guard, batch);
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

    if (!tarn__context_generation_is_current(batch->known.device, batch->known.context_generation)) {
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
        append(guard, batch);
    return is_over;
}

void tarn__slot_batches_poll(struct tarn__guard *guard)
{
    struct tarn__kept_error last = tarn__error_keep();

    for (int i = 0; i < POLLED_AT_ONCE && !tarn__driver_gone(); i++) {
        struct tarn__slot_batch *batch = take_first(guard);
        if (!batch)
            break;
        if (batch->state == USED && is_in_quarantine(guard, batch))
            append(guard, batch);
        else
            try_batch(guard, batch);
        tarn__blocks_leave_hand(guard);
    }
    tarn__error_restore(&last);
}

/* --- new slots --- */

static struct tarn__slot_batch *new_batch(enum state state,
                                          const struct tarn__order_known *known)
{
    struct tarn__slot_batch *batch = calloc(1, sizeof *batch);

    if (batch)
        *batch = (struct tarn__slot_batch){.state = state, .known = *known};
    return batch;
}

/* Return true if a slot of any stride can join a batch. */
static bool has_capacity(const struct tarn__slot_batch *batch)
{
    return batch->count < TARN__SLOTS_IN_BATCH &&
           batch->bytes + TARN__SLOTS_MOST_STRIDE <= TARN__WORKSPACE_BATCH;
}

/* The same, for two slots. */
static bool has_capacity_for_two(const struct tarn__slot_batch *batch)
{
    return batch->count + 1 < TARN__SLOTS_IN_BATCH &&
           batch->bytes + 2 * TARN__SLOTS_MOST_STRIDE <= TARN__WORKSPACE_BATCH;
}

static void join(struct tarn__slot_batch *batch, struct tarn__guard_block *slot)
{
    batch->slots[batch->count++] = slot;
    batch->bytes += slot->base_bytes;
}

void tarn__slot_batches_make(struct tarn__guard *guard, struct tarn__workspace_use *use,
                             tarn_resource *resource, size_t stride)
{
    struct tarn__order_known known = {use->device, TARN__ORDER_NO_STREAM,
                                      use->scope.context_generation};
    struct tarn__slot_batch *batch = new_batch(USED, &known);
    struct tarn__guard_block *slot;

    if (!batch)
        return;
    batch->is_new = true;
    while (batch->count < MADE_AT_ONCE && has_capacity(batch) &&
           (slot = tarn__slot_sets_make(guard, use, resource, stride)) != NULL)
        join(batch, slot);
    if (queue(guard, use, batch)) {
        append(guard, batch);
        return;
    }
    retire(guard, batch);
    release(guard, use, batch);
}

/* --- frees --- */

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

    join(batch, slot);
    slots->waiting++;
    slots->waiting_bytes += slot->base_bytes;
    slots->freed_bytes += slot->base_bytes;
    batch->freed_bytes = slots->freed_bytes;
}

bool tarn__slot_batches_join(struct tarn__guard *guard, struct tarn__guard_block *slot,
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
    bool closes_now =
        known->stream_id == TARN__ORDER_NO_STREAM && guard->options.poison;

    *full_out = NULL;
    tarn__mutex_lock(&guard->lock);
    struct tarn__slot_batch **place = find_open(guard, known);
    if (!place) /* too many streams: a batch of its own */
        place = &alone;
    if (!*place)
        *place = new_batch(OPEN, known);
    batch = *place;
    if (batch)
        join_freed(guard, batch, slot);
    if (batch && (place == &alone || closes_now || !has_capacity(batch))) {
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

bool tarn__slot_batches_add(struct tarn__guard *guard, struct tarn__workspace_use *use,
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
    full->state = is_covered ? USED : UNKNOWN;
    append(guard, full);
    tarn__slot_batches_poll(guard);
    return true;
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
        slots->batch_count--;
        if (batch->state == QUEUED) {
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
        batch->state = UNKNOWN;
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
    if (batch->state == UNKNOWN)
        batch->state = USED;
    if (batch->state == USED &&
        batch->known.context_generation == use->scope.context_generation &&
        !queue(guard, use, batch)) {
        append(guard, batch);
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
    bool is_idle = status == TARN_OK && tarn__quiesce_device(use.scope.calls) ==
                                            CUDA_SUCCESS_;
    is_done = is_idle;
    for (; batch; batch = next) {
        next = batch->next;
        if (is_idle)
            is_done = end_now(guard, &use, batch) && is_done;
        else
            append(guard, batch);
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
