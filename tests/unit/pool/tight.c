/* Test how much more than the live bytes a pool reserves, on a trace of loops over
 * arrays.
 *
 * The trace runs in a pool with a maximum just above its peak, and repeatedly in a pool
 * without one. Other tests move memory while queued work still uses it.
 */
#include "child.h"
#include "pools.h"
#include "pool/backing/backing.h"
#include "pool/pool.h"

enum { BLOCKS = 200, STEPS = 6000, STREAMS_MAX = 4 };

static const size_t sizes[] = {512,       2 * KIB,   8 * KIB,   16 * KIB, 64 * KIB,
                               128 * KIB, 256 * KIB, 512 * KIB, 4 * MIB,  6 * MIB};

/* One run of the trace. */
struct run {
    tarn_resource *pool; /* NULL: nothing is allocated, only counted */
    tarn_stream streams[STREAMS_MAX];
    unsigned stream_count;
    tarn_device_ptr blocks[BLOCKS];
    size_t bytes[BLOCKS]; /* 0: no block */
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

/* Run the same operations every time: single blocks are allocated and freed, and
 * sometimes half of them are freed. */
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

TEST(trace_that_is_replayed_again_and_again_takes_little_more_than_is_live)
{
    uint64_t peak = peak_of_the_trace(), first;
    struct run run;

    start(&run, 0, 1);
    replay(&run);
    first = statistics(run.pool).peak_reserved;
    for (int pass = 0; pass < 3; pass++)
        replay(&run);
    CHECK(first <= peak / 100 * 106);
    CHECK(statistics(run.pool).peak_reserved <= peak / 100 * 106);
    end(&run);
}

/* --- handles --- */

enum { MANY = 480 };

/* A pool whose memory is blocks of 2 MiB, all live. */
static struct {
    tarn_resource *pool;
    tarn_stream stream;
    tarn_device_ptr blocks[MANY]; /* 0: it was freed */
} full;

/* A pool on a large device has larger handles at its beginning. */
static void make_device_small(tarn_resource *resource)
{
    struct tarn__pool *pool = NULL;

    CHECK_OK(tarn__pool_of(resource, "test", &pool));
    if (pool->pages->vmm.device_bytes > 8192 * MIB)
        pool->pages->vmm.device_bytes = 8192 * MIB;
}

static void fill(void)
{
    tarn_pool_options options = {.size = sizeof options};

    use_driver(0);
    full.stream = new_stream();
    full.pool = new_pool(&options);
    make_device_small(full.pool);
    for (int i = 0; i < MANY; i++)
        full.blocks[i] = take(full.pool, 2 * MIB, full.stream);
}

static void put_block(int which)
{
    put(full.pool, full.blocks[which], 2 * MIB, full.stream);
    full.blocks[which] = 0;
}

static void empty(void)
{
    for (int i = 0; i < MANY; i++)
        if (full.blocks[i])
            put_block(i);
    adds_up(full.pool);
    end_pool(full.pool);
    CU(cuStreamDestroy_v2(full.stream));
}

/* The unmapped range that needs the least may be too small for the handle that moves
 * there. */
TEST(pool_without_a_limit_is_never_over_it)
{
    size_t released = 0;

    fill();
    put_block(10);
    CU(cuStreamSynchronize(full.stream));
    CHECK_OK(tarn_resource_trim(full.pool, 0, &released));
    tarn_pool_statistics before = statistics(full.pool);
    put_block(8);
    put_block(9);
    put_block(400); /* one handle of 4 MiB */
    put_block(401);
    CU(cuStreamSynchronize(full.stream));
    tarn_device_ptr block = take(full.pool, 6 * MIB, full.stream);

    CHECK(released >= 2 * MIB);
    CHECK_EQUAL(before.shrinks, statistics(full.pool).shrinks);
    CHECK_EQUAL(before.moves + 1, statistics(full.pool).moves);
    put(full.pool, block, 6 * MIB, full.stream);
    empty();
}

TEST(pool_moves_free_memory_before_it_grows)
{
    size_t released = 0;

    fill();
    CHECK_OK(tarn_resource_trim(full.pool, 0, &released));
    put_block(10);
    put_block(20);
    CU(cuStreamSynchronize(full.stream));
    uint64_t reserved = statistics(full.pool).reserved;
    tarn_device_ptr block = take(full.pool, 4 * MIB, full.stream);

    CHECK_EQUAL(1, statistics(full.pool).moves);
    CHECK_EQUAL(reserved, statistics(full.pool).reserved);
    put(full.pool, block, 4 * MIB, full.stream);
    empty();
}

/* --- memory that moves behind a fence --- */

enum { PIECES = 6 };

/* A full pool: every second of its 2 MiB blocks is freed on `stream`, which is held up
 * before it writes them. */
static tarn_resource *pool_of_pieces(tarn_stream stream, struct gate *gate,
                                     tarn_device_ptr blocks[PIECES])
{
    use_driver(0);
    tarn_resource *pool = strict_pool(PIECES * 2 * MIB);

    for (int i = 0; i < PIECES; i++)
        blocks[i] = take(pool, 2 * MIB, stream);
    hold_up(stream, gate);
    for (int i = 0; i < PIECES; i += 2) {
        CU(cuMemsetD8Async(blocks[i], 1, 2 * MIB, stream));
        put(pool, blocks[i], 2 * MIB, stream);
    }
    return pool;
}

/* Count the bytes of a block that are not `value`. */
static size_t wrong_bytes(tarn_device_ptr block, size_t bytes, unsigned char value)
{
    unsigned char *copy = malloc(bytes);
    size_t wrong = 0;

    CU(cuMemcpyDtoH_v2(copy, block, bytes));
    for (size_t i = 0; i < bytes; i++)
        wrong += copy[i] != value;
    free(copy);
    return wrong;
}

static void end_pool_with(tarn_resource *pool, tarn_device_ptr large,
                          const tarn_device_ptr blocks[PIECES], tarn_stream stream)
{
    put(pool, large, 6 * MIB, stream);
    for (int i = 1; i < PIECES; i += 2)
        put(pool, blocks[i], 2 * MIB, stream);
    end_pool(pool);
}

/* Return the bytes that the simulator has allocated; a GPU does not report them. */
static unsigned long long taken_bytes(void)
{
    return has_sim() ? sim_live_bytes() : 0;
}

/* `reader` is the stream that gets the memory that `writer` freed. */
static void move_behind_work(tarn_stream writer, tarn_stream reader)
{
    tarn_device_ptr blocks[PIECES], large = 0;
    struct gate gate;
    unsigned long long before = taken_bytes();
    tarn_resource *pool = pool_of_pieces(writer, &gate, blocks);

    put(pool, take(pool, 2 * MIB, writer), 2 * MIB, writer);
    bool refused = is_refused(pool, 6 * MIB, reader);
    put(pool, take(pool, 2 * MIB, writer), 2 * MIB, writer); /* fenced now */
    tarn_status status = tarn_resource_allocate(pool, 6 * MIB, 0, reader, &large);
    if (status == TARN_OK)
        CU(cuMemsetD8Async(large, 7, 6 * MIB, reader));
    tarn_pool_statistics all = statistics(pool);
    let_on(&gate); /* before any check */

    CHECK(!refused || reader != writer);
    CHECK_STATUS(TARN_OK, status);
    CHECK_EQUAL(0, all.device_synchronizations);
    CHECK(all.moves >= 1);
    CHECK_EQUAL(PIECES * 2 * MIB, all.reserved);
    CHECK_EQUAL(0, wrong_bytes(large, 6 * MIB, 7));
    adds_up(pool);
    put(pool, large, 6 * MIB, reader);
    for (int i = 1; i < PIECES; i += 2)
        put(pool, blocks[i], 2 * MIB, writer);
    size_t released = 0;
    CHECK_OK(tarn_resource_trim(pool, 0, &released));
    adds_up(pool);
    CHECK_EQUAL(0, statistics(pool).reserved - (PIECES * 2 * MIB - released));
    end_pool(pool);
    CHECK_EQUAL(before, taken_bytes());
}

TEST(memory_moves_for_its_stream_while_queued_work_still_uses_it)
{
    use_driver(0);
    tarn_stream stream = new_stream();

    move_behind_work(stream, stream);
    CU(cuStreamDestroy_v2(stream));
}

TEST(memory_moves_for_another_stream_behind_a_wait)
{
    use_driver(0);
    tarn_stream writer = new_stream(), reader = new_stream();

    move_behind_work(writer, reader);
    CU(cuStreamDestroy_v2(writer));
    CU(cuStreamDestroy_v2(reader));
}

/* Memory that is still at its old address when the pool is suspended or ends is released
 * with the rest. */
TEST(pool_sleeps_and_ends_with_old_places)
{
    tarn_device_ptr blocks[PIECES];
    struct gate gate;

    use_driver(0);
    tarn_stream stream = new_stream();
    unsigned long long before = taken_bytes();
    tarn_resource *pool = pool_of_pieces(stream, &gate, blocks);
    tarn_device_ptr large = take(pool, 6 * MIB, stream);
    let_on(&gate);
    CHECK_OK(tarn_pool_suspend(pool, TARN_POOL_SUSPEND_KEEP));
    CHECK_OK(tarn_pool_resume(pool));
    adds_up(pool);
    CU(cuMemsetD8_v2(large, 3, 6 * MIB));
    CHECK_EQUAL(0, wrong_bytes(large, 6 * MIB, 3));
    end_pool_with(pool, large, blocks, stream);

    pool = pool_of_pieces(stream, &gate, blocks);
    large = take(pool, 6 * MIB, stream);
    let_on(&gate);
    end_pool_with(pool, large, blocks, stream);
    CHECK_EQUAL(before, taken_bytes());
    CU(cuStreamDestroy_v2(stream));
}
