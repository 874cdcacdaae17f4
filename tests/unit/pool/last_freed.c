/* Test the extra memory that a pool of one stream reserves.
 *
 * If it is unavailable because of the device, the maximum or the options, the pool uses
 * what it needs and its idle memory.
 */
#include "memory.h"
#include "pools.h"

enum { MANY = 480 };

static tarn_device_ptr blocks[MANY];

/* Blocks of 2 MiB. Two that are not adjacent are freed, and nothing else is idle. */
static tarn_resource *pool_with_two_idle(const tarn_pool_options *options,
                                         tarn_stream stream)
{
    tarn_resource *pool = new_pool(options);
    size_t released = 0;

    for (int i = 0; i < MANY; i++)
        blocks[i] = take(pool, 2 * MIB, stream);
    CHECK_OK(tarn_resource_trim(pool, 0, &released));
    put(pool, blocks[10], 2 * MIB, stream);
    put(pool, blocks[20], 2 * MIB, stream);
    CU(cuStreamSynchronize(stream));
    return pool;
}

static void end_with(tarn_resource *pool, tarn_device_ptr block, size_t bytes,
                     tarn_stream stream)
{
    put(pool, block, bytes, stream);
    for (int i = 0; i < MANY; i++)
        if (i != 10 && i != 20)
            put(pool, blocks[i], 2 * MIB, stream);
    adds_up(pool);
    end_pool(pool);
}

/* Another user has all of the device's memory except this number of pages. */
static void fill_device(struct tarn__pages *other, size_t left)
{
    size_t taken = 0;

    for (size_t step = 256; step > 0; step /= 2)
        while (grow_at(other, taken, step) == TARN_OK)
            taken += step;
    if (left > 0)
        CHECK_OK(tarn__pages_remove(other, span_at(other, taken - left, left)));
}

/* A block of all idle memory plus the pages that the device has left. */
static void take_of_full_device(size_t left)
{
    tarn_pool_options options = {.size = sizeof options,
                                 .oom_policy = TARN_POOL_OOM_FAIL};

    use_driver(0);
    tarn_stream stream = new_stream();
    tarn_resource *pool = pool_with_two_idle(&options, stream);
    struct tarn__pages *other;
    CHECK_OK(tarn__pages_open(0, NULL, 2 * MIB, &other));
    fill_device(other, left);
    uint64_t growths = statistics(pool).growths;
    size_t idle = statistics(pool).cached + statistics(pool).thread_cached;
    size_t bytes = idle + left * PAGE;
    tarn_device_ptr block = take(pool, bytes, stream);
    CHECK_EQUAL(left > 0, statistics(pool).growths - growths);
    CHECK_EQUAL(1, statistics(pool).moves);
    CHECK(is_refused(pool, 4 * MIB, stream));
    end_with(pool, block, bytes, stream);
    tarn__pages_close(other);
    CU(cuStreamDestroy_v2(stream));
}

TEST(pool_moves_what_is_idle_where_the_device_has_no_more)
{
    if (!on_sim())
        skip();
    take_of_full_device(0);
}

TEST(pool_grows_by_what_it_needs_where_the_device_has_no_more)
{
    if (!on_sim())
        skip();
    take_of_full_device(1);
}

/* Return the reserved bytes of a pool with these live bytes and options. */
static size_t reserved_for(size_t bytes, const tarn_pool_options *options)
{
    use_driver(0);
    tarn_stream stream = new_stream();
    tarn_resource *pool = pool_with_two_idle(options, stream);
    tarn_device_ptr block = take(pool, bytes, stream);
    size_t reserved = statistics(pool).reserved, released = 0;

    CHECK_OK(tarn_resource_trim(pool, 0, &released));
    CHECK_EQUAL(reserved - released, statistics(pool).reserved);
    end_with(pool, block, bytes, stream);
    CU(cuStreamDestroy_v2(stream));
    return reserved;
}

TEST(pool_has_nothing_to_spare_over_its_limit_or_beside_the_users_step)
{
    tarn_pool_options options = {.size = sizeof options, .growth_bytes = 2 * MIB};

    if (!on_sim()) /* if handles are larger at the beginning */
        skip();
    CHECK_EQUAL(960 * MIB, reserved_for(4 * MIB, &options));
    options.growth_bytes = 0;
    options.maximum_bytes = 960 * MIB;
    CHECK_EQUAL(960 * MIB, reserved_for(4 * MIB, &options));
    options.maximum_bytes = 962 * MIB;
    CHECK_EQUAL(962 * MIB, reserved_for(6 * MIB, &options));
}

TEST(pool_has_nothing_to_spare_at_the_start_or_over_a_limit_that_came_later)
{
    tarn_pool_options options = {.size = sizeof options, .initial_bytes = 200 * MIB};

    use_driver(0);
    tarn_stream stream = new_stream();
    tarn_resource *pool = new_pool(&options);
    CHECK_EQUAL(200 * MIB, statistics(pool).reserved);
    tarn_device_ptr first = take(pool, 200 * MIB, stream);
    CHECK_EQUAL(200 * MIB, statistics(pool).reserved);
    CHECK_OK(tarn_pool_set_maximum(pool, 204 * MIB));
    tarn_device_ptr second = take(pool, 4 * MIB, stream);
    CHECK_EQUAL(204 * MIB, statistics(pool).reserved);
    put(pool, first, 200 * MIB, stream);
    put(pool, second, 4 * MIB, stream);
    end_pool(pool);
    CU(cuStreamDestroy_v2(stream));
}
