/* pending.h -- memory that is released once enough is deferred. */
#ifndef TARN_MANAGER_PENDING_H
#define TARN_MANAGER_PENDING_H

#include <tarn/manager.h>

/* Set the limits of deferred frees of `device` from the environment and the device's
 * size. */
tarn_status tarn__pending_begin(int device);

/* Have a fresh pointer join the deferred frees when its last reference is dropped. */
void tarn__pending_add(tarn_pointer *pointer);

/* The device's own numbers of bytes. */
tarn_status tarn__pending_memory_info(int device, size_t *free_out, size_t *total_out);

#endif
