/* ipc.h -- a block of device memory for another process of the same user.
 *
 * The owner makes a handle of a pointer, sends it by whatever way the two have, and the
 * other process, the importer, opens it. What it gets is a pointer as any other: views
 * keep it open, the last release closes it. There are two kinds of handle:
 *
 *   plain    names memory. While it is open nothing tells the owner, and nothing keeps the
 *            block from being freed and used again: the two have to agree. It is what
 *            Numba and CUDA call an IPC handle.
 *   served   names a block. Opening takes a lease from the owner. A free while a lease is
 *            out is put off: the block goes back when the last lease ends, by the
 *            importer's last release or by the importer's end, however that came. A handle
 *            of a block that was freed is refused, also where something else lies at its
 *            address by then.
 *
 * What has handles:
 *
 *   memory of                                plain                      served
 *   tarn_cuda_create(), pools over it        a CUDA handle              yes
 *   tarn_exportable_create(), pools over it  names the owner's server   yes
 *   tarn_async_create() with `exportable`,   names the owner's server   yes
 *   pools over it; any driver's pool that
 *   was made with a POSIX handle type
 *   everything else                          TARN_NOT_SUPPORTED, and the words say what can
 *
 * Memory of a driver's pool has two rules more, which are CUDA's. Export it once its
 * allocation is done: synchronize the stream that it was allocated on. And the importer has
 * to close it before the owner frees it: a lease sees to that, with a plain handle the two
 * have to. What was freed while it was open stays in the importer until it is closed, and
 * a block that lies at the same place then is TARN_NOT_FOUND there.
 *
 * The server is one thread of the owner. It starts with the first handle that needs it and
 * answers at a socket in a folder that only its user may enter: TARN_IPC_DIR, else
 * XDG_RUNTIME_DIR/tarn, else /tmp/tarn-UID. Where that cannot be used a handle is
 * TARN_SYSTEM_FAILURE: it cannot be made, is a link, or others may enter it. A path of over
 * 4,095 bytes is TARN_INVALID_ARGUMENT.
 *
 * Whom to trust. A handle is good for processes of the owner's user alone. Whoever opens
 * one can read and write the whole allocation around the block, not only the block: a peer
 * is trusted with all of it. Open only what your own user sent. A handle's bytes are
 * checked, and so are all messages: wrong ones are refused, they cannot make this process
 * read or write memory that the driver did not map for it. Either side may be killed at
 * any point; the other one keeps what it has.
 *
 * After exit has begun and in a forked child every call here is TARN_DRIVER_FAILURE; a
 * child neither serves its parent's handles nor keeps its parent's leases.
 */
#ifndef TARN_IPC_H
#define TARN_IPC_H

#include <tarn/pointer.h>

TARN_BEGIN_DECLS

/** What a handle promises; see above. */
typedef enum tarn_ipc_kind { TARN_IPC_PLAIN = 0, TARN_IPC_SERVED = 1 } tarn_ipc_kind;

/** A handle: plain data, sent as its bytes. Between machines it means nothing. */
typedef struct tarn_ipc_handle {
    /** A CUipcMemHandle (A72), or 64 bytes of Tarn's that name a server. */
    unsigned char reserved[64];
    size_t bytes;  /**< of the block */
    size_t offset; /**< of the block in the allocation that the handle names */
    int device;    /**< the owner's number for the block's device */
    unsigned char
        uuid[16]; /**< of that device, which may have another number elsewhere */
} tarn_ipc_handle;

/** Make a handle of a pointer or a view. A served one stays good until the pointer (of a
 * view: the one that it looks into) has lost its last reference; tarn_pointer_use_count()
 * counts one more for it. Where a lease outlives that, the block goes back on the
 * server's thread. TARN_INVALID_ARGUMENT: nothing or an empty pointer. TARN_NOT_SUPPORTED:
 * see the table. TARN_SYSTEM_FAILURE: the server does not start. Any thread. */
TARN_API tarn_status tarn_ipc_export(tarn_pointer *pointer, tarn_ipc_kind kind,
                                     tarn_ipc_handle *out);

/** How to open; zeros are the defaults. */
typedef struct tarn_ipc_open_options {
    size_t size; /**< sizeof(tarn_ipc_open_options) */
    /** Which device will use the memory, by number + 1; 0: the one that it lies on. Where
     * that one cannot reach it, the block is copied: the result is memory of the device's
     * current resource, owned by the pointer alone, and the handle is closed again. */
    int device_plus_1;
    bool always_copy;    /**< copy in any case */
    unsigned timeout_ms; /**< for the owner's answer; 0: 10,000 */
} tarn_ipc_open_options;

/** Open a handle. `options` may be NULL. An allocation is mapped once, however many of its
 *  blocks are opened. The last release of the pointer waits for the device.
 *
 *  TARN_INVALID_ARGUMENT: bytes that are no handle, of this process itself, or that reach
 *  over the end of their allocation. TARN_NOT_FOUND: the block was freed, the owner is
 *  gone, no device here has that uuid, or see above. TARN_SYSTEM_FAILURE: the owner does not answer
 *  in time or answers nonsense. TARN_OUT_OF_MEMORY, TARN_DRIVER_FAILURE as usual. Any
 *  thread. */
TARN_API tarn_status tarn_ipc_open(const tarn_ipc_handle *handle,
                                   const tarn_ipc_open_options *options,
                                   tarn_pointer **out);

/** One lease on a block of this process. */
typedef struct tarn_ipc_lease {
    int process;             /**< who has it */
    uint64_t since_ns;       /**< CLOCK_MONOTONIC */
    tarn_device_ptr address; /**< of the pointer that it keeps */
    size_t bytes;            /**< of that pointer */
} tarn_ipc_lease;

/** Fill `out` with at most `room` leases; `*count_out` (may be NULL) is how many there are.
 *  Any thread. */
TARN_API tarn_status tarn_ipc_leases(tarn_ipc_lease *out, size_t room, size_t *count_out);

/** What goes on between this process and others: for reports and leak checks. */
typedef struct tarn_ipc_counts {
    size_t segments;    /**< allocations of exportable memory that are out */
    size_t served;      /**< pointers with a served handle */
    size_t leases;      /**< that others have on blocks of this process */
    size_t connections; /**< to the server, leases included */
    size_t mapped;      /**< allocations of others that are open here */
    size_t descriptors; /**< descriptors that Tarn has open for all this */
    uint64_t requests;  /**< that the server answered, refusals included */
    uint64_t rejected;  /**< of these, and connections that were dropped */
} tarn_ipc_counts;

/** Exact when no call is under way. Any thread. */
TARN_API void tarn_ipc_get_counts(tarn_ipc_counts *out);

/** Device memory made to be shared: each block is one allocation of cuMemCreate that can
 *  be exported as a descriptor, of a multiple of 2 MiB. There is one a device, as of
 *  tarn_cuda_create(). Put a pool over it for small blocks; then whole segments are
 * shared. Free waits. TARN_NOT_SUPPORTED: the device cannot. Any thread. */
TARN_API tarn_status tarn_exportable_create(int device, tarn_resource **out);

TARN_END_DECLS
#endif
