/* entry.c -- how an allocation and a free begin. */
#include "pool/entry.h"
#include "pool/cache/thread_table.h"
#include "pool/resolve.h"
#include "base/blocking_hook.h"
#include "base/error.h"
#include "driver/stream.h"

tarn_status tarn__entry_check_lifecycle(struct tarn__pool *pool)
{
    if (tarn__driver_gone())
        return tarn_error_set(
            TARN_DRIVER_FAILURE,
            "pool: this process is exiting or is a forked child: no memory of device %d",
            pool->device);
    if (tarn__pool_lifecycle(pool) & TARN__POOL_ENDED)
        return tarn__pool_fail_ended(pool);
    if (!(tarn__pool_lifecycle(pool) & TARN__POOL_SUSPENDED))
        return TARN_OK;
    if (pool->options.suspended_policy == TARN_POOL_SUSPENDED_RESUME)
        return tarn_pool_resume(pool->resource);
    return tarn_error_set(TARN_SUSPENDED, "pool: the pool is suspended, device %d",
                          pool->device);
}

bool tarn__entry_has_joined_capture(const struct tarn__pool *pool,
                                    const struct tarn__thread_cache *cache)
{
    /* The check of the thread cache has queried a raw stream. The legacy stream cannot
     * capture, and a query of it fails where no context is current. */
    if (!cache->registration || cache->key == TARN__KEY_LEGACY)
        return false;
    tarn__blocking_hook_call();
    return tarn__stream_may_capture(pool->calls, cache->handle) &&
           !TARN_MUTATION(refill_in_capture);
}

tarn_status tarn__entry_begin_slow(struct tarn__pool *pool, tarn_stream stream,
                                   struct tarn__caller *caller)
{
    tarn_status status = tarn__resolve_begin(pool, stream, caller);

    if (status != TARN_OK || !caller->capturing || !caller->registration ||
        atomic_load(&caller->registration->captures) ||
        TARN_MUTATION(cache_kept_in_capture))
        return status;
    struct tarn__thread_cache *cache = tarn__thread_table_find(pool, stream);
    if (cache) {
        tarn__pool_lock(pool);
        tarn__thread_cache_before_search(pool, cache);
        tarn__pool_unlock(pool);
    }
    tarn__thread_caches_drain_registered(pool, caller->registration);
    return TARN_OK;
}

bool tarn__entry_is_no_stream(const struct tarn__pool *pool, tarn_stream stream)
{
    unsigned long long id = 0;

    return stream == TARN_STREAM_NONE &&
           pool->calls->ctx_get_id(pool->context, &id) == CUDA_SUCCESS_ &&
           id == pool->context_generation;
}
