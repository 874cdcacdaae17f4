/* A snapshot of a pool: every block, and what becomes of it. */
#include "field.h"

static uint64_t id_of(tarn_stream stream)
{
    unsigned long long id = 0;

    CU(cuStreamGetId(stream, &id));
    return id;
}

enum { SEEN_MAX = 64 };

struct seen {
    tarn_pool_block blocks[SEEN_MAX];
    size_t count, most;
};

static bool see(void *data, const tarn_pool_block *block)
{
    struct seen *seen = data;

    CHECK(seen->count < SEEN_MAX);
    seen->blocks[seen->count++] = *block;
    return seen->count < seen->most;
}

static struct seen snapshot(tarn_resource *pool)
{
    struct seen seen = {.most = SEEN_MAX};

    CHECK_OK(tarn_pool_snapshot(pool, see, &seen));
    return seen;
}

static const tarn_pool_block *block_at(const struct seen *seen, tarn_device_ptr address)
{
    for (size_t i = 0; i < seen->count; i++)
        if (seen->blocks[i].address == address)
            return &seen->blocks[i];
    fail_msg("no block begins at %#llx", (unsigned long long)address);
    return NULL;
}

static bool is(const struct seen *seen, tarn_device_ptr address, size_t bytes,
               tarn_pool_block_state state, size_t asked_bytes, uint64_t stream_id)
{
    const tarn_pool_block *block = block_at(seen, address);

    return block->bytes == bytes && block->state == state &&
           block->asked_bytes == asked_bytes && block->stream_id == stream_id;
}

TEST(snapshot_tells_what_becomes_of_every_block)
{
    struct seen seen[2];

    begin_field();
    tarn_device_ptr between = field.between[0];
    uint64_t own = id_of(field.own), other = id_of(field.other);
    give_pieces();
    seen[0] = snapshot(field.pool);
    is_refused(field.pool, 10 * MIB, field.own); /* it fences its own */
    seen[1] = snapshot(field.pool);
    end_field();

    CHECK_EQUAL(2 * PIECES + 2, seen[0].count); /* and addresses for more */
    CHECK(is(&seen[0], field.piece[0], OWN * KIB, TARN_POOL_UNFENCED, 0, own));
    CHECK(is(&seen[1], field.piece[0], OWN * KIB, TARN_POOL_FENCED, 0, own));
    CHECK(is(&seen[0], field.piece[1], OTHERS * KIB, TARN_POOL_UNFENCED, 0, other));
    CHECK(is(&seen[0], field.piece[2], READY * KIB, TARN_POOL_READY, 0, 0));
    CHECK_EQUAL(TARN_POOL_CAPTURED, block_at(&seen[0], field.piece[3])->state);
    CHECK(is(&seen[0], between, 64 * KIB, TARN_POOL_LIVE, 64 * KIB, 0));
    for (size_t i = 1; i < seen[0].count; i++) {
        CHECK_EQUAL(seen[0].blocks[i - 1].address + seen[0].blocks[i - 1].bytes,
                    seen[0].blocks[i].address);
        CHECK_EQUAL(field.piece[0], seen[0].blocks[i].segment);
    }
}

TEST(snapshot_tells_what_was_asked_for_and_what_a_thread_keeps)
{
    use_driver(0);
    tarn_resource *pool = strict_pool(2 * MIB);
    tarn_device_ptr block = take(pool, 1000, NULL);
    for (int i = 0; i < 200; i++) {
        put(pool, block, 1000, NULL);
        block = take(pool, 1000, NULL);
    }
    struct seen seen = snapshot(pool);
    CHECK(is(&seen, block, 1024, TARN_POOL_LIVE, 1000, 0));
    put(pool, block, 1000, NULL);
    seen = snapshot(pool);
    CHECK(is(&seen, block, 1024, TARN_POOL_PARKED, 0, 0));
    CHECK_EQUAL(1024, statistics(pool).parked);
    end_pool(pool);
}

TEST(snapshot_tells_holes_and_what_is_in_the_hands_of_a_call)
{
    bool was_ready, no_memory;

    use_driver(0);
    tarn_resource *pool = new_pool(NULL);
    struct tarn__heap *heap = &inside(pool)->heap;
    tarn_device_ptr low = take(pool, 2 * MIB, NULL), high = take(pool, 2 * MIB, NULL);
    give(pool, low < high ? low : high, 2 * MIB, NULL);
    CHECK_OK(tarn_resource_trim(pool, 0, &(size_t){0}));
    struct seen seen = snapshot(pool);
    CHECK(is(&seen, low < high ? low : high, 2 * MIB, TARN_POOL_HOLE, 0, 0));
    CHECK(is(&seen, low < high ? high : low, 2 * MIB, TARN_POOL_LIVE, 2 * MIB, 0));
    put(pool, low < high ? high : low, 2 * MIB, NULL);
    CHECK_OK(tarn__fences_barrier(inside(pool)));
    tarn__magazines_drain(inside(pool));
    tarn__pool_lock(inside(pool));
    struct tarn__request request = {MIB / TARN__GRANULE, TARN__GRANULE};
    tarn__index index =
        tarn__heap_take(heap, tarn__heap_known_lane(heap, TARN__KEY_LEGACY), &request,
                        &was_ready, &no_memory);
    tarn__pool_unlock(inside(pool));
    CHECK(index != 0);
    seen = snapshot(pool);
    CHECK(
        is(&seen, tarn__node(&heap->nodes, index)->address, MIB, TARN_POOL_MOVING, 0, 0));
    tarn__pool_lock(inside(pool));
    tarn__heap_put(heap, index, NULL);
    tarn__pool_unlock(inside(pool));
    end_pool(pool);
}

/* --- an upstream that hands out addresses from the top downward --- */

struct downward {
    tarn_resource *cuda;
    tarn_device_ptr block;
    size_t left; /* of it, below what was handed out */
};

static tarn_status downward_allocate(void *self, size_t bytes, size_t alignment,
                                     tarn_stream stream, tarn_device_ptr *out)
{
    struct downward *downward = self;

    (void)alignment, (void)stream;
    CHECK(bytes <= downward->left);
    downward->left -= bytes;
    *out = downward->block + downward->left;
    return TARN_OK;
}

static tarn_status downward_deallocate(void *self, tarn_device_ptr block, size_t bytes,
                                       size_t alignment, tarn_stream stream)
{
    (void)self, (void)block, (void)bytes, (void)alignment, (void)stream;
    return TARN_OK;
}

static void downward_destroy(void *self)
{
    (void)self;
}

static const tarn_resource_ops downward_ops = {.size = sizeof downward_ops,
                                               .name = "downward",
                                               .allocate = downward_allocate,
                                               .deallocate = downward_deallocate,
                                               .destroy = downward_destroy};

/* On an upstream each growth is a segment, wherever that lies. */
TEST(snapshot_goes_by_address_through_all_segments)
{
    enum { BLOCKS = 6, EACH_MIB = 2 };
    const tarn_pool_options options = {.size = sizeof options,
                                       .growth_bytes = EACH_MIB * MIB};
    const size_t all = 16 * EACH_MIB * MIB;
    struct downward downward = {.left = all};
    tarn_device_ptr blocks[BLOCKS];
    tarn_resource *pool, *upstream;

    use_driver(0);
    CHECK_OK(tarn_cuda_create(0, &downward.cuda));
    CHECK_OK(tarn_resource_allocate(downward.cuda, all, 0, NULL, &downward.block));
    CHECK_OK(tarn_resource_create(&downward_ops, &downward, 0, &upstream));
    CHECK_OK(tarn_pool_create(0, upstream, &options, &pool));
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = take(pool, EACH_MIB * MIB, NULL);
    CHECK(blocks[BLOCKS - 1] < blocks[0]);
    struct seen seen = snapshot(pool);
    size_t segments = 0;
    for (size_t i = 0; i < seen.count; i++) {
        CHECK(i == 0 || seen.blocks[i - 1].address < seen.blocks[i].address);
        CHECK(seen.blocks[i].segment <= seen.blocks[i].address);
        segments += seen.blocks[i].segment == seen.blocks[i].address;
    }
    CHECK_EQUAL(statistics(pool).growths, segments);
    CHECK(segments > 1);
    for (int i = 0; i < BLOCKS; i++) {
        CHECK_EQUAL(TARN_POOL_LIVE, block_at(&seen, blocks[i])->state);
        put(pool, blocks[i], EACH_MIB * MIB, NULL);
    }
    end_pool(pool);
    CHECK_OK(tarn_resource_release(upstream));
    CHECK_OK(tarn_resource_deallocate(downward.cuda, downward.block, all, 0, NULL));
    CHECK_OK(tarn_resource_release(downward.cuda));
}

TEST(snapshot_ends_where_its_visitor_wants_it)
{
    struct seen seen = {.most = 2};

    use_driver(0);
    tarn_resource *pool = strict_pool(2 * MIB), *cuda;
    tarn_device_ptr one = take(pool, 512, NULL), two = take(pool, 512, NULL);
    CHECK_OK(tarn_pool_snapshot(pool, see, &seen));
    CHECK_EQUAL(2, seen.count);
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_pool_snapshot(pool, NULL, &seen));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_pool_snapshot(NULL, see, &seen));
    CHECK_OK(tarn_cuda_create(0, &cuda));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_pool_snapshot(cuda, see, &seen));
    CHECK_EQUAL(2, seen.count);
    CHECK_OK(tarn_resource_release(cuda));
    put(pool, one, 512, NULL);
    put(pool, two, 512, NULL);
    end_pool(pool);
}
