/* What a pool's options do, each seen by what it changes; and options that are unknown. */
#include "pool/order/fence.h"
#include "field.h"
#include "driver/driver.h"

#define TIB ((size_t)1 << 40)

static tarn_status make(const tarn_pool_options *options, tarn_resource **out)
{
    return tarn_pool_create(0, NULL, options, out);
}

/* A program that was built with a later version, and requests an option that this version
 * lacks. */
TEST(option_of_a_later_version_is_refused_where_it_is_set)
{
    struct {
        tarn_pool_options known;
        uint64_t later;
    } options = {.known.size = sizeof options};
    tarn_resource *pool = NULL;

    use_driver(0);
    CHECK_OK(make(&options.known, &pool));
    end_pool(pool);
    pool = NULL;
    options.later = 1;
    CHECK_STATUS(TARN_INVALID_ARGUMENT, make(&options.known, &pool));
    CHECK_MESSAGE("that this libtarn knows");
    options.known.size = (size_t)1 << 40; /* never set: no code reads that far */
    CHECK_STATUS(TARN_INVALID_ARGUMENT, make(&options.known, &pool));
    options.known.size = SIZE_MAX;
    CHECK_STATUS(TARN_INVALID_ARGUMENT, make(&options.known, &pool));
    CHECK(pool == NULL);
}

/* A pool with this maximum, which need not be a multiple of the handle size. */
TEST(pool_that_has_its_maximum_from_the_start_has_the_whole_pages_of_it)
{
    static const size_t sizes[] = {1000000000, 5 * MIB, 4 * MIB, 2 * MIB + 1, 2 * MIB};
    tarn_resource *cuda;

    use_driver(0);
    CHECK_OK(tarn_cuda_create(0, &cuda));
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        tarn_pool_options options = {
            .size = sizeof options, .initial_bytes = sizes[i], .maximum_bytes = sizes[i]};
        for (int k = 0; k < 2; k++) {
            tarn_resource *pool = NULL;
            CHECK_OK(tarn_pool_create(0, k ? cuda : NULL, &options, &pool));
            CHECK_EQUAL(sizes[i] / (2 * MIB) * (2 * MIB), statistics(pool).reserved);
            CHECK_EQUAL(sizes[i], statistics(pool).maximum);
            adds_up(pool);
            end_pool(pool);
        }
    }
    CHECK_OK(tarn_resource_release(cuda));
}

TEST(pool_grows_by_at_least_what_its_options_say)
{
    tarn_pool_options options = {.size = sizeof options, .growth_bytes = 48 * MIB};

    use_driver(0);
    tarn_resource *pool = new_pool(&options);
    put(pool, take(pool, MIB, NULL), MIB, NULL);
    CHECK_EQUAL(48 * MIB, statistics(pool).reserved);
    end_pool(pool);
    pool = new_pool(NULL);
    put(pool, take(pool, MIB, NULL), MIB, NULL);
    CHECK_EQUAL(2 * MIB, statistics(pool).reserved);
    end_pool(pool);
}

TEST(idle_memory_over_the_threshold_goes_back_with_a_free)
{
    tarn_pool_options options = {.size = sizeof options,
                                 .growth_bytes = 2 * MIB,
                                 .release_threshold_bytes = 16 * MIB};
    tarn_device_ptr blocks[16];

    use_driver(0);
    tarn_resource *pool = new_pool(&options);
    for (int i = 0; i < 16; i++)
        blocks[i] = take(pool, 4 * MIB, NULL);
    for (int i = 0; i < 16; i++)
        put(pool, blocks[i], 4 * MIB, NULL);
    CHECK_OK(tarn__fences_wait_for_device(inside(pool)));
    put(pool, take(pool, 100 * KIB, NULL), 100 * KIB, NULL);
    CHECK(statistics(pool).reserved <= 16 * MIB);
    CHECK(statistics(pool).shrinks > 0);
    adds_up(pool);
    end_pool(pool);
}

TEST(what_no_range_has_room_for_is_not_said_to_be_over_a_limit)
{
    tarn_pool_oom_report report = {.size = sizeof report};
    tarn_device_ptr block = 77;

    use_driver(0);
    tarn_resource *pool = new_pool(NULL);
    struct tarn__span range = tarn__pages_range(inside(pool)->pages);
    uint64_t first = (range.address + TIB - 1) / TIB * TIB;
    if (first >= range.address + range.bytes) { /* now and then there is one */
        CHECK_STATUS(TARN_OUT_OF_MEMORY,
                     tarn_resource_allocate(pool, MIB, TIB, NULL, &block));
        CHECK_OK(tarn_pool_last_oom_report(&report));
        CHECK(block == 77 && !strstr(report.upstream_message, "maximum"));
        CHECK_EQUAL(0, statistics(pool).reserved);
    }
    end_pool(pool);
}

/* Another stream's free is behind an event fence that is not completed. Return whether
 * the pool reuses it behind a wait, or grows. */
static void looks_first_to(bool grow_first)
{
    tarn_pool_options options = {.size = sizeof options,
                                 .maximum_bytes = 8 * MIB,
                                 .growth_bytes = 2 * MIB,
                                 .grow_first = grow_first,
                                 .oom_policy = TARN_POOL_OOM_FAIL};
    tarn_resource *pool = new_pool(&options);
    tarn_stream raw = new_stream(), consumer = new_stream(), source;
    struct gate gate;

    CHECK_OK(tarn_stream_register(0, raw, &source));
    tarn_device_ptr first = take(pool, 4 * MIB, source);
    tarn_pool_statistics before = statistics(pool);
    hold_up(raw, &gate);
    give(pool, first, 4 * MIB, source);
    tarn_device_ptr one = take(pool, 4 * MIB, consumer);
    tarn_pool_statistics then = statistics(pool);
    tarn_device_ptr two = take(pool, 4 * MIB, consumer); /* by the other path, at last */
    tarn_pool_statistics after = statistics(pool);
    let_on(&gate);
    CHECK_EQUAL(grow_first, then.grown - before.grown);
    CHECK_EQUAL(!grow_first, then.steals - before.steals);
    CHECK_EQUAL(grow_first ? 8 * MIB : 4 * MIB, then.reserved);
    CHECK_EQUAL(1, after.grown - before.grown);
    CHECK_EQUAL(1, after.steals - before.steals);
    CHECK_EQUAL(8 * MIB, after.reserved);
    put(pool, one, 4 * MIB, consumer);
    put(pool, two, 4 * MIB, consumer);
    CHECK_OK(tarn_stream_unregister(source));
    adds_up(pool);
    end_pool(pool);
    CU(cuStreamDestroy_v2(raw));
    CU(cuStreamDestroy_v2(consumer));
}

TEST(policy_says_whether_the_pool_grows_before_it_waits_for_another_stream)
{
    use_driver(0);
    looks_first_to(false);
    looks_first_to(true);
}

/* --- a device without VMM --- */

enum { HAS_VMM = 102 }; /* CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED */
static CUresult_ (*real_attribute)(int *out, int attribute, CUdevice_ device);

static CUresult_ attribute_of_an_old_device(int *out, int attribute, CUdevice_ device)
{
    CUresult_ result = real_attribute(out, attribute, device);

    if (result == CUDA_SUCCESS_ && attribute == HAS_VMM)
        *out = 0;
    return result;
}

TEST(pool_of_a_device_without_vmm_is_made_of_cuda_memory)
{
    const struct tarn__calls *calls;
    tarn_resource *pool = NULL;
    size_t released = 0;

    use_driver(0);
    CHECK_OK(tarn__driver(&calls));
    struct tarn__calls *table = (struct tarn__calls *)(uintptr_t)calls;
    real_attribute = table->device_get_attribute;
    table->device_get_attribute = attribute_of_an_old_device;
    tarn_status status = make(NULL, &pool);
    table->device_get_attribute = real_attribute;
    CHECK_OK(status);
    tarn_device_ptr one = take(pool, 3 * MIB, NULL), two = take(pool, 100, NULL);
    CHECK(!tarn__pages_is_vmm(inside(pool)->pages));
    CHECK(tarn_resource_supports_no_stream(pool));
    CHECK_STATUS(TARN_NOT_SUPPORTED, tarn_pool_suspend(pool, TARN_POOL_SUSPEND_DISCARD));
    if (has_second_device())
        CHECK_STATUS(TARN_NOT_SUPPORTED, tarn_pool_set_peer_access(pool, 1, true));
    put(pool, one, 3 * MIB, NULL);
    put(pool, two, 100, NULL);
    CHECK_OK(tarn_resource_trim(pool, 0, &released));
    CHECK(released >= 4 * MIB);
    CHECK_EQUAL(0, statistics(pool).reserved);
    end_pool(pool);
}

TEST(pools_of_two_devices_have_nothing_in_common)
{
    tarn_resource *pools[2];
    tarn_device_ptr blocks[2];

    if (!has_second_device())
        skip();
    use_driver(0);
    for (int device = 0; device < 2; device++) {
        CHECK_OK(tarn_pool_create(device, NULL, NULL, &pools[device]));
        blocks[device] = take(pools[device], MIB, TARN_STREAM_DEFAULT);
    }
    for (int device = 0; device < 2; device++) {
        CHECK_STATUS(TARN_INVALID_ARGUMENT,
                     tarn_resource_deallocate(pools[device], blocks[!device], MIB, 0,
                                              TARN_STREAM_DEFAULT));
        CHECK_EQUAL(1, statistics(pools[device]).live_blocks);
    }
    put(pools[1], blocks[1], MIB, TARN_STREAM_DEFAULT);
    CHECK_EQUAL(0, statistics(pools[1]).live_blocks);
    CHECK_EQUAL(1, statistics(pools[0]).live_blocks);
    CHECK_OK(tarn_pool_suspend(pools[1], TARN_POOL_SUSPEND_DISCARD));
    CHECK_EQUAL(0, statistics(pools[0]).suspended);
    put(pools[0], blocks[0], MIB, TARN_STREAM_DEFAULT);
    end_pool(pools[1]);
    end_pool(pools[0]);
}
