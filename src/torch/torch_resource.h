/* torch_resource.h -- the resource of PyTorch's memory on each device. */
#ifndef TARN_TORCH_TORCH_RESOURCE_H
#define TARN_TORCH_TORCH_RESOURCE_H

#include <tarn/torch.h>

/* Return the resource of a device, borrowed. The first use of a device sets it. */
tarn_status tarn__torch_resource_use(int device, tarn_resource **out);

/* Return the resource of a device, or NULL if none is set or there is no such device.
 * Borrowed: it stays while PyTorch has live memory on the device. */
tarn_resource *tarn__torch_resource_get(int device);

/* Return the pool that is the resource or is beneath its adaptors, retained; NULL if there
 * is none. */
tarn_resource *tarn__torch_resource_pool(tarn_resource *resource);

#endif
