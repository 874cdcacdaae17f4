/* segment_cache.c -- freed memory of segments that stays mapped.
 *
 * Creating, mapping and unmapping cost 0.3 ms and more, and whoever registers memory pays
 * at each new address. So a program that needs the same sizes again keeps a few. Memory
 * serves only requests of exactly its size, so that nothing is split.
 *
 * The lock covers no driver call. Memory whose release fails returns to the list.
 */
#include "ipc/segment_cache.h"
#include "base/mutex_assert.h"
#include <stdlib.h>

void tarn__segment_cache_init(struct tarn__segment_cache *cache, size_t maximum_bytes)
{
    pthread_mutex_init(&cache->lock, NULL);
    cache->maximum_bytes = maximum_bytes;
    cache->bytes = 0;
    cache->newest = NULL;
}

/* Unlink the memory at `link`. `lock` held. */
static struct tarn__segment_memory *unlink_at(struct tarn__segment_cache *cache,
                                              struct tarn__segment_memory **link)
{
    tarn__assert_mutex_held(&cache->lock);

    struct tarn__segment_memory *memory = *link;

    *link = memory->next;
    memory->next = NULL;
    cache->bytes -= memory->bytes;
    return memory;
}

/* Link memory as the newest. `lock` held. */
static void link_newest(struct tarn__segment_cache *cache,
                        struct tarn__segment_memory *memory)
{
    tarn__assert_mutex_held(&cache->lock);

    memory->next = cache->newest;
    cache->newest = memory;
    cache->bytes += memory->bytes;
}

struct tarn__segment_memory *tarn__segment_cache_take(struct tarn__segment_cache *cache,
                                                      size_t bytes)
{
    struct tarn__segment_memory *found = NULL;

    pthread_mutex_lock(&cache->lock);
    struct tarn__segment_memory **link = &cache->newest;
    while (*link && ((*link)->bytes != bytes || !(*link)->handle))
        link = &(*link)->next;
    if (*link)
        found = unlink_at(cache, link);
    pthread_mutex_unlock(&cache->lock);
    return found;
}

/* Unlink the oldest memory if there is more than `keep_bytes`, or return NULL. */
static struct tarn__segment_memory *take_oldest(struct tarn__segment_cache *cache,
                                                size_t keep_bytes)
{
    struct tarn__segment_memory *oldest = NULL;

    pthread_mutex_lock(&cache->lock);
    if (cache->bytes > keep_bytes) {
        struct tarn__segment_memory **link = &cache->newest;
        while ((*link)->next)
            link = &(*link)->next;
        oldest = unlink_at(cache, link);
    }
    pthread_mutex_unlock(&cache->lock);
    return oldest;
}

CUresult_ tarn__segment_cache_trim(struct tarn__segment_cache *cache,
                                   const struct tarn__calls *calls, size_t keep_bytes,
                                   size_t *released_out)
{
    CUresult_ result = CUDA_SUCCESS_;
    size_t released = 0;
    struct tarn__segment_memory *oldest;

    while (result == CUDA_SUCCESS_ && (oldest = take_oldest(cache, keep_bytes))) {
        size_t bytes = oldest->bytes;
        result = tarn__segment_memory_release(calls, oldest);
        if (result == CUDA_SUCCESS_) {
            released += bytes;
            continue;
        }
        pthread_mutex_lock(&cache->lock);
        link_newest(cache, oldest);
        pthread_mutex_unlock(&cache->lock);
    }
    if (released_out)
        *released_out = released;
    return result;
}

/* A release that fails here leaves more than the maximum until the next one. The free of
 * the caller has succeeded. */
void tarn__segment_cache_put(struct tarn__segment_cache *cache,
                             const struct tarn__calls *calls,
                             struct tarn__segment_memory *memory)
{
    pthread_mutex_lock(&cache->lock);
    link_newest(cache, memory);
    pthread_mutex_unlock(&cache->lock);
    tarn__segment_cache_trim(cache, calls, cache->maximum_bytes, NULL);
}

void tarn__segment_cache_free(struct tarn__segment_cache *cache)
{
    while (cache->newest) {
        struct tarn__segment_memory *next = cache->newest->next;
        free(cache->newest);
        cache->newest = next;
    }
}
