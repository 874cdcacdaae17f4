/* call_times.c -- the time of PyTorch's allocations and frees: bench/torch/compare.py
 * --call-times has it measure PyTorch's own allocator and others alike.
 *
 * PyTorch allocates with a virtual function of c10::Allocator, and frees with a function that
 * the result names. This puts a measured function in the place of each. So a time has all that
 * an allocator does, and what PyTorch does around a pluggable one.
 *
 * The time of reading the clock, about 25 ns, is in each call. Several threads may call. */
#define _GNU_SOURCE
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

typedef void deleter(void *context);

/* c10::DataPtr as the C++ ABI has it, up to the device. */
struct data_ptr {
    void *data;
    deleter *deleter;
    void *context;
};

/* The caller passes the place of the result first. */
typedef void *allocate_function(struct data_ptr *out, void *allocator, size_t bytes);

/* c10::Allocator's virtual functions: two destructors, then allocate(). */
enum { ALLOCATE_AT = 2 };

/* Nanoseconds and numbers of calls: of allocations, of frees. */
atomic_ullong call_times_ns[2], call_times_counts[2];

int call_times_measure(void *allocator);

static allocate_function *allocate;
static _Atomic(deleter *) deallocate;

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

static void deallocate_measured(void *context)
{
    deleter *function = atomic_load(&deallocate);
    uint64_t began = now_ns();

    function(context);
    note(1, began);
}

/* Nothing is noted of a call that throws. */
static void *allocate_measured(struct data_ptr *out, void *allocator, size_t bytes)
{
    uint64_t began = now_ns();
    deleter *expected = NULL;

    allocate(out, allocator, bytes);
    note(0, began);
    if (!out->context || !out->deleter)
        return out;
    /* frees by another function than the first one are not measured */
    if (atomic_compare_exchange_strong(&deallocate, &expected, out->deleter) ||
        expected == out->deleter)
        out->deleter = deallocate_measured;
    return out;
}

/* Measure an allocator from now on, and all others of its class. Call it once in a process.
 * Returns 0, or -1 if its table of functions cannot be written. */
int call_times_measure(void *allocator)
{
    void **functions = *(void ***)allocator;
    void **place = &functions[ALLOCATE_AT];
    uintptr_t page = (uintptr_t)place & ~((uintptr_t)sysconf(_SC_PAGESIZE) - 1);

    if (mprotect((void *)page, (uintptr_t)(place + 1) - page, PROT_READ | PROT_WRITE))
        return -1;
    allocate = (allocate_function *)(uintptr_t)*place;
    *place = (void *)(uintptr_t)allocate_measured;
    return 0;
}
