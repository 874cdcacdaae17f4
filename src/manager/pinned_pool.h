/* pinned_pool.h -- page-locked host memory that a manager caches for later requests. */
#ifndef TARN_MANAGER_PINNED_POOL_H
#define TARN_MANAGER_PINNED_POOL_H

#include <tarn/pointer.h>
#include <pthread.h>

/* The pinned pool of one manager. */
struct tarn__pinned_pool {
    int device;
    pthread_mutex_t lock;
    tarn_resource *pool; /* NULL until it is needed; under the lock */
};

void tarn__pinned_pool_begin(struct tarn__pinned_pool *self, int device);
/* Live blocks are still returned after this. */
void tarn__pinned_pool_end(struct tarn__pinned_pool *self);

/* Allocate a block of TARN_POINTER_PINNED that every context sees as pinned
 * (TARN_HOST_PORTABLE). */
tarn_status tarn__pinned_pool_allocate(struct tarn__pinned_pool *self, size_t bytes,
                                       tarn_pointer **out);

/* Drop the pool after a context reset, which took all its memory. The next block comes
 * from a new pool. */
void tarn__pinned_pool_forget(struct tarn__pinned_pool *self);

/* Release unused memory to the driver. */
tarn_status tarn__pinned_pool_trim(struct tarn__pinned_pool *self);

#endif
