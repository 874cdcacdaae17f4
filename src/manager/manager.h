/* manager.h -- what a manager of Tarn's own is made of. */
#ifndef TARN_MANAGER_INTERNAL_H
#define TARN_MANAGER_INTERNAL_H

#include <tarn/manager.h>

/* Page-locked and managed memory of `device`, whose context is current; the operations of
 * the same names without a `self`. Flags are known ones, bytes are > 0. */
tarn_status tarn__host_memory_allocate(int device, size_t bytes, unsigned flags,
                                       tarn_pointer **out);
tarn_status tarn__host_memory_pin(int device, void *host, size_t bytes, unsigned flags,
                                  void *owner, void (*owner_release)(void *),
                                  tarn_pointer **out);
tarn_status tarn__managed_memory_allocate(int device, size_t bytes, bool attach_global,
                                          tarn_pointer **out);

/* The device's own numbers. */
tarn_status tarn__device_memory_info(int device, size_t *free_out, size_t *total_out);

/* --- memory that is given back when enough is pending --- */

/* Learn what there is to know about pending memory of `device`: the limits that the
 * environment has and the device's size. */
tarn_status tarn__pending_begin(int device);

/* Have a fresh pointer wait for others when its last reference is gone. */
void tarn__pending_add(tarn_pointer *pointer);

/* The operations of tarn_host_only_*() on `device` are those of this thread's until the
 * next call, whatever context is current; -1: the current one's. Returns what was. */
int tarn__host_only_serve(int device);

/* The legacy handle of a block and where in its allocation the block lies. */
tarn_status tarn__legacy_ipc_handle(int device, const tarn_pointer *pointer,
                                    tarn_ipc_handle *out);

#endif
