/* frees.h -- frees of guarded blocks. */
#ifndef TARN_GUARD_FREES_H
#define TARN_GUARD_FREES_H

#include "guard/guard.h"

/* Free a block of `resource`, which may have a guard or not, with arguments that the public
 * call has checked. */
tarn_status tarn__frees_deallocate(struct tarn__guard *guard, tarn_resource *resource,
                                   tarn_device_ptr address, size_t bytes,
                                   size_t alignment, tarn_stream stream);

#endif
