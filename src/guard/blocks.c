/* blocks.c -- the tables of a guard's live and freed blocks, and the lists of freed ones. */
#include "guard/blocks.h"
#include "base/error.h"
#include "base/mutex_assert.h"
#include "resource/intercept.h"
#include <stdlib.h>

/* --- lists --- */

void tarn__blocks_init_list(struct tarn__guard_list *list)
{
    *list = (struct tarn__guard_list){.end = &list->first};
}

/* Append a block to a list. `lock` held. */
void tarn__blocks_append(struct tarn__guard *guard, struct tarn__guard_list *list,
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
struct tarn__guard_block *tarn__blocks_take(struct tarn__guard *guard,
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
void tarn__blocks_lock_live(struct tarn__guard *guard)
{
    if (!tarn__driver_gone())
        pthread_mutex_lock(&guard->live_lock);
}

void tarn__blocks_unlock_live(struct tarn__guard *guard)
{
    if (!tarn__driver_gone())
        pthread_mutex_unlock(&guard->live_lock);
}

/* Reserve an entry in each table, so that a block can change from one to the other. */
bool tarn__blocks_reserve(struct tarn__guard *guard)
{
    tarn__mutex_lock(&guard->lock);
    size_t wanted = guard->pending + guard->blocks.count + guard->freed.count + 1;
    bool is_reserved = tarn__map_reserve(&guard->blocks, wanted - guard->blocks.count) &&
                       tarn__map_reserve(&guard->freed, wanted - guard->freed.count);
    guard->pending += is_reserved;
    tarn__mutex_unlock(&guard->lock);
    return is_reserved;
}

void tarn__blocks_release(struct tarn__guard *guard)
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
void tarn__blocks_put_live(struct tarn__guard *guard, struct tarn__guard_block *block)
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
void tarn__blocks_put_freed(struct tarn__guard *guard, struct tarn__guard_list *list,
                            struct tarn__guard_block *block)
{
    tarn__mutex_lock(&guard->lock);
    guard->pending += tarn__map_take(&guard->freed, block->site.address, NULL);
    tarn__map_put(&guard->freed, block->site.address, &block);
    guard->pending--;
    tarn__blocks_append(guard, list, block);
    tarn__mutex_unlock(&guard->lock);
}

/* Take the oldest kept block of `resource` (NULL: of any) if more than `keep_bytes` are in
 * the list. It is in hand then, and its entry stays reserved. */
struct tarn__guard_block *tarn__blocks_take_freed(struct tarn__guard *guard,
                                                  struct tarn__guard_list *list,
                                                  const tarn_resource *resource,
                                                  uint64_t keep_bytes)
{
    struct tarn__guard_block *found = NULL, **entry;

    tarn__blocks_lock_live(guard);
    tarn__mutex_lock(&guard->lock);
    if (list->bytes > keep_bytes)
        found = tarn__blocks_take(guard, list, resource);
    entry = found ? tarn__map_get(&guard->freed, found->site.address) : NULL;
    if (entry && *entry == found)
        guard->pending += tarn__map_take(&guard->freed, found->site.address, NULL);
    guard->in_hand += found != NULL;
    tarn__mutex_unlock(&guard->lock);
    tarn__blocks_unlock_live(guard);
    return found;
}

/* End the handling of a block that tarn__blocks_take_freed() returned. */
void tarn__blocks_leave_hand(struct tarn__guard *guard)
{
    tarn__mutex_lock(&guard->lock);
    if (--guard->in_hand == 0)
        pthread_cond_broadcast(&guard->hand_is_empty);
    tarn__mutex_unlock(&guard->lock);
}

/* --- frees --- */

tarn_status tarn__blocks_wrong_free(const struct tarn__guard_block *block,
                                    const tarn_resource *resource, size_t bytes)
{
    if (block->site.bytes != bytes)
        return tarn_error_set(
            TARN_INVALID_ARGUMENT,
            "guard: 0x%llx was allocated with %zu bytes, freed with %zu",
            block->site.address, block->site.bytes, bytes);
    return tarn_error_set(
        TARN_INVALID_ARGUMENT,
        "guard: 0x%llx is a block of another resource (\"%s\"), freed on \"%s\"",
        block->site.address, block->site.resource, tarn_resource_name(resource));
}

/* Return true if the address may be another owner's by now. */
bool tarn__blocks_is_stale(const struct tarn__guard_block *block)
{
    return !tarn__context_generation_is_current(block->site.device,
                                                block->context_generation);
}

/* Take the record of a live block, which keeps its entry. NULL with TARN_OK: the guard
 * does not have the block. A second free sets `*site_out`. */
tarn_status tarn__blocks_take_live(struct tarn__guard *guard,
                                   const tarn_resource *resource, tarn_device_ptr address,
                                   size_t bytes, struct tarn__guard_block **out,
                                   struct tarn__guard_site *site_out)
{
    struct tarn__guard_block **live, **freed, *found = NULL, copy;
    tarn_status status = TARN_OK;

    tarn__blocks_lock_live(guard);
    tarn__mutex_lock(&guard->lock);
    live = tarn__map_get(&guard->blocks, address);
    freed = live ? NULL : tarn__map_get(&guard->freed, address);
    if (freed && !tarn__blocks_is_stale(*freed))
        *site_out = (*freed)->site;
    if (live)
        copy = **live;
    if (live && copy.site.bytes == bytes &&
        tarn_resource_is_equal(copy.resource, resource)) {
        tarn__map_take(&guard->blocks, address, &found);
        guard->pending++;
    }
    tarn__mutex_unlock(&guard->lock);
    tarn__blocks_unlock_live(guard);
    if (found)
        count_unmarked(guard, found, true);
    else if (live)
        status = tarn__blocks_wrong_free(&copy, resource, bytes);
    *out = found;
    return status;
}
