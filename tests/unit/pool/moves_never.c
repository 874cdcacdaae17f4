/* Test pools with TARN_POOL_MOVES_NEVER: no address that served a block gets another
 * physical handle, but after a call that returns memory on purpose. */
#include "field.h"

enum { BLOCKS = 120, STEPS = 6000, STREAMS = 3, PAGES = 1 << 16 };

static const size_t page = 2 * MIB;
static const size_t sizes[] = {4 * KIB, 256 * KIB, MIB, 3 * MIB, 6 * MIB, 10 * MIB};

/* The handles of a pool's pages when they first served a block. */
static struct {
    tarn_resource *pool;
    tarn_stream streams[STREAMS];
    tarn_device_ptr start; /* of the pool's range */
    unsigned long long handles[PAGES];
    tarn_device_ptr blocks[BLOCKS];
    size_t bytes[BLOCKS];
    unsigned changed, failed;
} seen;

static unsigned long long handle_at(tarn_device_ptr address)
{
    int (*retain)(unsigned long long *out, void *address);
    int (*release)(unsigned long long handle);
    unsigned long long handle = 0;

    find_call("cuMemRetainAllocationHandle", &retain);
    find_call("cuMemRelease", &release);
    CHECK_EQUAL(0, retain(&handle, (void *)(uintptr_t)address));
    CHECK_EQUAL(0, release(handle));
    return handle;
}

/* Compare the handles of a live block with those that its pages had. */
static void note_handles(tarn_device_ptr block, size_t bytes)
{
    size_t first = (block - seen.start) / page,
           last = (block + bytes - 1 - seen.start) / page;

    for (size_t i = first; i <= last && i < PAGES; i++) {
        unsigned long long handle = handle_at(seen.start + i * page);
        seen.changed += seen.handles[i] != 0 && seen.handles[i] != handle;
        seen.handles[i] = handle;
    }
}

static void start(const tarn_pool_options *options)
{
    use_driver(0);
    memset(&seen, 0, sizeof seen);
    seen.pool = new_pool(options);
    seen.start = tarn__pages_range(inside(seen.pool)->pages).address;
    for (int i = 0; i < STREAMS; i++)
        seen.streams[i] = new_stream();
}

static void put_one(unsigned which)
{
    if (seen.blocks[which])
        put(seen.pool, seen.blocks[which], seen.bytes[which],
            seen.streams[which % STREAMS]);
    seen.blocks[which] = 0;
}

static void take_one(unsigned which, size_t bytes)
{
    seen.bytes[which] = bytes;
    if (tarn_resource_allocate(seen.pool, bytes, 0, seen.streams[which % STREAMS],
                               &seen.blocks[which]) == TARN_OK)
        note_handles(seen.blocks[which], bytes);
    else
        seen.failed++;
}

static unsigned next(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(*state >> 33);
}

static void replay(void)
{
    uint64_t state = 11;

    for (int i = 0; i < STEPS; i++) {
        unsigned which = next(&state) % BLOCKS;
        put_one(which);
        take_one(which, sizes[next(&state) % (sizeof sizes / sizeof *sizes)]);
        if (i % 1000 == 999)
            for (unsigned j = 0; j < BLOCKS; j += 2)
                put_one(j);
    }
}

static void end(void)
{
    for (unsigned i = 0; i < BLOCKS; i++)
        put_one(i);
    for (int i = 0; i < STREAMS; i++)
        CU(cuStreamDestroy_v2(seen.streams[i]));
    adds_up(seen.pool);
    end_pool(seen.pool);
}

static uint64_t generation(void)
{
    uint64_t out = 77;

    CHECK_OK(tarn_pool_generation(seen.pool, &out));
    return out;
}

/* Otherwise the next test shows nothing. */
TEST(addresses_of_a_pool_change_their_handles)
{
    tarn_pool_options options = {.size = sizeof options, .maximum_bytes = 480 * MIB};

    if (!on_sim())
        skip();
    start(&options);
    replay();
    CHECK(seen.changed > 100);
    CHECK(statistics(seen.pool).moves > 10);
    end();
}

TEST(no_address_changes_its_handle_if_memory_never_moves)
{
    /* Without a maximum, and with one that has allocations fail. */
    static const size_t maxima[] = {0, 330 * MIB};

    if (!on_sim())
        skip();
    for (size_t i = 0; i < sizeof maxima / sizeof *maxima; i++) {
        tarn_pool_options options = {.size = sizeof options,
                                     .maximum_bytes = maxima[i],
                                     .moves = TARN_POOL_MOVES_NEVER};
        start(&options);
        replay();
        CHECK_EQUAL(0, seen.changed);
        CHECK_EQUAL(maxima[i] > 0, seen.failed > 0);
        CHECK_EQUAL(0, statistics(seen.pool).moves);
        CHECK_EQUAL(0, statistics(seen.pool).shrinks);
        CHECK_EQUAL(0, generation());
        end();
    }
}

/* Segments of an upstream serve blocks, too. */
TEST(segments_stay_if_memory_never_moves)
{
    tarn_pool_options options = {.size = sizeof options, .maximum_bytes = 16 * MIB};
    tarn_resource *cuda = NULL;
    tarn_device_ptr block = 0;

    use_driver(0);
    CHECK_OK(tarn_cuda_create(0, &cuda));
    for (int never = 0; never < 2; never++) {
        tarn_resource *pool = NULL;
        options.moves = never ? TARN_POOL_MOVES_NEVER : TARN_POOL_MOVES_DEFAULT;
        CHECK_OK(tarn_pool_create(0, cuda, &options, &pool));
        put(pool, take(pool, 6 * MIB, NULL), 6 * MIB, NULL);
        CHECK_STATUS(never ? TARN_OUT_OF_MEMORY : TARN_OK,
                     tarn_resource_allocate(pool, 12 * MIB, 0, NULL, &block));
        CHECK_EQUAL(never ? 0 : 1, statistics(pool).shrinks);
        if (!never)
            put(pool, block, 12 * MIB, NULL);
        end_pool(pool);
    }
    CHECK_OK(tarn_resource_release(cuda));
}

TEST(memory_that_never_moves_returns_only_in_calls_for_that)
{
    tarn_pool_options options = {.size = sizeof options, .moves = TARN_POOL_MOVES_NEVER};
    size_t released = 0;

    if (!on_sim())
        skip();
    start(&options);
    for (unsigned i = 0; i < BLOCKS; i++)
        take_one(i, 4 * MIB);
    for (unsigned i = 0; i < BLOCKS / 4; i++)
        put_one(i);
    CHECK_OK(tarn_resource_trim(seen.pool, 0, &released));
    CHECK(released >= 64 * MIB);
    CHECK_OK(tarn_pool_set_maximum(seen.pool, statistics(seen.pool).live));
    uint64_t shrinks = statistics(seen.pool).shrinks;
    CHECK_OK(tarn_pool_set_maximum(seen.pool, 0));
    for (unsigned i = BLOCKS / 4; i < BLOCKS / 2; i++)
        put_one(i);
    CHECK_OK(tarn_pool_set_maximum(seen.pool, statistics(seen.pool).live));
    CHECK(statistics(seen.pool).shrinks > shrinks);
    shrinks = statistics(seen.pool).shrinks;
    for (unsigned i = BLOCKS / 2; i < BLOCKS; i++)
        put_one(i);
    CHECK_EQUAL(shrinks, statistics(seen.pool).shrinks);
    CHECK_OK(tarn_pool_suspend(seen.pool, TARN_POOL_SUSPEND_DISCARD));
    CHECK_OK(tarn_pool_resume(seen.pool));
    end();
}
