/* host_memory.h -- page-locked and managed memory. */
#ifndef TARN_MANAGER_HOST_MEMORY_H
#define TARN_MANAGER_HOST_MEMORY_H

#include <tarn/manager.h>

/* Return the kind of a pointer to page-locked memory with these flags. */
static inline tarn_pointer_kind tarn__host_memory_kind(unsigned flags)
{
    return flags & TARN_HOST_MAPPED ? TARN_POINTER_MAPPED : TARN_POINTER_PINNED;
}

/* Page-locked and managed memory of `device`, whose context is current. These are the
 * operations of the same names without `self`. Flags are known ones, bytes are > 0. */
tarn_status tarn__host_memory_allocate(int device, size_t bytes, unsigned flags,
                                       tarn_pointer **out);
tarn_status tarn__host_memory_pin(int device, void *host, size_t bytes, unsigned flags,
                                  void *owner, void (*owner_release)(void *),
                                  tarn_pointer **out);
tarn_status tarn__host_memory_allocate_managed(int device, size_t bytes,
                                               bool attach_global, tarn_pointer **out);

#endif
