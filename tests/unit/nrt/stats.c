/* Test statistics: exact for the work of any thread, including threads that ended. */
#include "test.h"
#include "nrt/count.h"
#include <pthread.h>

enum { THREADS = 4, ROUNDS = 5000 };

static tarn_runtime_stats read_stats(tarn_runtime *runtime)
{
    tarn_runtime_stats stats = {.size = sizeof stats};

    CHECK_OK(tarn_runtime_stats_read(runtime, &stats));
    return stats;
}

static tarn_meminfo *allocate(tarn_runtime *runtime, size_t bytes)
{
    tarn_meminfo_options options = {.size = sizeof options, .bytes = bytes};
    tarn_meminfo *meminfo;

    CHECK_OK(tarn_meminfo_allocate(runtime, &options, &meminfo));
    return meminfo;
}

TEST(bytes_and_peak_are_exact_with_one_thread)
{
    tarn_runtime *runtime;
    tarn_meminfo *blocks[3];

    CHECK_OK(tarn_runtime_create("peak", &runtime));
    blocks[0] = allocate(runtime, 100000);
    blocks[1] = allocate(runtime, 300);
    blocks[2] = allocate(runtime, 1000000);
    CHECK_EQUAL(1100300, read_stats(runtime).bytes_live);
    tarn_meminfo_release(blocks[2]);
    CHECK_EQUAL(100300, read_stats(runtime).bytes_live);
    CHECK_EQUAL(1100300, read_stats(runtime).bytes_peak);
    blocks[2] = allocate(runtime, 999999);
    CHECK_EQUAL(1100300, read_stats(runtime).bytes_peak);
    for (int i = 0; i < 3; i++)
        tarn_meminfo_release(blocks[i]);
    tarn_runtime_stats stats = read_stats(runtime);
    CHECK_EQUAL(0, stats.bytes_live);
    CHECK_EQUAL(1100300, stats.bytes_peak);
    CHECK_EQUAL(2100299, stats.bytes_total);
    CHECK_EQUAL(4, stats.alloc);
    CHECK_EQUAL(4, stats.free);
    CHECK_OK(tarn_runtime_release(runtime));
}

/* How far the flushed bytes of an instance move while a block is allocated and freed. */
static long long flushed_by(tarn_runtime *runtime, size_t bytes)
{
    long long before = atomic_load(&runtime->live);
    tarn_meminfo *block = allocate(runtime, bytes);
    long long moved = atomic_load(&runtime->live) - before;

    tarn_meminfo_release(block);
    return moved;
}

TEST(a_loop_over_one_large_block_stops_flushing)
{
    tarn_runtime *runtime;

    CHECK_OK(tarn_runtime_create("swings", &runtime));
    CHECK_EQUAL(1 << 20, flushed_by(runtime, 1 << 20));
    for (int i = 0; i < TARN__SWINGS; i++)
        flushed_by(runtime, 1 << 20);
    CHECK_EQUAL(0, flushed_by(runtime, 1 << 20));
    CHECK_EQUAL(1 << 20, read_stats(runtime).bytes_peak);

    tarn_meminfo *more = allocate(runtime, 4 << 20); /* no swing: flushed at once */
    CHECK_EQUAL(4 << 20, read_stats(runtime).bytes_peak);
    CHECK_EQUAL(4 << 20, atomic_load(&runtime->live));
    CHECK_EQUAL(1 << 20, flushed_by(runtime, 1 << 20));
    tarn_meminfo_release(more);
    CHECK_EQUAL(5 << 20, read_stats(runtime).bytes_peak);
    for (int i = 0; i < 2 * TARN__SWINGS; i++) /* larger than any swing may be */
        CHECK_EQUAL(32 << 20, flushed_by(runtime, 32 << 20));
    CHECK_OK(tarn_runtime_release(runtime));
}

TEST(the_histogram_counts_by_powers_of_two)
{
    static const size_t sizes[] = {0, 1, 2, 3, 4, 1023, 1024, 100000};
    static const int buckets[] = {0, 1, 2, 2, 3, 10, 11, 17};
    tarn_runtime *runtime;
    uint64_t wanted[TARN_NRT_HISTOGRAM] = {0};

    CHECK_OK(tarn_runtime_create("histogram", &runtime));
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        tarn_meminfo_release(allocate(runtime, sizes[i]));
        wanted[buckets[i]]++;
    }
    tarn_runtime_stats stats = read_stats(runtime);
    CHECK_EQUAL(0, memcmp(wanted, stats.histogram, sizeof wanted));
    CHECK_OK(tarn_runtime_release(runtime));
}

TEST(failed_allocations_are_counted_apart)
{
    tarn_runtime *runtime;
    tarn_meminfo *meminfo = NULL;

    CHECK_OK(tarn_runtime_create("failures", &runtime));
    tarn_meminfo_options options = {.size = sizeof options, .bytes = SIZE_MAX};
    CHECK_STATUS(TARN_OUT_OF_MEMORY, tarn_meminfo_allocate(runtime, &options, &meminfo));
    CHECK_MESSAGE("exceeds the address space");
    options.bytes = (size_t)1 << 61;
    CHECK_STATUS(TARN_OUT_OF_MEMORY, tarn_meminfo_allocate(runtime, &options, &meminfo));
    CHECK(meminfo == NULL);
    CHECK_EQUAL(2, read_stats(runtime).failed);
    CHECK_EQUAL(0, read_stats(runtime).alloc);
    CHECK_EQUAL(0, read_stats(runtime).bytes_peak);
    CHECK_OK(tarn_runtime_release(runtime));
}

TEST(an_older_caller_gets_the_fields_it_knows)
{
    struct {
        tarn_runtime_stats stats;
    } place;

    memset(&place, 0x55, sizeof place);
    place.stats.size = offsetof(tarn_runtime_stats, free);
    CHECK_OK(tarn_runtime_stats_read(tarn_runtime_default(), &place.stats));
    CHECK_EQUAL(0x5555555555555555, place.stats.free);
    CHECK(place.stats.alloc != 0x5555555555555555);
    place.stats.size = 0;
    CHECK_STATUS(TARN_INVALID_ARGUMENT,
                 tarn_runtime_stats_read(tarn_runtime_default(), &place.stats));
}

struct work {
    tarn_runtime *runtime;
    tarn_meminfo *kept; /* for the joining thread */
    unsigned index;
};

static void *allocate_and_release(void *data)
{
    struct work *work = data;
    tarn_meminfo_options options = {.size = sizeof options};

    for (unsigned i = 0; i < ROUNDS; i++) {
        tarn_meminfo *meminfo;
        options.bytes = (i * 37 + work->index) % 3000;
        if (tarn_meminfo_allocate(work->runtime, &options, &meminfo) == TARN_OK)
            tarn_meminfo_release(meminfo);
    }
    options.bytes = 1000;
    tarn_meminfo_allocate(work->runtime, &options, &work->kept);
    return NULL;
}

TEST(ended_threads_stay_in_the_sums)
{
    struct work work[THREADS];
    pthread_t threads[THREADS];
    tarn_runtime *runtime;

    CHECK_OK(tarn_runtime_create("threads", &runtime));
    for (unsigned i = 0; i < THREADS; i++) {
        work[i] = (struct work){.runtime = runtime, .index = i};
        CHECK_EQUAL(0, pthread_create(&threads[i], NULL, allocate_and_release, &work[i]));
    }
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    tarn_runtime_stats stats = read_stats(runtime);
    CHECK_EQUAL(THREADS * (ROUNDS + 1), stats.mi_alloc);
    CHECK_EQUAL(THREADS * ROUNDS, stats.mi_free);
    CHECK_EQUAL(THREADS * 1000, stats.bytes_live);
    CHECK_STATUS(TARN_STILL_IN_USE, tarn_runtime_release(runtime));
    for (unsigned i = 0; i < THREADS; i++)
        tarn_meminfo_release(work[i].kept);
    CHECK_EQUAL(0, read_stats(runtime).bytes_live);
    CHECK(read_stats(runtime).bytes_peak >= THREADS * 1000);
    CHECK_OK(tarn_runtime_release(runtime));
}

static void *read_all_the_time(void *data)
{
    struct work *work = data;

    for (int i = 0; i < 300; i++) {
        tarn_runtime_stats stats = {.size = sizeof stats};
        tarn_runtime_stats_read(work->runtime, &stats);
        work->index += stats.mi_free > stats.mi_alloc || stats.free > stats.alloc;
    }
    return NULL;
}

TEST(never_more_is_freed_than_allocated)
{
    struct work work = {.index = 1}, reader = {.index = 0};
    pthread_t threads[2];

    CHECK_OK(tarn_runtime_create("reader", &work.runtime));
    reader.runtime = work.runtime;
    CHECK_EQUAL(0, pthread_create(&threads[0], NULL, allocate_and_release, &work));
    CHECK_EQUAL(0, pthread_create(&threads[1], NULL, read_all_the_time, &reader));
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    CHECK_EQUAL(0, reader.index);
    tarn_meminfo_release(work.kept);
    CHECK_OK(tarn_runtime_release(work.runtime));
}
