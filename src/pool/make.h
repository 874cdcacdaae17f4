/* make.h -- creation of a pool. */
#ifndef TARN_POOL_MAKE_H
#define TARN_POOL_MAKE_H

#include <tarn/pool.h>

/* Make a pool. With `block_bytes`, make a slab: every block takes that much and serves
 * any request of up to that. Options are in bytes, as for a pool. */
tarn_status tarn__make_pool(int device, tarn_resource *upstream,
                            const tarn_pool_options *options, size_t block_bytes,
                            tarn_resource **out);

#endif
