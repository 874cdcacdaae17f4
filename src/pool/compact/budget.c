/* budget.c -- how much memory a pool may still obtain, and what follows from its size;
 * and how much time moves may take.
 *
 * A move saves memory and costs time. While the device has room, the moves of a pool have
 * a budget: 20 ms, 100 ns more for each of its operations, and a 200th of the time. Once it
 * is spent, the pool grows by a part of the request instead, up to 1.45 times the peak of
 * live bytes. Such a growth pays for 1 ms of moves, so the pool grows until its moves are
 * within the budget. A later growth that finds little room on the device returns as much
 * idle memory.
 */
#include "pool/compact/budget.h"
#include "base/clock.h"
#include "pool/compact/reclaimable.h"

/* A free coalesces with a fenced or completed neighbour of up to this part of the reserved
 * bytes. In trials on bench/traces/, a smaller limit kept memory in pieces, and a larger
 * one left too much of it unfenced. */
enum { ABSORB_PART = 8 };

void tarn__budget_note_peaks(struct tarn__pool *pool)
{
    tarn__assert_held(&pool->lock);

    uint64_t reserved = tarn__pages_reserved(pool->pages);

    if (pool->peak_reserved < reserved)
        pool->peak_reserved = reserved;
    if (pool->recent_peak_reserved < reserved)
        pool->recent_peak_reserved = reserved;
    pool->heap.absorb_bytes = reserved / ABSORB_PART;
}

/* `limit` changes under `growth` and `lock`, so either suffices to read it. A pool on VMM
 * comes here under both. */
tarn_status tarn__budget_fail(const struct tarn__pool *pool,
                              uint64_t bytes) TARN__NO_THREAD_SAFETY_ANALYSIS
{
    if (tarn__pages_is_vmm(pool->pages) && pool->limit > pool->device_bytes &&
        bytes > tarn__budget_headroom(pool))
        return tarn_error_set(TARN_OUT_OF_MEMORY,
                              "pool: %llu bytes more are over the device's memory, %zu "
                              "of %llu are reserved",
                              (unsigned long long)bytes,
                              tarn__pages_reserved(pool->pages),
                              (unsigned long long)pool->device_bytes);
    if (pool->limit == UINT64_MAX) /* distance of addresses with this alignment */
        return tarn_error_set(TARN_OUT_OF_MEMORY,
                              "pool: the address range has no space for %llu bytes more, "
                              "%zu bytes are reserved",
                              (unsigned long long)bytes,
                              tarn__pages_reserved(pool->pages));
    return tarn_error_set(
        TARN_OUT_OF_MEMORY,
        "pool: %llu bytes more exceed the maximum, %zu of %llu bytes are reserved",
        (unsigned long long)bytes, tarn__pages_reserved(pool->pages),
        (unsigned long long)pool->limit);
}

uint64_t tarn__budget_headroom(const struct tarn__pool *pool)
{
    tarn__assert_held(&pool->lock);

    size_t reserved = tarn__pages_reserved(pool->pages);
    uint64_t most =
        tarn__pages_is_vmm(pool->pages) ? tarn__pool_maximum(pool) : pool->limit;

    return most > reserved ? most - reserved : 0;
}

/* --- moves --- */

/* Time in ns that moves may take: for each operation, for each growth instead of moves, and
 * ahead of them; and the part of the program's time. The first pass of a program moves
 * most. MOVE_NS is the time of one handle, as measured on an H200 (docs/design/pool.md). */
enum {
    NS_AN_OPERATION = 100,
    NS_A_GROWTH = 1000 * 1000,
    NS_AHEAD = 20 * 1000 * 1000,
    TIME_PART = 200,
    MOVE_NS = 26 * 1000
};

/* The device's memory is scarce below this: a part of it, at least SCARCE_MIN. */
enum { SCARCE_PART = 10 };
#define SCARCE_MIN ((uint64_t)2 << 30)

/* What the pool may have instead of moves, in twentieths of the peak of live bytes. */
enum { MOST_INSTEAD = 29, TWENTIETHS = 20 };

/* Have as much time of moves paid for. */
static void pay(struct tarn__pool *pool, uint64_t ns) TARN__REQUIRES(pool_lock)
{
    pool->moves_ns -= ns < pool->moves_ns ? ns : pool->moves_ns;
}

/* Have the operations and the time since the last call pay for moves. Cache hits count when
 * their cache is drained. `lock` held. */
static void pay_until_now(struct tarn__pool *pool) TARN__REQUIRES(pool_lock)
{
    tarn__assert_held(&pool->lock);

    uint64_t operations =
        pool->counts.allocations + pool->counts.frees + pool->drained_operations;
    uint64_t now = tarn__clock_now_ns();

    pay(pool, (operations - pool->moves_operations) * NS_AN_OPERATION);
    pool->moves_operations = operations;
    if (now > pool->moves_paid_ns) {
        pay(pool, (now - pool->moves_paid_ns) / TIME_PART);
        pool->moves_paid_ns = now;
    }
}

void tarn__budget_note_move(struct tarn__pool *pool, unsigned handles)
{
    tarn__assert_held(&pool->lock);

    if (!pool->moves_freely)
        pool->moves_ns += (uint64_t)handles * MOVE_NS;
}

/* Return true if the budget is spent and the pool may have `need` bytes more. With a
 * maximum, in a tight pool and in one that learns, memory is worth more than time. `lock`
 * held. */
static bool is_spent(struct tarn__pool *pool, uint64_t need) TARN__REQUIRES(pool_lock)
{
    tarn__assert_held(&pool->lock);

    uint64_t live = pool->heap.allocated_bytes + need;
    uint64_t peak = live > pool->peak_allocated ? live : pool->peak_allocated;

    pay_until_now(pool);
    return pool->moves_ns > NS_AHEAD && pool->limit >= pool->device_bytes &&
           !tarn__pool_is_tight(pool) && !pool->moves_freely &&
           tarn__pages_reserved(pool->pages) + need <= peak / TWENTIETHS * MOST_INSTEAD;
}

bool tarn__budget_query_device(struct tarn__pool *pool, const struct tarn__scope *scope,
                               uint64_t *free_out, uint64_t *scarce_out)
{
    size_t free_bytes = 0, total_bytes = 0;

    tarn__pages_note_call(pool->pages);
    if (scope->calls->mem_get_info(&free_bytes, &total_bytes) != CUDA_SUCCESS_)
        return false;
    *free_out = free_bytes;
    *scarce_out =
        total_bytes / SCARCE_PART > SCARCE_MIN ? total_bytes / SCARCE_PART : SCARCE_MIN;
    return true;
}

/* Return true if the device has room after `need` bytes more. */
static bool has_room(const struct tarn__caller *caller, uint64_t need)
{
    uint64_t free_bytes, scarce_bytes;

    return tarn__budget_query_device(caller->pool, &caller->scope, &free_bytes,
                                     &scarce_bytes) &&
           free_bytes >= need + scarce_bytes;
}

bool tarn__budget_is_spent(const struct tarn__caller *caller,
                           const struct tarn__request *request)
{
    struct tarn__pool *pool = caller->pool;
    uint64_t need = (uint64_t)request->quanta << TARN__QUANTUM_SHIFT;

    tarn__assert_held(&pool->growth);
    tarn__pool_lock(pool);
    bool spent = is_spent(pool, need);
    tarn__pool_unlock(pool);
    return spent && has_room(caller, need);
}

void tarn__budget_note_growth(struct tarn__pool *pool, uint64_t bytes)
{
    tarn__assert_held(&pool->lock);

    pay(pool, NS_A_GROWTH);
    pool->grown_instead += bytes;
}

void tarn__budget_release_excess(const struct tarn__caller *caller)
{
    struct tarn__pool *pool = caller->pool;
    uint64_t released = 0;

    tarn__assert_held(&pool->growth);
    tarn__pool_lock(pool);
    uint64_t bytes = pool->grown_instead, free_bytes = pool->heap.free_bytes;
    tarn__pool_unlock(pool);
    if (bytes == 0 || has_room(caller, 0))
        return;
    tarn__reclaimable_shrink(pool, free_bytes > bytes ? free_bytes - bytes : 0,
                             &released);
    tarn__pool_lock(pool);
    pool->grown_instead -= released < bytes ? released : bytes;
    tarn__pool_unlock(pool);
}
