/* slot_sets.c -- the free slots of a guard, by their resource and size. */
#include "guard/slot_sets.h"
#include "base/mutex_assert.h"
#include "base/size.h"
#include "guard/blocks.h"
#include "resource/discards.h"
#include "resource/intercept.h"
#include "resource/operations.h"
#include <stdlib.h>

enum { LEAST_STRIDE = 2 << 10, TAKEN_AT_ONCE = 4 };

struct tarn__slots *tarn__slot_sets_create(void)
{
    struct tarn__slots *slots = calloc(1, sizeof *slots);

    if (!slots)
        return NULL;
    slots->end = &slots->first;
    tarn__map_init(&slots->by_address, sizeof(struct tarn__guard_block *));
    return slots;
}

void tarn__slot_sets_destroy(struct tarn__slots *slots)
{
    if (slots)
        tarn__map_free(&slots->by_address);
    while (slots && slots->sets) {
        struct tarn__slot_set *set = slots->sets;
        slots->sets = set->next;
        free(set);
    }
    free(slots);
}

/* --- sizes --- */

/* Return the bytes before a block: as many as zones.c lays out. */
static size_t front_of(const struct tarn__guard *guard)
{
    size_t mark = 2 * (size_t)TARN_ALIGNMENT;

    return (guard->options.zone_bytes + TARN_ALIGNMENT + mark - 1) / mark * mark -
           TARN_ALIGNMENT;
}

size_t tarn__slot_sets_stride(const struct tarn__guard *guard, size_t bytes,
                              size_t alignment)
{
    size_t stride = LEAST_STRIDE;

    if (alignment > TARN_ALIGNMENT || bytes > TARN__SLOTS_MOST_STRIDE ||
        guard->options.zone_bytes > TARN__SLOTS_MOST_STRIDE)
        return 0;
    while (stride < front_of(guard) + bytes + guard->options.zone_bytes)
        stride *= 2;
    return stride <= TARN__SLOTS_MOST_STRIDE ? stride : 0;
}

void tarn__slot_sets_lay_out(const struct tarn__guard *guard,
                             struct tarn__guard_block *slot, size_t bytes)
{
    size_t whole = bytes + guard->options.zone_bytes;

    tarn__size_round_up(whole, TARN_ALIGNMENT, &whole);
    slot->site.bytes = bytes;
    slot->back = tarn__size_least(whole, slot->base_bytes - slot->front) - bytes;
}

/* --- sets --- */

/* Find a set. NULL: there is none. `lock` held. */
static struct tarn__slot_set *find_set(struct tarn__guard *guard,
                                       const tarn_resource *resource, size_t stride)
{
    tarn__assert_mutex_held(&guard->lock.mutex);

    struct tarn__slot_set *set = guard->slots->sets;

    while (set && (set->resource != resource || set->stride != stride))
        set = set->next;
    return set;
}

struct tarn__guard_block *tarn__slot_sets_find(const struct tarn__guard *guard,
                                               tarn_device_ptr address)
{
    tarn__assert_mutex_held(&guard->lock.mutex);

    struct tarn__guard_block **found =
        guard->slots ? tarn__map_get(&guard->slots->by_address, address) : NULL;

    return found ? *found : NULL;
}

/* Count a slot out of its set, and free the set if it was the last one. `lock` held. */
static void leave_set(struct tarn__guard *guard, struct tarn__guard_block *slot)
{
    tarn__assert_mutex_held(&guard->lock.mutex);

    struct tarn__slot_set **link = &guard->slots->sets, *set = slot->set;

    slot->set = NULL;
    if (tarn__slot_sets_find(guard, slot->site.address) == slot)
        tarn__map_take(&guard->slots->by_address, slot->site.address, NULL);
    if (--set->count > 0)
        return;
    while (*link != set)
        link = &(*link)->next;
    *link = set->next;
    free(set);
}

/* Count a slot into its set, which is made if there is none. Returns false without host
 * memory. */
static bool enter_set(struct tarn__guard *guard, struct tarn__guard_block *slot)
{
    struct tarn__slot_set *made = calloc(1, sizeof *made);

    tarn__mutex_lock(&guard->lock);
    struct tarn__slot_set *set = find_set(guard, slot->resource, slot->base_bytes);
    if (!set && made) {
        *made = (struct tarn__slot_set){.next = guard->slots->sets,
                                        .resource = slot->resource,
                                        .stride = slot->base_bytes};
        tarn__blocks_init_list(&made->ready);
        set = guard->slots->sets = made;
        made = NULL;
    }
    bool has_entered =
        set && tarn__map_put(&guard->slots->by_address, slot->site.address, &slot);
    slot->set = set;
    if (set)
        set->count++;
    if (set && !has_entered)
        leave_set(guard, slot);
    tarn__mutex_unlock(&guard->lock);
    free(made);
    return has_entered;
}

/* --- slots --- */

struct tarn__guard_block *tarn__slot_sets_make(struct tarn__guard *guard,
                                               struct tarn__workspace_use *use,
                                               tarn_resource *resource, size_t stride)
{
    struct tarn__guard_block *slot = calloc(1, sizeof *slot);

    if (!slot || !tarn__blocks_reserve(guard)) {
        free(slot);
        return NULL;
    }
    slot->resource = resource;
    slot->base_bytes = stride;
    slot->alignment = TARN_ALIGNMENT;
    slot->front = front_of(guard);
    slot->site.resource = tarn_resource_name(resource);
    slot->site.device = use->device;
    slot->context_generation = use->scope.context_generation;
    if (tarn__operations_allocate(resource, stride, TARN_ALIGNMENT,
                                  tarn__workspace_registered(use),
                                  &slot->base) != TARN_OK) {
        tarn__blocks_release(guard);
        free(slot);
        return NULL;
    }
    slot->site.address = slot->base + slot->front;
    bool is_marked = !guard->has_marks || (slot->site.address & TARN__INTERCEPT_MARK);
    if (!is_marked || !enter_set(guard, slot)) {
        slot->is_reported = true; /* nothing to check */
        tarn__blocks_put_freed(guard, &guard->quarantine, slot);
        return NULL;
    }
    return slot;
}

void tarn__slot_sets_put(struct tarn__guard *guard, struct tarn__guard_block *slot)
{
    tarn__assert_mutex_held(&guard->lock.mutex);

    slot->is_filled = true;
    slot->is_poisoned = slot->is_reported = false;
    tarn__blocks_append(guard, &slot->set->ready, slot);
}

/* Take the oldest free slot, usable or not, if more than `keep` are free. */
static struct tarn__guard_block *take_any(struct tarn__guard *guard,
                                          const tarn_resource *resource, size_t stride,
                                          size_t keep)
{
    struct tarn__guard_block *slot = NULL;

    tarn__mutex_lock(&guard->lock);
    struct tarn__slot_set *set = find_set(guard, resource, stride);
    if (set && set->ready.count > keep)
        slot = tarn__blocks_take(guard, &set->ready, NULL);
    tarn__mutex_unlock(&guard->lock);
    return slot;
}

struct tarn__guard_block *tarn__slot_sets_take(struct tarn__guard *guard,
                                               const tarn_resource *resource,
                                               size_t stride, uint64_t context_generation,
                                               size_t keep)
{
    for (int i = 0; i < TAKEN_AT_ONCE; i++) {
        struct tarn__guard_block *slot = take_any(guard, resource, stride, keep);
        if (!slot)
            break;
        if (slot->context_generation == context_generation &&
            slot->discards == tarn__discards())
            return slot;
        tarn__slot_sets_retire(guard, slot);
    }
    return NULL;
}

void tarn__slot_sets_leave(struct tarn__guard *guard, struct tarn__guard_block *slot)
{
    tarn__mutex_lock(&guard->lock);
    leave_set(guard, slot);
    tarn__mutex_unlock(&guard->lock);
}

void tarn__slot_sets_retire(struct tarn__guard *guard, struct tarn__guard_block *slot)
{
    tarn__slot_sets_leave(guard, slot);
    slot->is_filled = slot->is_poisoned = false;
    slot->is_reported = true; /* no check, and no event that a check would wait for */
    tarn__blocks_put_freed(guard, &guard->quarantine, slot);
}

/* Take a free slot of `resource` (NULL: of any), in any set. */
static struct tarn__guard_block *take_ready(struct tarn__guard *guard,
                                            const tarn_resource *resource)
{
    struct tarn__guard_block *slot = NULL;

    tarn__mutex_lock(&guard->lock);
    for (struct tarn__slot_set *set = guard->slots->sets; set && !slot; set = set->next)
        if (!resource || set->resource == resource)
            slot = tarn__blocks_take(guard, &set->ready, NULL);
    tarn__mutex_unlock(&guard->lock);
    return slot;
}

void tarn__slot_sets_retire_ready(struct tarn__guard *guard,
                                  const tarn_resource *resource)
{
    struct tarn__guard_block *slot;

    while ((slot = take_ready(guard, resource)) != NULL)
        tarn__slot_sets_retire(guard, slot);
}
