/* accounting.c -- the accounting of a log: every row is entered and checked for
 * consistency.
 *
 * Only the address identifies a block: a free in a log has nothing else, and addresses of
 * several devices do not collide. Blocks may overlap. An adaptor that rounds, or a pool
 * below another logger, writes such logs, and RMM's are full of them.
 */
#define _GNU_SOURCE
#include "trace/accounting.h"
#include "trace/ids.h"
#include "trace/site_usage.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const size_t LIVE_ROWS_DEFAULT = 16 * 1024 * 1024;
static const uint64_t DAY_NS = 24 * 60 * 60 * (uint64_t)1000000000u;

/* A live block. */
struct live {
    uint64_t bytes;
    uint64_t line; /* line of its allocation */
    uint64_t start_ns;
    uint32_t block;
    uint32_t site;
    int device;
    bool is_held; /* it was live when the exit began */
};

struct tarn_trace_accounting {
    char *name; /* of the log, for messages; owned */
    size_t live_rows_limit;
    tarn_trace_problem_fn on_problem; /* may be NULL */
    void *data;                       /* of on_problem */

    struct tarn__map live; /* address -> struct live */
    uint64_t live_bytes;   /* sum over `live` */
    uint64_t peak;         /* number of the latest peak; 0: there was none */
    uint32_t blocks;       /* numbered so far */
    struct tarn__ids threads, streams, devices;
    struct tarn__site_usage_table sites;
    tarn_trace_summary summary; /* except the fields that are computed at the end */

    uint64_t day_ns; /* added to times: midnights passed since the first row */
    uint64_t last_ns, first_ns, latest_ns;
};

tarn_status tarn_trace_accounting_create(const char *name,
                                         const tarn_trace_limits *limits,
                                         tarn_trace_problem_fn on_problem, void *data,
                                         tarn_trace_accounting **out)
{
    if (!out)
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "trace: accounting_create: out is NULL");
    tarn_trace_accounting *accounting = calloc(1, sizeof *accounting);
    char *copy = malloc(strlen(name ? name : "log") + 1);

    if (!accounting || !copy) {
        free(accounting);
        free(copy);
        return tarn_error_set(TARN_OUT_OF_MEMORY, "trace: no host memory for accounting");
    }
    accounting->name = strcpy(copy, name ? name : "log");
    accounting->live_rows_limit =
        limits && limits->live_rows ? limits->live_rows : LIVE_ROWS_DEFAULT;
    accounting->on_problem = on_problem;
    accounting->data = data;
    tarn__map_init(&accounting->live, sizeof(struct live));
    tarn__ids_init(&accounting->threads);
    tarn__ids_init(&accounting->streams);
    tarn__ids_init(&accounting->devices);
    tarn__site_usage_init(&accounting->sites);
    *out = accounting;
    return TARN_OK;
}

void tarn_trace_accounting_release(tarn_trace_accounting *accounting)
{
    if (!accounting)
        return;
    tarn__map_free(&accounting->live);
    tarn__ids_free(&accounting->threads);
    tarn__ids_free(&accounting->streams);
    tarn__ids_free(&accounting->devices);
    tarn__site_usage_free(&accounting->sites);
    free(accounting->name);
    free(accounting);
}

static void problem(tarn_trace_accounting *accounting, uint64_t line, const char *format,
                    ...) TARN_PRINTF(3, 4);

static void problem(tarn_trace_accounting *accounting, uint64_t line, const char *format,
                    ...)
{
    char what[256];
    va_list arguments;

    accounting->summary.problems++;
    if (!accounting->on_problem)
        return;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    accounting->on_problem(accounting->data, line, what);
}

static tarn_status over_limit(const tarn_trace_accounting *accounting, uint64_t line,
                              const char *things)
{
    return tarn_error_set(TARN_OUT_OF_MEMORY,
                          "%.200s:%" PRIu64 ": more than %zu %s, or no host memory",
                          accounting->name, line, accounting->live_rows_limit, things);
}

/* Number the thread, stream, device and site of a row, and pass them to the loader. */
static tarn_status note_ids(tarn_trace_accounting *accounting,
                            const tarn_trace_event *event, uint64_t line,
                            struct tarn__match *out)
{
    size_t limit = accounting->live_rows_limit;
    uint32_t device;

    if (!tarn__ids_number(&accounting->threads, event->thread, limit, &out->thread))
        return over_limit(accounting, line, "threads");
    if (!tarn__ids_number(&accounting->streams, event->stream, limit, &out->stream))
        return over_limit(accounting, line, "streams");
    if (event->device >= 0 &&
        !tarn__ids_number(&accounting->devices, (uint64_t)event->device, limit, &device))
        return over_limit(accounting, line, "devices");
    return TARN_OK;
}

/* RMM's times restart at midnight. A step back by more than half a day is a step over
 * midnight. A step forward by as much is a late thread's step back over it. */
static void note_times(tarn_trace_accounting *accounting, const tarn_trace_event *event,
                       uint64_t line)
{
    uint64_t start = event->start_ns, end = event->end_ns;

    if (end < start)
        problem(accounting, line, "the end time is %" PRIu64 " ns before the start time",
                start - end);
    if (accounting->summary.events > 0 && start + DAY_NS / 2 < accounting->last_ns)
        accounting->day_ns += DAY_NS;
    else if (accounting->day_ns && start > accounting->last_ns + DAY_NS / 2)
        accounting->day_ns -= DAY_NS;
    accounting->last_ns = start;
    start += accounting->day_ns;
    end += accounting->day_ns;
    if (accounting->summary.events == 0 || start < accounting->first_ns)
        accounting->first_ns = start;
    if (end > accounting->latest_ns)
        accounting->latest_ns = end;
}

static bool is_exit(const char *location)
{
    return location && strcmp(location, "<exit>") == 0;
}

/* Count all live blocks as held until exit. */
static void begin_exit(tarn_trace_accounting *accounting, uint64_t time_ns)
{
    size_t cursor = 0;
    uint64_t key;
    void *value;

    accounting->summary.has_exit = true;
    while (tarn__map_next(&accounting->live, &cursor, &key, &value)) {
        struct live *block = value;
        struct tarn__site_usage *site = &accounting->sites.items[block->site];
        uint64_t age = time_ns > block->start_ns ? time_ns - block->start_ns : 0;
        block->is_held = true;
        site->held_bytes += block->bytes;
        site->held_blocks++;
        if (age > site->held_age_ns)
            site->held_age_ns = age;
    }
    accounting->summary.held_bytes = accounting->live_bytes;
    accounting->summary.held_blocks = accounting->live.count;
}

/* A block that was live when the exit began is freed by the program. */
static void release_held(tarn_trace_accounting *accounting, const struct live *old)
{
    struct tarn__site_usage *site = &accounting->sites.items[old->site];

    site->held_bytes -= old->bytes;
    site->held_blocks--;
    accounting->summary.held_bytes -= old->bytes;
    accounting->summary.held_blocks--;
}

static void end_block(tarn_trace_accounting *accounting, const struct live *old)
{
    tarn__site_usage_freed(&accounting->sites.items[old->site], old->bytes,
                           accounting->peak);
    accounting->live_bytes -= old->bytes;
}

static void note_peak(tarn_trace_accounting *accounting)
{
    if (accounting->live.count > accounting->summary.peak_live_blocks)
        accounting->summary.peak_live_blocks = accounting->live.count;
    if (accounting->live_bytes > accounting->summary.peak_live_bytes) {
        accounting->summary.peak_live_bytes = accounting->live_bytes;
        accounting->peak++;
    }
}

/* Enter a new block at an address that has no live block. */
static tarn_status begin_block(tarn_trace_accounting *accounting,
                               const tarn_trace_event *event, uint64_t line,
                               struct tarn__match *out)
{
    struct live new = {.bytes = event->bytes,
                       .line = line,
                       .start_ns = event->start_ns + accounting->day_ns,
                       .block = accounting->blocks,
                       .device = event->device};

    if (event->bytes > UINT64_MAX - accounting->live_bytes)
        return tarn_error_set(TARN_BAD_FORMAT,
                              "%.200s:%" PRIu64 ": %" PRIu64
                              " bytes more exceed 2^64 live bytes",
                              accounting->name, line, event->bytes);
    if (accounting->live.count >= accounting->live_rows_limit ||
        accounting->blocks == TARN__NO_BLOCK ||
        !tarn__site_usage_index(&accounting->sites, event->location, &new.site) ||
        !tarn__map_put(&accounting->live, event->address, &new))
        return over_limit(accounting, line, "live blocks");
    accounting->live_bytes += event->bytes;
    struct tarn__site_usage *site = &accounting->sites.items[new.site];
    tarn__site_usage_allocated(site, event->bytes, accounting->peak);
    if (event->bytes > site->largest_bytes || site->allocations == 1) {
        site->largest_bytes = event->bytes;
        site->stack = event->stack;
    }
    note_peak(accounting);
    out->allocated = accounting->blocks++;
    return TARN_OK;
}

static tarn_status add_allocation(tarn_trace_accounting *accounting,
                                  const tarn_trace_event *event, uint64_t line,
                                  struct tarn__match *out)
{
    tarn_trace_summary *summary = &accounting->summary;
    struct live old;

    summary->allocations++;
    if (event->bytes > UINT64_MAX - summary->total_bytes)
        summary->total_bytes = UINT64_MAX;
    else
        summary->total_bytes += event->bytes;
    if (event->address == 0) {
        if (event->bytes != 0)
            problem(accounting, line, "allocation of %" PRIu64 " bytes at address 0",
                    event->bytes);
        return TARN_OK;
    }
    if (tarn__map_take(&accounting->live, event->address, &old)) {
        summary->double_allocations++;
        problem(accounting, line,
                "allocation at 0x%" PRIx64 ", which is live since line %" PRIu64,
                event->address, old.line);
        if (old.is_held)
            release_held(accounting, &old);
        end_block(accounting, &old);
        out->freed = old.block;
    }
    return begin_block(accounting, event, line, out);
}

static void add_free(tarn_trace_accounting *accounting, const tarn_trace_event *event,
                     uint64_t line, struct tarn__match *out)
{
    struct live old;

    accounting->summary.frees++;
    if (event->address == 0)
        return;
    if (!tarn__map_take(&accounting->live, event->address, &old)) {
        accounting->summary.unmatched_frees++;
        problem(accounting, line, "free of 0x%" PRIx64 ", which is not live",
                event->address);
        return;
    }
    if (event->bytes != 0 && event->bytes != old.bytes)
        problem(accounting, line,
                "free of 0x%" PRIx64 " with %" PRIu64
                " bytes, which was allocated with %" PRIu64 " in line %" PRIu64,
                event->address, event->bytes, old.bytes, old.line);
    if (event->device != old.device)
        problem(accounting, line,
                "free of 0x%" PRIx64
                " on device %d, which was allocated on device %d in line %" PRIu64,
                event->address, event->device, old.device, old.line);
    if (old.is_held && !is_exit(event->location) &&
        !(event->location && strcmp(event->location, "<gc>") == 0))
        release_held(accounting, &old);
    end_block(accounting, &old);
    out->freed = old.block;
}

static void add_failure(tarn_trace_accounting *accounting, const tarn_trace_event *event,
                        uint64_t line)
{
    accounting->summary.failures++;
    if (event->address != 0)
        problem(accounting, line, "failed allocation with the address 0x%" PRIx64,
                event->address);
}

tarn_status tarn__accounting_add(tarn_trace_accounting *accounting,
                                 const tarn_trace_event *event, uint64_t line,
                                 struct tarn__match *out)
{
    struct tarn__match match = {.freed = TARN__NO_BLOCK, .allocated = TARN__NO_BLOCK};
    tarn_status status = note_ids(accounting, event, line, &match);

    if (status != TARN_OK)
        return status;
    note_times(accounting, event, line);
    if (event->total_bytes != 0 && event->free_bytes > event->total_bytes)
        problem(accounting, line, "%" PRIu64 " bytes free of %" PRIu64, event->free_bytes,
                event->total_bytes);
    accounting->summary.events++;
    if (!accounting->summary.has_exit && is_exit(event->location))
        begin_exit(accounting, event->start_ns + accounting->day_ns);
    switch (event->action) {
    case TARN_ACTION_ALLOCATE:
        status = add_allocation(accounting, event, line, &match);
        break;
    case TARN_ACTION_FREE:
        add_free(accounting, event, line, &match);
        break;
    case TARN_ACTION_ALLOCATE_FAILURE:
        add_failure(accounting, event, line);
        break;
    }
    if (status == TARN_OK)
        *out = match;
    return status;
}

tarn_status tarn_trace_accounting_add(void *accounting, const tarn_trace_event *event,
                                      uint64_t line)
{
    struct tarn__match match;

    if (!accounting || !event)
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "trace: accounting_add: accounting or event is NULL");
    return tarn__accounting_add(accounting, event, line, &match);
}

tarn_status tarn_trace_accounting_mark(void *accounting, const char *name,
                                       uint64_t time_ns)
{
    tarn_trace_accounting *entered = accounting;

    if (!accounting || !name)
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "trace: accounting_mark: accounting or name is NULL");
    if (is_exit(name) && !entered->summary.has_exit)
        begin_exit(entered, time_ns);
    return TARN_OK;
}

const struct tarn__ids *tarn__accounting_streams(const tarn_trace_accounting *accounting)
{
    return &accounting->streams;
}

const struct tarn__ids *tarn__accounting_threads(const tarn_trace_accounting *accounting)
{
    return &accounting->threads;
}

void tarn_trace_accounting_summary(const tarn_trace_accounting *accounting,
                                   tarn_trace_summary *out)
{
    *out = accounting->summary;
    out->end_live_bytes = accounting->live_bytes;
    out->end_live_blocks = accounting->live.count;
    if (!out->has_exit) {
        out->held_bytes = out->end_live_bytes;
        out->held_blocks = out->end_live_blocks;
    }
    out->streams = accounting->streams.count;
    out->devices = accounting->devices.count;
    /* A format without threads has the one id 0. */
    out->threads = accounting->threads.count -
                   (tarn__map_get(&accounting->threads.numbers, 0 + 1) != NULL ? 1 : 0);
    out->duration_ns = accounting->latest_ns > accounting->first_ns
                           ? accounting->latest_ns - accounting->first_ns
                           : 0;
}

static uint64_t rank_of(const tarn_trace_site *site, tarn_site_order order)
{
    switch (order) {
    case TARN_SITES_BY_PEAK:
        return site->peak_bytes;
    case TARN_SITES_BY_LIVE:
        return site->live_bytes;
    case TARN_SITES_BY_HELD:
        return site->held_bytes;
    case TARN_SITES_BY_TOTAL:
        break;
    }
    return site->total_bytes;
}

/* A comparison for qsort_r(): the larger first, equal ones by their locations. */
static int compare_sites(const void *a, const void *b, void *order)
{
    const tarn_trace_site *one = a, *other = b;
    uint64_t first = rank_of(one, *(tarn_site_order *)order);
    uint64_t second = rank_of(other, *(tarn_site_order *)order);

    if (first != second)
        return first > second ? -1 : 1;
    return strcmp(one->location, other->location);
}

/* Insert `site` in order among the `count` largest, which are sorted. */
static size_t insert(tarn_trace_site *sites, size_t count, size_t capacity,
                     const tarn_trace_site *site, tarn_site_order order)
{
    size_t at = count;

    while (at > 0 && compare_sites(&sites[at - 1], site, &order) > 0)
        at--;
    if (at == capacity)
        return count;
    if (count < capacity)
        count++;
    memmove(&sites[at + 1], &sites[at], (count - at - 1) * sizeof *sites);
    sites[at] = *site;
    return count;
}

size_t tarn_trace_accounting_sites(const tarn_trace_accounting *accounting,
                                   tarn_site_order order, size_t capacity,
                                   tarn_trace_site *sites)
{
    bool has_exit = accounting->summary.has_exit;
    size_t count = 0, all = accounting->sites.locations.count;

    for (uint32_t i = 0; i < all; i++) {
        const struct tarn__site_usage *item = &accounting->sites.items[i];
        tarn_trace_site site = {
            .location = tarn__site_usage_location(&accounting->sites, i),
            .allocations = item->allocations,
            .total_bytes = item->total_bytes,
            .peak_bytes = tarn__site_usage_peak_bytes(item, accounting->peak),
            .live_bytes = item->live_bytes,
            .live_blocks = item->live_blocks,
            .held_bytes = has_exit ? item->held_bytes : item->live_bytes,
            .held_blocks = has_exit ? item->held_blocks : item->live_blocks,
            .held_age_ns = item->held_age_ns,
            .stack = item->stack,
        };
        if (capacity < all)
            count = insert(sites, count, capacity, &site, order);
        else
            sites[count++] = site;
    }
    if (capacity >= all && all > 1)
        qsort_r(sites, all, sizeof *sites, compare_sites, &order);
    return all;
}
