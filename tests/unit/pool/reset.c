/* Test a pool after a reset of its context: it returns the surviving objects to the
 * driver once.
 *
 * It passes nothing to the driver that ended with the context.
 */
#include "pools.h"
#include "child.h"
#include "pool/pool.h"

static tarn_resource *pool;
static tarn_stream stream;

/* --- the upstreams of a pool --- */

static tarn_resource *exportable(void)
{
    tarn_resource *made = NULL;

    CHILD_STATUS(TARN_OK, tarn_exportable_create(0, NULL, &made));
    return made;
}

static tarn_resource *cuda(void)
{
    tarn_resource *made = NULL;

    CHILD_STATUS(TARN_OK, tarn_cuda_create(0, &made));
    return made;
}

static tarn_resource *pinned(void)
{
    tarn_resource *made = NULL;

    CHILD_STATUS(TARN_OK, tarn_pinned_create(0, &made));
    return made;
}

static tarn_resource *async(void)
{
    tarn_resource *made = NULL;

    CHILD_STATUS(TARN_OK, tarn_async_create(0, NULL, &made));
    return made;
}

static tarn_resource *limiter_on_async(void)
{
    tarn_resource *upstream = async(), *made = NULL;

    CHILD_STATUS(TARN_OK, tarn_limiter_create(upstream, (size_t)1 << 32, &made));
    CHILD_STATUS(TARN_OK, tarn_resource_release(upstream));
    return made;
}

static tarn_resource *(*const upstreams[])(void) = {NULL,  cuda,       pinned,
                                                    async, exportable, limiter_on_async};

enum { UPSTREAMS = sizeof upstreams / sizeof *upstreams, HELD = 64 };

static void make_on(tarn_resource *(*upstream_of)(void))
{
    const tarn_pool_options options = {.size = sizeof options,
                                       .initial_bytes = HELD * MIB};
    tarn_resource *upstream = upstream_of ? upstream_of() : NULL;

    CHILD_STATUS(TARN_OK, tarn_pool_create(0, upstream, &options, &pool));
    CHILD_STATUS(TARN_OK, tarn_resource_release(upstream));
}

/* In a child of its own, with the driver open. */
static void begin(void)
{
    use_driver(0);
    CHILD_CHECK(cu.cuStreamCreate(&stream, NON_BLOCKING) == 0);
}

static tarn_device_ptr get(size_t bytes, tarn_stream on)
{
    tarn_device_ptr block = 0;

    CHILD_STATUS(TARN_OK, tarn_resource_allocate(pool, bytes, 0, on, &block));
    return block;
}

static void give(tarn_device_ptr block, size_t bytes, tarn_stream on)
{
    CHILD_STATUS(TARN_OK, tarn_resource_deallocate(pool, block, bytes, 0, on));
}

static void reset(void)
{
    CHILD_CHECK(cu.cuDevicePrimaryCtxReset_v2(0) == 0);
}

/* The pool passed no invalid object to the driver. On a GPU there are other users. */
static void nothing_is_left(void)
{
    CHILD_STATUS(TARN_OK, tarn_resource_release(pool));
    CHILD_CHECK(!has_sim() || (sim_live_bytes() == 0 && sim_misuses() == 0));
}

/* --- memory is returned --- */

/* Free on the default stream after the reset, on a thread that has blocks of it cached.
 * That makes no driver call, so the pool notices the reset only at its end. */
static void end_after_a_reset(tarn_resource *(*upstream_of)(void))
{
    make_on(upstream_of);
    give(get(1000, NULL), 1000, NULL);
    tarn_device_ptr block = get(1000, NULL);
    reset();
    give(block, 1000, NULL);
    nothing_is_left();
}

static void end_on_every_upstream(void)
{
    begin();
    for (int i = 0; i < UPSTREAMS; i++)
        end_after_a_reset(upstreams[i]);
}

TEST(pool_returns_what_outlives_a_reset_that_it_did_not_see)
{
    in_child(end_on_every_upstream);
}

/* Its blocks are gone, so they do not keep a caller from releasing it. */
static void end_with_live_blocks(void)
{
    begin();
    for (int i = 0; i < UPSTREAMS; i++) {
        make_on(upstreams[i]);
        get(1000, NULL);
        get(MIB, TARN_STREAM_NONE);
        reset();
        CHILD_CHECK(tarn_resource_live_blocks(pool) == 0);
        nothing_is_left();
    }
}

TEST(pool_may_be_released_with_live_blocks_after_a_reset)
{
    in_child(end_with_live_blocks);
}

static void end_slab(void)
{
    const tarn_slab_options options = {
        .size = sizeof options, .block_bytes = 4096, .initial_blocks = 4096};

    begin();
    CHILD_STATUS(TARN_OK, tarn_slab_create(0, NULL, &options, &pool));
    give(get(4096, NULL), 4096, NULL);
    reset();
    nothing_is_left();
}

TEST(slab_returns_its_memory_after_a_reset)
{
    in_child(end_slab);
}

static void open_gate(struct gate *gate)
{
    pthread_mutex_lock(&gate->lock);
    gate->is_open = true;
    pthread_cond_broadcast(&gate->change);
    pthread_mutex_unlock(&gate->lock);
}

/* Memory moved while queued work used it: the pool unmaps both mappings. */
static void end_with_retired_mappings(void)
{
    tarn_device_ptr blocks[6];
    struct gate gate = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false};
    tarn_pool_options options = {.size = sizeof options,
                                 .maximum_bytes = 12 * MIB,
                                 .oom_policy = TARN_POOL_OOM_FAIL};
    struct tarn__pool *its;

    begin();
    CHILD_STATUS(TARN_OK, tarn_pool_create(0, NULL, &options, &pool));
    CHILD_STATUS(TARN_OK, tarn__pool_of(pool, "pool", &its));
    for (int i = 0; i < 6; i++)
        blocks[i] = get(2 * MIB, stream);
    CHILD_CHECK(cu.cuLaunchHostFunc(stream, wait_at_gate, &gate) == 0);
    for (int i = 0; i < 6; i += 2)
        give(blocks[i], 2 * MIB, stream);
    give(get(6 * MIB, stream), 6 * MIB, stream);
    open_gate(&gate);
    CHILD_CHECK(its->retired_count > 0);
    reset();
    nothing_is_left();
}

TEST(pool_returns_retired_mappings_after_a_reset)
{
    in_child(end_with_retired_mappings);
}

/* --- addresses --- */

static long reserved;
static CUresult_ (*real_reserve)(CUdeviceptr_ *, size_t, size_t, CUdeviceptr_,
                                 unsigned long long);
static CUresult_ (*real_free)(CUdeviceptr_, size_t);

static CUresult_ count_reserve(CUdeviceptr_ *out, size_t bytes, size_t alignment,
                               CUdeviceptr_ at, unsigned long long flags)
{
    CUresult_ result = real_reserve(out, bytes, alignment, at, flags);

    reserved += result == CUDA_SUCCESS_ ? (long)(bytes / MIB) : 0;
    return result;
}

static CUresult_ count_free(CUdeviceptr_ address, size_t bytes)
{
    CUresult_ result = real_free(address, bytes);

    reserved -= result == CUDA_SUCCESS_ ? (long)(bytes / MIB) : 0;
    return result;
}

static void count_addresses(void)
{
    const struct tarn__calls *calls;

    CHILD_STATUS(TARN_OK, tarn__driver(&calls));
    struct tarn__calls *table = (struct tarn__calls *)(uintptr_t)calls;
    real_reserve = table->mem_address_reserve;
    real_free = table->mem_address_free;
    table->mem_address_reserve = count_reserve;
    table->mem_address_free = count_free;
}

/* A suspended pool has no memory. It returns its addresses; the bytes that it kept ended
 * with the context. */
static void end_suspended(void)
{
    begin();
    count_addresses();
    for (int mode = TARN_POOL_SUSPEND_DISCARD; mode <= TARN_POOL_SUSPEND_KEEP; mode++) {
        make_on(NULL);
        CHILD_CHECK(reserved > 0);
        get(3 * MIB, NULL);
        CHILD_STATUS(TARN_OK, tarn_pool_suspend(pool, mode));
        reset();
        CHILD_STATUS(TARN_DRIVER_FAILURE, tarn_pool_resume(pool));
        nothing_is_left();
        CHILD_CHECK(reserved == 0);
    }
}

TEST(suspended_pool_returns_its_addresses_after_a_reset)
{
    in_child(end_suspended);
}

/* --- objects that another owner has by now --- */

enum { OTHERS = 32 };

/* The driver reuses old addresses: blocks of the next owner stay. */
static void leave_the_next_owner_alone(void)
{
    tarn_resource *next = NULL;
    tarn_device_ptr blocks[OTHERS], before;
    bool same = false;

    begin();
    tarn_resource *upstream = cuda();
    CHILD_STATUS(TARN_OK, tarn_pool_create(0, upstream, NULL, &pool));
    before = get(MIB, NULL);
    give(before, MIB, NULL);
    reset();
    CHILD_STATUS(TARN_OK, tarn_limiter_create(upstream, (size_t)1 << 32, &next));
    for (int i = 0; i < OTHERS; i++) {
        CHILD_STATUS(TARN_OK, tarn_resource_allocate(next, 2 * MIB, 0, NULL, &blocks[i]));
        same = same || blocks[i] == before;
    }
    CHILD_CHECK(same || !has_sim()); /* otherwise this shows nothing */
    CHILD_STATUS(TARN_OK, tarn_resource_release(pool));
    for (int i = 0; i < OTHERS; i++) {
        CHILD_STATUS(TARN_OK, tarn_memset_async(0, blocks[i], 7, 2 * MIB, NULL));
        CHILD_STATUS(TARN_OK,
                     tarn_resource_deallocate(next, blocks[i], 2 * MIB, 0, NULL));
    }
    CHILD_STATUS(TARN_OK, tarn_resource_release(next));
    CHILD_STATUS(TARN_OK, tarn_resource_release(upstream));
    CHILD_CHECK(!has_sim() || (sim_live_bytes() == 0 && sim_misuses() == 0));
}

TEST(end_of_a_pool_leaves_the_next_owner_of_its_addresses_alone)
{
    in_child(leave_the_next_owner_alone);
}

/* --- its events are gone: a call with one may end the process --- */

static CUresult_ has_no_event(CUevent_ event)
{
    child_fail("the driver is called with event %p of before the reset", (void *)event);
}

static void reset_and_forbid_events(void)
{
    const struct tarn__calls *calls;

    reset();
    CHILD_STATUS(TARN_OK, tarn__driver(&calls));
    struct tarn__calls *table = (struct tarn__calls *)(uintptr_t)calls;
    table->event_query = table->event_destroy = has_no_event;
    table->event_synchronize = has_no_event;
}

static tarn_device_ptr
    large; /* on the default stream, with the thread's cached blocks beside it */

/* Memory behind event fences that were not completed at the last query. */
static void make_fenced_and_reset(const tarn_pool_options *options)
{
    tarn_device_ptr blocks[16];
    struct gate gate = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false};
    struct tarn__pool *its;

    begin();
    CHILD_STATUS(TARN_OK, tarn_pool_create(0, NULL, options, &pool));
    large = get(16 * MIB, NULL);
    for (int i = 0; i < 16; i++)
        blocks[i] = get(MIB, stream);
    CHILD_CHECK(cu.cuLaunchHostFunc(stream, wait_at_gate, &gate) == 0);
    for (int i = 0; i < 16; i++)
        give(blocks[i], MIB, stream);
    open_gate(&gate);
    CHILD_STATUS(TARN_OK, tarn__pool_of(pool, "pool", &its));
    CHILD_CHECK(tarn__heap_state(&its->heap, its->heap.with_memory.first)->fence_count >
                0);
    reset_and_forbid_events();
}

static void trim_after_a_reset(void)
{
    size_t released = 77;

    make_fenced_and_reset(NULL);
    CHILD_STATUS(TARN_OK, tarn_resource_trim(pool, 0, &released));
    CHILD_CHECK(released == 0);
    nothing_is_left();
}

static void limit_after_a_reset(void)
{
    make_fenced_and_reset(NULL);
    CHILD_STATUS(TARN_DRIVER_FAILURE, tarn_pool_set_maximum(pool, 64 * MIB));
    CHILD_MESSAGE("was reset");
    nothing_is_left();
}

static void free_over_the_threshold_after_a_reset(void)
{
    const tarn_pool_options options = {.size = sizeof options,
                                       .release_threshold_bytes = 2 * MIB};

    make_fenced_and_reset(&options);
    give(large, 16 * MIB, NULL);
    nothing_is_left();
}

static void end_after_a_reset_with_fences(void)
{
    make_fenced_and_reset(NULL);
    nothing_is_left();
}

TEST(pool_makes_no_call_with_events_that_went_with_their_context)
{
    in_child(trim_after_a_reset);
    in_child(limit_after_a_reset);
    in_child(free_over_the_threshold_after_a_reset);
    in_child(end_after_a_reset_with_fences);
}

/* --- other objects on top of pools --- */

static void end_managers_pools(void)
{
    tarn_manager *manager;
    tarn_pointer *block, *host;

    begin();
    CHILD_STATUS(TARN_OK,
                 tarn_manager_create(tarn_pool_manager_ops(), NULL, 0, &manager));
    for (int i = 0; i < 3; i++) {
        CHILD_STATUS(TARN_OK, tarn_manager_memalloc(manager, MIB, NULL, &block));
        tarn_pointer_release(block);
        CHILD_STATUS(TARN_OK, tarn_manager_memalloc(manager, MIB, NULL, &block));
        CHILD_STATUS(TARN_OK, tarn_manager_memhostalloc(manager, MIB, 0, &host));
        reset();
        tarn_pointer_release(block);
        tarn_pointer_release(host);
        CHILD_CHECK(!has_sim() || sim_live_bytes() <= 64 * MIB);
    }
    tarn_manager_release(manager);
    CHILD_CHECK(tarn_pointer_deferred_count() == 0);
    CHILD_CHECK(!has_sim() || (sim_live_bytes() == 0 && sim_misuses() == 0));
}

TEST(managers_pools_return_what_outlives_a_reset)
{
    in_child(end_managers_pools);
}

/* --- a wait that fails in a context that exists --- */

static CUresult_ refuse_alloc(CUdeviceptr_ *out, size_t bytes)
{
    (void)out, (void)bytes;
    return CUDA_ERROR_INVALID_VALUE_;
}

/* Memory that the device may still use is not returned: the wait for it failed twice. */
static void fail_the_waits(void)
{
    const struct tarn__calls *calls;

    begin();
    make_on(NULL);
    give(get(MIB, stream), MIB, stream);
    CHILD_STATUS(TARN_OK, tarn__driver(&calls));
    ((struct tarn__calls *)(uintptr_t)calls)->mem_alloc = refuse_alloc;
    CHILD_STATUS(TARN_OK, tarn_resource_release(pool));
    CHILD_CHECK(!has_sim() || sim_live_bytes() >= HELD * MIB);
}

TEST(pool_keeps_memory_that_the_device_may_still_use)
{
    in_child(fail_the_waits);
}

/* --- a callback that resets the device --- */

static bool reset_it(void *data, tarn_resource *its, size_t bytes, unsigned attempt)
{
    (void)data, (void)its, (void)bytes, (void)attempt;
    reset();
    return true;
}

static void reset_in_a_callback(void)
{
    const tarn_pool_options options = {.size = sizeof options, .maximum_bytes = 2 * MIB};
    tarn_device_ptr block = 77;

    begin();
    CHILD_STATUS(TARN_OK, tarn_pool_create(0, NULL, &options, &pool));
    CHILD_STATUS(TARN_OK, tarn_pool_add_oom_callback(pool, reset_it, NULL));
    CHILD_STATUS(TARN_DRIVER_FAILURE,
                 tarn_resource_allocate(pool, 3 * MIB, 0, NULL, &block));
    CHILD_MESSAGE("was reset");
    CHILD_CHECK(block == 77);
    nothing_is_left();
}

TEST(callback_may_reset_the_context)
{
    in_child(reset_in_a_callback);
}
