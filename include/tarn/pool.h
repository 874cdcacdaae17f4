/* pool.h -- the pool: one heap for all streams of a device, and what can be asked of it.
 *
 * A pool is a resource (resource.h): allocate, deallocate and release are those of any
 * other. The calls here take that resource and are for pools alone; given another one
 * they are TARN_INVALID_ARGUMENT.
 *
 * A block that is freed on a stream may be handed out again on that stream at once. On
 * another stream it is handed out when the work queued before the free is done, or behind
 * a wait for it. Which of these, and when the pool rather grows, is said by the options.
 *
 * Only work on the stream of the free counts as queued before it. So the program makes
 * that stream wait for each other stream that uses the block, or frees the block on the
 * stream that used it last. A stream that did not allocate a block waits for the one that
 * did before the first use (resource.h). A block that comes and goes with TARN_STREAM_NONE
 * needs neither wait, unless the pool is TARN_POOL_NO_STREAM_SINGLE.
 *
 * A reset of the device's primary context (cuDevicePrimaryCtxReset) ends a pool. The next call
 * that asks the driver notices it: from then on allocations fail with TARN_DRIVER_FAILURE, frees
 * succeed, and no block is live any more. Releasing the pool returns what outlives the reset:
 * physical memory and addresses of VMM, and blocks of an upstream, which is told of each.
 */
#ifndef TARN_POOL_H
#define TARN_POOL_H

#include <tarn/resource.h>

TARN_BEGIN_DECLS

/** What a pool may do before it says that memory is out, and in a trim that finds free
 * memory of streams which have given it no fence yet. */
typedef enum tarn_pool_oom_policy {
    /** Wait until the device has done all work that is queued, so that every free block
     * is free for anybody. Ends no capture; other threads' launches wait meanwhile. An
     * allocation also waits, instead of growing the pool, once raw streams that were
     * destroyed left 64 MiB or half of `peak_allocated` unusable, whichever is more: what was
     * freed on them shortly before. Opened streams leave nothing. */
    TARN_POOL_OOM_SYNCHRONIZE = 0,
    /** Nothing: refuse. What destroyed raw streams left stays unusable, and counts as
     * `pending`. But memory that was freed with TARN_STREAM_NONE is waited for even so,
     * since nobody could ever have it otherwise. */
    TARN_POOL_OOM_FAIL = 1
} tarn_pool_oom_policy;

/** What an allocation takes of a pool is a multiple of it; of a slab, a whole block. */
#define TARN_POOL_QUANTUM ((size_t)512)

/** What an allocation does on a pool that sleeps. */
typedef enum tarn_pool_suspended_policy {
    TARN_POOL_SUSPENDED_FAIL = 0,  /**< TARN_STILL_IN_USE */
    TARN_POOL_SUSPENDED_RESUME = 1 /**< wake the pool first */
} tarn_pool_suspended_policy;

/** What a pool does about memory that is freed with TARN_STREAM_NONE: work on any stream may
 * still be using it, so it is held back. */
typedef enum tarn_pool_no_stream_policy {
    /** Until a barrier: cuMemAlloc and cuMemFree. It ends no capture. The thread that
     * needs the memory waits until the device is idle, and other threads' launches wait
     * meanwhile. */
    TARN_POOL_NO_STREAM_SYNCHRONIZE = 0,
    /** Until an event behind all work of the context is done (cuCtxRecordEvent, CUDA 12.5), which is
     * recorded when half of what may be held back is: mostly nobody waits, and streams can have the
     * memory behind the event. But the driver ends every capture in the context by it. So
     * while Tarn knows of a capture a barrier is taken instead: one that was announced on an opened
     * stream, one of a blocking stream, one whose graph has memory of this pool. A capture
     * on another non-blocking stream it cannot see: that one is lost. */
    TARN_POOL_NO_STREAM_EVENT = 1,
    /** Not at all: the program promises that all its work is on one stream, or ordered as if it were.
     * TARN_STREAM_NONE is taken for the default stream, whose memory is had again at once. */
    TARN_POOL_NO_STREAM_SINGLE = 2
} tarn_pool_no_stream_policy;

/** Options of a pool; zeros are the defaults. */
typedef struct tarn_pool_options {
    size_t size; /**< sizeof(tarn_pool_options) */
    size_t
        initial_bytes; /**< have this much from the start, as far as the maximum has room
                               for whole pages of 2 MiB */
    size_t
        maximum_bytes; /**< never have more than this; 0: all that there is. Memory comes
                               in whole pages of 2 MiB, so what is over the last one is not
                               had */
    size_t growth_bytes; /**< grow by at least this much; 0: a step that grows with the
                               pool, 2 MiB to 256 MiB */
    /** Give idle memory over this back when a block is freed; 0: only when asked
     * (trim). */
    size_t release_threshold_bytes;
    /** Grow before memory of another stream is taken with a wait; else after. */
    bool grow_first;
    tarn_pool_oom_policy oom_policy;
    tarn_pool_suspended_policy suspended_policy;
    /** Hold this much back at most of what was freed with TARN_STREAM_NONE before an allocation waits
     * for it rather than have the pool grow; 0: an eighth of the pool; or 16 blocks of the
     * size that is asked for, 64 MiB at least, as far as that is no more than a 32nd of the
     * device or of the maximum; or 16 MiB. What is most of these. */
    size_t no_stream_limit_bytes;
    tarn_pool_no_stream_policy no_stream_policy;
} tarn_pool_options;

/** Make a pool on `device`. `upstream` is where its memory comes from, retained for the
 * pool's life; NULL: the device itself, as VMM memory in one range of addresses where the
 * device can, else cuMemAlloc. `options` may be NULL. TARN_INVALID_ARGUMENT: an upstream
 * of another device, initial over maximum, an option of a later version of Tarn.
 * TARN_OUT_OF_MEMORY: the initial memory is not to be had. Any thread.
 *
 * While the pool calls its upstream, that may give blocks back to the pool, and no more: a
 * request that needs new memory is TARN_OUT_OF_MEMORY there, trim, the limit and sleep are
 * TARN_STILL_IN_USE. */
TARN_API tarn_status tarn_pool_create(int device, tarn_resource *upstream,
                                      const tarn_pool_options *options,
                                      tarn_resource **out);

/** Change the maximum; 0: all that there is. Less than the bytes now live is
 * TARN_INVALID_ARGUMENT; memory over the limit that is idle goes back at once, the rest
 * as it becomes idle. Any thread. */
TARN_API tarn_status tarn_pool_set_maximum(tarn_resource *pool, size_t bytes);

enum {
    TARN_POOL_SIZE_CLASSES = 48
}; /**< class i counts blocks of 2^i to 2^(i+1)-1 bytes */

/** What a pool has and did. Bytes, but where a name says otherwise. The sum live + parked +
 *  cached + captured is reserved. */
typedef struct tarn_pool_statistics {
    size_t size;             /**< set to sizeof(tarn_pool_statistics) before the call */
    uint64_t live;           /**< in blocks that are out, as rounded by the pool */
    uint64_t live_requested; /**< the same, as asked for */
    uint64_t live_blocks;    /**< how many */
    uint64_t thread_cached;  /**< in magazines: one thread on one stream has it at once */
    uint64_t cached;         /**< free: done, or in the order of a stream that has it */
    uint64_t unfenced;       /**< of the free bytes, those that no fence covers yet */
    uint64_t captured;       /**< kept for graphs */
    uint64_t reserved;       /**< taken from upstream or mapped */
    uint64_t suspended;      /**< of these, without physical memory at the moment */
    uint64_t maximum;        /**< UINT64_MAX: none */
    uint64_t peak_allocated; /**< most bytes live and parked at once */
    uint64_t peak_reserved;  /**< most bytes reserved at once */
    uint64_t largest_free;   /**< bytes of the largest free block */
    double fragmentation;    /**< 1 - largest_free / cached; 0 where nothing is free */
    uint64_t allocations, frees, failures; /**< counts since the pool was made */
    uint64_t cache_hits;                   /**< allocations that a magazine served */
    uint64_t same_stream;  /**< ... that the stream's own free memory served */
    uint64_t completed;    /**< ... that memory served whose last use is done */
    uint64_t steals;       /**< ... that another stream's memory served, behind a wait */
    uint64_t grown;        /**< ... that grew the pool */
    uint64_t stream_waits; /**< cuStreamWaitEvent */
    uint64_t events_recorded;         /**< cuEventRecord and cuCtxRecordEvent */
    uint64_t queries;                 /**< cuEventQuery and cuStreamQuery */
    uint64_t growths, shrinks, moves; /**< maps, unmaps and moves of free memory */
    uint64_t device_synchronizations; /**< waits for the device */
    uint64_t driver_calls; /**< all that take the device's lock: the seven above */
    uint64_t streams;      /**< streams that the pool knows */
    uint64_t metadata;     /**< host bytes that the pool uses for itself */
    uint64_t size_classes[TARN_POOL_SIZE_CLASSES]; /**< allocations by size */
    uint64_t
        no_stream_deferred; /**< of the cached bytes, those held back: no stream freed them */
} tarn_pool_statistics;

/** Fill `*out` as far as `out->size` says. Counts are exact when no call is under way. Once
 *  exit has begun and in a forked child `captured` and `largest_free` are 0 where another
 *  thread was in a call. Any thread. */
TARN_API tarn_status tarn_pool_get_statistics(tarn_resource *pool,
                                              tarn_pool_statistics *out);

/** Why the calling thread's last allocation from a pool failed for want of memory. */
typedef struct tarn_pool_oom_report {
    size_t size;        /**< set to sizeof(tarn_pool_oom_report) before the call */
    uint64_t requested; /**< bytes asked for */
    uint64_t alignment;
    uint64_t live, thread_cached, cached, unfenced, captured, reserved, maximum;
    uint64_t same_stream;               /**< free on the stream that asked */
    uint64_t other_streams;             /**< free on other streams */
    uint64_t completed;                 /**< free for anybody */
    uint64_t largest_free;              /**< of what this stream could have had */
    uint64_t device_free, device_total; /**< as the driver says */
    unsigned attempts;                  /**< calls of callbacks that returned true */
    tarn_status upstream_status;        /**< what growing gave */
    char upstream_message[256];
    double fragmentation; /**< of the pool, as in the statistics */
} tarn_pool_oom_report;

/** TARN_NOT_FOUND where no allocation of this thread has failed. Any thread. */
TARN_API tarn_status tarn_pool_last_oom_report(tarn_pool_oom_report *out);

/** The report in words, several lines, at most `capacity` bytes with the final zero;
 * returns the bytes it would have taken, as snprintf does. */
TARN_API size_t tarn_pool_oom_report_text(const tarn_pool_oom_report *report, char *out,
                                          size_t capacity);

/** Called before an allocation of `bytes` fails for want of memory, on the thread that
 * allocates: free something and return true to have the search repeated. Then it is called
 * again if memory is still short; `attempt` counts these calls from 0. One allocation makes at
 * most 16 calls, and at least one of each callback. No lock of the pool is held: every call on
 * the pool is allowed, the removal of this callback or of another one included. What the thread
 * allocates meanwhile calls no callback. Several threads may be in it at once. It has to
 * return: to leave it by longjmp(), an exception or the end of the thread is forbidden. */
typedef bool (*tarn_pool_oom_callback)(void *data, tarn_resource *pool, size_t bytes,
                                       unsigned attempt);

/** Add a callback, called behind those that are there. A second registration of the same
 * `call` and `data` is one more callback. TARN_STILL_IN_USE: there are 8 already.
 * TARN_OUT_OF_MEMORY: no host memory. TARN_DRIVER_FAILURE: exit has begun, or this is a forked
 * child. Any thread, also in a callback. */
TARN_API tarn_status tarn_pool_add_oom_callback(tarn_resource *pool,
                                                tarn_pool_oom_callback call, void *data);

/** Remove a callback. Waits until no other thread runs it, so that afterwards nothing calls
 * it and `data` may be freed; do not hold what it needs to return. In the callback itself, the
 * thread's own call goes on, and is the last one. Two callbacks that remove each other on two
 * threads wait for each other: do not. TARN_NOT_FOUND: there is no such callback. Once exit has
 * begun and in a forked child no callback is called any more, and this waits for nothing and
 * is TARN_OK. Any thread, also in a callback. */
TARN_API tarn_status tarn_pool_remove_oom_callback(tarn_resource *pool,
                                                   tarn_pool_oom_callback call,
                                                   void *data);

typedef enum tarn_pool_block_state {
    TARN_POOL_LIVE = 0,
    TARN_POOL_THREAD_CACHED, /**< in a magazine */
    TARN_POOL_COMPLETED,     /**< free for anybody */
    TARN_POOL_FENCED,        /**< free, behind a fence of a stream */
    TARN_POOL_UNFENCED,      /**< free, in the order of a stream alone */
    TARN_POOL_CAPTURED,      /**< kept for a graph */
    TARN_POOL_UNMAPPED,      /**< addresses without memory */
    TARN_POOL_IN_TRANSIT /**< in the hands of a call that is under way, or changed during the
                           snapshot */
} tarn_pool_block_state;

/** One block of a snapshot. */
typedef struct tarn_pool_block {
    tarn_device_ptr address;
    size_t bytes;           /**< as the pool rounds */
    size_t requested_bytes; /**< live blocks: as asked for; else 0 */
    tarn_pool_block_state state;
    uint64_t stream_id;      /**< of the stream that it is bound to; 0: none */
    tarn_device_ptr segment; /**< first address of the range that it lies in */
} tarn_pool_block;

/** Called for each block, by address. False ends the walk. No lock is held: every call on the
 * pool is allowed. It has to return. */
typedef bool (*tarn_pool_block_fn)(void *data, const tarn_pool_block *block);

/** Copy all blocks, then visit the copy. A pool of at most 1,024 blocks in fewer than 64 segments
 * is copied at one moment. A larger one is copied part by part, and other threads change it
 * between the parts. A block that is live throughout the call is visited once. Blocks do not
 * overlap, and those of a segment that is there throughout lie without gaps. A block that came
 * to lie across the border of two parts is cut there, and TARN_POOL_IN_TRANSIT.
 * TARN_OUT_OF_MEMORY: no host memory for the copy; nothing was visited. TARN_DRIVER_FAILURE:
 * exit has begun, or this is a forked child. Any thread. */
TARN_API tarn_status tarn_pool_snapshot(tarn_resource *pool, tarn_pool_block_fn visit,
                                        void *data);

/** How a pool sleeps. */
typedef enum tarn_pool_suspend_mode {
    TARN_POOL_SUSPEND_DISCARD = 0, /**< the bytes of live blocks are lost */
    TARN_POOL_SUSPEND_KEEP = 1     /**< they are kept in page-locked host memory */
} tarn_pool_suspend_mode;

/** Give all physical memory back; addresses stay. Waits for the device. Live blocks keep
 * their addresses and must not be used until the pool is awake again. All or nothing: on
 * failure the pool is awake as before. TARN_NOT_SUPPORTED for a pool that is not VMM.
 * Any thread. */
TARN_API tarn_status tarn_pool_suspend(tarn_resource *pool, tarn_pool_suspend_mode mode);
/** Have it all back, at the same addresses. TARN_OUT_OF_MEMORY: not enough is free now; it
 * sleeps on. Any thread. */
TARN_API tarn_status tarn_pool_resume(tarn_resource *pool);

/** Counts up whenever physical memory was taken away under addresses (trim, sleep, a move): handles
 *  shared with other processes are good for one generation alone. */
TARN_API tarn_status tarn_pool_generation(tarn_resource *pool, uint64_t *out);

/** Let device `peer` use the pool's memory, all of it, now and later, or no longer. Any
 * thread. TARN_NOT_SUPPORTED: no VMM, or the devices cannot. Best before the pool is used: an H200
 * does not open memory to a peer that moved (TARN_DRIVER_FAILURE, nothing changed). */
TARN_API tarn_status tarn_pool_set_peer_access(tarn_resource *pool, int peer,
                                               bool access);

/** The memory of a graph that was captured: blocks that were handed out or freed on the
 *  streams of one capture. It stays with the graph until this is released, by hand or
 * with the graph itself. */
typedef struct tarn_pool_capture tarn_pool_capture;

/** The memory of the capture that goes on on `stream`. A new reference. TARN_NOT_FOUND
 * where the stream does not capture. Any thread. */
TARN_API tarn_status tarn_pool_get_capture(tarn_resource *pool, tarn_stream stream,
                                           tarn_pool_capture **out);
/** Let the memory of a graph go, in the order of `stream`, on which its last launch was
 * queued. Blocks that are still out stay so. NULL is TARN_OK. Any thread. */
TARN_API tarn_status tarn_pool_capture_release(tarn_pool_capture *capture,
                                               tarn_stream stream);
/** Give a reference back without a word about the graph: its memory stays with it, and comes
 * back when the graph is gone, or where the driver cannot tell that (no user objects), with
 * the pool. NULL is TARN_OK. Any thread, at exit and in a forked child too. */
TARN_API tarn_status tarn_pool_capture_unreference(tarn_pool_capture *capture);

/** What is kept for a captured graph. */
typedef struct tarn_pool_capture_statistics {
    size_t size;       /**< set to sizeof(tarn_pool_capture_statistics) before the call */
    uint64_t retained; /**< free bytes that nobody but this capture can have */
    uint64_t live;     /**< bytes of its blocks that are out, as rounded by the pool */
    uint64_t live_blocks; /**< how many */
    uint64_t streams;     /**< of the capture, that allocated or freed here */
    bool has_ended; /**< its memory was let go: it was released, or the graph is gone */
} tarn_pool_capture_statistics;

/** Fill `*out` as far as `out->size` says. Whether a graph is gone is looked up first. Once
 * exit has begun and in a forked child TARN_STILL_IN_USE where another thread was in a
 * call. Any thread. */
TARN_API tarn_status tarn_pool_capture_get_statistics(tarn_pool_capture *capture,
                                                      tarn_pool_capture_statistics *out);

TARN_END_DECLS
#endif
