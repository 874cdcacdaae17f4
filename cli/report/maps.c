/* maps.c -- address maps made of the live blocks of a log. */
#include "maps.h"
#include "memory.h"
#include <stdlib.h>

static const uint64_t GAP_BYTES = 64 << 20;

void maps_of_log(const struct aggregate *aggregate, bool at_peak, struct pool_map *map)
{
    size_t count;
    struct block *blocks = live_list(&aggregate->live, at_peak, &count);

    *map = (struct pool_map){.kind = at_peak ? MAP_PEAK : MAP_END,
                             .time_ns =
                                 at_peak ? aggregate->peak_ns : aggregate->columns.now_ns,
                             .count = count,
                             .live_blocks = count,
                             .blocks = memory_new(count, sizeof *map->blocks)};
    for (size_t i = 0; i < count; i++) {
        const struct series *stream = &aggregate->series.items[blocks[i].stream];
        map->live += blocks[i].bytes;
        map->blocks[i] =
            (struct map_block){.address = blocks[i].address,
                               .bytes = blocks[i].bytes,
                               .requested = blocks[i].bytes,
                               .stream = stream->of < AGGREGATE_STREAMS
                                             ? aggregate->stream_values[stream->of]
                                             : UINT64_MAX,
                               .node = aggregate->series.items[blocks[i].node].of,
                               .state = TARN_POOL_LIVE};
    }
    free(blocks);
    pools_shorten(map);
}

size_t maps_segment_end(const struct pool_map *map, size_t first)
{
    const struct map_block *blocks = map->blocks;
    uint64_t end = blocks[first].address + blocks[first].bytes;
    size_t i = first + 1;

    for (; i < map->count; i++) {
        if (blocks[i].segment != blocks[first].segment)
            break;
        if (blocks[first].segment == 0 && blocks[i].address > end &&
            blocks[i].address - end > GAP_BYTES)
            break;
        uint64_t own_end = blocks[i].address + blocks[i].bytes;
        end = own_end > end ? own_end : end;
    }
    return i;
}
