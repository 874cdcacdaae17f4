/* replay.c -- traces on one allocator: times, reserved memory, failures, driver calls.
 *
 * A run opens the allocator and replays the trace several times. The passes 1, 2 and 5
 * are reported. A limited run has a maximum of 1.05 times the peak live memory.
 *
 * A stream is created before its first operation. It is destroyed at the end of the run,
 * or, in traces of many streams, after its last operation of the pass. The times leave
 * that out, and the fills of the busy device. Threads change the order of the operations,
 * so the peak live is measured there, and no run is limited.
 */
#define _GNU_SOURCE
#include "peers.h"
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum {
    FILL_BYTES = 64 << 10,
    LOOK_EVERY = 64,        /* operations between two looks at the device's free memory */
    CHECK_EVERY = 256,      /* operations between two looks at the time */
    KEPT_STREAMS_MOST = 64, /* in a trace with more of them, streams end */
    PASSES_MOST = 5,
    LINE = 64
};

/* In place of a block: the allocation failed. */
#define FAILED UINT64_MAX

/* The memory of the simulator: more than a trace needs. */
#define SIM_MEMORY "192GiB"

struct stream {
    tarn_stream raw; /* NULL: not created yet */
    void *handle;    /* passed to the allocator */
    size_t last;     /* index of the last operation on it */
};

/* The operations of one thread. */
struct player {
    _Alignas(LINE) struct replay *replay;
    const uint32_t *order; /* the operations, as numbers; NULL: all */
    size_t count;
    uint64_t sum, failed;
    uint64_t began, ended;
    uint64_t apart;       /* ns between these two that belong to no operation */
    uint64_t apart_calls; /* driver calls of the same kind */
    pthread_t thread;
};

struct replay {
    const struct peer *peer;
    const struct bench_trace *trace;
    const struct bench_replay_options *options;
    void *self;
    tarn_resource *pool; /* NULL: it is none */
    bool busy, ends;
    _Atomic uint64_t *blocks;
    uint64_t *ns; /* by operation */
    struct stream *streams;
    struct player *players;
    uint32_t *orders;
    pthread_barrier_t start;
    uint64_t peak_taken; /* of the device; of peers that do not know their reserve */
    uint64_t deadline;   /* 0: none */
    atomic_bool late;    /* no more allocations; the pass does not count */
    _Alignas(LINE) _Atomic uint64_t live;
    _Atomic uint64_t peak_live; /* only with threads, which change the order */
};

/* --- streams ------------------------------------------------------------------------ */

static void create_stream(struct replay *replay, struct stream *stream)
{
    bench_must(tarn_stream_create(0, true, &stream->raw), "stream");
    stream->handle = replay->peer->begin_stream
                         ? replay->peer->begin_stream(replay->self, stream->raw)
                         : stream->raw;
}

/* Destroy it by the driver, as programs do. Queued work goes on. */
static void destroy_stream(struct replay *replay, struct stream *stream)
{
    if (replay->peer->end_stream)
        replay->peer->end_stream(replay->self, stream->handle);
    bench_stream_destroy(stream->raw);
    stream->raw = NULL;
}

static void destroy_streams(struct replay *replay)
{
    for (unsigned i = 0; i < replay->trace->streams; i++)
        if (replay->streams[i].raw)
            destroy_stream(replay, &replay->streams[i]);
}

/* --- one operation ------------------------------------------------------------------ */

/* Keep the device busy. */
static void touch(const struct replay *replay, uint64_t block, uint64_t bytes,
                  tarn_stream stream)
{
    if (replay->busy)
        bench_fill(block, bytes < FILL_BYTES ? bytes : FILL_BYTES, stream);
}

/* Return the block of a free. Another thread may still have to allocate it. */
static uint64_t block_of(const struct replay *replay, const struct bench_op *op)
{
    uint64_t block;

    while ((block = atomic_load_explicit(&replay->blocks[op->block],
                                         memory_order_acquire)) == 0)
        sched_yield();
    return block;
}

/* Free; return the ns of the call. */
static uint64_t play_free(struct replay *replay, const struct bench_op *op,
                          struct stream *stream)
{
    uint64_t block = block_of(replay, op), start, took = 0;

    if (block != FAILED) {
        touch(replay, block, op->bytes, stream->raw);
        start = replay->options->clock ? bench_now_ns() : 0;
        replay->peer->deallocate(replay->self, block, op->bytes, stream->handle);
        took = replay->options->clock ? bench_now_ns() - start : 0;
    }
    atomic_store_explicit(&replay->blocks[op->block], 0, memory_order_relaxed);
    return took;
}

/* Allocate; return the ns of the call. */
static uint64_t play_allocation(struct replay *replay, const struct bench_op *op,
                                struct stream *stream, uint64_t *failed)
{
    uint64_t start = replay->options->clock ? bench_now_ns() : 0, took, block = 0;

    if (!atomic_load_explicit(&replay->late, memory_order_relaxed))
        block = replay->peer->allocate(replay->self, op->bytes, stream->handle);
    took = replay->options->clock ? bench_now_ns() - start : 0;
    if (block)
        touch(replay, block, op->bytes, stream->raw);
    *failed += block == 0;
    atomic_store_explicit(&replay->blocks[op->block], block ? block : FAILED,
                          memory_order_release);
    return took;
}

static void raise(_Atomic uint64_t *most, uint64_t value)
{
    uint64_t seen = atomic_load_explicit(most, memory_order_relaxed);

    while (seen < value && !atomic_compare_exchange_weak(most, &seen, value))
        ;
}

/* Follow the live memory; look at the device where its free memory may be a minimum. */
static void look(struct player *player, const struct bench_op *op, size_t index)
{
    struct replay *replay = player->replay;
    bool threads = replay->options->threads > 1, samples = !replay->peer->reserves;
    uint64_t live, start, calls = 0, after = 0;

    if (!threads && !samples)
        return;
    live = op->is_free ? atomic_fetch_sub(&replay->live, op->bytes) - op->bytes
                       : atomic_fetch_add(&replay->live, op->bytes) + op->bytes;
    bool higher = live > atomic_load_explicit(&replay->peak_live, memory_order_relaxed);
    if (higher)
        raise(&replay->peak_live, live);
    if (!samples || player != replay->players || !(higher || index % LOOK_EVERY == 0))
        return;
    start = bench_now_ns();
    bench_counted_calls(&calls);
    uint64_t taken = bench_memory_taken();
    replay->peak_taken = taken > replay->peak_taken ? taken : replay->peak_taken;
    bench_counted_calls(&after);
    player->apart_calls += after - calls;
    player->apart += bench_now_ns() - start;
}

static void check_deadline(struct replay *replay)
{
    if (replay->deadline && bench_now_ns() > replay->deadline)
        atomic_store(&replay->late, true);
}

static void play(struct player *player, size_t index)
{
    struct replay *replay = player->replay;
    const struct bench_op *op = &replay->trace->ops[index];
    struct stream *stream = &replay->streams[op->stream];
    uint64_t start;

    if (!stream->raw) {
        start = bench_now_ns();
        create_stream(replay, stream);
        player->apart += bench_now_ns() - start;
    }
    replay->ns[index] = op->is_free
                            ? play_free(replay, op, stream)
                            : play_allocation(replay, op, stream, &player->failed);
    player->sum += replay->ns[index];
    look(player, op, index);
    if (index % CHECK_EVERY == 0)
        check_deadline(replay);
    if (replay->ends && index == stream->last) {
        start = bench_now_ns();
        destroy_stream(replay, stream);
        player->apart += bench_now_ns() - start;
    }
}

static void *play_all(void *data)
{
    struct player *player = data;

    bench_make_current();
    if (player->replay->options->threads > 1)
        pthread_barrier_wait(&player->replay->start);
    player->began = bench_now_ns();
    for (size_t i = 0; i < player->count; i++)
        play(player, player->order ? player->order[i] : i);
    player->ended = bench_now_ns();
    return NULL;
}

/* --- passes ------------------------------------------------------------------------- */

static void run_players(struct replay *replay)
{
    unsigned threads = replay->options->threads;

    for (unsigned i = 0; i < threads; i++) {
        struct player *player = &replay->players[i];
        player->sum = player->failed = player->apart = player->apart_calls = 0;
    }
    if (threads == 1) {
        play_all(&replay->players[0]);
        return;
    }
    pthread_barrier_init(&replay->start, NULL, threads);
    for (unsigned i = 0; i < threads; i++)
        if (pthread_create(&replay->players[i].thread, NULL, play_all,
                           &replay->players[i]) != 0)
            bench_die("no thread");
    for (unsigned i = 0; i < threads; i++)
        pthread_join(replay->players[i].thread, NULL);
    pthread_barrier_destroy(&replay->start);
}

static uint64_t counted_by_pool(const struct replay *replay)
{
    tarn_pool_statistics statistics = {.size = sizeof statistics};

    if (replay->pool)
        bench_must(tarn_pool_get_statistics(replay->pool, &statistics), "statistics");
    return statistics.driver_calls;
}

static double ratio(const struct replay *replay)
{
    uint64_t reserved = replay->peer->reserves ? replay->peer->reserved_peak(replay->self)
                                               : replay->peak_taken;
    uint64_t live =
        replay->options->threads > 1 ? replay->peak_live : replay->trace->peak_live_bytes;

    return live ? (double)reserved / (double)live : 0;
}

static struct bench_figures pass(struct replay *replay, unsigned number)
{
    const struct bench_trace *trace = replay->trace;
    double count = (double)trace->count, thousands = count / 2000;
    struct bench_figures figures = {0};
    uint64_t calls = 0, calls_after = 0, by_pool = counted_by_pool(replay), sum = 0;
    uint64_t began = UINT64_MAX, ended = 0, apart = 0;
    char name[128];

    snprintf(name, sizeof name, "%s, %s, pass %u", trace->name, replay->peer->name,
             number);
    replay->live = 0;
    bench_timed_pass(name);
    bench_counted_calls(&calls);
    run_players(replay);
    bench_counted_calls(&calls_after);
    bench_timed_pass(NULL);
    for (unsigned i = 0; i < replay->options->threads; i++) {
        const struct player *player = &replay->players[i];
        sum += player->sum;
        figures.failed += player->failed;
        calls += player->apart_calls;
        apart = player->apart > apart ? player->apart : apart;
        began = player->began < began ? player->began : began;
        ended = player->ended > ended ? player->ended : ended;
    }
    uint64_t wall = ended - began - (apart < ended - began ? apart : 0);
    figures.done = !replay->late;
    figures.mean = (double)(replay->options->clock ? sum : wall) / count;
    if (replay->options->clock) {
        bench_sort(replay->ns, trace->count);
        figures.p999 = bench_percentile(replay->ns, trace->count, 0.999);
    }
    figures.throughput = count / (double)wall * 1e3;
    figures.ratio = ratio(replay);
    figures.calls = (double)(calls_after - calls) / thousands;
    figures.counted = (double)(counted_by_pool(replay) - by_pool) / thousands;
    return figures;
}

/* --- a run -------------------------------------------------------------------------- */

/* Give each thread its operations: stream i belongs to thread i modulo the threads. */
static void share_out(struct replay *replay)
{
    const struct bench_trace *trace = replay->trace;
    unsigned threads = replay->options->threads;
    size_t at = 0;

    replay->players = aligned_alloc(LINE, threads * sizeof *replay->players);
    if (!replay->players)
        bench_die("no host memory");
    memset(replay->players, 0, threads * sizeof *replay->players);
    replay->orders =
        threads > 1 ? bench_allocate(trace->count, sizeof *replay->orders) : NULL;
    for (unsigned t = 0; t < threads; t++) {
        struct player *player = &replay->players[t];
        player->replay = replay;
        player->order = replay->orders ? replay->orders + at : NULL;
        player->count = trace->count;
        if (threads == 1)
            continue;
        size_t begin = at;
        for (size_t i = 0; i < trace->count; i++)
            if (trace->ops[i].stream % threads == t)
                replay->orders[at++] = (uint32_t)i;
        player->count = at - begin;
    }
}

static void configure_simulator(const struct replay *replay)
{
    char text[128];

    snprintf(text, sizeof text, "memory=" SIM_MEMORY ",mode=%s,latency=%s,seed=%s",
             replay->busy ? "seeded" : "eager", replay->options->latency,
             replay->options->sim_seed);
    bench_sim_configure(text);
}

static bool begin(struct replay *replay, bool limited)
{
    const struct bench_trace *trace = replay->trace;
    const struct bench_replay_options *options = replay->options;
    double peak = (double)trace->peak_live_bytes;
    struct peer_setup setup = {0};

    if (limited)
        setup.most_bytes = (size_t)(options->limit * peak);
    else if (replay->peer->starts)
        setup.initial_bytes = (size_t)(options->initial * peak) + (64 << 20);
    configure_simulator(replay);
    bench_make_current();
    bench_memory_start();
    replay->self = replay->peer->open(replay->peer, &setup);
    if (!replay->self)
        return false;
    replay->pool = bench_peer_pool(replay->peer, replay->self);
    replay->ends =
        options->streams == BENCH_STREAMS_END ||
        (options->streams == BENCH_STREAMS_AUTO && trace->streams > KEPT_STREAMS_MOST);
    replay->peak_taken = 0;
    atomic_store(&replay->peak_live, 0);
    replay->late = false;
    replay->blocks = bench_allocate(trace->blocks, sizeof *replay->blocks);
    replay->ns = bench_allocate(trace->count, sizeof *replay->ns);
    replay->streams = bench_allocate(trace->streams, sizeof *replay->streams);
    for (size_t i = 0; i < trace->count; i++)
        replay->streams[trace->ops[i].stream].last = i;
    share_out(replay);
    return true;
}

static void end(struct replay *replay)
{
    destroy_streams(replay);
    bench_must(tarn_driver_synchronize(0), "synchronize");
    replay->peer->close(replay->self);
    free(replay->blocks);
    free(replay->ns);
    free(replay->streams);
    free(replay->players);
    free(replay->orders);
}

/* Run all passes; false: the allocator is unavailable. */
static bool run(struct replay *replay, bool limited, struct bench_figures *figures)
{
    const struct bench_replay_options *options = replay->options;

    memset(figures, 0, BENCH_REPORTED * sizeof *figures);
    if (!begin(replay, limited))
        return false;
    replay->deadline =
        options->seconds > 0 ? bench_now_ns() + (uint64_t)(options->seconds * 1e9) : 0;
    unsigned passes = options->passes;
    if ((!replay->pool || replay->peer->starts) && options->other_passes)
        passes = options->other_passes;
    for (unsigned number = 1; number <= passes && !replay->late; number++) {
        struct bench_figures now = pass(replay, number);
        for (int i = 0; i < BENCH_REPORTED; i++)
            if (bench_reported[i].number == number)
                figures[i] = now;
        bench_must(tarn_driver_synchronize(0), "synchronize");
    }
    end(replay);
    return true;
}

/* --- a trace ------------------------------------------------------------------------ */

static void measure(const struct peer *peer, const struct bench_trace *trace,
                    const struct bench_replay_options *options, bool busy)
{
    struct replay replay = {
        .peer = peer, .trace = trace, .options = options, .busy = busy};
    struct bench_figures figures[BENCH_REPORTED], limited[BENCH_REPORTED];
    bool limits = peer->limits && options->limit > 0 && options->threads == 1 &&
                  (!busy || options->busy_limit);
    char what[128], threads[32] = "", failed[48];

    if (options->threads > 1)
        snprintf(threads, sizeof threads, " %u threads,", options->threads);
    snprintf(what, sizeof what, "%s,%s %s device", trace->name, threads,
             busy ? "busy" : "idle");
    if (!run(&replay, false, figures))
        return;
    bench_note_run(peer, what, options, figures);
    limits = limits && run(&replay, true, limited);
    snprintf(failed, sizeof failed, "failed with %g x live", options->limit);
    for (int i = 0; limits && i < BENCH_REPORTED; i++)
        if (limited[i].done)
            bench_note(peer, what, i, failed, (double)limited[i].failed);
    bench_print_run(peer, busy, options, figures, limits ? limited : NULL);
}

void bench_measure_trace(const struct peer *peer, const struct bench_trace *trace,
                         const struct bench_replay_options *options)
{
    if (options->idle)
        measure(peer, trace, options, false);
    /* A peer that starts with memory has the same one beside it that starts empty, unless
     * it has a limit. */
    if (options->busy && (!peer->starts || peer->limits))
        measure(peer, trace, options, true);
}
