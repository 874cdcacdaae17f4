/* resource.h -- memory resources: objects that allocate and deallocate memory.
 *
 * The GPU driver, every pool and every adaptor is a resource, so resources stack. A
 * logger over a limiter over cuMemAlloc is three resources in a row.
 *
 * A resource is reference-counted and belongs to one device. It makes the primary context
 * of that device current for its own driver calls and restores the caller's context
 * after.
 *
 * | Resource       | Memory                               | Stream-ordered | No-stream |
 * |----------------|--------------------------------------|----------------|-----------|
 * | cuda           | cuMemAlloc                           | no             | yes       |
 * | managed        | cuMemAllocManaged                    | no             | yes       |
 * | pinned         | cuMemHostAlloc                       | no             | yes       |
 * | host           | aligned host memory                  | no             | no        |
 * | async          | cuMemAllocFromPoolAsync              | yes            | no        |
 * | pool, slab     | the device, or an upstream           | yes            | see below |
 * | binning        | an upstream and its bins             | if all are     | if all do |
 * | adaptors       | their upstream                       | if it is       | if it does|
 *
 * A slab (tarn_slab_create()) is a pool whose blocks all have one size. "No-stream" is
 * tarn_resource_supports_no_stream(), which lists the pools and slabs. For the term see
 * docs/glossary.md.
 *
 * Memory is ordered by streams, as with cuMemAllocAsync() and cuMemFreeAsync(). A
 * resource cannot see how other streams use a block, so the program orders that use:
 *
 *   - Before the first use on another stream: record an event on the stream of the
 *     allocation, after tarn_resource_allocate(). Let the other stream wait for it.
 *   - Before the free: record an event after the last use on each other stream. Let the
 *     stream of the free wait for these events.
 *
 * The calls are cuEventRecord() and cuStreamWaitEvent(). A wait of the host also works,
 * such as tarn_stream_synchronize(). Without these waits, work on two blocks that share
 * memory can run simultaneously: work on the freed block, and work on the block that the
 * resource allocated in its place. No call reports that.
 *
 * Exit has begun when exit() has called the handler that Tarn registered with atexit().
 * Tarn registers it when the process opens the driver.
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
 * may call Tarn; pool.h states the exceptions for the upstream of a pool. An operation
 * that fails records its message with tarn_error_set(). If it does not, Tarn records
 * `name: operation failed`.
 */
typedef struct tarn_resource_ops {
    /** The size of this table in bytes, as the writer compiled it.
     *
     * Set it to sizeof(tarn_resource_ops). Later versions only append operations, so the
     * size tells Tarn which operations the build of the writer has. */
    size_t size;

    /** Short name for logs and the command `tarn info`, such as "pool"; static storage. */
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

    /** Destroy `self`; required. Tarn calls it once, when no block is live. */
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
     * cuMemFree waits in this way. A no-stream free to such a resource is then safe, and
     * the memory can be reused. NULL: false. */
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
     * NULL: Tarn counts the calls. A table with `is_equal` is the exception, because
     * another object may deallocate its blocks. Tarn then counts 0 live blocks and never
     * rejects a release. */
    size_t (*live_blocks)(const void *self);

    /** Return true if allocating and freeing without a stream needs no extra
     * synchronization.
     *
     * The resource then promises two things:
     * - It reuses a block that was freed with TARN_STREAM_NONE only after earlier work is
     *   done: all work that was queued in the context before the free. The stream of that
     *   work may be blocking, non-blocking, per-thread, or destroyed since.
     * - A block that it allocates with TARN_STREAM_NONE has no pending work of any
     *   stream.
     *
     * The caller of such a resource needs no waits. NULL: the result of
     * `deallocate_synchronizes`. */
    bool (*supports_no_stream)(const void *self);
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
 * @param self       Passed to each operation. On success `ops->destroy` owns it. On
 *                   failure the caller keeps it.
 * @param device     The device of the memory, or TARN_DEVICE_NONE.
 * @param[out] out   The new resource with one reference, which the caller owns.
 * @return
 * - TARN_OK: the resource exists.
 * - TARN_INVALID_ARGUMENT: `ops` is NULL or lacks a required entry, `device` is less than
 *   TARN_DEVICE_NONE, or `out` is NULL.
 * - TARN_OUT_OF_MEMORY: host memory is exhausted.
 * @since 0.1
 */
TARN_API tarn_status tarn_resource_create(const tarn_resource_ops *ops, void *self,
                                          int device, tarn_resource **out);

/** The maximum depth of a stack of resources. */
enum {
    /** Maximum number of resources that may stack on one that has no upstream.
     *
     * A call to the top resource calls each resource beneath it. Destroying the top
     * resource releases the one beneath it, and so on down the stack. A binning resource
     * counts as two: its bins may be slabs over its upstream. */
    TARN_RESOURCE_DEPTH_MAX = 64
};

/**
 * Create a resource whose operations call an upstream resource.
 *
 * It is tarn_resource_create() for a resource of a stack: the new one counts as one more.
 *
 * Thread-safety: any thread.
 *
 * @param ops        The table; copied, as in tarn_resource_create().
 * @param self       Passed to each operation; owned as in tarn_resource_create().
 * @param device     The device of the memory, or TARN_DEVICE_NONE.
 * @param upstream   The resource beneath; not retained. NULL: as tarn_resource_create().
 * @param[out] out   The new resource with one reference, which the caller owns.
 * @return
 * - TARN_OK: the resource exists.
 * - TARN_INVALID_ARGUMENT: as for tarn_resource_create(), or `upstream` is already over
 *   TARN_RESOURCE_DEPTH_MAX resources.
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
 * tarn_resource_supports_no_stream() is true. Blocks of `cuda`, `managed`, `pinned` and
 * `host` are ready for every stream, whatever `stream` is.
 *
 * Thread-safety: any thread.
 *
 * @param resource   The resource; borrowed.
 * @param bytes      Size in bytes. 0 sets `*out` to 0 and is no error.
 * @param alignment  A power of two in bytes; less than 256 is raised to 256. 0: 256.
 * @param stream     The stream that orders the memory, or TARN_STREAM_NONE.
 * @param[out] out   The address of the block. Unchanged on failure.
 * @return
 * - TARN_OK: the block is live.
 * - TARN_OUT_OF_MEMORY: the resource cannot obtain the memory.
 * - TARN_INVALID_ARGUMENT: `resource` or `out` is NULL, or `alignment` is no power of
 *   two.
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
 * Deallocate a block on a stream on which the resource may reuse it immediately.
 *
 * `stream` may differ from the stream of the allocation. The caller first lets it wait
 * for an event, recorded after the last use, of each other stream that used the block.
 * The caller needs no such event in two cases:
 * - tarn_resource_deallocate_synchronizes() is true.
 * - `stream` is TARN_STREAM_NONE and tarn_resource_supports_no_stream() is true. That
 *   free covers the work that all streams have queued.
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
 * @param alignment  Alignment in bytes, as in the allocation.
 * @param stream     The stream of the free, or TARN_STREAM_NONE.
 * @return
 * - TARN_OK: the block is no longer live.
 * - TARN_INVALID_ARGUMENT: `resource` is NULL, `alignment` is no power of two, one of
 *   `block` and `bytes` is 0, or the resource rejects the block.
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
 * @return true if both are one object, or if `is_equal` of their common table returns
 *         true.
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
 * | Resource                      | Result                                              |
 * |-------------------------------|-----------------------------------------------------|
 * | `cuda`, `managed`, `pinned`   | true, because their frees wait                      |
 * | a pool or a slab              | true without an upstream                            |
 * | a pool or a slab              | true over an upstream with true, or stream-ordered  |
 * | a pool                        | true with TARN_POOL_NO_STREAM_SINGLE, see below     |
 * | an adaptor, `binning`         | true if all resources beneath return true           |
 * | `async`                       | false                                               |
 *
 * With TARN_POOL_NO_STREAM_SINGLE the program promises that all its work is on one
 * stream, or ordered as if it were. TARN_STREAM_NONE then means the default stream.
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
 * @return `self`, or NULL unless `name`, `allocate` and `size` of both tables are the
 *         same. The function compares `name` as a pointer.
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
 * - TARN_NO_DRIVER: no driver is open, and the call could not open one.
 * - TARN_OUT_OF_MEMORY: host memory is exhausted.
 * @since 0.1
 */
TARN_API tarn_status tarn_cuda_create(int device, tarn_resource **out);

/** Options of an async resource; zeros are the defaults. */
typedef struct tarn_async_options {
    size_t size;          /**< sizeof(tarn_async_options) */
    size_t initial_bytes; /**< Bytes that the driver's pool reserves at creation. */
    /** Maximum bytes that the driver's pool keeps cached.
     *
     * 0: a new pool keeps everything. The default pool of the device keeps its present
     * threshold. */
    size_t release_threshold_bytes;
    bool use_default_pool; /**< Use the default pool of the device, not a new pool. */
    /** Let other processes open the memory (ipc.h).
     *
     * It needs a new pool, never the default pool of the device. */
    bool exportable;
} tarn_async_options;

/**
 * Create a resource over a stream-ordered pool of the driver (cuMemAllocFromPoolAsync).
 *
 * By default each resource has a driver pool of its own. With `use_default_pool` there is
 * one object per device, as there is one such pool. Options that are not zero then change
 * that pool for all its users.
 *
 * - An allocation with TARN_STREAM_NONE waits for the per-thread default stream, so that
 *   the block is ready for every stream. If that stream captures, the call uses and
 *   destroys a temporary stream instead.
 * - A free with TARN_STREAM_NONE does not wait.
 * - An exportable pool may keep memory in spite of a trim. The CUDA manual states that
 *   drivers do so.
 *
 * Thread-safety: any thread.
 *
 * @param device    The device number.
 * @param options   The options; copied. NULL: the defaults.
 * @param[out] out  The resource; the caller owns a reference.
 * @return
 * - TARN_OK: `*out` is set.
 * - TARN_INVALID_ARGUMENT: `exportable` together with `use_default_pool`, no such device,
 *   `out` is NULL, or `options` has a nonzero member that this version of Tarn does not
 *   know.
 * - TARN_NOT_SUPPORTED: the device has no memory pools, or none that can be exported.
 * - TARN_NO_DRIVER: no driver is open, and the call could not open one.
 * - TARN_OUT_OF_MEMORY: the initial bytes or host memory are unavailable.
 * - TARN_DRIVER_FAILURE: a driver call failed.
 * @since 0.1
 */
TARN_API tarn_status tarn_async_create(int device, const tarn_async_options *options,
                                       tarn_resource **out);

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
 * - TARN_NO_DRIVER: no driver is open, and the call could not open one.
 * - TARN_OUT_OF_MEMORY: host memory is exhausted.
 * - TARN_DRIVER_FAILURE: a driver call failed.
 * @since 0.1
 */
TARN_API tarn_status tarn_managed_create(int device, tarn_resource **out);

/**
 * Return the resource of page-locked host memory on a device.
 *
 * The memory comes from cuMemHostAlloc, portable and mapped. There is one object per
 * device. A free waits until the device has finished with the block.
 *
 * Thread-safety: any thread.
 *
 * @param device    The device number.
 * @param[out] out  The resource; the caller owns a reference.
 * @return
 * - TARN_OK: `*out` is set.
 * - TARN_INVALID_ARGUMENT: there is no such device, or `out` is NULL.
 * - TARN_NO_DRIVER: no driver is open, and the call could not open one.
 * - TARN_OUT_OF_MEMORY: host memory is exhausted.
 * @since 0.1
 */
TARN_API tarn_status tarn_pinned_create(int device, tarn_resource **out);

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
     * tarn_pool_options. At most `maximum_blocks`, if there is a maximum. */
    size_t growth_blocks;
    /** Maximum number of blocks; 0: no maximum.
     *
     * The slab obtains memory in multiples of 2 MiB, the granularity of physical memory.
     * It rounds the maximum up to such a multiple. */
    size_t maximum_blocks;
} tarn_slab_options;

/**
 * Create a slab: a resource whose blocks all have one size.
 *
 * A slab serves requests of up to that size. A larger request is TARN_OUT_OF_MEMORY. A
 * slab is a pool (pool.h) that does not split its blocks, so any free block serves any
 * request. All functions of pool.h accept a slab.
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
 * - TARN_INVALID_ARGUMENT: `upstream` or `out` is NULL, an exponent is out of range, or
 *   the stack exceeds TARN_RESOURCE_DEPTH_MAX. Or `options` has a nonzero member that
 *   this version of Tarn does not know.
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
 * returns TARN_OK. A block returns to its bin by its size, so no bin can be added while
 * blocks are live.
 *
 * Thread-safety: any thread.
 *
 * @param binning  The binning resource; borrowed.
 * @param bytes    Largest request of the bin, in bytes; not 0.
 * @param bin      The resource that serves the bin; retained. NULL: a new slab over the
 *                 upstream.
 * @return
 * - TARN_OK: a bin of that size exists.
 * - TARN_STILL_IN_USE: blocks are live. Or another resource has already been created
 *   over `binning`, and the bin increases the depth of `binning`: the number of resources
 *   beneath it. A slab (`bin` is NULL) never increases the depth. Another bin does if its
 *   own depth is at least that of `binning`.
 * - TARN_INVALID_ARGUMENT: `binning` is no binning resource, or `bytes` is 0. `bin` is
 *   `binning` or of another device, there are 64 bins already, or the depth
 *   of `bin` is TARN_RESOURCE_DEPTH_MAX.
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
    uint64_t end_ns;         /**< End of the call; for a free, the same as `start_ns`. */
} tarn_observer_event;

/**
 * Receives the public calls that allocate and free: the type of an observer.
 *
 * `data` is the pointer that was set with the observer. `event` describes the call and is
 * borrowed. Tarn calls the observer on the calling thread, with no lock held. Several
 * threads may run it simultaneously. The observer may call Tarn; it does not receive its
 * own allocations. It must return: leaving it by longjmp() or an exception is forbidden.
 */
typedef void (*tarn_observer)(void *data, const tarn_observer_event *event);

/**
 * Set or remove the observer of all public allocations and frees of the process.
 *
 * The observer receives a call of the program. It does not receive a call that a resource
 * makes inside that call, such as one of a pool to its upstream. It receives an
 * allocation after its success or failure, and a free before the resource does. It
 * receives no requests for 0 bytes and no calls with invalid arguments. Without an
 * observer each call costs one load.
 *
 * Removing the observer waits until no other thread runs it, so the caller may then free
 * `data`. An observer may remove itself: its own call continues.
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
