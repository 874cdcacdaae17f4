/* Test streams that end: the pool reuses their frees, and never too early. */
#include "pools.h"

/* Return the most bytes that a pool may reserve, whatever has ended. */
static uint64_t most_reserved(uint64_t peak_live)
{
    return 2 * peak_live + 64 * MIB;
}

struct usage {
    tarn_resource *pool;
    uint64_t random, live, peak, freed;
};

static uint64_t draw(struct usage *usage, uint64_t limit)
{
    usage->random = usage->random * 6364136223846793005u + 1442695040888963407u;
    return (usage->random >> 33) % limit;
}

static tarn_device_ptr take_some(struct usage *usage, size_t bytes, tarn_stream stream)
{
    usage->live += bytes;
    if (usage->peak < usage->live)
        usage->peak = usage->live;
    return take(usage->pool, bytes, stream);
}

static void put_some(struct usage *usage, tarn_device_ptr block, size_t bytes,
                     tarn_stream stream)
{
    usage->live -= bytes;
    usage->freed += bytes;
    put(usage->pool, block, bytes, stream);
}

static void begin(struct usage *usage)
{
    use_driver(0);
    *usage = (struct usage){.pool = new_pool(NULL), .random = 1};
}

/* Return the number of streams once the work of all is done, which on a GPU can take a
 * while after the stream has ended. A stream that frees has the pool look for that. A
 * block that the pool does not have makes it compare orphaned memory with its bound. */
static uint64_t streams_at_last(tarn_resource *pool)
{
    tarn_stream stream = new_stream();
    size_t more = statistics(pool).reserved + MIB;

    CU(cuCtxSynchronize());
    for (int i = 0; i < 200; i++)
        put(pool, take(pool, 4 * MIB, stream), 4 * MIB, stream);
    put(pool, take(pool, more, stream), more, stream);
    CU(cuStreamDestroy_v2(stream));
    return statistics(pool).streams;
}

static void is_bounded(struct usage *usage)
{
    tarn_pool_statistics all = statistics(usage->pool);
    uint64_t streams = all.streams <= 8 ? all.streams : streams_at_last(usage->pool);

    uint64_t orphaned = statistics(usage->pool).orphaned;
    uint64_t most = usage->peak / 2 > 64 * MIB ? usage->peak / 2 : 64 * MIB;

    adds_up(usage->pool);
    end_pool(usage->pool); /* before the checks: the next test needs the memory */
    CHECK(all.peak_reserved <= most_reserved(usage->peak));
    /* On a GPU, streams keep up to this much that no wait has completed. */
    CHECK(streams <= 8 || orphaned < most);
}

/* --- tasks, each on a stream of its own --- */

#ifdef __SANITIZE_THREAD__ /* ten times slower there */
enum { TASKS = 40 };
#else
enum { TASKS = 300 };
#endif
enum { BLOCKS = 40, STEPS = 80 };

/* Return the number of tasks, or of batches: TARN_TEST_TASKS, where it is set. */
static int tasks(void)
{
    const char *given = getenv("TARN_TEST_TASKS");

    return given ? atoi(given) : TASKS;
}

/* Allocate and free blocks of up to 8 MiB; free all of them in the end. */
static void task_on(struct usage *usage, tarn_stream stream)
{
    tarn_device_ptr blocks[BLOCKS];
    size_t bytes[BLOCKS];
    unsigned count = 0;

    for (int step = 0; step < STEPS; step++) {
        if (count == 0 || (count < BLOCKS && draw(usage, 2) == 0)) {
            bytes[count] = 1 + draw(usage, 8 * MIB);
            blocks[count] = take_some(usage, bytes[count], stream);
            count++;
            continue;
        }
        unsigned which = (unsigned)draw(usage, count--);
        put_some(usage, blocks[which], bytes[which], stream);
        blocks[which] = blocks[count];
        bytes[which] = bytes[count];
    }
    while (count-- > 0)
        put_some(usage, blocks[count], bytes[count], stream);
}

static void *task(void *usage)
{
    use_driver(0);
    tarn_stream stream = new_stream();

    task_on(usage, stream);
    CU(cuStreamDestroy_v2(stream));
    return NULL;
}

static void *per_thread_task(void *usage)
{
    use_driver(0);
    task_on(usage, TARN_STREAM_PER_THREAD);
    return NULL;
}

static void on_a_thread(void *(*run)(void *), struct usage *usage)
{
    pthread_t thread;

    CHECK_EQUAL(0, pthread_create(&thread, NULL, run, usage));
    pthread_join(thread, NULL);
}

TEST(pool_of_tasks_that_have_a_stream_each_is_bounded)
{
    struct usage usage;

    begin(&usage);
    for (int i = 0; i < tasks(); i++)
        task(&usage);
    is_bounded(&usage);
}

TEST(pool_of_tasks_that_have_a_stream_and_a_thread_each_is_bounded)
{
    struct usage usage;

    begin(&usage);
    for (int i = 0; i < tasks(); i++)
        on_a_thread(task, &usage);
    is_bounded(&usage);
}

TEST(pool_of_threads_that_end_with_their_own_streams_is_bounded)
{
    struct usage usage;

    begin(&usage);
    for (int i = 0; i < tasks(); i++)
        on_a_thread(per_thread_task, &usage);
    is_bounded(&usage);
}

/* --- batches, allocated on one stream and freed on another --- */

enum { BATCH = 32 };

struct batch {
    tarn_device_ptr blocks[BATCH];
    size_t bytes[BATCH];
};

static void take_batch(struct usage *usage, struct batch *batch, tarn_stream stream)
{
    for (int i = 0; i < BATCH; i++) {
        batch->bytes[i] = MIB + draw(usage, 64) * 64 * KIB;
        batch->blocks[i] = take_some(usage, batch->bytes[i], stream);
    }
}

static void put_batch(struct usage *usage, const struct batch *batch, tarn_stream stream)
{
    for (int i = 0; i < BATCH; i++)
        put_some(usage, batch->blocks[i], batch->bytes[i], stream);
}

TEST(pool_whose_memory_is_freed_on_a_stream_that_allocates_none_is_bounded)
{
    struct usage usage;
    struct batch batch;

    begin(&usage);
    tarn_stream producer = new_stream(), consumer = new_stream();
    for (int i = 0; i < tasks(); i++) {
        take_batch(&usage, &batch, producer);
        put_batch(&usage, &batch, consumer);
    }
    CU(cuStreamDestroy_v2(producer));
    CU(cuStreamDestroy_v2(consumer));
    uint64_t device_waits = statistics(usage.pool).device_synchronizations;
    is_bounded(&usage);
    CHECK_EQUAL(0, device_waits);
}

/* The same with `grow_first`, where an allocation never requests another stream's event
 * fence. */
TEST(pool_that_grows_first_is_bounded_on_a_stream_that_allocates_none)
{
    tarn_pool_options options = {.size = sizeof options, .grow_first = true};
    struct usage usage;
    struct batch batch;

    use_driver(0);
    usage = (struct usage){.pool = new_pool(&options), .random = 1};
    tarn_stream producer = new_stream(), consumer = new_stream();
    for (int i = 0; i < tasks(); i++) {
        take_batch(&usage, &batch, producer);
        put_batch(&usage, &batch, consumer);
    }
    CU(cuStreamDestroy_v2(producer));
    CU(cuStreamDestroy_v2(consumer));
    is_bounded(&usage);
}

/* The thread requests no stream id, because frees do not need it. `block_first`: a block
 * that is allocated first requests it. */
static void consume(bool block_first)
{
    struct usage usage;
    struct batch batch;

    begin(&usage);
    tarn_stream producer = new_stream();
    for (int i = 0; i < tasks(); i++) {
        tarn_stream consumer = new_stream();
        take_batch(&usage, &batch, producer);
        if (block_first)
            put(usage.pool, take(usage.pool, 512, consumer), 512, consumer);
        put_batch(&usage, &batch, consumer);
        CU(cuStreamDestroy_v2(consumer));
    }
    CU(cuStreamDestroy_v2(producer));
    is_bounded(&usage);
}

TEST(pool_whose_memory_is_freed_on_a_new_stream_for_each_batch_is_bounded)
{
    consume(false);
    consume(true);
}

/* --- orphaned memory --- */

/* A stream frees and ends; the next one has its handle. */
static tarn_stream next_stream(tarn_stream stream)
{
    CU(cuStreamDestroy_v2(stream));
    tarn_stream next = new_stream();
    if (next != stream)
        skip();
    return next;
}

/* Too little for an event fence to be due. */
static tarn_stream leave_two_mib(tarn_resource *pool)
{
    tarn_stream stream = new_stream();

    put(pool, take(pool, 2 * MIB, stream), 2 * MIB, stream);
    return next_stream(stream);
}

TEST(what_a_stream_left_is_waited_for_before_memory_is_out)
{
    tarn_pool_options options = {.size = sizeof options, .maximum_bytes = 2 * MIB};

    use_driver(0);
    tarn_resource *pool = new_pool(&options);
    tarn_stream next = leave_two_mib(pool);
    tarn_device_ptr block = take(pool, 2 * MIB, next);
    CHECK_EQUAL(1, statistics(pool).device_synchronizations);
    put(pool, block, 2 * MIB, next);
    adds_up(pool);
    CU(cuStreamDestroy_v2(next));
    end_pool(pool);
}

TEST(pool_that_may_not_wait_only_counts_what_a_stream_left)
{
    use_driver(0);
    tarn_resource *pool = strict_pool(2 * MIB);
    tarn_stream next = leave_two_mib(pool);
    CHECK(is_refused(pool, 2 * MIB, next));
    CHECK(is_refused(pool, MIB, TARN_STREAM_NONE));
    CHECK_EQUAL(0, statistics(pool).device_synchronizations);
    CHECK_EQUAL(2 * MIB, statistics(pool).unfenced);
    adds_up(pool);
    CU(cuStreamDestroy_v2(next));
    end_pool(pool);
}

/* Its events are valid, and the pool queries them. */
TEST(what_a_stream_left_behind_a_fence_needs_no_wait_for_the_device)
{
    struct gate gate;

    use_driver(0);
    tarn_resource *pool = strict_pool(4 * MIB);
    tarn_stream stream = new_stream(), other = new_stream();
    tarn_device_ptr small = take(pool, 64 * KIB, stream);
    tarn_device_ptr block = take(pool, 2 * MIB, stream);
    hold_up(stream, &gate);
    put(pool, block, 2 * MIB, stream);
    bool before = is_refused(pool, 2 * MIB, other); /* it requests an event fence */
    put(pool, small, 64 * KIB, stream);             /* and the fence is recorded */
    uint64_t fences = statistics(pool).events_recorded;
    let_on(&gate);
    stream = next_stream(stream);

    CHECK(before);
    CHECK(fences > 0);
    block = take(pool, 2 * MIB, stream);
    CHECK_EQUAL(0, statistics(pool).device_synchronizations);
    put(pool, block, 2 * MIB, stream);
    CU(cuStreamDestroy_v2(stream));
    CU(cuStreamDestroy_v2(other));
    end_pool(pool);
}

struct cached {
    tarn_resource *pool;
    tarn_stream stream;
    pthread_barrier_t meet;
};

/* Free on the handle before and after it names another stream, and allocate then. */
static void *keeps_blocks(void *data)
{
    struct cached *cached = data;
    tarn_device_ptr late;

    use_driver(0);
    late = take(cached->pool, 8 * KIB, cached->stream);
    put(cached->pool, take(cached->pool, 4 * KIB, cached->stream), 4 * KIB,
        cached->stream);
    put(cached->pool, take(cached->pool, 4 * KIB, cached->stream), 4 * KIB,
        cached->stream);
    pthread_barrier_wait(&cached->meet);
    pthread_barrier_wait(&cached->meet);
    put(cached->pool, late, 8 * KIB, cached->stream);
    late = take(cached->pool, 8 * KIB, cached->stream);
    put(cached->pool, late, 8 * KIB, cached->stream);
    return NULL;
}

TEST(blocks_that_another_thread_has_cached_of_a_stream_leave_with_it)
{
    struct cached cached;
    pthread_t thread;

    use_driver(0);
    cached.pool = new_pool(NULL);
    cached.stream = new_stream();
    pthread_barrier_init(&cached.meet, NULL, 2);
    CHECK_EQUAL(0, pthread_create(&thread, NULL, keeps_blocks, &cached));
    pthread_barrier_wait(&cached.meet);
    CHECK(statistics(cached.pool).thread_cached > 0);
    CU(cuStreamDestroy_v2(cached.stream));
    tarn_stream next = new_stream();
    bool is_same = next == cached.stream;
    tarn_device_ptr block = take(cached.pool, 512, next);
    uint64_t thread_cached = statistics(cached.pool).thread_cached;
    pthread_barrier_wait(&cached.meet);
    pthread_join(thread, NULL);

    CHECK_EQUAL(0, is_same ? thread_cached : 0);
    put(cached.pool, block, 512, next);
    adds_up(cached.pool);
    CU(cuStreamDestroy_v2(next));
    end_pool(cached.pool);
    pthread_barrier_destroy(&cached.meet);
}

/* --- raw streams that stop calling --- */

/* Tasks whose streams stay until the end, so no handle reports an end. */
struct silent {
    struct usage usage;
    tarn_stream *streams;
    int count;
};

static void run_silent(struct silent *silent, int count)
{
    use_driver(0);
    silent->streams = calloc((size_t)count, sizeof *silent->streams);
    for (silent->count = 0; silent->count < count; silent->count++)
        task_on(&silent->usage, silent->streams[silent->count] = new_stream());
}

static void *run_some_silent(void *silent)
{
    run_silent(silent, TASKS);
    return NULL;
}

static void end_silent(struct silent *silent)
{
    for (int i = 0; i < silent->count; i++)
        CU(cuStreamDestroy_v2(silent->streams[i]));
    free(silent->streams);
    adds_up(silent->usage.pool);
    end_pool(silent->usage.pool);
}

TEST(pool_of_streams_that_fall_silent_is_bounded)
{
    struct silent silent;

    begin(&silent.usage);
    run_silent(&silent, tasks());
    tarn_pool_statistics all = statistics(silent.usage.pool);
    end_silent(&silent);
    CHECK(all.peak_reserved <= 2 * silent.usage.peak + 64 * MIB);
    CHECK(all.orphaned <= all.unfenced);
}

TEST(pool_that_may_not_wait_only_counts_what_silent_streams_have)
{
    struct silent silent = {.usage.random = 1};

    use_driver(0);
    silent.usage.pool = strict_pool(0);
    run_silent(&silent, TASKS);
    tarn_pool_statistics all = statistics(silent.usage.pool);
    end_silent(&silent);
    CHECK_EQUAL(0, all.device_synchronizations);
    CHECK(all.orphaned > 64 * MIB);
    CHECK(all.orphaned <= all.unfenced);
}

/* One thread waits for work that does not end; the other one allocates meanwhile. */
TEST(only_one_thread_waits_for_what_silent_streams_have)
{
    struct silent silent;
    struct gate gate;
    pthread_t thread;

    begin(&silent.usage);
    tarn_stream busy = new_stream(), active = new_stream();
    hold_up(busy, &gate);
    CHECK_EQUAL(0, pthread_create(&thread, NULL, run_some_silent, &silent));
    while (statistics(silent.usage.pool).device_synchronizations == 0)
        sched_yield();
    uint64_t reserved = statistics(silent.usage.pool).reserved;
    tarn_device_ptr block = take(silent.usage.pool, 512 * MIB, active);
    tarn_pool_statistics all = statistics(silent.usage.pool);
    let_on(&gate);
    pthread_join(thread, NULL);

    put(silent.usage.pool, block, 512 * MIB, active);
    CU(cuStreamDestroy_v2(active));
    CU(cuStreamDestroy_v2(busy));
    end_silent(&silent);
    CHECK_EQUAL(1, all.device_synchronizations);
    CHECK(all.reserved > reserved);
}

/* --- the costs of the waits --- */

TEST(device_is_waited_for_at_most_once_in_64_mib_that_streams_left)
{
    struct usage usage;

    begin(&usage);
    for (int i = 0; i < tasks(); i++)
        task(&usage);
    tarn_pool_statistics all = statistics(usage.pool);
    is_bounded(&usage);
    CHECK(all.device_synchronizations > 0);
    CHECK(all.device_synchronizations * 64 * MIB <= usage.freed);
}

/* A wait that ends no capture, on any thread and in any capture mode. */
TEST(captures_go_on_while_the_pool_waits_for_what_streams_left)
{
    struct usage usage;
    void *graph = NULL;
    int state = 9;

    begin(&usage);
    tarn_stream capturing = new_stream();
    CU(cuStreamBeginCapture_v2(capturing, CAPTURE_GLOBAL));
    for (int i = 0; i < TASKS; i++)
        task(&usage);
    uint64_t device_waits = statistics(usage.pool).device_synchronizations;
    CU(cuStreamIsCapturing(capturing, &state));
    CU(cuStreamEndCapture(capturing, &graph));
    CU(cuGraphDestroy(graph));
    CU(cuStreamDestroy_v2(capturing));
    is_bounded(&usage);
    CHECK(device_waits > 0);
    CHECK_EQUAL(1, state);
}

/* Allocate and free two blocks, of which a thread caches at most one. */
static void put_two(tarn_resource *pool, size_t bytes, tarn_stream stream)
{
    tarn_device_ptr one = take(pool, bytes, stream), two = take(pool, MIB, stream);

    put(pool, one, bytes, stream);
    put(pool, two, MIB, stream);
}

/* An event on the legacy stream would end a capture of a blocking stream. So the pool
 * waits for the device instead. */
TEST(capture_of_a_blocking_stream_goes_on_while_memory_of_the_legacy_stream_is_reused)
{
    const tarn_pool_options options = {.size = sizeof options,
                                       .maximum_bytes = 128 * MIB};
    tarn_stream capturing;
    void *graph = NULL;
    int state = 9;

    use_driver(0);
    tarn_resource *pool = new_pool(&options);
    for (int i = 0; i < 200; i++) /* alone, it fences its frees more and more seldom */
        put_two(pool, 100 * MIB, TARN_STREAM_LEGACY);
    CU(cuStreamCreate(&capturing, 0));
    tarn_stream other = new_stream();
    CU(cuStreamBeginCapture_v2(capturing, CAPTURE_GLOBAL));
    for (int i = 0; i < 200; i++) /* meanwhile the legacy stream frees nothing */
        put_two(pool, 4 * MIB, other);
    uint64_t orphaned = statistics(pool).orphaned;
    put(pool, take(pool, 100 * MIB, other), 100 * MIB, other);
    uint64_t device_waits = statistics(pool).device_synchronizations;
    CU(cuStreamIsCapturing(capturing, &state));
    CU(cuStreamEndCapture(capturing, &graph));
    CU(cuGraphDestroy(graph));
    CU(cuStreamDestroy_v2(capturing));
    CU(cuStreamDestroy_v2(other));
    adds_up(pool);
    end_pool(pool);
    CHECK(orphaned >= 100 * MIB);
    CHECK_EQUAL(1, device_waits);
    CHECK_EQUAL(1, state);
}

/* The event fence that tarn_stream_unregister() records would be a part of the graph. */
TEST(registered_stream_leaves_orphaned_memory_if_it_is_unregistered_while_it_captures)
{
    tarn_device_ptr blocks[8];
    tarn_stream raw, stream;
    void *graph = NULL;

    use_driver(0);
    tarn_resource *pool = new_pool(NULL);
    raw = new_stream();
    CHECK_OK(tarn_stream_register(0, raw, &stream));
    tarn_stream other = new_stream();
    for (int i = 0; i < 8; i++)
        blocks[i] = take(pool, 32 * MIB, stream);
    for (int i = 0; i < 8; i++)
        put(pool, blocks[i], 32 * MIB, stream);
    uint64_t unfenced = statistics(pool).unfenced;
    CHECK(unfenced > 0);
    CU(cuStreamBeginCapture_v2(raw, CAPTURE_GLOBAL));
    CHECK_OK(tarn_stream_unregister(stream));
    CU(cuStreamEndCapture(raw, &graph));
    CU(cuGraphDestroy(graph));
    for (size_t i = 0; i < 200; i++) { /* sizes that no thread cache has */
        tarn_device_ptr block = take(pool, 64 * KIB + 512 * i, other);
        put(pool, block, 64 * KIB + 512 * i, other);
    }
    CHECK(statistics(pool).orphaned > 0);
    CHECK(statistics(pool).orphaned <= unfenced);
    adds_up(pool);
    end_pool(pool);
    CU(cuStreamDestroy_v2(other));
    CU(cuStreamDestroy_v2(raw));
}
