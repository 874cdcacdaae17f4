/* pinned_pool.h -- page-locked host memory that a manager keeps for the next who asks. */
#ifndef TARN_MANAGER_PINNED_POOL_H
#define TARN_MANAGER_PINNED_POOL_H

#include <tarn/pointer.h>
#include <pthread.h>

/* One manager's. */
struct tarn__pinned_pool {
    int device;
    pthread_mutex_t lock;
    tarn_resource *pool; /* NULL until it is needed; under the lock */
};

void tarn__pinned_pool_begin(struct tarn__pinned_pool *self, int device);
/* Blocks that are out go back all the same. */
void tarn__pinned_pool_end(struct tarn__pinned_pool *self);

/* A block of TARN_POINTER_PINNED that every context sees as pinned (TARN_HOST_PORTABLE). */
tarn_status tarn__pinned_pool_allocate(struct tarn__pinned_pool *self, size_t bytes,
                                       tarn_pointer **out);

/* The context was reset, and with it all that the pool has: the next block comes from
 * another. */
void tarn__pinned_pool_forget(struct tarn__pinned_pool *self);

/* Give what is not in use back to the driver. */
tarn_status tarn__pinned_pool_trim(struct tarn__pinned_pool *self);

#endif
