/* export.h -- handles, for the manager above, and what opening needs of a device. */
#ifndef TARN_IPC_EXPORT_H
#define TARN_IPC_EXPORT_H

#include <tarn/ipc.h>

/* tarn_ipc_export() of a plain handle, which leaves the pointer alone. */
tarn_status tarn__ipc_export_plain(const tarn_pointer *pointer, tarn_ipc_handle *out);

/* The uuid of a device, which every process knows it by. */
tarn_status tarn__ipc_uuid(int device, unsigned char out[16]);

#endif
