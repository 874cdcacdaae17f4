/* live.h -- the live blocks of a log, and those that were live at its peak.
 *
 * Two sets of blocks were live at the peak: live blocks that are not newer than the peak,
 * and blocks that were freed since the peak. A list has the second set. A new peak
 * empties it. */
#ifndef TARN_CLI_REPORT_LIVE_H
#define TARN_CLI_REPORT_LIVE_H

#include "map.h"
#include <stdbool.h>

struct block {
    uint64_t address, bytes;
    uint64_t time_ns;            /* of the end of its allocation */
    uint64_t sequence;           /* number of its row */
    uint64_t operation;          /* of its allocation, if the page has pictures */
    uint32_t node, stream, size; /* series */
    uint32_t site;
    int device;
};

struct live {
    struct map by_address; /* -> index in `blocks` */
    struct block *blocks;
    size_t used, capacity;
    uint32_t *unused; /* indices below `used` */
    size_t unused_count, unused_capacity;
    struct block *gone; /* live at the peak, and freed since */
    size_t gone_count, gone_capacity;
    uint64_t peak_sequence; /* number of the row of the peak */
};

/* Add a block at an address that has none. */
void live_add(struct live *live, const struct block *block);
/* Remove the block at an address and copy it to `out`. False: there is none. */
bool live_take(struct live *live, uint64_t address, struct block *out);
/* Return the live block at an address, or NULL; valid until the next live_add(). */
const struct block *live_get(const struct live *live, uint64_t address);
/* Record that row `sequence` made a new peak. */
void live_note_peak(struct live *live, uint64_t sequence);
/* Return true if a block was live at the peak. */
bool live_was_at_peak(const struct live *live, const struct block *block);
/* Copy the live blocks, or those at the peak, by address. The caller frees the array. */
struct block *live_list(const struct live *live, bool at_peak, size_t *count);
void live_free(struct live *live);

#endif
