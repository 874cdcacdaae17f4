/* pool_manager.c -- the manager with a pool of its own for each context.
 *
 * A block returns to the pool at once, even while cleanup is deferred. Deferred cleanup
 * only keeps empty segments from going back to the driver, which is the expensive part
 * with a pool. The last end then trims the pool.
 *
 * Any resource can be the pool. The manager calls only its trim(), once after many freed
 * bytes and not at each free.
 *
 * The instance is counted. Pointers need its numbers when their blocks are returned, and
 * that may be after the instance's end. A context reset destroys the pool's memory, so
 * the manager creates a new pool. Pointers from before the reset keep the old pool until
 * they are released.
 */
#include "manager/pinned_pool.h"
#include "driver/driver.h"
#include "pointer/deferred_frees.h"
#include "pointer/allocate.h"
#include "pointer/pointer.h"
#include "base/error.h"
#include "base/mutex.h"
#include "base/options.h"
#include "manager/host_memory.h"
#include "manager/legacy_ipc.h"
#include "manager/manager.h"
#include "manager/pending.h"
#include <tarn/pool.h>
#include <stdlib.h>

struct pool_manager {
    tarn_pool_manager_options options; /* never change */
    int device;
    atomic_size_t count;     /* the instance, and pointers whose blocks are not
                              * returned */
    struct tarn__mutex lock; /* for `pool`; not held during any call */
    tarn_resource *pool;     /* retained; NULL: not initialized in this context
                              * generation */
    atomic_size_t deferring; /* depth of deferred cleanup */
    atomic_size_t freed;     /* bytes since the last trim */
    struct tarn__pinned_pool pinned;
};

/* The data of each block until it is returned. */
struct block {
    struct pool_manager *manager; /* counted */
    tarn_resource *pool;          /* retained; the pool that the block is from */
    size_t bytes;
};

static void drop(struct pool_manager *manager)
{
    if (atomic_fetch_sub(&manager->count, 1) != 1)
        return;
    tarn_resource_release(manager->pool);
    tarn__pinned_pool_end(&manager->pinned);
    tarn__mutex_destroy(&manager->lock);
    free(manager);
}

static tarn_status check_options(const tarn_pool_manager_options *options)
{
    return options ? tarn__options_check("pool manager", options, sizeof *options,
                                         sizeof *options)
                   : TARN_OK;
}

static tarn_status pool_manager_create(void *config, int device, void *context,
                                       void **self_out)
{
    tarn_status status = check_options(config);

    (void)context;
    if (status != TARN_OK)
        return status;
    struct pool_manager *manager = calloc(1, sizeof *manager);
    if (!manager)
        return tarn_error_set(TARN_OUT_OF_MEMORY,
                              "pool manager: no host memory for an instance of device %d",
                              device);
    if (config)
        manager->options = *(const tarn_pool_manager_options *)config;
    manager->device = device;
    atomic_init(&manager->count, 1);
    tarn__mutex_init(&manager->lock, NULL);
    tarn__pinned_pool_begin(&manager->pinned, device);
    *self_out = manager;
    return TARN_OK;
}

static void pool_manager_destroy(void *self)
{
    drop(self);
}

/* The pool, retained; NULL before initialize(). */
static tarn_resource *pool_of(struct pool_manager *manager)
{
    tarn__mutex_lock(&manager->lock);
    tarn_resource *pool = tarn_resource_retain(manager->pool);
    tarn__mutex_unlock(&manager->lock);
    return pool;
}

/* Put `pool` in place, and return the one before. */
static tarn_resource *exchange_pool(struct pool_manager *manager, tarn_resource *pool)
{
    tarn__mutex_lock(&manager->lock);
    tarn_resource *before = manager->pool;
    manager->pool = pool;
    tarn__mutex_unlock(&manager->lock);
    return before;
}

static tarn_status make_pool(const struct pool_manager *manager, tarn_resource **out)
{
    tarn_resource *pool = NULL;

    if (!manager->options.make)
        return tarn_pool_create(manager->device, NULL, NULL, out);
    unsigned before = tarn__error_count;
    tarn_status status =
        manager->options.make(manager->options.data, manager->device, &pool);
    if (status != TARN_OK && !tarn__error_has_message(before, status))
        return tarn_error_set(status, "pool manager: options.make failed for device %d",
                              manager->device);
    if (status != TARN_OK)
        return status;
    if (!pool || tarn_resource_device(pool) != manager->device) {
        int device = pool ? tarn_resource_device(pool) : TARN_DEVICE_NONE;
        tarn_resource_release(pool);
        return tarn_error_set(
            TARN_PLUGIN_FAILURE,
            "pool manager: options.make for device %d returned %s, device %d",
            manager->device, pool ? "a resource of another device" : "none", device);
    }
    *out = pool;
    return TARN_OK;
}

/* One thread at a time, as the table of operations guarantees. */
static tarn_status pool_manager_initialize(void *self)
{
    struct pool_manager *manager = self;
    tarn_resource *pool = pool_of(manager);

    if (pool)
        return tarn_resource_release(pool);
    tarn_status status = make_pool(manager, &pool);
    if (status == TARN_OK)
        exchange_pool(manager, pool);
    return status;
}

static void pool_manager_context_gone(void *self)
{
    struct pool_manager *manager = self;

    tarn_resource_release(exchange_pool(manager, NULL));
    tarn__pinned_pool_forget(&manager->pinned);
    atomic_store(&manager->freed, 0);
}

/* Release deferred host memory and the cached memory of the pools. All steps are tried,
 * and the status of the first failure is returned; its message may be another one's.
 * Before initialize() there is no pool. */
static tarn_status pool_manager_reset(void *self)
{
    struct pool_manager *manager = self;
    tarn_status status = tarn__deferred_frees_flush(manager->device);
    tarn_status pinned = tarn__pinned_pool_trim(&manager->pinned);
    tarn_resource *pool = pool_of(manager);

    if (status == TARN_OK)
        status = pinned;
    if (!pool)
        return status;
    tarn_status trimmed = tarn_resource_trim(pool, 0, NULL);
    tarn_resource_release(pool);
    return status == TARN_OK ? trimmed : status;
}

/* Have the pool release cached memory over the limit. No caller requested this, so a
 * failure is not reported, and the last error's message stays. */
static void trim(struct pool_manager *manager, tarn_resource *pool)
{
    struct tarn__kept_error before = tarn__error_keep();

    atomic_store(&manager->freed, 0);
    tarn_resource_trim(pool, manager->options.keep_bytes, NULL);
    tarn__error_restore(&before);
}

/* The owner of each pointer: called when its block is returned. */
static void note_return(void *owner)
{
    struct block *block = owner;
    struct pool_manager *manager = block->manager;
    size_t keep = manager->options.keep_bytes;

    if (keep && !tarn__driver_gone()) {
        size_t freed = atomic_fetch_add(&manager->freed, block->bytes) + block->bytes;
        if (freed > keep / 4 && atomic_load(&manager->deferring) == 0)
            trim(manager, block->pool);
    }
    tarn_resource_release(block->pool);
    free(block);
    drop(manager);
}

static tarn_status no_host_memory(const struct pool_manager *manager, size_t bytes)
{
    return tarn_error_set(TARN_OUT_OF_MEMORY,
                          "pool manager: no host memory for a block of %zu bytes, device "
                          "%d",
                          bytes, manager->device);
}

/* Takes over the reference to the pool. */
static tarn_status allocate(struct pool_manager *manager, tarn_resource *pool,
                            size_t bytes, tarn_stream stream, tarn_pointer **out)
{
    struct block *block = malloc(sizeof *block);
    tarn_pointer *pointer;
    tarn_status status = block ? TARN_OK : no_host_memory(manager, bytes);

    if (status == TARN_OK)
        status = tarn__allocate_pointer(pool, bytes, stream, true, &pointer);
    if (status != TARN_OK) {
        struct tarn__kept_error why = tarn__error_keep();
        free(block);
        tarn_resource_release(pool);
        return tarn__error_restore(&why);
    }
    *block = (struct block){manager, pool, bytes};
    atomic_fetch_add(&manager->count, 1);
    pointer->owner = block;
    pointer->owner_release = note_return;
    *out = pointer;
    return TARN_OK;
}

static tarn_status pool_manager_memalloc(void *self, size_t bytes, tarn_stream stream,
                                         tarn_pointer **out)
{
    struct pool_manager *manager = self;
    tarn_resource *pool = pool_of(manager);

    if (!pool) /* the context was reset just now */
        return tarn_error_set(TARN_DRIVER_FAILURE,
                              "pool manager: the context of device %d was reset during "
                              "an allocation of %zu bytes",
                              manager->device, bytes);
    return allocate(manager, pool, bytes, stream, out);
}

static tarn_status pool_manager_memhostalloc(void *self, size_t bytes, unsigned flags,
                                             tarn_pointer **out)
{
    struct pool_manager *manager = self;

    if ((flags & ~TARN_HOST_PORTABLE) == 0)
        return tarn__pinned_pool_allocate(&manager->pinned, bytes, out);
    return tarn__host_memory_allocate(manager->device, bytes, flags, out);
}

static tarn_status pool_manager_mempin(void *self, void *host, size_t bytes,
                                       unsigned flags, void *owner,
                                       void (*owner_release)(void *), tarn_pointer **out)
{
    const struct pool_manager *manager = self;

    return tarn__host_memory_pin(manager->device, host, bytes, flags, owner,
                                 owner_release, out);
}

static tarn_status pool_manager_memallocmanaged(void *self, size_t bytes,
                                                bool attach_global, tarn_pointer **out)
{
    const struct pool_manager *manager = self;

    return tarn__host_memory_allocate_managed(manager->device, bytes, attach_global, out);
}

static tarn_status pool_manager_get_ipc_handle(void *self, const tarn_pointer *pointer,
                                               tarn_ipc_handle *out)
{
    const struct pool_manager *manager = self;

    return tarn__legacy_ipc_handle(manager->device, pointer, out);
}

static tarn_status pool_manager_get_memory_info(void *self, size_t *free_out,
                                                size_t *total_out)
{
    struct pool_manager *manager = self;
    tarn_resource *pool = pool_of(manager);
    tarn_status status = TARN_NOT_SUPPORTED;

    if (pool)
        status = tarn_resource_memory_info(pool, TARN_STREAM_NONE, free_out, total_out);
    if (status == TARN_NOT_SUPPORTED)
        status = tarn__pending_memory_info(manager->device, free_out, total_out);
    tarn_resource_release(pool);
    return status;
}

static tarn_status pool_manager_defer_cleanup_begin(void *self)
{
    struct pool_manager *manager = self;

    tarn__deferred_frees_begin(manager->device);
    atomic_fetch_add(&manager->deferring, 1);
    return TARN_OK;
}

static tarn_status pool_manager_defer_cleanup_end(void *self)
{
    struct pool_manager *manager = self;
    bool is_last = atomic_fetch_sub(&manager->deferring, 1) == 1;
    tarn_status status = tarn__deferred_frees_end(manager->device);

    if (!is_last || atomic_load(&manager->freed) <= manager->options.keep_bytes / 4)
        return status;
    tarn_resource *pool = manager->options.keep_bytes ? pool_of(manager) : NULL;
    if (pool)
        trim(manager, pool);
    tarn_resource_release(pool);
    return status;
}

const tarn_manager_ops *tarn_pool_manager_ops(void)
{
    static const tarn_manager_ops ops = {
        .size = sizeof ops,
        .name = "pool",
        .interface_version = TARN_MANAGER_INTERFACE_VERSION,
        .create = pool_manager_create,
        .destroy = pool_manager_destroy,
        .initialize = pool_manager_initialize,
        .reset = pool_manager_reset,
        .memalloc = pool_manager_memalloc,
        .memhostalloc = pool_manager_memhostalloc,
        .mempin = pool_manager_mempin,
        .memallocmanaged = pool_manager_memallocmanaged,
        .get_ipc_handle = pool_manager_get_ipc_handle,
        .get_memory_info = pool_manager_get_memory_info,
        .defer_cleanup_begin = pool_manager_defer_cleanup_begin,
        .defer_cleanup_end = pool_manager_defer_cleanup_end,
        .context_lost = pool_manager_context_gone,
    };

    return &ops;
}
