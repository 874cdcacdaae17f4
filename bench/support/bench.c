/* bench.c -- time, results and percentiles of the benchmarks. */
#define _GNU_SOURCE
#include "bench.h"
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static FILE *results;
static const char *bench_name;

uint64_t bench_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void bench_die(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    fprintf(stderr, "%s: ", program_invocation_short_name);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(1);
}

void bench_must(tarn_status status, const char *what)
{
    if (status != TARN_OK)
        bench_die("%s: %s (%s)", what, tarn_status_name(status),
                  tarn_error_last()->message);
}

void *bench_allocate(size_t count, size_t size)
{
    void *memory = calloc(count ? count : 1, size);

    if (!memory)
        bench_die("no host memory for %zu times %zu bytes", count, size);
    return memory;
}

void bench_write_other(size_t bytes)
{
    enum { OTHER_BYTES = 64 << 20, LINE_BYTES = 64 };
    static unsigned char other[OTHER_BYTES];
    static size_t at;

    for (size_t i = 0; i < bytes; i += LINE_BYTES) {
        other[at]++;
        at = (at + LINE_BYTES) % OTHER_BYTES;
    }
}

void bench_results_open(const char *bench, const char *path)
{
    bench_name = bench;
    if (!path)
        return;
    results = fopen(path, "a");
    if (!results)
        bench_die("cannot write %s", path);
}

void bench_result(const char *subject, const char *what, const char *metric, double value)
{
    if (results)
        fprintf(results,
                "{\"bench\": \"%s\", \"who\": \"%s\", \"case\": \"%s\", "
                "\"metric\": \"%s\", \"value\": %.10g}\n",
                bench_name, subject, what, metric, value);
}

void bench_results_close(void)
{
    if (results && fclose(results) != 0)
        bench_die("the results were not written");
    results = NULL;
}

static int by_value(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

    return a < b ? -1 : a > b;
}

void bench_sort(uint64_t *values, size_t count)
{
    qsort(values, count, sizeof *values, by_value);
}

double bench_percentile(const uint64_t *values, size_t count, double share)
{
    size_t index = (size_t)(share * (double)count);

    if (count == 0)
        return 0;
    return (double)values[index < count ? index : count - 1];
}

static int by_real(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;

    return a < b ? -1 : a > b;
}

double bench_median(double *values, size_t count)
{
    qsort(values, count, sizeof *values, by_real);
    return count ? values[count / 2] : 0;
}
