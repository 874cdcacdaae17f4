/* Run a guard with the 1st, 2nd, 3rd ... driver call or host allocation failing. No allocation and no free
 * fails because of the guard's own calls, no report is false, and nothing is leaked. */
#define _GNU_SOURCE
#include "test.h"
#include <stdlib.h>

enum { BYTES = 1000, BLOCKS = 4 };

static unsigned report_count;

static void note(void *data, const tarn_guard_report *report)
{
    (void)data, (void)report;
    report_count++;
}

/* A call that fails because of a fault succeeds when it is tried again. */
#define WORKS_IN_THE_END(call) \
    do {                       \
        if ((call) != TARN_OK) \
            CHECK_OK(call);    \
    } while (0)

static void live_over(tarn_resource *upstream, const char *text, tarn_stream stream)
{
    tarn_guard_options options;
    tarn_resource *guard;
    tarn_device_ptr blocks[BLOCKS];

    report_count = 0;
    tarn_guard_set_handler(note, NULL);
    CHECK_OK(tarn_guard_parse(text, &options));
    CHECK_OK(tarn_guard_create(upstream, &options, &guard));
    for (int turn = 0; turn < 2; turn++) {
        for (int i = 0; i < BLOCKS; i++) {
            blocks[i] = 77;
            if (tarn_resource_allocate(guard, BYTES, 0, stream, &blocks[i]) != TARN_OK) {
                CHECK_EQUAL(77, blocks[i]);
                CHECK_OK(tarn_resource_allocate(guard, BYTES, 0, stream, &blocks[i]));
            }
            WORKS_IN_THE_END(tarn_memset_async(0, blocks[i], 1, BYTES, stream));
        }
        for (int i = 0; i < BLOCKS; i++)
            WORKS_IN_THE_END(
                tarn_resource_deallocate(guard, blocks[i], BYTES, 0, stream));
    }
    WORKS_IN_THE_END(tarn_guard_check(guard, NULL));
    WORKS_IN_THE_END(tarn_resource_trim(guard, 0, NULL));
    CHECK_OK(tarn_resource_release(guard));
    CHECK_OK(tarn_resource_release(upstream));
    CHECK_EQUAL(0, report_count);
    tarn_guard_set_handler(NULL, NULL);
}

static void live_over_cuda(void)
{
    tarn_resource *cuda;

    WORKS_IN_THE_END(tarn_cuda_create(0, &cuda));
    live_over(cuda, "guard,poison,quarantine=4KiB", TARN_STREAM_NONE);
}

static void live_over_async(void)
{
    tarn_resource *async;

    WORKS_IN_THE_END(tarn_async_create(0, NULL, &async));
    live_over(async, "guard,poison,quarantine=4KiB", TARN_STREAM_DEFAULT);
}

static void live_over_pool(void)
{
    tarn_resource *pool;

    WORKS_IN_THE_END(tarn_pool_create(0, NULL, NULL, &pool));
    live_over(pool, "guard,poison", TARN_STREAM_DEFAULT);
}

static void live_over_pool_in_quarantine(void)
{
    tarn_resource *pool;

    WORKS_IN_THE_END(tarn_pool_create(0, NULL, NULL, &pool));
    live_over(pool, "guard,poison,quarantine", TARN_STREAM_DEFAULT);
}

/* Every other block is a sample. Eight of these freed slots fill a batch. */
static void live_with_samples(tarn_resource *upstream, const char *text,
                              tarn_stream stream)
{
    enum { LARGE = 40000, LIVE = 8, TURNS = 3 };
    tarn_guard_options options;
    tarn_resource *guard;
    tarn_device_ptr blocks[LIVE];

    report_count = 0;
    tarn_guard_set_handler(note, NULL);
    CHECK_OK(tarn_guard_parse(text, &options));
    CHECK_OK(tarn_guard_create(upstream, &options, &guard));
    for (int turn = 0; turn < TURNS; turn++) {
        for (int i = 0; i < LIVE; i++) {
            blocks[i] = 77;
            WORKS_IN_THE_END(tarn_resource_allocate(guard, LARGE, 0, stream, &blocks[i]));
            WORKS_IN_THE_END(tarn_memset_async(0, blocks[i], 1, LARGE, stream));
        }
        for (int i = 0; i < LIVE; i++)
            WORKS_IN_THE_END(
                tarn_resource_deallocate(guard, blocks[i], LARGE, 0, stream));
        WORKS_IN_THE_END(tarn_driver_synchronize(0));
    }
    WORKS_IN_THE_END(tarn_guard_check(guard, NULL));
    WORKS_IN_THE_END(tarn_resource_trim(guard, 0, NULL));
    CHECK_OK(tarn_resource_release(guard));
    CHECK_OK(tarn_resource_release(upstream));
    CHECK_EQUAL(0, report_count);
    tarn_guard_set_handler(NULL, NULL);
}

static void sample_over_pool(void)
{
    tarn_resource *pool;

    WORKS_IN_THE_END(tarn_pool_create(0, NULL, NULL, &pool));
    live_with_samples(pool, "guard=1/2", TARN_STREAM_DEFAULT);
}

static void sample_over_pool_without_stream(void)
{
    tarn_resource *pool;

    WORKS_IN_THE_END(tarn_pool_create(0, NULL, NULL, &pool));
    live_with_samples(pool, "guard=1/2,poison,quarantine=300KiB", TARN_STREAM_NONE);
}

static void sample_over_async(void)
{
    tarn_resource *async;

    WORKS_IN_THE_END(tarn_async_create(0, NULL, &async));
    live_with_samples(async, "guard=1/2,poison", TARN_STREAM_DEFAULT);
}

TEST(samples_survive_any_driver_call_failing)
{
    if (!on_sim())
        skip();
    torture(sample_over_pool);
    torture(sample_over_pool_without_stream);
    torture(sample_over_async);
}

TEST(a_guard_survives_any_driver_call_failing)
{
    if (!on_sim())
        skip();
    torture(live_over_cuda);
    torture(live_over_async);
    torture(live_over_pool);
    torture(live_over_pool_in_quarantine);
}

/* --- host allocations --- */

/* The sanitizers replace malloc() themselves. */
#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

#include "starving.h"

extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t bytes);

void *malloc(size_t bytes)
{
    return starving_fails() ? NULL : __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes)
{
    return starving_fails() ? NULL : __libc_calloc(count, bytes);
}

/* The scenario with the 1st, 2nd, 3rd ... allocation failing. */
static void starve(void (*scenario)(void))
{
    unsigned long long before = sim_live_bytes();

    for (unsigned nth = 1;; nth++) {
        has_failed = false;
        allocations_left = nth;
        scenario();
        allocations_left = 0;
        CHECK(sim_live_bytes() == before);
        if (!has_failed)
            return;
    }
}

/* Parts of the scenario that have no second try. */
static tarn_resource *make_guard(tarn_resource *upstream,
                                 const tarn_guard_options *options)
{
    tarn_resource *guard;

    WORKS_IN_THE_END(tarn_guard_create(upstream, options, &guard));
    return guard;
}

static void live_without_memory_with(const tarn_guard_options *options)
{
    tarn_resource *pool, *guard;
    tarn_device_ptr block;

    WORKS_IN_THE_END(tarn_pool_create(0, NULL, NULL, &pool));
    guard = make_guard(pool, options);
    for (int i = 0; i < 5; i++) {
        WORKS_IN_THE_END(tarn_resource_allocate(guard, BYTES, 0, NULL, &block));
        WORKS_IN_THE_END(tarn_resource_deallocate(guard, block, BYTES, 0, NULL));
    }
    WORKS_IN_THE_END(tarn_guard_check(guard, NULL));
    CHECK_OK(tarn_resource_release(guard));
    CHECK_OK(tarn_resource_release(pool));
}

static void live_without_memory(void)
{
    live_without_memory_with(NULL);
}

static void sample_without_memory(void)
{
    tarn_guard_options options = {.size = sizeof options, .guard = true, .sample = 2};

    live_without_memory_with(&options);
}

TEST(a_guard_survives_any_host_allocation_failing)
{
    if (!on_sim())
        skip();
    live_without_memory(); /* what a process allocates once */
    starve(live_without_memory);
    sample_without_memory();
    starve(sample_without_memory);
}
#endif
