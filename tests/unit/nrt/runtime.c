/* Test runtime instances: each has counters of its own, and none is released while blocks
 * are live. */
#include "test.h"
#include <pthread.h>
#include <stdatomic.h>

TEST(runtime_is_not_released_while_blocks_are_live)
{
    tarn_runtime *runtime;
    tarn_meminfo *one, *other;

    CHECK_OK(tarn_runtime_create("small", &runtime));
    CHECK_OK(tarn_meminfo_create(runtime, NULL, 0, NULL, NULL, &one));
    CHECK_OK(tarn_meminfo_create(runtime, NULL, 0, NULL, NULL, &other));
    tarn_meminfo_release(one);
    CHECK_STATUS(TARN_STILL_IN_USE, tarn_runtime_release(runtime));
    CHECK_MESSAGE("runtime small has 1 live MemInfos of 2");
    tarn_meminfo_release(other);
    CHECK_OK(tarn_runtime_release(runtime));
}

TEST(runtimes_count_apart)
{
    tarn_runtime *one, *other;
    tarn_runtime_counts counts;
    tarn_meminfo *meminfo;

    CHECK_OK(tarn_runtime_create("one", &one));
    CHECK_OK(tarn_runtime_create("other", &other));
    CHECK_OK(tarn_meminfo_create(one, NULL, 0, NULL, NULL, &meminfo));
    CHECK_OK(tarn_runtime_release(other));
    tarn_runtime_counts_read(one, &counts);
    CHECK_EQUAL(1, counts.created);
    CHECK_EQUAL(0, counts.destroyed);
    tarn_meminfo_release(meminfo);
    tarn_runtime_counts_read(one, &counts);
    CHECK_EQUAL(1, counts.created);
    CHECK_EQUAL(1, counts.destroyed);
    CHECK_OK(tarn_runtime_release(one));
}

TEST(runtime_without_a_name_is_rejected)
{
    tarn_runtime *runtime = NULL;

    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_runtime_create(NULL, &runtime));
    CHECK(runtime == NULL);
    CHECK_OK(tarn_runtime_release(NULL));
}

TEST(runtime_cuts_a_name_that_is_too_long)
{
    tarn_runtime *runtime;
    tarn_meminfo *meminfo;

    CHECK_OK(tarn_runtime_create("a name that goes on for longer than any program needs",
                                 &runtime));
    CHECK_OK(tarn_meminfo_create(runtime, NULL, 0, NULL, NULL, &meminfo));
    CHECK_STATUS(TARN_STILL_IN_USE, tarn_runtime_release(runtime));
    CHECK_MESSAGE("runtime a name that goes on for longer  has 1");
    tarn_meminfo_release(meminfo);
    CHECK_OK(tarn_runtime_release(runtime));
}

static void *drop(void *meminfo)
{
    tarn_meminfo_release(meminfo);
    return NULL;
}

/* A thread that releases the last block must not access the instance after counting it.
 */
TEST(runtime_can_be_released_the_moment_the_last_block_is_counted)
{
    for (int round = 0; round < 200; round++) {
        tarn_runtime *runtime;
        tarn_runtime_counts counts;
        tarn_meminfo *meminfo;
        pthread_t thread;

        CHECK_OK(tarn_runtime_create("short-lived", &runtime));
        CHECK_OK(tarn_meminfo_create(runtime, NULL, 0, NULL, NULL, &meminfo));
        CHECK_EQUAL(0, pthread_create(&thread, NULL, drop, meminfo));
        do
            tarn_runtime_counts_read(runtime, &counts);
        while (counts.created != counts.destroyed);
        CHECK_OK(tarn_runtime_release(runtime));
        pthread_join(thread, NULL);
    }
}
