/* Test the free memory between blocks that stay: its list, and that a plan leaves it to the
 * step. */
#include "learn_blocks.h"
#include "pool/follow/holes.h"
#include "pool/follow/record.h"
#include "pool/pool.h"

TEST(a_block_takes_memory_of_the_smallest_hole_that_has_room)
{
    struct tarn__holes holes = {0};

    tarn__holes_add(&holes, 9);
    tarn__holes_add(&holes, 0);
    tarn__holes_add(&holes, 5);
    tarn__holes_add(&holes, 7);
    CHECK_EQUAL(3, holes.count);
    CHECK(!tarn__holes_take(&holes, 10));
    CHECK(tarn__holes_take(&holes, 6)); /* of 7 */
    CHECK(tarn__holes_take(&holes, 5));
    CHECK(tarn__holes_take(&holes, 9));
    CHECK(!tarn__holes_take(&holes, 2));
    CHECK(tarn__holes_take(&holes, 1));
    CHECK(!tarn__holes_take(&holes, 1));
}

TEST(the_largest_holes_are_kept)
{
    struct tarn__holes holes = {0};

    for (uint64_t i = 0; i < 2 * TARN__HOLES_MOST; i++)
        tarn__holes_add(&holes, 1 + (i * 37) % (2 * TARN__HOLES_MOST));
    CHECK_EQUAL(TARN__HOLES_MOST, holes.count);
    for (uint32_t i = 0; i < holes.count; i++)
        CHECK(holes.quanta[i] > TARN__HOLES_MOST);
    tarn__holes_add(&holes, UINT64_MAX);
    CHECK(tarn__holes_take(&holes, UINT32_MAX));
}

static struct tarn__holes holes_of(tarn_resource *resource)
{
    struct tarn__record nothing; /* so all live blocks stay */
    struct tarn__pool *pool;

    tarn__record_init(&nothing);
    CHECK_OK(tarn__pool_of(resource, "test", &pool));
    tarn__pool_lock(pool);
    struct tarn__holes holes = tarn__holes_find(pool, &nothing);
    tarn__pool_unlock(pool);
    return holes;
}

/* A trimmed pool has the handles of its live blocks alone: all else in them is holes. */
TEST(the_holes_are_the_free_memory_of_a_trimmed_pool)
{
    enum { COUNT = 100 };
    tarn_device_ptr blocks[COUNT];
    size_t bytes[COUNT];
    uint64_t seed = 1;

    begin();
    tarn_resource *pool = new_pool(NULL);
    for (int i = 0; i < COUNT; i++) {
        bytes[i] = (1 + random_plan_below(&seed, 20000)) * TARN__QUANTUM;
        blocks[i] = take(pool, bytes[i], streams[0]);
    }
    for (int i = 0; i < COUNT; i++)
        if (i % 3 > 0)
            put(pool, blocks[i], bytes[i], streams[0]);
    CU(cuCtxSynchronize());
    CHECK_OK(tarn_resource_trim(pool, 0, NULL));
    struct tarn__holes holes = holes_of(pool);
    uint64_t sum = 0, most = 0;
    for (uint32_t i = 0; i < holes.count; i++) {
        sum += holes.quanta[i] * (uint64_t)TARN__QUANTUM;
        most = most < holes.quanta[i] ? holes.quanta[i] : most;
    }
    CHECK(holes.count > 10 && holes.count < TARN__HOLES_MOST);
    CHECK_EQUAL(statistics(pool).reserved - statistics(pool).live, sum);
    CHECK_EQUAL(statistics(pool).largest_free, most * TARN__QUANTUM);
    for (int i = 0; i < COUNT; i += 3)
        put(pool, blocks[i], bytes[i], streams[0]);
    end(pool);
}

TEST(a_pool_of_many_blocks_is_not_searched_for_holes)
{
    enum { MANY = 20000 };
    static tarn_device_ptr blocks[MANY];

    begin();
    tarn_resource *pool = new_pool(NULL);
    for (int i = 0; i < MANY; i++)
        blocks[i] = take(pool, TARN__QUANTUM, streams[0]);
    put(pool, blocks[1], TARN__QUANTUM, streams[0]); /* a hole */
    CHECK_EQUAL(0, holes_of(pool).count);
    blocks[1] = take(pool, TARN__QUANTUM, streams[0]);
    for (int i = 0; i < MANY; i++)
        put(pool, blocks[i], TARN__QUANTUM, streams[0]);
    end(pool);
}

/* A step has blocks of 1 MiB, and then large ones. All are live at once. */
enum { SMALL = 20, LARGE = 100 };

static void run_step(tarn_resource *pool)
{
    tarn_device_ptr small[SMALL], large[LARGE];

    for (int i = 0; i < SMALL; i++)
        small[i] = take(pool, MIB, streams[0]);
    for (int i = 0; i < LARGE; i++)
        large[i] = take(pool, 16 * MIB, streams[0]);
    for (int i = 0; i < LARGE; i++)
        put(pool, large[i], 16 * MIB, streams[0]);
    for (int i = 0; i < SMALL; i++)
        put(pool, small[i], MIB, streams[0]);
}

/* Allocate blocks of 1 MiB, and free each second one. */
static void leave_holes(tarn_resource *pool, tarn_device_ptr blocks[2 * SMALL])
{
    for (int i = 0; i < 2 * SMALL; i++)
        blocks[i] = take(pool, MIB, streams[0]);
    for (int i = 0; i < 2 * SMALL; i += 2)
        put(pool, blocks[i], MIB, streams[0]);
}

/* All holes are in use at the peak, so the pool reserves little more than is live. */
TEST(a_learned_step_uses_the_holes_between_blocks_that_stay)
{
    tarn_device_ptr stay[2 * SMALL];

    begin();
    tarn_resource *pool = learning_pool();
    leave_holes(pool, stay);
    for (int i = 0; i < 3; i++) {
        mark(pool);
        run_step(pool);
    }
    wait_for_plans(pool, 1);
    for (int i = 0; i < 12; i++) {
        run_step(pool);
        mark(pool);
        if (i == 10)
            CHECK_OK(tarn_pool_reset_peaks(pool));
    }
    CHECK_EQUAL(TARN_POOL_PLAN_FOLLOWED, statistics(pool).plan_state);
    CHECK_EQUAL((2 * SMALL + 16 * LARGE) * MIB, statistics(pool).recent_peak_allocated);
    CHECK(statistics(pool).recent_peak_reserved <= (2 * SMALL + 16 * LARGE + 4) * MIB);
    for (int i = 1; i < 2 * SMALL; i += 2)
        put(pool, stay[i], MIB, streams[0]);
    end(pool);
}
