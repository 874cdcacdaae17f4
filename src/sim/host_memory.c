/* host_memory.c -- malloc, calloc and realloc of the stand-in; the N-th may fail. */
#include "sim/host_memory.h"
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

/* The linker's names: it is told to wrap these three. */
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *old, size_t bytes);
void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *old, size_t bytes);

static atomic_ullong left; /* requests until one fails, that one included; 0: none does */
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

static bool strikes(void)
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
    return strikes() ? NULL : __real_malloc(bytes);
}

void *__wrap_calloc(size_t count, size_t bytes)
{
    return strikes() ? NULL : __real_calloc(count, bytes);
}

void *__wrap_realloc(void *old, size_t bytes)
{
    return strikes() ? NULL : __real_realloc(old, bytes);
}

void *sim_instrument_memory(size_t bytes)
{
    void *memory = __real_calloc(1, bytes);

    if (!memory) {
        fputs("tarn stand-in: no host memory for races=on\n", stderr);
        abort();
    }
    return memory;
}
