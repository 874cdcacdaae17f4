/* pools.h -- the pools of a log: reserved bytes, failures, maps, marks.
 *
 * A failed allocation can have two rows: an event, and a pool row with the reason. They
 * become one failure. So do the attempts of one request: an allocation that fails again
 * with the same size, stream, thread and site within a second. Of many failures the first
 * 16 and the last 16 are kept.
 */
#ifndef TARN_CLI_REPORT_POOLS_H
#define TARN_CLI_REPORT_POOLS_H

#include "names.h"
#include "trie.h"

enum {
    POOLS_MAX = 64,
    POOLS_FAILURES = 16, /* kept of the first ones, and of the last ones */
    POOLS_MAPS = 8,      /* of failures and snapshots */
    POOLS_MAP_BLOCKS = 8192,
    POOLS_MARKS = 512 /* of each kind */
};

/* A block of a pool, or a live block of the log. */
struct map_block {
    uint64_t address, bytes, requested;
    uint64_t stream;
    uint64_t segment; /* address */
    uint32_t node;
    unsigned state; /* tarn_pool_block_state, or POOLS_UNKNOWN */
};
enum { POOLS_UNKNOWN = 8 }; /* the state between live blocks, which the log lacks */

enum pool_map_kind { MAP_PEAK, MAP_FAILURE, MAP_SNAPSHOT, MAP_END };

struct pool_map {
    enum pool_map_kind kind;
    uint64_t time_ns, largest_free;
    uint64_t live, cached, reserved; /* sums over all blocks, in bytes */
    uint64_t rounding, live_blocks;  /* live bytes that were not requested */
    uint64_t deferred;               /* free bytes without a fence and a stream */
    struct map_block *blocks;        /* by address */
    size_t count;
    uint64_t left_out, left_out_bytes; /* the smallest blocks of a large map */
};

struct failure {
    uint64_t time_ns, bytes; /* the time of its first attempt */
    uint32_t node;
    bool has_event, has_report;
    bool was_retried;  /* the same allocation succeeded within a second */
    uint64_t attempts; /* that failed */
    uint64_t last_ns;  /* time of the last attempt */
    uint64_t stream, thread;
    uint32_t site;               /* a frame */
    bool awaits_report;          /* the one that it has is of an earlier attempt */
    tarn_pool_oom_report report; /* of the last attempt that has one */
    uint32_t map;                /* number of its map + 1 */
};

enum mark_kind {
    MARK_USER,
    MARK_FAILURE,
    MARK_TRIM,
    MARK_GROWTH,
    MARK_RELEASE,
    MARK_KINDS
};

struct mark {
    uint64_t time_ns, bytes;
    uint32_t text; /* name */
    enum mark_kind kind;
};

struct pools {
    struct {
        uint64_t number, reserved;
    } items[POOLS_MAX];
    unsigned count;
    uint64_t reserved, reserved_peak, reserved_peak_ns;
    struct failure failures[2 * POOLS_FAILURES]; /* the second half is a ring */
    uint64_t failure_count;
    struct pool_map maps[POOLS_MAPS];
    uint32_t map_count;
    struct mark *marks;
    size_t mark_count, mark_capacity;
    uint64_t mark_counts[MARK_KINDS]; /* marks beyond POOLS_MARKS are only counted */
    bool has_rows;
};

/* Enter the row of a pool; `time_ns` is its time on the axis, `node` its stack. Return
 * the map of its blocks, or NULL if the row has none. */
struct pool_map *pools_add_row(struct pools *pools, const tarn_trace_pool_row *row,
                               uint64_t time_ns, uint32_t node);
/* Enter the event of a failed allocation. `site` is the frame of its site. */
void pools_add_failure(struct pools *pools, const tarn_trace_event *event,
                       uint64_t time_ns, uint32_t node, uint32_t site);
/* Note an allocation, which may be the retry of the latest failure. */
void pools_note_success(struct pools *pools, uint64_t time_ns, uint64_t bytes);
void pools_add_mark(struct pools *pools, enum mark_kind kind, uint64_t time_ns,
                    uint32_t text, uint64_t bytes);
/* Leave out the smallest blocks of a map with more than POOLS_MAP_BLOCKS. */
void pools_shorten(struct pool_map *map);
/* Return the number of kept failures, and the failure at an index, by time. */
size_t pools_failures(const struct pools *pools);
const struct failure *pools_failure(const struct pools *pools, size_t index);
void pools_free(struct pools *pools);

#endif
