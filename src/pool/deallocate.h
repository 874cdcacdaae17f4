/* deallocate.h -- how the pool frees a block. */
#ifndef TARN_POOL_DEALLOCATE_H
#define TARN_POOL_DEALLOCATE_H

#include <tarn/resource.h>

/* The `deallocate` of tarn_resource_ops. */
tarn_status tarn__deallocate_block(void *self, tarn_device_ptr block, size_t bytes,
                                   size_t alignment, tarn_stream stream);

#endif
