/* aggregate.c -- the figures of one log, made in one pass with bounded memory. */
#include "aggregate.h"
#include "memory.h"
#include <stdlib.h>

static const uint64_t DAY_NS = 24 * 60 * 60 * (uint64_t)1000000000;
static const size_t LIVE_MAX = 16 * 1024 * 1024;

struct aggregate *aggregate_create(const struct window *window)
{
    struct aggregate *aggregate = memory_new(1, sizeof *aggregate);

    aggregate->window = *window;
    trie_init(&aggregate->stacks);
    return aggregate;
}

void aggregate_free(struct aggregate *aggregate)
{
    trie_free(&aggregate->stacks);
    columns_free(&aggregate->columns);
    series_free(&aggregate->series);
    sites_free(&aggregate->sites);
    live_free(&aggregate->live);
    pools_free(&aggregate->pools);
    free(aggregate->owners);
    free(aggregate->owner_sites);
    map_free(&aggregate->streams);
    histogram_free(&aggregate->levels);
    histogram_free(&aggregate->call_ns[0]);
    histogram_free(&aggregate->call_ns[1]);
    free(aggregate);
}

struct site *aggregate_site(const struct aggregate *aggregate, uint32_t series)
{
    return aggregate->sites.items[aggregate->owner_sites[series]];
}

/* --- time --------------------------------------------------------------------------- */

/* Count the days of RMM's time as tarn_trace_accounting does: a step back by more than
 * half a day is a step over midnight. */
static uint64_t day_of(struct aggregate *aggregate, const tarn_trace_event *event)
{
    uint64_t start = event->start_ns;

    if (aggregate->sequence > 0 && start + DAY_NS / 2 < aggregate->last_ns)
        aggregate->day_ns += DAY_NS;
    else if (aggregate->day_ns && start > aggregate->last_ns + DAY_NS / 2)
        aggregate->day_ns -= DAY_NS;
    aggregate->last_ns = start;
    return aggregate->day_ns;
}

/* The time of the levels runs up to `time_ns`. */
static void note_level(struct aggregate *aggregate, uint64_t time_ns)
{
    if (time_ns > aggregate->level_ns)
        histogram_add(&aggregate->levels, aggregate->live_bytes,
                      time_ns - aggregate->level_ns);
    if (time_ns > aggregate->level_ns)
        aggregate->level_ns = time_ns;
}

static void note_peak(struct aggregate *aggregate)
{
    size_t blocks = aggregate->live.by_address.count;

    if (blocks > aggregate->peak_blocks)
        aggregate->peak_blocks = blocks;
    columns_set_total(&aggregate->columns, aggregate->live_bytes);
    if (aggregate->live_bytes <= aggregate->peak_bytes)
        return;
    aggregate->peak_bytes = aggregate->live_bytes;
    aggregate->peak_ns = aggregate->columns.now_ns;
    aggregate->series.peak_clock++;
    live_note_peak(&aggregate->live, aggregate->sequence);
}

static void begin_columns(struct aggregate *aggregate, uint64_t start_ns)
{
    aggregate->level_ns = start_ns;
    aggregate->first_ns = aggregate->latest_ns = aggregate->peak_ns = start_ns;
    columns_begin(&aggregate->columns, &aggregate->series, start_ns,
                  aggregate->live_bytes);
    columns_set_reserved(&aggregate->columns, aggregate->pools.reserved);
    sites_start(&aggregate->sites);
    aggregate->pools.reserved_peak = aggregate->pools.reserved;
    aggregate->pools.reserved_peak_ns = start_ns;
    note_peak(aggregate);
}

/* Bring the axis to a time; false if a row at it is not in the window. */
static bool advance(struct aggregate *aggregate, uint64_t time_ns)
{
    struct columns *columns = &aggregate->columns;
    if (!aggregate->has_origin)
        aggregate->origin_ns = time_ns;
    aggregate->has_origin = true;
    uint64_t since = time_ns > aggregate->origin_ns ? time_ns - aggregate->origin_ns : 0;

    if (since > aggregate->window.to_ns)
        aggregate->is_over = true;
    if (aggregate->is_over)
        return false;
    if (!columns->is_begun && since < aggregate->window.from_ns)
        return false;
    if (!columns->is_begun)
        begin_columns(aggregate, aggregate->origin_ns + aggregate->window.from_ns);
    aggregate->moved += time_ns < columns->now_ns;
    columns_advance(columns, time_ns);
    note_level(aggregate, columns->now_ns);
    return true;
}

/* --- series ------------------------------------------------------------------------- */

/* The series of a node; of the node for others if there are too many. */
static uint32_t owner_of(struct aggregate *aggregate, uint32_t node)
{
    aggregate->owners =
        memory_grow(aggregate->owners, &aggregate->owner_capacity,
                    aggregate->stacks.node_count, sizeof *aggregate->owners);
    if (aggregate->owners[node] != 0)
        return aggregate->owners[node] - 1;
    if (aggregate->owner_count >= TRIE_OWNERS_MAX && node != aggregate->stacks.other) {
        aggregate->other_rows++;
        return owner_of(aggregate, aggregate->stacks.other);
    }
    uint32_t framework, series = series_add(&aggregate->series, SERIES_NODE, node);
    uint32_t frame = trie_site_of(&aggregate->stacks, node, &framework);
    aggregate->owner_sites =
        memory_grow(aggregate->owner_sites, &aggregate->owner_site_capacity, series + 1,
                    sizeof *aggregate->owner_sites);
    aggregate->owner_sites[series] = sites_add(&aggregate->sites, frame, framework);
    aggregate->owners[node] = series + 1;
    aggregate->owner_count++;
    return series;
}

static uint32_t stream_of(struct aggregate *aggregate, uint64_t stream)
{
    uint32_t series = map_get(&aggregate->streams, stream);

    aggregate->has_stream |= stream != UINT64_MAX;
    if (series != MAP_NONE)
        return series;
    if (aggregate->stream_count > AGGREGATE_STREAMS)
        return aggregate->other_stream;
    series = series_add(&aggregate->series, SERIES_STREAM, aggregate->stream_count);
    if (aggregate->stream_count == AGGREGATE_STREAMS) {
        aggregate->other_stream = series;
    } else {
        aggregate->stream_values[aggregate->stream_count] = stream;
        map_put(&aggregate->streams, stream, series);
    }
    aggregate->stream_count++;
    return series;
}

static uint32_t size_of(struct aggregate *aggregate, uint64_t bytes)
{
    unsigned class = bytes < 2 ? 0 : 64 - (unsigned)__builtin_clzll(bytes - 1);

    if (aggregate->sizes[class] == 0)
        aggregate->sizes[class] = series_add(&aggregate->series, SERIES_SIZE, class) + 1;
    return aggregate->sizes[class] - 1;
}

/* --- blocks ------------------------------------------------------------------------- */

static void hold(struct aggregate *aggregate, const struct block *block)
{
    struct series *series = &aggregate->series.items[block->node];

    if (series->held_blocks++ == 0 || block->time_ns < series->oldest_held_ns)
        series->oldest_held_ns = block->time_ns;
    series->held += block->bytes;
    aggregate->held_bytes += block->bytes;
    aggregate->held_blocks++;
}

/* Was the block live when exit began, and did exit free it? */
static bool was_held(const struct aggregate *aggregate, const struct block *block,
                     const tarn_trace_event *event)
{
    return event && aggregate->has_exit && block->sequence <= aggregate->exit_sequence &&
           (trie_is_exit(event->location) || trie_is_collector(event->location));
}

static void free_at_exit(struct aggregate *aggregate, const struct block *block,
                         const char *location)
{
    struct site *site = aggregate->sites.items[block->site];

    if (trie_is_exit(location))
        site->exit_freed += block->bytes;
    else
        site->exit_collected += block->bytes;
    hold(aggregate, block);
}

static struct picture_block picture_of(const struct aggregate *aggregate,
                                       const struct block *block)
{
    return (struct picture_block){.start = block->operation,
                                  .address = block->address,
                                  .bytes = block->bytes,
                                  .node = aggregate->series.items[block->node].of};
}

/* Note the end of a block in the picture of the run, which has the window alone. Blocks
 * without bytes are in no plan. */
static void end_picture(struct aggregate *aggregate, const struct block *block)
{
    struct picture_block picture = picture_of(aggregate, block);

    if (aggregate->pictures && aggregate->columns.is_begun && block->bytes > 0)
        pictures_end(aggregate->pictures, &picture);
}

/* End a block. `event` is its free; NULL if the log does not have it. */
static void end_block(struct aggregate *aggregate, const struct block *block,
                      const tarn_trace_event *event, uint64_t time_ns)
{
    struct site *site = aggregate->sites.items[block->site];
    struct site_event note = {.bytes = block->bytes,
                              .lifetime_ns =
                                  time_ns > block->time_ns ? time_ns - block->time_ns : 0,
                              .is_collected = event && trie_is_collector(event->location),
                              .is_held = was_held(aggregate, block, event),
                              .is_unordered = event && event->stream == UINT64_MAX};

    if (event && event->end_ns > event->start_ns)
        note.duration_ns = event->end_ns - event->start_ns;
    end_picture(aggregate, block);
    series_end(&aggregate->series, block->node, block->bytes);
    series_end(&aggregate->series, block->stream, block->bytes);
    series_end(&aggregate->series, block->size, block->bytes);
    sites_end(site, &aggregate->columns, &note);
    aggregate->live_bytes -= block->bytes;
    if (note.is_collected && live_was_at_peak(&aggregate->live, block))
        sites_collected_at_peak(site, aggregate->series.peak_clock, block->bytes);
    if (note.is_held)
        free_at_exit(aggregate, block, event->location);
}

static tarn_status begin_block(struct aggregate *aggregate, const tarn_trace_event *event,
                               uint64_t time_ns)
{
    if (event->bytes > UINT64_MAX - aggregate->live_bytes)
        return tarn_error_set(TARN_BAD_FORMAT, "report: the live bytes exceed 2^64");
    if (aggregate->live.by_address.count >= LIVE_MAX)
        return tarn_error_set(TARN_OUT_OF_MEMORY, "report: more than %zu live blocks",
                              LIVE_MAX);
    uint32_t node = owner_of(aggregate, trie_node_of(&aggregate->stacks, event));
    struct block block = {.address = event->address,
                          .bytes = event->bytes,
                          .time_ns = time_ns,
                          .sequence = aggregate->sequence,
                          .node = node,
                          .stream = stream_of(aggregate, event->stream),
                          .size = size_of(aggregate, event->bytes),
                          .site = aggregate->owner_sites[node],
                          .device = event->device};
    struct site_event note = {.bytes = event->bytes, .address = event->address};

    if (event->end_ns > event->start_ns) {
        note.duration_ns = event->end_ns - event->start_ns;
        histogram_add(&aggregate->call_ns[event->stream != UINT64_MAX], note.duration_ns,
                      1);
    }
    if (aggregate->pictures && aggregate->columns.is_begun && block.bytes > 0)
        block.operation = pictures_begin(aggregate->pictures, block.bytes,
                                         aggregate->series.items[node].of);
    live_add(&aggregate->live, &block);
    series_begin(&aggregate->series, block.node, block.bytes);
    series_begin(&aggregate->series, block.stream, block.bytes);
    series_begin(&aggregate->series, block.size, block.bytes);
    sites_begin(aggregate->sites.items[block.site], &aggregate->columns, &note);
    aggregate->live_bytes += block.bytes;
    if (aggregate->columns.is_begun) {
        struct series *series = &aggregate->series.items[node];
        series->allocations++;
        series->total = event->bytes > UINT64_MAX - series->total
                            ? UINT64_MAX
                            : series->total + event->bytes;
    }
    return TARN_OK;
}

/* --- rows --------------------------------------------------------------------------- */

static tarn_status add_allocation(struct aggregate *aggregate,
                                  const tarn_trace_event *event, uint64_t time_ns,
                                  bool counts)
{
    struct block old;
    bool is_double;

    if (counts) {
        aggregate->allocations++;
        aggregate->columns.open.allocations++;
        aggregate->total_bytes = event->bytes > UINT64_MAX - aggregate->total_bytes
                                     ? UINT64_MAX
                                     : aggregate->total_bytes + event->bytes;
        pools_note_success(&aggregate->pools, time_ns, event->bytes);
    }
    if (event->address == 0) {
        aggregate->problems += counts && event->bytes != 0;
        return TARN_OK;
    }
    is_double = live_take(&aggregate->live, event->address, &old);
    if (is_double)
        end_block(aggregate, &old, NULL, time_ns);
    aggregate->doubled += is_double && counts;
    aggregate->problems += is_double && counts;
    return begin_block(aggregate, event, time_ns);
}

static void add_free(struct aggregate *aggregate, const tarn_trace_event *event,
                     uint64_t time_ns, bool counts)
{
    struct block old;

    aggregate->frees += counts;
    if (counts)
        aggregate->columns.open.frees++;
    if (event->address == 0)
        return;
    if (!live_take(&aggregate->live, event->address, &old)) {
        aggregate->unmatched += counts;
        aggregate->problems += counts;
        return;
    }
    if (counts) {
        aggregate->problems += event->bytes != 0 && event->bytes != old.bytes;
        aggregate->problems += event->device != old.device;
    }
    end_block(aggregate, &old, event, time_ns);
}

static void begin_exit(struct aggregate *aggregate, uint64_t time_ns)
{
    if (aggregate->has_exit)
        return;
    aggregate->has_exit = true;
    aggregate->exit_ns = time_ns;
    aggregate->exit_sequence = aggregate->sequence;
}

static void note_device(struct aggregate *aggregate, uint64_t free_bytes,
                        uint64_t total_bytes)
{
    if (total_bytes == 0)
        return;
    if (free_bytes > total_bytes) {
        aggregate->problems++;
        return;
    }
    if (total_bytes > aggregate->device_total)
        aggregate->device_total = total_bytes;
    columns_set_used(&aggregate->columns, total_bytes - free_bytes);
}

/* Count a row of the window, and what is wrong with its times. */
static void note_row(struct aggregate *aggregate, const tarn_trace_event *event)
{
    uint64_t start = event->start_ns + aggregate->day_ns;
    uint64_t end = event->end_ns + aggregate->day_ns;

    aggregate->rows++;
    aggregate->problems += end < start;
    if (aggregate->window.from_ns == 0 &&
        (aggregate->rows == 1 || start < aggregate->first_ns))
        aggregate->first_ns = start;
    if (end > aggregate->latest_ns)
        aggregate->latest_ns = end;
    note_device(aggregate, event->free_bytes, event->total_bytes);
}

/* Count a failed allocation. */
static void add_failure(struct aggregate *aggregate, const tarn_trace_event *event)
{
    struct trie *stacks = &aggregate->stacks;
    uint32_t node = trie_node_of(stacks, event), framework;

    aggregate->failures++;
    aggregate->problems += event->address != 0;
    pools_add_failure(&aggregate->pools, event, aggregate->columns.now_ns, node,
                      trie_site_of(stacks, node, &framework));
}

tarn_status aggregate_event(void *self, const tarn_trace_event *event, uint64_t line)
{
    struct aggregate *aggregate = self;
    tarn_status status = TARN_OK;
    bool is_free = event->action == TARN_ACTION_FREE;
    uint64_t day = day_of(aggregate, event);
    uint64_t end = event->end_ns > event->start_ns ? event->end_ns : event->start_ns;
    uint64_t time_ns = day + (is_free ? event->start_ns : end);
    (void)line;

    if (!aggregate->has_origin)
        aggregate->origin_ns = day + event->start_ns;
    aggregate->has_origin = true;
    bool counts = advance(aggregate, time_ns);
    if (aggregate->is_over)
        return TARN_OK;
    if (trie_is_exit(event->location))
        begin_exit(aggregate, time_ns);
    aggregate->sequence++;
    if (counts)
        note_row(aggregate, event);
    if (event->action == TARN_ACTION_ALLOCATE) {
        status = add_allocation(aggregate, event, time_ns, counts);
    } else if (is_free) {
        add_free(aggregate, event, time_ns, counts);
    } else if (counts) {
        add_failure(aggregate, event);
    }
    if (counts && status == TARN_OK)
        note_peak(aggregate);
    return status;
}

/* Note the stacks of the live blocks in a map of a pool. */
static void name_blocks(const struct aggregate *aggregate, struct pool_map *map)
{
    for (size_t i = 0; i < map->count; i++) {
        const struct block *block = live_get(&aggregate->live, map->blocks[i].address);
        if (block && map->blocks[i].state == TARN_POOL_LIVE)
            map->blocks[i].node = aggregate->series.items[block->node].of;
    }
}

tarn_status aggregate_pool(void *self, const tarn_trace_pool_row *row)
{
    struct aggregate *aggregate = self;

    bool counts = advance(aggregate, row->time_ns);
    if (aggregate->is_over)
        return TARN_OK;
    struct pool_map *map =
        pools_add_row(&aggregate->pools, row, row->time_ns,
                      trie_node_of_number(&aggregate->stacks, row->stack));
    if (map)
        name_blocks(aggregate, map);
    if (!counts)
        return TARN_OK;
    columns_set_reserved(&aggregate->columns, aggregate->pools.reserved);
    if (row->report)
        note_device(aggregate, row->report->device_free, row->report->device_total);
    return TARN_OK;
}

tarn_status aggregate_mark(void *self, const char *name, uint64_t time_ns)
{
    struct aggregate *aggregate = self;
    bool counts = aggregate->sequence > 0 && advance(aggregate, time_ns);

    if (aggregate->is_over)
        return TARN_OK;
    if (trie_is_exit(name))
        begin_exit(aggregate, time_ns);
    if (counts)
        pools_add_mark(&aggregate->pools, MARK_USER, time_ns,
                       names_add(&aggregate->stacks.names, name), 0);
    return TARN_OK;
}

static void finish_pictures(struct aggregate *aggregate, const struct block *live,
                            size_t count)
{
    if (!aggregate->pictures)
        return;
    for (size_t i = 0; i < count; i++) {
        struct picture_block picture = picture_of(aggregate, &live[i]);
        if (live[i].bytes > 0)
            pictures_keep(aggregate->pictures, &picture);
    }
    pictures_finish(aggregate->pictures);
}

void aggregate_finish(struct aggregate *aggregate)
{
    struct columns *columns = &aggregate->columns;
    size_t count;

    if (columns->is_begun) {
        uint64_t end = aggregate->latest_ns > columns->now_ns ? aggregate->latest_ns
                                                              : columns->now_ns;
        note_level(aggregate, end);
        columns_finish(columns, end);
    }
    for (size_t i = 0; i < aggregate->sites.count; i++)
        sites_finish(aggregate->sites.items[i], columns);
    struct block *blocks = live_list(&aggregate->live, false, &count);
    finish_pictures(aggregate, blocks, count);
    for (size_t i = 0; i < count; i++)
        if (!aggregate->has_exit || blocks[i].sequence <= aggregate->exit_sequence)
            hold(aggregate, &blocks[i]);
    free(blocks);
}
