/* holds.c -- how long each operation holds the locks of a large pool.
 *
 *     bench-holds [--blocks N] [--holes N] [--streams N] [--unmapped N] [--rounds N]
 *         [--least US] [--most US]
 *
 * A pool gets `blocks` live blocks, `holes` free ones between them, and `streams`
 * streams, every second of them registered. A second pool gets `unmapped` unmapped
 * ranges. Each operation then runs on them. The program prints for each operation the
 * longest CPU time under a lock, with the function that took the lock, and all other
 * sites above `least`. It exits with 1 if a hold is longer than `most`.
 *
 * The operations run in several rounds, and each hold counts as in its shortest round. So
 * an interrupt in one round does not count. The operation `(nothing)` is a lock that is
 * taken and released at once: its longest hold comes from the machine. `over aim` counts
 * the holds over `most`. The program runs on the simulator:
 *
 *     cmake --build --preset release --target bench-holds
 *     build/release/bin/bench-holds
 */
#define _GNU_SOURCE
#include "sites.h"
#include <getopt.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <tarn/tarn.h>

enum { SMALL = 1024, MIXED = 20000, PAGE = 2 << 20, QUERIES = 5 };

static struct {
    size_t blocks, holes, streams, unmapped, rounds;
    double least_us, most_us;
} options = {.blocks = 1000000,
             .holes = 500000,
             .streams = 1000,
             .unmapped = 20000,
             .rounds = 3,
             .least_us = 50,
             .most_us = 50};

static tarn_resource *pool;
static tarn_stream *raw, *streams;
static tarn_device_ptr *blocks;
static size_t block_count;

static void must(tarn_status status, const char *what)
{
    if (status == TARN_OK)
        return;
    fprintf(stderr, "bench-holds: %s: %s (%s)\n", what, tarn_status_name(status),
            tarn_error_last()->message);
    exit(1);
}

static void *allocate_host(size_t count, size_t size)
{
    void *memory = calloc(count, size);

    if (!memory) {
        fprintf(stderr, "bench-holds: no host memory\n");
        exit(1);
    }
    return memory;
}

/* --- operations --------------------------------------------------------------------- */

static tarn_device_ptr get(size_t bytes, size_t stream)
{
    tarn_device_ptr block;

    must(
        tarn_resource_allocate(pool, bytes, 0, streams[stream % options.streams], &block),
        "allocate");
    return block;
}

static void put(tarn_device_ptr block, size_t bytes, size_t stream)
{
    must(tarn_resource_deallocate(pool, block, bytes, 0,
                                  streams[stream % options.streams]),
         "free");
}

static bool visit(void *data, const tarn_pool_block *block)
{
    (void)block;
    ++*(size_t *)data;
    return true;
}

static void query(void)
{
    tarn_pool_statistics statistics = {.size = sizeof statistics};
    size_t visited = 0;

    bench_sites_operation("statistics");
    for (int i = 0; i < QUERIES; i++)
        must(tarn_pool_get_statistics(pool, &statistics), "statistics");
    bench_sites_operation("snapshot");
    must(tarn_pool_snapshot(pool, visit, &visited), "snapshot");
}

/* Sizes that thread caches rarely have, on streams in turn. */
static size_t mixed_size(size_t i)
{
    return SMALL * (1 + i * 2654435761u % 61);
}

static void mix(void)
{
    static tarn_device_ptr held[MIXED];

    bench_sites_operation("allocate");
    for (size_t i = 0; i < MIXED; i++)
        held[i] = get(mixed_size(i), i);
    bench_sites_operation("free");
    for (size_t i = 0; i < MIXED; i++)
        put(held[i], mixed_size(i), i);
    bench_sites_operation("free on another stream");
    for (size_t i = 0; i < MIXED; i++)
        held[i] = get(mixed_size(i), i);
    for (size_t i = 0; i < MIXED; i++)
        put(held[i], mixed_size(i), i + 1);
}

static void *mix_in_a_thread(void *unused)
{
    (void)unused;
    mix();
    bench_sites_operation("end of a thread");
    return NULL;
}

static void trim(void)
{
    size_t released;

    bench_sites_operation("trim");
    must(tarn_resource_trim(pool, 0, &released), "trim");
}

static void create(const tarn_pool_options *pool_options)
{
    bench_sites_operation("create");
    must(tarn_pool_create(0, NULL, pool_options, &pool), "pool");
    for (size_t i = 0; i < options.streams; i++) {
        must(tarn_stream_create(0, true, &raw[i]), "stream");
        streams[i] = raw[i];
        if (i % 2)
            must(tarn_stream_register(0, raw[i], &streams[i]), "register");
    }
}

static void end(void)
{
    bench_sites_operation("unregister, destroy");
    for (size_t i = 0; i < options.streams; i++) {
        if (i % 2)
            must(tarn_stream_unregister(streams[i]), "unregister");
        must(tarn_stream_destroy(0, raw[i]), "stream");
    }
    bench_sites_operation("allocate after streams");
    tarn_device_ptr block;
    must(tarn_resource_allocate(pool, 64 << 20, 0, NULL, &block), "allocate");
    must(tarn_resource_deallocate(pool, block, 64 << 20, 0, NULL), "free");
    trim();
    bench_sites_operation("release");
    must(tarn_resource_release(pool), "release");
}

/* Hold a lock for nothing, as often as a block is allocated. The longest such hold is
 * what the machine adds, by interrupts for example. */
static void hold_nothing(void)
{
    uint64_t taken_ns;
    void *code;

    bench_sites_operation(BENCH_SITES_NOTHING);
    for (size_t i = 0; i < options.blocks; i++) {
        tarn__lock_taken(&taken_ns, &code);
        tarn__lock_released(taken_ns, code);
    }
}

/* --- a pool of many blocks ---------------------------------------------------------- */

/* Free 200,000 blocks without a stream: the next large request waits for the device. */
static void free_without_stream(size_t begin, size_t count)
{
    bench_sites_operation("no-stream free");
    for (size_t i = begin; i < block_count && count; i++)
        if (blocks[i]) {
            must(tarn_resource_deallocate(pool, blocks[i], SMALL, 0, TARN_STREAM_NONE),
                 "free");
            blocks[i] = 0;
            count--;
        }
    bench_sites_operation("allocate after no-stream");
    put(get(256 << 20, 0), 256 << 20, 0);
}

static void run_blocks(void)
{
    pthread_t thread;
    size_t every;

    block_count = options.blocks + options.holes;
    blocks = allocate_host(block_count, sizeof *blocks);
    create(NULL);
    bench_sites_operation("allocate, growing");
    for (size_t i = 0; i < block_count; i++)
        blocks[i] = get(SMALL, i);
    bench_sites_operation("free, making holes");
    every = options.holes ? block_count / options.holes : block_count + 1;
    for (size_t i = 0; i < block_count; i += every) {
        put(blocks[i], SMALL, i);
        blocks[i] = 0;
    }
    bench_sites_operation("synchronize, allocate");
    must(tarn_driver_synchronize(0), "synchronize");
    put(get(1 << 20, 1), 1 << 20, 1);
    mix();
    query();
    if (pthread_create(&thread, NULL, mix_in_a_thread, NULL) == 0)
        pthread_join(thread, NULL);
    trim();
    free_without_stream(block_count / 4, 200000);
    query();
    bench_sites_operation("free, all");
    for (size_t i = 0; i < block_count; i++)
        if (blocks[i])
            put(blocks[i], SMALL, i);
    end();
    free(blocks);
}

/* --- a pool of many unmapped ranges ------------------------------------------------- */

static void run_unmapped(void)
{
    const tarn_pool_options small_steps = {.size = sizeof small_steps,
                                           .growth_bytes = PAGE};

    block_count = 2 * options.unmapped;
    blocks = allocate_host(block_count, sizeof *blocks);
    create(&small_steps);
    bench_sites_operation("unmapped: growing");
    for (size_t i = 0; i < block_count; i++)
        blocks[i] = get(PAGE, 0);
    bench_sites_operation("unmapped: free");
    for (size_t i = 0; i < block_count; i += 2)
        put(blocks[i], PAGE, 0);
    bench_sites_operation("unmapped: trim");
    must(tarn_driver_synchronize(0), "synchronize");
    must(tarn_resource_trim(pool, 0, NULL), "trim");
    bench_sites_operation("unmapped: allocate, free");
    for (size_t i = 0; i < 200; i++)
        put(get(PAGE * (1 + i % 8), i), PAGE * (1 + i % 8), i);
    query();
    for (size_t i = 1; i < block_count; i += 2)
        put(blocks[i], PAGE, 0);
    end();
    free(blocks);
}

/* --- the command line --------------------------------------------------------------- */

static void take_options(int argc, char **argv)
{
    static const struct option known[] = {{"blocks", required_argument, NULL, 'b'},
                                          {"holes", required_argument, NULL, 'h'},
                                          {"streams", required_argument, NULL, 's'},
                                          {"unmapped", required_argument, NULL, 'u'},
                                          {"rounds", required_argument, NULL, 'r'},
                                          {"least", required_argument, NULL, 'l'},
                                          {"most", required_argument, NULL, 'm'},
                                          {NULL, 0, NULL, 0}};
    int option;

    while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
        size_t number = optarg ? strtoull(optarg, NULL, 10) : 0;
        if (option == 'b')
            options.blocks = number;
        else if (option == 'h')
            options.holes = number;
        else if (option == 's' && number > 0)
            options.streams = number;
        else if (option == 'u')
            options.unmapped = number;
        else if (option == 'r')
            options.rounds = number;
        else if (option == 'l')
            options.least_us = strtod(optarg, NULL);
        else if (option == 'm')
            options.most_us = strtod(optarg, NULL);
        else
            exit(2);
    }
}

int main(int argc, char **argv)
{
    take_options(argc, argv);
    setenv("TARN_SIM", "memory=256GiB", 0);
    must(tarn_driver_open(TARN_SIM_PATH), "the simulator");
    raw = allocate_host(options.streams, sizeof *raw);
    streams = allocate_host(options.streams, sizeof *streams);
    for (size_t round = 0; round < options.rounds; round++) {
        bench_sites_begin();
        hold_nothing();
        run_blocks();
        if (options.unmapped)
            run_unmapped();
    }
    free(raw);
    free(streams);
    return bench_sites_print(options.least_us, options.most_us) ? 0 : 1;
}
