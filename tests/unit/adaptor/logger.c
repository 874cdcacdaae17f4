/* Test the logger: one row per call, with the figures of the event, in a consistent
 * order. */
#define _GNU_SOURCE
#include "test.h"
#include "child.h"
#include "driver_calls.h"
#include "scripted.h"
#include "write_nothing.h"
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sched.h>

/* The output of the writer. */
static char text[1 << 20];
static size_t text_bytes;
static bool disk_full;

static bool keep(void *data, const char *bytes, size_t count)
{
    (void)data;
    if (disk_full || text_bytes + count >= sizeof text) {
        errno = ENOSPC;
        return false;
    }
    memcpy(text + text_bytes, bytes, count);
    text_bytes += count;
    return true;
}

static bool keep_with_a_failure(void *data, const char *bytes, size_t count)
{
    tarn_error_set(TARN_OUT_OF_MEMORY, "of the writer's function");
    return keep(data, bytes, count);
}

static struct scripted script;
static tarn_trace_writer *writer;
static tarn_resource *logger;

static void begin(tarn_trace_format format)
{
    text_bytes = 0;
    disk_full = false;
    scripted_begin(&script, 1);
    CHECK_OK(tarn_trace_writer_create(keep, NULL, format, &writer));
    CHECK_OK(tarn_logger_create(script.resource, writer, &logger));
}

static void end(void)
{
    CHECK_OK(tarn_resource_release(logger));
    CHECK_OK(tarn_trace_writer_release(writer));
    scripted_end(&script);
}

/* Read the events of the log so far with Tarn's own reader. */
static tarn_trace_event events[20000];
static char places[20000][32];
static unsigned event_count;
static size_t read_bytes;

static long serve(void *data, char *buffer, size_t capacity)
{
    size_t left = text_bytes - read_bytes, count = left < capacity ? left : capacity;

    (void)data;
    memcpy(buffer, text + read_bytes, count);
    read_bytes += count;
    return (long)count;
}

static tarn_status note(void *data, const tarn_trace_event *event, uint64_t line)
{
    (void)data, (void)line;
    CHECK(event_count < sizeof events / sizeof *events);
    events[event_count] = *event;
    snprintf(places[event_count], sizeof *places, "%.31s",
             event->location ? event->location : "");
    event_count++;
    return TARN_OK;
}

static unsigned read_log(void)
{
    tarn_trace_format format;

    CHECK_OK(tarn_trace_flush(writer));
    event_count = 0;
    read_bytes = 0;
    CHECK_OK(tarn_trace_read("test", serve, NULL, NULL, note, NULL, &format));
    return event_count;
}

/* The figures are unknown while no driver is open, and no row opens one. */
static void log_without_a_driver(void)
{
    static const int devices[] = {0, 1, TARN_DEVICE_NONE};

    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
        tarn_device_ptr block;
        text_bytes = 0;
        scripted_begin(&script, devices[i]);
        CHILD_STATUS(TARN_OK,
                     tarn_trace_writer_create(keep, NULL, TARN_TRACE_NBEP7, &writer));
        CHILD_STATUS(TARN_OK, tarn_logger_create(script.resource, writer, &logger));
        CHILD_STATUS(TARN_OK, tarn_resource_allocate(logger, 80, 0, NULL, &block));
        CHILD_STATUS(TARN_OK, tarn_resource_deallocate(logger, block, 80, 0, NULL));
        CHILD_CHECK(read_log() == 2);
        CHILD_CHECK(events[0].free_bytes == 0 && events[0].total_bytes == 0);
        CHILD_CHECK(!dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD));
        CHILD_STATUS(TARN_OK, tarn_resource_release(logger));
        CHILD_STATUS(TARN_OK, tarn_trace_writer_release(writer));
        scripted_end(&script);
    }
}

TEST(logger_opens_no_driver)
{
    in_child(log_without_a_driver);
}

TEST(logger_writes_each_call_with_its_figures)
{
    tarn_device_ptr one, two, none = 7;

    begin(TARN_TRACE_NBEP7);
    tarn_site before = tarn_site_set((tarn_site){"/home/me/prog.py", 12});
    CHECK_OK(tarn_resource_allocate(logger, 80, 0, TARN_STREAM_PER_THREAD, &one));
    tarn_site_set((tarn_site){"<gc>", 0});
    CHECK_OK(tarn_resource_allocate(logger, 500, 0, TARN_STREAM_NONE, &two));
    CHECK_OK(tarn_resource_deallocate(logger, one, 80, 0, NULL));
    tarn_site_set(before);
    script.allocate_fails = TARN_OUT_OF_MEMORY;
    CHECK_STATUS(TARN_OUT_OF_MEMORY, tarn_resource_allocate(logger, 900, 0, NULL, &none));
    CHECK_MESSAGE("scripted: no 900 bytes");
    CHECK_OK(tarn_resource_deallocate(logger, two, 500, 0, NULL));

    CHECK(read_log() >= 4);
    CHECK_EQUAL(TARN_ACTION_ALLOCATE, events[0].action);
    CHECK(events[0].address == one && events[0].bytes == 80 && events[0].device == 1);
    CHECK(events[0].stream == 2 && events[0].live_blocks == 1);
    CHECK(events[0].end_ns >= events[0].start_ns);
    CHECK_TEXT("/home/me/prog.py:12", places[0]);
    CHECK(events[1].address == two && events[1].live_blocks == 2);
    CHECK(events[1].start_ns >= events[0].end_ns);
    CHECK_TEXT("<gc>", places[1]);
    CHECK_EQUAL(TARN_ACTION_FREE, events[2].action);
    CHECK(events[2].address == one && events[2].live_blocks == 1);
    CHECK(events[2].start_ns >= events[1].end_ns);
    CHECK(events[2].end_ns >= events[2].start_ns);
    CHECK_TEXT("", places[3]);
    CHECK_EQUAL(TARN_ACTION_FREE, events[event_count - 1].action);
    CHECK(events[event_count - 1].address == two);
    CHECK_EQUAL(0, events[event_count - 1].live_blocks);
    end();
}

static int times_found;

static tarn_site find_site(bool freeing)
{
    times_found++;
    return freeing ? (tarn_site){"<gc>", 0} : (tarn_site){"found.py", 3};
}

TEST(logger_has_a_place_found_where_none_is_set_and_it_writes_one)
{
    tarn_device_ptr block;

    times_found = 0;
    tarn_site_set_finder(find_site);
    begin(TARN_TRACE_NBEP7);
    CHECK_OK(tarn_resource_allocate(logger, 80, 0, NULL, &block));
    tarn_site before = tarn_site_set((tarn_site){"<string>", 7});
    CHECK_OK(tarn_resource_deallocate(logger, block, 80, 0, NULL));
    tarn_site_set(before);
    CHECK_EQUAL(1, times_found);
    CHECK_OK(tarn_resource_allocate(logger, 80, 0, NULL, &block));
    CHECK_OK(tarn_resource_deallocate(logger, block, 80, 0, NULL));
    CHECK_EQUAL(3, times_found);
    CHECK_EQUAL(4, read_log());
    CHECK_TEXT("found.py:3", places[0]);
    CHECK_TEXT("<string>:7", places[1]); /* code without a file has lines */
    CHECK_TEXT("found.py:3", places[2]);
    CHECK_TEXT("<gc>", places[3]);
    end();

    begin(TARN_TRACE_RMM); /* which has no column for it */
    CHECK_OK(tarn_resource_allocate(logger, 80, 0, NULL, &block));
    CHECK_OK(tarn_resource_deallocate(logger, block, 80, 0, NULL));
    CHECK_EQUAL(3, times_found);
    end();

    tarn_site_set_finder(NULL);
    begin(TARN_TRACE_NBEP7);
    CHECK_OK(tarn_resource_allocate(logger, 80, 0, NULL, &block));
    CHECK_OK(tarn_resource_deallocate(logger, block, 80, 0, NULL));
    CHECK_EQUAL(3, times_found);
    CHECK_EQUAL(2, read_log());
    CHECK_TEXT("", places[0]);
    end();
}

TEST(logger_writes_rmms_rows)
{
    tarn_device_ptr block, none = 7;

    begin(TARN_TRACE_RMM);
    CHECK_OK(tarn_resource_allocate(logger, 80, 0, NULL, &block));
    CHECK_OK(tarn_resource_deallocate(logger, block, 80, 0, NULL));
    script.allocate_fails = TARN_OUT_OF_MEMORY;
    CHECK_STATUS(TARN_OUT_OF_MEMORY, tarn_resource_allocate(logger, 9, 0, NULL, &none));
    CHECK_EQUAL(3, read_log());
    CHECK(events[0].action == TARN_ACTION_ALLOCATE && events[0].address == block);
    CHECK(events[0].bytes == 80 && events[0].thread != 0);
    CHECK(events[1].action == TARN_ACTION_FREE && events[1].bytes == 80);
    CHECK(events[2].action == TARN_ACTION_ALLOCATE_FAILURE && events[2].bytes == 9);
    end();
}

TEST(logger_writes_rows_of_0_bytes_beneath_other_adaptors_too)
{
    tarn_resource *limiter, *counter;
    tarn_device_ptr none = 7;

    begin(TARN_TRACE_RMM);
    CHECK_OK(tarn_limiter_create(logger, 100, &limiter));
    CHECK_OK(tarn_counter_create(limiter, &counter));
    CHECK_OK(tarn_resource_allocate(logger, 0, 0, NULL, &none));
    CHECK_EQUAL(0, none);
    CHECK_OK(tarn_resource_deallocate(logger, 0, 0, 0, NULL));
    CHECK_OK(tarn_resource_allocate(counter, 0, 0, TARN_STREAM_PER_THREAD, &none));
    CHECK_OK(tarn_resource_deallocate(counter, 0, 0, 0, NULL));
    CHECK_EQUAL(4, read_log());
    CHECK_EQUAL(TARN_ACTION_ALLOCATE, events[0].action);
    CHECK_EQUAL(TARN_ACTION_FREE, events[1].action);
    CHECK_EQUAL(2, events[2].stream);
    for (int i = 0; i < 4; i++)
        CHECK(events[i].address == 0 && events[i].bytes == 0 && events[i].thread != 0);
    CHECK(strstr(text, ",allocate,(nil),0,0\n") && strstr(text, ",free,(nil),0,0\n"));
    CHECK_EQUAL(0, tarn_resource_live_blocks(logger));
    CHECK_OK(tarn_resource_release(counter));
    CHECK_OK(tarn_resource_release(limiter));
    end();
}

TEST(logger_passes_requests_of_0_bytes_on_to_a_logger_beneath)
{
    tarn_trace_writer *second;
    tarn_resource *above;
    tarn_device_ptr none = 7;

    begin(TARN_TRACE_RMM);
    CHECK_OK(tarn_trace_writer_create(write_nothing, NULL, TARN_TRACE_RMM, &second));
    CHECK_OK(tarn_logger_create(logger, second, &above));
    CHECK_OK(tarn_resource_allocate(above, 0, 0, NULL, &none));
    CHECK_OK(tarn_resource_deallocate(above, 0, 0, 0, NULL));
    CHECK_EQUAL(2, read_log());
    CHECK_EQUAL(TARN_ACTION_ALLOCATE, events[0].action);
    CHECK_EQUAL(TARN_ACTION_FREE, events[1].action);
    CHECK_OK(tarn_resource_release(above));
    CHECK_OK(tarn_trace_writer_release(second));
    end();
}

TEST(logger_writes_no_row_for_a_free_that_did_not_happen)
{
    tarn_device_ptr block;

    begin(TARN_TRACE_RMM);
    CHECK_OK(tarn_resource_allocate(logger, 80, 0, NULL, &block));
    script.free_fails = TARN_DRIVER_FAILURE;
    CHECK_STATUS(TARN_DRIVER_FAILURE,
                 tarn_resource_deallocate(logger, block, 80, 0, NULL));
    CHECK_MESSAGE("scripted: keeps");
    CHECK_EQUAL(1, read_log());
    script.free_fails = TARN_OK;
    CHECK_OK(tarn_resource_deallocate(logger, block, 80, 0, NULL));
    CHECK_EQUAL(2, read_log());
    end();
}

TEST(logger_goes_on_when_the_log_cannot_be_written)
{
    tarn_device_ptr block;

    begin(TARN_TRACE_NBEP7);
    disk_full = true;
    tarn_error_set(TARN_BAD_FORMAT, "words from before");
    for (int i = 0; i < 2000; i++) {
        CHECK_OK(tarn_resource_allocate(logger, 80, 0, NULL, &block));
        CHECK_OK(tarn_resource_deallocate(logger, block, 80, 0, NULL));
    }
    CHECK_MESSAGE("words from before"); /* a success leaves them alone */
    CHECK_STATUS(TARN_SYSTEM_FAILURE, tarn_trace_flush(writer));
    CHECK_OK(tarn_resource_release(logger));
    CHECK_STATUS(TARN_SYSTEM_FAILURE, tarn_trace_writer_release(writer));
    scripted_end(&script);
}

TEST(logger_leaves_the_message_of_a_failure_alone_whatever_writes_the_log)
{
    tarn_device_ptr block;

    text_bytes = 0;
    disk_full = false;
    scripted_begin(&script, 1);
    CHECK_OK(
        tarn_trace_writer_create(keep_with_a_failure, NULL, TARN_TRACE_NBEP7, &writer));
    CHECK_OK(tarn_logger_create(script.resource, writer, &logger));
    script.allocate_fails = TARN_OUT_OF_MEMORY;
    for (int i = 0; i < 4000; i++) { /* the buffer is written in one of them */
        CHECK_STATUS(TARN_OUT_OF_MEMORY,
                     tarn_resource_allocate(logger, 80, 0, NULL, &block));
        CHECK_MESSAGE("scripted: no 80 bytes");
    }
    CHECK(text_bytes > 0);
    end();
}

static int warnings;

static void hear(void *data, const char *message)
{
    (void)data;
    warnings++;
    CHECK(strstr(message, "logger: trace: cannot write the log"));
}

TEST(logger_that_has_the_writer_last_warns_of_a_log_that_was_not_written)
{
    tarn_device_ptr block;

    begin(TARN_TRACE_RMM);
    CHECK_OK(tarn_trace_writer_release(writer));
    disk_full = true;
    for (int i = 0; i < 2000; i++) {
        CHECK_OK(tarn_resource_allocate(logger, 80, 0, NULL, &block));
        CHECK_OK(tarn_resource_deallocate(logger, block, 80, 0, NULL));
    }
    warnings = 0;
    tarn_set_warning_handler(hear, NULL);
    CHECK_OK(tarn_resource_release(logger));
    CHECK_EQUAL(1, warnings);
    scripted_end(&script);
}

TEST(logger_keeps_its_writer_and_releases_it)
{
    tarn_device_ptr block;

    begin(TARN_TRACE_RMM);
    CHECK_OK(tarn_trace_writer_release(writer));
    CHECK_OK(tarn_resource_allocate(logger, 80, 0, NULL, &block));
    CHECK_OK(tarn_resource_deallocate(logger, block, 80, 0, NULL));
    CHECK_EQUAL(0, text_bytes);
    CHECK_OK(tarn_resource_release(logger));
    CHECK(text_bytes > 0); /* the last release flushed it */
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_logger_create(NULL, NULL, &logger));
    CHECK_STATUS(TARN_INVALID_ARGUMENT,
                 tarn_logger_create(script.resource, NULL, &logger));
    scripted_end(&script);
}

TEST(logger_writes_what_the_device_has_left_after_the_event)
{
    enum { BYTES = 64 << 20 };
    size_t before, during, after, total;
    tarn_device_ptr block;
    tarn_resource *cuda;

    text_bytes = 0;
    disk_full = false;
    CHECK_OK(tarn_cuda_create(0, &cuda));
    CHECK_OK(tarn_trace_writer_create(keep, NULL, TARN_TRACE_NBEP7, &writer));
    CHECK_OK(tarn_logger_create(cuda, writer, &logger));
    CHECK_OK(tarn_resource_memory_info(cuda, NULL, &before, &total));
    CHECK_OK(tarn_resource_allocate(logger, BYTES, 0, NULL, &block));
    CHECK_OK(tarn_resource_memory_info(cuda, NULL, &during, &total));
    CHECK_OK(tarn_resource_deallocate(logger, block, BYTES, 0, NULL));
    CHECK_OK(tarn_resource_memory_info(cuda, NULL, &after, &total));
    CHECK_EQUAL(2, read_log());
    CHECK(events[0].total_bytes == total && events[1].total_bytes == total);
    CHECK(events[0].free_bytes == during && during < before);
    CHECK(events[1].free_bytes == after && after > during);
    CHECK_OK(tarn_resource_release(logger));
    CHECK_OK(tarn_trace_writer_release(writer));
    CHECK_OK(tarn_resource_release(cuda));
}

/* The query of the free memory enters the context of the resource's device. */
TEST(logger_leaves_the_current_context_of_the_thread)
{
    int (*retain)(void **out, int device), (*set_current)(void *context),
        (*get_current)(void **out);
    void *context, *after = NULL;
    tarn_device_ptr block;

    if (!has_second_device())
        skip();
    find_call("cuDevicePrimaryCtxRetain", &retain);
    find_call("cuCtxSetCurrent", &set_current);
    find_call("cuCtxGetCurrent", &get_current);
    CHECK(retain(&context, 0) == 0 && set_current(context) == 0);
    begin(TARN_TRACE_NBEP7);
    CHECK_EQUAL(1, tarn_resource_device(logger));
    CHECK_OK(tarn_resource_allocate(logger, 80, 0, NULL, &block));
    CHECK_EQUAL(0, get_current(&after));
    CHECK(after == context);
    CHECK_OK(tarn_resource_deallocate(logger, block, 80, 0, NULL));
    CHECK_EQUAL(2, read_log());
    CHECK(events[0].total_bytes > 0);
    end();
    CHECK_EQUAL(0, set_current(NULL));
}

static void log_pairs(unsigned count)
{
    tarn_device_ptr block;

    for (unsigned i = 0; i < count; i++) {
        CHECK_OK(tarn_resource_allocate(logger, 512, 0, NULL, &block));
        CHECK_OK(tarn_resource_deallocate(logger, block, 512, 0, NULL));
    }
}

/* Except once in a millisecond; an overloaded machine may need that long for each of
 * them. */
TEST(rows_of_memory_that_a_pool_has_available_need_no_driver_call)
{
    enum { BYTES = 64 << 20, PAIRS = 4, TRIES = 100000 };
    size_t left, total;
    tarn_device_ptr block;
    tarn_resource *cuda, *pool;
    int tries = 0;

    text_bytes = 0;
    disk_full = false;
    CHECK_OK(tarn_cuda_create(0, &cuda));
    CHECK_OK(tarn_pool_create(0, NULL, NULL, &pool));
    CHECK_OK(tarn_trace_writer_create(keep, NULL, TARN_TRACE_NBEP7, &writer));
    CHECK_OK(tarn_logger_create(pool, writer, &logger));
    CHECK_OK(tarn_resource_allocate(logger, BYTES, 0, NULL, &block)); /* the pool grows */
    CHECK_OK(tarn_resource_memory_info(cuda, NULL, &left, &total));
    CHECK_EQUAL(1, read_log());
    CHECK(events[0].free_bytes == left && events[0].total_bytes == total);
    for (unsigned long long calls = 1; on_sim() && calls > 0 && tries < TRIES; tries++) {
        text_bytes = 0;
        calls = sim_calls();
        log_pairs(PAIRS);
        calls = sim_calls() - calls;
    }
    CHECK(tries < TRIES);
    CHECK_OK(tarn_resource_deallocate(logger, block, BYTES, 0, NULL));
    CHECK_OK(tarn_resource_release(logger));
    CHECK_OK(tarn_trace_writer_release(writer));
    CHECK_OK(tarn_resource_release(pool));
    CHECK_OK(tarn_resource_release(cuda));
}

/* --- the order of rows between threads --- */

enum { THREADS = 4, ROUNDS = 2000, SLOTS = 3 };

/* An upstream with few addresses, which pass between threads all the time. */
static pthread_mutex_t slots_lock = PTHREAD_MUTEX_INITIALIZER;
static bool slot_used[SLOTS];

static tarn_status take_slot(void *self, size_t bytes, size_t alignment,
                             tarn_stream stream, tarn_device_ptr *out)
{
    int slot = 0;

    (void)self, (void)bytes, (void)alignment, (void)stream;
    pthread_mutex_lock(&slots_lock);
    while (slot < SLOTS && slot_used[slot])
        slot++;
    if (slot < SLOTS)
        slot_used[slot] = true;
    pthread_mutex_unlock(&slots_lock);
    if (slot == SLOTS)
        return tarn_error_set(TARN_OUT_OF_MEMORY, "slots: none is free");
    *out = (tarn_device_ptr)(slot + 1) << 12;
    return TARN_OK;
}

static tarn_status give_slot(void *self, tarn_device_ptr block, size_t bytes,
                             size_t alignment, tarn_stream stream)
{
    (void)self, (void)bytes, (void)alignment, (void)stream;
    pthread_mutex_lock(&slots_lock);
    slot_used[(block >> 12) - 1] = false;
    pthread_mutex_unlock(&slots_lock);
    sched_yield(); /* now another thread can get it */
    return TARN_OK;
}

static void destroy_nothing(void *self)
{
    (void)self;
}

static const tarn_resource_ops slots_ops = {
    .size = sizeof slots_ops,
    .name = "slots",
    .allocate = take_slot,
    .deallocate = give_slot,
    .destroy = destroy_nothing,
};

static void *take_and_give(void *data)
{
    tarn_device_ptr block;

    for (int i = 0; i < ROUNDS; i++)
        if (tarn_resource_allocate(data, 16, 0, NULL, &block) == TARN_OK)
            tarn_resource_deallocate(data, block, 16, 0, NULL);
    return NULL;
}

TEST(logger_never_writes_an_allocation_before_the_free_that_it_reuses)
{
    pthread_t threads[THREADS];
    tarn_resource *slots;
    bool out[SLOTS + 1] = {false};

    text_bytes = 0;
    disk_full = false;
    CHECK_OK(tarn_resource_create(&slots_ops, NULL, TARN_DEVICE_NONE, &slots));
    CHECK_OK(tarn_trace_writer_create(keep, NULL, TARN_TRACE_RMM, &writer));
    CHECK_OK(tarn_logger_create(slots, writer, &logger));
    for (int i = 0; i < THREADS; i++)
        CHECK_EQUAL(0, pthread_create(&threads[i], NULL, take_and_give, logger));
    for (int i = 0; i < THREADS; i++)
        CHECK_EQUAL(0, pthread_join(threads[i], NULL));
    unsigned count = read_log();
    for (unsigned i = 0; i < count; i++) {
        size_t slot = events[i].address >> 12;
        if (events[i].action == TARN_ACTION_ALLOCATE)
            CHECK(!out[slot]);
        if (events[i].action == TARN_ACTION_FREE)
            CHECK(out[slot]);
        out[slot] = events[i].action == TARN_ACTION_ALLOCATE;
    }
    CHECK(count >= THREADS * ROUNDS);
    CHECK_OK(tarn_resource_release(logger));
    CHECK_OK(tarn_trace_writer_release(writer));
    CHECK_OK(tarn_resource_release(slots));
}
