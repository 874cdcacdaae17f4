/* trace.h -- what happened to memory: events, log writers and readers, replay.
 *
 * One event type, whatever the format: NBEP 7's CSV (12 columns, rows A80-A82) and RMM's
 * (`Thread,Time,Action,Pointer,Size,Stream`) are written from it and read into it.
 */
#ifndef TARN_TRACE_H
#define TARN_TRACE_H

#include <tarn/resource.h>

TARN_BEGIN_DECLS

/** The place in the user's program that asks for memory: a file and a line, or a name
 *  in angle brackets (`<gc>`, `<exit>`) and line 0. `file` may be NULL: not known. */
typedef struct tarn_site {
    const char *file;
    int line;
} tarn_site;

/** Set the calling thread's site and return the one before; loggers beneath read it. The
 *  string is not copied: keep it alive until the site is set back. */
TARN_API tarn_site tarn_site_set(tarn_site site);
TARN_API tarn_site tarn_site_current(void);

/** One thing that happened to memory. */
typedef struct tarn_event {
    tarn_action action;
    int device;          /**< TARN_DEVICE_NONE where a format does not say */
    uint64_t address;    /**< 0 for a failure */
    uint64_t stream;     /**< the raw stream value; for TARN_STREAM_NONE all bits set */
    uint64_t bytes;      /**< as asked for; 0 where a format does not say (old frees) */
    uint64_t thread;     /**< the system's thread id; 0 where a format does not say */
    uint64_t free_bytes; /**< of the device after the event; 0: not known */
    uint64_t total_bytes;
    uint64_t live_blocks; /**< after the event, as the writer's source counts */
    uint64_t start_ns;    /**< since the log began; RMM's: since midnight, local time */
    uint64_t end_ns;
    const char *location; /**< "file:line", "<gc>", "<exit>"; NULL or "" if not known */
} tarn_event;

typedef enum tarn_trace_format {
    TARN_TRACE_NBEP7 = 0, /**< Event Type,Device ID,Address,Stream,Size (bytes),... */
    TARN_TRACE_RMM = 1    /**< Thread,Time,Action,Pointer,Size,Stream */
} tarn_trace_format;

/** Where a writer's bytes go: returns false if they could not be taken (errno says why).
 */
typedef bool (*tarn_write_fn)(void *data, const char *bytes, size_t count);

/** Where a reader's bytes come from: up to `capacity` bytes into `buffer`, the count
 *  returned, 0 at the end, -1 on failure (errno says why). */
typedef long (*tarn_read_fn)(void *data, char *buffer, size_t capacity);

typedef struct tarn_trace_writer tarn_trace_writer;

/** A writer of `format` to a file that it creates or empties (parent folders must exist).
 */
TARN_API tarn_status tarn_trace_writer_open(const char *path, tarn_trace_format format,
                                            tarn_trace_writer **out);
/** A writer to anything; `write` is called with whole lines, one call at a time. */
TARN_API tarn_status tarn_trace_writer_create(tarn_write_fn write, void *data,
                                              tarn_trace_format format,
                                              tarn_trace_writer **out);
/** Write one event (any thread; lines never mix). The header goes out first. Times are
 *  the event's own. Lines are handed on when the buffer is full, once a second, at the
 *  last release and, to files, when the program exits. A write that failed is
 *  TARN_SYSTEM_FAILURE from then on; a forked child that writes to its parent's log is
 *  TARN_NOT_SUPPORTED. A location is cut after 4,096 bytes. */
TARN_API tarn_status tarn_trace_write(tarn_trace_writer *writer, const tarn_event *event);
/** A moment of CLOCK_MONOTONIC as this writer's log counts time, for `start_ns` and
 *  `end_ns`: since the writer was made; RMM's: since midnight, local time. Any thread. */
TARN_API uint64_t tarn_trace_writer_time_ns(const tarn_trace_writer *writer,
                                            uint64_t monotonic_ns);
/** Hand buffered lines on. Not from within the writer's own `write`. */
TARN_API tarn_status tarn_trace_flush(tarn_trace_writer *writer);
/** Counted as resources are; the last release flushes and closes. */
TARN_API tarn_trace_writer *tarn_trace_writer_retain(tarn_trace_writer *writer);
TARN_API tarn_status tarn_trace_writer_release(tarn_trace_writer *writer);

/** Where a reader found something wrong, for messages: 1-based line. */
typedef tarn_status (*tarn_event_fn)(void *data, const tarn_event *event, uint64_t line);

/** Limits of a reader, so that no input makes it use more than this; zeros: defaults. */
typedef struct tarn_trace_limits {
    size_t line_bytes; /**< longest line; default 64 KiB */
    size_t live_rows; /**< most blocks alive at once that are remembered; default 16 Mi */
} tarn_trace_limits;

/** Read a log of either format (the header tells which) and pass each row on. `name`
 * stands in messages: `name:line: what`. A row that does not parse ends the reading with
 *  TARN_BAD_FORMAT; a status other than TARN_OK from `on_event` ends it with that. */
TARN_API tarn_status tarn_trace_read(const char *name, tarn_read_fn read, void *data,
                                     const tarn_trace_limits *limits,
                                     tarn_event_fn on_event, void *event_data,
                                     tarn_trace_format *format_out);

/** A log in memory, checked and compact, ready to be replayed. */
typedef struct tarn_trace tarn_trace;

/** Load a log whole. Frees without an allocation and the like are kept out and counted;
 *  blocks that stay live are freed at the end of a replay, and counted. */
TARN_API tarn_status tarn_trace_load(const char *name, tarn_read_fn read, void *data,
                                     const tarn_trace_limits *limits, tarn_trace **out);
TARN_API void tarn_trace_release(tarn_trace *trace);

/** What a log says, in figures. */
typedef struct tarn_trace_summary {
    uint64_t events, allocations, frees, failures;
    uint64_t unmatched_frees;    /**< no live block at that address */
    uint64_t double_allocations; /**< an address handed out while it was out */
    uint64_t peak_live_bytes, peak_live_blocks;
    uint64_t end_live_bytes, end_live_blocks;
    uint64_t total_bytes; /**< sum of all allocations */
    uint64_t threads, streams, devices;
    uint64_t duration_ns;
} tarn_trace_summary;
TARN_API void tarn_trace_summarize(const tarn_trace *trace, tarn_trace_summary *out);

/** How to replay. Zeros are the defaults. */
typedef struct tarn_replay_options {
    size_t size;       /**< sizeof(tarn_replay_options) */
    bool keep_threads; /**< one thread for each of the log's; else all on one */
    bool keep_streams; /**< one real stream for each of the log's; else the default one */
    /** Called now and then from one thread with the operations done and in all; NULL. */
    void (*progress)(void *data, uint64_t done, uint64_t total);
    void *progress_data;
} tarn_replay_options;

/** What a replay measured. Times are host time of the call, in nanoseconds. */
typedef struct tarn_replay_report {
    uint64_t operations, allocations, frees, failures;
    uint64_t
        end_frees; /**< blocks that the log left live, freed after the clock stopped */
    uint64_t wall_ns;
    double allocate_mean_ns, free_mean_ns;
    uint64_t allocate_ns[5]; /**< p50, p90, p99, p99.9, longest */
    uint64_t free_ns[5];
    uint64_t peak_live_bytes;     /**< as the log asked, failures left out */
    uint64_t peak_reserved_bytes; /**< what the device had less at most; 0: not known */
} tarn_replay_report;

/** Run a trace against a resource. Failed allocations are counted, not fatal. */
TARN_API tarn_status tarn_replay(const tarn_trace *trace, tarn_resource *resource,
                                 const tarn_replay_options *options,
                                 tarn_replay_report *out);

TARN_END_DECLS
#endif
