/* Test samples of a guard: slots, their batches, and the order of their work. A memset of the
 * driver is the wrong writer. Every other allocation of a guard here is a sample. */
#define _GNU_SOURCE
#include "driver_calls.h"
#include "test.h"

enum { BYTES = 1000, REPORTS = 512, BATCH = 64 };

static tarn_guard_report reports[REPORTS];
static size_t report_count;

static void note(void *data, const tarn_guard_report *report)
{
    (void)data;
    CHECK(report_count < REPORTS);
    reports[report_count++] = *report;
}

static tarn_resource *upstream, *guard;

static void begin_over(tarn_resource *resource, const char *text)
{
    tarn_guard_options options;

    report_count = 0;
    tarn_guard_set_handler(note, NULL);
    CHECK_OK(tarn_guard_parse(text, &options));
    upstream = resource;
    CHECK_OK(tarn_guard_create(upstream, &options, &guard));
}

static tarn_resource *make_pool(void)
{
    tarn_resource *pool;

    CHECK_OK(tarn_pool_create(0, NULL, NULL, &pool));
    return pool;
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

static void put(tarn_device_ptr block, size_t bytes, tarn_stream stream)
{
    CHECK_OK(tarn_resource_deallocate(guard, block, bytes, 0, stream));
}

/* Allocate a sample, and then a block that is none. */
static tarn_device_ptr sample(size_t bytes, tarn_stream stream)
{
    tarn_device_ptr block, other;

    CHECK_OK(tarn_resource_allocate(guard, bytes, 0, stream, &block));
    CHECK_OK(tarn_resource_allocate(guard, 1, 0, stream, &other));
    put(other, 1, stream);
    return block;
}

static tarn_guard_counts counts(void)
{
    tarn_guard_counts now = {.size = sizeof now};

    CHECK_OK(tarn_guard_read_counts(guard, &now));
    return now;
}

static void check(void)
{
    CHECK_OK(tarn_guard_check(guard, NULL));
}

/* Have slots made for blocks of a size: the first sample of it is none, and makes them. */
static void make_slots(size_t bytes, tarn_stream stream)
{
    put(sample(bytes, stream), bytes, stream);
    check();
}

static void write_on(tarn_device_ptr address, size_t bytes, tarn_stream stream)
{
    CHECK_OK(tarn_memset_async(0, address, 0x2a, bytes, stream));
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

static tarn_stream register_stream(tarn_stream raw)
{
    tarn_stream stream;

    CHECK_OK(tarn_stream_register(0, raw, &stream));
    return stream;
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

/* --- what it costs --- */

/* This test is the first one: the pinned memory of later ones has other calls under
 * AddressSanitizer. */
TEST(a_sample_takes_four_queries_and_a_share_of_its_batch)
{
    enum { SAMPLES = 8 * BATCH, OTHERS = 10 };
    tarn_device_ptr block;

    if (!on_sim())
        skip();
    tarn_stream raw = new_stream(), stream = register_stream(raw);
    begin("guard=1/10");
    unsigned long long calls = 0, before;
    for (unsigned i = 0; i < SAMPLES; i++) {
        before = sim_calls();
        for (unsigned j = 0; j < OTHERS; j++) {
            CHECK_OK(tarn_resource_allocate(guard, BYTES, 0, stream, &block));
            put(block, BYTES, stream);
        }
        if (i >= SAMPLES / 2) /* enough slots have been made */
            calls += sim_calls() - before;
        CHECK_OK(tarn_driver_synchronize(0));
    }
    CHECK(calls < 6 * (SAMPLES / 2));
    CHECK_EQUAL(SAMPLES, counts().guarded);
    end();
    CHECK_EQUAL(0, report_count);
    CHECK_OK(tarn_stream_unregister(stream));
    end_stream(raw);
}

/* --- what is found --- */

static void write_wrongly(tarn_resource *resource, tarn_stream stream, const char *text)
{
    static const struct {
        int64_t offset;
        size_t bytes;
        tarn_guard_damage damage;
    } writes[] = {{-1, 1, TARN_GUARD_BEFORE},     {-256, 4, TARN_GUARD_BEFORE},
                  {-768, 768, TARN_GUARD_BEFORE}, {BYTES, 1, TARN_GUARD_BEHIND},
                  {BYTES, 24, TARN_GUARD_BEHIND}, {BYTES + 500, 4, TARN_GUARD_BEHIND},
                  {BYTES, 512, TARN_GUARD_BEHIND}};

    begin_over(resource, text);
    make_slots(BYTES, stream);
    for (size_t i = 0; i < sizeof writes / sizeof *writes; i++) {
        tarn_device_ptr block = sample(BYTES, stream);
        size_t requested = 0;
        CHECK_OK(tarn_resource_requested_bytes(guard, block, &requested));
        CHECK_EQUAL(BYTES, requested);
        write_on(block, BYTES, stream);
        write_on(block + (tarn_device_ptr)writes[i].offset, writes[i].bytes, stream);
        put(block, BYTES, stream);
        check();
        CHECK(reports[0].is_freed && reports[0].allocation && reports[0].free);
        CHECK(reports[0].changed == writes[i].bytes && reports[0].bytes == BYTES);
        CHECK_TEXT(tarn_resource_name(upstream), reports[0].resource);
        check_report(writes[i].damage, block, writes[i].offset,
                     writes[i].offset + (int64_t)writes[i].bytes - 1);
        CHECK_STATUS(TARN_INVALID_ARGUMENT, /* the guard knows a slot still */
                     tarn_resource_deallocate(guard, block, BYTES, 0, stream));
        check_report(TARN_GUARD_FREED_TWICE, block, 0, 0);
        put(sample(BYTES, stream), BYTES, stream); /* the slot is as before */
    }
    end();
    CHECK_EQUAL(0, report_count);
}

TEST(a_write_outside_of_a_sample_is_found_on_any_resource)
{
    const char *const texts[] = {"guard=1/2", "guard=1/2,poison",
                                 "guard=1/2,poison,quarantine"};
    tarn_stream raw = new_stream(), stream = register_stream(raw);
    tarn_resource *cuda, *async, *managed, *pinned;

    for (size_t i = 0; i < 3; i++) {
        CHECK_OK(tarn_cuda_create(0, &cuda));
        CHECK_OK(tarn_async_create(0, NULL, &async));
        CHECK_OK(tarn_managed_create(0, &managed));
        CHECK_OK(tarn_pinned_create(0, &pinned));
        write_wrongly(make_pool(), NULL, texts[i]);
        write_wrongly(make_pool(), raw, texts[i]);
        write_wrongly(make_pool(), stream, texts[i]);
        write_wrongly(make_pool(), TARN_STREAM_PER_THREAD, texts[i]);
        write_wrongly(make_pool(), TARN_STREAM_NONE, texts[i]);
        write_wrongly(cuda, TARN_STREAM_NONE, texts[i]);
        write_wrongly(async, stream, texts[i]);
        write_wrongly(managed, stream, texts[i]);
        write_wrongly(pinned, NULL, texts[i]);
    }
    CHECK_OK(tarn_stream_unregister(stream));
    end_stream(raw);
}

TEST(a_full_batch_is_checked_without_a_request)
{
    tarn_stream streams[] = {NULL, TARN_STREAM_NONE};

    for (size_t i = 0; i < 2; i++) {
        begin("guard=1/2");
        for (unsigned n = 0; n < 6 * BATCH; n++) {
            tarn_device_ptr block = sample(BYTES, streams[i]);
            write_on(block + BYTES, 1, streams[i]);
            put(block, BYTES, streams[i]);
            CHECK_OK(tarn_driver_synchronize(0));
        }
        CHECK(report_count >= 4 * BATCH);
        end();
        CHECK_EQUAL(6 * BATCH, report_count);
    }
}

TEST(a_write_into_a_freed_sample_is_found)
{
    tarn_stream streams[] = {NULL, TARN_STREAM_NONE};

    for (size_t i = 0; i < 2; i++) {
        begin("guard=1/2,poison,quarantine");
        make_slots(BYTES, streams[i]);
        tarn_device_ptr block = sample(BYTES, streams[i]);
        put(block, BYTES, streams[i]);
        write_on(block + 10, 3, streams[i]);
        check();
        check_report(TARN_GUARD_AFTER_FREE, block, 10, 12);
        end();
        CHECK_EQUAL(0, report_count);
    }
}

TEST(a_second_free_of_a_sample_is_found)
{
    begin("guard=1/2");
    make_slots(BYTES, NULL);
    tarn_device_ptr block = sample(BYTES, NULL);
    CHECK_STATUS(TARN_INVALID_ARGUMENT,
                 tarn_resource_deallocate(guard, block, BYTES + 1, 0, NULL));
    CHECK_MESSAGE("allocated with 1000 bytes, freed with 1001");
    put(block, BYTES, NULL);
    CHECK_STATUS(TARN_INVALID_ARGUMENT,
                 tarn_resource_deallocate(guard, block, BYTES, 0, NULL));
    CHECK_MESSAGE("of 1000 bytes was freed before");
    check_report(TARN_GUARD_FREED_TWICE, block, 0, 0);
    check();
    CHECK_STATUS(TARN_INVALID_ARGUMENT,
                 tarn_resource_deallocate(guard, block, BYTES, 0, NULL));
    check_report(TARN_GUARD_FREED_TWICE, block, 0, 0);
    end();
}

TEST(a_live_sample_is_checked_on_request_and_reported_once)
{
    begin("guard=1/2,poison");
    make_slots(BYTES, NULL);
    tarn_device_ptr block = sample(BYTES, NULL);
    write_on(block + BYTES, 1, NULL);
    check();
    CHECK(!reports[0].is_freed);
    check_report(TARN_GUARD_BEHIND, block, BYTES, BYTES);
    check();
    put(block, BYTES, NULL);
    check();
    end();
    CHECK_EQUAL(0, report_count);
}

/* --- which blocks are slots --- */

TEST(samples_of_all_sizes_are_found)
{
    size_t sizes[] = {1,    255,  256,   257,   768,   769,
                      2816, 2817, 15104, 64256, 64257, 1 << 20};

    begin("guard=1/2,poison,quarantine=1MiB");
    for (unsigned turn = 0; turn < 3; turn++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            tarn_device_ptr block = sample(sizes[i], NULL);
            CHECK_EQUAL(0, block % TARN_ALIGNMENT);
            write_on(block - 1, 1, NULL);
            write_on(block, sizes[i] + 1, NULL);
            put(block, sizes[i], NULL);
            check();
            CHECK_EQUAL(2, report_count);
            CHECK(reports[0].first == -1 && reports[1].last == (int64_t)sizes[i]);
            report_count = 0;
        }
    tarn_device_ptr aligned;
    CHECK_OK(tarn_resource_allocate(guard, BYTES, 4096, NULL, &aligned));
    CHECK_EQUAL(0, aligned % 4096);
    CHECK_OK(tarn_resource_deallocate(guard, aligned, BYTES, 4096, NULL));
    end();
    CHECK_EQUAL(0, report_count);
}

TEST(a_trim_returns_the_slots)
{
    tarn_pool_statistics before = {.size = sizeof before}, after = before;
    tarn_resource *pool = make_pool();

    begin_over(pool, "guard=1/2,poison");
    CHECK_OK(tarn_pool_get_statistics(pool, &before));
    for (unsigned i = 0; i < 3; i++) {
        make_slots(BYTES, NULL);
        put(sample(BYTES, NULL), BYTES, NULL); /* waits in an open batch */
        CHECK_EQUAL(1, counts().pending);
        CHECK_EQUAL(1, counts().quarantined_blocks);
        CHECK_OK(tarn_resource_trim(guard, 0, NULL));
        CHECK_EQUAL(0, counts().pending + counts().quarantined_blocks);
        CHECK_OK(tarn_pool_get_statistics(pool, &after));
        CHECK_EQUAL(before.live_blocks, after.live_blocks);
    }
    end();
    CHECK_EQUAL(0, report_count);
}

/* --- streams --- */

/* The handle of a destroyed stream is not used. */
TEST(the_stream_of_a_batch_may_end_before_it)
{
    begin("guard=1/2");
    make_slots(BYTES, NULL);
    for (unsigned i = 0; i < 40; i++) { /* more streams than there are open batches */
        tarn_stream stream = new_stream();
        for (unsigned n = 0; n < i % 3 + 1; n++) {
            tarn_device_ptr block = sample(BYTES, stream);
            if (i == 20 && n == 0)
                write_on(block + BYTES, 1, stream);
            put(block, BYTES, stream);
        }
        end_stream(stream);
    }
    check();
    CHECK_EQUAL(1, report_count);
    CHECK_EQUAL(0, on_sim() ? sim_misuses() : 0);
    CHECK_EQUAL(0, counts().unchecked);
    end();
    CHECK_EQUAL(1, report_count);
}

/* A block may be freed on a stream that did not wait for the one of its allocation. */
TEST(a_sample_may_be_freed_on_another_stream)
{
    begin("guard=1/2,poison,quarantine=8KiB");
    for (int i = 0; i < 200; i++) {
        tarn_stream one = new_stream(), two = new_stream();
        put(sample(BYTES, one), BYTES, two);
        end_stream(one);
        end_stream(two);
    }
    check();
    CHECK_EQUAL(0, counts().unchecked);
    end();
    CHECK_EQUAL(0, report_count);
}

static const char *exchanged_with;

/* Two streams fill blocks with patterns and verify them, in all orders of a seed. A race
 * of the guard's work with that of the program is found by the simulator, and so is a slot
 * that is used again too early. */
static void exchange_patterns(void)
{
    enum { ROUNDS = 400 };
    tarn_stream raw[2] = {new_stream(), new_stream()};
    tarn_stream streams[2] = {raw[0], register_stream(raw[1])};
    tarn_resource *pinned;
    tarn_device_ptr host;

    CHECK_OK(tarn_pinned_create(0, &pinned));
    /* A copy to other memory of the host would wait for the work. */
    CHECK_OK(tarn_resource_allocate(pinned, ROUNDS, 0, NULL, &host));
    unsigned char *bytes = (unsigned char *)(uintptr_t)host;
    begin(exchanged_with);
    make_slots(BYTES, streams[0]);
    for (unsigned i = 0; i < ROUNDS; i++) {
        unsigned first = i % 2, second = (i + i / 2) % 2;
        tarn_device_ptr block = sample(BYTES, streams[first]);
        if (i % 5 == 0) { /* without a use, and so without a wait */
            put(block, BYTES, streams[second]);
            continue;
        }
        CHECK_OK(tarn_memset_async(0, block, (unsigned char)(i + 1), BYTES, raw[first]));
        CHECK_OK(tarn_stream_wait(0, raw[second], raw[first]));
        CHECK_OK(tarn_memcpy_async(0, host + i, block + BYTES - 1, 1, raw[second]));
        put(block, BYTES, i % 3 == 0 ? TARN_STREAM_NONE : streams[second]);
    }
    CHECK_OK(tarn_driver_synchronize(0));
    for (unsigned i = 0; i < ROUNDS; i++)
        CHECK(i % 5 == 0 || bytes[i] == (unsigned char)(i + 1));
    CHECK(counts().checks > BATCH);
    end();
    CHECK_EQUAL(0, report_count);
    CHECK_OK(tarn_resource_deallocate(pinned, host, ROUNDS, 0, NULL));
    CHECK_OK(tarn_resource_release(pinned));
    CHECK_OK(tarn_stream_unregister(streams[1]));
    end_stream(raw[0]);
    end_stream(raw[1]);
}

TEST(slots_are_used_and_checked_in_order_in_every_schedule)
{
    if (!on_sim())
        skip();
    exchanged_with = "guard=1/2";
    seeds(20, exchange_patterns);
    exchanged_with = "guard=1/2,poison";
    seeds(10, exchange_patterns);
    exchanged_with = "guard=1/2,quarantine=64KiB";
    seeds(10, exchange_patterns);
}

/* --- captures, suspended pools, resets --- */

static struct {
    int (*retain)(void **context, int device);
    int (*set_current)(void *context);
    int (*begin)(void *stream, int mode);
    int (*end)(void *stream, void **graph);
    int (*graph_destroy)(void *graph);
    int (*nodes)(void *graph, void **nodes, size_t *count);
} cu;

TEST(a_capturing_stream_gets_no_slot_and_frees_none)
{
    void *context, *graph = NULL;
    size_t count = 77;
    tarn_stream raw = new_stream(), stream = register_stream(raw);

    find_call("cuDevicePrimaryCtxRetain", &cu.retain);
    find_call("cuCtxSetCurrent", &cu.set_current);
    find_call("cuStreamBeginCapture_v2", &cu.begin);
    find_call("cuStreamEndCapture", &cu.end);
    find_call("cuGraphDestroy", &cu.graph_destroy);
    find_call("cuGraphGetNodes", &cu.nodes);
    CHECK_EQUAL(0, cu.retain(&context, 0));
    CHECK_EQUAL(0, cu.set_current(context));
    begin("guard=1/2");
    make_slots(BYTES, stream);
    tarn_device_ptr before = sample(BYTES, stream);
    CHECK_EQUAL(0, cu.begin(raw, 0));
    tarn_device_ptr inside = sample(BYTES, stream);
    CHECK(inside != before);
    put(before, BYTES, stream);
    put(inside, BYTES, stream);
    CHECK_EQUAL(0, cu.end(raw, &graph));
    CHECK(graph != NULL);
    CHECK_EQUAL(0, cu.nodes(graph, NULL, &count));
    CHECK_EQUAL(0, count);
    CHECK_EQUAL(1, counts().unguarded);
    CHECK_EQUAL(1, counts().unchecked);
    for (unsigned i = 0; i < 4 * BATCH; i++) { /* the graph may still use that slot */
        tarn_device_ptr block = sample(BYTES, stream);
        CHECK(block != before);
        put(block, BYTES, stream);
    }
    CHECK_EQUAL(0, cu.graph_destroy(graph));
    CHECK_EQUAL(0, cu.set_current(NULL));
    CHECK_OK(tarn_stream_unregister(stream));
    end_stream(raw);
    end();
    CHECK_EQUAL(0, report_count);
}

static void suspend_and_resume(tarn_pool_suspend_mode mode)
{
    tarn_resource *pool = make_pool();

    begin_over(pool, "guard=1/2");
    make_slots(BYTES, NULL);
    tarn_device_ptr live = sample(BYTES, NULL), freed = sample(BYTES, NULL),
                    freed_meanwhile = sample(BYTES, NULL);
    tarn_device_ptr none = 7;
    put(freed, BYTES, NULL);
    CHECK_OK(tarn_pool_suspend(pool, mode));
    for (int i = 0; i < 2; i++) { /* a sample, and one that is none */
        CHECK_STATUS(TARN_SUSPENDED,
                     tarn_resource_allocate(guard, BYTES, 0, NULL, &none));
        CHECK_EQUAL(7, none);
    }
    put(freed_meanwhile, BYTES, NULL);
    check();
    CHECK_EQUAL(3, counts().unchecked); /* the batch, and a live one */
    CHECK_OK(tarn_pool_resume(pool));
    check();
    CHECK_EQUAL(0, report_count);
    put(live, BYTES, NULL);
    make_slots(BYTES, NULL);
    make_slots(BYTES, NULL);
    CHECK_EQUAL(0, report_count);
    live = sample(BYTES, NULL); /* new slots are checked */
    write_on(live + BYTES, 1, NULL);
    put(live, BYTES, NULL);
    end();
    CHECK_EQUAL(1, report_count);
}

TEST(slots_of_a_suspended_pool_are_not_read)
{
    suspend_and_resume(TARN_POOL_SUSPEND_KEEP);
}

TEST(slots_whose_bytes_a_suspension_discards_are_not_reported)
{
    suspend_and_resume(TARN_POOL_SUSPEND_DISCARD);
}

/* Another pool's slots wait, and are checked later. */
TEST(a_suspended_pool_ends_no_check_of_another_one)
{
    tarn_resource *other = make_pool();

    begin("guard=1/2");
    make_slots(BYTES, NULL);
    tarn_device_ptr block = sample(BYTES, NULL);
    CHECK_OK(tarn_pool_suspend(other, TARN_POOL_SUSPEND_DISCARD));
    CHECK_OK(tarn_pool_resume(other));
    CHECK_OK(tarn_pool_suspend(other, TARN_POOL_SUSPEND_KEEP));
    tarn_device_ptr ordinary = sample(BYTES, NULL);
    write_on(ordinary + BYTES, 1, NULL);
    put(ordinary, BYTES, NULL);
    put(block, BYTES, NULL);
    check();
    check_report(TARN_GUARD_BEHIND, ordinary, BYTES, BYTES);
    CHECK_OK(tarn_resource_release(other)); /* while it is suspended */
    make_slots(BYTES, NULL);
    make_slots(BYTES, NULL);
    write_on(sample(BYTES, NULL) - 1, 1, NULL);
    check();
    CHECK_EQUAL(1, report_count);
    put(reports[0].address, BYTES, NULL);
    end();
}

TEST(a_reset_of_the_device_ends_the_slots)
{
    tarn_resource *cuda;

    CHECK_OK(tarn_cuda_create(0, &cuda));
    begin_over(cuda, "guard=1/2,quarantine=1MiB");
    make_slots(BYTES, NULL);
    tarn_device_ptr live = sample(BYTES, NULL), late = sample(BYTES, NULL);
    put(sample(BYTES, NULL), BYTES, NULL);
    reset_the_device();
    put(live, BYTES, NULL);
    make_slots(BYTES, NULL);
    put(sample(BYTES, NULL), BYTES, NULL);
    CHECK_EQUAL(1, counts().pending);
    put(late, BYTES, NULL); /* it joins no batch of the new context */
    CHECK_EQUAL(1, counts().pending);
    for (unsigned i = 0; i < 3; i++) {
        tarn_device_ptr block = sample(BYTES, NULL);
        write_on(block + BYTES, 1, NULL);
        put(block, BYTES, NULL);
        check();
        check_report(TARN_GUARD_BEHIND, block, BYTES, BYTES);
    }
    end();
    CHECK_EQUAL(0, report_count);
}
