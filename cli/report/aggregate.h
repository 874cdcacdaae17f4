/* aggregate.h -- the figures of one log, made in one pass with bounded memory.
 *
 * The rules about blocks are those of tarn_trace_accounting, so that `tarn log`
 * prints the same figures: an allocation at a live address ends the old block, a free
 * of an unknown address counts as unmatched, and address 0 has no block.
 *
 * The rows are counted in the order of the log. The time of a row is the end of an
 * allocation or the begin of a free. A row that is earlier than a row before it
 * counts as moved.
 */
#ifndef TARN_CLI_REPORT_AGGREGATE_H
#define TARN_CLI_REPORT_AGGREGATE_H

#include "live.h"
#include "pictures.h"
#include "pools.h"
#include "sites.h"

enum {
    AGGREGATE_STREAMS = 64, /* and one series for all others */
    AGGREGATE_SIZES = 65 /* size class c: bytes in (2^(c-1), 2^c]; the first: 0 and 1 */
};

/* The part of the log to show, in nanoseconds since its first row. */
struct window {
    uint64_t from_ns, to_ns; /* to_ns is UINT64_MAX without an end */
};

struct aggregate {
    struct window window;
    struct trie stacks;
    struct series_set series;
    struct sites sites;
    struct columns columns;
    struct live live;
    struct pools pools;
    struct pictures *pictures; /* borrowed; NULL: the page has none */
    uint32_t *owners;          /* node -> series + 1 */
    size_t owner_capacity;
    size_t owner_count;
    uint32_t *owner_sites; /* series -> site, for series of nodes */
    size_t owner_site_capacity;
    struct map streams; /* stream -> series; UINT64_MAX: no stream */
    uint64_t stream_values[AGGREGATE_STREAMS];
    uint32_t stream_count;           /* AGGREGATE_STREAMS + 1 if there are others */
    uint32_t other_stream;           /* the series of these */
    bool has_stream;                 /* a row names a stream */
    uint32_t sizes[AGGREGATE_SIZES]; /* series + 1 */

    /* figures, of the window */
    uint64_t rows, allocations, frees, failures, unmatched, doubled, problems, moved;
    uint64_t total_bytes, live_bytes, peak_bytes, peak_ns, peak_blocks;
    uint64_t first_ns, latest_ns; /* the earliest start and the latest end of the log */
    uint64_t origin_ns;           /* start of the first row: 0 of `window` */
    uint64_t other_rows;          /* allocations of stacks without space */
    uint64_t device_total;
    uint64_t held_bytes, held_blocks;
    bool has_exit; /* the log has the mark of the interpreter's exit */
    uint64_t exit_ns, exit_sequence;
    struct histogram levels;     /* live bytes, weighted by time */
    uint64_t level_ns;           /* up to here */
    struct histogram call_ns[2]; /* durations of allocations: without and with a stream */

    uint64_t sequence;        /* rows of the log so far */
    uint64_t day_ns, last_ns; /* of RMM's time of day */
    bool has_origin;
    bool is_over; /* the window has ended */

    /* the log's own description */
    tarn_trace_format format;
    bool has_process, is_ring, is_cut;
    uint64_t pid, parent_pid, start_unix_ns, torn, lost, begin_ns;
    unsigned stack_depth;
    uint32_t host, command, tarn, driver, gpu; /* names */
};

struct aggregate *aggregate_create(const struct window *window);
void aggregate_free(struct aggregate *aggregate);
/* Add an event, a pool row or a mark. They are functions of tarn_trace_handlers. */
tarn_status aggregate_event(void *aggregate, const tarn_trace_event *event,
                            uint64_t line);
tarn_status aggregate_pool(void *aggregate, const tarn_trace_pool_row *row);
tarn_status aggregate_mark(void *aggregate, const char *name, uint64_t time_ns);
/* Complete the figures at the end of the log. */
void aggregate_finish(struct aggregate *aggregate);
/* Return the site of a series of a node. */
struct site *aggregate_site(const struct aggregate *aggregate, uint32_t series);

#endif
