/* export.h -- handles, for the manager above, and what opening needs of a device. */
#ifndef TARN_IPC_EXPORT_H
#define TARN_IPC_EXPORT_H

#include <tarn/ipc.h>

/* Make a plain handle like tarn_ipc_export(), without changing the pointer. */
tarn_status tarn__export_plain(const tarn_pointer *pointer, tarn_ipc_handle *out);

/* The uuid that identifies a device in every process. */
tarn_status tarn__export_device_uuid(int device, unsigned char out[16]);

#endif
