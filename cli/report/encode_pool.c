/* encode_pool.c -- the sections of a data block about pools: MARK, FAIL, MAPS. */
#include "encode_pool.h"
#include "maps.h"
#include "memory.h"
#include "text.h"
#include <stdlib.h>

/* --- MARK --------------------------------------------------------------------------- */

static int by_time(const void *a, const void *b)
{
    const struct mark *first = a, *second = b;

    return (first->time_ns > second->time_ns) - (first->time_ns < second->time_ns);
}

static void add_marks(const struct view *view, struct data_block *block)
{
    const struct pools *pools = &view->aggregate->pools;
    struct bytes *out = data_block_section(block, "MARK");

    if (pools->mark_count > 0)
        qsort(pools->marks, pools->mark_count, sizeof *pools->marks, by_time);
    bytes_add_number(out, pools->mark_count);
    for (size_t i = 0; i < pools->mark_count; i++) {
        const struct mark *mark = &pools->marks[i];
        bytes_add_number(out, mark->time_ns);
        bytes_add_number(out, mark->kind);
        data_block_string(block, out,
                          names_text(&view->aggregate->stacks.names, mark->text));
        bytes_add_number(out, mark->bytes);
    }
}

/* --- FAIL --------------------------------------------------------------------------- */

struct field {
    const char *key;
    uint64_t value;
};

static void add_failure(const struct view *view, const struct failure *failure,
                        struct data_block *block, struct bytes *out)
{
    const tarn_pool_oom_report *report = &failure->report;
    const struct field fields[] = {
        {"requested", failure->bytes},
        {"failed_attempts", failure->attempts},
        {"alignment", report->alignment},
        {"live", report->live},
        {"thread_cached", report->thread_cached},
        {"cached", report->cached},
        {"unfenced", report->unfenced},
        {"captured", report->captured},
        {"reserved", report->reserved},
        {"maximum", report->maximum},
        {"same_stream", report->same_stream},
        {"other_streams", report->other_streams},
        {"completed", report->completed},
        {"largest_free", report->largest_free},
        {"device_free", report->device_free},
        {"device_total", report->device_total},
        {"attempts", report->attempts},
    };
    size_t count = failure->has_report ? sizeof fields / sizeof fields[0] : 2;
    char text[2048] = "";

    if (failure->has_report)
        tarn_pool_oom_report_text(report, text, sizeof text);
    bytes_add_number(out, failure->time_ns);
    bytes_add_number(out, view_node_of(view, failure->node));
    bytes_add_number(out, count);
    for (size_t i = 0; i < count; i++) {
        data_block_string(block, out, fields[i].key);
        bytes_add_number(out, fields[i].value);
    }
    data_block_string(block, out, text);
    bytes_add_number(out, failure->map);
}

static void add_failures(const struct view *view, struct data_block *block)
{
    const struct pools *pools = &view->aggregate->pools;
    struct bytes *out = data_block_section(block, "FAIL");
    size_t count = pools_failures(pools);

    bytes_add_number(out, count);
    for (size_t i = 0; i < count; i++)
        add_failure(view, pools_failure(pools, i), block, out);
}

/* --- MAPS --------------------------------------------------------------------------- */

static void add_piece(struct bytes *out, const struct view *view,
                      struct data_block *block, const struct map_block *piece)
{
    char stream[32] = "";

    if (piece->stream != 0 && piece->stream != UINT64_MAX)
        snprintf(stream, sizeof stream, piece->stream >> 63 ? "0x%llx" : "%llu",
                 (unsigned long long)piece->stream);
    bytes_add_number(out, piece->bytes);
    bytes_add_number(out, piece->requested);
    bytes_add_number(out, piece->state);
    data_block_string(block, out, stream);
    bytes_add_number(out, piece->node ? view_node_of(view, piece->node) + 1 : 0);
}

/* Add the blocks of a segment, and what is between them; they may overlap in a log of
 * an adaptor, and then the later one is cut. Return the end of the segment. */
static uint64_t add_segment(struct bytes *out, const struct view *view,
                            struct data_block *block, const struct pool_map *map,
                            size_t first, size_t end, uint64_t before)
{
    struct bytes pieces = {.count = 0};
    uint64_t begin = map->blocks[first].address, at;
    size_t count = 0;

    begin = begin > before ? begin : before;
    at = begin;
    for (size_t i = first; i < end; i++) {
        struct map_block piece = map->blocks[i];
        uint64_t piece_end = piece.bytes > UINT64_MAX - piece.address
                                 ? UINT64_MAX
                                 : piece.address + piece.bytes;
        if (piece_end <= at)
            continue;
        if (piece.address > at) {
            struct map_block gap = {.bytes = piece.address - at, .state = POOLS_UNKNOWN};
            add_piece(&pieces, view, block, &gap);
            count++;
            at = piece.address;
        }
        piece.bytes = piece_end - at;
        add_piece(&pieces, view, block, &piece);
        count++;
        at = piece_end;
    }
    bytes_add_number(out, begin - before);
    bytes_add_number(out, at - begin);
    bytes_add_number(out, count);
    bytes_add(out, pieces.data, pieces.count);
    bytes_free(&pieces);
    return at;
}

static void title_of(const struct pool_map *map, const struct view *view, char *out,
                     size_t capacity)
{
    static const char *const kinds[] = {"peak", "failure", "snapshot", "end"};
    double seconds = (double)(map->time_ns - view->aggregate->columns.start_ns) / 1e9;
    int length = snprintf(out, capacity, "%s, %.3f s", kinds[map->kind], seconds);

    if (map->left_out)
        snprintf(out + length, capacity - (size_t)length,
                 "; %s smaller blocks, %s in all, are not shown",
                 text_count(map->left_out).text, text_bytes(map->left_out_bytes).text);
}

static void add_map(const struct view *view, struct data_block *block, struct bytes *out,
                    const struct pool_map *map)
{
    char title[128];
    size_t segments = 0;
    uint64_t before = 0;

    for (size_t i = 0; i < map->count; i = maps_segment_end(map, i))
        segments++;
    title_of(map, view, title, sizeof title);
    data_block_string(block, out, title);
    bytes_add_number(out, map->time_ns);
    bytes_add_number(out, map->kind);
    bytes_add_number(out, map->largest_free);
    bytes_add_number(out, segments);
    for (size_t i = 0, end; i < map->count; i = end) {
        end = maps_segment_end(map, i);
        before = add_segment(out, view, block, map, i, end, before);
    }
}

static void add_maps(const struct view *view, struct data_block *block)
{
    const struct aggregate *aggregate = view->aggregate;
    struct bytes *out = data_block_section(block, "MAPS");
    struct pool_map of_log[2];
    size_t count = 0;

    maps_of_log(aggregate, true, &of_log[count++]);
    maps_of_log(aggregate, false, &of_log[count]);
    count += of_log[1].count > 0;
    bytes_add_number(out, aggregate->pools.map_count + count);
    for (uint32_t i = 0; i < aggregate->pools.map_count; i++)
        add_map(view, block, out, &aggregate->pools.maps[i]);
    for (size_t i = 0; i < count; i++)
        add_map(view, block, out, &of_log[i]);
    free(of_log[0].blocks);
    free(of_log[1].blocks);
}

void encode_pool_sections(const struct view *view, struct data_block *block)
{
    add_marks(view, block);
    add_failures(view, block);
    add_maps(view, block);
}
