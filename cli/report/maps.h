/* maps.h -- address maps made of the live blocks of a log. */
#ifndef TARN_CLI_REPORT_MAPS_H
#define TARN_CLI_REPORT_MAPS_H

#include "view.h"

/* Fill a map with the blocks at the peak, or at the end. The caller frees
 * `map->blocks`. Between the blocks the state is unknown. */
void maps_of_log(const struct aggregate *aggregate, bool at_peak, struct pool_map *map);
/* Find the end of a segment: the index behind the last of its blocks. The segment of a
 * block is its own, or, in a map of a log, a stretch without a gap of 64 MiB. */
size_t maps_segment_end(const struct pool_map *map, size_t first);

#endif
