/* call_times.c -- the time of PyTorch's calls of an allocator: bench/torch/compare.py
 * --call-times gives PyTorch these functions, which call the allocator's.
 *
 * The time of reading the clock, about 25 ns, is in each call. Several threads may call. */
#define _POSIX_C_SOURCE 199309L
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

/* Set by the program before the first call. */
void *(*call_times_allocate)(size_t bytes, int device, void *stream);
void (*call_times_deallocate)(void *block, size_t bytes, int device, void *stream);
/* Nanoseconds and numbers of calls: of allocations, of frees. */
atomic_ullong call_times_ns[2], call_times_counts[2];

void *call_times_timed_allocate(size_t bytes, int device, void *stream);
void call_times_timed_deallocate(void *block, size_t bytes, int device, void *stream);

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void note(int kind, uint64_t began)
{
    atomic_fetch_add(&call_times_ns[kind], now_ns() - began);
    atomic_fetch_add(&call_times_counts[kind], 1);
}

/* Nothing is noted of a call that throws. */
void *call_times_timed_allocate(size_t bytes, int device, void *stream)
{
    uint64_t began = now_ns();
    void *block = call_times_allocate(bytes, device, stream);

    note(0, began);
    return block;
}

void call_times_timed_deallocate(void *block, size_t bytes, int device, void *stream)
{
    uint64_t began = now_ns();

    call_times_deallocate(block, bytes, device, stream);
    note(1, began);
}
