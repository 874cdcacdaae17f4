/* Test a pool's options, misuse that it detects, callbacks, limits, and destroyed
 * streams. */
#include "pools.h"
#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>

static tarn_status make(const tarn_pool_options *options, tarn_resource **out)
{
    return tarn_pool_create(0, NULL, options, out);
}

TEST(invalid_options_are_rejected)
{
    tarn_resource *pool = NULL, *upstream;
    tarn_pool_options bad[] = {
        {.size = sizeof bad[0], .oom_policy = 2},
        {.size = sizeof bad[0], .suspended_policy = 7},
        {.size = sizeof bad[0], .initial_bytes = 4 * MIB, .maximum_bytes = 2 * MIB},
        {.size = 4},
    };

    use_driver(0);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK_STATUS(TARN_INVALID_ARGUMENT, make(&bad[i], &pool));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_pool_create(99, NULL, NULL, &pool));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_pool_create(0, NULL, NULL, NULL));
    if (has_second_device()) {
        CHECK_OK(tarn_cuda_create(1, &upstream));
        CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_pool_create(0, upstream, NULL, &pool));
        CHECK_MESSAGE("device 1");
        CHECK_OK(tarn_resource_release(upstream));
    }
    CHECK(pool == NULL);
}

TEST(pool_has_its_initial_bytes_or_is_not_created)
{
    tarn_pool_options options = {.size = sizeof options};
    tarn_resource *pool = NULL;
    size_t too_much[] = {SIZE_MAX, SIZE_MAX - 511, ((size_t)1 << 41) + 512,
                         (size_t)1 << 50};

    use_driver(0);
    for (size_t i = 0; i < sizeof too_much / sizeof *too_much; i++) {
        options.initial_bytes = too_much[i];
        CHECK_STATUS(TARN_OUT_OF_MEMORY, make(&options, &pool));
    }
    CHECK(pool == NULL);
    for (options.initial_bytes = 1; options.initial_bytes < 5 * MIB;
         options.initial_bytes = 2 * options.initial_bytes + 1) {
        CHECK_OK(make(&options, &pool));
        CHECK(statistics(pool).reserved >= options.initial_bytes);
        adds_up(pool);
        end_pool(pool);
    }
}

TEST(requests_larger_than_any_device_change_nothing)
{
    use_driver(0);
    tarn_resource *pool = new_pool(NULL);
    size_t sizes[] = {SIZE_MAX,     SIZE_MAX - 1, SIZE_MAX - 255,  SIZE_MAX - 511,
                      SIZE_MAX / 2, SIZE_MAX / 4, (size_t)1 << 48, (size_t)1 << 40};
    tarn_device_ptr block = 77;

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (size_t alignment = 256; alignment <= 2 * MIB; alignment *= 2) {
            CHECK_STATUS(TARN_OUT_OF_MEMORY,
                         tarn_resource_allocate(pool, sizes[i], alignment, NULL, &block));
            CHECK_EQUAL(77, block);
        }
    CHECK_EQUAL(0, statistics(pool).reserved);
    CHECK_OK(tarn_resource_allocate(pool, 0, 0, NULL, &block));
    CHECK_EQUAL(0, block);
    CHECK_OK(tarn_resource_deallocate(pool, block, 0, 0, NULL));
    for (size_t alignment = 1; alignment <= 2 * MIB; alignment *= 2) {
        CHECK_OK(tarn_resource_allocate(pool, 700, alignment, NULL, &block));
        CHECK_EQUAL(0, block % alignment);
        CHECK_OK(tarn_resource_deallocate(pool, block, 700, alignment, NULL));
    }
    adds_up(pool);
    end_pool(pool);
}

TEST(wrong_frees_are_rejected_and_change_nothing)
{
    use_driver(0);
    tarn_resource *pool = new_pool(NULL), *other = new_pool(NULL);

    for (size_t bytes = 512; bytes <= 40 * MIB; bytes *= 16) {
        tarn_device_ptr block = take(pool, bytes, NULL);
        CHECK_STATUS(TARN_INVALID_ARGUMENT,
                     tarn_resource_deallocate(pool, block, bytes + 1, 0, NULL));
        CHECK_STATUS(TARN_INVALID_ARGUMENT,
                     tarn_resource_deallocate(pool, block, bytes, 512, NULL));
        CHECK_STATUS(TARN_INVALID_ARGUMENT,
                     tarn_resource_deallocate(pool, block + 256, bytes, 0, NULL));
        CHECK_STATUS(TARN_INVALID_ARGUMENT,
                     tarn_resource_deallocate(other, block, bytes, 0, NULL));
        CHECK_STATUS(TARN_INVALID_ARGUMENT,
                     tarn_resource_deallocate(pool, UINT64_MAX - 511, bytes, 0, NULL));
        CHECK_EQUAL(1, statistics(pool).live_blocks);
        put(pool, block, bytes, NULL);
        CHECK_STATUS(TARN_INVALID_ARGUMENT,
                     tarn_resource_deallocate(pool, block, bytes, 0, NULL));
        CHECK_EQUAL(0, statistics(pool).live_blocks);
        adds_up(pool);
    }
    end_pool(other);
    end_pool(pool);
}

static void is_rejected(tarn_resource *pool, tarn_stream wrong, tarn_stream right)
{
    tarn_device_ptr block = 77;

    CHECK_STATUS(TARN_INVALID_ARGUMENT,
                 tarn_resource_allocate(pool, MIB, 0, wrong, &block));
    CHECK_EQUAL(77, block);
    block = take(pool, MIB, right);
    CHECK_STATUS(TARN_INVALID_ARGUMENT,
                 tarn_resource_deallocate(pool, block, MIB, 0, wrong));
    put(pool, block, MIB, right);
}

TEST(streams_that_are_unregistered_or_of_another_device_are_rejected)
{
    use_driver(0);
    tarn_resource *pool = new_pool(NULL);
    tarn_stream stream = new_stream(), opened, foreign;

    CHECK_OK(tarn_stream_register(0, stream, &opened));
    put(pool, take(pool, MIB, opened), MIB, opened);
    CHECK_OK(tarn_stream_unregister(opened));
    is_rejected(pool, opened, stream);
    if (has_second_device()) {
        CHECK_OK(tarn_stream_create(1, true, &foreign));
        is_rejected(pool, foreign, stream);
        CHECK_OK(tarn_stream_destroy(1, foreign));
    }
    CU(cuStreamDestroy_v2(stream));
    adds_up(pool);
    end_pool(pool);
}

TEST(maximum_below_the_live_bytes_is_rejected_and_idle_memory_over_it_is_returned)
{
    use_driver(0);
    tarn_resource *pool = new_pool(NULL);
    tarn_device_ptr blocks[16];

    for (int i = 0; i < 16; i++)
        blocks[i] = take(pool, 2 * MIB, NULL);
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_pool_set_maximum(pool, 32 * MIB - 1));
    CHECK_EQUAL(UINT64_MAX, statistics(pool).maximum);
    for (int i = 0; i < 16; i++)
        put(pool, blocks[i], 2 * MIB, NULL);
    CHECK_OK(tarn_pool_set_maximum(pool, 20 * MIB));
    CHECK(statistics(pool).reserved <= 20 * MIB);
    CHECK(is_refused(pool, 21 * MIB, NULL));
    put(pool, take(pool, 20 * MIB, NULL), 20 * MIB, NULL);
    CHECK_OK(tarn_pool_set_maximum(pool, 0));
    put(pool, take(pool, 64 * MIB, NULL), 64 * MIB, NULL);
    adds_up(pool);
    end_pool(pool);
}

TEST(memory_over_a_lowered_maximum_is_returned_once_it_is_idle)
{
    use_driver(0);
    tarn_resource *pool = new_pool(NULL);
    tarn_device_ptr large = take(pool, 30 * MIB, NULL), last = take(pool, 4 * MIB, NULL);

    put(pool, take(pool, 100 * MIB, NULL), 100 * MIB, NULL);
    put(pool, take(pool, 30 * MIB, NULL), 30 * MIB, NULL);
    CHECK_OK(tarn_pool_set_maximum(pool, 40 * MIB));
    put(pool, large, 30 * MIB, NULL);
    CHECK_OK(tarn_driver_synchronize(0));
    put(pool, take(pool, 3 * MIB, TARN_STREAM_NONE), 3 * MIB, NULL);
    CHECK(is_refused(pool, 64 * MIB, NULL)); /* the pool queries fences */
    put(pool, last, 4 * MIB, NULL);
    put(pool, take(pool, 20 * MIB, NULL), 20 * MIB, NULL);
    CHECK(statistics(pool).reserved <= 40 * MIB);
    adds_up(pool);
    end_pool(pool);
}

TEST(request_larger_than_the_device_fails_without_a_call_that_maps_memory)
{
    use_driver(0);
    tarn_resource *pool = new_pool(NULL);
    tarn_device_ptr block = take(pool, 2 * MIB, NULL);
    size_t reserved = statistics(pool).reserved;
    unsigned long long calls = on_sim() ? sim_calls() : 0;

    CHECK(is_refused(pool, (size_t)400 << 30, NULL));
    CHECK(strstr(tarn_error_last()->message, "429496729600 bytes more are over the "
                                             "device's memory"));
    if (on_sim()) /* mapping all memory of the device takes longer */
        CHECK(sim_calls() - calls < 50);
    CHECK_EQUAL(reserved, statistics(pool).reserved);
    put(pool, block, 2 * MIB, NULL);
    end_pool(pool);
}

TEST(trim_keeps_the_requested_bytes_and_not_much_more)
{
    use_driver(0);
    tarn_resource *pool = new_pool(NULL);
    tarn_device_ptr blocks[32];
    size_t released = 0;

    for (int i = 0; i < 32; i++)
        blocks[i] = take(pool, 2 * MIB, NULL);
    for (int i = 0; i < 32; i++)
        put(pool, blocks[i], 2 * MIB, TARN_STREAM_NONE);
    CHECK(is_refused(pool, (size_t)400 << 30, NULL)); /* waits for the device */
    CHECK_OK(tarn_resource_trim(pool, 0, &released));
    CHECK_EQUAL(0, statistics(pool).reserved);
    tarn_pool_options options = {.size = sizeof options, .growth_bytes = 2 * MIB};
    tarn_resource *small = new_pool(&options);
    for (int i = 0; i < 32; i++)
        blocks[i] = take(small, 2 * MIB, NULL);
    for (int i = 0; i < 32; i++)
        put(small, blocks[i], 2 * MIB, TARN_STREAM_NONE);
    CHECK(is_refused(small, (size_t)400 << 30, NULL));
    CHECK_OK(tarn_resource_trim(small, 50 * MIB, &released));
    CHECK_EQUAL(14 * MIB, released);
    CHECK_EQUAL(50 * MIB, statistics(small).reserved);
    adds_up(small);
    end_pool(small);
    end_pool(pool);
}

TEST(pool_over_host_memory_reports_no_more_free_than_total_bytes)
{
    tarn_resource *upstream, *pool;
    size_t free_bytes = 0, total_bytes = 0;

    use_driver(0);
    CHECK_OK(tarn_pinned_create(0, &upstream));
    CHECK_OK(tarn_pool_create(0, upstream, NULL, &pool));
    CHECK_OK(tarn_resource_release(upstream));
    put(pool, take(pool, 64 * MIB, NULL), 64 * MIB, NULL);
    CHECK_OK(tarn_resource_memory_info(pool, NULL, &free_bytes, &total_bytes));
    CHECK(free_bytes <= total_bytes);
    end_pool(pool);
}

/* --- destroyed streams --- */

TEST(states_of_destroyed_streams_are_deleted_and_their_memory_is_reused)
{
    use_driver(0);
    tarn_resource *pool = new_pool(NULL);

    for (int i = 0; i < 1000; i++) {
        tarn_stream stream = new_stream();
        tarn_device_ptr one = take(pool, 20 * MIB, stream);
        put(pool, one, 20 * MIB, stream);
        put(pool, take(pool, 4 * KIB, stream), 4 * KIB, stream);
        CU(cuStreamDestroy_v2(stream));
    }
    adds_up(pool);
    CHECK(statistics(pool).streams <= 100);
    CHECK(statistics(pool).reserved <= 256 * MIB);
    end_pool(pool);
}

TEST(memory_freed_without_a_stream_waits_for_the_device_and_does_not_accumulate)
{
    use_driver(0);
    tarn_resource *pool = new_pool(NULL);

    for (int i = 0; i < 1000; i++)
        put(pool, take(pool, 3 * MIB, TARN_STREAM_NONE), 3 * MIB, TARN_STREAM_NONE);
    CHECK(statistics(pool).reserved <= 128 * MIB);
    CHECK(statistics(pool).device_synchronizations <= 1000 / 16);
    adds_up(pool);
    end_pool(pool);
}

/* --- callbacks --- */

struct help {
    tarn_device_ptr block;
    unsigned calls;
    bool recurses, once;
};

static bool free_one(void *data, tarn_resource *pool, size_t bytes, unsigned attempt)
{
    struct help *help = data;

    (void)attempt;
    help->calls++;
    if (help->recurses)
        CHECK(is_refused(pool, bytes, NULL));
    if (help->once)
        CHECK_OK(tarn_pool_remove_oom_callback(pool, free_one, help));
    if (!help->block)
        return false;
    put(pool, help->block, 3 * MIB, NULL);
    help->block = 0;
    return true;
}

TEST(callbacks_are_called_may_use_the_pool_and_may_remove_themselves)
{
    use_driver(0);
    tarn_resource *pool = strict_pool(4 * MIB);
    struct help first = {.recurses = true, .once = true}, second = {.recurses = true};
    tarn_pool_oom_report report = {.size = sizeof report};

    second.block = take(pool, 3 * MIB, NULL);
    CHECK_OK(tarn_pool_add_oom_callback(pool, free_one, &first));
    CHECK_OK(tarn_pool_add_oom_callback(pool, free_one, &second));
    tarn_device_ptr block = take(pool, 3 * MIB, NULL);
    CHECK_EQUAL(1, first.calls);
    CHECK_EQUAL(1, second.calls);
    CHECK_STATUS(TARN_NOT_FOUND, tarn_pool_remove_oom_callback(pool, free_one, &first));
    CHECK(is_refused(pool, 3 * MIB, NULL));
    CHECK_EQUAL(2, second.calls);
    CHECK_OK(tarn_pool_last_oom_report(&report));
    CHECK_EQUAL(3 * MIB, report.requested);
    put(pool, block, 3 * MIB, NULL);
    for (int i = 1; i < 8; i++)
        CHECK_OK(tarn_pool_add_oom_callback(pool, free_one, &first));
    CHECK_STATUS(TARN_LIMIT_REACHED, tarn_pool_add_oom_callback(pool, free_one, &first));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_pool_add_oom_callback(pool, NULL, NULL));
    end_pool(pool);
}

static bool suspend(void *data, tarn_resource *pool, size_t bytes, unsigned attempt)
{
    (void)data, (void)bytes;
    return attempt == 0 && tarn_pool_suspend(pool, TARN_POOL_SUSPEND_DISCARD) == TARN_OK;
}

/* An upstream that uses the pool over it, and the result of that. */
static struct {
    tarn_resource *cuda, *pool;
    tarn_device_ptr live; /* of the pool, to be freed */
    bool is_inside;
    tarn_status allocate, trim, limit, free;
} circle;

static tarn_status circle_allocate(void *self, size_t bytes, size_t alignment,
                                   tarn_stream stream, tarn_device_ptr *out)
{
    tarn_device_ptr block;

    (void)self;
    if (circle.live && !circle.is_inside) {
        circle.is_inside = true;
        circle.allocate = tarn_resource_allocate(circle.pool, 4 * MIB, 0, NULL, &block);
        CHECK_MESSAGE(
            "the upstream of the pool of device 0 called the pool while it was growing");
        circle.trim = tarn_resource_trim(circle.pool, 0, NULL);
        circle.limit = tarn_pool_set_maximum(circle.pool, 100 * MIB);
        circle.free = tarn_resource_deallocate(circle.pool, circle.live, 1000, 0, NULL);
        circle.is_inside = false;
        circle.live = 0;
    }
    return tarn_resource_allocate(circle.cuda, bytes, alignment, stream, out);
}

static tarn_status circle_deallocate(void *self, tarn_device_ptr block, size_t bytes,
                                     size_t alignment, tarn_stream stream)
{
    (void)self;
    return tarn_resource_deallocate(circle.cuda, block, bytes, alignment, stream);
}

static void circle_destroy(void *self)
{
    (void)self;
}

TEST(upstream_that_calls_the_pool_over_it_gets_an_error_but_may_free)
{
    static const tarn_resource_ops ops = {.size = sizeof ops,
                                          .name = "circle",
                                          .allocate = circle_allocate,
                                          .deallocate = circle_deallocate,
                                          .destroy = circle_destroy};
    tarn_pool_statistics statistics = {.size = sizeof statistics};
    tarn_resource *upstream;
    tarn_device_ptr live, large;

    use_driver(0);
    alarm(60); /* ends a test that hangs */
    CHECK_OK(tarn_cuda_create(0, &circle.cuda));
    CHECK_OK(tarn_resource_create(&ops, NULL, 0, &upstream));
    CHECK_OK(tarn_pool_create(0, upstream, NULL, &circle.pool));
    CHECK_OK(tarn_resource_allocate(circle.pool, 1000, 0, NULL, &live));
    circle.live = live;
    CHECK_OK(tarn_resource_allocate(circle.pool, 500 * MIB, 0, NULL, &large));
    CHECK_EQUAL(TARN_OUT_OF_MEMORY, circle.allocate);
    CHECK_EQUAL(TARN_REENTRANT_CALL, circle.trim);
    CHECK_EQUAL(TARN_REENTRANT_CALL, circle.limit);
    CHECK_EQUAL(TARN_OK, circle.free);
    CHECK_OK(tarn_pool_get_statistics(circle.pool, &statistics));
    CHECK(statistics.maximum == UINT64_MAX);
    CHECK_OK(tarn_resource_deallocate(circle.pool, large, 500 * MIB, 0, NULL));
    CHECK_OK(tarn_resource_trim(circle.pool, 0, NULL));
    CHECK_OK(tarn_resource_release(circle.pool));
    CHECK_OK(tarn_resource_release(upstream));
    CHECK_OK(tarn_resource_release(circle.cuda));
    alarm(0);
}

TEST(pool_that_is_suspended_during_a_search_allocates_nothing)
{
    use_driver(0);
    tarn_resource *pool = strict_pool(2 * MIB);
    tarn_stream stream = new_stream();
    tarn_device_ptr block = 77;

    /* Too little for an event fence: no other stream can use it before a wait. */
    put(pool, take(pool, 2 * MIB, stream), 2 * MIB, stream);
    CHECK_OK(tarn_pool_add_oom_callback(pool, suspend, NULL));
    CHECK(tarn_resource_allocate(pool, 2 * MIB, 0, NULL, &block) != TARN_OK);
    CHECK_EQUAL(77, block);
    CHECK_EQUAL(statistics(pool).reserved, statistics(pool).suspended);
    CHECK_OK(tarn_pool_resume(pool));
    put(pool, take(pool, 2 * MIB, NULL), 2 * MIB, NULL);
    CU(cuStreamDestroy_v2(stream));
    end_pool(pool);
}

TEST(suspended_pool_accepts_frees_and_fails_allocations_or_resumes)
{
    use_driver(0);
    tarn_resource *pool = new_pool(NULL);
    tarn_device_ptr kept = take(pool, MIB, NULL), freed = take(pool, 64 * KIB, NULL);
    tarn_device_ptr block = 77;
    uint64_t before = 0, after = 0;
    unsigned char bytes[2] = {0};
    size_t released = 77;

    CU(cuMemsetD8_v2(kept, 42, MIB));
    CHECK_OK(tarn_pool_generation(pool, &before));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_pool_suspend(pool, 2));
    CHECK_OK(tarn_pool_suspend(pool, TARN_POOL_SUSPEND_KEEP));
    CHECK_OK(tarn_pool_suspend(pool, TARN_POOL_SUSPEND_KEEP));
    CHECK_OK(tarn_pool_generation(pool, &after));
    CHECK_EQUAL(before + 1, after);
    CHECK_STATUS(TARN_SUSPENDED, tarn_resource_allocate(pool, 512, 0, NULL, &block));
    CHECK_EQUAL(77, block);
    put(pool, freed, 64 * KIB, NULL);
    CHECK_STATUS(TARN_INVALID_ARGUMENT,
                 tarn_resource_deallocate(pool, freed, 64 * KIB, 0, NULL));
    CHECK_OK(tarn_resource_trim(pool, 0, &released));
    CHECK_OK(tarn_pool_set_maximum(pool, 8 * MIB));
    CHECK_EQUAL(statistics(pool).reserved, statistics(pool).suspended);
    adds_up(pool);
    CHECK_OK(tarn_pool_resume(pool));
    CHECK_OK(tarn_pool_resume(pool));
    CU(cuMemcpyDtoH_v2(bytes, kept, 1));
    CU(cuMemcpyDtoH_v2(bytes + 1, kept + MIB - 1, 1));
    CHECK(bytes[0] == 42 && bytes[1] == 42);
    put(pool, kept, MIB, NULL);
    CHECK_OK(tarn_pool_suspend(pool, TARN_POOL_SUSPEND_DISCARD));
    end_pool(pool); /* suspended */

    tarn_pool_options options = {.size = sizeof options,
                                 .suspended_policy = TARN_POOL_SUSPENDED_RESUME};
    pool = new_pool(&options);
    put(pool, take(pool, 64 * KIB, NULL), 64 * KIB, NULL);
    CHECK_OK(tarn_pool_suspend(pool, TARN_POOL_SUSPEND_DISCARD));
    put(pool, take(pool, 64 * KIB, NULL), 64 * KIB, NULL);
    CHECK_EQUAL(0, statistics(pool).suspended);
    end_pool(pool);
}

struct walk {
    tarn_device_ptr end;
    uint64_t bytes[TARN_POOL_IN_TRANSIT + 1];
};

static bool walk(void *data, const tarn_pool_block *block)
{
    struct walk *walk = data;

    CHECK(block->address >= walk->end && block->segment <= block->address);
    CHECK(block->state <= TARN_POOL_IN_TRANSIT && block->bytes > 0);
    walk->end = block->address + block->bytes;
    walk->bytes[block->state] += block->bytes;
    return true;
}

TEST(snapshot_has_every_byte_once)
{
    use_driver(0);
    tarn_resource *pool = new_pool(NULL);
    tarn_stream stream = new_stream();
    tarn_device_ptr blocks[20];
    struct walk seen = {0};

    for (size_t i = 0; i < 20; i++)
        blocks[i] = take(pool, 1000 + i * 70 * KIB, i & 1 ? stream : NULL);
    for (size_t i = 0; i < 20; i += 3)
        put(pool, blocks[i], 1000 + i * 70 * KIB, i & 2 ? stream : NULL);
    CHECK_OK(tarn_pool_snapshot(pool, walk, &seen));
    tarn_pool_statistics all = statistics(pool);
    CHECK_EQUAL(all.live, seen.bytes[TARN_POOL_LIVE]);
    CHECK_EQUAL(all.thread_cached, seen.bytes[TARN_POOL_THREAD_CACHED]);
    CHECK_EQUAL(all.cached, seen.bytes[TARN_POOL_COMPLETED] +
                                seen.bytes[TARN_POOL_FENCED] +
                                seen.bytes[TARN_POOL_UNFENCED]);
    CHECK_EQUAL(all.unfenced, seen.bytes[TARN_POOL_UNFENCED]);
    CHECK_EQUAL(0, seen.bytes[TARN_POOL_IN_TRANSIT]);
    for (size_t i = 0; i < 20; i++)
        if (i % 3)
            put(pool, blocks[i], 1000 + i * 70 * KIB, stream);
    adds_up(pool);
    end_pool(pool);
    CU(cuStreamDestroy_v2(stream));
}

/* --- several threads --- */

enum { THREADS = 8 };

struct worker {
    tarn_resource *pool;
    tarn_stream stream;
};

static void *fill_caches(void *data)
{
    struct worker *worker = data;
    tarn_device_ptr blocks[64], block;

    if (tarn_resource_allocate(worker->pool, 3 * MIB, 0, worker->stream, &block) !=
            TARN_OK ||
        tarn_resource_deallocate(worker->pool, block, 3 * MIB, 0, worker->stream) !=
            TARN_OK)
        abort();
    for (int round = 0; round < 20; round++) {
        for (size_t i = 0; i < 64; i++)
            if (tarn_resource_allocate(worker->pool, 8 * KIB, 0, worker->stream,
                                       &blocks[i]) != TARN_OK)
                abort();
        for (size_t i = 0; i < 64; i++)
            if (tarn_resource_deallocate(worker->pool, blocks[i], 8 * KIB, 0,
                                         worker->stream) != TARN_OK)
                abort();
        tarn_pool_statistics all = {.size = sizeof all};
        if (tarn_pool_get_statistics(worker->pool, &all) != TARN_OK ||
            /* the grants, and a block in each last-freed slot */
            all.thread_cached > THREADS * (256 + 8) * KIB)
            abort();
    }
    return NULL;
}

TEST(threads_cache_little_and_return_it_when_they_end)
{
    use_driver(0);
    tarn_resource *pool = new_pool(NULL);
    struct worker workers[THREADS];
    pthread_t threads[THREADS];

    for (int i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){pool, new_stream()};
        CHECK_EQUAL(0, pthread_create(&threads[i], NULL, fill_caches, &workers[i]));
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    CHECK_EQUAL(0, statistics(pool).thread_cached);
    CHECK(statistics(pool).cache_hits > 0);
    adds_up(pool);
    end_pool(pool);
    for (int i = 0; i < THREADS; i++)
        CU(cuStreamDestroy_v2(workers[i].stream));
}

/* --- little memory in many pieces --- */

TEST(fragmented_pool_with_a_maximum_serves_a_block_of_moved_and_new_pages)
{
    use_driver(0);
    tarn_resource *pool = strict_pool(36 * MIB);
    tarn_device_ptr blocks[16];

    for (int i = 0; i < 16; i++)
        blocks[i] = take(pool, 2 * MIB, NULL);
    for (int i = 0; i < 16; i += 2)
        put(pool, blocks[i], 2 * MIB, NULL);
    put(pool, take(pool, 16 * MIB, NULL), 16 * MIB, NULL);
    put(pool, take(pool, 20 * MIB, NULL), 20 * MIB, NULL); /* 16 moved, 4 new */
    adds_up(pool);
    for (int i = 1; i < 16; i += 2)
        put(pool, blocks[i], 2 * MIB, NULL);
    end_pool(pool);
}

/* --- a block that several threads know --- */

enum { FREERS = 2, CONTESTS = 300 };

static struct contest {
    tarn_resource *pool;
    pthread_barrier_t turn;
    tarn_device_ptr block;
    size_t bytes;
    tarn_stream stream; /* none: it goes into the heap at once */
    atomic_int freed, ready;
} contest;

/* The block is live, or is free by now. */
static void query_bytes(void)
{
    size_t bytes = 77;
    tarn_status status =
        tarn_resource_requested_bytes(contest.pool, contest.block, &bytes);

    CHECK_EQUAL(status == TARN_OK ? contest.bytes : 77, bytes);
    CHECK(status == TARN_OK || status == TARN_INVALID_ARGUMENT);
}

static void *free_block(void *unused)
{
    (void)unused;
    for (int i = 0; i < CONTESTS; i++) {
        pthread_barrier_wait(&contest.turn);
        atomic_fetch_add(&contest.ready, 1);
        while (atomic_load(&contest.ready) < FREERS) /* both are running now */
            sched_yield();
        query_bytes();
        tarn_status status = tarn_resource_deallocate(contest.pool, contest.block,
                                                      contest.bytes, 0, contest.stream);
        CHECK(status == TARN_OK || status == TARN_INVALID_ARGUMENT);
        atomic_fetch_add(&contest.freed, status == TARN_OK);
        pthread_barrier_wait(&contest.turn);
    }
    return NULL;
}

TEST(block_that_two_threads_free_is_freed_once)
{
    pthread_t threads[FREERS];

    use_driver(0);
    contest.pool = strict_pool(32 * MIB);
    CHECK_EQUAL(0, pthread_barrier_init(&contest.turn, NULL, FREERS + 1));
    for (int i = 0; i < FREERS; i++)
        CHECK_EQUAL(0, pthread_create(&threads[i], NULL, free_block, NULL));
    for (int i = 0; i < CONTESTS; i++) {
        contest.bytes = i % 3 == 0 ? 1000 : i % 3 == 1 ? 100 * KIB : 3 * MIB;
        contest.stream = i % 2 ? NULL : TARN_STREAM_NONE;
        /* Between two live blocks, so that it does not coalesce with free neighbours. */
        tarn_device_ptr before = take(contest.pool, contest.bytes, NULL);
        contest.block = take(contest.pool, contest.bytes, NULL);
        tarn_device_ptr after = take(contest.pool, contest.bytes, NULL);
        atomic_store(&contest.freed, 0);
        atomic_store(&contest.ready, 0);
        pthread_barrier_wait(&contest.turn);
        pthread_barrier_wait(&contest.turn);
        put(contest.pool, before, contest.bytes, NULL);
        put(contest.pool, after, contest.bytes, NULL);
        CHECK_EQUAL(1, atomic_load(&contest.freed));
    }
    for (int i = 0; i < FREERS; i++)
        CHECK_EQUAL(0, pthread_join(threads[i], NULL));
    CHECK_EQUAL(0, statistics(contest.pool).live_blocks);
    adds_up(contest.pool);
    pthread_barrier_destroy(&contest.turn);
    end_pool(contest.pool);
}
