/* The out-of-memory report: its numbers and its message. */
#include "pool/report.h"
#include "pool/resolve.h"
#include "field.h"
#include <stdio.h>

static tarn_pool_oom_report last_report(void)
{
    tarn_pool_oom_report report = {.size = sizeof report};

    CHECK_OK(tarn_pool_last_oom_report(&report));
    CHECK_EQUAL(sizeof report, report.size);
    return report;
}

static bool free_nothing(void *data, tarn_resource *pool, size_t bytes, unsigned attempt)
{
    (void)data, (void)pool, (void)bytes;
    return attempt < 2; /* or the upstream reports it */
}

TEST(report_tells_who_has_the_memory)
{
    tarn_device_ptr block = 77;

    begin_field();
    give_pieces();
    CHECK_OK(tarn_pool_add_oom_callback(field.pool, free_nothing, NULL));
    tarn_status status =
        tarn_resource_allocate(field.pool, 10 * MIB, 4096, field.own, &block);
    tarn_pool_oom_report report = last_report();
    end_field();

    CHECK_EQUAL(TARN_OUT_OF_MEMORY, status);
    CHECK_EQUAL(77, block);
    CHECK_EQUAL(10 * MIB, report.requested);
    CHECK_EQUAL(4096, report.alignment);
    CHECK_EQUAL(field.rest_bytes + (size_t)PIECES * 64 * KIB, report.live);
    CHECK_EQUAL(0, report.thread_cached);
    CHECK_EQUAL((OWN + OTHERS + READY) * KIB, report.cached);
    CHECK_EQUAL(OTHERS * KIB, report.unfenced); /* it fenced its own frees */
    CHECK_EQUAL(GRAPHS * KIB, report.captured);
    CHECK_EQUAL(POOL_MIB * MIB, report.reserved);
    CHECK_EQUAL(POOL_MIB * MIB, report.maximum);
    CHECK_EQUAL(OWN * KIB, report.same_stream);
    CHECK_EQUAL(OTHERS * KIB, report.other_streams);
    CHECK_EQUAL(READY * KIB, report.completed);
    CHECK_EQUAL(OWN * KIB, report.largest_free);
    CHECK(report.fragmentation == 1.0 - (double)OWN / (double)(OWN + OTHERS + READY));
    CHECK_EQUAL(2, report.attempts);
    CHECK_EQUAL(TARN_OUT_OF_MEMORY, report.upstream_status);
    CHECK(strstr(report.upstream_message, "exceed the maximum") != NULL);
    if (on_sim())
        CHECK(report.device_free > 0 && report.device_free < report.device_total);
}

TEST(report_of_another_stream_has_other_owners)
{
    begin_field();
    give_pieces();
    bool is = is_refused(field.pool, 10 * MIB, field.other);
    tarn_pool_oom_report report = last_report();
    /* The fenced memory may be completed by now: then every stream can use it. */
    uint64_t own_or_ready = report.same_stream + report.completed;
    end_field();

    CHECK(is);
    CHECK_EQUAL((OTHERS + READY) * KIB, own_or_ready);
    CHECK_EQUAL(OWN * KIB, report.other_streams);
    CHECK_EQUAL(OTHERS * KIB, report.largest_free);
}

/* The capturing stream's own memory is that of its graph, which is not among the cached
 * bytes. */
TEST(report_of_a_capture_has_its_graphs_memory_as_its_own)
{
    void *graph = NULL;

    begin_field();
    give_pieces();
    tarn_stream stream = new_stream();
    CU(cuStreamBeginCapture_v2(stream, CAPTURE_RELAXED));
    give(field.pool, take(field.pool, 64 * KIB, stream), 64 * KIB, stream);
    bool is = is_refused(field.pool, 10 * MIB, stream);
    tarn_pool_oom_report report = last_report();
    CU(cuStreamEndCapture(stream, &graph));
    CU(cuGraphDestroy(graph));
    CU(cuStreamDestroy_v2(stream));
    end_field();

    CHECK(is);
    CHECK_EQUAL(64 * KIB, report.same_stream);
    CHECK_EQUAL((GRAPHS + 64) * KIB, report.captured);
    CHECK_EQUAL((READY - 64) * KIB, report.completed);
    CHECK_EQUAL((OWN + OTHERS) * KIB, report.other_streams);
    CHECK_EQUAL((READY - 64) * KIB, report.largest_free);
}

/* The pool drains every thread cache before it fails. Another block may have been cached
 * since. */
TEST(report_counts_what_threads_keep)
{
    tarn_error upstream = {.status = TARN_OUT_OF_MEMORY};
    struct tarn__caller caller;
    tarn_pool_oom_report report;

    use_driver(0);
    tarn_resource *pool = strict_pool(2 * MIB);
    for (int i = 0; i < 200; i++)
        put(pool, take(pool, 1000, NULL), 1000, NULL);
    CHECK_OK(tarn__resolve_begin(inside(pool), NULL, &caller));
    tarn__report_fill(&caller, 1, 256, 0, &upstream, &report);
    tarn__resolve_end(&caller);
    CHECK_EQUAL(1024, report.thread_cached);
    CHECK_EQUAL(0, report.live);
    CHECK_EQUAL(2 * MIB - 1024, report.cached);
    end_pool(pool);
}

/* No stream is the same one for a request without a stream: the report has deferred
 * memory there, so that the three parts add up to the cached bytes. */
TEST(report_of_a_request_without_a_stream_has_deferred_memory_as_its_own)
{
    tarn_error upstream = {.status = TARN_OUT_OF_MEMORY};
    struct tarn__caller caller;
    tarn_pool_oom_report report;

    use_driver(0);
    tarn_resource *pool = strict_pool(16 * MIB);
    tarn_stream stream = new_stream();
    tarn_device_ptr deferred = take(pool, 4 * MIB, stream);
    put(pool, take(pool, 8 * MIB, stream), 8 * MIB, stream);
    put(pool, deferred, 4 * MIB, TARN_STREAM_NONE);
    CHECK_OK(tarn__resolve_begin(inside(pool), TARN_STREAM_NONE, &caller));
    tarn__report_fill(&caller, 16 * MIB, 256, 0, &upstream, &report);
    tarn__resolve_end(&caller);
    CHECK_EQUAL(4 * MIB, report.same_stream);
    CHECK_EQUAL(report.cached,
                report.same_stream + report.other_streams + report.completed);
    CU(cuStreamDestroy_v2(stream));
    end_pool(pool);
}

TEST(words_of_a_refusal_have_the_numbers)
{
    char words[64];

    begin_field();
    give_pieces();
    bool is = is_refused(field.pool, 10 * MIB, field.own);
    tarn_error error = *tarn_error_last();
    end_field();

    CHECK(is);
    CHECK(strstr(error.message, "cannot allocate 10485760 bytes") != NULL);
    snprintf(words, sizeof words, " %zu live",
             field.rest_bytes + (size_t)PIECES * 64 * KIB);
    CHECK(strstr(error.message, words) != NULL);
    CHECK(strstr(error.message, "1572864 cached (786432 contiguous for this stream)") !=
          NULL);
    CHECK(strstr(error.message, "67108864 of 67108864 reserved") != NULL);
    CHECK(strstr(error.message, "exceed the maximum") != NULL);
}

/* A pool without a maximum has as much as the device. */
TEST(words_of_a_refusal_have_the_device_for_a_limit)
{
    int (*mem_get_info)(size_t *free_bytes, size_t *total_bytes);
    size_t free_bytes = 0, total_bytes = 0;
    char words[64];

    use_driver(0);
    find_call("cuMemGetInfo_v2", &mem_get_info);
    tarn_resource *pool = new_pool(NULL);
    tarn_device_ptr block = take(pool, 2 * MIB, NULL);
    CHECK_EQUAL(0, mem_get_info(&free_bytes, &total_bytes));
    CHECK(is_refused(pool, total_bytes, NULL));
    snprintf(words, sizeof words, " of %zu reserved", total_bytes);
    CHECK_MESSAGE(words);
    CHECK_EQUAL(UINT64_MAX, last_report().maximum);
    CHECK_EQUAL(total_bytes, last_report().device_total);
    put(pool, block, 2 * MIB, NULL);
    end_pool(pool);
}

/* --- the thread of a report --------------------------------------------------------- */

static void *refused_on_a_thread(void *data)
{
    tarn_pool_oom_report report = {.size = sizeof report, .requested = 77};

    CHECK_STATUS(TARN_NOT_FOUND, tarn_pool_last_oom_report(&report));
    CHECK_EQUAL(77, report.requested);
    CHECK(is_refused(data, 5 * MIB, NULL));
    CHECK_EQUAL(5 * MIB, last_report().requested);
    return NULL;
}

TEST(report_is_of_the_threads_own_last_refusal)
{
    pthread_t thread;

    use_driver(0);
    tarn_resource *pool = strict_pool(2 * MIB);
    CHECK(is_refused(pool, 3 * MIB, NULL));
    for (int i = 0; i < 2; i++) {
        CHECK_EQUAL(0, pthread_create(&thread, NULL, refused_on_a_thread, pool));
        CHECK_EQUAL(0, pthread_join(thread, NULL));
    }
    CHECK_EQUAL(3 * MIB, last_report().requested);
    CHECK(is_refused(pool, 4 * MIB, NULL));
    put(pool, take(pool, MIB, NULL), MIB, NULL);
    CHECK_EQUAL(4 * MIB, last_report().requested);
    end_pool(pool);
    CHECK_EQUAL(4 * MIB, last_report().requested); /* it outlives the pool */
}

TEST(report_is_as_long_as_its_reader_knows)
{
    tarn_pool_oom_report report = {.size = offsetof(tarn_pool_oom_report, live),
                                   .live = 77};

    use_driver(0);
    tarn_resource *pool = strict_pool(2 * MIB);
    CHECK(is_refused(pool, 3 * MIB, NULL));
    CHECK_OK(tarn_pool_last_oom_report(&report));
    CHECK_EQUAL(offsetof(tarn_pool_oom_report, live), report.size);
    CHECK_EQUAL(3 * MIB, report.requested);
    CHECK_EQUAL(77, report.live);
    struct {
        tarn_pool_oom_report report;
        uint64_t later;
    } longer = {.report.size = sizeof longer, .later = 77};
    CHECK_OK(tarn_pool_last_oom_report(&longer.report));
    CHECK_EQUAL(sizeof longer.report, longer.report.size);
    CHECK_EQUAL(77, longer.later);
    report.size = sizeof report.size - 1;
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_pool_last_oom_report(&report));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_pool_last_oom_report(NULL));
    end_pool(pool);
}

/* --- the text ----------------------------------------------------------------------- */

static const tarn_pool_oom_report a_report = {.size = sizeof a_report,
                                              .requested = 1000,
                                              .alignment = 256,
                                              .live = 999,
                                              .thread_cached = 1023,
                                              .cached = 1024,
                                              .unfenced = 5 * MIB / 4,
                                              .captured = 0,
                                              .reserved = (uint64_t)3 << 30,
                                              .maximum = (uint64_t)1 << 40,
                                              .same_stream = 1000 * KIB,
                                              .other_streams = 999 * KIB,
                                              .completed = 123456789,
                                              .largest_free = (uint64_t)5000 << 40,
                                              .device_free = 1,
                                              .device_total = (uint64_t)141 << 30,
                                              .attempts = 3,
                                              .upstream_status = TARN_OUT_OF_MEMORY,
                                              .upstream_message = "there is no more",
                                              .fragmentation = 0.125};

static const char a_text[] = "requested         0.9766 KiB (1000 bytes, aligned to 256)\n"
                             "live              999 B\n"
                             "thread-cached     0.999 KiB\n"
                             "cached            1 KiB\n"
                             "  same-stream     0.9766 MiB\n"
                             "  completed       117.7 MiB\n"
                             "  other streams   999 KiB\n"
                             "  unfenced        1.25 MiB\n"
                             "captured          0 B\n"
                             "reserved          3 GiB, maximum 1 TiB\n"
                             "largest free      5000 TiB for this stream\n"
                             "fragmentation     0.12\n"
                             "device            1 B free of 141 GiB\n"
                             "callbacks         3 freed memory\n"
                             "growth returned   TARN_OUT_OF_MEMORY: there is no more\n";

TEST(report_in_words_has_every_number_in_its_place)
{
    char text[2048];
    tarn_pool_oom_report report = a_report;

    CHECK_EQUAL(sizeof a_text - 1, tarn_pool_oom_report_text(&report, text, sizeof text));
    assert_string_equal(a_text, text);
    report.maximum = UINT64_MAX;
    tarn_pool_oom_report_text(&report, text, sizeof text);
    CHECK(strstr(text, "reserved          3 GiB, maximum none\n") != NULL);
}

TEST(report_in_words_takes_no_more_than_it_is_given)
{
    char text[64];

    memset(text, '#', sizeof text);
    CHECK_EQUAL(sizeof a_text - 1, tarn_pool_oom_report_text(&a_report, NULL, 0));
    CHECK_EQUAL(sizeof a_text - 1, tarn_pool_oom_report_text(&a_report, text, 10));
    CHECK(memcmp(text, a_text, 9) == 0 && text[9] == 0 && text[10] == '#');
}
