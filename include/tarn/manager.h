/* manager.h -- memory managers: tables of operations that serve a runtime (NBEP 7).
 *
 * A runtime such as Numba requests device, mapped, pinned and managed memory from a
 * manager. This header uses three terms:
 *
 *   manager    a table of operations (tarn_manager_ops)
 *   instance   a manager in the primary context of one device (tarn_manager)
 *   plugin     a shared library with a manager (tarn_manager_load())
 *
 * A runtime gets an instance of the process's manager from tarn_memory_manager(). That
 * call returns one instance for each device to all its callers; tarn_manager_create()
 * makes others. The runtime calls tarn_manager_memalloc() and the other calls on the
 * instance. The program selects the manager once, before the first use:
 *
 *   - by tarn_set_memory_manager(), or
 *   - by the environment variable TARN_MEMORY_MANAGER.
 *
 * Tarn has three managers:
 *
 *   resource   tarn_resource_manager_ops()   the current device resource; the default
 *   native     tarn_native_manager_ops()     cuMemAlloc for each block, as in Numba
 *   pool       tarn_pool_manager_ops()       a pool for each context
 *
 * tarn_manager_load() loads others. The code of a plugin runs in the program, with all
 * rights of the program. docs/managers.md describes how to write a manager.
 *
 * Two resets are different. tarn_manager_reset() releases memory that no live pointer
 * has. A reset of the context (cuDevicePrimaryCtxReset, in Numba cuda.close()) ends all
 * memory of the context.
 *
 * Rules of the calls on an instance, from tarn_manager_initialize() to
 * tarn_manager_defer_cleanup_end():
 *
 *   - A call works with any context current or with none.
 *   - A request for zero bytes is no error. It returns an empty pointer: of the requested
 *     kind, with 0 bytes, no address and no memory.
 *   - The instance has to be initialized before most calls: allocations, IPC handles,
 *     memory information and the begin of deferred cleanup. Such a call initializes the
 *     instance itself if no call has done so yet, or none since a reset of either kind.
 *   - Tarn compares each result with the request. A result that does not fit is an error
 *     of the manager: the call returns TARN_PLUGIN_FAILURE, with the numbers of both in
 *     the message. Tarn releases a pointer that does not fit. If tarn_manager_mempin()
 *     fails in this way, `owner` stays the caller's.
 *   - Pointers outlive a tarn_manager_reset() and the instance. A release is allowed at
 *     any time, on any thread.
 *   - A release makes no driver call if a reset of the context has freed the memory. Nor
 *     does it once exit has begun, or in a forked child.
 *   - Once exit has begun, and in a forked child, tarn_manager_reset() and
 *     tarn_manager_defer_cleanup_end() do not call the manager. The other calls return
 *     TARN_DRIVER_FAILURE, except for a request for zero bytes.
 *
 * These results do not fit:
 *
 *   - TARN_OK without a pointer
 *   - a pointer with fewer bytes, of another kind or device, or without an address that
 *     its kind has (see tarn_manager_ops)
 *   - of mempin: a host address other than the requested one
 *   - more free bytes than total bytes
 *   - an IPC handle whose `bytes` or `device` are not those of the pointer
 *   - an IPC handle whose `offset` exceeds the address of the pointer, or whose content
 *     (`reserved`) is all zero
 *
 * Exit has begun when exit() has called the handler that Tarn registered with atexit()
 * when the process opened the driver. A forked child is a process that was forked after
 * that opening. docs/glossary.md explains deferred free and context generation.
 */
#ifndef TARN_MANAGER_H
#define TARN_MANAGER_H

#include <tarn/ipc.h>

TARN_BEGIN_DECLS

/** @addtogroup tarn_manager
 * @{ */

/** The version of this interface. */
#define TARN_MANAGER_INTERFACE_VERSION 1

/** Flags of page-locked host memory; combine them with `|`. */
typedef enum tarn_host_flags {
    TARN_HOST_MAPPED = 1,        /**< Map the memory into the device's address space. */
    TARN_HOST_PORTABLE = 2,      /**< Make the memory page-locked for all contexts. */
    TARN_HOST_WRITE_COMBINED = 4 /**< Allocate write-combined memory. */
} tarn_host_flags;

/** The table of operations of a manager.
 *
 * `size` comes first. Later versions of Tarn only append operations after `context_lost`.
 * Operations beyond `size` bytes count as NULL. A table that ends before `mempin` is too
 * short.
 *
 * Calling rules:
 *
 *   - Tarn calls the operations with the context current, from any thread. Several
 *     threads may call at once.
 *   - Tarn calls `destroy` and `defer_cleanup_end` also if it cannot make the context
 *     current.
 *   - Tarn never passes zero bytes, unknown flags or NULL for an output.
 *   - An operation that fails leaves its outputs unchanged.
 *   - Pointers may outlive the instance that made them. A pointer holds references to
 *     all that its finalizer needs.
 *   - Tarn compares each result with the request, and releases a pointer that does not
 *     fit.
 *
 * Each pointer has at least `bytes` bytes, and the device of the instance. Pinned memory
 * may have TARN_DEVICE_NONE instead.
 *
 * | Operation                              | Kind                 | Address         |
 * |----------------------------------------|----------------------|-----------------|
 * | memalloc                               | TARN_POINTER_DEVICE  | device          |
 * | memallocmanaged                        | TARN_POINTER_MANAGED | device          |
 * | memhostalloc, mempin                   | TARN_POINTER_PINNED  | host            |
 * | memhostalloc, mempin, TARN_HOST_MAPPED | TARN_POINTER_MAPPED  | device and host | */
typedef struct tarn_manager_ops {
    size_t size;           /**< sizeof(tarn_manager_ops) when the table was compiled. */
    const char *name;      /**< Name of the manager, for messages: at most 127 bytes, in
                                static storage. */
    int interface_version; /**< TARN_MANAGER_INTERFACE_VERSION at that time. */

    /** Creates the instance for one context.
     *
     * `config` comes from tarn_manager_create() or tarn_set_memory_manager(). `context`
     * is the primary context (a CUcontext) of `device`. The operation stores the instance
     * in `*self_out`, which becomes `self` of the others. It must not allocate, free
     * or access memory of the device: `initialize` does that. */
    tarn_status (*create)(void *config, int device, void *context, void **self_out);
    /** Frees the instance.
     *
     * Tarn does not call it for the instances of tarn_memory_manager(). */
    void (*destroy)(void *self);
    /** Prepares the instance for use.
     *
     * Tarn calls it once before the first call that needs it, see the top of this header.
     * Tarn calls it again after tarn_manager_reset(), after a reset of the context, and
     * after a failure. Other calls of tarn_manager_initialize() do not reach it.
     *
     * Tarn makes one call at a time for an instance, and none while `context_lost` of the
     * instance runs. Neither operation may call the instance: such a call returns
     * TARN_REENTRANT_CALL. tarn_manager_defer_cleanup_end() is the exception and
     * works. */
    tarn_status (*initialize)(void *self);
    /** Releases all cached and pending memory in this context: memory of no live pointer.
     *
     * Tarn may call it before `initialize`. Tarn calls `initialize` again before the next
     * allocation. */
    tarn_status (*reset)(void *self);
    /** Allocates `bytes` bytes of device memory for work on `stream`.
     *
     * `stream` is TARN_STREAM_NONE if the runtime specifies none. */
    tarn_status (*memalloc)(void *self, size_t bytes, tarn_stream stream,
                            tarn_pointer **out);
    /** Allocates `bytes` bytes of page-locked host memory.
     *
     * `flags` are any of tarn_host_flags, or 0. */
    tarn_status (*memhostalloc)(void *self, size_t bytes, unsigned flags,
                                tarn_pointer **out);
    /** Page-locks `bytes` bytes of existing memory at `host`.
     *
     * `flags` are TARN_HOST_MAPPED and TARN_HOST_PORTABLE. On success the pointer owns
     * `owner`. It passes `owner` to `owner_release` after the memory is unpinned. */
    tarn_status (*mempin)(void *self, void *host, size_t bytes, unsigned flags,
                          void *owner, void (*owner_release)(void *), tarn_pointer **out);

    /* Optional from here on: without an operation, its call returns TARN_NOT_SUPPORTED.
     * No call belongs to `context_lost`. */

    /** Allocates `bytes` bytes of managed memory; optional.
     *
     * `attach_global` selects CU_MEM_ATTACH_GLOBAL, else CU_MEM_ATTACH_HOST. NULL:
     * TARN_NOT_SUPPORTED. */
    tarn_status (*memallocmanaged)(void *self, size_t bytes, bool attach_global,
                                   tarn_pointer **out);
    /** Makes an IPC handle of the block of `pointer`; optional.
     *
     * NULL: TARN_NOT_SUPPORTED. */
    tarn_status (*get_ipc_handle)(void *self, const tarn_pointer *pointer,
                                  tarn_ipc_handle *out);
    /** Reports the free and the total bytes; optional.
     *
     * NULL: TARN_NOT_SUPPORTED. */
    tarn_status (*get_memory_info)(void *self, size_t *free_out, size_t *total_out);
    /** Begins deferred cleanup; optional.
     *
     * Deferred cleanup nests. Until the last end, the manager defers frees that wait for
     * the device, such as cuMemFree. NULL: TARN_NOT_SUPPORTED. */
    tarn_status (*defer_cleanup_begin)(void *self);
    /** Ends deferred cleanup; optional.
     *
     * An end that fails has ended the cleanup nevertheless. NULL: TARN_NOT_SUPPORTED. */
    tarn_status (*defer_cleanup_end)(void *self);
    /** Reports that the context itself was reset, and all its memory is lost; optional.
     *
     * A program resets it by cuDevicePrimaryCtxReset, or in Numba by cuda.close(). The
     * operation forgets cached memory and frees nothing: other memory may lie at those
     * addresses by now. Tarn calls it in the new context generation, before the first
     * operation that follows the reset. `initialize` comes after it. NULL: the manager
     * caches nothing. */
    void (*context_lost)(void *self);
} tarn_manager_ops;

/** An instance: a manager in the primary context of one device; reference-counted. */
typedef struct tarn_manager tarn_manager;

/** Create an instance of `ops` for the primary context of `device`.
 *
 * Each call makes a new instance. The error message distinguishes a wrong interface
 * version from a table that is too short.
 *
 * Thread-safety: any thread.
 *
 * @param ops       the table; copied, but for the text of its `name`
 * @param config    argument of `create`; the manager defines its meaning
 * @param device    number of the device
 * @param[out] out  the instance, with one reference for the caller
 * @return
 * - TARN_OK: the instance is ready.
 * - TARN_INVALID_ARGUMENT: `ops` or `out` is NULL, or `device` does not exist. Or the
 *   table has another interface version, is too short, lacks its name or a required
 *   operation, or has a longer name.
 * - TARN_OUT_OF_MEMORY: host memory is unavailable.
 * - TARN_DRIVER_FAILURE: exit has begun, this is a forked child, or a driver call failed.
 * - Other statuses of `create`.
 * @since 0.1
 */
TARN_API tarn_status tarn_manager_create(const tarn_manager_ops *ops, void *config,
                                         int device, tarn_manager **out);

/** Add a reference to an instance.
 *
 * Thread-safety: any thread.
 *
 * @param manager  the instance; NULL is allowed
 * @return `manager`
 * @since 0.1
 */
TARN_API tarn_manager *tarn_manager_retain(tarn_manager *manager);

/** Drop a reference to an instance; the last release destroys it.
 *
 * The last release first ends deferred cleanup that has begun and not ended. If such an
 * end fails, Tarn reports a warning (tarn_set_warning_handler()).
 *
 * Thread-safety: any thread.
 *
 * @param manager  the caller's reference, transferred; NULL is allowed
 * @since 0.1
 */
TARN_API void tarn_manager_release(tarn_manager *manager);

/** Prepare an instance for use.
 *
 * A runtime may call this before each use. If the instance is ready, the call only checks
 * the context generation (tarn_context_generation()).
 *
 * Thread-safety: any thread.
 *
 * @param manager  the instance
 * @return
 * - TARN_OK: the instance is ready.
 * - TARN_INVALID_ARGUMENT: `manager` is NULL.
 * - TARN_DRIVER_FAILURE: exit has begun, this is a forked child, or a driver call failed.
 * - TARN_REENTRANT_CALL: `initialize` or `context_lost` of this instance makes the call.
 * - Other statuses of the operation of the manager.
 * @since 0.1
 */
TARN_API tarn_status tarn_manager_initialize(tarn_manager *manager);

/** Release all cached and pending memory of an instance: memory of no live pointer.
 *
 * The call may come before tarn_manager_initialize(), twice, and with no context current.
 * The next allocation initializes the instance again. Live pointers stay valid.
 *
 * Thread-safety: any thread.
 *
 * @param manager  the instance
 * @return
 * - TARN_OK: the memory is released, or exit has begun, or this is a forked child.
 * - TARN_INVALID_ARGUMENT: `manager` is NULL.
 * - TARN_REENTRANT_CALL: `initialize` or `context_lost` of this instance makes the call.
 * - Other statuses of the driver and of the operation of the manager.
 * @since 0.1
 */
TARN_API tarn_status tarn_manager_reset(tarn_manager *manager);

/** Allocate device memory for work on `stream`.
 *
 * Thread-safety: any thread.
 *
 * @param manager   the instance
 * @param bytes     size in bytes; 0 makes an empty pointer
 * @param stream    stream of the allocation, as for tarn_resource_allocate();
 *                  TARN_STREAM_NONE: no stream
 * @param[out] out  the pointer, with one reference for the caller
 * @return
 * - TARN_OK: `*out` is set.
 * - TARN_INVALID_ARGUMENT: `manager` or `out` is NULL.
 * - TARN_OUT_OF_MEMORY: memory is unavailable.
 * - TARN_PLUGIN_FAILURE: the result differs from the request.
 * - TARN_DRIVER_FAILURE: exit has begun, this is a forked child, or a driver call failed.
 * - TARN_REENTRANT_CALL: `initialize` or `context_lost` of this instance makes the call.
 * - Other statuses of the operation of the manager.
 * @since 0.1
 */
TARN_API tarn_status tarn_manager_memalloc(tarn_manager *manager, size_t bytes,
                                           tarn_stream stream, tarn_pointer **out);

/** Allocate page-locked host memory.
 *
 * Thread-safety: any thread.
 *
 * @param manager   the instance
 * @param bytes     size in bytes; 0 makes an empty pointer
 * @param flags     any of tarn_host_flags, or 0
 * @param[out] out  the pointer, with one reference for the caller
 * @return
 * - TARN_OK: `*out` is set.
 * - TARN_INVALID_ARGUMENT: `manager` or `out` is NULL, or a flag is unknown.
 * - TARN_NOT_SUPPORTED: `flags` has TARN_HOST_MAPPED, and the device cannot map host
 *   memory. Tarn does not call the manager then.
 * - TARN_OUT_OF_MEMORY: memory is unavailable.
 * - TARN_PLUGIN_FAILURE: the result differs from the request.
 * - TARN_DRIVER_FAILURE: exit has begun, this is a forked child, or a driver call failed.
 * - TARN_REENTRANT_CALL: `initialize` or `context_lost` of this instance makes the call.
 * - Other statuses of the operation of the manager.
 * @since 0.1
 */
TARN_API tarn_status tarn_manager_memhostalloc(tarn_manager *manager, size_t bytes,
                                               unsigned flags, tarn_pointer **out);

/** Page-lock existing host memory.
 *
 * Thread-safety: any thread.
 *
 * @param manager        the instance
 * @param host           first byte of the memory; NULL is allowed with 0 bytes. The
 *                       memory stays valid until the last release of the pointer
 * @param bytes          size in bytes; 0 makes an empty pointer, which owns `owner`
 * @param flags          TARN_HOST_MAPPED, TARN_HOST_PORTABLE, both or 0
 * @param owner          object that owns the memory at `host`; transferred on success,
 *                       else still the caller's. NULL is allowed
 * @param owner_release  called with `owner` once the memory is unpinned; NULL is allowed
 * @param[out] out       the pointer, with one reference for the caller
 * @return
 * - TARN_OK: `*out` is set.
 * - TARN_INVALID_ARGUMENT: `manager` or `out` is NULL, or a flag is unknown. Or `host` is
 *   NULL, and `bytes` is not 0.
 * - TARN_NOT_SUPPORTED: `flags` has TARN_HOST_MAPPED, and the device cannot map host
 *   memory. Tarn does not call the manager then.
 * - TARN_PLUGIN_FAILURE: the result differs from the request.
 * - TARN_DRIVER_FAILURE: exit has begun, this is a forked child, or a driver call failed.
 * - TARN_REENTRANT_CALL: `initialize` or `context_lost` of this instance makes the call.
 * - Other statuses of the operation of the manager.
 * @since 0.1
 */
TARN_API tarn_status tarn_manager_mempin(tarn_manager *manager, void *host, size_t bytes,
                                         unsigned flags, void *owner,
                                         void (*owner_release)(void *),
                                         tarn_pointer **out);

/** Allocate managed memory.
 *
 * Thread-safety: any thread.
 *
 * @param manager        the instance
 * @param bytes          size in bytes; 0 makes an empty pointer
 * @param attach_global  true: any stream on any device may use the memory
 *                       (CU_MEM_ATTACH_GLOBAL); false: CU_MEM_ATTACH_HOST
 * @param[out] out       the pointer, with one reference for the caller
 * @return
 * - TARN_OK: `*out` is set.
 * - TARN_INVALID_ARGUMENT: `manager` or `out` is NULL.
 * - TARN_NOT_SUPPORTED: the manager has no such operation.
 * - TARN_OUT_OF_MEMORY: memory is unavailable.
 * - TARN_PLUGIN_FAILURE: the result differs from the request.
 * - TARN_DRIVER_FAILURE: exit has begun, this is a forked child, or a driver call failed.
 * - TARN_REENTRANT_CALL: `initialize` or `context_lost` of this instance makes the call.
 * - Other statuses of the operation of the manager.
 * @since 0.1
 */
TARN_API tarn_status tarn_manager_memallocmanaged(tarn_manager *manager, size_t bytes,
                                                  bool attach_global, tarn_pointer **out);

/** Make an IPC handle of a pointer.
 *
 * Thread-safety: any thread.
 *
 * @param manager   the instance
 * @param pointer   borrowed; memory on the device of the instance
 * @param[out] out  the handle
 * @return
 * - TARN_OK: `*out` is set.
 * - TARN_INVALID_ARGUMENT: `manager` or `out` is NULL. Or `pointer` is NULL, empty, or of
 *   another device.
 * - TARN_NOT_SUPPORTED: the manager has no such operation, or it cannot export memory of
 *   this kind.
 * - TARN_PLUGIN_FAILURE: `bytes`, `offset` or `device` of the handle do not fit the
 *   pointer, or all bytes of `reserved` are zero.
 * - TARN_DRIVER_FAILURE: exit has begun, this is a forked child, or a driver call failed.
 * - TARN_REENTRANT_CALL: `initialize` or `context_lost` of this instance makes the call.
 * - Other statuses of the operation of the manager.
 * @since 0.1
 */
TARN_API tarn_status tarn_manager_get_ipc_handle(tarn_manager *manager,
                                                 const tarn_pointer *pointer,
                                                 tarn_ipc_handle *out);

/** Report the free and the total memory of an instance.
 *
 * Thread-safety: any thread.
 *
 * @param manager         the instance
 * @param[out] free_out   free bytes
 * @param[out] total_out  total bytes
 * @return
 * - TARN_OK: both outputs are set.
 * - TARN_INVALID_ARGUMENT: an argument is NULL.
 * - TARN_NOT_SUPPORTED: the manager has no such operation.
 * - TARN_PLUGIN_FAILURE: the manager reports more free memory than total memory.
 * - TARN_DRIVER_FAILURE: exit has begun, this is a forked child, or a driver call failed.
 * - TARN_REENTRANT_CALL: `initialize` or `context_lost` of this instance makes the call.
 * - Other statuses of the operation of the manager.
 * @since 0.1
 */
TARN_API tarn_status tarn_manager_get_memory_info(tarn_manager *manager, size_t *free_out,
                                                  size_t *total_out);

/** Begin deferred cleanup.
 *
 * Deferred cleanup nests. Until the last end, the manager defers frees that wait for the
 * device, such as cuMemFree.
 *
 * Thread-safety: any thread.
 *
 * @param manager  the instance
 * @return
 * - TARN_OK: deferred cleanup has begun.
 * - TARN_INVALID_ARGUMENT: `manager` is NULL.
 * - TARN_NOT_SUPPORTED: the manager lacks the operation of the begin or that of the end.
 * - TARN_DRIVER_FAILURE: exit has begun, this is a forked child, or a driver call failed.
 * - TARN_REENTRANT_CALL: `initialize` or `context_lost` of this instance makes the call.
 * - Other statuses of the operation of the manager.
 * @since 0.1
 */
TARN_API tarn_status tarn_manager_defer_cleanup_begin(tarn_manager *manager);

/** End deferred cleanup.
 *
 * The last end makes the frees that were deferred. With Tarn's managers, it returns the
 * status of the first free that fails. Deferred cleanup has ended also then, and the
 * caller does not end it again. Memory that could not be freed is a deferred free, see
 * tarn_pointer_deferred_frees().
 *
 * Once exit has begun, and in a forked child, the call does not call the manager.
 *
 * Thread-safety: any thread.
 *
 * @param manager  the instance
 * @return
 * - TARN_OK: one level of deferred cleanup has ended.
 * - TARN_INVALID_ARGUMENT: `manager` is NULL. Or each begin has had its end already, also
 *   once exit has begun.
 * - TARN_NOT_SUPPORTED: the manager has no such operation.
 * - Other statuses of the operation of the manager. The level has ended nevertheless.
 * @since 0.1
 */
TARN_API tarn_status tarn_manager_defer_cleanup_end(tarn_manager *manager);

/** Return the name of the manager of an instance.
 *
 * Thread-safety: any thread.
 *
 * @param manager  the instance; not NULL
 * @return the name in the table of the manager
 * @since 0.1
 */
TARN_API const char *tarn_manager_name(const tarn_manager *manager);

/* --- The process's manager --------------------------------------------------------- */

/** Set the manager of the process.
 *
 * tarn_memory_manager() creates instances of it, each with `config`. The setting is
 * final. The resource that the manager `resource` uses can still change, by
 * tarn_device_set_resource(). If the environment variable TARN_MEMORY_MANAGER is set as
 * well, the call takes precedence and warns (tarn_warning_last()). Tarn checks the table
 * as tarn_manager_create() does.
 *
 * While another thread's first tarn_memory_manager() creates an instance, the call waits
 * for its end, which decides the manager: if that call fails, none is chosen.
 *
 * Thread-safety: any thread. The caller holds no lock that `create`, or the loading of a
 * plugin, needs.
 *
 * @param ops     the table; copied, but for the text of its `name`. That text stays valid
 *                until the process ends. NULL: tarn_resource_manager_ops()
 * @param config  argument of `create`; borrowed until the process ends
 * @return
 * - TARN_OK: the process has this manager with this `config`. That holds at any time if
 *   the process had them already, from a call or from the environment.
 * - TARN_INVALID_ARGUMENT: the table is invalid, see tarn_manager_create().
 * - TARN_ALREADY_SET: another manager was set, or tarn_memory_manager() has created an
 *   instance of another manager, or `create` makes this call. NBEP 7 demands these
 *   checks.
 * @since 0.1
 */
TARN_API tarn_status tarn_set_memory_manager(const tarn_manager_ops *ops, void *config);

/** Return the process's manager for `device`.
 *
 * All callers get the same instance for a device. The first call creates it. The instance
 * stays until the process ends, also after a reset of the context: see `context_lost`.
 * Its manager is the first of these:
 *
 *   - the manager of tarn_set_memory_manager()
 *   - the manager that TARN_MEMORY_MANAGER names: `resource`, `native`, `pool`, or
 *     `FILE[:SYMBOL]` for tarn_manager_load(), with a `/` in FILE
 *   - tarn_resource_manager_ops()
 *
 * In a program with elevated privileges (set-uid, file capabilities) Tarn ignores the
 * environment variable and warns.
 *
 * Thread-safety: any thread, but not from `create`.
 *
 * @param device    number of the device
 * @param[out] out  the instance, with a new reference for the caller
 * @return
 * - TARN_OK: `*out` is set.
 * - TARN_INVALID_ARGUMENT: `out` is NULL, or `device` does not exist.
 * - TARN_NOT_FOUND: TARN_MEMORY_MANAGER names no manager.
 * - TARN_REENTRANT_CALL: `create` of the manager makes the call.
 * - TARN_DRIVER_FAILURE: exit has begun, this is a forked child, or a driver call failed.
 * - Other statuses of tarn_manager_load() and tarn_manager_create().
 * @since 0.1
 */
TARN_API tarn_status tarn_memory_manager(int device, tarn_manager **out);

/** Returns the table of a plugin: the type of the function that a plugin exports.
 *
 * The table stays valid until the process ends. */
typedef const tarn_manager_ops *(*tarn_manager_plugin_fn)(void);

/** The default name of the function that a plugin exports, a tarn_manager_plugin_fn. */
#define TARN_MANAGER_PLUGIN_SYMBOL "tarn_manager_plugin"

/** Load a manager from a shared library.
 *
 * The table is for tarn_set_memory_manager() or tarn_manager_create(). After a success
 * the library stays loaded until the process ends. The error message names the cause of a
 * failure.
 *
 * Thread-safety: any thread.
 *
 * @param path      file of the library. It has to contain a `/`: then the dynamic linker
 *                  uses no search path
 * @param symbol    name of a tarn_manager_plugin_fn; NULL: TARN_MANAGER_PLUGIN_SYMBOL
 * @param[out] out  the table of the plugin; borrowed, valid until the process ends
 * @return
 * - TARN_OK: `*out` is set.
 * - TARN_NOT_FOUND: the file or the symbol does not exist.
 * - TARN_BAD_FORMAT: the dynamic linker cannot load the file. It is no shared library, or
 *   a library or a symbol that it needs is missing.
 * - TARN_INVALID_ARGUMENT: `path` or `out` is NULL, or `path` has no `/`. Or the table
 *   has another interface version, is too short, lacks its name or a required
 *   operation, or has a longer name.
 * - TARN_PLUGIN_FAILURE: the function returns no table.
 * - TARN_NOT_SUPPORTED: the program has elevated privileges (set-uid, file capabilities).
 *   Tarn loads nothing then.
 * - TARN_SYSTEM_FAILURE: the system cannot inspect the file.
 * @since 0.1
 */
TARN_API tarn_status tarn_manager_load(const char *path, const char *symbol,
                                       const tarn_manager_ops **out);

/* --- The managers that come with Tarn ---------------------------------------------- */

/** Return the manager `native`, which works as Numba's own manager.
 *
 * Each block of device memory is one cuMemAlloc. A cuMemFree waits for the device, so the
 * manager defers frees. A deferred free that waits here is called a pending free, and its
 * memory pending memory. The manager frees all pending memory of the device:
 *
 *   - when its count or its bytes exceed a limit, outside of deferred cleanup; see
 *     tarn_manager_set_pending_deallocs_limits()
 *   - at the last end of deferred cleanup
 *   - in tarn_manager_reset()
 *   - when memory runs out, also during deferred cleanup; the manager then tries the
 *     allocation again
 *
 * The stream of an allocation has no effect: cuMemFree waits for the work of all streams.
 * `config` is unused.
 *
 * Thread-safety: any thread.
 *
 * @return the table; static storage
 * @since 0.1
 */
TARN_API const tarn_manager_ops *tarn_native_manager_ops(void);

/** Set the limits of pending frees on every device.
 *
 * They hold for the manager `native` and for the host-only base together: both use one
 * list for each device. Outside of deferred cleanup, the free that exceeds a limit frees
 * all pending memory of the device.
 *
 * The initial values come from the environment variables TARN_MAX_PENDING_DEALLOCS_COUNT
 * and TARN_MAX_PENDING_DEALLOCS_RATIO, else they are 10 and 0.2. Tarn warns of an invalid
 * value. Mapped host memory counts with its size, other pinned memory as 0 bytes.
 *
 * Thread-safety: any thread.
 *
 * @param count  maximum number of pending frees; with 10 the 11th frees all, with 0 each
 *               free is immediate
 * @param ratio  maximum of their bytes, from 0 to 1: a part of the memory of the device
 * @return
 * - TARN_OK: the limits are set.
 * - TARN_INVALID_ARGUMENT: `ratio` is not from 0 to 1.
 * @since 0.2
 */
TARN_API tarn_status tarn_manager_set_pending_deallocs_limits(size_t count, double ratio);

/** Report the limits of pending frees.
 *
 * Thread-safety: any thread.
 *
 * @param[out] count_out  maximum number of pending frees; not NULL
 * @param[out] ratio_out  maximum of their bytes, as a part of the memory of the device;
 *                        not NULL
 * @since 0.2
 */
TARN_API void tarn_manager_pending_deallocs_limits(size_t *count_out, double *ratio_out);

/** Report the pending frees on `device`.
 *
 * They also count the frees that the managers `resource` and `pool` defer during deferred
 * cleanup. The numbers are exact while no call is under way.
 * tarn_pointer_deferred_count() includes the count. tarn_pointer_reclaim_deferred() frees
 * the memory.
 *
 * Thread-safety: any thread.
 *
 * @param device          number of the device
 * @param[out] count_out  number of pending frees
 * @param[out] bytes_out  their bytes, of mapped host memory too, of other pinned memory 0
 * @return
 * - TARN_OK: both outputs are set.
 * - TARN_INVALID_ARGUMENT: `device` does not exist, or an output is NULL.
 * - Other statuses of tarn_driver_open().
 * @since 0.2
 */
TARN_API tarn_status tarn_manager_pending_deallocs(int device, size_t *count_out,
                                                   size_t *bytes_out);

/** @} */

/** @addtogroup tarn_manager_host_only
 *
 * The host-only base: operations for managers that implement device memory only. It is
 * the HostOnlyCUDAMemoryManager of NBEP 7, with Tarn's host and managed memory. A manager
 * puts these functions into its table (tarn_manager_ops), or calls them in its own
 * operations.
 *
 *   - A manager that has its own `initialize`, `reset` or operations of deferred cleanup
 *     has to call those of the base in them.
 *   - `self` is unused. The device is that of the context, which is current when Tarn
 *     calls an operation.
 *   - Frees are pending frees, as in the manager `native`. Unpinning is immediate.
 *   - Memory information is that of the driver. IPC handles are plain handles of
 *     tarn_ipc_export().
 *
 * @{ */

/** Prepare the base: the operation `initialize`.
 *
 * Thread-safety: any thread, with a context current.
 *
 * @param self  unused; NULL is allowed
 * @return
 * - TARN_OK: the base is ready.
 * - TARN_DRIVER_FAILURE: a driver call failed.
 * @since 0.1
 */
TARN_API tarn_status tarn_host_only_initialize(void *self);

/** Free all pending memory of the device: the operation `reset`.
 *
 * Thread-safety: any thread, with a context current.
 *
 * @param self  unused; NULL is allowed
 * @return
 * - TARN_OK: all pending memory is freed.
 * - The status of the first free that failed, once all were tried.
 * @since 0.1
 */
TARN_API tarn_status tarn_host_only_reset(void *self);

/** Allocate page-locked host memory: the operation `memhostalloc`.
 *
 * Thread-safety: any thread, with a context current.
 *
 * @param self      unused; NULL is allowed
 * @param bytes     size in bytes; more than 0
 * @param flags     any of tarn_host_flags, or 0
 * @param[out] out  the pointer, with one reference for the caller
 * @return
 * - TARN_OK: `*out` is set.
 * - TARN_OUT_OF_MEMORY: memory is unavailable, also after pending memory was freed.
 * - TARN_DRIVER_FAILURE: a driver call failed.
 * @since 0.1
 */
TARN_API tarn_status tarn_host_only_memhostalloc(void *self, size_t bytes, unsigned flags,
                                                 tarn_pointer **out);

/** Page-lock existing host memory: the operation `mempin`.
 *
 * The last release of the pointer unpins immediately, also while cleanup is deferred.
 *
 * Thread-safety: any thread, with a context current.
 *
 * @param self           unused; NULL is allowed
 * @param host           first byte of the memory
 * @param bytes          size in bytes; more than 0
 * @param flags          TARN_HOST_MAPPED, TARN_HOST_PORTABLE, both or 0
 * @param owner          transferred on success, else still the caller's; NULL is allowed
 * @param owner_release  called with `owner` once the memory is unpinned; NULL is allowed
 * @param[out] out       the pointer, with one reference for the caller
 * @return
 * - TARN_OK: `*out` is set.
 * - TARN_OUT_OF_MEMORY: memory is unavailable, also after pending memory was freed.
 * - TARN_DRIVER_FAILURE: a driver call failed.
 * @since 0.1
 */
TARN_API tarn_status tarn_host_only_mempin(void *self, void *host, size_t bytes,
                                           unsigned flags, void *owner,
                                           void (*owner_release)(void *),
                                           tarn_pointer **out);

/** Allocate managed memory: the operation `memallocmanaged`.
 *
 * Thread-safety: any thread, with a context current.
 *
 * @param self           unused; NULL is allowed
 * @param bytes          size in bytes; more than 0
 * @param attach_global  true: CU_MEM_ATTACH_GLOBAL; false: CU_MEM_ATTACH_HOST
 * @param[out] out       the pointer, with one reference for the caller
 * @return
 * - TARN_OK: `*out` is set.
 * - TARN_OUT_OF_MEMORY: memory is unavailable, also after pending memory was freed.
 * - TARN_DRIVER_FAILURE: a driver call failed.
 * @since 0.1
 */
TARN_API tarn_status tarn_host_only_memallocmanaged(void *self, size_t bytes,
                                                    bool attach_global,
                                                    tarn_pointer **out);

/** Make a plain IPC handle: the operation `get_ipc_handle`.
 *
 * Thread-safety: any thread, with a context current.
 *
 * @param self      unused; NULL is allowed
 * @param pointer   borrowed; not NULL and not empty
 * @param[out] out  the handle
 * @return
 * - TARN_OK: `*out` is set.
 * - Other statuses of tarn_ipc_export() with TARN_IPC_PLAIN.
 * @since 0.1
 */
TARN_API tarn_status tarn_host_only_get_ipc_handle(void *self,
                                                   const tarn_pointer *pointer,
                                                   tarn_ipc_handle *out);

/** Report the free and the total memory of the device: the operation `get_memory_info`.
 *
 * Thread-safety: any thread, with a context current.
 *
 * @param self            unused; NULL is allowed
 * @param[out] free_out   free bytes, as the driver reports
 * @param[out] total_out  total bytes, as the driver reports
 * @return
 * - TARN_OK: both outputs are set.
 * - TARN_DRIVER_FAILURE: a driver call failed.
 * @since 0.1
 */
TARN_API tarn_status tarn_host_only_get_memory_info(void *self, size_t *free_out,
                                                    size_t *total_out);

/** Begin deferred cleanup on the device: the operation `defer_cleanup_begin`.
 *
 * Thread-safety: any thread, with a context current.
 *
 * @param self  unused; NULL is allowed
 * @return
 * - TARN_OK: deferred cleanup has begun. The limits have no effect until its last end.
 * - TARN_DRIVER_FAILURE: a driver call failed.
 * @since 0.1
 */
TARN_API tarn_status tarn_host_only_defer_cleanup_begin(void *self);

/** End deferred cleanup on the device: the operation `defer_cleanup_end`.
 *
 * The last end frees all pending memory of the device.
 *
 * Thread-safety: any thread, with a context current.
 *
 * @param self  unused; NULL is allowed
 * @return
 * - TARN_OK: the cleanup has ended.
 * - The status of the first free that failed. The cleanup has ended nevertheless.
 * @since 0.1
 */
TARN_API tarn_status tarn_host_only_defer_cleanup_end(void *self);

/** @} */

/** @addtogroup tarn_manager
 * @{ */

/** Options of the manager `pool`; except for `size`, 0 and NULL are the defaults. */
typedef struct tarn_pool_manager_options {
    size_t size; /**< Size of this struct: sizeof(tarn_pool_manager_options). */
    /** Makes the resource that serves `device`.
     *
     * `data` is the member below. The function stores a resource in `*out`, with a
     * reference that becomes the manager's. The manager calls the function when it
     * initializes an instance, and again after a reset of the context. `make` NULL: the
     * manager creates a pool (tarn_pool_create()) with default options. */
    tarn_status (*make)(void *data, int device, tarn_resource **out);
    void *data; /**< First argument of `make`. */
    /** Cached bytes above which the manager trims the pool: tarn_resource_trim().
     *
     * The manager trims each time more than a quarter of this number of bytes was freed
     * since the last trim, outside of deferred cleanup. 0: the default pool returns
     * memory only in tarn_manager_reset() and when memory runs out. */
    size_t keep_bytes;
} tarn_pool_manager_options;

/** Return the manager `pool`, which has a pool of its own for each context.
 *
 * It works as tarn_resource_manager_ops(), with these differences:
 *
 *   - Device memory comes from the pool of the instance. If a free need not wait for the
 *     device, the block returns to the pool immediately, also during deferred cleanup.
 *   - During deferred cleanup the manager does not trim the pool. The last end trims it
 *     to `keep_bytes`, if that is set and more than a quarter of it was freed.
 *   - tarn_manager_reset() makes the deferred frees of the device. It also releases the
 *     memory that the pool and the pool of pinned memory cache.
 *   - `config` is NULL (all defaults) or points to tarn_pool_manager_options. `create`
 *     copies them.
 *
 * Thread-safety: any thread.
 *
 * @return the table; static storage
 * @since 0.1
 */
TARN_API const tarn_manager_ops *tarn_pool_manager_ops(void);

/** Return the manager `resource`, which serves memory from Tarn's resources.
 *
 * `config` is unused.
 *
 *   - `memalloc` serves from the current device resource (tarn_device_resource()) at the
 *     time of the call. A block returns to the resource that it came from.
 *   - No-stream frees of its memory are safe, see tarn_pointer_allocate().
 *   - Pinned memory that is neither mapped nor write-combined comes from a pool of the
 *     instance.
 *   - tarn_manager_reset() makes all deferred frees of the process
 *     (tarn_pointer_deferred_count()). It also releases the memory that the current
 *     device resource and the pool of pinned memory cache.
 *   - Live pointers stay valid after tarn_manager_reset(), and may be released after it.
 *   - Deferred cleanup defers the free of device, host and managed memory if the free
 *     has to wait for the device. The last end makes these frees. So does an allocation
 *     that runs out of memory.
 *   - Unpinning is never deferred.
 *   - IPC handles are plain handles of tarn_ipc_export().
 *   - Memory information is that of the resource. A resource without it reports that of
 *     the device.
 *
 * Thread-safety: any thread.
 *
 * @return the table; static storage
 * @since 0.1
 */
TARN_API const tarn_manager_ops *tarn_resource_manager_ops(void);

/** @} */

TARN_END_DECLS
#endif
