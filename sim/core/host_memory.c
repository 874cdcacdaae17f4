/* host_memory.c -- malloc, calloc and realloc of the simulator; the N-th may fail. */
#include "sim/core/host_memory.h"
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

/* The names of the linker's --wrap option for these three. */
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *old, size_t bytes);
void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *old, size_t bytes);

/* requests until one fails, including that one; 0: none fails */
static atomic_ullong left;
static atomic_ullong failures;

void sim_host_memory_fail(unsigned long long nth)
{
    atomic_store(&failures, 0);
    atomic_store(&left, nth);
}

unsigned long long sim_host_memory_failures(void)
{
    return atomic_load(&failures);
}

static bool should_fail(void)
{
    unsigned long long now = atomic_load_explicit(&left, memory_order_relaxed);

    while (now > 0)
        if (atomic_compare_exchange_weak(&left, &now, now - 1))
            break;
    if (now == 1)
        atomic_fetch_add(&failures, 1);
    return now == 1;
}

void *__wrap_malloc(size_t bytes)
{
    return should_fail() ? NULL : __real_malloc(bytes);
}

void *__wrap_calloc(size_t count, size_t bytes)
{
    return should_fail() ? NULL : __real_calloc(count, bytes);
}

void *__wrap_realloc(void *old, size_t bytes)
{
    return should_fail() ? NULL : __real_realloc(old, bytes);
}

void *sim_host_memory_uncounted(size_t bytes)
{
    void *memory = __real_calloc(1, bytes);

    if (!memory) {
        fputs("tarn simulator: no host memory for races=on\n", stderr);
        abort();
    }
    return memory;
}
