/* pointer.h -- who owns a block: counted pointers, views, host memory.
 *
 * A pointer is an address, a size and one count. When the last reference goes its
 * finalizer runs, exactly once. A view is a pointer into another, which it keeps alive.
 * The count is a MemInfo of a runtime instance that belongs to pointers alone. Source:
 * seeds 000-002 (MemoryPointer, MappedMemory, PinnedMemory).
 */
#ifndef TARN_POINTER_H
#define TARN_POINTER_H

#include <tarn/nrt.h>
#include <tarn/resource.h>

TARN_BEGIN_DECLS

typedef struct tarn_pointer tarn_pointer;

/** What kind of memory a pointer has. */
typedef enum tarn_pointer_kind {
    TARN_POINTER_DEVICE = 0,
    TARN_POINTER_MAPPED = 1, /**< page-locked host memory with a device address */
    TARN_POINTER_PINNED = 2, /**< page-locked host memory */
    TARN_POINTER_MANAGED = 3
} tarn_pointer_kind;

/** Called once, when the last reference goes, on the thread that released it, with no lock
 * held. It may call Tarn, but has no reference to the pointer that ends: releasing or
 * retaining that one is misuse, which is reported and ignored; a view or an IPC handle of it
 * is TARN_INVALID_ARGUMENT. It returns normally: no longjmp(), no C++ exception. The same
 * holds for `owner_release` below. */
typedef void (*tarn_finalizer)(void *data, tarn_device_ptr address, size_t bytes);

/** How to make a pointer over memory that is there already. */
typedef struct tarn_pointer_options {
    size_t size; /**< sizeof(tarn_pointer_options) */
    tarn_pointer_kind kind;
    int device;
    tarn_device_ptr
        address; /**< as the device sees it; 0 with 0 bytes is an empty pointer */
    void *host;  /**< as the host sees it; NULL if it does not */
    size_t bytes;
    tarn_finalizer finalizer; /**< NULL: none */
    void *finalizer_data;
    /** Something that has to stay as long as the pointer does, let go after the finalizer
     *  ran; both may be NULL. */
    void *owner;
    void (*owner_release)(void *owner);
} tarn_pointer_options;

/** Make a pointer with one reference. On failure nothing is called and nothing is owned.
 */
TARN_API tarn_status tarn_pointer_create(const tarn_pointer_options *options,
                                         tarn_pointer **out);

/** Allocate from a resource and make the pointer that gives it back on `stream`. The
 *  pointer retains the resource. 0 bytes makes an empty pointer.
 *
 *  With TARN_STREAM_NONE the block is safe for work on any stream: where the resource does
 *  not promise that by itself (tarn_resource_supports_no_stream()), the call waits until the
 *  block has no work behind it, and the last release waits for the device before the block
 *  goes back. */
TARN_API tarn_status tarn_pointer_allocate(tarn_resource *resource, size_t bytes,
                                           tarn_stream stream, tarn_pointer **out);

/** A window of `bytes` from `offset` on, which keeps the memory of `pointer` alive (views
 * of views count on the first owner). Out of bounds: TARN_INVALID_ARGUMENT with the
 * numbers. */
TARN_API tarn_status tarn_pointer_view(tarn_pointer *pointer, size_t offset, size_t bytes,
                                       tarn_pointer **out);

/** One reference more; returns its argument. NULL is allowed. Any thread. */
TARN_API tarn_pointer *tarn_pointer_retain(tarn_pointer *pointer);
/** One reference less. NULL is allowed. Any thread.
 *
 *  A release returns nothing, so where returning the memory fails (the driver or the
 *  resource says no) the memory is kept on a list: see tarn_pointer_deferred_frees(). The warning
 *  handler is told once for each pointer (tarn_set_warning_handler()). To have the status
 *  instead, call tarn_pointer_release_checked(). */
TARN_API void tarn_pointer_release(tarn_pointer *pointer);
/** As tarn_pointer_release(), and returns why a free failed in this call: that of the
 *  pointer's memory, of memory that its owner or its finalizer released, or of deferred
 *  memory that came due. The message is the failing call's. TARN_OK: nothing failed, so the
 *  memory is back where it came from, or other references are left, or it is deferred.
 *  The reference is gone in any case: memory whose free failed is freed again later, see
 *  tarn_pointer_deferred_frees(). NULL is allowed. Any thread. */
TARN_API tarn_status tarn_pointer_release_checked(tarn_pointer *pointer);

TARN_API tarn_device_ptr tarn_pointer_address(const tarn_pointer *pointer);
TARN_API void *tarn_pointer_host(const tarn_pointer *pointer);
TARN_API size_t tarn_pointer_bytes(const tarn_pointer *pointer);
TARN_API size_t tarn_pointer_use_count(const tarn_pointer *pointer);
TARN_API int tarn_pointer_device(const tarn_pointer *pointer);
TARN_API tarn_pointer_kind tarn_pointer_get_kind(const tarn_pointer *pointer);

/** From now on the block of a pointer of tarn_pointer_allocate(), or of a view into one,
 *  goes back on `stream`, which has to live until then. A stream of another context is
 *  TARN_INVALID_ARGUMENT, a pointer that is from no resource TARN_NOT_SUPPORTED. */
TARN_API tarn_status tarn_pointer_set_stream(tarn_pointer *pointer, tarn_stream stream);

/** How many blocks have lost their last reference and are not back where they came from:
 *  giving them back failed, or waits for the end of a manager's deferred cleanup. Those
 *  that failed are tried again at later releases and allocations, the oldest first.
 *  Exact when no call is under way. */
TARN_API size_t tarn_pointer_deferred_count(void);

/** Frees that are not done, of blocks that have lost their last reference. */
typedef struct tarn_deferred_frees {
    size_t size; /**< set to sizeof(tarn_deferred_frees) before the call */
    /** The free failed. It is tried again at later releases and allocations. */
    size_t failed_count, failed_bytes;
    /** The free waits for the end of deferred cleanup, or for others, so that one wait for
     *  the device serves several. */
    size_t waiting_count, waiting_bytes;
} tarn_deferred_frees;

/** Fill `out`. What failed is counted until it is back, exact at any time; what waits is
 *  exact when no call is under way. TARN_INVALID_ARGUMENT: NULL, or another size. Any
 *  thread. */
TARN_API tarn_status tarn_pointer_deferred_frees(tarn_deferred_frees *out);

/** Try to give back all of them now, deferred ones too. The first failure is returned, in
 *  its own words, once all were tried. Any thread. */
TARN_API tarn_status tarn_pointer_reclaim_deferred(void);

/** MemInfos of all pointers: made and gone, for leak checks. */
TARN_API void tarn_pointer_counts(tarn_runtime_counts *out);

TARN_END_DECLS
#endif
