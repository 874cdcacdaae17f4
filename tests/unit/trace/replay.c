/* Test replays, over a resource that records its calls, and over the driver. */
#define _GNU_SOURCE
#include "text.h"
#include "base/random.h"
#include <pthread.h>
#include <unistd.h>

enum { CALLS_MAX = 4096 };

struct call {
    bool is_free;
    size_t bytes;
    tarn_stream stream;
    pthread_t thread;
};

/* The recorded calls, and the answers. */
static struct recorder {
    pthread_mutex_t lock;
    struct call calls[CALLS_MAX];
    unsigned count;
    size_t live, limit;          /* over the limit it is out of memory; 0: no limit */
    unsigned fail_at;            /* the call of that number (from 1) fails; 0: none */
    useconds_t allocation_takes; /* microseconds */
} recorder = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool note(bool is_free, size_t bytes, tarn_stream stream)
{
    pthread_mutex_lock(&recorder.lock);
    struct call *call = &recorder.calls[recorder.count++ % CALLS_MAX];
    *call = (struct call){is_free, bytes, stream, pthread_self()};
    bool fails = recorder.count == recorder.fail_at;
    pthread_mutex_unlock(&recorder.lock);
    return !fails;
}

static tarn_status allocate(void *self, size_t bytes, size_t alignment,
                            tarn_stream stream, tarn_device_ptr *out)
{
    (void)self;
    if (recorder.allocation_takes)
        usleep(recorder.allocation_takes);
    if (!note(false, bytes, stream))
        return tarn_error_set(TARN_PLUGIN_FAILURE, "recorder: the allocation of %zu",
                              bytes);
    pthread_mutex_lock(&recorder.lock);
    bool full = recorder.limit && recorder.live + bytes > recorder.limit;
    recorder.live += full ? 0 : bytes;
    pthread_mutex_unlock(&recorder.lock);
    if (full)
        return tarn_error_set(TARN_OUT_OF_MEMORY, "recorder: full");
    void *block = NULL;
    CHECK_EQUAL(0, posix_memalign(&block, alignment, 1));
    *out = (tarn_device_ptr)(uintptr_t)block;
    return TARN_OK;
}

static tarn_status deallocate(void *self, tarn_device_ptr block, size_t bytes,
                              size_t alignment, tarn_stream stream)
{
    (void)self;
    (void)alignment;
    if (!note(true, bytes, stream))
        return tarn_error_set(TARN_PLUGIN_FAILURE, "recorder: the free of %zu", bytes);
    pthread_mutex_lock(&recorder.lock);
    recorder.live -= bytes;
    pthread_mutex_unlock(&recorder.lock);
    free((void *)(uintptr_t)block);
    return TARN_OK;
}

static void destroy(void *self)
{
    (void)self;
}

static bool yes(const void *self)
{
    (void)self;
    return true;
}

static const tarn_resource_ops recorder_ops = {
    .size = sizeof recorder_ops,
    .name = "recorder",
    .allocate = allocate,
    .deallocate = deallocate,
    .destroy = destroy,
    .supports_streams = yes,
};

static tarn_resource *recording(int device)
{
    tarn_resource *resource;

    recorder.count = 0;
    recorder.live = recorder.limit = 0;
    recorder.fail_at = 0;
    recorder.allocation_takes = 0;
    CHECK_OK(tarn_resource_create(&recorder_ops, &recorder, device, &resource));
    return resource;
}

static tarn_trace *trace_of(const char *rows)
{
    struct text text = text_of(RMM_HEADER);
    tarn_trace *trace;

    text_write(&text, rows, strlen(rows));
    CHECK_OK(tarn_trace_load("a.csv", text_read, &text, NULL, &trace));
    text_free(&text);
    return trace;
}

#define ROW(thread, action, pointer, size, stream) \
    thread ",00:00:01.000000," action "," pointer "," size "," stream "\n"

static void check_call(unsigned index, bool is_free, size_t bytes)
{
    CHECK_EQUAL(is_free, recorder.calls[index].is_free);
    CHECK_EQUAL(bytes, recorder.calls[index].bytes);
}

static const char small[] = ROW("1", "allocate", "0x10", "100", "0")
    ROW("2", "allocate", "0x20", "50", "0x7") ROW("1", "free", "0x10", "100", "0x7")
        ROW("1", "allocate", "0x10", "70", "0") ROW("2", "free", "0x99", "70", "0")
            ROW("2", "allocate failure", "(nil)", "999", "0");

TEST(replay_makes_the_logs_calls_in_order_on_one_thread_and_stream)
{
    tarn_resource *resource = recording(TARN_DEVICE_NONE);
    tarn_trace *trace = trace_of(small);
    tarn_replay_report report;

    CHECK_OK(tarn_replay(trace, resource, NULL, &report));
    CHECK_EQUAL(6, recorder.count);
    check_call(0, false, 100);
    check_call(1, false, 50);
    check_call(2, true, 100);
    check_call(3, false, 70);
    for (unsigned i = 0; i < 6; i++)
        CHECK(recorder.calls[i].stream == TARN_STREAM_DEFAULT);
    for (unsigned i = 1; i < 4; i++)
        CHECK(pthread_equal(recorder.calls[i].thread, recorder.calls[0].thread));
    CHECK_EQUAL(4, report.operations);
    CHECK_EQUAL(3, report.allocations);
    CHECK_EQUAL(1, report.frees);
    CHECK_EQUAL(0, report.failures);
    CHECK_EQUAL(2, report.end_frees);
    CHECK_EQUAL(150, report.peak_live_bytes);
    CHECK_EQUAL(0, report.peak_reserved_bytes);
    CHECK(report.wall_ns > 0);
    CHECK(report.allocate_ns[0] <= report.allocate_ns[4]);
    CHECK(report.allocate_mean_ns <= (double)report.allocate_ns[4]);
    CHECK_EQUAL(report.free_ns[0], report.free_ns[4]);
    CHECK_EQUAL(0, recorder.live);
    tarn_trace_release(trace);
    CHECK_OK(tarn_resource_release(resource));
}

TEST(replay_takes_an_address_allocated_twice_for_a_lost_free)
{
    tarn_resource *resource = recording(TARN_DEVICE_NONE);
    tarn_trace *trace = trace_of(ROW("1", "allocate", "0x10", "100", "0") ROW(
        "1", "allocate", "0x10", "30", "0") ROW("1", "free", "0x10", "30", "0"));
    tarn_replay_report report;

    CHECK_OK(tarn_replay(trace, resource, NULL, &report));
    CHECK_EQUAL(4, recorder.count);
    check_call(0, false, 100);
    check_call(1, true, 100);
    check_call(2, false, 30);
    check_call(3, true, 30);
    CHECK_EQUAL(0, report.end_frees);
    tarn_trace_release(trace);
    CHECK_OK(tarn_resource_release(resource));
}

TEST(replay_leaves_out_what_would_be_no_call)
{
    tarn_resource *resource = recording(TARN_DEVICE_NONE);
    tarn_trace *trace = trace_of(ROW("1", "allocate", "0x10", "0", "0") ROW(
        "1", "free", "0x10", "0", "0") ROW("1", "allocate", "(nil)", "0", "0"));
    tarn_replay_report report;

    CHECK_OK(tarn_replay(trace, resource, NULL, &report));
    CHECK_EQUAL(0, recorder.count);
    CHECK_EQUAL(0, report.operations);
    tarn_trace_release(trace);
    trace = trace_of("");
    CHECK_OK(tarn_replay(trace, resource, NULL, &report));
    CHECK_EQUAL(0, report.operations);
    tarn_trace_release(trace);
    CHECK_OK(tarn_resource_release(resource));
}

TEST(replay_counts_allocations_for_which_there_is_no_memory)
{
    tarn_resource *resource = recording(TARN_DEVICE_NONE);
    tarn_trace *trace = trace_of(
        ROW("1", "allocate", "0x10", "100", "0") ROW("1", "allocate", "0x20", "50", "0")
            ROW("1", "free", "0x20", "50", "0") ROW("1", "free", "0x10", "100", "0"));
    tarn_replay_report report;

    recorder.limit = 120;
    CHECK_OK(tarn_replay(trace, resource, NULL, &report));
    CHECK_EQUAL(3, recorder.count);
    CHECK_EQUAL(1, report.failures);
    CHECK_EQUAL(1, report.allocations);
    CHECK_EQUAL(1, report.frees);
    CHECK_EQUAL(100, report.peak_live_bytes);
    tarn_trace_release(trace);
    CHECK_OK(tarn_resource_release(resource));
}

TEST(replay_ends_at_another_failure_and_frees_everything)
{
    tarn_resource *resource = recording(TARN_DEVICE_NONE);
    tarn_trace *trace = trace_of(small);
    tarn_replay_report report = {.operations = 77};
    tarn_replay_options options = {.size = sizeof options};

    for (unsigned fail_at = 1; fail_at <= 4; fail_at++) {
        options.keep_threads = fail_at % 2;
        recorder.count = 0;
        recorder.fail_at = fail_at;
        CHECK_STATUS(TARN_PLUGIN_FAILURE,
                     tarn_replay(trace, resource, &options, &report));
        CHECK_MESSAGE("recorder: the ");
        CHECK_EQUAL(77, report.operations);
        CHECK_EQUAL(0, recorder.live);
    }
    tarn_trace_release(trace);
    CHECK_OK(tarn_resource_release(resource));
}

TEST(replay_on_threads_waits_with_a_free_for_its_allocation)
{
    tarn_resource *resource = recording(TARN_DEVICE_NONE);
    tarn_trace *trace = trace_of(
        ROW("11", "allocate", "0x10", "1", "0") ROW("22", "free", "0x10", "1", "0")
            ROW("22", "allocate", "0x20", "2", "0") ROW("11", "free", "0x20", "2", "0"));
    tarn_replay_options options = {.size = sizeof options, .keep_threads = true};
    tarn_replay_report report;

    recorder.allocation_takes = 20000;
    CHECK_OK(tarn_replay(trace, resource, &options, &report));
    CHECK_EQUAL(4, recorder.count);
    check_call(0, false, 1);
    check_call(1, true, 1);
    check_call(2, false, 2);
    check_call(3, true, 2);
    CHECK(!pthread_equal(recorder.calls[0].thread, recorder.calls[1].thread));
    CHECK_EQUAL(2, report.frees);
    tarn_trace_release(trace);
    CHECK_OK(tarn_resource_release(resource));
}

TEST(replay_on_threads_leaves_out_the_free_of_another_threads_failure)
{
    tarn_resource *resource = recording(TARN_DEVICE_NONE);
    tarn_trace *trace = trace_of(ROW("11", "allocate", "0x10", "10", "0")
                                     ROW("22", "free", "0x10", "10", "0"));
    tarn_replay_options options = {.size = sizeof options, .keep_threads = true};
    tarn_replay_report report;

    recorder.allocation_takes = 20000;
    recorder.limit = 1;
    CHECK_OK(tarn_replay(trace, resource, &options, &report));
    CHECK_EQUAL(1, recorder.count);
    CHECK_EQUAL(1, report.failures);
    tarn_trace_release(trace);
    CHECK_OK(tarn_resource_release(resource));
}

/* A log in which every block passes from thread to thread. */
static tarn_trace *relay(unsigned threads, unsigned rounds)
{
    struct text text = text_of(RMM_HEADER);
    char row[128];
    tarn_trace *trace;

    for (unsigned i = 0; i < threads * rounds; i++) {
        snprintf(row, sizeof row, "%u,00:00:01,allocate,0x%x,%u,0\n", i % threads + 1,
                 i + 1, i % 7 + 1);
        text_write(&text, row, strlen(row));
        if (i < threads)
            continue;
        snprintf(row, sizeof row, "%u,00:00:01,free,0x%x,0,0\n", i % threads + 1,
                 i + 2 - threads);
        text_write(&text, row, strlen(row));
    }
    CHECK_OK(tarn_trace_load("relay.csv", text_read, &text, NULL, &trace));
    text_free(&text);
    return trace;
}

/* A log of random rows over few addresses: lost frees, double frees, zeros, failures. */
static tarn_trace *any_trace(uint64_t seed)
{
    static const char *const actions[] = {"allocate", "allocate", "free", "free",
                                          "allocate failure"};
    struct text text = text_of(RMM_HEADER);
    char row[128];
    tarn_trace *trace;

    for (uint64_t rows = tarn__random_below(&seed, 200); rows > 0; rows--) {
        snprintf(row, sizeof row, "%u,00:00:01,%s,0x%x,%u,0x%x\n",
                 (unsigned)tarn__random_below(&seed, 4),
                 actions[tarn__random_below(&seed, 5)],
                 (unsigned)tarn__random_below(&seed, 9),
                 (unsigned)tarn__random_below(&seed, 5),
                 (unsigned)tarn__random_below(&seed, 6));
        text_write(&text, row, strlen(row));
    }
    CHECK_OK(tarn_trace_load("any.csv", text_read, &text, NULL, &trace));
    text_free(&text);
    return trace;
}

TEST(replay_of_any_log_frees_everything)
{
    tarn_resource *resource = recording(TARN_DEVICE_NONE);
    tarn_replay_options options = {.size = sizeof options};
    tarn_replay_report report;
    tarn_trace_summary summary;

    for (uint64_t seed = 0; seed < 200; seed++) {
        tarn_trace *trace = any_trace(seed);
        options.keep_threads = seed % 2;
        recorder.limit = seed % 3 ? 0 : 12;
        tarn_trace_summarize(trace, &summary);
        CHECK_OK(tarn_replay(trace, resource, &options, &report));
        CHECK_EQUAL(report.allocations, report.frees + report.end_frees);
        CHECK_EQUAL(0, recorder.live);
        if (!options.keep_threads && recorder.limit == 0)
            CHECK_EQUAL(summary.peak_live_bytes, report.peak_live_bytes);
        tarn_trace_release(trace);
    }
    CHECK_OK(tarn_resource_release(resource));
}

TEST(replay_keeps_many_threads_apart)
{
    tarn_resource *resource = recording(TARN_DEVICE_NONE);
    tarn_trace *trace = relay(5, 200);
    tarn_replay_options options = {.size = sizeof options, .keep_threads = true};
    tarn_replay_report report;

    CHECK_OK(tarn_replay(trace, resource, &options, &report));
    CHECK_EQUAL(1000, report.allocations);
    CHECK_EQUAL(995, report.frees);
    CHECK_EQUAL(5, report.end_frees);
    CHECK_EQUAL(0, recorder.live);
    tarn_trace_release(trace);
    CHECK_OK(tarn_resource_release(resource));
}

static void note_progress(void *data, uint64_t done, uint64_t total)
{
    uint64_t *last = data;

    CHECK(done >= last[0]);
    CHECK(done <= total);
    last[0] = done;
    last[1] = total;
}

TEST(replay_reports_its_progress_up_to_the_end)
{
    tarn_resource *resource = recording(TARN_DEVICE_NONE);
    tarn_trace *trace = relay(3, 20);
    uint64_t last[2] = {0, 0};
    tarn_replay_options options = {.size = sizeof options,
                                   .keep_threads = true,
                                   .progress = note_progress,
                                   .progress_data = last};
    tarn_replay_report report;

    CHECK_OK(tarn_replay(trace, resource, &options, &report));
    CHECK(last[1] > 0);
    CHECK_EQUAL(last[1], last[0]);
    tarn_trace_release(trace);
    CHECK_OK(tarn_resource_release(resource));
}

TEST(replay_keeps_streams_apart_and_default_ones_as_they_are)
{
    tarn_resource *resource = recording(0);
    tarn_trace *trace = trace_of(
        ROW("1", "allocate", "0x10", "1", "0") ROW("1", "allocate", "0x20", "1", "0x7")
            ROW("1", "allocate", "0x30", "1", "0x8")
                ROW("1", "allocate", "0x40", "1", "0x2")
                    ROW("1", "free", "0x30", "1", "0x7")
                        ROW("1", "free", "0x40", "1", "0xffffffffffffffff"));
    tarn_replay_options options = {.size = sizeof options, .keep_streams = true};
    tarn_replay_report report;
    struct call *calls = recorder.calls;

    CHECK_OK(tarn_replay(trace, resource, &options, &report));
    CHECK(calls[0].stream == TARN_STREAM_DEFAULT);
    CHECK((uintptr_t)calls[1].stream > 0x8);
    CHECK((uintptr_t)calls[2].stream > 0x8);
    CHECK(calls[1].stream != calls[2].stream);
    CHECK(calls[3].stream == TARN_STREAM_PER_THREAD);
    CHECK(calls[4].stream == calls[1].stream);
    CHECK(calls[5].stream == TARN_STREAM_NONE);
    tarn_trace_release(trace);
    CHECK_OK(tarn_resource_release(resource));
}

TEST(replay_opens_the_streams_that_it_made)
{
    tarn_resource *resource = recording(0);
    tarn_trace *trace = trace_of(ROW("1", "allocate", "0x10", "1", "0") ROW(
        "1", "allocate", "0x20", "1", "0x7") ROW("1", "free", "0x10", "1", "0x7"));
    tarn_replay_options options = {
        .size = sizeof options, .keep_streams = true, .register_streams = true};
    tarn_replay_report report;
    struct call *calls = recorder.calls;

    CHECK_OK(tarn_replay(trace, resource, &options, &report));
    CHECK(calls[0].stream == TARN_STREAM_DEFAULT);
    CHECK((uintptr_t)calls[1].stream & 1); /* no CUstream is odd */
    CHECK(calls[2].stream == calls[1].stream);
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_stream_unregister(calls[1].stream));
    CHECK_MESSAGE("is not a registered stream");
    tarn_trace_release(trace);
    CHECK_OK(tarn_resource_release(resource));
}

TEST(replay_measures_the_drop_of_free_device_memory)
{
    tarn_resource *resource;
    tarn_trace *trace = trace_of(ROW("1", "allocate", "0x10", "67108864", "0")
                                     ROW("1", "allocate", "0x20", "33554432", "0")
                                         ROW("1", "free", "0x10", "67108864", "0"));
    tarn_replay_report report;

    CHECK_OK(tarn_cuda_create(0, &resource));
    CHECK_OK(tarn_replay(trace, resource, NULL, &report));
    CHECK_EQUAL(100663296, report.peak_live_bytes);
    CHECK(report.peak_reserved_bytes >= 100663296);
    CHECK_EQUAL(0, tarn_resource_live_blocks(resource));
    tarn_trace_release(trace);
    CHECK_OK(tarn_resource_release(resource));
}

static tarn_trace *with_many(unsigned count, bool threads)
{
    struct text text = text_of(RMM_HEADER);
    char row[128];
    tarn_trace *trace;

    for (unsigned i = 1; i <= count; i++) {
        snprintf(row, sizeof row, "%u,00:00:01,allocate,0x%x,8,0x%x\n", threads ? i : 1,
                 i, threads ? 0 : i + 100);
        text_write(&text, row, strlen(row));
    }
    CHECK_OK(tarn_trace_load("many.csv", text_read, &text, NULL, &trace));
    text_free(&text);
    return trace;
}

TEST(replay_rejects_more_threads_and_streams_than_it_keeps)
{
    tarn_resource *resource = recording(0);
    tarn_replay_options options = {.size = sizeof options, .keep_threads = true};
    tarn_trace *trace = with_many(1025, true);
    tarn_replay_report report;

    CHECK_STATUS(TARN_NOT_SUPPORTED, tarn_replay(trace, resource, &options, &report));
    CHECK_MESSAGE("the log has 1025 threads, the maximum is 1024");
    tarn_trace_release(trace);
    trace = with_many(4097, false);
    options = (tarn_replay_options){.size = sizeof options, .keep_streams = true};
    CHECK_STATUS(TARN_NOT_SUPPORTED, tarn_replay(trace, resource, &options, &report));
    CHECK_MESSAGE("the log has 4097 streams, the maximum is 4096");
    CHECK_EQUAL(0, recorder.count);
    tarn_trace_release(trace);
    CHECK_OK(tarn_resource_release(resource));
}

TEST(replay_rejects_missing_arguments)
{
    tarn_resource *resource = recording(TARN_DEVICE_NONE);
    tarn_trace *trace = trace_of("");
    tarn_replay_options options = {.size = 0};
    tarn_replay_report report;

    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_replay(NULL, resource, NULL, &report));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_replay(trace, NULL, NULL, &report));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_replay(trace, resource, NULL, NULL));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_replay(trace, resource, &options, &report));
    struct {
        tarn_replay_options known;
        uint64_t later;
    } longer = {{.size = sizeof longer}, 1};
    CHECK_STATUS(TARN_INVALID_ARGUMENT,
                 tarn_replay(trace, resource, &longer.known, &report));
    CHECK_MESSAGE("that this libtarn knows");
    tarn_trace_release(trace);
    CHECK_OK(tarn_resource_release(resource));
}
