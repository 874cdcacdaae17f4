/* pool_counts.c -- repeat one path of the pool, for counting its instructions.
 *
 *     valgrind --tool=callgrind --toggle-collect=bench_measured bench-pool_counts PATH
 *
 * tools/instructions.py runs it so and compares with bench/instructions.txt. Only the
 * instructions in bench_measured() are counted, ROUNDS times the path. Without a path it
 * lists them. The driver is bench/null, which does nothing, so that each run is the same.
 */
#define _GNU_SOURCE
#include "bench.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The clock stands still, also for libtarn: decisions by time are the same in each run. */
__attribute__((visibility("default"))) int clock_gettime(clockid_t clock,
                                                         struct timespec *time)
{
    (void)clock;
    *time = (struct timespec){.tv_sec = 1};
    return 0;
}

enum { ROUNDS = 1000, WARM = 2000, HOLES = 65536, SMALL = 1024, GENERAL = 64 << 20 };

static tarn_resource *resource;
static tarn_stream raw[2], registered[2];

static tarn_device_ptr get(size_t bytes, tarn_stream stream)
{
    tarn_device_ptr block = 0;

    bench_must(tarn_resource_allocate(resource, bytes, 0, stream, &block), "allocate");
    return block;
}

static void put(tarn_device_ptr block, size_t bytes, tarn_stream stream)
{
    bench_must(tarn_resource_deallocate(resource, block, bytes, 0, stream), "free");
}

/* The counted function. Not inlined, so that callgrind knows it by its name. */
void bench_measured(void (*path)(void));
__attribute__((noinline)) void bench_measured(void (*path)(void))
{
    for (int i = 0; i < ROUNDS; i++)
        path();
}

static void small_registered(void)
{
    put(get(SMALL, registered[0]), SMALL, registered[0]);
}

static void small_raw(void)
{
    put(get(SMALL, raw[0]), SMALL, raw[0]);
}

static void last_freed_registered(void)
{
    put(get(GENERAL, registered[0]), GENERAL, registered[0]);
}

static void last_freed_raw(void)
{
    put(get(GENERAL, raw[0]), GENERAL, raw[0]);
}

/* No size twice in a row, so that each allocation searches the heap. */
static void general(tarn_stream stream)
{
    static size_t turn;
    size_t bytes = GENERAL + (turn++ % 2) * SMALL;

    put(get(bytes, stream), bytes, stream);
}

static void general_registered(void)
{
    general(registered[0]);
}

static void general_raw(void)
{
    general(raw[0]);
}

/* Three neighbours, the middle one last: it merges with both. */
static void merge(void)
{
    tarn_device_ptr blocks[3];

    for (int i = 0; i < 3; i++)
        blocks[i] = get(GENERAL, registered[0]);
    put(blocks[0], GENERAL, registered[0]);
    put(blocks[2], GENERAL, registered[0]);
    put(blocks[1], GENERAL, registered[0]);
}

/* Pass the memory of one stream to the other and back. */
static void exchange(void)
{
    for (int i = 0; i < 2; i++)
        put(get(GENERAL, registered[i]), GENERAL, registered[i]);
}

static void make_holes(void)
{
    tarn_device_ptr *blocks = bench_allocate(2 * HOLES, sizeof *blocks);

    for (size_t i = 0; i < 2 * HOLES; i++)
        blocks[i] = get(512, registered[0]);
    for (size_t i = 0; i < 2 * HOLES; i += 2)
        put(blocks[i], 512, registered[0]);
    free(blocks); /* the odd ones stay live until the process ends */
}

static const struct {
    const char *name;
    void (*run)(void);
    bool holes;
} paths[] = {
    {"thread-cache-pair-registered", small_registered, false},
    {"thread-cache-pair-raw", small_raw, false},
    {"last-freed-pair-registered", last_freed_registered, false},
    {"last-freed-pair-raw", last_freed_raw, false},
    {"slow-path-pair-registered", general_registered, false},
    {"slow-path-pair-raw", general_raw, false},
    {"three-and-coalesce", merge, false},
    {"exchange-of-two-streams", exchange, false},
    {"slow-path-pair-65536-holes", general_registered, true},
};

int main(int argc, char **argv)
{
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        if (argc < 2)
            puts(paths[i].name);
        if (argc < 2 || strcmp(argv[1], paths[i].name) != 0)
            continue;
        resource = bench_resource("pool", 0);
        for (int s = 0; s < 2; s++) {
            bench_must(tarn_stream_create(0, true, &raw[s]), "stream");
            bench_must(tarn_stream_register(0, raw[s], &registered[s]), "open");
        }
        if (paths[i].holes)
            make_holes();
        for (int k = 0; k < WARM; k++)
            paths[i].run();
        bench_measured(paths[i].run);
        return 0;
    }
    if (argc > 1)
        bench_die("there is no path %s", argv[1]);
    return 0;
}
