/* plan.c -- measure a pool that follows a plan.
 *
 *     bench-plan [--passes N] [--cap PERCENT] [--plain | --learn | --detect] [--threads] [--raw]
 *                [--json FILE] LOG...
 *     bench-plan --training [--passes N] [--plain | --learn | --detect] [--shapes N] [--noise N]
 *                [--step-ms N] [--cold KIB]
 *     bench-plan --pairs
 *
 * Makes a plan of the first LOG, and replays each LOG on one pool that follows it: so the
 * second LOG can be the first one with changes. Prints a row for each pass. Streams are
 * registered ones, or with --raw not. --cap: the pool may have so many percent of the peak live. --plain: no
 * plan. --learn: each pass is a marked step, from which the pool makes its plan; the third
 * pass begins when the plan is made. --detect: the pool finds the steps itself.
 *
 * --training measures steps of a loop like training: weights that stay, activations that
 * live from the forward to the backward pass, temporary blocks, and gradients that the next
 * step frees. Sizes and order are the same in each step. A step is a pass. --shapes: steps of
 * so many shapes come in a random order, and each has other sizes. --noise: activations and
 * temporary blocks of each step are smaller by a drawn part, at most one in N. --step-ms: a step takes so
 * long, so that the planner has the time that it has on a GPU. --cold: before each operation the
 * program writes so much other memory, as a framework does, so that the processor's caches have
 * less of the pool. The last lines tell the memory of the second half of the passes, and the time
 * of an allocation or free.
 *
 * --pairs measures one allocation and its free: a cache hit, the heap's, and a planned
 * one.
 */
#define _GNU_SOURCE
#include "bench.h"
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <zlib.h>

static struct {
    unsigned passes;
    unsigned cap;                          /* percent; 0: none */
    unsigned shapes, noise, step_ms, cold; /* cold: KiB */
    bool plain, learn, detect, threads, raw;
} bench = {.passes = 3, .shapes = 1};

/* --- logs ------------------------------------------------------------------------------ */

static long read_log(void *data, char *buffer, size_t capacity)
{
    return gzread(data, buffer, (unsigned)capacity);
}

static tarn_trace *load(const char *path)
{
    gzFile file = gzopen(path, "re");
    tarn_trace *trace;

    if (!file)
        bench_die("cannot open %s", path);
    bench_must(tarn_trace_load(path, read_log, file, NULL, &trace), path);
    gzclose(file);
    return trace;
}

/* --- passes ---------------------------------------------------------------------------- */

static tarn_pool_statistics statistics_of(tarn_resource *pool)
{
    tarn_pool_statistics statistics = {.size = sizeof statistics};

    bench_must(tarn_pool_get_statistics(pool, &statistics), "statistics");
    return statistics;
}

static void print_header(void)
{
    printf("%-34s %4s %9s %8s %7s %7s %7s %8s %7s %7s %8s\n", "log", "pass", "res:live",
           "planned%", "missed", "resync", "waits", "failures", "moves", "growth",
           "ns/op");
}

static bool is_off(tarn_pool_plan_state state)
{
    return state != TARN_POOL_PLAN_NONE && state != TARN_POOL_PLAN_FOLLOWED &&
           state != TARN_POOL_PLAN_LEARNING;
}

/* Mark a step. Before the third pass the plan of the first two is waited for. */
static void mark(tarn_resource *pool, unsigned pass)
{
    const struct timespec pause = {.tv_nsec = 1000000};

    bench_must(tarn_pool_mark_step(pool), "mark_step");
    while (pass == 3 &&
           statistics_of(pool).plans_made + statistics_of(pool).plans_worse == 0 &&
           statistics_of(pool).plan_state == TARN_POOL_PLAN_LEARNING) {
        nanosleep(&pause, NULL);
        bench_must(tarn_pool_mark_step(pool), "mark_step");
    }
}

static bool marks_steps(void)
{
    return bench.learn && !bench.detect;
}

/* Pause until a step has taken its time. */
static void end_step(uint64_t start)
{
    uint64_t end = start + bench.step_ms * (uint64_t)1000000, now = bench_now_ns();
    const struct timespec pause = {.tv_sec = (time_t)((end - now) / 1000000000),
                                   .tv_nsec = (long)((end - now) % 1000000000)};

    if (now < end)
        nanosleep(&pause, NULL);
}

static const char *name_of_pool(void)
{
    if (bench.detect)
        return "pool+detect";
    if (bench.learn)
        return "pool+learn";
    return bench.plain ? "pool" : "pool+plan";
}

static void run_pass(tarn_resource *pool, const tarn_trace *trace, const char *name,
                     unsigned pass)
{
    const tarn_replay_options options = {.size = sizeof options,
                                         .keep_streams = true,
                                         .keep_threads = bench.threads,
                                         .register_streams = !bench.raw};
    const char *base = strrchr(name, '/') ? strrchr(name, '/') + 1 : name;
    tarn_replay_report report;
    char what[96];

    if (marks_steps())
        mark(pool, pass);
    bench_must(tarn_pool_reset_peaks(pool), "reset_peaks");
    tarn_pool_statistics before = statistics_of(pool);
    uint64_t start = bench_now_ns();
    bench_must(tarn_replay(trace, pool, &options, &report), name);
    end_step(start);
    tarn_pool_statistics after = statistics_of(pool);
    double ratio = (double)after.recent_peak_reserved / (double)report.peak_live_bytes;
    double planned = 100.0 * (double)(after.planned - before.planned) /
                     (double)(report.allocations + report.failures);
    double mean = (double)report.wall_ns / (double)report.operations;
    printf("%-34.34s %4u %9.4f %8.2f %7lu %7lu %7lu %8lu %7lu %7lu %8.0f%s\n", base, pass,
           ratio, planned, (unsigned long)(after.plan_missed - before.plan_missed),
           (unsigned long)(after.plan_resynchronized - before.plan_resynchronized),
           (unsigned long)(after.stream_waits - before.stream_waits),
           (unsigned long)report.failures, (unsigned long)(after.moves - before.moves),
           (unsigned long)(after.growths - before.growths), mean,
           is_off(after.plan_state) ? " off" : "");
    fflush(stdout);
    snprintf(what, sizeof what, "%s pass %u", base, pass);
    const char *who = name_of_pool();
    bench_result(who, what, "reserved:live", ratio);
    bench_result(who, what, "planned %", planned);
    bench_result(who, what, "failures", (double)report.failures);
    bench_result(who, what, "ns an operation", mean);
}

static void run_logs(char **paths, int count)
{
    tarn_trace *first = load(paths[0]);
    tarn_plan *plan = NULL;
    tarn_plan_summary summary = {.size = sizeof summary};
    tarn_resource *pool;

    bench_must(tarn_trace_plan(first, NULL, &plan), paths[0]);
    bench_must(tarn_plan_summarize(plan, &summary), "summarize");
    printf("plan of %s: %lu blocks, %lu streams, height : live %.4f\n", paths[0],
           (unsigned long)summary.blocks, (unsigned long)summary.streams,
           (double)summary.height_bytes / (double)summary.peak_live_bytes);
    const tarn_pool_options options = {
        .size = sizeof options,
        .maximum_bytes =
            bench.cap ? (size_t)(summary.peak_live_bytes / 100 * bench.cap) : 0,
        .plan = bench.plain || bench.learn ? NULL : plan,
        .learn = bench.learn,
        .detect_steps = bench.detect};
    bench_must(tarn_pool_create(0, NULL, &options, &pool), "pool");
    tarn_plan_release(plan);
    print_header();
    for (int i = 0; i < count; i++) {
        tarn_trace *trace = i == 0 ? first : load(paths[i]);
        for (unsigned pass = 1; pass <= bench.passes; pass++)
            run_pass(pool, trace, paths[i], pass);
        if (i > 0)
            tarn_trace_release(trace);
    }
    tarn_trace_release(first);
    tarn_resource_release(pool);
}

/* --- training -------------------------------------------------------------------------- */

enum { LAYERS = 96, TEMPORARIES = 12 };

struct training {
    tarn_resource *pool;
    tarn_stream stream;
    tarn_device_ptr weights[LAYERS], gradients[LAYERS], activations[LAYERS];
    uint64_t live, peak;  /* bytes */
    unsigned shape, pass; /* of the step */
    uint64_t random;
    /* of the second half of the passes */
    uint64_t most_live, most_reserved, operations, ns;
};

enum { GRADIENT = 1, SHAPES_MOST = 64 };

/* Return the bytes of a block: the same in each step of a shape, of every kind and layer.
 * Gradients are as large as weights in each shape. */
static size_t training_bytes(const struct training *training, unsigned kind,
                             unsigned layer)
{
    uint64_t drawn = (kind * 1000003u + layer + 1) * 0x9e3779b97f4a7c15u;
    size_t bytes = ((size_t)(drawn >> 40) % (48u << 20) >> kind % 3) + 4096;

    if (kind == GRADIENT)
        return bytes;
    bytes = bytes / 16 * (16 + training->shape);
    uint64_t noise = (drawn ^ training->pass) * 0x9e3779b97f4a7c15u >> 44;
    return bench.noise ? bytes - bytes / bench.noise * (noise % 1001) / 1000 : bytes;
}

/* Write other memory, and return the time at which an operation begins. */
static uint64_t training_begin(void)
{
    bench_write_other((size_t)bench.cold << 10);
    return bench_now_ns();
}

static void training_end(struct training *training, uint64_t begin)
{
    if (training->pass <= bench.passes / 2)
        return;
    training->ns += bench_now_ns() - begin;
    training->operations++;
}

static tarn_device_ptr training_take(struct training *training, size_t bytes)
{
    uint64_t begin = training_begin();
    tarn_device_ptr block;

    bench_must(tarn_resource_allocate(training->pool, bytes, 0, training->stream, &block),
               "allocate");
    training_end(training, begin);
    training->live += bytes;
    training->peak = training->live > training->peak ? training->live : training->peak;
    return block;
}

static void training_put(struct training *training, tarn_device_ptr block, size_t bytes)
{
    if (!block)
        return;
    uint64_t begin = training_begin();
    bench_must(
        tarn_resource_deallocate(training->pool, block, bytes, 0, training->stream),
        "free");
    training_end(training, begin);
    training->live -= bytes;
}

/* Run the temporary blocks of a layer: two live at once. */
static void training_compute(struct training *training, unsigned layer, unsigned kind)
{
    tarn_device_ptr last = 0;

    for (unsigned i = 0; i < TEMPORARIES; i++) {
        tarn_device_ptr block =
            training_take(training, training_bytes(training, kind + i, layer));
        if (i > 0)
            training_put(training, last, training_bytes(training, kind + i - 1, layer));
        last = block;
    }
    training_put(training, last, training_bytes(training, kind + TEMPORARIES - 1, layer));
}

static void training_step(struct training *training)
{
    for (unsigned i = 0; i < LAYERS; i++) {
        training_put(training, training->gradients[i],
                     training_bytes(training, GRADIENT, i));
        training->gradients[i] = 0;
    }
    for (unsigned i = 0; i < LAYERS; i++) {
        training->activations[i] =
            training_take(training, training_bytes(training, 0, i));
        training_compute(training, i, 10);
    }
    for (unsigned i = LAYERS; i-- > 0;) {
        training_compute(training, i, 40);
        training->gradients[i] =
            training_take(training, training_bytes(training, GRADIENT, i));
        training_put(training, training->activations[i], training_bytes(training, 0, i));
    }
}

static void run_training_pass(struct training *training, unsigned pass)
{
    training->random = training->random * 6364136223846793005u + 1442695040888963407u;
    training->shape = (unsigned)((training->random >> 33) % bench.shapes);
    training->pass = pass;
    if (marks_steps() && (bench.shapes > 1 || bench.noise))
        bench_must(tarn_pool_mark_step(training->pool), "mark_step");
    else if (marks_steps())
        mark(training->pool, pass);
    bench_must(tarn_pool_reset_peaks(training->pool), "reset_peaks");
    training->peak = training->live;
    uint64_t start = bench_now_ns(), before = statistics_of(training->pool).planned;
    training_step(training);
    double ns = (double)(bench_now_ns() - start);
    end_step(start);
    tarn_pool_statistics after = statistics_of(training->pool);
    double ratio = (double)after.recent_peak_reserved / (double)training->peak;
    double allocations = LAYERS * (2.0 + 2.0 * TEMPORARIES);
    if (pass > bench.passes / 2 && training->most_live < training->peak)
        training->most_live = training->peak;
    if (pass > bench.passes / 2 && training->most_reserved < after.recent_peak_reserved)
        training->most_reserved = after.recent_peak_reserved;
    printf("training %u, shape %u: reserved : live %.4f, %.1f %% planned, %lu moves, %lu "
           "plans, %.0f "
           "ns an allocation\n",
           pass, training->shape, ratio,
           100.0 * (double)(after.planned - before) / allocations,
           (unsigned long)after.moves, (unsigned long)after.plans_made, ns / allocations);
    bench_result(name_of_pool(), "training", "reserved:live", ratio);
}

static void run_training(void)
{
    const tarn_pool_options options = {
        .size = sizeof options, .learn = bench.learn, .detect_steps = bench.detect};
    struct training training = {.live = 0};
    tarn_stream raw;

    bench_must(tarn_stream_create(0, true, &raw), "stream");
    bench_must(tarn_stream_register(0, raw, &training.stream), "register");
    bench_must(tarn_pool_create(0, NULL, &options, &training.pool), "pool");
    for (unsigned i = 0; i < LAYERS; i++)
        training.weights[i] =
            training_take(&training, training_bytes(&training, GRADIENT, i));
    for (unsigned pass = 1; pass <= bench.passes; pass++)
        run_training_pass(&training, pass);
    printf("second half: reserved : live %.4f, %.3f GiB live\n",
           (double)training.most_reserved / (double)training.most_live,
           (double)training.most_live / (1 << 30));
    printf("second half: %.0f ns an operation\n",
           (double)training.ns / (double)training.operations);
    for (unsigned i = 0; i < LAYERS; i++) {
        size_t bytes = training_bytes(&training, GRADIENT, i);
        training_put(&training, training.weights[i], bytes);
        training_put(&training, training.gradients[i], bytes);
    }
    tarn_resource_release(training.pool);
    bench_must(tarn_stream_unregister(training.stream), "unregister");
    bench_must(tarn_stream_destroy(0, raw), "destroy");
}

/* --- pairs ----------------------------------------------------------------------------- */

enum { PAIRS = 2000, BATCHES = 31, SLOTS = 64 };

/* A log of SLOTS pairs of one size, as a plan. */
struct text {
    char bytes[SLOTS * 160 + 200];
    size_t length, at;
};

static long read_text(void *data, char *buffer, size_t capacity)
{
    struct text *text = data;
    size_t count = text->length - text->at;

    count = count < capacity ? count : capacity;
    memcpy(buffer, text->bytes + text->at, count);
    text->at += count;
    return (long)count;
}

static tarn_plan *plan_of_pairs(size_t bytes)
{
    struct text *text = bench_allocate(1, sizeof *text);
    tarn_trace *trace;
    tarn_plan *plan;

    text->length =
        (size_t)sprintf(text->bytes, "Thread,Time,Action,Pointer,Size,Stream\n");
    for (int i = 0; i < SLOTS; i++)
        for (int free_too = 0; free_too < 2; free_too++)
            text->length += (size_t)sprintf(
                text->bytes + text->length,
                "1,00:00:%02d.%06d,%s,0x7f0000000000,%zu,0x0\n", i / 60,
                (i % 60) * 10 + free_too, free_too ? "free" : "allocate", bytes);
    bench_must(tarn_trace_load("pairs", read_text, text, NULL, &trace), "pairs");
    bench_must(tarn_trace_plan(trace, NULL, &plan), "pairs");
    tarn_trace_release(trace);
    free(text);
    return plan;
}

static double pair_ns(tarn_resource *pool, size_t bytes, tarn_stream stream)
{
    double ns[BATCHES];
    tarn_device_ptr block;

    for (int b = 0; b < BATCHES; b++) {
        uint64_t start = bench_now_ns();
        for (int i = 0; i < PAIRS; i++) {
            bench_must(tarn_resource_allocate(pool, bytes, 0, stream, &block),
                       "allocate");
            bench_must(tarn_resource_deallocate(pool, block, bytes, 0, stream), "free");
        }
        ns[b] = (double)(bench_now_ns() - start) / PAIRS;
    }
    return bench_median(ns, BATCHES);
}

static void measure_pairs(void)
{
    static const size_t sizes[] = {4096, 1 << 20, 64 << 20};
    tarn_stream raw, stream;

    bench_must(tarn_stream_create(0, true, &raw), "stream");
    bench_must(tarn_stream_register(0, raw, &stream), "register");
    printf("%-12s %12s %12s\n", "bytes", "hit ns", "planned ns");
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        double ns[2];
        for (int planned = 0; planned < 2; planned++) {
            tarn_plan *plan = planned ? plan_of_pairs(sizes[i]) : NULL;
            const tarn_pool_options options = {.size = sizeof options, .plan = plan};
            tarn_resource *pool;
            bench_must(tarn_pool_create(0, NULL, &options, &pool), "pool");
            tarn_plan_release(plan);
            ns[planned] = pair_ns(pool, sizes[i], stream);
            tarn_resource_release(pool);
        }
        printf("%-12zu %12.1f %12.1f\n", sizes[i], ns[0], ns[1]);
        bench_result("pool", "pair", "hit ns", ns[0]);
        bench_result("pool+plan", "pair", "planned ns", ns[1]);
    }
    bench_must(tarn_stream_unregister(stream), "unregister");
    bench_must(tarn_stream_destroy(0, raw), "destroy");
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"passes", required_argument, NULL, 'p'},
                                            {"cap", required_argument, NULL, 'c'},
                                            {"plain", no_argument, NULL, 'n'},
                                            {"learn", no_argument, NULL, 'l'},
                                            {"detect", no_argument, NULL, 'd'},
                                            {"threads", no_argument, NULL, 't'},
                                            {"raw", no_argument, NULL, 'w'},
                                            {"json", required_argument, NULL, 'j'},
                                            {"pairs", no_argument, NULL, 'r'},
                                            {"training", no_argument, NULL, 'g'},
                                            {"shapes", required_argument, NULL, 's'},
                                            {"noise", required_argument, NULL, 'o'},
                                            {"step-ms", required_argument, NULL, 'm'},
                                            {"cold", required_argument, NULL, 'k'},
                                            {NULL, 0, NULL, 0}};
    int option;
    bool pairs = false, training = false;

    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (option == '?')
            return 2;
        if (option == 'p')
            bench.passes = (unsigned)strtoul(optarg, NULL, 10);
        if (option == 'c')
            bench.cap = (unsigned)strtoul(optarg, NULL, 10);
        if (option == 's')
            bench.shapes = (unsigned)strtoul(optarg, NULL, 10);
        if (option == 'o')
            bench.noise = (unsigned)strtoul(optarg, NULL, 10);
        if (option == 'm')
            bench.step_ms = (unsigned)strtoul(optarg, NULL, 10);
        if (option == 'k')
            bench.cold = (unsigned)strtoul(optarg, NULL, 10);
        bench.plain = bench.plain || option == 'n';
        bench.learn = bench.learn || option == 'l' || option == 'd';
        bench.detect = bench.detect || option == 'd';
        bench.threads = bench.threads || option == 't';
        bench.raw = bench.raw || option == 'w';
        pairs = pairs || option == 'r';
        training = training || option == 'g';
        if (option == 'j')
            bench_results_open("plan", optarg);
    }
    if (bench.shapes == 0 || bench.shapes > SHAPES_MOST)
        bench_die("--shapes: from 1 to %d", SHAPES_MOST);
    setenv("TARN_DRIVER", TARN_SIM_PATH, 0);
    setenv("TARN_SIM", "devices=1,memory=192GiB", 0);
    if (pairs)
        measure_pairs();
    else if (training)
        run_training();
    else if (optind == argc)
        bench_die("no LOG; see the first lines of bench/micro/plan.c");
    else
        run_logs(argv + optind, argc - optind);
    bench_results_close();
    return 0;
}
