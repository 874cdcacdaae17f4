/* shard.h -- shards: a shard is the part of an instance that belongs to one thread. */
#ifndef TARN_NRT_SHARD_H
#define TARN_NRT_SHARD_H

#include "nrt/runtime.h"

/* In the place of a shard that a thread has not made yet. The fast path finds no block in
 * it. */
extern struct tarn__shard tarn__no_shard;

/* One pointer per thread, in the thread's static block. */
extern _Thread_local struct tarn__nrt_thread *tarn__nrt_self
    __attribute__((visibility("hidden")));

/* This thread's shard of the instance with that index, or &tarn__no_shard. */
static inline struct tarn__shard *tarn__shard_at(unsigned index)
{
    return atomic_load_explicit(&tarn__nrt_self->shard[index % TARN__RUNTIMES],
                                memory_order_relaxed);
}

/* This thread's shard of an instance, created if missing; NULL: no host memory. It
 * follows changes of allocator and modes. */
struct tarn__shard *tarn__shard_get(tarn_runtime *runtime);

/* Take all shards of an instance away from their threads. `tarn__registry_mutex`
 * held. */
void tarn__shard_free_all(tarn_runtime *runtime);

#endif
