/* pool_rows.h -- the rows that a logger writes about the pool beneath it. */
#ifndef TARN_ADAPTOR_POOL_ROWS_H
#define TARN_ADAPTOR_POOL_ROWS_H

#include "pool/pool.h"
#include <tarn/trace.h>

struct tarn__pool_rows {
    tarn_trace_writer *writer; /* borrowed */
    tarn_resource *resource;   /* the pool, borrowed; NULL: there is none */
    struct tarn__pool *pool;
    atomic_uint_least64_t reserved_bytes; /* in the last row */
    atomic_uint failures;                 /* with a row, counted up to 16 */
    atomic_uint_least64_t failure_ns;     /* CLOCK_MONOTONIC of the last one */
};

/* Find the pool and write its first row, with the cause SNAPSHOT. The pool is `upstream`,
 * or is beneath adaptors of Tarn over it. If there is no such pool, or the format has no
 * pool rows, this and the functions below write nothing. */
void tarn__pool_rows_begin(struct tarn__pool_rows *rows, tarn_resource *upstream,
                           tarn_trace_writer *writer);

/* Write a row without blocks and report. The thread's last error stays. Any thread. */
void tarn__pool_rows_write(struct tarn__pool_rows *rows, tarn_trace_pool_cause cause,
                           tarn_stack stack);

/* Write a row if the pool's reserved bytes differ from those of the last row. Any
 * thread. */
static inline void tarn__pool_rows_note(struct tarn__pool_rows *rows, tarn_stack stack)
{
    if (!rows->pool)
        return;
    uint64_t before = atomic_load_explicit(&rows->reserved_bytes, memory_order_relaxed);
    uint64_t now = tarn__pages_reserved(rows->pool->pages);
    if (now != before)
        tarn__pool_rows_write(
            rows, now > before ? TARN_TRACE_POOL_GROWTH : TARN_TRACE_POOL_RELEASE, stack);
}

/* Write a row after an allocation of this thread failed for lack of memory in the pool.
 * It has the pool's report and its blocks. The first 16 failures have a row, then at most
 * one a second. The thread's last error stays. */
void tarn__pool_rows_note_failure(struct tarn__pool_rows *rows, tarn_stack stack);

#endif
