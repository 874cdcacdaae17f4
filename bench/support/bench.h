/* bench.h -- helpers of the benchmarks: time, streams, resources by name, traces,
 * results.
 *
 * A benchmark prints its rows at once, and writes them as JSON, one line each, to the
 * file named by --json: `{"bench": .., "who": .., "case": .., "metric": .., "value":
 * ..}`. tools and bench/peers/table.py read those lines of any program.
 */
#ifndef TARN_BENCH_H
#define TARN_BENCH_H

#include <stdio.h>
#include <tarn/tarn.h>

uint64_t bench_now_ns(void);

/* Print the error and exit with 1; bench_must() for a call of Tarn that has to succeed.
 */
void bench_die(const char *format, ...) TARN_PRINTF(1, 2) __attribute__((noreturn));
void bench_must(tarn_status status, const char *what);
/* As calloc, but exits on failure. */
void *bench_allocate(size_t count, size_t size);
/* Write so many bytes of other memory, so that the processor's caches have less of what is
 * measured. Successive calls write other parts of 64 MiB. One thread calls. */
void bench_write_other(size_t bytes);

/* --- results ------------------------------------------------------------------------- */

/* Open the file of JSON lines; NULL: none. `bench` is the name in each row. */
void bench_results_open(const char *bench, const char *path);
/* Write one figure. */
void bench_result(const char *subject, const char *what, const char *metric,
                  double value);
void bench_results_close(void);

/* The percentile `share` (0 to 1) of sorted `values`. */
double bench_percentile(const uint64_t *values, size_t count, double share);
void bench_sort(uint64_t *values, size_t count);
double bench_median(double *values, size_t count); /* sorts them */

/* --- resources ----------------------------------------------------------------------- */

/* Create the resource that `spec` names on device 0: `cuda`, `async`, `null` (addresses
 * and no memory), `pool`, or `pool/UPSTREAM`; a pool's options follow after a colon:
 * `pool:growth=64MiB,maximum=1GiB,initial=..,release=..,no_stream_limit=..,grow_first,
 * background_thread,oom_policy=fail,no_stream_policy=event`. An unknown option or value
 * is an error.
 * `maximum` 0: as in the spec. Exits if it is unavailable. */
tarn_resource *bench_resource(const char *spec, uint64_t maximum);
/* Return whether it is a pool, which has statistics. */
bool bench_is_pool(const char *spec);
uint64_t bench_bytes(const char *text); /* Parse "64MiB"; exits on failure. */

/* The memory that a resource on device 0 holds, as far as known: a pool's peak, or the
 * decrease of the device's free memory since bench_memory_start(). */
void bench_memory_start(void);
uint64_t bench_memory_taken(void);

/* Make the primary context of device 0 current in this thread, as CUDA's runtime does. */
void bench_make_current(void);
/* Destroy a stream, or queue a fill on it, by the driver, as programs do. A thread calls
 * bench_make_current() before. */
void bench_stream_destroy(tarn_stream raw);
void bench_fill(tarn_device_ptr block, size_t bytes, tarn_stream raw);

/* Find a function of the driver, as programs do; exits if that has none of this version. */
void *bench_driver_function(const char *symbol, int version);
/* Exit with 1 if a driver call failed. */
void bench_must_cuda(int result, const char *symbol);

/* A control of the simulator, NULL on another driver. */
void *bench_sim_control(const char *name);
void bench_sim_configure(const char *options); /* nothing on a GPU */
uint64_t bench_driver_calls(void);             /* 0 on a GPU */
/* Set `*out` to the calls that a counting driver (bench/timed) has counted; false, and 0:
 * the driver is none. */
bool bench_counted_calls(uint64_t *out);
/* Mark the begin of a pass, or its end if `pass` is NULL: bench/timed reports calls per
 * pass. */
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

/* Load a log, gzip or not; exits on failure. Blocks that it leaves live are freed at its
 * end. */
struct bench_trace *bench_trace_load(const char *path);
/* Enlarge all blocks of at least a page by this factor: a similar trace with another
 * layout. */
void bench_trace_scale(struct bench_trace *trace, double factor);
void bench_trace_free(struct bench_trace *trace);

#endif
