/* Test the public calls on resources, over a resource whose answers the test chooses. */
#include "test.h"
#include "scripted.h"
#include <stdlib.h>

static void destroy_nothing(void *self)
{
    (void)self;
}

static tarn_status give_address(void *self, size_t bytes, size_t alignment,
                                tarn_stream stream, tarn_device_ptr *out)
{
    (void)bytes, (void)alignment, (void)stream;
    *out = *(tarn_device_ptr *)self;
    return TARN_OK;
}

static unsigned deallocations;

static tarn_status take_anything(void *self, tarn_device_ptr block, size_t bytes,
                                 size_t alignment, tarn_stream stream)
{
    (void)self, (void)block, (void)bytes, (void)alignment, (void)stream;
    deallocations++;
    return TARN_OK;
}

/* The table of a plugin that was compiled when the table ended after the required
 * operations. */
static const tarn_resource_ops oldest_ops = {
    .size = offsetof(tarn_resource_ops, memory_info),
    .name = "oldest",
    .allocate = give_address,
    .deallocate = take_anything,
    .destroy = destroy_nothing,
};

static tarn_status fail_with_result(void *self, size_t bytes, size_t alignment,
                                    tarn_stream stream, tarn_device_ptr *out)
{
    (void)bytes, (void)alignment, (void)stream, (void)out;
    return *(tarn_status *)self;
}

static tarn_status info_never(void *self, tarn_stream stream, size_t *free_out,
                              size_t *total_out)
{
    (void)self, (void)stream, (void)free_out, (void)total_out;
    return TARN_DRIVER_FAILURE;
}

static const tarn_resource_ops silent_ops = {
    .size = sizeof silent_ops,
    .name = "silent",
    .allocate = fail_with_result,
    .deallocate = take_anything,
    .destroy = destroy_nothing,
    .memory_info = info_never,
};

TEST(failure_without_a_message_does_not_get_an_older_one)
{
    tarn_status result = TARN_OUT_OF_MEMORY;
    tarn_resource *silent;
    tarn_device_ptr block = 7;

    CHECK_OK(tarn_resource_create(&silent_ops, &result, 0, &silent));
    tarn_error_set(TARN_BAD_FORMAT, "an old log: line 7");
    CHECK_STATUS(TARN_OUT_OF_MEMORY, tarn_resource_allocate(silent, 1, 0, NULL, &block));
    CHECK(tarn_error_last()->status == TARN_OUT_OF_MEMORY);
    CHECK(strstr(tarn_error_last()->message, "silent: allocate"));

    result = (tarn_status)4711;
    CHECK_STATUS(TARN_PLUGIN_FAILURE, tarn_resource_allocate(silent, 1, 0, NULL, &block));
    CHECK(strstr(tarn_error_last()->message, "4711"));
    CHECK_EQUAL(7, block);
    CHECK_OK(tarn_resource_release(silent));
}

static tarn_status deallocate_never(void *self, tarn_device_ptr block, size_t bytes,
                                    size_t alignment, tarn_stream stream)
{
    (void)self, (void)block, (void)bytes, (void)alignment, (void)stream;
    return TARN_DRIVER_FAILURE;
}

static tarn_status trim_never(void *self, size_t keep_bytes, size_t *released_out)
{
    (void)self, (void)keep_bytes, (void)released_out;
    return TARN_DRIVER_FAILURE;
}

static tarn_status bytes_never(void *self, tarn_device_ptr block, size_t *out)
{
    (void)self, (void)block, (void)out;
    return TARN_DRIVER_FAILURE;
}

static size_t count_none(const void *self)
{
    (void)self;
    return 0;
}

static const tarn_resource_ops never_ops = {
    .size = sizeof never_ops,
    .name = "never",
    .allocate = fail_with_result,
    .deallocate = deallocate_never,
    .destroy = destroy_nothing,
    .memory_info = info_never,
    .trim = trim_never,
    .requested_bytes = bytes_never,
    .live_blocks = count_none,
};

/* Each of these leaves a message of the status that the next one returns. */
TEST(failure_without_a_message_does_not_get_that_of_an_older_one_of_its_kind)
{
    tarn_status result = TARN_DRIVER_FAILURE;
    tarn_resource *never;
    tarn_device_ptr block;
    size_t bytes, total;

    CHECK_OK(tarn_resource_create(&never_ops, &result, 0, &never));
    tarn_error_set(TARN_DRIVER_FAILURE, "an older failure of a driver");
    CHECK_STATUS(TARN_DRIVER_FAILURE, tarn_resource_allocate(never, 1, 0, NULL, &block));
    CHECK_TEXT("never: allocate failed, device 0", tarn_error_last()->message);
    CHECK_STATUS(TARN_DRIVER_FAILURE, tarn_resource_deallocate(never, 256, 1, 0, NULL));
    CHECK_TEXT("never: deallocate failed, device 0", tarn_error_last()->message);
    CHECK_STATUS(TARN_DRIVER_FAILURE,
                 tarn_resource_memory_info(never, NULL, &bytes, &total));
    CHECK_TEXT("never: memory_info failed, device 0", tarn_error_last()->message);
    CHECK_STATUS(TARN_DRIVER_FAILURE, tarn_resource_trim(never, 0, NULL));
    CHECK_TEXT("never: trim failed, device 0", tarn_error_last()->message);
    CHECK_STATUS(TARN_DRIVER_FAILURE, tarn_resource_requested_bytes(never, 256, &bytes));
    CHECK_TEXT("never: requested_bytes failed, device 0", tarn_error_last()->message);
    CHECK_OK(tarn_resource_release(never));
}

/* Its own allocation from another resource failed, and it adds no message. */
static tarn_status allocate_elsewhere(void *self, size_t bytes, size_t alignment,
                                      tarn_stream stream, tarn_device_ptr *out)
{
    struct scripted *script = self;

    return tarn_resource_allocate(script->resource, bytes, alignment, stream, out);
}

static bool write_never(void *data, const char *bytes, size_t count)
{
    (void)data, (void)bytes, (void)count;
    return false;
}

/* The call succeeds, but the log fails: the last failure stays the earlier one. */
static tarn_status allocate_with_a_log(void *self, size_t bytes, size_t alignment,
                                       tarn_stream stream, tarn_device_ptr *out)
{
    tarn_resource *logger = self;
    tarn_device_ptr block;

    (void)out;
    for (int i = 0; i < 4000; i++) { /* more rows than the writer's buffer holds */
        CHECK_OK(tarn_resource_allocate(logger, bytes, alignment, stream, &block));
        CHECK_OK(tarn_resource_deallocate(logger, block, bytes, alignment, stream));
    }
    return TARN_OUT_OF_MEMORY;
}

TEST(failure_has_the_message_that_came_during_the_call)
{
    tarn_resource_ops ops = silent_ops;
    struct scripted script;
    tarn_resource *resource;
    tarn_device_ptr block;

    scripted_begin(&script, TARN_DEVICE_NONE);
    ops.allocate = allocate_elsewhere;
    CHECK_OK(tarn_resource_create(&ops, &script, TARN_DEVICE_NONE, &resource));
    script.allocate_fails = TARN_OUT_OF_MEMORY;
    CHECK_STATUS(TARN_OUT_OF_MEMORY,
                 tarn_resource_allocate(resource, 10, 0, NULL, &block));
    CHECK_MESSAGE("scripted: no 10 bytes");
    CHECK_OK(tarn_resource_release(resource));
    scripted_end(&script);
}

TEST(failure_that_was_saved_and_restored_is_no_message_of_the_call)
{
    tarn_resource_ops ops = silent_ops;
    tarn_trace_writer *writer;
    tarn_resource *resource, *host, *logger;
    tarn_device_ptr block;

    CHECK_OK(tarn_host_create(&host));
    CHECK_OK(tarn_trace_writer_create(write_never, NULL, TARN_TRACE_RMM, &writer));
    CHECK_OK(tarn_logger_create(host, writer, &logger));
    ops.allocate = allocate_with_a_log;
    CHECK_OK(tarn_resource_create(&ops, logger, TARN_DEVICE_NONE, &resource));
    tarn_error_set(TARN_OUT_OF_MEMORY, "an older failure");
    CHECK_STATUS(TARN_OUT_OF_MEMORY,
                 tarn_resource_allocate(resource, 10, 0, NULL, &block));
    CHECK_TEXT("silent: allocate failed, device -1", tarn_error_last()->message);
    CHECK_OK(tarn_resource_release(resource));
    CHECK_OK(tarn_resource_release(logger));
    CHECK_OK(tarn_resource_release(host));
    CHECK_STATUS(TARN_SYSTEM_FAILURE, tarn_trace_writer_release(writer));
}

static tarn_status more_free_than_there_is(void *self, tarn_stream stream,
                                           size_t *free_out, size_t *total_out)
{
    (void)self, (void)stream;
    *free_out = (size_t)-1;
    *total_out = 5;
    return TARN_OK;
}

TEST(memory_info_with_more_free_than_total_is_rejected)
{
    tarn_resource_ops ops = silent_ops;
    size_t free_bytes = 7, total_bytes = 7;
    tarn_resource *lying;

    ops.memory_info = more_free_than_there_is;
    CHECK_OK(tarn_resource_create(&ops, NULL, 0, &lying));
    CHECK_STATUS(TARN_PLUGIN_FAILURE,
                 tarn_resource_memory_info(lying, NULL, &free_bytes, &total_bytes));
    CHECK_MESSAGE("silent: memory_info returned 18446744073709551615 bytes free of 5");
    CHECK_EQUAL(7, free_bytes);
    CHECK_EQUAL(7, total_bytes);
    CHECK_OK(tarn_resource_release(lying));
}

TEST(table_that_ends_within_an_operation_does_not_have_it)
{
    tarn_resource_ops ops = silent_ops;
    tarn_status result = TARN_OK;
    tarn_resource *resource;

    ops.size = offsetof(tarn_resource_ops, memory_info) + 3;
    CHECK_OK(tarn_resource_create(&ops, &result, 0, &resource));
    CHECK(!tarn_resource_supports_memory_info(resource));
    CHECK_OK(tarn_resource_release(resource));
}

TEST(create_into_null_is_rejected)
{
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_cuda_create(0, NULL));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_async_create(0, NULL, NULL));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_managed_create(0, NULL));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_pinned_create(0, NULL));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_host_create(NULL));
}

TEST(create_rejects_a_table_without_a_required_operation)
{
    tarn_resource *resource = (tarn_resource *)&deallocations;
    tarn_resource_ops ops = oldest_ops;

    ops.size--;
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_resource_create(&ops, NULL, 0, &resource));
    for (int i = 0; i < 4; i++) {
        ops = oldest_ops;
        if (i == 0)
            ops.name = NULL;
        if (i == 1)
            ops.allocate = NULL;
        if (i == 2)
            ops.deallocate = NULL;
        if (i == 3)
            ops.destroy = NULL;
        CHECK_STATUS(TARN_INVALID_ARGUMENT,
                     tarn_resource_create(&ops, NULL, 0, &resource));
    }
    char name[129] = {0};
    ops = oldest_ops;
    ops.name = memset(name, 'n', sizeof name - 1);
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_resource_create(&ops, NULL, 0, &resource));
    CHECK_MESSAGE("nnn... has more than 127 bytes");
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_resource_create(NULL, NULL, 0, &resource));
    CHECK_STATUS(TARN_INVALID_ARGUMENT,
                 tarn_resource_create(&oldest_ops, NULL, -2, &resource));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_resource_create(&oldest_ops, NULL, 0, NULL));
    CHECK(resource == (tarn_resource *)&deallocations);
}

TEST(create_reads_a_table_only_as_far_as_its_size_says)
{
    tarn_device_ptr address = 0x1000;
    tarn_resource *resource;
    tarn_resource_ops ops = oldest_ops;
    size_t bytes = 7, released = 7;

    /* Bytes past the size are garbage, as behind a smaller struct. */
    memset((char *)&ops + ops.size, 0xff, sizeof ops - ops.size);
    CHECK_OK(tarn_resource_create(&ops, &address, 3, &resource));
    memset(&ops, 0, sizeof ops); /* and it is a copy */
    CHECK_TEXT("oldest", tarn_resource_name(resource));
    CHECK_EQUAL(3, tarn_resource_device(resource));
    CHECK(!tarn_resource_supports_memory_info(resource));
    CHECK(!tarn_resource_supports_streams(resource));
    CHECK(!tarn_resource_deallocate_synchronizes(resource));
    CHECK(!tarn_resource_supports_no_stream(resource));
    CHECK_STATUS(TARN_NOT_SUPPORTED,
                 tarn_resource_memory_info(resource, NULL, &bytes, &bytes));
    CHECK_STATUS(TARN_NOT_SUPPORTED, tarn_resource_requested_bytes(resource, 1, &bytes));
    CHECK_EQUAL(7, bytes);
    CHECK_OK(tarn_resource_trim(resource, 0, &released));
    CHECK_EQUAL(0, released);
    CHECK_OK(tarn_resource_release(resource));
}

TEST(create_takes_a_table_from_a_later_tarn)
{
    struct {
        tarn_resource_ops ops;
        void *later[4];
    } larger = {.ops = oldest_ops};
    tarn_resource *resource;

    larger.ops.size = sizeof larger;
    CHECK_OK(tarn_resource_create(&larger.ops, NULL, 0, &resource));
    CHECK_OK(tarn_resource_release(resource));
}

TEST(self_is_for_the_holder_of_the_table_only)
{
    struct scripted script;
    tarn_device_ptr address = 0x1000;
    tarn_resource *resource;

    scripted_begin(&script, 0);
    CHECK_OK(tarn_resource_create(&oldest_ops, &address, 0, &resource));
    CHECK(tarn_resource_self(resource, &oldest_ops) == &address);
    CHECK(tarn_resource_self(script.resource, &oldest_ops) == NULL);
    CHECK(tarn_resource_self(NULL, &oldest_ops) == NULL);
    CHECK(tarn_resource_self(resource, NULL) == NULL);
    CHECK_OK(tarn_resource_release(resource));
    scripted_end(&script);
}

TEST(allocate_raises_the_alignment_and_passes_the_rest_on)
{
    struct scripted script;
    tarn_device_ptr block;

    scripted_begin(&script, 0);
    CHECK_OK(tarn_resource_allocate(script.resource, 10, 0, TARN_STREAM_NONE, &block));
    CHECK_EQUAL(256, script.alignment);
    CHECK_EQUAL(10, script.bytes);
    CHECK(script.stream == TARN_STREAM_NONE);
    CHECK_OK(
        tarn_resource_deallocate(script.resource, block, 10, 16, TARN_STREAM_LEGACY));
    CHECK_EQUAL(256, script.alignment);
    CHECK(script.block == block && script.stream == TARN_STREAM_LEGACY);
    CHECK_OK(tarn_resource_allocate(script.resource, 10, 1024, NULL, &block));
    CHECK_EQUAL(1024, script.alignment);
    CHECK_OK(tarn_resource_deallocate(script.resource, block, 10, 1024, NULL));
    scripted_end(&script);
}

TEST(allocate_of_nothing_never_reaches_the_resource)
{
    struct scripted script;
    tarn_device_ptr block = 7;

    scripted_begin(&script, 0);
    CHECK_OK(tarn_resource_allocate(script.resource, 0, 0, NULL, &block));
    CHECK_EQUAL(0, block);
    CHECK_OK(tarn_resource_deallocate(script.resource, 0, 0, 0, NULL));
    CHECK_EQUAL(0, script.allocations + script.frees);
    scripted_end(&script);
}

TEST(allocate_rejects_sizes_that_wrap_before_the_resource_sees_them)
{
    struct scripted script;
    tarn_device_ptr block = 7;

    scripted_begin(&script, 0);
    CHECK_STATUS(TARN_OUT_OF_MEMORY,
                 tarn_resource_allocate(script.resource, SIZE_MAX - 10, 0, NULL, &block));
    CHECK_STATUS(TARN_OUT_OF_MEMORY,
                 tarn_resource_allocate(script.resource, SIZE_MAX / 2 + 2,
                                        (size_t)1 << 63, NULL, &block));
    CHECK_STATUS(TARN_INVALID_ARGUMENT,
                 tarn_resource_allocate(script.resource, 1, 3, NULL, &block));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_resource_allocate(NULL, 1, 0, NULL, &block));
    CHECK_EQUAL(7, block);
    CHECK_EQUAL(0, script.allocations);
    scripted_end(&script);
}

TEST(allocate_leaves_the_output_alone_when_the_resource_fails)
{
    struct scripted script;
    tarn_device_ptr block = 7;

    scripted_begin(&script, 0);
    script.allocate_fails = TARN_DRIVER_FAILURE;
    CHECK_STATUS(TARN_DRIVER_FAILURE,
                 tarn_resource_allocate(script.resource, 99, 0, NULL, &block));
    CHECK_MESSAGE("scripted: no 99 bytes");
    CHECK_EQUAL(7, block);
    CHECK_EQUAL(0, tarn_resource_live_blocks(script.resource));
    scripted_end(&script);
}

TEST(allocate_does_not_pass_a_bad_block_on)
{
    tarn_device_ptr address = 0x1010, block = 7;
    tarn_resource *resource;

    CHECK_OK(tarn_resource_create(&oldest_ops, &address, 0, &resource));
    deallocations = 0;
    CHECK_STATUS(TARN_PLUGIN_FAILURE,
                 tarn_resource_allocate(resource, 8, 0, NULL, &block));
    CHECK_MESSAGE("oldest: allocate returned 0x1010");
    CHECK_EQUAL(1, deallocations);
    address = 0;
    CHECK_STATUS(TARN_PLUGIN_FAILURE,
                 tarn_resource_allocate(resource, 8, 0, NULL, &block));
    CHECK_EQUAL(1, deallocations);
    address = 0x1000;
    CHECK_STATUS(TARN_PLUGIN_FAILURE,
                 tarn_resource_allocate(resource, 8, 8192, NULL, &block));
    address = (tarn_device_ptr)-256; /* the block would go on at address 0 */
    CHECK_STATUS(TARN_PLUGIN_FAILURE,
                 tarn_resource_allocate(resource, 4096, 0, NULL, &block));
    CHECK_EQUAL(7, block);
    CHECK_OK(tarn_resource_release(resource));
}

TEST(deallocate_without_live_blocks_is_rejected_for_any_resource)
{
    tarn_device_ptr address = 0x1000, block;
    tarn_resource *resource;

    deallocations = 0;
    CHECK_OK(tarn_resource_create(&oldest_ops, &address, 0, &resource));
    CHECK_STATUS(TARN_INVALID_ARGUMENT,
                 tarn_resource_deallocate(resource, 0x1000, 8, 0, NULL));
    CHECK_MESSAGE("which has none");
    CHECK_OK(tarn_resource_allocate(resource, 8, 0, NULL, &block));
    CHECK_OK(tarn_resource_deallocate(resource, block, 8, 0, NULL));
    CHECK_STATUS(TARN_INVALID_ARGUMENT,
                 tarn_resource_deallocate(resource, block, 8, 0, NULL));
    CHECK_EQUAL(1, deallocations);
    CHECK_OK(tarn_resource_release(resource));
}

/* All objects of the table are equivalent. */
static bool always_equal(const void *self, const void *other)
{
    (void)self, (void)other;
    return true;
}

TEST(deallocate_takes_the_block_of_an_equal_resource)
{
    tarn_device_ptr address = 0x1000, block;
    tarn_resource_ops ops = {
        .size = sizeof ops,
        .name = "equal",
        .allocate = give_address,
        .deallocate = take_anything,
        .destroy = destroy_nothing,
        .is_equal = always_equal,
    };
    tarn_resource *one, *two;

    deallocations = 0;
    CHECK_OK(tarn_resource_create(&ops, &address, 0, &one));
    CHECK_OK(tarn_resource_create(&ops, &address, 0, &two));
    CHECK(tarn_resource_is_equal(one, two));
    CHECK_OK(tarn_resource_allocate(one, 8, 0, NULL, &block));
    CHECK_OK(tarn_resource_deallocate(two, block, 8, 0, NULL));
    CHECK_EQUAL(1, deallocations);
    CHECK_OK(tarn_resource_release(one));
    CHECK_OK(tarn_resource_release(two));
}

TEST(deallocate_that_fails_leaves_the_block_live)
{
    struct scripted script;
    tarn_device_ptr block;

    scripted_begin(&script, 0);
    CHECK_OK(tarn_resource_allocate(script.resource, 10, 0, NULL, &block));
    script.free_fails = TARN_DRIVER_FAILURE;
    CHECK_STATUS(TARN_DRIVER_FAILURE,
                 tarn_resource_deallocate(script.resource, block, 10, 0, NULL));
    CHECK_EQUAL(1, tarn_resource_live_blocks(script.resource));
    script.free_fails = TARN_OK;
    CHECK_OK(tarn_resource_deallocate(script.resource, block, 10, 0, NULL));
    CHECK_EQUAL(0, tarn_resource_live_blocks(script.resource));
    scripted_end(&script);
}

TEST(release_of_the_last_owner_is_rejected_with_the_number_of_blocks)
{
    struct scripted script;
    tarn_device_ptr one, two;

    scripted_begin(&script, 0);
    CHECK_OK(tarn_resource_allocate(script.resource, 10, 0, NULL, &one));
    CHECK_OK(tarn_resource_allocate(script.resource, 10, 0, NULL, &two));
    CHECK(tarn_resource_retain(script.resource) == script.resource);
    CHECK_OK(tarn_resource_release(script.resource));
    CHECK_STATUS(TARN_STILL_IN_USE, tarn_resource_release(script.resource));
    CHECK_MESSAGE("2 blocks");
    CHECK_EQUAL(0, script.destroyed);
    CHECK_OK(tarn_resource_deallocate(script.resource, one, 10, 0, NULL));
    CHECK_OK(tarn_resource_deallocate(script.resource, two, 10, 0, NULL));
    scripted_end(&script);
}

TEST(questions_are_passed_to_the_resource)
{
    struct scripted script;
    size_t free_bytes, total_bytes, released;

    scripted_begin(&script, 2);
    script.deallocate_synchronizes = true;
    CHECK(tarn_resource_deallocate_synchronizes(script.resource));
    CHECK(!tarn_resource_supports_streams(script.resource));
    script.supports_streams = true;
    CHECK(tarn_resource_supports_streams(script.resource));
    CHECK(tarn_resource_supports_memory_info(script.resource));
    CHECK_OK(tarn_resource_memory_info(script.resource, TARN_STREAM_PER_THREAD,
                                       &free_bytes, &total_bytes));
    CHECK(free_bytes == 1000 && total_bytes == 4000);
    CHECK(script.stream == TARN_STREAM_PER_THREAD);
    CHECK_OK(tarn_resource_trim(script.resource, 41, &released));
    CHECK_EQUAL(42, released);
    CHECK_OK(tarn_resource_trim(script.resource, 41, NULL));
    CHECK_EQUAL(2, script.trims);
    scripted_end(&script);
}

TEST(null_is_no_resource_and_no_crash)
{
    size_t bytes;

    CHECK_OK(tarn_resource_release(NULL));
    CHECK(tarn_resource_retain(NULL) == NULL);
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_resource_deallocate(NULL, 1, 1, 0, NULL));
    CHECK_STATUS(TARN_INVALID_ARGUMENT,
                 tarn_resource_memory_info(NULL, NULL, &bytes, &bytes));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_resource_trim(NULL, 0, NULL));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_resource_requested_bytes(NULL, 1, &bytes));
    CHECK_EQUAL(0, tarn_resource_live_blocks(NULL));
    CHECK(!tarn_resource_deallocate_synchronizes(NULL));
    CHECK(!tarn_resource_supports_no_stream(NULL));
    CHECK(!tarn_resource_supports_streams(NULL));
    CHECK(!tarn_resource_supports_memory_info(NULL));
    CHECK_EQUAL(TARN_DEVICE_NONE, tarn_resource_device(NULL));
}

/* --- is_equal --- */

static bool same_remainder(const void *self, const void *other)
{
    return *(const tarn_device_ptr *)self % 10 == *(const tarn_device_ptr *)other % 10;
}

TEST(is_equal_calls_only_resources_of_the_same_table)
{
    tarn_device_ptr a = 11, b = 21, c = 12;
    tarn_resource *one, *two, *three, *other, *silent, *silent_too;
    tarn_resource_ops ops = oldest_ops, other_ops;

    ops.size = sizeof ops;
    ops.name = "with is_equal";
    ops.is_equal = same_remainder;
    other_ops = ops;
    other_ops.name = "another one";
    CHECK_OK(tarn_resource_create(&ops, &a, 0, &one));
    CHECK_OK(tarn_resource_create(&ops, &b, 0, &two));
    CHECK_OK(tarn_resource_create(&ops, &c, 0, &three));
    CHECK_OK(tarn_resource_create(&other_ops, &a, 0, &other));
    CHECK_OK(tarn_resource_create(&oldest_ops, &a, 0, &silent));
    CHECK_OK(tarn_resource_create(&oldest_ops, &a, 0, &silent_too));
    CHECK(tarn_resource_is_equal(one, two));
    CHECK(!tarn_resource_is_equal(one, three));
    CHECK(!tarn_resource_is_equal(one, other));
    CHECK(!tarn_resource_is_equal(silent, silent_too)); /* the last release */
    CHECK(tarn_resource_is_equal(silent, silent));
    CHECK(!tarn_resource_is_equal(one, NULL) && !tarn_resource_is_equal(NULL, one));
    tarn_resource *all[] = {one, two, three, other, silent, silent_too};
    for (int i = 0; i < 6; i++)
        CHECK_OK(tarn_resource_release(all[i]));
}
