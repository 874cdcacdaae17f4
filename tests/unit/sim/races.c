/* Test the race finder: its reports, its messages, and the calls that order operations.
 */
#include "driver.h"

enum { BYTES = 4096 };

static CUstream one, two, blocking;
static CUdeviceptr block, other;
static CUevent event;

static void setup(void)
{
    use_device(0);
    /* Seeded, so that the bytes are not written by two threads at once. */
    CHECK_EQUAL(0, driver.configure("mode=seeded,races=on"));
    CU(cuStreamCreate(&one, CU_STREAM_NON_BLOCKING));
    CU(cuStreamCreate(&two, CU_STREAM_NON_BLOCKING));
    CU(cuStreamCreate(&blocking, 0));
    CU(cuMemAlloc_v2(&block, BYTES));
    CU(cuMemAlloc_v2(&other, BYTES));
    CU(cuEventCreate(&event, 0));
}

/* Destroy everything; check the number of races. */
static void teardown(unsigned long long wanted)
{
    unsigned long long found = driver.races();

    CU(cuCtxSynchronize());
    CU(cuEventDestroy_v2(event));
    CU(cuMemFree_v2(other));
    CU(cuMemFree_v2(block));
    CU(cuStreamDestroy_v2(blocking));
    CU(cuStreamDestroy_v2(two));
    CU(cuStreamDestroy_v2(one));
    CHECK(driver.races() == found); /* the frees have waited */
    CHECK_EQUAL(0, driver.configure(NULL));
    CHECK(driver.races() == 0);
    if (found != wanted)
        fail_msg("%llu races, wanted %llu: %s", found, wanted, driver.race());
}

TEST(races_two_writes_are_a_race_and_the_message_names_both)
{
    char first[64], second[64];
    unsigned long long id;

    setup();
    CU(cuMemsetD8Async(block, 1, BYTES, one));
    CHECK(driver.races() == 0);
    CU(cuMemcpyDtoDAsync_v2(block + 100, other, 8, two));
    CU(cuStreamGetId(one, &id));
    snprintf(first, sizeof first, "cuMemsetD8Async on stream %llu,", id);
    CU(cuStreamGetId(two, &id));
    snprintf(second, sizeof second, "cuMemcpyDtoDAsync_v2 on stream %llu,", id);
    CHECK(strstr(driver.race(), first));
    CHECK(strstr(driver.race(), second));
    CHECK(strstr(driver.race(), "unit-sim-races"));
    teardown(1);
}

TEST(races_reads_do_not_race_and_a_write_after_each_does)
{
    setup();
    CU(cuMemcpyDtoDAsync_v2(other, block, 100, one));
    CU(cuMemcpyDtoDAsync_v2(other + 100, block, 100, two));
    CU(cuMemcpyDtoDAsync_v2(other + 200, block, 100, blocking));
    CHECK(driver.races() == 0);
    CU(cuMemsetD8Async(block + 99, 0, 1, two)); /* with the reads on the two others */
    teardown(2);
}

TEST(races_neighbouring_ranges_do_not_race)
{
    setup();
    for (unsigned i = 0; i < BYTES; i += 2) {
        CU(cuMemsetD8Async(block + i, 0, 1, one));
        CU(cuMemsetD8Async(block + i + 1, 0, 1, two));
    }
    CU(cuMemsetD2D8Async(other, 16, 0, 8, 100, one));
    CU(cuMemsetD2D8Async(other + 8, 16, 0, 8, 100, two));
    teardown(0);
}

TEST(races_events_order_only_work_queued_before_the_record)
{
    setup();
    CU(cuMemsetD8Async(block, 0, 10, one));
    CU(cuEventRecord(event, one));
    CU(cuMemsetD8Async(block + 10, 0, 10, one));
    CU(cuStreamWaitEvent(two, event, 0));
    CU(cuMemsetD8Async(block, 0, 10, two));
    CHECK(driver.races() == 0);
    CU(cuMemsetD8Async(block + 10, 0, 1, two));
    teardown(1);
}

TEST(races_order_goes_through_a_third_stream)
{
    CUevent next;

    setup();
    CU(cuEventCreate(&next, 0));
    CU(cuMemsetD8Async(block, 0, 10, one));
    CU(cuEventRecord(event, one));
    CU(cuStreamWaitEvent(blocking, event, 0));
    CU(cuEventRecord(next, blocking));
    CU(cuStreamWaitEvent(two, next, 0));
    CU(cuMemsetD8Async(block, 0, 10, two));
    CU(cuEventDestroy_v2(next));
    teardown(0);
}

TEST(races_the_default_stream_orders_blocking_streams_alone)
{
    setup();
    CU(cuMemsetD8Async(block, 0, 10, blocking));
    CU(cuMemsetD8Async(block, 0, 10, NULL));
    CU(cuMemsetD8Async(block, 0, 10, blocking));
    CHECK(driver.races() == 0);
    CU(cuMemsetD8Async(block, 0, 10, one));
    teardown(1);
}

TEST(races_a_wait_of_the_host_orders)
{
    setup();
    CU(cuMemsetD8Async(block, 0, 10, one));
    CU(cuStreamSynchronize(one));
    CU(cuMemsetD8Async(block, 0, 10, two));
    CU(cuEventRecord(event, two));
    CU(cuEventSynchronize(event));
    CU(cuMemsetD8Async(block, 0, 10, blocking));
    CU(cuCtxSynchronize());
    CU(cuMemsetD8Async(block, 0, 10, one));
    while (driver.cuStreamQuery(one) == CUDA_ERROR_NOT_READY)
        ;
    CU(cuMemsetD8Async(block, 0, 10, two));
    CHECK(driver.races() == 0);
    CU(cuStreamSynchronize(one)); /* of another stream the host knows nothing by that */
    CU(cuMemsetD8Async(block, 0, 10, one));
    teardown(1);
}

TEST(races_a_context_wide_event_orders)
{
    CUcontext context;

    setup();
    CU(cuCtxGetCurrent(&context));
    CU(cuMemsetD8Async(block, 0, 10, one));
    CU(cuCtxRecordEvent(context, event));
    CU(cuStreamWaitEvent(two, event, 0));
    CU(cuMemsetD8Async(block, 0, 10, two));
    teardown(0);
}

TEST(races_memory_of_a_pool_is_for_its_stream_until_another_waits)
{
    CUdeviceptr pooled;

    setup();
    CU(cuEventRecord(event, one)); /* before the allocation: orders nothing of it */
    CU(cuMemAllocAsync(&pooled, BYTES, one));
    CU(cuStreamWaitEvent(two, event, 0));
    CU(cuMemsetD8Async(pooled, 0, 10, one));
    CHECK(driver.races() == 0);
    CU(cuMemsetD8Async(pooled + 10, 0, 10, two));
    CHECK(driver.races() == 1);
    CU(cuMemFreeAsync(pooled, one)); /* while the other stream uses it */
    CHECK(strstr(driver.race(), "cuMemFreeAsync"));
    CHECK(driver.races() == 2);
    CU(cuMemAllocAsync(&pooled, BYTES, one)); /* the same memory, with a new state */
    CU(cuMemsetD8Async(pooled, 0, BYTES, one));
    CU(cuMemFreeAsync(pooled, one));
    teardown(2);
}

TEST(races_a_stream_that_is_destroyed_is_not_forgotten)
{
    CUstream gone;

    setup();
    CU(cuStreamCreate(&gone, CU_STREAM_NON_BLOCKING));
    CU(cuMemsetD8Async(block, 0, 10, gone));
    CU(cuStreamDestroy_v2(gone));
    CU(cuStreamCreate(&gone, CU_STREAM_NON_BLOCKING)); /* has its handle */
    CU(cuMemsetD8Async(block, 0, 10, gone));
    CU(cuStreamDestroy_v2(gone));
    teardown(1);
}

TEST(races_pinned_memory_takes_part_and_pageable_does_not)
{
    char pageable[64] = {0};
    void *pinned;

    setup();
    CU(cuMemHostAlloc(&pinned, 64, 0));
    CU(cuMemcpyHtoDAsync_v2(block, pageable, 64, one));
    CU(cuMemcpyHtoDAsync_v2(block + 64, pageable, 64, two));
    CHECK(driver.races() == 0);
    CU(cuMemcpyDtoHAsync_v2(pinned, other, 64, one));
    CU(cuMemcpyHtoDAsync_v2(block + 128, pinned, 64, two));
    CU(cuMemFreeHost(pinned));
    teardown(1);
}

TEST(races_per_thread_calls_name_their_caller)
{
    setup();
    CU(cuMemsetD8Async(block, 0, 10, one));
    CU(cuMemsetD8Async_ptsz(block, 0, 10, NULL));
    CHECK(strstr(strstr(driver.race(), "queued at") + 1, "queued at"));
    CHECK(!strstr(driver.race(), "libcuda.so"));
    teardown(1);
}

TEST(races_many_streams_and_ranges_stay_quick)
{
    enum { STREAMS = 500, ROUNDS = 20 };
    static CUstream streams[STREAMS];
    CUdeviceptr large;

    setup();
    CU(cuMemAlloc_v2(&large, STREAMS * ROUNDS * 64));
    for (int i = 0; i < STREAMS; i++)
        CU(cuStreamCreate(&streams[i], 0));
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (unsigned i = 0; i < STREAMS; i++)
            CU(cuMemsetD8Async(large + (i * ROUNDS + round) * 64, 1, 64, streams[i]));
        CU(cuMemsetD8Async(large, 0, STREAMS * ROUNDS * 64, NULL));
    }
    for (int i = 0; i < STREAMS; i++)
        CU(cuStreamDestroy_v2(streams[i]));
    CU(cuMemFree_v2(large));
    teardown(0);
}
