/* state.c -- the begin and the end of a plan in a pool. */
#include "pool/follow/state.h"
#include "pool/blocks/ranges.h"
#include "pool/follow/area.h"
#include "base/warn.h"
#include <stdlib.h>

void tarn__state_clear_ordinals(struct tarn__follow_ordinals *ordinals)
{
    tarn__map_free(&ordinals->by_id);
    tarn__map_init(&ordinals->by_id, sizeof(uint32_t));
    ordinals->next = 0;
}

/* Have the blocks at planned addresses be blocks like any other. */
static void forget_live(struct tarn__pool *pool) TARN__REQUIRES(pool_lock)
{
    struct tarn__sequences *sequences = pool->follow->sequences;
    uint32_t rank = sequences->slot_count > 0 ? tarn__bits_next(&sequences->live, 0)
                                              : TARN__BITS_NONE;

    while (rank != TARN__BITS_NONE) {
        tarn__node_set_capture(tarn__node(&pool->heap.nodes, sequences->nodes[rank]), 0);
        tarn__sequences_leave(sequences, rank);
        rank = tarn__bits_next(&sequences->live, rank);
    }
}

void tarn__state_end(struct tarn__pool *pool)
{
    tarn__assert_held(&pool->lock);
    pool->follow->is_on = false;
    pool->follow->version++;
    forget_live(pool);
    tarn__area_share(&pool->heap);
}

/* --- the pool's begin and end --- */

/* A move costs, so a plan that is little higher than its peak moves nothing. Parts of the
 * peak: with one stream, and with several, whose memory is completed later. */
enum { AIM_PART = 66, AIM_PART_STREAMS = 33 };

static uint64_t aim_of(const struct tarn__sequences *sequences)
{
    uint64_t part = sequences->streams > 1 ? AIM_PART_STREAMS : AIM_PART;
    uint64_t aim = sequences->peak_live + sequences->peak_live / part;

    aim = tarn__pages_round_up(aim);
    return tarn__pages_round_up(sequences->height) <= aim ? UINT64_MAX : aim;
}

/* Split the range of the pool: the second half is the area. */
static tarn_status open_area(struct tarn__pool *pool,
                             uint64_t height) TARN__NO_THREAD_SAFETY_ANALYSIS
{
    struct tarn__span range = tarn__pages_range(pool->pages);
    uint64_t half = range.bytes / 2 & ~((uint64_t)TARN__PAGE_BYTES - 1);

    if (height > half)
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "pool: the plan needs %llu bytes of addresses, a pool of "
                              "this device has %llu for plans",
                              (unsigned long long)height, (unsigned long long)half);
    pool->follow->area_bytes = half;
    if (!tarn__area_open(&pool->heap, range.address + range.bytes - half, half) ||
        !tarn__ranges_add(&pool->heap, range.address, range.bytes - half))
        return tarn_error_set(TARN_OUT_OF_MEMORY, "pool: no host memory");
    return TARN_OK;
}

tarn_status tarn__state_open(struct tarn__pool *pool, const struct tarn_plan *plan)
{
    struct tarn__follow *follow = calloc(1, sizeof *follow);

    if (!tarn__pages_is_vmm(pool->pages)) {
        free(follow);
        return tarn_error_set(TARN_NOT_SUPPORTED,
                              "pool: a plan needs memory of VMM: device %d has none, or "
                              "the pool has an upstream",
                              pool->device);
    }
    pool->follow = follow;
    if (follow)
        follow->sequences = tarn__sequences_new(plan);
    if (!follow || !follow->sequences)
        return tarn_error_set(TARN_OUT_OF_MEMORY,
                              "pool: no host memory for a plan of %zu blocks",
                              plan->count);
    tarn__map_init(&follow->threads.by_id, sizeof(uint32_t));
    tarn__map_init(&follow->streams.by_id, sizeof(uint32_t));
    follow->version = 1;
    follow->aim = aim_of(follow->sequences);
    if (follow->aim < UINT64_MAX)
        tarn__pages_set_single(pool->pages);
    follow->price = plan->rules.price;
    follow->is_on = plan->count > 0;
    follow->state = TARN_POOL_PLAN_FOLLOWED;
    return open_area(pool, follow->sequences->height);
}

void tarn__state_free(struct tarn__pool *pool)
{
    struct tarn__follow *follow = pool->follow;

    if (!follow)
        return;
    tarn__sequences_free(follow->sequences);
    tarn__map_free(&follow->threads.by_id);
    tarn__map_free(&follow->streams.by_id);
    free(follow);
}

void tarn__state_check_maximum(struct tarn__pool *pool)
{
    if (!pool->follow)
        return;
    tarn__pool_lock(pool);
    uint64_t height = tarn__pages_round_up(pool->follow->sequences->height),
             most = tarn__pool_maximum(pool);
    tarn__pool_unlock(pool);
    if (height > most)
        tarn__warn(
            "pool: the plan needs %llu bytes, the pool may have %llu: memory moves, "
            "or blocks are outside of the plan",
            (unsigned long long)height, (unsigned long long)most);
}
