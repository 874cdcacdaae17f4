/* bytes.c -- the last writer and the later readers of each byte; and the error message
 * of a race.
 *
 * There is one set of address ranges: each device has its own addresses, with host
 * memory in between. Bytes that were always accessed together are one range. A write
 * merges all ranges it covers, so the set is never larger than the number of accesses.
 */
#define _GNU_SOURCE
#include "sim/races/bytes.h"
#include "sim/core/api.h"
#include "sim/core/host_memory.h"
#include "sim/core/lock.h"
#include "sim/core/ranges.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINES_MAX = 50 }; /* lines per process on stderr; all races are counted */

struct shadow {
    struct sim_range range;  /* first: the set finds it */
    struct sim_access write; /* timeline NULL: none */
    struct sim_access *reads;
    size_t read_count, read_capacity;
};

static struct sim_ranges shadows;
static unsigned long long races;
static unsigned lines;
static char race_message[1024];

/* --- the error message --- */

/* "cuMemsetD8Async on stream 9, queued at step+0x1f (libuser.so)" */
static void describe(const struct sim_access *access, char *out, size_t bytes)
{
    Dl_info info;
    const char *file = NULL;
    int used = access->timeline ? snprintf(out, bytes, "%s on stream %llu", access->call,
                                           (unsigned long long)access->stream_id)
                                : snprintf(out, bytes, "%s of the host", access->call);

    out += used, bytes -= (size_t)used;
    if (!dladdr(access->caller, &info) || !info.dli_fname) {
        snprintf(out, bytes, ", queued at %p", access->caller);
        return;
    }
    file = strrchr(info.dli_fname, '/');
    file = file ? file + 1 : info.dli_fname;
    if (info.dli_sname)
        snprintf(out, bytes, ", queued at %.150s+0x%zx (%.100s)", info.dli_sname,
                 (size_t)((char *)access->caller - (char *)info.dli_saddr), file);
    else
        snprintf(out, bytes, ", queued at %.100s+0x%zx", file,
                 (size_t)((char *)access->caller - (char *)info.dli_fbase));
}

static void report(const struct sim_access *now, const char *does,
                   const struct sim_access *before, const char *did,
                   const struct sim_range *range)
{
    char first[400], second[400];

    describe(now, first, sizeof first);
    describe(before, second, sizeof second);
    snprintf(race_message, sizeof race_message,
             "race: %s, %s bytes at %#zx that %s, %s; no order between the two", first,
             does, (size_t)range->start, second, did);
    races++;
    if (lines == LINES_MAX)
        return;
    lines++;
    fprintf(stderr, "tarn simulator: %s\n", race_message);
}

unsigned long long tarn_sim_races(void)
{
    sim_lock();
    unsigned long long count = races;
    sim_lock_release();
    return count;
}

const char *tarn_sim_race(void)
{
    return race_message;
}

/* --- the set --- */

static struct shadow *shadow_new(uintptr_t start, size_t bytes)
{
    struct shadow *shadow = sim_host_memory_uncounted(sizeof *shadow);

    shadow->range.start = start;
    shadow->range.bytes = bytes;
    sim_ranges_insert(&shadows, &shadow->range);
    return shadow;
}

static void shadow_free(struct shadow *shadow)
{
    sim_ranges_remove(&shadows, &shadow->range);
    free(shadow->reads);
    free(shadow);
}

static void add_read(struct shadow *shadow, const struct sim_access *access)
{
    if (shadow->read_count == shadow->read_capacity) {
        size_t capacity = shadow->read_capacity ? shadow->read_capacity * 2 : 2;
        struct sim_access *reads = sim_host_memory_uncounted(capacity * sizeof *reads);
        if (shadow->reads)
            memcpy(reads, shadow->reads, shadow->read_count * sizeof *reads);
        free(shadow->reads);
        shadow->reads = reads;
        shadow->read_capacity = capacity;
    }
    shadow->reads[shadow->read_count++] = *access;
}

/* Split the range that spans `address`, if there is one. */
static void split(uintptr_t address)
{
    struct shadow *low = (struct shadow *)(void *)sim_ranges_find(&shadows, address),
                  *high;
    size_t bytes;

    if (!low || low->range.start == address)
        return;
    bytes = address - low->range.start;
    sim_ranges_remove(&shadows, &low->range);
    high = shadow_new(address, low->range.bytes - bytes);
    low->range.bytes = bytes;
    sim_ranges_insert(&shadows, &low->range);
    high->write = low->write;
    for (size_t i = 0; i < low->read_count; i++)
        add_read(high, &low->reads[i]);
}

/* The first range in [start, end), or NULL. */
static struct shadow *first_in(uintptr_t start, uintptr_t end)
{
    struct sim_range *range = sim_ranges_after(&shadows, start);

    return range && range->start < end ? (struct shadow *)(void *)range : NULL;
}

void sim_bytes_forget(uintptr_t start, size_t bytes)
{
    struct shadow *shadow;

    split(start);
    split(start + bytes);
    while ((shadow = first_in(start, start + bytes)))
        shadow_free(shadow);
}

void sim_bytes_forget_all(void)
{
    struct shadow *shadow;

    while ((shadow = first_in(0, UINTPTR_MAX)))
        shadow_free(shadow);
    races = 0;
    race_message[0] = '\0';
}

/* --- the check --- */

/* The earlier access that was reported last: one operation meets it in many ranges. */
static struct {
    const struct sim_timeline *now, *before;
    uint64_t now_time, before_time;
} reported;

static bool is_new(const struct sim_access *now, const struct sim_access *before)
{
    bool same = reported.now == now->timeline && reported.now_time == now->time &&
                reported.before == before->timeline &&
                reported.before_time == before->time;

    reported.now = now->timeline, reported.now_time = now->time;
    reported.before = before->timeline, reported.before_time = before->time;
    return !same;
}

static void check(const struct shadow *shadow, const struct sim_access *access,
                  bool is_write)
{
    const char *does = is_write ? "writes" : "reads";

    if (!sim_timeline_comes_after(access->timeline, &shadow->write) &&
        is_new(access, &shadow->write))
        report(access, does, &shadow->write, "wrote", &shadow->range);
    for (size_t i = 0; is_write && i < shadow->read_count; i++)
        if (!sim_timeline_comes_after(access->timeline, &shadow->reads[i]) &&
            is_new(access, &shadow->reads[i]))
            report(access, does, &shadow->reads[i], "reads", &shadow->range);
}

/* An operation that comes after this read comes after everything that the read comes
 * after. */
static void keep_read(struct shadow *shadow, const struct sim_access *access)
{
    size_t kept = 0;

    for (size_t i = 0; i < shadow->read_count; i++)
        if (!sim_timeline_comes_after(access->timeline, &shadow->reads[i]))
            shadow->reads[kept++] = shadow->reads[i];
    shadow->read_count = kept;
    add_read(shadow, access);
}

/* Make ranges for all of [start, end), also where there was no access. Each keeps the
 * read. */
static void touch_reading(const struct sim_access *access, uintptr_t start, uintptr_t end)
{
    while (start < end) {
        struct shadow *shadow = first_in(start, end);
        uintptr_t next = shadow ? shadow->range.start : end;
        if (start < next)
            shadow = shadow_new(start, next - start);
        check(shadow, access, false);
        keep_read(shadow, access);
        start = shadow->range.start + shadow->range.bytes;
    }
}

static void touch_writing(const struct sim_access *access, uintptr_t start, uintptr_t end)
{
    struct shadow *shadow;

    while ((shadow = first_in(start, end))) {
        check(shadow, access, true);
        shadow_free(shadow);
    }
    shadow_new(start, end - start)->write = *access;
}

void sim_bytes_touch(const struct sim_access *access, uintptr_t start, size_t bytes,
                     bool is_write)
{
    if (bytes == 0)
        return;
    split(start);
    split(start + bytes);
    if (is_write)
        touch_writing(access, start, start + bytes);
    else
        touch_reading(access, start, start + bytes);
}
