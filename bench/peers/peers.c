/* peers.c -- the same work on Tarn, the driver's pool and the available peers.
 *
 *     bench-peers [--peer libpeer_rmm.so]... [--only-peers] [--quick] [--skip WORDS]
 *         [--json FILE] TRACE...
 *
 * It measures pairs, threads, free memory between live blocks, and the traces: first and
 * second pass, on an idle device and on a busy one. For the traces it prints the reserved
 * memory, and failed allocations under a limit of 1.05 times the peak live. Each peer
 * does all of it in one process, one after the other; bench/peers/table.py prints the
 * table. On the simulator only Tarn and the driver's pool run, as a rehearsal.
 */
#define _GNU_SOURCE
#include "bench.h"
#include "peer.h"
#include <dlfcn.h>
#include <getopt.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { BATCHES = 31, PEERS_MAX = 16, HOLES = 65536, THREADS_MAX = 16, LOOK_EVERY = 64 };

static unsigned shrink = 1; /* repetitions are divided by this: --quick */
static const char *skipped = "";

/* --- Tarn and the driver's pool as peers --------------------------------------------- */

/* Streams that are registered for the peer that requires it: few, looked up by handle. */
struct tarn_peer {
    tarn_resource *resource;
    bool opens, is_pool;
    struct {
        void *raw;
        tarn_stream stream;
    } registered[64];
    unsigned registered_count;
    pthread_mutex_t lock;
    size_t peak; /* the largest decrease of the device's free memory: not a pool's */
};

static tarn_stream stream_for(struct tarn_peer *peer, void *raw)
{
    static _Thread_local struct tarn_peer *last_peer;
    static _Thread_local void *last_raw;
    static _Thread_local tarn_stream last;

    if (!peer->opens)
        return (tarn_stream)raw;
    if (last_peer == peer && last_raw == raw)
        return last;
    pthread_mutex_lock(&peer->lock);
    unsigned i = 0;
    while (i < peer->registered_count && peer->registered[i].raw != raw)
        i++;
    if (i == peer->registered_count) {
        if (i == sizeof peer->registered / sizeof *peer->registered)
            bench_die("too many streams");
        bench_must(tarn_stream_register(0, (tarn_stream)raw, &peer->registered[i].stream),
                   "open");
        peer->registered[i].raw = raw;
        peer->registered_count++;
    }
    last = peer->registered[i].stream;
    pthread_mutex_unlock(&peer->lock);
    last_peer = peer;
    last_raw = raw;
    return last;
}

static void *tarn_open(const char *spec, size_t most, bool opens)
{
    struct tarn_peer *peer = bench_allocate(1, sizeof *peer);

    peer->opens = opens;
    peer->is_pool = bench_is_pool(spec);
    pthread_mutex_init(&peer->lock, NULL);
    bench_memory_start();
    peer->resource = bench_resource(spec, most);
    return peer;
}

static void *open_raw(size_t most, size_t live)
{
    (void)live;
    return tarn_open("pool", most, false);
}

static void *register_stream(size_t most, size_t live)
{
    (void)live;
    return tarn_open("pool", most, true);
}

static void *open_async(size_t most, size_t live)
{
    (void)most, (void)live;
    return tarn_open("async", 0, false);
}

static unsigned long long tarn_peer_allocate(void *self, size_t bytes, void *stream)
{
    struct tarn_peer *peer = self;
    tarn_device_ptr block;

    return tarn_resource_allocate(peer->resource, bytes, 0, stream_for(peer, stream),
                                  &block) == TARN_OK
               ? block
               : 0;
}

static void tarn_peer_free(void *self, unsigned long long block, size_t bytes,
                           void *stream)
{
    struct tarn_peer *peer = self;

    bench_must(tarn_resource_deallocate(peer->resource, block, bytes, 0,
                                        stream_for(peer, stream)),
               "free");
}

static size_t tarn_peer_peak(void *self)
{
    struct tarn_peer *peer = self;
    tarn_pool_statistics statistics = {.size = sizeof statistics};
    size_t taken;

    if (peer->is_pool) {
        bench_must(tarn_pool_get_statistics(peer->resource, &statistics), "statistics");
        return statistics.peak_reserved;
    }
    taken = bench_memory_taken();
    peer->peak = taken > peer->peak ? taken : peer->peak;
    return peer->peak;
}

static void tarn_peer_close(void *self)
{
    struct tarn_peer *peer = self;

    for (unsigned i = 0; i < peer->registered_count; i++)
        bench_must(tarn_stream_unregister(peer->registered[i].stream), "close");
    bench_must(tarn_resource_release(peer->resource), "release");
    pthread_mutex_destroy(&peer->lock);
    free(peer);
}

#define TARN_PEER(name, limits, open)                                          \
    {name,           limits,         true,           open, tarn_peer_allocate, \
     tarn_peer_free, tarn_peer_peak, tarn_peer_close}
static const struct peer tarn_peers[] = {
    TARN_PEER("Tarn raw", true, open_raw),
    TARN_PEER("Tarn registered", true, register_stream),
    TARN_PEER("driver pool", false, open_async)};

/* --- one peer at work ------------------------------------------------------------------ */

struct session {
    const struct peer *peer;
    void *self;
    tarn_stream streams[THREADS_MAX];
};

static bool begin(struct session *session, const struct peer *peer, size_t most,
                  size_t live)
{
    session->peer = peer;
    session->self = peer->open(most, live);
    if (!session->self)
        return false;
    for (int i = 0; i < THREADS_MAX; i++)
        bench_must(tarn_stream_create(0, true, &session->streams[i]), "stream");
    return true;
}

static void end(struct session *session)
{
    bench_must(tarn_driver_synchronize(0), "synchronize");
    session->peer->close(session->self);
    for (int i = 0; i < THREADS_MAX; i++)
        bench_must(tarn_stream_destroy(0, session->streams[i]), "stream");
}

static unsigned long long get(struct session *session, size_t bytes, tarn_stream stream)
{
    unsigned long long block = session->peer->allocate(session->self, bytes, stream);

    if (!block)
        bench_die("%s has no %zu bytes", session->peer->name, bytes);
    return block;
}

static void put(struct session *session, unsigned long long block, size_t bytes,
                tarn_stream stream)
{
    session->peer->deallocate(session->self, block, bytes, stream);
}

static double pair_ns(struct session *session, size_t bytes)
{
    double ns[BATCHES];
    unsigned pairs = 2000 / shrink;
    tarn_stream stream = session->streams[0];

    for (unsigned i = 0; i < pairs / 10; i++)
        put(session, get(session, bytes, stream), bytes, stream);
    for (unsigned b = 0; b < BATCHES; b++) {
        uint64_t start = bench_now_ns();
        for (unsigned i = 0; i < pairs; i++)
            put(session, get(session, bytes, stream), bytes, stream);
        ns[b] = (double)(bench_now_ns() - start) / pairs;
    }
    return bench_median(ns, BATCHES);
}

static void report_result(const struct peer *peer, const char *what, const char *metric,
                          double value)
{
    printf("%-14s %-34s %-22s %12.3f\n", peer->name, what, metric, value);
    fflush(stdout);
    bench_result(peer->name, what, metric, value);
}

static void measure_pairs(struct session *session)
{
    static const size_t sizes[] = {256, 4096, 1 << 20, 64 << 20, 1 << 30};

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char what[64];
        snprintf(what, sizeof what, "pair of %zu", sizes[i]);
        report_result(session->peer, what, "ns", pair_ns(session, sizes[i]));
    }
}

struct worker {
    struct session *session;
    tarn_stream stream;
    unsigned pairs;
    pthread_barrier_t *start;
    pthread_t thread;
    uint64_t began, ended;
};

static void *work(void *data)
{
    struct worker *worker = data;

    /* Make the context current in this thread, for peers that need that. */
    bench_must(tarn_stream_synchronize(0, worker->stream), "synchronize");
    pthread_barrier_wait(worker->start);
    worker->began = bench_now_ns();
    for (unsigned i = 0; i < worker->pairs; i++) {
        size_t bytes = (size_t)256 << (i % 8);
        put(worker->session, get(worker->session, bytes, worker->stream), bytes,
            worker->stream);
    }
    worker->ended = bench_now_ns();
    return NULL;
}

static void measure_threads(struct session *session, unsigned count)
{
    struct worker workers[THREADS_MAX];
    pthread_barrier_t start;
    uint64_t began = UINT64_MAX, ended = 0;
    unsigned pairs = (count > 4 ? 20000 : 50000) / shrink;
    char what[64];

    pthread_barrier_init(&start, NULL, count);
    for (unsigned i = 0; i < count; i++) {
        workers[i] = (struct worker){.session = session,
                                     .stream = session->streams[i],
                                     .pairs = pairs,
                                     .start = &start};
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0)
            bench_die("no thread");
    }
    for (unsigned i = 0; i < count; i++) {
        pthread_join(workers[i].thread, NULL);
        began = workers[i].began < began ? workers[i].began : began;
        ended = workers[i].ended > ended ? workers[i].ended : ended;
    }
    pthread_barrier_destroy(&start);
    snprintf(what, sizeof what, "%u threads, own streams", count);
    report_result(session->peer, what, "M pairs/s",
                  (double)count * pairs / (double)(ended - began) * 1e3);
}

static void measure_holes(struct session *session)
{
    size_t count = 2 * HOLES / shrink;
    unsigned long long *blocks = bench_allocate(count, sizeof *blocks);
    tarn_stream stream = session->streams[0];

    for (size_t i = 0; i < count; i++)
        blocks[i] = get(session, 512, stream);
    for (size_t i = 0; i < count; i += 2)
        put(session, blocks[i], 512, stream);
    unsigned was = shrink;
    shrink = shrink < 20 ? 20 : shrink; /* some take 0.3 ms for each */
    report_result(session->peer, "65,536 holes, pair of 64 KiB", "ns",
                  pair_ns(session, 65536));
    shrink = was;
    for (size_t i = 1; i < count; i += 2)
        put(session, blocks[i], 512, stream);
    free(blocks);
}

/* --- traces ---------------------------------------------------------------------------- */

struct replay {
    struct session session;
    const struct bench_trace *trace;
    unsigned long long *blocks;
    bool busy;
    uint64_t failed;
};

static void touch(const struct replay *replay, const struct bench_op *op,
                  tarn_stream stream)
{
    size_t bytes = op->bytes < (64 << 10) ? op->bytes : (64 << 10);

    if (replay->busy)
        bench_must(tarn_memset_async(0, replay->blocks[op->block], 1, bytes, stream),
                   "fill");
}

/* Run one operation; return the ns of the call. */
static uint64_t play(struct replay *replay, const struct bench_op *op)
{
    unsigned long long *block = &replay->blocks[op->block];
    tarn_stream stream = replay->session.streams[op->stream % THREADS_MAX];
    uint64_t start, took;

    if (op->is_free) {
        if (!*block)
            return 0;
        touch(replay, op, stream);
        start = bench_now_ns();
        put(&replay->session, *block, op->bytes, stream);
        *block = 0;
        return bench_now_ns() - start;
    }
    start = bench_now_ns();
    *block = replay->session.peer->allocate(replay->session.self, op->bytes, stream);
    took = bench_now_ns() - start;
    if (*block)
        touch(replay, op, stream);
    else
        replay->failed++;
    return took;
}

static void pass(struct replay *replay, const char *what, const char *which)
{
    const struct bench_trace *trace = replay->trace;
    const struct peer *peer = replay->session.peer;
    uint64_t *ns = bench_allocate(trace->count, sizeof *ns), sum = 0, live = 0, most = 0;
    char metric[64];

    for (size_t i = 0; i < trace->count; i++) {
        const struct bench_op *op = &trace->ops[i];
        ns[i] = play(replay, op);
        sum += ns[i];
        live += op->is_free ? -op->bytes : op->bytes;
        if (peer->reserves && (live > most || i % LOOK_EVERY == 0))
            peer->reserved_peak(replay->session.self);
        most = live > most ? live : most;
    }
    bench_sort(ns, trace->count);
    snprintf(metric, sizeof metric, "%s pass, mean ns", which);
    report_result(peer, what, metric, (double)sum / (double)trace->count);
    snprintf(metric, sizeof metric, "%s pass, p99.9 ns", which);
    report_result(peer, what, metric, bench_percentile(ns, trace->count, 0.999));
    if (peer->reserves) {
        snprintf(metric, sizeof metric, "%s pass, reserved:live", which);
        report_result(peer, what, metric,
                      (double)peer->reserved_peak(replay->session.self) /
                          (double)trace->peak_live_bytes);
    }
    free(ns);
}

static bool replay_begin(struct replay *replay, const struct peer *peer,
                         const struct bench_trace *trace, size_t most)
{
    replay->trace = trace;
    replay->failed = 0;
    if (!begin(&replay->session, peer, most, trace->peak_live_bytes))
        return false;
    replay->blocks = bench_allocate(trace->blocks, sizeof *replay->blocks);
    return true;
}

static void replay_end(struct replay *replay)
{
    end(&replay->session);
    free(replay->blocks);
}

static void measure_trace(const struct peer *peer, const struct bench_trace *trace,
                          bool busy)
{
    struct replay replay = {.busy = busy};
    char what[96];

    snprintf(what, sizeof what, "%s, %s device", trace->name, busy ? "busy" : "idle");
    if (!replay_begin(&replay, peer, trace, 0))
        return;
    pass(&replay, what, "first");
    bench_must(tarn_driver_synchronize(0), "synchronize");
    pass(&replay, what, "second");
    if (replay.failed)
        report_result(peer, what, "failed", (double)replay.failed);
    replay_end(&replay);
    if (!peer->limits ||
        !replay_begin(&replay, peer, trace, trace->peak_live_bytes / 20 * 21))
        return;
    for (size_t i = 0; i < trace->count; i++)
        play(&replay, &trace->ops[i]);
    report_result(peer, what, "failed with 1.05 x live", (double)replay.failed);
    replay_end(&replay);
}

static bool is_skipped(const char *what)
{
    return strstr(skipped, what) != NULL;
}

static void measure(const struct peer *peer, struct bench_trace **traces, int count)
{
    struct session session;

    if (begin(&session, peer, 0, (size_t)12 << 30)) {
        measure_pairs(&session);
        for (unsigned threads = 1; threads <= THREADS_MAX; threads *= 4)
            measure_threads(&session, threads);
        if (!is_skipped("holes"))
            measure_holes(&session);
        end(&session);
    }
    for (int i = 0; i < count; i++) {
        measure_trace(peer, traces[i], false);
        if (!is_skipped("busy"))
            measure_trace(peer, traces[i], true);
    }
}

/* --- the command line ------------------------------------------------------------------ */

static size_t load(const char *path, const struct peer **out)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    void *symbol = library ? dlsym(library, "bench_peers") : NULL;
    bench_peers_fn *peers;
    size_t count;

    if (!symbol)
        bench_die("%s", dlerror());
    memcpy(&peers, &symbol, sizeof peers);
    *out = peers(&count);
    return count;
}

int main(int argc, char **argv)
{
    static const struct option known[] = {
        {"peer", required_argument, NULL, 'p'}, {"only-peers", no_argument, NULL, 'o'},
        {"quick", no_argument, NULL, 'q'},      {"skip", required_argument, NULL, 's'},
        {"json", required_argument, NULL, 'j'}, {NULL, 0, NULL, 0}};
    const char *json = NULL, *libraries[PEERS_MAX];
    bool only_peers = false;
    int option, library_count = 0;

    while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
        if (option == 'p' && library_count < PEERS_MAX)
            libraries[library_count++] = optarg;
        else if (option == 'q')
            shrink = 50;
        else if (option == 'o')
            only_peers = true;
        else if (option == 's')
            skipped = optarg;
        else if (option == 'j')
            json = optarg;
        else
            return 2;
    }
    setenv("TARN_SIM", "memory=64GiB", 0);
    bench_results_open("peers", json);
    int trace_count = argc - optind;
    struct bench_trace **traces = bench_allocate((size_t)trace_count, sizeof *traces);
    for (int i = 0; i < trace_count; i++)
        traces[i] = bench_trace_load(argv[optind + i]);
    for (size_t i = 0; !only_peers && i < sizeof tarn_peers / sizeof *tarn_peers; i++)
        measure(&tarn_peers[i], traces, trace_count);
    for (int l = 0; l < library_count; l++) {
        const struct peer *peers = NULL;
        size_t count = load(libraries[l], &peers);
        for (size_t i = 0; i < count; i++)
            measure(&peers[i], traces, trace_count);
    }
    for (int i = 0; i < trace_count; i++)
        bench_trace_free(traces[i]);
    free(traces);
    bench_results_close();
    return 0;
}
