/* pool.c -- measure the cost of a pool's calls: sizes, streams, threads, live blocks,
 * unmapped ranges.
 *
 *     bench-pool [--resource SPEC] [--quick] [--json FILE]
 *
 * SPEC as in bench/support/bench.h; the default is `pool`. A pair is an allocation and
 * its free. Medians are of batches; percentiles are of single pairs, without the time of
 * reading the clock. It runs on the simulator, where only the pool's own time is
 * meaningful, and on a GPU.
 */
#define _GNU_SOURCE
#include "bench.h"
#include <getopt.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum {
    BATCHES = 31,
    PAIRS = 2000,
    SINGLES = 1000000,
    HOLES = 65536,
    HOLE_BYTES = 512,
    THREADS_MAX = 16,
    LIVE_MAX = 100000,
    STEALS = 400
};

static struct {
    const char *spec;
    tarn_resource *resource;
    unsigned shrink; /* repetitions are divided by this: --quick */
} bench = {.spec = "pool", .shrink = 1};

enum stream_kind { RAW, REGISTERED, DEFAULT, STREAM_KINDS };
static const char *const kind_names[] = {"raw", "registered", "default"};

struct stream {
    tarn_stream raw, stream;
};

static struct stream stream_of(enum stream_kind kind)
{
    struct stream stream = {TARN_STREAM_DEFAULT, TARN_STREAM_DEFAULT};

    if (kind == DEFAULT)
        return stream;
    bench_must(tarn_stream_create(0, true, &stream.raw), "stream");
    stream.stream = stream.raw;
    if (kind == REGISTERED)
        bench_must(tarn_stream_register(0, stream.raw, &stream.stream), "open");
    return stream;
}

static void stream_end(struct stream stream)
{
    if (stream.stream != stream.raw)
        bench_must(tarn_stream_unregister(stream.stream), "close");
    if (stream.raw)
        bench_must(tarn_stream_destroy(0, stream.raw), "stream");
}

static tarn_device_ptr get(size_t bytes, tarn_stream stream)
{
    tarn_device_ptr block;

    bench_must(tarn_resource_allocate(bench.resource, bytes, 0, stream, &block),
               "allocate");
    return block;
}

static void put(tarn_device_ptr block, size_t bytes, tarn_stream stream)
{
    bench_must(tarn_resource_deallocate(bench.resource, block, bytes, 0, stream), "free");
}

/* The median of batches of pairs, ns per pair. */
static double pair_ns(size_t bytes, tarn_stream stream)
{
    double ns[BATCHES];
    unsigned pairs = PAIRS / bench.shrink;

    for (unsigned i = 0; i < pairs / 10; i++)
        put(get(bytes, stream), bytes, stream);
    for (unsigned b = 0; b < BATCHES; b++) {
        uint64_t start = bench_now_ns();
        for (unsigned i = 0; i < pairs; i++)
            put(get(bytes, stream), bytes, stream);
        ns[b] = (double)(bench_now_ns() - start) / pairs;
    }
    return bench_median(ns, BATCHES);
}

static void report_result(const char *what, const char *metric, double value)
{
    printf("%-40s %-24s %14.1f\n", what, metric, value);
    fflush(stdout);
    bench_result(bench.spec, what, metric, value);
}

static void measure_sizes(void)
{
    static const size_t sizes[] = {256, 4096, 65536, 65537, 1 << 20, 64 << 20, 1 << 30};

    for (int kind = 0; kind < STREAM_KINDS; kind++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            struct stream stream = stream_of((enum stream_kind)kind);
            char what[64];
            snprintf(what, sizeof what, "pair of %zu, %s stream", sizes[i],
                     kind_names[kind]);
            report_result(what, "ns", pair_ns(sizes[i], stream.stream));
            stream_end(stream);
        }
}

/* --- percentiles ----------------------------------------------------------------------- */

static uint64_t clock_ns(void)
{
    uint64_t best = UINT64_MAX;

    for (int i = 0; i < 1000; i++) {
        uint64_t start = bench_now_ns(), took = bench_now_ns() - start;
        best = took < best ? took : best;
    }
    return best;
}

static void tell_percentiles(const char *what, uint64_t *ns, size_t count)
{
    static const struct {
        const char *name;
        double share;
    } shares[] = {{"p50 ns", 0.5},     {"p90 ns", 0.9},       {"p99 ns", 0.99},
                  {"p99.9 ns", 0.999}, {"p99.99 ns", 0.9999}, {"longest ns", 1}};

    bench_sort(ns, count);
    for (size_t i = 0; i < sizeof shares / sizeof *shares; i++)
        report_result(what, shares[i].name, bench_percentile(ns, count, shares[i].share));
}

static void measure_percentiles(void)
{
    size_t count = SINGLES / bench.shrink;
    uint64_t *ns = bench_allocate(count, sizeof *ns), clock = clock_ns();
    struct stream stream = stream_of(REGISTERED);

    for (size_t i = 0; i < count; i++) {
        size_t bytes = (size_t)256 << (i * 7 % 14);
        uint64_t start = bench_now_ns();
        put(get(bytes, stream.stream), bytes, stream.stream);
        uint64_t took = bench_now_ns() - start;
        ns[i] = took > clock ? took - clock : 0;
    }
    tell_percentiles("pair of 256 B to 2 MiB, no growth", ns, count);
    stream_end(stream);
    free(ns);
}

/* Allocations without frees: some of them grow the pool. */
static void measure_growth(void)
{
    size_t count = 4096 / bench.shrink, bytes = 1 << 20;
    uint64_t *ns = bench_allocate(count, sizeof *ns);
    tarn_device_ptr *blocks = bench_allocate(count, sizeof *blocks);
    struct stream stream = stream_of(REGISTERED);

    for (size_t i = 0; i < count; i++) {
        uint64_t start = bench_now_ns();
        blocks[i] = get(bytes, stream.stream);
        ns[i] = bench_now_ns() - start;
    }
    for (size_t i = 0; i < count; i++)
        put(blocks[i], bytes, stream.stream);
    tell_percentiles("allocation of 1 MiB, growing", ns, count);
    stream_end(stream);
    free(blocks);
    free(ns);
}

/* --- threads --------------------------------------------------------------------------- */

struct worker {
    pthread_t thread;
    struct stream stream;
    unsigned long pairs;
    pthread_barrier_t *start;
    uint64_t began, ended;
};

static void *work(void *data)
{
    struct worker *worker = data;

    pthread_barrier_wait(worker->start);
    worker->began = bench_now_ns();
    for (unsigned long i = 0; i < worker->pairs; i++) {
        size_t bytes = (size_t)256 << (i % 8);
        put(get(bytes, worker->stream.stream), bytes, worker->stream.stream);
    }
    worker->ended = bench_now_ns();
    return NULL;
}

static void run_threads(unsigned count, enum stream_kind kind, bool one_stream)
{
    struct worker workers[THREADS_MAX];
    struct stream one = stream_of(kind);
    pthread_barrier_t start;
    char what[64];
    unsigned long pairs = 200000 / bench.shrink;

    pthread_barrier_init(&start, NULL, count);
    for (unsigned i = 0; i < count; i++) {
        workers[i] = (struct worker){.stream = one_stream ? one : stream_of(kind),
                                     .pairs = pairs,
                                     .start = &start};
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0)
            bench_die("no thread");
    }
    uint64_t began = UINT64_MAX, ended = 0;
    for (unsigned i = 0; i < count; i++) {
        pthread_join(workers[i].thread, NULL);
        began = workers[i].began < began ? workers[i].began : began;
        ended = workers[i].ended > ended ? workers[i].ended : ended;
    }
    double took = (double)(ended - began);
    for (unsigned i = 0; i < count && !one_stream; i++)
        stream_end(workers[i].stream);
    stream_end(one);
    pthread_barrier_destroy(&start);
    snprintf(what, sizeof what, "%u threads, %s, %s stream", count,
             one_stream ? "one" : "own", kind_names[kind]);
    report_result(what, "M pairs/s", (double)count * (double)pairs / took * 1e3);
}

static void measure_threads(void)
{
    for (unsigned count = 1; count <= THREADS_MAX; count *= 2) {
        run_threads(count, REGISTERED, false);
        run_threads(count, RAW, false);
        run_threads(count, REGISTERED, true);
    }
}

/* --- existing blocks ---------------------------------------------------------------- */

static uint64_t metadata(void)
{
    tarn_pool_statistics statistics = {.size = sizeof statistics};

    if (!bench_is_pool(bench.spec))
        return 0;
    bench_must(tarn_pool_get_statistics(bench.resource, &statistics), "statistics");
    return statistics.metadata;
}

/* Replace one of `count` live blocks after the other. */
static void measure_live(size_t count)
{
    tarn_device_ptr *blocks = bench_allocate(count, sizeof *blocks);
    struct stream stream = stream_of(REGISTERED);
    uint64_t before = metadata(), random = 1;
    size_t bytes = 1024, pairs = 200000 / bench.shrink;
    char what[64];

    for (size_t i = 0; i < count; i++)
        blocks[i] = get(bytes, stream.stream);
    uint64_t after = metadata(), start = bench_now_ns();
    for (size_t i = 0; i < pairs; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        size_t at = (size_t)(random >> 33) % count;
        put(blocks[at], bytes, stream.stream);
        blocks[at] = get(bytes, stream.stream);
    }
    double ns = (double)(bench_now_ns() - start) / (double)pairs;
    for (size_t i = 0; i < count; i++)
        put(blocks[i], bytes, stream.stream);
    snprintf(what, sizeof what, "replace one of %zu live blocks", count);
    report_result(what, "ns", ns);
    if (after > before)
        report_result(what, "host bytes a block",
                      (double)(after - before) / (double)count);
    stream_end(stream);
    free(blocks);
}

static void measure_holes(void)
{
    size_t count = 2 * HOLES;
    tarn_device_ptr *blocks = bench_allocate(count, sizeof *blocks);
    struct stream stream = stream_of(REGISTERED);

    for (size_t i = 0; i < count; i++)
        blocks[i] = get(HOLE_BYTES, stream.stream);
    uint64_t start = bench_now_ns();
    for (size_t i = 0; i < count; i += 2)
        put(blocks[i], HOLE_BYTES, stream.stream);
    report_result("65,536 holes", "ns to make one",
                  (double)(bench_now_ns() - start) / HOLES);
    report_result("65,536 holes, pair of 64 KiB", "ns", pair_ns(65536, stream.stream));
    report_result("65,536 holes, pair of 16 MiB", "ns", pair_ns(16 << 20, stream.stream));
    for (size_t i = 1; i < count; i += 2)
        put(blocks[i], HOLE_BYTES, stream.stream);
    stream_end(stream);
    free(blocks);
}

/* --- from stream to stream ---------------------------------------------------------- */

/* Pass a stream's memory to another one and back; on a busy device (work is queued before
 * each free) behind waits. */
static void measure_exchange(bool busy)
{
    struct stream streams[2] = {stream_of(REGISTERED), stream_of(REGISTERED)};
    tarn_pool_statistics before = {.size = sizeof before}, after = before;
    bool is_pool = bench_is_pool(bench.spec);
    unsigned pairs = 20000 / bench.shrink;
    const char *what =
        busy ? "64 MiB between two busy streams" : "64 MiB between two streams";

    if (is_pool)
        bench_must(tarn_pool_get_statistics(bench.resource, &before), "statistics");
    uint64_t took = 0;
    for (unsigned i = 0; i < pairs; i++) {
        struct stream *stream = &streams[i % 2];
        uint64_t start = bench_now_ns();
        tarn_device_ptr block = get(64 << 20, stream->stream);
        took += bench_now_ns() - start;
        if (busy)
            bench_must(tarn_memset_async(0, block, 1, 4096, stream->raw), "fill");
        start = bench_now_ns();
        put(block, 64 << 20, stream->stream);
        took += bench_now_ns() - start;
    }
    report_result(what, "ns", (double)took / pairs);
    if (is_pool) {
        bench_must(tarn_pool_get_statistics(bench.resource, &after), "statistics");
        report_result(what, "stolen/1000",
                      (double)(after.steals - before.steals) * 1e3 / pairs);
        report_result(what, "locking calls/1000",
                      (double)(after.driver_calls - before.driver_calls) * 1e3 / pairs);
    }
    for (int i = 0; i < 2; i++)
        stream_end(streams[i]);
}

/* Reuse a free that one stream still uses on another, behind a wait: the allocation
 * alone, with the event fence of the registered source stream. The pool has no other
 * memory. */
static void measure_steal(void)
{
    const size_t bytes = 64 << 20; /* so slow to fill that nothing is done early */
    unsigned rounds = STEALS / (bench.shrink > 8 ? 8 : 1);
    uint64_t *ns = bench_allocate(rounds, sizeof *ns);
    tarn_pool_statistics statistics = {.size = sizeof statistics};
    tarn_resource *whole = bench.resource;

    if (strcmp(bench.spec, "pool") != 0)
        return;
    bench.resource = bench_resource("pool:maximum=64MiB,oom_policy=fail", 0);
    struct stream streams[2] = {stream_of(REGISTERED), stream_of(REGISTERED)};
    tarn_device_ptr block = get(bytes, streams[0].stream);
    for (unsigned i = 0; i < rounds; i++) {
        bench_must(tarn_memset_async(0, block, 1, bytes, streams[i % 2].raw), "fill");
        put(block, bytes, streams[i % 2].stream);
        uint64_t start = bench_now_ns();
        block = get(bytes, streams[(i + 1) % 2].stream);
        ns[i] = bench_now_ns() - start;
    }
    put(block, bytes, streams[rounds % 2].stream);
    bench_must(tarn_pool_get_statistics(bench.resource, &statistics), "statistics");
    tell_percentiles("64 MiB stolen of a busy stream", ns, rounds);
    report_result("64 MiB stolen of a busy stream", "stolen/1000",
                  (double)statistics.steals * 1e3 / rounds);
    bench_must(tarn_driver_synchronize(0), "synchronize");
    for (int i = 0; i < 2; i++)
        stream_end(streams[i]);
    bench_must(tarn_resource_release(bench.resource), "release");
    bench.resource = whole;
    free(ns);
}

int main(int argc, char **argv)
{
    static const struct option known[] = {{"resource", required_argument, NULL, 'r'},
                                          {"quick", no_argument, NULL, 'q'},
                                          {"json", required_argument, NULL, 'j'},
                                          {NULL, 0, NULL, 0}};
    const char *json = NULL;
    int option;

    while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
        if (option == '?')
            return 2;
        if (option == 'r')
            bench.spec = optarg;
        else if (option == 'q')
            bench.shrink = 50;
        else
            json = optarg;
    }
    setenv("TARN_SIM", "memory=32GiB", 0);
    bench_results_open("pool", json);
    bench.resource = bench_resource(bench.spec, 0);
    measure_growth();
    measure_sizes();
    measure_percentiles();
    measure_threads();
    measure_live(10);
    measure_live(1000);
    measure_live(LIVE_MAX / (bench.shrink > 1 ? 10 : 1));
    measure_holes();
    measure_exchange(false);
    measure_exchange(true);
    measure_steal();
    bench_must(tarn_driver_synchronize(0), "synchronize");
    bench_must(tarn_resource_release(bench.resource), "release");
    bench_results_close();
    return 0;
}
