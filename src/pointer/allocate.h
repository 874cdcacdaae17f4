/* allocate.h -- pointers to memory of a resource. */
#ifndef TARN_POINTER_ALLOCATE_H
#define TARN_POINTER_ALLOCATE_H

#include "pointer/pointer.h"

/* tarn_pointer_allocate(). `deferrable` is set for managers, see
 * tarn__deferred_frees_begin(). */
tarn_status tarn__allocate_pointer(tarn_resource *resource, size_t bytes,
                                   tarn_stream stream, bool deferrable,
                                   tarn_pointer **out);

#endif
