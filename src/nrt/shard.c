/* shard.c -- a thread's part of each instance, from its first call to its end.
 *
 * A thread's entry is created at its first call and hangs on one thread-local pointer.
 * When the thread ends, its counters are added to the instance's, and its small blocks go
 * to all threads. A destructor of another library that runs later finds the thread
 * without an entry, and everything is done again.
 *
 * A child of fork has one thread. The shards of the others stay where they are, so that
 * the sums stay right. The child loses their small blocks.
 */
#include "nrt/shard.h"
#include "base/mutex_assert.h"
#include "nrt/count.h"
#include "nrt/modes.h"
#include "nrt/registry.h"
#include "nrt/slab.h"
#include <stdlib.h>

struct tarn__shard tarn__no_shard = {.word = UINT64_MAX};

static struct tarn__nrt_thread no_thread = {
    .shard = {[0 ... TARN__RUNTIMES - 1] = &tarn__no_shard}};

_Thread_local struct tarn__nrt_thread *tarn__nrt_self = &no_thread;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key; /* its value is the thread's entry, for end_thread() */
static bool key_made;

static void add(_Atomic uint64_t *to, const _Atomic uint64_t *from)
{
    atomic_fetch_add(to, atomic_load_explicit(from, memory_order_relaxed));
}

/* Add the counters of an ending thread to the instance's. No thread reads meanwhile:
 * `tarn__registry_mutex` held. */
static void fold(struct tarn__shard *shard)
{
    tarn__assert_mutex_held(&tarn__registry_mutex);

    struct tarn__counters *to = &shard->runtime->folded, *from = &shard->counters;

    tarn__count_flush(shard);
    for (unsigned i = 0; i < TARN_NRT_HISTOGRAM; i++)
        add(&to->histogram[i], &from->histogram[i]);
    add(&to->raw_alloc, &from->raw_alloc);
    add(&to->raw_free, &from->raw_free);
    add(&to->mi_free, &from->mi_free);
    add(&to->failed, &from->failed);
    add(&to->bytes_made, &from->bytes_made);
    add(&to->bytes_gone, &from->bytes_gone);
}

/* Take a shard out of the list of its instance. `tarn__registry_mutex` held. */
static void unlink_shard(struct tarn__shard *shard)
{
    tarn__assert_mutex_held(&tarn__registry_mutex);

    struct tarn__shard **place = &shard->runtime->shards;

    while (*place != shard)
        place = &(*place)->next;
    *place = shard->next;
}

static void end_thread(void *value)
{
    struct tarn__nrt_thread *thread = value;

    tarn__nrt_self = &no_thread;
    tarn__registry_lock();
    for (unsigned i = 0; i < TARN__RUNTIMES; i++) {
        struct tarn__shard *shard = atomic_load(&thread->shard[i]);
        if (shard == &tarn__no_shard)
            continue;
        tarn__slab_drain(shard);
        fold(shard);
        unlink_shard(shard);
        free(shard);
    }
    tarn__registry_unlock();
    free(thread);
}

static void make_key(void)
{
    key_made = pthread_key_create(&key, end_thread) == 0;
}

/* This thread's entry; the address of `no_thread`: no host memory. */
static struct tarn__nrt_thread *self(void)
{
    if (tarn__nrt_self != &no_thread)
        return tarn__nrt_self;
    pthread_once(&once, make_key);
    struct tarn__nrt_thread *thread = malloc(sizeof *thread);
    if (!thread)
        return &no_thread;
    if (!key_made || pthread_setspecific(key, thread) != 0) {
        free(thread);
        return &no_thread;
    }
    for (unsigned i = 0; i < TARN__RUNTIMES; i++)
        atomic_init(&thread->shard[i], &tarn__no_shard);
    return tarn__nrt_self = thread;
}

static struct tarn__shard *make_shard(tarn_runtime *runtime)
{
    struct tarn__nrt_thread *thread = self();

    if (thread == &no_thread)
        return NULL;
    struct tarn__shard *shard = aligned_alloc(alignof(struct tarn__shard), sizeof *shard);
    if (!shard)
        return NULL;
    *shard = (struct tarn__shard){.word = UINT64_MAX,
                                  .low = -(int64_t)TARN__FLUSH,
                                  .over = TARN__FLUSH,
                                  .allocator = UINT32_MAX,
                                  .thread = thread,
                                  .runtime = runtime};
    tarn__registry_lock();
    shard->next = runtime->shards;
    runtime->shards = shard;
    atomic_store(&thread->shard[runtime->index], shard);
    tarn__registry_unlock();
    return shard;
}

/* Update a shard: the instance's allocator or modes have changed since its last check. */
static void follow(struct tarn__shard *shard, uint64_t word)
{
    unsigned allocator = (unsigned)(word & 0xff);

    if (allocator != shard->allocator && shard->allocator != UINT32_MAX)
        tarn__slab_drain(shard);
    shard->allocator = allocator;
    shard->fast = (uint64_t)TARN__LIVE |
                  (uint64_t)shard->runtime->index << TARN__RUNTIME_SHIFT |
                  (uint64_t)allocator << TARN__ALLOCATOR_SHIFT;
    shard->direct = shard->fast | (uint64_t)TARN__DIRECT << TARN__CLASS_SHIFT |
                    (uint64_t)TARN__SINGLE << TARN__ALLOCATOR_SHIFT |
                    TARN__FLAG(TARN__MI);
    shard->memory = &shard->runtime->allocators[allocator];
    shard->word = word & TARN__SLOW ? UINT64_MAX : word;
}

struct tarn__shard *tarn__shard_get(tarn_runtime *runtime)
{
    struct tarn__shard *shard = tarn__shard_at(runtime->index);
    uint64_t word = atomic_load_explicit(&runtime->word, memory_order_acquire);

    if (word & TARN__UNREADY) {
        tarn__modes_ready(runtime);
        word = atomic_load_explicit(&runtime->word, memory_order_acquire);
    }
    if (shard == &tarn__no_shard)
        shard = make_shard(runtime);
    if (shard && (shard->word != word || shard->allocator == UINT32_MAX))
        follow(shard, word);
    return shard;
}

void tarn__shard_free_all(tarn_runtime *runtime)
{
    tarn__assert_mutex_held(&tarn__registry_mutex);

    while (runtime->shards) {
        struct tarn__shard *shard = runtime->shards;
        runtime->shards = shard->next;
        atomic_store(&shard->thread->shard[runtime->index], &tarn__no_shard);
        free(shard);
    }
}
