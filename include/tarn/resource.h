/* resource.h -- memory resources: objects that allocate and deallocate memory.
 *
 * The memory calls of the GPU driver, every pool and every adaptor are resources. A
 * resource can take its memory from another one, its upstream: a logger over a limiter
 * over cuMemAlloc is a stack of three resources.
 *
 * A resource is reference-counted. It has one device; `host` alone has none. For its own
 * driver calls a resource makes the primary context of its device current, and restores
 * the caller's context afterwards.
 *
 * | Resource   | Memory                     | Stream-ordered    | No-stream         |
 * |------------|----------------------------|-------------------|-------------------|
 * | cuda       | cuMemAlloc                 | no                | yes               |
 * | managed    | cuMemAllocManaged          | no                | yes               |
 * | pinned     | cuMemHostAlloc             | no                | yes               |
 * | system     | aligned host memory        | no                | yes               |
 * | host       | aligned host memory        | no                | no                |
 * | async      | cuMemAllocFromPoolAsync    | yes               | no                |
 * | pool, slab | the device, or an upstream | yes               | see below         |
 * | binning    | an upstream and its bins   | if all these are  | if all these are  |
 * | adaptors   | an upstream                | as the upstream   | as the upstream   |
 *
 * A slab (tarn_slab_create()) is a pool whose blocks all have one size. The column
 * "Stream-ordered" is tarn_resource_supports_streams(). The column "No-stream" is
 * tarn_resource_supports_no_stream(), which lists the results of pools and slabs. For
 * no-stream allocations and frees see docs/glossary.md.
 *
 * An allocation and a free are operations in the order of a stream, as cuMemAllocAsync()
 * and cuMemFreeAsync() are. A resource cannot detect how other streams use a block, so
 * the program orders that use:
 *
 *   - Before the first use on another stream: record an event on the stream of the
 *     allocation, after tarn_resource_allocate(). Let the other stream wait for it.
 *   - Before the free: record an event after the last use on each other stream. Let the
 *     stream of the free wait for these events.
 *
 * The calls are cuEventRecord() and cuStreamWaitEvent(). A wait of the host also works,
 * such as tarn_stream_synchronize(). Without these waits, the resource may allocate the
 * memory of a freed block again while other streams still use the freed block. Both uses
 * then run simultaneously. No call reports that.
 *
 * Exit has begun when exit() has called the handler that Tarn registered with atexit().
 * Tarn registers it when it opens the driver: in tarn_driver_open(), or in the first call
 * that needs the driver.
 */
#ifndef TARN_RESOURCE_H
#define TARN_RESOURCE_H

#include <tarn/driver.h>

TARN_BEGIN_DECLS

/** @addtogroup tarn_resource
 * @{ */

/** Minimum alignment of every block, in bytes. */
#define TARN_ALIGNMENT 256u

/** Device number of memory that belongs to no device (`host`). */
#define TARN_DEVICE_NONE (-1)

/** An opaque, reference-counted memory resource. */
typedef struct tarn_resource tarn_resource;

/**
 * The table of operations of a resource.
 *
 * To write a resource, fill one `static const` table and pass it to
 * tarn_resource_create(). Tarn may call the operations from any thread at any time. They
 * may call Tarn; tarn_pool_create() states the exceptions for the upstream of a pool. An
 * operation that fails records its message with tarn_error_set(). If it does not, Tarn
 * records `NAME: OPERATION failed, device N`.
 *
 * Two resources have the same table if `name`, `allocate` and `size` of their tables are
 * equal. `name` is compared as a pointer.
 */
typedef struct tarn_resource_ops {
    /** The size of this table in bytes, in the build that fills it.
     *
     * Set it to sizeof(tarn_resource_ops). Later versions of Tarn only append operations.
     * The size tells Tarn which operations that build knows; the others count as NULL. */
    size_t size;

    /** Short name for logs and the command `tarn info`, such as "pool".
     *
     * It has at most 127 bytes and static storage. */
    const char *name;

    /** Allocate `bytes` (> 0) at a multiple of `alignment`; required.
     *
     * `alignment` is a power of two and at least 256. The block is ready for work that is
     * queued on `stream` from now on. An exhausted resource returns TARN_OUT_OF_MEMORY.
     * On failure the operation leaves `*out` unchanged. */
    tarn_status (*allocate)(void *self, size_t bytes, size_t alignment,
                            tarn_stream stream, tarn_device_ptr *out);

    /** Deallocate a block (not NULL); required.
     *
     * `bytes` and `alignment` are those of the allocation. Work that is already queued on
     * `stream` may still use the block. If the operation can detect wrong bytes, or a
     * block that is not a live block of this resource, it returns TARN_INVALID_ARGUMENT
     * and changes nothing. */
    tarn_status (*deallocate)(void *self, tarn_device_ptr block, size_t bytes,
                              size_t alignment, tarn_stream stream);

    /** Destroy `self`; required.
     *
     * It also releases the upstream, if `self` has a reference to one. Tarn calls it
     * once, at the release of the last reference, when `live_blocks` is 0. Where Tarn
     * counts no blocks (see `live_blocks`), blocks may still be live. */
    void (*destroy)(void *self);

    /* The operations from here on are optional. For NULL, Tarn uses the stated
     * default. */

    /** Query the free and the total bytes.
     *
     * `stream` is the argument of tarn_resource_memory_info(). An operation that needs a
     * stream for its query uses this one. NULL: tarn_resource_memory_info() returns
     * TARN_NOT_SUPPORTED. */
    tarn_status (*memory_info)(void *self, tarn_stream stream, size_t *free_out,
                               size_t *total_out);

    /** Return true if each of two resources can deallocate the blocks of the other.
     *
     * Tarn calls it only for two resources of the same table. NULL: only the same object
     * is equal. */
    bool (*is_equal)(const void *self, const void *other);

    /** Return true if the resource orders memory by stream.
     *
     * NULL: false; the resource ignores the stream. */
    bool (*supports_streams)(const void *self);

    /** Return true if deallocate() waits until the device has finished with the block.
     *
     * cuMemFree waits in this way. After a no-stream free, such a resource can reuse the
     * memory immediately. NULL: false. */
    bool (*deallocate_synchronizes)(const void *self);

    /** Return cached memory until at most `keep_bytes` are cached.
     *
     * The memory returns to the upstream, or to the device if there is no upstream.
     * `*released_out` receives the number of bytes that were returned. NULL: the resource
     * caches nothing and releases 0 bytes. */
    tarn_status (*trim)(void *self, size_t keep_bytes, size_t *released_out);

    /** Query the requested size of a live block, in bytes.
     *
     * For a block that is not a live allocation of this resource it returns
     * TARN_INVALID_ARGUMENT. NULL: TARN_NOT_SUPPORTED. */
    tarn_status (*requested_bytes)(void *self, tarn_device_ptr block, size_t *out);

    /** Return the number of live blocks.
     *
     * NULL: Tarn counts the successful allocations and frees. If the table has
     * `is_equal`, Tarn cannot count them, because an equal resource may deallocate the
     * blocks. The number is then 0, and the last release never fails with
     * TARN_STILL_IN_USE. */
    size_t (*live_blocks)(const void *self);

    /** Return true if allocating and freeing without a stream needs no extra
     * synchronization.
     *
     * The resource then promises two things:
     * - It reuses a block that was freed with TARN_STREAM_NONE only after all work is
     *   done that was queued in the context before the free. The stream of that work may
     *   be blocking, non-blocking, per-thread, or destroyed since.
     * - When it allocates a block with TARN_STREAM_NONE, no queued work uses the block.
     *
     * A caller that allocates and frees with TARN_STREAM_NONE then needs no waits. NULL:
     * the result of `deallocate_synchronizes`. */
    bool (*supports_no_stream)(const void *self);

    /** Receive a request for 0 bytes, which needs no memory.
     *
     * Tarn serves such requests itself: an allocation has address 0, and its free does
     * nothing. `is_free` tells which of them it is. An adaptor passes the request to its
     * upstream, and a logger writes a row. NULL: nothing happens.
     *
     * @since 0.2 */
    void (*empty_request)(void *self, bool is_free, tarn_stream stream);
} tarn_resource_ops;

/**
 * Create a resource from a table of operations.
 *
 * Tarn copies the table as far as `ops->size` says.
 *
 * Thread-safety: any thread.
 *
 * @param ops        The table; copied. `size`, `name`, `allocate`, `deallocate` and
 *                   `destroy` are required.
 * @param self       Passed to each operation. On success the resource owns it, and its
 *                   end passes it to `destroy`. On failure the caller still owns it.
 * @param device     The device of the memory, or TARN_DEVICE_NONE.
 * @param[out] out   The new resource with one reference, which the caller owns.
 * @return
 * - TARN_OK: the resource exists.
 * - TARN_INVALID_ARGUMENT: `ops` is NULL, lacks a required entry or has a longer name,
 *   `device` is less than TARN_DEVICE_NONE, or `out` is NULL.
 * - TARN_OUT_OF_MEMORY: host memory is exhausted.
 * @since 0.1
 */
TARN_API tarn_status tarn_resource_create(const tarn_resource_ops *ops, void *self,
                                          int device, tarn_resource **out);

/** The maximum depth of a stack of resources. */
enum {
    /** Maximum depth: the number of resources beneath a resource.
     *
     * A resource without an upstream has depth 0. Any other has the depth of its upstream
     * plus 1. A binning resource has the depth of its upstream plus 2, because its bins
     * may be slabs with that upstream. The maximum bounds the use of the thread's stack:
     * a call to the top resource calls each resource beneath it, and so does its end. */
    TARN_RESOURCE_DEPTH_MAX = 64
};

/**
 * Create a resource whose operations call an upstream resource.
 *
 * It is tarn_resource_create() with a depth: one more than that of `upstream`, see
 * TARN_RESOURCE_DEPTH_MAX.
 *
 * Thread-safety: any thread.
 *
 * @param ops        The table; copied, as in tarn_resource_create().
 * @param self       Passed to each operation; owned as in tarn_resource_create().
 * @param device     The device of the memory, or TARN_DEVICE_NONE.
 * @param upstream   The resource beneath. This call does not retain it: `self` holds a
 *                   reference, which the operation `destroy` releases. NULL: as
 *                   tarn_resource_create().
 * @param[out] out   The new resource with one reference, which the caller owns.
 * @return
 * - TARN_OK: the resource exists.
 * - TARN_INVALID_ARGUMENT: as for tarn_resource_create(), or the depth of `upstream` is
 *   TARN_RESOURCE_DEPTH_MAX already.
 * - TARN_OUT_OF_MEMORY: host memory is exhausted.
 * @since 0.2
 */
TARN_API tarn_status tarn_resource_create_with_upstream(const tarn_resource_ops *ops,
                                                        void *self, int device,
                                                        tarn_resource *upstream,
                                                        tarn_resource **out);

/**
 * Add a reference to a resource.
 *
 * Thread-safety: any thread.
 *
 * @param resource  The resource; NULL is allowed.
 * @return `resource`.
 * @since 0.1
 */
TARN_API tarn_resource *tarn_resource_retain(tarn_resource *resource);

/**
 * Drop a reference to a resource; the last release destroys it.
 *
 * Thread-safety: any thread.
 *
 * @param resource  The resource; NULL is allowed and does nothing.
 * @return
 * - TARN_OK: the reference is gone.
 * - TARN_STILL_IN_USE: it is the last reference and blocks are live. The message has
 *   their number. The caller keeps the reference.
 * @since 0.1
 */
TARN_API tarn_status tarn_resource_release(tarn_resource *resource);

/**
 * Allocate at least `bytes` bytes from a resource.
 *
 * The block is ready for work that is queued on `stream` from now on. Another stream must
 * first wait for an event that is recorded on `stream` after this call. With
 * TARN_STREAM_NONE the block is ready for every stream if
 * tarn_resource_supports_no_stream() is true. Blocks of `cuda`, `managed`, `pinned`,
 * `system` and `host` are ready for every stream, whatever `stream` is.
 *
 * Thread-safety: any thread.
 *
 * @param resource   The resource; borrowed.
 * @param bytes      Size in bytes. 0 sets `*out` to 0 and is no error.
 * @param alignment  A power of two in bytes, or 0. 0 and less than 256 count as 256.
 * @param stream     The stream that orders the memory, or TARN_STREAM_NONE.
 * @param[out] out   The address of the block. Unchanged on failure.
 * @return
 * - TARN_OK: the block is live.
 * - TARN_OUT_OF_MEMORY: the resource cannot obtain the memory.
 * - TARN_INVALID_ARGUMENT: `resource` or `out` is NULL, or `alignment` is neither 0 nor a
 *   power of two.
 * - TARN_PLUGIN_FAILURE: the operation `allocate` of the resource returned something
 *   invalid: no address, an address with a smaller alignment, or a value that is no
 *   status.
 * - Other statuses: those of the operation `allocate`.
 * @since 0.1
 */
TARN_API tarn_status tarn_resource_allocate(tarn_resource *resource, size_t bytes,
                                            size_t alignment, tarn_stream stream,
                                            tarn_device_ptr *out);

/**
 * Deallocate a block in the order of a stream.
 *
 * The resource may reuse the block on `stream` immediately. `stream` may differ from the
 * stream of the allocation. If other streams used the block, the caller first records an
 * event on each of them, after the last use. It then lets `stream` wait for these events.
 *
 * The caller needs no such event in two cases:
 * - tarn_resource_deallocate_synchronizes() is true.
 * - `stream` is TARN_STREAM_NONE and tarn_resource_supports_no_stream() is true. The
 *   resource then reuses the block only after the work that all streams have queued.
 *
 * The resource rejects a block of another resource, a second free, wrong bytes and a
 * wrong alignment if it can detect them. After every failure, also one of the driver, the
 * block is still live and nothing has changed. After exit has begun, and in a forked
 * child, the call frees no device memory and returns TARN_OK.
 *
 * Thread-safety: any thread.
 *
 * @param resource   The resource that allocated the block; borrowed.
 * @param block      The block. 0 with 0 bytes does nothing and is no error.
 * @param bytes      Size in bytes, as in the allocation.
 * @param alignment  Alignment in bytes, as in the allocation. Here too, 0 and less than
 *                   256 count as 256.
 * @param stream     The stream of the free, or TARN_STREAM_NONE.
 * @return
 * - TARN_OK: the block is no longer live.
 * - TARN_INVALID_ARGUMENT: `resource` is NULL, or `alignment` is neither 0 nor a power of
 *   two. Or one of `block` and `bytes` is 0 and the other is not, or the resource rejects
 *   the block.
 * - TARN_PLUGIN_FAILURE: the operation returned a value that is no status.
 * - Other statuses: those of the operation `deallocate`.
 * @since 0.1
 */
TARN_API tarn_status tarn_resource_deallocate(tarn_resource *resource,
                                              tarn_device_ptr block, size_t bytes,
                                              size_t alignment, tarn_stream stream);

/**
 * Query the free and the total memory of a resource.
 *
 * On failure the outputs are unchanged.
 *
 * Thread-safety: any thread.
 *
 * @param resource        The resource; borrowed.
 * @param stream          Passed to the operation `memory_info`, which may ignore it.
 * @param[out] free_out   Free bytes.
 * @param[out] total_out  Total bytes.
 * @return
 * - TARN_OK: both outputs are set.
 * - TARN_NOT_SUPPORTED: the resource has no memory information.
 * - TARN_INVALID_ARGUMENT: `resource`, `free_out` or `total_out` is NULL.
 * - TARN_PLUGIN_FAILURE: the operation returned more free bytes than total bytes, or a
 *   value that is no status.
 * - Other statuses: those of the operation `memory_info`.
 * @since 0.1
 */
TARN_API tarn_status tarn_resource_memory_info(tarn_resource *resource,
                                               tarn_stream stream, size_t *free_out,
                                               size_t *total_out);

/**
 * Test whether each of two resources can deallocate the blocks of the other.
 *
 * Thread-safety: any thread.
 *
 * @param resource  A resource; borrowed.
 * @param other     Another resource; borrowed.
 * @return true if both are one object. Also true if they have the same table (see
 *         tarn_resource_ops) and its `is_equal` returns true.
 * @since 0.1
 */
TARN_API bool tarn_resource_is_equal(const tarn_resource *resource,
                                     const tarn_resource *other);

/**
 * Test whether a resource orders memory by stream.
 *
 * Thread-safety: any thread.
 *
 * @param resource  The resource; borrowed. NULL: false.
 * @return true if the resource is stream-ordered.
 * @since 0.1
 */
TARN_API bool tarn_resource_supports_streams(const tarn_resource *resource);

/**
 * Test whether tarn_resource_memory_info() works for a resource.
 *
 * Thread-safety: any thread.
 *
 * @param resource  The resource; borrowed. NULL: false.
 * @return true if the resource has the operation `memory_info`.
 * @since 0.1
 */
TARN_API bool tarn_resource_supports_memory_info(const tarn_resource *resource);

/**
 * Test whether a free waits until the device has finished with the block.
 *
 * Thread-safety: any thread.
 *
 * @param resource  The resource; borrowed. NULL: false.
 * @return true if tarn_resource_deallocate() waits by itself, as cuMemFree does.
 * @since 0.2
 */
TARN_API bool tarn_resource_deallocate_synchronizes(const tarn_resource *resource);

/**
 * Test whether allocating and freeing with TARN_STREAM_NONE needs no extra
 * synchronization.
 *
 * The member `supports_no_stream` of tarn_resource_ops states the promise.
 *
 * | Resource                    | Result                                                |
 * |-----------------------------|-------------------------------------------------------|
 * | `cuda`, `managed`, `pinned` | true, because their frees wait                        |
 * | `system`                    | true, because its frees wait                          |
 * | `host`, `async`             | false                                                 |
 * | a pool or a slab            | true without an upstream                              |
 * | a pool or a slab            | true if the upstream returns true                     |
 * | a pool or a slab            | true if the upstream is stream-ordered                |
 * | a pool                      | true with TARN_POOL_NO_STREAM_SINGLE, see below       |
 * | a pool or a slab            | else false                                            |
 * | an adaptor                  | as its upstream                                       |
 * | `binning`                   | true if its upstream and all bins return true         |
 *
 * With TARN_POOL_NO_STREAM_SINGLE the program promises that all its work is on one
 * stream, or ordered as if it were. TARN_STREAM_NONE then means the legacy default
 * stream.
 *
 * Thread-safety: any thread.
 *
 * @param resource  The resource; borrowed. NULL: false.
 * @return true if the resource keeps the promise.
 * @since 0.2
 */
TARN_API bool tarn_resource_supports_no_stream(const tarn_resource *resource);

/**
 * Return cached memory until at most `keep_bytes` bytes are cached.
 *
 * The memory returns to the upstream, or to the device if there is no upstream. A
 * resource without a cache releases 0 bytes.
 *
 * Thread-safety: any thread.
 *
 * @param resource           The resource; borrowed.
 * @param keep_bytes         Bytes that the resource may keep cached.
 * @param[out] released_out  Released bytes; may be NULL. Unchanged on failure.
 * @return
 * - TARN_OK: the resource is trimmed.
 * - TARN_INVALID_ARGUMENT: `resource` is NULL.
 * - TARN_PLUGIN_FAILURE: the operation returned a value that is no status.
 * - Other statuses: those of the operation `trim`.
 * @since 0.1
 */
TARN_API tarn_status tarn_resource_trim(tarn_resource *resource, size_t keep_bytes,
                                        size_t *released_out);

/**
 * Query the requested size of a live block.
 *
 * Thread-safety: any thread.
 *
 * @param resource  The resource that allocated the block; borrowed.
 * @param block     The block.
 * @param[out] out  Size in bytes, as in the allocation. Unchanged on failure.
 * @return
 * - TARN_OK: `*out` is set.
 * - TARN_NOT_SUPPORTED: the resource does not know its blocks.
 * - TARN_INVALID_ARGUMENT: `resource` or `out` is NULL, or `block` is not a live
 *   allocation of this resource.
 * - TARN_PLUGIN_FAILURE: the operation returned a value that is no status.
 * - Other statuses: those of the operation `requested_bytes`.
 * @since 0.2
 */
TARN_API tarn_status tarn_resource_requested_bytes(tarn_resource *resource,
                                                   tarn_device_ptr block, size_t *out);

/**
 * Return the number of live blocks of a resource.
 *
 * Thread-safety: any thread.
 *
 * @param resource  The resource; borrowed. NULL: 0.
 * @return The number of live blocks, as the member `live_blocks` of tarn_resource_ops
 * states.
 * @since 0.2
 */
TARN_API size_t tarn_resource_live_blocks(const tarn_resource *resource);

/**
 * Return the device of a resource.
 *
 * Thread-safety: any thread.
 *
 * @param resource  The resource; borrowed.
 * @return The device number. TARN_DEVICE_NONE for NULL and for memory of no device.
 * @since 0.1
 */
TARN_API int tarn_resource_device(const tarn_resource *resource);

/**
 * Return the name of a resource.
 *
 * Thread-safety: any thread.
 *
 * @param resource  The resource; borrowed. NULL: "".
 * @return The name from its table of operations; borrowed, static storage.
 * @since 0.1
 */
TARN_API const char *tarn_resource_name(const tarn_resource *resource);

/**
 * Return the `self` of a resource that was created from a given table; for bindings.
 *
 * Thread-safety: any thread.
 *
 * @param resource  The resource; borrowed. NULL is allowed.
 * @param ops       The table to compare with. NULL is allowed.
 * @return `self` if `ops` is the same table as that of the resource (see
 *         tarn_resource_ops), else NULL.
 * @since 0.1
 */
TARN_API void *tarn_resource_self(const tarn_resource *resource,
                                  const tarn_resource_ops *ops);

/** @} */

/** @addtogroup tarn_resource_kinds
 * @{ */

/**
 * Return the resource of cuMemAlloc and cuMemFree on a device.
 *
 * There is one object per device. A second call returns another reference to it, so all
 * of them are equal, as in RMM. A free waits until the device has finished with the
 * block.
 *
 * Thread-safety: any thread.
 *
 * @param device    The device number.
 * @param[out] out  The resource; the caller owns a reference.
 * @return
 * - TARN_OK: `*out` is set.
 * - TARN_INVALID_ARGUMENT: there is no such device, or `out` is NULL.
 * - TARN_NO_DRIVER: the driver is not open, and the call could not open it.
 * - TARN_OUT_OF_MEMORY: host memory is exhausted.
 * @since 0.1
 */
TARN_API tarn_status tarn_cuda_create(int device, tarn_resource **out);

/** Options of an async resource; zeros are the defaults. */
typedef struct tarn_async_options {
    size_t size;          /**< sizeof(tarn_async_options) */
    size_t initial_bytes; /**< Bytes that the driver's pool reserves at creation. */
    /** Release threshold of the driver's pool (CU_MEMPOOL_ATTR_RELEASE_THRESHOLD).
     *
     * It counts all bytes that the pool holds, those of live blocks included. Above it,
     * the driver releases free memory when the program synchronizes. 0: a new pool keeps
     * everything, and the default pool of the device keeps its present threshold. */
    size_t release_threshold_bytes;
    bool use_default_pool; /**< Use the default pool of the device, not a new pool. */
    /** Let other processes open the memory (ipc.h).
     *
     * It needs a new pool, never the default pool of the device. */
    bool exportable;
    /** Let the new pool hold managed memory, which host and device can use.
     *
     * It excludes `exportable`, `use_default_pool` and `pool`. CUDA 13 introduced such
     * pools.
     * @since 0.2 */
    bool managed;
    /** Allocate from this pool of the driver, a CUmemoryPool; borrowed.
     *
     * The program keeps it until the resource ends. It excludes `exportable`,
     * `use_default_pool` and `managed`. NULL: a new pool.
     * @since 0.2 */
    void *pool;
} tarn_async_options;

/**
 * Create a resource over a stream-ordered pool of the driver (cuMemAllocFromPoolAsync).
 *
 * By default each resource has a driver pool of its own. With `use_default_pool` there is
 * one object per device, as there is one such pool. Options that are not zero then change
 * that pool for all its users.
 *
 * - An allocation with TARN_STREAM_NONE allocates on the per-thread default stream and
 *   waits for it. The block is then ready for every stream. If that stream captures, the
 *   call creates a temporary stream and uses that one.
 * - A free with TARN_STREAM_NONE is in the order of the legacy default stream. It does
 *   not wait.
 * - A trim of an exportable pool may release nothing, whatever `keep_bytes` is. The CUDA
 *   manual describes this limit of the driver.
 *
 * Thread-safety: any thread.
 *
 * @param device    The device number.
 * @param options   The options; copied. NULL: the defaults.
 * @param[out] out  The resource; the caller owns a reference.
 * @return
 * - TARN_OK: `*out` is set.
 * - TARN_INVALID_ARGUMENT: two options that exclude each other, no such device, `out` is
 *   NULL, or `options` has a nonzero member that this version of Tarn does not know.
 * - TARN_NOT_SUPPORTED: the device has no memory pools, none that can be exported, or
 *   none of managed memory.
 * - TARN_NO_DRIVER: the driver is not open, and the call could not open it.
 * - TARN_OUT_OF_MEMORY: the initial bytes or host memory are unavailable.
 * - TARN_DRIVER_FAILURE: a driver call failed.
 * @since 0.1
 */
TARN_API tarn_status tarn_async_create(int device, const tarn_async_options *options,
                                       tarn_resource **out);

/**
 * Query the driver's pool of an async resource.
 *
 * Thread-safety: any thread.
 *
 * @param async     The async resource; borrowed.
 * @param[out] out  The CUmemoryPool; borrowed, valid while the resource exists.
 * @return
 * - TARN_OK: `*out` is set.
 * - TARN_INVALID_ARGUMENT: `async` is another kind of resource, or `out` is NULL.
 * @since 0.2
 */
TARN_API tarn_status tarn_async_pool(tarn_resource *async, void **out);

/**
 * Return the resource of managed memory (cuMemAllocManaged) on a device.
 *
 * There is one object per device, as with tarn_cuda_create(). A free waits until the
 * device has finished with the block.
 *
 * Thread-safety: any thread.
 *
 * @param device    The device number.
 * @param[out] out  The resource; the caller owns a reference.
 * @return
 * - TARN_OK: `*out` is set.
 * - TARN_INVALID_ARGUMENT: there is no such device, or `out` is NULL.
 * - TARN_NOT_SUPPORTED: the device has no managed memory.
 * - TARN_NO_DRIVER: the driver is not open, and the call could not open it.
 * - TARN_OUT_OF_MEMORY: host memory is exhausted.
 * - TARN_DRIVER_FAILURE: a driver call failed.
 * @since 0.1
 */
TARN_API tarn_status tarn_managed_create(int device, tarn_resource **out);

/**
 * Return the resource of page-locked host memory for a device.
 *
 * The memory comes from cuMemHostAlloc with the flags for portable and mapped memory.
 * There is one object per device, as with tarn_cuda_create(). A free waits until the
 * device has finished with the block.
 *
 * Thread-safety: any thread.
 *
 * @param device    The device number.
 * @param[out] out  The resource; the caller owns a reference.
 * @return
 * - TARN_OK: `*out` is set.
 * - TARN_INVALID_ARGUMENT: there is no such device, or `out` is NULL.
 * - TARN_NO_DRIVER: the driver is not open, and the call could not open it.
 * - TARN_OUT_OF_MEMORY: host memory is exhausted.
 * @since 0.1
 */
TARN_API tarn_status tarn_pinned_create(int device, tarn_resource **out);

/** Options of a system resource; zeros are the defaults. */
typedef struct tarn_system_options {
    size_t size; /**< sizeof(tarn_system_options) */
    /** Advise the driver where the memory of each block should be (cuMemAdvise).
     *
     * The part of a block that fits into the free memory of the device, less
     * `headroom_bytes`, prefers the device. The rest prefers the host. */
    bool advise;
    size_t headroom_bytes; /**< Bytes of the device to leave free; needs `advise`. */
} tarn_system_options;

/**
 * Return a resource of ordinary host memory that a device can access by itself.
 *
 * The device needs pageable memory access (CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS).
 * The memory comes from aligned_alloc(). A free waits until the device has finished with
 * the block. Without `advise` there is one object per device, as with tarn_cuda_create().
 *
 * Thread-safety: any thread.
 *
 * @param device    The device number.
 * @param options   The options; copied. NULL: the defaults.
 * @param[out] out  The resource; the caller owns a reference.
 * @return
 * - TARN_OK: `*out` is set.
 * - TARN_INVALID_ARGUMENT: there is no such device, `out` is NULL, or `headroom_bytes` is
 *   set without `advise`. Or `options` has a nonzero member that this version of Tarn
 *   does not know.
 * - TARN_NOT_SUPPORTED: the device cannot access pageable host memory.
 * - TARN_NO_DRIVER: the driver is not open, and the call could not open it.
 * - TARN_OUT_OF_MEMORY: host memory is exhausted.
 * @since 0.2
 */
TARN_API tarn_status tarn_system_create(int device, const tarn_system_options *options,
                                        tarn_resource **out);

/**
 * Return the resource of ordinary host memory.
 *
 * The memory is aligned host memory; the resource uses no driver. There is one object per
 * process. Its device is TARN_DEVICE_NONE.
 *
 * Thread-safety: any thread.
 *
 * @param[out] out  The resource; the caller owns a reference.
 * @return
 * - TARN_OK: `*out` is set.
 * - TARN_INVALID_ARGUMENT: `out` is NULL.
 * - TARN_OUT_OF_MEMORY: host memory is exhausted.
 * @since 0.1
 */
TARN_API tarn_status tarn_host_create(tarn_resource **out);

/** Options of a slab; zeros are the defaults. */
typedef struct tarn_slab_options {
    size_t size;           /**< sizeof(tarn_slab_options) */
    size_t block_bytes;    /**< Size of every block in bytes; 0: 1 MiB. */
    size_t initial_blocks; /**< Number of blocks that the slab obtains at creation. */
    /** Minimum growth in blocks.
     *
     * 0: the slab grows by the steps of a pool, see `growth_bytes` of
     * tarn_pool_options. The value must not exceed `maximum_blocks`, unless that is 0. */
    size_t growth_blocks;
    /** Maximum number of blocks; 0: no maximum.
     *
     * The slab obtains memory in multiples of 2 MiB, the granularity of physical memory.
     * It rounds the bytes of the maximum up to such a multiple, and uses all of them. So
     * small blocks can be more than this number. */
    size_t maximum_blocks;
} tarn_slab_options;

/**
 * Create a slab: a resource whose blocks all have one size.
 *
 * A slab serves requests of up to that size. A larger request returns
 * TARN_OUT_OF_MEMORY. A slab is a pool (pool.h) that does not split its blocks, so every
 * block has the size for every request. The order of streams is that of a pool. All
 * functions of pool.h accept a slab.
 *
 * Thread-safety: any thread.
 *
 * @param device    The device number.
 * @param upstream  The source of the memory; retained. NULL: the device, as for
 *                  tarn_pool_create().
 * @param options   The options; copied. NULL: the defaults.
 * @param[out] out  The slab; the caller owns a reference.
 * @return
 * - TARN_OK: the slab exists.
 * - TARN_INVALID_ARGUMENT: `initial_blocks` or `growth_blocks` is over `maximum_blocks`,
 *   or `options` has a nonzero member that this version of Tarn does not know. Or an
 *   argument is one that tarn_pool_create() rejects.
 * - TARN_OUT_OF_MEMORY: the initial blocks are unavailable, or the block counts exceed
 *   the address space.
 * - Other statuses: those of tarn_pool_create().
 * @since 0.1
 */
TARN_API tarn_status tarn_slab_create(int device, tarn_resource *upstream,
                                      const tarn_slab_options *options,
                                      tarn_resource **out);

/** Options of a binning resource; zeros are the defaults. */
typedef struct tarn_binning_options {
    size_t size;                /**< sizeof(tarn_binning_options) */
    unsigned min_size_exponent, /**< Exponent of the smallest bin: 2^min bytes.
                                 *
                                 * The binning resource makes a slab over its upstream for
                                 * each power of two from 2^min to 2^max bytes. Both 0: no
                                 * bins. */
        max_size_exponent;      /**< Exponent of the largest bin; at most 62. */
} tarn_binning_options;

/**
 * Create a resource that routes each request by its size.
 *
 * A request goes to the smallest bin that it fits into. A request that fits into no bin
 * goes to `upstream`.
 *
 * Thread-safety: any thread.
 *
 * @param upstream  The resource for large requests; retained.
 * @param options   The options; copied. NULL: the defaults.
 * @param[out] out  The binning resource; the caller owns a reference.
 * @return
 * - TARN_OK: the resource exists.
 * - TARN_INVALID_ARGUMENT: `upstream` or `out` is NULL, or the depth of `upstream` is
 *   TARN_RESOURCE_DEPTH_MAX. Or `min_size_exponent` exceeds `max_size_exponent`, or that
 *   exceeds 62. Or `options` has a nonzero member that this version of Tarn does not
 *   know.
 * - TARN_OUT_OF_MEMORY: host memory is exhausted.
 * - Other statuses: those of tarn_slab_create() for the bins.
 * @since 0.1
 */
TARN_API tarn_status tarn_binning_create(tarn_resource *upstream,
                                         const tarn_binning_options *options,
                                         tarn_resource **out);

/**
 * Add a bin for requests of up to `bytes` bytes that fit into no smaller bin.
 *
 * If the binning resource already has a bin of that size, the call changes nothing and
 * returns TARN_OK. Live blocks stay where they are, and return to the resource that they
 * came from.
 *
 * The depth of a resource is the number of resources beneath it, see
 * TARN_RESOURCE_DEPTH_MAX. A bin whose depth is at least that of `binning` increases the
 * depth of `binning`. A new slab (`bin` is NULL) never does. Once another resource has
 * been created over `binning`, its depth can no longer increase.
 *
 * Thread-safety: any thread.
 *
 * @param binning  The binning resource; borrowed.
 * @param bytes    Largest request of the bin, in bytes; not 0.
 * @param bin      The resource that serves the bin; retained. NULL: a new slab over the
 *                 upstream.
 * @return
 * - TARN_OK: a bin of that size exists.
 * - TARN_STILL_IN_USE: the bin would increase the depth of `binning`, and a resource has
 *   been created over `binning`.
 * - TARN_INVALID_ARGUMENT: `binning` is no binning resource, or `bytes` is 0. Or `bin` is
 *   `binning`, or of another device, or its depth is TARN_RESOURCE_DEPTH_MAX. Or
 *   `binning` has 64 bins already.
 * - TARN_OUT_OF_MEMORY: host memory is exhausted.
 * - Other statuses: those of tarn_slab_create(), with `bin` NULL.
 * @since 0.1
 */
TARN_API tarn_status tarn_binning_add_bin(tarn_resource *binning, size_t bytes,
                                          tarn_resource *bin);

/** @} */

/** @addtogroup tarn_resource
 * @{ */

/** The kind of a call that an observer receives. */
typedef enum tarn_action {
    TARN_ACTION_ALLOCATE = 0,        /**< An allocation succeeded. */
    TARN_ACTION_FREE = 1,            /**< A free. */
    TARN_ACTION_ALLOCATE_FAILURE = 2 /**< An allocation failed. */
} tarn_action;

/** One call of tarn_resource_allocate() or tarn_resource_deallocate(), for an
 * observer. It is no CUDA event. */
typedef struct tarn_observer_event {
    tarn_action action;      /**< The kind of the call. */
    tarn_resource *resource; /**< The resource of the call; borrowed. */
    tarn_device_ptr block;   /**< The address of the block; 0 for a failure. */
    size_t bytes;            /**< Requested size in bytes. */
    size_t alignment;        /**< Alignment in bytes; at least 256. */
    tarn_stream stream;      /**< The stream of the call. */
    uint64_t start_ns;       /**< Start of the call, CLOCK_MONOTONIC, nanoseconds. */
    uint64_t end_ns;         /**< End of the call; `start_ns` if it is not over. */
    bool is_over;            /**< False before a free, true in all other reports. */
    tarn_status status;      /**< Status of a call that is over; else TARN_OK. */
} tarn_observer_event;

/**
 * Receives the allocations and frees of the program: the type of an observer.
 *
 * `data` is the pointer that was set with the observer. `event` describes the call and is
 * borrowed. Tarn calls the observer on the calling thread, with no lock held. Several
 * threads may run it simultaneously. The observer may call Tarn, and Tarn does not report
 * these calls to it. Leaving the observer by longjmp() or an exception is forbidden.
 */
typedef void (*tarn_observer)(void *data, const tarn_observer_event *event);

/**
 * Set or remove the observer of all allocations and frees of the process.
 *
 * The observer receives the calls of tarn_resource_allocate() and
 * tarn_resource_deallocate():
 *
 * - An allocation: after its success or failure.
 * - A free: twice. Before the resource receives it, because another thread may get its
 *   address before the call is over. And after it, with its status: the block of a free
 *   that failed is still live. Both reports come on the same thread.
 * - Not received: calls that a resource makes inside another call, and all calls of a
 *   pool to its upstream.
 * - Not received: requests for 0 bytes, and calls with arguments that Tarn rejects before
 *   it calls the resource.
 *
 * Without an observer each call costs one atomic load.
 *
 * Removing the observer waits until no other thread runs it, so the caller may then free
 * `data`. An observer may remove itself. The removal then does not wait for its own call.
 *
 * Thread-safety: any thread.
 *
 * @param observer The observer. NULL removes the present one.
 * @param data  Passed to each call of the observer; borrowed until it is removed.
 * @return
 * - TARN_OK: the observer is set or removed.
 * - TARN_ALREADY_SET: another observer is set. The process has one at most.
 * @since 0.2
 */
TARN_API tarn_status tarn_resource_set_observer(tarn_observer observer, void *data);

/** @} */

TARN_END_DECLS
#endif
