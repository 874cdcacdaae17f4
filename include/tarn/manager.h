/* manager.h -- who serves a runtime's memory: NBEP 7 in C.
 *
 * A manager is what a runtime such as Numba asks for device, mapped, pinned and managed
 * memory. It is a table of operations, of which there is one instance a context: the
 * primary context of a device, which all of a process share.
 *
 * A runtime gets the instance of the process's manager from tarn_memory_manager() and
 * calls tarn_manager_memalloc() and its like. Which manager that is, is said once, before
 * the first use: by tarn_set_memory_manager(), or by the environment variable
 * TARN_MEMORY_MANAGER. Three come with Tarn, and others can be loaded: a plugin is code
 * that runs in your program with all its rights. docs/managers.md says how to write one.
 * Source: seed 000 (A4-A110), seed 001 (B1-B18).
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
 *
 *  An operation that allocates returns a pointer of the kind that it names (memhostalloc and
 *  mempin: TARN_POINTER_MAPPED with TARN_HOST_MAPPED, else TARN_POINTER_PINNED), of at
 *  least `bytes`, on the instance's device, with the addresses that its kind has. Tarn
 *  compares each result, and releases one that is something else.
 */
typedef struct tarn_manager_ops {
    size_t size;           /**< sizeof(tarn_manager_ops) as you compiled it */
    const char *name;      /**< for messages; static storage */
    int interface_version; /**< TARN_MANAGER_INTERFACE_VERSION as you compiled it */

    /** Make the instance for one context (a CUcontext) of `device`. Must touch no memory.
     */
    tarn_status (*create)(void *config, int device, void *context, void **self_out);
    /** Free the instance. Does not come for those of tarn_memory_manager(). */
    void (*destroy)(void *self);
    /** Prepare for use; comes before any allocation, may come often (A43-A44, B7-B8): a
     *  runtime's own calls of it are passed on only after a reset of any kind. One at a
     *  time for an instance, and never beside context_gone. Inside either of them calls of
     *  the same instance return TARN_STILL_IN_USE. */
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
    /** Nests: expensive cleanup waits until the last end (A42, B16). A failing end has ended
     *  all the same. */
    tarn_status (*defer_cleanup_begin)(void *self);
    tarn_status (*defer_cleanup_end)(void *self);
    /** Somebody has reset the context itself (cuDevicePrimaryCtxReset; cuda.close() in
     *  Numba), and all memory in it is gone: forget what is cached and free nothing, its
     *  addresses may be somebody else's by now. Comes before the next call that needs the
     *  context, in its new life; initialize follows. Here NULL means that there is nothing
     *  to forget. */
    void (*context_lost)(void *self);
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
 *  none.
 *
 *  - Zero bytes is an empty pointer and no error.
 *  - An allocation before initialize, or after a reset, initializes first: use after reset
 *    is a new beginning. So is use after somebody has reset the context itself.
 *  - initialize may come as often as you like; where there is nothing to prepare it is one
 *    cheap question to the driver.
 *  - Mapped host memory, allocated or pinned, on a device that cannot map it is
 *    TARN_NOT_SUPPORTED, and the manager is not asked.
 *  - A result that is not what was requested is TARN_PLUGIN_FAILURE, with the numbers of
 *    both: fewer bytes, another kind or device, no address, an IPC handle of other bytes or
 *    of nothing, more memory free than there is. A pointer is released then; the owner of
 *    memory that was to be pinned stays the caller's.
 *  - reset may come before initialize, twice, and with no context current.
 *  - The last end of deferred cleanup returns the first free that failed in it. The
 *    cleanup has ended all the same; such memory waits as after any failing release.
 *  - Pointers outlive a reset and the instance. Their release is fine at any time, on any
 *    thread: what a reset of the context took, what comes after exit has begun, and what
 *    comes in a forked child is forgotten without a call to the driver.
 *  - Once exit has begun and in a forked child reset and the end of deferred cleanup do
 *    nothing, the others are TARN_DRIVER_FAILURE. */
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

/* --- The process's manager --------------------------------------------------------- */

/** Have `ops` (NULL: tarn_resource_manager_ops()) serve the process: tarn_memory_manager()
 *  makes instances of it, each with `config`. `config` and the name have to stay good until
 *  the process ends; the table is copied. Tables are checked as by tarn_manager_create().
 *
 *  NBEP 7's two checks: TARN_STILL_IN_USE where tarn_memory_manager() has given out an
 *  instance already (A107), and where another manager was set (A108). The same table with
 *  the same config again is TARN_OK at any time. It cannot be undone; what can be changed
 *  is the resource under a manager: tarn_device_set_resource(). Where the environment
 *  names a manager as well, the call wins and warns (tarn_warning_last()). Any thread. */
TARN_API tarn_status tarn_set_memory_manager(const tarn_manager_ops *ops, void *config);

/** The process's manager for `device`, a reference. All who ask for one context get one
 *  instance, made at the first call; it lives until the process ends, also when the
 *  context is reset: see context_gone. The manager is the one that was set; else what
 *  TARN_MEMORY_MANAGER says, which is `resource`, `native`, `pool`, or `FILE[:SYMBOL]` as
 *  for tarn_manager_load(), where FILE has a `/`; else tarn_resource_manager_ops(). A
 *  program with rights of its own (set-uid) does not look at the environment, and warns.
 *  Any thread; not from create. */
TARN_API tarn_status tarn_memory_manager(int device, tarn_manager **out);

/** What a plugin's symbol is: a function that gives its table, which stays good. */
typedef const tarn_manager_ops *(*tarn_manager_plugin_fn)(void);
#define TARN_MANAGER_PLUGIN_SYMBOL "tarn_manager_plugin"

/** Load a manager from a shared library, for tarn_set_memory_manager() or
 *  tarn_manager_create(). `path` has a `/`, so that no search path decides whose code runs;
 *  `symbol` NULL is TARN_MANAGER_PLUGIN_SYMBOL. The library stays loaded. No file, and no
 *  such symbol: TARN_NOT_FOUND. No library: TARN_BAD_FORMAT. A path without `/`, another
 *  interface version, a table that is too short or lacks an operation:
 *  TARN_INVALID_ARGUMENT. A function that gives no table: TARN_PLUGIN_FAILURE. In a program
 *  with rights of its own (set-uid, file capabilities) nothing is loaded:
 *  TARN_NOT_SUPPORTED. Each says which. Any thread. */
TARN_API tarn_status tarn_manager_load(const char *path, const char *symbol,
                                       const tarn_manager_ops **out);

/* --- The managers that come with Tarn ------------------------------------------------ */

/** As Numba's own manager does it (A11-A15, A102): each array is a cuMemAlloc, and frees
 *  are kept until there are enough of them, as a cuMemFree waits for the device. They go
 *  back when more than so many are pending or when they have more than that part of the
 *  device's memory (tarn_manager_set_pending_deallocs_limits()); at the last end of deferred
 *  cleanup, during which none goes back; at a reset; and, even while cleanup is deferred,
 *  where memory runs out, which is then tried once more. `config` is unused. The memory is
 *  safe without a stream: cuMemFree waits for all work. */
TARN_API const tarn_manager_ops *tarn_native_manager_ops(void);

/** When what is pending goes back, of the native manager and of the host-only base, on
 *  every device: with more than `count` entries (so with 10 at the 11th; 0: at once), or
 *  with more bytes than `ratio` of the device's memory, from 0 to 1. At first what
 *  TARN_MAX_PENDING_DEALLOCS_COUNT and TARN_MAX_PENDING_DEALLOCS_RATIO say, else 10 and 0.2; a value that is none is
 *  warned of. Pinned memory that is not mapped counts no bytes. Any thread. */
TARN_API tarn_status tarn_manager_set_pending_deallocs_limits(size_t count, double ratio);
TARN_API void tarn_manager_pending_deallocs_limits(size_t *count_out, double *ratio_out);
/** What is pending on `device` now, exact when no call is under way. It is part of
 *  tarn_pointer_deferred_count(), and tarn_pointer_reclaim_deferred() gives it back. */
TARN_API tarn_status tarn_manager_pending_deallocs(int device, size_t *count_out,
                                                   size_t *bytes_out);

/** The base of managers that bring device memory alone (A10, A58-A66): Tarn's host and
 *  managed memory, as operations for your table. Name them there, or call them from
 *  operations of your own, as a subclass calls its parent's; what you replace of
 *  initialize, reset and the two of deferred cleanup has to call the one here. `self` is
 *  not looked at: the device is that of the context, which is current when an operation is
 *  called. Frees are kept as the native manager's; unpinning is done at once (A98).
 *  Memory info is the driver's, IPC handles are plain ones of tarn_ipc_export(). */
TARN_API tarn_status tarn_host_only_initialize(void *self);
TARN_API tarn_status tarn_host_only_reset(void *self);
TARN_API tarn_status tarn_host_only_memhostalloc(void *self, size_t bytes, unsigned flags,
                                                 tarn_pointer **out);
TARN_API tarn_status tarn_host_only_mempin(void *self, void *host, size_t bytes,
                                           unsigned flags, void *owner,
                                           void (*owner_release)(void *),
                                           tarn_pointer **out);
TARN_API tarn_status tarn_host_only_memallocmanaged(void *self, size_t bytes,
                                                    bool attach_global,
                                                    tarn_pointer **out);
TARN_API tarn_status tarn_host_only_get_ipc_handle(void *self,
                                                   const tarn_pointer *pointer,
                                                   tarn_ipc_handle *out);
TARN_API tarn_status tarn_host_only_get_memory_info(void *self, size_t *free_out,
                                                    size_t *total_out);
TARN_API tarn_status tarn_host_only_defer_cleanup_begin(void *self);
TARN_API tarn_status tarn_host_only_defer_cleanup_end(void *self);

/** Config of the pool manager; zeros are the defaults, and so is NULL. */
typedef struct tarn_pool_manager_options {
    size_t size; /**< sizeof(tarn_pool_manager_options) */
    /** Make the resource that serves `device`: a reference for the manager. NULL: a pool
     * (tarn_pool_create()) with its own defaults. Called when an instance is initialized,
     * and anew after the context was reset. */
    tarn_status (*make)(void *data, int device, tarn_resource **out);
    void *data;
    /** Outside deferred cleanup, empty segments go back when more than this is cached,
     * looked at once for every quarter of it that was freed. 0: nothing goes back but at a
     * reset and where memory runs out. */
    size_t keep_bytes;
} tarn_pool_manager_options;

/** A pool of its own for each context (A16, A18). A block goes back to the pool at once,
 *  whether cleanup is deferred or not, if the pool's free need not wait for the device;
 *  deferred cleanup keeps empty segments from going back to the driver, which the last end
 *  makes up for. `config` is a `const tarn_pool_manager_options *` or NULL. Reset gives
 *  back what is cached; all else as tarn_resource_manager_ops(). */
TARN_API const tarn_manager_ops *tarn_pool_manager_ops(void);

/** The manager over Tarn's resources: memalloc serves from the device's current resource
 *  (tarn_device_resource()) at the time of the call; a block goes back to the resource it
 *  came from. Memory freed by somebody who names no stream is safe, see
 *  tarn_pointer_allocate(). Pinned memory that is neither mapped nor write-combined comes
 *  from a pool that the instance keeps. `config` is unused.
 *
 *  Reset gives back what is unreturned (tarn_pointer_deferred_count()) and what the current
 *  resource and the pool keep cached. Pointers that are out stay good and may be released
 *  after it. While cleanup is deferred, device, host and managed memory whose return would
 *  wait for the device is kept; the last end, and running out of memory, gives it back.
 *  Unpinning is never deferred. IPC handles are plain ones of tarn_ipc_export(). Memory
 *  info is the resource's, or the device's where that has none. */
TARN_API const tarn_manager_ops *tarn_resource_manager_ops(void);

TARN_END_DECLS
#endif
