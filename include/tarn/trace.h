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

/** Finds the site of the calling thread; `freeing`: memory is freed there. It may be called
 *  on any thread, while that holds locks of resources above the logger: what it waits for must
 *  not wait for them. Its string stays good for ever. */
typedef tarn_site (*tarn_site_finder)(bool freeing);

/** Have a logger that writes a row with a place call `find` where the thread has set no site,
 *  so that a site costs nothing unless it is written. NULL: no longer. The process has one;
 *  the last that was set counts. Any thread. */
TARN_API void tarn_site_set_finder(tarn_site_finder find);

/** One thing that happened to memory. */
typedef struct tarn_trace_event {
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
} tarn_trace_event;

typedef enum tarn_trace_format {
    TARN_TRACE_NBEP7 = 0, /**< Event Type,Device ID,Address,Stream,Size (bytes),... */
    TARN_TRACE_RMM = 1    /**< Thread,Time,Action,Pointer,Size,Stream */
} tarn_trace_format;

/** Where a writer's bytes go: returns false if they could not be taken (errno says why).
 *  It may not use its writer: tarn_trace_write(), tarn_trace_flush() and the last release
 *  are TARN_STILL_IN_USE there. So what it allocates from a resource that this writer logs
 *  leaves no row. */
typedef bool (*tarn_trace_write_fn)(void *data, const char *bytes, size_t count);

/** Where a reader's bytes come from: up to `capacity` bytes into `buffer`, the count
 *  returned, 0 at the end, -1 on failure (errno says why). */
typedef long (*tarn_trace_read_fn)(void *data, char *buffer, size_t capacity);

typedef struct tarn_trace_writer tarn_trace_writer;

/** A writer of `format` to a file that it creates or empties (parent folders must exist).
 */
TARN_API tarn_status tarn_trace_writer_open(const char *path, tarn_trace_format format,
                                            tarn_trace_writer **out);
/** A writer to anything; `write` is called with whole lines, one call at a time. */
TARN_API tarn_status tarn_trace_writer_create(tarn_trace_write_fn write, void *data,
                                              tarn_trace_format format,
                                              tarn_trace_writer **out);
/** Write one event (any thread; lines never mix). The header goes out first. Times are
 *  the event's own. Lines are handed on when the buffer is full, once a second, at the
 *  last release and, to files, when the program exits. A write that failed is
 *  TARN_SYSTEM_FAILURE from then on; a forked child that writes to its parent's log is
 *  TARN_NOT_SUPPORTED. A location is cut after 4,096 bytes. */
TARN_API tarn_status tarn_trace_write(tarn_trace_writer *writer,
                                      const tarn_trace_event *event);
/** A moment of CLOCK_MONOTONIC as this writer's log counts time, for `start_ns` and
 *  `end_ns`: since the writer was made; RMM's: since midnight, local time. Any thread. */
TARN_API uint64_t tarn_trace_writer_time_ns(const tarn_trace_writer *writer,
                                            uint64_t monotonic_ns);
/** The format that was chosen, so that a source of events can leave out what the format
 *  has no column for. Any thread. */
TARN_API tarn_trace_format tarn_trace_writer_format(const tarn_trace_writer *writer);
/** Hand buffered lines on. */
TARN_API tarn_status tarn_trace_flush(tarn_trace_writer *writer);
/** Counted as resources are; the last release flushes and closes. */
TARN_API tarn_trace_writer *tarn_trace_writer_retain(tarn_trace_writer *writer);
TARN_API tarn_status tarn_trace_writer_release(tarn_trace_writer *writer);

/** Where a reader found something wrong, for messages: 1-based line. */
typedef tarn_status (*tarn_trace_event_fn)(void *data, const tarn_trace_event *event,
                                           uint64_t line);

/** Limits of a reader, so that no input makes it use more than this; zeros: defaults. */
typedef struct tarn_trace_limits {
    size_t line_bytes; /**< longest line; default 64 KiB */
    size_t live_rows;  /**< most blocks alive at once that are remembered, and most
                            threads, most streams, most devices; default 16 Mi */
    size_t
        operations; /**< most operations of a loaded log, 24 bytes each; default 256 Mi */
} tarn_trace_limits;

/** Read a log of either format (the header tells which) and pass each row on. `name`
 * stands in messages: `name:line: what`. A row that does not parse ends the reading with
 *  TARN_BAD_FORMAT; a status other than TARN_OK from `on_event` ends it with that. */
TARN_API tarn_status tarn_trace_read(const char *name, tarn_trace_read_fn read,
                                     void *data, const tarn_trace_limits *limits,
                                     tarn_trace_event_fn on_event, void *event_data,
                                     tarn_trace_format *format_out);

/** What a log says, in figures. An address that is handed out while it is out is taken as
 *  a new block, and the old one as gone: the row of its free is missing. */
typedef struct tarn_trace_summary {
    uint64_t events, allocations, frees, failures;
    uint64_t unmatched_frees;    /**< no live block at that address */
    uint64_t double_allocations; /**< an address handed out while it was out */
    uint64_t problems;           /**< all that a row cannot be, the two above included */
    uint64_t peak_live_bytes, peak_live_blocks;
    uint64_t end_live_bytes, end_live_blocks;
    uint64_t total_bytes;      /**< sum of all allocations; at most UINT64_MAX */
    uint64_t threads, devices; /**< 0 where the log does not say */
    uint64_t streams;
    uint64_t duration_ns; /**< from the first start to the last end */
} tarn_trace_summary;

/** One place of the program, and what it asked for. */
typedef struct tarn_trace_site {
    const char *location; /**< belongs to the tally; "" where the log does not say,
                               "<other>" for what came after the first 65,536 places */
    uint64_t allocations;
    uint64_t total_bytes;
    uint64_t peak_bytes; /**< its share of peak_live_bytes, at that moment */
    uint64_t live_bytes; /**< at the end */
    uint64_t live_blocks;
} tarn_trace_site;

typedef enum tarn_site_order {
    TARN_SITES_BY_PEAK = 0,
    TARN_SITES_BY_LIVE = 1,
    TARN_SITES_BY_TOTAL = 2
} tarn_site_order;

/** The books of a log: who holds what, row after row, and which rows cannot be. Not
 *  locked: one thread at a time. */
typedef struct tarn_trace_accounting tarn_trace_accounting;

/** Called for each thing that cannot be, e.g. "free of 0x10, which is not out". */
typedef void (*tarn_trace_problem_fn)(void *data, uint64_t line, const char *what);

/** New books; `name` stands in messages, `limits` and `on_problem` may be NULL. */
TARN_API tarn_status tarn_trace_accounting_create(const char *name,
                                                  const tarn_trace_limits *limits,
                                                  tarn_trace_problem_fn on_problem,
                                                  void *data,
                                                  tarn_trace_accounting **out);
TARN_API void tarn_trace_accounting_release(tarn_trace_accounting *tally);
/** Enter an event; with the tally as `event_data` this is a tarn_trace_event_fn for
 *  tarn_trace_read(). Over a limit: TARN_OUT_OF_MEMORY; live bytes that no longer fit 64
 *  bits: TARN_BAD_FORMAT. After a failure only release is of use. */
TARN_API tarn_status tarn_trace_accounting_add(void *tally, const tarn_trace_event *event,
                                               uint64_t line);
TARN_API void tarn_trace_accounting_summary(const tarn_trace_accounting *tally,
                                            tarn_trace_summary *out);
/** The first places in that order, at most `capacity`, into `sites`; how many there are
 *  in all is returned. Places with 0 in that order come last. */
TARN_API size_t tarn_trace_accounting_sites(const tarn_trace_accounting *tally,
                                            tarn_site_order order, size_t capacity,
                                            tarn_trace_site *sites);

/** A log in memory, checked and compact, ready to be replayed. */
typedef struct tarn_trace tarn_trace;

/** Load a log whole. Frees without an allocation, failures and allocations of 0 bytes are
 *  counted and kept out; blocks that stay live are freed at the end of a replay. */
TARN_API tarn_status tarn_trace_load(const char *name, tarn_trace_read_fn read,
                                     void *data, const tarn_trace_limits *limits,
                                     tarn_trace **out);
TARN_API void tarn_trace_release(tarn_trace *trace);
TARN_API void tarn_trace_summarize(const tarn_trace *trace, tarn_trace_summary *out);

/** How to replay. Zeros are the defaults. */
typedef struct tarn_replay_options {
    size_t size;       /**< sizeof(tarn_replay_options) */
    bool keep_threads; /**< one thread for each of the log's (at most 1,024); a free waits
                            for its allocation, nothing else orders them. Else one */
    bool keep_streams; /**< one real stream for each of the log's (at most 4,096), the
                            default ones kept; else the default one for all */
    /** Called now and then from the calling thread with the operations done and in all;
     *  NULL. */
    void (*progress)(void *data, uint64_t done, uint64_t total);
    void *progress_data;
    /** With keep_streams: open the streams (tarn_stream_register()) and replay on the opened
     * ones, which costs a pool less. */
    bool register_streams;
} tarn_replay_options;

/** What a replay measured. Times are host time of the call, in nanoseconds; calls that
 *  failed are not in them. */
typedef struct tarn_replay_report {
    uint64_t operations, allocations, frees, failures;
    uint64_t
        end_frees;    /**< blocks that the log left live, freed after the clock stopped */
    uint64_t wall_ns; /**< from the first call to the last; on one thread without the
                           time that looking at the device's memory took */
    double allocate_mean_ns, free_mean_ns;
    uint64_t allocate_ns[5]; /**< p50, p90, p99, p99.9, longest */
    uint64_t free_ns[5];
    uint64_t peak_live_bytes;     /**< as the log asked, failures left out */
    uint64_t peak_reserved_bytes; /**< what the device had less at most; 0: not known */
} tarn_replay_report;

/** Run a trace against a resource, on threads of its own with the resource's context
 *  current. Allocations for which there is no memory are counted, and their frees left
 *  out; any other failure ends the replay with that failure, everything freed. `options`
 *  may be NULL. */
TARN_API tarn_status tarn_replay(const tarn_trace *trace, tarn_resource *resource,
                                 const tarn_replay_options *options,
                                 tarn_replay_report *out);

TARN_END_DECLS
#endif
