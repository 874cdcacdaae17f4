/* pinned_pool.c -- page-locked host memory that a manager caches for later requests.
 *
 * The driver takes 0.36 ms to allocate a MiB of it. To free it, the driver waits for the
 * device, 6 ms at least. So it comes from a pool over the resource `pinned`, with the
 * guarantee of no-stream device memory. The caller that frees a block may have copies of
 * it queued on any stream. The caller that receives a block may write into it at once,
 * from the host. So the pool never returns a block that work queued before its free may
 * still read or write. It is called with TARN_STREAM_NONE for both allocation and free.
 *
 * The pointer of a block owns a second pointer, the pool's: to its pointer, a block of a
 * pool is device memory.
 */
#include "manager/pinned_pool.h"
#include "pointer/allocate.h"
#include "pointer/pointer.h"
#include <tarn/pool.h>

void tarn__pinned_pool_begin(struct tarn__pinned_pool *self, int device)
{
    *self = (struct tarn__pinned_pool){.device = device};
    pthread_mutex_init(&self->lock, NULL);
}

/* Live blocks do not prevent a release of the pool: each has a reference of its own. */
void tarn__pinned_pool_end(struct tarn__pinned_pool *self)
{
    tarn_resource_release(self->pool);
    pthread_mutex_destroy(&self->lock);
}

static tarn_status make_pool(int device, tarn_resource **out)
{
    tarn_resource *pinned;
    tarn_status status = tarn_pinned_create(device, &pinned);

    if (status != TARN_OK)
        return status;
    status = tarn_pool_create(device, pinned, NULL, out);
    tarn_resource_release(pinned);
    return status;
}

/* The pool, retained; made at the first call. */
static tarn_status enter(struct tarn__pinned_pool *self, tarn_resource **out)
{
    tarn_status status = TARN_OK;

    pthread_mutex_lock(&self->lock);
    if (!self->pool)
        status = make_pool(self->device, &self->pool);
    if (status == TARN_OK)
        *out = tarn_resource_retain(self->pool);
    pthread_mutex_unlock(&self->lock);
    return status;
}

void tarn__pinned_pool_forget(struct tarn__pinned_pool *self)
{
    pthread_mutex_lock(&self->lock);
    tarn_resource *pool = self->pool;
    self->pool = NULL;
    pthread_mutex_unlock(&self->lock);
    tarn_resource_release(pool);
}

static void release_block(void *block)
{
    tarn_pointer_release(block);
}

/* The pointer that its user sees; it takes `block` over. */
static tarn_status wrap(tarn_pointer *block, int device, tarn_pointer **out)
{
    tarn_pointer_options options = {
        .size = sizeof options,
        .kind = TARN_POINTER_PINNED,
        .device = device,
        .host = (void *)(uintptr_t)tarn_pointer_address(block),
        .bytes = tarn_pointer_bytes(block),
        .owner = block,
        .owner_release = release_block,
    };
    tarn_status status = tarn_pointer_create(&options, out);

    if (status != TARN_OK)
        tarn__pointer_drop(block);
    return status;
}

tarn_status tarn__pinned_pool_allocate(struct tarn__pinned_pool *self, size_t bytes,
                                       tarn_pointer **out)
{
    tarn_resource *pool;
    tarn_pointer *block;
    tarn_status status = enter(self, &pool);

    if (status != TARN_OK)
        return status;
    status = tarn__allocate_pointer(pool, bytes, TARN_STREAM_NONE, true, &block);
    tarn_resource_release(pool);
    return status == TARN_OK ? wrap(block, self->device, out) : status;
}

tarn_status tarn__pinned_pool_trim(struct tarn__pinned_pool *self)
{
    pthread_mutex_lock(&self->lock);
    tarn_resource *pool = self->pool ? tarn_resource_retain(self->pool) : NULL;
    pthread_mutex_unlock(&self->lock);
    if (!pool)
        return TARN_OK;
    tarn_status status = tarn_resource_trim(pool, 0, NULL);
    tarn_resource_release(pool);
    return status;
}
