/* adaptor.h -- resources over a resource: a limit, a log, counters, prefetches, a
 * callback, a list of the live blocks.
 *
 * | Adaptor          | Purpose                                                   |
 * |------------------|-----------------------------------------------------------|
 * | limiter          | keeps the memory of its upstream within a number of bytes |
 * | logger           | writes each allocation and each free to a trace           |
 * | counter          | counts bytes and blocks: current, peak, total             |
 * | prefetcher       | prefetches each block of managed memory to the device     |
 * | failure callback | calls a function before an allocation fails               |
 * | tracker          | lists the live blocks, with the call stack of each        |
 *
 * - Adaptors stack in any order, up to TARN_RESOURCE_DEPTH_MAX of them.
 * - An adaptor retains its upstream.
 * - The caller frees a block through the adaptor that allocated it.
 */
#ifndef TARN_ADAPTOR_H
#define TARN_ADAPTOR_H

#include <tarn/resource.h>
#include <tarn/stack.h>
#include <tarn/trace.h>

TARN_BEGIN_DECLS

/** @addtogroup tarn_adaptor
 * @{ */

/**
 * Create a limiter: a resource that keeps its upstream within `limit_bytes` bytes.
 *
 * The limiter charges each block with its size, rounded up to 256 bytes, as the
 * limiting_resource_adaptor of RMM does. An allocation over the limit is
 * TARN_OUT_OF_MEMORY.
 *
 * Thread-safety: any thread.
 *
 * @param upstream     The resource beneath; retained.
 * @param limit_bytes  The limit in bytes; it never changes.
 * @param[out] out     The limiter; the caller owns a reference.
 * @return
 * - TARN_OK: the limiter exists.
 * - TARN_INVALID_ARGUMENT: `upstream` or `out` is NULL, or the stack exceeds
 *   TARN_RESOURCE_DEPTH_MAX.
 * - TARN_OUT_OF_MEMORY: host memory is exhausted.
 * @since 0.1
 */
TARN_API tarn_status tarn_limiter_create(tarn_resource *upstream, size_t limit_bytes,
                                         tarn_resource **out);

/**
 * Query the bytes that a limiter has charged.
 *
 * Thread-safety: any thread.
 *
 * @param limiter   The limiter; borrowed.
 * @param[out] out  The charged bytes.
 * @return
 * - TARN_OK: `*out` is set.
 * - TARN_INVALID_ARGUMENT: `limiter` is no limiter, or `out` is NULL.
 * @since 0.1
 */
TARN_API tarn_status tarn_limiter_used_bytes(tarn_resource *limiter, size_t *out);

/**
 * Query the limit of a limiter.
 *
 * Thread-safety: any thread.
 *
 * @param limiter   The limiter; borrowed.
 * @param[out] out  The limit in bytes.
 * @return
 * - TARN_OK: `*out` is set.
 * - TARN_INVALID_ARGUMENT: `limiter` is no limiter, or `out` is NULL.
 * @since 0.1
 */
TARN_API tarn_status tarn_limiter_limit_bytes(tarn_resource *limiter, size_t *out);

/**
 * Create a logger: a resource that writes its calls to a trace writer.
 *
 * The logger writes one event for each allocation, failed allocation and successful
 * free. In the TARN_TRACE_NBEP7 format an event has the free memory of the device. The
 * logger queries the driver for it in two cases:
 * - The call may have changed it.
 * - The last answer is older than one millisecond.
 *
 * In the TARN_TRACE_BINARY format an event has a call stack of at most `stack_depth`
 * frames, an option of the writer. If the upstream is a pool, or adaptors of this header
 * over one, the logger also writes rows of that pool (tarn_trace_pool_row):
 * - SNAPSHOT when the logger is created, without blocks.
 * - GROWTH or RELEASE after a call, if the reserved bytes differ from those of the last
 *   row.
 * - TRIM after tarn_resource_trim() of the logger.
 * - FAILURE after an allocation for which the pool had no memory, with the pool's
 *   out-of-memory report. The first 16 failures have a row, then at most one a second.
 *   The row has the blocks of the pool if there are at most 16,384.
 *
 * A failure of the log does not fail the call. tarn_trace_flush() and the last
 * tarn_trace_writer_release() return the failure. A writer to a file warns of it once.
 *
 * Thread-safety: any thread.
 *
 * @param upstream  The resource beneath; retained.
 * @param writer    The trace writer; retained.
 * @param[out] out  The logger; the caller owns a reference.
 * @return
 * - TARN_OK: the logger exists.
 * - TARN_INVALID_ARGUMENT: `upstream`, `writer` or `out` is NULL, or the stack exceeds
 *   TARN_RESOURCE_DEPTH_MAX.
 * - TARN_OUT_OF_MEMORY: host memory is exhausted.
 * @since 0.1
 */
TARN_API tarn_status tarn_logger_create(tarn_resource *upstream,
                                        tarn_trace_writer *writer, tarn_resource **out);

/** The state of tarn_logger_note_pool() for one resource.
 *
 * The caller sets `size` and zeros all other members before the first call. */
typedef struct tarn_logger_pool {
    size_t size;             /**< sizeof(tarn_logger_pool). */
    uint64_t pool;           /**< Number of the pool in the last row; 0: no row yet. */
    uint64_t reserved_bytes; /**< Reserved bytes in the last row. */
    uint64_t failures;       /**< Failures with a row, counted up to 16. */
    uint64_t failure_ns;     /**< CLOCK_MONOTONIC, ns, of the last such failure. */
} tarn_logger_pool;

/**
 * Write the pool rows that are due after a call, as a logger does.
 *
 * The function is for sources of events other than a logger, such as an observer of
 * resources. The first call for a pool writes a row with the cause SNAPSHOT, without
 * blocks. Later ones write the rows that tarn_logger_create() describes, except TRIM.
 * A call that has no row to write costs a few loads.
 *
 * Thread-safety: any thread; one thread at a time for one `state`.
 *
 * @param writer   The trace writer; borrowed. Only TARN_TRACE_BINARY has pool rows.
 * @param resource The resource that was called; borrowed. It may be a pool, adaptors of
 *                 this header over one, or another resource, which has no rows.
 * @param action   What the call was. After TARN_ACTION_ALLOCATE_FAILURE the thread's last
 *                 failure has to be that of the allocation. It stays.
 * @param stack    The call stack for the row.
 * @param[in,out] state  What the log has so far.
 * @return
 * - TARN_OK: the rows that are due are written, if the log is not broken.
 * - TARN_INVALID_ARGUMENT: a pointer is NULL, or `state->size` is wrong.
 * @since 0.2
 */
TARN_API tarn_status tarn_logger_note_pool(tarn_trace_writer *writer,
                                           tarn_resource *resource, tarn_action action,
                                           tarn_stack stack, tarn_logger_pool *state);

/**
 * One set of counts of a counter, as in the statistics_resource_adaptor of RMM.
 *
 * Bytes are requested bytes. Current values may be negative after a push, if a block from
 * before the push is freed.
 */
typedef struct tarn_counts {
    int64_t current_bytes, /**< Bytes of the live blocks. */
        current_count;     /**< Number of live blocks. */
    int64_t peak_bytes,    /**< Maximum of `current_bytes`. */
        peak_count;        /**< Maximum of `current_count`. */
    int64_t total_bytes,   /**< Sum of the bytes of all allocations. */
        total_count;       /**< Number of all allocations. */
} tarn_counts;

/**
 * Create a counter: a resource that counts bytes and blocks.
 *
 * It does not count requests for 0 bytes and failures.
 *
 * Thread-safety: any thread.
 *
 * @param upstream  The resource beneath; retained.
 * @param[out] out  The counter; the caller owns a reference.
 * @return
 * - TARN_OK: the counter exists.
 * - TARN_INVALID_ARGUMENT: `upstream` or `out` is NULL, or the stack exceeds
 *   TARN_RESOURCE_DEPTH_MAX.
 * - TARN_OUT_OF_MEMORY: host memory is exhausted.
 * @since 0.1
 */
TARN_API tarn_status tarn_counter_create(tarn_resource *upstream, tarn_resource **out);

/**
 * Query the topmost set of counts of a counter.
 *
 * The set begins at the creation of the counter, or at the last push that was not popped.
 *
 * Thread-safety: any thread.
 *
 * @param counter   The counter; borrowed.
 * @param[out] out  The counts.
 * @return
 * - TARN_OK: `*out` is set.
 * - TARN_INVALID_ARGUMENT: `counter` is no counter, or `out` is NULL.
 * @since 0.1
 */
TARN_API tarn_status tarn_counter_read(tarn_resource *counter, tarn_counts *out);

/**
 * Push a new set of counts, all 0, on the stack of a counter.
 *
 * Thread-safety: any thread.
 *
 * @param counter   The counter; borrowed.
 * @param[out] out  The counts of the set that was on top before; may be NULL.
 * @return
 * - TARN_OK: a new set is on top.
 * - TARN_INVALID_ARGUMENT: `counter` is no counter.
 * - TARN_OUT_OF_MEMORY: host memory is exhausted.
 * @since 0.1
 */
TARN_API tarn_status tarn_counter_push(tarn_resource *counter, tarn_counts *out);

/**
 * Pop the topmost set of counts and merge it into the set beneath.
 *
 * The set beneath then has the values that it would have without the push.
 *
 * Thread-safety: any thread.
 *
 * @param counter   The counter; borrowed.
 * @param[out] out  The counts of the popped set; may be NULL.
 * @return
 * - TARN_OK: the set is merged.
 * - TARN_INVALID_ARGUMENT: `counter` is no counter, or only the lowest set is left, which
 *   cannot be popped.
 * @since 0.1
 */
TARN_API tarn_status tarn_counter_pop(tarn_resource *counter, tarn_counts *out);

/**
 * Create a prefetcher: a resource that prefetches each new block to its device.
 *
 * The prefetch is queued on the stream of the allocation, as tarn_prefetch_async() does.
 * It has no effect on memory that is not managed. If the driver rejects the prefetch, the
 * allocation fails with the status of tarn_prefetch_async().
 *
 * Thread-safety: any thread.
 *
 * @param upstream  The resource beneath; retained.
 * @param[out] out  The prefetcher; the caller owns a reference.
 * @return
 * - TARN_OK: the prefetcher exists.
 * - TARN_INVALID_ARGUMENT: `upstream` or `out` is NULL, or the stack exceeds
 *   TARN_RESOURCE_DEPTH_MAX.
 * - TARN_OUT_OF_MEMORY: host memory is exhausted.
 * @since 0.2
 */
TARN_API tarn_status tarn_prefetcher_create(tarn_resource *upstream, tarn_resource **out);

/** Options of a tracker; zeros select the defaults. */
typedef struct tarn_tracker_options {
    size_t size; /**< sizeof(tarn_tracker_options). */
    /** Maximum number of frames of the call stack to capture at each allocation.
     *
     * It is at most TARN_STACK_DEPTH_MAX. 0 captures none. */
    unsigned stack_depth;
} tarn_tracker_options;

/** A live block of a tracker. */
typedef struct tarn_tracked_block {
    tarn_device_ptr address; /**< Address of the block. */
    size_t bytes;            /**< Requested bytes. */
    tarn_stack stack;        /**< Call stack of its allocation, or TARN_STACK_UNKNOWN. */
} tarn_tracked_block;

/** Takes a live block of a tracker; returns false to end the visit.
 *
 * `data` is the argument of tarn_tracker_visit(). `block` is valid during the call. The
 * function runs on the thread of tarn_tracker_visit(), with no lock held. It may call the
 * tracker. */
typedef bool (*tarn_tracker_visit_fn)(void *data, const tarn_tracked_block *block);

/**
 * Create a tracker: a resource that records its live blocks.
 *
 * It records the call stack of each allocation if the options request stacks. A request
 * for 0 bytes has no record. An allocation fails with TARN_OUT_OF_MEMORY if there is no
 * host memory for its record.
 *
 * Thread-safety: any thread.
 *
 * @param upstream     The resource beneath; retained.
 * @param options      The options; NULL selects the defaults.
 * @param[out] out     The tracker; the caller owns a reference.
 * @return
 * - TARN_OK: the tracker exists.
 * - TARN_INVALID_ARGUMENT: `upstream` or `out` is NULL, `options` has a wrong size or
 *   sets an option that this version does not know, `stack_depth` exceeds
 *   TARN_STACK_DEPTH_MAX, or the stack of resources exceeds TARN_RESOURCE_DEPTH_MAX.
 * - TARN_OUT_OF_MEMORY: host memory is exhausted.
 * @since 0.2
 */
TARN_API tarn_status tarn_tracker_create(tarn_resource *upstream,
                                         const tarn_tracker_options *options,
                                         tarn_resource **out);

/**
 * Query the bytes of the live blocks of a tracker.
 *
 * Thread-safety: any thread.
 *
 * @param tracker   The tracker; borrowed.
 * @param[out] out  The sum of their requested bytes.
 * @return
 * - TARN_OK: `*out` is set.
 * - TARN_INVALID_ARGUMENT: `tracker` is no tracker, or `out` is NULL.
 * @since 0.2
 */
TARN_API tarn_status tarn_tracker_bytes(tarn_resource *tracker, size_t *out);

/**
 * Call a function for each live block of a tracker, in the order of their addresses.
 *
 * The list of blocks is copied at one moment, before the first call.
 *
 * Thread-safety: any thread; the calls are on the calling thread, with no lock held.
 *
 * @param tracker  The tracker; borrowed.
 * @param visit    The function; it ends the visit by returning false.
 * @param data     The first argument of `visit`; borrowed for the call.
 * @return
 * - TARN_OK: all blocks were visited, or `visit` ended the visit.
 * - TARN_INVALID_ARGUMENT: `tracker` is no tracker, or `visit` is NULL.
 * - TARN_OUT_OF_MEMORY: no host memory for a copy of the list. No block was visited.
 * @since 0.2
 */
TARN_API tarn_status tarn_tracker_visit(tarn_resource *tracker,
                                        tarn_tracker_visit_fn visit, void *data);

/**
 * Print a line for each live block of a tracker, and its call stack beneath.
 *
 * The line has the address and the requested bytes. tarn_stack_print() describes the
 * lines of a stack. A block without a stack has only its own line.
 *
 * Thread-safety: any thread.
 *
 * @param tracker  The tracker; borrowed.
 * @param out      The stream to print to; borrowed for the call.
 * @return The status of tarn_tracker_visit(). It is TARN_INVALID_ARGUMENT also if `out`
 *         is NULL.
 * @since 0.2
 */
TARN_API tarn_status tarn_tracker_print(tarn_resource *tracker, FILE *out);

/**
 * Write a row of an allocation for each live block of a tracker.
 *
 * Written to a new log of TARN_TRACE_BINARY, the rows are a snapshot of live memory with
 * call stacks: `tarn report` shows it, and `tarn convert` exports it. All rows have the
 * time of this call, the device of the tracker and no stream.
 *
 * Thread-safety: any thread.
 *
 * @param tracker  The tracker; borrowed.
 * @param writer   The trace writer; borrowed.
 * @return
 * - TARN_OK: all rows are written.
 * - TARN_INVALID_ARGUMENT: `tracker` is no tracker, or `writer` is NULL.
 * - TARN_OUT_OF_MEMORY: no host memory for a copy of the list. No row was written.
 * - Another status of tarn_trace_write(): the rows after that one are missing.
 * @since 0.2
 */
TARN_API tarn_status tarn_tracker_write(tarn_resource *tracker,
                                        tarn_trace_writer *writer);

/**
 * Decides whether an allocation that failed for lack of memory is tried again.
 * It frees memory, mostly that of the program, and sets `*again_out`. It runs on the
 * thread that allocates, and several threads may run it at once. The adaptor holds no
 * lock meanwhile; a pool above the adaptor may hold its own. It has to return: no
 * longjmp(), no C++ exception.
 *
 * @param data            Argument of tarn_failure_callback_create(); borrowed.
 * @param bytes           Size in bytes of the allocation.
 * @param[out] again_out  true: the upstream is asked again. It is false before the call.
 * @return TARN_OK, or the status with which the allocation fails; then the function has
 *         set the message by tarn_error_set().
 */
typedef tarn_status (*tarn_failure_callback)(void *data, size_t bytes, bool *again_out);

/**
 * Create a failure callback: a resource that calls a function before an allocation fails
 * for lack of memory.
 *
 * There is no limit on the number of calls for one allocation. If the function does not
 * set `*again_out`, the allocation fails with the status of the upstream.
 *
 * Thread-safety: any thread.
 *
 * @param upstream  The resource beneath; retained.
 * @param call      The function.
 * @param data      First argument of `call`; borrowed until `end` is called.
 * @param end       Called with `data` when the adaptor ends, on the thread of the last
 *                  release. NULL: nothing is called. If this function fails, `end` is not
 *                  called.
 * @param[out] out  The adaptor; the caller owns a reference.
 * @return
 * - TARN_OK: the adaptor exists.
 * - TARN_INVALID_ARGUMENT: `upstream`, `call` or `out` is NULL, or the stack exceeds
 *   TARN_RESOURCE_DEPTH_MAX.
 * - TARN_OUT_OF_MEMORY: host memory is exhausted.
 * @since 0.2
 */
TARN_API tarn_status tarn_failure_callback_create(tarn_resource *upstream,
                                                  tarn_failure_callback call, void *data,
                                                  void (*end)(void *data),
                                                  tarn_resource **out);

/**
 * Return the upstream of an adaptor of this header.
 *
 * Thread-safety: any thread.
 *
 * @param adaptor   An adaptor of this header; borrowed.
 * @param[out] out  The upstream, retained; the caller releases it.
 * @return
 * - TARN_OK: `*out` is set.
 * - TARN_NOT_SUPPORTED: `adaptor` is another kind of resource.
 * - TARN_INVALID_ARGUMENT: `adaptor` or `out` is NULL.
 * @since 0.1
 */
TARN_API tarn_status tarn_adaptor_upstream(tarn_resource *adaptor, tarn_resource **out);

/** @} */

TARN_END_DECLS
#endif
