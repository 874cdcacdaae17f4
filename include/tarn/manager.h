/* manager.h -- who serves a runtime's memory: NBEP 7 in C.
 *
 * A manager is what a runtime such as Numba asks for device, mapped, pinned and managed
 * memory. There is one instance a context. Its calls come while the context is current,
 * but for reset(), which may come with no current context and before initialize().
 * Source: seed 000 (A29-A82), seed 001 (B1-B18).
 */
#ifndef TARN_MANAGER_H
#define TARN_MANAGER_H

#include <tarn/ipc.h>

TARN_BEGIN_DECLS

/** The version of this interface (B18). */
#define TARN_MANAGER_INTERFACE_VERSION 1

typedef enum tarn_host_flags {
    TARN_HOST_MAPPED = 1,        /**< map it into the device's address space (A33) */
    TARN_HOST_PORTABLE = 2,      /**< pinned for all contexts (A34) */
    TARN_HOST_WRITE_COMBINED = 4 /**< write-combined (A35) */
} tarn_host_flags;

/** The table of operations of a manager; size first, operations are only ever appended.
 *  They are called with the context current, from any thread, and never with zero bytes,
 *  unknown flags or a missing result. A failing operation leaves its outputs alone. The
 *  pointers that it made may outlive an instance: what their finalizers need they keep.
 */
typedef struct tarn_manager_ops {
    size_t size;           /**< sizeof(tarn_manager_ops) as you compiled it */
    const char *name;      /**< for messages; static storage */
    int interface_version; /**< TARN_MANAGER_INTERFACE_VERSION as you compiled it */

    /** Make the instance for one context (a CUcontext) of `device`. Must touch no memory.
     */
    tarn_status (*create)(void *config, int device, void *context, void **self_out);
    /** Free the instance. */
    void (*destroy)(void *self);
    /** Prepare for use; comes before any allocation, may come often (A43-A44, B7-B8). */
    tarn_status (*initialize)(void *self);
    /** Let go of everything in this context that no pointer holds; may come before
     *  initialize, and initialize comes again before the next allocation (A41, B9-B10).
     */
    tarn_status (*reset)(void *self);
    /** Device memory, for work on `stream`; TARN_STREAM_NONE where none is named (A31).
     */
    tarn_status (*memalloc)(void *self, size_t bytes, tarn_stream stream,
                            tarn_pointer **out);
    /** Page-locked host memory; `flags` of tarn_host_flags (A32). */
    tarn_status (*memhostalloc)(void *self, size_t bytes, unsigned flags,
                                tarn_pointer **out);
    /** Page-lock memory that is there; `owner` is kept until it is unpinned (A36). */
    tarn_status (*mempin)(void *self, void *host, size_t bytes, unsigned flags,
                          void *owner, void (*owner_release)(void *), tarn_pointer **out);

    /* Optional from here on: NULL is TARN_NOT_SUPPORTED. */

    tarn_status (*memallocmanaged)(void *self, size_t bytes, bool attach_global,
                                   tarn_pointer **out);
    tarn_status (*get_ipc_handle)(void *self, const tarn_pointer *pointer,
                                  tarn_ipc_handle *out);
    tarn_status (*get_memory_info)(void *self, size_t *free_out, size_t *total_out);
    /** Nests: expensive cleanup waits until the last end (A42, B16). */
    tarn_status (*defer_cleanup_begin)(void *self);
    tarn_status (*defer_cleanup_end)(void *self);
} tarn_manager_ops;

/** One instance: a manager in one context. Counted. */
typedef struct tarn_manager tarn_manager;

/** Make the instance of `ops` for `device`'s primary context. A wrong interface version
 * or a table that is too short is told apart in words. */
TARN_API tarn_status tarn_manager_create(const tarn_manager_ops *ops, void *config,
                                         int device, tarn_manager **out);
TARN_API tarn_manager *tarn_manager_retain(tarn_manager *manager);
TARN_API void tarn_manager_release(tarn_manager *manager);

/** The operations, as runtimes call them: from any thread, with any context current or
 *  none. Zero bytes is an empty pointer and no error. An allocation before initialize, or
 *  after a reset, initializes first. Once exit has begun and in a forked child reset and
 *  the end of deferred cleanup do nothing, the others are TARN_DRIVER_FAILURE. */
TARN_API tarn_status tarn_manager_initialize(tarn_manager *manager);
TARN_API tarn_status tarn_manager_reset(tarn_manager *manager);
TARN_API tarn_status tarn_manager_memalloc(tarn_manager *manager, size_t bytes,
                                           tarn_stream stream, tarn_pointer **out);
TARN_API tarn_status tarn_manager_memhostalloc(tarn_manager *manager, size_t bytes,
                                               unsigned flags, tarn_pointer **out);
TARN_API tarn_status tarn_manager_mempin(tarn_manager *manager, void *host, size_t bytes,
                                         unsigned flags, void *owner,
                                         void (*owner_release)(void *),
                                         tarn_pointer **out);
TARN_API tarn_status tarn_manager_memallocmanaged(tarn_manager *manager, size_t bytes,
                                                  bool attach_global, tarn_pointer **out);
TARN_API tarn_status tarn_manager_get_ipc_handle(tarn_manager *manager,
                                                 const tarn_pointer *pointer,
                                                 tarn_ipc_handle *out);
TARN_API tarn_status tarn_manager_get_memory_info(tarn_manager *manager, size_t *free_out,
                                                  size_t *total_out);
TARN_API tarn_status tarn_manager_defer_cleanup_begin(tarn_manager *manager);
TARN_API tarn_status tarn_manager_defer_cleanup_end(tarn_manager *manager);
TARN_API const char *tarn_manager_name(const tarn_manager *manager);

/** The manager over Tarn's resources: memalloc serves from the device's current resource
 *  (tarn_device_resource()) at the time of the call; a block goes back to the resource it
 *  came from. Memory freed by somebody who names no stream is safe, see
 *  tarn_pointer_allocate(): where the resource's free does not wait for the device, its
 *  pointer does. `config` is unused.
 *
 *  Reset gives back what is unreturned (tarn_pointer_unreturned()) and what the current
 *  resource keeps cached. Pointers that are out stay good and may be released after it.
 *  While cleanup is deferred, device, host and managed memory whose return would wait for
 *  the device is kept; the last end, and running out of memory, gives it back. Unpinning
 *  is never deferred. IPC handles are plain ones of tarn_ipc_export(). Memory info is the resource's, or the device's where that has
 * none.
 */
TARN_API const tarn_manager_ops *tarn_resource_manager_ops(void);

TARN_END_DECLS
#endif
