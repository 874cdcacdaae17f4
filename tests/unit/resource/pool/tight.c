/* How much more than is live a pool takes: a trace of loops over arrays, made here, in a
 * pool that may have little more than its peak, and again and again in one that may have all.
 */
#include "pools.h"

enum { BLOCKS = 200, STEPS = 6000, STREAMS_MAX = 4 };

static const size_t sizes[] = {512,       2 * KIB,   8 * KIB,   16 * KIB, 64 * KIB,
                               128 * KIB, 256 * KIB, 512 * KIB, 4 * MIB,  6 * MIB};

/* One run of the trace. */
struct run {
    tarn_resource *pool; /* NULL: nothing is allocated, only counted */
    tarn_stream streams[STREAMS_MAX];
    unsigned stream_count;
    tarn_device_ptr blocks[BLOCKS];
    size_t bytes[BLOCKS]; /* 0: nothing is there */
    uint64_t live, peak;
    unsigned failed;
};

static unsigned next(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(*state >> 33);
}

static void free_one(struct run *run, unsigned which)
{
    if (run->blocks[which])
        put(run->pool, run->blocks[which], run->bytes[which],
            run->streams[which % run->stream_count]);
    run->blocks[which] = 0;
    run->live -= run->bytes[which];
    run->bytes[which] = 0;
}

static void allocate_one(struct run *run, unsigned which, size_t bytes)
{
    tarn_stream stream = run->streams[which % run->stream_count];

    run->bytes[which] = bytes;
    run->live += bytes;
    run->peak = run->live > run->peak ? run->live : run->peak;
    if (run->pool && tarn_resource_allocate(run->pool, bytes, 0, stream,
                                            &run->blocks[which]) != TARN_OK)
        run->failed++;
}

/* The same operations every time. Blocks come and go one by one, and now and then half of
 * them go. */
static void replay(struct run *run)
{
    uint64_t state = 42;

    for (int i = 0; i < STEPS; i++) {
        unsigned which = next(&state) % BLOCKS;
        size_t bytes = sizes[next(&state) % (sizeof sizes / sizeof *sizes)];
        free_one(run, which);
        allocate_one(run, which, bytes);
        if (i % 1500 == 1499)
            for (unsigned j = 0; j < BLOCKS; j += 2)
                free_one(run, j);
    }
    for (unsigned j = 0; j < BLOCKS; j++)
        free_one(run, j);
}

static uint64_t peak_of_the_trace(void)
{
    struct run run = {.stream_count = 1};

    replay(&run);
    return run.peak;
}

static void start(struct run *run, uint64_t maximum, unsigned stream_count)
{
    tarn_pool_options options = {.size = sizeof options, .maximum_bytes = maximum};

    use_driver(0);
    *run = (struct run){.pool = new_pool(&options), .stream_count = stream_count};
    for (unsigned i = 0; i < stream_count; i++)
        run->streams[i] = new_stream();
}

static void end(struct run *run)
{
    for (unsigned i = 0; i < run->stream_count; i++)
        CU(cuStreamDestroy_v2(run->streams[i]));
    adds_up(run->pool);
    end_pool(run->pool);
}

static void replay_within(uint64_t maximum, unsigned stream_count)
{
    struct run run;

    start(&run, maximum, stream_count);
    for (int pass = 0; pass < 3; pass++)
        replay(&run);
    CHECK_EQUAL(0, run.failed);
    CHECK(statistics(run.pool).peak_reserved <= maximum);
    end(&run);
}

TEST(pool_of_a_twentieth_more_than_is_live_replays_a_trace)
{
    uint64_t peak = peak_of_the_trace();

    CHECK(peak > 100 * MIB);
    replay_within(peak / 20 * 21, 1);
    replay_within(peak / 20 * 21, STREAMS_MAX);
}

TEST(trace_that_is_replayed_again_takes_no_more_than_the_first_time)
{
    uint64_t peak = peak_of_the_trace(), first;
    struct run run;

    start(&run, 0, 1);
    replay(&run);
    first = statistics(run.pool).peak_reserved;
    for (int pass = 0; pass < 3; pass++)
        replay(&run);
    CHECK(first <= peak / 100 * 106);
    CHECK(statistics(run.pool).peak_reserved <= first);
    end(&run);
}
