/* resources.h -- the resource of PyTorch's memory on each device. */
#ifndef TARN_TORCH_RESOURCES_H
#define TARN_TORCH_RESOURCES_H

#include <tarn/torch.h>

/* Return the resource of a device, borrowed. The first use of a device sets it. */
tarn_status tarn__torch_resources_use(int device, tarn_resource **out);

/* Return the resource of a device, or NULL if none is set or there is no such device.
 * Borrowed: it stays while PyTorch has live memory on the device. */
tarn_resource *tarn__torch_resources_get(int device);

/* Return the pool that is the resource or is beneath its adaptors, retained; NULL if there
 * is none. */
tarn_resource *tarn__torch_resources_pool(tarn_resource *resource);

#endif
