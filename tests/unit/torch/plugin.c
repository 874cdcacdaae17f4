/* Test the functions of a pluggable allocator: memory, counts, warnings. Failing allocations
 * throw C++ exceptions: tests/cpp/torch.cpp. */
#include "field.h"

TEST(torch_gets_its_memory_from_the_pool_in_the_order_of_its_stream)
{
    tarn_resource *pool = serve(0);
    tarn_stream stream = new_stream();

    void *block = tarn_torch_allocate(1000, 0, stream);
    CHECK(block != NULL);
    CHECK_EQUAL(1000, statistics(pool).live_requested);
    tarn_torch_deallocate(block, 1000, 0, stream);
    CHECK_EQUAL(0, statistics(pool).live_blocks);
    void *again = tarn_torch_allocate(1000, 0, stream);
    CHECK(again == block);
    tarn_torch_deallocate(again, 1000, 0, stream);
    end_service(pool);
    CU(cuStreamDestroy_v2(stream));
}

TEST(torch_gets_null_for_0_bytes_and_frees_it)
{
    tarn_resource *pool = serve(0);

    CHECK(tarn_torch_allocate(0, 0, NULL) == NULL);
    tarn_torch_deallocate(NULL, 0, 0, NULL);
    tarn_torch_record_stream(NULL, NULL);
    CHECK_EQUAL(0, counts().allocations[TARN_TORCH_ALL].allocated);
    end_service(pool);
}

TEST(torch_counts_blocks_and_bytes_by_size)
{
    tarn_resource *pool = serve(0);

    void *small = tarn_torch_allocate(1 << 20, 0, NULL);
    void *large = tarn_torch_allocate((1 << 20) + 1, 0, NULL);
    tarn_torch_statistics all = counts();
    CHECK_EQUAL(2, all.allocations[TARN_TORCH_ALL].current);
    CHECK_EQUAL(1, all.allocations[TARN_TORCH_SMALL].current);
    CHECK_EQUAL(1, all.allocations[TARN_TORCH_LARGE].current);
    CHECK_EQUAL((1 << 20) + 1, all.requested_bytes[TARN_TORCH_LARGE].current);
    CHECK_EQUAL((1 << 20) + 512, all.allocated_bytes[TARN_TORCH_LARGE].current);
    CHECK_EQUAL((2 << 20) + 512, all.active_bytes[TARN_TORCH_ALL].current);
    tarn_torch_deallocate(large, (1 << 20) + 1, 0, NULL);
    all = counts();
    CHECK_EQUAL(1 << 20, all.allocated_bytes[TARN_TORCH_ALL].current);
    CHECK_EQUAL((2 << 20) + 512, all.allocated_bytes[TARN_TORCH_ALL].peak);
    CHECK_EQUAL((1 << 20) + 512, all.allocated_bytes[TARN_TORCH_ALL].freed);
    CHECK_OK(tarn_torch_reset_peaks(0));
    CHECK_EQUAL(1 << 20, counts().allocated_bytes[TARN_TORCH_ALL].peak);
    CHECK_EQUAL(statistics(pool).live + statistics(pool).thread_cached,
                statistics(pool).recent_peak_allocated);
    CHECK_OK(tarn_torch_reset_totals(0));
    CHECK_EQUAL(0, counts().allocations[TARN_TORCH_ALL].allocated);
    CHECK_EQUAL(1, counts().allocations[TARN_TORCH_ALL].current);
    tarn_torch_deallocate(small, 1 << 20, 0, NULL);
    end_service(pool);
}

static int warnings;
static char warning[200];

static void hear(void *data, const char *message)
{
    (void)data;
    warnings++;
    snprintf(warning, sizeof warning, "%s", message);
}

TEST(torch_gets_a_warning_for_a_free_that_fails)
{
    tarn_resource *pool = serve(0);
    void *block = tarn_torch_allocate(1000, 0, NULL);

    warnings = 0;
    tarn_set_warning_handler(hear, NULL);
    tarn_torch_deallocate((char *)block + 512, 1000, 0, NULL);
    CHECK_EQUAL(1, warnings);
    CHECK(strstr(warning, "torch: a free failed: pool: ") == warning);
    CHECK(strstr(warning, "is not a live allocation") != NULL);
    tarn_torch_deallocate(block, 1000, 77, NULL);
    tarn_torch_deallocate(block, 1000, -1, NULL);
    CHECK_EQUAL(3, warnings);
    CHECK_EQUAL(1, statistics(pool).live_blocks);
    CHECK_OK(tarn_resource_deallocate(pool, (uintptr_t)block, 1000, 0, NULL));
    tarn_set_warning_handler(NULL, NULL);
    end_service(pool);
}

TEST(torch_keeps_the_resource_of_a_device)
{
    tarn_resource *pool = serve(0), *other = new_pool(NULL), *found;

    CHECK_OK(tarn_torch_set_resource(0, pool));
    CHECK_STATUS(TARN_ALREADY_SET, tarn_torch_set_resource(0, other));
    CHECK_MESSAGE("torch: PyTorch uses a pool on device 0");
    void *block = tarn_torch_allocate(100, 0, NULL);
    CHECK_STATUS(TARN_STILL_IN_USE, tarn_torch_set_resource(0, NULL));
    CHECK_MESSAGE("1 live blocks on device 0");
    tarn_torch_deallocate(block, 100, 0, NULL);
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_torch_set_resource(99, pool));
    CHECK_OK(tarn_torch_resource(0, &found));
    CHECK(found == pool);
    CHECK_OK(tarn_resource_release(found));
    if (has_second_device()) {
        CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_torch_set_resource(1, pool));
        CHECK_MESSAGE("pool is a resource of device 0, not of device 1");
    }
    end_pool(other);
    end_service(pool);
    CHECK_STATUS(TARN_NOT_FOUND, tarn_torch_resource(0, &found));
}

static int first_uses;

static bool make_nothing(int device)
{
    CHECK_EQUAL(0, device);
    first_uses++;
    return false;
}

TEST(torch_makes_a_pool_current_where_nothing_is_set)
{
    tarn_resource *found, *current;

    use_driver(0);
    first_uses = 0;
    tarn_torch_set_first_use(make_nothing);
    void *block = tarn_torch_allocate(100, 0, NULL);
    CHECK_EQUAL(1, first_uses);
    CHECK_OK(tarn_torch_resource(0, &found));
    CHECK_TEXT("pool", tarn_resource_name(found));
    CHECK_OK(tarn_device_resource(0, &current));
    CHECK(current == found);
    tarn_torch_deallocate(block, 100, 0, NULL);
    CHECK_OK(tarn_torch_set_resource(0, NULL));
    CHECK_OK(tarn_device_set_resource(0, NULL, NULL));
    CHECK_OK(tarn_resource_release(current));
    CHECK_OK(tarn_resource_release(found));
    tarn_torch_set_first_use(NULL);
    CHECK_OK(tarn_torch_reset_totals(0));
}

static void *allocate_first(void *out)
{
    *(void **)out = tarn_torch_allocate(100, 0, NULL);
    return NULL;
}

/* The first allocations of several threads. */
TEST(torch_makes_one_pool_for_threads_that_begin_at_once)
{
    enum { THREADS = 4, TURNS = 20 };
    tarn_resource *found, *current;

    use_driver(0);
    for (int turn = 0; turn < TURNS; turn++) {
        pthread_t threads[THREADS];
        void *blocks[THREADS];
        for (int i = 0; i < THREADS; i++)
            CHECK_EQUAL(0, pthread_create(&threads[i], NULL, allocate_first, &blocks[i]));
        for (int i = 0; i < THREADS; i++)
            pthread_join(threads[i], NULL);
        CHECK_OK(tarn_torch_resource(0, &found));
        CHECK_OK(tarn_device_resource(0, &current));
        CHECK(current == found);
        CHECK_EQUAL(THREADS, statistics(found).live_blocks);
        for (int i = 0; i < THREADS; i++)
            tarn_torch_deallocate(blocks[i], 100, 0, NULL);
        CHECK_OK(tarn_torch_set_resource(0, NULL));
        CHECK_OK(tarn_device_set_resource(0, NULL, NULL));
        CHECK_OK(tarn_resource_release(current));
        CHECK_OK(tarn_resource_release(found));
    }
    CHECK_OK(tarn_torch_reset_totals(0));
}

TEST(torch_takes_the_current_resource_and_the_pool_beneath_it)
{
    tarn_resource *limiter, *found;

    use_driver(0);
    tarn_resource *pool = new_pool(NULL);
    CHECK_OK(tarn_limiter_create(pool, 1 << 30, &limiter));
    CHECK_OK(tarn_device_set_resource(0, limiter, NULL));
    void *block = tarn_torch_allocate(100, 0, NULL);
    CHECK_OK(tarn_torch_resource(0, &found));
    CHECK(found == limiter);
    tarn_torch_set_memory_fraction(0.5, 0);
    CHECK(statistics(pool).maximum < UINT64_MAX);
    tarn_torch_deallocate(block, 100, 0, NULL);
    CHECK_OK(tarn_torch_set_resource(0, NULL));
    CHECK_OK(tarn_device_set_resource(0, NULL, NULL));
    CHECK_OK(tarn_resource_release(found));
    CHECK_OK(tarn_resource_release(limiter));
    end_pool(pool);
    CHECK_OK(tarn_torch_reset_totals(0));
}

TEST(torch_empties_the_cache_of_its_pool)
{
    tarn_resource *pool = serve(0);

    tarn_torch_deallocate(tarn_torch_allocate(50 * MIB, 0, NULL), 50 * MIB, 0, NULL);
    CHECK(statistics(pool).reserved >= 50 * MIB);
    tarn_torch_empty_cache();
    CHECK_EQUAL(0, statistics(pool).reserved);
    end_service(pool);
}

TEST(torch_rejects_statistics_of_a_device_that_does_not_exist)
{
    tarn_torch_statistics all = {.size = sizeof all};

    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_torch_get_statistics(99, &all));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_torch_get_statistics(0, NULL));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_torch_reset_peaks(-1));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_torch_reset_totals(99));
}

/* Threads allocate, record and free at once. */
static void *come_and_go(void *data)
{
    tarn_stream *streams = data;

    for (int i = 0; i < 500; i++) {
        size_t bytes = (size_t)(1 + i % 7) << (8 + i % 5);
        void *block = tarn_torch_allocate(bytes, 0, streams[0]);
        if (i % 3 == 0)
            tarn_torch_record_stream(block, streams[1]);
        tarn_torch_deallocate(block, bytes, 0, streams[0]);
    }
    return NULL;
}

TEST(torch_serves_threads_and_gets_everything_back)
{
    tarn_resource *pool = serve(0);
    pthread_t threads[4];
    tarn_stream streams[5];

    for (int i = 0; i < 5; i++)
        streams[i] = new_stream();
    for (int i = 0; i < 4; i++)
        CHECK_EQUAL(0, pthread_create(&threads[i], NULL, come_and_go, &streams[i]));
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    CU(cuCtxSynchronize());
    for (int i = 0; i < 1000 && active_bytes() > 0; i++)
        tarn_torch_deallocate(tarn_torch_allocate(100, 0, NULL), 100, 0, NULL);
    CHECK_EQUAL(0, active_bytes());
    CHECK_EQUAL(0, statistics(pool).live_blocks);
    tarn_torch_statistics all = counts();
    CHECK(all.allocations[TARN_TORCH_ALL].allocated >= 2000);
    CHECK_EQUAL(all.allocated_bytes[TARN_TORCH_ALL].allocated,
                all.allocated_bytes[TARN_TORCH_ALL].freed);
    end_service(pool);
    for (int i = 0; i < 5; i++)
        CU(cuStreamDestroy_v2(streams[i]));
}
