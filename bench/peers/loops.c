/* loops.c -- pairs, threads, and free memory between live blocks, on one allocator. */
#define _GNU_SOURCE
#include "peers.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { BATCHES = 31, HOLES = 65536, THREADS_MAX = 16 };

/* Of peers that start with memory; the largest pair is 1 GiB. */
#define INITIAL_BYTES ((size_t)12 << 30)

static unsigned shrink;

/* --- one peer at work --------------------------------------------------------------- */

struct session {
    const struct peer *peer;
    void *self;
    tarn_stream raw[THREADS_MAX];
    void *streams[THREADS_MAX]; /* passed to the allocator */
};

static bool begin(struct session *session, const struct peer *peer)
{
    struct peer_setup setup = {.initial_bytes = peer->starts ? INITIAL_BYTES : 0};

    bench_make_current();
    session->peer = peer;
    session->self = peer->open(peer, &setup);
    if (!session->self)
        return false;
    for (int i = 0; i < THREADS_MAX; i++) {
        bench_must(tarn_stream_create(0, true, &session->raw[i]), "stream");
        session->streams[i] = peer->begin_stream
                                  ? peer->begin_stream(session->self, session->raw[i])
                                  : session->raw[i];
    }
    return true;
}

static void end(struct session *session)
{
    for (int i = 0; i < THREADS_MAX; i++) {
        if (session->peer->end_stream)
            session->peer->end_stream(session->self, session->streams[i]);
        bench_stream_destroy(session->raw[i]);
    }
    bench_must(tarn_driver_synchronize(0), "synchronize");
    session->peer->close(session->self);
}

static unsigned long long get(struct session *session, size_t bytes, void *stream)
{
    unsigned long long block = session->peer->allocate(session->self, bytes, stream);

    if (!block)
        bench_die("%s has no %zu bytes", session->peer->name, bytes);
    return block;
}

static void put(struct session *session, unsigned long long block, size_t bytes,
                void *stream)
{
    session->peer->deallocate(session->self, block, bytes, stream);
}

static double pair_ns(struct session *session, size_t bytes)
{
    double ns[BATCHES];
    unsigned pairs = 2000 / shrink;
    void *stream = session->streams[0];

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

void bench_report(const struct peer *peer, const char *what, const char *metric,
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
        bench_report(session->peer, what, "ns", pair_ns(session, sizes[i]));
    }
}

struct worker {
    struct session *session;
    void *stream;
    unsigned pairs;
    pthread_barrier_t *start;
    pthread_t thread;
    uint64_t began, ended;
};

static void *work(void *data)
{
    struct worker *worker = data;

    bench_make_current();
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
    bench_report(session->peer, what, "M pairs/s",
                 (double)count * pairs / (double)(ended - began) * 1e3);
}

static void measure_holes(struct session *session)
{
    size_t count = 2 * HOLES / shrink;
    unsigned long long *blocks = bench_allocate(count, sizeof *blocks);
    void *stream = session->streams[0];

    for (size_t i = 0; i < count; i++)
        blocks[i] = get(session, 512, stream);
    for (size_t i = 0; i < count; i += 2)
        put(session, blocks[i], 512, stream);
    unsigned was = shrink;
    shrink = shrink < 20 ? 20 : shrink; /* some take 0.3 ms for each */
    bench_report(session->peer, "65,536 holes, pair of 64 KiB", "ns",
                 pair_ns(session, 65536));
    shrink = was;
    for (size_t i = 1; i < count; i += 2)
        put(session, blocks[i], 512, stream);
    free(blocks);
}

static bool is_skipped(const char *skipped, const char *what)
{
    return strstr(skipped, what) != NULL;
}

void bench_measure_loops(const struct peer *peer, unsigned divisor, const char *skipped)
{
    struct session session;

    shrink = divisor;
    if (!begin(&session, peer))
        return;
    if (!is_skipped(skipped, "pairs"))
        measure_pairs(&session);
    for (unsigned threads = 1; threads <= THREADS_MAX && !is_skipped(skipped, "threads");
         threads *= 4)
        measure_threads(&session, threads);
    if (!is_skipped(skipped, "holes"))
        measure_holes(&session);
    end(&session);
}
