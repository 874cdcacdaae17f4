/* sweep.c -- the check of all blocks of a device on request. */
#include "guard/sweep.h"
#include "base/error.h"
#include "driver/quiesce.h"
#include "guard/blocks.h"
#include "guard/checks.h"
#include "guard/quarantine.h"
#include "guard/slot_sets.h"
#include "resource/discards.h"
#include <stdlib.h>

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

/* Return true if a block can be checked. A live slot has no event: its fill is complete. A
 * freed one is checked with its batch. */
static bool has_check(const struct tarn__guard_block *block)
{
    return block->set ? block->is_live : block->event != NULL;
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
        block->context_generation != use->scope.context_generation || !has_check(block))
        return true;
    if (block->discards != tarn__discards() ||
        !tarn__workspace_is_mapped(use, block->base)) {
        tarn__quarantine_count_unchecked(guard);
        return true;
    }
    return (!block->event || use->scope.calls->stream_wait_event(stream, block->event,
                                                                 0) == CUDA_SUCCESS_) &&
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

tarn_status tarn__sweep_device(struct tarn__guard *guard, int device)
{
    struct tarn__workspace_use use;
    tarn_status status = tarn__workspace_enter(guard, device, &use);

    if (status != TARN_OK)
        return status;
    if (tarn__quiesce_device(use.scope.calls) != CUDA_SUCCESS_ ||
        !check_table(guard, &use, &guard->blocks) ||
        (guard->slots && !check_table(guard, &use, &guard->slots->by_address)) ||
        !check_table(guard, &use, &guard->freed))
        status = tarn_error_set(TARN_DRIVER_FAILURE,
                                "guard: a check of all blocks failed, device %d", device);
    tarn__workspace_leave(&use);
    return status;
}
