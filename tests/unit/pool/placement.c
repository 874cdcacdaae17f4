/* Test the placement of compaction: next to existing free memory, so that few handles
 * move. */
#include "steps.h"
#include "pool/compact/placement.h"
#include "pool/compact/plan.h"
#include "pool/pool.h"

enum { HANDLE = 2, ALL = 12 }; /* MiB; handles of a pool that has reached its maximum */

/* A full pool of handles of 2 MiB, one block on each, in the order of addresses. */
struct row {
    tarn_resource *pool;
    tarn_stream stream;
    tarn_device_ptr blocks[ALL]; /* 0: freed */
};

static void drop(struct row *row, int which)
{
    put(row->pool, row->blocks[which], HANDLE * MIB, row->stream);
    row->blocks[which] = 0;
}

/* The stream has no queued work, and the pool has noticed that. */
static void settle(struct row *row)
{
    CU(cuStreamSynchronize(row->stream));
    CHECK(is_refused(row->pool, ALL * HANDLE * MIB, row->stream));
}

static void start(struct row *row)
{
    tarn_pool_options options = {.size = sizeof options,
                                 .maximum_bytes = ALL * HANDLE * MIB,
                                 .growth_bytes = HANDLE * MIB,
                                 .oom_policy = TARN_POOL_OOM_FAIL};

    use_driver(0);
    *row = (struct row){.pool = new_pool(&options), .stream = new_stream()};
    for (int i = 0; i < ALL; i++)
        row->blocks[i] = take(row->pool, HANDLE * MIB, row->stream);
    for (int i = 1; i < ALL; i++)
        CHECK_EQUAL(row->blocks[i - 1] + HANDLE * MIB, row->blocks[i]);
}

static void end(struct row *row, size_t peak)
{
    for (int i = 0; i < ALL; i++)
        if (row->blocks[i])
            drop(row, i);
    adds_up(row->pool);
    CHECK_EQUAL(peak * HANDLE * MIB, statistics(row->pool).peak_reserved);
    end_pool(row->pool);
    CU(cuStreamDestroy_v2(row->stream));
}

/* The last block and those from `first` to `end` become one block at the end of the
 * range. They leave an unmapped range. */
static tarn_device_ptr make_hole(struct row *row, int first, int end)
{
    uint64_t moves = statistics(row->pool).moves;
    tarn_device_ptr last = row->blocks[ALL - 1];

    for (int i = first; i < end; i++)
        drop(row, i);
    drop(row, ALL - 1);
    settle(row);
    size_t bytes = (size_t)(end - first + 1) * HANDLE * MIB;
    tarn_device_ptr block = take(row->pool, bytes, row->stream);
    CHECK_EQUAL(last, block);
    CHECK_EQUAL(moves + 1, statistics(row->pool).moves);
    return block;
}

/* Check that all of a block can be written. */
static void write_all(const struct row *row, tarn_device_ptr block, size_t handles)
{
    CU(cuMemsetD8Async(block, 1, handles * HANDLE * MIB, row->stream));
    CU(cuStreamSynchronize(row->stream));
}

static void put_handles(const struct row *row, tarn_device_ptr block, size_t handles)
{
    put(row->pool, block, handles * HANDLE * MIB, row->stream);
}

static size_t bytes_of(tarn_resource *resource, tarn_device_ptr at)
{
    struct tarn__pool *pool = NULL;

    CHECK_OK(tarn__pool_of(resource, "test", &pool));
    return tarn__pages_handle_at(pool->pages, at).bytes;
}

TEST(one_handle_between_two_free_blocks_makes_one_of_all_three)
{
    struct row row;

    start(&row);
    tarn_device_ptr low = row.blocks[1], other = make_hole(&row, 2, 3);
    drop(&row, 1);
    drop(&row, 3);
    drop(&row, 5);
    settle(&row);
    uint64_t moves = statistics(row.pool).moves;
    tarn_device_ptr block = take(row.pool, 3 * HANDLE * MIB, row.stream);

    CHECK_EQUAL(low, block);
    CHECK_EQUAL(moves + 1, statistics(row.pool).moves);
    CHECK_EQUAL(HANDLE * MIB, bytes_of(row.pool, block + HANDLE * MIB));
    write_all(&row, block, 3);
    put_handles(&row, block, 3);
    put_handles(&row, other, 2);
    end(&row, ALL);
}

TEST(handles_move_before_what_is_free)
{
    struct row row;

    start(&row);
    tarn_device_ptr high = row.blocks[4], other = make_hole(&row, 2, 4);
    drop(&row, 0);
    drop(&row, 4);
    settle(&row);
    tarn_device_ptr block = take(row.pool, 2 * HANDLE * MIB, row.stream);

    CHECK_EQUAL(high - HANDLE * MIB, block);
    write_all(&row, block, 2);
    put_handles(&row, block, 2);
    put_handles(&row, other, 3);
    end(&row, ALL);
}

TEST(handles_move_behind_what_is_free)
{
    struct row row;

    start(&row);
    tarn_device_ptr low = row.blocks[2], other = make_hole(&row, 3, 4);
    drop(&row, 0);
    drop(&row, 2);
    settle(&row);
    tarn_device_ptr block = take(row.pool, 2 * HANDLE * MIB, row.stream);

    CHECK_EQUAL(low, block);
    put_handles(&row, block, 2);
    put_handles(&row, other, 2);
    end(&row, ALL);
}

/* A block of several handles moves in parts, each with a handle of its own. */
TEST(handles_of_one_block_move_and_the_others_stay)
{
    struct row row;

    start(&row);
    tarn_device_ptr low = row.blocks[1], other = make_hole(&row, 2, 3);
    drop(&row, 1);
    drop(&row, 4);
    drop(&row, 5);
    settle(&row);
    tarn_device_ptr kept = row.blocks[6] - HANDLE * MIB;
    tarn_device_ptr block = take(row.pool, 2 * HANDLE * MIB, row.stream);

    CHECK(block == low || block == kept - HANDLE * MIB);
    put_handles(&row, block, 2);
    put_handles(&row, other, 2);
    end(&row, ALL);
}

/* The handle of the smallest free block moves, and the others stay whole. */
TEST(larger_free_blocks_stay_whole_where_a_smaller_one_moves)
{
    struct row row;

    start(&row);
    tarn_device_ptr low = row.blocks[1], pair = row.blocks[5],
                    other = make_hole(&row, 3, 4);
    drop(&row, 1);
    drop(&row, 2);
    drop(&row, 5);
    drop(&row, 6);
    drop(&row, 8);
    settle(&row);
    tarn_device_ptr block = take(row.pool, 3 * HANDLE * MIB, row.stream);
    uint64_t moves = statistics(row.pool).moves;

    CHECK_EQUAL(low, block);
    CHECK_EQUAL(pair, take(row.pool, 2 * HANDLE * MIB, row.stream));
    CHECK_EQUAL(moves, statistics(row.pool).moves);
    put_handles(&row, pair, 2);
    put_handles(&row, block, 3);
    put_handles(&row, other, 2);
    end(&row, ALL);
}

/* A small unmapped range is not enough as a whole, and the pool maps no more than it can
 * fill. */
TEST(small_hole_is_left_where_it_is_not_enough)
{
    struct row row;

    start(&row);
    tarn_device_ptr other = make_hole(&row, 2, 3);
    drop(&row, 1);
    drop(&row, 4);
    drop(&row, 6);
    settle(&row);
    uint64_t moves = statistics(row.pool).moves;
    tarn_device_ptr block = take(row.pool, 3 * HANDLE * MIB, row.stream);

    CHECK_EQUAL(moves + 1, statistics(row.pool).moves);
    CHECK(block >= other); /* at the end of the range, all of it */
    put_handles(&row, block, 3);
    put_handles(&row, other, 2);
    end(&row, ALL);
}

/* Behind the free memory at the end of the range two handles would be missing; between,
 * one is. */
TEST(new_memory_comes_where_little_of_it_is_needed)
{
    struct row row;

    start(&row);
    tarn_device_ptr low = row.blocks[1], other = make_hole(&row, 2, 3);
    drop(&row, 1);
    drop(&row, 3);
    settle(&row);
    CHECK_OK(tarn_pool_set_maximum(row.pool, (ALL + 3) * HANDLE * MIB));
    uint64_t moves = statistics(row.pool).moves;
    tarn_device_ptr block = take(row.pool, 3 * HANDLE * MIB, row.stream);

    CHECK_EQUAL(low, block);
    CHECK_EQUAL(moves, statistics(row.pool).moves);
    CHECK_EQUAL((ALL + 1) * HANDLE * MIB, statistics(row.pool).reserved);
    write_all(&row, block, 3);
    put_handles(&row, block, 3);
    put_handles(&row, other, 2);
    end(&row, ALL + 1);
}

/* In the unmapped range two handles would be missing, and three at the end of the range. */
TEST(new_memory_comes_at_the_end_where_nearly_as_much_is_needed_elsewhere)
{
    struct row row;

    start(&row);
    tarn_device_ptr other = make_hole(&row, 2, 4);
    drop(&row, 1);
    settle(&row);
    CHECK_OK(tarn_pool_set_maximum(row.pool, (ALL + 3) * HANDLE * MIB));
    tarn_device_ptr block = take(row.pool, 3 * HANDLE * MIB, row.stream);

    CHECK_EQUAL(other + 3 * HANDLE * MIB, block);
    CHECK_EQUAL((ALL + 2) * HANDLE * MIB, statistics(row.pool).reserved);
    put_handles(&row, block, 3);
    put_handles(&row, other, 3);
    end(&row, ALL + 2);
}

/* As much is needed in an unmapped range that has enough addresses. */
TEST(new_memory_comes_at_the_end_where_as_much_is_needed_elsewhere)
{
    const tarn_pool_options options = {.size = sizeof options,
                                       .growth_bytes = HANDLE * MIB};

    use_driver(0);
    tarn_resource *pool = new_pool(&options);
    tarn_stream stream = new_stream();
    tarn_device_ptr first = take(pool, 256 * MIB, stream),
                    large = take(pool, 1024 * MIB, stream),
                    last = take(pool, 256 * MIB, stream);

    CHECK(first < large && large < last);
    put(pool, large, 1024 * MIB, stream);
    CU(cuStreamSynchronize(stream));
    CHECK_OK(tarn_resource_trim(pool, 0, NULL));
    CHECK_EQUAL(512 * MIB, statistics(pool).reserved);
    tarn_device_ptr block = take(pool, 512 * MIB, stream);
    CHECK_EQUAL(last + 256 * MIB, block);
    put(pool, block, 512 * MIB, stream);
    put(pool, first, 256 * MIB, stream);
    put(pool, last, 256 * MIB, stream);
    end_pool(pool);
    CU(cuStreamDestroy_v2(stream));
}

TEST(alignment_is_kept_where_memory_moves_before_what_is_free)
{
    struct row row;
    tarn_device_ptr block = 0;

    start(&row);
    tarn_device_ptr other = make_hole(&row, 2, 4);
    drop(&row, 0);
    drop(&row, 4);
    drop(&row, 6);
    settle(&row);
    CHECK_OK(
        tarn_resource_allocate(row.pool, 2 * HANDLE * MIB, 2 * MIB, row.stream, &block));

    CHECK_EQUAL(0, block % (2 * MIB));
    CHECK_OK(
        tarn_resource_deallocate(row.pool, block, 2 * HANDLE * MIB, 2 * MIB, row.stream));
    put_handles(&row, other, 3);
    end(&row, ALL);
}

/* --- a plan whose memory other threads use before the pool takes it --- */

/* Two handles are needed. One is free before an unmapped range, and one elsewhere, which
 * is to move there. */
struct planned {
    struct row row;
    tarn_device_ptr other, beside, moving;
    struct tarn__pool *pool;
    struct tarn__caller caller;
    struct tarn__request request;
    struct tarn__reclaimable found;
    struct tarn__plan plan;
};

static void make_plan(struct planned *at)
{
    struct tarn__placement placement;

    CHECK_OK(tarn__pool_take_growth(at->pool));
    tarn__pool_assert_growth(at->pool);
    CHECK(tarn__placement_find(&at->caller, &at->request, &at->found, &placement));
    tarn__pool_leave_growth(at->pool);
    CHECK_EQUAL(1, at->found.count);
    CHECK_EQUAL(at->moving, at->found.parts[0].span.address);
    CHECK_EQUAL(at->beside + HANDLE * MIB, placement.at);
    at->plan = (struct tarn__plan){
        .reclaimable = &at->found, .range = placement.range, .at = placement.at};
}

static bool take_plan(struct planned *at)
{
    CHECK_OK(tarn__pool_take_growth(at->pool));
    tarn__pool_assert_growth(at->pool);
    bool taken = tarn__plan_take(&at->plan, &at->caller, &at->request);
    tarn__pool_leave_growth(at->pool);
    return taken;
}

static void lay_out_plan(struct planned *at)
{
    start(&at->row);
    CHECK_OK(tarn__pool_of(at->row.pool, "test", &at->pool));
    at->request = (struct tarn__request){2 * HANDLE * MIB / TARN__QUANTUM, TARN__QUANTUM};
    at->moving = at->row.blocks[0];
    at->beside = at->row.blocks[2];
    at->other = make_hole(&at->row, 3, 4);
    drop(&at->row, 0);
    drop(&at->row, 2);
    settle(&at->row);
    at->caller = caller_of(at->pool, at->row.stream);
    make_plan(at);
}

/* Once the memory is free again, the request is served as planned. */
static void end_plan(struct planned *at)
{
    uint64_t moves = statistics(at->row.pool).moves;

    tarn__resolve_end(&at->caller);
    adds_up(at->row.pool);
    tarn_device_ptr block = take(at->row.pool, 2 * HANDLE * MIB, at->row.stream);
    CHECK_EQUAL(at->beside, block);
    CHECK_EQUAL(moves + 1, statistics(at->row.pool).moves);
    put_handles(&at->row, block, 2);
    put_handles(&at->row, at->other, 2);
    end(&at->row, ALL);
}

/* Take bytes of the completed block at an address out, as a search of another thread
 * does. */
static tarn__index use(struct planned *at, tarn_device_ptr address, size_t bytes)
{
    struct tarn__heap *heap = &at->pool->heap;

    tarn__pool_lock(at->pool);
    tarn__index index =
        heap->completed.heads[tarn__bins_class((uint32_t)(HANDLE * MIB / TARN__QUANTUM))];
    while (index && tarn__node(&heap->nodes, index)->address != address)
        index = tarn__node(&heap->nodes, index)->next;
    CHECK(index != 0);
    index = tarn__take_range(heap, index, address, bytes);
    tarn__pool_unlock(at->pool);
    return index;
}

/* Free the memory, as completed or on a stream. */
static void give_back(struct planned *at, tarn__index index,
                      struct tarn__stream_state *stream_state)
{
    tarn__pool_lock(at->pool);
    tarn__heap_put(&at->pool->heap, index, stream_state);
    tarn__pool_unlock(at->pool);
}

TEST(plan_is_taken_if_nothing_has_changed)
{
    struct planned at;

    lay_out_plan(&at);
    CHECK(take_plan(&at));
    CHECK(at.plan.moved_node != 0);
    tarn__pool_lock(at.pool);
    tarn__plan_cancel(&at.plan, at.pool);
    tarn__pool_unlock(at.pool);
    end_plan(&at);
}

TEST(plan_is_not_taken_if_the_memory_that_moves_is_in_use)
{
    struct planned at;

    lay_out_plan(&at);
    tarn__index used = use(&at, at.moving, HANDLE * MIB);
    CHECK(!take_plan(&at));
    give_back(&at, used, NULL);
    end_plan(&at);
}

TEST(plan_is_not_taken_if_a_part_of_the_memory_that_moves_is_in_use)
{
    struct planned at;

    lay_out_plan(&at);
    tarn__index used = use(&at, at.moving, TARN__QUANTUM);
    CHECK(!take_plan(&at));
    give_back(&at, used, NULL);
    end_plan(&at);
}

/* Another thread used the block and freed it. No event fence covers its work. */
TEST(plan_is_not_taken_if_the_memory_that_moves_was_freed_on_a_stream)
{
    struct planned at;

    lay_out_plan(&at);
    give_back(&at, use(&at, at.moving, HANDLE * MIB), at.caller.stream_state);
    CHECK(!take_plan(&at));
    end_plan(&at);
}

TEST(plan_is_not_taken_if_the_memory_beside_its_place_is_in_use)
{
    struct planned at;

    lay_out_plan(&at);
    tarn__index used = use(&at, at.beside, HANDLE * MIB);
    CHECK(!take_plan(&at));
    CHECK_EQUAL(HANDLE * MIB, statistics(at.row.pool).cached); /* it has not moved */
    give_back(&at, used, NULL);
    end_plan(&at);
}
