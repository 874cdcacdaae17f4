/* pools.c -- what a log says about pools: reserved bytes, failures, maps, marks. */
#include "pools.h"
#include "memory.h"
#include <stdlib.h>
#include <string.h>

static const uint64_t SECOND_NS = 1000000000;

/* --- reserved bytes ----------------------------------------------------------------- */

static void set_reserved(struct pools *pools, const tarn_trace_pool_row *row,
                         uint64_t time_ns)
{
    unsigned i = 0;

    while (i < pools->count && pools->items[i].number != row->pool)
        i++;
    if (i == POOLS_MAX)
        return;
    if (i == pools->count)
        pools->items[pools->count++].number = row->pool;
    pools->reserved += row->reserved_bytes - pools->items[i].reserved;
    pools->items[i].reserved = row->reserved_bytes;
    if (pools->reserved > pools->reserved_peak) {
        pools->reserved_peak = pools->reserved;
        pools->reserved_peak_ns = time_ns;
    }
}

/* --- maps --------------------------------------------------------------------------- */

static int by_bytes(const void *a, const void *b)
{
    const struct map_block *first = a, *second = b;

    return (first->bytes < second->bytes) - (first->bytes > second->bytes);
}

static int by_address(const void *a, const void *b)
{
    const struct map_block *first = a, *second = b;

    return (first->address > second->address) - (first->address < second->address);
}

void pools_shorten(struct pool_map *map)
{
    if (map->count <= POOLS_MAP_BLOCKS)
        return;
    qsort(map->blocks, map->count, sizeof *map->blocks, by_bytes);
    for (size_t i = POOLS_MAP_BLOCKS; i < map->count; i++)
        map->left_out_bytes += map->blocks[i].bytes;
    map->left_out = map->count - POOLS_MAP_BLOCKS;
    map->count = POOLS_MAP_BLOCKS;
    qsort(map->blocks, map->count, sizeof *map->blocks, by_address);
}

static void sum_up(struct pool_map *map, const tarn_pool_block *block)
{
    bool is_free = block->state != TARN_POOL_LIVE && block->state != TARN_POOL_UNMAPPED &&
                   block->state != TARN_POOL_IN_TRANSIT;

    if (block->state != TARN_POOL_UNMAPPED)
        map->reserved += block->bytes;
    if (is_free) {
        map->cached += block->bytes;
        if (block->bytes > map->largest_free)
            map->largest_free = block->bytes;
    }
    if (block->state == TARN_POOL_UNFENCED && block->stream_id == 0)
        map->deferred += block->bytes;
    if (block->state != TARN_POOL_LIVE)
        return;
    map->live += block->bytes;
    map->live_blocks++;
    if (block->requested_bytes != 0 && block->requested_bytes < block->bytes)
        map->rounding += block->bytes - block->requested_bytes;
}

/* Copy the blocks of a row. Of the maps that are kept, the last is replaced. */
static struct pool_map *add_map(struct pools *pools, const tarn_trace_pool_row *row,
                                uint64_t time_ns)
{
    uint32_t at = pools->map_count < POOLS_MAPS ? pools->map_count++ : POOLS_MAPS - 1;
    struct pool_map *map = &pools->maps[at];

    free(map->blocks);
    *map = (struct pool_map){.kind = row->cause == TARN_TRACE_POOL_FAILURE ? MAP_FAILURE
                                                                           : MAP_SNAPSHOT,
                             .time_ns = time_ns,
                             .count = row->block_count,
                             .blocks = memory_new(row->block_count, sizeof *map->blocks)};
    for (size_t i = 0; i < row->block_count; i++) {
        const tarn_pool_block *block = &row->blocks[i];
        map->blocks[i] = (struct map_block){
            .address = block->address,
            .bytes = block->bytes,
            .requested = block->requested_bytes,
            .stream = block->stream_id,
            .segment = block->segment,
            .state = (unsigned)block->state < POOLS_UNKNOWN ? (unsigned)block->state
                                                            : TARN_POOL_IN_TRANSIT};
        sum_up(map, block);
    }
    qsort(map->blocks, map->count, sizeof *map->blocks, by_address);
    if (row->report)
        map->largest_free = row->report->largest_free;
    pools_shorten(map);
    for (size_t i = 0; i < 2 * POOLS_FAILURES; i++)
        if (pools->failures[i].map == at + 1)
            pools->failures[i].map = 0;
    return map;
}

/* Remove a map, by its number + 1; 0 is no map. The numbers of those after it change. */
static void remove_map(struct pools *pools, uint32_t number)
{
    if (number == 0)
        return;
    struct pool_map *map = &pools->maps[number - 1];
    free(map->blocks);
    pools->map_count--;
    memmove(map, map + 1, (pools->map_count - (number - 1)) * sizeof *map);
    pools->maps[pools->map_count] = (struct pool_map){0};
    for (size_t i = 0; i < 2 * POOLS_FAILURES; i++)
        pools->failures[i].map -= pools->failures[i].map >= number;
}

/* --- failures ----------------------------------------------------------------------- */

static size_t place_of(uint64_t number)
{
    return number < POOLS_FAILURES
               ? (size_t)number
               : POOLS_FAILURES + (size_t)((number - POOLS_FAILURES) % POOLS_FAILURES);
}

size_t pools_failures(const struct pools *pools)
{
    return pools->failure_count < 2 * POOLS_FAILURES ? (size_t)pools->failure_count
                                                     : 2 * POOLS_FAILURES;
}

const struct failure *pools_failure(const struct pools *pools, size_t index)
{
    uint64_t skipped = pools->failure_count - pools_failures(pools);

    return &pools->failures[place_of(index < POOLS_FAILURES ? index : index + skipped)];
}

/* Return the failure before one of the last POOLS_FAILURES, or the last one; NULL: none.
 * `*number` begins with `failure_count`. */
static struct failure *previous(struct pools *pools, uint64_t *number)
{
    if (*number == 0 || pools->failure_count - *number == POOLS_FAILURES)
        return NULL;
    return &pools->failures[place_of(--*number)];
}

static bool is_near(const struct failure *failure, uint64_t time_ns)
{
    return time_ns < failure->last_ns + SECOND_NS;
}

/* Return the failure that lacks an event, or a report, with these figures. */
static struct failure *other_half(struct pools *pools, uint64_t time_ns, uint64_t bytes,
                                  bool of_event)
{
    uint64_t number = pools->failure_count;

    for (struct failure *failure; (failure = previous(pools, &number));) {
        bool is_half = of_event ? !failure->has_event
                                : !failure->has_report || failure->awaits_report;
        if (is_half && is_near(failure, time_ns) && failure->bytes == bytes)
            return failure;
    }
    return NULL;
}

/* Return the failure of which this event is another attempt. */
static struct failure *earlier_attempt(struct pools *pools, const tarn_trace_event *event,
                                       uint64_t time_ns, uint32_t site)
{
    uint64_t number = pools->failure_count;

    for (struct failure *failure; (failure = previous(pools, &number));)
        if (failure->has_event && !failure->was_retried && is_near(failure, time_ns) &&
            failure->bytes == event->bytes && failure->stream == event->stream &&
            failure->thread == event->thread && failure->site == site)
            return failure;
    return NULL;
}

static struct failure *add_failure(struct pools *pools, uint64_t time_ns, uint64_t bytes,
                                   uint32_t node)
{
    struct failure *failure = &pools->failures[place_of(pools->failure_count++)];

    *failure =
        (struct failure){.time_ns = time_ns, .bytes = bytes, .node = node, .attempts = 1};
    return failure;
}

/* Give a failure the map of its last attempt, by its number + 1, in place of an earlier one. */
static void set_map(struct pools *pools, struct failure *failure, uint32_t number)
{
    uint32_t earlier = failure->map;

    failure->map = number;
    if (earlier != number)
        remove_map(pools, earlier);
}

/* The report came before the event: take the last failure, which has the report alone, out
 * of the list, and give its report to the failure of which it is an attempt. A list that is
 * full has overwritten another one. Returns false if that is not possible. */
static bool absorb(struct pools *pools, const struct failure *last,
                   struct failure *failure)
{
    if (pools->failure_count > 2 * POOLS_FAILURES ||
        last != &pools->failures[place_of(pools->failure_count - 1)])
        return false;
    failure->report = last->report;
    failure->has_report = last->has_report;
    if (last->map != 0)
        set_map(pools, failure, last->map);
    pools->failure_count--;
    return true;
}

/* Return the failure of this event: one that has a report alone, an earlier attempt of the
 * same request, or a new one. */
static struct failure *failure_of(struct pools *pools, const tarn_trace_event *event,
                                  uint64_t time_ns, uint32_t node, uint32_t site)
{
    struct failure *half = other_half(pools, time_ns, event->bytes, true);
    struct failure *earlier = earlier_attempt(pools, event, time_ns, site);

    if (half && (!earlier || !absorb(pools, half, earlier)))
        return half;
    if (!earlier)
        return add_failure(pools, time_ns, event->bytes, node);
    earlier->attempts++;
    earlier->awaits_report = !half;
    return earlier;
}

void pools_add_failure(struct pools *pools, const tarn_trace_event *event,
                       uint64_t time_ns, uint32_t node, uint32_t site)
{
    struct failure *failure = failure_of(pools, event, time_ns, node, site);

    failure->has_event = true;
    failure->last_ns = time_ns;
    failure->stream = event->stream;
    failure->thread = event->thread;
    failure->site = site;
    if (failure->node == 0)
        failure->node = node;
    pools_add_mark(pools, MARK_FAILURE, time_ns, 0, event->bytes);
}

void pools_note_success(struct pools *pools, uint64_t time_ns, uint64_t bytes)
{
    uint64_t number = pools->failure_count;

    for (struct failure *failure; (failure = previous(pools, &number));)
        if (failure->bytes == bytes && is_near(failure, time_ns)) {
            failure->was_retried = true;
            return;
        }
}

static void add_report(struct pools *pools, const tarn_trace_pool_row *row,
                       uint64_t time_ns, uint32_t node, const struct pool_map *map)
{
    uint64_t bytes = row->report ? row->report->requested : 0;
    struct failure *failure = other_half(pools, time_ns, bytes, false);

    if (!failure)
        failure = add_failure(pools, time_ns, bytes, node);
    if (!failure->has_event)
        failure->last_ns = time_ns;
    failure->awaits_report = false;
    if (row->report) {
        size_t size = row->report->size < sizeof failure->report ? row->report->size
                                                                 : sizeof failure->report;
        memcpy(&failure->report, row->report, size);
        failure->report.upstream_message[sizeof failure->report.upstream_message - 1] =
            '\0';
        failure->has_report = true;
    }
    if (map)
        set_map(pools, failure, (uint32_t)(map - pools->maps) + 1);
}

/* --- rows and marks ----------------------------------------------------------------- */

void pools_add_mark(struct pools *pools, enum mark_kind kind, uint64_t time_ns,
                    uint32_t text, uint64_t bytes)
{
    if (pools->mark_counts[kind]++ >= POOLS_MARKS)
        return;
    pools->marks = memory_grow(pools->marks, &pools->mark_capacity, pools->mark_count + 1,
                               sizeof *pools->marks);
    pools->marks[pools->mark_count++] = (struct mark){time_ns, bytes, text, kind};
}

struct pool_map *pools_add_row(struct pools *pools, const tarn_trace_pool_row *row,
                               uint64_t time_ns, uint32_t node)
{
    static const enum mark_kind kinds[] = {
        [TARN_TRACE_POOL_GROWTH] = MARK_GROWTH,
        [TARN_TRACE_POOL_RELEASE] = MARK_RELEASE,
        [TARN_TRACE_POOL_TRIM] = MARK_TRIM,
    };
    struct pool_map *map = NULL;

    pools->has_rows = true;
    set_reserved(pools, row, time_ns);
    if (row->block_count > 0)
        map = add_map(pools, row, time_ns);
    if (row->cause <= TARN_TRACE_POOL_TRIM)
        pools_add_mark(pools, kinds[row->cause], time_ns, 0, row->reserved_bytes);
    else if (row->cause == TARN_TRACE_POOL_FAILURE)
        add_report(pools, row, time_ns, node, map);
    return map;
}

void pools_free(struct pools *pools)
{
    for (uint32_t i = 0; i < pools->map_count; i++)
        free(pools->maps[i].blocks);
    free(pools->marks);
}
