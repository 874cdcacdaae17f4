/* traces.c -- a log as a list of operations on numbered blocks. */
#define _GNU_SOURCE
#include "bench.h"
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

/* Map a key (an address, a stream) to a number; open addressing, at most half full. A
 * removed key stays as a tombstone with number GRAVE. */
enum { GRAVE = UINT32_MAX };

struct numbers {
    uint64_t *keys;
    uint32_t *values;
    size_t capacity, used; /* tombstones count as used */
};

static size_t place(const struct numbers *numbers, uint64_t key)
{
    size_t at = (size_t)((key * 0x9e3779b97f4a7c15u) >> 20) & (numbers->capacity - 1);

    while (numbers->keys[at] && numbers->keys[at] != key)
        at = (at + 1) & (numbers->capacity - 1);
    return at;
}

static void put(struct numbers *numbers, uint64_t key, uint32_t value);

static void grow(struct numbers *numbers)
{
    struct numbers old = *numbers;

    numbers->capacity = old.capacity ? old.capacity * 2 : 1024;
    numbers->used = 0;
    numbers->keys = bench_allocate(numbers->capacity, sizeof *numbers->keys);
    numbers->values = bench_allocate(numbers->capacity, sizeof *numbers->values);
    for (size_t i = 0; i < old.capacity; i++)
        if (old.keys[i] && old.values[i] != GRAVE)
            put(numbers, old.keys[i], old.values[i]);
    free(old.keys);
    free(old.values);
}

static void put(struct numbers *numbers, uint64_t key, uint32_t value)
{
    if (numbers->used * 2 >= numbers->capacity)
        grow(numbers);
    size_t at = place(numbers, key);
    numbers->used += numbers->keys[at] == 0;
    numbers->keys[at] = key;
    numbers->values[at] = value;
}

/* The number under `key`, or GRAVE. */
static uint32_t get(const struct numbers *numbers, uint64_t key)
{
    if (numbers->capacity == 0)
        return GRAVE;
    size_t at = place(numbers, key);
    return numbers->keys[at] ? numbers->values[at] : GRAVE;
}

struct loading {
    struct bench_trace *trace;
    struct numbers blocks, streams;
    size_t capacity;
    uint64_t *bytes; /* by block; 0 once it is freed */
    uint32_t *owner; /* by block: its stream */
    size_t blocks_capacity;
    uint64_t live;
};

static void append(struct loading *loading, struct bench_op op)
{
    struct bench_trace *trace = loading->trace;

    if (trace->count == loading->capacity) {
        loading->capacity = loading->capacity ? loading->capacity * 2 : 4096;
        trace->ops = realloc(trace->ops, loading->capacity * sizeof op);
        if (!trace->ops)
            bench_die("no host memory for %zu operations", loading->capacity);
    }
    trace->ops[trace->count++] = op;
}

static uint32_t stream_of(struct loading *loading, uint64_t raw)
{
    uint32_t number = get(&loading->streams, raw + 2);

    if (number == GRAVE) {
        number = loading->trace->streams++;
        put(&loading->streams, raw + 2, number);
    }
    return number;
}

static uint32_t new_block(struct loading *loading, uint64_t bytes, uint32_t stream)
{
    if (loading->trace->blocks == loading->blocks_capacity) {
        loading->blocks_capacity = loading->blocks_capacity * 2 + 4096;
        size_t count = loading->blocks_capacity;
        loading->bytes = realloc(loading->bytes, count * sizeof *loading->bytes);
        loading->owner = realloc(loading->owner, count * sizeof *loading->owner);
        if (!loading->bytes || !loading->owner)
            bench_die("no host memory for %zu blocks", count);
    }
    loading->bytes[loading->trace->blocks] = bytes;
    loading->owner[loading->trace->blocks] = stream;
    return (uint32_t)loading->trace->blocks++;
}

static void free_block(struct loading *loading, uint32_t block, uint32_t stream)
{
    loading->live -= loading->bytes[block];
    append(loading, (struct bench_op){loading->bytes[block], block, stream, 1});
    loading->bytes[block] = 0;
}

static tarn_status take(void *data, const tarn_trace_event *event, uint64_t line)
{
    struct loading *loading = data;
    uint32_t stream = stream_of(loading, event->stream);
    uint32_t block = event->address ? get(&loading->blocks, event->address) : GRAVE;

    (void)line;
    if (event->action == TARN_ACTION_ALLOCATE && event->bytes > 0) {
        block = new_block(loading, event->bytes, stream);
        put(&loading->blocks, event->address, block);
        append(loading, (struct bench_op){event->bytes, block, stream, 0});
        loading->live += event->bytes;
        if (loading->live > loading->trace->peak_live_bytes)
            loading->trace->peak_live_bytes = loading->live;
    } else if (event->action == TARN_ACTION_FREE && block != GRAVE) {
        put(&loading->blocks, event->address, GRAVE);
        free_block(loading, block, stream);
    }
    return TARN_OK;
}

static long read_file(void *data, char *buffer, size_t capacity)
{
    return gzread(data, buffer, (unsigned)capacity);
}

/* "etl" of "traces/etl.csv.gz". */
static char *short_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *name = strdup(slash ? slash + 1 : path);

    name[strcspn(name, ".")] = '\0';
    return name;
}

struct bench_trace *bench_trace_load(const char *path)
{
    struct bench_trace *trace = bench_allocate(1, sizeof *trace);
    struct loading loading = {.trace = trace};
    tarn_trace_format format;
    gzFile file = gzopen(path, "rb");

    if (!file)
        bench_die("cannot open %s", path);
    trace->name = short_name(path);
    bench_must(tarn_trace_read(path, read_file, file, NULL, take, &loading, &format),
               path);
    gzclose(file);
    for (uint32_t block = 0; block < trace->blocks; block++)
        if (loading.bytes[block])
            free_block(&loading, block, loading.owner[block]);
    free(loading.blocks.keys);
    free(loading.blocks.values);
    free(loading.streams.keys);
    free(loading.streams.values);
    free(loading.bytes);
    free(loading.owner);
    return trace;
}

void bench_trace_scale(struct bench_trace *trace, double factor)
{
    enum { SMALL = 4096, UNIT = 8 };
    uint64_t live = 0;

    trace->peak_live_bytes = 0;
    for (size_t i = 0; i < trace->count; i++) {
        struct bench_op *op = &trace->ops[i];
        if (op->bytes >= SMALL)
            op->bytes = (uint64_t)((double)op->bytes * factor) / UNIT * UNIT;
        live = op->is_free ? live - op->bytes : live + op->bytes;
        if (live > trace->peak_live_bytes)
            trace->peak_live_bytes = live;
    }
}

void bench_trace_free(struct bench_trace *trace)
{
    free((char *)(uintptr_t)trace->name);
    free(trace->ops);
    free(trace);
}
