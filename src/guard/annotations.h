/* annotations.h -- shows blocks to a memory checker such as compute-sanitizer, by NVTX. */
#ifndef TARN_GUARD_ANNOTATIONS_H
#define TARN_GUARD_ANNOTATIONS_H

#include <tarn/resource.h>

/* Free a block that was allocated with annotations. Returns false if it is another one; else
 * `*status_out` is set. */
bool tarn__annotations_free(tarn_resource *resource, tarn_device_ptr block, size_t bytes,
                            size_t alignment, tarn_stream stream,
                            tarn_status *status_out);

/* Find the requested bytes of such a block. */
bool tarn__annotations_requested_bytes(tarn_device_ptr block, size_t *out);

/* End the annotations: guard mode writes outside of blocks. Blocks that have them stay
 * valid. */
void tarn__annotations_stop(void);

#endif
