/* Test the creation and the calls of resources, adaptors, registry, streams, pointers and
 * PyTorch's functions with each host allocation failing. */
#define _GNU_SOURCE
#include "driver_calls.h"
#include "host_bytes.h"
#include "scenario.h"
#include "write_nothing.h"
#include <stdlib.h>
#include <tarn/guard.h>
#include <tarn/nrt_resource.h>
#include <tarn/torch.h>

/* Before the driver is opened: system needs access to pageable memory. */
__attribute__((constructor)) static void ask_for_pageable_access(void)
{
    setenv("TARN_SIM", "attribute=88:1", 1);
}

static tarn_resource *under, *used;
static tarn_stream raw;

/* --- creation --- */

static void begin_under(void)
{
    CHECK_OK(tarn_cuda_create(0, &under));
}

static void end_under(void)
{
    CHECK_OK(tarn_resource_release(under));
}

static void end_created(void)
{
    CHECK_OK(tarn_resource_release(out.resource));
}

static void end_created_and_under(void)
{
    end_created();
    end_under();
}

/* Released in the other order: the registry has no resource `cuda` meanwhile. */
static tarn_status create_cuda(void)
{
    return tarn_cuda_create(0, &out.resource);
}

static tarn_status create_async(void)
{
    return tarn_async_create(0, NULL, &out.resource);
}

static tarn_status create_managed(void)
{
    return tarn_managed_create(0, &out.resource);
}

static tarn_status create_pinned(void)
{
    return tarn_pinned_create(0, &out.resource);
}

static tarn_status create_system(void)
{
    return tarn_system_create(0, NULL, &out.resource);
}

static tarn_status create_host(void)
{
    return tarn_host_create(&out.resource);
}

static tarn_status create_exportable(void)
{
    return tarn_exportable_create(0, NULL, &out.resource);
}

static tarn_status create_slab(void)
{
    tarn_slab_options options = {.size = sizeof options, .block_bytes = 4096};

    return tarn_slab_create(0, under, &options, &out.resource);
}

static tarn_status create_binning(void)
{
    tarn_binning_options options = {
        .size = sizeof options, .min_size_exponent = 10, .max_size_exponent = 14};

    return tarn_binning_create(under, &options, &out.resource);
}

static tarn_status create_limiter(void)
{
    return tarn_limiter_create(under, 1 << 20, &out.resource);
}

static tarn_status create_counter(void)
{
    return tarn_counter_create(under, &out.resource);
}

static tarn_status create_prefetcher(void)
{
    return tarn_prefetcher_create(under, &out.resource);
}

static tarn_status create_tracker(void)
{
    tarn_tracker_options options = {.size = sizeof options, .stack_depth = 8};

    return tarn_tracker_create(under, &options, &out.resource);
}

static tarn_status create_guard(void)
{
    return tarn_guard_create(under, NULL, &out.resource);
}

static tarn_trace_writer *writer;

static void begin_writer_and_under(void)
{
    begin_under();
    CHECK_OK(tarn_trace_writer_create(write_nothing, NULL, TARN_TRACE_RMM, &writer));
}

static tarn_status create_logger(void)
{
    return tarn_logger_create(under, writer, &out.resource);
}

static void end_logger(void)
{
    CHECK_OK(tarn_trace_writer_release(writer));
    end_created_and_under();
}

static tarn_status give_up(void *data, size_t bytes, bool *again_out)
{
    (void)data;
    (void)bytes;
    *again_out = false;
    return TARN_OK;
}

static tarn_status create_failure_callback(void)
{
    return tarn_failure_callback_create(under, give_up, NULL, NULL, &out.resource);
}

TEST(resources_are_created_or_not)
{
    static const struct scenario scenarios[] = {
        {"tarn_cuda_create", NULL, create_cuda, end_created},
        {"tarn_async_create", NULL, create_async, end_created},
        {"tarn_managed_create", NULL, create_managed, end_created},
        {"tarn_pinned_create", NULL, create_pinned, end_created},
        {"tarn_system_create", NULL, create_system, end_created},
        {"tarn_host_create", NULL, create_host, end_created},
        {"tarn_exportable_create", NULL, create_exportable, end_created},
    };

    for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++)
        scenario_run(&scenarios[i], 1);
}

TEST(adaptors_are_created_or_not)
{
    static const struct scenario scenarios[] = {
        {"tarn_slab_create", begin_under, create_slab, end_created_and_under},
        {"tarn_binning_create", begin_under, create_binning, end_created_and_under},
        {"tarn_limiter_create", begin_under, create_limiter, end_created_and_under},
        {"tarn_counter_create", begin_under, create_counter, end_created_and_under},
        {"tarn_prefetcher_create", begin_under, create_prefetcher, end_created_and_under},
        {"tarn_tracker_create", begin_under, create_tracker, end_created_and_under},
        {"tarn_guard_create", begin_under, create_guard, end_created_and_under},
        {"tarn_logger_create", begin_writer_and_under, create_logger, end_logger},
        {"tarn_failure_callback_create", begin_under, create_failure_callback,
         end_created_and_under},
    };

    for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++)
        scenario_run(&scenarios[i], 1);
}

static tarn_status (*create)(void);
static unsigned nth_that_fails, failed;

static void fail_to_create(void)
{
    enum { TIMES = 400 };

    for (int i = 0; i < TIMES; i++) {
        failing_begin(nth_that_fails, FAILING_ONCE);
        tarn_status status = create();
        failed = failing_end();
        if (status == TARN_OK)
            CHECK_OK(tarn_resource_release(out.resource));
    }
}

/* LeakSanitizer finds no leaked adaptor with a lock, because the list of all locks points to it,
 * and no leaked guard, because the list of all guards does. */
TEST(an_adaptor_that_was_not_created_leaves_no_host_memory)
{
    static tarn_status (*const creations[])(void) = {
        create_limiter, create_counter, create_prefetcher,      create_tracker,
        create_guard,   create_logger,  create_failure_callback};

    begin_writer_and_under();
    for (size_t i = 0; i < sizeof creations / sizeof *creations; i++) {
        create = creations[i];
        failed = 1;
        for (nth_that_fails = 1; failed > 0; nth_that_fails++)
            CHECK(host_growth(fail_to_create) < HOST_GROWTH_NOISE);
        CHECK(nth_that_fails > 2);
    }
    CHECK_OK(tarn_trace_writer_release(writer));
    end_under();
}

/* --- the first blocks of a new resource --- */

static void begin_used(void)
{
    begin_under();
    CHECK_OK(create());
    used = out.resource;
}

static void end_used(void)
{
    CHECK_OK(tarn_resource_deallocate(used, out.block, 1000, 0, TARN_STREAM_NONE));
    CHECK_EQUAL(0, tarn_resource_live_blocks(used));
    CHECK_OK(tarn_resource_release(used));
    end_under();
}

static tarn_status allocate(void)
{
    return tarn_resource_allocate(used, 1000, 0, TARN_STREAM_NONE, &out.block);
}

/* An allocation and its free in one call: a free needs no memory that it cannot do
 * without. */
static tarn_status allocate_and_free(void)
{
    tarn_device_ptr one = 77;
    tarn_status status = tarn_resource_allocate(used, 1000, 0, TARN_STREAM_DEFAULT, &one);

    if (status != TARN_OK) {
        CHECK_EQUAL(77, one);
        CHECK_EQUAL(0, tarn_resource_live_blocks(used));
        return status;
    }
    CHECK_OK(tarn_resource_deallocate(used, one, 1000, 0, TARN_STREAM_DEFAULT));
    CHECK_EQUAL(0, tarn_resource_live_blocks(used));
    return TARN_OK;
}

static void end_without_block(void)
{
    CHECK_OK(tarn_resource_release(used));
    end_under();
}

TEST(blocks_are_allocated_or_not)
{
    static tarn_status (*const creations[])(void) = {
        create_cuda,       create_async,
        create_managed,    create_pinned,
        create_system,     create_host,
        create_exportable, create_slab,
        create_binning,    create_limiter,
        create_counter,    create_tracker,
        create_guard,      create_failure_callback};
    static const struct scenario one = {"first allocation", begin_used, allocate,
                                        end_used},
                                 both = {"allocation and free", begin_used,
                                         allocate_and_free, end_without_block};

    for (size_t i = 0; i < sizeof creations / sizeof *creations; i++) {
        create = creations[i];
        scenario_run(&one, create != create_host);
        scenario_run(&both, create != create_host);
    }
}

/* Each block needs a record. */
enum { MANY = 80 };

static tarn_status allocate_many(void)
{
    tarn_device_ptr blocks[MANY];
    tarn_status status = TARN_OK;
    int count = 0;

    while (count < MANY && status == TARN_OK) {
        status = tarn_resource_allocate(used, 512, 0, NULL, &blocks[count]);
        count += status == TARN_OK;
    }
    CHECK_EQUAL(count, tarn_resource_live_blocks(used));
    while (count-- > 0)
        CHECK_OK(tarn_resource_deallocate(used, blocks[count], 512, 0, NULL));
    return status;
}

TEST(many_blocks_are_allocated_or_not)
{
    static const struct scenario many = {"80 allocations", begin_used, allocate_many,
                                         end_without_block};

    create = create_cuda;
    scenario_run(&many, 20);
    create = create_tracker;
    scenario_run(&many, 20);
}

/* A pool has the memory of the first block for the others. */
TEST(adaptors_over_a_pool_need_no_host_memory_for_blocks_that_come_and_go)
{
    static tarn_status (*const creations[])(void) = {
        create_limiter, create_counter, create_tracker, create_failure_callback};

    CHECK_OK(tarn_pool_create(0, NULL, NULL, &under));
    for (size_t i = 0; i < sizeof creations / sizeof *creations; i++) {
        CHECK_OK(creations[i]());
        used = out.resource;
        tarn_status status = allocate_and_free();
        failing_begin(1, FAILING_FROM_THEN_ON);
        for (int turn = 0; turn < 2000 && status == TARN_OK; turn++)
            status = allocate_and_free();
        failing_end();
        CHECK_OK(status);
        CHECK_OK(tarn_resource_release(used));
    }
    end_under();
}

/* --- registry, streams, pointers --- */

static tarn_status set_and_get(void)
{
    tarn_resource *got = NULL;
    tarn_status status = tarn_device_set_resource(0, under, NULL);

    if (status == TARN_OK)
        status = tarn_device_resource(0, &got);
    if (status == TARN_OK)
        CHECK(got == under);
    CHECK_OK(tarn_resource_release(got));
    return status;
}

static void end_set(void)
{
    CHECK_OK(tarn_device_set_resource(0, NULL, NULL));
    end_under();
}

static tarn_status get_initial(void)
{
    return tarn_device_resource(1, &out.resource);
}

static void end_initial(void)
{
    CHECK_OK(tarn_device_set_resource(1, NULL, NULL));
    end_created();
}

TEST(registry_has_a_resource_or_not)
{
    static const struct scenario set = {"tarn_device_set_resource", begin_under,
                                        set_and_get, end_set},
                                 initial = {"tarn_device_resource", NULL, get_initial,
                                            end_initial};

    scenario_run(&set, 0);
    scenario_run(&initial, 0);
}

static void begin_stream(void)
{
    CHECK_OK(tarn_stream_create(0, true, &raw));
}

static tarn_status register_stream(void)
{
    return tarn_stream_register(0, raw, &out.stream);
}

static void end_stream(void)
{
    CHECK_OK(tarn_stream_unregister(out.stream));
    CHECK_OK(tarn_stream_destroy(0, raw));
}

/* The table of registrations grows. */
static tarn_status register_many(void)
{
    enum { STREAMS = 300 };
    tarn_stream streams[STREAMS];
    tarn_status status = TARN_OK;
    int count = 0;

    while (count < STREAMS && status == TARN_OK) {
        status = tarn_stream_create(0, true, &streams[count]);
        if (status != TARN_OK)
            break;
        tarn_stream plain = streams[count];
        status = tarn_stream_register(0, plain, &streams[count]);
        if (status != TARN_OK)
            CHECK(streams[count] == plain);
        count++;
    }
    bool is_last_raw = status != TARN_OK;
    while (count-- > 0) {
        tarn_stream plain = (tarn_stream)tarn_stream_handle(streams[count]);
        if (!is_last_raw)
            CHECK_OK(tarn_stream_unregister(streams[count]));
        is_last_raw = false;
        CHECK_OK(tarn_stream_destroy(0, plain));
    }
    return status;
}

TEST(streams_are_registered_or_not)
{
    static const struct scenario one = {"tarn_stream_register", begin_stream,
                                        register_stream, end_stream},
                                 many = {"80 streams", NULL, register_many, NULL};

    scenario_run(&one, 0);
    scenario_run(&many, 1);
}

static tarn_status allocate_pointer(void)
{
    return tarn_pointer_allocate(under, 1000, TARN_STREAM_NONE, &out.tarn_pointer);
}

static void end_pointer(void)
{
    tarn_pointer_release(out.tarn_pointer);
    CHECK_EQUAL(0, tarn_pointer_deferred_count());
    end_under();
}

static tarn_pointer *owner;

static void begin_owner(void)
{
    begin_under();
    CHECK_OK(tarn_pointer_allocate(under, 1000, TARN_STREAM_NONE, &owner));
}

static tarn_status make_view(void)
{
    return tarn_pointer_view(owner, 100, 200, &out.tarn_pointer);
}

static void end_view(void)
{
    CHECK_EQUAL(2, tarn_pointer_use_count(owner));
    tarn_pointer_release(owner);
    end_pointer();
}

static unsigned finalized;

static void finalize(void *data, tarn_device_ptr address, size_t bytes)
{
    (void)address;
    (void)bytes;
    (void)data;
    finalized++;
}

static tarn_status make_pointer(void)
{
    tarn_pointer_options options = {
        .size = sizeof options, .address = 4096, .bytes = 64, .finalizer = finalize};

    return tarn_pointer_create(&options, &out.tarn_pointer);
}

static void end_made(void)
{
    unsigned before = finalized;

    tarn_pointer_release(out.tarn_pointer);
    CHECK_EQUAL(before + 1, finalized);
}

/* The memory of a pointer whose free failed is freed later, whether or not a list of such
 * memory can grow. */
static tarn_status defer(void)
{
    tarn_pointer *pointer;
    tarn_status status = tarn_pointer_allocate(under, 1000, TARN_STREAM_NONE, &pointer);

    if (status != TARN_OK)
        return status;
    sim_configure("fail=call:cuMemFree_v2");
    tarn_pointer_release(pointer);
    sim_configure(NULL);
    CHECK_OK(tarn_pointer_reclaim_deferred());
    CHECK_EQUAL(0, tarn_resource_live_blocks(under));
    return TARN_OK;
}

TEST(pointers_are_made_or_not)
{
    static const struct scenario scenarios[] = {
        {"tarn_pointer_allocate", begin_under, allocate_pointer, end_pointer},
        {"tarn_pointer_view", begin_owner, make_view, end_view},
        {"tarn_pointer_create", NULL, make_pointer, end_made},
        {"deferred free", begin_under, defer, end_under},
    };

    for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++)
        scenario_run(&scenarios[i], 0);
}

static NRT_ExternalAllocator *allocator;

static tarn_status make_allocator(void)
{
    return tarn_resource_allocator_create(under, (void *)&out.pointer);
}

static void end_allocator(void)
{
    allocator = out.pointer;
    CHECK_OK(tarn_resource_allocator_release(allocator));
    end_under();
}

/* --- PyTorch --- */

static void *memory;

/* A block that another stream uses, too. */
static void begin_torch(void)
{
    begin_under();
    CHECK_OK(tarn_torch_set_resource(0, under));
    memory = tarn_torch_allocate(1000, 0, NULL);
    CHECK(memory != NULL);
    tarn_torch_record_stream(memory, TARN_STREAM_PER_THREAD);
}

/* It cannot fail: without memory for a list it waits. */
static tarn_status free_for_torch(void)
{
    tarn_torch_deallocate(memory, 1000, 0, NULL);
    return TARN_OK;
}

static void end_torch(void)
{
    CHECK_OK(tarn_driver_synchronize(0));
    tarn_torch_empty_cache();
    CHECK_EQUAL(0, tarn_resource_live_blocks(under));
    CHECK_OK(tarn_torch_set_resource(0, NULL));
    end_under();
}

static tarn_status open_segments(void)
{
    tarn_torch_segments segments = {.size = sizeof segments};
    tarn_status status = tarn_torch_open_segments(under, &segments);

    if (status == TARN_OK) {
        void *segment = segments.allocate(1 << 21, 0, NULL);
        if (segment)
            segments.deallocate(segment, 1 << 21, 0, NULL);
        CHECK_OK(tarn_torch_close_segments(&segments));
        status = null_is_no_memory(segment);
    }
    return status;
}

TEST(other_libraries_get_memory_or_not)
{
    static const struct scenario scenarios[] = {
        {"tarn_resource_allocator_create", begin_under, make_allocator, end_allocator},
        {"tarn_torch_deallocate", begin_torch, free_for_torch, end_torch},
        {"tarn_torch_open_segments", begin_under, open_segments, end_under},
    };

    for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++)
        scenario_run(&scenarios[i], 0);
}
