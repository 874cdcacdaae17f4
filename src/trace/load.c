/* load.c -- a log, read once and kept as a list of operations.
 *
 * Addresses become block numbers; thread ids and stream handles become small indices.
 * Rows that cannot be replayed (a free of no block, a failure, a block of no bytes) are
 * left out. So replay has nothing to look up and nothing to check.
 */
#include "trace/load.h"
#include "trace/accounting.h"
#include "trace/ids.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const size_t OPERATIONS_DEFAULT = (size_t)256 * 1024 * 1024;

struct loader {
    const char *name;
    size_t operations_limit;
    tarn_trace_accounting *accounting;
    tarn_trace *trace;
    uint64_t *block_bytes; /* by block number; blocks_capacity of them */
    size_t blocks_capacity;
};

/* Make space for one more element of `size` bytes in an array. */
static bool reserve(void **items, size_t count, size_t *capacity, size_t size)
{
    if (count < *capacity)
        return true;
    size_t wanted = *capacity ? *capacity * 2 : 1024;
    void *grown = realloc(*items, wanted * size);
    if (!grown)
        return false;
    *items = grown;
    *capacity = wanted;
    return true;
}

static bool append(tarn_trace *trace, struct tarn__op op)
{
    void *ops = trace->ops;

    if (!reserve(&ops, trace->count, &trace->capacity, sizeof *trace->ops))
        return false;
    trace->ops = ops;
    trace->ops[trace->count++] = op;
    return true;
}

/* Record the bytes of each block, since frees in a log may not have them. */
static bool note_bytes(struct loader *loader, uint32_t block, uint64_t bytes)
{
    void *all = loader->block_bytes;

    if (!reserve(&all, block, &loader->blocks_capacity, sizeof bytes))
        return false;
    loader->block_bytes = all;
    loader->block_bytes[block] = bytes;
    return true;
}

static bool append_match(struct loader *loader, const tarn_trace_event *event,
                         const struct tarn__match *match)
{
    struct tarn__op op = {.stream = match->stream, .thread = match->thread};

    if (match->freed != TARN__NO_BLOCK && loader->block_bytes[match->freed] != 0) {
        op.block = match->freed;
        op.bytes = loader->block_bytes[match->freed];
        op.thread |= TARN__FREE_BIT;
        if (!append(loader->trace, op))
            return false;
        op.thread = match->thread;
    }
    if (match->allocated == TARN__NO_BLOCK)
        return true;
    op.block = match->allocated;
    op.bytes = event->bytes;
    return note_bytes(loader, op.block, op.bytes) &&
           (op.bytes == 0 || append(loader->trace, op));
}

static tarn_status on_event(void *data, const tarn_trace_event *event, uint64_t line)
{
    struct loader *loader = data;
    struct tarn__match match;
    tarn_status status = tarn__accounting_add(loader->accounting, event, line, &match);

    if (status != TARN_OK)
        return status;
    if (match.thread >= TARN__FREE_BIT ||
        loader->trace->count >= loader->operations_limit ||
        !append_match(loader, event, &match))
        return tarn_error_set(TARN_OUT_OF_MEMORY,
                              "%.200s:%" PRIu64
                              ": more than %zu operations, or no host memory",
                              loader->name, line, loader->operations_limit);
    if (match.allocated != TARN__NO_BLOCK)
        loader->trace->blocks = match.allocated + 1;
    return TARN_OK;
}

/* The raw stream values, by number. */
static bool list_streams(tarn_trace *trace, const struct tarn__ids *ids)
{
    size_t cursor = 0;
    uint64_t key;
    void *number;

    trace->streams = calloc(ids->count ? ids->count : 1, sizeof *trace->streams);
    if (!trace->streams)
        return false;
    trace->stream_count = ids->count;
    while (tarn__map_next(&ids->numbers, &cursor, &key, &number))
        trace->streams[*(uint32_t *)number] = key - 1;
    if (ids->has_all_ones)
        trace->streams[ids->all_ones] = UINT64_MAX;
    return true;
}

static tarn_status load(struct loader *loader, tarn_trace_read_fn read, void *data,
                        const tarn_trace_limits *limits)
{
    tarn_status status = tarn_trace_accounting_create(loader->name, limits, NULL, NULL,
                                                      &loader->accounting);

    if (status == TARN_OK)
        status =
            tarn_trace_read(loader->name, read, data, limits, on_event, loader, NULL);
    if (status == TARN_OK) {
        loader->trace->threads = tarn__accounting_threads(loader->accounting)->count;
        tarn_trace_accounting_summary(loader->accounting, &loader->trace->summary);
        if (!list_streams(loader->trace, tarn__accounting_streams(loader->accounting)))
            status =
                tarn_error_set(TARN_OUT_OF_MEMORY, "trace: no host memory for streams");
    }
    tarn_trace_accounting_release(loader->accounting);
    free(loader->block_bytes);
    return status;
}

tarn_status tarn_trace_load(const char *name, tarn_trace_read_fn read, void *data,
                            const tarn_trace_limits *limits, tarn_trace **out)
{
    struct loader loader = {.name = name};

    if (!name || !read || !out)
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "trace: load: name, read or out is NULL");
    loader.trace = calloc(1, sizeof *loader.trace);
    if (!loader.trace)
        return tarn_error_set(TARN_OUT_OF_MEMORY, "trace: no host memory for a log");
    loader.operations_limit =
        limits && limits->operations ? limits->operations : OPERATIONS_DEFAULT;
    tarn_status status = load(&loader, read, data, limits);
    if (status != TARN_OK) {
        tarn_trace_release(loader.trace);
        return status;
    }
    *out = loader.trace;
    return TARN_OK;
}

void tarn_trace_release(tarn_trace *trace)
{
    if (!trace)
        return;
    free(trace->ops);
    free(trace->streams);
    free(trace);
}

void tarn_trace_summarize(const tarn_trace *trace, tarn_trace_summary *out)
{
    *out = trace->summary;
}
