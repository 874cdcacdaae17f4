/* quarantine.c -- quarantine: freed blocks that are kept for a while.
 *
 * A quarantined block is in no list of free blocks, so a late release of it is always
 * detected. So are writes into it: it is full of 0xDE, and is checked when it leaves. The
 * oldest blocks leave first, when the quarantine exceeds the instance's limit. They are
 * counted as freed already.
 */
#include "nrt/quarantine.h"
#include "nrt/misuse.h"
#include "nrt/reclaim.h"
#include "nrt/red_zone.h"
#include "nrt/sanitizer.h"

/* The approximate cost of keeping a block. */
static size_t weight(const struct tarn__block *block)
{
    return block->bytes + TARN__HEAD;
}

/* Take the first block that has to leave so that at most `limit` bytes are kept, or NULL.
 */
static struct tarn__free_block *take_oldest(tarn_runtime *runtime, size_t limit)
{
    pthread_mutex_lock(&runtime->lock);
    struct tarn__free_block *oldest = runtime->quarantine_first;
    if (runtime->quarantine_bytes <= limit)
        oldest = NULL;
    if (oldest) {
        runtime->quarantine_first = oldest->next;
        runtime->quarantine_bytes -= weight(&oldest->block);
    }
    pthread_mutex_unlock(&runtime->lock);
    return oldest;
}

/* The data of a quarantined block that no link overlays. */
static void *unlinked_data(struct tarn__block *block, size_t *bytes_out)
{
    char *data = tarn__red_zone_data(block);
    size_t linked = data && data < (char *)block + sizeof(struct tarn__free_block)
                        ? sizeof(struct tarn__free_block) - TARN__HEADER
                        : 0;

    *bytes_out = data && block->bytes > linked ? block->bytes - linked : 0;
    return *bytes_out ? data + linked : NULL;
}

/* Check whether the block was written to since. */
static void check_block(tarn_runtime *runtime, struct tarn__block *block)
{
    size_t bytes;
    void *data = unlinked_data(block, &bytes);
    if (data)
        tarn__sanitizer_defined(data, bytes);
    const void *changed = tarn__red_zone_poison_changed(data, bytes);

    if (changed)
        tarn__misuse_report(
            runtime,
            "nrt: a block of %zu bytes of runtime %s was written to at %p after "
            "it was freed",
            (size_t)block->bytes, runtime->name, changed);
}

size_t tarn__quarantine_shrink(tarn_runtime *runtime, size_t limit)
{
    struct tarn__free_block *oldest;
    size_t bytes = 0;

    while ((oldest = take_oldest(runtime, limit))) {
        bytes += weight(&oldest->block);
        check_block(runtime, &oldest->block);
        tarn__reclaim_block(&oldest->block);
    }
    return bytes;
}

void tarn__quarantine_add(tarn_runtime *runtime, struct tarn__block *block)
{
    struct tarn__free_block *slot = (struct tarn__free_block *)block;
    size_t bytes;
    void *data = unlinked_data(block, &bytes);

    if (data)
        tarn__sanitizer_no_access(data, bytes);
    tarn__block_set_state(block, TARN__QUARANTINED);
    pthread_mutex_lock(&runtime->lock);
    slot->next = NULL;
    if (runtime->quarantine_first)
        runtime->quarantine_last->next = slot;
    else
        runtime->quarantine_first = slot;
    runtime->quarantine_last = slot;
    runtime->quarantine_bytes += weight(block);
    size_t limit = runtime->quarantine_limit;
    pthread_mutex_unlock(&runtime->lock);
    tarn__quarantine_shrink(runtime, limit);
}

void tarn_runtime_set_quarantine(tarn_runtime *runtime, size_t bytes)
{
    pthread_mutex_lock(&runtime->lock);
    runtime->quarantine_limit = bytes;
    pthread_mutex_unlock(&runtime->lock);
    tarn__quarantine_shrink(runtime, bytes);
}
