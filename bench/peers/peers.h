/* peers.h -- the parts of the benchmark of peers. */
#ifndef BENCH_PEERS_H
#define BENCH_PEERS_H

#include "bench.h"
#include "peer.h"

/* --- tarn.c: Tarn's resources as peers ---------------------------------------------- */

/* Append the peers of `spec` to `peers`, at most `capacity`; returns how many. A pool has
 * two, with raw and with registered streams. `initial` makes those that reserve memory at
 * their creation. `empty` allocates nothing: it measures the loop. */
size_t bench_tarn_peers(const char *spec, bool initial, struct peer *peers,
                        size_t capacity);
/* The pool of an open peer of Tarn; NULL: it is none. */
tarn_resource *bench_peer_pool(const struct peer *peer, void *self);

/* --- loops.c: pairs, threads, holes ------------------------------------------------- */

/* `shrink` divides the repetitions. `skipped` lists what to leave out. */
void bench_measure_loops(const struct peer *peer, unsigned shrink, const char *skipped);
void bench_report(const struct peer *peer, const char *what, const char *metric,
                  double value);

/* --- replay.c: traces --------------------------------------------------------------- */

enum bench_streams {
    BENCH_STREAMS_AUTO, /* they end if the trace has more than 64 */
    BENCH_STREAMS_KEPT, /* they are used in all passes */
    BENCH_STREAMS_END   /* each is destroyed after its last operation in a pass */
};

struct bench_replay_options {
    unsigned passes, threads;
    unsigned other_passes; /* of all but Tarn's pools that start empty; 0: as `passes` */
    bool idle, busy, busy_limit;
    bool clock; /* around each operation; else around the pass */
    enum bench_streams streams;
    double limit;         /* times the peak live; 0: no limited run */
    double initial;       /* times the peak live, and 64 MiB: for peers that start so */
    double seconds;       /* of one run of passes; 0: no bound */
    const char *latency;  /* of the simulator */
    const char *sim_seed; /* of the simulator */
};

void bench_measure_trace(const struct peer *peer, const struct bench_trace *trace,
                         const struct bench_replay_options *options);

/* --- results.c: what a run found ---------------------------------------------------- */

/* The passes that are reported. */
enum { BENCH_REPORTED = 3 };
struct bench_reported {
    unsigned number;
    const char *name;
};
extern const struct bench_reported bench_reported[BENCH_REPORTED];

struct bench_figures {
    bool done;
    double mean, p999;     /* ns */
    double throughput;     /* M operations/s of all threads */
    double ratio;          /* peak reserved : peak live, so far */
    double calls, counted; /* in 1,000 pairs: on the driver's side, by the pool */
    uint64_t failed;
};

/* Write one figure of the reported pass `which` (0 to BENCH_REPORTED - 1). */
void bench_note(const struct peer *peer, const char *what, int which, const char *metric,
                double value);
void bench_note_run(const struct peer *peer, const char *what,
                    const struct bench_replay_options *options,
                    const struct bench_figures *figures);
/* `limited`: of the run with a maximum; NULL: there was none. */
void bench_print_run(const struct peer *peer, bool busy,
                     const struct bench_replay_options *options,
                     const struct bench_figures *figures,
                     const struct bench_figures *limited);
void bench_print_heading(const struct bench_trace *trace,
                         const struct bench_replay_options *options);

#endif
