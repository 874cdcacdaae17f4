/* Test what the pool grants to its thread caches where each has a thread of its own. The thread
 * sanitizer runs this file and not grants.c, whose tests have one thread and take long. */
#include "grants.h"
#include <pthread.h>

static struct {
    tarn_resource *pool;
    pthread_barrier_t start;
} shared;

static void *use_own_stream(void *data)
{
    tarn_stream stream = data;
    void *context;

    if (cu.cuDevicePrimaryCtxRetain(&context, 0) || cu.cuCtxSetCurrent(context))
        abort();
    pthread_barrier_wait(&shared.start);
    for (int i = 0; i < 100; i++)
        use(shared.pool, stream, 1 + i % 4);
    return NULL;
}

static void threads_at_once(tarn_resource *pool, tarn_stream *streams)
{
    pthread_t threads[CACHES];

    shared.pool = pool;
    pthread_barrier_init(&shared.start, NULL, CACHES);
    for (int i = 0; i < CACHES; i++)
        CHECK_EQUAL(0, pthread_create(&threads[i], NULL, use_own_stream, streams[i]));
    for (int i = 0; i < CACHES; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&shared.start);
    tarn_pool_statistics all = statistics(pool);
    CHECK(all.cache_hits > all.allocations * 9 / 10);
    CHECK_EQUAL(0, all.thread_cached);
    CHECK_EQUAL(0, all.live_blocks);
}

TEST(sixty_four_threads_lower_each_others_grants)
{
    with_streams(CACHES, threads_at_once);
}
