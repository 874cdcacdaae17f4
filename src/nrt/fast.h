/* fast.h -- blocks on the fast path: small ones, with loads, compares and stores of this
 * thread only, and single MemInfos straight from the allocator.
 */
#ifndef TARN_NRT_FAST_H
#define TARN_NRT_FAST_H

#include "nrt/allocator.h"
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

/* Allocate a single MemInfo, complete except for its MemInfo. NULL without a message: use the slow path. This has
 * four reasons:
 *
 *    - The word of the shard differs from that of the instance. Then the shard is not up
 *      to date, or the instance needs the slow path.
 *    - The alignment is no power of two.
 *    - A size is too large for the sum below.
 *    - The allocator has no memory. */
TARN__FAST struct tarn__block *tarn__fast_make_direct(tarn_runtime *runtime,
                                                      unsigned index, size_t bytes,
                                                      size_t alignment)
{
    struct tarn__shard *shard = tarn__shard_at(index);
    size_t slack = alignment > 16 ? alignment : 0;

    if (shard->word != atomic_load_explicit(&runtime->word, memory_order_relaxed) ||
        alignment & (alignment - 1) || slack > PTRDIFF_MAX / 2 || bytes > PTRDIFF_MAX / 4)
        return NULL;
    struct tarn__block *block =
        tarn__allocator_malloc(shard->memory, TARN__HEAD + bytes + slack);
    if (__builtin_expect(!block, 0))
        return NULL;
    atomic_init(&block->word, shard->direct);
    block->bytes = bytes;
    tarn__count_made(shard, bytes, true);
    return block;
}

/* Where its data begin. */
TARN__FAST void *tarn__fast_data(struct tarn__block *block, size_t alignment)
{
    uintptr_t mask = alignment > 16 ? alignment - 1 : 0;

    return (void *)(((uintptr_t)block + TARN__HEAD + mask) & ~mask);
}

/* Free a LIVE single MemInfo whose word is that of the shard. */
TARN__FAST void tarn__fast_end_direct(struct tarn__shard *shard,
                                      struct tarn__block *block)
{
    size_t bytes = block->bytes;

    tarn__block_set_word(block, shard->direct ^ (TARN__LIVE ^ TARN__FREE));
    tarn__allocator_free(shard->memory, block);
    tarn__count_gone(shard, bytes, true);
}

/* Free a LIVE block by the fast path, or return false and leave it unchanged. */
TARN__FAST bool tarn__fast_end(struct tarn__block *block, uint64_t word)
{
    const uint64_t open = (uint64_t)0xff << TARN__CLASS_SHIFT | TARN__FLAG(TARN__MI);
    struct tarn__shard *shard = tarn__shard_at(TARN__FIELD(word, TARN__RUNTIME_SHIFT));
    unsigned class = TARN__FIELD(word, TARN__CLASS_SHIFT);

    if (__builtin_expect(word == shard->direct, 0)) {
        tarn__fast_end_direct(shard, block);
        return true;
    }
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
