/* checks.c -- copies of red zones and freed blocks that wait for their events.
 *
 * A thread takes a check out of the list before it queries its event, so that no lock is
 * held. A check whose event is not complete returns to the end of the list. One event of a
 * slow stream thus holds up no others.
 */
#include "guard/checks.h"
#include "base/error.h"
#include "guard/damage.h"
#include "guard/slot_sets.h"
#include "resource/discards.h"
#include <stdlib.h>

enum { POLLED_AT_ONCE = 4 };

struct tarn__check {
    struct tarn__check *next;
    struct tarn__guard_site site;
    bool is_repeated;               /* another check of the same bytes will follow */
    size_t front, back, head, tail; /* bytes of each part, in this order in the buffer */
    struct tarn__workspace_buffer *buffer;
    CUevent_ event;
    uint64_t context_generation;
};

/* --- the list --- */

static void append(struct tarn__guard *guard, struct tarn__check *check)
{
    check->next = NULL;
    tarn__mutex_lock(&guard->lock);
    *guard->check_end = check;
    guard->check_end = &check->next;
    guard->counts.pending++;
    tarn__mutex_unlock(&guard->lock);
}

static struct tarn__check *take_first(struct tarn__guard *guard)
{
    tarn__mutex_lock(&guard->lock);
    struct tarn__check *check = guard->first_check;
    if (check) {
        guard->first_check = check->next;
        if (!check->next)
            guard->check_end = &guard->first_check;
        guard->counts.pending--;
    }
    tarn__mutex_unlock(&guard->lock);
    return check;
}

/* --- the copies --- */

/* Choose the parts of a block to copy. */
static void choose_parts(const struct tarn__guard_block *block, unsigned parts,
                         struct tarn__check *check)
{
    if ((parts & TARN__CHECKS_ZONES) && block->is_filled) {
        check->front = block->front;
        check->back = block->back;
    }
    if (!(parts & TARN__CHECKS_POISON) || !block->is_poisoned)
        return;
    check->head = block->site.bytes;
    if (check->head > TARN__WORKSPACE_WINDOW)
        check->head = check->tail = TARN__WORKSPACE_WINDOW / 2;
}

/* Queue the copies into the buffer. */
static bool copy(const struct tarn__check *check, const struct tarn__calls *calls,
                 CUstream_ stream)
{
    tarn_device_ptr address = check->site.address, end = address + check->site.bytes;
    const struct {
        tarn_device_ptr from;
        size_t bytes;
    } parts[] = {{address - check->front, check->front},
                 {end, check->back},
                 {address, check->head},
                 {end - check->tail, check->tail}};
    unsigned char *to = check->buffer->bytes;

    /* cuMemcpyAsync() would take memory that a suspended pool has unmapped for host memory,
     * and read it. */
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (parts[i].bytes > 0 &&
            calls->memcpy_dtoh_async(to, parts[i].from, parts[i].bytes, stream) !=
                CUDA_SUCCESS_)
            return false;
        to += parts[i].bytes;
    }
    return true;
}

bool tarn__checks_queue(struct tarn__guard *guard, struct tarn__workspace_use *use,
                        struct tarn__guard_block *block, CUstream_ stream, unsigned parts)
{
    struct tarn__check chosen = {.site = block->site,
                                 .is_repeated = parts & TARN__CHECKS_REPEATED,
                                 .context_generation = use->scope.context_generation};

    choose_parts(block, parts, &chosen);
    if (chosen.front + chosen.back + chosen.head == 0)
        return true;
    struct tarn__check *check = malloc(sizeof *check);
    if (!check)
        return false;
    chosen.buffer = tarn__workspace_take_buffer(
        guard, use,
        chosen.head > 0 ? TARN__WORKSPACE_FOR_WINDOW : TARN__WORKSPACE_FOR_ZONES);
    chosen.event = chosen.buffer ? tarn__workspace_take_event(guard, use) : NULL;
    *check = chosen;
    bool is_copied = chosen.event && copy(check, use->scope.calls, stream);
    /* Copies may be under way even if one failed. Without an event behind them the
     * buffer cannot be used again. */
    bool is_recorded =
        chosen.event &&
        (use->scope.calls->event_record(chosen.event, stream) == CUDA_SUCCESS_ ||
         use->scope.calls->event_record(chosen.event, stream) == CUDA_SUCCESS_);
    if (is_recorded && !is_copied)
        check->front = check->back = check->head = check->tail = 0;
    if (is_recorded) {
        append(guard, check);
        return is_copied;
    }
    if (chosen.event)
        tarn__workspace_put_event(guard, use, chosen.event);
    else if (chosen.buffer)
        tarn__workspace_put_buffer(guard, use, chosen.buffer);
    free(check);
    return false;
}

/* --- the comparison --- */

/* Note that a block has a report, if the guard still has the block in the state in which
 * it was checked: a later check would repeat the report. */
static void note_report(struct tarn__guard *guard, const struct tarn__check *check)
{
    struct tarn__map *map = check->site.is_freed ? &guard->freed : &guard->blocks;

    tarn__mutex_lock(&guard->lock);
    struct tarn__guard_block **found =
        check->is_repeated ? tarn__map_get(map, check->site.address) : NULL;
    struct tarn__guard_block *block =
        found ? *found : tarn__slot_sets_find(guard, check->site.address);
    if (check->is_repeated && block &&
        block->context_generation == check->context_generation)
        block->is_reported = true;
    tarn__mutex_unlock(&guard->lock);
}

static void compare_zone(struct tarn__guard *guard, const struct tarn__check *check,
                         const unsigned char *bytes, size_t count, int64_t offset,
                         tarn_guard_damage damage)
{
    tarn_guard_report report = {.damage = damage};

    if (!tarn__damage_find(bytes, count, TARN_GUARD_ZONE_BYTE, offset, &report))
        return;
    note_report(guard, check);
    tarn__damage_report(guard, &check->site, &report);
}

static void compare_poison(struct tarn__guard *guard, const struct tarn__check *check,
                           const unsigned char *bytes)
{
    tarn_guard_report head = {.damage = TARN_GUARD_AFTER_FREE}, tail = head;
    bool in_head =
        tarn__damage_find(bytes, check->head, TARN_GUARD_POISON_BYTE, 0, &head);
    bool in_tail =
        tarn__damage_find(bytes + check->head, check->tail, TARN_GUARD_POISON_BYTE,
                          (int64_t)(check->site.bytes - check->tail), &tail);

    if (in_head && in_tail)
        tarn__damage_join(&head, &tail);
    if (!in_head && !in_tail)
        return;
    note_report(guard, check);
    tarn__damage_report(guard, &check->site, in_head ? &head : &tail);
}

static void compare(struct tarn__guard *guard, const struct tarn__check *check)
{
    const unsigned char *bytes = check->buffer->bytes;

    compare_zone(guard, check, bytes, check->front, -(int64_t)check->front,
                 TARN_GUARD_BEFORE);
    bytes += check->front;
    compare_zone(guard, check, bytes, check->back, (int64_t)check->site.bytes,
                 TARN_GUARD_BEHIND);
    compare_poison(guard, check, bytes + check->back);
    tarn__mutex_lock(&guard->lock);
    guard->counts.checks++;
    tarn__mutex_unlock(&guard->lock);
}

void tarn__checks_compare(struct tarn__guard *guard,
                          const struct tarn__guard_block *block,
                          const unsigned char *copy)
{
    struct tarn__check check = {.site = block->site};
    const unsigned char *bytes = copy + block->front;

    choose_parts(block, TARN__CHECKS_ZONES | TARN__CHECKS_POISON, &check);
    if (!block->is_reported) {
        compare_zone(guard, &check, copy, check.front, -(int64_t)check.front,
                     TARN_GUARD_BEFORE);
        compare_zone(guard, &check, bytes + check.site.bytes, check.back,
                     (int64_t)check.site.bytes, TARN_GUARD_BEHIND);
    }
    /* The block is not larger than what compare_poison() takes as one part. */
    compare_poison(guard, &check, bytes);
}

/* --- the end of a check --- */

enum result { COMPARED, WAITS, GONE };

/* Compare a check if its event is complete. `waits`: wait for it. Otherwise, or if the
 * query fails, the check returns to the list. */
static enum result try_check(struct tarn__guard *guard, struct tarn__check *check,
                             bool waits)
{
    struct tarn__workspace_use use;
    CUresult_ result;

    if (!tarn__context_generation_is_current(check->site.device,
                                             check->context_generation)) {
        free(check);
        return GONE;
    }
    if (tarn__workspace_enter(guard, check->site.device, &use) != TARN_OK) {
        append(guard, check);
        return WAITS;
    }
    if (use.scope.context_generation != check->context_generation) {
        tarn__workspace_leave(&use);
        free(check);
        return GONE;
    }
    if (waits && use.scope.calls->event_synchronize)
        result = use.scope.calls->event_synchronize(check->event);
    else
        result = use.scope.calls->event_query(check->event);
    if (result != CUDA_SUCCESS_) {
        tarn__workspace_leave(&use);
        append(guard, check);
        return WAITS;
    }
    compare(guard, check);
    tarn__workspace_put_buffer(guard, &use, check->buffer);
    tarn__workspace_put_event(guard, &use, check->event);
    tarn__workspace_leave(&use);
    free(check);
    return COMPARED;
}

void tarn__checks_poll(struct tarn__guard *guard)
{
    struct tarn__kept_error last = tarn__error_keep();

    for (int i = 0; i < POLLED_AT_ONCE && !tarn__driver_gone(); i++) {
        struct tarn__check *check = take_first(guard);
        if (!check || try_check(guard, check, false) == WAITS)
            break;
    }
    tarn__error_restore(&last);
}

tarn_status tarn__checks_finish(struct tarn__guard *guard)
{
    tarn_status status = TARN_OK;

    tarn__mutex_lock(&guard->lock);
    uint64_t count = guard->counts.pending;
    tarn__mutex_unlock(&guard->lock);
    for (; count > 0 && !tarn__driver_gone(); count--) {
        struct tarn__check *check = take_first(guard);
        if (!check)
            break;
        int device = check->site.device; /* another thread may end the check */
        if (try_check(guard, check, true) == WAITS)
            status =
                tarn_error_set(TARN_DRIVER_FAILURE,
                               "guard: a check did not complete on device %d", device);
    }
    return status;
}

void tarn__checks_drop(struct tarn__guard *guard)
{
    struct tarn__check *check;
    struct tarn__workspace_use use;

    while ((check = take_first(guard)) != NULL) {
        if (!tarn__driver_gone() &&
            tarn__workspace_enter(guard, check->site.device, &use) == TARN_OK) {
            if (use.scope.context_generation == check->context_generation)
                tarn__workspace_put_event(guard, &use, check->event);
            tarn__workspace_leave(&use);
        }
        free(check);
    }
}
