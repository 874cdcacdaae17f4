/* pool.c -- the locks of a pool, and its end with its context. */
#include "pool/pool.h"
#include "nvtx/ranges.h"
#include "resource/internal.h"

/* --- locks --- */

bool tarn__pool_lock_if_possible(struct tarn__pool *pool)
{
    if (tarn__driver_gone())
        return tarn__lock_try(&pool->lock);
    tarn__pool_lock(pool);
    return true;
}

tarn_status tarn__pool_take_growth(struct tarn__pool *pool)
{
    if (pthread_equal(atomic_load(&pool->growth.owner), pthread_self()))
        return tarn_error_set(TARN_REENTRANT_CALL,
                              "pool: the upstream of the pool of device %d called the "
                              "pool while it was growing",
                              pool->device);
    atomic_fetch_add(&pool->growth.waiting, 1);
    if (pthread_mutex_trylock(&pool->growth.mutex) != 0) {
        bool has_range = tarn__ranges_begin("wait for another thread's growth", 0);
        pthread_mutex_lock(&pool->growth.mutex);
        tarn__ranges_end(has_range);
    }
    atomic_fetch_sub(&pool->growth.waiting, 1);
    atomic_store(&pool->growth.owner, pthread_self());
    return TARN_OK;
}

bool tarn__pool_try_growth(struct tarn__pool *pool) TARN__NO_THREAD_SAFETY_ANALYSIS
{
    if (atomic_load(&pool->growth.waiting) > 0 ||
        pthread_mutex_trylock(&pool->growth.mutex) != 0)
        return false;
    atomic_store(&pool->growth.owner, pthread_self());
    return true;
}

void tarn__pool_leave_growth(struct tarn__pool *pool) TARN__NO_THREAD_SAFETY_ANALYSIS
{
    atomic_store(&pool->growth.owner, 0);
    pthread_mutex_unlock(&pool->growth.mutex);
}

/* --- the end of a context or a device --- */

tarn_status tarn__pool_fail_ended(struct tarn__pool *pool)
{
    atomic_fetch_or(&pool->lifecycle, TARN__POOL_ENDED);
    return tarn_error_set(TARN_DRIVER_FAILURE,
                          "pool: the context of device %d was reset or the device is "
                          "lost, the pool cannot be used",
                          pool->device);
}

bool tarn__pool_end_after_reset(struct tarn__pool *pool)
{
    if (!tarn__pool_has_ended(pool) &&
        !tarn__context_generation_is_current(pool->device, pool->context_generation))
        atomic_fetch_or(&pool->lifecycle, TARN__POOL_ENDED);
    return tarn__pool_has_ended(pool);
}

tarn_status tarn__pool_of(tarn_resource *resource, const char *component,
                          struct tarn__pool **out)
{
    if (!resource || resource->ops.allocate != tarn__pool_ops.allocate)
        return tarn_error_set(TARN_INVALID_ARGUMENT, "%s: %s is not a pool", component,
                              resource ? resource->ops.name : "NULL");
    *out = resource->self;
    return TARN_OK;
}

#ifdef TARN_COUNT_LOCKS
/* Tell how often the pool's lock was taken, and how often that had to wait.
 * bench-pool_threads looks for this function. */
__attribute__((visibility("default"))) void tarn__pool_lock_counts(
    tarn_resource *resource, uint64_t *taken_out, uint64_t *waited_out);
void tarn__pool_lock_counts(tarn_resource *resource, uint64_t *taken_out,
                            uint64_t *waited_out)
{
    struct tarn__pool *pool = NULL;

    if (tarn__pool_of(resource, "pool", &pool) != TARN_OK || !pool)
        return;
    tarn__pool_lock(pool);
    *taken_out = pool->lock.taken;
    *waited_out = pool->lock.waited;
    tarn__pool_unlock(pool);
}
#endif
