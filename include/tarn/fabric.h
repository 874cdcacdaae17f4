/* fabric.h -- a block of device memory for processes on this node and on other nodes.
 *
 * A fabric handle is 64 bytes of the driver (CU_MEM_HANDLE_TYPE_FABRIC). Nodes of one
 * NVLink domain can import it, as can processes of one node, if each process has the IMEX
 * channel of the exporter. Tarn adds the place of the block in its allocation. The result
 * is plain data, which any transport carries.
 *
 * A lease keeps the block allocated while an importer uses it. The program carries the
 * messages of the protocol, two in each step, with any transport: bytes in, bytes out.
 *
 *   importer                                       owner
 *                                                  tarn_fabric_export(pointer, &handle)
 *   tarn_fabric_begin(&handle, ms, &request)
 *              ---------- request --------->
 *                                                  tarn_fabric_answer(&request, &reply)
 *              <---------- reply -----------
 *   tarn_fabric_open(&handle, &reply, ...)         the block stays allocated
 *   tarn_fabric_renew(&reply, ms, &request)        before the lease has expired, ...
 *   tarn_pointer_release(opened)
 *   tarn_fabric_end(&reply, &request)              ... or at its end
 *
 * A lease ends with the request to end it, or at the end of its time. The time protects
 * the owner from importers that die. It begins for the importer when it makes the
 * request, and for the owner a little later, so the importer never counts on more than it
 * has. An expired lease ends in the next call of this header in the owner, or in
 * tarn_ipc_leases().
 *
 * Without a lease the two processes have to agree, as with a plain handle of ipc.h. The
 * driver keeps memory that is open, whatever its owner does. But the owner can free the
 * block, and its memory can be reused.
 *
 *   situation                       result
 *   no IMEX channel in the owner    tarn_fabric_export(): TARN_NOT_SUPPORTED
 *   none in the importer            tarn_fabric_open(): TARN_NOT_SUPPORTED
 *   the block was freed             tarn_fabric_answer() rejects the lease: TARN_NOT_FOUND
 *   the memory was released, or     tarn_fabric_open(): TARN_NOT_FOUND
 *   its owner has ended
 *   the owner ends later            open memory stays valid; no lease can be renewed
 *   the importer ends               the driver closes its memory; its lease expires
 *
 * Trust:
 *
 *   - Tarn checks handles and messages. Wrong bytes fail, and change nothing.
 *   - Tarn does not know who sent them. A process that can send requests to an owner can
 *     begin leases, up to a bound, and end its own. The transport has to authenticate.
 *   - A process that opens a handle can read and write the whole allocation around the
 *     block.
 */
#ifndef TARN_FABRIC_H
#define TARN_FABRIC_H

#include <tarn/ipc.h>

TARN_BEGIN_DECLS

/** @addtogroup tarn_fabric
 * @{ */

/** A fabric handle of a block: plain data, which a program sends as its bytes. */
typedef struct tarn_fabric_handle {
    unsigned char bytes[160]; /**< For tarn_fabric_begin() and tarn_fabric_open(). */
} tarn_fabric_handle;

/** A message of the protocol of leases: plain data, which a program sends as its bytes. */
typedef struct tarn_fabric_message {
    unsigned char bytes[96]; /**< For the other process. */
} tarn_fabric_message;

/** Make a fabric handle of a pointer or of a view.
 *
 * Leases can begin until the pointer loses its last reference. For a view, the pointer that
 * it looks into counts. tarn_pointer_use_count() reports one more reference for the handle.
 *
 * Thread-safety: any thread.
 *
 * @param pointer   borrowed; memory of tarn_exportable_create() or of a pool over it
 * @param[out] out  the handle
 * @return
 * - TARN_OK: `*out` is set.
 * - TARN_INVALID_ARGUMENT: `pointer` is NULL or empty, or has lost its last reference. Or
 *   `out` is NULL.
 * - TARN_NOT_SUPPORTED: the memory has no fabric handle. It is of another resource, the
 *   device has none, or the process had no IMEX channel when the memory was created.
 * - TARN_OUT_OF_MEMORY: host memory is unavailable.
 * - TARN_DRIVER_FAILURE: exit has begun, this is a forked child, or a driver call failed.
 * @since 0.2
 */
TARN_API tarn_status tarn_fabric_export(tarn_pointer *pointer, tarn_fabric_handle *out);

/** Make the request for a lease.
 *
 * The owner answers the same request with the same lease, however often it comes.
 *
 * Thread-safety: any thread.
 *
 * @param handle        borrowed; a handle of tarn_fabric_export() of another process
 * @param milliseconds  time of the lease, at most 3,600,000; 0: 60,000
 * @param[out] out      the request, for tarn_fabric_answer() of the owner
 * @return
 * - TARN_OK: `*out` is set.
 * - TARN_INVALID_ARGUMENT: the bytes are no handle, the handle is of this process itself,
 *   `handle` or `out` is NULL, or the time is too long.
 * - TARN_SYSTEM_FAILURE: the system has no random numbers.
 * @since 0.2
 */
TARN_API tarn_status tarn_fabric_begin(const tarn_fabric_handle *handle,
                                       unsigned milliseconds, tarn_fabric_message *out);

/** Make the request to renew a lease: its time begins again.
 *
 * Thread-safety: any thread.
 *
 * @param granted       borrowed; the reply that granted the lease
 * @param milliseconds  time of the lease, at most 3,600,000; 0: 60,000
 * @param[out] out      the request, for tarn_fabric_answer() of the owner
 * @return
 * - TARN_OK: `*out` is set.
 * - TARN_INVALID_ARGUMENT: `granted` is no reply that grants a lease, a pointer is NULL,
 *   or the time is too long.
 * @since 0.2
 */
TARN_API tarn_status tarn_fabric_renew(const tarn_fabric_message *granted,
                                       unsigned milliseconds, tarn_fabric_message *out);

/** Make the request to end a lease. Release the opened pointer first.
 *
 * Thread-safety: any thread.
 *
 * @param granted   borrowed; the reply that granted the lease
 * @param[out] out  the request, for tarn_fabric_answer() of the owner
 * @return
 * - TARN_OK: `*out` is set.
 * - TARN_INVALID_ARGUMENT: `granted` is no reply that grants a lease, or a pointer is
 *   NULL.
 * @since 0.2
 */
TARN_API tarn_status tarn_fabric_end(const tarn_fabric_message *granted,
                                     tarn_fabric_message *out);

/** Answer a request of an importer, in the owner.
 *
 * A rejection is a reply, too: send it back. If the last reference of a block is that of
 * a lease, the call that ends the lease returns the block.
 *
 * Thread-safety: any thread.
 *
 * @param request   borrowed; the bytes that came
 * @param[out] out  the reply, for the process that sent the request
 * @return
 * - TARN_OK: `*out` is set, and grants, renews, ends or rejects a lease.
 * - TARN_INVALID_ARGUMENT: the bytes are no request, or a request to another process; or a
 *   pointer is NULL. There is no reply.
 * - TARN_DRIVER_FAILURE: exit has begun, or this is a forked child.
 * @since 0.2
 */
TARN_API tarn_status tarn_fabric_answer(const tarn_fabric_message *request,
                                        tarn_fabric_message *out);

/** Check a reply, in the importer.
 *
 * Thread-safety: any thread.
 *
 * @param reply                  borrowed; the bytes that came
 * @param[out] milliseconds_out  time of the lease from its request on; NULL is allowed
 * @return
 * - TARN_OK: the lease exists, or has ended as requested: then the time is 0.
 * - TARN_NOT_FOUND: the block was freed; or the lease has expired.
 * - TARN_LIMIT_REACHED: the owner has 65,536 leases.
 * - TARN_OUT_OF_MEMORY: the owner has no host memory.
 * - TARN_INVALID_ARGUMENT: the bytes are no reply, or one to another process; or `reply`
 *   is NULL.
 * @since 0.2
 */
TARN_API tarn_status tarn_fabric_check(const tarn_fabric_message *reply,
                                       unsigned *milliseconds_out);

/** Open a fabric handle.
 *
 * Tarn maps an allocation once, however many of its blocks are open. The last release of
 * the pointer waits for the device. It does not end the lease: see tarn_fabric_end().
 *
 * Thread-safety: any thread.
 *
 * @param handle    borrowed; a handle of tarn_fabric_export() of another process
 * @param granted   borrowed; the reply that granted a lease; NULL: without a lease
 * @param device    number of the device that uses the memory
 * @param[out] out  the pointer, with one reference for the caller
 * @return
 * - TARN_OK: `*out` is set.
 * - TARN_INVALID_ARGUMENT: the bytes are no handle, the handle is of this process itself,
 *   or `granted` grants no lease on this block. Or `device` does not exist, or `handle` or
 *   `out` is NULL.
 * - TARN_NOT_FOUND: the handle is stale: the memory was released, or its owner has ended.
 *   Or `granted` rejects the lease.
 * - TARN_NOT_SUPPORTED: the driver has no fabric handles, or this process lacks the IMEX
 *   channel of the owner.
 * - TARN_OUT_OF_MEMORY: memory is unavailable.
 * - TARN_DRIVER_FAILURE: exit has begun, this is a forked child, or a driver call failed.
 * @since 0.2
 */
TARN_API tarn_status tarn_fabric_open(const tarn_fabric_handle *handle,
                                      const tarn_fabric_message *granted, int device,
                                      tarn_pointer **out);

/** @} */

TARN_END_DECLS
#endif
