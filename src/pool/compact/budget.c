/* budget.c -- how much memory a pool may still obtain, and what follows from its size. */
#include "pool/compact/budget.h"

/* The largest fenced or completed neighbour that a free coalesces with, as a part of the
 * pool. In trials on bench/traces/, a smaller part kept memory in pieces, and a larger
 * one left too much of it unfenced. */
enum { ABSORB_PART = 8 };

void tarn__budget_note_peaks(struct tarn__pool *pool)
{
    tarn__assert_held(&pool->lock);

    uint64_t reserved = tarn__pages_reserved(pool->pages);

    if (pool->peak_reserved < reserved)
        pool->peak_reserved = reserved;
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
