/* Test a snapshot of a pool: every block and its state, also while threads use the pool.
 */
#include "field.h"
#include "pool/blocks/take.h"
#include "pool/cache/thread_cache.h"
#include "pool/order/fence.h"
#include "pool/order/identity.h"
#include "pool/snapshot.h"

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
               tarn_pool_block_state state, size_t requested_bytes, uint64_t stream_id)
{
    const tarn_pool_block *block = block_at(seen, address);

    return block->bytes == bytes && block->state == state &&
           block->requested_bytes == requested_bytes && block->stream_id == stream_id;
}

TEST(snapshot_tells_what_becomes_of_every_block)
{
    struct seen seen[2];

    begin_field();
    tarn_device_ptr between = field.between[0];
    uint64_t own = id_of(field.own), other = id_of(field.other);
    give_pieces();
    seen[0] = snapshot(field.pool);
    is_refused(field.pool, 10 * MIB, field.own); /* it fences its own frees */
    seen[1] = snapshot(field.pool);
    end_field();

    CHECK_EQUAL(2 * PIECES + 2, seen[0].count); /* and addresses for more */
    CHECK(is(&seen[0], field.piece[0], OWN * KIB, TARN_POOL_UNFENCED, 0, own));
    CHECK(is(&seen[1], field.piece[0], OWN * KIB, TARN_POOL_FENCED, 0, own));
    CHECK(is(&seen[0], field.piece[1], OTHERS * KIB, TARN_POOL_UNFENCED, 0, other));
    CHECK(is(&seen[0], field.piece[2], READY * KIB, TARN_POOL_COMPLETED, 0, 0));
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
    CHECK(is(&seen, block, 1024, TARN_POOL_THREAD_CACHED, 0, 0));
    CHECK_EQUAL(1024, statistics(pool).thread_cached);
    end_pool(pool);
}

/* It is too large for a thread cache, and the first frees do not keep it. */
TEST(snapshot_tells_that_the_last_freed_block_is_cached)
{
    const size_t bytes = 32 * MIB;
    size_t cached = 0;

    use_driver(0);
    tarn_resource *pool = strict_pool(bytes);
    for (int i = 0; i < 40; i++) {
        tarn_device_ptr block = take(pool, bytes, NULL);
        put(pool, block, bytes, NULL);
        cached = statistics(pool).thread_cached;
        struct seen seen = snapshot(pool);
        CHECK_EQUAL(cached > 0, block_at(&seen, block)->state == TARN_POOL_THREAD_CACHED);
    }
    CHECK_EQUAL(bytes, cached);
    end_pool(pool);
}

/* It is in the order of no stream. */
TEST(snapshot_names_no_stream_for_what_was_freed_without_one)
{
    use_driver(0);
    tarn_resource *pool = strict_pool(2 * MIB);
    tarn_device_ptr block = take(pool, 2 * MIB, NULL);
    put(pool, block, 2 * MIB, TARN_STREAM_NONE);
    struct seen seen = snapshot(pool);
    end_pool(pool);
    CHECK(is(&seen, block, 2 * MIB, TARN_POOL_UNFENCED, 0, 0));
}

TEST(snapshot_tells_holes_and_what_is_in_the_hands_of_a_call)
{
    bool was_completed, no_memory;

    use_driver(0);
    tarn_resource *pool = new_pool(NULL);
    struct tarn__heap *heap = &inside(pool)->heap;
    tarn_device_ptr low = take(pool, 2 * MIB, NULL), high = take(pool, 2 * MIB, NULL);
    give(pool, low < high ? low : high, 2 * MIB, NULL);
    CHECK_OK(tarn_resource_trim(pool, 0, &(size_t){0}));
    struct seen seen = snapshot(pool);
    CHECK(is(&seen, low < high ? low : high, 2 * MIB, TARN_POOL_UNMAPPED, 0, 0));
    CHECK(is(&seen, low < high ? high : low, 2 * MIB, TARN_POOL_LIVE, 2 * MIB, 0));
    put(pool, low < high ? high : low, 2 * MIB, NULL);
    CHECK_OK(tarn__fences_wait_for_device(inside(pool)));
    tarn__thread_caches_drain(inside(pool));
    tarn__pool_lock(inside(pool));
    struct tarn__request request = {MIB / TARN__QUANTUM, TARN__QUANTUM};
    tarn__index index =
        tarn__take_block(heap, tarn__identity_find(heap, TARN__KEY_LEGACY), &request,
                         &was_completed, &no_memory);
    tarn__pool_unlock(inside(pool));
    CHECK(index != 0);
    seen = snapshot(pool);
    CHECK(is(&seen, tarn__node(&heap->nodes, index)->address, MIB, TARN_POOL_IN_TRANSIT,
             0, 0));
    tarn__pool_lock(inside(pool));
    tarn__heap_put(heap, index, NULL);
    tarn__pool_unlock(inside(pool));
    end_pool(pool);
}

/* --- an upstream that allocates addresses from the top downward --- */

struct downward {
    tarn_resource *cuda;
    tarn_device_ptr block;
    size_t left; /* the part below is not allocated yet */
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

/* On an upstream each growth is a segment, at any address. */
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

/* --- more blocks than one slice copies --- */

enum { MANY = 5120 };

static tarn_device_ptr many[MANY];

static tarn_resource *pool_of_many(void)
{
    use_driver(0);
    tarn_resource *pool = strict_pool(16 * MIB);

    for (int i = 0; i < MANY; i++)
        many[i] = take(pool, 600, NULL);
    return pool;
}

static void give_many(tarn_resource *pool, int first, int step)
{
    for (int i = first; i < MANY; i += step)
        put(pool, many[i], 600, NULL);
    tarn__thread_caches_drain(inside(pool));
}

/* The contents of one snapshot. */
struct walk {
    size_t live, moving, bytes;
    uint64_t end;
    unsigned wrong; /* blocks that overlap the one before, or leave a gap */
};

static bool walk(void *data, const tarn_pool_block *block)
{
    struct walk *walk = data;

    walk->wrong += walk->end != 0 && block->address != walk->end;
    walk->end = block->address + block->bytes;
    walk->bytes += block->bytes;
    walk->live += block->state == TARN_POOL_LIVE;
    walk->moving += block->state == TARN_POOL_IN_TRANSIT;
    return true;
}

static size_t range_bytes(tarn_resource *pool)
{
    return tarn__pages_range(inside(pool)->pages).bytes;
}

TEST(snapshot_of_many_blocks_has_each_once)
{
    tarn_resource *pool = pool_of_many();
    struct walk all = {0};

    CHECK_OK(tarn_pool_snapshot(pool, walk, &all));
    CHECK_EQUAL(MANY, all.live);
    CHECK_EQUAL(0, all.wrong + all.moving);
    CHECK_EQUAL(range_bytes(pool), all.bytes);
    give_many(pool, 0, 1);
    end_pool(pool);
}

static bool copy_on(tarn_resource *pool, struct tarn__snapshot *copy)
{
    size_t before = copy->count;
    bool more = false;

    CHECK_OK(tarn__snapshot_copy(inside(pool), copy, &more));
    CHECK(copy->count - before <= TARN__SLICE);
    CHECK(!more || copy->count > before);
    return more;
}

static struct walk walk_copy(const struct tarn__snapshot *copy)
{
    struct walk all = {0};

    for (size_t i = 0; i < copy->count; i++)
        walk(&all, &copy->blocks[i]);
    return all;
}

/* Change the heap after each slice. `change` gets the number of slices so far. */
static struct walk snapshot_while(tarn_resource *pool,
                                  void (*change)(tarn_resource *, int))
{
    struct tarn__snapshot copy = {0};
    int slices = 0;

    while (copy_on(pool, &copy))
        change(pool, ++slices);
    CHECK(slices > 0);
    struct walk all = walk_copy(&copy);
    tarn__snapshot_free(&copy);
    return all;
}

static void give_all_at_first(tarn_resource *pool, int slices)
{
    if (slices == 1)
        give_many(pool, 0, 1);
}

/* All copied blocks become one free block, which continues behind them. */
TEST(snapshot_goes_on_where_all_that_it_had_seen_was_freed)
{
    tarn_resource *pool = pool_of_many();
    struct walk all = snapshot_while(pool, give_all_at_first);

    CHECK_EQUAL(0, all.wrong);
    CHECK_EQUAL(TARN__SLICE, all.live);
    CHECK_EQUAL(1, all.moving);
    CHECK_EQUAL(range_bytes(pool), all.bytes);
    end_pool(pool);
}

static void give_every_second_at_first(tarn_resource *pool, int slices)
{
    if (slices == 1)
        give_many(pool, 1, 2);
}

TEST(snapshot_has_what_is_live_throughout_whatever_is_freed_meanwhile)
{
    tarn_resource *pool = pool_of_many();
    struct walk all = snapshot_while(pool, give_every_second_at_first);

    CHECK_EQUAL(0, all.wrong + all.moving);
    CHECK_EQUAL(MANY / 2 + TARN__SLICE / 2, all.live);
    CHECK_EQUAL(range_bytes(pool), all.bytes);
    give_many(pool, 0, 2);
    end_pool(pool);
}

/* The copied blocks become blocks of other sizes, with the same nodes. */
static void cut_anew(tarn_resource *pool, int slices)
{
    static tarn_device_ptr smaller[3 * 64];

    if (slices != 1)
        return;
    give_many(pool, 0, 1);
    for (int i = 0; i < 3 * 64; i++)
        smaller[i] = take(pool, 512, NULL);
    for (int i = 0; i < 3 * 64; i++)
        put(pool, smaller[i], 512, NULL);
    tarn__thread_caches_drain(inside(pool));
}

TEST(snapshot_goes_on_where_nodes_were_used_for_other_blocks)
{
    tarn_resource *pool = pool_of_many();
    struct walk all = snapshot_while(pool, cut_anew);

    CHECK_EQUAL(0, all.wrong);
    CHECK_EQUAL(range_bytes(pool), all.bytes);
    end_pool(pool);
}

/* --- segments that are released meanwhile --- */

static void give_back_at_first(tarn_resource *pool, int slices)
{
    if (slices != 1)
        return;
    give_many(pool, 0, 1);
    CHECK_OK(tarn_resource_trim(pool, 0, &(size_t){0}));
    CHECK_EQUAL(0, statistics(pool).reserved);
}

static void give_back_and_grow(tarn_resource *pool, int slices)
{
    give_back_at_first(pool, slices);
    if (slices == 1)
        put(pool, take(pool, MIB, NULL), MIB, NULL);
}

static void segments_go_meanwhile(void (*change)(tarn_resource *, int))
{
    const tarn_pool_options options = {.size = sizeof options, .growth_bytes = 2 * MIB};
    struct tarn__snapshot copy = {0};
    tarn_resource *cuda, *pool;
    int slices = 0;

    use_driver(0);
    CHECK_OK(tarn_cuda_create(0, &cuda));
    CHECK_OK(tarn_pool_create(0, cuda, &options, &pool));
    for (int i = 0; i < MANY; i++)
        many[i] = take(pool, 600, NULL);
    CHECK(inside(pool)->heap.segments > 1);
    while (copy_on(pool, &copy))
        change(pool, ++slices);
    for (size_t i = 1; i < copy.count; i++) {
        CHECK(copy.blocks[i - 1].address + copy.blocks[i - 1].bytes <=
              copy.blocks[i].address);
        CHECK(copy.blocks[i].segment <= copy.blocks[i].address);
    }
    CHECK(copy.count >= TARN__SLICE && copy.count < 2 * TARN__SLICE);
    tarn__snapshot_free(&copy);
    end_pool(pool);
    CHECK_OK(tarn_resource_release(cuda));
}

TEST(snapshot_ends_where_the_segments_behind_it_went)
{
    segments_go_meanwhile(give_back_at_first);
    segments_go_meanwhile(give_back_and_grow);
}

/* --- beside threads --- */

enum { KEPT = 64, CHURNERS = 2, ROUNDS = 60 };

static atomic_bool is_over;

/* Hits and misses of many sizes: blocks are split, coalesced and cached by the thread. */
static void *churn(void *pool)
{
    tarn_device_ptr blocks[256] = {0};
    size_t bytes[256];
    unsigned state = 1;

    while (!atomic_load(&is_over)) {
        state = state * 1103515245 + 12345;
        unsigned i = state >> 16 & 255;
        if (blocks[i])
            put(pool, blocks[i], bytes[i], NULL);
        bytes[i] = 1 + (state >> 8) % 6000;
        blocks[i] = take(pool, bytes[i], NULL);
    }
    for (int i = 0; i < 256; i++)
        if (blocks[i])
            put(pool, blocks[i], bytes[i], NULL);
    return NULL;
}

struct kept {
    tarn_device_ptr blocks[KEPT];
    size_t bytes[KEPT];
    unsigned seen[KEPT];
    struct walk all;
};

static bool look_for_kept(void *data, const tarn_pool_block *block)
{
    struct kept *kept = data;

    for (int i = 0; i < KEPT; i++)
        if (block->address == kept->blocks[i]) {
            kept->seen[i]++;
            CHECK_EQUAL(TARN_POOL_LIVE, block->state);
            CHECK_EQUAL(kept->bytes[i], block->requested_bytes);
        }
    CHECK(block->requested_bytes <= block->bytes);
    CHECK(block->state == TARN_POOL_LIVE || block->requested_bytes == 0);
    return walk(&kept->all, block);
}

TEST(snapshot_beside_threads_has_what_is_live_throughout)
{
    struct kept kept = {0};
    pthread_t threads[CHURNERS];

    use_driver(0);
    tarn_resource *pool = strict_pool(64 * MIB);
    atomic_store(&is_over, false);
    for (int i = 0; i < MANY; i++)
        many[i] = take(pool, 600, NULL);
    for (int i = 0; i < KEPT; i++) {
        kept.bytes[i] = 100 + 7 * (size_t)i;
        kept.blocks[i] = take(pool, kept.bytes[i], NULL);
    }
    give_many(pool, 0, 2); /* unmapped ranges for the threads, between live blocks */
    for (int i = 0; i < CHURNERS; i++)
        CHECK_EQUAL(0, pthread_create(&threads[i], NULL, churn, pool));
    for (int round = 1; round <= ROUNDS; round++) {
        kept.all = (struct walk){0};
        CHECK_OK(tarn_pool_snapshot(pool, look_for_kept, &kept));
        CHECK_EQUAL(0, kept.all.wrong);
        CHECK_EQUAL(range_bytes(pool), kept.all.bytes);
        CHECK(kept.all.live >= KEPT + MANY / 2);
        for (int i = 0; i < KEPT; i++)
            CHECK_EQUAL(round, kept.seen[i]);
    }
    atomic_store(&is_over, true);
    for (int i = 0; i < CHURNERS; i++)
        CHECK_EQUAL(0, pthread_join(threads[i], NULL));
    for (int i = 0; i < KEPT; i++)
        put(pool, kept.blocks[i], kept.bytes[i], NULL);
    give_many(pool, 1, 2);
    adds_up(pool);
    end_pool(pool);
}

/* --- a visitor that uses the pool --- */

static bool free_what_is_live(void *data, const tarn_pool_block *block)
{
    if (block->state == TARN_POOL_LIVE)
        put(data, block->address, block->requested_bytes, NULL);
    return true;
}

TEST(visitor_may_use_the_pool)
{
    tarn_resource *pool = pool_of_many();

    CHECK_OK(tarn_pool_snapshot(pool, free_what_is_live, pool));
    CHECK_EQUAL(0, statistics(pool).live_blocks);
    end_pool(pool);
}
