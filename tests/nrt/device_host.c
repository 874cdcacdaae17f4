/* device_host.c -- device.cu as C, with replacements of CUDA's functions.
 *
 * The thread sanitizer must report a missing memory fence, but does not model fences.
 * Here a fence is a read-modify-write of one word that all fences share, which gives the
 * required order. The atomic additions give no order on a GPU. They are hidden from the
 * sanitizer, so that they give none for it either.
 */
#define _POSIX_C_SOURCE 200809L /* pthread_barrier_t */
#include "device_host.h"
#include <pthread.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define __device__
#define __global__

#if defined(__clang__)
#define UNSEEN __attribute__((noinline, disable_sanitizer_instrumentation))
#else
#define UNSEEN __attribute__((noinline, no_sanitize("thread")))
#endif

UNSEEN static unsigned long long add(unsigned long long *place, unsigned long long more)
{
    return __atomic_fetch_add(place, more, __ATOMIC_RELAXED);
}

static unsigned in_step;
static pthread_barrier_t step;

static unsigned long long atomicAdd(unsigned long long *place, unsigned long long more)
{
    unsigned long long before = add(place, more);

    if (in_step && more == ~0ull)
        pthread_barrier_wait(&step);
    return before;
}

static void __threadfence(void)
{
    static int all;

    __atomic_fetch_add(&all, 1, __ATOMIC_ACQ_REL);
}

/* --- the heap --------------------------------------------------------------------------- */

static size_t heap_live;
static int heap_more = -1;

size_t device_heap_live(void)
{
    return __atomic_load_n(&heap_live, __ATOMIC_RELAXED);
}

void device_heap_limit(int more)
{
    heap_more = more;
}

/* A GPU's heap has 8 MiB at first; NULL for sizes that no heap has. */
static void *heap_take(size_t size)
{
    if (heap_more == 0 || size > (size_t)1 << 40)
        return NULL;
    if (heap_more > 0)
        heap_more--;
    void *block = malloc(size);
    if (block)
        __atomic_fetch_add(&heap_live, 1, __ATOMIC_RELAXED);
    return block;
}

/* In step mode a freed block stays readable, and a second free does not crash. */
static void *heap_kept[4096];
static size_t heap_kept_count;
static pthread_mutex_t heap_kept_lock = PTHREAD_MUTEX_INITIALIZER;

static void keep(void *block)
{
    size_t i = 0;

    pthread_mutex_lock(&heap_kept_lock);
    while (i < heap_kept_count && heap_kept[i] != block)
        i++;
    heap_kept[i] = block;
    heap_kept_count += i == heap_kept_count;
    pthread_mutex_unlock(&heap_kept_lock);
}

static void heap_give(void *block)
{
    __atomic_fetch_sub(&heap_live, 1, __ATOMIC_RELAXED);
    if (in_step)
        keep(block);
    else
        free(block);
}

void device_lockstep(unsigned threads)
{
    if (in_step)
        pthread_barrier_destroy(&step);
    while (heap_kept_count)
        free(heap_kept[--heap_kept_count]);
    in_step = threads;
    if (in_step)
        pthread_barrier_init(&step, NULL, in_step);
}

/* --- the device source -------------------------------------------------------------- */

/* Compiled code calls them; there is no header. */
#pragma GCC diagnostic ignored "-Wmissing-prototypes"
/* A kernel that stops goes back to the caller of device_stops(). */
static jmp_buf stopped;
static char message[200];

const char *device_stops(void (*call)(void *), void *argument)
{
    message[0] = '\0';
    if (setjmp(stopped) == 0)
        call(argument);
    return message;
}

static void __trap(void)
{
    longjmp(stopped, 1);
}

#undef printf
#define printf(...) snprintf(message, sizeof message, __VA_ARGS__)
#define malloc heap_take
#define free heap_give
#include <tarn/nrt_device.cuh> /* its declarations are compared with the source */
#include "../../python/tarn/nrt/device.cu"
#undef malloc
#undef free

_Static_assert(sizeof(NRT_MemInfo) == sizeof(struct device_meminfo), "one layout");
_Static_assert(sizeof(NRT_MemSys) == sizeof(struct device_statistics), "one layout");

/* --- the same with other types: no code includes a header of this runtime ----------- */

static void incref(void *mi)
{
    NRT_incref(mi);
}

static void decref(void *mi)
{
    NRT_decref(mi);
}

static void *make_new(void *data, size_t size, device_destructor end, void *info)
{
    return NRT_MemInfo_new(data, size, end, info);
}

static void *alloc(size_t size)
{
    return NRT_MemInfo_alloc(size);
}

static void *alloc_dtor(size_t size, device_destructor end)
{
    return NRT_MemInfo_alloc_dtor(size, end);
}

static void *alloc_aligned(size_t size, unsigned align)
{
    return NRT_MemInfo_alloc_aligned(size, align);
}

static void *alloc_safe(size_t size)
{
    return NRT_MemInfo_alloc_safe(size);
}

static void *alloc_dtor_safe(size_t size, device_destructor end)
{
    return NRT_MemInfo_alloc_dtor_safe(size, end);
}

static void *alloc_safe_aligned(size_t size, unsigned align)
{
    return NRT_MemInfo_alloc_safe_aligned(size, align);
}

static void *varsize(size_t size)
{
    return NRT_MemInfo_new_varsize(size);
}

static void *varsize_dtor(size_t size, device_destructor end)
{
    return NRT_MemInfo_new_varsize_dtor(size, end);
}

static void *varsize_alloc(void *mi, size_t size)
{
    return NRT_MemInfo_varsize_alloc(mi, size);
}

static void *varsize_realloc(void *mi, size_t size)
{
    return NRT_MemInfo_varsize_realloc(mi, size);
}

static void varsize_free(void *mi, void *data)
{
    NRT_MemInfo_varsize_free(mi, data);
}

static void *data_of(void *mi)
{
    return NRT_MemInfo_data_fast(mi);
}

static void count_in(struct device_statistics *statistics)
{
    NRT_MemSys_set((NRT_MemSys *)statistics);
}

const struct device_runtime device = {
    .allocate = NRT_Allocate_External,
    .free = NRT_Free,
    .incref = incref,
    .decref = decref,
    .make = make_new,
    .alloc = alloc,
    .alloc_dtor = alloc_dtor,
    .alloc_aligned = alloc_aligned,
    .alloc_safe = alloc_safe,
    .alloc_dtor_safe = alloc_dtor_safe,
    .alloc_safe_aligned = alloc_safe_aligned,
    .varsize = varsize,
    .varsize_dtor = varsize_dtor,
    .varsize_alloc = varsize_alloc,
    .varsize_realloc = varsize_realloc,
    .varsize_free = varsize_free,
    .data = data_of,
    .count_in = count_in,
};
