/* resource.h -- memory resources: things that hand out memory and take it back.
 *
 * The GPU driver, every pool and every adaptor is one, so they stack: a logger over a
 * limiter over cuMemAlloc is three of these in a row. A resource is counted, knows its
 * device, makes that device's primary context current itself and puts back what was.
 *
 * Memory is ordered by streams, as with cuMemAllocAsync() and cuMemFreeAsync(). A resource
 * cannot see what other streams do with a block, so the program orders that:
 *
 *   before the first use on another stream: record an event on the stream of the
 *   allocation, after tarn_resource_allocate(), and let the other stream wait for it;
 *
 *   before the free: record an event behind the last use on each other stream, and let
 *   the stream of the free wait for them.
 *
 * The calls are cuEventRecord() and cuStreamWaitEvent(). A wait of the host will do, too,
 * such as tarn_stream_synchronize(). Without these waits work of two owners can run on the
 * same bytes at once, and no call reports that.
 *
 * Source of the contract: seed 003 (rmm::mr::device_memory_resource), rows E1-E34.
 */
#ifndef TARN_RESOURCE_H
#define TARN_RESOURCE_H

#include <tarn/driver.h>

TARN_BEGIN_DECLS

/** Every block is aligned to at least this (E21). */
#define TARN_ALIGNMENT 256u

/** A device number for memory that belongs to none (`host`). */
#define TARN_DEVICE_NONE (-1)

/** An opaque, counted resource. */
typedef struct tarn_resource tarn_resource;

/**
 * The table of operations of a resource. To make your own, fill one `static const` table
 * and pass it to tarn_resource_create(). Calls may arrive from any thread at any time. An
 * operation that fails records its message with tarn_error_set(); one that does not gets
 * `name: operation failed`.
 */
typedef struct tarn_resource_ops {
    /** sizeof(tarn_resource_ops) as you compiled it. Operations are only ever appended,
     * so this tells Tarn which ones your build knows about. */
    size_t size;

    /** Short name for logs and `tarn info`, e.g. "pool". Static storage. */
    const char *name;

    /** Hand out `bytes` (> 0) at a multiple of `alignment` (a power of two, >= 256),
     * ready for work queued on `stream` from now on. When full, TARN_OUT_OF_MEMORY. On
     * failure leave `*out` alone. */
    tarn_status (*allocate)(void *self, size_t bytes, size_t alignment,
                            tarn_stream stream, tarn_device_ptr *out);

    /** Take back a block (not NULL), with the `bytes` and `alignment` it was asked for.
     * Work already queued on `stream` may still be touching it. A block that is not
     * yours, or other bytes than it has: TARN_INVALID_ARGUMENT where you can tell,
     * nothing changed. */
    tarn_status (*deallocate)(void *self, tarn_device_ptr block, size_t bytes,
                              size_t alignment, tarn_stream stream);

    /** Free `self`. Called once, when every block is back. */
    void (*destroy)(void *self);

    /* Optional from here on. Leave NULL and Tarn answers for you. */

    /** Bytes free and in total, as seen from `stream`. NULL: TARN_NOT_SUPPORTED. */
    tarn_status (*memory_info)(void *self, tarn_stream stream, size_t *free_out,
                               size_t *total_out);

    /** May blocks of `other` be given back here, and the other way round? Called only
     * with a resource of the same table. NULL: only the same object (E30). */
    bool (*is_equal)(const void *self, const void *other);

    /** Does it order memory by stream? NULL: false, the stream is ignored (E22). */
    bool (*supports_streams)(const void *self);

    /** Does deallocate() by itself wait until the device has finished with the block, as
     *  cuMemFree does? Then memory freed by somebody who names no stream is safe to
     * reuse. NULL: false. */
    bool (*deallocate_synchronizes)(const void *self);

    /** Give cached memory back to where it came from until at most `keep_bytes` are
     * cached;
     *  `*released_out` is what was given back. NULL: nothing is cached, 0. */
    tarn_status (*trim)(void *self, size_t keep_bytes, size_t *released_out);

    /** The bytes a live block was asked for; a block that is not out here:
     *  TARN_INVALID_ARGUMENT. NULL: TARN_NOT_SUPPORTED. */
    tarn_status (*requested_bytes)(void *self, tarn_device_ptr block, size_t *out);

    /** How many blocks are out. NULL: Tarn counts calls itself; but with `is_equal` blocks
     *  may come back to another object, so then it takes none to be out, and a release is
     *  never refused. */
    size_t (*live_blocks)(const void *self);

    /** Does it serve those who name no stream by itself? That is a promise of two halves.
     * A block that is given back with TARN_STREAM_NONE is handed to nobody until all work
     * is done that was queued in the context before the free, whatever stream it is on: a
     * blocking or a non-blocking one, a thread's own, one that has been destroyed since.
     * And a block that is handed out with TARN_STREAM_NONE has no pending work of any
     * stream behind it. Whoever keeps it need not be waited for. NULL: what free_waits
     * says. */
    bool (*supports_no_stream)(const void *self);
} tarn_resource_ops;

/** Make a resource of your own: `self` is passed to each operation, `device` is where its
 *  memory lives (or TARN_DEVICE_NONE). On success `*out` holds the one reference. The
 * table is copied as far as `ops->size` says; a table without a required operation is
 *  TARN_INVALID_ARGUMENT. On failure `self` stays yours. */
TARN_API tarn_status tarn_resource_create(const tarn_resource_ops *ops, void *self,
                                          int device, tarn_resource **out);

/** How many resources may stack on one that has no upstream. A call to the top one is a call
 *  to each of them, and so is its end. */
enum { TARN_RESOURCE_DEPTH_MAX = 64 };

/** As tarn_resource_create(), for a resource of your own whose operations call `upstream`
 *  (NULL: as tarn_resource_create()). It counts as one more of the stack: over a stack of
 *  TARN_RESOURCE_DEPTH_MAX resources it is TARN_INVALID_ARGUMENT. `upstream` is not retained. Any
 *  thread. */
TARN_API tarn_status tarn_resource_create_with_upstream(const tarn_resource_ops *ops,
                                                        void *self, int device,
                                                        tarn_resource *upstream,
                                                        tarn_resource **out);

/** One more owner; returns its argument. NULL is allowed. */
TARN_API tarn_resource *tarn_resource_retain(tarn_resource *resource);

/** One owner less; the last one destroys the resource. With blocks still out the last
 *  release is refused: TARN_STILL_IN_USE, the words say how many, the reference stays
 *  yours. NULL is TARN_OK. */
TARN_API tarn_status tarn_resource_release(tarn_resource *resource);

/** Allocate at least `bytes`, aligned to `alignment` (0: 256; else a power of two, raised
 * to 256), ready for work queued on `stream` from now on (E3, E12, E13, E21-E23). Another
 * stream first waits for an event that is recorded on `stream` after this call. With
 * TARN_STREAM_NONE the block is ready for every stream where
 * tarn_resource_supports_no_stream(). Blocks of `cuda`, `managed`, `pinned` and `host` are
 * ready for every stream, whatever `stream` is. 0 bytes is NULL and no error. Any thread. */
TARN_API tarn_status tarn_resource_allocate(tarn_resource *resource, size_t bytes,
                                            size_t alignment, tarn_stream stream,
                                            tarn_device_ptr *out);

/** Give a block back, with the `bytes` and `alignment` of its allocation, on a stream on
 *  which it may be reused at once (E4, E14, E24-E27). That need not be the stream of the
 * allocation. The stream has waited for an event behind the last use on each other stream
 * that used the block. No event is needed where tarn_resource_deallocate_synchronizes(), nor with
 * TARN_STREAM_NONE where tarn_resource_supports_no_stream(): that free covers the work that
 * all streams have queued. NULL with 0 bytes is no error. A foreign pointer, a second
 * free, wrong bytes and a wrong alignment are TARN_INVALID_ARGUMENT where the resource can
 * tell, and change nothing. A free that fails in the driver changes nothing either: the
 * block is still out. Once the process ends, and in a forked child, memory of a device is
 * forgotten, which is TARN_OK. Any thread. */
TARN_API tarn_status tarn_resource_deallocate(tarn_resource *resource,
                                              tarn_device_ptr block, size_t bytes,
                                              size_t alignment, tarn_stream stream);

/** Bytes free and in total (E8, E28); TARN_NOT_SUPPORTED where the resource cannot say.
 */
TARN_API tarn_status tarn_resource_memory_info(tarn_resource *resource,
                                               tarn_stream stream, size_t *free_out,
                                               size_t *total_out);

/** Can memory of one be given back to the other (E29)? */
TARN_API bool tarn_resource_is_equal(const tarn_resource *resource,
                                     const tarn_resource *other);
TARN_API bool tarn_resource_supports_streams(const tarn_resource *resource);
TARN_API bool tarn_resource_supports_memory_info(const tarn_resource *resource);
TARN_API bool tarn_resource_deallocate_synchronizes(const tarn_resource *resource);
/** Is memory that comes and goes with TARN_STREAM_NONE safe by itself? What is promised then
 *  stands at `serves_no_stream` of tarn_resource_ops. `cuda`, `managed` and `pinned` do, since their
 *  frees wait; so do a pool and a slab, on the device's own memory and on upstreams that
 *  do or that order by stream; an adaptor and `binning` do where all beneath them do.
 *  `async` does not. NULL is false. Any thread. */
TARN_API bool tarn_resource_supports_no_stream(const tarn_resource *resource);
/** Give back what is cached over `keep_bytes`; `*released_out` (may be NULL) is how much
 *  that was. */
TARN_API tarn_status tarn_resource_trim(tarn_resource *resource, size_t keep_bytes,
                                        size_t *released_out);
TARN_API tarn_status tarn_resource_requested_bytes(tarn_resource *resource,
                                                   tarn_device_ptr block, size_t *out);
TARN_API size_t tarn_resource_live_blocks(const tarn_resource *resource);
TARN_API int tarn_resource_device(const tarn_resource *resource);
TARN_API const char *tarn_resource_name(const tarn_resource *resource);
/** The `self` a resource was created with, for bindings; NULL unless `ops_size` and
 * `name` pointers of its table are those of `ops`. */
TARN_API void *tarn_resource_self(const tarn_resource *resource,
                                  const tarn_resource_ops *ops);

/** cuMemAlloc and cuMemFree on `device`. There is one per device: a second call hands out
 *  another reference to it, so all of them are equal (as RMM's are). Free waits. */
TARN_API tarn_status tarn_cuda_create(int device, tarn_resource **out);

/** Options of an async resource; zeros are the defaults. */
typedef struct tarn_async_options {
    size_t size;                    /**< sizeof(tarn_async_options) */
    size_t initial_bytes;           /**< reserve this much at once; 0: nothing */
    size_t release_threshold_bytes; /**< keep at most this much cached; 0: everything (the
                                         device's own pool: as it is set already) */
    bool use_default_pool;          /**< the device's own pool instead of a new one */
    bool exportable; /**< other processes may open its memory (ipc.h); a new
                                         pool, never the device's own */
} tarn_async_options;

/** The driver's stream-ordered pool (cuMemAllocFromPoolAsync). `options` may be NULL. On
 *  the device's own pool there is one a device, as the pool is; options that are named
 *  then change that pool for all who use it. With TARN_STREAM_NONE an allocation waits
 * for the default stream, so that it is good on any; a free does not wait. An exportable
 * pool may keep memory that is trimmed: CUDA's manual says that drivers do.
 *  TARN_INVALID_ARGUMENT: exportable, and the device's own. TARN_NOT_SUPPORTED: the device
 * has no pools, or none that can be exported. */
TARN_API tarn_status tarn_async_create(int device, const tarn_async_options *options,
                                       tarn_resource **out);

/** Managed memory (cuMemAllocManaged), one per device as tarn_cuda_create(). Free waits.
 */
TARN_API tarn_status tarn_managed_create(int device, tarn_resource **out);

/** Page-locked host memory (cuMemHostAlloc, portable and mapped), one per device. Free
 *  waits. */
TARN_API tarn_status tarn_pinned_create(int device, tarn_resource **out);

/** Ordinary host memory (aligned malloc), no driver at all; one a process. Device
 *  TARN_DEVICE_NONE. */
TARN_API tarn_status tarn_host_create(tarn_resource **out);

/** Options of a slab; zeros are the defaults. */
typedef struct tarn_slab_options {
    size_t size;           /**< sizeof(tarn_slab_options) */
    size_t block_bytes;    /**< of every block; 0: 1 MiB */
    size_t initial_blocks; /**< have this many from the start */
    size_t growth_blocks;  /**< grow by at least this many; 0: as a pool grows */
    size_t maximum_blocks; /**< never have memory for more than this, in whole pages of
                                2 MiB; 0: all that there is */
} tarn_slab_options;

/** Blocks of one size, for requests of up to that many bytes; a larger one is
 * TARN_OUT_OF_MEMORY. It is a pool (pool.h) whose every block has that size, so nothing is
 * cut up and any free block serves any request; all calls of pool.h take it. `upstream` is
 * as for tarn_pool_create(). `options` may be NULL. Any thread. */
TARN_API tarn_status tarn_slab_create(int device, tarn_resource *upstream,
                                      const tarn_slab_options *options,
                                      tarn_resource **out);

/** Options of a binning resource; zeros are the defaults. */
typedef struct tarn_binning_options {
    size_t size; /**< sizeof(tarn_binning_options) */
    /** Bins of its own: a slab for each power of two from 2^smallest to 2^largest bytes, on
     * `upstream`. At most 62; both 0: none. */
    unsigned min_size_exponent, max_size_exponent;
} tarn_binning_options;

/** Each request goes to the resource for its size: the smallest bin that it fits into, or
 * `upstream` where it fits into none. `options` may be NULL. Any thread. */
TARN_API tarn_status tarn_binning_create(tarn_resource *upstream,
                                         const tarn_binning_options *options,
                                         tarn_resource **out);

/** Have requests of up to `bytes` bytes, that fit into no smaller bin, served by `bin`,
 * which is retained; NULL: by a new slab on upstream. A bin of that size stays as it is. A
 * block goes back by its size, so TARN_STILL_IN_USE while blocks are out, and also for a bin
 * that is over more resources than the binning one, if that has had a resource over it.
 * TARN_INVALID_ARGUMENT: another device, the 65th bin, a bin over a stack of
 * TARN_RESOURCE_DEPTH_MAX resources. Any thread. */
TARN_API tarn_status tarn_binning_add_bin(tarn_resource *binning, size_t bytes,
                                          tarn_resource *bin);

/** What happened to memory, once a public call is over. */
typedef enum tarn_action {
    TARN_ACTION_ALLOCATE = 0,
    TARN_ACTION_FREE = 1,
    TARN_ACTION_ALLOCATE_FAILURE = 2
} tarn_action;

/** One call of tarn_resource_allocate() or tarn_resource_deallocate(), as a tap sees it.
 */
typedef struct tarn_observer_event {
    tarn_action action;
    tarn_resource *resource;
    tarn_device_ptr block; /**< 0 for a failure */
    size_t bytes;          /**< as asked for */
    size_t alignment;
    tarn_stream stream;
    uint64_t start_ns; /**< CLOCK_MONOTONIC */
    uint64_t end_ns;
} tarn_observer_event;

typedef void (*tarn_observer)(void *data, const tarn_observer_event *event);

/** Watch every outermost public allocate and free of the process (E11): an allocation
 * after it succeeded, a free before it reaches the resource. Requests for 0 bytes and
 * arguments that cannot be are not told. One tap a process: NULL takes it away; a second
 * one is TARN_STILL_IN_USE. What the tap itself allocates is not told to it. Off, it
 * costs one load. The tap is called on the calling thread with no lock held, on several at
 * once, too. It has to return: to leave it by longjmp() or an exception is forbidden. Taking it
 * away waits until no other thread runs it, so that `data` may be freed afterwards; in the tap
 * itself the thread's own call goes on. */
TARN_API tarn_status tarn_resource_set_observer(tarn_observer tap, void *data);

TARN_END_DECLS
#endif
