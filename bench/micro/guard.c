/* guard.c -- measure what guard mode costs a pair: off, on for other blocks, and on.
 *
 *     bench-guard [--unguarded] [--json FILE]
 *
 * A pair is an allocation of 1024 bytes of a pool and its free, on a registered stream.
 * Each mode has a process of its own, since guard mode cannot be switched off. The
 * processes take turns, so that a change of the machine's speed meets all modes. A figure
 * is the least of the medians of its turns. --unguarded leaves out the modes that guard
 * each block: for bench/null, a driver that takes no time and moves no bytes.
 */
#define _GNU_SOURCE
#include "bench.h"
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BYTES = 1024, PAIRS = 20000, BATCHES = 21, TURNS = 5 };

static const struct mode {
    const char *name, *text; /* of TARN_POOL_DEBUG; NULL: off */
    unsigned pairs;
} modes[] = {
    {"off", NULL, PAIRS},
    {"unsampled", "guard=1/1000000000", PAIRS},
    {"guard=1/100000", "guard=1/100000", PAIRS},
    {"guard=1/1000", "guard=1/1000", PAIRS},
    {"guard", "guard", 100},
    {"guard,poison", "guard,poison", 100},
    {"guard,poison,quarantine", "guard,poison,quarantine=1MiB", 100},
};

/* The median time of a pair, in nanoseconds. */
static double measure(const struct mode *mode)
{
    double times[BATCHES];
    tarn_resource *pool = bench_resource("pool", 0);
    tarn_stream raw, stream;
    tarn_device_ptr block;

    bench_must(tarn_stream_create(0, true, &raw), "stream");
    bench_must(tarn_stream_register(0, raw, &stream), "register");
    for (int batch = 0; batch < BATCHES; batch++) {
        uint64_t start = bench_now_ns();
        for (unsigned i = 0; i < mode->pairs; i++) {
            bench_must(tarn_resource_allocate(pool, BYTES, 0, stream, &block),
                       "allocate");
            bench_must(tarn_resource_deallocate(pool, block, BYTES, 0, stream), "free");
        }
        times[batch] = (double)(bench_now_ns() - start) / mode->pairs;
    }
    return bench_median(times, BATCHES);
}

static void run_child(const struct mode *mode, int out)
{
    tarn_guard_options options;

    if (mode->text) {
        bench_must(tarn_guard_parse(mode->text, &options), "options");
        bench_must(tarn_guard_enable(&options), "guard mode");
    }
    double time = measure(mode);
    _exit(write(out, &time, sizeof time) == sizeof time ? 0 : 1);
}

static double measure_in_child(const struct mode *mode)
{
    int ends[2], status = 1;
    double time = 0;

    if (pipe(ends) != 0)
        bench_die("no pipe");
    pid_t child = fork();
    if (child == 0)
        run_child(mode, ends[1]);
    if (child < 0 || read(ends[0], &time, sizeof time) != sizeof time ||
        waitpid(child, &status, 0) != child || status != 0)
        bench_die("%s: the process failed", mode->name);
    close(ends[0]);
    close(ends[1]);
    return time;
}

int main(int argc, char **argv)
{
    enum { MODES = sizeof modes / sizeof *modes, UNGUARDED = 2 };
    double best[MODES];
    int count = MODES, next = 1;

    if (next < argc && strcmp(argv[next], "--unguarded") == 0) {
        count = UNGUARDED;
        next++;
    }
    if (argc == next + 2 && strcmp(argv[next], "--json") == 0)
        bench_results_open("guard", argv[next + 1]);
    else if (next < argc)
        bench_die("usage: bench-guard [--unguarded] [--json FILE]");
    for (int turn = 0; turn < TURNS; turn++)
        for (int i = 0; i < count; i++) {
            double time = measure_in_child(&modes[i]);
            if (turn == 0 || time < best[i])
                best[i] = time;
        }
    printf("%-24s %10s %8s\n", "mode", "ns a pair", "of off");
    for (int i = 0; i < count; i++) {
        printf("%-24s %10.1f %7.3fx\n", modes[i].name, best[i], best[i] / best[0]);
        bench_result(modes[i].name, "pair", "ns", best[i]);
    }
    bench_results_close();
    return 0;
}
