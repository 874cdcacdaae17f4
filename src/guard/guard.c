/* guard.c -- the life of a guard, and what it does on request. guard.h describes the life of a
 * block.
 */
#include "guard/guard.h"
#include "base/warn.h"
#include "guard/annotations.h"
#include "guard/blocks.h"
#include "guard/checks.h"
#include "guard/quarantine.h"
#include "guard/samples.h"
#include "guard/slot_sets.h"
#include "guard/sweep.h"
#include "resource/intercept.h"
#include "trace/stack.h"
#include <stdlib.h>

tarn_stack tarn__guard_capture_site(const struct tarn__guard *guard)
{
    unsigned depth = guard->options.stack_depth;

    return depth > 0 ? tarn_stack_capture(depth)
                     : tarn__stack_capture_caller(tarn__intercept_caller);
}

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
