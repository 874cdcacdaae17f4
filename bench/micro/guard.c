/* guard.c -- measure what guard mode costs a pair: off, on for other blocks, and on.
 *
 *     bench-guard [--unguarded] [--bytes N] [--stream registered|raw|none] [--json FILE]
 *
 * A pair is an allocation of 1024 bytes of a pool and its free, on a registered stream.
 * Each mode has a process of its own, since guard mode cannot be switched off. The
 * processes take turns, so that a change of the machine's speed meets all modes. The time
 * is CPU time of the thread that allocates. It leaves out other processes, and the threads of
 * the simulator. A figure is the least of the medians of its turns.
 *
 * A sample costs what its mode adds to the pairs between two samples. Driver calls of a
 * sample are counted on the simulator, in the last batches.
 *
 * --unguarded leaves out the modes that guard blocks: for bench/null, a driver that takes no
 * time and moves no bytes.
 */
#define _GNU_SOURCE
#include "bench.h"
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PAIRS = 20000, BATCHES = 21, TURNS = 5 };

static size_t bytes = 1024;
static const char *stream_kind = "registered";

static const struct mode {
    const char *name, *text; /* of TARN_POOL_DEBUG; NULL: off */
    unsigned pairs;          /* of a batch */
} modes[] = {
    {"off", NULL, PAIRS},
    {"unsampled", "guard=1/1000000000", PAIRS},
    {"guard=1/100000", "guard=1/100000", 20 * PAIRS},
    {"guard=1/10000", "guard=1/10000", 5 * PAIRS},
    {"guard=1/1000", "guard=1/1000", PAIRS},
    {"guard=1/1000,poison", "guard=1/1000,poison", PAIRS},
    {"guard=1/1000,stacks=16", "guard=1/1000,stacks=16", PAIRS},
    {"guard", "guard", 100},
    {"guard,poison", "guard,poison", 100},
    {"guard,poison,quarantine", "guard,poison,quarantine=1MiB", 100},
};

struct figures {
    double pair_ns, calls; /* a pair, and driver calls of a sample */
};

static uint64_t cpu_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static tarn_stream make_stream(void)
{
    tarn_stream raw, stream;

    if (strcmp(stream_kind, "none") == 0)
        return TARN_STREAM_NONE;
    bench_must(tarn_stream_create(0, true, &raw), "stream");
    if (strcmp(stream_kind, "raw") == 0)
        return raw;
    bench_must(tarn_stream_register(0, raw, &stream), "register");
    return stream;
}

static uint64_t count_samples(void)
{
    tarn_guard_counts counts = {.size = sizeof counts};

    return tarn_guard_read_counts(NULL, &counts) == TARN_OK ? counts.guarded : 0;
}

static struct figures measure(const struct mode *mode)
{
    tarn_resource *pool = bench_resource("pool", 0);
    tarn_stream stream = make_stream();
    uint64_t samples = 0, calls = 0;
    double times[BATCHES];
    tarn_device_ptr block;

    for (int batch = 0; batch < BATCHES; batch++) {
        if (batch == BATCHES / 2) {
            samples = count_samples();
            calls = bench_driver_calls();
        }
        uint64_t start = cpu_now_ns();
        for (unsigned i = 0; i < mode->pairs; i++) {
            bench_must(tarn_resource_allocate(pool, bytes, 0, stream, &block),
                       "allocate");
            bench_must(tarn_resource_deallocate(pool, block, bytes, 0, stream), "free");
        }
        times[batch] = (double)(cpu_now_ns() - start) / mode->pairs;
    }
    samples = count_samples() - samples;
    calls = bench_driver_calls() - calls;
    return (struct figures){bench_median(times, BATCHES),
                            samples > 0 ? (double)calls / (double)samples : 0};
}

static void run_child(const struct mode *mode, int out)
{
    tarn_guard_options options;

    if (mode->text) {
        bench_must(tarn_guard_parse(mode->text, &options), "options");
        bench_must(tarn_guard_enable(&options), "guard mode");
    }
    struct figures figures = measure(mode);
    _exit(write(out, &figures, sizeof figures) == sizeof figures ? 0 : 1);
}

static struct figures measure_in_child(const struct mode *mode)
{
    int ends[2], status = 1;
    struct figures figures = {0};

    if (pipe(ends) != 0)
        bench_die("no pipe");
    pid_t child = fork();
    if (child == 0)
        run_child(mode, ends[1]);
    if (child < 0 || read(ends[0], &figures, sizeof figures) != sizeof figures ||
        waitpid(child, &status, 0) != child || status != 0)
        bench_die("%s: the process failed", mode->name);
    close(ends[0]);
    close(ends[1]);
    return figures;
}

/* Return how many pairs have one sample; 0: the mode has none. */
static double pairs_of_sample(const struct mode *mode)
{
    tarn_guard_options options;

    if (!mode->text || tarn_guard_parse(mode->text, &options) != TARN_OK)
        return 0;
    return options.sample > 1 ? (double)options.sample : 1;
}

static void print_mode(const struct mode *mode, const struct figures *figures,
                       const struct figures *off, const struct figures *unsampled)
{
    double pairs = pairs_of_sample(mode);

    printf("%-24s %10.1f %7.3fx", mode->name, figures->pair_ns,
           figures->pair_ns / off->pair_ns);
    if (pairs > 0 && figures != unsampled)
        printf(" %10.0f %8.2f", (figures->pair_ns - unsampled->pair_ns) * pairs,
               figures->calls);
    printf("\n");
    bench_result(mode->name, "pair", "ns", figures->pair_ns);
}

int main(int argc, char **argv)
{
    enum { MODES = sizeof modes / sizeof *modes, UNGUARDED = 2 };
    const char *json = NULL;
    struct figures best[MODES];
    int count = MODES;

    for (int i = 1; i < argc; i++) {
        bool has_value = i + 1 < argc;
        if (strcmp(argv[i], "--unguarded") == 0)
            count = UNGUARDED;
        else if (has_value && strcmp(argv[i], "--bytes") == 0)
            bytes = bench_bytes(argv[++i]);
        else if (has_value && strcmp(argv[i], "--stream") == 0)
            stream_kind = argv[++i];
        else if (has_value && strcmp(argv[i], "--json") == 0)
            json = argv[++i];
        else
            bench_die("usage: bench-guard [--unguarded] [--bytes N] "
                      "[--stream registered|raw|none] [--json FILE]");
    }
    if (json)
        bench_results_open("guard", json);
    for (int turn = 0; turn < TURNS; turn++)
        for (int i = 0; i < count; i++) {
            struct figures figures = measure_in_child(&modes[i]);
            if (turn == 0 || figures.pair_ns < best[i].pair_ns)
                best[i] = figures;
        }
    printf("%-24s %10s %8s %10s %8s\n", "mode", "ns a pair", "of off", "ns a sample",
           "calls");
    for (int i = 0; i < count; i++)
        print_mode(&modes[i], &best[i], &best[0], &best[1]);
    if (json)
        bench_results_close();
    return 0;
}
