/* plan.h -- plans: recorded work, laid out in advance.
 *
 * Work that repeats can be laid out once it has been recorded. A plan gives each block of
 * the recording a place in one range of addresses. The height of the plan is the memory
 * that the work needs so. tarn_trace_plan() (trace.h) makes a plan from a log, and the
 * command `tarn plan` writes it to a file.
 *
 * A plan is a proposal. It never tells that memory may be reused: only the rules of a
 * pool tell that (pool.h).
 *
 * docs/plans.md describes the command, docs/design/plans.md the layout.
 */
#ifndef TARN_PLAN_H
#define TARN_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tarn/status.h>

TARN_BEGIN_DECLS

/** @addtogroup tarn_plan
 * @{ */

/** A layout of recorded work; it does not change. */
typedef struct tarn_plan tarn_plan;

/** Options of a new plan; zeros select the defaults. */
typedef struct tarn_plan_options {
    size_t size; /**< sizeof(tarn_plan_options). */
    /** Operations by which the device is behind the program; 0: 500.
     *
     * Memory that a stream freed earlier than that needs no wait. At most 2^30. */
    uint32_t lag_operations;
    /** Effort of the search for a low layout, as a multiple of the usual one; 0: 1.
     *
     * The time grows with it: about one second for 100,000 blocks and an effort of 1. At
     * most 1,000. */
    uint32_t effort;
    /** Bytes of memory that a wait between two streams is worth; 0: peak live / 1,024.
     *
     * A block that is smaller takes no memory for which its stream would have to wait. 1
     * lets all blocks wait. */
    uint64_t wait_price_bytes;
} tarn_plan_options;

/** The figures of a plan. */
typedef struct tarn_plan_summary {
    size_t size;               /**< The caller sets it to sizeof(tarn_plan_summary). */
    uint64_t blocks;           /**< Blocks, which are the allocations of the work. */
    uint64_t operations;       /**< Allocations and frees. */
    uint64_t streams;          /**< Different streams that allocate or free. */
    uint64_t threads;          /**< Different threads that allocate. */
    uint64_t peak_live_bytes;  /**< Most bytes that were live at once, as requested. */
    uint64_t height_bytes;     /**< Bytes of addresses that the plan needs. */
    uint64_t lag_operations;   /**< The option of the same name. */
    uint64_t wait_price_bytes; /**< Price of a wait in bytes, in quanta of 512. */
    /** Allocations of memory that another stream freed last. */
    uint64_t handovers;
    /** Waits between streams that these need on a device that is `lag_operations` behind.
     *
     * A wait of a stream for another one covers all earlier frees of the other. */
    uint64_t waits;
} tarn_plan_summary;

/** The place of one block in a plan. */
typedef struct tarn_plan_block {
    size_t size; /**< The caller sets it to sizeof(tarn_plan_block). */
    uint64_t
        begin_operation; /**< Number of its allocation among all operations, from 0. */
    /** Number of its free; the number of all operations if it lives to the end. */
    uint64_t end_operation;
    uint64_t bytes;        /**< Its size, rounded up to a multiple of 512. */
    uint64_t offset_bytes; /**< Its address, from the begin of the range. */
    uint64_t stream; /**< Number of the stream that allocates it; UINT64_MAX: none. */
} tarn_plan_block;

/** What following a plan under a limit of physical memory costs. */
typedef struct tarn_plan_moves {
    size_t size;          /**< The caller sets it to sizeof(tarn_plan_moves). */
    uint64_t limit_bytes; /**< The limit, in whole pages. */
    uint64_t page_bytes;  /**< The unit that moves: 2 MiB, or more for large plans. */
    uint64_t pages;       /**< Times that a page moves to other addresses of the plan. */
    uint64_t allocations; /**< Allocations before which pages have to move. */
    uint64_t failures;    /**< Allocations for which no page was unused. */
} tarn_plan_moves;

/** Release a plan.
 *
 * Thread-safety: any thread, once no other uses the plan.
 *
 * @param plan the plan; NULL does nothing.
 * @since 0.2
 */
TARN_API void tarn_plan_release(tarn_plan *plan);

/** Copy the figures of a plan.
 *
 * Thread-safety: any thread.
 *
 * @param plan     the plan.
 * @param[out] out the figures; the caller sets `size`.
 * @return
 * - TARN_OK: the figures are copied.
 * - TARN_INVALID_ARGUMENT: `plan` or `out` is NULL, or `size` is wrong.
 * @since 0.2
 */
TARN_API tarn_status tarn_plan_summarize(const tarn_plan *plan, tarn_plan_summary *out);

/** Copy the place of one block.
 *
 * Thread-safety: any thread.
 *
 * @param plan     the plan.
 * @param index    number of the block, by its allocation, from 0.
 * @param[out] out the place; the caller sets `size`.
 * @return
 * - TARN_OK: the place is copied.
 * - TARN_INVALID_ARGUMENT: `plan` or `out` is NULL, `size` is wrong, or the plan has not so
 *   many blocks.
 * @since 0.2
 */
TARN_API tarn_status tarn_plan_get_block(const tarn_plan *plan, uint64_t index,
                                         tarn_plan_block *out);

/** Count the page moves that a plan needs under a limit of physical memory.
 *
 * The addresses of a plan can be more than the physical memory, as long as no more pages
 * are in use at once. A page whose blocks are freed then moves to where the next block
 * begins. The count moves the page that the plan needs again last.
 *
 * Thread-safety: any thread.
 *
 * @param plan        the plan.
 * @param limit_bytes physical memory in bytes; whole pages of it count.
 * @param[out] out    the figures; the caller sets `size`.
 * @return
 * - TARN_OK: the moves are counted.
 * - TARN_INVALID_ARGUMENT: `plan` or `out` is NULL, or `size` is wrong.
 * - TARN_OUT_OF_MEMORY: no host memory for the count.
 * @since 0.2
 */
TARN_API tarn_status tarn_plan_count_moves(const tarn_plan *plan, uint64_t limit_bytes,
                                           tarn_plan_moves *out);

/** Takes the bytes of a plan that is written.
 *
 * `data` is the pointer given to tarn_plan_write(). The function returns true if it took
 * all `count` bytes, which are valid during the call. On failure it returns false and
 * sets errno. */
typedef bool (*tarn_plan_write_fn)(void *data, const char *bytes, size_t count);

/** Supplies the bytes of a plan that is read.
 *
 * `data` is the pointer given to tarn_plan_read(). The function copies up to `capacity`
 * bytes into `buffer` and returns their number. It returns 0 at the end. It returns -1 on
 * failure, and errno then tells the reason. */
typedef long (*tarn_plan_read_fn)(void *data, char *buffer, size_t capacity);

/** Write a plan in Tarn's file format.
 *
 * Thread-safety: any thread; it calls `write` on the calling thread, with no lock held.
 *
 * @param plan  the plan.
 * @param name  name of the file for messages; borrowed for the call.
 * @param write receives the bytes.
 * @param data  passed to `write`.
 * @return
 * - TARN_OK: all bytes were written.
 * - TARN_INVALID_ARGUMENT: `plan`, `name` or `write` is NULL.
 * - TARN_OUT_OF_MEMORY: no host memory for a buffer.
 * - TARN_SYSTEM_FAILURE: `write` failed.
 * @since 0.2
 */
TARN_API tarn_status tarn_plan_write(const tarn_plan *plan, const char *name,
                                     tarn_plan_write_fn write, void *data);

/** Read a plan in Tarn's file format, and check it.
 *
 * The call needs about 100 bytes of host memory for each block, and keeps 28 of them.
 *
 * Thread-safety: any thread; it calls `read` on the calling thread, with no lock held.
 *
 * @param name name of the file for messages; borrowed for the call.
 * @param read supplies the bytes.
 * @param data passed to `read`.
 * @param[out] out the plan, which the caller releases with tarn_plan_release().
 * @return
 * - TARN_OK: the plan is valid.
 * - TARN_INVALID_ARGUMENT: `name`, `read` or `out` is NULL.
 * - TARN_NOT_SUPPORTED: another version of Tarn wrote the plan.
 * - TARN_BAD_FORMAT: the file is no plan, it is truncated or damaged, or two blocks share
 *   memory at the same time.
 * - TARN_OUT_OF_MEMORY: no host memory for the plan.
 * - TARN_SYSTEM_FAILURE: `read` failed.
 * @since 0.2
 */
TARN_API tarn_status tarn_plan_read(const char *name, tarn_plan_read_fn read, void *data,
                                    tarn_plan **out);

/** @} */

TARN_END_DECLS
#endif
