/* stacks.c -- measure captures of native call stacks, and the tracker.
 *
 *     bench-stacks
 *
 * For each depth it prints the nanoseconds of a capture of that many frames, on a stack of
 * 80. The last column is a pair of an allocation and a free of host memory, through a
 * tracker that captures so many.
 */
#define _GNU_SOURCE
#include "bench.h"
#include <stdio.h>
#include <time.h>

enum { CAPTURES = 20000, CALLS = 80, ROUNDS = 9 };

static uint32_t sum; /* keeps the results alive */

__attribute__((noinline)) static void captures(unsigned depth)
{
    for (int i = 0; i < CAPTURES; i++)
        sum += tarn_stack_capture(depth);
}

static tarn_resource *tracker;

__attribute__((noinline)) static void pairs(unsigned depth)
{
    (void)depth;
    for (int i = 0; i < CAPTURES; i++) {
        tarn_device_ptr block;
        bench_must(tarn_resource_allocate(tracker, 64, 0, TARN_STREAM_NONE, &block),
                   "allocate");
        bench_must(tarn_resource_deallocate(tracker, block, 64, 0, TARN_STREAM_NONE),
                   "free");
    }
}

/* Call `what` from a stack of `calls` frames. */
__attribute__((noinline)) static void from_deep(void (*what)(unsigned), unsigned depth,
                                                int calls)
{
    if (calls > 0)
        from_deep(what, depth, calls - 1);
    else
        what(depth);
    sum++; /* no tail call */
}

/* The time of the processor, so that other programs do not count. */
static double thread_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

/* Nanoseconds per turn, the median of the rounds. */
static double measure(void (*what)(unsigned), unsigned depth)
{
    double times[ROUNDS];

    for (int i = 0; i < ROUNDS; i++) {
        double start = thread_ns();
        from_deep(what, depth, CALLS);
        times[i] = (thread_ns() - start) / CAPTURES;
    }
    return bench_median(times, ROUNDS);
}

int main(void)
{
    static const unsigned depths[] = {0, 1, 4, 16, 64};
    tarn_resource *host;

    bench_must(tarn_host_create(&host), "host");
    printf("%8s %14s %14s\n", "depth", "ns/capture", "ns/pair");
    for (size_t i = 0; i < sizeof depths / sizeof *depths; i++) {
        tarn_tracker_options options = {sizeof options, depths[i]};
        bench_must(tarn_tracker_create(host, &options, &tracker), "tracker");
        printf("%8u %14.0f %14.0f\n", depths[i], measure(captures, depths[i]),
               measure(pairs, depths[i]));
        bench_must(tarn_resource_release(tracker), "release");
    }
    bench_must(tarn_resource_release(host), "release");
    return sum == 1;
}
