/* trace.h -- events of memory: log writers, log readers, accounting and replay.
 *
 * One event type serves both log formats. The writer and the reader handle each of them:
 *
 *   format           | columns                                 | not in the format
 *   -----------------+-----------------------------------------+------------------------
 *   TARN_TRACE_NBEP7 | Event Type, Device ID, Address, Stream, | thread
 *                    | Size (bytes), Free Memory, Total Memory,|
 *                    | Current Allocs, Start, End, Elapsed,    |
 *                    | Location                                |
 *   TARN_TRACE_RMM   | Thread, Time, Action, Pointer, Size,    | device, memory of the
 *                    | Stream                                  | device, live blocks,
 *                    |                                         | end time, location
 *
 * The parts of this header:
 *
 *   - sites: the line of the user's program that allocates or frees;
 *   - tarn_trace_writer: writes events to a file or a function, from any thread;
 *   - tarn_trace_read(): parses a log and passes its rows to a function;
 *   - tarn_trace_accounting: follows the live blocks of a log and finds impossible rows;
 *   - tarn_trace and tarn_replay(): load a log and run it against a resource.
 *
 * See docs/glossary.md for registered streams and no-stream frees.
 */
#ifndef TARN_TRACE_H
#define TARN_TRACE_H

#include <tarn/resource.h>

TARN_BEGIN_DECLS

/** @addtogroup tarn_trace
 * @{ */

/** A place in the user's program that allocates or frees memory.
 *
 * It is a file and a line, or a name in angle brackets (`<gc>`, `<exit>`) and line 0.
 */
typedef struct tarn_site {
    const char *file; /**< File or name; NULL if the site is unknown. */
    int line;         /**< Line in the file, from 1; 0 for a name. */
} tarn_site;

/** Set the site of the calling thread.
 *
 * Loggers below read the site when they write a row.
 *
 * Thread-safety: any thread; each thread has its own site.
 *
 * @param site the new site. The string is borrowed: the caller keeps it alive until it
 *             sets another site. A NULL `file` clears the site.
 * @return the site that the thread had before.
 * @since 0.1
 */
TARN_API tarn_site tarn_site_set(tarn_site site);

/** Return the site that the calling thread set last.
 *
 * The function does not call the site finder.
 *
 * Thread-safety: any thread; each thread has its own site.
 *
 * @return the site; its `file` is NULL if the thread has set none. The string is
 *         borrowed.
 * @since 0.1
 */
TARN_API tarn_site tarn_site_current(void);

/** Finds the site of the calling thread.
 *
 * `freeing` is true if the thread frees memory, and false if it allocates.
 *
 * A logger may call the finder on any thread. That thread may hold locks of resources
 * above the logger. So the finder may not wait for anything that needs those locks. The
 * string that it returns must stay valid until the process ends. */
typedef tarn_site (*tarn_site_finder)(bool freeing);

/** Set the process-wide function that finds sites for loggers.
 *
 * A logger calls it when it writes a row with a location and the thread has set no site.
 * So a site costs nothing unless a logger writes it. The finder that was set last counts.
 *
 * Thread-safety: any thread.
 *
 * @param find the finder; NULL removes the present one.
 * @since 0.1
 */
TARN_API void tarn_site_set_finder(tarn_site_finder find);

/** One event of memory: an allocation, a free or a failed allocation. */
typedef struct tarn_trace_event {
    tarn_action action;   /**< What happened. */
    int device;           /**< Device ordinal; TARN_DEVICE_NONE if unknown. */
    uint64_t address;     /**< Address of the block; 0 for a failure. */
    uint64_t stream;      /**< Raw stream value; all bits set for TARN_STREAM_NONE. */
    uint64_t bytes;       /**< Requested bytes; 0 if unknown, as for frees of old logs. */
    uint64_t thread;      /**< Thread id of the system; 0 if unknown. */
    uint64_t free_bytes;  /**< Free memory of the device after the event; 0 if unknown. */
    uint64_t total_bytes; /**< Memory of the device in bytes; 0 if unknown. */
    /** Live blocks after the event, as the source of the event counts them. */
    uint64_t live_blocks;
    /** Start of the call in nanoseconds since the log began.
     *
     * In RMM's format the time counts from midnight, local time. */
    uint64_t start_ns;
    uint64_t end_ns;      /**< End of the call, counted as `start_ns`. */
    const char *location; /**< "file:line", `<gc>` or `<exit>`; NULL or "" if unknown. */
} tarn_trace_event;

/** The format of a log. */
typedef enum tarn_trace_format {
    TARN_TRACE_NBEP7 = 0, /**< The twelve CSV columns of NBEP 7. */
    TARN_TRACE_RMM = 1    /**< The six CSV columns of RMM's logging adaptor. */
} tarn_trace_format;

/** Takes the bytes of a writer.
 *
 * `data` is the pointer given to tarn_trace_writer_create(). `bytes` has `count` bytes:
 * whole lines, without a NUL behind them. The function returns true if it took all of
 * them. It returns false on failure, and errno then tells the reason.
 *
 * The writer makes one call at a time, under its lock, on the thread that writes,
 * flushes or releases. In the function tarn_trace_write(), tarn_trace_flush() and the
 * last release of the same writer fail with TARN_REENTRANT_CALL. So an allocation that the
 * function makes from a resource logged by this writer leaves no row. */
typedef bool (*tarn_trace_write_fn)(void *data, const char *bytes, size_t count);

/** Supplies the bytes of a log to a reader.
 *
 * `data` is the pointer given to tarn_trace_read() or tarn_trace_load(). The function
 * copies up to `capacity` bytes into `buffer` and returns their number. It returns 0 at
 * the end. It returns -1 on failure, and errno then tells the reason.
 *
 * The reader calls it on the thread that reads, with no lock held. */
typedef long (*tarn_trace_read_fn)(void *data, char *buffer, size_t capacity);

/** A writer of one log; reference-counted, usable from any thread. */
typedef struct tarn_trace_writer tarn_trace_writer;

/** Create a writer to a file.
 *
 * The writer creates the file, or empties an existing one. The parent folders must exist.
 *
 * A write that fails breaks the log: the writer writes no more, and later calls return
 * TARN_SYSTEM_FAILURE. The writer warns once (tarn_set_warning_handler()), unless
 * tarn_trace_flush() has returned the failure first. A regular file then ends with the
 * line `# incomplete: REASON`, if the system lets the writer cut it.
 *
 * Thread-safety: any thread.
 *
 * @param path   path of the file; copied.
 * @param format format of the log.
 * @param[out] out the writer, with one reference that the caller releases with
 *                 tarn_trace_writer_release().
 * @return
 * - TARN_OK: the file is open.
 * - TARN_INVALID_ARGUMENT: `path` is NULL or empty, `out` is NULL, or the format is
 *   unknown.
 * - TARN_OUT_OF_MEMORY: no host memory for the writer.
 * - TARN_SYSTEM_FAILURE: the system cannot create the file.
 * @since 0.1
 */
TARN_API tarn_status tarn_trace_writer_open(const char *path, tarn_trace_format format,
                                            tarn_trace_writer **out);

/** Create a writer that passes whole lines to a function.
 *
 * Thread-safety: any thread.
 *
 * @param write  receives the lines, one call at a time.
 * @param data   passed to `write`; borrowed until the last release of the writer.
 * @param format format of the log.
 * @param[out] out the writer, with one reference that the caller releases with
 *                 tarn_trace_writer_release().
 * @return
 * - TARN_OK: the writer exists.
 * - TARN_INVALID_ARGUMENT: `write` or `out` is NULL, or the format is unknown.
 * - TARN_OUT_OF_MEMORY: no host memory for the writer.
 * @since 0.1
 */
TARN_API tarn_status tarn_trace_writer_create(tarn_trace_write_fn write, void *data,
                                              tarn_trace_format format,
                                              tarn_trace_writer **out);

/** Write one event.
 *
 * The header precedes the first event. The times in the row are those of the event. The
 * writer buffers lines and passes them on:
 *
 * - when the buffer is full;
 * - to a file: within a second, on a thread of the library that exists only while events
 *   wait. So a process that is killed loses at most the events of its last second;
 * - to a function: with the first event a second or more after it last passed lines on;
 * - on tarn_trace_flush() and on the last release;
 * - to files, when the program exits;
 * - at once after tarn_trace_writer_set_auto_flush().
 *
 * The writer cuts a location after 4,096 bytes.
 *
 * Thread-safety: any thread; lines of two threads never mix.
 *
 * @param writer the writer.
 * @param event  the event; its strings are copied.
 * @return
 * - TARN_OK: the event is in the buffer or in the log.
 * - TARN_INVALID_ARGUMENT: `writer` or `event` is NULL, or the action is unknown.
 * - TARN_NOT_SUPPORTED: the process is a forked child and its parent created the writer.
 * - TARN_REENTRANT_CALL: the call comes from the writer's own tarn_trace_write_fn.
 * - TARN_SYSTEM_FAILURE: this write or an earlier one failed; the log stays broken.
 * @since 0.1
 */
TARN_API tarn_status tarn_trace_write(tarn_trace_writer *writer,
                                      const tarn_trace_event *event);

/** Convert a time of CLOCK_MONOTONIC to the time that a writer's log counts.
 *
 * The result suits `start_ns` and `end_ns` of an event.
 *
 * Thread-safety: any thread.
 *
 * @param writer       the writer; not NULL.
 * @param monotonic_ns time of CLOCK_MONOTONIC in nanoseconds.
 * @return nanoseconds since the creation of the writer, or since midnight, local time,
 *         for TARN_TRACE_RMM. A time before the creation counts as the creation.
 * @since 0.1
 */
TARN_API uint64_t tarn_trace_writer_time_ns(const tarn_trace_writer *writer,
                                            uint64_t monotonic_ns);

/** Return the format of a writer's log.
 *
 * A source of events can leave out fields for which the format has no column.
 *
 * Thread-safety: any thread.
 *
 * @param writer the writer; not NULL.
 * @return the format given at its creation.
 * @since 0.1
 */
TARN_API tarn_trace_format tarn_trace_writer_format(const tarn_trace_writer *writer);

/** Pass the buffered lines on to the file or the function.
 *
 * Thread-safety: any thread.
 *
 * @param writer the writer.
 * @return
 * - TARN_OK: the buffer is empty.
 * - TARN_INVALID_ARGUMENT: `writer` is NULL.
 * - TARN_NOT_SUPPORTED: the process is a forked child and its parent created the writer.
 * - TARN_REENTRANT_CALL: the call comes from the writer's own tarn_trace_write_fn.
 * - TARN_SYSTEM_FAILURE: this write or an earlier one failed; the log stays broken.
 * @since 0.1
 */
TARN_API tarn_status tarn_trace_flush(tarn_trace_writer *writer);

/** Choose whether each event goes to the file or to the function at once.
 *
 * With automatic flushes a process that is killed loses no event. Each event then costs a
 * write of the system, about a microsecond. A new writer has none.
 *
 * Thread-safety: any thread.
 *
 * @param writer     the writer.
 * @param auto_flush true: flush after each event from now on. The call itself flushes in
 *                   both cases.
 * @return
 * - TARN_OK: the choice holds.
 * - TARN_INVALID_ARGUMENT: `writer` is NULL.
 * - TARN_NOT_SUPPORTED: the process is a forked child and its parent created the writer.
 * - TARN_REENTRANT_CALL: the call comes from the writer's own tarn_trace_write_fn.
 * - TARN_SYSTEM_FAILURE: the flush failed, or an earlier write did; the log stays broken.
 * @since 0.2
 */
TARN_API tarn_status tarn_trace_writer_set_auto_flush(tarn_trace_writer *writer,
                                                      bool auto_flush);

/** Add a reference to a writer.
 *
 * Thread-safety: any thread.
 *
 * @param writer the writer; may be NULL.
 * @return `writer`.
 * @since 0.1
 */
TARN_API tarn_trace_writer *tarn_trace_writer_retain(tarn_trace_writer *writer);

/** Drop a reference to a writer; the last release flushes, closes and frees it.
 *
 * In a forked child the last release of a parent's writer writes nothing.
 *
 * Thread-safety: any thread.
 *
 * @param writer the writer; NULL does nothing.
 * @return
 * - TARN_OK: the reference is gone.
 * - TARN_REENTRANT_CALL: the writer's own tarn_trace_write_fn makes the last release. The
 *   caller keeps its reference.
 * - TARN_SYSTEM_FAILURE: the log could not be written or closed. The writer is freed.
 * @since 0.1
 */
TARN_API tarn_status tarn_trace_writer_release(tarn_trace_writer *writer);

/** Receives one row of a log.
 *
 * `data` is the `event_data` given to tarn_trace_read(). `event` and its strings are
 * valid during the call. `line` is the line of the log, from 1, at which the row begins.
 * A status other than TARN_OK ends the reading with that status.
 *
 * The reader calls the function on the thread that reads, with no lock held. The
 * function may call Tarn. */
typedef tarn_status (*tarn_trace_event_fn)(void *data, const tarn_trace_event *event,
                                           uint64_t line);

/** Bounds on the host memory that reading a log may use; 0 selects a default.
 *
 * No input makes a reader, an accounting or a loader exceed them. */
typedef struct tarn_trace_limits {
    /** Longest row in bytes, its line end included; default 64 KiB. */
    size_t line_bytes;
    /** Most live blocks, and most threads, streams and devices, each; default 16 Mi. */
    size_t live_rows;
    /** Most operations of a loaded log, 24 bytes each; default 256 Mi. */
    size_t operations;
} tarn_trace_limits;

/** Read a log of either format and pass each row to a function.
 *
 * The header of the log determines the format and the order of the columns:
 *
 * - Columns that the format does not know are left out, up to 64 columns in all.
 * - A log of RMM may lack the columns Thread and Time.
 * - Another header of the same format may follow anywhere, with another order.
 *
 * In RMM's format the microseconds may follow a colon, a date may precede the time, and a
 * pointer may lack its 0x. Messages on a row begin with `name:line:`.
 *
 * Thread-safety: any thread; it calls `read` and `on_event` on the calling thread.
 *
 * @param name       name of the log for messages; borrowed for the call.
 * @param read       supplies the bytes.
 * @param data       passed to `read`.
 * @param limits     bounds, of which `line_bytes` counts here; NULL selects the defaults.
 * @param on_event   receives each row; NULL only checks the log.
 * @param event_data passed to `on_event`.
 * @param[out] format_out the format, on success; may be NULL.
 * @return
 * - TARN_OK: all rows were read.
 * - TARN_INVALID_ARGUMENT: `name` or `read` is NULL.
 * - TARN_OUT_OF_MEMORY: no host memory for the longest row.
 * - TARN_BAD_FORMAT: the header is missing, unknown or ambiguous, a row is too long or
 *   does not parse, or the last line is `# incomplete: REASON`.
 * - TARN_SYSTEM_FAILURE: `read` failed.
 * - any status that `on_event` returned.
 * @since 0.1
 */
TARN_API tarn_status tarn_trace_read(const char *name, tarn_trace_read_fn read,
                                     void *data, const tarn_trace_limits *limits,
                                     tarn_trace_event_fn on_event, void *event_data,
                                     tarn_trace_format *format_out);

/** The figures of a log.
 *
 * An allocation at a live address counts as a new block. The old block counts as freed,
 * because the row of its free is missing. */
typedef struct tarn_trace_summary {
    uint64_t events,             /**< Rows. */
        allocations,             /**< Rows of successful allocations. */
        frees,                   /**< Rows of frees. */
        failures;                /**< Rows of failed allocations. */
    uint64_t unmatched_frees;    /**< Frees at an address without a live block. */
    uint64_t double_allocations; /**< Allocations at the address of a live block. */
    uint64_t problems;           /**< All inconsistencies, the two above included. */
    uint64_t peak_live_bytes,    /**< Most bytes that were live at once. */
        peak_live_blocks;        /**< Most blocks that were live at once. */
    uint64_t end_live_bytes,     /**< Bytes that are live at the end. */
        end_live_blocks;         /**< Blocks that are live at the end. */
    uint64_t total_bytes;        /**< Sum of all allocations; at most UINT64_MAX. */
    uint64_t threads,            /**< Different threads; 0 if the format has none. */
        devices;                 /**< Different devices; 0 if the format has none. */
    uint64_t streams;            /**< Different streams. */
    uint64_t duration_ns;        /**< Nanoseconds from the first start to the last end. */
} tarn_trace_summary;

/** One site of the program and the memory that it requested. */
typedef struct tarn_trace_site {
    /** Location of the site; "" if the log has none.
     *
     * The string belongs to the accounting. After 65,536 sites, or 64 MiB of their text,
     * all new ones count as `<other>`. */
    const char *location;
    uint64_t allocations; /**< Allocations of the site. */
    uint64_t total_bytes; /**< Sum of its allocations; at most UINT64_MAX. */
    uint64_t peak_bytes;  /**< Its live bytes when the live bytes of the log peaked. */
    uint64_t live_bytes;  /**< Its live bytes at the end. */
    uint64_t live_blocks; /**< Its live blocks at the end. */
} tarn_trace_site;

/** The order of a list of sites, the largest first. */
typedef enum tarn_site_order {
    TARN_SITES_BY_PEAK = 0, /**< By `peak_bytes`. */
    TARN_SITES_BY_LIVE = 1, /**< By `live_bytes`. */
    TARN_SITES_BY_TOTAL = 2 /**< By `total_bytes`. */
} tarn_site_order;

/** The accounting of a log: follows the live blocks row by row and finds impossible rows.
 *
 * It has no lock: one thread at a time may use it. */
typedef struct tarn_trace_accounting tarn_trace_accounting;

/** Receives each inconsistency of a log.
 *
 * `data` is the pointer given to tarn_trace_accounting_create(). `line` is the line
 * given to tarn_trace_accounting_add(). `what` is a message of one line, valid during
 * the call, such as "ends 5 ns before it starts".
 *
 * tarn_trace_accounting_add() calls it on its own thread, with no lock held. */
typedef void (*tarn_trace_problem_fn)(void *data, uint64_t line, const char *what);

/** Create an empty accounting.
 *
 * Thread-safety: any thread.
 *
 * @param name       name of the log for messages; copied. NULL stands for "log".
 * @param limits     bounds, of which `live_rows` counts here; NULL selects the defaults.
 * @param on_problem receives each inconsistency; may be NULL.
 * @param data       passed to `on_problem`; borrowed until the release.
 * @param[out] out   the accounting, which the caller releases with
 *                   tarn_trace_accounting_release().
 * @return
 * - TARN_OK: the accounting exists.
 * - TARN_INVALID_ARGUMENT: `out` is NULL.
 * - TARN_OUT_OF_MEMORY: no host memory for it.
 * @since 0.2
 */
TARN_API tarn_status tarn_trace_accounting_create(const char *name,
                                                  const tarn_trace_limits *limits,
                                                  tarn_trace_problem_fn on_problem,
                                                  void *data,
                                                  tarn_trace_accounting **out);

/** Free an accounting and the strings of its sites.
 *
 * Thread-safety: one thread at a time for one accounting.
 *
 * @param accounting the accounting; NULL does nothing.
 * @since 0.2
 */
TARN_API void tarn_trace_accounting_release(tarn_trace_accounting *accounting);

/** Enter an event into an accounting.
 *
 * The function is a tarn_trace_event_fn: pass it to tarn_trace_read() with the
 * accounting as `event_data`. After a failure the caller can only release the accounting.
 *
 * Thread-safety: one thread at a time for one accounting.
 *
 * @param accounting the accounting, a `tarn_trace_accounting *`.
 * @param event the event; copied.
 * @param line  line of the log, for messages.
 * @return
 * - TARN_OK: the event is entered, even if it is inconsistent.
 * - TARN_INVALID_ARGUMENT: `accounting` or `event` is NULL.
 * - TARN_OUT_OF_MEMORY: the log exceeds a bound, or there is no host memory.
 * - TARN_BAD_FORMAT: the live bytes no longer fit 64 bits.
 * @since 0.2
 */
TARN_API tarn_status tarn_trace_accounting_add(void *accounting,
                                               const tarn_trace_event *event,
                                               uint64_t line);

/** Copy the figures of all events entered so far.
 *
 * Thread-safety: one thread at a time for one accounting.
 *
 * @param accounting the accounting; not NULL.
 * @param[out] out the figures; not NULL.
 * @since 0.2
 */
TARN_API void tarn_trace_accounting_summary(const tarn_trace_accounting *accounting,
                                            tarn_trace_summary *out);

/** List the largest sites in an order.
 *
 * Sites whose figure in that order is 0 come last.
 *
 * Thread-safety: one thread at a time for one accounting.
 *
 * @param accounting the accounting; not NULL.
 * @param order      the figure to sort by.
 * @param capacity   most sites to list.
 * @param[out] sites array of `capacity` sites. Their strings belong to the accounting.
 * @return the number of all sites, which may exceed `capacity`.
 * @since 0.2
 */
TARN_API size_t tarn_trace_accounting_sites(const tarn_trace_accounting *accounting,
                                            tarn_site_order order, size_t capacity,
                                            tarn_trace_site *sites);

/** @} */

/** @addtogroup tarn_replay
 * @{ */

/** A log in memory, checked and compact, ready for a replay. */
typedef struct tarn_trace tarn_trace;

/** Load a whole log into memory.
 *
 * The loader counts these rows and leaves them out:
 *
 * - frees without an allocation;
 * - failed allocations;
 * - allocations of 0 bytes.
 *
 * A replay frees the blocks that the log leaves live when it ends.
 *
 * Thread-safety: any thread; it calls `read` on the calling thread.
 *
 * @param name   name of the log for messages; borrowed for the call.
 * @param read   supplies the bytes.
 * @param data   passed to `read`.
 * @param limits bounds; NULL selects the defaults.
 * @param[out] out the trace, which the caller releases with tarn_trace_release().
 * @return
 * - TARN_OK: the trace is loaded.
 * - TARN_INVALID_ARGUMENT: `name`, `read` or `out` is NULL.
 * - TARN_OUT_OF_MEMORY: the log exceeds a bound, or there is no host memory.
 * - TARN_BAD_FORMAT: the log does not parse, or its live bytes do not fit 64 bits.
 * - TARN_SYSTEM_FAILURE: `read` failed.
 * @since 0.1
 */
TARN_API tarn_status tarn_trace_load(const char *name, tarn_trace_read_fn read,
                                     void *data, const tarn_trace_limits *limits,
                                     tarn_trace **out);

/** Free a trace.
 *
 * Thread-safety: any thread, once no replay uses the trace.
 *
 * @param trace the trace; NULL does nothing.
 * @since 0.1
 */
TARN_API void tarn_trace_release(tarn_trace *trace);

/** Copy the figures of a trace's log, the rows that were left out included.
 *
 * Thread-safety: any thread.
 *
 * @param trace    the trace; not NULL.
 * @param[out] out the figures; not NULL.
 * @since 0.1
 */
TARN_API void tarn_trace_summarize(const tarn_trace *trace, tarn_trace_summary *out);

/** Options of a replay; zeros select the defaults. */
typedef struct tarn_replay_options {
    size_t size; /**< sizeof(tarn_replay_options). */
    /** Use one thread for each thread of the log, at most 1,024; default: one thread.
     *
     * A free waits for its allocation. Nothing else orders the threads. */
    bool keep_threads;
    /** Create a stream for each stream of the log, at most 4,096.
     *
     * Default streams stay as they are. Without this option the replay uses the default
     * stream for all operations. */
    bool keep_streams;
    /** Reports progress: operations done and operations in all; may be NULL.
     *
     * The replay calls it about every 100 ms, and at least once, on the thread that
     * called tarn_replay(), with no lock held. */
    void (*progress)(void *data, uint64_t done, uint64_t total);
    void *progress_data; /**< Passed to `progress`. */
    /** With keep_streams: replay on registered streams.
     *
     * The replay registers them with tarn_stream_register(), which makes a pool's work
     * cheaper. */
    bool register_streams;
} tarn_replay_options;

/** The measurements of a replay.
 *
 * Durations are host time of the call in nanoseconds. They leave out failed calls. */
typedef struct tarn_replay_report {
    uint64_t operations, /**< Calls: allocations, frees and failures. */
        allocations,     /**< Successful allocations. */
        frees,           /**< Successful frees. */
        failures;        /**< Failed allocations. */
    /** Blocks that the log left live, which the replay freed after the clock stopped. */
    uint64_t end_frees;
    /** Nanoseconds from the first call to the last.
     *
     * On one thread the time for querying the device's free memory is left out. */
    uint64_t wall_ns;
    double allocate_mean_ns, /**< Mean duration of an allocation. */
        free_mean_ns;        /**< Mean duration of a free. */
    uint64_t allocate_ns[5]; /**< Allocations: p50, p90, p99, p99.9 and longest. */
    uint64_t free_ns[5];     /**< Frees: p50, p90, p99, p99.9 and longest. */
    /** Most bytes that were live at once, as the log requests; failures left out. */
    uint64_t peak_live_bytes;
    /** Largest drop of the device's free memory in bytes; 0 if unknown. */
    uint64_t peak_reserved_bytes;
} tarn_replay_report;

/** Run a trace against a resource and measure it.
 *
 * The replay works on threads of its own, with the resource's context current. It counts
 * allocations for which there is no memory and leaves out their frees. Any other failure
 * ends the replay. In each case the replay frees its blocks before it returns.
 *
 * Thread-safety: any thread; the replay does not change the trace.
 *
 * @param trace    the trace; borrowed for the call.
 * @param resource the resource; borrowed for the call.
 * @param options  the options; NULL selects the defaults.
 * @param[out] out the measurements, on success.
 * @return
 * - TARN_OK: the replay reached its end.
 * - TARN_INVALID_ARGUMENT: `trace`, `resource` or `out` is NULL, or `options` has a
 *   wrong size or sets an option that this version does not know.
 * - TARN_NOT_SUPPORTED: the log has too many threads or streams to keep.
 * - TARN_OUT_OF_MEMORY: no host memory for the replay.
 * - TARN_SYSTEM_FAILURE: the system cannot start a thread.
 * - any other status of the driver or of the resource.
 * @since 0.1
 */
TARN_API tarn_status tarn_replay(const tarn_trace *trace, tarn_resource *resource,
                                 const tarn_replay_options *options,
                                 tarn_replay_report *out);

/** @} */

TARN_END_DECLS
#endif
