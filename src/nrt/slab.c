/* slab.c -- small blocks: cut from chunks, cached by threads, exchanged in batches.
 *
 * A freed block stays with the thread that freed it. A thread keeps at most two lists of
 * a class. When both are full, one list goes to the instance as a whole. A thread with no
 * list takes a whole one from there. So a block that one thread allocates and another
 * frees costs one lock in as many calls as a list is long. No thread keeps more than two
 * lists that others may need. Most of such a block's cost is the transfer of that lock,
 * and of the list's first block, from core to core. So lists are long (docs/design/nrt.md has
 * figures).
 *
 * A thread that finds no batch cuts one from a chunk for itself, outside of the lock:
 * blocks that no thread needs yet are not touched. A block has no link to its chunk. Only
 * trim needs the chunk of a block, and looks it up by address.
 */
#include "nrt/slab.h"
#include "base/mutex_assert.h"
#include "nrt/allocator.h"
#include "nrt/sanitizer.h"
#include <stdlib.h>
#include <string.h>

/* Sizes of a whole block with its header: powers of two in quarters. A block lies at a
 * multiple of the largest power of two in its size, up to 64. */
const uint16_t tarn__slab_class_bytes[TARN__CLASSES] = {64,  80,  96,  112, 128,  160,
                                                        192, 224, 256, 320, 384,  448,
                                                        512, 640, 768, 896, 1024, 1152};

/* 32 KiB at most, and 256 at most. */
const uint16_t tarn__slab_batch_blocks[TARN__CLASSES] = {
    256, 256, 256, 256, 256, 204, 170, 146, 128, 102, 85, 73, 64, 51, 42, 36, 32, 28};

enum {
    LINE = 64,          /* blocks begin at a multiple of it, if their size is one */
    MALLOC_HEADER = 16, /* so that a chunk with libc's header fills whole pages */
    CHUNK_LEAST = 8 << 10,
    CHUNK_USUAL = 64 << 10,
    CHUNK_MOST = 512 << 10
};

uint8_t tarn__slab_class_of[3][TARN__SMALL_BYTES / 16 + 1];

void tarn__slab_init_classes(void)
{
    for (unsigned steps = 0; steps < 3; steps++) {
        unsigned class = 0;
        for (unsigned units = 0; units <= TARN__SMALL_BYTES / 16; units++) {
            while (tarn__slab_class_bytes[class] < TARN__HEAD + units * 16 ||
                   tarn__slab_class_bytes[class] % (16u << steps))
                class += 1;
            tarn__slab_class_of[steps][units] = (uint8_t)class;
        }
    }
}

/* Batches of a pool are a stack. `lock` held. */
static void push_batch(tarn_runtime *runtime, unsigned allocator, unsigned class,
                       struct tarn__slab_list batch)
{
    tarn__assert_mutex_held(&runtime->lock);

    struct tarn__slab_pool *pool = &runtime->pools[allocator];

    if (!batch.first)
        return;
    batch.first->count = batch.count;
    batch.first->next_batch = pool->batches[class];
    pool->batches[class] = batch.first;
}

static struct tarn__slab_list pop_batch(struct tarn__slab_pool *pool, unsigned class)
{
    struct tarn__free_block *first = pool->batches[class];

    if (!first)
        return (struct tarn__slab_list){NULL, 0};
    pool->batches[class] = first->next_batch;
    return (struct tarn__slab_list){first, first->count};
}

/* The header of a block that was never used. */
static struct tarn__free_block *cut(const tarn_runtime *runtime, unsigned allocator,
                                    unsigned class, char *place)
{
    struct tarn__free_block *slot = (struct tarn__free_block *)(void *)place;

    atomic_init(&slot->block.word, (uint64_t)TARN__FREE |
                                       (uint64_t)runtime->index << TARN__RUNTIME_SHIFT |
                                       (uint64_t)class << TARN__CLASS_SHIFT |
                                       (uint64_t)allocator << TARN__ALLOCATOR_SHIFT);
    atomic_init(&slot->refct, 0);
    return slot;
}

/* Blocks of a chunk that belong to the caller and are not cut yet. */
struct range {
    const struct tarn__slab_chunk *chunk;
    size_t from;
    size_t count; /* 0: there are none */
};

static struct tarn__slab_list cut_range(const tarn_runtime *runtime, unsigned allocator,
                                        const struct range *range)
{
    struct tarn__slab_list list = {NULL, range->count};
    unsigned class = range->chunk->class;

    for (size_t i = range->from + range->count; i-- > range->from;) {
        struct tarn__free_block *slot =
            cut(runtime, allocator, class,
                range->chunk->first + i * tarn__slab_class_bytes[class]);
        slot->next = list.first;
        list.first = slot;
    }
    return list;
}

/* At most a whole list of unused blocks. Under the lock. */
static struct range reserve(struct tarn__slab_pool *pool, unsigned class)
{
    struct tarn__slab_chunk *chunk = pool->fresh[class];

    if (!chunk)
        return (struct range){NULL, 0, 0};
    size_t left = chunk->blocks - chunk->cut;
    size_t whole = tarn__slab_batch_blocks[class];
    struct range range = {chunk, chunk->cut, left < whole ? left : whole};
    chunk->cut += (uint32_t)range.count;
    if (range.count == left)
        pool->fresh[class] = chunk->next_fresh;
    return range;
}

/* Memory for as many blocks of `class` as go into `bytes`. */
static struct tarn__slab_chunk *new_chunk(const struct tarn__allocator *allocator,
                                          unsigned class, size_t bytes)
{
    struct tarn__slab_chunk *chunk = tarn__allocator_malloc(allocator, bytes);

    if (!chunk)
        return NULL;
    uintptr_t end = (uintptr_t)(chunk + 1);
    *chunk = (struct tarn__slab_chunk){
        .first = (char *)((end + LINE - 1) / LINE * LINE),
        .bytes = bytes,
        .blocks =
            (uint32_t)((bytes - sizeof *chunk - LINE) / tarn__slab_class_bytes[class]),
        .class = class,
    };
    return chunk;
}

/* The size of the next chunk: as much as the pool has, from 8 to 64 KiB; later an eighth
 * of it. Under the lock. */
static size_t next_chunk_bytes(const struct tarn__slab_pool *pool, unsigned class)
{
    size_t have = pool->bytes[class], bytes = CHUNK_LEAST;

    while (bytes <= have && bytes < CHUNK_USUAL)
        bytes *= 2;
    while (bytes < have / 8 && bytes < CHUNK_MOST)
        bytes *= 2;
    return bytes - MALLOC_HEADER;
}

/* A new chunk: some blocks for the caller, the others for all threads. */
static struct range grow(tarn_runtime *runtime, unsigned allocator, unsigned class,
                         size_t bytes)
{
    struct tarn__slab_pool *pool = &runtime->pools[allocator];
    struct tarn__slab_chunk *chunk =
        new_chunk(&runtime->allocators[allocator], class, bytes);

    if (!chunk)
        return (struct range){NULL, 0, 0};
    atomic_fetch_add(&runtime->bytes_chunks, bytes);
    pthread_mutex_lock(&runtime->lock);
    chunk->next = pool->chunks;
    pool->chunks = chunk;
    chunk->next_fresh = pool->fresh[class];
    pool->fresh[class] = chunk;
    pool->bytes[class] += bytes;
    struct range mine = reserve(pool, class);
    pthread_mutex_unlock(&runtime->lock);
    return mine;
}

/* Put the last-freed block back into its list. */
static void drop_hot(struct tarn__shard *shard, unsigned class)
{
    struct tarn__free_block *slot = shard->hot[class];

    if (!slot)
        return;
    slot->next = shard->lists[class].first;
    shard->lists[class].first = slot;
    shard->lists[class].count++;
    shard->hot[class] = NULL;
}

/* The list of a class is empty: use the second list, a batch of the instance, or a new
 * one; else return nothing. */
static struct tarn__slab_list refill(struct tarn__shard *shard, unsigned class)
{
    tarn_runtime *runtime = shard->runtime;
    struct tarn__slab_list full_batch = shard->full_batch[class];

    if (full_batch.first) {
        shard->full_batch[class] = (struct tarn__slab_list){NULL, 0};
        return full_batch;
    }
    struct tarn__slab_pool *pool = &runtime->pools[shard->allocator];
    struct range range = {NULL, 0, 0};
    pthread_mutex_lock(&runtime->lock);
    struct tarn__slab_list batch = pop_batch(pool, class);
    if (!batch.first)
        range = reserve(pool, class);
    size_t bytes = next_chunk_bytes(pool, class);
    pthread_mutex_unlock(&runtime->lock);
    if (batch.first)
        return batch;
    if (!range.count)
        range = grow(runtime, shard->allocator, class, bytes);
    return range.count ? cut_range(runtime, shard->allocator, &range) : batch;
}

struct tarn__free_block *tarn__slab_take(struct tarn__shard *shard, unsigned class)
{
    struct tarn__slab_list *list = &shard->lists[class];

    drop_hot(shard, class);
    if (!list->first)
        *list = refill(shard, class);
    struct tarn__free_block *slot = list->first;
    if (!slot)
        return NULL;
    list->first = slot->next;
    list->count--;
    return slot;
}

void tarn__slab_overflow(struct tarn__shard *shard, unsigned class)
{
    if (shard->full_batch[class].first) {
        pthread_mutex_lock(&shard->runtime->lock);
        push_batch(shard->runtime, shard->allocator, class, shard->full_batch[class]);
        pthread_mutex_unlock(&shard->runtime->lock);
    }
    shard->full_batch[class] = shard->lists[class];
    shard->lists[class] = (struct tarn__slab_list){NULL, 0};
}

void tarn__slab_put(tarn_runtime *runtime, struct tarn__shard *shard, unsigned allocator,
                    struct tarn__free_block *slot)
{
    unsigned class = TARN__FIELD(tarn__block_word(&slot->block), TARN__CLASS_SHIFT);

    if (!shard || shard->allocator != allocator) {
        slot->next = NULL;
        pthread_mutex_lock(&runtime->lock);
        push_batch(runtime, allocator, class, (struct tarn__slab_list){slot, 1});
        pthread_mutex_unlock(&runtime->lock);
        return;
    }
    if (shard->lists[class].count >= tarn__slab_batch_blocks[class])
        tarn__slab_overflow(shard, class);
    slot->next = shard->lists[class].first;
    shard->lists[class].first = slot;
    shard->lists[class].count++;
}

void tarn__slab_drain(struct tarn__shard *shard)
{
    tarn_runtime *runtime = shard->runtime;

    pthread_mutex_lock(&runtime->lock);
    for (unsigned class = 0; class < TARN__CLASSES; class++) {
        drop_hot(shard, class);
        push_batch(runtime, shard->allocator, class, shard->lists[class]);
        push_batch(runtime, shard->allocator, class, shard->full_batch[class]);
        shard->lists[class] = shard->full_batch[class] =
            (struct tarn__slab_list){NULL, 0};
    }
    pthread_mutex_unlock(&runtime->lock);
}

/* Free a list of chunks. Under no lock. */
static size_t free_chunks(tarn_runtime *runtime, unsigned allocator,
                          struct tarn__slab_chunk *chunk)
{
    size_t bytes = 0;

    while (chunk) {
        struct tarn__slab_chunk *next = chunk->next;
        bytes += chunk->bytes;
        atomic_fetch_sub(&runtime->bytes_chunks, chunk->bytes);
        tarn__sanitizer_undefined(chunk, chunk->bytes);
        tarn__allocator_free(&runtime->allocators[allocator], chunk);
        chunk = next;
    }
    return bytes;
}

void tarn__slab_free_all(tarn_runtime *runtime)
{
    for (unsigned allocator = 0; allocator < TARN__ALLOCATORS; allocator++) {
        free_chunks(runtime, allocator, runtime->pools[allocator].chunks);
        memset(&runtime->pools[allocator], 0, sizeof runtime->pools[allocator]);
    }
}

/* --- trim: chunks with no used block ------------------------------------------------ */

/* A merge sort by address, which needs no memory. */
static struct tarn__slab_chunk *sort_chunks(struct tarn__slab_chunk *chunks)
{
    struct tarn__slab_chunk *halves[2] = {NULL, NULL}, *sorted, **end = &sorted;

    if (!chunks || !chunks->next)
        return chunks;
    for (unsigned i = 0; chunks; i++) {
        struct tarn__slab_chunk *next = chunks->next;
        chunks->next = halves[i % 2];
        halves[i % 2] = chunks;
        chunks = next;
    }
    halves[0] = sort_chunks(halves[0]);
    halves[1] = sort_chunks(halves[1]);
    while (halves[0] && halves[1]) {
        struct tarn__slab_chunk **least = &halves[halves[1]->first < halves[0]->first];
        *end = *least;
        end = &(*least)->next;
        *least = (*least)->next;
    }
    *end = halves[0] ? halves[0] : halves[1];
    return sorted;
}

/* An index over sorted chunks. */
struct chunk_index {
    struct tarn__slab_chunk **by_address;
    size_t count;
};

static bool make_index(struct chunk_index *index, struct tarn__slab_chunk *sorted)
{
    index->count = 0;
    for (struct tarn__slab_chunk *chunk = sorted; chunk; chunk = chunk->next)
        index->count++;
    index->by_address = malloc(index->count * sizeof *index->by_address);
    if (!index->by_address)
        return false;
    for (size_t i = 0; i < index->count; i++, sorted = sorted->next)
        index->by_address[i] = sorted;
    return true;
}

/* The chunk that a block was cut from. */
static struct tarn__slab_chunk *chunk_of(const struct chunk_index *index,
                                         const void *slot)
{
    size_t low = 0, high = index->count;

    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if ((const char *)slot < index->by_address[middle]->first)
            high = middle;
        else
            low = middle;
    }
    return index->by_address[low];
}

static void count_ready(const struct chunk_index *index, struct tarn__slab_pool *pool)
{
    for (size_t i = 0; i < index->count; i++)
        index->by_address[i]->ready =
            index->by_address[i]->blocks - index->by_address[i]->cut;
    for (unsigned class = 0; class < TARN__CLASSES; class++)
        for (struct tarn__free_block *batch = pool->batches[class]; batch;
             batch = batch->next_batch)
            for (struct tarn__free_block *slot = batch; slot; slot = slot->next)
                chunk_of(index, slot)->ready++;
}

static bool is_unused(const struct tarn__slab_chunk *chunk)
{
    return chunk->ready == chunk->blocks;
}

/* Remove the blocks of chunks that are freed from a batch. */
static struct tarn__slab_list filter(const struct chunk_index *index,
                                     struct tarn__free_block *slot)
{
    struct tarn__slab_list kept = {NULL, 0};

    while (slot) {
        struct tarn__free_block *next = slot->next;
        if (!is_unused(chunk_of(index, slot))) {
            slot->next = kept.first;
            kept.first = slot;
            kept.count++;
        }
        slot = next;
    }
    return kept;
}

static void filter_batches(const struct chunk_index *index, tarn_runtime *runtime,
                           unsigned allocator)
{
    for (unsigned class = 0; class < TARN__CLASSES; class++) {
        struct tarn__free_block *batch = runtime->pools[allocator].batches[class];
        runtime->pools[allocator].batches[class] = NULL;
        while (batch) {
            struct tarn__free_block *next = batch->next_batch;
            push_batch(runtime, allocator, class, filter(index, batch));
            batch = next;
        }
    }
}

static void filter_fresh(struct tarn__slab_pool *pool)
{
    for (unsigned class = 0; class < TARN__CLASSES; class++) {
        struct tarn__slab_chunk **place = &pool->fresh[class];
        while (*place)
            if (is_unused(*place))
                *place = (*place)->next_fresh;
            else
                place = &(*place)->next_fresh;
    }
}

/* Take the chunks with only available blocks out of a pool. `lock` held. */
static struct tarn__slab_chunk *unused_chunks(tarn_runtime *runtime, unsigned allocator)
{
    tarn__assert_mutex_held(&runtime->lock);

    struct tarn__slab_pool *pool = &runtime->pools[allocator];
    struct tarn__slab_chunk *unused = NULL;
    struct chunk_index index;

    pool->chunks = sort_chunks(pool->chunks);
    if (!pool->chunks || !make_index(&index, pool->chunks))
        return NULL;
    count_ready(&index, pool);
    filter_batches(&index, runtime, allocator);
    filter_fresh(pool);
    pool->chunks = NULL;
    for (size_t i = index.count; i-- > 0;) {
        struct tarn__slab_chunk *chunk = index.by_address[i];
        struct tarn__slab_chunk **list = is_unused(chunk) ? &unused : &pool->chunks;
        if (is_unused(chunk))
            pool->bytes[chunk->class] -= chunk->bytes;
        chunk->next = *list;
        *list = chunk;
    }
    free(index.by_address);
    return unused;
}

size_t tarn__slab_trim(tarn_runtime *runtime)
{
    size_t bytes = 0;

    for (unsigned allocator = 0; allocator < TARN__ALLOCATORS; allocator++) {
        pthread_mutex_lock(&runtime->lock);
        struct tarn__slab_chunk *unused = unused_chunks(runtime, allocator);
        pthread_mutex_unlock(&runtime->lock);
        bytes += free_chunks(runtime, allocator, unused);
    }
    return bytes;
}
