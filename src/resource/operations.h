/* operations.h -- allocations and frees of a resource without its interceptor. */
#ifndef TARN_RESOURCE_OPERATIONS_H
#define TARN_RESOURCE_OPERATIONS_H

#include <tarn/resource.h>

/* As tarn_resource_allocate() and tarn_resource_deallocate(), with arguments that these
 * have checked. No interceptor serves this call, nor calls that it makes on the upstream,
 * and no observer receives them. */
tarn_status tarn__operations_allocate(tarn_resource *resource, size_t bytes,
                                      size_t alignment, tarn_stream stream,
                                      tarn_device_ptr *out);
tarn_status tarn__operations_deallocate(tarn_resource *resource, tarn_device_ptr block,
                                        size_t bytes, size_t alignment,
                                        tarn_stream stream);

#endif
