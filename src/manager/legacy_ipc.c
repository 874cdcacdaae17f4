/* legacy_ipc.c -- a block's handle for another process, as Numba asks a manager for it. */
#include "manager/manager.h"
#include "ipc/export.h"

tarn_status tarn__legacy_ipc_handle(int device, const tarn_pointer *pointer,
                                    tarn_ipc_handle *out)
{
    (void)device; /* the pointer is of this device, calls.c has seen to that */
    return tarn__ipc_export_plain(pointer, out);
}
