/* allocate.h -- how the pool allocates a block. */
#ifndef TARN_POOL_ALLOCATE_H
#define TARN_POOL_ALLOCATE_H

#include <tarn/resource.h>

/* The `allocate` of tarn_resource_ops. */
tarn_status tarn__allocate_block(void *self, size_t bytes, size_t alignment,
                                 tarn_stream stream, tarn_device_ptr *out);

#endif
