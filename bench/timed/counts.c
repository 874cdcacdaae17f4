/* counts.c -- a check of the pool's statistic `driver_calls`, from the driver's side.
 *
 *     TARN_TIMED=build/release/lib/tarn/sim/libcuda.so.1 \
 *         TARN_DRIVER=build/release/bench/timed/libcuda.so.1 build/release/bin/bench-calls
 *
 * It runs seeded sequences of allocations and frees through a driver that counts calls
 * (libcuda.c), each with another kind of pool. After every step of a sequence the pool's
 * count must be the driver's. It prints a line for each sequence.
 */
#define _GNU_SOURCE
#include <tarn/tarn.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { STREAMS = 6, REGISTERED = 3, BLOCKS = 96, STEPS = 3000 };
#define MIB ((size_t)1 << 20)
#define SEED 88172645463325252ULL

#define MUST(call)                                                                       \
    do {                                                                                 \
        if ((call) != TARN_OK) {                                                         \
            fprintf(stderr, "bench-calls: %s: %s\n", #call, tarn_error_last()->message); \
            exit(1);                                                                     \
        }                                                                                \
    } while (0)

/* A sequence: the pool's options, and what happens besides allocations and frees. */
struct sequence {
    const char *name;
    tarn_pool_options options;
    size_t most_bytes;  /* of a block */
    unsigned no_stream; /* of 100 allocations and frees */
    bool is_busy;       /* the streams' work is not done */
    bool suspends, trims, ends_streams, captures, learns;
};

static const struct sequence sequences[] = {
    {.name = "steals", .most_bytes = MIB, .is_busy = true},
    {.name = "large blocks",
     .options = {.growth_bytes = 2 * MIB},
     .most_bytes = 12 * MIB,
     .trims = true},
    {.name = "moves",
     .options = {.growth_bytes = 2 * MIB, .maximum_bytes = 256 * MIB},
     .most_bytes = 12 * MIB,
     .trims = true},
    {.name = "moves, busy",
     .options = {.growth_bytes = 2 * MIB, .maximum_bytes = 256 * MIB},
     .most_bytes = 12 * MIB,
     .is_busy = true},
    {.name = "no stream",
     .options = {.no_stream_limit_bytes = 8 * MIB},
     .most_bytes = MIB,
     .no_stream = 50,
     .trims = true},
    {.name = "no stream, events",
     .options = {.no_stream_limit_bytes = 8 * MIB,
                 .no_stream_policy = TARN_POOL_NO_STREAM_EVENT},
     .most_bytes = MIB,
     .no_stream = 50},
    {.name = "suspended",
     .options = {.growth_bytes = 2 * MIB},
     .most_bytes = 4 * MIB,
     .no_stream = 10,
     .trims = true,
     .suspends = true},
    {.name = "streams that end",
     .most_bytes = 2 * MIB,
     .is_busy = true,
     .ends_streams = true},
    {.name = "captures", .most_bytes = MIB, .captures = true},
    {.name = "never moves",
     .options = {.moves = TARN_POOL_MOVES_NEVER, .maximum_bytes = 256 * MIB},
     .most_bytes = 12 * MIB,
     .trims = true},
    {.name = "learns", .options = {.learn = true}, .most_bytes = 4 * MIB, .learns = true},
};

static struct {
    tarn_resource *pool;
    tarn_stream raw[STREAMS], stream[STREAMS];
    struct {
        tarn_device_ptr address;
        size_t bytes;
    } blocks[BLOCKS];
    uint64_t others; /* calls of this program through the driver that counts */
    uint64_t random;
} at;

static uint64_t (*driver_calls)(void);
/* of the driver behind the one that counts */
static int (*begin_capture)(tarn_stream stream, int mode);
static int (*end_capture)(tarn_stream stream, void **graph);
static int (*destroy_graph)(void *graph);
static int (*launch)(tarn_stream stream, void (*call)(void *), void *data);
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;

static void wait_at_gate(void *data)
{
    (void)data;
    pthread_mutex_lock(&gate);
    pthread_mutex_unlock(&gate);
}

static size_t draw(size_t below)
{
    at.random ^= at.random << 13;
    at.random ^= at.random >> 7;
    at.random ^= at.random << 17;
    return (size_t)(at.random >> 11) % below;
}

static uint64_t pool_calls(void)
{
    tarn_pool_statistics statistics = {.size = sizeof statistics};

    MUST(tarn_pool_get_statistics(at.pool, &statistics));
    return statistics.driver_calls;
}

static void make_stream(int which, bool is_busy)
{
    uint64_t before = driver_calls(), pool_before = at.pool ? pool_calls() : 0;

    MUST(tarn_stream_create(0, true, &at.raw[which]));
    at.stream[which] = at.raw[which];
    if (which < REGISTERED)
        MUST(tarn_stream_register(0, at.raw[which], &at.stream[which]));
    if (is_busy && launch(at.raw[which], wait_at_gate, NULL))
        exit(1);
    at.others += driver_calls() - before - ((at.pool ? pool_calls() : 0) - pool_before);
}

static void end_stream(int which)
{
    uint64_t before = driver_calls(), pool_before = pool_calls();

    if (at.stream[which] != at.raw[which]) /* the pool records the last events */
        MUST(tarn_stream_unregister(at.stream[which]));
    uint64_t of_pool = pool_calls() - pool_before;
    MUST(tarn_stream_destroy(0, at.raw[which]));
    at.others += driver_calls() - before - of_pool;
}

static void allocate_or_free(const struct sequence *sequence)
{
    size_t slot = draw(BLOCKS);
    tarn_stream stream =
        draw(100) < sequence->no_stream ? TARN_STREAM_NONE : at.stream[draw(STREAMS)];

    if (at.blocks[slot].bytes) {
        MUST(tarn_resource_deallocate(at.pool, at.blocks[slot].address,
                                      at.blocks[slot].bytes, 0, stream));
        at.blocks[slot].bytes = 0;
        return;
    }
    size_t bytes = 1 + draw(draw(2) ? sequence->most_bytes : 64 << 10);
    tarn_device_ptr address;
    if (tarn_resource_allocate(at.pool, bytes, 0, stream, &address) == TARN_OK) {
        at.blocks[slot].address = address;
        at.blocks[slot].bytes = bytes;
    }
}

/* Allocate and free in a capture of the last stream, which is a raw one. */
static void capture(void)
{
    enum { RELAXED = 2 };
    tarn_stream stream = at.stream[STREAMS - 1];
    tarn_device_ptr address;
    void *graph;

    if (begin_capture(stream, RELAXED))
        exit(1);
    MUST(tarn_resource_allocate(at.pool, MIB, 0, stream, &address));
    MUST(tarn_resource_deallocate(at.pool, address, MIB, 0, stream));
    if (end_capture(stream, &graph) || destroy_graph(graph))
        exit(1);
}

static void free_all(void)
{
    for (int i = 0; i < BLOCKS; i++) {
        if (at.blocks[i].bytes)
            MUST(tarn_resource_deallocate(at.pool, at.blocks[i].address,
                                          at.blocks[i].bytes, 0, at.stream[i % STREAMS]));
        at.blocks[i].bytes = 0;
    }
}

/* End a step of the program; the next one makes the same calls. */
static void repeat(void)
{
    free_all();
    MUST(tarn_pool_mark_step(at.pool));
    at.random = SEED;
}

static void step(const struct sequence *sequence, int number)
{
    size_t bytes;

    allocate_or_free(sequence);
    if (sequence->trims && number % 500 == 499)
        MUST(tarn_resource_trim(at.pool, 0, &bytes));
    if (sequence->suspends && number % 700 == 699) {
        MUST(tarn_pool_suspend(at.pool, TARN_POOL_SUSPEND_KEEP));
        MUST(tarn_pool_resume(at.pool));
    }
    if (sequence->captures && number % 100 == 99)
        capture();
    if (sequence->learns && number % 250 == 249)
        repeat();
    if (sequence->ends_streams && number % 50 == 49) {
        int which = (int)draw(STREAMS);
        end_stream(which);
        make_stream(which, sequence->is_busy);
    }
}

/* Return the number of calls, or exit if the two counts differ. */
static uint64_t compare(const struct sequence *sequence, uint64_t start, int number)
{
    uint64_t of_pool = pool_calls(), of_driver = driver_calls() - start - at.others;

    if (of_pool == of_driver)
        return of_pool;
    fprintf(stderr, "bench-calls: %s, step %d: the pool counts %llu, the driver %llu\n",
            sequence->name, number, (unsigned long long)of_pool,
            (unsigned long long)of_driver);
    exit(1);
}

static void run(const struct sequence *sequence)
{
    tarn_pool_options options = sequence->options;
    uint64_t calls = 0, created;

    at.random = SEED;
    at.pool = NULL;
    pthread_mutex_lock(&gate);
    for (int i = 0; i < STREAMS; i++)
        make_stream(i, sequence->is_busy);
    options.size = sizeof options;
    options.oom_policy = sequence->is_busy ? TARN_POOL_OOM_FAIL : options.oom_policy;
    at.others = 0;
    uint64_t start = driver_calls();
    MUST(tarn_pool_create(0, NULL, &options, &at.pool));
    created = compare(sequence, start, -1);
    for (int i = 0; i < STEPS; i++) {
        step(sequence, i);
        calls = compare(sequence, start, i);
    }
    pthread_mutex_unlock(&gate);
    free_all();
    printf("%-18s %6d steps, %7llu driver calls, %llu of them to create the pool\n",
           sequence->name, STEPS, (unsigned long long)calls, (unsigned long long)created);
    for (int i = 0; i < STREAMS; i++)
        end_stream(i);
    tarn_resource_release(at.pool);
}

int main(void)
{
    const char *name = getenv("TARN_DRIVER"), *real = getenv("TARN_TIMED");
    tarn_driver_info info;

    MUST(tarn_driver_get_info(&info)); /* Tarn loads the first one itself */
    void *timed = name ? dlopen(name, RTLD_NOW | RTLD_LOCAL) : NULL;
    void *driver = real ? dlopen(real, RTLD_NOW | RTLD_LOCAL) : NULL;

    if (timed)
        *(void **)&driver_calls = dlsym(timed, "tarn_timed_calls");
    if (driver) {
        *(void **)&launch = dlsym(driver, "cuLaunchHostFunc");
        *(void **)&begin_capture = dlsym(driver, "cuStreamBeginCapture_v2");
        *(void **)&end_capture = dlsym(driver, "cuStreamEndCapture");
        *(void **)&destroy_graph = dlsym(driver, "cuGraphDestroy");
    }
    if (!driver_calls || !launch || !begin_capture || !end_capture || !destroy_graph) {
        fprintf(stderr, "bench-calls: set TARN_DRIVER to the driver that counts, and "
                        "TARN_TIMED to the one behind it\n");
        return 1;
    }
    for (size_t i = 0; i < sizeof sequences / sizeof *sequences; i++)
        run(&sequences[i]);
    return 0;
}
