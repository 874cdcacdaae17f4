/* A registered stream has a value of its own until it is unregistered. */
#define _GNU_SOURCE
#include "driver_calls.h"
#include "test.h"
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { BYTES = 4096, MANY = 1000, THREADS = 4, ROUNDS = 200 };

static int (*ctx_create)(void **out, unsigned flags, int device);
static int (*ctx_destroy)(void *context);
static int (*ctx_set_current)(void *context);
static int (*primary_reset)(int device);
static int (*stream_create)(void **out, unsigned flags);
static int (*stream_destroy)(void *stream);
static int (*stream_get_id)(void *stream, unsigned long long *out);
static int (*begin_capture)(void *stream, int mode);
static int (*end_capture)(void *stream, void **graph_out);
static int (*graph_destroy)(void *graph);
static int device_count;

static void find_calls(void)
{
    tarn_driver_info info;

    CHECK_OK(tarn_driver_get_info(&info));
    device_count = info.device_count;
    find_call("cuCtxCreate_v2", &ctx_create);
    find_call("cuCtxDestroy_v2", &ctx_destroy);
    find_call("cuCtxSetCurrent", &ctx_set_current);
    find_call("cuDevicePrimaryCtxReset_v2", &primary_reset);
    find_call("cuStreamCreate", &stream_create);
    find_call("cuStreamDestroy_v2", &stream_destroy);
    find_call("cuStreamGetId", &stream_get_id);
    find_call("cuStreamBeginCapture_v2", &begin_capture);
    find_call("cuStreamEndCapture", &end_capture);
    find_call("cuGraphDestroy", &graph_destroy);
}

static tarn_stream make(int device)
{
    tarn_stream stream = NULL;

    CHECK_OK(tarn_stream_create(device, true, &stream));
    return stream;
}

static tarn_stream register_one(tarn_stream raw)
{
    tarn_stream registered = NULL;

    CHECK_OK(tarn_stream_register(0, raw, &registered));
    return registered;
}

/* Every call of Tarn that takes a stream rejects `stream` with `status` and this
 * message. */
static void check_rejected(tarn_stream stream, tarn_status wanted, const char *message)
{
    tarn_resource *async, *cuda;
    tarn_pointer *pointer;
    tarn_device_ptr block = 77, mine;

    CHECK_OK(tarn_async_create(0, NULL, &async));
    CHECK_OK(tarn_cuda_create(0, &cuda));
    CHECK_STATUS(wanted, tarn_stream_synchronize(0, stream));
    CHECK_MESSAGE(message);
    CHECK_STATUS(wanted, tarn_memcpy_async(0, 8, 8, 1, stream));
    CHECK_MESSAGE(message);
    CHECK_STATUS(wanted, tarn_memset_async(0, 8, 0, 1, stream));
    CHECK_MESSAGE(message);
    CHECK_STATUS(wanted, tarn_resource_allocate(async, 100, 0, stream, &block));
    CHECK_MESSAGE(message);
    CHECK_EQUAL(77, block);
    CHECK_OK(tarn_resource_allocate(async, 100, 0, NULL, &mine));
    CHECK_STATUS(wanted, tarn_resource_deallocate(async, mine, 100, 0, stream));
    CHECK_MESSAGE(message);
    CHECK_OK(tarn_resource_deallocate(async, mine, 100, 0, NULL));
    CHECK_OK(tarn_pointer_allocate(cuda, 100, NULL, &pointer));
    CHECK_STATUS(wanted, tarn_pointer_set_stream(pointer, stream));
    CHECK_MESSAGE(message);
    tarn_pointer_release(pointer);
    CHECK_OK(tarn_resource_release(cuda));
    CHECK_OK(tarn_resource_release(async));
}

TEST(registered_stream_has_the_handle_of_the_stream)
{
    tarn_stream raw = make(0), registered = register_one(raw);

    CHECK(registered != raw);
    CHECK(tarn_stream_handle(registered) == (void *)raw);
    CHECK_OK(tarn_stream_unregister(registered));
    CHECK_OK(tarn_stream_destroy(0, raw));
}

TEST(work_is_queued_on_a_registered_stream)
{
    tarn_stream raw = make(0), registered = register_one(raw);
    unsigned char seen[BYTES] = {0};
    tarn_device_ptr block;
    tarn_resource *async;

    CHECK_OK(tarn_async_create(0, NULL, &async));
    CHECK_OK(tarn_resource_allocate(async, BYTES, 0, registered, &block));
    CHECK_OK(tarn_memset_async(0, block, 0x41, BYTES, registered));
    CHECK_OK(tarn_memcpy_async(0, (uintptr_t)seen, block, BYTES, registered));
    CHECK_OK(tarn_stream_synchronize(0, registered));
    CHECK(seen[0] == 0x41 && seen[BYTES - 1] == 0x41);
    CHECK_OK(tarn_resource_deallocate(async, block, BYTES, 0, registered));
    CHECK_OK(tarn_resource_release(async));
    CHECK_OK(tarn_stream_unregister(registered));
    CHECK_OK(tarn_stream_destroy(0, raw));
}

TEST(default_streams_can_be_registered_except_the_per_thread_one)
{
    tarn_stream registered = (tarn_stream)77;

    for (uintptr_t raw = 0; raw < 2; raw++) {
        registered = register_one((tarn_stream)raw);
        CHECK(tarn_stream_handle(registered) == (void *)raw);
        CHECK_OK(tarn_stream_synchronize(0, registered));
        CHECK_OK(tarn_stream_unregister(registered));
    }
    registered = (tarn_stream)77;
    CHECK_STATUS(TARN_INVALID_ARGUMENT,
                 tarn_stream_register(0, TARN_STREAM_PER_THREAD, &registered));
    CHECK_STATUS(TARN_INVALID_ARGUMENT,
                 tarn_stream_register(0, TARN_STREAM_NONE, &registered));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_stream_register(0, NULL, NULL));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_stream_register(99, NULL, &registered));
    CHECK(registered == (tarn_stream)77);
}

TEST(stream_is_registered_more_than_once_under_different_values)
{
    tarn_stream raw = make(0), one = register_one(raw), other = register_one(raw);

    CHECK(one != other);
    CHECK_OK(tarn_stream_unregister(one));
    CHECK_OK(tarn_stream_synchronize(0, other));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_stream_register(0, other, &one));
    CHECK_OK(tarn_stream_unregister(other));
    CHECK_OK(tarn_stream_destroy(0, raw));
}

TEST(unregistered_value_is_rejected_by_every_call)
{
    tarn_stream raw = make(0), registered = register_one(raw);

    CHECK_OK(tarn_stream_unregister(registered));
    check_rejected(registered, TARN_INVALID_ARGUMENT, "is not a registered stream");
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_stream_unregister(registered));
    CHECK_MESSAGE("is not a registered stream");
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_stream_announce_capture(registered, true));
    CHECK_MESSAGE("is not a registered stream");
    CHECK(tarn_stream_handle(registered) == NULL);
    CHECK_MESSAGE("is not a registered stream");
    CHECK_OK(tarn_stream_synchronize(0, raw)); /* the stream itself still exists */
    CHECK_OK(tarn_stream_destroy(0, raw));
}

TEST(unregistered_value_stays_rejected_when_its_slot_is_reused)
{
    tarn_stream raw = make(0), values[MANY];

    for (int i = 0; i < MANY; i++) {
        values[i] = register_one(raw);
        CHECK_OK(tarn_stream_unregister(values[i]));
    }
    tarn_stream last = register_one(raw);
    for (int i = 0; i < MANY; i++) {
        CHECK(values[i] != last);
        CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_stream_synchronize(0, values[i]));
    }
    CHECK_OK(tarn_stream_unregister(last));
    CHECK_OK(tarn_stream_destroy(0, raw));
}

TEST(value_that_was_never_registered_is_rejected)
{
    static const uintptr_t wrong[] = {3,
                                      5,
                                      0x7fffffff,
                                      (uintptr_t)1 << 32 | 0xfffffff1,
                                      UINTPTR_MAX - 2,
                                      (uintptr_t)9 << 40 | 1};

    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        check_rejected((tarn_stream)wrong[i], TARN_INVALID_ARGUMENT,
                       "is not a registered stream");
        CHECK_STATUS(TARN_INVALID_ARGUMENT,
                     tarn_stream_unregister((tarn_stream)wrong[i]));
    }
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_stream_unregister(TARN_STREAM_DEFAULT));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_stream_unregister(TARN_STREAM_NONE));
}

TEST(many_streams_are_open_at_once)
{
    tarn_stream raw = make(0), values[MANY];

    for (int i = 0; i < MANY; i++)
        values[i] = register_one(raw);
    for (int i = 0; i < MANY; i++)
        CHECK(tarn_stream_handle(values[i]) == (void *)raw);
    for (int i = 0; i < MANY; i++)
        CHECK_OK(tarn_stream_unregister(values[i]));
    CHECK_OK(tarn_stream_destroy(0, raw));
}

/* CPU time of repeated registration and unregistration of a stream. */
static double reopen(tarn_stream raw)
{
    struct timespec before, after;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
    for (int i = 0; i < 20 * MANY; i++)
        CHECK_OK(tarn_stream_unregister(register_one(raw)));
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
    return (double)(after.tv_sec - before.tv_sec) +
           1e-9 * (double)(after.tv_nsec - before.tv_nsec);
}

/* If each registration scanned all slots, this would take a hundred times as long with so
 * many. */
TEST(opening_takes_no_longer_with_many_values_open)
{
    static tarn_stream values[40 * MANY];
    tarn_stream raw = make(0), other = make(0);
    double alone = reopen(other);

    for (int i = 0; i < 40 * MANY; i++)
        values[i] = register_one(raw);
    double beside = reopen(other), again = reopen(raw);
    for (int i = 0; i < 40 * MANY; i++)
        CHECK_OK(tarn_stream_unregister(values[i]));
    double after = reopen(raw); /* every slot is still there */
    CHECK(beside < 10 * alone);
    CHECK(again < 10 * alone);
    CHECK(after < 10 * alone);
    CHECK_OK(tarn_stream_destroy(0, raw));
    CHECK_OK(tarn_stream_destroy(0, other));
}

TEST(open_stream_is_not_destroyed)
{
    tarn_stream raw = make(0), registered = register_one(raw);

    CHECK_STATUS(TARN_STILL_IN_USE, tarn_stream_destroy(0, raw));
    CHECK_MESSAGE("unregister it before");
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_stream_destroy(0, registered));
    CHECK_MESSAGE("unregister it, then");
    CHECK_OK(tarn_stream_unregister(registered));
    CHECK_OK(tarn_stream_destroy(0, raw));
}

/* The legacy default stream has the same handle on each device. */
TEST(one_handle_can_be_registered_on_several_devices)
{
    tarn_stream on[2];

    find_calls();
    if (device_count < 2)
        skip();
    for (int first = 0; first < 2; first++) {
        for (int device = 0; device < 2; device++)
            CHECK_OK(tarn_stream_register(device, TARN_STREAM_LEGACY, &on[device]));
        for (int device = 0; device < 2; device++)
            CHECK_OK(tarn_stream_synchronize(device, on[device]));
        CHECK_OK(tarn_stream_unregister(on[first]));
        CHECK_OK(tarn_stream_synchronize(!first, on[!first]));
        CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_stream_synchronize(first, on[first]));
        CHECK_OK(tarn_stream_unregister(on[!first]));
    }
}

TEST(registered_stream_is_valid_on_its_own_device_only)
{
    tarn_stream registered = register_one(TARN_STREAM_LEGACY);

    find_calls();
    for (int device = 1; device < device_count; device++) {
        CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_stream_synchronize(device, registered));
        CHECK_MESSAGE("was registered on device 0");
    }
    CHECK_OK(tarn_stream_unregister(registered));
}

TEST(stream_of_another_context_is_not_registered)
{
    tarn_stream registered = (tarn_stream)77;
    void *stream = NULL, *other = NULL;

    find_calls();
    CHECK_EQUAL(0, ctx_create(&other, 0, 0));
    CHECK_EQUAL(0, stream_create(&stream, 0));
    CHECK_EQUAL(0, ctx_set_current(NULL));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_stream_register(0, stream, &registered));
    CHECK_MESSAGE("belongs to context");
    CHECK(registered == (tarn_stream)77);
    CHECK_EQUAL(0, stream_destroy(stream));
    CHECK_EQUAL(0, ctx_destroy(other));
}

TEST(stream_is_not_registered_while_it_captures_and_its_capture_goes_on)
{
    tarn_stream raw = make(0), registered = (tarn_stream)77;
    void *graph = NULL;

    find_calls();
    CHECK_EQUAL(0, begin_capture(raw, 0));
    CHECK_STATUS(TARN_STREAM_CAPTURING, tarn_stream_register(0, raw, &registered));
    CHECK_MESSAGE("is capturing");
    CHECK(registered == (tarn_stream)77);
    CHECK_EQUAL(0, end_capture(raw, &graph)); /* it was not lost */
    CHECK_EQUAL(0, graph_destroy(graph));
    registered = register_one(raw);
    CHECK_OK(tarn_stream_announce_capture(registered, true));
    CHECK_OK(tarn_stream_announce_capture(registered, false));
    CHECK_OK(tarn_stream_unregister(registered));
    CHECK_OK(tarn_stream_destroy(0, raw));
}

TEST(wait_for_a_stream_leaves_the_captures_of_others)
{
    tarn_stream raw = make(0), other = make(0);
    void *graph = NULL;

    find_calls();
    CHECK_EQUAL(0, begin_capture(raw, 0));
    CHECK_OK(tarn_stream_synchronize(0, other));
    CHECK_OK(tarn_stream_synchronize(0, TARN_STREAM_LEGACY));
    CHECK_EQUAL(0, end_capture(raw, &graph));
    CHECK_EQUAL(0, graph_destroy(graph));
    CHECK_OK(tarn_stream_destroy(0, raw));
    CHECK_OK(tarn_stream_destroy(0, other));
}

/* A pool makes no query to allocate on a registered stream that does not capture. */
static bool is_announced(tarn_stream registered)
{
    tarn_pool_statistics all = {.size = sizeof all};
    tarn_device_ptr block;
    tarn_resource *pool;

    CHECK_OK(tarn_pool_create(0, NULL, NULL, &pool));
    for (int i = 0; i < 4; i++) {
        CHECK_OK(tarn_resource_allocate(pool, BYTES, 0, registered, &block));
        CHECK_OK(tarn_resource_deallocate(pool, block, BYTES, 0, registered));
    }
    CHECK_OK(tarn_pool_get_statistics(pool, &all));
    CHECK_OK(tarn_resource_release(pool));
    return all.cache_hits == 0;
}

/* Without the query, cache hits would go into the graph. */
TEST(end_of_a_capture_is_not_announced_while_it_goes_on)
{
    tarn_stream raw = make(0), registered = register_one(raw);
    unsigned long long id;
    void *graph = NULL;

    find_calls();
    CHECK_OK(tarn_stream_announce_capture(registered, true));
    CHECK_EQUAL(0, begin_capture(raw, 0));
    CHECK_STATUS(TARN_STREAM_CAPTURING, tarn_stream_announce_capture(registered, false));
    CHECK_MESSAGE("is still capturing");
    CHECK_EQUAL(0, end_capture(raw, &graph));
    CHECK(is_announced(registered)); /* it is still announced */
    CHECK_EQUAL(0, graph_destroy(graph));
    CHECK_OK(tarn_stream_announce_capture(registered, false));
    CHECK(!is_announced(registered));

    CHECK_EQUAL(0, begin_capture(raw, 0)); /* a lost capture has ended */
    CHECK(stream_get_id(raw, &id) != 0);
    CHECK_OK(tarn_stream_announce_capture(registered, false));
    CHECK(end_capture(raw, &graph) != 0);
    CHECK_OK(tarn_stream_unregister(registered));
    CHECK_OK(tarn_stream_destroy(0, raw));
}

/* A library may have registered it, too. The capturing program does not know that value.
 */
TEST(announcement_counts_for_every_value_of_the_stream)
{
    tarn_stream raw = make(0), one = register_one(raw), two = register_one(raw), later;
    tarn_stream other_raw = make(0), other = register_one(other_raw);

    CHECK_OK(tarn_stream_announce_capture(one, true));
    CHECK(is_announced(two));
    CHECK(!is_announced(other));
    later = register_one(raw);
    CHECK(is_announced(later));
    CHECK_OK(tarn_stream_announce_capture(two, true));
    CHECK_OK(tarn_stream_announce_capture(one, false));
    CHECK(is_announced(one) && is_announced(two) && is_announced(later));
    CHECK_OK(tarn_stream_announce_capture(two, false));
    CHECK(!is_announced(one) && !is_announced(two) && !is_announced(later));
    CHECK_OK(tarn_stream_announce_capture(two, true));
    CHECK_OK(tarn_stream_unregister(two));
    CHECK(!is_announced(one) && !is_announced(later));
    CHECK_OK(tarn_stream_announce_capture(later, true));
    CHECK_OK(tarn_stream_unregister(one)); /* which has made no announcement */
    CHECK(is_announced(later));
    CHECK_OK(tarn_stream_unregister(later));
    later = register_one(raw); /* in the slot of one of those */
    one = register_one(raw);
    CHECK_OK(tarn_stream_announce_capture(one, false));
    CHECK(!is_announced(later) && !is_announced(one));
    CHECK_OK(tarn_stream_unregister(one));
    CHECK_OK(tarn_stream_unregister(later));
    CHECK_OK(tarn_stream_unregister(other));
    CHECK_OK(tarn_stream_destroy(0, raw));
    CHECK_OK(tarn_stream_destroy(0, other_raw));
}

/* While a blocking stream captures, the default stream cannot even be queried. */
TEST(default_stream_is_announced_without_a_question)
{
    tarn_stream legacy = register_one(TARN_STREAM_LEGACY), blocking;
    void *graph = NULL;

    find_calls();
    CHECK_OK(tarn_stream_create(0, false, &blocking));
    CHECK_EQUAL(0, begin_capture(blocking, 0));
    CHECK_OK(tarn_stream_announce_capture(legacy, true));
    CHECK_OK(tarn_stream_announce_capture(legacy, false));
    CHECK_EQUAL(0, end_capture(blocking, &graph));
    CHECK_EQUAL(0, graph_destroy(graph));
    CHECK_OK(tarn_stream_destroy(0, blocking));
    CHECK_OK(tarn_stream_unregister(legacy));
}

TEST(registered_stream_ends_with_its_context)
{
    tarn_stream registered = register_one(make(0)),
                legacy = register_one(TARN_STREAM_LEGACY);

    if (!on_sim())
        return; /* on a GPU others may use the context */
    find_calls();
    CHECK_EQUAL(0, primary_reset(0));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_stream_synchronize(0, registered));
    CHECK_MESSAGE("by the reset of device");
    CHECK_OK(tarn_stream_synchronize(0, legacy));
    CHECK_OK(tarn_stream_unregister(registered));
    CHECK_OK(tarn_stream_unregister(legacy));
}

static char log_text[1024];
static size_t log_bytes;

static bool keep_log(void *data, const char *bytes, size_t count)
{
    (void)data;
    CHECK(log_bytes + count < sizeof log_text);
    memcpy(log_text + log_bytes, bytes, count);
    log_bytes += count;
    return true;
}

TEST(log_has_the_handle_and_not_the_value)
{
    tarn_resource *cuda, *logger;
    tarn_trace_writer *writer;
    char wanted[32];
    tarn_stream raw = make(0), registered = register_one(raw);
    tarn_device_ptr block;

    CHECK_OK(tarn_cuda_create(0, &cuda));
    CHECK_OK(tarn_trace_writer_create(keep_log, NULL, TARN_TRACE_RMM, &writer));
    CHECK_OK(tarn_logger_create(cuda, writer, &logger));
    CHECK_OK(tarn_resource_allocate(logger, 100, 0, registered, &block));
    CHECK_OK(tarn_resource_deallocate(logger, block, 100, 0, registered));
    CHECK_OK(tarn_resource_release(logger));
    CHECK_OK(tarn_trace_writer_release(writer));
    CHECK_OK(tarn_resource_release(cuda));

    snprintf(wanted, sizeof wanted, ",100,%p\n", (void *)raw);
    const char *first = strstr(log_text, wanted);
    CHECK(first != NULL);
    CHECK(strstr(first + 1, wanted) != NULL);
    CHECK_OK(tarn_stream_unregister(registered));
    CHECK_OK(tarn_stream_destroy(0, raw));
}

/* Register, use, unregister; meanwhile calls reject the values of streams that others
 * unregistered. */
static atomic_uintptr_t a_closed_one;
static atomic_int mistakes;

static void *open_and_close(void *raw)
{
    for (int i = 0; i < ROUNDS; i++) {
        tarn_stream registered = NULL, closed = (tarn_stream)atomic_load(&a_closed_one);

        if (tarn_stream_register(0, raw, &registered) != TARN_OK ||
            tarn_stream_handle(registered) != raw ||
            tarn_stream_announce_capture(registered, i & 1) != TARN_OK ||
            tarn_stream_synchronize(0, registered) != TARN_OK)
            atomic_fetch_add(&mistakes, 1);
        if (closed && tarn_stream_unregister(closed) != TARN_INVALID_ARGUMENT)
            atomic_fetch_add(&mistakes, 1);
        if (tarn_stream_unregister(registered) != TARN_OK)
            atomic_fetch_add(&mistakes, 1);
        atomic_store(&a_closed_one, (uintptr_t)registered);
    }
    return NULL;
}

TEST(threads_open_and_close_side_by_side)
{
    pthread_t threads[THREADS];
    tarn_stream raw[THREADS];

    for (int i = 0; i < THREADS; i++)
        raw[i] = make(0);
    for (int i = 0; i < THREADS; i++)
        CHECK_EQUAL(0, pthread_create(&threads[i], NULL, open_and_close, raw[i]));
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    CHECK_EQUAL(0, mistakes);
    for (int i = 0; i < THREADS; i++)
        CHECK_OK(tarn_stream_destroy(0, raw[i]));
}

TEST(threads_announce_on_values_of_one_stream)
{
    tarn_stream raw = make(0), registered = register_one(raw);
    pthread_t threads[THREADS];

    atomic_store(&mistakes, 0);
    for (int i = 0; i < THREADS; i++)
        CHECK_EQUAL(0, pthread_create(&threads[i], NULL, open_and_close, raw));
    for (int i = 0; i < ROUNDS; i++)
        if (tarn_stream_announce_capture(registered, i & 1) != TARN_OK)
            atomic_fetch_add(&mistakes, 1);
    CHECK_OK(tarn_stream_announce_capture(registered, true));
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    CHECK_EQUAL(0, mistakes);
    CHECK(is_announced(registered));
    CHECK_OK(tarn_stream_announce_capture(registered, false));
    CHECK(!is_announced(registered));
    CHECK_OK(tarn_stream_unregister(registered));
    CHECK_OK(tarn_stream_destroy(0, raw));
}

/* A pool has an unregister callback for as long as it exists. */
static atomic_bool pools_are_made;

static void *use_and_close(void *raw)
{
    tarn_resource *pool;

    if (tarn_pool_create(0, NULL, NULL, &pool) != TARN_OK)
        atomic_fetch_add(&mistakes, 1);
    while (atomic_load(&pools_are_made)) {
        tarn_stream registered = NULL;
        tarn_device_ptr block = 0;
        if (tarn_stream_register(0, raw, &registered) != TARN_OK ||
            tarn_resource_allocate(pool, BYTES, 0, registered, &block) != TARN_OK ||
            tarn_resource_deallocate(pool, block, BYTES, 0, registered) != TARN_OK ||
            tarn_stream_unregister(registered) != TARN_OK ||
            tarn_resource_deallocate(pool, block, BYTES, 0, registered) == TARN_OK)
            atomic_fetch_add(&mistakes, 1);
    }
    if (tarn_resource_release(pool) != TARN_OK)
        atomic_fetch_add(&mistakes, 1);
    return NULL;
}

TEST(pools_come_and_go_while_streams_are_unregistered)
{
    pthread_t threads[2];
    tarn_stream raw[2];

    atomic_store(&pools_are_made, true);
    for (int i = 0; i < 2; i++) {
        raw[i] = make(0);
        CHECK_EQUAL(0, pthread_create(&threads[i], NULL, use_and_close, raw[i]));
    }
    for (int i = 0; i < 30; i++) {
        tarn_stream registered = register_one(raw[0]);
        tarn_resource *pool;
        tarn_device_ptr block;
        CHECK_OK(tarn_pool_create(0, NULL, NULL, &pool));
        CHECK_OK(tarn_resource_allocate(pool, BYTES, 0, registered, &block));
        CHECK_OK(tarn_resource_deallocate(pool, block, BYTES, 0, registered));
        if (i & 1)
            CHECK_OK(tarn_stream_unregister(registered));
        CHECK_OK(tarn_resource_release(pool));
        if (!(i & 1))
            CHECK_OK(tarn_stream_unregister(registered));
    }
    atomic_store(&pools_are_made, false);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    CHECK_EQUAL(0, mistakes);
    for (int i = 0; i < 2; i++)
        CHECK_OK(tarn_stream_destroy(0, raw[i]));
}

/* Two threads unregister one value: one of them gets the error that it is not registered.
 */
static void *close_it(void *registered)
{
    return (void *)(uintptr_t)tarn_stream_unregister(registered);
}

TEST(value_is_closed_once)
{
    tarn_stream raw = make(0);

    for (int i = 0; i < ROUNDS; i++) {
        tarn_stream registered = register_one(raw);
        pthread_t other;
        void *status;
        CHECK_EQUAL(0, pthread_create(&other, NULL, close_it, registered));
        tarn_status mine = tarn_stream_unregister(registered);
        pthread_join(other, &status);
        CHECK((mine == TARN_OK) != ((tarn_status)(uintptr_t)status == TARN_OK));
    }
    CHECK_OK(tarn_stream_destroy(0, raw));
}

static atomic_bool forking;

static void *open_while_others_fork(void *raw)
{
    while (atomic_load(&forking)) {
        tarn_stream registered;
        if (tarn_stream_register(0, raw, &registered) == TARN_OK)
            tarn_stream_unregister(registered);
    }
    return NULL;
}

TEST(child_of_a_fork_unregisters_streams)
{
    tarn_stream raw = make(0), registered = register_one(raw);
    pthread_t other;

    atomic_store(&forking, true);
    CHECK_EQUAL(0, pthread_create(&other, NULL, open_while_others_fork, raw));
    for (int i = 0; i < 20; i++) {
        int status = 0;
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0)
            _exit(tarn_stream_unregister(registered) == TARN_OK &&
                          tarn_stream_unregister(registered) == TARN_INVALID_ARGUMENT
                      ? 0
                      : 1);
        CHECK(waitpid(child, &status, 0) == child);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    atomic_store(&forking, false);
    pthread_join(other, NULL);
    CHECK_OK(tarn_stream_unregister(registered));
    CHECK_OK(tarn_stream_destroy(0, raw));
}

static void open_with_failures(void)
{
    tarn_stream raw, registered = (tarn_stream)77;

    if (tarn_stream_create(0, true, &raw) != TARN_OK)
        return;
    if (tarn_stream_register(0, raw, &registered) == TARN_OK)
        CHECK_OK(tarn_stream_unregister(registered));
    else
        CHECK(registered == (tarn_stream)77);
    if (tarn_stream_destroy(0, raw) != TARN_OK)
        CHECK_OK(tarn_stream_destroy(0, raw)); /* one call in a run fails */
}

TEST(opening_fails_at_any_driver_call_and_leaves_nothing)
{
    if (!on_sim())
        skip(); /* its calls do not fail on request */
    torture(open_with_failures);
}
