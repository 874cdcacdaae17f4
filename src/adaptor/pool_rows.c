/* pool_rows.c -- the rows that a logger writes about the pool beneath it.
 *
 * After each call the logger compares the pool's reserved bytes with those of its last row:
 * one load. Everything else is read only for a row, which is rare.
 *
 * A program may fail to allocate again and again, for example in a loop that halves its
 * batch. The first failures have a row with the report and all blocks. After them one in
 * a second has.
 */
#include "adaptor/pool_rows.h"
#include "adaptor/forward.h"
#include "base/clock.h"
#include "base/error.h"
#include <stdlib.h>
#include <string.h>

enum { FAILURES_FIRST = 16, BLOCKS_MOST = 16384 };
static const uint64_t INTERVAL_NS = 1000000000;

/* The blocks of a pool. */
struct blocks {
    tarn_pool_block *items;
    size_t count, capacity;
    bool is_incomplete;
};

/* Find the pool that `upstream` is, or that is beneath adaptors of Tarn. */
static void find_pool(struct tarn__pool_rows *rows, tarn_resource *upstream,
                      tarn_trace_writer *writer)
{
    *rows = (struct tarn__pool_rows){.writer = writer};
    if (tarn_trace_writer_format(writer) != TARN_TRACE_BINARY)
        return;
    rows->resource = tarn__forward_find_pool(upstream);
    if (rows->resource)
        tarn__pool_of(rows->resource, "logger", &rows->pool);
}

void tarn__pool_rows_begin(struct tarn__pool_rows *rows, tarn_resource *upstream,
                           tarn_trace_writer *writer)
{
    find_pool(rows, upstream, writer);
    tarn__pool_rows_write(rows, TARN_TRACE_POOL_SNAPSHOT, TARN_STACK_UNKNOWN);
}

static bool add_block(void *data, const tarn_pool_block *block)
{
    struct blocks *blocks = data;

    if (blocks->count == BLOCKS_MOST) {
        blocks->is_incomplete = true;
        return false;
    }
    if (blocks->count == blocks->capacity) {
        size_t capacity = blocks->capacity ? 2 * blocks->capacity : 256;
        void *more = realloc(blocks->items, capacity * sizeof *blocks->items);
        blocks->is_incomplete = !more;
        if (!more)
            return false;
        blocks->items = more;
        blocks->capacity = capacity;
    }
    blocks->items[blocks->count++] = *block;
    return true;
}

/* Copy the blocks of a pool. A pool of too many has none in a row. */
static struct blocks copy_blocks(const struct tarn__pool_rows *rows, uint64_t live_blocks)
{
    struct blocks blocks = {0};

    if (live_blocks <= BLOCKS_MOST &&
        (tarn_pool_snapshot(rows->resource, add_block, &blocks) != TARN_OK ||
         blocks.is_incomplete))
        blocks.count = 0;
    return blocks;
}

/* Write a row; `report` may be NULL. */
static void write_row(struct tarn__pool_rows *rows, tarn_trace_pool_cause cause,
                      tarn_stack stack, const tarn_pool_oom_report *report)
{
    tarn_pool_statistics statistics = {.size = sizeof statistics};
    struct blocks blocks = {0};

    if (tarn_pool_get_statistics(rows->resource, &statistics) != TARN_OK)
        return;
    atomic_store(&rows->reserved_bytes, statistics.reserved);
    if (report)
        blocks = copy_blocks(rows, statistics.live_blocks);
    const tarn_trace_pool_row row = {
        .size = sizeof row,
        .cause = cause,
        .device = rows->pool->device,
        .pool = rows->pool->serial,
        .time_ns = tarn_trace_writer_time_ns(rows->writer, tarn__clock_now_ns()),
        .reserved_bytes = statistics.reserved,
        .live_bytes = statistics.live,
        .stack = stack,
        .report = report,
        .blocks = blocks.items,
        .block_count = blocks.count};
    tarn_trace_write_pool(rows->writer, &row);
    free(blocks.items);
}

void tarn__pool_rows_write(struct tarn__pool_rows *rows, tarn_trace_pool_cause cause,
                           tarn_stack stack)
{
    if (!rows->pool)
        return;
    struct tarn__kept_error last_error = tarn__error_keep();
    write_row(rows, cause, stack, NULL);
    tarn__error_restore(&last_error);
}

/* Count one of the first failures. Returns false once FAILURES_FIRST are counted. */
static bool count_first(struct tarn__pool_rows *rows)
{
    unsigned failures = atomic_load(&rows->failures);

    do {
        if (failures >= FAILURES_FIRST)
            return false;
    } while (!atomic_compare_exchange_weak(&rows->failures, &failures, failures + 1));
    return true;
}

/* May this failure have a row? */
static bool take_turn(struct tarn__pool_rows *rows)
{
    /* Load it before reading the clock, so that the difference cannot wrap. */
    uint64_t last = atomic_load(&rows->failure_ns);
    uint64_t now = tarn__clock_now_ns();
    bool is_first = count_first(rows);

    if (!is_first && now - last < INTERVAL_NS)
        return false;
    return atomic_compare_exchange_strong(&rows->failure_ns, &last, now) || is_first;
}

void tarn__pool_rows_note_failure(struct tarn__pool_rows *rows, tarn_stack stack)
{
    static const char begin[] = "pool: cannot allocate "; /* pool/report.c */
    tarn_pool_oom_report report = {.size = sizeof report};

    /* An adaptor above the pool, or a limit, may have rejected the request. */
    if (!rows->pool || strncmp(tarn_error_last()->message, begin, sizeof begin - 1) != 0)
        return;
    struct tarn__kept_error last_error = tarn__error_keep();
    if (tarn_pool_last_oom_report(&report) == TARN_OK && take_turn(rows))
        write_row(rows, TARN_TRACE_POOL_FAILURE, stack, &report);
    tarn__error_restore(&last_error);
}

tarn_status tarn_logger_note_pool(tarn_trace_writer *writer, tarn_resource *resource,
                                  tarn_action action, tarn_stack stack,
                                  tarn_logger_pool *state)
{
    struct tarn__pool_rows rows;

    if (!writer || !resource || !state || state->size != sizeof *state)
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "logger: note_pool: writer, resource or state is NULL, or "
                              "the size of state is not %zu",
                              sizeof *state);
    find_pool(&rows, resource, writer);
    if (!rows.pool)
        return TARN_OK;
    if (state->pool != rows.pool->serial) {
        *state = (tarn_logger_pool){.size = sizeof *state, .pool = rows.pool->serial};
        tarn__pool_rows_write(&rows, TARN_TRACE_POOL_SNAPSHOT, TARN_STACK_UNKNOWN);
    } else {
        atomic_init(&rows.reserved_bytes, state->reserved_bytes);
    }
    atomic_init(&rows.failures, (unsigned)state->failures);
    atomic_init(&rows.failure_ns, state->failure_ns);
    if (action == TARN_ACTION_ALLOCATE_FAILURE)
        tarn__pool_rows_note_failure(&rows, stack);
    tarn__pool_rows_note(&rows, stack);
    state->reserved_bytes = atomic_load(&rows.reserved_bytes);
    state->failures = atomic_load(&rows.failures);
    state->failure_ns = atomic_load(&rows.failure_ns);
    return TARN_OK;
}
