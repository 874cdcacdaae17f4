/* results.c -- the figures of a run as a line of the table and as JSON lines. */
#define _GNU_SOURCE
#include "peers.h"
#include <string.h>

const struct bench_reported bench_reported[BENCH_REPORTED] = {
    {1, "first"}, {2, "second"}, {5, "fifth"}};

static bool is_a_pool(const struct peer *peer)
{
    return peer->spec && bench_is_pool(peer->spec);
}

void bench_note(const struct peer *peer, const char *what, int which, const char *metric,
                double value)
{
    char name[64];

    snprintf(name, sizeof name, "%s pass, %s", bench_reported[which].name, metric);
    bench_result(peer->name, what, name, value);
}

void bench_note_run(const struct peer *peer, const char *what,
                    const struct bench_replay_options *options,
                    const struct bench_figures *figures)
{
    bool is_pool = is_a_pool(peer);
    uint64_t unused;

    for (int i = 0; i < BENCH_REPORTED; i++) {
        const struct bench_figures *pass = &figures[i];
        if (!pass->done)
            continue;
        bench_note(peer, what, i, "mean ns", pass->mean);
        if (options->clock)
            bench_note(peer, what, i, "p99.9 ns", pass->p999);
        if (options->threads > 1)
            bench_note(peer, what, i, "M operations/s", pass->throughput);
        if (strcmp(peer->name, "empty loop") == 0)
            continue;
        bench_note(peer, what, i, "reserved:live", pass->ratio);
        if (bench_counted_calls(&unused) && peer->spec)
            bench_note(peer, what, i, "driver calls/1000 pairs", pass->calls);
        if (is_pool)
            bench_note(peer, what, i, "counted by the pool/1000 pairs", pass->counted);
        if (pass->failed)
            bench_note(peer, what, i, "failed", (double)pass->failed);
    }
}

static void print_number(bool known, int decimals, double value)
{
    char text[32];

    snprintf(text, sizeof text, "%.*f", decimals, value);
    printf(" %8s", known ? text : "-");
}

void bench_print_run(const struct peer *peer, bool busy,
                     const struct bench_replay_options *options,
                     const struct bench_figures *figures,
                     const struct bench_figures *limited)
{
    bool is_pool = is_a_pool(peer);
    bool empty = strcmp(peer->name, "empty loop") == 0;
    bool counts = bench_counted_calls(&(uint64_t){0}) && peer->spec;

    printf("%-34s %-4s", peer->name, busy ? "busy" : "idle");
    for (int i = 0; i < BENCH_REPORTED; i++) {
        print_number(figures[i].done, 0, figures[i].mean);
        print_number(figures[i].done && options->clock, 0, figures[i].p999);
    }
    for (int i = 0; i < BENCH_REPORTED; i++)
        print_number(figures[i].done && !empty, 3, figures[i].ratio);
    print_number(figures[1].done && counts, 1, figures[1].calls);
    print_number(figures[1].done && is_pool, 1, figures[1].counted);
    if (options->threads > 1)
        print_number(figures[1].done, 2, figures[1].throughput);
    for (int i = 0; i < BENCH_REPORTED; i++)
        print_number(limited && limited[i].done, 0,
                     limited ? (double)limited[i].failed : 0);
    printf("\n");
    fflush(stdout);
}

void bench_print_heading(const struct bench_trace *trace,
                         const struct bench_replay_options *options)
{
    printf("== %s: %zu operations, %u streams, %u threads, peak live %.3f GiB\n"
           "%-34s %-4s",
           trace->name, trace->count, trace->streams, options->threads,
           (double)trace->peak_live_bytes / (double)(1 << 30), "ns an operation", "");
    for (const char *const *head =
             (const char *const[]){"1st", "p99.9", "2nd", "p99.9", "5th", "p99.9",
                                   "1st r:l", "2nd", "5th", "calls/k", "by pool", NULL};
         *head; head++)
        printf(" %8s", *head);
    if (options->threads > 1)
        printf(" %8s", "M op/s");
    printf(" %8s %8s %8s\n", "fails 1", "2", "5");
    fflush(stdout);
}
