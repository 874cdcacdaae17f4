/* fast.h -- blocks on the fast path: small ones, with loads, compares and stores of this
 * thread only.
 */
#ifndef TARN_NRT_FAST_H
#define TARN_NRT_FAST_H

#include "nrt/count.h"
#include "nrt/shard.h"
#include "nrt/slab.h"
#include "nrt/slow.h"

/* The few functions on the path of every call are inlined into their callers. The
 * functions for the other cases are kept out of line. */
#define TARN__FAST static inline __attribute__((always_inline))
#define TARN__SELDOM __attribute__((noinline, cold))

/* Take a small block of this thread; NULL: use the slow path. */
TARN__FAST struct tarn__block *tarn__fast_take(tarn_runtime *runtime, unsigned index,
                                               size_t bytes, unsigned class,
                                               unsigned flags)
{
    struct tarn__shard *shard = tarn__shard_at(index);

    if (shard->word != atomic_load_explicit(&runtime->word, memory_order_relaxed))
        return NULL;
    struct tarn__slab_list *list = &shard->lists[class];
    struct tarn__free_block *slot = shard->hot[class];
    if (slot) {
        shard->hot[class] = NULL;
    } else {
        slot = list->first;
        if (!slot)
            return NULL;
        list->first = slot->next;
        list->count--;
        __builtin_prefetch(list->first, 1); /* another thread may have used it last */
    }
    tarn__block_set_word(&slot->block, shard->fast |
                                           (uint64_t)class << TARN__CLASS_SHIFT |
                                           TARN__FLAG(flags));
    slot->block.bytes = bytes;
    tarn__count_made(shard, bytes, flags & TARN__MI);
    return &slot->block;
}

/* Take a small block of this thread, complete except for its MemInfo; NULL: use the slow
 * path. `steps` is 0, 1 or 2 for data at multiples of 16, 32, 64. */
TARN__FAST struct tarn__block *tarn__fast_make(tarn_runtime *runtime, unsigned index,
                                               size_t bytes, unsigned steps)
{
    if (bytes > TARN__SMALL_BYTES)
        return NULL;
    return tarn__fast_take(runtime, index, bytes,
                           tarn__slab_class_of[steps][(bytes + 15) / 16], TARN__MI);
}

/* The same without a MemInfo. */
TARN__FAST struct tarn__block *tarn__fast_make_raw(tarn_runtime *runtime, unsigned index,
                                                   size_t bytes)
{
    size_t over = TARN__HEAD - TARN__HEADER, inner = bytes > over ? bytes - over : 0;

    if (inner > TARN__SMALL_BYTES)
        return NULL;
    return tarn__fast_take(runtime, index, bytes,
                           tarn__slab_class_of[0][(inner + 15) / 16], 0);
}

/* Free a LIVE block by the fast path, or return false and leave it unchanged. */
TARN__FAST bool tarn__fast_end(struct tarn__block *block, uint64_t word)
{
    const uint64_t open = (uint64_t)0xff << TARN__CLASS_SHIFT | TARN__FLAG(TARN__MI);
    struct tarn__shard *shard = tarn__shard_at(TARN__FIELD(word, TARN__RUNTIME_SHIFT));
    unsigned class = TARN__FIELD(word, TARN__CLASS_SHIFT);

    if ((word & ~open) != shard->fast)
        return false;
    struct tarn__slab_list *list = &shard->lists[class];
    struct tarn__free_block *slot = (struct tarn__free_block *)block;
    if (!shard->hot[class]) {
        shard->hot[class] = slot;
    } else {
        if (list->count >= tarn__slab_batch_blocks[class])
            return false;
        slot->next = list->first;
        list->first = slot;
        list->count++;
    }
    tarn__block_set_word(block, word ^ (TARN__LIVE ^ TARN__FREE));
    atomic_store_explicit(&slot->refct, 0, memory_order_relaxed);
    tarn__count_gone(shard, block->bytes, word & TARN__FLAG(TARN__MI));
    return true;
}

/* Free a LIVE block whose destructor has run, by the fast path where that is possible. */
static inline void tarn__fast_finish(struct tarn__block *block)
{
    if (!tarn__fast_end(block, tarn__block_word(block)))
        tarn__slow_end(block, false);
}

#endif
