/* Test the tracker: its list of live blocks, and the call stack of each. */
#define _GNU_SOURCE
#include "../trace/decoder.h"
#include "../trace/file.h"
#include "scripted.h"
#include <pthread.h>
#include <stdlib.h>

static struct scripted script;
static tarn_resource *tracker;

static void begin(unsigned stack_depth)
{
    tarn_tracker_options options = {.size = sizeof options, .stack_depth = stack_depth};

    scripted_begin(&script, 0);
    CHECK_OK(tarn_tracker_create(script.resource, &options, &tracker));
}

static void end(void)
{
    CHECK_OK(tarn_resource_release(tracker));
    scripted_end(&script);
}

static tarn_device_ptr take(size_t bytes)
{
    tarn_device_ptr block;

    CHECK_OK(tarn_resource_allocate(tracker, bytes, 0, NULL, &block));
    return block;
}

static void put(tarn_device_ptr block, size_t bytes)
{
    CHECK_OK(tarn_resource_deallocate(tracker, block, bytes, 0, NULL));
}

static size_t bytes_now(void)
{
    size_t bytes = 77;

    CHECK_OK(tarn_tracker_bytes(tracker, &bytes));
    return bytes;
}

/* The blocks of a visit, which ends after `limit` of them. */
struct list {
    size_t limit, count;
    tarn_tracked_block blocks[100];
};

static bool add(void *data, const tarn_tracked_block *block)
{
    struct list *list = data;

    list->blocks[list->count++] = *block;
    return list->count < list->limit;
}

static struct list list_now(void)
{
    struct list list = {.limit = 100};

    CHECK_OK(tarn_tracker_visit(tracker, add, &list));
    return list;
}

TEST(tracker_lists_its_live_blocks_by_address)
{
    enum { BLOCKS = 70 };
    tarn_device_ptr blocks[BLOCKS];

    begin(0);
    for (size_t i = 0; i < BLOCKS; i++)
        blocks[i] = take(i + 1);
    CHECK_EQUAL(BLOCKS * (BLOCKS + 1) / 2, bytes_now());
    struct list list = list_now();
    CHECK_EQUAL(BLOCKS, list.count);
    for (size_t i = 1; i < BLOCKS; i++)
        CHECK(list.blocks[i].address > list.blocks[i - 1].address);
    for (size_t i = 0; i < BLOCKS; i++) {
        size_t j = 0;
        while (list.blocks[j].address != blocks[i])
            j++;
        CHECK(list.blocks[j].bytes == i + 1);
        CHECK(list.blocks[j].stack == TARN_STACK_UNKNOWN);
    }
    for (size_t i = 0; i < BLOCKS; i++)
        put(blocks[i], i + 1);
    CHECK(bytes_now() == 0 && list_now().count == 0);
    end();
}

TEST(tracker_records_no_failure_and_keeps_a_block_whose_free_fails)
{
    tarn_device_ptr block = 7;

    begin(0);
    script.allocate_fails = TARN_OUT_OF_MEMORY;
    CHECK_STATUS(TARN_OUT_OF_MEMORY, tarn_resource_allocate(tracker, 9, 0, NULL, &block));
    CHECK(block == 7 && bytes_now() == 0 && list_now().count == 0);
    script.allocate_fails = TARN_OK;
    block = take(9);
    script.free_fails = TARN_DRIVER_FAILURE;
    CHECK_STATUS(TARN_DRIVER_FAILURE,
                 tarn_resource_deallocate(tracker, block, 9, 0, NULL));
    CHECK(bytes_now() == 9 && list_now().blocks[0].address == block);
    script.free_fails = TARN_OK;
    put(block, 9);
    CHECK(bytes_now() == 0 && list_now().count == 0);
    end();
}

static void check_forgotten(void)
{
    CHECK(bytes_now() == 0 && list_now().count == 0);
}

/* Another thread may receive the block as soon as the upstream has it. */
TEST(tracker_forgets_a_block_before_upstream_has_it)
{
    begin(0);
    tarn_device_ptr block = take(9);
    script.before_free = check_forgotten;
    put(block, 9);
    end();
}

static tarn_stack find(unsigned depth)
{
    tarn_stack_frame frame = {.function = "f", .file = "a.py", .line = (int)depth};
    uint32_t number = tarn_stack_add_frame(&frame);

    return tarn_stack_add(&number, 1);
}

/* As after a reset of the context, which ends blocks without a free. */
TEST(tracker_has_the_last_block_of_an_address)
{
    begin(0);
    script.address = 0x70000;
    take(100);
    tarn_device_ptr block = take(300);
    CHECK_EQUAL(300, bytes_now());
    struct list list = list_now();
    CHECK_EQUAL(1, list.count);
    CHECK_EQUAL(300, list.blocks[0].bytes);
    put(block, 300);
    CHECK_EQUAL(0, bytes_now());
    put(block, 100);
    CHECK_EQUAL(0, bytes_now());
    end();
}

TEST(tracker_records_the_stack_of_each_block)
{
    tarn_stack_frame frame;

    tarn_stack_set_finder(find);
    begin(16);
    tarn_device_ptr block = take(9);
    tarn_stack_set_finder(NULL);
    tarn_device_ptr native = take(10);
    struct list list = list_now();
    int first = list.blocks[0].address == block ? 0 : 1;
    CHECK_EQUAL(1, tarn_stack_frames(list.blocks[first].stack, 1, &frame));
    CHECK(frame.line == 16 && strcmp(frame.file, "a.py") == 0);
    CHECK(tarn_stack_frames(list.blocks[!first].stack, 1, &frame) > 1);
    CHECK(frame.build_id != NULL && strstr(frame.file, "unit-adaptor-tracker") != NULL);
    put(block, 9);
    put(native, 10);
    end();
}

TEST(tracker_prints_its_blocks_with_their_stacks)
{
    char *text = NULL, wanted[200];
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);

    begin(3);
    CHECK_OK(tarn_tracker_print(tracker, out));
    tarn_stack_set_finder(find);
    tarn_device_ptr block = take(1000);
    tarn_stack_set_finder(NULL);
    CHECK_OK(tarn_tracker_print(tracker, out));
    fclose(out);
    snprintf(wanted, sizeof wanted, "0x%llx: 1000 B\n  File \"a.py\", line 3, in f\n",
             (unsigned long long)block);
    CHECK_TEXT(wanted, text);
    free(text);
    put(block, 1000);
    end();
}

TEST(tracker_ends_a_visit_when_the_function_returns_false)
{
    struct list list = {.limit = 2};

    begin(0);
    tarn_device_ptr blocks[] = {take(1), take(2), take(3)};
    CHECK_OK(tarn_tracker_visit(tracker, add, &list));
    CHECK_EQUAL(2, list.count);
    for (size_t i = 0; i < 3; i++)
        put(blocks[i], i + 1);
    end();
}

static bool take_another(void *data, const tarn_tracked_block *block)
{
    tarn_device_ptr *other = data;

    (void)block;
    *other = take(5);
    return true;
}

TEST(tracker_can_be_used_in_a_visit)
{
    tarn_device_ptr other = 0;

    begin(0);
    tarn_device_ptr block = take(1);
    CHECK_OK(tarn_tracker_visit(tracker, take_another, &other));
    CHECK_EQUAL(6, bytes_now());
    put(block, 1);
    put(other, 5);
    end();
}

static tarn_trace_writer *open_log(const struct file *file)
{
    const tarn_trace_writer_options options = {
        .size = sizeof options, .format = TARN_TRACE_BINARY, .stack_depth = 16};
    tarn_trace_writer *writer;

    CHECK_OK(tarn_trace_writer_open_with(file->path, &options, &writer));
    return writer;
}

TEST(tracker_writes_a_row_for_each_live_block)
{
    struct file file = file_new();

    begin(16);
    tarn_device_ptr small = take(100), freed = take(7), large = take(5000);
    put(freed, 7);
    tarn_trace_writer *writer = open_log(&file);
    CHECK_OK(tarn_tracker_write(tracker, writer));
    CHECK_OK(tarn_trace_writer_release(writer));
    struct decoded log = decode(file.path);
    struct list list = list_now();
    CHECK_EQUAL(2, log.count);
    for (int i = 0; i < 2; i++) {
        CHECK_EQUAL(TARN_ACTION_ALLOCATE, log.rows[i].action);
        CHECK_EQUAL(list.blocks[i].address, log.rows[i].address);
        CHECK_EQUAL(list.blocks[i].bytes, log.rows[i].bytes);
        CHECK_EQUAL(UINT64_MAX, log.rows[i].stream);
        CHECK(decoder_find(&log, 3, log.rows[i].stack) != NULL);
    }
    decoded_free(&log);
    unlink(file.path);
    put(small, 100);
    put(large, 5000);
    end();
}

TEST(tracker_writes_nothing_for_another_resource)
{
    struct file file = file_new();

    begin(0);
    tarn_trace_writer *writer = open_log(&file);
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_tracker_write(script.resource, writer));
    CHECK_MESSAGE("is not a tracker");
    CHECK_OK(tarn_tracker_write(tracker, writer)); /* it has no block */
    CHECK_OK(tarn_trace_writer_release(writer));
    struct decoded log = decode(file.path);
    CHECK_EQUAL(0, log.count);
    decoded_free(&log);
    unlink(file.path);
    end();
}

TEST(tracker_rejects_bad_arguments)
{
    tarn_tracker_options options = {.size = sizeof options, .stack_depth = 129};
    tarn_resource *none = NULL;
    size_t bytes = 77;

    begin(0);
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_tracker_create(NULL, NULL, &none));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_tracker_create(script.resource, NULL, NULL));
    CHECK_STATUS(TARN_INVALID_ARGUMENT,
                 tarn_tracker_create(script.resource, &options, &none));
    CHECK_MESSAGE("a stack_depth of 129, the maximum is 128");
    options = (tarn_tracker_options){.size = 3};
    CHECK_STATUS(TARN_INVALID_ARGUMENT,
                 tarn_tracker_create(script.resource, &options, &none));
    CHECK(none == NULL);
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_tracker_bytes(script.resource, &bytes));
    CHECK_MESSAGE("is not a tracker");
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_tracker_bytes(tracker, NULL));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_tracker_visit(NULL, add, NULL));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_tracker_visit(tracker, NULL, NULL));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_tracker_print(tracker, NULL));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_tracker_print(script.resource, stdout));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_tracker_write(tracker, NULL));
    CHECK_MESSAGE("writer is NULL");
    CHECK_EQUAL(77, bytes);
    end();
}

static void *take_and_put(void *data)
{
    (void)data;
    for (int i = 0; i < 500; i++)
        put(take(8), 8);
    return NULL;
}

static void *list_often(void *data)
{
    for (int i = 0; i < 200; i++)
        if (list_now().count > 4 || bytes_now() > 4 * 8)
            *(bool *)data = true;
    return NULL;
}

TEST(tracker_is_used_by_many_threads)
{
    pthread_t threads[5];
    tarn_tracker_options options = {.size = sizeof options, .stack_depth = 4};
    bool is_wrong = false;
    tarn_resource *host;

    CHECK_OK(tarn_host_create(&host));
    CHECK_OK(tarn_tracker_create(host, &options, &tracker));
    for (int i = 0; i < 4; i++)
        CHECK_EQUAL(0, pthread_create(&threads[i], NULL, take_and_put, NULL));
    CHECK_EQUAL(0, pthread_create(&threads[4], NULL, list_often, &is_wrong));
    for (int i = 0; i < 5; i++)
        CHECK_EQUAL(0, pthread_join(threads[i], NULL));
    CHECK(!is_wrong && bytes_now() == 0);
    CHECK_OK(tarn_resource_release(tracker));
    CHECK_OK(tarn_resource_release(host));
}
