/* Test the budget of moves: what a pool does when moves have taken too long, with room on
 * the device and without. */
#include "field.h"
#include "base/clock.h"
#include "pool/backing/backing.h"

#define GIB ((size_t)1 << 30)

enum { COUNT = 480, FIRST = 10, SECOND = 60, PAGE = 2, PARTS = 16 };
#define LARGE (PARTS * PAGE * MIB)

/* The time of moves that a pool has from the start. */
enum { AHEAD_NS = 20 * 1000 * 1000 };

/* A move that the next operations cannot pay for. */
#define LONG_NS (UINT64_MAX / 2)

/* A pool with 480 blocks of 2 MiB in handles of 2 MiB, of two streams. */
static struct {
    tarn_resource *pool;
    tarn_stream stream, other;
    tarn_device_ptr blocks[COUNT], others;
} full;

/* Set the time that the moves of the pool have taken. The time of the test itself does not
 * pay for them. */
static void set_moves(uint64_t ns)
{
    struct tarn__pool *pool = inside(full.pool);

    tarn__pool_lock(pool);
    pool->moves_ns = ns;
    pool->moves_paid_ns = UINT64_MAX;
    tarn__pool_unlock(pool);
}

static uint64_t excess(void)
{
    struct tarn__pool *pool = inside(full.pool);

    tarn__pool_lock(pool);
    uint64_t bytes = pool->grown_instead;
    tarn__pool_unlock(pool);
    return bytes;
}

static void fill(const tarn_pool_options *options)
{
    sim_configure("memory=64GiB");
    use_driver(0);
    full.pool = new_pool(options);
    inside(full.pool)->pages->vmm.device_bytes = 8 * GIB; /* small handles */
    full.stream = new_stream();
    full.other = new_stream();
    full.others = take(full.pool, PAGE * MIB, full.other);
    for (int i = 0; i < COUNT; i++)
        full.blocks[i] = take(full.pool, PAGE * MIB, full.stream);
    CHECK_OK(tarn_resource_trim(full.pool, 0, NULL));
}

static void put_block(int which)
{
    put(full.pool, full.blocks[which], PAGE * MIB, full.stream);
    full.blocks[which] = 0;
}

/* Free blocks that are not adjacent, from `first` on, and allocate one of their size
 * together. Memory moves for it once. Return the bytes by which the pool grew. */
static uint64_t growth_for_large(int first)
{
    tarn_pool_statistics before = statistics(full.pool), after;

    for (int i = first; i < first + 2 * PARTS; i += 2)
        put_block(i);
    CU(cuStreamSynchronize(full.stream));
    full.blocks[first] = take(full.pool, LARGE, full.stream);
    after = statistics(full.pool);
    CHECK_EQUAL(1, after.moves - before.moves);
    return after.reserved - before.reserved;
}

static void put_large(int first)
{
    put(full.pool, full.blocks[first], LARGE, full.stream);
    full.blocks[first] = 0;
}

static void end(void)
{
    for (int i = 0; i < COUNT; i++)
        if (full.blocks[i])
            put_block(i);
    put(full.pool, full.others, PAGE * MIB, full.other);
    adds_up(full.pool);
    end_pool(full.pool);
    CU(cuStreamDestroy_v2(full.stream));
    CU(cuStreamDestroy_v2(full.other));
    sim_configure(NULL);
}

/* Another user's block, which leaves the device less room than a pool needs to grow
 * instead of moving. */
static struct {
    tarn_resource *cuda;
    tarn_device_ptr block;
    size_t bytes;
} neighbour;

static void take_device(void)
{
    size_t free_bytes = 0, total_bytes = 0;

    CHECK_OK(tarn_cuda_create(0, &neighbour.cuda));
    CHECK_OK(tarn_resource_memory_info(neighbour.cuda, NULL, &free_bytes, &total_bytes));
    neighbour.bytes = free_bytes - total_bytes / 20;
    neighbour.block = take(neighbour.cuda, neighbour.bytes, NULL);
}

static void return_device(void)
{
    put(neighbour.cuda, neighbour.block, neighbour.bytes, NULL);
    CHECK_OK(tarn_resource_release(neighbour.cuda));
}

TEST(pool_that_has_spent_its_budget_grows_by_a_part_of_the_request)
{
    if (!on_sim())
        skip();
    fill(NULL);
    set_moves(LONG_NS);
    uint64_t growth = growth_for_large(FIRST);
    CHECK(growth >= LARGE / 8 && growth <= LARGE / 4);
    CHECK_EQUAL(growth, excess());
    put_large(FIRST);
    end();
}

/* Its growths pay for moves, so it moves all memory again. */
TEST(pool_that_grows_instead_of_moving_comes_back_into_its_budget)
{
    enum { GROWTH_NS = 1000 * 1000 };

    if (!on_sim())
        skip();
    fill(NULL);
    set_moves(AHEAD_NS + GROWTH_NS / 2);
    CHECK(growth_for_large(FIRST) > 0);
    CHECK_EQUAL(0, growth_for_large(SECOND));
    put_large(FIRST);
    put_large(SECOND);
    end();
}

/* A 200th of the time pays for moves. */
TEST(time_pays_for_moves)
{
    enum { OVER_NS = 5 * 1000 * 1000, PART = 200 };

    if (!on_sim())
        skip();
    fill(NULL);
    set_moves(AHEAD_NS + OVER_NS);
    CHECK(growth_for_large(FIRST) > 0);
    inside(full.pool)->moves_paid_ns =
        tarn__clock_now_ns() - (uint64_t)(OVER_NS + AHEAD_NS) * PART;
    CHECK_EQUAL(0, growth_for_large(SECOND));
    put_large(FIRST);
    put_large(SECOND);
    end();
}

/* Return the growth for a block after so many operations, all of them cache
 * hits, in a pool whose moves took the time that 20,000 operations pay. */
static uint64_t growth_after(int operations)
{
    fill(NULL);
    set_moves(AHEAD_NS + 20 * 1000 * 100);
    for (int i = 0; i < operations; i += 2)
        put(full.pool, take(full.pool, KIB, full.stream), KIB, full.stream);
    CHECK(statistics(full.pool).cache_hits >= (uint64_t)operations / 2 - 10);
    uint64_t growth = growth_for_large(FIRST);
    put_large(FIRST);
    end();
    return growth;
}

TEST(operations_pay_for_moves_and_cache_hits_are_operations)
{
    if (!on_sim())
        skip();
    CHECK(growth_after(15 * 1000) > 0);
    CHECK_EQUAL(0, growth_after(20 * 1000));
}

TEST(pool_with_a_maximum_or_a_tight_one_moves_beyond_the_budget)
{
    tarn_pool_options maximum = {.size = sizeof maximum, .maximum_bytes = 2 * GIB},
                      tight = {.size = sizeof tight, .policy = TARN_POOL_POLICY_TIGHT};

    if (!on_sim())
        skip();
    fill(&maximum);
    set_moves(LONG_NS);
    CHECK_EQUAL(0, growth_for_large(FIRST));
    put_large(FIRST);
    end();
    fill(&tight);
    set_moves(LONG_NS);
    CHECK_EQUAL(0, growth_for_large(FIRST));
    put_large(FIRST);
    end();
}

/* With less room, memory is worth more than time: nothing fails that moves can serve. */
TEST(pool_moves_beyond_the_budget_while_the_device_has_little_room)
{
    if (!on_sim())
        skip();
    fill(NULL);
    take_device();
    set_moves(LONG_NS);
    CHECK_EQUAL(0, growth_for_large(FIRST));
    CHECK_EQUAL(0, excess());
    put_large(FIRST);
    return_device();
    end();
}

TEST(pool_returns_what_it_grew_instead_of_moving_once_room_is_scarce)
{
    enum { BLOCKS = 20, PLACES = 2 * BLOCKS, BYTES = BLOCKS * PAGE };

    if (!on_sim())
        skip();
    fill(NULL);
    set_moves(LONG_NS);
    for (int i = 0; i < PLACES; i += 2)
        put_block(FIRST + i);
    tarn_device_ptr grown = take(full.pool, BYTES * MIB, full.stream);
    uint64_t bytes = excess(), reserved = statistics(full.pool).reserved;
    CHECK(bytes >= BYTES / 8 * MIB);
    put(full.pool, grown, BYTES * MIB, full.stream);
    for (int i = PLACES; i < 2 * PLACES; i += 2)
        put_block(FIRST + i);
    CU(cuStreamSynchronize(full.stream));

    take_device();
    uint64_t shrinks = statistics(full.pool).shrinks;
    tarn_device_ptr large = take(full.pool, 3 * BYTES / 2 * MIB, full.stream);
    CHECK(statistics(full.pool).shrinks > shrinks);
    CHECK(statistics(full.pool).reserved < reserved);
    CHECK(excess() < bytes);
    put(full.pool, large, 3 * BYTES / 2 * MIB, full.stream);
    return_device();
    end();
}

/* --- vectors that grow --- */

enum { VECTORS = 6, ROUNDS = 400 };

static uint64_t replay_vectors(tarn_resource *pool, tarn_stream stream)
{
    static const size_t first = 100 * KIB, last = 90 * MIB;
    tarn_device_ptr blocks[VECTORS] = {0};
    size_t bytes[VECTORS] = {0};
    uint64_t state = 7, operations = 0;

    for (int i = 0; i < ROUNDS * VECTORS; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        unsigned which = (unsigned)(state >> 33) % VECTORS;
        size_t more = bytes[which] && bytes[which] < last
                          ? bytes[which] / 2 * 3 + TARN_POOL_QUANTUM
                          : first;
        tarn_device_ptr block = take(pool, more, stream);
        if (blocks[which])
            put(pool, blocks[which], bytes[which], stream);
        blocks[which] = block;
        bytes[which] = more;
        operations += 2;
    }
    for (unsigned i = 0; i < VECTORS; i++)
        if (blocks[i])
            put(pool, blocks[i], bytes[i], stream);
    return operations;
}

/* Without a budget the moves of these vectors take 35 ms. Where growth would exceed 1.45
 * times the peak of live bytes, the pool still moves. */
TEST(moves_of_growing_vectors_stay_within_the_budget)
{
    enum { MOVE_NS = 26 * 1000, MOVES_AT_ONCE = 160 };

    if (!on_sim())
        skip();
    sim_configure("memory=64GiB");
    use_driver(0);
    tarn_resource *pool = new_pool(NULL);
    inside(pool)->moves_paid_ns = UINT64_MAX; /* the time of the test pays for no moves */
    tarn_stream stream = new_stream();
    for (int pass = 0; pass < 6; pass++)
        replay_vectors(pool, stream);
    tarn_pool_statistics all = statistics(pool);
    CHECK(all.moves > 0);
    CHECK(all.peak_reserved <= all.peak_allocated / 2 * 3);
    CHECK(inside(pool)->moves_ns <= AHEAD_NS + MOVES_AT_ONCE * MOVE_NS);
    CHECK(inside(pool)->grown_instead > 0);
    adds_up(pool);
    end_pool(pool);
    CU(cuStreamDestroy_v2(stream));
    sim_configure(NULL);
}
