/* Test a guard: writes before, behind and after a free, second frees, streams, captures,
 * and the order of its own work. A memset of the driver is the wrong writer. */
#define _GNU_SOURCE
#include "capturing.h"
#include "driver_calls.h"
#include "scripted.h"
#include "test.h"
#include <stdlib.h>

enum { BYTES = 1000, REPORTS = 64 };

/* --- the reports of a test --- */

static tarn_guard_report reports[REPORTS];
static size_t report_count;

static void note(void *data, const tarn_guard_report *report)
{
    (void)data;
    CHECK(report_count < REPORTS);
    reports[report_count++] = *report;
}

/* --- a guard over a resource --- */

static tarn_resource *upstream, *guard;

static tarn_guard_options options_of(const char *text)
{
    tarn_guard_options options;

    CHECK_OK(tarn_guard_parse(text, &options));
    return options;
}

static void begin_over(tarn_resource *resource, const char *text)
{
    tarn_guard_options options = options_of(text);

    report_count = 0;
    tarn_guard_set_handler(note, NULL);
    upstream = resource;
    CHECK_OK(tarn_guard_create(upstream, &options, &guard));
}

static tarn_resource *make_pool(void)
{
    tarn_resource *pool;

    CHECK_OK(tarn_pool_create(0, NULL, NULL, &pool));
    return pool;
}

static tarn_resource *make_cuda(void)
{
    tarn_resource *cuda;

    CHECK_OK(tarn_cuda_create(0, &cuda));
    return cuda;
}

static tarn_resource *make_async(void)
{
    tarn_resource *async;

    CHECK_OK(tarn_async_create(0, NULL, &async));
    return async;
}

static tarn_resource *make_managed(void)
{
    tarn_resource *managed;

    CHECK_OK(tarn_managed_create(0, &managed));
    return managed;
}

static tarn_resource *make_pinned(void)
{
    tarn_resource *pinned;

    CHECK_OK(tarn_pinned_create(0, &pinned));
    return pinned;
}

static void begin(const char *text)
{
    begin_over(make_pool(), text);
}

static void end(void)
{
    CHECK_OK(tarn_resource_release(guard));
    CHECK_OK(tarn_resource_release(upstream));
    tarn_guard_set_handler(NULL, NULL);
}

static tarn_device_ptr take_on(size_t bytes, tarn_stream stream)
{
    tarn_device_ptr block;

    CHECK_OK(tarn_resource_allocate(guard, bytes, 0, stream, &block));
    return block;
}

static void put_on(tarn_device_ptr block, size_t bytes, tarn_stream stream)
{
    CHECK_OK(tarn_resource_deallocate(guard, block, bytes, 0, stream));
}

static void write_on(tarn_device_ptr address, size_t bytes, tarn_stream stream)
{
    CHECK_OK(tarn_memset_async(0, address, 0x2a, bytes, stream));
}

static void check(void)
{
    CHECK_OK(tarn_guard_check(guard, NULL));
}

static tarn_guard_counts counts(void)
{
    tarn_guard_counts now = {.size = sizeof now};

    CHECK_OK(tarn_guard_read_counts(guard, &now));
    return now;
}

static tarn_stream new_stream(void)
{
    tarn_stream stream;

    CHECK_OK(tarn_stream_create(0, true, &stream));
    return stream;
}

static void end_stream(tarn_stream stream)
{
    CHECK_OK(tarn_stream_synchronize(0, stream));
    CHECK_OK(tarn_stream_destroy(0, stream));
}

static void check_report(tarn_guard_damage damage, tarn_device_ptr block, int64_t first,
                         int64_t last)
{
    CHECK_EQUAL(1, report_count);
    CHECK_EQUAL(damage, reports[0].damage);
    CHECK(reports[0].address == block);
    CHECK(reports[0].first == first && reports[0].last == last);
    report_count = 0;
}

/* --- correct programs --- */

static void use_correctly(tarn_resource *resource, const char *text)
{
    size_t sizes[] = {1, 255, 256, 257, 512, 1000, 65536, 65537, 1000000};
    tarn_stream streams[] = {TARN_STREAM_DEFAULT, new_stream(), TARN_STREAM_NONE};

    begin_over(resource, text);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (size_t j = 0; j < 3; j++) {
            tarn_device_ptr block = take_on(sizes[i], streams[j]);
            size_t requested = 0;
            CHECK_EQUAL(0, block % TARN_ALIGNMENT);
            CHECK_OK(tarn_resource_requested_bytes(guard, block, &requested));
            CHECK_EQUAL(sizes[i], requested);
            write_on(block, sizes[i], streams[j]);
            put_on(block, sizes[i], streams[j]);
        }
    check();
    CHECK_EQUAL(0, report_count);
    CHECK_EQUAL(27, counts().guarded);
    CHECK_EQUAL(0, counts().unguarded + counts().unchecked + counts().pending);
    end_stream(streams[1]);
    end();
    CHECK_EQUAL(0, report_count);
}

TEST(a_correct_program_has_no_report_on_any_resource)
{
    tarn_resource *(*const makers[])(void) = {make_pool, make_cuda, make_async,
                                              make_managed, make_pinned};
    const char *const texts[] = {"guard",
                                 "poison",
                                 "quarantine",
                                 "guard,poison",
                                 "guard,quarantine=1MiB",
                                 "guard,poison,quarantine=1KiB,zone=1MiB"};

    for (size_t i = 0; i < sizeof makers / sizeof *makers; i++)
        for (size_t j = 0; j < sizeof texts / sizeof *texts; j++)
            use_correctly(makers[i](), texts[j]);
}

/* In such a pool no stream means the default stream, for the guard too. */
TEST(a_pool_for_one_stream_has_the_guards_work_on_that_stream)
{
    tarn_pool_options options = {.size = sizeof options,
                                 .no_stream_policy = TARN_POOL_NO_STREAM_SINGLE};
    tarn_resource *pool, *limiter;

    CHECK_OK(tarn_pool_create(0, NULL, &options, &pool));
    CHECK_OK(tarn_limiter_create(pool, 1 << 30, &limiter));
    CHECK_OK(tarn_resource_release(pool));
    begin_over(limiter, "guard,poison,quarantine");
    tarn_device_ptr block = take_on(BYTES, TARN_STREAM_NONE);
    write_on(block - 4, 4, NULL);
    put_on(block, BYTES, TARN_STREAM_NONE);
    /* Without a stream a block would wait, and be checked later. */
    CHECK_EQUAL(1, counts().pending);
    check();
    check_report(TARN_GUARD_BEFORE, block, -4, -1);
    end();
    CHECK_EQUAL(0, report_count);
}

TEST(a_block_has_the_alignment_that_was_requested)
{
    begin("guard,poison,quarantine");
    for (size_t alignment = 1; alignment <= 2 << 20; alignment *= 2) {
        tarn_device_ptr block;
        CHECK_OK(tarn_resource_allocate(guard, 100, alignment, NULL, &block));
        CHECK_EQUAL(0, block % (alignment < 256 ? 256 : alignment));
        write_on(block, 100, NULL);
        write_on(block - 1, 1, NULL);
        CHECK_OK(tarn_resource_deallocate(guard, block, 100, alignment, NULL));
        check();
        check_report(TARN_GUARD_BEFORE, block, -1, -1);
    }
    end();
}

/* --- wrong writes --- */

static void write_wrongly(tarn_resource *resource, tarn_stream stream)
{
    static const struct {
        int64_t offset;
        size_t bytes;
        tarn_guard_damage damage;
    } writes[] = {{-1, 1, TARN_GUARD_BEFORE},     {-256, 4, TARN_GUARD_BEFORE},
                  {-768, 768, TARN_GUARD_BEFORE}, {BYTES, 1, TARN_GUARD_BEHIND},
                  {BYTES, 24, TARN_GUARD_BEHIND}, {BYTES + 500, 4, TARN_GUARD_BEHIND},
                  {BYTES, 512, TARN_GUARD_BEHIND}};

    begin_over(resource, "guard,poison");
    for (size_t i = 0; i < sizeof writes / sizeof *writes; i++) {
        tarn_device_ptr block = take_on(BYTES, stream);
        write_on(block, BYTES, stream);
        write_on(block + (tarn_device_ptr)writes[i].offset, writes[i].bytes, stream);
        put_on(block, BYTES, stream);
        check();
        CHECK(reports[0].changed == writes[i].bytes && reports[0].found[0] == 0x2a);
        CHECK(reports[0].bytes == BYTES && reports[0].device == 0);
        CHECK_TEXT(tarn_resource_name(upstream), reports[0].resource);
        check_report(writes[i].damage, block, writes[i].offset,
                     writes[i].offset + (int64_t)writes[i].bytes - 1);
    }
    end();
    CHECK_EQUAL(0, report_count);
}

TEST(a_write_outside_of_a_block_is_found_on_any_resource)
{
    tarn_stream stream = new_stream();

    write_wrongly(make_pool(), NULL);
    write_wrongly(make_pool(), stream);
    write_wrongly(make_pool(), TARN_STREAM_NONE);
    write_wrongly(make_cuda(), TARN_STREAM_NONE);
    write_wrongly(make_cuda(), stream);
    write_wrongly(make_async(), stream);
    write_wrongly(make_async(), TARN_STREAM_NONE);
    write_wrongly(make_managed(), stream);
    write_wrongly(make_pinned(), NULL);
    end_stream(stream);
}

/* A write far behind a block reaches the red zone of another one. */
TEST(a_write_far_behind_a_block_is_found_at_its_neighbour)
{
    begin("guard");
    tarn_device_ptr one = take_on(BYTES, NULL), two = take_on(BYTES, NULL);
    tarn_device_ptr low = one < two ? one : two, high = one < two ? two : one;
    write_on(high - 16, 4, NULL);
    CHECK(high - 16 - low > BYTES + 512);
    put_on(low, BYTES, NULL);
    put_on(high, BYTES, NULL);
    check();
    check_report(TARN_GUARD_BEFORE, high, -16, -13);
    end();
}

TEST(a_write_into_a_freed_block_is_found_at_the_end_of_the_quarantine)
{
    begin("poison,quarantine=64KiB");
    tarn_device_ptr block = take_on(BYTES, NULL);
    put_on(block, BYTES, NULL);
    write_on(block + 10, 3, NULL);
    for (int i = 0; i < 100; i++) /* younger blocks push it out */
        put_on(take_on(BYTES, NULL), BYTES, NULL);
    CHECK_OK(tarn_driver_synchronize(0));
    for (int i = 0; i < 100; i++)
        put_on(take_on(BYTES, NULL), BYTES, NULL);
    check_report(TARN_GUARD_AFTER_FREE, block, 10, 12);
    end();
    CHECK_EQUAL(0, report_count);
}

TEST(a_write_to_the_ends_of_a_large_freed_block_is_found)
{
    enum { LARGE = 1 << 20 };

    begin("guard,poison,quarantine");
    tarn_device_ptr block = take_on(LARGE, NULL);
    put_on(block, LARGE, NULL);
    write_on(block + LARGE - 1, 1, NULL);
    check();
    check_report(TARN_GUARD_AFTER_FREE, block, LARGE - 1, LARGE - 1);
    block = take_on(LARGE, NULL);
    put_on(block, LARGE, NULL);
    write_on(block, LARGE, NULL);
    check();
    check_report(TARN_GUARD_AFTER_FREE, block, 0, LARGE - 1);
    block = take_on(LARGE, NULL);
    put_on(block, LARGE, NULL);
    write_on(block + LARGE / 2, 1, NULL); /* the middle is not copied */
    write_on(block + LARGE, 1, NULL);     /* a red zone is */
    end();
    check_report(TARN_GUARD_BEHIND, block, LARGE, LARGE);
}

TEST(a_freed_block_is_filled_with_poison_on_its_stream)
{
    unsigned char bytes[BYTES];
    tarn_stream stream = new_stream();

    begin("poison");
    tarn_device_ptr block = take_on(BYTES, stream);
    write_on(block, BYTES, stream);
    put_on(block, BYTES, stream);
    CHECK_OK(tarn_memcpy_async(0, (uintptr_t)bytes, block, BYTES, stream));
    CHECK_OK(tarn_stream_synchronize(0, stream));
    for (size_t i = 0; i < BYTES; i++)
        CHECK_EQUAL(TARN_GUARD_POISON_BYTE, bytes[i]);
    end_stream(stream);
    end();
}

TEST(a_second_free_is_found_while_the_block_is_in_quarantine)
{
    tarn_stream streams[] = {NULL, TARN_STREAM_NONE};

    begin("quarantine");
    for (size_t i = 0; i < 2; i++) {
        tarn_device_ptr block = take_on(BYTES, streams[i]);
        put_on(block, BYTES, streams[i]);
        CHECK_STATUS(TARN_INVALID_ARGUMENT,
                     tarn_resource_deallocate(guard, block, BYTES, 0, streams[i]));
        CHECK_MESSAGE("of 1000 bytes was freed before");
        check_report(TARN_GUARD_FREED_TWICE, block, 0, 0);
    }
    end();
    CHECK_EQUAL(0, report_count);
}

TEST(a_second_free_without_quarantine_is_an_error_of_the_resource)
{
    begin("guard");
    tarn_device_ptr block = take_on(BYTES, NULL), other = take_on(BYTES, NULL);
    put_on(block, BYTES, NULL);
    CHECK_STATUS(TARN_INVALID_ARGUMENT,
                 tarn_resource_deallocate(guard, block, BYTES, 0, NULL));
    put_on(other, BYTES, NULL);
    end();
    CHECK_EQUAL(0, report_count);
}

TEST(a_free_with_wrong_arguments_changes_nothing)
{
    begin("guard,poison,quarantine");
    tarn_device_ptr block = take_on(BYTES, NULL);
    CHECK_STATUS(TARN_INVALID_ARGUMENT,
                 tarn_resource_deallocate(guard, block, BYTES + 1, 0, NULL));
    CHECK_MESSAGE("allocated with 1000 bytes, freed with 1001");
    CHECK_STATUS(TARN_INVALID_ARGUMENT,
                 tarn_resource_deallocate(guard, block + 256, BYTES, 0, NULL));
    put_on(block, BYTES, NULL);
    end();
    CHECK_EQUAL(0, report_count);
}

TEST(a_live_block_is_checked_on_request_and_reported_once)
{
    uint64_t total = 0;

    begin("guard,poison,quarantine");
    tarn_device_ptr block = take_on(BYTES, NULL), other = take_on(BYTES, NULL);
    write_on(block + BYTES, 1, NULL);
    CHECK_OK(tarn_guard_check(guard, &total));
    CHECK_EQUAL(1, total);
    CHECK(!reports[0].is_freed);
    check_report(TARN_GUARD_BEHIND, block, BYTES, BYTES);
    check();
    put_on(block, BYTES, NULL);
    put_on(other, BYTES, NULL);
    check();
    end();
    CHECK_EQUAL(0, report_count);
}

/* --- reports --- */

static tarn_stack find(unsigned depth)
{
    static int line;
    tarn_stack_frame frame = {.function = "f", .file = "a.py", .line = ++line};
    uint32_t number = tarn_stack_add_frame(&frame);

    (void)depth;
    return tarn_stack_add(&number, 1);
}

TEST(a_report_has_both_sites)
{
    char *text = NULL, wanted[600];
    size_t bytes;
    tarn_stream stream = new_stream();

    tarn_stack_set_finder(find);
    begin("guard,quarantine");
    tarn_device_ptr block = take_on(BYTES, stream);
    write_on(block + BYTES, 3, stream);
    put_on(block, BYTES, stream);
    check();
    CHECK_EQUAL(1, report_count);
    CHECK_STATUS(TARN_INVALID_ARGUMENT,
                 tarn_resource_deallocate(guard, block, BYTES, 0, stream));
    tarn_stack_set_finder(NULL);
    CHECK_EQUAL(2, report_count);
    FILE *out = open_memstream(&text, &bytes);
    tarn_guard_report_print(&reports[0], out);
    tarn_guard_report_print(&reports[1], out);
    fclose(out);
    snprintf(wanted, sizeof wanted,
             "tarn: guard: 3 bytes behind a block were written, offset 1000 to 1002, now "
             "2a 2a 2a\n"
             " block 0x%llx of 1000 bytes, resource \"pool\", device 0\n"
             " allocated on stream 0x%llx:\n  File \"a.py\", line 1, in f\n"
             " freed on stream 0x%llx:\n  File \"a.py\", line 2, in f\n"
             "tarn: guard: a freed block was freed again\n"
             " block 0x%llx of 1000 bytes, resource \"pool\", device 0\n"
             " allocated on stream 0x%llx:\n  File \"a.py\", line 1, in f\n"
             " freed on stream 0x%llx:\n  File \"a.py\", line 2, in f\n"
             " freed again:\n  File \"a.py\", line 3, in f\n",
             block, (unsigned long long)(uintptr_t)stream,
             (unsigned long long)(uintptr_t)stream, block,
             (unsigned long long)(uintptr_t)stream,
             (unsigned long long)(uintptr_t)stream);
    CHECK_TEXT(wanted, text);
    free(text);
    end_stream(stream);
    end();
}

TEST(a_report_comes_in_a_later_call)
{
    begin("guard");
    tarn_device_ptr block = take_on(BYTES, NULL);
    write_on(block + BYTES, 1, NULL);
    put_on(block, BYTES, NULL);
    CHECK_OK(tarn_driver_synchronize(0));
    block = take_on(BYTES, NULL);
    CHECK_EQUAL(1, report_count);
    put_on(block, BYTES, NULL);
    end();
}

/* --- streams --- */

/* The stream of the free was never ordered behind the allocation by the program, which did
 * not use the block. */
TEST(a_block_may_be_freed_on_a_stream_that_did_not_wait)
{
    begin("guard,poison,quarantine=1KiB");
    for (int i = 0; i < 50; i++) {
        tarn_stream one = new_stream(), two = new_stream();
        tarn_device_ptr block = take_on(BYTES, one);
        put_on(block, BYTES, two);
        end_stream(one);
        end_stream(two);
    }
    end();
    CHECK_EQUAL(0, report_count);
}

/* The handle of a destroyed stream is not used. */
TEST(the_streams_of_a_block_may_end_before_it)
{
    begin("guard,poison,quarantine");
    tarn_stream stream = new_stream();
    tarn_device_ptr block = take_on(BYTES, stream), late = take_on(BYTES, stream);
    put_on(block, BYTES, stream);
    end_stream(stream);
    put_on(late, BYTES, NULL);
    check();
    write_on(late, 1, NULL);
    end();
    check_report(TARN_GUARD_AFTER_FREE, late, 0, 0);
    CHECK_EQUAL(0, on_sim() ? sim_misuses() : 0);
}

/* Two streams fill blocks with patterns and verify them, in all orders of a seed. A race
 * of the guard's work with that of the program is found by the simulator. */
static void exchange_patterns(void)
{
    enum { ROUNDS = 12 };
    tarn_stream streams[2] = {new_stream(), new_stream()};
    tarn_resource *pinned = make_pinned();
    tarn_device_ptr host;

    /* A copy to other memory of the host would wait for the work. */
    CHECK_OK(tarn_resource_allocate(pinned, ROUNDS, 0, NULL, &host));
    unsigned char *bytes = (unsigned char *)(uintptr_t)host;
    begin("guard,poison,quarantine=8KiB");
    for (unsigned i = 0; i < ROUNDS; i++) {
        tarn_stream one = streams[i % 2], two = streams[(i + i / 2) % 2];
        tarn_device_ptr block = take_on(BYTES, one);
        if (i % 3 == 0) { /* without a use, and so without a wait */
            put_on(block, BYTES, two);
            continue;
        }
        CHECK_OK(tarn_memset_async(0, block, (unsigned char)(i + 1), BYTES, one));
        CHECK_OK(tarn_stream_wait(0, two, one));
        CHECK_OK(tarn_memcpy_async(0, host + i, block + BYTES - 1, 1, two));
        put_on(block, BYTES, two);
    }
    CHECK_OK(tarn_driver_synchronize(0));
    for (unsigned i = 0; i < ROUNDS; i++)
        CHECK(i % 3 == 0 || bytes[i] == i + 1);
    end();
    CHECK_EQUAL(0, report_count);
    CHECK_OK(tarn_resource_deallocate(pinned, host, ROUNDS, 0, NULL));
    CHECK_OK(tarn_resource_release(pinned));
    end_stream(streams[0]);
    end_stream(streams[1]);
}

TEST(the_guard_orders_its_work_in_every_schedule)
{
    if (!on_sim())
        skip();
    seeds(40, exchange_patterns);
}

/* --- captures --- */

static tarn_status use_guard(void)
{
    tarn_device_ptr block;
    tarn_stream streams[] = {TARN_STREAM_NONE, NULL};
    tarn_status status = TARN_OK;

    for (int i = 0; i < 1 && status == TARN_OK; i++) {
        status = tarn_resource_allocate(guard, BYTES, 0, streams[i], &block);
        if (status == TARN_OK)
            status = tarn_resource_deallocate(guard, block, BYTES, 0, streams[i]);
    }
    return status;
}

TEST(a_capture_survives_a_guard)
{
    begin("guard,poison,quarantine");
    capture_survives(use_guard);
    end();
    CHECK_EQUAL(0, report_count);
}

static struct {
    int (*retain)(void **context, int device);
    int (*set_current)(void *context);
    int (*begin)(void *stream, int mode);
    int (*end)(void *stream, void **graph);
    int (*graph_destroy)(void *graph);
    int (*nodes)(void *graph, void **nodes, size_t *count);
} cu;

TEST(a_capturing_stream_gets_no_work_of_the_guard)
{
    void *context, *graph = NULL;
    size_t count = 77;
    tarn_stream stream = new_stream();

    find_call("cuDevicePrimaryCtxRetain", &cu.retain);
    find_call("cuCtxSetCurrent", &cu.set_current);
    find_call("cuStreamBeginCapture_v2", &cu.begin);
    find_call("cuStreamEndCapture", &cu.end);
    find_call("cuGraphDestroy", &cu.graph_destroy);
    find_call("cuGraphGetNodes", &cu.nodes);
    CHECK_EQUAL(0, cu.retain(&context, 0));
    CHECK_EQUAL(0, cu.set_current(context));
    begin("guard,poison,quarantine");
    tarn_device_ptr before = take_on(BYTES, stream);
    CHECK_EQUAL(0, cu.begin(stream, 0));
    tarn_device_ptr inside = take_on(BYTES, stream);
    put_on(before, BYTES, stream);
    put_on(inside, BYTES, stream);
    CHECK_EQUAL(0, cu.end(stream, &graph));
    CHECK(graph != NULL);
    CHECK_EQUAL(0, cu.nodes(graph, NULL, &count));
    CHECK_EQUAL(0, count);
    CHECK_EQUAL(1, counts().unguarded);
    CHECK_EQUAL(1, counts().unchecked);
    CHECK_EQUAL(0, cu.graph_destroy(graph));
    CHECK_EQUAL(0, cu.set_current(NULL));
    end_stream(stream);
    end();
    CHECK_EQUAL(0, report_count);
}

/* --- memory that is short --- */

TEST(a_guard_returns_its_quarantine_before_an_allocation_fails)
{
    enum { MOST = 8 << 20, PART = 3 << 20 };
    tarn_pool_options options = {.size = sizeof options, .maximum_bytes = MOST};
    tarn_resource *pool;

    CHECK_OK(tarn_pool_create(0, NULL, &options, &pool));
    begin_over(pool, "guard,poison,quarantine");
    for (int i = 0; i < 20; i++)
        put_on(take_on(PART, NULL), PART, NULL);
    for (int i = 0; i < 20; i++)
        put_on(take_on(PART, TARN_STREAM_NONE), PART, TARN_STREAM_NONE);
    CHECK_EQUAL(0, counts().unguarded);
    /* Without space for red zones a block has none. */
    tarn_device_ptr all = take_on(MOST, NULL);
    CHECK_EQUAL(1, counts().unguarded);
    put_on(all, MOST, NULL);
    end();
    CHECK_EQUAL(0, report_count);
}

/* --- suspended pools --- */

/* Check, free and resume with a live block, a freed one and one freed meanwhile. */
static void suspend_and_resume(tarn_pool_suspend_mode mode)
{
    tarn_resource *pool = make_pool();

    begin_over(pool, "guard,poison,quarantine");
    tarn_device_ptr live = take_on(BYTES, NULL), freed = take_on(BYTES, NULL),
                    freed_meanwhile = take_on(BYTES, NULL);
    put_on(freed, BYTES, NULL);
    check();
    CHECK_EQUAL(0, counts().unchecked);
    CHECK_OK(tarn_pool_suspend(pool, mode));
    check();
    CHECK_EQUAL(3, counts().unchecked);
    put_on(freed_meanwhile, BYTES, NULL);
    check();
    CHECK_OK(tarn_pool_resume(pool));
    check();
    CHECK_EQUAL(0, report_count);
    put_on(live, BYTES, NULL);
    CHECK_OK(tarn_resource_trim(guard, 0, NULL));
    CHECK_EQUAL(0, report_count);
    live = take_on(BYTES, NULL); /* new blocks are checked */
    write_on(live + BYTES, 1, NULL);
    put_on(live, BYTES, NULL);
    end();
    CHECK_EQUAL(1, report_count);
}

TEST(a_suspended_pool_is_not_read)
{
    suspend_and_resume(TARN_POOL_SUSPEND_KEEP);
}

TEST(what_a_suspension_discards_is_not_reported)
{
    suspend_and_resume(TARN_POOL_SUSPEND_DISCARD);
}

TEST(the_quarantine_keeps_its_bound)
{
    begin("quarantine=1MiB");
    for (int i = 0; i < 100; i++) {
        put_on(take_on(100000, NULL), 100000, NULL);
        CHECK(counts().quarantined_bytes <= 1 << 20);
    }
    CHECK_EQUAL(10, counts().quarantined_blocks);
    CHECK_OK(tarn_resource_trim(guard, 0, NULL));
    CHECK_EQUAL(0, counts().quarantined_blocks);
    end();
}

TEST(a_block_without_a_device_has_no_guard)
{
    tarn_resource *host;
    tarn_device_ptr block;

    CHECK_OK(tarn_host_create(&host));
    begin_over(host, "guard,poison,quarantine");
    block = take_on(BYTES, NULL);
    memset((void *)(uintptr_t)block, 1, BYTES);
    put_on(block, BYTES, NULL);
    CHECK_EQUAL(1, counts().unguarded);
    end();
}

TEST(a_reset_of_the_device_ends_the_guards_memory)
{
    begin_over(make_cuda(), "guard,poison,quarantine");
    tarn_device_ptr block = take_on(BYTES, NULL), other = take_on(BYTES, NULL);
    put_on(block, BYTES, NULL);
    reset_the_device();
    put_on(other, BYTES, NULL);
    block = take_on(BYTES, NULL);
    write_on(block + BYTES, 1, NULL);
    put_on(block, BYTES, NULL);
    check();
    check_report(TARN_GUARD_BEHIND, block, BYTES, BYTES);
    end();
    CHECK_EQUAL(0, report_count);
}

/* --- failures --- */

TEST(a_failed_free_leaves_the_block_live)
{
    static struct scripted script;

    scripted_begin(&script, TARN_DEVICE_NONE);
    begin_over(script.resource, "guard");
    tarn_device_ptr block = take_on(BYTES, NULL);
    script.free_fails = TARN_DRIVER_FAILURE;
    CHECK_STATUS(TARN_DRIVER_FAILURE,
                 tarn_resource_deallocate(guard, block, BYTES, 0, NULL));
    script.free_fails = TARN_OK;
    put_on(block, BYTES, NULL);
    CHECK_OK(tarn_resource_release(guard));
    scripted_end(&script);
}

TEST(calls_reject_wrong_arguments)
{
    tarn_guard_counts now = {.size = 8};
    tarn_guard_options none = {.size = sizeof none},
                       small = {.size = sizeof small, .guard = true, .zone_bytes = 255};
    tarn_resource *host, *out = (tarn_resource *)7;

    CHECK_OK(tarn_host_create(&host));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_guard_create(NULL, NULL, &out));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_guard_create(host, NULL, NULL));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_guard_create(host, &none, &out));
    CHECK_MESSAGE("neither guard, nor poison, nor quarantine");
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_guard_create(host, &small, &out));
    CHECK_MESSAGE("a zone of 255 bytes, the range is 256 to 1048576");
    CHECK(out == (tarn_resource *)7);
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_guard_check(host, NULL));
    CHECK_MESSAGE("\"host\" is not a guard");
    CHECK_STATUS(TARN_NOT_FOUND, tarn_guard_check(NULL, NULL));
    CHECK_MESSAGE("TARN_POOL_DEBUG");
    CHECK_STATUS(TARN_NOT_FOUND, tarn_guard_read_counts(NULL, &now));
    CHECK_OK(tarn_guard_create(host, NULL, &out));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_guard_read_counts(out, &now));
    tarn_resource *found;
    CHECK_OK(tarn_adaptor_upstream(out, &found));
    CHECK(found == host);
    CHECK_OK(tarn_resource_release(found));
    CHECK_OK(tarn_resource_release(out));
    CHECK_OK(tarn_resource_release(host));
}
