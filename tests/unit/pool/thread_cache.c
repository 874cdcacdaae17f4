/* Test a thread cache: the last-freed slot beside the small blocks, and walks through all
 * caches while threads end. */
#include "pools.h"
#include "pool/cache/thread_cache.h"
#include "field.h"
#include <sched.h>
#include <stdatomic.h>

enum { WARM = 200, ROUNDS = 1000 };

static void pairs(tarn_resource *pool, size_t bytes, tarn_stream stream, int count)
{
    for (int i = 0; i < count; i++)
        put(pool, take(pool, bytes, stream), bytes, stream);
}

TEST(loop_over_one_block_of_any_size_is_all_hits_without_a_driver_call)
{
    static const size_t sizes[] = {256, 64 * KIB, 64 * KIB + 1,
                                   MIB, 64 * MIB, 1024 * MIB};

    use_driver(0);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        tarn_resource *pool = new_pool(NULL);
        tarn_stream stream = new_stream();
        pairs(pool, sizes[i], stream, WARM);
        tarn_pool_statistics before = statistics(pool);
        pairs(pool, sizes[i], stream, ROUNDS);
        tarn_pool_statistics after = statistics(pool);
        CHECK_EQUAL(ROUNDS, after.cache_hits - before.cache_hits);
        CHECK_EQUAL(before.driver_calls, after.driver_calls);
        adds_up(pool);
        end_pool(pool);
        CU(cuStreamDestroy_v2(stream));
    }
}

TEST(block_whose_place_is_taken_by_another_size_is_still_had_again_at_once)
{
    use_driver(0);
    tarn_resource *pool = new_pool(NULL);
    tarn_stream stream = new_stream();

    pairs(pool, 64 * KIB + 1, stream, WARM); /* one address with 1 MiB */
    pairs(pool, MIB, stream, WARM);
    tarn_pool_statistics before = statistics(pool);
    pairs(pool, MIB, stream, ROUNDS);
    CHECK_EQUAL(ROUNDS, statistics(pool).cache_hits - before.cache_hits);
    end_pool(pool);
    CU(cuStreamDestroy_v2(stream));
}

/* Both sizes are too large for the places of the cache, so only the last-freed block is
 * kept. */
TEST(loop_that_changes_to_another_size_hits_after_a_few_pairs)
{
    enum { FEW = 8 };

    use_driver(0);
    tarn_resource *pool = new_pool(NULL);
    tarn_stream stream = new_stream();

    pairs(pool, 64 * MIB, stream, WARM);
    pairs(pool, 32 * MIB, stream, FEW);
    uint64_t hits = statistics(pool).cache_hits;
    pairs(pool, 32 * MIB, stream, ROUNDS);
    CHECK_EQUAL(ROUNDS, statistics(pool).cache_hits - hits);
    end_pool(pool);
    CU(cuStreamDestroy_v2(stream));
}

static tarn_resource *shared_pool;
static tarn_stream shared_stream;

static void *take_64_mib(void *data)
{
    (void)data;
    put(shared_pool, take(shared_pool, 64 * MIB, shared_stream), 64 * MIB, shared_stream);
    return NULL;
}

TEST(spare_of_one_thread_serves_another_before_the_pool_grows)
{
    use_driver(0);
    tarn_resource *pool = shared_pool = new_pool(NULL);
    tarn_stream stream = shared_stream = new_stream();
    pthread_t thread;

    pairs(pool, 64 * MIB, stream, WARM);
    CHECK_EQUAL(64 * MIB, statistics(pool).thread_cached);
    uint64_t reserved = statistics(pool).reserved;
    CHECK_EQUAL(0, pthread_create(&thread, NULL, take_64_mib, NULL));
    pthread_join(thread, NULL);
    CHECK_EQUAL(reserved, statistics(pool).reserved);
    pairs(pool, 64 * MIB, stream, WARM); /* it is there again */
    CHECK_EQUAL(reserved, statistics(pool).reserved);
    adds_up(pool);
    end_pool(pool);
    CU(cuStreamDestroy_v2(stream));
}

TEST(spare_of_an_opened_stream_serves_another_stream_before_the_pool_grows)
{
    use_driver(0);
    tarn_resource *pool = new_pool(NULL);
    tarn_stream raw = new_stream(), other = new_stream(), stream;

    CHECK_OK(tarn_stream_register(0, raw, &stream));
    pairs(pool, 64 * MIB, stream, WARM);
    uint64_t reserved = statistics(pool).reserved;
    put(pool, take(pool, 64 * MIB, other), 64 * MIB, other);
    CHECK_EQUAL(reserved, statistics(pool).reserved);
    CHECK_OK(tarn_stream_unregister(stream));
    adds_up(pool);
    end_pool(pool);
    CU(cuStreamDestroy_v2(other));
    CU(cuStreamDestroy_v2(raw));
}

/* --- threads that free rarely --- */

/* The frees, at most, after which a cache is bypassed, and after which it is used again. */
enum { SOME = 64, MANY = 1024 };

/* Have the last frees of the pool's only thread cache count as rare, or as frequent. */
static void set_frees_rare(tarn_resource *resource, bool are_rare)
{
    struct tarn__pool *pool = inside(resource);

    tarn__pool_lock(pool);
    pool->caches->bypass.from_ns = are_rare ? 0 : UINT64_MAX / 2;
    tarn__pool_unlock(pool);
}

/* Free blocks that are too large for a thread cache, rarely. */
static void rare_frees(tarn_resource *pool, int count)
{
    set_frees_rare(pool, true);
    for (int i = 0; i < count; i += 2) {
        tarn_device_ptr one = take(pool, 20 * MIB, NULL),
                        two = take(pool, 24 * MIB, NULL);
        put(pool, one, 20 * MIB, NULL);
        put(pool, two, 24 * MIB, NULL);
    }
}

static uint64_t hits_of_pairs(tarn_resource *pool)
{
    uint64_t hits = statistics(pool).cache_hits;

    pairs(pool, 4 * KIB, NULL, WARM);
    return statistics(pool).cache_hits - hits;
}

TEST(thread_that_frees_rarely_bypasses_its_cache)
{
    use_driver(0);
    tarn_resource *pool = new_pool(NULL);

    hits_of_pairs(pool);
    CHECK_EQUAL(WARM, hits_of_pairs(pool));
    CHECK(statistics(pool).thread_cached > 0);
    rare_frees(pool, SOME);
    CHECK_EQUAL(0, statistics(pool).thread_cached);
    CHECK_EQUAL(0, hits_of_pairs(pool));
    CHECK_EQUAL(0, statistics(pool).thread_cached);
    adds_up(pool);
    end_pool(pool);
}

TEST(thread_uses_its_cache_again_when_it_frees_often)
{
    use_driver(0);
    tarn_resource *pool = new_pool(NULL);

    pairs(pool, 4 * KIB, NULL, WARM);
    rare_frees(pool, SOME);
    set_frees_rare(pool, false);
    pairs(pool, 4 * KIB, NULL, SOME);
    CHECK_EQUAL(0, hits_of_pairs(pool)); /* a few frees at once do not count */
    pairs(pool, 4 * KIB, NULL, MANY);
    CHECK_EQUAL(WARM, hits_of_pairs(pool));
    adds_up(pool);
    end_pool(pool);
}

TEST(cache_is_used_where_streams_share_the_memory)
{
    use_driver(0);
    tarn_resource *pool = new_pool(NULL);

    pairs(pool, 4 * KIB, NULL, WARM);
    inside(pool)->is_shared = true;
    rare_frees(pool, SOME);
    hits_of_pairs(pool);
    CHECK_EQUAL(WARM, hits_of_pairs(pool));
    end_pool(pool);
}

/* Many small blocks return to the heap over several calls. */
TEST(blocks_of_a_bypassed_cache_are_used_up)
{
    enum { BLOCKS = 200 };
    tarn_device_ptr blocks[BLOCKS];

    use_driver(0);
    tarn_resource *pool = new_pool(NULL);
    pairs(pool, 64 * MIB, NULL, 1); /* later growth would drain the cache */
    pairs(pool, 512, NULL, WARM);
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = take(pool, 512, NULL);
    for (int i = 0; i < BLOCKS; i++)
        put(pool, blocks[i], 512, NULL);
    CHECK_EQUAL(BLOCKS * 512, statistics(pool).thread_cached);
    rare_frees(pool, SOME);
    uint64_t left = statistics(pool).thread_cached;
    CHECK(left > 0 && left < BLOCKS * 512);
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = take(pool, 512, NULL);
    for (int i = 0; i < BLOCKS; i++)
        put(pool, blocks[i], 512, NULL);
    CHECK(statistics(pool).thread_cached <= left);
    adds_up(pool);
    end_pool(pool);
}

TEST(spare_counts_as_free_and_is_given_back_by_a_trim_and_a_threshold)
{
    use_driver(0);
    tarn_resource *pool = new_pool(NULL);
    size_t released, before, after, total;

    CHECK_OK(tarn_resource_memory_info(pool, NULL, &before, &total));
    pairs(pool, 64 * MIB, NULL, WARM);
    CHECK_EQUAL(64 * MIB, statistics(pool).thread_cached);
    CHECK_OK(tarn_resource_memory_info(pool, NULL, &after, &total));
    CHECK_EQUAL(before, after);
    CHECK_OK(tarn_resource_trim(pool, 0, &released));
    CHECK_EQUAL(0, statistics(pool).reserved);
    end_pool(pool);

    tarn_pool_options options = {.size = sizeof options,
                                 .release_threshold_bytes = 16 * MIB};
    pool = new_pool(&options);
    pairs(pool, 64 * MIB, NULL, WARM);
    CHECK_EQUAL(0, statistics(pool).thread_cached);
    end_pool(pool);
}

/* --- walks through all caches, which release the lock in between --- */

enum { ENDERS = 4, STREAMS = 12, LIVES = 40, EACH = 24, WALKS = 60, FEW = 100000 };

static tarn_stream many_streams[STREAMS];
static atomic_bool walks_are_over;

/* Fill a cache for each stream, and end; again and again. */
static void *fill_caches(void *data)
{
    tarn_device_ptr blocks[EACH];

    (void)data;
    for (int s = 0; s < STREAMS; s++)
        for (int round = 0; round < 3; round++) {
            for (int i = 0; i < EACH; i++)
                if (tarn_resource_allocate(shared_pool, 512 + 512 * (size_t)i, 0,
                                           many_streams[s], &blocks[i]) != TARN_OK)
                    abort();
            for (int i = 0; i < EACH; i++)
                if (tarn_resource_deallocate(shared_pool, blocks[i],
                                             512 + 512 * (size_t)i, 0,
                                             many_streams[s]) != TARN_OK)
                    abort();
        }
    return NULL;
}

static void *threads_that_end(void *data)
{
    pthread_t thread;

    for (int i = 0; i < LIVES && !atomic_load(&walks_are_over); i++) {
        if (pthread_create(&thread, NULL, fill_caches, data) != 0)
            abort();
        pthread_join(thread, NULL);
    }
    return NULL;
}

/* The pool does not grow during the walks: memory that is mapped, but not published yet,
 * counts as reserved alone. */
static void begin_walks(void)
{
    const tarn_pool_options options = {.size = sizeof options,
                                       .initial_bytes = 256 * MIB};

    use_driver(0);
    shared_pool = new_pool(&options);
    for (int i = 0; i < STREAMS; i++)
        many_streams[i] = new_stream();
    atomic_store(&walks_are_over, false);
}

static void end_walks(void)
{
    end_pool(shared_pool);
    for (int i = 0; i < STREAMS; i++)
        CU(cuStreamDestroy_v2(many_streams[i]));
}

/* One cache or several were deleted while the lock was released. */
TEST(walks_through_all_caches_go_on_while_threads_end)
{
    pthread_t threads[ENDERS];

    begin_walks();
    for (int i = 0; i < ENDERS; i++)
        CHECK_EQUAL(0, pthread_create(&threads[i], NULL, threads_that_end, NULL));
    for (int i = 0; i < WALKS; i++) {
        tarn_pool_statistics all = statistics(shared_pool);
        CHECK(all.live_blocks < FEW); /* counts of different moments, and no wrap */
        CHECK_EQUAL(all.reserved,
                    all.live + all.thread_cached + all.cached + all.captured);
        CHECK(tarn_resource_live_blocks(shared_pool) < FEW);
        if (i % 3 == 0)
            tarn__thread_caches_drain(inside(shared_pool));
    }
    atomic_store(&walks_are_over, true);
    for (int i = 0; i < ENDERS; i++)
        CHECK_EQUAL(0, pthread_join(threads[i], NULL));
    CHECK_EQUAL(0, statistics(shared_pool).live);
    CHECK_EQUAL(0, statistics(shared_pool).thread_cached);
    adds_up(shared_pool);
    end_walks();
}

/* The budget of moves grows with the operations of the pool, hits included. */
TEST(drains_count_each_hit_once_as_an_operation)
{
    use_driver(0);
    tarn_resource *pool = new_pool(NULL);
    tarn_stream stream = new_stream();

    for (int turn = 0; turn < 3; turn++) {
        pairs(pool, 4096, stream, WARM);
        CHECK_OK(tarn_resource_trim(pool, 0, NULL));
        tarn_pool_statistics counted = statistics(pool);
        CHECK(counted.cache_hits > 0);
        tarn__pool_lock(inside(pool));
        const struct tarn__counts *misses = &inside(pool)->counts;
        uint64_t operations =
            misses->allocations + misses->frees + inside(pool)->drained_operations;
        tarn__pool_unlock(inside(pool));
        CHECK_EQUAL(counted.allocations + counted.frees, operations);
    }
    end_pool(pool);
    CU(cuStreamDestroy_v2(stream));
}

TEST(drain_in_several_steps_returns_every_block_and_the_granted_bytes)
{
    begin_walks();
    tarn_device_ptr large = take(shared_pool, 1024 * MIB, NULL); /* grants grow with it */
    fill_caches(NULL);
    CHECK(statistics(shared_pool).thread_cached > 0);
    CHECK(inside(shared_pool)->granted_bytes > 0);
    tarn__thread_caches_drain(inside(shared_pool));
    CHECK_EQUAL(0, statistics(shared_pool).thread_cached);
    CHECK_EQUAL(0, inside(shared_pool)->granted_bytes);
    put(shared_pool, large, 1024 * MIB, NULL);
    adds_up(shared_pool);
    end_walks();
}

/* --- the owner of a cache, and a thread that keeps it out --- */

enum { EXCLUSIONS = 2000, READS = 200 };

static struct tarn__thread_cache *raced_cache;
static unsigned long changes; /* not atomic: the owner changes it inside the cache */
static atomic_bool race_is_over;

static void *enter_and_leave(void *data)
{
    (void)data;
    while (!atomic_load_explicit(&race_is_over, memory_order_relaxed))
        if (tarn__thread_cache_enter(raced_cache)) {
            changes++;
            tarn__thread_cache_leave(raced_cache);
        }
    return NULL;
}

static void exclude_often(void)
{
    static struct tarn__thread_cache cache;
    pthread_t owner;
    unsigned long last = 0, wrong = 0;

    tarn_resource *pool = new_pool(NULL);
    raced_cache = &cache;
    atomic_store(&race_is_over, false);
    CHECK_EQUAL(0, pthread_create(&owner, NULL, enter_and_leave, NULL));
    for (int i = 0; i < EXCLUSIONS;) {
        tarn__pool_lock(inside(pool));
        tarn__thread_cache_exclude_owner(inside(pool), &cache);
        unsigned long before = changes;
        for (int j = 0; j < READS; j++)
            wrong += *(volatile unsigned long *)&changes != before;
        tarn__thread_cache_admit_owner(inside(pool), &cache);
        tarn__pool_unlock(inside(pool));
        bool had_its_turn = before != last; /* the owner, since the last exclusion */
        i += had_its_turn;
        last = before;
        if (!had_its_turn || i % 16 == 0)
            sched_yield();
    }
    atomic_store(&race_is_over, true);
    CHECK_EQUAL(0, pthread_join(owner, NULL));
    end_pool(pool);
    CHECK_EQUAL(0, wrong);
}

/* A build without tarn__process_barrier() fails here. */
TEST(owner_changes_nothing_while_it_is_excluded)
{
    use_driver(0);
    exclude_often();
}

TEST(owner_changes_nothing_while_it_is_excluded_without_membarrier)
{
    bool is_on = tarn__process_barrier_is_on;

    use_driver(0);
    tarn__process_barrier_is_on = false;
    exclude_often();
    tarn__process_barrier_is_on = is_on;
}
