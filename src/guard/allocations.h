/* allocations.h -- allocations of guarded blocks. */
#ifndef TARN_GUARD_ALLOCATIONS_H
#define TARN_GUARD_ALLOCATIONS_H

#include "guard/guard.h"

/* Allocate a block of `resource`, with arguments that the public call has checked. It has
 * no guard where that is not possible. */
tarn_status tarn__allocations_allocate(struct tarn__guard *guard, tarn_resource *resource,
                                       size_t bytes, size_t alignment, tarn_stream stream,
                                       tarn_device_ptr *out);

#endif
