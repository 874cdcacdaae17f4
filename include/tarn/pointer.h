/* pointer.h -- counted pointers: owners of memory, views, finalizers, deferred frees.
 *
 * A pointer is an address, a size and one reference count. The last release runs its
 * finalizer, exactly once. A view is a pointer into another pointer, which it keeps
 * alive.
 *
 * | To                                        | call                                    |
 * |-------------------------------------------|-----------------------------------------|
 * | own a new block of a resource             | tarn_pointer_allocate()                 |
 * | own memory that exists already            | tarn_pointer_create()                   |
 * | share a part of it                        | tarn_pointer_view()                     |
 * | drop a reference                          | tarn_pointer_release()                  |
 * | drop a reference and get the status       | tarn_pointer_release_checked()          |
 * | see the frees that are not done yet       | tarn_pointer_deferred_frees()           |
 *
 * The count is a MemInfo (nrt.h) of a runtime instance that belongs to pointers alone.
 * For "deferred free" see docs/glossary.md.
 */
#ifndef TARN_POINTER_H
#define TARN_POINTER_H

#include <tarn/nrt.h>
#include <tarn/resource.h>

TARN_BEGIN_DECLS

/** @addtogroup tarn_pointer
 * @{ */

/** An opaque, reference-counted owner of memory, or a view of one. */
typedef struct tarn_pointer tarn_pointer;

/** The kind of memory of a pointer. */
typedef enum tarn_pointer_kind {
    TARN_POINTER_DEVICE = 0, /**< Device memory. */
    TARN_POINTER_MAPPED = 1, /**< Page-locked host memory with a device address. */
    TARN_POINTER_PINNED = 2, /**< Page-locked host memory. */
    TARN_POINTER_MANAGED = 3 /**< Managed memory. */
} tarn_pointer_kind;

/**
 * Finalizes the memory of a pointer after its last release.
 *
 * `data` is `finalizer_data` of tarn_pointer_options. `address` and `bytes` are those of
 * the pointer. Tarn calls the finalizer once, on the thread of the last release, with no
 * lock held.
 *
 * The finalizer may call Tarn, but it has no reference to the ending pointer:
 * - Tarn reports and ignores a retain or a release of that pointer.
 * - A view or an IPC handle of that pointer is TARN_INVALID_ARGUMENT.
 *
 * The finalizer must return normally: no longjmp(), no C++ exception. The same rules hold
 * for `owner_release` of tarn_pointer_options.
 */
typedef void (*tarn_finalizer)(void *data, tarn_device_ptr address, size_t bytes);

/** Options of tarn_pointer_create(), for memory that exists already. */
typedef struct tarn_pointer_options {
    size_t size;            /**< sizeof(tarn_pointer_options) */
    tarn_pointer_kind kind; /**< The kind of the memory. */
    int device;             /**< The device of the memory, or TARN_DEVICE_NONE. */
    /** The address for the device; 0 with 0 bytes is an empty pointer. */
    tarn_device_ptr address;
    void *host;               /**< The address for the host; NULL: not accessible. */
    size_t bytes;             /**< Size in bytes. */
    tarn_finalizer finalizer; /**< Runs after the last release; NULL: none. */
    void *finalizer_data;     /**< Passed to `finalizer`; borrowed. */
    void *owner; /**< An object that must outlive the pointer; may be NULL. */
    /** Releases `owner` after the finalizer has run; may be NULL.
     *
     * The calling rules are those of tarn_finalizer. */
    void (*owner_release)(void *owner);
} tarn_pointer_options;

/**
 * Create a pointer over memory that exists already.
 *
 * On failure Tarn calls neither the finalizer nor `owner_release`, and owns nothing.
 *
 * Thread-safety: any thread.
 *
 * @param options   The memory and its finalizer; copied.
 * @param[out] out  The pointer with one reference, which the caller owns.
 * @return
 * - TARN_OK: the pointer exists.
 * - TARN_INVALID_ARGUMENT: `options` or `out` is NULL, the size or the kind is wrong,
 *   `bytes` is not 0 without an address, or the range wraps around.
 * - TARN_OUT_OF_MEMORY: host memory is exhausted.
 * @since 0.1
 */
TARN_API tarn_status tarn_pointer_create(const tarn_pointer_options *options,
                                         tarn_pointer **out);

/**
 * Allocate a block from a resource and create the pointer that owns it.
 *
 * The last release deallocates the block on `stream`. If the resource is out of memory,
 * the call first tries all deferred frees and then allocates once more.
 *
 * With TARN_STREAM_NONE the block is safe for work on any stream. If
 * tarn_resource_supports_no_stream() is false for device memory, Tarn adds two waits:
 * - The call waits until the block has no pending work.
 * - The last release waits for the device before it deallocates the block.
 *
 * Thread-safety: any thread.
 *
 * @param resource  The resource; retained until its block is deallocated.
 * @param bytes     Size in bytes. 0 creates an empty pointer, which retains no resource.
 * @param stream    The stream of the allocation and the free, or TARN_STREAM_NONE.
 * @param[out] out  The pointer with one reference, which the caller owns.
 * @return
 * - TARN_OK: the pointer exists.
 * - TARN_INVALID_ARGUMENT: `resource` or `out` is NULL.
 * - TARN_OUT_OF_MEMORY: the resource or the host has no memory.
 * - Other statuses: those of tarn_resource_allocate() and of the wait.
 * @since 0.1
 */
TARN_API tarn_status tarn_pointer_allocate(tarn_resource *resource, size_t bytes,
                                           tarn_stream stream, tarn_pointer **out);

/**
 * Create a view: a pointer to a part of the memory of another pointer.
 *
 * The view keeps the memory alive. A view of a view retains the first owner.
 *
 * Thread-safety: any thread.
 *
 * @param pointer   The pointer; its first owner is retained.
 * @param offset    Start of the view, in bytes from the start of `pointer`.
 * @param bytes     Size of the view in bytes.
 * @param[out] out  The view with one reference, which the caller owns.
 * @return
 * - TARN_OK: the view exists.
 * - TARN_INVALID_ARGUMENT: the view is out of bounds (the message has the numbers), an
 *   argument is NULL, or `pointer` has lost its last reference.
 * - TARN_OUT_OF_MEMORY: host memory is exhausted.
 * @since 0.1
 */
TARN_API tarn_status tarn_pointer_view(tarn_pointer *pointer, size_t offset, size_t bytes,
                                       tarn_pointer **out);

/**
 * Add a reference to a pointer.
 *
 * Thread-safety: any thread.
 *
 * @param pointer  The pointer; NULL is allowed.
 * @return `pointer`.
 * @since 0.1
 */
TARN_API tarn_pointer *tarn_pointer_retain(tarn_pointer *pointer);

/**
 * Drop a reference to a pointer; the last release ends it.
 *
 * A release returns no status. If the driver or the resource fails the free, Tarn keeps
 * the memory on a list: see tarn_pointer_deferred_frees(). Tarn calls the warning
 * handler once for each such pointer: see tarn_set_warning_handler().
 * tarn_pointer_release_checked() returns the status instead.
 *
 * After exit has begun, and in a forked child, Tarn drops memory that it cannot free at
 * once.
 *
 * Thread-safety: any thread.
 *
 * @param pointer  The pointer; NULL is allowed.
 * @since 0.1
 */
TARN_API void tarn_pointer_release(tarn_pointer *pointer);

/**
 * Drop a reference to a pointer and return the first failure of a free in this call.
 *
 * The free may be that of the memory of the pointer. It may be one of memory that the
 * owner or the finalizer of the pointer released. It may be a deferred free that came
 * due. The message is that of the failing call.
 *
 * The reference is gone in any case. Tarn tries a failed free again later: see
 * tarn_pointer_deferred_frees().
 *
 * Thread-safety: any thread.
 *
 * @param pointer  The pointer; NULL is allowed.
 * @return
 * - TARN_OK: no free failed. The memory is freed or deferred, or other references are
 *   left.
 * - Other statuses: those of the first free that failed.
 * @since 0.1
 */
TARN_API tarn_status tarn_pointer_release_checked(tarn_pointer *pointer);

/**
 * Return the address of a pointer for the device.
 *
 * Thread-safety: any thread.
 *
 * @param pointer  The pointer; not NULL; borrowed.
 * @return The address; 0 if the device cannot access the memory or the pointer is empty.
 * @since 0.1
 */
TARN_API tarn_device_ptr tarn_pointer_address(const tarn_pointer *pointer);

/**
 * Return the address of a pointer for the host.
 *
 * Thread-safety: any thread.
 *
 * @param pointer  The pointer; not NULL; borrowed.
 * @return The address; NULL if the host cannot access the memory.
 * @since 0.1
 */
TARN_API void *tarn_pointer_host(const tarn_pointer *pointer);

/**
 * Return the size of a pointer.
 *
 * Thread-safety: any thread.
 *
 * @param pointer  The pointer; not NULL; borrowed.
 * @return The size in bytes.
 * @since 0.1
 */
TARN_API size_t tarn_pointer_bytes(const tarn_pointer *pointer);

/**
 * Return the number of references to a pointer.
 *
 * Each view holds one reference to its first owner. Another thread may change the number
 * at any moment.
 *
 * Thread-safety: any thread.
 *
 * @param pointer  The pointer; not NULL; borrowed.
 * @return The number of references.
 * @since 0.2
 */
TARN_API size_t tarn_pointer_use_count(const tarn_pointer *pointer);

/**
 * Return the device of a pointer.
 *
 * Thread-safety: any thread.
 *
 * @param pointer  The pointer; not NULL; borrowed.
 * @return The device number; TARN_DEVICE_NONE for plain host memory.
 * @since 0.1
 */
TARN_API int tarn_pointer_device(const tarn_pointer *pointer);

/**
 * Return the kind of memory of a pointer.
 *
 * Thread-safety: any thread.
 *
 * @param pointer  The pointer; not NULL; borrowed.
 * @return The kind. A view has the kind of its owner.
 * @since 0.1
 */
TARN_API tarn_pointer_kind tarn_pointer_get_kind(const tarn_pointer *pointer);

/**
 * Set the stream on which the block of a pointer is freed.
 *
 * The pointer is one of tarn_pointer_allocate(), or a view of one. The caller keeps the
 * stream alive until the block is freed.
 *
 * Thread-safety: any thread.
 *
 * @param pointer  The pointer, or a view of it; borrowed.
 * @param stream   The stream of the free, or TARN_STREAM_NONE; borrowed.
 * @return
 * - TARN_OK: the free uses `stream`.
 * - TARN_INVALID_ARGUMENT: `pointer` is NULL, or `stream` belongs to another context or
 *   is not registered any more.
 * - TARN_NOT_SUPPORTED: the memory comes from no resource.
 * - TARN_DRIVER_FAILURE: a driver call failed.
 * @since 0.1
 */
TARN_API tarn_status tarn_pointer_set_stream(tarn_pointer *pointer, tarn_stream stream);

/**
 * Return the number of deferred frees: blocks without a reference that are not freed yet.
 *
 * The free of such a block failed, or it waits. A free waits for the end of the deferred
 * cleanup of a manager, or for other frees that share one wait for the device. Later
 * releases and allocations try the failed frees again, the oldest first. The number is
 * exact when no call is under way.
 *
 * Thread-safety: any thread.
 *
 * @return The number of deferred frees.
 * @since 0.2
 */
TARN_API size_t tarn_pointer_deferred_count(void);

/** Counts of deferred frees: blocks that have lost their last reference. */
typedef struct tarn_deferred_frees {
    size_t size;          /**< The caller sets it to sizeof(tarn_deferred_frees). */
    size_t failed_count,  /**< Number of frees that failed.
                          *
                          * Later releases and allocations try them again. */
        failed_bytes;     /**< Bytes of the frees that failed. */
    size_t waiting_count, /**< Number of frees that wait.
                        *
                        * They wait for the end of deferred cleanup, or for other frees,
                        * so that one wait for the device serves several. */
        waiting_bytes;    /**< Bytes of the frees that wait. */
} tarn_deferred_frees;

/**
 * Query the deferred frees.
 *
 * Tarn counts a failed free until it succeeds; these counts are exact at any time. The
 * counts of waiting frees are exact when no call is under way.
 *
 * Thread-safety: any thread.
 *
 * @param[out] out  The counts. The caller sets `out->size` before the call.
 * @return
 * - TARN_OK: `*out` is set.
 * - TARN_INVALID_ARGUMENT: `out` is NULL, or `out->size` is another size.
 * @since 0.2
 */
TARN_API tarn_status tarn_pointer_deferred_frees(tarn_deferred_frees *out);

/**
 * Try all deferred frees now, also those that wait.
 *
 * The call tries each of them once and then returns the first failure with its message.
 * After exit has begun, and in a forked child, it does nothing.
 *
 * Thread-safety: any thread.
 *
 * @return
 * - TARN_OK: no free failed.
 * - Other statuses: those of the first free that failed.
 * @since 0.2
 */
TARN_API tarn_status tarn_pointer_reclaim_deferred(void);

/**
 * Query the numbers of created and destroyed MemInfos of all pointers, for leak checks.
 *
 * Thread-safety: any thread.
 *
 * @param[out] out  The counts; not NULL.
 * @since 0.1
 */
TARN_API void tarn_pointer_counts(tarn_runtime_counts *out);

/** @} */

TARN_END_DECLS
#endif
