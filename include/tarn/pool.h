/* pool.h -- the pool: one heap for all streams of a device, with statistics and reports.
 *
 * A pool is a resource (resource.h). tarn_resource_allocate(), tarn_resource_deallocate()
 * and tarn_resource_release() work on it as on any other resource. The calls of this
 * header take the same resource. They return TARN_INVALID_ARGUMENT for a resource that is
 * neither a pool nor a slab. A slab (tarn_slab_create()) is a pool whose blocks all have
 * one size.
 *
 * Reuse. The pool can reuse a block that was freed on a stream:
 *
 *   on the same stream   immediately
 *   on another stream    without a wait, once the device has done the work that was
 *                        queued before the free
 *   on another stream    earlier, with a wait: the pool lets that stream wait for this
 *                        work (cuStreamWaitEvent)
 *
 * The options decide between a wait and growth of the pool.
 *
 * Order. Only work on the stream of the free counts as queued before the free. The
 * program keeps these rules:
 *
 *   - A stream that did not allocate a block waits for the stream that did, before its
 *     first use of the block (resource.h).
 *   - Before a free, the stream of the free waits for every other stream that uses the
 *     block. Or the program frees the block on the stream that used it last.
 *   - A block that is allocated and freed with TARN_STREAM_NONE needs neither wait,
 *     unless the pool has TARN_POOL_NO_STREAM_SINGLE.
 *
 * Reset. A reset of the device's primary context (cuDevicePrimaryCtxReset) makes a
 * pool unusable. The next call that needs the driver detects the reset. From then on:
 *
 *   - Allocations return TARN_DRIVER_FAILURE.
 *   - Frees return TARN_OK, and no block is live. tarn_pool_get_statistics() keeps its
 *     figures of live blocks from before the reset.
 *   - Releasing the pool returns the memory that outlives the reset: physical memory and
 *     addresses of VMM, and memory of the driver's pools.
 *   - A pool with an upstream deallocates each of its blocks there, as at any release.
 *     Memory of cuMemAlloc ended with the context. The resource of tarn_cuda_create()
 *     then makes no driver call for it.
 *
 * VMM is the driver's virtual memory management (cuMemCreate, cuMemMap). A page is 2 MiB,
 * the granularity of its physical memory. Exit has begun when exit() has called the
 * handler that Tarn registered with atexit() when the process opened the driver.
 *
 * docs/benchmarks.md#aims has the figures that a pool is to have, such as reserved bytes
 * by live bytes, and tells which are met.
 *
 * docs/glossary.md defines these terms of Tarn:
 *
 *   - memory: allocation quantum, reserved bytes, upstream, physical handle, segment,
 *     compaction, suspended pool
 *   - streams: raw stream, registered stream, no-stream free, event fence, steal,
 *     stream state
 *   - free memory: deferred memory, orphaned memory, thread cache, block in transit
 */
#ifndef TARN_POOL_H
#define TARN_POOL_H

#include <tarn/plan.h>
#include <tarn/resource.h>

TARN_BEGIN_DECLS

/** @addtogroup tarn_pool
 * @{ */

/** Selects whether a pool may wait for the whole device before it reports out of memory.
 *
 * tarn_resource_trim() follows the same policy if the pool has free memory without an
 * event fence. */
typedef enum tarn_pool_oom_policy {
    /** Wait until the device has done all queued work.
     *
     * Afterwards every stream can use every free block, except the memory of captured
     * graphs. The wait invalidates no capture: the pool makes it in relaxed capture mode
     * (cuThreadExchangeStreamCaptureMode) and restores the mode of the thread. Launches
     * of other threads wait meanwhile.
     *
     * The wait also completes orphaned memory, which no event covers. It has three kinds:
     *
     *   - free memory of a raw stream that the program destroyed shortly after the free
     *   - free memory of a raw stream, or of the legacy stream, that has freed nothing
     *     during the last 128 frees of the pool; frees into thread caches do not count
     *   - free memory of a capture that streams outside of it used (tarn_pool_capture)
     *
     * A registered stream leaves no orphaned memory, unless the program unregisters it while
     * it captures. Once `max(64 MiB, peak_allocated / 2)` bytes are orphaned, an allocation
     * waits for the device instead of growing the pool.
     */
    TARN_POOL_OOM_SYNCHRONIZE = 0,
    /** Make no device-wide wait for orphaned memory: fail instead.
     *
     * Orphaned memory stays unusable and counts as `unfenced`. The pool still waits for
     * deferred memory: memory that was freed with TARN_STREAM_NONE. If that wait is
     * device-wide, it completes orphaned memory, too. */
    TARN_POOL_OOM_FAIL = 1
} tarn_pool_oom_policy;

/** The allocation quantum in bytes.
 *
 * An allocation takes a multiple of it from a pool, and a whole block from a slab. */
#define TARN_POOL_QUANTUM ((size_t)512)

/** Selects the result of an allocation from a suspended pool. */
typedef enum tarn_pool_suspended_policy {
    TARN_POOL_SUSPENDED_FAIL = 0,  /**< Fail with TARN_SUSPENDED. */
    TARN_POOL_SUSPENDED_RESUME = 1 /**< Resume the pool, then allocate. */
} tarn_pool_suspended_policy;

/** Selects when a pool reuses memory that was freed with TARN_STREAM_NONE.
 *
 * Queued work of any stream may still use such memory. The pool therefore defers its
 * reuse, and the memory is called deferred memory. The deferred frees of
 * tarn_pointer_deferred_count() are something else. */
typedef enum tarn_pool_no_stream_policy {
    /** Defer reuse until a device-wide wait.
     *
     * The pool waits by cuMemAlloc and cuMemFree, in relaxed capture mode. So the wait
     * invalidates no capture. The thread that needs the memory waits until the device is
     * idle. Launches of other threads wait meanwhile. */
    TARN_POOL_NO_STREAM_SYNCHRONIZE = 0,
    /** Defer reuse until an event that covers all work of the context is complete.
     *
     * The pool records the event (cuCtxRecordEvent, CUDA 12.5) when the deferred bytes
     * reach half of `no_stream_limit_bytes`. Usually the event is complete when the
     * memory is needed, so no thread waits. Before that a stream can already reuse the
     * memory: the pool lets it wait for the event.
     *
     * Recording the event invalidates every capture in the context. While the pool
     * detects one of these captures, it uses the device-wide wait instead:
     *
     *   - a capture on a registered stream that the program has announced with
     *     tarn_stream_announce_capture()
     *   - a capture on a blocking stream (created without CU_STREAM_NON_BLOCKING)
     *   - a capture whose graph has memory of this pool
     *
     * The pool cannot detect a capture on another non-blocking stream. Recording the
     * event invalidates that capture. */
    TARN_POOL_NO_STREAM_EVENT = 1,
    /** Reuse immediately: TARN_STREAM_NONE means the legacy default stream.
     *
     * The program promises that all its work is on one stream, or ordered as if it were
     * on one. */
    TARN_POOL_NO_STREAM_SINGLE = 2
} tarn_pool_no_stream_policy;

/** How a pool weighs reserved memory against time. */
typedef enum tarn_pool_policy {
    /** Balance both: physical handles have at most 32 MiB, and at most a 32nd of the pool
     * is unfenced. */
    TARN_POOL_POLICY_DEFAULT = 0,
    /** Reserve little more than the live bytes: physical handles have at most 4 MiB, and at
     * most a 64th of the pool is unfenced.
     *
     * Growth and compaction take several times as long. */
    TARN_POOL_POLICY_TIGHT = 1
} tarn_pool_policy;

/** Whether a pool moves or returns memory by itself.
 *
 * @since 0.2 */
typedef enum tarn_pool_moves {
    /** Move free memory to where an allocation needs it, and return idle memory before an
     * allocation fails. */
    TARN_POOL_MOVES_DEFAULT = 0,
    /** Keep all memory at its addresses, for programs that register it elsewhere.
     *
     * UCX, NCCL and RDMA verbs register addresses with a device. The registration becomes
     * invalid when other physical memory is mapped there. With this value the pool unmaps
     * memory in these calls only:
     *
     *   - tarn_resource_trim()
     *   - tarn_pool_set_maximum(), if the pool exceeds the new maximum
     *   - tarn_pool_suspend(); tarn_pool_resume() then maps other memory
     *   - the last tarn_resource_release()
     *
     * Deregister the memory of the pool before such a call. Other consequences are:
     *
     *   - The pool reserves more memory, since it grows where it would move.
     *   - An allocation can fail where TARN_POOL_MOVES_DEFAULT finds memory.
     *   - A `release_threshold_bytes` is rejected.
     *   - Frees after tarn_pool_set_maximum() return no memory. */
    TARN_POOL_MOVES_NEVER = 1
} tarn_pool_moves;

/** Options of a pool; zeros are the defaults. */
typedef struct tarn_pool_options {
    size_t size; /**< Size of this struct in bytes: sizeof(tarn_pool_options). */
    /** Bytes to reserve at creation.
     *
     * The pool reserves no more than the whole pages that fit into `maximum_bytes`. With
     * an upstream and a maximum, it reserves segments whose sizes are powers of two. So
     * blocks whose size is a power of two can use all of the maximum. */
    size_t initial_bytes;
    /** Most bytes that the pool reserves; 0: no maximum.
     *
     * Memory of VMM comes in whole pages of 2 MiB. If the maximum is no multiple of
     * 2 MiB, the pool does not use the remainder. With an upstream the last segment may
     * be smaller than a page, so the pool can use all of the maximum. */
    size_t maximum_bytes;
    /** Fewest bytes by which the pool grows; 0: a step of 2 MiB to 256 MiB.
     *
     * The default step grows with the pool. A value over `maximum_bytes` is rejected if
     * there is a maximum. */
    size_t growth_bytes;
    /** Free bytes above which a free returns idle memory; 0: a free returns none for this
     * reason.
     *
     * Idle memory is a whole physical handle or a whole segment that is free and that no
     * queued work uses. It returns to the device or to the upstream.
     *
     * Whatever this option is, these calls return idle memory:
     *
     *   - tarn_resource_trim()
     *   - tarn_pool_set_maximum(), if the pool exceeds the new maximum
     *   - a free after that, while the pool still exceeds it
     *   - an allocation that otherwise finds no memory
     *
     * So does the thread of `background_thread`.
     *
     * 0 differs from the release threshold of the driver's pools
     * (CU_MEMPOOL_ATTR_RELEASE_THRESHOLD). There 0 keeps no free memory. */
    size_t release_threshold_bytes;
    /** true: grow first, and steal only if the pool cannot grow. false: steal first.
     *
     * A steal reuses memory that another stream freed, with a wait
     * (cuStreamWaitEvent). */
    bool grow_first;
    tarn_pool_oom_policy oom_policy; /**< Policy before the pool reports out of memory. */
    tarn_pool_suspended_policy suspended_policy; /**< Policy while it is suspended. */
    /** Bytes of deferred memory at which an allocation waits instead of growing.
     *
     * 0 selects the largest of `pool/8`, `min(16*request, maximum/512)`,
     * `min(64 MiB, maximum/32)` and 16 MiB. The names mean:
     *
     *   - `pool`: the reserved bytes of the pool
     *   - `request`: the bytes of the allocation, rounded up to the quantum
     *   - `maximum`: the smaller of the pool's maximum and the memory of the device */
    size_t no_stream_limit_bytes;
    tarn_pool_no_stream_policy no_stream_policy; /**< Policy for no-stream frees. */
    tarn_pool_policy policy; /**< Weight of reserved memory against time. */
    tarn_pool_moves moves;   /**< Whether memory may leave its addresses. */
    /** true: the pool has a background thread. false: it starts no thread.
     *
     * The thread does two things:
     *
     *   - While the peak of live bytes rises, it grows the pool ahead of demand. It keeps
     *     `max(reserved / 16, 64 MiB)` free. It does not do so with
     *     TARN_POOL_POLICY_TIGHT, and not once the pool has half of its maximum or of the
     *     device. The device has to keep twice the free memory named below.
     *   - While the device has less than `max(2 GiB, total / 10)` free, it returns idle
     *     memory to the device within a second, down to `initial_bytes`. Memory counts as
     *     idle if it was free for 250 ms. If no thread used the pool in this time, the
     *     thread may wait for the device, as `oom_policy` allows. With
     *     TARN_POOL_MOVES_NEVER it returns nothing.
     *
     * The first allocation that grows the pool starts the thread, and so does the first
     * one after tarn_pool_resume(). tarn_pool_suspend() and the last release of the pool
     * end it. A pool with an upstream, or without VMM, has no thread, nor has a forked
     * child. Where the system cannot create it, the pool works without it. Its calls
     * invalidate no capture.
     *
     * @since 0.2 */
    bool background_thread;
    /** Plan of the work, whose addresses the pool hands out; NULL: none.
     *
     * The pool copies what it needs, so the caller may release the plan. An allocation
     * gets the address of its slot in the plan if the pool may reuse that memory: it was
     * freed on the same stream, its last use is done, or the stream can wait for that.
     * All other allocations are served as without a plan.
     *
     * The n-th allocation of a thread on a stream is the n-th slot of a thread and a stream
     * in the plan. Both are numbered by their first allocation. Where sizes differ, the
     * pool looks for a slot of the size within 64 places, and then for the last eight
     * sizes. After the last slot it begins anew, and at each tarn_pool_mark_step().
     *
     * Thread caches keep no blocks meanwhile, but the last-freed one if the plan has its
     * addresses next. A plan that does not pay turns itself off: see
     * tarn_pool_plan_state. A pool with a plan uses VMM, and no upstream.
     *
     * @since 0.2 */
    const tarn_plan *plan;
    /** true: the pool makes plans of the steps that tarn_pool_mark_step() marks.
     *
     * A marked step is recorded in host memory, with at most 32 bytes for each allocation.
     * Its shape is the order of its sizes, streams and threads. When a shape comes again, a
     * thread of the pool lays it out, which takes about a second for 100,000 blocks. The
     * pool then follows the plan in each step of this shape, as it follows `plan`. Blocks
     * that live for more than a step are in no plan: they stay where they are. The mark
     * that begins with the first plan trims the pool, and so does one behind the last plan:
     * see tarn_resource_trim().
     *
     * A pool has plans for up to 8 shapes. A step of another shape uses the plan of the one
     * that requests the most bytes, where its blocks are smaller. A step of more than
     * 262,144 allocations is not planned.
     *
     * Learning ends after 64 steps in a row that were not repeated and used no plan, after
     * three plans that were not made or did not pay, or after two steps in a row without a
     * plan that had the pool reserve more than it did before: see tarn_pool_plan_state.
     * Then the pool is one without a plan, as it is before the first mark.
     *
     * A pool that learns uses VMM, no upstream and no `plan`. Where the system cannot
     * create the thread, nothing is planned. The last release of the pool waits for it.
     * A forked child has no such thread.
     *
     * @since 0.2 */
    bool learn;
    /** true: with `learn`, the pool finds the steps of a program that does not mark them.
     *
     * A step begins where few bytes are live, after more were. So the pool looks for an
     * allocation with few live bytes that comes again, with the same sizes between. From
     * the second equal step on it marks each one as tarn_pool_mark_step() does. This is a
     * guess: a mark of the program is exact. The first call of tarn_pool_mark_step() ends
     * the guesses.
     *
     * A step has at least 16 allocations. After 1,048,576 allocations in a row without an equal
     * step, learning ends. Thread caches keep no blocks meanwhile.
     *
     * @since 0.2 */
    bool detect_steps;
} tarn_pool_options;

/** Create a pool on `device`.
 *
 * Without an upstream the pool uses VMM memory in one range of addresses, where the
 * device supports VMM. Elsewhere it uses cuMemAlloc.
 *
 * An operation of the upstream may call the pool again while the pool calls that
 * operation:
 *
 *   - tarn_resource_deallocate() works.
 *   - tarn_resource_allocate() works if free memory of the pool serves the request. If
 *     the pool would have to grow, the call returns TARN_OUT_OF_MEMORY.
 *   - tarn_resource_trim() and tarn_pool_set_maximum() return TARN_REENTRANT_CALL.
 *
 * Thread-safety: any thread.
 *
 * @param device    number of the device
 * @param upstream  resource that the pool takes its memory from; the pool holds a
 *                  reference to it. NULL: the device
 * @param options   copied; NULL selects the defaults
 * @param[out] out  the pool, with one reference for the caller
 * @return
 * - TARN_OK: the pool is ready.
 * - TARN_INVALID_ARGUMENT: `device` does not exist, or `out` is NULL. The upstream is of
 *   another device. `initial_bytes` or `growth_bytes` is over `maximum_bytes`. A policy
 *   or `moves` has an unknown value. The plan needs more addresses than a pool of the device
 *   has. There is a plan, and `learn` is true. `detect_steps` is true, and `learn` is not.
 *   `moves` is TARN_POOL_MOVES_NEVER, and there is a `release_threshold_bytes`. `options` has a nonzero member that this version of Tarn does
 *   not know.
 * - TARN_OUT_OF_MEMORY: the initial memory or host memory is unavailable.
 * - TARN_NOT_SUPPORTED: `options` has a plan or `learn`, and the device has no VMM, or there is an
 *   upstream.
 * - Other statuses of the driver or of the upstream.
 * @since 0.1
 */
TARN_API tarn_status tarn_pool_create(int device, tarn_resource *upstream,
                                      const tarn_pool_options *options,
                                      tarn_resource **out);

/** Change the maximum of a pool.
 *
 * If the pool has reserved more than the new maximum, the call returns idle memory (see
 * `release_threshold_bytes`) immediately. Later frees return more, until the reserved
 * bytes are at most the maximum.
 *
 * Thread-safety: any thread.
 *
 * @param pool   a pool or a slab
 * @param bytes  new maximum in bytes; 0: no maximum
 * @return
 * - TARN_OK: the maximum has changed.
 * - TARN_INVALID_ARGUMENT: `bytes` is less than the live bytes, or `pool` is neither a
 *   pool nor a slab.
 * - TARN_REENTRANT_CALL: the pool is calling its upstream, and an operation of the
 *   upstream makes this call.
 * - TARN_DRIVER_FAILURE: the context was reset, exit has begun, or this is a forked
 *   child.
 * @since 0.2
 */
TARN_API tarn_status tarn_pool_set_maximum(tarn_resource *pool, size_t bytes);

/** Mark the begin of a step of the program, for a pool that follows or learns plans.
 *
 * The next allocation of each thread on each stream is the first of its slots again, and
 * threads and streams are numbered anew. With `learn` the call ends the step before, and
 * begins to record the next one. It starts the thread that lays a step out, and the pool
 * follows a finished plan from here on. A mark without an allocation since the last one
 * changes nothing. A pool with neither ignores the call.
 *
 * Thread-safety: any thread. Marks by several threads at once count as so many steps.
 *
 * @param pool  a pool or a slab
 * @return
 * - TARN_OK: the step has begun, or the pool neither has a plan nor learns.
 * - TARN_INVALID_ARGUMENT: `pool` is neither a pool nor a slab.
 * - TARN_DRIVER_FAILURE: exit has begun, or this is a forked child.
 * @since 0.2
 */
TARN_API tarn_status tarn_pool_mark_step(tarn_resource *pool);

/** @} */

/** @addtogroup tarn_pool_report
 * @{ */

/** What a pool does with its plan. @since 0.2 */
typedef enum tarn_pool_plan_state {
    TARN_POOL_PLAN_NONE,     /**< It has none. */
    TARN_POOL_PLAN_FOLLOWED, /**< It follows the plan. */
    /** It has turned the plan off, since less than 90 % of the bytes of two steps in a row
     * were planned. */
    TARN_POOL_PLAN_OFF_MISSED,
    /** It has turned the plan off, since it reserved more than a pool without a plan
     * would, in two steps in a row: more than 1.27 times the live bytes and 64 MiB. A pool
     * that learns: more than before its plans, and 2 % and 16 MiB. */
    TARN_POOL_PLAN_OFF_MEMORY,
    /** It learns, and has no plan yet, or none any more. */
    TARN_POOL_PLAN_LEARNING,
    /** It has ended learning: no step was repeated, or no plan could be made. */
    TARN_POOL_PLAN_OFF_UNREPEATED,
    /** It has ended learning: memory moved too often. In each of three times 32 steps it
     * made more driver calls for memory than a fifth of its allocations. */
    TARN_POOL_PLAN_OFF_MOVES
} tarn_pool_plan_state;

/** Length of the histogram of sizes in tarn_pool_statistics. */
enum {
    /** Number of classes.
     *
     * Class i counts allocations of 2^i to 2^(i+1)-1 requested bytes. The last class
     * also counts larger ones. */
    TARN_POOL_SIZE_CLASSES = 48
};

/** Statistics of a pool: bytes, unless a name or a comment says otherwise.
 *
 * `reserved` is `live + thread_cached + cached + captured`. While another thread grows the
 * pool or moves memory, it can be more. `unfenced` and
 * `no_stream_deferred` are parts of `cached`, and may overlap. `orphaned` is a part of
 * `unfenced`. */
typedef struct tarn_pool_statistics {
    size_t size;             /**< The caller sets it to sizeof(tarn_pool_statistics). */
    uint64_t live;           /**< Bytes in live blocks, as rounded by the pool. */
    uint64_t live_requested; /**< Bytes in live blocks, as requested. */
    uint64_t live_blocks;    /**< Number of live blocks. */
    /** Free bytes in thread caches: one thread reuses them on one stream. */
    uint64_t thread_cached;
    /** Free bytes outside of thread caches, for all threads; without `captured`.
     *
     * They are completed, reusable in the order of one stream, deferred or orphaned. */
    uint64_t cached;
    uint64_t unfenced;       /**< Bytes of `cached` that no event fence covers. */
    uint64_t captured;       /**< Free bytes that only captured graphs can use. */
    uint64_t reserved;       /**< Bytes of the pool: from upstream, or of VMM. */
    uint64_t suspended;      /**< Reserved bytes without physical memory at present. */
    uint64_t maximum;        /**< Maximum in bytes; UINT64_MAX: none. */
    uint64_t peak_allocated; /**< Highest sum of `live` and `thread_cached`. */
    uint64_t peak_reserved;  /**< Most bytes that were reserved at once. */
    /** Bytes of the largest block in `cached`.
     *
     * The number is an estimate: among more than 64 blocks of nearly one size, another
     * may be up to 1/32 larger. */
    uint64_t largest_free;
    /** Fragmentation: `1 - largest_free / cached`; 0 if nothing is cached. */
    double fragmentation;
    uint64_t allocations, /**< Number of allocations since the creation of the pool. */
        frees,            /**< Number of frees since the creation of the pool. */
        failures;         /**< Number of failed allocations since its creation. */
    /** Number of allocations from a thread cache (`thread_cached`, not `cached`). A thread
     * that frees fewer than one block in 10 us on a stream bypasses its cache of that
     * stream. */
    uint64_t cache_hits;
    /** Number of allocations that reused free memory of the same stream. */
    uint64_t same_stream;
    /** Number of allocations from completed memory: its last use is done. */
    uint64_t completed;
    /** Number of steals: allocations of another stream's memory, with a wait for it. */
    uint64_t steals;
    uint64_t grown;           /**< Number of allocations that grew the pool. */
    uint64_t stream_waits;    /**< Number of calls of cuStreamWaitEvent. */
    uint64_t events_recorded; /**< Number of calls of cuEventRecord, cuCtxRecordEvent. */
    uint64_t queries;         /**< Number of calls of cuEventQuery and cuStreamQuery. */
    uint64_t growths, /**< Number of times that the pool mapped or obtained memory. */
        shrinks,      /**< Number of times that the pool unmapped or returned memory. */
        moves;        /**< Number of times that compaction moved free memory. */
    uint64_t device_synchronizations; /**< Number of device-wide waits. */
    /** Number of driver calls that the pool has made, its creation included.
     *
     * `stream_waits`, `events_recorded` and `queries` are part of it. `growths`,
     * `shrinks`, `moves` and `device_synchronizations` count operations, and each
     * operation makes several calls. Growing by a handle takes four: cuMemCreate,
     * cuMemMap, cuMemRelease and cuMemSetAccess.
     *
     * Not counted are calls that the driver answers without its lock of the device:
     * cuStreamIsCapturing, cuStreamGetId, cuStreamGetCaptureInfo,
     * cuThreadExchangeStreamCaptureMode, and queries and changes of the current context.
     * Queries of the device's attributes are not counted either, nor are the calls of an
     * upstream. */
    uint64_t driver_calls;
    uint64_t streams;  /**< Number of stream states. */
    uint64_t metadata; /**< Bytes of host memory for the data structures of the pool. */
    /** Number of allocations by requested size, see TARN_POOL_SIZE_CLASSES. */
    uint64_t size_classes[TARN_POOL_SIZE_CLASSES];
    /** Bytes of deferred memory: frees with TARN_STREAM_NONE; a part of `cached`. */
    uint64_t no_stream_deferred;
    /** Bytes of orphaned memory; a part of `unfenced`.
     *
     * TARN_POOL_OOM_SYNCHRONIZE lists its kinds. */
    uint64_t orphaned;
    /** `peak_allocated` since the last tarn_pool_reset_peaks(). @since 0.2 */
    uint64_t recent_peak_allocated;
    /** `peak_reserved` since the last tarn_pool_reset_peaks(). @since 0.2 */
    uint64_t recent_peak_reserved;
    /** Number of allocations at an address of the plan. @since 0.2 */
    uint64_t planned;
    /** Number of allocations that were no slot of the plan, or whose addresses were in use;
     * since the pool follows it. @since 0.2 */
    uint64_t plan_missed;
    /** Number of times that the last eight sizes told the place in the plan. @since 0.2 */
    uint64_t plan_resynchronized;
    tarn_pool_plan_state plan_state; /**< What the pool does with its plan. @since 0.2 */
    /** Part of the bytes of the last step that used a plan, at addresses of that: 0 to 1.
     * @since 0.2 */
    double planned_share;
    /** Number of steps that a pool with `learn` recorded as a whole. @since 0.2 */
    uint64_t steps_learned;
    uint64_t plans_made; /**< Number of plans that it made of them. @since 0.2 */
    /** Number of plans that it does not follow, since the pool would reserve more than
     * without a plan, or did. Those with whose beginnings other work begins count, too.
     * @since 0.2 */
    uint64_t plans_worse;
} tarn_pool_statistics;

/** Fill `*out` with the statistics of a pool.
 *
 * The call fills as many bytes as `out->size` says. The numbers are exact while no other
 * call on the pool is under way. Otherwise they are of slightly different moments. Memory
 * by which another thread, or the pool's own, grows the pool counts as live meanwhile.
 *
 * Exit or a fork may have stopped another thread inside a call on the pool. Then
 * `captured`, `largest_free` and `orphaned` are 0.
 *
 * Thread-safety: any thread.
 *
 * @param pool      a pool or a slab
 * @param[out] out  the statistics; the caller sets `out->size` first
 * @return
 * - TARN_OK: `*out` is filled.
 * - TARN_INVALID_ARGUMENT: `pool` is neither a pool nor a slab, `out` is NULL, or
 *   `out->size` is not set.
 * @since 0.1
 */
TARN_API tarn_status tarn_pool_get_statistics(tarn_resource *pool,
                                              tarn_pool_statistics *out);

/** Restart the recent peaks of a pool at its present bytes.
 *
 * `recent_peak_allocated` becomes `live + thread_cached`, and `recent_peak_reserved`
 * becomes `reserved`. The peaks since the creation of the pool stay.
 *
 * Thread-safety: any thread.
 *
 * @param pool  a pool or a slab
 * @return
 * - TARN_OK: the recent peaks are reset.
 * - TARN_INVALID_ARGUMENT: `pool` is neither a pool nor a slab.
 * - TARN_DRIVER_FAILURE: exit has begun, or this is a forked child.
 * @since 0.2
 */
TARN_API tarn_status tarn_pool_reset_peaks(tarn_resource *pool);

/** The state of a pool when an allocation failed for lack of memory.
 *
 * `live` to `maximum` and `fragmentation` have the meanings of tarn_pool_statistics.
 * Three members mean something else there: `same_stream` and `completed` count
 * allocations, and `largest_free` is for any stream. */
typedef struct tarn_pool_oom_report {
    size_t size;        /**< The caller sets it to sizeof(tarn_pool_oom_report). */
    uint64_t requested; /**< Bytes that were requested. */
    uint64_t alignment; /**< Alignment that was requested, in bytes. */
    uint64_t live,      /**< Bytes in live blocks. */
        thread_cached,  /**< Free bytes in thread caches. */
        cached,         /**< Free bytes outside of thread caches. */
        unfenced,       /**< Bytes of `cached` that no event fence covers. */
        captured,       /**< Free bytes that only captured graphs can use. */
        reserved,       /**< Bytes taken from upstream, or mapped. */
        maximum;        /**< The maximum in bytes; UINT64_MAX: none. */
    /** Free bytes in the order of the request's stream; without a stream: deferred. */
    uint64_t same_stream;
    uint64_t other_streams; /**< The rest of `cached`: of other streams. */
    uint64_t completed;     /**< Free bytes that every stream could use. */
    /** Bytes of the largest free block that the request's stream could use. */
    uint64_t largest_free;
    uint64_t device_free,        /**< Free bytes of the device, as the driver reports. */
        device_total;            /**< All bytes of the device, as the driver reports. */
    unsigned attempts;           /**< Number of callback calls that returned true. */
    tarn_status upstream_status; /**< Result of the last attempt to grow. */
    char upstream_message[256];  /**< Error message of the last attempt to grow. */
    double fragmentation;        /**< Fragmentation, as in tarn_pool_statistics. */
} tarn_pool_oom_report;

/** Copy the report on the last pool allocation of this thread that found no memory.
 *
 * The call fills as many bytes as `out->size` says. Other failures make no report, such
 * as a request that exceeds the largest possible block, or TARN_SUSPENDED.
 *
 * Thread-safety: any thread. Each thread has a report of its own.
 *
 * @param[out] out  the report; the caller sets `out->size` first
 * @return
 * - TARN_OK: `*out` is filled.
 * - TARN_NOT_FOUND: this thread has no report. Each of its pool allocations found memory,
 *   or host memory for the report was unavailable.
 * - TARN_INVALID_ARGUMENT: `out` is NULL, or `out->size` is not set.
 * @since 0.2
 */
TARN_API tarn_status tarn_pool_last_oom_report(tarn_pool_oom_report *out);

/** Format a report as text of several lines.
 *
 * Thread-safety: any thread.
 *
 * @param report    the report to format
 * @param[out] out  the text, with a terminating zero; NULL is allowed if `capacity` is 0
 * @param capacity  size of `out` in bytes, the terminating zero included
 * @return length of the whole text in bytes, without the terminating zero, as snprintf
 * does
 * @since 0.2
 */
TARN_API size_t tarn_pool_oom_report_text(const tarn_pool_oom_report *report, char *out,
                                          size_t capacity);

/** @} */

/** @addtogroup tarn_pool
 * @{ */

/** Frees memory before an allocation fails: the type of an out-of-memory callback.
 *
 * `data` is the argument of tarn_pool_add_oom_callback(), `pool` the pool that has no
 * memory. `bytes` is the size of the request. The callback returns true if it freed
 * memory. Then the pool searches again.
 *
 * The pool calls it again if memory is still short. `attempt` counts these calls from 0.
 * After a call that returned false, the pool goes on with the next callback. One
 * allocation makes at most 16 calls. If it fails for lack of memory, it has called each
 * callback at least once.
 *
 * Calling rules:
 *
 *   - It runs on the thread that allocates. Several threads may run it simultaneously.
 *   - No lock of the pool is held. Every call on the pool is allowed, also the removal of
 *     this callback or of another one.
 *   - Allocations that the callback makes, from any pool, call no callback.
 *   - It has to return. Leaving it by longjmp(), by an exception or by the end of the
 *     thread is forbidden. */
typedef bool (*tarn_pool_oom_callback)(void *data, tarn_resource *pool, size_t bytes,
                                       unsigned attempt);

/** Add an out-of-memory callback to a pool.
 *
 * The pool calls it after the callbacks that were added before. Adding the same `call`
 * and `data` twice adds two callbacks, and each removal removes one of them.
 *
 * Thread-safety: any thread, also inside a callback.
 *
 * @param pool  a pool or a slab
 * @param call  the callback; not NULL
 * @param data  first argument of the callback; borrowed until the callback is removed
 * @return
 * - TARN_OK: the callback is added.
 * - TARN_INVALID_ARGUMENT: `pool` is neither a pool nor a slab, or `call` is NULL.
 * - TARN_LIMIT_REACHED: the pool has 8 callbacks already.
 * - TARN_OUT_OF_MEMORY: host memory is unavailable.
 * - TARN_DRIVER_FAILURE: exit has begun, or this is a forked child.
 * @since 0.2
 */
TARN_API tarn_status tarn_pool_add_oom_callback(tarn_resource *pool,
                                                tarn_pool_oom_callback call, void *data);

/** Remove an out-of-memory callback from a pool.
 *
 * The call waits until no other thread runs the callback. Afterwards the pool does not
 * call it, and the caller may free `data`. The caller must not hold a lock that the
 * callback needs to return.
 *
 * If the same `call` and `data` were added several times, the call removes one of these
 * callbacks. It is the one that this thread runs, or else the one that was added first.
 *
 * A callback may remove itself. The call then does not wait for the callback to end. Two
 * callbacks that remove each other on two threads deadlock.
 *
 * Once exit has begun, and in a forked child, the pool calls no callback. Then this call
 * does not wait, does not look for the callback, and returns TARN_OK.
 *
 * Thread-safety: any thread, also inside a callback.
 *
 * @param pool  a pool or a slab
 * @param call  the callback
 * @param data  its first argument, as it was added
 * @return
 * - TARN_OK: the callback is removed. Or exit has begun, or this is a forked child.
 * - TARN_NOT_FOUND: the pool has no such callback.
 * - TARN_INVALID_ARGUMENT: `pool` is neither a pool nor a slab.
 * @since 0.2
 */
TARN_API tarn_status tarn_pool_remove_oom_callback(tarn_resource *pool,
                                                   tarn_pool_oom_callback call,
                                                   void *data);

/** @} */

/** @addtogroup tarn_pool_report
 * @{ */

/** State of a block in a snapshot. */
typedef enum tarn_pool_block_state {
    TARN_POOL_LIVE = 0,      /**< Allocated. */
    TARN_POOL_THREAD_CACHED, /**< In a thread cache. */
    TARN_POOL_COMPLETED,     /**< Free for every stream. */
    /** Free, and an event fence covers it.
     *
     * The stream of the free can use it immediately, another stream with a wait for the
     * event. Deferred memory has this state once its event is recorded: every stream can
     * use it with a wait. */
    TARN_POOL_FENCED,
    /** Free, and no event fence covers it.
     *
     * Only the stream of the free can use it. No stream can use it if it is deferred or
     * belongs to a destroyed stream. */
    TARN_POOL_UNFENCED,
    TARN_POOL_CAPTURED, /**< Free, but only a captured graph can use it. */
    TARN_POOL_UNMAPPED, /**< Addresses at which the pool has no memory. */
    /** A call is changing the block, or the block changed during the snapshot. */
    TARN_POOL_IN_TRANSIT
} tarn_pool_block_state;

/** One block of a snapshot. */
typedef struct tarn_pool_block {
    tarn_device_ptr address;     /**< First address of the block. */
    size_t bytes;                /**< Size in bytes, as rounded by the pool. */
    size_t requested_bytes;      /**< Size as requested, for a live block; else 0. */
    tarn_pool_block_state state; /**< State of the block. */
    /** The cuStreamGetId() of the stream in whose order the block is free; 0: none.
     *
     * For the legacy default stream, and for a stream of a capture, the pool uses a
     * number of its own: at least 2^63. */
    uint64_t stream_id;
    tarn_device_ptr segment; /**< First address of the block's segment. */
} tarn_pool_block;

/** Receives one block of a snapshot: the type of a visitor.
 *
 * `data` is the argument of tarn_pool_snapshot(). `block` is valid during the call. The
 * visitor returns false to end the walk. It runs on the thread of the snapshot, once for
 * each block, in the order of addresses. No lock is held, so every call on the pool is
 * allowed. Leaving it by longjmp(), by an exception or by the end of the thread is
 * forbidden. */
typedef bool (*tarn_pool_block_fn)(void *data, const tarn_pool_block *block);

/** Copy the list of all blocks of a pool, then visit the copy.
 *
 * A pool of at most 1,024 blocks in fewer than 64 segments is copied at once, so the copy
 * shows one moment. The call copies a larger pool part by part. Other threads may change
 * the pool between the parts. Even then the copy keeps these rules:
 *
 *   - A block that is live throughout the call is visited once.
 *   - Visited blocks do not overlap.
 *   - In a segment that exists throughout the call, there are no gaps between blocks.
 *   - A block may be created across the border of two parts, after the first one was
 *     copied. The visitor then gets the part of it behind the border, as
 *     TARN_POOL_IN_TRANSIT.
 *
 * Thread-safety: any thread.
 *
 * @param pool   a pool or a slab
 * @param visit  called for each block; not NULL
 * @param data   first argument of `visit`
 * @return
 * - TARN_OK: all blocks were visited, or `visit` ended the walk.
 * - TARN_INVALID_ARGUMENT: `pool` is neither a pool nor a slab, or `visit` is NULL.
 * - TARN_OUT_OF_MEMORY: host memory for the copy is unavailable. No block was visited.
 * - TARN_DRIVER_FAILURE: exit has begun, or this is a forked child.
 * @since 0.1
 */
TARN_API tarn_status tarn_pool_snapshot(tarn_resource *pool, tarn_pool_block_fn visit,
                                        void *data);

/** @} */

/** @addtogroup tarn_pool
 * @{ */

/** Selects whether a suspended pool keeps the contents of live blocks. */
typedef enum tarn_pool_suspend_mode {
    TARN_POOL_SUSPEND_DISCARD = 0, /**< Discard the contents. */
    TARN_POOL_SUSPEND_KEEP = 1     /**< Keep the contents in page-locked host memory. */
} tarn_pool_suspend_mode;

/** Suspend a pool: return its physical memory and keep its addresses.
 *
 * Other allocators call this sleep mode. The call waits for the device. Live blocks keep
 * their addresses. The program must not use them before tarn_pool_resume(). On failure
 * the pool is not suspended, and nothing has changed. Suspending a suspended pool has no
 * effect.
 *
 * Thread-safety: any thread.
 *
 * @param pool  a pool or a slab
 * @param mode  discard or keep the contents of live blocks
 * @return
 * - TARN_OK: the pool is suspended.
 * - TARN_INVALID_ARGUMENT: `pool` is neither a pool nor a slab, or `mode` is unknown.
 * - TARN_NOT_SUPPORTED: the pool does not use VMM.
 * - TARN_OUT_OF_MEMORY: host memory for the contents or for a list is unavailable.
 * - TARN_DRIVER_FAILURE: a driver call failed, or the context was reset. Or exit has
 *   begun, or this is a forked child.
 * @since 0.2
 */
TARN_API tarn_status tarn_pool_suspend(tarn_resource *pool, tarn_pool_suspend_mode mode);

/** Resume a suspended pool: obtain its physical memory again, at the same addresses.
 *
 * On failure the pool stays suspended. Resuming a pool that is not suspended has no
 * effect.
 *
 * Thread-safety: any thread.
 *
 * @param pool  a pool or a slab
 * @return
 * - TARN_OK: the pool has all its memory.
 * - TARN_INVALID_ARGUMENT: `pool` is neither a pool nor a slab.
 * - TARN_NOT_SUPPORTED: the pool does not use VMM.
 * - TARN_OUT_OF_MEMORY: the device has too little free memory at present.
 * - TARN_DRIVER_FAILURE: a driver call failed, or the context was reset. Or exit has
 *   begun, or this is a forked child.
 * @since 0.2
 */
TARN_API tarn_status tarn_pool_resume(tarn_resource *pool);

/** Return how often the pool has unmapped physical memory from its addresses.
 *
 * This number is the generation of the pool. These calls increase it, if they unmap or
 * return memory:
 *
 *   - tarn_resource_trim(), tarn_pool_set_maximum() and tarn_pool_suspend()
 *   - a free, above `release_threshold_bytes` or after the maximum was lowered
 *   - an allocation that moves free memory (compaction), or that returns idle memory to
 *     obtain other memory
 *
 * The thread of `background_thread` increases it, too, when it returns memory.
 *
 * A program may share memory of the pool with another process by a handle, such as a
 * plain handle (ipc.h). Such a handle is valid for one generation of the pool only. The
 * context generation is another number: tarn_context_generation().
 *
 * Thread-safety: any thread.
 *
 * @param pool      a pool or a slab
 * @param[out] out  the generation of the pool
 * @return
 * - TARN_OK: `*out` is set.
 * - TARN_INVALID_ARGUMENT: `pool` is neither a pool nor a slab, or `out` is NULL.
 * @since 0.1
 */
TARN_API tarn_status tarn_pool_generation(tarn_resource *pool, uint64_t *out);

/** Allow or forbid another device to use the memory of a pool.
 *
 * The setting covers all memory of the pool, present and future. Set it before the pool
 * is used. The driver of an H200 rejects access of a peer to memory that compaction has
 * moved. The call then returns TARN_DRIVER_FAILURE and changes nothing.
 *
 * Thread-safety: any thread.
 *
 * @param pool    a pool or a slab
 * @param peer    number of the other device
 * @param access  true: the peer reads and writes the memory; false: it has no access
 * @return
 * - TARN_OK: the setting is in force.
 * - TARN_INVALID_ARGUMENT: `pool` is neither a pool nor a slab, `peer` does not exist, or
 *   `peer` is the device of the pool.
 * - TARN_NOT_SUPPORTED: the pool does not use VMM, or the devices cannot reach each
 *   other.
 * - TARN_DRIVER_FAILURE: a driver call failed, or the context was reset. Or exit has
 *   begun, or this is a forked child.
 * @since 0.2
 */
TARN_API tarn_status tarn_pool_set_peer_access(tarn_resource *pool, int peer,
                                               bool access);

/** @} */

/** @addtogroup tarn_pool_graph
 * @{ */

/** A capture object: the memory of one captured graph; opaque and reference-counted.
 *
 * It consists of the blocks that were allocated or freed on the streams of one capture.
 * The free blocks among them stay with the graph until the first of these:
 *
 *   - tarn_pool_capture_release() drops the last reference. The blocks then are free in
 *     the order of its stream.
 *   - The driver has destroyed the graph and all executable graphs of it, and no
 *     tarn_pool_capture_hold() prevents it. The blocks then are free for every stream. The
 *     pool notices this at a later call.
 *   - The pool is destroyed.
 *
 * In the first two cases, blocks that streams outside of the capture used become orphaned
 * memory instead. Live blocks stay live. */
typedef struct tarn_pool_capture tarn_pool_capture;

/** Return the capture object of the capture that is active on `stream`.
 *
 * Thread-safety: any thread.
 *
 * @param pool      a pool or a slab
 * @param stream    a stream that captures
 * @param[out] out  the capture object, with a new reference for the caller
 * @return
 * - TARN_OK: `*out` is set.
 * - TARN_NOT_FOUND: the stream does not capture, or its capture was invalidated.
 * - TARN_INVALID_ARGUMENT: `pool` is neither a pool nor a slab, or `out` is NULL. Or
 *   `stream` is of another context, or was registered and has been unregistered since.
 * - TARN_OUT_OF_MEMORY: host memory is unavailable.
 * - TARN_DRIVER_FAILURE: a driver call failed, or the context was reset. Or exit has
 *   begun, or this is a forked child.
 * @since 0.2
 */
TARN_API tarn_status tarn_pool_get_capture(tarn_resource *pool, tarn_stream stream,
                                           tarn_pool_capture **out);

/** Keep the memory with a capture object while references to it exist.
 *
 * Without this call the memory returns to the pool when the driver has destroyed the
 * graph. After it the pool waits for the last tarn_pool_capture_release(), or for the last
 * tarn_pool_capture_unreference(). It is for several graphs that use the same memory, as
 * those of one graph pool of PyTorch do. Further calls have no effect.
 *
 * Thread-safety: any thread.
 *
 * @param capture  the capture object; the caller has a reference to it
 * @return
 * - TARN_OK: the memory stays.
 * - TARN_INVALID_ARGUMENT: `capture` is NULL.
 * - TARN_NOT_FOUND: the pool has released the memory already.
 * - TARN_DRIVER_FAILURE: exit has begun, or this is a forked child.
 * @since 0.2
 */
TARN_API tarn_status tarn_pool_capture_hold(tarn_pool_capture *capture);

/** Drop a reference to a capture object, and release its memory with the last reference.
 *
 * The memory is then free in the order of `stream`: the stream of the graph's last
 * launch, or one that waits for that launch. With TARN_STREAM_NONE it is deferred memory,
 * which no stream reuses before all work is done that is queued now. The program must not
 * launch the graph again. If there are other references, the call only drops the caller's.
 * Live blocks stay live.
 *
 * Thread-safety: any thread.
 *
 * @param capture  the caller's reference, transferred on success; NULL is allowed
 * @param stream   the stream of the last launch, which must not capture; or
 *                 TARN_STREAM_NONE
 * @return
 * - TARN_OK: the reference is gone, also after a reset of the context.
 * - TARN_INVALID_ARGUMENT: `stream` captures or is of another context. Or it was
 *   registered and has been unregistered since.
 * - TARN_OUT_OF_MEMORY: host memory is unavailable.
 * - TARN_DRIVER_FAILURE: a driver call failed.
 * @since 0.1
 */
TARN_API tarn_status tarn_pool_capture_release(tarn_pool_capture *capture,
                                               tarn_stream stream);

/** Drop a reference to a capture object, and leave the memory with the graph.
 *
 * The pool reclaims the memory when the graph is destroyed. A driver without user objects
 * (cuUserObjectCreate) cannot report that. The memory then stays with the graph until the
 * pool is destroyed.
 *
 * Thread-safety: any thread, also at exit and in a forked child.
 *
 * @param capture  the caller's reference, transferred; NULL is allowed
 * @return TARN_OK
 * @since 0.2
 */
TARN_API tarn_status tarn_pool_capture_unreference(tarn_pool_capture *capture);

/** Statistics of the memory of one captured graph. */
typedef struct tarn_pool_capture_statistics {
    size_t size;       /**< The caller sets it to sizeof(tarn_pool_capture_statistics). */
    uint64_t retained; /**< Free bytes that only this graph can use. */
    uint64_t live;     /**< Bytes of its live blocks, as rounded by the pool. */
    uint64_t live_blocks; /**< Number of its live blocks. */
    uint64_t streams;     /**< Number of streams of the capture that used the pool. */
    /** True once the pool has released the memory, or has noticed that the graph is
     * destroyed. */
    bool has_ended;
} tarn_pool_capture_statistics;

/** Fill `*out` with the statistics of the memory of a captured graph.
 *
 * The call fills as many bytes as `out->size` says. Before that it checks whether the
 * driver has destroyed the graph.
 *
 * Thread-safety: any thread.
 *
 * @param capture   the capture object
 * @param[out] out  the statistics; the caller sets `out->size` first
 * @return
 * - TARN_OK: `*out` is filled.
 * - TARN_INVALID_ARGUMENT: `capture` or `out` is NULL, or `out->size` is not set.
 * - TARN_BUSY: another thread was in a call when exit began, or when this child
 *   was forked.
 * @since 0.1
 */
TARN_API tarn_status tarn_pool_capture_get_statistics(tarn_pool_capture *capture,
                                                      tarn_pool_capture_statistics *out);

/** @} */

TARN_END_DECLS
#endif
