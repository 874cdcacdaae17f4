/* Test the table in which a thread finds its thread caches: many streams, streams and
 * pools that end, several threads.
 */
#include "pools.h"
#include <stdatomic.h>

enum { MANY = 1000, BYTES = 4096 };

static void pair(tarn_resource *pool, tarn_stream stream)
{
    put(pool, take(pool, BYTES, stream), BYTES, stream);
}

/* Create streams with handles that do not lie at regular distances. */
static void make_streams(tarn_stream *streams, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        tarn_stream skipped[3];
        for (size_t j = 0; j < i % 4; j++)
            skipped[j] = new_stream();
        streams[i] = new_stream();
        for (size_t j = 0; j < i % 4; j++)
            CU(cuStreamDestroy_v2(skipped[j]));
    }
}

static void end_streams(tarn_stream *streams, size_t count)
{
    for (size_t i = 0; i < count; i++)
        CU(cuStreamDestroy_v2(streams[i]));
}

TEST(thread_with_a_thousand_streams_finds_a_cache_for_each)
{
    static tarn_stream streams[MANY];

    use_driver(0);
    tarn_resource *pool = new_pool(NULL);
    make_streams(streams, MANY);
    for (int round = 0; round < 12; round++)
        for (size_t i = 0; i < MANY; i++)
            pair(pool, streams[i]);
    tarn_pool_statistics before = statistics(pool);
    for (size_t i = 0; i < MANY; i++)
        pair(pool, streams[i]);
    CHECK_EQUAL(MANY, statistics(pool).cache_hits - before.cache_hits);
    adds_up(pool);
    end_pool(pool);
    end_streams(streams, MANY);
}

TEST(thread_with_more_streams_than_its_table_holds_begins_again)
{
    enum { TOO_MANY = 2200 };
    static tarn_stream streams[TOO_MANY];

    use_driver(0);
    tarn_resource *pool = new_pool(NULL);
    make_streams(streams, TOO_MANY);
    for (int round = 0; round < 2; round++)
        for (size_t i = 0; i < TOO_MANY; i++) {
            pair(pool, streams[i]);
            if (i % 500 == 0)
                adds_up(pool);
        }
    adds_up(pool);
    CHECK_EQUAL(0, statistics(pool).live_blocks);
    end_pool(pool);
    end_streams(streams, TOO_MANY);
}

TEST(thread_drops_caches_of_unregistered_streams)
{
    use_driver(0);
    tarn_resource *pool = new_pool(NULL);
    tarn_stream raw = new_stream(), kept;

    CHECK_OK(tarn_stream_register(0, raw, &kept));
    for (int i = 0; i < 20; i++)
        pair(pool, kept);
    uint64_t metadata = 0;
    for (int i = 0; i < 1000; i++) {
        tarn_stream stream;
        CHECK_OK(tarn_stream_register(0, raw, &stream));
        pair(pool, stream);
        CHECK_OK(tarn_stream_unregister(stream));
        if (i == 200)
            metadata = statistics(pool).metadata;
    }
    CHECK(statistics(pool).metadata < metadata + 256 * KIB);
    tarn_pool_statistics before = statistics(pool);
    for (int i = 0; i < 20; i++)
        pair(pool, kept);
    CHECK_EQUAL(20, statistics(pool).cache_hits - before.cache_hits);
    adds_up(pool);
    CHECK_OK(tarn_stream_unregister(kept));
    end_pool(pool);
    CU(cuStreamDestroy_v2(raw));
}

TEST(entries_of_pools_that_ended_match_no_later_pool)
{
    tarn_stream streams[16];

    use_driver(0);
    make_streams(streams, 16);
    for (int i = 0; i < 20; i++) {
        tarn_resource *pools[2] = {new_pool(NULL), new_pool(NULL)};
        for (int round = 0; round < 20; round++)
            for (int j = 0; j < 32; j++)
                pair(pools[j % 2], streams[j / 2]);
        tarn_pool_statistics before = statistics(pools[1]);
        end_pool(pools[0]);
        for (int j = 0; j < 16; j++)
            pair(pools[1], streams[j]);
        CHECK_EQUAL(16, statistics(pools[1]).cache_hits - before.cache_hits);
        adds_up(pools[1]);
        end_pool(pools[1]);
    }
    end_streams(streams, 16);
}

/* --- several threads --- */

enum { THREADS = 4, STREAMS = 96, ROUNDS = 5, WORDS = 64 };

static struct {
    tarn_resource *pool;
    tarn_stream streams[THREADS][STREAMS];
    atomic_uint wrong, running;
} shared;

/* Write a pattern on the stream, and return true if it is there at the end. */
static bool holds_pattern(tarn_device_ptr block, tarn_stream stream, unsigned char value)
{
    unsigned char copy[WORDS];

    if (cu.cuMemsetD8Async(block, value, WORDS, stream) != 0 ||
        cu.cuStreamSynchronize(stream) != 0 || cu.cuMemcpyDtoH_v2(copy, block, WORDS))
        return false;
    for (int i = 0; i < WORDS; i++)
        if (copy[i] != value)
            return false;
    return true;
}

/* Use every stream of the thread, with as many blocks live as there are streams. */
static void *use_streams(void *data)
{
    size_t thread = (size_t)(uintptr_t)data;
    void *context;

    if (cu.cuDevicePrimaryCtxRetain(&context, 0) || cu.cuCtxSetCurrent(context))
        abort();
    for (int round = 0; round < ROUNDS; round++) {
        tarn_device_ptr blocks[STREAMS];
        for (size_t i = 0; i < STREAMS; i++)
            blocks[i] = take(shared.pool, BYTES << i % 4, shared.streams[thread][i]);
        for (size_t i = 0; i < STREAMS; i += 7)
            if (!holds_pattern(blocks[i], shared.streams[thread][i],
                               (unsigned char)(thread * 61 + i)))
                atomic_fetch_add(&shared.wrong, 1);
        for (size_t i = 0; i < STREAMS; i++)
            put(shared.pool, blocks[i], BYTES << i % 4, shared.streams[thread][i]);
    }
    atomic_fetch_sub(&shared.running, 1);
    return NULL;
}

TEST(threads_end_with_full_tables_while_another_drains)
{
    pthread_t threads[THREADS];

    use_driver(0);
    shared.pool = new_pool(NULL);
    for (int i = 0; i < THREADS; i++)
        make_streams(shared.streams[i], STREAMS);
    for (int turn = 0; turn < 3; turn++) {
        atomic_store(&shared.running, THREADS);
        for (int i = 0; i < THREADS; i++)
            CHECK_EQUAL(
                0, pthread_create(&threads[i], NULL, use_streams, (void *)(uintptr_t)i));
        while (atomic_load(&shared.running) > 0) {
            size_t released;
            CHECK_OK(tarn_resource_trim(shared.pool, 0, &released));
        }
        for (int i = 0; i < THREADS; i++)
            pthread_join(threads[i], NULL);
        CHECK_EQUAL(0, atomic_load(&shared.wrong));
        CHECK_EQUAL(0, statistics(shared.pool).thread_cached);
        adds_up(shared.pool);
    }
    end_pool(shared.pool);
    for (int i = 0; i < THREADS; i++)
        end_streams(shared.streams[i], STREAMS);
}
