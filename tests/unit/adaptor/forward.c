/* Test the calls that every adaptor forwards to its upstream. */
#define _GNU_SOURCE
#include "test.h"
#include "child.h"
#include "scripted.h"
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { KINDS = 6 };

static bool swallow(void *data, const char *bytes, size_t count)
{
    (void)data, (void)bytes, (void)count;
    return true;
}

static tarn_resource *logger_over(tarn_resource *upstream)
{
    tarn_trace_writer *writer;
    tarn_resource *logger;

    CHECK_OK(tarn_trace_writer_create(swallow, NULL, TARN_TRACE_NBEP7, &writer));
    CHECK_OK(tarn_logger_create(upstream, writer, &logger));
    CHECK_OK(tarn_trace_writer_release(writer));
    return logger;
}

static tarn_status give_up(void *data, size_t bytes, bool *again_out)
{
    (void)data, (void)bytes, (void)again_out;
    return TARN_OK;
}

static tarn_resource *adaptor_of_kind(int kind, tarn_resource *upstream)
{
    tarn_resource *adaptor = NULL;

    if (kind == 0)
        CHECK_OK(tarn_limiter_create(upstream, SIZE_MAX, &adaptor));
    else if (kind == 1)
        CHECK_OK(tarn_counter_create(upstream, &adaptor));
    else if (kind == 2)
        CHECK_OK(tarn_prefetcher_create(upstream, &adaptor));
    else if (kind == 3)
        CHECK_OK(tarn_failure_callback_create(upstream, give_up, NULL, NULL, &adaptor));
    else if (kind == 4)
        CHECK_OK(tarn_tracker_create(upstream, NULL, &adaptor));
    else
        adaptor = logger_over(upstream);
    return adaptor;
}

/* Write over freed host memory, whatever the size of an adaptor is. */
static void write_over_freed_memory(void)
{
    enum { SIZES = 64, EACH = 16, STEP = 16 };
    static void *blocks[SIZES][EACH];

    for (size_t i = 0; i < SIZES; i++)
        for (size_t k = 0; k < EACH; k++) {
            blocks[i][k] = malloc((i + 1) * STEP);
            CHECK(blocks[i][k] != NULL);
            memset(blocks[i][k], 0xff, (i + 1) * STEP);
        }
    for (size_t i = 0; i < SIZES; i++)
        for (size_t k = 0; k < EACH; k++)
            free(blocks[i][k]);
}

/* A fork takes the locks of all adaptors of the process. A crash ends the child at once. */
static void fork_after_each_adaptor(void)
{
    enum { SECONDS = 20 };

    signal(SIGSEGV, SIG_DFL);
    alarm(SECONDS);
    for (int kind = 0; kind < KINDS; kind++) {
        struct scripted script;
        int status = -1;
        scripted_begin(&script, 0);
        CHILD_STATUS(TARN_OK,
                     tarn_resource_release(adaptor_of_kind(kind, script.resource)));
        scripted_end(&script);
        write_over_freed_memory();
        pid_t child = fork();
        if (child == 0)
            _exit(0);
        CHILD_CHECK(child > 0 && waitpid(child, &status, 0) == child);
        CHILD_CHECK(status == 0);
    }
}

/* First in this program: the child has no lock of another adaptor then. */
TEST(process_can_fork_after_the_end_of_an_adaptor)
{
    in_child(fork_after_each_adaptor);
}

TEST(adaptor_keeps_the_message_of_its_upstream)
{
    for (int kind = 0; kind < KINDS; kind++) {
        struct scripted script;
        size_t one, two;
        scripted_begin(&script, 3);
        tarn_resource *adaptor = adaptor_of_kind(kind, script.resource);
        CHECK_EQUAL(3, tarn_resource_device(adaptor));
        CHECK(!tarn_resource_deallocate_synchronizes(adaptor));
        CHECK(!tarn_resource_supports_streams(adaptor));
        CHECK(!tarn_resource_supports_no_stream(adaptor));
        script.deallocate_synchronizes = script.supports_streams =
            script.supports_no_stream = true;
        CHECK(tarn_resource_supports_no_stream(adaptor));
        CHECK(tarn_resource_deallocate_synchronizes(adaptor));
        CHECK(tarn_resource_supports_streams(adaptor));
        CHECK(tarn_resource_supports_memory_info(adaptor));
        CHECK_OK(tarn_resource_memory_info(adaptor, TARN_STREAM_LEGACY, &one, &two));
        CHECK(one == 1000 && two == 4000 && script.stream == TARN_STREAM_LEGACY);
        CHECK_OK(tarn_resource_trim(adaptor, 5, &one));
        CHECK(one == 6 && script.trims == 1);
        CHECK_OK(tarn_resource_requested_bytes(adaptor, 84, &one));
        CHECK_EQUAL(42, one);
        CHECK_OK(tarn_resource_release(adaptor));
        scripted_end(&script);
    }
}

TEST(adaptor_passes_size_alignment_and_stream_on)
{
    for (int kind = 0; kind < KINDS; kind++) {
        struct scripted script;
        tarn_device_ptr block;
        scripted_begin(&script, 0);
        tarn_resource *adaptor = adaptor_of_kind(kind, script.resource);
        CHECK_OK(tarn_resource_allocate(adaptor, 10, 1024, TARN_STREAM_NONE, &block));
        CHECK(script.bytes == 10 && script.alignment == 1024);
        CHECK(script.stream == TARN_STREAM_NONE);
        CHECK_OK(tarn_resource_deallocate(adaptor, block, 10, 1024, TARN_STREAM_LEGACY));
        CHECK(script.block == block && script.bytes == 10 && script.alignment == 1024);
        CHECK(script.stream == TARN_STREAM_LEGACY);
        CHECK_OK(tarn_resource_release(adaptor));
        scripted_end(&script);
    }
}

TEST(adaptor_reports_not_supported_where_its_upstream_does)
{
    tarn_resource *host;
    size_t bytes = 7;

    CHECK_OK(tarn_host_create(&host));
    for (int kind = 0; kind < KINDS; kind++) {
        tarn_resource *adaptor = adaptor_of_kind(kind, host);
        tarn_resource *second = adaptor_of_kind(kind, adaptor);
        CHECK_EQUAL(TARN_DEVICE_NONE, tarn_resource_device(second));
        CHECK(!tarn_resource_supports_memory_info(second));
        CHECK_STATUS(TARN_NOT_SUPPORTED,
                     tarn_resource_memory_info(second, NULL, &bytes, &bytes));
        CHECK_EQUAL(7, bytes);
        CHECK_OK(tarn_resource_release(adaptor));
        CHECK_OK(tarn_resource_release(second));
    }
    CHECK_OK(tarn_resource_release(host));
}

TEST(adaptor_keeps_its_upstream_alive_and_returns_it)
{
    for (int kind = 0; kind < KINDS; kind++) {
        struct scripted script;
        tarn_resource *upstream = NULL;
        tarn_device_ptr block;
        scripted_begin(&script, 0);
        tarn_resource *adaptor = adaptor_of_kind(kind, script.resource);
        CHECK_OK(tarn_resource_release(script.resource));
        CHECK_EQUAL(0, script.destroyed);
        CHECK_OK(tarn_resource_allocate(adaptor, 10, 0, NULL, &block));
        CHECK_STATUS(TARN_STILL_IN_USE, tarn_resource_release(adaptor));
        CHECK_OK(tarn_resource_deallocate(adaptor, block, 10, 0, NULL));
        CHECK_OK(tarn_adaptor_upstream(adaptor, &upstream));
        CHECK(upstream == script.resource);
        CHECK_OK(tarn_resource_release(adaptor));
        CHECK_EQUAL(0, script.destroyed);
        scripted_end(&script); /* with the reference from tarn_adaptor_upstream() */
    }
}

TEST(adaptor_upstream_is_of_adaptors_only)
{
    struct scripted script;
    tarn_resource *upstream = NULL;

    scripted_begin(&script, 0);
    CHECK_STATUS(TARN_NOT_SUPPORTED, tarn_adaptor_upstream(script.resource, &upstream));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_adaptor_upstream(NULL, &upstream));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_adaptor_upstream(script.resource, NULL));
    CHECK(upstream == NULL);
    scripted_end(&script);
}

TEST(adaptors_of_one_upstream_are_not_equal)
{
    for (int kind = 0; kind < KINDS; kind++) {
        struct scripted script;
        scripted_begin(&script, 0);
        tarn_resource *one = adaptor_of_kind(kind, script.resource);
        tarn_resource *two = adaptor_of_kind(kind, script.resource);
        CHECK(tarn_resource_is_equal(one, one) && !tarn_resource_is_equal(one, two));
        CHECK(!tarn_resource_is_equal(one, script.resource));
        CHECK_OK(tarn_resource_release(one));
        CHECK_OK(tarn_resource_release(two));
        scripted_end(&script);
    }
}
