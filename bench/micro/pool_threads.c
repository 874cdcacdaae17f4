/* pool_threads.c -- measure how a pool scales with threads, and print why.
 *
 *     bench-pool_threads [--resource SPEC] [--threads N] [--quick] [--json FILE]
 *
 * Each thread is pinned to a core of its own, and makes pairs of an allocation and its
 * free. The kinds of runs:
 *
 *    registered  own registered stream, eight small sizes, freed at once: all hits
 *    raw         the same on an own raw stream
 *    shared      the same, all threads on one registered stream
 *    mixed       own registered stream, 64 live blocks of 512 B to 16 MiB: many misses
 *
 * Each figure is the median of nine runs of a second. The empty loop is the same without
 * the pool. The table has, for each pair: cache hits, driver calls, and acquisitions of
 * the pool's lock if libtarn was built with TARN_COUNT_LOCKS (a CMake option). N is the
 * greatest number of threads; the default is the number of cores, at most 16.
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

enum { THREADS_MAX = 64, RUNS_MAX = 9, LIVE = 64, CHECKED = 32 };

enum kind { REGISTERED, RAW, SHARED, MIXED, KINDS };
static const char *const kind_names[] = {"registered", "raw", "shared", "mixed"};

static struct {
    const char *spec;
    unsigned threads, runs;
    long milliseconds;
    int cpus[THREADS_MAX];
    /* of a libtarn with TARN_COUNT_LOCKS, or NULL */
    void (*lock_counts)(tarn_resource *pool, uint64_t *taken, uint64_t *waited);
} bench = {.spec = "pool", .runs = RUNS_MAX, .milliseconds = 1000};

/* One row of the table: medians of the runs. */
struct row {
    enum kind kind;
    unsigned threads;
    double million, least, most, empty_ns;    /* pairs a second; ns of a pair */
    double hits, driver_calls, taken, waited; /* a pair; negative: not known */
};

struct worker {
    pthread_t thread;
    tarn_resource *pool; /* NULL: the empty loop */
    enum kind kind;
    int cpu;
    tarn_stream stream;
    uint64_t random;
    struct {
        tarn_device_ptr block;
        size_t bytes;
    } live[LIVE];
    uint64_t pairs, took_ns;
};

static pthread_barrier_t warm, start;
static atomic_bool stop;

/* --- one pair ---------------------------------------------------------------------------- */

__attribute__((noinline)) static tarn_device_ptr take_nothing(size_t bytes)
{
    __asm__ volatile("" ::: "memory");
    return bytes;
}

static inline tarn_device_ptr get(struct worker *worker, size_t bytes)
{
    tarn_device_ptr block;

    if (!worker->pool)
        return take_nothing(bytes);
    bench_must(tarn_resource_allocate(worker->pool, bytes, 0, worker->stream, &block),
               "allocate");
    return block;
}

static inline void put(struct worker *worker, tarn_device_ptr block, size_t bytes)
{
    if (!worker->pool)
        take_nothing(bytes);
    else
        bench_must(
            tarn_resource_deallocate(worker->pool, block, bytes, 0, worker->stream),
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
static void replace(struct worker *worker)
{
    uint64_t random = next_random(worker);
    size_t at = random % LIVE;

    if (worker->live[at].bytes)
        put(worker, worker->live[at].block, worker->live[at].bytes);
    worker->live[at].bytes = ((size_t)512 << (random >> 8) % 16) + (random >> 16) % 4096;
    worker->live[at].block = get(worker, worker->live[at].bytes);
}

static void work(struct worker *worker, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        size_t bytes = (size_t)256 << i % 8;
        if (worker->kind == MIXED)
            replace(worker);
        else
            put(worker, get(worker, bytes), bytes);
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
    work(worker, 4096);
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
    uint64_t allocations, hits, driver_calls, taken, waited;
};

static struct counters counters_of(tarn_resource *pool)
{
    tarn_pool_statistics statistics = {.size = sizeof statistics};
    struct counters counters = {0};

    if (pool && bench_is_pool(bench.spec)) {
        bench_must(tarn_pool_get_statistics(pool, &statistics), "statistics");
        counters.allocations = statistics.allocations;
        counters.hits = statistics.cache_hits;
        counters.driver_calls = statistics.driver_calls;
        if (bench.lock_counts)
            bench.lock_counts(pool, &counters.taken, &counters.waited);
    }
    return counters;
}

/* Note the counters of one run in its row. */
static void note_counters(struct row *row, const struct counters *before,
                          const struct counters *after)
{
    double pairs = (double)(after->allocations - before->allocations);

    row->hits = row->driver_calls = row->taken = row->waited = -1;
    if (pairs == 0)
        return;
    row->hits = (double)(after->hits - before->hits) / pairs;
    row->driver_calls = (double)(after->driver_calls - before->driver_calls) / pairs;
    if (bench.lock_counts) {
        row->taken = (double)(after->taken - before->taken) / pairs;
        row->waited = (double)(after->waited - before->waited) / pairs;
    }
}

/* Run all workers once. Returns millions of pairs a second. */
static double run(struct worker *workers, struct row *row)
{
    double million = 0;

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
    }
    struct counters after = counters_of(workers[0].pool);
    if (workers[0].pool)
        note_counters(row, &before, &after);
    pthread_barrier_destroy(&warm);
    pthread_barrier_destroy(&start);
    return million;
}

/* The median of the runs, with new threads and streams in each, over one pool or none. */
static double median_of_runs(tarn_resource *pool, struct row *row)
{
    static struct worker workers[THREADS_MAX];
    double million[RUNS_MAX];

    for (unsigned r = 0; r < bench.runs; r++) {
        tarn_stream raw[THREADS_MAX] = {NULL};
        for (unsigned i = 0; i < row->threads; i++) {
            bool is_own = i == 0 || row->kind != SHARED;
            workers[i] = (struct worker){.pool = pool,
                                         .kind = row->kind,
                                         .cpu = bench.cpus[i],
                                         .stream = workers[0].stream,
                                         .random = 88172645463325252u + i * 7919};
            if (!is_own)
                continue;
            bench_must(tarn_stream_create(0, true, &raw[i]), "stream");
            workers[i].stream = raw[i];
            if (row->kind != RAW)
                bench_must(tarn_stream_register(0, raw[i], &workers[i].stream),
                           "register");
        }
        million[r] = run(workers, row);
        for (unsigned i = 0; i < row->threads; i++) {
            if (raw[i] && row->kind != RAW)
                bench_must(tarn_stream_unregister(workers[i].stream), "unregister");
            if (raw[i])
                bench_must(tarn_stream_destroy(0, raw[i]), "stream");
        }
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
    tarn_resource *pool = bench_resource(bench.spec, 0);
    row.million = median_of_runs(pool, &row);
    bench_must(tarn_driver_synchronize(0), "synchronize");
    bench_must(tarn_resource_release(pool), "release");
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
    snprintf(what, sizeof what, "%u threads, %s", row->threads, kind_names[row->kind]);
    bench_result(bench.spec, what, metric, value);
}

static void tell_row(const struct row *row)
{
    printf("%-11s %7u", kind_names[row->kind], row->threads);
    tell(row, "M pairs/s", 2, row->million);
    tell(row, "least M pairs/s", 2, row->least);
    tell(row, "most M pairs/s", 2, row->most);
    tell(row, "ns", 1, row->threads * 1e3 / row->million);
    tell(row, "empty ns", 1, row->empty_ns);
    tell(row, "hits %", 2, row->hits < 0 ? -1 : row->hits * 100);
    tell(row, "driver calls a pair", 4, row->driver_calls);
    tell(row, "locks a pair", 4, row->taken);
    tell(row, "waits a pair", 4, row->waited);
    printf("\n");
    fflush(stdout);
}

static void tell_head(void)
{
    printf("%-11s %7s %9s %9s %9s %9s %9s %9s %9s %9s %9s\n", "kind", "threads", "M/s",
           "least", "most", "ns/pair", "empty ns", "hits %", "calls/pr", "locks/pr",
           "waits/pr");
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
                                          {"threads", required_argument, NULL, 't'},
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
    if (bench.threads == 0 || bench.threads > cpus)
        bench_die("%u threads need as many of %u cpus", bench.threads, cpus);
    setenv("TARN_SIM", "memory=128GiB", 0);
    bench_results_open("pool_threads", json);
    bench.lock_counts = (void (*)(tarn_resource *, uint64_t *, uint64_t *))dlsym(
        RTLD_DEFAULT, "tarn__pool_lock_counts");
    tell_head();
    for (int kind = 0; kind < KINDS; kind++)
        for (unsigned threads = 1;; threads *= 2) {
            bool is_last = threads >= bench.threads;
            struct row row = measure((enum kind)kind, is_last ? bench.threads : threads);
            tell_row(&row);
            if (is_last)
                break;
        }
    bench_results_close();
    return 0;
}
