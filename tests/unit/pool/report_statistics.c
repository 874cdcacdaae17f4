/* What a pool has and did: its statistics. */
#include "pool/order/fence.h"
#include "field.h"
#include <sys/wait.h>
#include <unistd.h>

TEST(statistics_tell_where_the_bytes_are)
{
    begin_field();
    give_pieces();
    tarn_pool_statistics all = statistics(field.pool);
    end_field(); /* before any check: streams that are held up outlive a failure */

    CHECK_EQUAL(POOL_MIB * MIB, all.reserved);
    CHECK_EQUAL(POOL_MIB * MIB, all.maximum);
    CHECK_EQUAL(field.rest_bytes + (size_t)PIECES * 64 * KIB, all.live);
    CHECK_EQUAL(all.live, all.live_requested);
    CHECK_EQUAL(PIECES + 1, all.live_blocks);
    CHECK_EQUAL(0, all.thread_cached);
    CHECK_EQUAL((OWN + OTHERS + READY) * KIB, all.cached);
    CHECK_EQUAL((OWN + OTHERS) * KIB, all.unfenced);
    CHECK_EQUAL(GRAPHS * KIB, all.captured);
    CHECK_EQUAL(OWN * KIB, all.largest_free);
    CHECK(all.fragmentation == 1.0 - (double)OWN / (double)(OWN + OTHERS + READY));
    CHECK_EQUAL(0, all.suspended);
    CHECK_EQUAL(0, all.no_stream_deferred);
    CHECK_EQUAL(POOL_MIB * MIB, all.peak_allocated);
    CHECK_EQUAL(POOL_MIB * MIB, all.peak_reserved);
}

TEST(recent_peaks_restart_at_the_present_bytes)
{
    use_driver(0);
    tarn_resource *pool = new_pool(NULL);
    tarn_device_ptr kept = take(pool, 4 * MIB, NULL);

    put(pool, take(pool, 30 * MIB, NULL), 30 * MIB, NULL);
    CHECK_EQUAL(34 * MIB, statistics(pool).recent_peak_allocated);
    CHECK_EQUAL(statistics(pool).peak_reserved, statistics(pool).recent_peak_reserved);
    CHECK_OK(tarn_resource_trim(pool, 0, NULL));
    CHECK_OK(tarn_pool_reset_peaks(pool));
    tarn_pool_statistics all = statistics(pool);
    CHECK_EQUAL(all.live + all.thread_cached, all.recent_peak_allocated);
    CHECK_EQUAL(all.reserved, all.recent_peak_reserved);
    CHECK_EQUAL(34 * MIB, all.peak_allocated);
    put(pool, take(pool, 10 * MIB, NULL), 10 * MIB, NULL);
    CHECK_EQUAL(14 * MIB, statistics(pool).recent_peak_allocated);
    CHECK(statistics(pool).recent_peak_reserved >= 14 * MIB);
    CHECK(statistics(pool).recent_peak_reserved < all.peak_reserved);
    CHECK_EQUAL(34 * MIB, statistics(pool).peak_allocated);
    put(pool, kept, 4 * MIB, NULL);
    end_pool(pool);
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_pool_reset_peaks(NULL));
}

/* A free block of a graph is no other stream's, however large it is. */
TEST(largest_free_block_is_one_that_somebody_can_have)
{
    use_driver(0);
    tarn_resource *pool = strict_pool(4 * MIB);
    tarn_stream stream = new_stream();
    void *graph = NULL;

    CU(cuStreamBeginCapture_v2(stream, CAPTURE_RELAXED));
    give(pool, take(pool, 3 * MIB, stream), 3 * MIB, stream);
    CU(cuStreamEndCapture(stream, &graph));
    CHECK_EQUAL(3 * MIB, statistics(pool).captured);
    CHECK_EQUAL(MIB, statistics(pool).largest_free);
    CHECK_EQUAL(MIB, statistics(pool).cached);
    CHECK(statistics(pool).fragmentation == 0.0);
    tarn_device_ptr block = take(pool, MIB, NULL);
    CHECK_EQUAL(0, statistics(pool).largest_free);
    CHECK(statistics(pool).fragmentation == 0.0); /* of nothing */
    put(pool, block, MIB, NULL);
    CU(cuGraphDestroy(graph));
    end_pool(pool);
    CU(cuStreamDestroy_v2(stream));
}

/* Check the source of an allocation: its count goes up, and no other with it. */
struct served {
    uint64_t hits, own, ready, steals, grown;
};

static void is_served_by(struct served wanted, tarn_pool_statistics before,
                         tarn_pool_statistics after)
{
    CHECK_EQUAL(wanted.hits, after.cache_hits - before.cache_hits);
    CHECK_EQUAL(wanted.own, after.same_stream - before.same_stream);
    CHECK_EQUAL(wanted.ready, after.completed - before.completed);
    CHECK_EQUAL(wanted.steals, after.steals - before.steals);
    CHECK_EQUAL(wanted.grown, after.grown - before.grown);
    CHECK_EQUAL(1, after.allocations - before.allocations);
    CHECK_EQUAL(wanted.steals, after.stream_waits - before.stream_waits);
}

/* A search for the largest of very many would hold the lock for long. */
TEST(largest_of_very_many_blocks_is_known_to_a_32nd)
{
    enum { COUNT = 600, LARGE = 100, STEP = 2 };
    tarn_device_ptr blocks[COUNT], between[COUNT];

    use_driver(0);
    tarn_resource *pool = strict_pool(64 * MIB);
    for (size_t i = 0; i < COUNT; i++) {
        blocks[i] = take(pool, (LARGE + i % STEP) * 512, NULL);
        between[i] = take(pool, 512, NULL);
    }
    uint64_t rest = statistics(pool).largest_free;
    tarn_device_ptr end = take(pool, rest, NULL);
    for (size_t i = 0; i < COUNT; i++)
        give(pool, blocks[i], (LARGE + i % STEP) * 512, NULL);
    uint64_t largest = statistics(pool).largest_free;
    CHECK(largest <= (LARGE + STEP - 1) * 512);
    CHECK(largest + largest / 32 >= (LARGE + STEP - 1) * 512);
    put(pool, end, rest, NULL);
    for (size_t i = 0; i < COUNT; i++)
        put(pool, between[i], 512, NULL);
    end_pool(pool);
}

TEST(statistics_tell_what_served_an_allocation)
{
    enum { WARM = 200 };             /* until the thread caches it */
    const size_t bytes = 1536 * KIB; /* too little for an event fence of its own */
    tarn_stream raw, other;
    tarn_stream opened;
    struct gate gate;

    use_driver(0);
    tarn_resource *pool = strict_pool(8 * MIB);
    raw = new_stream();
    other = new_stream();
    CHECK_OK(tarn_stream_register(0, raw, &opened));
    tarn_pool_statistics before = statistics(pool);
    tarn_device_ptr block = take(pool, bytes, opened);
    is_served_by((struct served){.grown = 1}, before, statistics(pool));
    for (int i = 0; i < WARM; i++) {
        put(pool, block, bytes, opened);
        block = take(pool, bytes, opened);
    }
    put(pool, block, bytes, opened);
    before = statistics(pool);
    block = take(pool, bytes, opened); /* the thread cached it */
    is_served_by((struct served){.hits = 1}, before, statistics(pool));

    hold_up(raw, &gate);
    give(pool, block, bytes, opened);
    before = statistics(pool);
    block = take(pool, bytes, opened);
    tarn_pool_statistics own = statistics(pool);
    give(pool, block, bytes, opened);
    block = take(pool, bytes, other);
    tarn_pool_statistics stolen = statistics(pool);
    let_on(&gate);
    is_served_by((struct served){.own = 1}, before, own);
    is_served_by((struct served){.steals = 1}, own, stolen);
    CHECK_EQUAL(1, stolen.events_recorded - own.events_recorded);

    give(pool, block, bytes, other);
    CHECK_OK(tarn__fences_wait_for_device(inside(pool)));
    before = statistics(pool);
    CHECK_EQUAL(1, before.device_synchronizations);
    block = take(pool, bytes, TARN_STREAM_NONE);
    is_served_by((struct served){.ready = 1}, before, statistics(pool));
    put(pool, block, bytes, opened);
    CHECK_OK(tarn_stream_unregister(opened));
    end_pool(pool);
    CU(cuStreamDestroy_v2(raw));
    CU(cuStreamDestroy_v2(other));
}

TEST(statistics_count_calls_by_how_they_ended_and_by_size)
{
    use_driver(0);
    tarn_resource *pool = strict_pool(8 * MIB);
    tarn_stream stream = new_stream();
    size_t released = 0;

    tarn_device_ptr large = take(pool, 3 * MIB, stream), small = take(pool, 1, stream);
    put(pool, take(pool, 4 * MIB - 1, stream), 4 * MIB - 1, stream);
    CHECK(is_refused(pool, 7 * MIB, stream));
    CHECK(is_refused(pool, 9 * MIB, NULL));
    tarn_pool_statistics all = statistics(pool);
    CHECK_EQUAL(2, all.failures);
    CHECK_EQUAL(3, all.allocations);
    CHECK_EQUAL(1, all.frees);
    CHECK_EQUAL(2, all.live_blocks);
    CHECK_EQUAL(3 * MIB + 1, all.live_requested);
    CHECK_EQUAL(3 * MIB + 512, all.live);
    CHECK(all.streams == 1 ||
          all.streams == 2); /* the one of NULL has nothing, and may be deleted */
    CHECK_EQUAL(1, all.size_classes[0]);
    CHECK_EQUAL(2, all.size_classes[21]);
    for (int i = 0; i < TARN_POOL_SIZE_CLASSES; i++)
        CHECK(i == 0 || i == 21 || all.size_classes[i] == 0);
    put(pool, large, 3 * MIB, stream);
    put(pool, small, 1, stream);
    CU(cuStreamSynchronize(stream));
    CHECK_OK(tarn__fences_wait_for_device(inside(pool)));
    CHECK_OK(tarn_resource_trim(pool, 0, &released));
    all = statistics(pool);
    CHECK(all.shrinks > 0);
    CHECK_EQUAL(0, all.reserved);
    CHECK_EQUAL(0, all.live);
    CHECK_EQUAL(released, all.peak_reserved);
    CHECK_EQUAL(7 * MIB + 512, all.peak_allocated);
    end_pool(pool);
    CU(cuStreamDestroy_v2(stream));
}

/* Growths and so on are operations; their calls are counted where they are made
 * (bench/timed/counts.c compares them with the driver's count). */
TEST(statistics_tell_driver_calls_of_each_kind_once)
{
    use_driver(0);
    tarn_resource *resource = strict_pool(8 * MIB);
    struct tarn__pool *pool = inside(resource);
    uint64_t *const counts[] = {&pool->counters.waits,       &pool->counters.fences,
                                &pool->counters.queries,     &pool->counters.growths,
                                &pool->counters.shrinks,     &pool->counters.moves,
                                &pool->counters.device_waits};

    tarn_pool_statistics before = statistics(resource);
    for (unsigned i = 0; i < sizeof counts / sizeof *counts; i++)
        *counts[i] += 1u << (8 + i);
    tarn_pool_statistics after = statistics(resource);
    CHECK_EQUAL(before.driver_calls + 0x700, after.driver_calls);
    tarn__pages_note_call(pool->pages);
    CHECK_EQUAL(before.driver_calls + 0x701, statistics(resource).driver_calls);
    CHECK_EQUAL(before.stream_waits + 0x100, after.stream_waits);
    CHECK_EQUAL(before.events_recorded + 0x200, after.events_recorded);
    CHECK_EQUAL(before.queries + 0x400, after.queries);
    CHECK_EQUAL(before.growths + 0x800, after.growths);
    CHECK_EQUAL(before.shrinks + 0x1000, after.shrinks);
    CHECK_EQUAL(before.moves + 0x2000, after.moves);
    CHECK_EQUAL(before.device_synchronizations + 0x4000, after.device_synchronizations);
    end_pool(resource);
}

TEST(statistics_tell_what_was_freed_without_a_stream_and_what_sleeps)
{
    use_driver(0);
    tarn_resource *pool = new_pool(NULL);

    CHECK_EQUAL(UINT64_MAX, statistics(pool).maximum);
    give(pool, take(pool, MIB, TARN_STREAM_NONE), MIB, TARN_STREAM_NONE);
    CHECK_EQUAL(MIB, statistics(pool).no_stream_deferred);
    CHECK_EQUAL(1, statistics(pool).allocations);
    CHECK_OK(tarn_pool_suspend(pool, TARN_POOL_SUSPEND_DISCARD));
    CHECK(statistics(pool).suspended > 0);
    CHECK_EQUAL(statistics(pool).reserved, statistics(pool).suspended);
    CHECK_OK(tarn_pool_resume(pool));
    CHECK_EQUAL(0, statistics(pool).suspended);
    end_pool(pool);
}

TEST(statistics_tell_the_memory_of_the_host_that_the_pool_takes)
{
    enum { MANY = 5000 };
    static tarn_device_ptr blocks[MANY];

    use_driver(0);
    tarn_resource *pool = new_pool(NULL);
    uint64_t before = statistics(pool).metadata;
    CHECK(before >= sizeof *inside(pool));
    for (int i = 0; i < MANY; i++)
        blocks[i] = take(pool, 512, NULL);
    uint64_t after = statistics(pool).metadata;
    CHECK(after >= before + (uint64_t)MANY * 40);
    CHECK(after <= before + (uint64_t)MANY * 64 * 3); /* tables grow by halves and more */
    for (int i = 0; i < MANY; i++)
        put(pool, blocks[i], 512, NULL);
    end_pool(pool);
}

TEST(statistics_are_as_long_as_their_reader_knows)
{
    use_driver(0);
    tarn_resource *pool = new_pool(NULL), *cuda;
    tarn_pool_statistics all = {.size = offsetof(tarn_pool_statistics, thread_cached),
                                .thread_cached = 77};

    CHECK_OK(tarn_cuda_create(0, &cuda));
    tarn_device_ptr block = take(pool, 1000, NULL);
    CHECK_OK(tarn_pool_get_statistics(pool, &all));
    CHECK_EQUAL(offsetof(tarn_pool_statistics, thread_cached), all.size);
    CHECK_EQUAL(1000, all.live_requested);
    CHECK_EQUAL(1, all.live_blocks);
    CHECK_EQUAL(77, all.thread_cached);
    struct {
        tarn_pool_statistics all;
        uint64_t later;
    } longer = {.all.size = sizeof longer, .later = 77};
    CHECK_OK(tarn_pool_get_statistics(pool, &longer.all));
    CHECK_EQUAL(sizeof longer.all, longer.all.size);
    CHECK_EQUAL(77, longer.later);
    all.size = sizeof all.size - 1;
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_pool_get_statistics(pool, &all));
    CHECK_MESSAGE("size");
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_pool_get_statistics(pool, NULL));
    all.size = sizeof all;
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_pool_get_statistics(NULL, &all));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_pool_get_statistics(cuda, &all));
    CHECK_EQUAL(77, all.thread_cached);
    put(pool, block, 1000, NULL);
    CHECK_OK(tarn_resource_release(cuda));
    end_pool(pool);
}

/* In a child of a fork: return 0 if everything is as expected. */
static int look_in_child(bool was_locked)
{
    tarn_pool_statistics all = {.size = sizeof all};

    if (tarn_pool_get_statistics(field.pool, &all) != TARN_OK)
        return 1;
    if (all.captured != (was_locked ? 0 : GRAPHS * KIB))
        return 2;
    if (all.largest_free != (was_locked ? 0 : OWN * KIB))
        return 3;
    if (all.live_blocks != PIECES + 1 || all.reserved != POOL_MIB * MIB)
        return 4;
    if (tarn_pool_get_statistics(field.pool, &all) != TARN_OK) /* still not locked */
        return 5;
    if (tarn_pool_snapshot(field.pool, (tarn_pool_block_fn)abort, NULL) !=
        TARN_DRIVER_FAILURE)
        return 6;
    return 0;
}

static int status_of_child(bool is_locked)
{
    int status = -1;

    if (is_locked)
        tarn__pool_lock(inside(field.pool));
    pid_t child = fork();
    if (child == 0) {
        alarm(20);
        _exit(look_in_child(is_locked));
    }
    if (is_locked)
        tarn__pool_unlock(inside(field.pool));
    CHECK_EQUAL(child, waitpid(child, &status, 0));
    return status;
}

TEST(forked_child_has_statistics_whoever_held_the_lock)
{
    begin_field();
    give_pieces();
    int unlocked = status_of_child(false), locked = status_of_child(true);
    end_field();
    CHECK_EQUAL(0, unlocked);
    CHECK_EQUAL(0, locked);
}
