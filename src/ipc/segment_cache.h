/* segment_cache.h -- freed memory of segments that stays mapped, for blocks of the same
 * size. The functions are called in a scope of the device of the memory. */
#ifndef TARN_IPC_SEGMENT_CACHE_H
#define TARN_IPC_SEGMENT_CACHE_H

#include "ipc/segment_memory.h"
#include <pthread.h>

struct tarn__segment_cache {
    pthread_mutex_t lock;
    size_t maximum_bytes;                /* never changes; 0: nothing is kept */
    size_t bytes;                        /* of all memory in `newest` */
    struct tarn__segment_memory *newest; /* the oldest one is the last */
};

void tarn__segment_cache_init(struct tarn__segment_cache *cache, size_t maximum_bytes);

/* Take memory of exactly that size, or return NULL. */
struct tarn__segment_memory *tarn__segment_cache_take(struct tarn__segment_cache *cache,
                                                      size_t bytes);

/* Keep memory that no work uses, of at most `maximum_bytes`. The oldest memory is
 * released for it. */
void tarn__segment_cache_put(struct tarn__segment_cache *cache,
                             const struct tarn__calls *calls,
                             struct tarn__segment_memory *memory);

/* Release the oldest memory until at most `keep_bytes` stay. Memory whose release fails
 * stays, too. `released_out` may be NULL. */
CUresult_ tarn__segment_cache_trim(struct tarn__segment_cache *cache,
                                   const struct tarn__calls *calls, size_t keep_bytes,
                                   size_t *released_out);

/* Free the host memory of the cache; no thread uses it any more. Device memory that is still
 * in it is leaked. */
void tarn__segment_cache_free(struct tarn__segment_cache *cache);

#endif
