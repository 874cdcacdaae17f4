/* pool.c -- how a driver pool finds memory for a stream.
 *
 * Memory freed on a stream is immediately free for that stream. It is free for other
 * streams when the stream has reached the free. If nothing else is left, the pool makes
 * the allocating stream wait for another stream's free, if its attributes allow that.
 */
#include "sim/memory/pool.h"
#include "base/size.h"
#include "sim/core/device.h"
#include "sim/core/misuse.h"
#include "sim/core/thread.h"
#include "sim/memory/pool_file.h"
#include "sim/races/races.h"
#include "sim/work/work.h"
#include <stdlib.h>

#define POOL_PIECE_BYTES ((size_t)32 << 20) /* the size measured on an H200 */

enum {
    FOLLOW_EVENTS = 0, /* in `reuse`, */
    INTERNAL = 2,      /* too */
    /* the search covers this many of the newest frees, to bound its time */
    SEARCH_MAX = 256,
};

static struct sim_pool *pools;
/* Destroyed pools: their handles are reused, and a stale handle is distinguished from
 * one that never was valid. */
static struct sim_pool *destroyed_pools;

static bool was_valid(CUmemoryPool handle)
{
    const struct sim_pool *pool = destroyed_pools;

    while (pool && (const void *)pool != (void *)handle)
        pool = pool->next;
    return pool;
}

struct sim_pool *sim_pool_find(CUmemoryPool handle)
{
    struct sim_pool *pool = pools;

    while (pool && (void *)pool != (void *)handle)
        pool = pool->next;
    if (!pool && handle && !was_valid(handle))
        sim_misuse(sim_thread.call, "%p is not a memory pool; a real driver crashes here",
                   (void *)handle);
    return pool && !pool->is_destroyed ? pool : NULL;
}

static bool is_imported(const struct sim_pool *pool)
{
    return pool->file && pool->file->is_imported;
}

struct sim_pool *sim_pool_find_own(CUmemoryPool handle)
{
    struct sim_pool *pool = sim_pool_find(handle);

    return pool && is_imported(pool) ? NULL : pool;
}

struct sim_pool *sim_pool_find_imported(uint64_t id)
{
    struct sim_pool *pool = pools;

    while (pool && (pool->is_destroyed || !is_imported(pool) || pool->file->id != id))
        pool = pool->next;
    return pool;
}

struct sim_pool *sim_pool_next_left(const struct sim_pool *pool)
{
    struct sim_pool *next = pool ? pool->next : pools;

    while (next && (!next->is_destroyed || !is_imported(next)))
        next = next->next;
    return next;
}

struct sim_pool *sim_pool_new(CUdevice device)
{
    struct sim_pool *pool = destroyed_pools;

    if (pool)
        destroyed_pools = pool->next;
    else
        pool = malloc(sizeof *pool);
    if (!pool)
        return NULL;
    *pool = (struct sim_pool){0};
    pool->device = device;
    pool->location = (CUmemLocation){CU_MEM_LOCATION_TYPE_DEVICE, device};
    pool->max_bytes = UINT64_MAX;
    pool->reuse[0] = pool->reuse[1] = pool->reuse[2] = 1;
    pool->next = pools;
    pools = pool;
    return pool;
}

CUresult sim_pool_new_at(enum sim_pool_kind kind, const CUmemLocation *location,
                         struct sim_pool **out)
{
    bool is_on_device = location->type == CU_MEM_LOCATION_TYPE_DEVICE;
    struct sim_pool *pool = sim_pool_new(is_on_device ? location->id : 0);
    CUresult result;

    if (!pool)
        return CUDA_ERROR_OUT_OF_MEMORY;
    pool->kind = kind;
    pool->location = *location;
    pool->access = UINT64_MAX; /* every device has access */
    result = sim_pool_file_create(pool);
    if (result == CUDA_SUCCESS)
        *out = pool;
    else
        sim_pool_remove(pool);
    return result;
}

struct sim_pool *sim_pool_create_default(CUdevice device)
{
    struct sim_pool *pool = sim_pool_new(device);

    if (pool)
        pool->is_default = true;
    return pool;
}

/* --- what is free --- */

static void list_freed(struct sim_freed *freed)
{
    freed->next = freed->pool->freed;
    if (freed->next)
        freed->next->previous = freed;
    freed->pool->freed = freed;
}

/* Take `freed` out of the list and return its memory. */
static struct sim_range *unlist_freed(struct sim_freed *freed)
{
    struct sim_range *memory = freed->memory;

    if (freed->next)
        freed->next->previous = freed->previous;
    if (freed->previous)
        freed->previous->next = freed->next;
    else
        freed->pool->freed = freed->next;
    freed->memory = NULL;
    return memory;
}

/* The stream has reached the free: the memory is free for every stream. */
static void reach_free(void *data)
{
    struct sim_freed *freed = data;

    if (!freed->memory)
        return;
    sim_heap_return(&freed->pool->heap, unlist_freed(freed));
    if (freed->pool->is_destroyed)
        sim_pool_trim(freed->pool, 0);
}

void sim_pool_remove(struct sim_pool *pool)
{
    struct sim_pool **link = &pools;

    while (*link != pool)
        link = &(*link)->next;
    *link = pool->next;
    if (pool->file)
        sim_pool_file_close(pool->file);
    pool->next = destroyed_pools;
    destroyed_pools = pool;
}

static void return_piece(struct sim_pool *pool, struct sim_range *memory)
{
    struct sim_device *device = &sim_devices[pool->device];

    pool->reserved -= memory->bytes;
    if (pool->file) {
        sim_pool_file_return(pool->file, memory);
        return;
    }
    sim_device_drop_pieces(device, memory);
    sim_device_return_pieces(device, memory);
}

/* Return true if some piece may be free. Fast where there are many blocks. */
static bool has_free_piece(const struct sim_pool *pool)
{
    const struct sim_range *root = pool->heap.free.root;

    return root && root->largest >= pool->least_piece;
}

/* Return free pieces, as long as the pool keeps `keep` bytes. */
static void return_pieces(struct sim_pool *pool, uint64_t keep)
{
    struct sim_range *piece, *memory;
    uintptr_t next = 0;

    while (pool->reserved > keep && has_free_piece(pool) &&
           (piece = sim_ranges_after(&pool->pieces, next))) {
        next = piece->start + 1;
        if (pool->reserved - piece->bytes < keep)
            continue;
        memory = sim_heap_take_at(&pool->heap, piece->start, piece->bytes);
        if (!memory)
            continue;
        return_piece(pool, memory);
        sim_ranges_remove(&pool->pieces, piece);
        free(piece);
    }
}

void sim_pool_trim(struct sim_pool *pool, uint64_t keep)
{
    return_pieces(pool, keep);
    if (pool->is_destroyed && !is_imported(pool) && pool->reserved == 0 &&
        pool->live == 0)
        sim_pool_remove(pool);
}

void sim_pool_trim_all_to_threshold(CUdevice device)
{
    struct sim_pool *next;

    for (struct sim_pool *pool = pools; pool; pool = next) {
        next = pool->next;
        if ((pool->device == device || pool->kind != POOL_DEVICE) &&
            pool->reserved > pool->threshold)
            sim_pool_trim(pool, pool->threshold);
    }
}

bool sim_pool_trim_all(CUdevice device)
{
    size_t before = sim_devices[device].reserved_bytes;
    struct sim_pool *next;

    for (struct sim_pool *pool = pools; pool; pool = next) {
        next = pool->next;
        if (pool->device == device && pool->kind == POOL_DEVICE)
            sim_pool_trim(pool, 0);
    }
    return sim_devices[device].reserved_bytes < before;
}

void sim_pool_destroy(struct sim_pool *pool)
{
    struct sim_device *device = &sim_devices[pool->device];

    if (device->current_pool == pool)
        device->current_pool = device->pool;
    pool->is_destroyed = true;
    sim_pool_trim(pool, 0);
}

/* --- finding memory --- */

/* Return true if the next operation of `stream` comes after the free. */
static bool is_behind(const struct sim_pool *pool, const struct sim_stream *stream,
                      const struct sim_freed *freed)
{
    return freed->stream == stream ||
           (pool->reuse[FOLLOW_EVENTS] &&
            sim_stream_is_after(stream, freed->stream, freed->until));
}

/* Find freed memory that is large enough; exact fits first. With `same` the next
 * operation of `stream` comes after the free, otherwise not. */
static struct sim_freed *find_freed(struct sim_pool *pool,
                                    const struct sim_stream *stream, bool same,
                                    size_t bytes)
{
    struct sim_freed *best = NULL, *freed = pool->freed;

    for (unsigned i = 0; freed && i < SEARCH_MAX; freed = freed->next, i++) {
        size_t size = freed->memory->bytes;
        if (is_behind(pool, stream, freed) != same || size < bytes)
            continue;
        if (size == bytes)
            return freed;
        if (!best)
            best = freed;
    }
    return best;
}

/* Reuse a whole freed block, so that no second entry is needed for the rest. */
static struct sim_range *take_same_stream(struct sim_pool *pool,
                                          struct sim_stream *stream, size_t bytes)
{
    struct sim_freed *freed = find_freed(pool, stream, true, bytes);

    return freed && freed->memory->bytes / 2 <= bytes ? unlist_freed(freed) : NULL;
}

uint64_t sim_pool_limit(uint64_t bytes)
{
    size_t whole;

    return tarn__size_round_up(bytes, POOL_PIECE_BYTES, &whole) ? whole : UINT64_MAX;
}

const struct sim_range *sim_pool_piece(const struct sim_pool *pool, uintptr_t address)
{
    return sim_ranges_find(&pool->pieces, address);
}

/* Record that the pool has `memory`, part by part. False: no host memory. */
static bool list_pieces(struct sim_pool *pool, const struct sim_range *memory)
{
    uintptr_t end = memory->start + memory->bytes;

    for (uintptr_t start = memory->start; start < end; start += POOL_PIECE_BYTES) {
        struct sim_range *piece = calloc(1, sizeof *piece);
        if (!piece)
            return false;
        piece->start = start;
        piece->bytes = end - start < POOL_PIECE_BYTES ? end - start : POOL_PIECE_BYTES;
        if (pool->least_piece == 0 || piece->bytes < pool->least_piece)
            pool->least_piece = piece->bytes;
        sim_ranges_insert(&pool->pieces, piece);
    }
    return true;
}

static void unlist_pieces(struct sim_pool *pool, const struct sim_range *memory)
{
    struct sim_range *piece;

    while ((piece = sim_ranges_after(&pool->pieces, memory->start)) &&
           piece->start - memory->start < memory->bytes) {
        sim_ranges_remove(&pool->pieces, piece);
        free(piece);
    }
}

/* Grow the pool by a multiple of `unit`, and return `bytes` of that; or NULL. */
static struct sim_range *take_grown(struct sim_pool *pool, size_t bytes, size_t unit)
{
    struct sim_range *more;
    size_t whole;

    if (!tarn__size_round_up(bytes, unit, &whole) || pool->reserved > pool->max_bytes ||
        whole > pool->max_bytes - pool->reserved)
        return NULL;
    more = pool->file ? sim_pool_file_take(pool->file, whole)
                      : sim_device_take_pieces(&sim_devices[pool->device], whole);
    if (!more)
        return NULL;
    pool->reserved += more->bytes;
    if (!list_pieces(pool, more)) {
        unlist_pieces(pool, more);
        return_piece(pool, more);
        return NULL;
    }
    if (pool->reserved > pool->reserved_high)
        pool->reserved_high = pool->reserved;
    sim_heap_return(&pool->heap, more);
    return sim_heap_take(&pool->heap, bytes);
}

/* Reuse memory by making `stream` wait for another stream's free. */
static struct sim_range *take_with_wait(struct sim_pool *pool, struct sim_stream *stream,
                                        size_t bytes)
{
    struct sim_freed *freed = find_freed(pool, stream, false, bytes);
    struct sim_op *wait;

    if (!freed)
        return NULL;
    wait = sim_op_new(0, NULL, NULL);
    if (!wait)
        return NULL;
    if (!sim_op_after(wait, freed->stream, freed->until)) {
        sim_op_drop(wait);
        return NULL;
    }
    if (sim_work_queue(stream, wait) != CUDA_SUCCESS)
        return NULL;
    return unlist_freed(freed);
}

static struct sim_range *take(struct sim_pool *pool, struct sim_stream *stream,
                              size_t bytes)
{
    struct sim_range *memory = take_same_stream(pool, stream, bytes);

    if (!memory)
        memory = sim_heap_take(&pool->heap, bytes);
    if (!memory)
        memory = take_grown(pool, bytes, POOL_PIECE_BYTES);
    if (!memory && pool->kind == POOL_DEVICE && sim_pool_trim_all(pool->device))
        memory = take_grown(pool, bytes, POOL_PIECE_BYTES);
    if (!memory) /* the device has less than a piece left */
        memory = take_grown(pool, bytes, SIM_PIECE_BYTES);
    if (!memory && pool->reuse[INTERNAL])
        memory = take_with_wait(pool, stream, bytes);
    return memory;
}

CUresult sim_pool_allocate(struct sim_pool *pool, struct sim_stream *stream, size_t bytes,
                           CUdeviceptr *out)
{
    size_t whole;
    struct sim_block *block;

    if (!tarn__size_round_up(bytes, SIM_ALIGNMENT, &whole))
        return CUDA_ERROR_OUT_OF_MEMORY;
    block = sim_block_new(NULL, BLOCK_POOL, 0, bytes); /* it outlives contexts */
    if (!block)
        return CUDA_ERROR_OUT_OF_MEMORY;
    block->device = pool->device;
    block->pool = pool;
    block->memory = take(pool, stream, whole);
    if (!block->memory) {
        free(block);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    pool->live++;
    pool->used += bytes;
    if (pool->used > pool->used_high)
        pool->used_high = pool->used;
    block->range.start = block->memory->start;
    sim_block_insert(block);
    sim_races_allocate(stream, block->range.start, block->memory->bytes);
    *out = block->range.start;
    return CUDA_SUCCESS;
}

/* --- freeing --- */

static void touch_freed(const void *data, struct sim_timeline *timeline)
{
    const struct sim_freed *freed = data;

    sim_races_touch(timeline, freed->memory->start, freed->memory->bytes, true);
}

/* The free could not be queued: the block keeps its memory. */
static void cancel_free(void *data)
{
    unlist_freed(data);
}

static void count_out(struct sim_pool *pool, size_t bytes)
{
    pool->live--;
    pool->used -= bytes;
    if (pool->is_destroyed && pool->live == 0)
        sim_pool_trim(pool, 0);
}

void sim_pool_reclaim(struct sim_block *block)
{
    if (block->memory)
        sim_heap_return(&block->pool->heap, block->memory);
    count_out(block->pool, block->memory ? block->range.bytes : 0);
}

CUresult sim_pool_free(struct sim_block *block, struct sim_stream *stream)
{
    struct sim_op *place = sim_op_new(sizeof(struct sim_freed), NULL, reach_free);
    struct sim_pool *pool = block->pool;
    size_t bytes = block->range.bytes;
    struct sim_freed *freed;
    CUresult result;

    if (!place)
        return CUDA_ERROR_OUT_OF_MEMORY;
    freed = (struct sim_freed *)(void *)place->data;
    *freed =
        (struct sim_freed){NULL, NULL, pool, block->memory, stream, stream->queued + 1};
    list_freed(freed);
    place->failed = cancel_free;
    place->touch = touch_freed;
    result = sim_work_queue(stream, place); /* may reach the free immediately */
    if (result != CUDA_SUCCESS)
        return result;
    sim_block_remove(block);
    free(block);
    count_out(pool, bytes);
    return CUDA_SUCCESS;
}
