/* tarn_conformance.c -- check the promises of tarn/resource.h, one function each. */
#define _GNU_SOURCE
#include "tarn_conformance.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { STREAMS = 3, THREADS = 4, ROUNDS = 40, HELD = 4, PATTERN_BYTES = 3000 };

static const size_t two_mib = (size_t)2 << 20;

/* Driver calls that the checks make themselves. */
struct driver {
    int (*ctx_get_current)(void **out);
    int (*ctx_set_current)(void *context);
    int (*primary_retain)(void **out, int device);
    int (*stream_create)(void **out, unsigned flags);
    int (*stream_destroy)(void *stream);
    int (*launch_host_func)(void *stream, void (*call)(void *), void *data);
};

/* One run of one check. */
struct run {
    const tarn_conformance_subject *subject;
    tarn_conformance_report report;
    void *data;
    const char *check; /* name of the current check */
    int failures;      /* of the current check */
    struct driver driver;
    int device; /* of the resource; TARN_DEVICE_NONE for host memory */
    int device_count;
};

static void fail(struct run *run, const char *format, ...) TARN_PRINTF(2, 3);
static void fail(struct run *run, const char *format, ...)
{
    char message[1024];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    run->failures++;
    run->report(run->data, run->check, message);
}

/* Check that `what` holds; else note a failure and continue. */
#define EXPECT(run, condition)                                        \
    do {                                                              \
        if (!(condition))                                             \
            fail((run), "line %d: not so: %s", __LINE__, #condition); \
    } while (0)

/* Check that `call` returns `wanted`; else note the failure with the message, if there is
 * one. */
#define EXPECT_STATUS(run, wanted, call) \
    expect_status((run), (wanted), (call), #call, __LINE__)

static bool expect_status(struct run *run, tarn_status wanted, tarn_status got,
                          const char *call, int line)
{
    if (got == wanted)
        return true;
    fail(run, "line %d: %s gives %s, not %s (%s)", line, call, tarn_status_name(got),
         tarn_status_name(wanted), got == TARN_OK ? "" : tarn_error_last()->message);
    return false;
}

static tarn_resource *make(struct run *run)
{
    tarn_resource *resource = NULL;

    if (!EXPECT_STATUS(
            run, TARN_OK,
            run->subject->create(run->subject->data, run->subject->device, &resource)))
        return NULL;
    return resource;
}

static void drop(struct run *run, tarn_resource *resource)
{
    EXPECT_STATUS(run, TARN_OK, tarn_resource_release(resource));
}

/* Allocate a block, and check the properties of every block; 0 on failure. */
static tarn_device_ptr take(struct run *run, tarn_resource *resource, size_t bytes,
                            size_t alignment, tarn_stream stream)
{
    tarn_device_ptr block = 0;
    size_t floor = alignment > TARN_ALIGNMENT ? alignment : TARN_ALIGNMENT;

    if (!EXPECT_STATUS(
            run, TARN_OK,
            tarn_resource_allocate(resource, bytes, alignment, stream, &block)))
        return 0;
    if (block == 0 || block % floor != 0)
        fail(run, "%zu bytes aligned to %zu are at 0x%llx", bytes, alignment, block);
    return block;
}

static void put(struct run *run, tarn_resource *resource, tarn_device_ptr block,
                size_t bytes, size_t alignment, tarn_stream stream)
{
    if (block)
        EXPECT_STATUS(
            run, TARN_OK,
            tarn_resource_deallocate(resource, block, bytes, alignment, stream));
}

/* Make an allocation that has to fail with `wanted` and keep the output unchanged. */
static void check_rejects(struct run *run, tarn_resource *resource, tarn_status wanted,
                          size_t bytes, size_t alignment)
{
    tarn_device_ptr block = 77;

    EXPECT_STATUS(
        run, wanted,
        tarn_resource_allocate(resource, bytes, alignment, TARN_STREAM_DEFAULT, &block));
    EXPECT(run, block == 77);
    EXPECT(run, tarn_error_last()->message[0] != 0);
}

/* --- the checks --- */

static void says_what_it_is(struct run *run, tarn_resource *resource)
{
    EXPECT(run, tarn_resource_name(resource)[0] != 0);
    EXPECT(run, tarn_resource_is_equal(resource, resource));
    EXPECT(run, !tarn_resource_is_equal(resource, NULL));
    EXPECT(run, !tarn_resource_is_equal(NULL, resource));
}

static void allocates_any_size(struct run *run, tarn_resource *resource)
{
    static const size_t sizes[] = {1, 255, 256, 257, 4096, 100001, 3 << 20};
    enum { COUNT = sizeof sizes / sizeof *sizes };
    tarn_device_ptr blocks[COUNT];
    size_t before = tarn_resource_live_blocks(resource);

    for (int i = 0; i < COUNT; i++)
        blocks[i] = take(run, resource, sizes[i], 0, TARN_STREAM_DEFAULT);
    EXPECT(run, tarn_resource_live_blocks(resource) == before + COUNT);
    for (int i = 0; i < COUNT; i++)
        for (int j = 0; j < i; j++)
            EXPECT(run, blocks[i] + sizes[i] <= blocks[j] ||
                            blocks[j] + sizes[j] <= blocks[i]);
    for (int i = 0; i < COUNT; i++)
        put(run, resource, blocks[i], sizes[i], 0, TARN_STREAM_DEFAULT);
    EXPECT(run, tarn_resource_live_blocks(resource) == before);
}

static void keeps_any_alignment(struct run *run, tarn_resource *resource)
{
    size_t largest = run->subject->largest_alignment;

    if (largest == 0)
        largest = two_mib;
    for (size_t alignment = 1; alignment <= largest; alignment *= 2) {
        tarn_device_ptr one = take(run, resource, 100, alignment, TARN_STREAM_DEFAULT);
        tarn_device_ptr two = take(run, resource, 70000, alignment, TARN_STREAM_DEFAULT);
        put(run, resource, one, 100, alignment, TARN_STREAM_DEFAULT);
        put(run, resource, two, 70000, alignment, TARN_STREAM_DEFAULT);
    }
}

static void rejects_odd_alignments(struct run *run, tarn_resource *resource)
{
    static const size_t odd[] = {3, 255, 257, 384, SIZE_MAX, SIZE_MAX - 255};

    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        check_rejects(run, resource, TARN_INVALID_ARGUMENT, 100, odd[i]);
        EXPECT_STATUS(
            run, TARN_INVALID_ARGUMENT,
            tarn_resource_deallocate(resource, 256, 100, odd[i], TARN_STREAM_DEFAULT));
    }
}

static void has_null_for_nothing(struct run *run, tarn_resource *resource)
{
    size_t before = tarn_resource_live_blocks(resource);
    tarn_device_ptr block = 77;

    EXPECT_STATUS(run, TARN_OK,
                  tarn_resource_allocate(resource, 0, 0, TARN_STREAM_DEFAULT, &block));
    EXPECT(run, block == 0);
    EXPECT(run, tarn_resource_live_blocks(resource) == before);
    EXPECT_STATUS(run, TARN_OK,
                  tarn_resource_deallocate(resource, 0, 0, 0, TARN_STREAM_DEFAULT));
    EXPECT_STATUS(run, TARN_INVALID_ARGUMENT,
                  tarn_resource_deallocate(resource, 0, 16, 0, TARN_STREAM_DEFAULT));
    EXPECT_STATUS(run, TARN_INVALID_ARGUMENT,
                  tarn_resource_allocate(resource, 16, 0, TARN_STREAM_DEFAULT, NULL));
}

static void rejects_impossible_requests(struct run *run, tarn_resource *resource)
{
    static const size_t sizes[] = {SIZE_MAX,     SIZE_MAX - 10,   SIZE_MAX - 255,
                                   SIZE_MAX / 2, (size_t)1 << 60, (size_t)1 << 50};
    size_t before = tarn_resource_live_blocks(resource);

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        check_rejects(run, resource, TARN_OUT_OF_MEMORY, sizes[i], 0);
    check_rejects(run, resource, TARN_OUT_OF_MEMORY, SIZE_MAX / 2, (size_t)1 << 62);
    check_rejects(run, resource, TARN_OUT_OF_MEMORY, 1, (size_t)1 << 63);
    EXPECT(run, tarn_resource_live_blocks(resource) == before);
    tarn_device_ptr block = take(run, resource, 1000, 0, TARN_STREAM_DEFAULT);
    put(run, resource, block, 1000, 0, TARN_STREAM_DEFAULT);
}

/* Make a free that is rejected, and check that nothing has changed. */
static void check_free_rejected(struct run *run, tarn_resource *resource,
                                tarn_device_ptr block, size_t bytes)
{
    size_t before = tarn_resource_live_blocks(resource);

    EXPECT_STATUS(
        run, TARN_INVALID_ARGUMENT,
        tarn_resource_deallocate(resource, block, bytes, 0, TARN_STREAM_DEFAULT));
    EXPECT(run, tarn_resource_live_blocks(resource) == before);
    EXPECT(run, tarn_error_last()->message[0] != 0);
}

static void detects_wrong_frees(struct run *run, tarn_resource *resource)
{
    char on_the_stack[256];

    if (run->subject->trusts_its_caller)
        return;
    tarn_device_ptr block = take(run, resource, 1000, 0, TARN_STREAM_DEFAULT);
    tarn_device_ptr other = take(run, resource, 1000, 0, TARN_STREAM_DEFAULT);
    check_free_rejected(run, resource, block, 999);
    check_free_rejected(run, resource, block, 1001);
    check_free_rejected(run, resource, block, SIZE_MAX);
    check_free_rejected(run, resource, block + 256, 744);
    check_free_rejected(run, resource, (uintptr_t)on_the_stack, 256);
    check_free_rejected(run, resource, 8, 8);
    put(run, resource, block, 1000, 0, TARN_STREAM_DEFAULT);
    check_free_rejected(run, resource, block, 1000);
    put(run, resource, other, 1000, 0, TARN_STREAM_DEFAULT);
    check_free_rejected(run, resource, block, 1000);
    check_free_rejected(run, resource, other, 1000);
}

static void knows_its_blocks(struct run *run, tarn_resource *resource)
{
    size_t bytes = 77;
    tarn_device_ptr block = take(run, resource, 1000, 0, TARN_STREAM_DEFAULT);
    tarn_status status = tarn_resource_requested_bytes(resource, block, &bytes);

    if (status == TARN_NOT_SUPPORTED) {
        EXPECT(run, bytes == 77);
        put(run, resource, block, 1000, 0, TARN_STREAM_DEFAULT);
        return;
    }
    EXPECT_STATUS(run, TARN_OK, status);
    EXPECT(run, bytes == 1000);
    bytes = 77;
    EXPECT_STATUS(run, TARN_INVALID_ARGUMENT,
                  tarn_resource_requested_bytes(resource, 0, &bytes));
    put(run, resource, block, 1000, 0, TARN_STREAM_DEFAULT);
    EXPECT_STATUS(run, TARN_INVALID_ARGUMENT,
                  tarn_resource_requested_bytes(resource, block, &bytes));
    EXPECT(run, bytes == 77);
}

static void reports_free_memory(struct run *run, tarn_resource *resource)
{
    size_t free_bytes = 77, total_bytes = 77;
    bool can = tarn_resource_supports_memory_info(resource);

    EXPECT_STATUS(run, can ? TARN_OK : TARN_NOT_SUPPORTED,
                  tarn_resource_memory_info(resource, TARN_STREAM_DEFAULT, &free_bytes,
                                            &total_bytes));
    if (can)
        EXPECT(run, free_bytes <= total_bytes && total_bytes > 0);
    else
        EXPECT(run, free_bytes == 77 && total_bytes == 77);
}

static void trims_what_is_cached(struct run *run, tarn_resource *resource)
{
    tarn_device_ptr kept = take(run, resource, 5000, 0, TARN_STREAM_DEFAULT);
    tarn_device_ptr block = take(run, resource, two_mib, 0, TARN_STREAM_DEFAULT);
    size_t released = 77;

    put(run, resource, block, two_mib, 0, TARN_STREAM_DEFAULT);
    EXPECT_STATUS(run, TARN_OK, tarn_resource_trim(resource, 0, &released));
    EXPECT(run, released != 77);
    EXPECT_STATUS(run, TARN_OK, tarn_resource_trim(resource, SIZE_MAX, &released));
    EXPECT(run, released == 0);
    put(run, resource, kept, 5000, 0, TARN_STREAM_DEFAULT);
}

static void counts_its_owners(struct run *run, tarn_resource *resource)
{
    tarn_device_ptr block = take(run, resource, 100, 0, TARN_STREAM_DEFAULT);

    EXPECT(run, tarn_resource_retain(resource) == resource);
    EXPECT_STATUS(run, TARN_OK, tarn_resource_release(resource));
    EXPECT_STATUS(run, TARN_OK, tarn_resource_release(NULL));
    if (!run->subject->is_held_elsewhere) {
        EXPECT_STATUS(run, TARN_STILL_IN_USE, tarn_resource_release(resource));
        EXPECT(run, strstr(tarn_error_last()->message, "1 block") != NULL);
    }
    put(run, resource, block, 100, 0, TARN_STREAM_DEFAULT);
}

/* Equal resources accept each other's blocks; other resources reject them, if they can
 * tell. */
static void frees_through_an_equal_resource(struct run *run, tarn_resource *resource)
{
    tarn_resource *second = make(run);

    if (!second)
        return;
    tarn_device_ptr block = take(run, resource, 100, 0, TARN_STREAM_DEFAULT);
    bool equal = tarn_resource_is_equal(resource, second);
    EXPECT(run, equal == tarn_resource_is_equal(second, resource));
    put(run, equal ? second : resource, block, 100, 0, TARN_STREAM_DEFAULT);
    drop(run, second);
}

/* --- access to the memory --- */

static bool on_device(const struct run *run)
{
    return run->device != TARN_DEVICE_NONE;
}

/* Queue a fill, or run it: host memory has no streams. */
static void paint(struct run *run, tarn_device_ptr block, int value, size_t bytes,
                  tarn_stream stream)
{
    if (on_device(run))
        EXPECT_STATUS(
            run, TARN_OK,
            tarn_memset_async(run->device, block, (unsigned char)value, bytes, stream));
    else
        memset((void *)(uintptr_t)block, value, bytes);
}

static void copy(struct run *run, tarn_device_ptr to, tarn_device_ptr from, size_t bytes,
                 tarn_stream stream)
{
    if (on_device(run))
        EXPECT_STATUS(run, TARN_OK,
                      tarn_memcpy_async(run->device, to, from, bytes, stream));
    else
        memcpy((void *)(uintptr_t)to, (void *)(uintptr_t)from, bytes);
}

/* Check that all of `block` is `value`, once the work on `stream` is done. */
static bool is_painted(struct run *run, tarn_device_ptr block, int value, size_t bytes,
                       tarn_stream stream)
{
    unsigned char *seen = malloc(bytes);
    bool same = seen != NULL;

    if (!seen)
        return false;
    memset(seen, ~value, bytes);
    copy(run, (uintptr_t)seen, block, bytes, stream);
    if (on_device(run))
        EXPECT_STATUS(run, TARN_OK, tarn_stream_synchronize(run->device, stream));
    for (size_t i = 0; same && i < bytes; i++)
        same = seen[i] == (unsigned char)value;
    free(seen);
    return same;
}

/* Paint a block, copy it away on one stream, and free it at once. Paint its successor, on
 * the same or another stream. The copy has to have the first colour. */
static void reuse(struct run *run, tarn_resource *resource, tarn_stream first,
                  tarn_stream then)
{
    tarn_device_ptr witness = take(run, resource, PATTERN_BYTES, 0, first);
    tarn_device_ptr block = take(run, resource, PATTERN_BYTES, 0, first);

    if (!witness || !block)
        return;
    paint(run, block, 0x11, PATTERN_BYTES, first);
    copy(run, witness, block, PATTERN_BYTES, first);
    put(run, resource, block, PATTERN_BYTES, 0, first);
    block = take(run, resource, PATTERN_BYTES, 0, then);
    paint(run, block, 0x22, PATTERN_BYTES, then);
    EXPECT(run, is_painted(run, block, 0x22, PATTERN_BYTES, then));
    EXPECT(run, is_painted(run, witness, 0x11, PATTERN_BYTES, first));
    put(run, resource, block, PATTERN_BYTES, 0, then);
    put(run, resource, witness, PATTERN_BYTES, 0, first);
}

/* The streams to try: two of the suite's own, one of which is non-blocking and also
 * registered, and those that always exist. */
static int streams_of(struct run *run, tarn_stream out[STREAMS + 3])
{
    int count = 0;

    out[count++] = TARN_STREAM_DEFAULT;
    out[count++] = TARN_STREAM_PER_THREAD;
    for (int i = 0; on_device(run) && i < STREAMS; i++) {
        void *stream = NULL, *context = NULL;
        run->driver.primary_retain(&context, run->device);
        run->driver.ctx_set_current(context);
        EXPECT(run, run->driver.stream_create(&stream, i > 0) == 0);
        run->driver.ctx_set_current(NULL);
        if (stream)
            out[count++] = stream;
    }
    if (count > 2 &&
        tarn_stream_register(run->device, out[count - 1], &out[count]) == TARN_OK)
        count++;
    return count;
}

/* A registered stream differs from its CUstream, and is unregistered before that is
 * destroyed. */
static bool is_registered(tarn_stream stream)
{
    return tarn_stream_handle(stream) != (void *)stream;
}

static void end_streams(struct run *run, tarn_stream *streams, int count)
{
    for (int i = count - 1; i >= 2; i--) {
        EXPECT_STATUS(run, TARN_OK, tarn_stream_synchronize(run->device, streams[i]));
        if (is_registered(streams[i]))
            EXPECT_STATUS(run, TARN_OK, tarn_stream_unregister(streams[i]));
        else
            EXPECT(run, run->driver.stream_destroy(streams[i]) == 0);
    }
}

static void keeps_the_order_of_streams(struct run *run, tarn_resource *resource)
{
    tarn_stream streams[STREAMS + 3];
    int count = streams_of(run, streams);

    for (int i = 0; i < count; i++)
        for (int j = 0; j < count; j++)
            reuse(run, resource, streams[i], streams[j]);
    end_streams(run, streams, count);
}

/* No-stream memory is valid on any stream; it may be freed once all work is done. */
static void supports_calls_without_a_stream(struct run *run, tarn_resource *resource)
{
    tarn_stream streams[STREAMS + 3];
    int count = streams_of(run, streams);

    for (int i = 0; i < count; i++) {
        tarn_device_ptr block = take(run, resource, PATTERN_BYTES, 0, TARN_STREAM_NONE);
        paint(run, block, 0x33, PATTERN_BYTES, streams[i]);
        EXPECT(run, is_painted(run, block, 0x33, PATTERN_BYTES, streams[i]));
        put(run, resource, block, PATTERN_BYTES, 0, TARN_STREAM_NONE);
    }
    end_streams(run, streams, count);
}

/* Work on a stream that is held up. A thread frees the block that the work uses, and
 * allocates others. The suite checks the blocks that it got while the work was held up.
 */
enum { REQUESTS = 4, PATIENCE_MS = 20000, SHORT_MS = 20 };

struct held_up {
    struct run *run;
    tarn_resource *resource;
    tarn_stream free_on;
    tarn_device_ptr block, allocated[REQUESTS];
    int too_early; /* number of blocks */
    pthread_mutex_t lock;
    pthread_cond_t change;
    bool is_open;  /* the work may go on */
    bool is_ready; /* the thread has allocated all of them */
};

static void set(struct held_up *its, bool *flag)
{
    pthread_mutex_lock(&its->lock);
    *flag = true;
    pthread_cond_broadcast(&its->change);
    pthread_mutex_unlock(&its->lock);
}

/* The work, called by the driver. */
static void hold_up(void *data)
{
    struct held_up *its = data;

    pthread_mutex_lock(&its->lock);
    while (!its->is_open)
        pthread_cond_wait(&its->change, &its->lock);
    pthread_mutex_unlock(&its->lock);
}

static bool overlaps(tarn_device_ptr one, tarn_device_ptr other)
{
    return one < other + PATTERN_BYTES && other < one + PATTERN_BYTES;
}

static void *free_and_allocate(void *data)
{
    struct held_up *its = data;

    put(its->run, its->resource, its->block, PATTERN_BYTES, 0, its->free_on);
    for (int i = 0; i < REQUESTS; i++) {
        its->allocated[i] =
            take(its->run, its->resource, PATTERN_BYTES, 0, TARN_STREAM_NONE);
        pthread_mutex_lock(&its->lock);
        its->too_early += !its->is_open && overlaps(its->allocated[i], its->block);
        pthread_mutex_unlock(&its->lock);
    }
    set(its, &its->is_ready);
    return NULL;
}

/* Open the gate after a while for a resource that waits for the work. A resource that
 * does not wait is finished by then. */
static void wait_a_while(struct held_up *its, long ms)
{
    struct timespec end;

    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_nsec += ms % 1000 * 1000000;
    end.tv_sec += ms / 1000 + end.tv_nsec / 1000000000;
    end.tv_nsec %= 1000000000;
    pthread_mutex_lock(&its->lock);
    while (!its->is_ready && pthread_cond_timedwait(&its->change, &its->lock, &end) == 0)
        continue;
    pthread_mutex_unlock(&its->lock);
}

enum { NO_STREAM, ITS_STREAM, STREAM_IS_GONE };

static void ask_beside_work(struct run *run, tarn_resource *resource, unsigned flags,
                            int how)
{
    struct held_up its = {.run = run,
                          .resource = resource,
                          .free_on = TARN_STREAM_NONE,
                          .lock = PTHREAD_MUTEX_INITIALIZER,
                          .change = PTHREAD_COND_INITIALIZER};
    void *stream = NULL, *context = NULL;
    pthread_t thread;

    run->driver.primary_retain(&context, run->device);
    run->driver.ctx_set_current(context);
    its.block = take(run, resource, PATTERN_BYTES, 0, TARN_STREAM_NONE);
    EXPECT(run, run->driver.stream_create(&stream, flags) == 0);
    EXPECT(run, run->driver.launch_host_func(stream, hold_up, &its) == 0);
    if (how == ITS_STREAM)
        its.free_on = stream;
    if (how == STREAM_IS_GONE)
        EXPECT(run, run->driver.stream_destroy(stream) == 0);
    EXPECT(run, pthread_create(&thread, NULL, free_and_allocate, &its) == 0);
    bool waits = run->subject->waits_without_a_stream ||
                 tarn_resource_deallocate_synchronizes(resource);
    wait_a_while(&its, waits ? SHORT_MS : PATIENCE_MS);
    set(&its, &its.is_open);
    pthread_join(thread, NULL);
    EXPECT_STATUS(run, TARN_OK, tarn_driver_synchronize(run->device));
    EXPECT(run, its.too_early == 0);
    for (int i = 0; i < REQUESTS; i++)
        put(run, resource, its.allocated[i], PATTERN_BYTES, 0, TARN_STREAM_NONE);
    if (how != STREAM_IS_GONE)
        EXPECT(run, run->driver.stream_destroy(stream) == 0);
    run->driver.ctx_set_current(NULL);
}

/* A no-stream allocation has no work behind it, whether the memory was freed without a
 * stream or on one, and whether that stream still exists. */
static void orders_memory_without_a_stream(struct run *run, tarn_resource *resource)
{
    if (!on_device(run) || !tarn_resource_supports_no_stream(resource))
        return;
    ask_beside_work(run, resource, 0, NO_STREAM);
    ask_beside_work(run, resource, 1, NO_STREAM);
    ask_beside_work(run, resource, 1, STREAM_IS_GONE);
    ask_beside_work(run, resource, 1, ITS_STREAM);
}

/* --- contexts --- */

/* Allocate and free with `context` current, and check that it is current afterwards. */
static void work_under(struct run *run, tarn_resource *resource, void *context)
{
    void *seen = NULL;
    tarn_device_ptr block;

    EXPECT(run, run->driver.ctx_set_current(context) == 0);
    block = take(run, resource, 100, 0, TARN_STREAM_DEFAULT);
    run->driver.ctx_get_current(&seen);
    EXPECT(run, seen == context);
    check_rejects(run, resource, TARN_OUT_OF_MEMORY, SIZE_MAX / 2, 0);
    run->driver.ctx_get_current(&seen);
    EXPECT(run, seen == context);
    put(run, resource, block, 100, 0, TARN_STREAM_DEFAULT);
    run->driver.ctx_get_current(&seen);
    EXPECT(run, seen == context);
    EXPECT(run, run->driver.ctx_set_current(NULL) == 0);
}

static void leaves_contexts_alone(struct run *run, tarn_resource *resource)
{
    for (int device = 0; device < run->device_count; device++) {
        void *context = NULL;
        EXPECT(run, run->driver.primary_retain(&context, device) == 0);
        work_under(run, resource, context);
    }
    work_under(run, resource, NULL);
}

/* Work for another device on this one's memory would be a race. */
static void rejects_foreign_streams(struct run *run, tarn_resource *resource)
{
    void *context = NULL, *stream = NULL;
    tarn_device_ptr block = 77;

    if (run->device_count < 2 || !on_device(run) ||
        !tarn_resource_supports_streams(resource))
        return;
    run->driver.primary_retain(&context, (run->device + 1) % run->device_count);
    run->driver.ctx_set_current(context);
    EXPECT(run, run->driver.stream_create(&stream, 1) == 0);
    run->driver.ctx_set_current(NULL);
    EXPECT_STATUS(run, TARN_INVALID_ARGUMENT,
                  tarn_resource_allocate(resource, 100, 0, stream, &block));
    EXPECT(run, block == 77);
    block = take(run, resource, 100, 0, TARN_STREAM_DEFAULT);
    EXPECT_STATUS(run, TARN_INVALID_ARGUMENT,
                  tarn_resource_deallocate(resource, block, 100, 0, stream));
    put(run, resource, block, 100, 0, TARN_STREAM_DEFAULT);
    run->driver.stream_destroy(stream);
}

/* --- threads --- */

struct worker {
    struct run run; /* a copy, with failures of its own */
    tarn_resource *resource;
    int number;
    bool spoiled; /* another thread wrote into a block of this one */
};

static size_t bytes_of(const struct worker *worker, int round)
{
    return (size_t)(round * 37 + worker->number * 101) % 5000 + 1;
}

/* The value that a worker paints in a round: consecutive rounds and adjacent threads
 * differ. */
static int colour_of(const struct worker *worker, int round)
{
    return (worker->number * 64 + round % 64) & 0xff;
}

/* The owner reports for a worker: only the number of failures counts. */
static void ignore(void *data, const char *check, const char *what)
{
    (void)data, (void)check, (void)what;
}

static void *work(void *data)
{
    struct worker *worker = data;
    tarn_device_ptr held[HELD] = {0};
    const tarn_stream stream = TARN_STREAM_PER_THREAD;

    for (int round = 0; round < ROUNDS + HELD; round++) {
        tarn_device_ptr *block = &held[round % HELD];
        if (*block) {
            size_t bytes = bytes_of(worker, round - HELD);
            if (!is_painted(&worker->run, *block, colour_of(worker, round - HELD), bytes,
                            stream))
                worker->spoiled = true;
            put(&worker->run, worker->resource, *block, bytes, 0, stream);
            *block = 0;
        }
        if (round < ROUNDS) {
            size_t bytes = bytes_of(worker, round);
            *block = take(&worker->run, worker->resource, bytes, 0, stream);
            if (*block)
                paint(&worker->run, *block, colour_of(worker, round), bytes, stream);
        }
    }
    return NULL;
}

static void supports_many_threads(struct run *run, tarn_resource *resource)
{
    struct worker workers[THREADS];
    pthread_t threads[THREADS];
    size_t before = tarn_resource_live_blocks(resource);

    for (int i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){.run = *run, .resource = resource, .number = i + 1};
        workers[i].run.report = ignore;
        workers[i].run.failures = 0;
        EXPECT(run, pthread_create(&threads[i], NULL, work, &workers[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        EXPECT(run, workers[i].run.failures == 0);
        EXPECT(run, !workers[i].spoiled);
    }
    EXPECT(run, tarn_resource_live_blocks(resource) == before);
}

struct errand {
    struct run *run;
    tarn_resource *resource;
    tarn_device_ptr block;
};

static void *free_on_thread(void *data)
{
    struct errand *errand = data;

    put(errand->run, errand->resource, errand->block, 100, 0, TARN_STREAM_DEFAULT);
    return NULL;
}

/* The other thread never had a current context. */
static void frees_from_any_thread(struct run *run, tarn_resource *resource)
{
    struct errand errand = {run, resource, 0};
    pthread_t thread;

    errand.block = take(run, resource, 100, 0, TARN_STREAM_DEFAULT);
    EXPECT(run, pthread_create(&thread, NULL, free_on_thread, &errand) == 0);
    pthread_join(thread, NULL);
}

/* --- the run --- */

static const struct check {
    const char *name;
    void (*function)(struct run *run, tarn_resource *resource);
} checks[] = {
#define CHECK(name) {#name, name}
    CHECK(says_what_it_is),
    CHECK(allocates_any_size),
    CHECK(keeps_any_alignment),
    CHECK(rejects_odd_alignments),
    CHECK(has_null_for_nothing),
    CHECK(rejects_impossible_requests),
    CHECK(detects_wrong_frees),
    CHECK(knows_its_blocks),
    CHECK(reports_free_memory),
    CHECK(trims_what_is_cached),
    CHECK(counts_its_owners),
    CHECK(frees_through_an_equal_resource),
    CHECK(keeps_the_order_of_streams),
    CHECK(supports_calls_without_a_stream),
    CHECK(orders_memory_without_a_stream),
    CHECK(leaves_contexts_alone),
    CHECK(rejects_foreign_streams),
    CHECK(supports_many_threads),
    CHECK(frees_from_any_thread),
#undef CHECK
};

/* Store the driver's call of that name in `slot`, a pointer to a function. */
static void find_call(struct run *run, void *library, const char *name, void *slot)
{
    void *call = library ? dlsym(library, name) : NULL;

    if (!call)
        fail(run, "the driver has no %s", name);
    memcpy(slot, &call, sizeof call);
}

static bool open_driver(struct run *run)
{
    tarn_driver_info info;

    run->check = "driver";
    if (!EXPECT_STATUS(run, TARN_OK, tarn_driver_get_info(&info)))
        return false;
    void *library = dlopen(info.path, RTLD_NOW | RTLD_NOLOAD);
    run->device_count = info.device_count;
    find_call(run, library, "cuCtxGetCurrent", &run->driver.ctx_get_current);
    find_call(run, library, "cuCtxSetCurrent", &run->driver.ctx_set_current);
    find_call(run, library, "cuDevicePrimaryCtxRetain", &run->driver.primary_retain);
    find_call(run, library, "cuStreamCreate", &run->driver.stream_create);
    find_call(run, library, "cuStreamDestroy_v2", &run->driver.stream_destroy);
    find_call(run, library, "cuLaunchHostFunc", &run->driver.launch_host_func);
    return run->failures == 0;
}

static bool run_check(struct run *run, const struct check *check)
{
    run->check = check->name;
    run->failures = 0;
    tarn_resource *resource = make(run);
    if (resource) {
        run->device = tarn_resource_device(resource);
        check->function(run, resource);
        drop(run, resource);
    }
    if (run->failures == 0)
        run->report(run->data, run->check, NULL);
    return run->failures == 0;
}

int tarn_conformance_run(const tarn_conformance_subject *subject,
                         tarn_conformance_report report, void *data)
{
    tarn_conformance_subject whole = {0};
    struct run run = {.subject = &whole, .report = report, .data = data};
    int failed = 0;

    memcpy(&whole, subject, subject->size < sizeof whole ? subject->size : sizeof whole);
    if (!open_driver(&run))
        return 1;
    for (size_t i = 0; i < sizeof checks / sizeof *checks; i++)
        failed += !run_check(&run, &checks[i]);
    return failed;
}
