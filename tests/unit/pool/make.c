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

/* --- all of the maximum --- */

static tarn_status make_vmm(tarn_resource **out)
{
    *out = NULL;
    return TARN_OK;
}

static tarn_status make_cuda(tarn_resource **out)
{
    return tarn_cuda_create(0, out);
}

static tarn_status make_pinned(tarn_resource **out)
{
    return tarn_pinned_create(0, out);
}

static tarn_status make_async(tarn_resource **out)
{
    return tarn_async_create(0, NULL, out);
}

static tarn_status (*const upstreams[])(tarn_resource **out) = {make_vmm, make_cuda,
                                                                make_pinned, make_async};
enum { UPSTREAMS = sizeof upstreams / sizeof *upstreams };

/* Allocate all of the maximum in `count` blocks. */
static void hands_out(tarn_resource *upstream, const tarn_pool_options *options,
                      size_t count, tarn_stream stream)
{
    size_t bytes = options->maximum_bytes / count;
    tarn_device_ptr blocks[64];
    tarn_resource *pool = NULL;

    CHECK_OK(tarn_pool_create(0, upstream, options, &pool));
    CHECK(statistics(pool).reserved >= options->initial_bytes);
    CHECK(statistics(pool).reserved <= options->initial_bytes + 2 * MIB);
    for (size_t i = 0; i < count; i++)
        blocks[i] = take(pool, bytes, stream);
    CHECK_EQUAL(options->maximum_bytes, statistics(pool).live);
    CHECK(is_refused(pool, 512, stream));
    for (size_t i = 0; i < count; i++)
        put(pool, blocks[i], bytes, stream);
    adds_up(pool);
    end_pool(pool);
}

/* RMM issues 1664 and 1957. */
TEST(pool_with_any_initial_size_hands_out_all_of_its_maximum)
{
    static const size_t initial[] = {0,        1000192,  1 * MIB,  3 * MIB,  7 * MIB,
                                     10 * MIB, 17 * MIB, 31 * MIB, 33 * MIB, 50 * MIB,
                                     62 * MIB, 63 * MIB, 64 * MIB};
    tarn_pool_options options = {.size = sizeof options, .maximum_bytes = 64 * MIB};
    tarn_stream stream;

    use_driver(0);
    stream = new_stream();
    for (size_t i = 0; i < UPSTREAMS; i++) {
        tarn_resource *upstream;
        CHECK_OK(upstreams[i](&upstream));
        for (size_t k = 0; k < sizeof initial / sizeof *initial; k++) {
            options.initial_bytes = initial[k];
            hands_out(upstream, &options, 8, stream);
            hands_out(upstream, &options, 4, NULL);
            hands_out(upstream, &options, 1, stream);
        }
        if (upstream)
            CHECK_OK(tarn_resource_release(upstream));
    }
    CU(cuStreamDestroy_v2(stream));
}

TEST(pool_over_an_upstream_hands_out_a_maximum_that_is_no_multiple_of_a_page)
{
    static const size_t maxima[] = {4 * KIB, MIB, 3 * MIB, 64 * MIB + 512};
    tarn_pool_options options = {.size = sizeof options};
    tarn_device_ptr block = 77;

    use_driver(0);
    for (size_t i = 1; i < UPSTREAMS; i++) {
        tarn_resource *upstream;
        CHECK_OK(upstreams[i](&upstream));
        for (size_t k = 0; k < sizeof maxima / sizeof *maxima; k++) {
            options.maximum_bytes = maxima[k];
            options.initial_bytes = 0;
            hands_out(upstream, &options, 1, NULL);
        }
        for (size_t k = 0; k < 3; k++) {
            options.maximum_bytes = maxima[k];
            options.initial_bytes = k % 2 ? maxima[k] : 0;
            hands_out(upstream, &options, k == 2 ? 6 : 8, NULL);
        }
        CHECK_OK(tarn_resource_release(upstream));
    }
    options = (tarn_pool_options){.size = sizeof options, .maximum_bytes = MIB};
    tarn_resource *pool = new_pool(&options); /* VMM has whole pages */
    CHECK_STATUS(TARN_OUT_OF_MEMORY, tarn_resource_allocate(pool, 512, 0, NULL, &block));
    CHECK_MESSAGE("exceed the maximum, 0 of 1048576 bytes are reserved");
    end_pool(pool);
}

/* An upstream that cannot serve a request for aligned memory costs an alignment. */
TEST(segment_that_is_not_aligned_is_obtained_once_more_with_the_alignment)
{
    tarn_pool_options options = {.size = sizeof options, .maximum_bytes = 64 * MIB};
    tarn_resource *upstream;
    tarn_device_ptr block;

    use_driver(0);
    for (size_t i = 1; i < UPSTREAMS; i++) {
        tarn_resource *pool = NULL;
        CHECK_OK(upstreams[i](&upstream));
        CHECK_OK(tarn_pool_create(0, upstream, &options, &pool));
        for (size_t alignment = 1024; alignment <= 16 * MIB; alignment *= 2) {
            CHECK_OK(tarn_resource_allocate(pool, 3 * MIB, alignment, NULL, &block));
            CHECK_EQUAL(0, block % alignment);
            CHECK_OK(tarn_resource_deallocate(pool, block, 3 * MIB, alignment, NULL));
            CHECK_OK(tarn_resource_trim(pool, 0, &(size_t){0}));
            CHECK_EQUAL(0, statistics(pool).reserved);
        }
        end_pool(pool);
        CHECK_OK(tarn_resource_release(upstream));
    }
}

/* --- contradictory options --- */

TEST(options_that_contradict_each_other_are_rejected_with_both_numbers)
{
    static const struct {
        tarn_pool_options options;
        const char *message;
    } cases[] = {
        {{.initial_bytes = 65, .maximum_bytes = 64},
         "initial_bytes 65 exceeds maximum_bytes 64"},
        {{.growth_bytes = 65, .maximum_bytes = 64},
         "growth_bytes 65 exceeds maximum_bytes 64"},
        {{.oom_policy = (tarn_pool_oom_policy)2},
         "oom_policy 2 is unknown, this version "
         "knows 0 to 1"},
        {{.oom_policy = (tarn_pool_oom_policy)-1}, "oom_policy -1 is unknown"},
        {{.suspended_policy = (tarn_pool_suspended_policy)2},
         "suspended_policy 2 is unknown, this version knows 0 to 1"},
        {{.no_stream_policy = (tarn_pool_no_stream_policy)3},
         "no_stream_policy 3 is unknown, this version knows 0 to 2"},
        {{.policy = (tarn_pool_policy)2},
         "policy 2 is unknown, this version knows 0 to 1"},
        {{.moves = (tarn_pool_moves)2}, "moves 2 is unknown, this version knows 0 to 1"},
        {{.moves = TARN_POOL_MOVES_NEVER, .release_threshold_bytes = 65},
         "release_threshold_bytes 65 has frees unmap memory, moves 1 forbids it"},
    };
    unsigned long long before = on_sim() ? sim_live_bytes() : 0;

    use_driver(0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tarn_pool_options options = cases[i].options;
        tarn_resource *pool = NULL;
        options.size = sizeof options;
        CHECK_STATUS(TARN_INVALID_ARGUMENT, make(&options, &pool));
        CHECK_MESSAGE(cases[i].message);
        CHECK(pool == NULL);
        if (on_sim())
            CHECK_EQUAL(before, sim_live_bytes());
    }
}

/* These have a meaning over a maximum: never return memory, or wait only before a
 * failure. */
TEST(thresholds_over_the_maximum_are_allowed)
{
    tarn_pool_options options = {.size = sizeof options,
                                 .initial_bytes = 64 * MIB,
                                 .maximum_bytes = 64 * MIB,
                                 .growth_bytes = 64 * MIB,
                                 .release_threshold_bytes = SIZE_MAX,
                                 .no_stream_limit_bytes = SIZE_MAX};

    use_driver(0);
    hands_out(NULL, &options, 8, NULL);
    hands_out(NULL, &options, 8, TARN_STREAM_NONE);
}

/* A MIG instance is a device with less memory than its GPU. Tarn knows its memory from
 * cuMemGetInfo. */
static CUresult_ (*real_mem_get_info)(size_t *free_out, size_t *total_out);
enum { INSTANCE_MIB = 96 };

static CUresult_ mem_get_info_of_an_instance(size_t *free_out, size_t *total_out)
{
    CUresult_ result = real_mem_get_info(free_out, total_out);

    *free_out -= *total_out - INSTANCE_MIB * MIB;
    *total_out = INSTANCE_MIB * MIB;
    return result;
}

TEST(pool_without_a_maximum_has_the_capacity_of_its_mig_instance)
{
    tarn_resource *pool = NULL;
    const struct tarn__calls *calls;
    size_t free_bytes, total_bytes;

    if (!on_sim())
        skip();
    use_driver(0);
    CHECK_OK(tarn__driver(&calls));
    struct tarn__calls *table = (struct tarn__calls *)(uintptr_t)calls;
    real_mem_get_info = table->mem_get_info;
    table->mem_get_info = mem_get_info_of_an_instance;
    CHECK_OK(make(NULL, &pool));
    tarn_device_ptr block = take(pool, INSTANCE_MIB * MIB / 2, NULL);
    CHECK(is_refused(pool, INSTANCE_MIB * MIB / 2 + 512, NULL));
    CHECK_MESSAGE("over the device's memory, 50331648 of 100663296 are reserved");
    put(pool, take(pool, INSTANCE_MIB * MIB / 2, NULL), INSTANCE_MIB * MIB / 2, NULL);
    CHECK_EQUAL(INSTANCE_MIB * MIB, statistics(pool).reserved);
    CHECK_OK(tarn_resource_memory_info(pool, NULL, &free_bytes, &total_bytes));
    CHECK_EQUAL(INSTANCE_MIB * MIB, total_bytes);
    put(pool, block, INSTANCE_MIB * MIB / 2, NULL);
    end_pool(pool);
    table->mem_get_info = real_mem_get_info;
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
