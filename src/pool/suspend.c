/* suspend.c -- suspend and resume (vLLM's sleep mode), and access of other
 * devices.
 *
 * Suspend releases all physical memory for a while. The lifecycle state then
 * stops cache hits and growth. Blocks stay at their addresses, live ones too; the pool
 * only notes frees meanwhile. Resume restores every page that existed, at its address, or
 * none.
 */
#include "pool/cache/thread_cache.h"
#include "pool/compact/background.h"
#include "pool/compact/retired.h"
#include "pool/order/fence.h"
#include "pool/pool.h"
#include "resource/discards.h"
#include <stdlib.h>

static tarn_status reject(struct tarn__pool *pool)
{
    if (tarn__driver_gone())
        return tarn_error_set(TARN_DRIVER_FAILURE,
                              "pool: this process is exiting or is a forked child");
    if (atomic_load(&pool->lifecycle) & TARN__POOL_ENDED)
        return tarn__pool_fail_ended(pool);
    if (!tarn__pages_is_vmm(pool->pages))
        return tarn_error_set(
            TARN_NOT_SUPPORTED,
            "pool: a pool with an upstream cannot be suspended, a pool on VMM can");
    return TARN_OK;
}

/* Return the spans of the live blocks, merged where they touch; `lock` held. Without host
 * memory it returns NULL, and `*count` is the number of blocks. */
static struct tarn__span *live_spans(const struct tarn__pool *pool, size_t *count)
    TARN__REQUIRES(pool_lock)
{
    const struct tarn__heap *heap = &pool->heap;
    struct tarn__span *spans = malloc((heap->blocks + 1) * sizeof *spans);
    size_t n = 0;

    tarn__assert_held(&pool->lock);
    for (size_t i = 0; spans && i < heap->segments; i++) {
        for (tarn__index j = tarn__heap_find(heap, heap->starts[i]); j;
             j = tarn__node(&heap->nodes, j)->after) {
            const struct tarn__node *node = tarn__node(&heap->nodes, j);
            if (tarn__node_state(node) != TARN__LIVE &&
                tarn__node_state(node) != TARN__IN_TRANSIT)
                continue;
            if (n && spans[n - 1].address + spans[n - 1].bytes == node->address)
                spans[n - 1].bytes += tarn__node_bytes(node);
            else
                spans[n++] = (struct tarn__span){node->address, tarn__node_bytes(node)};
        }
    }
    *count = spans ? n : heap->blocks;
    return spans;
}

/* The lifecycle state is set, so the pool starts no new work; this waits for the queued
 * work. */
static tarn_status suspend(struct tarn__pool *pool, tarn_pool_suspend_mode mode)
    TARN__REQUIRES(growth)
{
    struct tarn__span *spans = NULL;
    size_t count = 0;
    tarn_status status = tarn__fences_wait_for_device(pool);

    if (status != TARN_OK)
        return status;
    tarn__retired_unmap_all(pool);
    if (mode == TARN_POOL_SUSPEND_KEEP) {
        tarn__pool_lock(pool);
        spans = live_spans(pool, &count);
        tarn__pool_unlock(pool);
        if (!spans)
            return tarn_error_set(TARN_OUT_OF_MEMORY,
                                  "pool: no host memory for a list of %zu blocks", count);
    }
    status = tarn__pages_suspend(pool->pages, spans, count);
    free(spans);
    return status;
}

/* `growth` held. */
static void end_suspension(struct tarn__pool *pool) TARN__REQUIRES(growth)
{
    tarn__assert_held(&pool->growth);

    atomic_fetch_and(&pool->lifecycle, ~(unsigned)TARN__POOL_SUSPENDED);
    tarn__discards_count_suspended(true);
}

tarn_status tarn_pool_suspend(tarn_resource *resource, tarn_pool_suspend_mode mode)
{
    struct tarn__pool *pool;
    tarn_status status = tarn__pool_of(resource, "pool", &pool);

    if (status == TARN_OK && (unsigned)mode > TARN_POOL_SUSPEND_KEEP)
        status = tarn_error_set(TARN_INVALID_ARGUMENT, "pool: unknown suspend mode %d",
                                (int)mode);
    if (status == TARN_OK)
        status = reject(pool);
    if (status == TARN_OK)
        status = tarn__pool_take_growth(pool);
    if (status != TARN_OK)
        return status;
    tarn__pool_assert_growth(pool);
    if (!(atomic_load(&pool->lifecycle) & TARN__POOL_SUSPENDED)) {
        atomic_fetch_or(&pool->lifecycle, TARN__POOL_SUSPENDED);
        tarn__discards_count_suspended(false);
        tarn__background_stop(pool);
        tarn__thread_caches_drain(pool);
        if (mode != TARN_POOL_SUSPEND_KEEP)
            tarn__discards_count();
        status = suspend(pool, mode);
        tarn__pool_lock(pool);
        pool->generation += status == TARN_OK;
        tarn__pool_unlock(pool);
        if (status != TARN_OK)
            end_suspension(pool);
    }
    tarn__pool_leave_growth(pool);
    return status;
}

tarn_status tarn_pool_resume(tarn_resource *resource)
{
    struct tarn__pool *pool;
    tarn_status status = tarn__pool_of(resource, "pool", &pool);

    if (status == TARN_OK)
        status = reject(pool);
    if (status == TARN_OK)
        status = tarn__pool_take_growth(pool);
    if (status != TARN_OK)
        return status;
    tarn__pool_assert_growth(pool);
    if (atomic_load(&pool->lifecycle) & TARN__POOL_SUSPENDED) {
        status = tarn__pages_resume(pool->pages);
        if (status == TARN_OK)
            end_suspension(pool);
    }
    tarn__pool_leave_growth(pool);
    return status;
}

tarn_status tarn_pool_generation(tarn_resource *resource, uint64_t *out)
    TARN__NO_THREAD_SAFETY_ANALYSIS /* where the lock is unavailable, without it */
{
    struct tarn__pool *pool;
    tarn_status status = tarn__pool_of(resource, "pool", &pool);

    if (status == TARN_OK && !out)
        status = tarn_error_set(TARN_INVALID_ARGUMENT, "pool: generation: out is NULL");
    if (status != TARN_OK)
        return status;
    bool locked = tarn__pool_lock_if_possible(pool);
    *out = pool->generation;
    if (locked)
        tarn__pool_unlock(pool);
    return TARN_OK;
}

tarn_status tarn_pool_set_peer_access(tarn_resource *resource, int peer, bool access)
{
    struct tarn__pool *pool;
    tarn_status status = tarn__pool_of(resource, "pool", &pool);

    if (status == TARN_OK)
        status = tarn__device_check("pool", peer);
    if (status == TARN_OK)
        status = reject(pool);
    if (status == TARN_OK)
        status = tarn__pool_take_growth(pool);
    if (status != TARN_OK)
        return status;
    tarn__pool_assert_growth(pool);
    status = tarn__pages_set_peer(pool->pages, peer, access);
    tarn__pool_leave_growth(pool);
    return status;
}
