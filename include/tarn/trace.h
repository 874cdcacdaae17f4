/* trace.h -- events of memory: log writers, log readers, accounting and replay.
 *
 * One event type serves all log formats. The writer and the reader handle each of them:
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
 *   TARN_TRACE_BINARY| not text: events with call stacks, the  | memory of the device,
 *                    | state of pools, marks                   | live blocks
 *
 * The parts of this header:
 *
 *   - sites: the line of the user's program that allocates or frees;
 *   - tarn_trace_writer: writes events to a file or a function, from any thread;
 *   - tarn_trace_read_all(), tarn_trace_read(): parse a log and pass on what it has;
 *   - tarn_trace_accounting: follows the live blocks of a log and finds impossible rows;
 *   - tarn_trace and tarn_replay(): load a log and run it against a resource;
 *   - tarn_trace_plan(): lay the blocks of a log out in advance (plan.h).
 *
 * See docs/glossary.md for registered streams and no-stream frees.
 */
#ifndef TARN_TRACE_H
#define TARN_TRACE_H

#include <tarn/plan.h>
#include <tarn/pool.h>
#include <tarn/stack.h>

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
    /** Call stack of the event; TARN_STACK_UNKNOWN if there is none.
     *
     * For a writer it is a number of this process (stack.h). From a reader it is a number
     * of the log. Only TARN_TRACE_BINARY has it. */
    tarn_stack stack;
} tarn_trace_event;

/** The cause for which a pool row was written. */
typedef enum tarn_trace_pool_cause {
    TARN_TRACE_POOL_GROWTH = 0,  /**< The pool reserved more memory. */
    TARN_TRACE_POOL_RELEASE = 1, /**< The pool released memory by itself. */
    TARN_TRACE_POOL_TRIM = 2,    /**< The program trimmed the pool. */
    TARN_TRACE_POOL_FAILURE = 3, /**< An allocation failed for lack of memory. */
    /** The first row of a pool in a log, or a snapshot that the program wrote. */
    TARN_TRACE_POOL_SNAPSHOT = 4
} tarn_trace_pool_cause;

/** The state of a pool at a moment: a row of TARN_TRACE_BINARY.
 *
 * In a row from a reader all pointers are valid during the call of the handler. */
typedef struct tarn_trace_pool_row {
    size_t size;                 /**< sizeof(tarn_trace_pool_row). */
    tarn_trace_pool_cause cause; /**< Why the row was written. */
    int device;                  /**< Device ordinal of the pool. */
    uint64_t pool;               /**< Number of the pool in its process, from 1. */
    uint64_t time_ns;            /**< Nanoseconds since the log began. */
    uint64_t reserved_bytes;     /**< Bytes taken from upstream, or mapped. */
    uint64_t live_bytes;         /**< Bytes in live blocks of the pool. */
    tarn_stack stack;            /**< Call stack, as in tarn_trace_event. */
    /** The report on the failure; NULL for other causes, and if there is none. */
    const tarn_pool_oom_report *report;
    const tarn_pool_block *blocks; /**< The blocks of the pool by address; may be NULL. */
    size_t block_count;            /**< Number of blocks. */
} tarn_trace_pool_row;

/** The process that wrote a log, from the header of TARN_TRACE_BINARY.
 *
 * A string is "" if the log does not have it. All pointers are valid during the call of
 * `on_process`. */
typedef struct tarn_trace_process {
    size_t size;            /**< sizeof(tarn_trace_process). */
    uint64_t pid;           /**< Process id. */
    uint64_t parent_pid;    /**< Process id of its parent. */
    uint64_t start_unix_ns; /**< Time 0 of the log, in nanoseconds since 1970, UTC. */
    unsigned stack_depth;   /**< Maximum number of frames of a stack. */
    bool is_ring;           /**< The log keeps only its newest rows. */
    const char *host;       /**< Name of the host. */
    const char *command;    /**< Arguments of the command line, joined by spaces. */
    const char *tarn;       /**< Version of Tarn. */
    const char *driver;     /**< Version of the CUDA driver. */
    /** UUID of each device, as `nvidia-smi -L` prints it; "" if unknown. */
    const char *const *gpus;
    unsigned gpu_count; /**< Number of devices. */
} tarn_trace_process;

/** The format of a log. */
typedef enum tarn_trace_format {
    TARN_TRACE_NBEP7 = 0, /**< The twelve CSV columns of NBEP 7. */
    TARN_TRACE_RMM = 1,   /**< The six CSV columns of RMM's logging adaptor. */
    TARN_TRACE_BINARY = 2 /**< Tarn's binary log: call stacks, and the state of pools. */
} tarn_trace_format;

/** Takes the bytes of a writer.
 *
 * `data` is the pointer given to tarn_trace_writer_create(). `bytes` has `count` bytes:
 * whole lines, without a NUL behind them, valid during the call. The function returns
 * true if it took all of them. On failure it returns false and sets errno.
 *
 * The writer makes one call at a time, under its lock, on the thread that writes,
 * flushes or releases. In the function tarn_trace_write(), tarn_trace_flush() and the
 * last release of the same writer fail with TARN_REENTRANT_CALL. So an allocation
 * that the function makes from a resource logged by this writer leaves no row. */
typedef bool (*tarn_trace_write_fn)(void *data, const char *bytes, size_t count);

/** Supplies the bytes of a log to a reader.
 *
 * `data` is the pointer given to tarn_trace_read(), tarn_trace_read_all() or
 * tarn_trace_load(). The function copies up to `capacity` bytes into `buffer` and returns
 * their number. It returns 0 at the end. It returns -1 on failure, and errno then tells
 * the reason.
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

/** Options of a writer to a file; zeros select the defaults. */
typedef struct tarn_trace_writer_options {
    size_t size;              /**< sizeof(tarn_trace_writer_options). */
    tarn_trace_format format; /**< Format of the log. */
    /** Maximum number of frames of the call stack that a logger captures for a row.
     *
     * It is at most TARN_STACK_DEPTH_MAX. 0 captures none, 1 only the site. Only
     * TARN_TRACE_BINARY has stacks. */
    unsigned stack_depth;
    /** Bytes of a ring, at least 1 MiB and less than 128 TiB; 0: the log keeps all rows.
     *
     * A ring keeps its newest rows, and the blocks that are live before the first of
     * them. The file can exceed the size by 64 KiB for each thread, and by 2 * 48 bytes
     * for each live block. Only TARN_TRACE_BINARY has rings. */
    uint64_t ring_bytes;
} tarn_trace_writer_options;

/** Create a writer to a file, with options.
 *
 * tarn_trace_writer_open() is the form without options, and describes text formats. A log
 * of TARN_TRACE_BINARY differs from them:
 *
 * - A row is in the file when tarn_trace_write() returns. A process that is killed loses
 *   no row.
 * - The process maps the file, which grows by 1 MiB at a time. The path must be on a file
 *   system with regular files. The writer removes an existing file and creates a new one.
 * - Another program may rename or remove the file while it is written. If another program
 *   truncates the file, SIGBUS ends the process.
 * - A forked child creates a log of its own at its first row: `path`, a dot and its
 *   process id. Time 0 of this log is that of the parent's log.
 * - A full file system breaks the log. No thread writes a row after that. The log records
 *   how many rows are lost.
 *
 * Thread-safety: any thread.
 *
 * @param path    path of the file; copied.
 * @param options the options; NULL selects the defaults.
 * @param[out] out the writer, with one reference that the caller releases with
 *                 tarn_trace_writer_release().
 * @return
 * - TARN_OK: the file is open.
 * - TARN_INVALID_ARGUMENT: `path` is NULL or empty, `out` is NULL, `options` has a wrong
 *   size or sets an option that this version does not know, an option is out of its
 *   range, or the format does not have it.
 * - TARN_OUT_OF_MEMORY: no host memory for the writer.
 * - TARN_SYSTEM_FAILURE: the system cannot create the file.
 * @since 0.2
 */
TARN_API tarn_status tarn_trace_writer_open_with(const char *path,
                                                 const tarn_trace_writer_options *options,
                                                 tarn_trace_writer **out);

/** Create a writer that passes whole lines to a function.
 *
 * Thread-safety: any thread.
 *
 * @param write  receives the lines, one call at a time.
 * @param data   passed to `write`; borrowed until the last release of the writer.
 * @param format format of the log, not TARN_TRACE_BINARY, which needs a file.
 * @param[out] out the writer, with one reference that the caller releases with
 *                 tarn_trace_writer_release().
 * @return
 * - TARN_OK: the writer exists.
 * - TARN_INVALID_ARGUMENT: `write` or `out` is NULL, or the format is unknown or binary.
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
 * A binary log has no buffer. It keeps `end_ns` of an allocation, `start_ns` of a free,
 * and the duration of the call. A location without a stack becomes a stack of one frame.
 * If `thread` is 0, the writer records the calling thread. If there is no space for the
 * stack of a row, the row has no stack.
 *
 * Thread-safety: any thread; lines of two threads never mix.
 *
 * @param writer the writer.
 * @param event  the event; its strings are copied.
 * @return
 * - TARN_OK: the event is in the buffer or in the log.
 * - TARN_INVALID_ARGUMENT: `writer` or `event` is NULL, or the action is unknown.
 * - TARN_NOT_SUPPORTED: the process is a forked child and its parent created the writer,
 *   for a text format.
 * - TARN_OUT_OF_MEMORY: no host memory for the first row of a thread in a binary log.
 * - TARN_REENTRANT_CALL: the call comes from the writer's own tarn_trace_write_fn.
 * - TARN_SYSTEM_FAILURE: this write or an earlier one failed; the log stays broken.
 * @since 0.1
 */
TARN_API tarn_status tarn_trace_write(tarn_trace_writer *writer,
                                      const tarn_trace_event *event);

/** Write the state of a pool.
 *
 * Text formats have no such row; the call does nothing then. The log leaves out the
 * blocks of a row in two cases. There is no host memory for a copy, or the log is a ring
 * and they exceed a chunk of 64 KiB.
 *
 * Thread-safety: any thread.
 *
 * @param writer the writer.
 * @param row    the row; copied. `time_ns` is a time of tarn_trace_writer_time_ns().
 * @return
 * - TARN_OK: the row is in the log, or the format has none.
 * - TARN_INVALID_ARGUMENT: `writer` or `row` is NULL, `row->size` is too small, or the
 *   cause is unknown.
 * - TARN_SYSTEM_FAILURE: this write or an earlier one failed; the log stays broken.
 * @since 0.2
 */
TARN_API tarn_status tarn_trace_write_pool(tarn_trace_writer *writer,
                                           const tarn_trace_pool_row *row);

/** Write a mark: a name for a moment.
 *
 * The name `<exit>` marks the begin of the exit of the program. Text formats have no
 * marks; the call does nothing then.
 *
 * Thread-safety: any thread.
 *
 * @param writer  the writer.
 * @param name    the name; cut after 4,096 bytes, and copied.
 * @param time_ns time of the mark in nanoseconds since the log began, as `start_ns` of an
 *                event; UINT64_MAX: the present moment.
 * @return
 * - TARN_OK: the mark is in the log, or the format has none.
 * - TARN_INVALID_ARGUMENT: `writer` or `name` is NULL.
 * - TARN_OUT_OF_MEMORY: there is no space for the name in this process.
 * - TARN_SYSTEM_FAILURE: this write or an earlier one failed; the log stays broken.
 * @since 0.2
 */
TARN_API tarn_status tarn_trace_write_mark(tarn_trace_writer *writer, const char *name,
                                           uint64_t time_ns);

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

/** Return how many frames of a call stack a source of events captures for a writer.
 *
 * Thread-safety: any thread.
 *
 * @param writer the writer; not NULL.
 * @return `stack_depth` of its options; 0 for text formats.
 * @since 0.2
 */
TARN_API unsigned tarn_trace_writer_stack_depth(const tarn_trace_writer *writer);

/** Pass the buffered lines on to the file or the function.
 *
 * A binary log has no buffer. For it the call returns whether the log is broken.
 *
 * Thread-safety: any thread.
 *
 * @param writer the writer.
 * @return
 * - TARN_OK: the buffer is empty, or the binary log is not broken.
 * - TARN_INVALID_ARGUMENT: `writer` is NULL.
 * - TARN_NOT_SUPPORTED: the process is a forked child and its parent created the writer,
 *   for a text format.
 * - TARN_REENTRANT_CALL: the call comes from the writer's own tarn_trace_write_fn.
 * - TARN_SYSTEM_FAILURE: this write or an earlier one failed; the log stays broken.
 * @since 0.1
 */
TARN_API tarn_status tarn_trace_flush(tarn_trace_writer *writer);

/** Flush all logs of the process, as exit() does.
 *
 * A program that ends by _exit() or by a signal can call it before. Its text logs then
 * have all their events, and its binary logs have an end: readers set
 * tarn_trace_end.is_cut to false. Python's package calls it when the interpreter ends,
 * also after Ctrl-C.
 *
 * The logs go on: a program may write more events. A log that cannot be written is a
 * warning. In a forked child the call has no effect on the logs of its parent.
 *
 * Thread-safety: any thread. A signal handler must not call it.
 *
 * @since 0.2
 */
TARN_API void tarn_trace_flush_all(void);

/** Choose whether each event goes to the file or to the function at once.
 *
 * With automatic flushes a process that is killed loses no event. Each event then
 * costs a system call of about one microsecond. They are off in a new writer. A binary
 * log needs none: the call returns whether the log is broken.
 *
 * Thread-safety: any thread.
 *
 * @param writer     the writer.
 * @param auto_flush true: flush after each event from now on. The call itself flushes in
 *                   both cases.
 * @return
 * - TARN_OK: the choice holds.
 * - TARN_INVALID_ARGUMENT: `writer` is NULL.
 * - TARN_NOT_SUPPORTED: the process is a forked child and its parent created the writer,
 *   for a text format.
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
 * `data` is the `event_data` given to tarn_trace_read(), or the `handler_data` given to
 * tarn_trace_read_all(). `event` and its strings are valid during the call. `line` is the
 * line of the log, from 1, at which the row begins. In a binary log it is the number of
 * the row, from 1. A status other than TARN_OK ends the reading with that status.
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

/** Counts and findings of a reader about a whole log. */
typedef struct tarn_trace_end {
    size_t size; /**< sizeof(tarn_trace_end). */
    /** This binary log has no end.
     *
     * A signal, a crash or _exit() ended its program before tarn_trace_flush_all(), the
     * program still runs, or the file was cut. */
    bool is_cut;
    /** Damaged or incomplete rows, records and chunks, which the reader left out. */
    uint64_t torn_rows;
    /** Rows that the log could not store for lack of space, as it records. */
    uint64_t lost_rows;
    /** Rows that were earlier than the row before them, and got its time. */
    uint64_t moved_rows;
    /** Time from which on the log is complete, in nanoseconds since the log began.
     *
     * In a ring it is the time of the checkpoint. */
    uint64_t begin_ns;
} tarn_trace_end;

/** The functions that receive the contents of a log; any may be NULL.
 *
 * `data` is the `handler_data` given to tarn_trace_read_all(). All other arguments are
 * valid during the call. A status other than TARN_OK ends the reading with that status.
 *
 * The reader calls them on the thread that reads, with no lock held. They may call Tarn.
 * Events, pool rows and marks come in the order of their times. */
typedef struct tarn_trace_handlers {
    size_t size; /**< sizeof(tarn_trace_handlers). */
    /** Receives the process that wrote the log, first of all. Only TARN_TRACE_BINARY. */
    tarn_status (*on_process)(void *data, const tarn_trace_process *process);
    /** Receives a call stack, before the first event with its number.
     *
     * `stack` is a number of the log. The innermost of the `count` frames comes first;
     * there is at least one. Only TARN_TRACE_BINARY. */
    tarn_status (*on_stack)(void *data, tarn_stack stack, const tarn_stack_frame *frames,
                            size_t count);
    tarn_trace_event_fn on_event; /**< Receives a row. */
    /** Receives the state of a pool. Only TARN_TRACE_BINARY. */
    tarn_status (*on_pool)(void *data, const tarn_trace_pool_row *row);
    /** Receives a mark of the program, such as `<exit>`. Only TARN_TRACE_BINARY.
     *
     * `time_ns` is in nanoseconds since the log began. */
    tarn_status (*on_mark)(void *data, const char *name, uint64_t time_ns);
    /** Receives the counts of the whole log; not called after a failure. */
    tarn_status (*on_end)(void *data, const tarn_trace_end *end);
} tarn_trace_handlers;

/** Read a log of any format and pass its contents to functions.
 *
 * The first bytes of the log tell whether it is binary. Else the header determines the
 * format, as tarn_trace_read() explains.
 *
 * For a binary log these rules hold:
 *
 * - The rows of all threads come in one order, by time. `line` counts them from 1.
 * - The `location` of an event is the innermost frame of its stack in a file of the
 *   program itself. Native frames, frames of Python itself and frames of installed
 *   packages do not count. If there is no such frame, it is the innermost frame of all.
 * - `free_bytes`, `total_bytes` and `live_blocks` are 0.
 * - The reader reads a log that was not closed up to its last row. Damaged rows, records
 *   and chunks are left out and counted.
 * - A ring begins with allocations, the blocks that were live at its newest checkpoint.
 *
 * To sort rows by time, the reader buffers one unfinished chunk for each thread of a log,
 * or a whole ring. It rejects a log that needs more than 512 MiB for this.
 *
 * Thread-safety: any thread; it calls `read` and the handlers on the calling thread.
 *
 * @param name     name of the log for messages; borrowed for the call.
 * @param read     supplies the bytes.
 * @param data     passed to `read`.
 * @param limits   bounds, of which `line_bytes` counts here; NULL selects the defaults.
 * @param handlers receive the contents; NULL only checks the log. Borrowed for the call.
 * @param handler_data passed to the handlers.
 * @param[out] format_out the format, on success; may be NULL.
 * @return
 * - TARN_OK: the log was read.
 * - TARN_INVALID_ARGUMENT: `name` or `read` is NULL, or `handlers` has a wrong size or
 *   sets a handler that this version does not know.
 * - TARN_OUT_OF_MEMORY: the log exceeds a bound, or there is no host memory.
 * - TARN_BAD_FORMAT: as tarn_trace_read(); the header of a binary log is damaged, or a
 *   newer Tarn wrote the log.
 * - TARN_SYSTEM_FAILURE: `read` failed.
 * - any status that a handler returned.
 * @since 0.2
 */
TARN_API tarn_status tarn_trace_read_all(const char *name, tarn_trace_read_fn read,
                                         void *data, const tarn_trace_limits *limits,
                                         const tarn_trace_handlers *handlers,
                                         void *handler_data,
                                         tarn_trace_format *format_out);

/** Read a log of any format and pass each row to a function.
 *
 * It is tarn_trace_read_all() with `on_event` alone.
 *
 * The header of a CSV log determines the format and the order of the columns:
 *
 * - The reader ignores unknown columns. A log has at most 64 columns.
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
 * - TARN_OUT_OF_MEMORY: no host memory for the longest row, or a binary log exceeds a
 *   bound.
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
    /** Bytes that were held until exit.
     *
     * Exit begins with the mark `<exit>` or with the first row at that location. Of the
     * blocks that are live then, these count: blocks that nothing frees any more, and
     * blocks that are freed at `<exit>` or `<gc>`. Without an exit, the blocks that are
     * live at the end count. */
    uint64_t held_bytes;
    uint64_t held_blocks; /**< Blocks that were held until exit. */
    bool has_exit;        /**< The log shows where the exit begins. */
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
    uint64_t held_bytes;  /**< Its bytes that were held until exit, as in the summary. */
    uint64_t held_blocks; /**< Its blocks that were held until exit. */
    /** Age at the exit of its oldest block that was live then, in nanoseconds. */
    uint64_t held_age_ns;
    tarn_stack stack; /**< Stack of its largest allocation, a number of the log. */
} tarn_trace_site;

/** The order of a list of sites, the largest first. */
typedef enum tarn_site_order {
    TARN_SITES_BY_PEAK = 0,  /**< By `peak_bytes`. */
    TARN_SITES_BY_LIVE = 1,  /**< By `live_bytes`. */
    TARN_SITES_BY_TOTAL = 2, /**< By `total_bytes`. */
    TARN_SITES_BY_HELD = 3   /**< By `held_bytes`. */
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

/** Enter a mark into an accounting. The mark `<exit>` tells where the exit begins.
 *
 * The function is an `on_mark` of tarn_trace_handlers: its data is the accounting.
 *
 * Thread-safety: one thread at a time for one accounting.
 *
 * @param accounting the accounting, a `tarn_trace_accounting *`.
 * @param name       name of the mark; others than `<exit>` have no effect.
 * @param time_ns    time of the mark in nanoseconds since the log began.
 * @return
 * - TARN_OK: the mark is entered.
 * - TARN_INVALID_ARGUMENT: `accounting` or `name` is NULL.
 * @since 0.2
 */
TARN_API tarn_status tarn_trace_accounting_mark(void *accounting, const char *name,
                                                uint64_t time_ns);

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
 * Sites whose figure in that order is 0 come last. Sites of equal figures come in the
 * order of their locations.
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

/** Lay out the blocks of a trace in advance.
 *
 * The plan depends only on the trace and the options. Its search needs about 200 bytes of
 * host memory for each block.
 *
 * Operations without a stream count as work of one stream if the log names no stream at
 * all. Else the device has to be done with a block that they free, or that they take,
 * before other work uses it.
 *
 * Thread-safety: any thread; the call does not change the trace.
 *
 * @param trace    the trace; borrowed for the call.
 * @param options  the options; NULL selects the defaults.
 * @param[out] out the plan, which the caller releases with tarn_plan_release().
 * @return
 * - TARN_OK: the plan exists.
 * - TARN_INVALID_ARGUMENT: `trace` or `out` is NULL, or an option is out of its range.
 * - TARN_OUT_OF_MEMORY: no host memory for the search.
 * - TARN_NOT_SUPPORTED: a block has 1 TiB or more, or the plan would need 2 TiB.
 * @since 0.2
 */
TARN_API tarn_status tarn_trace_plan(const tarn_trace *trace,
                                     const tarn_plan_options *options, tarn_plan **out);

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
