/* report.c -- the statistics of a pool, and the report of an out-of-memory failure. */
#include "pool/report.h"
#include "pool/blocks/take.h"
#include "pool/cache/thread_cache.h"
#include "pool/follow/follow.h"
#include "pool/follow/learn.h"
#include "pool/order/capture.h"
#include "pool/order/no_stream.h"
#include "pool/pool.h"
#include "base/size.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The thread's last failure, allocated at its first one. A struct here would cost every
 * thread of every program 400 bytes of the static TLS that libraries loaded late have to
 * share. */
static _Thread_local tarn_pool_oom_report *last;
static pthread_key_t last_key;
static bool has_last_key;
static pthread_once_t last_once = PTHREAD_ONCE_INIT;

static void forget_last(void *report)
{
    last = NULL;
    free(report);
}

static void make_last_key(void)
{
    has_last_key = pthread_key_create(&last_key, forget_last) == 0;
}

/* Keep the report for tarn_pool_last_oom_report(), where there is host memory. */
static void keep(const tarn_pool_oom_report *report)
{
    pthread_once(&last_once, make_last_key);
    if (!last && has_last_key) {
        last = calloc(1, sizeof *last);
        pthread_setspecific(last_key, last);
    }
    if (last)
        *last = *report;
}

/* --- statistics --- */

/* Stream states for which walk() holds the lock. One with free blocks counts as
 * WITH_MEMORY. */
enum { STATES_AT_ONCE = 128, WITH_MEMORY = 32 };

/* What a walk through the stream states finds. */
struct found {
    uint32_t largest; /* quanta of the largest free block that any stream could have */
    uint64_t orphaned;
};

static void note(const struct tarn__pool *pool,
                 const struct tarn__stream_state *stream_state, struct found *found)
    TARN__REQUIRES(pool_lock)
{
    uint32_t largest = 0;

    if (!stream_state->is_capture)
        largest = tarn__bins_largest(&stream_state->free.bins, &pool->heap.nodes);
    if (found->largest < largest)
        found->largest = largest;
    found->orphaned += tarn__no_stream_orphaned_of(pool, stream_state);
}

/* Walk through the stream states. `lock` held, and released in between. */
static struct found walk(struct tarn__pool *pool) TARN__REQUIRES(pool_lock)
{
    tarn__assert_held(&pool->lock);

    const struct tarn__heap *heap = &pool->heap;
    struct found found = {.largest = tarn__bins_largest(&heap->completed, &heap->nodes)};
    int work = WITH_MEMORY;

    for (tarn__index i = 1; i < heap->states_made; i++) {
        const struct tarn__stream_state *stream_state = tarn__heap_state(heap, i);
        if (stream_state->free.oldest)
            note(pool, stream_state, &found);
        work += stream_state->free.oldest ? WITH_MEMORY : 1;
        if (work < STATES_AT_ONCE)
            continue;
        tarn__pool_relock(pool);
        work = 0;
    }
    return found;
}

/* Return how much more one sum is. Other threads count between the reads of two sums. */
static uint64_t excess(uint64_t one, uint64_t other)
{
    return one > other ? one - other : 0;
}

/* Fill in the heap's bytes. `lock` held, or not `is_whole`: then the heap may be in the
 * middle of a change, and fields that need a walk through it stay 0. The heap's own counts
 * are read last: the lock is released before that. */
static void fill_bytes(struct tarn__pool *pool, bool is_whole, tarn_pool_statistics *out)
    TARN__REQUIRES(pool_lock)
{
    struct tarn__thread_cache_sums sums;
    struct found found = {0};

    if (is_whole)
        found = walk(pool);
    tarn__thread_caches_sum(pool, &sums);
    out->thread_cached = tarn__size_least(sums.bytes, pool->heap.allocated_bytes);
    out->live = pool->heap.allocated_bytes - out->thread_cached;
    out->live_requested = excess(sums.counts.allocated_bytes, sums.counts.freed_bytes);
    out->live_blocks = excess(sums.counts.allocations, sums.counts.frees);
    out->captured = is_whole ? pool->heap.captured_bytes : 0;
    out->cached = pool->heap.free_bytes - out->captured;
    out->unfenced = pool->heap.unfenced_bytes - out->captured;
    out->no_stream_deferred = tarn__no_stream_bytes(pool);
    out->orphaned = found.orphaned;
    out->reserved = tarn__pages_reserved(pool->pages);
    out->suspended = tarn__pages_suspended(pool->pages);
    out->maximum = pool->limit;
    out->largest_free =
        tarn__size_least((uint64_t)found.largest << TARN__QUANTUM_SHIFT, out->cached);
    out->fragmentation =
        out->cached ? 1.0 - (double)out->largest_free / (double)out->cached : 0.0;
    out->allocations = sums.counts.allocations;
    out->frees = sums.counts.frees;
    out->cache_hits = sums.counts.hits;
    out->planned = sums.repeats;
    memcpy(out->size_classes, sums.counts.classes, sizeof out->size_classes);
    out->metadata = sizeof *pool + sums.metadata +
                    tarn__nodes_metadata(&pool->heap.nodes) +
                    pool->heap.addresses.metadata + pool->heap.state_metadata +
                    tarn__pages_metadata(pool->pages) + tarn__captures_metadata(pool) +
                    tarn__follow_metadata(pool);
}

static void fill_counts(const struct tarn__pool *pool, tarn_pool_statistics *out)
    TARN__REQUIRES(pool_lock)
{
    out->peak_allocated = pool->peak_allocated;
    out->peak_reserved = pool->peak_reserved;
    out->recent_peak_allocated = pool->recent_peak_allocated;
    out->recent_peak_reserved = pool->recent_peak_reserved;
    out->failures = pool->counters.failures;
    out->same_stream = pool->counters.same_stream;
    out->completed = pool->counters.completed;
    out->steals = pool->counters.steals;
    out->grown = pool->counters.grown;
    out->stream_waits = pool->counters.waits;
    out->events_recorded = pool->counters.fences;
    out->queries = pool->counters.queries;
    out->growths = pool->counters.growths;
    out->shrinks = pool->counters.shrinks;
    out->moves = pool->counters.moves;
    out->device_synchronizations = pool->counters.device_waits;
    out->driver_calls = pool->counters.waits + pool->counters.fences +
                        pool->counters.queries + tarn__pages_driver_calls(pool->pages);
    out->streams = tarn__heap_streams(&pool->heap);
    if (pool->follow) {
        out->planned += pool->follow->counts.planned;
        out->plan_missed = pool->follow->counts.missed;
        out->plan_resynchronized = pool->follow->counts.resynchronized;
        out->plan_state = pool->follow->state;
        out->planned_share = pool->follow->share;
    }
    if (pool->follow && pool->follow->learn) {
        out->steps_learned = pool->follow->learn->counts.steps;
        out->plans_made = pool->follow->learn->counts.plans;
        out->plans_worse = pool->follow->learn->counts.worse;
    }
}

tarn_status tarn_pool_get_statistics(tarn_resource *resource, tarn_pool_statistics *out)
    TARN__NO_THREAD_SAFETY_ANALYSIS /* where the lock is unavailable, without it */
{
    tarn_pool_statistics all = {0};
    struct tarn__pool *pool;
    tarn_status status = tarn__pool_of(resource, "pool", &pool);

    if (status == TARN_OK && (!out || out->size < sizeof out->size))
        status =
            tarn_error_set(TARN_INVALID_ARGUMENT,
                           "pool: get_statistics: out is NULL, or out.size is not set");
    if (status != TARN_OK)
        return status;
    bool locked = tarn__pool_lock_if_possible(pool);
    fill_bytes(pool, locked, &all);
    fill_counts(pool, &all);
    if (locked)
        tarn__pool_unlock(pool);
    size_t known = out->size < sizeof all ? out->size : sizeof all;
    all.size = known;
    memcpy(out, &all, known);
    return TARN_OK;
}

tarn_status tarn_pool_reset_peaks(tarn_resource *resource)
{
    struct tarn__pool *pool;
    tarn_status status = tarn__pool_of(resource, "pool", &pool);

    if (status == TARN_OK)
        status = tarn__driver_check();
    if (status != TARN_OK)
        return status;
    tarn__pool_lock(pool);
    pool->recent_peak_allocated = pool->heap.allocated_bytes;
    pool->recent_peak_reserved = tarn__pages_reserved(pool->pages);
    tarn__pool_unlock(pool);
    return TARN_OK;
}

/* --- out of memory --- */

void tarn__report_fill(struct tarn__caller *caller, uint64_t wanted, uint64_t alignment,
                       unsigned attempts, const tarn_error *upstream,
                       tarn_pool_oom_report *report)
{
    struct tarn__pool *pool = caller->pool;
    tarn_pool_statistics all = {0};
    size_t device_free = 0, device_total = 0;

    tarn__pages_note_call(pool->pages);
    caller->scope.calls->mem_get_info(&device_free, &device_total);
    memset(report, 0, sizeof *report);
    tarn__pool_lock(pool);
    fill_bytes(pool, true, &all);
    report->same_stream = caller->stream_state->free.bytes;
    report->completed = pool->heap.completed_bytes;
    report->other_streams =
        all.cached - report->completed - (caller->capturing ? 0 : report->same_stream);
    report->largest_free = (uint64_t)tarn__take_largest(&pool->heap, caller->stream_state)
                           << TARN__QUANTUM_SHIFT;
    tarn__pool_unlock(pool);
    report->size = sizeof *report;
    report->requested = wanted;
    report->alignment = alignment;
    report->live = all.live;
    report->thread_cached = all.thread_cached;
    report->cached = all.cached;
    report->unfenced = all.unfenced;
    report->captured = all.captured;
    report->reserved = all.reserved;
    report->maximum = all.maximum;
    report->device_free = device_free;
    report->device_total = device_total;
    report->attempts = attempts;
    report->upstream_status = upstream->status;
    report->fragmentation = all.fragmentation;
    snprintf(report->upstream_message, sizeof report->upstream_message, "%.255s",
             upstream->message);
}

tarn_status tarn__report_fail(const tarn_pool_oom_report *report)
{
    keep(report);
    return tarn_error_set_native(
        TARN_OUT_OF_MEMORY, 0,
        "pool: cannot allocate %llu bytes: %llu live, %llu cached (%llu contiguous for "
        "this stream), %llu of %llu reserved; %.200s",
        (unsigned long long)report->requested, (unsigned long long)report->live,
        (unsigned long long)report->cached, (unsigned long long)report->largest_free,
        (unsigned long long)report->reserved,
        (unsigned long long)(report->maximum < report->device_total
                                 ? report->maximum
                                 : report->device_total),
        report->upstream_message);
}

tarn_status tarn_pool_last_oom_report(tarn_pool_oom_report *out)
{
    if (!out || out->size < sizeof out->size)
        return tarn_error_set(
            TARN_INVALID_ARGUMENT,
            "pool: last_oom_report: out is NULL, or out.size is not set");
    if (!last)
        return tarn_error_set(TARN_NOT_FOUND,
                              "pool: no allocation of this thread has failed");
    size_t known = out->size < sizeof *out ? out->size : sizeof *out;
    memcpy(out, last, known);
    out->size = known;
    return TARN_OK;
}

/* Format bytes for people: 3 digits and a unit. */
static const char *sized(uint64_t bytes, char *out, size_t capacity)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    unsigned unit = 0;

    for (; value >= 1000 && unit < 4; unit++)
        value /= 1024;
    snprintf(out, capacity, unit ? "%.4g %s" : "%.0f %s", value, units[unit]);
    return out;
}

size_t tarn_pool_oom_report_text(const tarn_pool_oom_report *report, char *out,
                                 size_t capacity)
{
    char texts[12][24];
    const uint64_t bytes[12] = {
        report->requested,     report->live,         report->thread_cached,
        report->cached,        report->same_stream,  report->completed,
        report->other_streams, report->unfenced,     report->captured,
        report->reserved,      report->largest_free, report->device_free};

    for (int i = 0; i < 12; i++)
        sized(bytes[i], texts[i], sizeof texts[i]);
    char limit[24] = "none", total[24];
    if (report->maximum != UINT64_MAX)
        sized(report->maximum, limit, sizeof limit);
    sized(report->device_total, total, sizeof total);
    int length = snprintf(
        out, capacity,
        "requested         %s (%" PRIu64 " bytes, aligned to %" PRIu64 ")\n"
        "live              %s\n"
        "thread-cached     %s\n"
        "cached            %s\n"
        "  same-stream     %s\n"
        "  completed       %s\n"
        "  other streams   %s\n"
        "  unfenced        %s\n"
        "captured          %s\n"
        "reserved          %s, maximum %s\n"
        "largest free      %s for this stream\n"
        "fragmentation     %.2f\n"
        "device            %s free of %s\n"
        "callbacks         %u freed memory\n"
        "growth returned   %s: %s\n",
        texts[0], report->requested, report->alignment, texts[1], texts[2], texts[3],
        texts[4], texts[5], texts[6], texts[7], texts[8], texts[9], limit, texts[10],
        report->fragmentation, texts[11], total, report->attempts,
        tarn_status_name(report->upstream_status), report->upstream_message);
    return length < 0 ? 0 : (size_t)length;
}
