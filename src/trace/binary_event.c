/* binary_event.c -- the rows and records of a binary log as the types of trace.h. */
#include "trace/binary_event.h"
#include <stdlib.h>

bool tarn__binary_event_of(const struct tarn__binary_item *item, tarn_trace_event *out)
{
    const struct tarn__binary_row *row = item->row;
    uint64_t time = item->time_ns, duration = row->duration_ns;

    if (row->action > TARN_ACTION_ALLOCATE_FAILURE)
        return false;
    *out = (tarn_trace_event){
        .action = (tarn_action)row->action,
        .device = row->device < 0 ? TARN_DEVICE_NONE : row->device,
        .address = row->address,
        .stream = row->stream,
        .bytes = row->bytes,
        .thread = item->thread,
        .start_ns = time,
        .end_ns = time,
        .stack = row->stack,
    };
    if (out->action == TARN_ACTION_FREE)
        out->end_ns = duration > UINT64_MAX - time ? UINT64_MAX : time + duration;
    else
        out->start_ns = duration > time ? 0 : time - duration;
    return true;
}

/* Copy a report into the public type. */
static tarn_pool_oom_report report_of(const struct tarn__binary_report *from)
{
    tarn_pool_oom_report report = {
        .size = sizeof report,
        .requested = from->requested,
        .alignment = from->alignment,
        .live = from->live,
        .thread_cached = from->thread_cached,
        .cached = from->cached,
        .unfenced = from->unfenced,
        .captured = from->captured,
        .reserved = from->reserved,
        .maximum = from->maximum,
        .same_stream = from->same_stream,
        .other_streams = from->other_streams,
        .completed = from->completed,
        .largest_free = from->largest_free,
        .device_free = from->device_free,
        .device_total = from->device_total,
        .attempts = from->attempts,
        .upstream_status = (tarn_status)from->upstream_status,
    };
    size_t last = sizeof report.upstream_message - 1;

    memcpy(report.upstream_message, from->upstream_message, last);
    if (from->fragmentation >= 0 && from->fragmentation <= 1)
        report.fragmentation = from->fragmentation;
    return report;
}

/* Copy the blocks behind a pool record; those of states that this version does not know
 * are left out. NULL: no host memory. */
static tarn_pool_block *blocks_of(const unsigned char *from, size_t count, size_t *out)
{
    tarn_pool_block *blocks = malloc((count ? count : 1) * sizeof *blocks);

    *out = 0;
    for (size_t i = 0; blocks && i < count; i++) {
        struct tarn__binary_block block;
        memcpy(&block, from + i * sizeof block, sizeof block);
        if (block.state > TARN_POOL_IN_TRANSIT)
            continue;
        blocks[(*out)++] = (tarn_pool_block){
            .address = block.address,
            .bytes = block.bytes,
            .requested_bytes = block.requested_bytes,
            .state = (tarn_pool_block_state)block.state,
            .stream_id = block.stream_id,
            .segment = block.segment,
        };
    }
    return blocks;
}

tarn_status tarn__binary_event_deliver_pool(const struct tarn__delivery *delivery,
                                            const struct tarn__binary_names *names,
                                            const struct tarn__binary_item *item,
                                            bool *is_valid)
{
    struct tarn__binary_pool pool;
    struct tarn__binary_report report = {.requested = 0};
    size_t at = sizeof pool, count;

    *is_valid = false;
    if (item->bytes < sizeof pool)
        return TARN_OK;
    memcpy(&pool, item->payload, sizeof pool);
    if (pool.has_report) {
        if (item->bytes - at < sizeof report)
            return TARN_OK;
        memcpy(&report, item->payload + at, sizeof report);
        at += sizeof report;
    }
    if (pool.cause > TARN_TRACE_POOL_SNAPSHOT ||
        pool.block_count != (item->bytes - at) / sizeof(struct tarn__binary_block))
        return TARN_OK;
    *is_valid = true;
    tarn_pool_block *blocks = blocks_of(item->payload + at, pool.block_count, &count);
    if (!blocks)
        return tarn_error_set(TARN_OUT_OF_MEMORY,
                              "%.200s: no host memory for %llu blocks", delivery->name,
                              (unsigned long long)pool.block_count);
    tarn_pool_oom_report shown = report_of(&report);
    const tarn_trace_pool_row row = {
        .size = sizeof row,
        .cause = (tarn_trace_pool_cause)pool.cause,
        .device = pool.device < 0 ? TARN_DEVICE_NONE : pool.device,
        .pool = pool.pool,
        .time_ns = item->time_ns,
        .reserved_bytes = pool.reserved_bytes,
        .live_bytes = pool.live_bytes,
        .stack =
            tarn__binary_names_knows(names, pool.stack) ? pool.stack : TARN_STACK_UNKNOWN,
        .report = pool.has_report ? &shown : NULL,
        .blocks = count ? blocks : NULL,
        .block_count = count,
    };
    tarn_status status = tarn__delivery_pool(delivery, &row);
    free(blocks);
    return status;
}
