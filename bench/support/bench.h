/* bench.h -- what the benchmarks share: time, streams, resources by name, traces, results.
 *
 * A benchmark prints its rows as it goes, and the same as JSON, a line each, to the file
 * named by --json: `{"bench": .., "who": .., "case": .., "metric": .., "value": ..}`.
 * tools and bench/peers/table.py read those lines, whichever program wrote them.
 */
#ifndef TARN_BENCH_H
#define TARN_BENCH_H

#include <stdio.h>
#include <tarn/tarn.h>

uint64_t bench_now_ns(void);

/* Say what is wrong and end with 1; bench_must() where a call of Tarn has to work. */
void bench_die(const char *format, ...) TARN_PRINTF(1, 2) __attribute__((noreturn));
void bench_must(tarn_status status, const char *what);
/* As calloc, or die. */
void *bench_allocate(size_t count, size_t size);

/* --- results ------------------------------------------------------------------------- */

/* Open the file of JSON lines; NULL: none. `bench` is the name in each row. */
void bench_results_open(const char *bench, const char *path);
/* One figure. */
void bench_result(const char *subject, const char *what, const char *metric,
                  double value);
void bench_results_close(void);

/* `values` are sorted; the one below which `share` (0 to 1) of them lie. */
double bench_percentile(const uint64_t *values, size_t count, double share);
void bench_sort(uint64_t *values, size_t count);
double bench_median(double *values, size_t count); /* sorts them */

/* --- resources ----------------------------------------------------------------------- */

/* Make the resource that `spec` names on device 0: `cuda`, `async`, `null` (addresses and
 * no memory), `pool`, or `pool/UPSTREAM`; a pool's options follow after a colon:
 * `pool:growth=64MiB,maximum=1GiB,initial=..,release=..,grow_first,give_up`. `maximum` 0:
 * as the spec says. Dies where it cannot be had. */
tarn_resource *bench_resource(const char *spec, uint64_t maximum);
/* Is it a pool, so that statistics can be had? */
bool bench_is_pool(const char *spec);
uint64_t bench_bytes(const char *text); /* "64MiB"; dies */

/* What a resource on device 0 holds, as well as can be known: a pool's peak, or what the
 * device has less now than at bench_memory_start(). */
void bench_memory_start(void);
uint64_t bench_memory_taken(void);

/* A control of the stand-in, NULL where the driver is none. */
void *bench_sim_control(const char *name);
void bench_sim_configure(const char *options); /* nothing on a GPU */
uint64_t bench_driver_calls(void);             /* 0 on a GPU */
/* A pass begins, or ends where `pass` is NULL: bench/timed tells its calls by themselves. */
void bench_timed_pass(const char *pass);

/* --- traces -------------------------------------------------------------------------- */

struct bench_op {
    uint64_t bytes;
    uint32_t block;
    uint32_t stream : 31; /* 0, 1, 2 ... */
    uint32_t is_free : 1;
};

struct bench_trace {
    const char *name; /* of the file, without folder and endings */
    struct bench_op *ops;
    size_t count, blocks;
    unsigned streams;
    uint64_t peak_live_bytes;
};

/* Load a log, gzip or not; dies. Blocks that it leaves live are freed at its end. */
struct bench_trace *bench_trace_load(const char *path);
/* All blocks of a page and more become so much larger: a trace like it, and another layout. */
void bench_trace_scale(struct bench_trace *trace, double factor);
void bench_trace_free(struct bench_trace *trace);

#endif
