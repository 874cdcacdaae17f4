/* operations.c -- the pool as a resource. The operations on one block are in allocate.c and
 * deallocate.c. */
#include "resource/internal.h"
#include "pool/allocate.h"
#include "pool/cache/thread_cache.h"
#include "pool/deallocate.h"
#include "pool/entry.h"
#include "pool/live.h"
#include "pool/shrink.h"

_Static_assert(TARN__QUANTUM == TARN_POOL_QUANTUM, "the quantum is public");

static bool pool_supports_streams(const void *self)
{
    (void)self;
    return true;
}

/* No-stream frees stay in their own stream state until a device-wide wait, and calls
 * without a stream get completed memory alone. New memory is completed if the upstream
 * guarantees it, or by the wait that growth makes. An upstream that does not support
 * streams guarantees nothing. */
static bool pool_supports_no_stream(const void *self)
{
    const struct tarn__pool *pool = self;

    return pool->options.no_stream_policy == TARN_POOL_NO_STREAM_SINGLE ||
           tarn__pages_are_done(pool->pages) || tarn__pages_is_ordered(pool->pages);
}

static tarn_status pool_requested_bytes(void *self, tarn_device_ptr block, size_t *out)
{
    struct tarn__pool *pool = self;
    tarn__index index = tarn__live_find(pool, block);

    uint64_t requested =
        index ? tarn__node_requested(tarn__node(&pool->heap.nodes, index)) : 0;
    if (!index || !tarn__live_is_still(pool, index, block))
        return tarn__live_fail(block);
    *out = requested;
    return TARN_OK;
}

static size_t pool_live_blocks(const void *self)
{
    struct tarn__pool *pool = (struct tarn__pool *)self;
    struct tarn__thread_cache_sums sums;

    if (tarn__pool_end_after_reset(pool))
        return 0;
    tarn__pool_lock(pool);
    tarn__thread_caches_sum(pool, &sums);
    tarn__pool_unlock(pool);
    /* Other threads count between the reads of two caches. */
    return sums.counts.allocations > sums.counts.frees
               ? sums.counts.allocations - sums.counts.frees
               : 0;
}

/* Report the device's free memory, and the pool's free part of it, thread-cached blocks
 * included. The sum can exceed the total: over pinned or managed memory, the pool's free
 * memory is not the device's. Other threads also move memory between the two queries. */
static tarn_status pool_memory_info(void *self, tarn_stream stream, size_t *free_out,
                                    size_t *total_out)
{
    struct tarn__pool *pool = self;
    struct tarn__scope scope;
    size_t free_bytes = 0, total_bytes = 0;
    struct tarn__thread_cache_sums sums;
    tarn_status status = tarn__entry_check_lifecycle(pool);

    (void)stream;
    if (status == TARN_OK)
        status = tarn__scope_enter(pool->device, &scope);
    if (status != TARN_OK)
        return status;
    tarn__pages_note_call(pool->pages);
    CUresult_ result = scope.calls->mem_get_info(&free_bytes, &total_bytes);
    tarn__scope_leave(&scope);
    if (result != CUDA_SUCCESS_)
        return tarn__driver_failed("pool", "cuMemGetInfo", result, "device %d",
                                   pool->device);
    tarn__pool_lock(pool);
    tarn__thread_caches_sum(pool, &sums);
    size_t reserved = tarn__pages_reserved(pool->pages);
    uint64_t room = pool->limit > reserved ? pool->limit - reserved : 0;
    uint64_t more = free_bytes < room ? free_bytes : room;
    uint64_t free_in_all = more + pool->heap.free_bytes + sums.bytes;
    *total_out = pool->limit < total_bytes ? pool->limit : total_bytes;
    *free_out = free_in_all < *total_out ? free_in_all : *total_out;
    tarn__pool_unlock(pool);
    return TARN_OK;
}

const tarn_resource_ops tarn__pool_ops = {
    .size = sizeof tarn__pool_ops,
    .name = "pool",
    .allocate = tarn__allocate_block,
    .deallocate = tarn__deallocate_block,
    .memory_info = pool_memory_info,
    .supports_streams = pool_supports_streams,
    .trim = tarn__shrink_to,
    .requested_bytes = pool_requested_bytes,
    .live_blocks = pool_live_blocks,
    .supports_no_stream = pool_supports_no_stream,
};
