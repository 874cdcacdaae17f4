/* frees.c -- frees of guarded blocks.
 *
 * A block whose free fails is live again, as the contract of resources says. Its bytes may
 * have the poison by then.
 */
#include "guard/frees.h"
#include "base/error.h"
#include "driver/stream.h"
#include "guard/blocks.h"
#include "guard/checks.h"
#include "guard/damage.h"
#include "guard/quarantine.h"
#include "guard/samples.h"
#include "resource/operations.h"

/* Report a second free of a block that the guard keeps. */
static tarn_status reject_second_free(struct tarn__guard *guard,
                                      const struct tarn__guard_site *site)
{
    tarn_guard_report report = {.damage = TARN_GUARD_FREED_TWICE};

    report.again = tarn__guard_capture_site(guard);
    tarn__damage_report(guard, site, &report);
    return tarn_error_set(TARN_INVALID_ARGUMENT,
                          "guard: 0x%llx of %zu bytes was freed before", site->address,
                          site->bytes);
}

/* Free a block on a stream, or keep it and set `*is_kept_out`. In a workspace. */
static tarn_status free_on_stream(struct tarn__guard *guard,
                                  struct tarn__workspace_use *use,
                                  struct tarn__guard_block *block, tarn_stream stream,
                                  CUstream_ handle, bool *is_kept_out)
{
    tarn__quarantine_finish_use(guard, use, block, handle);
    *is_kept_out = tarn__quarantine_begin(guard, use, block, handle);
    if (*is_kept_out) {
        tarn__blocks_put_freed(guard, &guard->quarantine, block);
        return TARN_OK;
    }
    block->is_filled = false;
    return tarn__quarantine_return(block, stream);
}

/* Free a block that is no slot. Sets `*is_kept_out` if the guard keeps it. In a
 * workspace. */
static tarn_status free_ordinary(struct tarn__guard *guard,
                                 struct tarn__workspace_use *use,
                                 struct tarn__guard_block *block, enum tarn__order order,
                                 tarn_stream stream, CUstream_ handle, bool *is_kept_out)
{
    switch (order) {
    case TARN__ORDER_STREAM:
        return free_on_stream(guard, use, block, stream, handle, is_kept_out);
    case TARN__ORDER_NONE:
        tarn__blocks_put_freed(guard, &guard->unordered, block);
        *is_kept_out = true;
        return TARN_OK;
    default:
        tarn__quarantine_count_unchecked(guard);
        return tarn__quarantine_return(block, stream);
    }
}

/* Return a block to its resource without a check: its context was reset, or the
 * driver is gone. */
static tarn_status free_without_check(struct tarn__guard *guard,
                                      struct tarn__guard_block *block, tarn_stream stream)
{
    tarn__samples_leave(guard, block);
    return tarn__quarantine_return(block, stream);
}

/* Free a block whose record was taken. Sets `*is_kept_out` if the guard keeps it. In a
 * workspace. */
static tarn_status free_block(struct tarn__guard *guard, struct tarn__workspace_use *use,
                              struct tarn__guard_block *block, tarn_stream stream,
                              bool *is_kept_out)
{
    CUstream_ handle = NULL;

    if (block->context_generation != use->scope.context_generation)
        return free_without_check(guard, block, stream);
    enum tarn__order order =
        tarn__order_find(block->resource, &use->scope, stream, &handle);
    *is_kept_out = tarn__samples_free(guard, use, block, order, stream, handle);
    return *is_kept_out
               ? TARN_OK
               : free_ordinary(guard, use, block, order, stream, handle, is_kept_out);
}

/* Note the free of a block whose record was taken. */
static void note_free(const struct tarn__guard *guard, struct tarn__guard_block *block,
                      tarn_stream stream)
{
    block->site.is_freed = true;
    block->site.freed_on = tarn__stream_number(stream);
    block->site.free = tarn__guard_capture_site(guard);
}

/* Free a block whose record was taken. If that fails, the block is live again. */
static tarn_status free_taken(struct tarn__guard *guard, struct tarn__guard_block *block,
                              tarn_stream stream)
{
    struct tarn__workspace_use use;
    bool is_kept = false;

    bool has_workspace =
        !tarn__driver_gone() &&
        tarn__workspace_enter(guard, block->site.device, &use) == TARN_OK;
    tarn_status status = has_workspace ? free_block(guard, &use, block, stream, &is_kept)
                                       : free_without_check(guard, block, stream);
    if (status == TARN_OK && !is_kept)
        tarn__quarantine_end_block(guard, has_workspace ? &use : NULL, block);
    if (has_workspace)
        tarn__workspace_leave(&use);
    if (status != TARN_OK) {
        struct tarn__kept_error why = tarn__error_keep();
        tarn__blocks_put_live(guard, block);
        tarn__error_restore(&why);
    }
    return status;
}

tarn_status tarn__frees_deallocate(struct tarn__guard *guard, tarn_resource *resource,
                                   tarn_device_ptr address, size_t bytes,
                                   size_t alignment, tarn_stream stream)
{
    struct tarn__guard_site freed_before = {0};
    struct tarn__guard_block *block;
    tarn_status status =
        tarn__samples_take_live(guard, resource, address, bytes, &block, &freed_before);

    if (status == TARN_OK && block) {
        note_free(guard, block, stream);
        if (tarn__samples_free_quickly(guard, block, stream))
            return TARN_OK;
    }
    struct tarn__kept_error last = tarn__error_keep();
    if (status == TARN_OK && !block && !freed_before.address) {
        tarn__checks_poll(guard);
        status = tarn__blocks_take_live(guard, resource, address, bytes, &block,
                                        &freed_before);
        if (block)
            note_free(guard, block, stream);
    }
    if (status != TARN_OK)
        return status;
    if (!block && freed_before.address)
        return reject_second_free(guard, &freed_before);
    if (!block)
        return tarn__operations_deallocate(resource, address, bytes, alignment, stream);
    status = free_taken(guard, block, stream);
    if (status != TARN_OK)
        return status;
    if (tarn__quarantine_must_settle(guard))
        tarn__quarantine_settle(guard);
    tarn__quarantine_shorten(guard, NULL, guard->options.quarantine_bytes);
    tarn__error_restore(&last);
    return TARN_OK;
}
