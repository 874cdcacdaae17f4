/* pool_threads.c -- measure how a pool scales with threads, and print why.
 *
 *     bench-pool_threads [--resource SPEC] [--kind KIND] [--threads N] [--runs N]
 *                        [--milliseconds N] [--pools] [--quick] [--json FILE]
 *
 * Each thread is pinned to a core of its own, and makes pairs of an allocation and its
 * free. The kinds of runs:
 *
 *    registered   own registered stream, eight small sizes, freed at once: all hits
 *    raw          the same on an own raw stream
 *    shared       the same, all threads on one registered stream
 *    medium       own registered stream, 64 live blocks of 512 B to 1 MiB: many misses
 *    mixed        the same with blocks of 512 B to 16 MiB
 *    streams64    one thread, 64 raw streams in turn, freed at once
 *    streams1000  the same with 1,000
 *
 * Each figure is the median of nine runs of a second. The empty loop is the same without
 * the pool. The table has, for each pair: cache hits, driver calls, and acquisitions of
 * the pool's lock if libtarn was built with TARN_COUNT_LOCKS (a CMake option). It also has
 * the allocations that the heap served, by kind of memory, and the peak of the reserved
 * bytes by the live bytes at the end. N is the greatest number of threads; the default is the
 * number of cores, at most 16.
 *
 * With --pools each thread has a pool of its own, and the counts are of the first one. That
 * is the limit of what dividing the pool among threads could reach.
 *
 * TARN_DRIVER=build/release/bench/null/libcuda.so.1 TARN_NULL_VMM=1 measures without a
 * GPU, and without the simulator's own time.
 */
#define _GNU_SOURCE
#include "bench.h"
#include <dlfcn.h>
#include <getopt.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { THREADS_MAX = 64, RUNS_MAX = 9, LIVE = 64, CHECKED = 32, STREAMS_MAX = 1000 };

enum kind { REGISTERED, RAW, SHARED, MEDIUM, MIXED, STREAMS_64, STREAMS_1000, KINDS };

/* `live_sizes`: the powers of two of 512 B among the sizes of the live blocks; 0: blocks
 * are freed at once. `streams`: of each thread; more than one are raw. */
static const struct {
    const char *name;
    unsigned live_sizes, streams;
} kinds[] = {
    [REGISTERED] = {"registered", 0, 1},
    [RAW] = {"raw", 0, 1},
    [SHARED] = {"shared", 0, 1},
    [MEDIUM] = {"medium", 12, 1},
    [MIXED] = {"mixed", 16, 1},
    [STREAMS_64] = {"streams64", 0, 64},
    [STREAMS_1000] = {"streams1000", 0, 1000},
};

static struct {
    const char *spec, *kind; /* kind NULL: all */
    unsigned threads, runs;
    long milliseconds;
    bool has_pools; /* one for each thread */
    int cpus[THREADS_MAX];
    /* of a libtarn with TARN_COUNT_LOCKS, or NULL */
    void (*lock_counts)(tarn_resource *pool, uint64_t *taken, uint64_t *waited);
} bench = {.spec = "pool", .runs = RUNS_MAX, .milliseconds = 1000};

/* One row of the table: medians of the runs. */
struct row {
    enum kind kind;
    unsigned threads;
    double million, least, most, empty_ns; /* pairs a second; ns of a pair */
    /* a pair; negative: not known */
    double hits, driver_calls, taken, waited;
    double same_stream, completed, steals, grown;
    double reserved; /* peak of the pool, by the live bytes at the end; 0: no live ones */
};

struct worker {
    pthread_t thread;
    tarn_resource *pool; /* NULL: the empty loop */
    enum kind kind;
    int cpu;
    unsigned streams, next; /* number of them; the next one to use */
    const tarn_stream *stream;
    uint64_t random;
    struct {
        tarn_device_ptr block;
        size_t bytes;
    } live[LIVE];
    uint64_t pairs, took_ns, live_bytes;
};

static pthread_barrier_t warm, start;
static atomic_bool stop;

/* --- one pair ---------------------------------------------------------------------------- */

__attribute__((noinline)) static tarn_device_ptr take_nothing(size_t bytes)
{
    __asm__ volatile("" ::: "memory");
    return bytes;
}

static inline tarn_stream stream_of(const struct worker *worker)
{
    return worker->stream[worker->next];
}

static inline tarn_device_ptr get(struct worker *worker, size_t bytes)
{
    tarn_device_ptr block;

    if (!worker->pool)
        return take_nothing(bytes);
    bench_must(tarn_resource_allocate(worker->pool, bytes, 0, stream_of(worker), &block),
               "allocate");
    return block;
}

static inline void put(struct worker *worker, tarn_device_ptr block, size_t bytes)
{
    if (!worker->pool)
        take_nothing(bytes);
    else
        bench_must(
            tarn_resource_deallocate(worker->pool, block, bytes, 0, stream_of(worker)),
            "free");
}

static uint64_t next_random(struct worker *worker)
{
    worker->random ^= worker->random << 13;
    worker->random ^= worker->random >> 7;
    worker->random ^= worker->random << 17;
    return worker->random;
}

/* Replace one of the live blocks. */
static void replace(struct worker *worker, unsigned sizes)
{
    uint64_t random = next_random(worker);
    size_t at = random % LIVE;

    if (worker->live[at].bytes)
        put(worker, worker->live[at].block, worker->live[at].bytes);
    worker->live_bytes -= worker->live[at].bytes;
    worker->live[at].bytes =
        ((size_t)512 << (random >> 8) % sizes) + (random >> 16) % 4096;
    worker->live[at].block = get(worker, worker->live[at].bytes);
    worker->live_bytes += worker->live[at].bytes;
}

static void work(struct worker *worker, unsigned count)
{
    unsigned sizes = kinds[worker->kind].live_sizes;

    for (unsigned i = 0; i < count; i++) {
        size_t bytes = (size_t)256 << i % 8;
        if (sizes)
            replace(worker, sizes);
        else
            put(worker, get(worker, bytes), bytes);
        worker->next = worker->next + 1 < worker->streams ? worker->next + 1 : 0;
    }
}

/* --- one run ----------------------------------------------------------------------------- */

static void *run_worker(void *data)
{
    struct worker *worker = data;
    cpu_set_t cpus;

    CPU_ZERO(&cpus);
    CPU_SET(worker->cpu, &cpus);
    if (sched_setaffinity(0, sizeof cpus, &cpus) != 0)
        bench_die("no affinity to cpu %d", worker->cpu);
    work(worker, 4096 + 16 * worker->streams);
    pthread_barrier_wait(&warm);
    pthread_barrier_wait(&start);
    uint64_t began = bench_now_ns();
    while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
        work(worker, CHECKED);
        worker->pairs += CHECKED;
    }
    worker->took_ns = bench_now_ns() - began;
    for (int i = 0; i < LIVE; i++)
        if (worker->live[i].bytes)
            put(worker, worker->live[i].block, worker->live[i].bytes);
    return NULL;
}

static void wait_ms(long milliseconds)
{
    struct timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000000};

    nanosleep(&time, NULL);
}

/* The pool's counters at one time. */
struct counters {
    tarn_pool_statistics statistics; /* size 0: not known */
    uint64_t taken, waited;
};

static struct counters counters_of(tarn_resource *pool)
{
    struct counters counters = {0};

    if (pool && bench_is_pool(bench.spec)) {
        counters.statistics.size = sizeof counters.statistics;
        bench_must(tarn_pool_get_statistics(pool, &counters.statistics), "statistics");
        if (bench.lock_counts)
            bench.lock_counts(pool, &counters.taken, &counters.waited);
    }
    return counters;
}

/* Note the counters of one run in its row. */
static void note_counters(struct row *row, const struct counters *first,
                          const struct counters *last, uint64_t live)
{
    const tarn_pool_statistics *before = &first->statistics, *after = &last->statistics;
    double pairs = (double)(after->allocations - before->allocations);

    row->hits = row->driver_calls = row->taken = row->waited = -1;
    row->same_stream = row->completed = row->steals = row->grown = row->reserved = -1;
    if (pairs == 0)
        return;
    row->hits = (double)(after->cache_hits - before->cache_hits) / pairs;
    row->driver_calls = (double)(after->driver_calls - before->driver_calls) / pairs;
    row->same_stream = (double)(after->same_stream - before->same_stream) / pairs;
    row->completed = (double)(after->completed - before->completed) / pairs;
    row->steals = (double)(after->steals - before->steals) / pairs;
    row->grown = (double)(after->grown - before->grown) / pairs;
    row->reserved = live ? (double)after->peak_reserved / (double)live : 0;
    if (bench.lock_counts) {
        row->taken = (double)(last->taken - first->taken) / pairs;
        row->waited = (double)(last->waited - first->waited) / pairs;
    }
}

/* Run all workers once. Returns millions of pairs a second. */
static double run(struct worker *workers, struct row *row)
{
    double million = 0;
    uint64_t live = 0;

    pthread_barrier_init(&warm, NULL, row->threads + 1);
    pthread_barrier_init(&start, NULL, row->threads + 1);
    atomic_store(&stop, false);
    for (unsigned i = 0; i < row->threads; i++)
        if (pthread_create(&workers[i].thread, NULL, run_worker, &workers[i]) != 0)
            bench_die("no thread");
    pthread_barrier_wait(&warm);
    struct counters before = counters_of(workers[0].pool);
    pthread_barrier_wait(&start);
    wait_ms(bench.milliseconds);
    atomic_store(&stop, true);
    for (unsigned i = 0; i < row->threads; i++) {
        pthread_join(workers[i].thread, NULL);
        million += (double)workers[i].pairs / (double)workers[i].took_ns * 1e3;
        if (workers[i].pool == workers[0].pool)
            live += workers[i].live_bytes;
    }
    struct counters after = counters_of(workers[0].pool);
    if (workers[0].pool)
        note_counters(row, &before, &after, live);
    pthread_barrier_destroy(&warm);
    pthread_barrier_destroy(&start);
    return million;
}

/* The streams of all threads: of one after the other, as many as each has. */
static tarn_stream raw_streams[THREADS_MAX + STREAMS_MAX],
    streams[THREADS_MAX + STREAMS_MAX];

/* Make the streams of one run, and return their number. */
static unsigned make_streams(enum kind kind, unsigned threads)
{
    unsigned count = kind == SHARED ? 1 : threads * kinds[kind].streams;

    for (unsigned i = 0; i < count; i++) {
        bench_must(tarn_stream_create(0, true, &raw_streams[i]), "stream");
        streams[i] = raw_streams[i];
        if (kind != RAW && kinds[kind].streams == 1)
            bench_must(tarn_stream_register(0, raw_streams[i], &streams[i]), "register");
    }
    return count;
}

static void end_streams(unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        if (streams[i] != raw_streams[i])
            bench_must(tarn_stream_unregister(streams[i]), "unregister");
        bench_must(tarn_stream_destroy(0, raw_streams[i]), "stream");
    }
}

/* The median of the runs, with new threads and streams in each, over one pool or none. */
static double median_of_runs(tarn_resource *const *pools, struct row *row)
{
    static struct worker workers[THREADS_MAX];
    double million[RUNS_MAX];

    for (unsigned r = 0; r < bench.runs; r++) {
        unsigned count = make_streams(row->kind, row->threads);
        for (unsigned i = 0; i < row->threads; i++)
            workers[i] =
                (struct worker){.pool = pools ? pools[bench.has_pools ? i : 0] : NULL,
                                .kind = row->kind,
                                .cpu = bench.cpus[i],
                                .streams = kinds[row->kind].streams,
                                .stream = &streams[i * kinds[row->kind].streams % count],
                                .random = 88172645463325252u + i * 7919};
        million[r] = run(workers, row);
        end_streams(count);
    }
    double median = bench_median(million, bench.runs);
    row->least = million[0];
    row->most = million[bench.runs - 1];
    return median;
}

static struct row measure(enum kind kind, unsigned threads)
{
    struct row row = {.kind = kind, .threads = threads};
    unsigned runs = bench.runs;

    bench.runs = 1;
    row.empty_ns = threads * 1e3 / median_of_runs(NULL, &row);
    bench.runs = runs;
    unsigned count = bench.has_pools ? threads : 1;
    tarn_resource *pools[THREADS_MAX];
    for (unsigned i = 0; i < count; i++)
        pools[i] = bench_resource(bench.spec, 0);
    row.million = median_of_runs(pools, &row);
    bench_must(tarn_driver_synchronize(0), "synchronize");
    for (unsigned i = 0; i < count; i++)
        bench_must(tarn_resource_release(pools[i]), "release");
    return row;
}

/* --- the table --------------------------------------------------------------------------- */

static void tell(const struct row *row, const char *metric, int digits, double value)
{
    char what[64];

    if (value < 0) {
        printf(" %9s", "-");
        return;
    }
    printf(" %9.*f", digits, value);
    snprintf(what, sizeof what, "%u threads, %s", row->threads, kinds[row->kind].name);
    bench_result(bench.spec, what, metric, value);
}

static void tell_row(const struct row *row)
{
    printf("%-11s %7u", kinds[row->kind].name, row->threads);
    tell(row, "M pairs/s", 2, row->million);
    tell(row, "least M pairs/s", 2, row->least);
    tell(row, "most M pairs/s", 2, row->most);
    tell(row, "ns", 1, row->threads * 1e3 / row->million);
    tell(row, "empty ns", 1, row->empty_ns);
    tell(row, "hits %", 2, row->hits < 0 ? -1 : row->hits * 100);
    tell(row, "driver calls a pair", 4, row->driver_calls);
    tell(row, "locks a pair", 4, row->taken);
    tell(row, "waits a pair", 4, row->waited);
    tell(row, "same-stream frees reused a pair", 4, row->same_stream);
    tell(row, "completed frees reused a pair", 4, row->completed);
    tell(row, "steals a pair", 4, row->steals);
    tell(row, "growths a pair", 4, row->grown);
    tell(row, "reserved : live", 3, row->reserved);
    printf("\n");
    fflush(stdout);
}

static void tell_head(void)
{
    static const char *const heads[] = {"M/s",      "least",   "most",     "ns/pair",
                                        "empty ns", "hits %",  "calls/pr", "locks/pr",
                                        "waits/pr", "same/pr", "compl/pr", "steal/pr",
                                        "grown/pr", "res:live"};

    printf("%-11s %7s", "kind", "threads");
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        printf(" %9s", heads[i]);
    printf("\n");
}

/* Measure a kind with 1, 2, 4 .. threads; with several streams on one thread. */
static void measure_kind(enum kind kind)
{
    unsigned most = kinds[kind].streams > 1 ? 1 : bench.threads;

    for (unsigned threads = 1;; threads *= 2) {
        bool is_last = threads >= most;
        struct row row = measure(kind, is_last ? most : threads);
        tell_row(&row);
        if (is_last)
            return;
    }
}

/* --- the cores --------------------------------------------------------------------------- */

/* Return true if the cpu is the first one of its core. */
static bool is_first_of_core(int cpu)
{
    char path[96];
    int first = cpu;

    snprintf(path, sizeof path,
             "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
    FILE *file = fopen(path, "r");
    if (file && fscanf(file, "%d", &first) != 1)
        first = cpu;
    if (file)
        fclose(file);
    return first == cpu;
}

/* Find the cpus that this process may use: one of each core first. Returns their
 * number. */
static unsigned find_cpus(void)
{
    cpu_set_t cpus;
    unsigned count = 0;

    if (sched_getaffinity(0, sizeof cpus, &cpus) != 0)
        bench_die("no affinity");
    for (int is_first = 1; is_first >= 0; is_first--)
        for (int cpu = 0; cpu < CPU_SETSIZE && count < THREADS_MAX; cpu++)
            if (CPU_ISSET(cpu, &cpus) && is_first_of_core(cpu) == (is_first == 1))
                bench.cpus[count++] = cpu;
    return count;
}

static void take_options(int argc, char **argv, const char **json)
{
    static const struct option known[] = {{"resource", required_argument, NULL, 'r'},
                                          {"kind", required_argument, NULL, 'k'},
                                          {"threads", required_argument, NULL, 't'},
                                          {"runs", required_argument, NULL, 'n'},
                                          {"milliseconds", required_argument, NULL, 'm'},
                                          {"pools", no_argument, NULL, 'p'},
                                          {"quick", no_argument, NULL, 'q'},
                                          {"json", required_argument, NULL, 'j'},
                                          {NULL, 0, NULL, 0}};
    int option;

    while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
        if (option == '?')
            exit(2);
        if (option == 'r')
            bench.spec = optarg;
        else if (option == 't')
            bench.threads = (unsigned)strtoul(optarg, NULL, 10);
        else if (option == 'k')
            bench.kind = optarg;
        else if (option == 'n')
            bench.runs = (unsigned)strtoul(optarg, NULL, 10);
        else if (option == 'm')
            bench.milliseconds = strtol(optarg, NULL, 10);
        else if (option == 'p')
            bench.has_pools = true;
        else if (option == 'j')
            *json = optarg;
        else
            bench.runs = 3, bench.milliseconds = 50;
    }
}

int main(int argc, char **argv)
{
    const char *json = NULL;
    unsigned cpus = find_cpus();

    bench.threads = cpus < 16 ? cpus : 16;
    take_options(argc, argv, &json);
    if (bench.runs == 0 || bench.runs > RUNS_MAX)
        bench_die("%u runs: at most %d", bench.runs, RUNS_MAX);
    if (bench.threads == 0 || bench.threads > cpus)
        bench_die("%u threads need as many of %u cpus", bench.threads, cpus);
    setenv("TARN_SIM", "memory=128GiB", 0);
    bench_results_open("pool_threads", json);
    bench.lock_counts = (void (*)(tarn_resource *, uint64_t *, uint64_t *))dlsym(
        RTLD_DEFAULT, "tarn__pool_lock_counts");
    tell_head();
    for (int kind = 0; kind < KINDS; kind++)
        if (!bench.kind || strcmp(bench.kind, kinds[kind].name) == 0)
            measure_kind((enum kind)kind);
    bench_results_close();
    return 0;
}
