/* snapshot.c -- live memory at one time, by site; two snapshots compared; printed. */
#include "nrt/snapshot.h"
#include "nrt/alloc_site.h"
#include "nrt/registry.h"
#include <inttypes.h>
#include <stdlib.h>

struct tarn_nrt_snapshot {
    char name[32]; /* of the instance, for printing */
    bool is_difference;
    size_t count;
    tarn_nrt_site sites[]; /* the most bytes first */
};

static int by_bytes(const void *left, const void *right)
{
    const tarn_nrt_site *a = left, *b = right;

    if (a->bytes != b->bytes)
        return a->bytes < b->bytes ? 1 : -1;
    if (a->blocks != b->blocks)
        return a->blocks < b->blocks ? 1 : -1;
    return (a->address > b->address) - (a->address < b->address);
}

static tarn_nrt_snapshot *blank(const char *name, size_t sites)
{
    tarn_nrt_snapshot *snapshot =
        malloc(sizeof *snapshot + sites * sizeof *snapshot->sites);

    if (!snapshot) {
        tarn_error_set(TARN_OUT_OF_MEMORY,
                       "nrt: no host memory for a snapshot of %zu "
                       "sites",
                       sites);
        return NULL;
    }
    *snapshot = (tarn_nrt_snapshot){.count = 0};
    snprintf(snapshot->name, sizeof snapshot->name, "%s", name);
    return snapshot;
}

/* Add a site that has blocks. */
static void put(tarn_nrt_snapshot *snapshot, tarn_nrt_site site)
{
    if (site.blocks || site.bytes)
        snapshot->sites[snapshot->count++] = site;
}

/* Live memory of no known site. */
static tarn_nrt_site unknown(tarn_runtime *runtime, const tarn_nrt_snapshot *known)
{
    tarn_runtime_stats stats = {.size = sizeof stats};
    tarn_nrt_site rest = {.address = NULL};

    tarn_runtime_stats_read(runtime, &stats);
    rest.blocks = (int64_t)(stats.alloc - stats.free);
    rest.bytes = (int64_t)stats.bytes_live;
    for (size_t i = 0; i < known->count; i++) {
        rest.blocks -= known->sites[i].blocks;
        rest.bytes -= known->sites[i].bytes;
    }
    return rest;
}

tarn_status tarn_nrt_snapshot_take(tarn_runtime *runtime, tarn_nrt_snapshot **out)
{
    tarn_nrt_site site;
    size_t known = 0;

    if (!runtime || !out)
        return tarn_error_set(TARN_INVALID_ARGUMENT, "nrt: snapshot_take: %s is NULL",
                              runtime ? "out" : "runtime");
    for (unsigned i = 1; i < tarn__alloc_site_count(); i++)
        known += tarn__alloc_site_read(runtime, i, &site);
    tarn_nrt_snapshot *snapshot = blank(runtime->name, known + 1);
    if (!snapshot)
        return TARN_OUT_OF_MEMORY;
    for (unsigned i = 1; i < tarn__alloc_site_count() && snapshot->count < known; i++)
        if (tarn__alloc_site_read(runtime, i, &site))
            put(snapshot, site);
    put(snapshot, unknown(runtime, snapshot));
    qsort(snapshot->sites, snapshot->count, sizeof *snapshot->sites, by_bytes);
    *out = snapshot;
    return TARN_OK;
}

/* --- differences -------------------------------------------------------------------- */

static int by_place(const void *left, const void *right)
{
    const tarn_nrt_site *a = left, *b = right;

    if (a->address != b->address)
        return a->address < b->address ? -1 : 1;
    return (a->label > b->label) - (a->label < b->label);
}

/* Merge entries of one site. The array is sorted by site. */
static void merge(tarn_nrt_snapshot *snapshot)
{
    size_t count = snapshot->count;

    snapshot->count = 0;
    for (size_t i = 0; i < count; i++) {
        tarn_nrt_site sum = snapshot->sites[i];
        while (i + 1 < count && by_place(&sum, &snapshot->sites[i + 1]) == 0) {
            i++;
            sum.blocks += snapshot->sites[i].blocks;
            sum.bytes += snapshot->sites[i].bytes;
        }
        put(snapshot, sum);
    }
}

tarn_status tarn_nrt_snapshot_difference(const tarn_nrt_snapshot *before,
                                         const tarn_nrt_snapshot *after,
                                         tarn_nrt_snapshot **out)
{
    if (!before || !after || !out)
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "nrt: snapshot_difference: a snapshot or out is NULL");
    tarn_nrt_snapshot *both = blank(after->name, before->count + after->count);
    if (!both)
        return TARN_OUT_OF_MEMORY;
    both->is_difference = true;
    for (size_t i = 0; i < after->count; i++)
        put(both, after->sites[i]);
    for (size_t i = 0; i < before->count; i++) {
        tarn_nrt_site site = before->sites[i];
        site.blocks = -site.blocks;
        site.bytes = -site.bytes;
        put(both, site);
    }
    qsort(both->sites, both->count, sizeof *both->sites, by_place);
    merge(both);
    qsort(both->sites, both->count, sizeof *both->sites, by_bytes);
    *out = both;
    return TARN_OK;
}

void tarn_nrt_snapshot_release(tarn_nrt_snapshot *snapshot)
{
    free(snapshot);
}

size_t tarn_nrt_snapshot_sites(const tarn_nrt_snapshot *snapshot)
{
    return snapshot ? snapshot->count : 0;
}

tarn_status tarn_nrt_snapshot_site(const tarn_nrt_snapshot *snapshot, size_t index,
                                   tarn_nrt_site *out)
{
    if (!snapshot || !out || index >= snapshot->count)
        return tarn_error_set(
            TARN_INVALID_ARGUMENT,
            "nrt: snapshot_site: index %zu, but the snapshot has %zu sites", index,
            tarn_nrt_snapshot_sites(snapshot));
    *out = snapshot->sites[index];
    return TARN_OK;
}

/* --- printing ----------------------------------------------------------------------- */

static void print_site(const tarn_nrt_site *site, const char *sign, FILE *out)
{
    char place[256];

    fprintf(out,
            *sign ? "%+10" PRId64 " bytes %+8" PRId64 " blocks  "
                  : "%10" PRId64 " bytes %8" PRId64 " blocks  ",
            site->bytes, site->blocks);
    if (!site->address && !site->label)
        fprintf(out, "allocated while call sites were not recorded\n");
    else if (site->label)
        fprintf(out, "%s  (%s)\n", site->label,
                tarn_nrt_describe(site->address, place, sizeof place));
    else
        fprintf(out, "%s\n", tarn_nrt_describe(site->address, place, sizeof place));
}

void tarn_nrt_snapshot_print(const tarn_nrt_snapshot *snapshot, FILE *out)
{
    const char *sign = snapshot->is_difference ? "+" : "";
    int64_t bytes = 0, blocks = 0;

    for (size_t i = 0; i < snapshot->count; i++) {
        bytes += snapshot->sites[i].bytes;
        blocks += snapshot->sites[i].blocks;
    }
    fprintf(out,
            *sign ? "runtime %s: %+" PRId64 " bytes in %+" PRId64
                    " blocks more, from %zu sites\n"
                  : "runtime %s: %" PRId64 " bytes in %" PRId64
                    " live blocks, from %zu sites\n",
            snapshot->name, bytes, blocks, snapshot->count);
    for (size_t i = 0; i < snapshot->count; i++)
        print_site(&snapshot->sites[i], sign, out);
}

/* At exit: every instance with the report mode and live memory. */
static void report(void)
{
    for (unsigned i = 0; i < TARN__RUNTIMES; i++) {
        tarn_runtime *runtime = tarn__registry_at(i);
        tarn_nrt_snapshot *snapshot;
        if (!runtime || !(atomic_load(&runtime->modes) & TARN_NRT_EXIT_REPORT) ||
            tarn_nrt_snapshot_take(runtime, &snapshot) != TARN_OK)
            continue;
        fprintf(stderr, "tarn: nrt: at exit ");
        tarn_nrt_snapshot_print(snapshot, stderr);
        tarn_nrt_snapshot_release(snapshot);
    }
}

static void register_report(void)
{
    atexit(report);
}

void tarn__snapshot_report_at_exit(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, register_report);
}
