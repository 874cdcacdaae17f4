/* ipc.h -- a block of device memory for another process of the same user.
 *
 * The owner makes a handle of a pointer and sends it to the other process, the importer,
 * over any connection of the two. The importer opens the handle. The result is a pointer
 * as any other: views keep it open, and the last release closes it.
 *
 * Two kinds of handle:
 *
 *   plain    The handle names memory. While it is open, the owner is not notified. The
 *            owner can free the block and the memory can be reused. So the two processes
 *            have to agree. Numba and CUDA call this an IPC handle.
 *   served   The handle names a block. Opening it takes a lease from the owner. While a
 *            lease exists, a free of the block is deferred. The block is returned when
 *            the last lease ends: at the importer's last release, or when the importer
 *            ends or is killed. The handle of a freed block cannot be opened, also if
 *            another block lies at its address by then.
 *
 * Handles by kind of memory:
 *
 *   memory of                                 plain                      served
 *   tarn_cuda_create(), pools over it         a CUDA handle              yes
 *   tarn_exportable_create(), pools over it   names the owner's server   yes
 *   tarn_async_create() with `exportable`,    names the owner's server   yes
 *   pools over it; any driver's pool that
 *   was made with a POSIX handle type
 *   all else                                  TARN_NOT_SUPPORTED; the error message lists
 *                                             the memory that has handles
 *
 * Memory of a driver's pool has two more rules, which are CUDA's:
 *
 *   - Export it once its allocation is done: synchronize the stream of the allocation
 *     first.
 *   - The importer closes it before the owner frees it. A lease takes care of that. With
 *     a plain handle the two processes have to. If the owner frees it earlier, the memory
 *     stays in the importer until it is closed. Until then the importer cannot open a new
 *     block at the same place: TARN_NOT_FOUND.
 *
 * The server is one thread of the owner. It starts with the first handle that needs it.
 * It answers at a socket in a directory that only its user may enter:
 *
 *   1. TARN_IPC_DIR, if that variable is set
 *   2. else XDG_RUNTIME_DIR/tarn, if that variable is set
 *   3. else /tmp/tarn-UID
 *
 * A handle that needs the server is TARN_SYSTEM_FAILURE if that directory is unusable: it
 * cannot be created, it is a link, or others may enter it. A path of more than 4,095
 * bytes is TARN_INVALID_ARGUMENT.
 *
 * Trust:
 *
 *   - A handle works only for processes of the owner's user.
 *   - A process that opens a handle can read and write the whole allocation around the
 *     block, not only the block. Every peer is trusted with all of it.
 *   - Open only handles that your own user sent.
 *   - Tarn checks the bytes of a handle, and all messages. Wrong ones fail. They cannot
 *     make this process read or write memory that the driver did not map for it.
 *   - Either process may be killed at any point. The other one keeps its memory.
 *
 * Once exit has begun, and in a forked child, tarn_ipc_export() and tarn_ipc_open()
 * return TARN_DRIVER_FAILURE. A child neither serves its parent's handles nor keeps its
 * parent's leases.
 *
 * A lease and a served handle are terms of Tarn: see docs/glossary.md.
 */
#ifndef TARN_IPC_H
#define TARN_IPC_H

#include <tarn/pointer.h>

TARN_BEGIN_DECLS

/** @addtogroup tarn_ipc
 * @{ */

/** Selects the kind of a handle. */
typedef enum tarn_ipc_kind {
    TARN_IPC_PLAIN = 0, /**< Names memory; the two processes agree on its lifetime. */
    TARN_IPC_SERVED = 1 /**< Names a block; a lease keeps it allocated. */
} tarn_ipc_kind;

/** A handle: plain data, which a program sends as its bytes.
 *
 * It is valid on the machine of the owner only. */
typedef struct tarn_ipc_handle {
    /** A CUipcMemHandle, or 64 bytes of Tarn's that name a server. */
    unsigned char reserved[64];
    size_t bytes;  /**< Size of the block in bytes. */
    size_t offset; /**< Offset of the block in the allocation of the handle, in bytes. */
    int device;    /**< The owner's number for the device of the block. */
    /** UUID of that device, which may have another number in another process. */
    unsigned char uuid[16];
} tarn_ipc_handle;

/** Make a handle of a pointer or of a view.
 *
 * A served handle stays valid until the pointer loses its last reference. For a view, the
 * pointer that it looks into counts. tarn_pointer_use_count() reports one more reference
 * for the handle. If a lease outlives the other references, the thread of the server
 * returns the block.
 *
 * Thread-safety: any thread.
 *
 * @param pointer   borrowed; device memory that is not empty
 * @param kind      plain or served
 * @param[out] out  the handle
 * @return
 * - TARN_OK: `*out` is set.
 * - TARN_INVALID_ARGUMENT: `pointer` is NULL or empty, or has lost its last reference. Or
 *   `out` is NULL, `kind` is unknown, or the path of the directory is too long.
 * - TARN_NOT_SUPPORTED: the memory has no handles, see the table at the top of ipc.h.
 * - TARN_SYSTEM_FAILURE: the server does not start.
 * - TARN_OUT_OF_MEMORY: host memory is unavailable.
 * - TARN_DRIVER_FAILURE: exit has begun, this is a forked child, or a driver call failed.
 * @since 0.1
 */
TARN_API tarn_status tarn_ipc_export(tarn_pointer *pointer, tarn_ipc_kind kind,
                                     tarn_ipc_handle *out);

/** Options of tarn_ipc_open(); zeros are the defaults. */
typedef struct tarn_ipc_open_options {
    size_t size; /**< Size of this struct: sizeof(tarn_ipc_open_options). */
    /** Number of the device that uses the memory, plus 1; 0: the device of the memory.
     *
     * If the device cannot reach the memory, Tarn copies the block and closes the handle
     * again. The result is memory of the device's current resource. The pointer alone
     * owns it. */
    int device_plus_1;
    bool always_copy;    /**< Copy the block in any case. */
    unsigned timeout_ms; /**< Milliseconds to wait for the owner's answer; 0: 10,000. */
} tarn_ipc_open_options;

/** Open a handle.
 *
 * Tarn maps an allocation once, however many of its blocks are open. The last release of
 * the pointer waits for the device.
 *
 * Thread-safety: any thread.
 *
 * @param handle    the handle; borrowed during the call
 * @param options   borrowed during the call; NULL selects the defaults
 * @param[out] out  the pointer, with one reference for the caller
 * @return
 * - TARN_OK: `*out` is set.
 * - TARN_INVALID_ARGUMENT: the bytes are no handle, or the handle is of this process
 *   itself or of another user. Or the block reaches over the end of its allocation. Or
 *   `handle` or `out` is NULL, or an option is invalid.
 * - TARN_NOT_FOUND: the block was freed. Or no process serves it here: the native code of
 *   the error is ECONNREFUSED. Or no device here has that uuid: it is ENODEV. Or an older block lies at the place of a block of a driver's pool.
 * - TARN_SYSTEM_FAILURE: the owner does not answer in time, or its answer is invalid.
 * - TARN_OUT_OF_MEMORY: memory is unavailable.
 * - TARN_NOT_SUPPORTED: the driver cannot open such memory.
 * - TARN_DRIVER_FAILURE: exit has begun, this is a forked child, or a driver call failed.
 * @since 0.1
 */
TARN_API tarn_status tarn_ipc_open(const tarn_ipc_handle *handle,
                                   const tarn_ipc_open_options *options,
                                   tarn_pointer **out);

/** A dma-buf descriptor of a block, as tarn_ipc_export_dma_buf() returns it. */
typedef struct tarn_ipc_dma_buf {
    int file;      /**< The file descriptor; the caller closes it. */
    size_t offset; /**< Offset of the block in the range of the descriptor, in bytes. */
    size_t bytes;  /**< Size of the range in bytes: a multiple of the host's page size. */
} tarn_ipc_dma_buf;

/** Export a block as a dma-buf descriptor, for the driver of another device.
 *
 * A network card registers it, for example with ibv_reg_dmabuf_mr(). The descriptor has
 * whole pages of the host, so it can include neighbours of the block. Blocks of
 * tarn_exportable_create(), and of pools over it or with NULL as upstream, have one. An H200
 * rejects 8 KiB of cuMemAlloc, the memory of tarn_cuda_create() and of pools over it. The
 * descriptor does not delay a free of the block: close it, and end the work that uses it,
 * before the block is freed. It is closed on exec.
 *
 * Thread-safety: any thread.
 *
 * @param pointer    borrowed; device memory that is not empty
 * @param over_pcie  true: a mapping over PCIe (CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE),
 *                   for systems whose devices are also linked to the host by NVLink. Drivers
 *                   before CUDA 12.8 reject it, and an H200 did not support it.
 * @param[out] out   the descriptor
 * @return
 * - TARN_OK: `*out` is set.
 * - TARN_INVALID_ARGUMENT: `pointer` is NULL or empty, has lost its last reference, or
 *   `out` is NULL.
 * - TARN_NOT_SUPPORTED: the driver or the device has no dma-buf, or the driver has none of
 *   this memory, or none over PCIe.
 * - TARN_DRIVER_FAILURE: exit has begun, this is a forked child, or a driver call failed.
 * - Other statuses of the driver.
 * @since 0.2
 */
TARN_API tarn_status tarn_ipc_export_dma_buf(const tarn_pointer *pointer, bool over_pcie,
                                             tarn_ipc_dma_buf *out);

/** A lease of another process on a block of this process. */
typedef struct tarn_ipc_lease {
    int process;             /**< Process id of the importer. */
    uint64_t since_ns;       /**< Begin of the lease: nanoseconds of CLOCK_MONOTONIC. */
    tarn_device_ptr address; /**< Address of the pointer that the lease keeps. */
    size_t bytes;            /**< Size of that pointer in bytes. */
} tarn_ipc_lease;

/** List the leases on blocks of this process.
 *
 * Thread-safety: any thread.
 *
 * @param[out] out        at most `capacity` leases; NULL is allowed if `capacity` is 0
 * @param capacity        length of `out`
 * @param[out] count_out  number of all leases; NULL is allowed
 * @return
 * - TARN_OK: the outputs are set.
 * - TARN_INVALID_ARGUMENT: `out` is NULL, and `capacity` is not 0.
 * @since 0.1
 */
TARN_API tarn_status tarn_ipc_leases(tarn_ipc_lease *out, size_t capacity,
                                     size_t *count_out);

/** Numbers of the memory that this process shares, for reports and leak checks. */
typedef struct tarn_ipc_counts {
    size_t segments;    /**< Live allocations of exportable memory. */
    size_t served;      /**< Pointers with a served handle. */
    size_t leases;      /**< Leases of other processes on blocks of this process. */
    size_t connections; /**< Connections to the server, leases included. */
    size_t mapped;      /**< Allocations of other processes that are open here. */
    size_t descriptors; /**< File descriptors that Tarn has open for sharing. */
    uint64_t requests;  /**< Requests that the server answered, rejected ones included. */
    uint64_t rejected;  /**< Rejected requests and dropped connections. */
} tarn_ipc_counts;

/** Report the numbers of the memory that this process shares.
 *
 * The numbers are exact while no call is under way.
 *
 * Thread-safety: any thread.
 *
 * @param[out] out  the numbers; not NULL
 * @since 0.1
 */
TARN_API void tarn_ipc_get_counts(tarn_ipc_counts *out);

/** @} */

/** @addtogroup tarn_resource_kinds
 * @{ */

/** Options of tarn_exportable_create(); zeros are the defaults. */
typedef struct tarn_exportable_options {
    size_t size; /**< Size of this struct: sizeof(tarn_exportable_options). */
    /** Most bytes of freed blocks that stay mapped, for blocks of the same size.
     *
     * A block that was exported does not stay. tarn_resource_trim() releases the kept
     * memory, and so does a failing allocation of this resource. 0: nothing is kept. */
    size_t cache_bytes;
} tarn_exportable_options;

/** Return a resource `exportable` of `device`: memory for sharing and registration.
 *
 * Each block is one allocation of cuMemCreate, mapped at one place as long as it lives.
 * So NCCL, UCX and network cards can register it. A block has these properties:
 *
 * - Its size is a multiple of the granularity that the driver recommends, at least 2 MiB.
 * - All devices that can reach `device` may read and write it.
 * - It is capable of GPUDirect RDMA, if the device is.
 * - It can be exported as a descriptor; and as a fabric handle, if the driver grants that
 *   (CU_MEM_HANDLE_TYPE_FABRIC).
 *
 * Without `cache_bytes` there is one such resource for each device, as with
 * tarn_cuda_create(). A pool over it serves small blocks. Each block of that pool lies in
 * one segment, and whole segments are shared. A free waits for `device`, not for work of
 * other devices on the block.
 *
 * Thread-safety: any thread.
 *
 * @param device    number of the device
 * @param options   borrowed during the call; NULL selects the defaults
 * @param[out] out  the resource, with a new reference for the caller
 * @return
 * - TARN_OK: `*out` is set.
 * - TARN_INVALID_ARGUMENT: `device` does not exist, `out` is NULL, or `options` has a size
 *   that does not fit.
 * - TARN_NOT_SUPPORTED: the device cannot export memory as descriptors.
 * - TARN_OUT_OF_MEMORY: host memory is unavailable.
 * - Other statuses of the driver.
 * @since 0.1
 */
TARN_API tarn_status tarn_exportable_create(int device,
                                            const tarn_exportable_options *options,
                                            tarn_resource **out);

/** @} */

TARN_END_DECLS
#endif
