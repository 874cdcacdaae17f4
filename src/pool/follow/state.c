/* state.c -- the begin and the end of a plan in a pool. */
#include "pool/follow/state.h"
#include "pool/blocks/ranges.h"
#include "pool/follow/area.h"
#include "base/warn.h"
#include <stdlib.h>

/* Have the blocks at planned addresses be blocks like any other. */
static void forget_live(struct tarn__pool *pool) TARN__REQUIRES(pool_lock)
{
    struct tarn__sequences *sequences = pool->follow->sequences;
    uint32_t rank = sequences && sequences->slot_count > 0
                        ? tarn__bits_next(&sequences->live, 0)
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
    atomic_store(&pool->follow->is_asked, false);
    pool->follow->version++;
    forget_live(pool);
    pool->heap.planned_bytes = 0;
    tarn__area_share(&pool->heap, 0);
    tarn__pages_set_single(pool->pages, false);
}

/* --- the plan that is followed --- */

/* A learned plan gets the memory that the pool had before, from elsewhere. */
static uint64_t aim_of(const struct tarn__sequences *sequences)
{
    uint64_t peak = tarn__sequences_peak(sequences);
    uint64_t aim = tarn__pages_round_up(peak + peak / sequences->aim_part);

    return !sequences->memory.peak_allocated &&
                   tarn__pages_round_up(sequences->height) <= aim
               ? UINT64_MAX
               : aim;
}

uint64_t tarn__state_expected(const struct tarn__sequences *sequences)
{
    uint64_t most = tarn__pages_round_up(sequences->height + sequences->memory.outside),
             aim = aim_of(sequences);

    return most < aim ? most : aim;
}

static void follow_sequences(struct tarn__pool *pool, struct tarn__sequences *sequences)
{
    struct tarn__follow *follow = pool->follow;

    follow->sequences = sequences;
    follow->is_on = sequences && sequences->slot_count > 0;
    if (!sequences)
        return;
    follow->state = TARN_POOL_PLAN_FOLLOWED;
    follow->aim = aim_of(sequences);
    follow->price = sequences->price;
    if (tarn__pages_round_up(sequences->height + sequences->memory.outside) > follow->aim)
        tarn__pages_set_single(pool->pages, true);
}

void tarn__state_restart(struct tarn__pool *pool)
{
    struct tarn__follow *follow = pool->follow;

    tarn__assert_held(&pool->lock);
    follow->version++;
    follow->last_slot = 0;
    tarn__ordinals_clear(&follow->threads);
    tarn__ordinals_clear(&follow->streams);
    if (follow->sequences)
        tarn__sequences_restart(follow->sequences);
}

void tarn__state_use(struct tarn__pool *pool, struct tarn__sequences *sequences,
                     bool is_borrowed)
{
    struct tarn__follow *follow = pool->follow;

    tarn__assert_held(&pool->lock);
    if (sequences != follow->sequences || is_borrowed)
        forget_live(pool);
    if (sequences && !is_borrowed)
        tarn__area_separate(&pool->heap, follow->area_bytes);
    else if (follow->sequences)
        tarn__area_share(&pool->heap, TARN__STATE_SHARED_LEAST);
    follow_sequences(pool, sequences);
    pool->heap.planned_bytes = sequences ? tarn__pages_round_up(sequences->height) : 0;
    follow->is_borrowed = is_borrowed;
    tarn__state_restart(pool);
}

bool tarn__state_move(struct tarn__pool *pool, uint64_t bytes)
{
    tarn__assert_held(&pool->lock);
    if (!tarn__area_move(&pool->heap, bytes))
        return false;
    forget_live(pool);
    pool->follow->moves++;
    pool->follow->version++;
    return true;
}

bool tarn__state_has_room(const struct tarn__pool *pool,
                          const struct tarn__sequences *sequences)
{
    tarn__assert_held(&pool->lock);
    return sequences->height <= tarn__area_room(&pool->heap, pool->follow->area_bytes);
}

/* --- when the plan needs addresses --- */

/* Addresses of other plans, and of no plan. The bytes of a handle are added, so that large ones
 * move first. */
#define BY_OTHERS ((uint64_t)1 << 40)
#define NEVER ((uint64_t)1 << 50)

/* The pool has more than its aim if it has more by such a part. */
enum { EXCESS_PART = 256 };

/* Return when memory outside of the area is needed: in the middle of a step, or never. It is
 * not if the pool has more than its aim, or if the plan has no table, since it fits then. */
static uint64_t outside_use(const struct tarn__pool *pool, struct tarn__span handles)
    TARN__REQUIRES(pool_lock)
{
    const struct tarn__follow *follow = pool->follow;
    uint64_t reserved = tarn__pages_reserved(pool->pages);

    if (follow->sequences->next_uses.pages.count == 0 ||
        reserved > follow->aim + follow->aim / EXCESS_PART)
        return NEVER + handles.bytes;
    return follow->sequences->slot_count / 2;
}

/* Return when the plan needs its own addresses. Without a table that is not known. */
static uint64_t planned_use(const struct tarn__follow *follow, uint64_t offset,
                            uint64_t quanta) TARN__REQUIRES(pool_lock)
{
    const struct tarn__next_uses *uses = &follow->sequences->next_uses;

    if (uses->pages.count == 0)
        return 0;
    uint32_t now = uses->times[follow->last_slot];
    uint64_t distance = tarn__next_uses_distance(uses, offset, quanta, now);
    return distance < uses->slots - now ? distance : TARN__NEXT_STEP + distance;
}

/* While the area is shared, or memory is short, the plan keeps none for the rest of the step: its
 * slots are not those of the work that is done. */
uint64_t tarn__state_next_use(const struct tarn__pool *pool, struct tarn__span handles)
{
    const struct tarn__heap *heap = &pool->heap;
    uint64_t begin = tarn__area_begin(heap);

    tarn__assert_held(&pool->lock);
    if (!pool->follow->is_on)
        return TARN__NEXT_STEP;
    if (!tarn__heap_is_planned(heap, handles.address))
        return handles.address >= heap->area_address ? BY_OTHERS + handles.bytes
                                                     : outside_use(pool, handles);
    uint64_t use =
        planned_use(pool->follow, (handles.address - begin) >> TARN__QUANTUM_SHIFT,
                    handles.bytes >> TARN__QUANTUM_SHIFT);
    bool is_kept = !tarn__area_is_shared(heap) && !pool->follow->is_short;
    return is_kept || use >= TARN__NEXT_STEP ? use : TARN__NEXT_STEP + use;
}

/* --- the pool's begin and end --- */

/* Split the range of the pool: the second half is the area. */
static tarn_status open_area(struct tarn__pool *pool,
                             uint64_t height) TARN__NO_THREAD_SAFETY_ANALYSIS
{
    struct tarn__span range = tarn__pages_range(pool->pages);
    uint64_t half = range.bytes / 2; /* whole pages: a range is of largest handles */

    if (height > half)
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "pool: the plan needs %llu bytes of addresses, a pool of "
                              "this device has %llu for plans",
                              (unsigned long long)height, (unsigned long long)half);
    pool->follow->area_bytes = half;
    pool->heap.planned_bytes = tarn__pages_round_up(height);
    if (!tarn__area_open(&pool->heap, range.address + range.bytes - half, half) ||
        !tarn__ranges_add(&pool->heap, range.address, range.bytes - half))
        return tarn_error_set(TARN_OUT_OF_MEMORY, "pool: no host memory");
    return TARN_OK;
}

static tarn_status no_host_memory(const struct tarn_plan *plan)
{
    return tarn_error_set(TARN_OUT_OF_MEMORY,
                          "pool: no host memory for a plan of %zu blocks",
                          plan ? plan->count : 0);
}

tarn_status tarn__state_open(struct tarn__pool *pool, const struct tarn_plan *plan)
{
    struct tarn__sequences *sequences = NULL;

    if (!tarn__pages_is_vmm(pool->pages))
        return tarn_error_set(TARN_NOT_SUPPORTED,
                              "pool: a plan needs memory of VMM: device %d has none, or "
                              "the pool has an upstream",
                              pool->device);
    struct tarn__follow *follow = tarn__cache_line_allocate(sizeof *follow);
    pool->follow = follow;
    if (follow && plan)
        sequences = tarn__sequences_new(plan, NULL);
    if (!follow || (plan && !sequences))
        return no_host_memory(plan);
    tarn__ordinals_init(&follow->threads);
    tarn__ordinals_init(&follow->streams);
    follow->version = 1;
    atomic_store(&follow->is_asked, plan || pool->options.detect_steps);
    follow_sequences(pool, sequences);
    pool->next_use = tarn__state_next_use;
    return open_area(pool, sequences ? sequences->height : 0);
}

void tarn__state_free(struct tarn__pool *pool)
{
    struct tarn__follow *follow = pool->follow;

    if (!follow)
        return;
    if (!follow->learn)
        tarn__sequences_free(follow->sequences);
    tarn__ordinals_free(&follow->threads);
    tarn__ordinals_free(&follow->streams);
    free(follow);
}

void tarn__state_check_maximum(struct tarn__pool *pool)
{
    if (!pool->follow || !pool->follow->sequences)
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
