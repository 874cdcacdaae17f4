/* driver_pool.h -- blocks of the driver's own pools, for export. */
#ifndef TARN_IPC_DRIVER_POOL_H
#define TARN_IPC_DRIVER_POOL_H

#include "driver/driver.h"

/* The name of a block in a driver's pool, and its length. */
struct tarn__driver_pool_block {
    int device;
    uint64_t number; /* the driver's, for this allocation alone */
    tarn_device_ptr base;
    size_t bytes;
};

/* The data that an importer needs besides the pool's descriptor. */
struct tarn__driver_pool_offer {
    uint64_t pool; /* which one it is */
    unsigned char pointer[64];
};

/* In a relaxed scope: find the block around `address`, if that lies in a driver's pool.
 * TARN_NOT_SUPPORTED: it does, but the pool cannot be exported. */
tarn_status tarn__driver_pool_find_block(const struct tarn__calls *calls, int device,
                                         tarn_device_ptr address,
                                         struct tarn__driver_pool_block *out,
                                         bool *is_in_driver_pool_out);

/* Open a descriptor of the block's pool; close it with tarn__descriptor_close().
 * TARN_NOT_FOUND: the block is gone. */
tarn_status tarn__driver_pool_open(const struct tarn__driver_pool_block *name,
                                   struct tarn__driver_pool_offer *offer_out,
                                   int *file_out);

#endif
