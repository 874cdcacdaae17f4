/* Check that the pool makes no driver call under a lock that a cache hit needs: its own
 * and a thread cache's.
 *
 * The test replaces the calls of Tarn's driver table by functions that check these locks
 * first. One thread calls here, so the caller of the driver holds every lock that is
 * taken.
 */
#include "pool/cache/thread_cache.h"
#include "field.h"
#include "driver/driver.h"

static struct tarn__calls real;
static struct tarn__pool *watched; /* NULL: no check */
static char caught[64];            /* the first call that was made under a lock */

/* X(field, parameters, arguments): calls, some of which a pool makes in each scenario. */
#define WATCHED(X)                                                                       \
    X(event_create, (CUevent_ * a, unsigned b), (a, b))                                  \
    X(event_record, (CUevent_ a, CUstream_ b), (a, b))                                   \
    X(event_query, (CUevent_ a), (a))                                                    \
    X(ctx_record_event, (CUcontext_ a, CUevent_ b), (a, b))                              \
    X(ctx_get_current, (CUcontext_ * a), (a))                                            \
    X(ctx_get_id, (CUcontext_ a, unsigned long long *b), (a, b))                         \
    X(stream_wait_event, (CUstream_ a, CUevent_ b, unsigned c), (a, b, c))               \
    X(stream_query, (CUstream_ a), (a))                                                  \
    X(stream_get_id, (CUstream_ a, unsigned long long *b), (a, b))                       \
    X(stream_get_ctx, (CUstream_ a, CUcontext_ * b), (a, b))                             \
    X(stream_is_capturing, (CUstream_ a, CUstreamCaptureStatus_ * b), (a, b))            \
    X(stream_get_capture_info,                                                           \
      (CUstream_ a, CUstreamCaptureStatus_ * b, uint64_t *c, CUgraph_ *d,                \
       const CUgraphNode_ **e, size_t *f),                                               \
      (a, b, c, d, e, f))                                                                \
    X(user_object_create,                                                                \
      (CUuserObject_ * a, void *b, CUhostFn_ c, unsigned d, unsigned e),                 \
      (a, b, c, d, e))                                                                   \
    X(graph_retain_user_object, (CUgraph_ a, CUuserObject_ b, unsigned c, unsigned d),   \
      (a, b, c, d))                                                                      \
    X(mem_get_info, (size_t *a, size_t *b), (a, b))                                      \
    X(mem_alloc, (CUdeviceptr_ * a, size_t b), (a, b))                                   \
    X(mem_free, (CUdeviceptr_ a), (a))                                                   \
    X(mem_create,                                                                        \
      (CUmemHandle_ * a, size_t b, const CUmemAllocationProp_ *c, unsigned long long d), \
      (a, b, c, d))                                                                      \
    X(mem_map,                                                                           \
      (CUdeviceptr_ a, size_t b, size_t c, CUmemHandle_ d, unsigned long long e),        \
      (a, b, c, d, e))                                                                   \
    X(mem_unmap, (CUdeviceptr_ a, size_t b), (a, b))                                     \
    X(mem_release, (CUmemHandle_ a), (a))                                                \
    X(mem_set_access, (CUdeviceptr_ a, size_t b, const CUmemAccessDesc_ *c, size_t d),   \
      (a, b, c, d))                                                                      \
    X(memcpy_async, (CUdeviceptr_ a, CUdeviceptr_ b, size_t c, CUstream_ d), (a, b, c, d))

enum {
#define X(field, parameters, arguments) CALL_##field,
    WATCHED(X)
#undef X
        CALLS
};
static const char *const call_names[] = {
#define X(field, parameters, arguments) #field,
    WATCHED(X)
#undef X
};
static unsigned long looked[CALLS];

static bool a_thread_cache_is_entered(void)
{
    for (struct tarn__thread_cache *one = watched->caches; one;
         one = one->in[TARN__CACHES_OF_POOL].next)
        if (atomic_load(&one->is_entered) || atomic_load(&one->is_excluded))
            return true;
    return false;
}

static void look(int call)
{
    if (!watched)
        return;
    looked[call]++;
    bool locked = atomic_load(&watched->lock.held);
    if ((locked || a_thread_cache_is_entered()) && !caught[0])
        snprintf(caught, sizeof caught, "%s, %s", call_names[call],
                 locked ? "under the lock of the pool" : "inside a thread cache");
}

#define X(field, parameters, arguments)      \
    static CUresult_ look_##field parameters \
    {                                        \
        look(CALL_##field);                  \
        return real.field arguments;         \
    }
WATCHED(X)
#undef X

static void watch(tarn_resource *pool)
{
    const struct tarn__calls *calls;

    CHECK_OK(tarn__driver(&calls));
    struct tarn__calls *table = (struct tarn__calls *)(uintptr_t)calls;
    if (!real.event_create)
        real = *calls;
#define X(field, parameters, arguments) \
    if (real.field)                     \
        table->field = look_##field;
    WATCHED(X)
#undef X
    watched = inside(pool);
}

/* Release the pool, and report the findings. */
static void end_watch(tarn_resource *pool)
{
    adds_up(pool);
    watched = NULL;
    end_pool(pool);
    if (caught[0])
        fail_msg("%s", caught);
}

static void were_seen(const int *calls, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (looked[calls[i]] == 0)
            fail_msg("there was no %s", call_names[calls[i]]);
}
#define WERE_SEEN(...) \
    were_seen((int[]){__VA_ARGS__}, sizeof (int[]){__VA_ARGS__} / sizeof(int))

static tarn_resource *pool_of(tarn_resource *upstream, const tarn_pool_options *options)
{
    tarn_resource *pool = NULL;

    use_driver(0);
    CHECK_OK(tarn_pool_create(0, upstream, options, &pool));
    watch(pool);
    return pool;
}

TEST(pool_that_grows_and_gives_back_calls_the_driver_under_no_lock)
{
    tarn_pool_options options = {.size = sizeof options, .maximum_bytes = 64 * MIB};
    tarn_resource *pool = pool_of(NULL, &options);
    tarn_stream streams[] = {new_stream(), TARN_STREAM_LEGACY, TARN_STREAM_PER_THREAD,
                             TARN_STREAM_NONE};
    tarn_device_ptr blocks[16];
    size_t released;

    for (size_t round = 0; round < 4; round++) {
        for (size_t i = 0; i < 16; i++)
            blocks[i] = take(pool, (i % 4 + 1) * MIB - i, streams[(i + round) % 4]);
        for (size_t i = 0; i < 16; i++)
            put(pool, blocks[i], (i % 4 + 1) * MIB - i, streams[(i + round) % 4]);
        put(pool, take(pool, 60 * MIB, streams[round]), 60 * MIB, streams[round]);
        CHECK(is_refused(pool, 65 * MIB, streams[round]));
        CHECK_OK(tarn_pool_set_maximum(pool, round % 2 ? 64 * MIB : 40 * MIB));
        CHECK_OK(tarn_resource_trim(pool, round * MIB, &released));
        CHECK_OK(tarn_pool_set_maximum(pool, 64 * MIB));
    }
    CHECK(statistics(pool).device_synchronizations > 0);
    end_watch(pool);
    CU(cuStreamDestroy_v2(streams[0]));
    WERE_SEEN(CALL_mem_create, CALL_mem_map, CALL_mem_set_access, CALL_mem_unmap,
              CALL_mem_release, CALL_mem_get_info, CALL_event_create, CALL_event_record,
              CALL_stream_get_id, CALL_stream_get_ctx, CALL_stream_is_capturing,
              CALL_mem_alloc, CALL_mem_free);
}

TEST(pool_on_an_upstream_calls_the_driver_under_no_lock)
{
    tarn_pool_options options = {.size = sizeof options, .growth_bytes = 2 * MIB};
    tarn_resource *cuda;
    tarn_device_ptr blocks[8];
    size_t released;

    use_driver(0);
    CHECK_OK(tarn_cuda_create(0, &cuda));
    tarn_resource *pool = pool_of(cuda, &options);
    looked[CALL_mem_alloc] = looked[CALL_mem_free] = 0;
    for (size_t i = 0; i < 8; i++)
        blocks[i] = take(pool, 3 * MIB, NULL);
    for (size_t i = 0; i < 8; i++)
        put(pool, blocks[i], 3 * MIB, NULL);
    CHECK_OK(tarn_resource_trim(pool, 0, &released));
    CHECK(released > 0);
    end_watch(pool);
    CHECK_OK(tarn_resource_release(cuda));
    WERE_SEEN(CALL_mem_alloc, CALL_mem_free);
}

TEST(hits_call_the_driver_under_no_lock)
{
    tarn_resource *pool = pool_of(NULL, NULL);
    tarn_stream raw = new_stream(), opened;

    CHECK_OK(tarn_stream_register(0, raw, &opened));
    memset(looked, 0, sizeof looked);
    for (size_t bytes = 4 * KIB; bytes <= 4 * MIB; bytes *= 32)
        for (int i = 0; i < 400; i++)
            put(pool, take(pool, bytes, i < 200 ? raw : opened), bytes,
                i < 200 ? raw : opened);
    CHECK(statistics(pool).cache_hits > 1000);
    CHECK(looked[CALL_stream_is_capturing] > 1000);
    CHECK_OK(tarn_stream_unregister(opened)); /* a last event fence */
    end_watch(pool);
    CU(cuStreamDestroy_v2(raw));
}

/* Blocks and neighbours of streams that are held up; memory that moves behind waits. */
TEST(pool_that_steals_and_moves_calls_the_driver_under_no_lock)
{
    tarn_resource *pool;
    tarn_device_ptr blocks[10], large;
    tarn_stream raw[3], opened[3];
    struct gate gates[2];

    use_driver(0);
    pool = strict_pool(20 * MIB);
    watch(pool);
    for (int i = 0; i < 3; i++) {
        raw[i] = new_stream();
        CHECK_OK(tarn_stream_register(0, raw[i], &opened[i]));
    }
    for (int i = 0; i < 10; i++)
        blocks[i] = take(pool, 2 * MIB, opened[2]);
    for (int i = 0; i < 2; i++)
        hold_up(raw[i], &gates[i]);
    put(pool, blocks[0], 2 * MIB, opened[0]);
    blocks[0] = take(pool, 2 * MIB, opened[2]);
    put(pool, blocks[3], 2 * MIB, opened[0]);
    put(pool, blocks[4], 2 * MIB, opened[1]);
    large = take(pool, 4 * MIB, opened[2]);
    tarn_pool_statistics stolen = statistics(pool);
    put(pool, blocks[6], 2 * MIB, opened[0]);
    put(pool, blocks[8], 2 * MIB, opened[1]);
    blocks[6] = take(pool, 4 * MIB, opened[2]); /* no neighbours: it moves */
    tarn_pool_statistics moved = statistics(pool);
    for (int i = 0; i < 2; i++)
        let_through(&gates[i]);
    CU(cuCtxSynchronize());
    CHECK(stolen.steals > 0 && stolen.stream_waits > 1);
    CHECK(moved.moves > 0);
    put(pool, large, 4 * MIB, opened[2]);
    put(pool, blocks[6], 4 * MIB, opened[2]);
    for (int i = 0; i < 10; i++)
        if (i != 3 && i != 4 && i != 6 && i != 8)
            put(pool, blocks[i], 2 * MIB, opened[2]);
    for (int i = 0; i < 3; i++)
        CHECK_OK(tarn_stream_unregister(opened[i]));
    end_watch(pool);
    for (int i = 0; i < 3; i++)
        CU(cuStreamDestroy_v2(raw[i]));
    WERE_SEEN(CALL_stream_wait_event, CALL_event_query, CALL_event_record);
}

TEST(pool_that_serves_captures_calls_the_driver_under_no_lock)
{
    tarn_resource *pool = pool_of(NULL, NULL);
    tarn_stream stream = new_stream();
    tarn_pool_capture *capture = NULL;
    void *graph = NULL;

    for (int by_hand = 0; by_hand < 2; by_hand++) {
        tarn_device_ptr before = take(pool, MIB, stream);
        CU(cuStreamBeginCapture_v2(stream, CAPTURE_RELAXED));
        put(pool, take(pool, 3 * MIB, stream), 3 * MIB, stream);
        put(pool, take(pool, 512, stream), 512, stream);
        put(pool, before, MIB, stream);
        CHECK_OK(tarn_pool_get_capture(pool, stream, &capture));
        CU(cuStreamEndCapture(stream, &graph));
        if (by_hand)
            CHECK_OK(tarn_pool_capture_release(capture, stream));
        else
            CHECK_OK(tarn_pool_capture_unreference(capture));
        CU(cuGraphDestroy(graph));
        CHECK(is_refused(pool, (size_t)1 << 45, stream)); /* looks for ended graphs */
    }
    end_watch(pool);
    CU(cuStreamDestroy_v2(stream));
    WERE_SEEN(CALL_stream_get_capture_info, CALL_user_object_create,
              CALL_graph_retain_user_object);
}

TEST(pool_that_sleeps_and_wakes_calls_the_driver_under_no_lock)
{
    tarn_resource *pool = pool_of(NULL, NULL);
    tarn_device_ptr kept = take(pool, 3 * MIB, NULL), other = take(pool, 5 * MIB, NULL);

    looked[CALL_mem_unmap] = looked[CALL_mem_map] = 0;
    if (has_second_device())
        CHECK_OK(tarn_pool_set_peer_access(pool, 1, true));
    for (int mode = 0; mode < 2; mode++) {
        CHECK_OK(tarn_pool_suspend(pool, mode));
        if (mode)
            put(pool, other, 5 * MIB, NULL);
        CHECK_OK(tarn_pool_resume(pool));
    }
    put(pool, kept, 3 * MIB, NULL);
    end_watch(pool);
    WERE_SEEN(CALL_mem_unmap, CALL_mem_map, CALL_memcpy_async);
}

TEST(pool_without_streams_calls_the_driver_under_no_lock)
{
    tarn_pool_options options = {.size = sizeof options,
                                 .no_stream_limit_bytes = 4 * MIB};

    for (int way = 0; way < 3; way++) {
        options.no_stream_policy = (tarn_pool_no_stream_policy)way;
        tarn_resource *pool = pool_of(NULL, &options);
        for (int i = 0; i < 64; i++)
            put(pool, take(pool, MIB, TARN_STREAM_NONE), MIB, TARN_STREAM_NONE);
        CHECK(way == TARN_POOL_NO_STREAM_SINGLE ||
              statistics(pool).device_synchronizations +
                      statistics(pool).events_recorded >
                  0);
        end_watch(pool);
    }
    if (real.ctx_record_event)
        WERE_SEEN(CALL_ctx_record_event);
}

/* The check itself notices a driver call under a lock. */
TEST(driver_call_under_a_lock_would_be_seen)
{
    tarn_resource *pool = pool_of(NULL, NULL);
    const struct tarn__calls *calls;
    size_t free_bytes, total_bytes;

    CHECK_OK(tarn__driver(&calls));
    calls->mem_get_info(&free_bytes, &total_bytes);
    CHECK(!caught[0]);
    tarn__lock_take(&watched->lock);
    calls->mem_get_info(&free_bytes, &total_bytes);
    tarn__lock_leave(&watched->lock);
    CHECK_TEXT("mem_get_info, under the lock of the pool", caught);
    caught[0] = '\0';
    end_watch(pool);
}
