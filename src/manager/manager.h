/* manager.h -- the parts that Tarn's own managers are made of. */
#ifndef TARN_MANAGER_INTERNAL_H
#define TARN_MANAGER_INTERNAL_H

#include <tarn/manager.h>

/* Page-locked and managed memory of `device`, whose context is current. These are the
 * operations of the same names without `self`. Flags are known ones, bytes are > 0. */
tarn_status tarn__host_memory_allocate(int device, size_t bytes, unsigned flags,
                                       tarn_pointer **out);
tarn_status tarn__host_memory_pin(int device, void *host, size_t bytes, unsigned flags,
                                  void *owner, void (*owner_release)(void *),
                                  tarn_pointer **out);
tarn_status tarn__host_memory_allocate_managed(int device, size_t bytes,
                                               bool attach_global, tarn_pointer **out);

/* The device's own numbers of bytes. */
tarn_status tarn__pending_memory_info(int device, size_t *free_out, size_t *total_out);

/* --- memory that is released once enough is deferred --- */

/* Set the limits of deferred frees of `device` from the environment and the device's
 * size. */
tarn_status tarn__pending_begin(int device);

/* Have a fresh pointer join the deferred frees when its last reference is dropped. */
void tarn__pending_add(tarn_pointer *pointer);

/* Make the operations of tarn_host_only_*() on this thread use `device` until the next
 * call, whatever context is current. -1: the device of the current context. Return the
 * value before. */
int tarn__host_only_serve(int device);

/* The legacy handle of a block and where in its allocation the block lies. */
tarn_status tarn__legacy_ipc_handle(int device, const tarn_pointer *pointer,
                                    tarn_ipc_handle *out);

#endif
