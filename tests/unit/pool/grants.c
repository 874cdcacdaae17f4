/* Test what the pool grants to its thread caches: many caches in a new pool, caches that
 * are no longer used, and the bound of all. grants_threads.c has the test with threads. */
#include "grants.h"

static double hits_of(tarn_resource *pool, const tarn_stream *streams, int count,
                      int held, int rounds)
{
    tarn_pool_statistics before = statistics(pool);

    for (int round = 0; round < rounds; round++)
        for (int i = 0; i < count; i++)
            use(pool, streams[i], held);
    tarn_pool_statistics after = statistics(pool);
    return (double)(after.cache_hits - before.cache_hits) /
           (double)(after.allocations - before.allocations);
}

static void sixty_four(tarn_resource *pool, tarn_stream *streams)
{
    for (int held = 1; held <= 4; held++) {
        hits_of(pool, streams, CACHES, held, 5);
        CHECK(hits_of(pool, streams, CACHES, held, 5) > 0.99);
    }
    CHECK(statistics(pool).thread_cached <= 17 * MIB);
}

TEST(sixty_four_caches_of_a_new_pool_hit)
{
    with_streams(CACHES, sixty_four);
}

/* The first half of the caches takes all that there is, and is not used any more. */
static void later_ones(tarn_resource *pool, tarn_stream *streams)
{
    hits_of(pool, streams, 2 * CACHES, 8, 6);
    CHECK(statistics(pool).thread_cached > 12 * MIB);
    CHECK(hits_of(pool, streams + 2 * CACHES, CACHES, 1, 20) > 0.9);
    hits_of(pool, streams + 2 * CACHES, CACHES, 3, 100);
    CHECK(hits_of(pool, streams + 2 * CACHES, CACHES, 3, 5) > 0.99);
    CHECK(statistics(pool).thread_cached <= 17 * MIB);
}

TEST(caches_that_are_not_used_give_their_grants_to_others)
{
    with_streams(3 * CACHES, later_ones);
}

/* Use each stream for one pair at a time, and return the hits of the last rounds. */
static double hits_in_turn(tarn_resource *pool, const tarn_stream *streams, int count)
{
    enum { ROUNDS = 20, LAST = 5 };
    uint64_t before = 0;

    for (int round = 0; round < ROUNDS; round++) {
        if (round == ROUNDS - LAST)
            before = statistics(pool).cache_hits;
        for (int i = 0; i < count; i++)
            put(pool, take(pool, KIB, streams[i]), KIB, streams[i]);
    }
    return (double)(statistics(pool).cache_hits - before) / (LAST * count);
}

/* The caches are new, and the pool has had many frees before. There are more caches than
 * can have their first grants at once. */
static void in_an_old_pool(tarn_resource *pool, tarn_stream *streams)
{
    for (int i = 0; i < 1 << 15; i++)
        put(pool, take(pool, KIB, TARN_STREAM_NONE), KIB, TARN_STREAM_NONE);
    CHECK(hits_in_turn(pool, streams, MANY) > 0.99);
}

TEST(caches_that_are_new_do_not_count_as_idle)
{
    with_streams(MANY, in_an_old_pool);
}

/* One cache alone has the whole part of the pool; another one then gets its share. */
static void second_one(tarn_resource *pool, tarn_stream *streams)
{
    const size_t large = (size_t)4 * 1024 * MIB, bytes = 4 * MIB;
    enum { COUNT = 15 };
    tarn_device_ptr all = take(pool, large, streams[0]), blocks[2][COUNT];

    for (int round = 0; round < 20; round++)
        for (int stream = 0; stream < 1 + (round >= 10); stream++) {
            for (int i = 0; i < COUNT; i++)
                blocks[stream][i] =
                    take(pool, bytes + (size_t)i * 4 * KIB, streams[stream]);
            for (int i = 0; i < COUNT; i++)
                put(pool, blocks[stream][i], bytes + (size_t)i * 4 * KIB,
                    streams[stream]);
        }
    CHECK(statistics(pool).thread_cached <= statistics(pool).reserved / 64 + 8 * MIB);
    CHECK(hits_of(pool, streams + 1, 1, 4, 20) > 0.9);
    put(pool, all, large, streams[0]);
}

TEST(cache_that_has_all_of_a_large_pool_shares_it)
{
    with_streams(2, second_one);
}

/* The cache has its first grant, and each block is larger than a further one. The last
 * free drops the block that was freed before, unless the cache has it. */
static void keep_large_ones(tarn_resource *pool, tarn_stream *streams)
{
    static const size_t bytes[] = {160 * KIB, 224 * KIB, 32 * MIB};
    tarn_device_ptr blocks[3];

    for (int i = 0; i < 8; i++)
        put(pool, take(pool, KIB, streams[0]), KIB, streams[0]);
    for (int i = 0; i < 3; i++)
        blocks[i] = take(pool, bytes[i], streams[0]);
    for (int i = 0; i < 3; i++)
        put(pool, blocks[i], bytes[i], streams[0]);
    uint64_t hits = statistics(pool).cache_hits;
    for (int i = 0; i < 2; i++)
        CHECK_EQUAL(blocks[i], take(pool, bytes[i], streams[0]));
    CHECK_EQUAL(2, statistics(pool).cache_hits - hits);
    for (int i = 0; i < 2; i++)
        put(pool, blocks[i], bytes[i], streams[0]);
}

TEST(cache_is_granted_enough_for_a_large_block_at_its_first_free)
{
    with_streams(1, keep_large_ones);
}
