/* legacy_ipc.h -- the IPC handles of the legacy driver API. */
#ifndef TARN_MANAGER_LEGACY_IPC_H
#define TARN_MANAGER_LEGACY_IPC_H

#include <tarn/manager.h>

/* The legacy handle of a block and where in its allocation the block lies. */
tarn_status tarn__legacy_ipc_handle(int device, const tarn_pointer *pointer,
                                    tarn_ipc_handle *out);

#endif
