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
 *   on another stream    when the device has done the work queued before the free
 *   on another stream    before that, once that stream waits for this work
 *                        (cuStreamWaitEvent)
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
 *   - Frees return TARN_OK, and no block is live.
 *   - Releasing the pool returns all that outlives the reset: physical memory and
 *     addresses of VMM, and the blocks of an upstream. The pool deallocates each of these
 *     blocks upstream.
 *
 * VMM is the driver's virtual memory management (cuMemCreate, cuMemMap). A page is 2 MiB,
 * the granularity of its physical memory. Exit has begun when exit() has called the
 * handler that Tarn registered with atexit() when the process opened the driver.
 *
 * These are terms of Tarn, see docs/glossary.md: event fence, thread cache, no-stream
 * free, deferred memory, registered stream, stream state, compaction, segment.
 */
#ifndef TARN_POOL_H
#define TARN_POOL_H

#include <tarn/resource.h>

TARN_BEGIN_DECLS

/** @addtogroup tarn_pool
 * @{ */

/** Selects whether a pool may wait for the whole device before it reports out of memory.
 *
 * A trim follows the same policy where it finds free memory without an event fence. */
typedef enum tarn_pool_oom_policy {
    /** Wait until the device has done all queued work.
     *
     * Then every free block is usable on every stream. The wait invalidates no
     * capture. Launches of other threads wait meanwhile.
     *
     * Memory is orphaned when it was freed on a raw stream shortly before the program
     * destroyed that stream. Registered streams leave no orphaned memory. An allocation
     * waits instead of growing the pool once `max(64 MiB, peak_allocated / 2)` bytes are
     * orphaned.
     */
    TARN_POOL_OOM_SYNCHRONIZE = 0,
    /** Fail without a device-wide wait.
     *
     * Orphaned memory stays unusable and counts as `unfenced`. The pool still waits for
     * memory that was freed with TARN_STREAM_NONE, because only that wait makes it
     * usable. */
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

/** Selects how a pool makes memory reusable that was freed with TARN_STREAM_NONE.
 *
 * Work on any stream may still use such memory, so the pool defers its reuse: the
 * memory is deferred memory. It has nothing to do with the deferred frees of
 * tarn_pointer_deferred_count(). */
typedef enum tarn_pool_no_stream_policy {
    /** Defer reuse until a device-wide wait: cuMemAlloc followed by cuMemFree.
     *
     * The wait invalidates no capture. The thread that needs the memory waits until the
     * device is idle. Launches of other threads wait meanwhile. */
    TARN_POOL_NO_STREAM_SYNCHRONIZE = 0,
    /** Defer reuse until an event after all work of the context is complete.
     *
     * The pool records the event (cuCtxRecordEvent, CUDA 12.5) when the deferred bytes
     * reach half of `no_stream_limit_bytes`. Mostly no thread waits. Before the event is
     * complete, a stream can reuse the memory once it waits for the event.
     *
     * Recording the event invalidates every capture in the context. The pool makes a
     * device-wide wait instead while it detects one of these captures:
     *
     *   - a capture on a registered stream that the program has announced with
     *     tarn_stream_announce_capture()
     *   - a capture of a blocking stream
     *   - a capture whose graph has memory of this pool
     *
     * The pool cannot detect a capture on another non-blocking stream. Recording the
     * event invalidates that capture. */
    TARN_POOL_NO_STREAM_EVENT = 1,
    /** Reuse immediately: TARN_STREAM_NONE means the default stream.
     *
     * The program promises that all its work is on one stream, or ordered as if it were
     * on one. */
    TARN_POOL_NO_STREAM_SINGLE = 2
} tarn_pool_no_stream_policy;

/** Options of a pool; zeros are the defaults. */
typedef struct tarn_pool_options {
    size_t size; /**< Size of this struct in bytes: sizeof(tarn_pool_options). */
    /** Bytes to reserve at creation.
     *
     * The pool reserves no more than the whole pages that fit into `maximum_bytes`. Over
     * an upstream and below a maximum, it reserves segments of powers of two. So blocks
     * of such a size can use all of the maximum. */
    size_t initial_bytes;
    /** Most bytes that the pool reserves; 0: no maximum.
     *
     * Memory of VMM comes in whole pages of 2 MiB. If the maximum is no multiple of
     * 2 MiB, the pool does not use the remainder. Over an upstream the last segment may
     * be smaller than a page, so the pool uses all of the maximum. */
    size_t maximum_bytes;
    /** Fewest bytes by which the pool grows; 0: a step of 2 MiB to 256 MiB.
     *
     * That step grows with the pool. At most `maximum_bytes`, if there is a maximum. */
    size_t growth_bytes;
    /** Free bytes above which a free returns idle memory; 0: only a trim returns it.
     *
     * Idle memory is a whole physical handle or a whole segment that is free and that no
     * queued work uses. It returns to the device or to the upstream. */
    size_t release_threshold_bytes;
    /** Grow first; steal only if the pool cannot grow. false: steal first, then grow.
     *
     * A steal reuses memory that another stream freed, with a wait (cuStreamWaitEvent). */
    bool grow_first;
    tarn_pool_oom_policy oom_policy; /**< Policy before the pool reports out of memory. */
    tarn_pool_suspended_policy suspended_policy; /**< Policy while it is suspended. */
    /** Bytes of deferred memory at which an allocation waits instead of growing.
     *
     * 0 selects `max(pool/8, min(max(16*request, 64 MiB), maximum/32), 16 MiB)`. Here
     * `pool` stands for the reserved bytes of the pool. `maximum` stands for the smaller
     * of the pool's maximum and the memory of the device. */
    size_t no_stream_limit_bytes;
    tarn_pool_no_stream_policy no_stream_policy; /**< Policy for no-stream frees. */
} tarn_pool_options;

/** Create a pool on `device`.
 *
 * Without an upstream the pool uses VMM memory in one range of addresses, where the
 * device supports VMM. Elsewhere it uses cuMemAlloc.
 *
 * While the pool calls its upstream, the upstream may deallocate blocks of the pool, and
 * no more. A request there that needs new memory returns TARN_OUT_OF_MEMORY.
 * tarn_resource_trim() and tarn_pool_set_maximum() return TARN_REENTRANT_CALL there.
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
 *   has an unknown value. `options` has a nonzero member that this version of Tarn does
 *   not know.
 * - TARN_OUT_OF_MEMORY: the initial memory or host memory is unavailable.
 * - Other statuses of the driver or of the upstream.
 * @since 0.1
 */
TARN_API tarn_status tarn_pool_create(int device, tarn_resource *upstream,
                                      const tarn_pool_options *options,
                                      tarn_resource **out);

/** Change the maximum of a pool.
 *
 * The pool returns idle memory (see `release_threshold_bytes`) over the maximum
 * immediately. It returns the rest as that becomes idle.
 *
 * Thread-safety: any thread.
 *
 * @param pool   a pool or a slab
 * @param bytes  new maximum in bytes; 0: no maximum
 * @return
 * - TARN_OK: the maximum has changed.
 * - TARN_INVALID_ARGUMENT: `bytes` is less than the live bytes, or `pool` is no pool.
 * - TARN_REENTRANT_CALL: the upstream of the pool makes this call while the pool calls
 *   it.
 * - TARN_DRIVER_FAILURE: the context was reset, exit has begun, or this is a forked
 *   child.
 * @since 0.2
 */
TARN_API tarn_status tarn_pool_set_maximum(tarn_resource *pool, size_t bytes);

/** @} */

/** @addtogroup tarn_pool_report
 * @{ */

/** Length of the histogram of sizes in tarn_pool_statistics. */
enum {
    TARN_POOL_SIZE_CLASSES = 48 /**< Class i counts blocks of 2^i to 2^(i+1)-1 bytes. */
};

/** Statistics of a pool: bytes, unless a name or a comment says otherwise.
 *
 * `reserved` is `live + thread_cached + cached + captured`. */
typedef struct tarn_pool_statistics {
    size_t size;             /**< The caller sets it to sizeof(tarn_pool_statistics). */
    uint64_t live;           /**< Bytes in live blocks, as rounded by the pool. */
    uint64_t live_requested; /**< Bytes in live blocks, as requested. */
    uint64_t live_blocks;    /**< Number of live blocks. */
    /** Free bytes in thread caches: one thread reuses them on one stream. */
    uint64_t thread_cached;
    /** Free bytes outside of thread caches, for all threads.
     *
     * They are completed, or reusable in the order of one stream. */
    uint64_t cached;
    uint64_t unfenced;       /**< Free bytes without an event fence. */
    uint64_t captured;       /**< Free bytes that only captured graphs can use. */
    uint64_t reserved;       /**< Bytes taken from upstream, or mapped. */
    uint64_t suspended;      /**< Reserved bytes without physical memory at present. */
    uint64_t maximum;        /**< Maximum in bytes; UINT64_MAX: none. */
    uint64_t peak_allocated; /**< Most bytes that were live and thread-cached at once. */
    uint64_t peak_reserved;  /**< Most bytes that were reserved at once. */
    /** Bytes of the largest free block.
     *
     * Among more than 64 blocks of nearly one size, another may be up to 1/32 larger. */
    uint64_t largest_free;
    /** Fragmentation: `1 - largest_free / cached`; 0 if nothing is cached. */
    double fragmentation;
    uint64_t allocations, /**< Number of allocations since the creation of the pool. */
        frees,            /**< Number of frees since the creation of the pool. */
        failures;         /**< Number of failed allocations since its creation. */
    /** Number of allocations from a thread cache (`thread_cached`, not `cached`). */
    uint64_t cache_hits;
    /** Number of allocations that reused free memory of the same stream. */
    uint64_t same_stream;
    uint64_t completed; /**< Number of allocations from memory whose last use is done. */
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
    uint64_t metadata; /**< Host bytes that the pool uses for itself. */
    /** Number of allocations by requested size, see TARN_POOL_SIZE_CLASSES. */
    uint64_t size_classes[TARN_POOL_SIZE_CLASSES];
    /** Bytes of deferred memory; they are part of `cached`. */
    uint64_t no_stream_deferred;
    /** Free bytes that only a device-wide wait completes; they are part of `unfenced`.
     *
     * They are frees of ended streams, and of raw streams that have stopped calling. */
    uint64_t orphaned;
} tarn_pool_statistics;

/** Fill `*out` with the statistics of a pool.
 *
 * The call fills as many bytes as `out->size` says. The numbers are exact while no other
 * call on the pool is under way. Otherwise they are of slightly different moments. Once
 * exit has begun, and in a forked child, `captured`, `largest_free` and `orphaned` are 0
 * where another thread was in a call.
 *
 * Thread-safety: any thread.
 *
 * @param pool      a pool or a slab
 * @param[out] out  the statistics; the caller sets `out->size` first
 * @return
 * - TARN_OK: `*out` is filled.
 * - TARN_INVALID_ARGUMENT: `pool` is no pool, `out` is NULL, or `out->size` is not set.
 * @since 0.1
 */
TARN_API tarn_status tarn_pool_get_statistics(tarn_resource *pool,
                                              tarn_pool_statistics *out);

/** The state of a pool when an allocation failed for lack of memory.
 *
 * `live` to `maximum` are bytes, with the meanings of tarn_pool_statistics. `same_stream`
 * and `completed` are bytes here; in tarn_pool_statistics they count allocations. */
typedef struct tarn_pool_oom_report {
    size_t size;            /**< The caller sets it to sizeof(tarn_pool_oom_report). */
    uint64_t requested;     /**< Bytes that were requested. */
    uint64_t alignment;     /**< Alignment that was requested, in bytes. */
    uint64_t live,          /**< Bytes in live blocks. */
        thread_cached,      /**< Free bytes in thread caches. */
        cached,             /**< Free bytes outside of thread caches. */
        unfenced,           /**< Free bytes without an event fence. */
        captured,           /**< Free bytes that only captured graphs can use. */
        reserved,           /**< Bytes taken from upstream, or mapped. */
        maximum;            /**< The maximum in bytes; UINT64_MAX: none. */
    uint64_t same_stream;   /**< Bytes that are free on the stream of the request. */
    uint64_t other_streams; /**< Bytes that are free on other streams. */
    uint64_t completed;     /**< Bytes that are free for every stream. */
    uint64_t largest_free;  /**< Bytes of the largest block that the stream could use. */
    uint64_t device_free,   /**< Free bytes of the device, as the driver reports. */
        device_total;       /**< All bytes of the device, as the driver reports. */
    unsigned attempts;      /**< Number of calls of callbacks that returned true. */
    tarn_status upstream_status; /**< Result of the last attempt to grow. */
    char upstream_message[256];  /**< Error message of the last attempt to grow. */
    double fragmentation;        /**< Fragmentation, as in tarn_pool_statistics. */
} tarn_pool_oom_report;

/** Copy the report on the calling thread's last failed pool allocation.
 *
 * The call fills as many bytes as `out->size` says.
 *
 * Thread-safety: any thread. Each thread has a report of its own.
 *
 * @param[out] out  the report; the caller sets `out->size` first
 * @return
 * - TARN_OK: `*out` is filled.
 * - TARN_NOT_FOUND: no allocation of this thread has failed.
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
 * One allocation makes at most 16 calls, and at least one of each callback.
 *
 * Calling rules:
 *
 *   - It runs on the thread that allocates. Several threads may run it simultaneously.
 *   - No lock of the pool is held. Every call on the pool is allowed, also the removal of
 *     this callback or of another one.
 *   - Allocations of this thread call no callback meanwhile.
 *   - It has to return. Leaving it by longjmp(), by an exception or by the end of the
 *     thread is forbidden. */
typedef bool (*tarn_pool_oom_callback)(void *data, tarn_resource *pool, size_t bytes,
                                       unsigned attempt);

/** Add an out-of-memory callback to a pool.
 *
 * The pool calls it after the callbacks that were added before. Adding the same `call`
 * and `data` twice adds two callbacks.
 *
 * Thread-safety: any thread, also inside a callback.
 *
 * @param pool  a pool or a slab
 * @param call  the callback; not NULL
 * @param data  first argument of the callback; borrowed until the callback is removed
 * @return
 * - TARN_OK: the callback is added.
 * - TARN_INVALID_ARGUMENT: `pool` is no pool, or `call` is NULL.
 * - TARN_LIMIT_REACHED: the pool has 8 callbacks already.
 * - TARN_OUT_OF_MEMORY: host memory is unavailable.
 * - TARN_DRIVER_FAILURE: exit has begun, or this is a forked child.
 * @since 0.2
 */
TARN_API tarn_status tarn_pool_add_oom_callback(tarn_resource *pool,
                                                tarn_pool_oom_callback call, void *data);

/** Remove an out-of-memory callback from a pool.
 *
 * The call waits until no other thread runs the callback. Afterwards nothing calls it,
 * and the caller may free `data`. The caller must not hold a lock that the callback needs
 * to return.
 *
 * Inside the callback itself, the thread's own call goes on and is the last one. Two
 * callbacks that remove each other on two threads deadlock.
 *
 * Once exit has begun, and in a forked child, the pool calls no callback. Then this call
 * does not wait and returns TARN_OK.
 *
 * Thread-safety: any thread, also inside a callback.
 *
 * @param pool  a pool or a slab
 * @param call  the callback
 * @param data  its first argument, as it was added
 * @return
 * - TARN_OK: the callback is removed.
 * - TARN_NOT_FOUND: the pool has no such callback.
 * - TARN_INVALID_ARGUMENT: `pool` is no pool.
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
    TARN_POOL_FENCED,        /**< Free once an event fence of a stream is complete. */
    TARN_POOL_UNFENCED,      /**< Free, in the order of one stream alone. */
    TARN_POOL_CAPTURED,      /**< Free, but only a captured graph can use it. */
    TARN_POOL_UNMAPPED,      /**< Addresses without memory. */
    /** In use by a call that is under way, or changed during the snapshot. */
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
     * For the legacy default stream and for a stream of a capture it is a number of the
     * pool's own, at least 2^63. */
    uint64_t stream_id;
    tarn_device_ptr segment; /**< First address of the block's segment. */
} tarn_pool_block;

/** Receives one block of a snapshot: the type of a visitor.
 *
 * `data` is the argument of tarn_pool_snapshot(). `block` is valid during the call. The
 * visitor returns false to end the walk. It runs on the thread of the snapshot, once for
 * each block, in the order of addresses. No lock is held: every call on the pool is
 * allowed. It has to return. */
typedef bool (*tarn_pool_block_fn)(void *data, const tarn_pool_block *block);

/** Copy the list of all blocks of a pool, then visit the copy.
 *
 * A pool of at most 1,024 blocks in fewer than 64 segments is copied at one moment. The
 * call copies a larger pool part by part. Other threads change the pool between the
 * parts. Then the copy keeps these rules:
 *
 *   - A block that is live throughout the call is visited once.
 *   - Blocks do not overlap.
 *   - The blocks of a segment that exists throughout the call lie without gaps.
 *   - A new block across the border of two parts is cut there. The rest of it is visited
 *     as TARN_POOL_IN_TRANSIT.
 *
 * Thread-safety: any thread.
 *
 * @param pool   a pool or a slab
 * @param visit  called for each block; not NULL
 * @param data   first argument of `visit`
 * @return
 * - TARN_OK: all blocks were visited, or `visit` ended the walk.
 * - TARN_INVALID_ARGUMENT: `pool` is no pool, or `visit` is NULL.
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
 * - TARN_INVALID_ARGUMENT: `pool` is no pool, or `mode` is unknown.
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
 * - TARN_INVALID_ARGUMENT: `pool` is no pool.
 * - TARN_NOT_SUPPORTED: the pool does not use VMM.
 * - TARN_OUT_OF_MEMORY: the device has too little free memory at present.
 * - TARN_DRIVER_FAILURE: a driver call failed, or the context was reset. Or exit has
 *   begun, or this is a forked child.
 * @since 0.2
 */
TARN_API tarn_status tarn_pool_resume(tarn_resource *pool);

/** Return how often the pool has unmapped physical memory from its addresses.
 *
 * A trim, a suspension and a compaction increase the number, the generation of the pool.
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
 * - TARN_INVALID_ARGUMENT: `pool` is no pool, or `out` is NULL.
 * @since 0.1
 */
TARN_API tarn_status tarn_pool_generation(tarn_resource *pool, uint64_t *out);

/** Allow or forbid another device to use the memory of a pool.
 *
 * The setting covers all memory of the pool, present and future. Set it before the pool
 * is used: an H200 does not give a peer access to memory that compaction has moved.
 * Then the call returns TARN_DRIVER_FAILURE and changes nothing.
 *
 * Thread-safety: any thread.
 *
 * @param pool    a pool or a slab
 * @param peer    number of the other device
 * @param access  true: the peer reads and writes the memory; false: it has no access
 * @return
 * - TARN_OK: the setting is in force.
 * - TARN_INVALID_ARGUMENT: `pool` is no pool, `peer` does not exist, or `peer` is the
 *   device of the pool.
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
 * The memory stays with the graph until tarn_pool_capture_release(), or until the graph
 * is destroyed. */
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
 * - TARN_NOT_FOUND: the stream does not capture.
 * - TARN_INVALID_ARGUMENT: `pool` is no pool, or `out` is NULL. Or the stream is of
 *   another context, or a registered stream that was unregistered since.
 * - TARN_OUT_OF_MEMORY: host memory is unavailable.
 * - TARN_DRIVER_FAILURE: a driver call failed, or the context was reset. Or exit has
 *   begun, or this is a forked child.
 * @since 0.2
 */
TARN_API tarn_status tarn_pool_get_capture(tarn_resource *pool, tarn_stream stream,
                                           tarn_pool_capture **out);

/** Release the memory of a graph, in the order of `stream`.
 *
 * The caller queued the last launch of the graph on `stream`. The memory becomes reusable
 * when the last reference to the capture object is released. Live blocks stay live.
 *
 * Thread-safety: any thread.
 *
 * @param capture  the caller's reference, transferred on success; NULL is allowed
 * @param stream   the stream of the last launch; it must not capture
 * @return
 * - TARN_OK: the reference is gone, also after a reset of the context.
 * - TARN_INVALID_ARGUMENT: the stream captures or is of another context. Or it is a
 *   registered stream that was unregistered since.
 * - TARN_OUT_OF_MEMORY: host memory is unavailable.
 * - TARN_DRIVER_FAILURE: a driver call failed.
 * @since 0.1
 */
TARN_API tarn_status tarn_pool_capture_release(tarn_pool_capture *capture,
                                               tarn_stream stream);

/** Drop a reference to a capture object, and leave the memory with the graph.
 *
 * The pool reclaims the memory when the graph is destroyed. A driver without user objects
 * cannot report that. There the memory stays until the pool is destroyed.
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
    /** True once its memory was released, or the graph is destroyed. */
    bool has_ended;
} tarn_pool_capture_statistics;

/** Fill `*out` with the statistics of the memory of a captured graph.
 *
 * The call fills as many bytes as `out->size` says. First it checks whether the graph is
 * destroyed.
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
