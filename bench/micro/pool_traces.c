/* pool_traces.c -- replay traces on the simulator or a GPU: reserved memory, driver
 * calls, times, and failures.
 *
 *     bench-pool_traces [--resource SPEC]... [--busy] [--idle] [--registered] [--one-stream]
 *         [--latency MIN-MAX] [--seed N] [--limit 1.05] [--passes N] [--scale FACTOR]
 *         [--json FILE] TRACE.csv.gz...
 *
 * SPEC is as in bench/support/bench.h: `pool:growth=64MiB,grow_first`, `async`. Given
 * several times, all of them run; the default is `pool`. Idle: no work is queued, so
 * every free is completed. Busy: each block is filled after its allocation and before its
 * free. On the simulator (in its seeded mode) the device falls far behind the host, and
 * no times are printed. Reserved : live is the peak of the one over the peak of the
 * other, for the first pass and for all of them. The last column is a pool with a maximum
 * of 1.05 times the peak live: failed allocations in the first pass (`--limit 0`: no such
 * pass, for counts of a driver's calls).
 */
#define _GNU_SOURCE
#include "bench.h"
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

/* Of the simulator: more than any trace needs. */
#define MEMORY "192GiB"

enum { SPECS_MAX = 32, FILL_BYTES = 8, LOOK_EVERY = 64 };

static struct {
    const char *specs[SPECS_MAX];
    int spec_count;
    bool busy, idle, registered, one_stream;
    const char *latency, *seed;
    double limit, scale;
    int passes;
} options = {
    .limit = 1.05, .scale = 1, .passes = 2, .latency = "1000-100000", .seed = "0"};

/* The measurements of one trace on one resource. */
struct run {
    const struct bench_trace *trace;
    tarn_resource *resource;
    bool is_pool, busy;
    tarn_stream *raw, *streams; /* `streams` are passed on: registered, or the same */
    tarn_device_ptr *blocks;
    uint64_t live, peak_live;
    uint64_t taken; /* the largest decrease of the device's free memory */
};

struct figures {
    double ns;       /* mean of an operation */
    double calls;    /* driver calls in 1,000 pairs, all of them */
    double locked;   /* ... that take the device's lock; pools alone */
    double ratio;    /* peak reserved : peak live, so far */
    uint64_t failed; /* allocations */
};

static tarn_pool_statistics statistics(const struct run *run)
{
    tarn_pool_statistics statistics = {.size = sizeof statistics};

    if (run->is_pool)
        bench_must(tarn_pool_get_statistics(run->resource, &statistics), "statistics");
    return statistics;
}

static void create_streams(struct run *run)
{
    run->raw = bench_allocate(run->trace->streams, sizeof *run->raw);
    run->streams = bench_allocate(run->trace->streams, sizeof *run->streams);
    for (unsigned i = 0; i < run->trace->streams; i++) {
        bench_must(tarn_stream_create(0, true, &run->raw[i]), "stream");
        run->streams[i] = run->raw[i];
        if (options.registered)
            bench_must(tarn_stream_register(0, run->raw[i], &run->streams[i]), "open");
    }
}

static void destroy_streams(struct run *run)
{
    for (unsigned i = 0; i < run->trace->streams; i++) {
        if (options.registered)
            bench_must(tarn_stream_unregister(run->streams[i]), "close");
        bench_must(tarn_stream_destroy(0, run->raw[i]), "stream");
    }
    free(run->raw);
    free(run->streams);
}

static void look(struct run *run)
{
    uint64_t taken = bench_memory_taken();

    run->taken = taken > run->taken ? taken : run->taken;
}

static void touch(const struct run *run, tarn_device_ptr block, uint64_t bytes,
                  unsigned stream)
{
    if (run->busy)
        bench_must(tarn_memset_async(0, block, 1, bytes < FILL_BYTES ? bytes : FILL_BYTES,
                                     run->raw[stream]),
                   "fill");
}

/* One operation; false: no memory. */
static bool play(struct run *run, const struct bench_op *op)
{
    tarn_device_ptr *block = &run->blocks[op->block];
    unsigned stream = options.one_stream ? 0 : op->stream;

    if (op->is_free) {
        if (*block == 0)
            return true;
        touch(run, *block, op->bytes, stream);
        bench_must(tarn_resource_deallocate(run->resource, *block, op->bytes, 0,
                                            run->streams[stream]),
                   "free");
        *block = 0;
        run->live -= op->bytes;
        return true;
    }
    tarn_status status =
        tarn_resource_allocate(run->resource, op->bytes, 0, run->streams[stream], block);
    if (status == TARN_OUT_OF_MEMORY)
        return false;
    bench_must(status, "allocate");
    touch(run, *block, op->bytes, stream);
    run->live += op->bytes;
    return true;
}

/* Return whether the device may have reached a new minimum of free memory. */
static bool is_peak(struct run *run, size_t number)
{
    bool higher = run->live > run->peak_live;

    run->peak_live = higher ? run->live : run->peak_live;
    return higher || number % LOOK_EVERY == 0;
}

static uint64_t device_calls(const struct run *run)
{
    return statistics(run).driver_calls;
}

static struct figures pass(struct run *run, int number)
{
    const struct bench_trace *trace = run->trace;
    struct figures figures = {0};
    uint64_t calls = bench_driver_calls(), locked = device_calls(run), looking = 0,
             looks = 0;
    char name[96];

    snprintf(name, sizeof name, "%s%s, pass %d", trace->name,
             options.registered ? ", registered" : "", number);
    bench_timed_pass(name);
    uint64_t start = bench_now_ns();
    for (size_t i = 0; i < trace->count; i++) {
        figures.failed += !play(run, &trace->ops[i]);
        if (!run->is_pool && is_peak(run, i)) {
            uint64_t before = bench_now_ns(), calls_before = bench_driver_calls();
            look(run);
            looks += bench_driver_calls() - calls_before;
            looking += bench_now_ns() - before;
        }
    }
    uint64_t took = bench_now_ns() - start - looking;
    bench_timed_pass(NULL);
    double thousands = (double)trace->count / 2000.0;
    uint64_t own = run->busy ? 2 * trace->blocks : 0; /* the fills */
    figures.ns = (double)took / (double)trace->count;
    figures.calls = (double)(bench_driver_calls() - calls - looks - own) / thousands;
    figures.locked = (double)(device_calls(run) - locked) / thousands;
    figures.ratio = (double)(run->is_pool ? statistics(run).peak_reserved : run->taken) /
                    (double)trace->peak_live_bytes;
    return figures;
}

static void begin(struct run *run, const char *spec, uint64_t maximum)
{
    char text[128];

    snprintf(text, sizeof text, "memory=" MEMORY ",mode=%s,latency=%s,seed=%s",
             run->busy ? "seeded" : "eager", options.latency, options.seed);
    bench_sim_configure(text);
    bench_memory_start();
    run->is_pool = bench_is_pool(spec);
    run->resource = bench_resource(spec, maximum);
    run->blocks = bench_allocate(run->trace->blocks, sizeof *run->blocks);
    run->taken = run->live = run->peak_live = 0;
    create_streams(run);
}

static void end(struct run *run)
{
    destroy_streams(run);
    bench_must(tarn_driver_synchronize(0), "synchronize");
    bench_must(tarn_resource_release(run->resource), "release");
    free(run->blocks);
}

/* `metric` of the pass: "first ns". */
static void note(const char *spec, const char *what, const char *which,
                 const char *metric, double value)
{
    char name[64];

    snprintf(name, sizeof name, "%s %s", which, metric);
    bench_result(spec, what, name, value);
}

static void measure(const struct bench_trace *trace, const char *spec, bool busy)
{
    struct run run = {.trace = trace, .busy = busy};
    struct figures first, last;
    char what[96];

    snprintf(what, sizeof what, "%s %s", trace->name, busy ? "busy" : "idle");
    begin(&run, spec, 0);
    first = last = pass(&run, 1);
    for (int i = 2; i <= options.passes; i++)
        last = pass(&run, i);
    printf("%-18s %-28s %-4s %7.0f %7.0f   %6.3f %6.3f   %6.1f %6.1f  %7.0f", trace->name,
           spec, busy ? "busy" : "idle", first.ns, last.ns, first.ratio, last.ratio,
           first.locked, last.locked, last.calls);
    fflush(stdout);
    end(&run);
    note(spec, what, "first", "ns", first.ns);
    note(spec, what, "last", "ns", last.ns);
    note(spec, what, "first", "reserved:live", first.ratio);
    note(spec, what, "last", "reserved:live", last.ratio);
    note(spec, what, "last", "driver calls/1000 pairs", last.calls);
    note(spec, what, "last", "locking calls/1000 pairs", last.locked);
    if (!run.is_pool || options.limit == 0) {
        printf("      -\n");
        return;
    }
    begin(&run, spec, (uint64_t)(options.limit * (double)trace->peak_live_bytes));
    first = pass(&run, 1);
    printf(" %6llu\n", (unsigned long long)first.failed);
    end(&run);
    note(spec, what, "limited", "failed allocations", (double)first.failed);
}

static const char usage[] =
    "usage: bench-pool_traces [--resource SPEC]... [--busy] [--idle] [--registered]\n"
    "           [--one-stream] [--latency MIN-MAX] [--seed N] [--limit 1.05]\n"
    "           [--passes N] [--scale FACTOR] [--json FILE] TRACE.csv.gz...\n";

static const char *take_options(int argc, char **argv)
{
    static const struct option known[] = {{"resource", required_argument, NULL, 'r'},
                                          {"busy", no_argument, NULL, 'b'},
                                          {"idle", no_argument, NULL, 'i'},
                                          {"registered", no_argument, NULL, 'o'},
                                          {"one-stream", no_argument, NULL, '1'},
                                          {"latency", required_argument, NULL, 'l'},
                                          {"seed", required_argument, NULL, 's'},
                                          {"limit", required_argument, NULL, 'm'},
                                          {"passes", required_argument, NULL, 'p'},
                                          {"scale", required_argument, NULL, 'x'},
                                          {"json", required_argument, NULL, 'j'},
                                          {NULL, 0, NULL, 0}};
    const char *json = NULL;
    int option;

    while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
        switch (option) {
        case 'r':
            if (options.spec_count == SPECS_MAX)
                bench_die("too many resources");
            options.specs[options.spec_count++] = optarg;
            break;
        case 'b':
            options.busy = true;
            break;
        case 'i':
            options.idle = true;
            break;
        case 'o':
            options.registered = true;
            break;
        case '1':
            options.one_stream = true;
            break;
        case 'l':
            options.latency = optarg;
            break;
        case 's':
            options.seed = optarg;
            break;
        case 'm':
            options.limit = atof(optarg);
            break;
        case 'p':
            options.passes = atoi(optarg);
            break;
        case 'x':
            options.scale = atof(optarg);
            break;
        case 'j':
            json = optarg;
            break;
        default:
            fputs(usage, stderr);
            exit(2);
        }
    }
    return json;
}

int main(int argc, char **argv)
{
    const char *json = take_options(argc, argv);

    if (optind == argc) {
        fputs(usage, stderr);
        return 2;
    }
    setenv("TARN_SIM", "memory=" MEMORY, 1); /* addresses are fixed when it starts */
    if (options.spec_count == 0)
        options.specs[options.spec_count++] = "pool";
    if (!options.busy && !options.idle)
        options.busy = options.idle = true;
    bench_results_open("pool_traces", json);
    printf("%-18s %-28s %-4s %7s %7s   %6s %6s   %6s %6s  %7s %6s\n", "trace", "resource",
           "", "1st ns", "last ns", "res:li", "last", "lock/k", "last", "calls/k",
           "fails");
    for (int i = optind; i < argc; i++) {
        struct bench_trace *trace = bench_trace_load(argv[i]);
        if (options.scale != 1)
            bench_trace_scale(trace, options.scale);
        for (int s = 0; s < options.spec_count; s++) {
            if (options.idle)
                measure(trace, options.specs[s], false);
            if (options.busy)
                measure(trace, options.specs[s], true);
        }
        bench_trace_free(trace);
    }
    bench_results_close();
    return 0;
}
