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

/* The legacy handle of a block and where in its allocation the block lies. */
tarn_status tarn__legacy_ipc_handle(int device, const tarn_pointer *pointer,
                                    tarn_ipc_handle *out);

#endif
