/* legacy_ipc.c -- the handle of a block for another process, as Numba's managers make it.
 */
#include "manager/legacy_ipc.h"
#include "ipc/export.h"

tarn_status tarn__legacy_ipc_handle(int device, const tarn_pointer *pointer,
                                    tarn_ipc_handle *out)
{
    (void)device; /* calls.c has checked that the pointer is of this device */
    return tarn__export_plain(pointer, out);
}
