/* background.c -- measure growth with and without a pool's background thread.
 *
 *     bench-background [--bytes SIZE] [--rounds N] [--json FILE]
 *
 * In each round a new pool grows from nothing to SIZE (10 GiB), by blocks of 1 to 16 MiB
 * that stay live. A round pauses for 0, 20 or 100 us after each allocation, as a program
 * that queues work does. Meanwhile a second thread queues fills of 256 bytes on a stream
 * of its own (cuMemsetD8Async). The tables have:
 *
 *    allocations  time of each allocation of the first pass; how many of them grew the
 *                 pool themselves
 *    launches     time of each fill during the growth; `none`: without growth
 *
 * Then an idle pool holds SIZE, and the device's memory becomes scarce. The last table
 * has the time until the pool has returned its memory.
 *
 * The figures are of a GPU: on the simulator a growth costs nearly nothing.
 */
#define _GNU_SOURCE
#include "bench.h"
#include <getopt.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MIB ((uint64_t)1 << 20)

enum { SAMPLES_MAX = 1 << 22, BLOCKS_MAX = 1 << 20, BATCH = 32, SCARCE_MS = 5000 };

static struct {
    uint64_t bytes;
    unsigned rounds;
} bench = {.bytes = (uint64_t)10 << 30, .rounds = 20};

/* Times of single calls. */
struct samples {
    uint64_t *ns;
    size_t count;
};

static void add(struct samples *samples, uint64_t ns)
{
    if (samples->count < SAMPLES_MAX)
        samples->ns[samples->count++] = ns;
}

static void tell(const char *what, const char *subject, struct samples *samples)
{
    static const double shares[] = {0.5, 0.99, 0.999, 1};
    static const char *const names[] = {"p50", "p99", "p99.9", "max"};
    uint64_t sum = 0;

    for (size_t i = 0; i < samples->count; i++)
        sum += samples->ns[i];
    bench_sort(samples->ns, samples->count);
    printf("%-12s %-26s %9zu %9.0f", what, subject, samples->count,
           samples->count ? (double)sum / (double)samples->count : 0);
    for (size_t i = 0; i < sizeof shares / sizeof *shares; i++) {
        double ns =
            samples->count ? bench_percentile(samples->ns, samples->count, shares[i]) : 0;
        printf(" %9.0f", ns);
        bench_result(subject, what, names[i], ns);
    }
    printf("\n");
}

/* --- the thread that launches --- */

static struct {
    pthread_t thread;
    tarn_device_ptr target;
    struct samples samples;
    atomic_bool records, stops;
} launcher;

static void *launch(void *unused)
{
    tarn_stream stream;

    (void)unused;
    bench_make_current();
    bench_must(tarn_stream_create(0, true, &stream), "stream");
    while (!atomic_load(&launcher.stops)) {
        for (int i = 0; i < BATCH; i++) {
            uint64_t start = bench_now_ns();
            bench_fill(launcher.target, 256, stream);
            uint64_t end = bench_now_ns();
            if (atomic_load(&launcher.records))
                add(&launcher.samples, end - start);
        }
        bench_must(tarn_stream_synchronize(0, stream), "synchronize"); /* not timed */
    }
    bench_must(tarn_stream_destroy(0, stream), "stream");
    return NULL;
}

static void start_launching(void)
{
    launcher.samples.count = 0;
    atomic_store(&launcher.stops, false);
    if (pthread_create(&launcher.thread, NULL, launch, NULL) != 0)
        bench_die("no thread");
    usleep(20 * 1000); /* the first fills load modules */
}

static void stop_launching(void)
{
    atomic_store(&launcher.stops, true);
    pthread_join(launcher.thread, NULL);
}

/* --- growth --- */

static void pause_us(unsigned us)
{
    uint64_t end = bench_now_ns() + (uint64_t)us * 1000;

    while (us > 0 && bench_now_ns() < end)
        continue;
}

static struct {
    tarn_device_ptr block;
    uint64_t bytes;
} blocks[BLOCKS_MAX];

/* Allocate up to SIZE; returns the number of blocks. */
static size_t grow(tarn_resource *pool, unsigned us, struct samples *samples)
{
    uint64_t total = 0, random = 7;
    size_t count = 0;

    while (total < bench.bytes && count < BLOCKS_MAX) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        blocks[count].bytes = ((random >> 33) % 16 + 1) * MIB;
        uint64_t start = bench_now_ns();
        bench_must(tarn_resource_allocate(pool, blocks[count].bytes, 0, NULL,
                                          &blocks[count].block),
                   "allocate");
        add(samples, bench_now_ns() - start);
        total += blocks[count++].bytes;
        pause_us(us);
    }
    return count;
}

static void free_all(tarn_resource *pool, size_t count)
{
    for (size_t i = 0; i < count; i++)
        bench_must(
            tarn_resource_deallocate(pool, blocks[i].block, blocks[i].bytes, 0, NULL),
            "free");
}

static void measure_growth(const char *spec, const char *name, unsigned us)
{
    struct samples samples = {bench_allocate(SAMPLES_MAX, sizeof(uint64_t)), 0};
    tarn_pool_statistics all = {.size = sizeof all};
    uint64_t grown = 0;
    char subject[64];

    snprintf(subject, sizeof subject, "%s, %u us apart", name, us);
    start_launching();
    for (unsigned i = 0; i < bench.rounds; i++) {
        tarn_resource *pool = bench_resource(spec, 0);
        atomic_store(&launcher.records, true);
        size_t count = grow(pool, us, &samples);
        atomic_store(&launcher.records, false);
        bench_must(tarn_pool_get_statistics(pool, &all), "statistics");
        grown += all.grown;
        free_all(pool, count);
        bench_must(tarn_resource_release(pool), "release");
    }
    stop_launching();
    tell("allocations", subject, &samples);
    printf("%-12s %-26s %9llu of %zu allocations grew the pool\n", "", "",
           (unsigned long long)grown, samples.count);
    bench_result(subject, "allocations", "grown", (double)grown);
    tell("launches", subject, &launcher.samples);
    free(samples.ns);
}

static void measure_launches_alone(void)
{
    start_launching();
    atomic_store(&launcher.records, true);
    usleep(500 * 1000);
    atomic_store(&launcher.records, false);
    stop_launching();
    tell("launches", "none", &launcher.samples);
}

/* --- scarcity --- */

/* Let a quarter of the bound of scarcity be left on the device; returns the block. */
static tarn_device_ptr take_device(tarn_resource *cuda, size_t *bytes_out)
{
    size_t free_bytes, total_bytes;
    tarn_device_ptr block = 0;

    bench_must(tarn_resource_memory_info(cuda, NULL, &free_bytes, &total_bytes), "info");
    *bytes_out = free_bytes > 512 * MIB ? free_bytes - 512 * MIB : 0;
    bench_must(tarn_resource_allocate(cuda, *bytes_out, 0, NULL, &block), "allocate");
    return block;
}

static void measure_return(void)
{
    struct samples samples = {bench_allocate(SAMPLES_MAX, sizeof(uint64_t)), 0};
    tarn_resource *cuda = bench_resource("cuda", 0);
    tarn_pool_statistics all = {.size = sizeof all};
    size_t bytes;

    for (unsigned i = 0; i < bench.rounds; i++) {
        tarn_resource *pool = bench_resource("pool:background_thread", 0);
        free_all(pool, grow(pool, 0, &(struct samples){samples.ns, SAMPLES_MAX}));
        usleep(600 * 1000 + i * 13000);
        tarn_device_ptr theirs = take_device(cuda, &bytes);
        uint64_t start = bench_now_ns();
        do {
            usleep(1000);
            bench_must(tarn_pool_get_statistics(pool, &all), "statistics");
        } while (all.reserved > 0 && bench_now_ns() - start < SCARCE_MS * 1000000ull);
        add(&samples, bench_now_ns() - start);
        bench_must(tarn_resource_deallocate(cuda, theirs, bytes, 0, NULL), "free");
        bench_must(tarn_resource_release(pool), "release");
    }
    tell("returns", "scarcity to 0 reserved", &samples);
    free(samples.ns);
    tarn_resource_release(cuda);
}

static void take_options(int argc, char **argv, const char **json)
{
    static const struct option known[] = {{"bytes", required_argument, NULL, 'b'},
                                          {"rounds", required_argument, NULL, 'r'},
                                          {"json", required_argument, NULL, 'j'},
                                          {NULL, 0, NULL, 0}};
    int option;

    while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
        if (option == '?')
            exit(2);
        if (option == 'b')
            bench.bytes = bench_bytes(optarg);
        else if (option == 'r')
            bench.rounds = (unsigned)strtoul(optarg, NULL, 10);
        else
            *json = optarg;
    }
}

int main(int argc, char **argv)
{
    static const unsigned pauses[] = {0, 20, 100};
    const char *json = NULL;
    tarn_resource *cuda;

    take_options(argc, argv, &json);
    setenv("TARN_SIM", "memory=128GiB", 0);
    bench_results_open("background", json);
    bench_make_current();
    cuda = bench_resource("cuda", 0);
    bench_must(tarn_resource_allocate(cuda, 256, 0, NULL, &launcher.target), "allocate");
    launcher.samples.ns = bench_allocate(SAMPLES_MAX, sizeof(uint64_t));
    printf("%-12s %-26s %9s %9s %9s %9s %9s %9s\n", "ns", "", "calls", "mean", "p50",
           "p99", "p99.9", "max");
    measure_launches_alone();
    for (size_t i = 0; i < sizeof pauses / sizeof *pauses; i++) {
        measure_growth("pool", "no thread", pauses[i]);
        measure_growth("pool:background_thread", "thread", pauses[i]);
    }
    measure_return();
    bench_must(tarn_resource_deallocate(cuda, launcher.target, 256, 0, NULL), "free");
    tarn_resource_release(cuda);
    free(launcher.samples.ns);
    bench_results_close();
    return 0;
}
