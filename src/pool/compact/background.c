/* background.c -- the background thread of a pool. */
#define _GNU_SOURCE
#include "pool/compact/background.h"
#include "base/clock.h"
#include "base/thread.h"
#include "pool/cache/thread_cache.h"
#include "pool/compact/budget.h"
#include "pool/compact/grow_vmm.h"
#include "pool/compact/reclaimable.h"
#include "pool/order/fence.h"
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define MICROSECOND ((uint64_t)1000)
#define MILLISECOND (1000 * MICROSECOND)
#define SECOND (1000 * MILLISECOND)
#define MIB ((uint64_t)1 << 20)

/* While the pool grows, a turn each GROWTH_TURN_US, for GROWTH_TURNS after the last
 * growth. Otherwise each WATCH_MS. */
enum { GROWTH_TURN_US = 200, GROWTH_TURNS = 500, WATCH_MS = 250 };

/* Bytes to be free ahead of demand: a part of the pool, at least AHEAD_MIN. */
#define AHEAD_MIN (64 * MIB)
enum { AHEAD_PART = 16 };

/* Most bytes to unmap in one hold of `growth`; a handle has no more. */
#define RETURNED_MAX ((uint64_t)TARN__HANDLE_BYTES_MAX)
/* A growth this soon after a return took the memory back. */
#define TAKEN_BACK_NS (10 * SECOND)
/* The least and the most time from a return to the next one. */
#define PAUSE_MIN_NS (WATCH_MS * MILLISECOND)
#define PAUSE_MAX_NS (64 * SECOND)

struct tarn__background {
    struct tarn__pool *pool;
    pthread_t thread;
    /* taken after all locks of the pool, for the two flags and their condition */
    pthread_mutex_t mutex;
    pthread_cond_t change;
    bool has_grown;    /* a search has grown the pool since the last turn */
    atomic_bool stops; /* the thread is to end; it also looks between two handles */

    /* only for the thread */
    unsigned growth_turns;   /* turns left in which it may grow ahead; 0: it watches */
    uint64_t peak_allocated; /* of the pool, when the thread grew it or had no need to */
    uint64_t idle_bytes;     /* memory to return, at the last turn */
    uint64_t calls;          /* allocations and frees of the pool, at the last turn */
    uint64_t returned_ns;    /* time of the last return; 0: none, or it was taken back */
    uint64_t pause_ns, next_return_ns;
};

/* --- the device's memory --- */

/* Enter the context of the pool, in relaxed capture mode. A context that was reset is not
 * created again. */
static bool enter(struct tarn__pool *pool, struct tarn__scope *out)
{
    if (tarn__pool_end_after_reset(pool) || tarn__pool_lifecycle(pool) ||
        tarn__scope_enter_relaxed(pool->device, out) != TARN_OK)
        return false;
    if (out->context_generation == pool->context_generation)
        return true;
    tarn__scope_leave(out);
    return false;
}

/* Return true if the thread returned memory a short time ago. */
static bool has_returned(const struct tarn__background *self)
{
    return self->returned_ns > 0 &&
           tarn__clock_now_ns() - self->returned_ns < TAKEN_BACK_NS;
}

/* --- growth ahead --- */

/* Return the bytes that are missing ahead of demand, 0: none; and the peak of live
 * bytes. */
static uint64_t missing_bytes(const struct tarn__background *self, uint64_t *peak_out)
{
    struct tarn__pool *pool = self->pool;

    tarn__pool_lock(pool);
    uint64_t reserved = tarn__pages_reserved(pool->pages);
    uint64_t wanted =
        reserved / AHEAD_PART > AHEAD_MIN ? reserved / AHEAD_PART : AHEAD_MIN;
    uint64_t free_bytes = pool->heap.free_bytes;
    /* the search that grew may not have noted the peak yet */
    uint64_t peak = pool->heap.allocated_bytes > pool->peak_allocated
                        ? pool->heap.allocated_bytes
                        : pool->peak_allocated;
    bool may_grow =
        !tarn__pool_is_tight(pool) && reserved + wanted <= tarn__pool_maximum(pool) / 2;
    tarn__pool_unlock(pool);
    *peak_out = peak;
    return peak > self->peak_allocated && may_grow && wanted > free_bytes
               ? wanted - free_bytes
               : 0;
}

/* Map handles of that many bytes, until another thread waits for `growth`. Returns true
 * if there are more now, and whether there are to be no more. */
static bool map(const struct tarn__background *self, uint64_t bytes, bool *is_done_out)
{
    struct tarn__pool *pool = self->pool;
    uint64_t mapped = 0, handle = 1;

    while (handle > 0 && mapped < bytes && !atomic_load(&self->stops) &&
           tarn__pool_try_growth(pool)) {
        handle =
            tarn__pool_lifecycle(pool) ? 0 : tarn__grow_vmm_ahead(pool, bytes - mapped);
        tarn__pool_leave_growth(pool);
        mapped += handle;
    }
    *is_done_out = mapped > 0 && (mapped >= bytes || handle == 0);
    return mapped > 0;
}

/* In a scope: return true if the device has room for that many bytes. */
static bool has_room(const struct tarn__background *self, const struct tarn__scope *scope,
                     uint64_t bytes)
{
    uint64_t free_bytes, scarce_bytes;

    return tarn__budget_query_device(self->pool, scope, &free_bytes, &scarce_bytes) &&
           free_bytes >= 2 * scarce_bytes + bytes;
}

/* In a scope: map what is missing, if the device has room. Returns true if there is more
 * now. If another thread has `growth`, the next turn tries again. */
static bool grow_once(struct tarn__background *self, const struct tarn__scope *scope)
{
    uint64_t peak, missing = missing_bytes(self, &peak);

    if (missing > 0 && !has_room(self, scope, missing))
        missing = 0;
    bool is_done = missing == 0;
    bool is_more = missing > 0 && map(self, missing, &is_done);
    if (is_done)
        self->peak_allocated = peak;
    return is_more;
}

static void grow_ahead(struct tarn__background *self)
{
    struct tarn__scope scope;

    self->growth_turns--;
    if (has_returned(self) || !enter(self->pool, &scope))
        return;
    while (!atomic_load(&self->stops) && grow_once(self, &scope))
        self->growth_turns = GROWTH_TURNS;
    tarn__scope_leave(&scope);
}

/* --- scarcity --- */

/* Return the free bytes of the pool beyond its minimum, and whether no thread used the
 * pool since the last turn. */
static uint64_t idle_bytes(struct tarn__background *self, bool *is_unused_out)
{
    struct tarn__pool *pool = self->pool;
    struct tarn__thread_cache_sums sums;

    tarn__pool_lock(pool);
    tarn__thread_caches_sum(pool, &sums);
    uint64_t reserved = tarn__pages_reserved(pool->pages);
    uint64_t free_bytes = pool->heap.free_bytes + sums.bytes;
    tarn__pool_unlock(pool);
    uint64_t calls = sums.counts.allocations + sums.counts.frees;
    *is_unused_out = calls == self->calls;
    self->calls = calls;
    uint64_t least = pool->options.initial_bytes;
    uint64_t over = reserved > least ? reserved - least : 0;
    return free_bytes < over ? free_bytes : over;
}

/* Return true if a device-wide wait is allowed, and would complete free memory. */
static bool needs_wait(struct tarn__pool *pool)
{
    tarn__pool_lock(pool);
    bool needs = pool->options.oom_policy == TARN_POOL_OOM_SYNCHRONIZE &&
                 pool->heap.unfenced_bytes > 0;
    tarn__pool_unlock(pool);
    return needs;
}

/* Make free memory completed, as far as that delays no thread that uses the pool. */
static void complete(struct tarn__pool *pool, bool is_unused)
{
    if (is_unused)
        tarn__thread_caches_drain(pool);
    tarn__fences_poll_all(pool);
    if (is_unused && needs_wait(pool))
        tarn__fences_wait_for_device(pool);
}

/* Return up to `most` idle bytes to the device. `growth` held. */
static uint64_t return_some(struct tarn__pool *pool, uint64_t most) TARN__REQUIRES(growth)
{
    tarn__assert_held(&pool->growth);

    uint64_t released = 0;

    if (most > RETURNED_MAX)
        most = RETURNED_MAX;
    tarn__pool_lock(pool);
    uint64_t free_bytes = pool->heap.free_bytes;
    tarn__pool_unlock(pool);
    if (!tarn__pool_lifecycle(pool))
        tarn__reclaimable_shrink(pool, free_bytes > most ? free_bytes - most : 0,
                                 &released);
    return released;
}

/* Return `bytes` to the device, until another thread waits for `growth`. */
static void return_bytes(struct tarn__background *self, uint64_t bytes)
{
    uint64_t returned = 0, some = 1;

    while (some > 0 && returned < bytes && !atomic_load(&self->stops) &&
           tarn__pool_try_growth(self->pool)) {
        some = return_some(self->pool, bytes - returned);
        tarn__pool_leave_growth(self->pool);
        returned += some;
    }
    if (returned == 0)
        return;
    if (self->returned_ns && !has_returned(self)) /* nothing took back the last return */
        self->pause_ns = PAUSE_MIN_NS;
    self->returned_ns = tarn__clock_now_ns();
    self->next_return_ns = self->returned_ns + self->pause_ns;
}

static void watch(struct tarn__background *self)
{
    uint64_t free_bytes, scarce_bytes;
    struct tarn__scope scope;
    bool is_unused;
    uint64_t now_idle = idle_bytes(self, &is_unused);
    uint64_t idle = now_idle < self->idle_bytes ? now_idle : self->idle_bytes;

    self->idle_bytes = now_idle;
    if (tarn__pool_never_moves(self->pool))
        return;
    if (idle < TARN__PAGE_BYTES || tarn__clock_now_ns() < self->next_return_ns ||
        !enter(self->pool, &scope))
        return;
    if (tarn__budget_query_device(self->pool, &scope, &free_bytes, &scarce_bytes) &&
        free_bytes < scarce_bytes) {
        complete(self->pool, is_unused);
        return_bytes(self, idle);
    }
    tarn__scope_leave(&scope);
}

/* Note a growth of a search. If it took memory back, the next return comes later. */
static void note_growth(struct tarn__background *self)
{
    self->growth_turns = GROWTH_TURNS;
    if (!has_returned(self))
        return;
    self->pause_ns = self->pause_ns < PAUSE_MAX_NS ? 2 * self->pause_ns : PAUSE_MAX_NS;
    self->next_return_ns = self->returned_ns + self->pause_ns;
    self->returned_ns = 0;
}

/* --- the thread --- */

/* Sleep until the next turn. Returns false if the thread is to end. */
static bool next_turn(struct tarn__background *self)
{
    uint64_t until_ns =
        tarn__clock_now_ns() +
        (self->growth_turns > 0 ? GROWTH_TURN_US * MICROSECOND : WATCH_MS * MILLISECOND);
    struct timespec until = {.tv_sec = (time_t)(until_ns / SECOND),
                             .tv_nsec = (long)(until_ns % SECOND)};

    pthread_mutex_lock(&self->mutex);
    while (!self->has_grown && !atomic_load(&self->stops) &&
           pthread_cond_timedwait(&self->change, &self->mutex, &until) == 0)
        continue;
    bool has_grown = self->has_grown;
    self->has_grown = false;
    pthread_mutex_unlock(&self->mutex);
    if (has_grown)
        note_growth(self);
    return !atomic_load(&self->stops) && !tarn__pool_end_after_reset(self->pool);
}

/* Read the CPUs of a NUMA node, such as "0-15,32-47". */
static bool read_cpus(int node, cpu_set_t *out)
{
    char path[64];
    unsigned first, last;
    int found;

    snprintf(path, sizeof path, "/sys/devices/system/node/node%d/cpulist", node);
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    CPU_ZERO(out);
    while ((found = fscanf(file, "%u-%u", &first, &last)) > 0) {
        for (unsigned i = first; i <= (found > 1 ? last : first) && i < CPU_SETSIZE; i++)
            CPU_SET(i, out);
        if (fgetc(file) != ',')
            break;
    }
    fclose(file);
    return true;
}

/* Keep this thread on the CPUs of the device's NUMA node, as far as the process may use
 * them. The driver's locks and queues are near there. */
static void stay_near_device(const struct tarn__pool *pool)
{
    cpu_set_t allowed, near;
    CUdevice_ handle = 0;
    int node = -1;

    if (pool->calls->device_get(&handle, pool->device) == CUDA_SUCCESS_ &&
        pool->calls->device_get_attribute(&node, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID_,
                                          handle) == CUDA_SUCCESS_ &&
        node >= 0 && read_cpus(node, &near) &&
        sched_getaffinity(0, sizeof allowed, &allowed) == 0) {
        CPU_AND(&near, &near, &allowed);
        if (CPU_COUNT(&near) > 0)
            sched_setaffinity(0, sizeof near, &near);
    }
}

static void *run(void *data)
{
    struct tarn__background *self = data;

    stay_near_device(self->pool);
    while (next_turn(self)) {
        if (self->growth_turns > 0)
            grow_ahead(self);
        else
            watch(self);
    }
    return NULL;
}

static void discard(struct tarn__background *self)
{
    pthread_cond_destroy(&self->change);
    pthread_mutex_destroy(&self->mutex);
    free(self);
}

/* Create the thread. Returns NULL if that is impossible at present. */
static struct tarn__background *start(struct tarn__pool *pool)
{
    struct tarn__background *self = calloc(1, sizeof *self);
    pthread_condattr_t attributes;

    if (!self)
        return NULL;
    self->pool = pool;
    self->pause_ns = PAUSE_MIN_NS;
    pthread_mutex_init(&self->mutex, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&self->change, &attributes);
    pthread_condattr_destroy(&attributes);
    if (tarn__thread_start(&self->thread, run, self) == 0)
        return self;
    discard(self);
    return NULL;
}

void tarn__background_note_growth(struct tarn__pool *pool)
{
    tarn__assert_held(&pool->growth);

    if (!pool->options.background_thread || !tarn__pages_is_vmm(pool->pages))
        return;
    if (!pool->background)
        pool->background = start(pool);
    if (!pool->background)
        return;
    pthread_mutex_lock(&pool->background->mutex);
    pool->background->has_grown = true;
    pthread_cond_signal(&pool->background->change);
    pthread_mutex_unlock(&pool->background->mutex);
}

void tarn__background_stop(struct tarn__pool *pool)
{
    tarn__assert_held(&pool->growth);

    struct tarn__background *self = pool->background;

    if (!self)
        return;
    pthread_mutex_lock(&self->mutex);
    atomic_store(&self->stops, true);
    pthread_cond_signal(&self->change);
    pthread_mutex_unlock(&self->mutex);
    pthread_join(self->thread, NULL);
    discard(self);
    pool->background = NULL;
}
