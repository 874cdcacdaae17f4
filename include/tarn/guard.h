/* guard.h -- guard mode: finds writes outside of blocks, writes into freed blocks, and
 * second frees.
 *
 * A checker such as compute-sanitizer sees the memory of a pool as one allocation. A write
 * from one block into the next one is no error for it. Guard mode finds such writes. It
 * needs no tool and no kernel: it fills and copies memory with calls of the driver, in the
 * order of the program's streams.
 *
 * | Item       | Effect                                                                |
 * |------------|-----------------------------------------------------------------------|
 * | guard      | Red zones before and behind each block, checked at its free.          |
 * | poison     | A freed block is filled with TARN_GUARD_POISON_BYTE on its stream.    |
 * | quarantine | A freed block is reused later. Writes to it are found at that time,   |
 * |            | and so is a second free.                                              |
 *
 * There are two ways to switch it on:
 *
 *   - For the process: the environment variable TARN_POOL_DEBUG, or tarn_guard_enable().
 *     It applies to all resources. The program keeps its resources as they are.
 *   - For one resource: tarn_guard_create(), an adaptor.
 *
 * A free queues the copies of the red zones. The host compares them once the stream has
 * got there. So a report appears in a later call on the same guard: an allocation, a free,
 * tarn_guard_check(), or exit. Calls do not wait for the program's work, but for two
 * cases: an allocation would fail for lack of memory, or many blocks were freed without a
 * stream. An allocation without a stream waits for the fill of its red zones.
 *
 * With `sample` most guarded blocks are slots that the guard keeps. Freed slots are checked
 * many at a time, so that a report may appear later: at the latest in tarn_guard_check(), in
 * a trim, at the release of the resource, or at exit.
 *
 * Some blocks have no guard: see docs/guard.md. They are counted in
 * tarn_guard_counts.
 */
#ifndef TARN_GUARD_H
#define TARN_GUARD_H

#include <tarn/resource.h>
#include <tarn/stack.h>

TARN_BEGIN_DECLS

/** @addtogroup tarn_guard
 * @{ */

/** The byte that fills red zones. */
#define TARN_GUARD_ZONE_BYTE 0xFBu
/** The byte that fills freed blocks. */
#define TARN_GUARD_POISON_BYTE 0xDEu

/** What guard mode does; zeros select the defaults. */
typedef struct tarn_guard_options {
    size_t size; /**< sizeof(tarn_guard_options). */
    bool guard;  /**< Put red zones around blocks. */
    bool poison; /**< Fill freed blocks. */
    bool aborts; /**< Abort the process after the first report. */
    /** Bytes of freed blocks that wait for their reuse; 0: none.
     *
     * Red zones count. With `poison` the end of the wait checks the first and the last
     * 32 KiB of a block, or all of a block of up to 64 KiB. */
    uint64_t quarantine_bytes;
    /** Least size of a red zone, 256 bytes to 1 MiB; 0: 512 bytes.
     *
     * The zone before a block has up to 511 bytes more, the one behind it up to 255. */
    size_t zone_bytes;
    /** Guard one block of so many, chosen at random; 0 and 1: each block.
     *
     * All items apply to the chosen blocks alone. */
    uint64_t sample;
    /** Most frames of the call stacks in reports, up to TARN_STACK_DEPTH_MAX.
     *
     * 0: 16. With `sample` it is 16 frames of Python, or else the caller alone. */
    unsigned stack_depth;
} tarn_guard_options;

/** What a report is about. */
typedef enum tarn_guard_damage {
    TARN_GUARD_BEFORE = 1,     /**< Bytes before the block were written. */
    TARN_GUARD_BEHIND = 2,     /**< Bytes behind the block were written. */
    TARN_GUARD_AFTER_FREE = 3, /**< A freed block was written. */
    TARN_GUARD_FREED_TWICE = 4 /**< A freed block was freed again. */
} tarn_guard_damage;

/** A report: one misuse of one block. */
typedef struct tarn_guard_report {
    size_t size;              /**< sizeof(tarn_guard_report), in the library's version. */
    tarn_guard_damage damage; /**< What was found. */
    const char *resource;     /**< Name of the resource. */
    int device;               /**< Its device. */
    tarn_device_ptr address;  /**< Address of the block. */
    size_t bytes;             /**< Its requested bytes. */
    /** First offset from `address` that was written; negative before the block.
     *
     * 0 for TARN_GUARD_FREED_TWICE. */
    int64_t first;
    int64_t last;            /**< Last offset that was written. */
    size_t changed;          /**< Number of bytes that differ from the fill. */
    size_t found_count;      /**< Number of bytes in `found`. */
    unsigned char found[16]; /**< The bytes at the offset `first` and behind it. */
    uint64_t allocated_on;   /**< Stream of the allocation, as its CUstream. */
    uint64_t freed_on;       /**< Stream of the free; all bits set: none was named. */
    bool is_freed;           /**< The block has been freed. */
    tarn_stack allocation;   /**< Call stack of the allocation. */
    tarn_stack free;         /**< Call stack of the free. */
    tarn_stack again;        /**< Call stack of a second free. */
} tarn_guard_report;

/**
 * Receives a report: the type of a report handler.
 *
 * Tarn calls it on the thread that compared the bytes, with no lock held. It must not
 * allocate or free on a guarded resource. It has to return.
 *
 * @param data   The argument of tarn_guard_set_handler().
 * @param report The report; borrowed.
 */
typedef void (*tarn_guard_handler)(void *data, const tarn_guard_report *report);

/** Counts of a guard since its creation. */
typedef struct tarn_guard_counts {
    size_t size;        /**< sizeof(tarn_guard_counts). */
    uint64_t guarded;   /**< Allocations with a guard. */
    uint64_t unguarded; /**< Allocations that could get none: see docs/guard.md. */
    uint64_t checks;    /**< Checks that were compared. */
    uint64_t unchecked; /**< Checks of guarded blocks that were not possible. */
    uint64_t pending;   /**< Checks that wait for the device. */
    uint64_t reports;   /**< Reports. */
    uint64_t quarantined_blocks; /**< Freed blocks that wait for their reuse. */
    uint64_t quarantined_bytes;  /**< Their bytes, with red zones. */
} tarn_guard_counts;

/**
 * Read options from a text, as TARN_POOL_DEBUG has them.
 *
 * The text is a list of items with commas between them:
 * - `guard`, or `guard=1/N` for one block of N
 * - `poison`
 * - `quarantine`, 64 MiB, or `quarantine=SIZE`
 * - `zone=SIZE`: the size of a red zone
 * - `stacks=N`: frames of a call stack
 * - `abort`
 *
 * SIZE is a number of bytes, or a number with KiB, MiB or GiB. One of the first three
 * items is required. An empty text has none and is an error.
 *
 * Thread-safety: any thread.
 *
 * @param text     The text.
 * @param[out] out The options; unchanged on failure.
 * @return
 * - TARN_OK: `*out` is set.
 * - TARN_INVALID_ARGUMENT: an argument is NULL, or an item is wrong. The message has it.
 * @since 0.2
 */
TARN_API tarn_status tarn_guard_parse(const char *text, tarn_guard_options *out);

/**
 * Switch guard mode on for all resources of the process.
 *
 * It applies to the blocks that are allocated from now on, and lasts until the process
 * ends. The outermost call counts: the upstream of a pool or of an adaptor has no guard of
 * its own.
 *
 * Thread-safety: any thread.
 *
 * @param options The options; NULL: `guard,poison,quarantine`.
 * @return
 * - TARN_OK: guard mode is on.
 * - TARN_ALREADY_SET: it was on, by the environment or by an earlier call.
 * - TARN_INVALID_ARGUMENT: an option is out of its range, or selects nothing.
 * - TARN_OUT_OF_MEMORY: host memory is exhausted.
 * @since 0.2
 */
TARN_API tarn_status tarn_guard_enable(const tarn_guard_options *options);

/**
 * Create a guard: a resource with guard mode over another one.
 *
 * Its last release waits for the device, if checks are pending, and reports what they
 * find.
 *
 * Thread-safety: any thread.
 *
 * @param upstream The resource beneath; retained.
 * @param options  The options; NULL: `guard,poison,quarantine`.
 * @param[out] out The guard; the caller owns a reference.
 * @return
 * - TARN_OK: the guard exists.
 * - TARN_INVALID_ARGUMENT: `upstream` or `out` is NULL, an option is out of its range or
 *   selects nothing, or the stack of resources exceeds TARN_RESOURCE_DEPTH_MAX.
 * - TARN_OUT_OF_MEMORY: host memory is exhausted.
 * @since 0.2
 */
TARN_API tarn_status tarn_guard_create(tarn_resource *upstream,
                                       const tarn_guard_options *options,
                                       tarn_resource **out);

/**
 * Check all blocks of a guard now: live blocks, freed ones, and those in quarantine.
 *
 * The call waits until the device has done all queued work. Blocks in quarantine stay
 * there, but for freed slots of samples, which are free again.
 *
 * Thread-safety: any thread. Frees of other threads wait while live blocks are checked.
 *
 * @param guard            A resource of tarn_guard_create(); borrowed. NULL: the guard of
 *                         the process.
 * @param[out] reports_out Number of all reports of the guard; may be NULL.
 * @return
 * - TARN_OK: all pending reports have been made.
 * - TARN_INVALID_ARGUMENT: `guard` is no guard.
 * - TARN_NOT_FOUND: `guard` is NULL, and guard mode is off for the process.
 * - TARN_DRIVER_FAILURE: a driver call failed, and some blocks may be unchecked.
 * @since 0.2
 */
TARN_API tarn_status tarn_guard_check(tarn_resource *guard, uint64_t *reports_out);

/**
 * Read the counts of a guard.
 *
 * Thread-safety: any thread.
 *
 * @param guard    A resource of tarn_guard_create(); borrowed. NULL: the guard of the
 *                 process.
 * @param[out] out The counts; the caller sets `out->size` first.
 * @return
 * - TARN_OK: `*out` is set.
 * - TARN_INVALID_ARGUMENT: `guard` is no guard, `out` is NULL, or its size is unknown.
 * - TARN_NOT_FOUND: `guard` is NULL, and guard mode is off for the process.
 * @since 0.2
 */
TARN_API tarn_status tarn_guard_read_counts(tarn_resource *guard, tarn_guard_counts *out);

/**
 * Set the handler of the reports of all guards.
 *
 * Before the first call each report is printed on stderr. The call waits until no other
 * thread runs the previous handler.
 *
 * Thread-safety: any thread.
 *
 * @param handler The handler; NULL prints reports on stderr.
 * @param data    Passed to each call of the handler; borrowed until another one is set.
 * @since 0.2
 */
TARN_API void tarn_guard_set_handler(tarn_guard_handler handler, void *data);

/**
 * Print a report with its call stacks.
 *
 * Thread-safety: any thread.
 *
 * @param report The report.
 * @param out    The stream to print to; not NULL.
 * @since 0.2
 */
TARN_API void tarn_guard_report_print(const tarn_guard_report *report, FILE *out);

/** @} */

TARN_END_DECLS
#endif
