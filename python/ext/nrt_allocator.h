/* nrt_allocator.h -- an allocator of compiled code over a resource. */
#ifndef TARN_PYTHON_NRT_ALLOCATOR_H
#define TARN_PYTHON_NRT_ALLOCATOR_H

#include "state.h"

/* The allocator that takes memory from `resource`, whose memory the host has to reach.
 * Both stay until the process ends. The GIL is not needed. */
tarn_status tarn__nrt_allocator_over(tarn_resource *resource,
                                     NRT_ExternalAllocator **out);

#endif
