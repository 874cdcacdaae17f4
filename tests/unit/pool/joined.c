/* Test registered streams that join the capture of another stream, announced or not: one
 * test for each statement about it in docs/design/pool.md. The simulator's race finder is on. */
#include "field.h"
#include "driver/driver.h"
#include "driver/registration.h"
#include "pool/order/identity.h"

enum {
    SMALL = 4096, /* a thread cache keeps it */
    LARGE = 5 << 20,
    NO_TIMING = 2,
    PATTERN = 0x11
};

static struct {
    int (*cuEventCreate)(void **out, unsigned flags);
    int (*cuEventDestroy_v2)(void *event);
    int (*cuEventRecord)(void *event, tarn_stream stream);
    int (*cuStreamWaitEvent)(tarn_stream stream, void *event, unsigned flags);
} events;

#define EVENTS(call) CHECK_EQUAL(0, events.call)

static struct {
    tarn_resource *pool;
    tarn_stream origin, raw, launching; /* streams of the driver */
    tarn_stream joined;                 /* `raw`, registered */
    void *forked, *ended;               /* events */
} team;

static void begin_team_with(const tarn_pool_options *options)
{
    use_driver(0);
    if (on_sim())
        sim_configure("mode=seeded,races=on");
    find_call("cuEventCreate", &events.cuEventCreate);
    find_call("cuEventDestroy_v2", &events.cuEventDestroy_v2);
    find_call("cuEventRecord", &events.cuEventRecord);
    find_call("cuStreamWaitEvent", &events.cuStreamWaitEvent);
    team.pool = new_pool(options);
    team.origin = new_stream();
    team.raw = new_stream();
    team.launching = new_stream();
    CHECK_OK(tarn_stream_register(0, team.raw, &team.joined));
    EVENTS(cuEventCreate(&team.forked, NO_TIMING));
    EVENTS(cuEventCreate(&team.ended, NO_TIMING));
}

static void begin_team(void)
{
    begin_team_with(NULL);
}

static void end_team(void)
{
    CU(cuCtxSynchronize());
    if (on_sim())
        CHECK_EQUAL(0, sim_races());
    adds_up(team.pool);
    CHECK_OK(tarn_stream_unregister(team.joined));
    end_pool(team.pool);
    EVENTS(cuEventDestroy_v2(team.forked));
    EVENTS(cuEventDestroy_v2(team.ended));
    CU(cuStreamDestroy_v2(team.origin));
    CU(cuStreamDestroy_v2(team.raw));
    CU(cuStreamDestroy_v2(team.launching));
    if (on_sim())
        sim_configure(NULL);
}

static void join(void)
{
    CU(cuStreamBeginCapture_v2(team.origin, CAPTURE_RELAXED));
    EVENTS(cuEventRecord(team.forked, team.origin));
    EVENTS(cuStreamWaitEvent(team.raw, team.forked, 0));
}

/* End the capture, which must be valid. */
static void *end_capture(void)
{
    void *graph = NULL, *exec = NULL;

    EVENTS(cuEventRecord(team.ended, team.raw));
    EVENTS(cuStreamWaitEvent(team.origin, team.ended, 0));
    CU(cuStreamEndCapture(team.origin, &graph));
    CU(cuGraphInstantiateWithFlags(&exec, graph, 0));
    CU(cuGraphDestroy(graph));
    return exec;
}

/* Allocate, use and free on the stream; return the address. */
static tarn_device_ptr use(size_t bytes, unsigned char value)
{
    tarn_device_ptr block = take(team.pool, bytes, team.joined);

    CU(cuMemsetD8Async(block, value, bytes, team.raw));
    put(team.pool, block, bytes, team.joined);
    return block;
}

/* Have the thread cache keep a small block; return its address. */
static tarn_device_ptr fill_thread_cache(void)
{
    tarn_device_ptr block = 0;

    for (int i = 0; i < 4; i++)
        block = use(SMALL, 1);
    CHECK_EQUAL(SMALL, statistics(team.pool).thread_cached);
    return block;
}

/* Use a block on the stream while the graph runs on another one: it keeps its bytes. */
static void keeps_its_bytes(void *exec, tarn_device_ptr graphs, size_t bytes)
{
    tarn_device_ptr block = take(team.pool, bytes, team.joined);
    unsigned char byte = 0;

    CHECK(block + bytes <= graphs || graphs + bytes <= block);
    CU(cuMemsetD8Async(block, PATTERN, bytes, team.raw));
    CU(cuGraphLaunch(exec, team.launching));
    CU(cuCtxSynchronize());
    CU(cuMemcpyDtoH_v2(&byte, block, 1));
    CHECK_EQUAL(PATTERN, byte);
    put(team.pool, block, bytes, team.joined);
    CU(cuGraphExecDestroy(exec));
}

/* The stream's own free memory is in the heap: the search of the capture must not take
 * it, nor may what the capture freed be used outside of it. */
TEST(refill_in_an_unannounced_capture_is_memory_of_the_graph)
{
    begin_team();
    use(3 * LARGE, 1);
    use(LARGE + TARN_POOL_QUANTUM, 1);
    join();
    tarn_device_ptr block = use(LARGE, 2);
    CHECK(statistics(team.pool).captured >= LARGE);
    CHECK_EQUAL(block, use(LARGE, 2)); /* in the order of the graph */
    keeps_its_bytes(end_capture(), block, LARGE);
    end_team();
}

/* After the first call that is no hit, a block of the thread cache is none either. */
TEST(hits_end_with_the_first_miss_of_an_unannounced_capture)
{
    begin_team();
    tarn_device_ptr cached = fill_thread_cache();
    tarn_device_ptr early = take(team.pool, SMALL / 2, team.joined);
    join();
    use(LARGE, 2);
    CHECK_EQUAL(0, statistics(team.pool).thread_cached);
    uint64_t captured = statistics(team.pool).captured;
    tarn_device_ptr block = use(SMALL, 2);
    CHECK(block != cached);
    CHECK(statistics(team.pool).captured > captured);
    put(team.pool, early, SMALL / 2, team.joined);
    CHECK_EQUAL(0, statistics(team.pool).thread_cached);
    keeps_its_bytes(end_capture(), block, SMALL);
    end_team();
}

static void set_wanted(bool wanted)
{
    struct tarn__pool *pool = inside(team.pool);

    tarn__pool_lock(pool);
    tarn__identity_find_registered(&pool->heap, tarn__registration_find(team.joined))
        ->wanted = wanted;
    tarn__pool_unlock(pool);
}

/* While another stream wants the frees of this one, its calls do not look into the thread
 * cache. That ends when another thread has fenced them, which can be during the capture. */
TEST(hits_end_with_a_call_that_finds_its_stream_wanted)
{
    for (int frees = 0; frees < 2; frees++) {
        begin_team();
        tarn_device_ptr cached = fill_thread_cache();
        tarn_device_ptr early = take(team.pool, SMALL / 2, team.joined);
        set_wanted(true);
        join();
        if (frees)
            put(team.pool, early, SMALL / 2, team.joined);
        else
            use(LARGE, 2);
        set_wanted(false);
        CHECK_EQUAL(0, statistics(team.pool).thread_cached);
        tarn_device_ptr block = use(SMALL, 2);
        CHECK(block != cached);
        if (!frees)
            put(team.pool, early, SMALL / 2, team.joined);
        CHECK_EQUAL(0, statistics(team.pool).thread_cached);
        keeps_its_bytes(end_capture(), block, SMALL);
        end_team();
    }
}

/* So does the first free that is no hit. The graph may use the block at each launch. */
TEST(free_through_the_heap_in_an_unannounced_capture_stays_with_the_graph)
{
    begin_team();
    fill_thread_cache();
    tarn_device_ptr block = take(team.pool, LARGE, team.joined);
    CU(cuStreamSynchronize(team.raw)); /* the graph runs elsewhere */
    join();
    CU(cuMemsetD8Async(block, 2, LARGE, team.raw));
    put(team.pool, block, LARGE, team.joined);
    CHECK_EQUAL(LARGE, statistics(team.pool).captured);
    CHECK_EQUAL(0, statistics(team.pool).thread_cached);
    keeps_its_bytes(end_capture(), block, LARGE);
    end_team();
}

/* What only an announcement prevents: the thread cache serves and keeps blocks as if
 * there was no capture, up to the first miss. The test does not launch that graph. */
TEST(hits_before_the_first_miss_of_an_unannounced_capture_are_not_checked)
{
    begin_team();
    tarn_device_ptr cached = fill_thread_cache(), block;
    join();
    CHECK_EQUAL(cached, block = take(team.pool, SMALL, team.joined));
    put(team.pool, block, SMALL, team.joined);
    CHECK_EQUAL(0, statistics(team.pool).captured);
    CHECK_EQUAL(SMALL, statistics(team.pool).thread_cached);
    CU(cuGraphExecDestroy(end_capture()));
    CHECK_EQUAL(cached, use(SMALL, 1));
    end_team();
}

TEST(announced_capture_uses_memory_of_the_graph_from_its_first_call)
{
    static const size_t sizes[] = {SMALL, LARGE};

    for (int i = 0; i < 2; i++) {
        begin_team();
        use(3 * LARGE, 1);
        tarn_device_ptr cached = sizes[i] == SMALL ? fill_thread_cache() : use(LARGE, 1);
        tarn_device_ptr early = take(team.pool, SMALL / 2, team.joined);
        CHECK_OK(tarn_stream_announce_capture(team.joined, true));
        join();
        tarn_device_ptr block = use(sizes[i], 2);
        CHECK(block != cached);
        put(team.pool, early, SMALL / 2, team.joined);
        CHECK_EQUAL(block, use(sizes[i], 2));
        void *exec = end_capture();
        CHECK_OK(tarn_stream_announce_capture(team.joined, false));
        keeps_its_bytes(exec, block, sizes[i]);
        end_team();
    }
}

/* After the capture the thread cache works again. */
TEST(thread_cache_fills_again_after_an_unannounced_capture)
{
    begin_team();
    fill_thread_cache();
    join();
    use(LARGE, 2);
    CHECK_EQUAL(0, statistics(team.pool).thread_cached);
    CU(cuGraphExecDestroy(end_capture()));
    fill_thread_cache();
    end_team();
}

/* --- a stream that joins a capture while another thread fences its frees --- */

static CUresult_ (*real_event_record)(CUevent_ event, CUstream_ stream);

static bool has_joined;

/* The driver's call, in front of which the stream joins a capture once. */
static CUresult_ record_after_join(CUevent_ event, CUstream_ stream)
{
    if ((tarn_stream)stream == team.raw && !has_joined) {
        has_joined = true;
        join();
    }
    return real_event_record(event, stream);
}

/* A miss of another stream fences the frees of the registered one. Its event belongs to
 * the capture then: a query of it would invalidate the capture, and a wait would make the
 * other stream join it. */
TEST(event_of_a_stream_that_has_joined_a_capture_is_not_used)
{
    /* All memory is in use, and one free is too little for an event fence. */
    const size_t all = 256 << 20;
    const tarn_pool_options options = {.size = sizeof options,
                                       .initial_bytes = all,
                                       .maximum_bytes = all,
                                       .oom_policy = TARN_POOL_OOM_FAIL};
    const struct tarn__calls *calls;

    begin_team_with(&options);
    tarn_device_ptr rest = take(team.pool, all - MIB, team.launching);
    use(MIB, 1);
    CHECK_OK(tarn__driver(&calls));
    struct tarn__calls *table = (struct tarn__calls *)(uintptr_t)calls;
    real_event_record = table->event_record;
    has_joined = false;
    table->event_record = record_after_join;
    for (int i = 0; i < 8; i++) {
        tarn_device_ptr block;
        if (tarn_resource_allocate(team.pool, MIB, 0, team.launching, &block) == TARN_OK)
            put(team.pool, block, MIB, team.launching);
    }
    table->event_record = real_event_record;
    CHECK(has_joined);
    CU(cuGraphExecDestroy(end_capture()));
    CHECK_EQUAL(0, statistics(team.pool).stream_waits);
    put(team.pool, take(team.pool, MIB, team.joined), MIB, team.joined);
    put(team.pool, rest, all - MIB, team.launching);
    end_team();
}
