/* streamless.c -- memory that was freed by somebody who names no stream.
 *
 * It may still be in use by work on any stream, those included that no longer exist, so no
 * event on one stream covers it. It is the lane's of nobody, in whose order no caller is:
 * free, and not to be had. One barrier covers all that lies there, so it is taken once for
 * many frees: when so much is held back that a search would rather wait than grow, and
 * before memory is said to be out.
 *
 * Who asks for memory without a stream gets what is ready, which no work is pending
 * behind; so both halves of the promise (serves_no_stream in tarn/resource.h) are here and
 * in tarn__heap_take().
 */
#include "resource/pool/pool.h"

/* Held back at most, before a search waits instead of growing: this part of the pool; or
 * so many blocks of the size that is asked for, and FEW at least, as far as that is a small part
 * of what the pool may have at all; and LEAST in any case. A loop that allocates and frees
 * one size so takes a barrier once in MANY frees, or more. */
enum { POOL_PART = 8, CAPACITY_PART = 32, MANY = 16 };
#define LEAST ((uint64_t)16 << 20)
#define FEW ((uint64_t)64 << 20)

static uint64_t larger(uint64_t one, uint64_t other)
{
    return one > other ? one : other;
}

static uint64_t smaller(uint64_t one, uint64_t other)
{
    return one < other ? one : other;
}

/* `lock` held. */
static uint64_t bound(const struct tarn__pool *pool, const struct tarn__request *request)
{
    uint64_t asked = (uint64_t)request->granules << TARN__GRANULE_SHIFT;
    uint64_t capacity = smaller(pool->limit, pool->device_bytes);
    uint64_t many = smaller(larger(MANY * asked, FEW), capacity / CAPACITY_PART);
    uint64_t part = tarn__pages_reserved(pool->pages) / POOL_PART;

    return larger(LEAST, larger(part, many));
}

static uint64_t bytes_of(const struct tarn__pool *pool, uint64_t key)
{
    const struct tarn__lane *lane = tarn__heap_known_lane(&pool->heap, key);

    return lane ? lane->free_bytes : 0;
}

uint64_t tarn__streamless_bytes(const struct tarn__pool *pool)
{
    return bytes_of(pool, TARN__KEY_NOBODY);
}

/* What captures left behind waits in the same way, where the pool may wait for it: it came
 * on streams, whose users may rather be refused. */
static uint64_t held_bytes(const struct tarn__pool *pool)
{
    bool waits = pool->options.last_step == TARN_POOL_WAIT_FOR_DEVICE;

    return tarn__streamless_bytes(pool) + (waits ? bytes_of(pool, TARN__KEY_LEFT) : 0);
}

static bool is_enough(struct tarn__pool *pool, const struct tarn__request *request)
{
    tarn__pool_lock(pool);
    uint64_t held = held_bytes(pool);
    bool enough = held > 0 && (!request || held >= bound(pool, request));
    tarn__pool_unlock(pool);
    return enough;
}

bool tarn__streamless_settle(struct tarn__pool *pool, const struct tarn__request *request)
{
    if (!is_enough(pool, request))
        return false;
    pthread_mutex_lock(&pool->barrier);
    /* Another thread may have waited for it meanwhile, for all. */
    bool settled =
        !is_enough(pool, request) || tarn__fences_barrier_locked(pool) == TARN_OK;
    pthread_mutex_unlock(&pool->barrier);
    return settled;
}
