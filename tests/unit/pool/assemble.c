/* Test cross-stream assembly: handles that lie in parts of several streams, in a pool at
 * its maximum. */
#include "pools.h"

/* Two handles of which two streams own a half each, in front of a live half. Both streams
 * are held up, and event fences cover their frees. */
struct halves {
    tarn_resource *pool;
    tarn_stream one, other, asking;
    tarn_device_ptr live[2];
    struct gate gates[2];
};

/* Make the pool, which grows by one handle, and the streams. */
static void begin(struct halves *halves, tarn_pool_options options)
{
    use_driver(0);
    options.size = sizeof options;
    options.growth_bytes = 2 * MIB;
    options.oom_policy = TARN_POOL_OOM_FAIL;
    halves->pool = new_pool(&options);
    halves->one = new_stream();
    halves->other = new_stream();
    halves->asking = new_stream();
}

static void hold_up_owners(struct halves *halves)
{
    hold_up(halves->one, &halves->gates[0]);
    hold_up(halves->other, &halves->gates[1]);
}

static void lay_out(struct halves *halves, tarn_pool_options options)
{
    tarn_device_ptr low[2], high[2];

    begin(halves, options);
    for (int i = 0; i < 2; i++) {
        low[i] = take(halves->pool, MIB, halves->one);
        high[i] = take(halves->pool, MIB, halves->other);
        halves->live[i] = take(halves->pool, 2 * MIB, halves->asking);
        CHECK_EQUAL(low[i] + MIB, high[i]);
    }
    hold_up_owners(halves);
    for (int i = 0; i < 2; i++) {
        put(halves->pool, low[i], MIB, halves->one);
        put(halves->pool, high[i], MIB, halves->other);
    }
}

static void clear_away(struct halves *halves)
{
    for (int i = 0; i < 2; i++)
        put(halves->pool, halves->live[i], 2 * MIB, halves->asking);
    CU(cuStreamDestroy_v2(halves->one));
    CU(cuStreamDestroy_v2(halves->other));
    CU(cuStreamDestroy_v2(halves->asking));
    end_pool(halves->pool);
}

/* A GPU runs the host functions of all streams in sequence. Opening the first gate has
 * not opened the second one yet. */
static void open_gates(struct halves *halves)
{
    for (int i = 0; i < 2; i++)
        let_through(&halves->gates[i]);
    CU(cuCtxSynchronize());
}

/* Allocate a block of 4 MiB for the third stream, and note the memory that it used. */
struct asked {
    tarn_device_ptr block;
    tarn_pool_statistics before, after;
};

static void ask(struct halves *halves, struct asked *out)
{
    out->before = statistics(halves->pool);
    tarn_status status =
        tarn_resource_allocate(halves->pool, 4 * MIB, 0, halves->asking, &out->block);
    out->after = statistics(halves->pool);
    open_gates(halves);
    CHECK_OK(status);
}

TEST(handles_in_pieces_of_two_streams_are_had_behind_a_wait_for_each)
{
    struct halves halves;
    struct asked asked;

    lay_out(&halves, (tarn_pool_options){.maximum_bytes = 8 * MIB});
    ask(&halves, &asked);

    CHECK_EQUAL(2, asked.before.events_recorded);
    CHECK_EQUAL(2, asked.after.stream_waits - asked.before.stream_waits);
    CHECK_EQUAL(1, asked.after.moves - asked.before.moves);
    CHECK_EQUAL(8 * MIB, asked.after.reserved);
    put(halves.pool, asked.block, 4 * MIB, halves.asking);
    clear_away(&halves);
}

/* Without the wait each part stays with its stream. */
TEST(handles_in_pieces_stay_their_streams_where_a_wait_is_refused)
{
    tarn_device_ptr low[2], high[2];
    struct halves halves;

    use_driver(0);
    if (!on_sim())
        skip();
    lay_out(&halves, (tarn_pool_options){.maximum_bytes = 8 * MIB});
    sim_configure("fail=call:cuStreamWaitEvent");
    bool refused = is_refused(halves.pool, 4 * MIB, halves.asking);
    sim_configure(NULL);
    tarn_pool_statistics after = statistics(halves.pool);
    open_gates(&halves);

    CHECK(refused);
    CHECK_EQUAL(4 * MIB, after.live);
    CHECK_EQUAL(0, after.moves);
    for (int i = 0; i < 2; i++) {
        low[i] = take(halves.pool, MIB, halves.one);
        high[i] = take(halves.pool, MIB, halves.other);
        CHECK_EQUAL(low[i] + MIB, high[i]);
    }
    for (int i = 0; i < 2; i++) {
        put(halves.pool, low[i], MIB, halves.one);
        put(halves.pool, high[i], MIB, halves.other);
    }
    clear_away(&halves);
}

/* A pool with `grow_first` takes no memory of other streams before it has grown. */
TEST(handles_in_pieces_are_left_alone_where_the_pool_is_to_grow_first)
{
    struct halves halves;
    struct asked asked;

    lay_out(&halves, (tarn_pool_options){.grow_first = true});
    ask(&halves, &asked);

    CHECK_EQUAL(asked.before.stream_waits, asked.after.stream_waits);
    CHECK_EQUAL(asked.before.reserved + 4 * MIB, asked.after.reserved);
    put(halves.pool, asked.block, 4 * MIB, halves.asking);
    clear_away(&halves);
}

/* Two handles are enough of many more than the pool looks at. */
TEST(handles_in_pieces_that_are_not_needed_stay_their_streams)
{
    enum { HANDLES = 100 };
    tarn_device_ptr low[HANDLES], high[HANDLES], live[HANDLES], left[2] = {0, 0};
    struct halves halves;
    struct asked asked;

    begin(&halves, (tarn_pool_options){.maximum_bytes = HANDLES * 4 * MIB});
    for (int i = 0; i < HANDLES; i++) {
        low[i] = take(halves.pool, MIB, halves.one);
        high[i] = take(halves.pool, MIB, halves.other);
        live[i] = take(halves.pool, 2 * MIB, halves.asking);
    }
    hold_up_owners(&halves);
    for (int i = 0; i < HANDLES; i++) {
        put(halves.pool, low[i], MIB, halves.one);
        put(halves.pool, high[i], MIB, halves.other);
    }
    asked.before = statistics(halves.pool);
    tarn_status status =
        tarn_resource_allocate(halves.pool, 4 * MIB, 0, halves.asking, &asked.block);
    asked.after = statistics(halves.pool);
    tarn_resource_allocate(halves.pool, MIB, 0, halves.one, &left[0]);
    tarn_resource_allocate(halves.pool, MIB, 0, halves.other, &left[1]);
    tarn_pool_statistics last = statistics(halves.pool);
    open_gates(&halves);

    CHECK_OK(status);
    CHECK_EQUAL(1, asked.after.moves - asked.before.moves);
    CHECK_EQUAL(left[0] + MIB, left[1]);
    CHECK_EQUAL(asked.after.stream_waits, last.stream_waits);
    CHECK_EQUAL(asked.after.moves, last.moves);
    put(halves.pool, left[0], MIB, halves.one);
    put(halves.pool, left[1], MIB, halves.other);
    put(halves.pool, asked.block, 4 * MIB, halves.asking);
    for (int i = 2; i < HANDLES; i++)
        put(halves.pool, live[i], 2 * MIB, halves.asking);
    memcpy(halves.live, live, sizeof halves.live);
    clear_away(&halves);
}

/* One stream owns the middle of two handles in a row, another one both ends. */
TEST(handles_in_pieces_are_had_where_one_piece_is_in_two_of_them)
{
    enum { PIECES = 4 };
    tarn_device_ptr pieces[2][PIECES], block = 0;
    struct halves halves;

    begin(&halves, (tarn_pool_options){.maximum_bytes = 12 * MIB});
    tarn_stream owners[PIECES] = {halves.one, halves.other, halves.other, halves.one};
    for (int i = 0; i < 2; i++) {
        for (int j = 0; j < PIECES; j++) {
            pieces[i][j] = take(halves.pool, MIB, owners[j]);
            CHECK_EQUAL(pieces[i][0] + (tarn_device_ptr)j * MIB, pieces[i][j]);
        }
        halves.live[i] = take(halves.pool, 2 * MIB, halves.asking);
    }
    hold_up_owners(&halves);
    for (int i = 0; i < 2 * PIECES; i++)
        put(halves.pool, pieces[i / PIECES][i % PIECES], MIB, owners[i % PIECES]);
    tarn_pool_statistics before = statistics(halves.pool);
    tarn_status status =
        tarn_resource_allocate(halves.pool, 8 * MIB, 0, halves.asking, &block);
    tarn_pool_statistics after = statistics(halves.pool);
    open_gates(&halves);

    CHECK_OK(status);
    CHECK_EQUAL(2, after.stream_waits - before.stream_waits);
    CHECK_EQUAL(1, after.moves - before.moves);
    CHECK_EQUAL(12 * MIB, after.reserved);
    put(halves.pool, block, 8 * MIB, halves.asking);
    clear_away(&halves);
}
