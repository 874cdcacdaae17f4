/* quarantine.c -- the end of a block: its last check, its poison, its time in quarantine, and
 * the wait for blocks that were freed without a stream. */
#include "guard/quarantine.h"
#include "base/error.h"
#include "driver/quiesce.h"
#include "guard/blocks.h"
#include "guard/checks.h"
#include "guard/zones.h"
#include "resource/block_generation.h"
#include "resource/discards.h"
#include "resource/operations.h"
#include <stdlib.h>

/* Most blocks that were freed without a stream, before one wait covers them. */
enum { UNORDERED_BLOCKS = 64 };
#define UNORDERED_BYTES ((uint64_t)64 << 20)

/* --- the end of a block --- */

/* Return a block to its resource. After a reset another block may have its address. */
tarn_status tarn__quarantine_return(const struct tarn__guard_block *block,
                                    tarn_stream stream)
{
    uint64_t before = tarn__block_generation_set(block->context_generation);
    tarn_status status = tarn__operations_deallocate(
        block->resource, block->base, block->base_bytes, block->alignment, stream);

    tarn__block_generation_set(before);
    return status;
}

/* Drop the record of a block that its resource has again. Its entry stays reserved. In a
 * workspace, or with NULL. */
void tarn__quarantine_end_block(struct tarn__guard *guard,
                                struct tarn__workspace_use *use,
                                struct tarn__guard_block *block)
{
    if (use && use->scope.context_generation == block->context_generation)
        tarn__workspace_put_event(guard, use, block->event);
    tarn__blocks_release(guard);
    free(block);
}

void tarn__quarantine_count_unchecked(struct tarn__guard *guard)
{
    tarn__mutex_lock(&guard->lock);
    guard->counts.unchecked++;
    tarn__mutex_unlock(&guard->lock);
}

/* Queue the check of a freed block, and the poison. `stream` is behind its last use. In a
 * workspace. */
void tarn__quarantine_finish_use(struct tarn__guard *guard,
                                 struct tarn__workspace_use *use,
                                 struct tarn__guard_block *block, CUstream_ stream)
{
    const struct tarn__calls *calls = use->scope.calls;
    bool is_ordered = !block->event ||
                      calls->stream_wait_event(stream, block->event, 0) == CUDA_SUCCESS_;

    bool is_checkable = is_ordered && block->discards == tarn__discards();

    if (block->is_reported)
        block->is_filled = false; /* a second report would repeat the first one */
    if (!is_checkable ||
        !tarn__checks_queue(guard, use, block, stream, TARN__CHECKS_ZONES))
        tarn__quarantine_count_unchecked(guard);
    if (!is_checkable)
        block->is_filled = false;
    block->discards = tarn__discards();
    block->is_reported = false;
    if (guard->options.poison && is_ordered)
        block->is_poisoned =
            calls->memset_d8_async(block->site.address, TARN_GUARD_POISON_BYTE,
                                   block->site.bytes, stream) == CUDA_SUCCESS_;
}

/* Fill the red zones again, so that the end of the quarantine finds later writes alone,
 * and record the event that the end waits for. */
bool tarn__quarantine_begin(struct tarn__guard *guard, struct tarn__workspace_use *use,
                            struct tarn__guard_block *block, CUstream_ stream)
{
    if (!guard->options.quarantine_bytes)
        return false;
    block->is_filled = tarn__zones_fill(guard, use, block, stream);
    if (block->is_filled)
        return true;
    if (!block->event)
        block->event = tarn__workspace_take_event(guard, use);
    return block->event &&
           use->scope.calls->event_record(block->event, stream) == CUDA_SUCCESS_;
}

/* Return a block at the end of its quarantine, after a last check, on the guard's own
 * stream. In a workspace of its device. */
static tarn_status end_quarantine(struct tarn__guard *guard,
                                  struct tarn__workspace_use *use,
                                  struct tarn__guard_block *block)
{
    CUstream_ stream = tarn__workspace_stream(use);
    bool is_current = block->context_generation == use->scope.context_generation;

    if (is_current && !block->is_reported && block->discards == tarn__discards()) {
        if (use->scope.calls->stream_wait_event(stream, block->event, 0) != CUDA_SUCCESS_)
            return TARN_DRIVER_FAILURE;
        if (!tarn__checks_queue(guard, use, block, stream,
                                TARN__CHECKS_ZONES | TARN__CHECKS_POISON))
            tarn__quarantine_count_unchecked(guard);
        block->is_filled = block->is_poisoned = false; /* if the block comes here again */
    }
    return tarn__quarantine_return(block, tarn__workspace_registered(use));
}

/* Return the oldest blocks of the quarantine until `keep_bytes` are left. `resource`: its
 * blocks alone. A block whose free fails stays, and a later call tries again. */
void tarn__quarantine_shorten(struct tarn__guard *guard, tarn_resource *resource,
                              uint64_t keep_bytes)
{
    struct tarn__kept_error last = tarn__error_keep();
    struct tarn__workspace_use use;
    struct tarn__guard_block *block;

    while (!tarn__driver_gone() &&
           (block = tarn__blocks_take_freed(guard, &guard->quarantine, resource,
                                            keep_bytes))) {
        tarn_status status = tarn__workspace_enter(guard, block->site.device, &use);
        if (status == TARN_OK) {
            status = end_quarantine(guard, &use, block);
            if (status == TARN_OK)
                tarn__quarantine_end_block(guard, &use, block);
            tarn__workspace_leave(&use);
        }
        if (status != TARN_OK)
            tarn__blocks_put_freed(guard, &guard->quarantine, block);
        tarn__blocks_leave_hand(guard);
        if (status != TARN_OK)
            break;
    }
    tarn__error_restore(&last);
}

/* --- frees without a stream --- */

/* Do the work of a free for a block that no work uses any more. In a workspace. */
static tarn_status free_unordered(struct tarn__guard *guard,
                                  struct tarn__workspace_use *use,
                                  struct tarn__guard_block *block)
{
    CUstream_ stream = tarn__workspace_stream(use);

    if (block->context_generation == use->scope.context_generation) {
        tarn__quarantine_finish_use(guard, use, block, stream);
        if (tarn__quarantine_begin(guard, use, block, stream)) {
            tarn__blocks_put_freed(guard, &guard->quarantine, block);
            return TARN_OK;
        }
        block->is_filled = false; /* if the free fails, the block comes here again */
    }
    tarn_status status = tarn__quarantine_return(block, tarn__workspace_registered(use));
    if (status == TARN_OK)
        tarn__quarantine_end_block(guard, use, block);
    return status;
}

/* Free a block after a wait for its device. A block for which a call fails stays. In a
 * workspace. */
static void settle_block(struct tarn__guard *guard, struct tarn__workspace_use *use,
                         struct tarn__guard_block *block)
{
    if (free_unordered(guard, use, block) != TARN_OK)
        tarn__blocks_put_freed(guard, &guard->unordered, block);
    tarn__blocks_leave_hand(guard);
}

/* Free the blocks that were freed on `device` without a stream. Waits for the device. */
static void settle_device(struct tarn__guard *guard, int device)
{
    struct tarn__workspace_use use;
    struct tarn__guard_block *block;

    if (tarn__workspace_enter(guard, device, &use) != TARN_OK)
        return;
    tarn__mutex_lock(&guard->lock);
    size_t count = guard->unordered.count; /* later ones are not covered by the wait */
    tarn__mutex_unlock(&guard->lock);
    bool is_done = tarn__quiesce_device(use.scope.calls) == CUDA_SUCCESS_;
    for (; is_done && count > 0; count--) {
        block = tarn__blocks_take_freed(guard, &guard->unordered, NULL, 0);
        if (!block)
            break;
        if (block->site.device == device) {
            settle_block(guard, &use, block);
        } else {
            tarn__blocks_put_freed(guard, &guard->unordered, block);
            tarn__blocks_leave_hand(guard);
        }
    }
    /* The program's next write would be before the poison otherwise. A failure costs a
     * report alone. */
    if (is_done && guard->options.poison)
        use.scope.calls->stream_synchronize(tarn__workspace_stream(&use));
    tarn__workspace_leave(&use);
}

static bool has_unordered(struct tarn__guard *guard)
{
    tarn__mutex_lock(&guard->lock);
    bool has_some = guard->unordered.count > 0;
    tarn__mutex_unlock(&guard->lock);
    return has_some;
}

/* Free the blocks that were freed without a stream. Waits for their devices. */
void tarn__quarantine_settle(struct tarn__guard *guard)
{
    struct tarn__kept_error last = tarn__error_keep();

    for (int device = 0; device < TARN__DEVICES_MAX && !tarn__driver_gone(); device++)
        if (tarn__workspace_is_used(guard, device) && has_unordered(guard))
            settle_device(guard, device);
    tarn__error_restore(&last);
}

/* Poison does not wait for many blocks: it would replace what a kernel writes after the
 * free, and no check would find that. */
bool tarn__quarantine_must_settle(struct tarn__guard *guard)
{
    tarn__mutex_lock(&guard->lock);
    size_t most = guard->options.poison ? 1 : UNORDERED_BLOCKS;
    bool is_full =
        guard->unordered.count >= most || guard->unordered.bytes >= UNORDERED_BYTES;
    tarn__mutex_unlock(&guard->lock);
    return is_full;
}

/* Free the records of blocks whose free failed: their resource has them still. */
void tarn__quarantine_drop(struct tarn__guard *guard, struct tarn__guard_list *list)
{
    struct tarn__guard_block *block;

    while ((block = tarn__blocks_take_freed(guard, list, NULL, 0)) != NULL)
        tarn__quarantine_end_block(guard, NULL, block);
}
