/* shrink.c -- the calls that return free memory to the device. */
#include "pool/shrink.h"
#include "pool/cache/thread_cache.h"
#include "pool/compact/reclaimable.h"
#include "pool/entry.h"
#include "pool/order/fence.h"
#include "pool/order/no_stream.h"
#include "base/blocking_hook.h"
#include "base/error.h"

/* Release reclaimable memory above a limit that was lowered. `growth` held. */
static void shrink_to_limit(struct tarn__pool *pool) TARN__REQUIRES(growth)
{
    tarn__assert_held(&pool->growth);

    uint64_t released;

    for (int turn = 0; turn < 3; turn++) {
        tarn__pool_lock(pool);
        uint64_t reserved = tarn__pages_reserved(pool->pages), limit = pool->limit;
        uint64_t over = reserved > limit ? reserved - limit : 0;
        uint64_t free_bytes = pool->heap.free_bytes;
        tarn__pool_unlock(pool);
        atomic_store(&pool->over_limit, over > 0 && !tarn__pool_never_moves(pool));
        if (over == 0 || turn == 2)
            return;
        /* Handles may be larger than the excess. */
        bool exactly = turn == 0 && free_bytes > over;
        tarn__reclaimable_shrink(pool, exactly ? free_bytes - over : 0, &released);
    }
}

void tarn__shrink_to_threshold_now(struct tarn__pool *pool)
{
    uint64_t threshold = pool->options.release_threshold_bytes, released;

    if (tarn__pool_lifecycle(pool))
        return;
    tarn__blocking_hook_call();
    if (tarn__pool_end_after_reset(pool))
        return;
    tarn__pool_lock(pool);
    bool over = threshold && pool->heap.free_bytes > threshold;
    tarn__pool_unlock(pool);
    if ((!over && !atomic_load(&pool->over_limit)) || !tarn__pool_try_growth(pool))
        return;
    tarn__fences_poll_all(pool);
    if (over)
        tarn__reclaimable_shrink(pool, threshold, &released);
    shrink_to_limit(pool);
    tarn__pool_leave_growth(pool);
}

/* Return true if more is free than may stay, and some of it has no event fence to
 * query. */
static bool trim_needs_wait(struct tarn__pool *pool, size_t keep_bytes)
{
    tarn__pool_lock(pool);
    bool may_wait = pool->options.oom_policy == TARN_POOL_OOM_SYNCHRONIZE ||
                    tarn__no_stream_bytes(pool) > 0;
    bool waits =
        pool->heap.free_bytes > keep_bytes && pool->heap.unfenced_bytes > 0 && may_wait;
    tarn__pool_unlock(pool);
    return waits;
}

tarn_status tarn__shrink_to(void *self, size_t keep_bytes, size_t *released_out)
{
    struct tarn__pool *pool = self;
    uint64_t released = 0;
    tarn_status status;

    if (tarn__pool_end_after_reset(pool) || tarn__pool_lifecycle(pool)) {
        *released_out = 0;
        return TARN_OK;
    }
    status = tarn__pool_take_growth(pool);
    if (status != TARN_OK)
        return status;
    tarn__pool_assert_growth(pool);
    tarn__thread_caches_drain(pool);
    tarn__fences_poll_all(pool);
    if (trim_needs_wait(pool, keep_bytes))
        status = tarn__fences_wait_for_device(pool);
    if (status == TARN_OK)
        status = tarn__reclaimable_shrink(pool, keep_bytes, &released);
    tarn__pool_leave_growth(pool);
    if (status == TARN_OK)
        *released_out = released;
    return status;
}

void tarn__shrink_fully(struct tarn__pool *pool)
{
    struct tarn__kept_error words = tarn__error_keep();
    size_t released;

    if (tarn__shrink_to(pool, 0, &released) != TARN_OK)
        tarn__error_restore(&words);
}

tarn_status tarn_pool_set_maximum(tarn_resource *resource, size_t bytes)
{
    struct tarn__pool *pool = NULL;
    tarn_status status = tarn__pool_of(resource, "pool", &pool);

    if (status != TARN_OK)
        return status;
    if (tarn__pool_end_after_reset(pool))
        return tarn__entry_check_lifecycle(pool);
    status = tarn__pool_take_growth(pool);
    if (status != TARN_OK)
        return status;
    tarn__pool_assert_growth(pool);
    tarn__thread_caches_drain(pool);
    tarn__pool_lock(pool);
    uint64_t allocated_bytes = pool->heap.allocated_bytes;
    if (bytes == 0 || bytes >= allocated_bytes) {
        pool->limit = bytes ? bytes : UINT64_MAX;
        tarn__pages_set_maximum(pool->pages, pool->limit);
    } else {
        status =
            tarn_error_set(TARN_INVALID_ARGUMENT,
                           "pool: the maximum of %zu bytes is below the %llu live bytes",
                           bytes, (unsigned long long)allocated_bytes);
    }
    tarn__pool_unlock(pool);
    if (status == TARN_OK && !tarn__pool_lifecycle(pool)) {
        tarn__fences_poll_all(pool);
        shrink_to_limit(pool);
    }
    tarn__pool_leave_growth(pool);
    return status;
}
