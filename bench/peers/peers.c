/* peers.c -- the same work on Tarn, the driver's pool and the available peers.
 *
 *     bench-peers [--who SPEC]... [--peer libpeer_rmm.so]... [--only NAME]...
 *         [--skip WORDS] [--quick] [--traces-only] [--passes N] [--other-passes N]
 *         [--threads N] [--idle] [--busy] [--initial FACTOR] [--limit FACTOR]
 *         [--busy-limit] [--streams kept|end] [--no-clock] [--seconds S]
 *         [--scale FACTOR] [--latency MIN-MAX] [--seed N] [--json FILE] TRACE...
 *
 * SPEC is a resource of Tarn as in bench/support/bench.h, for example
 * `pool:growth=64MiB,grow_first`. A pool runs with raw and with registered streams.
 * `async` is the driver's pool, and `empty` the same loop without an allocator. The
 * default is `empty`, `pool` and `async`; with --peer it is none. --only selects the
 * allocators whose names begin so.
 *
 * Each allocator runs the pairs, the threads and the holes (loops.c), then the traces
 * (replay.c). --traces-only leaves out the former, --skip names parts of them, --quick
 * repeats them less. On an idle device every free is complete at once. On a busy one the
 * program fills each block after its allocation and before its free. These options
 * concern the traces:
 *
 *   --initial       adds the peers that reserve FACTOR times the peak live and 64 MiB at
 *                   their creation
 *   --passes        the passes 1, 2 and 5 of them are printed; default: 5
 *   --other-passes  the passes of all but Tarn's pools
 *   --limit         maximum of a further run, times the peak live; 0: no such run
 *   --busy-limit    make that run on the busy device, too
 *   --threads       stream i belongs to thread i modulo N
 *   --seconds       end a run that takes longer; its last pass is left out
 *
 * A driver that counts (bench/timed) adds the driver calls in 1,000 pairs. On the
 * simulator times say nothing.
 */
#define _GNU_SOURCE
#include "peers.h"
#include <dlfcn.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS_MAX = 32, PEERS_MAX = 96 };

struct words {
    const char *word[WORDS_MAX];
    int count;
};

static struct {
    struct words specs, libraries, only;
    const char *skipped, *json;
    bool quick, traces_only;
    double scale;
    struct bench_replay_options replay;
} options = {.skipped = "",
             .scale = 1,
             .replay = {.passes = 5,
                        .threads = 1,
                        .clock = true,
                        .limit = 1.05,
                        .latency = "1000-100000",
                        .sim_seed = "0"}};

static struct peer peers[PEERS_MAX];
static size_t peer_count;

/* --- the allocators ----------------------------------------------------------------- */

static void load(const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    void *symbol = library ? dlsym(library, "bench_peers") : NULL;
    bench_peers_fn *list;
    size_t count;

    if (!symbol)
        bench_die("%s", dlerror());
    memcpy(&list, &symbol, sizeof list);
    const struct peer *found = list(&count);
    for (size_t i = 0; i < count && peer_count < PEERS_MAX; i++)
        if (!found[i].starts || options.replay.initial > 0)
            peers[peer_count++] = found[i];
}

static bool is_wanted(const struct peer *peer)
{
    for (int i = 0; i < options.only.count; i++)
        if (strncmp(peer->name, options.only.word[i], strlen(options.only.word[i])) == 0)
            return true;
    return options.only.count == 0;
}

static void collect(void)
{
    for (int i = 0; i < options.specs.count; i++)
        for (int initial = 0; initial <= (options.replay.initial > 0); initial++)
            peer_count += bench_tarn_peers(options.specs.word[i], initial,
                                           peers + peer_count, PEERS_MAX - peer_count);
    for (int i = 0; i < options.libraries.count; i++)
        load(options.libraries.word[i]);
    size_t kept = 0;
    for (size_t i = 0; i < peer_count; i++)
        if (is_wanted(&peers[i]))
            peers[kept++] = peers[i];
    peer_count = kept;
}

/* --- the command line --------------------------------------------------------------- */

static const char usage[] =
    "usage: bench-peers [--who SPEC]... [--peer LIBRARY]... [--only NAME]...\n"
    "           [--skip WORDS] [--quick] [--traces-only] [--passes N] [--threads N]\n"
    "           [--other-passes N] [--idle] [--busy] [--initial FACTOR] [--limit FACTOR] "
    "[--busy-limit]\n"
    "           [--streams kept|end] [--no-clock] [--seconds S] [--scale FACTOR]\n"
    "           [--latency MIN-MAX] [--seed N] [--json FILE] TRACE...\n";

static void bad_usage(void)
{
    fputs(usage, stderr);
    exit(2);
}

static void add(struct words *words, const char *word)
{
    if (words->count == WORDS_MAX)
        bench_die("too many options");
    words->word[words->count++] = word;
}

static unsigned number(const char *text, unsigned most)
{
    char *end;
    unsigned long value = strtoul(text, &end, 10);

    if (end == text || *end || value < 1 || value > most)
        bench_die("%s is not a number from 1 to %u", text, most);
    return (unsigned)value;
}

static double factor(const char *text)
{
    char *end;
    double value = strtod(text, &end);

    if (end == text || *end || !(value >= 0))
        bench_die("%s is not a number", text);
    return value;
}

static enum bench_streams take_streams(const char *text)
{
    if (strcmp(text, "kept") == 0)
        return BENCH_STREAMS_KEPT;
    if (strcmp(text, "end") != 0)
        bad_usage();
    return BENCH_STREAMS_END;
}

static const struct option known[] = {{"who", required_argument, NULL, 'w'},
                                      {"peer", required_argument, NULL, 'p'},
                                      {"only", required_argument, NULL, 'o'},
                                      {"skip", required_argument, NULL, 'k'},
                                      {"quick", no_argument, NULL, 'q'},
                                      {"traces-only", no_argument, NULL, 't'},
                                      {"passes", required_argument, NULL, 'n'},
                                      {"other-passes", required_argument, NULL, 'N'},
                                      {"threads", required_argument, NULL, 'h'},
                                      {"idle", no_argument, NULL, 'i'},
                                      {"busy", no_argument, NULL, 'b'},
                                      {"initial", required_argument, NULL, 'I'},
                                      {"limit", required_argument, NULL, 'l'},
                                      {"busy-limit", no_argument, NULL, 'B'},
                                      {"streams", required_argument, NULL, 's'},
                                      {"no-clock", no_argument, NULL, 'c'},
                                      {"seconds", required_argument, NULL, 'S'},
                                      {"scale", required_argument, NULL, 'x'},
                                      {"latency", required_argument, NULL, 'L'},
                                      {"seed", required_argument, NULL, 'e'},
                                      {"json", required_argument, NULL, 'j'},
                                      {NULL, 0, NULL, 0}};

static void take_option(int option)
{
    struct bench_replay_options *replay = &options.replay;

    switch (option) {
    case 'w':
        add(&options.specs, optarg);
        break;
    case 'p':
        add(&options.libraries, optarg);
        break;
    case 'o':
        add(&options.only, optarg);
        break;
    case 'k':
        options.skipped = optarg;
        break;
    case 'q':
        options.quick = true;
        break;
    case 't':
        options.traces_only = true;
        break;
    case 'n':
        replay->passes = number(optarg, 1000);
        break;
    case 'N':
        replay->other_passes = number(optarg, 1000);
        break;
    case 'h':
        replay->threads = number(optarg, 256);
        break;
    case 'i':
        replay->idle = true;
        break;
    case 'b':
        replay->busy = true;
        break;
    case 'I':
        replay->initial = factor(optarg);
        break;
    case 'l':
        replay->limit = factor(optarg);
        break;
    case 'B':
        replay->busy_limit = true;
        break;
    case 's':
        replay->streams = take_streams(optarg);
        break;
    case 'c':
        replay->clock = false;
        break;
    case 'S':
        replay->seconds = factor(optarg);
        break;
    case 'x':
        options.scale = factor(optarg);
        break;
    case 'L':
        replay->latency = optarg;
        break;
    case 'e':
        replay->sim_seed = optarg;
        break;
    case 'j':
        options.json = optarg;
        break;
    default:
        bad_usage();
    }
}

static void take_options(int argc, char **argv)
{
    int option;

    while ((option = getopt_long(argc, argv, "", known, NULL)) != -1)
        take_option(option);
    if (!options.specs.count && !options.libraries.count) {
        add(&options.specs, "empty");
        add(&options.specs, "pool");
        add(&options.specs, "async");
    }
    if (!options.replay.idle && !options.replay.busy)
        options.replay.idle = options.replay.busy = true;
}

static void replay(const char *path)
{
    struct bench_trace *trace = bench_trace_load(path);

    if (options.scale != 1)
        bench_trace_scale(trace, options.scale);
    bench_print_heading(trace, &options.replay);
    for (size_t i = 0; i < peer_count; i++)
        bench_measure_trace(&peers[i], trace, &options.replay);
    bench_trace_free(trace);
}

int main(int argc, char **argv)
{
    take_options(argc, argv);
    setenv("TARN_SIM", "memory=192GiB", 0); /* addresses are fixed when it starts */
    bench_results_open("peers", options.json);
    collect();
    for (size_t i = 0; i < peer_count && !options.traces_only; i++)
        if ((!peers[i].starts || peers[i].limits) &&
            strcmp(peers[i].name, "empty loop") != 0)
            bench_measure_loops(&peers[i], options.quick ? 50 : 1, options.skipped);
    for (int i = optind; i < argc; i++)
        replay(argv[i]);
    bench_results_close();
    return 0;
}
