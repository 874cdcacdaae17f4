/* sites.h -- the sites of a log: their allocations and the lifetimes of their blocks.
 *
 * A site has the blocks of all stacks whose site is one frame (trie.h).
 *
 * The time of the log is divided into 64 windows, each of 32 columns (columns.h).
 * When the width of the columns doubles, windows are merged in pairs. A site merges its
 * windows at its next change. */
#ifndef TARN_CLI_REPORT_SITES_H
#define TARN_CLI_REPORT_SITES_H

#include "columns.h"
#include "histogram.h"
#include "map.h"

enum { SITES_WINDOWS = 64, SITES_WINDOW_COLUMNS = COLUMNS_MAX / SITES_WINDOWS };
enum { SITES_REGISTERS = 64 }; /* of the count of distinct addresses */

struct site {
    uint32_t frame, framework;
    uint64_t now, blocks; /* live */
    uint64_t total, allocations, frees, largest;
    uint64_t busy_ns;                      /* durations of its calls */
    struct histogram lifetimes, collected; /* all; of blocks that `<gc>` freed */
    uint64_t freed, gc_freed;              /* bytes */
    uint64_t gc_at_peak, gc_peak_clock;    /* bytes that were live at the peak */
    uint64_t unordered_frees;              /* frees without a stream */
    uint64_t exit_freed, exit_collected;   /* bytes freed by exit, and by `<gc>` then */
    /* Allocations in the present and in the last half of a second, and their most. */
    uint64_t half, in_half, in_last_half, most_in_second;
    uint64_t usual_bytes, usual_votes; /* the majority of the sizes, if there is one */
    uint8_t registers[SITES_REGISTERS];
    unsigned doublings; /* of the columns, as far as the windows know */
    unsigned window;    /* of the last change */
    uint64_t max[SITES_WINDOWS], min[SITES_WINDOWS];
};

struct sites {
    struct site **items;
    size_t count, capacity;
    struct map by_frame;
};

/* Return the number of the site with that frame. */
uint32_t sites_add(struct sites *sites, uint32_t frame, uint32_t framework);
/* The data of one row for its site. */
struct site_event {
    uint64_t bytes, address;
    uint64_t duration_ns; /* of the call */
    uint64_t lifetime_ns; /* of a block that ends */
    bool is_collected;    /* freed by `<gc>` */
    bool is_held;         /* freed by exit: it has no lifetime of its own */
    bool is_unordered;    /* freed without a stream */
};
/* Add or remove a block of a site at the present time of the columns. */
void sites_begin(struct site *site, const struct columns *columns,
                 const struct site_event *event);
void sites_end(struct site *site, const struct columns *columns,
               const struct site_event *event);
/* Count a block, allocated at `peak_clock` or before, that `<gc>` freed. */
void sites_collected_at_peak(struct site *site, uint64_t peak_clock, uint64_t bytes);
/* Clear the windows when the columns begin. */
void sites_start(struct sites *sites);
/* Update the windows up to the last column. */
void sites_finish(struct site *site, const struct columns *columns);
/* Return the number of windows that the columns use. */
unsigned sites_windows(const struct columns *columns);
/* Return an estimate of the number of different addresses, within about 13 %. */
uint64_t sites_addresses(const struct site *site);
void sites_free(struct sites *sites);

#endif
