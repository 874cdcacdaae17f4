/* cache_manager.c -- a memory manager as a plugin: a shared library of its own.
 *
 *     TARN_MEMORY_MANAGER=./cache_manager.so ./program
 *
 * It provides device memory alone, and takes host and managed memory from Tarn's base. It
 * caches a freed block for the next request of the same size, for runtimes that allocate
 * the same arrays repeatedly. Its documentation, as NBEP 7 requires:
 *
 *   defer_cleanup  While it is on, every freed block is cached. Else at most 16
 *                  are, and the last end frees the others. Freeing a block to the
 *                  driver waits for the device (cuMemFree).
 *   reset          All cached blocks return to the driver.
 *   cost           A request that finds a block waits for the device, because the
 *                  free named no stream. It makes no allocation from the driver.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <tarn/tarn.h>

enum { KEPT_MOST = 16 };

/* A cached block, or one in use. Tarn's pointer beneath the plugin's knows when the
 * memory ended with its context, or when exit has begun: its release is always valid. */
struct block {
    struct cache *cache;  /* counted */
    struct block *next;   /* in the list of cached blocks */
    tarn_pointer *memory; /* a reference */
    uint64_t life;        /* of the memory's context */
};

/* One instance, for one context. Pointers outlive it, so it is counted. */
struct cache {
    int device;
    atomic_size_t count;  /* the instance, and blocks in use */
    pthread_mutex_t lock; /* for all below; held during no call to Tarn */
    size_t deferring;     /* depth of deferred cleanup */
    struct block *kept;   /* the last freed one is the first */
    size_t kept_count;
};

/* --- cached blocks --- */

static void end_block(struct block *block)
{
    tarn_pointer_release(block->memory);
    free(block);
}

/* Remove the oldest cached blocks beyond `most`. */
static struct block *take_over(struct cache *cache, size_t most)
{
    struct block **link = &cache->kept;

    pthread_mutex_lock(&cache->lock);
    for (size_t i = 0; *link && i < most; i++)
        link = &(*link)->next;
    struct block *rest = *link;
    *link = NULL;
    if (cache->kept_count > most)
        cache->kept_count = most;
    pthread_mutex_unlock(&cache->lock);
    return rest;
}

static void let_go_over(struct cache *cache, size_t most)
{
    struct block *next;

    for (struct block *block = take_over(cache, most); block; block = next) {
        next = block->next;
        end_block(block);
    }
}

static struct block *take_kept(struct cache *cache, size_t bytes)
{
    pthread_mutex_lock(&cache->lock);
    struct block **link = &cache->kept;
    while (*link && tarn_pointer_bytes((*link)->memory) != bytes)
        link = &(*link)->next;
    struct block *found = *link;
    if (found) {
        *link = found->next;
        cache->kept_count--;
    }
    pthread_mutex_unlock(&cache->lock);
    return found;
}

/* --- the instance --- */

static tarn_status cache_create(void *config, int device, void *context, void **self_out)
{
    struct cache *cache = calloc(1, sizeof *cache);

    (void)config;
    (void)context;
    if (!cache)
        return tarn_error_set(TARN_OUT_OF_MEMORY, "cache: no host memory");
    cache->device = device;
    atomic_init(&cache->count, 1);
    pthread_mutex_init(&cache->lock, NULL);
    *self_out = cache;
    return TARN_OK;
}

static void drop(struct cache *cache)
{
    if (atomic_fetch_sub(&cache->count, 1) != 1)
        return;
    let_go_over(cache, 0);
    pthread_mutex_destroy(&cache->lock);
    free(cache);
}

static void cache_destroy(void *self)
{
    drop(self);
}

/* As NBEP 7 requires: a member that replaces one of the base calls the base's. */
static tarn_status cache_reset(void *self)
{
    let_go_over(self, 0);
    return tarn_host_only_reset(self);
}

/* The cached memory is gone. Releasing it frees nothing: Tarn knows that it belongs to
 * another context generation. A cache of bare addresses would forget them here. */
static void cache_context_gone(void *self)
{
    let_go_over(self, 0);
}

/* --- device memory --- */

/* The finalizer of the plugin's pointers. Memory of another generation than the current
 * one is useless. So is all memory once exit has begun and in a forked child, when the
 * current generation is 0: no lock may be taken there, because its holder may be gone. */
static void come_back(void *data, tarn_device_ptr address, size_t bytes)
{
    struct block *block = data;
    struct cache *cache = block->cache;

    (void)address;
    (void)bytes;
    if (tarn_context_generation(cache->device) != block->life) {
        end_block(block);
        drop(cache);
        return;
    }
    pthread_mutex_lock(&cache->lock);
    block->next = cache->kept;
    cache->kept = block;
    cache->kept_count++;
    bool is_much = cache->kept_count > KEPT_MOST && cache->deferring == 0;
    pthread_mutex_unlock(&cache->lock);
    if (is_much)
        let_go_over(cache, KEPT_MOST);
    drop(cache);
}

/* Allocate a new block. */
static tarn_status make_block(struct cache *cache, size_t bytes, struct block **out)
{
    struct block *block = calloc(1, sizeof *block);
    tarn_resource *cuda;

    if (!block)
        return tarn_error_set(TARN_OUT_OF_MEMORY, "cache: no host memory");
    tarn_status status = tarn_cuda_create(cache->device, &cuda);
    if (status == TARN_OK) {
        status = tarn_pointer_allocate(cuda, bytes, TARN_STREAM_NONE, &block->memory);
        tarn_resource_release(cuda);
    }
    if (status != TARN_OK) {
        free(block);
        return status;
    }
    block->cache = cache;
    block->life = tarn_context_generation(cache->device);
    *out = block;
    return TARN_OK;
}

/* Out of memory: free the cached blocks, and try once more. */
static tarn_status find_block(struct cache *cache, size_t bytes, struct block **out)
{
    struct block *block = take_kept(cache, bytes);

    if (!block) {
        tarn_status status = make_block(cache, bytes, out);
        if (status == TARN_OUT_OF_MEMORY) {
            let_go_over(cache, 0);
            status = make_block(cache, bytes, out);
        }
        return status;
    }
    /* Work that was queued before the free may still use it, on any stream. */
    tarn_status status = tarn_driver_synchronize(cache->device);
    if (status != TARN_OK)
        end_block(block);
    else
        *out = block;
    return status;
}

static tarn_status cache_memalloc(void *self, size_t bytes, tarn_stream stream,
                                  tarn_pointer **out)
{
    struct cache *cache = self;
    struct block *block;
    tarn_status status = find_block(cache, bytes, &block);

    (void)stream; /* safe on any */
    if (status != TARN_OK)
        return status;
    status = tarn_pointer_create(
        &(tarn_pointer_options){.size = sizeof(tarn_pointer_options),
                                .kind = TARN_POINTER_DEVICE,
                                .device = cache->device,
                                .address = tarn_pointer_address(block->memory),
                                .bytes = bytes,
                                .finalizer = come_back,
                                .finalizer_data = block},
        out);
    if (status != TARN_OK) {
        end_block(block);
        return status;
    }
    atomic_fetch_add(&cache->count, 1);
    return TARN_OK;
}

/* --- deferred cleanup --- */

static void change_depth(struct cache *cache, size_t by, bool *is_last)
{
    pthread_mutex_lock(&cache->lock);
    cache->deferring += by;
    *is_last = cache->deferring == 0;
    pthread_mutex_unlock(&cache->lock);
}

static tarn_status cache_defer_cleanup_begin(void *self)
{
    bool is_last;
    tarn_status status = tarn_host_only_defer_cleanup_begin(self);

    if (status == TARN_OK)
        change_depth(self, 1, &is_last);
    return status;
}

static tarn_status cache_defer_cleanup_end(void *self)
{
    bool is_last;

    change_depth(self, (size_t)-1, &is_last);
    if (is_last)
        let_go_over(self, KEPT_MOST);
    return tarn_host_only_defer_cleanup_end(self);
}

TARN_API const tarn_manager_ops *tarn_manager_plugin(void);

/* The symbol that Tarn loads. */
const tarn_manager_ops *tarn_manager_plugin(void)
{
    static const tarn_manager_ops ops = {
        .size = sizeof ops,
        .name = "cache",
        .interface_version = TARN_MANAGER_INTERFACE_VERSION,
        .create = cache_create,
        .destroy = cache_destroy,
        .initialize = tarn_host_only_initialize,
        .reset = cache_reset,
        .memalloc = cache_memalloc,
        .memhostalloc = tarn_host_only_memhostalloc,
        .mempin = tarn_host_only_mempin,
        .memallocmanaged = tarn_host_only_memallocmanaged,
        .get_ipc_handle = tarn_host_only_get_ipc_handle,
        .get_memory_info = tarn_host_only_get_memory_info,
        .defer_cleanup_begin = cache_defer_cleanup_begin,
        .defer_cleanup_end = cache_defer_cleanup_end,
        .context_lost = cache_context_gone,
    };

    return &ops;
}
