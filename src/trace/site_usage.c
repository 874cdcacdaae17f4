/* site_usage.c -- the live and peak bytes of each place of the program.
 *
 * A place's share of the overall peak would need a copy of all places at every new peak.
 * Instead each place records its own figure when it changes for the first time after a
 * peak. Until then the figure is still that of the peak.
 */
#include "trace/site_usage.h"
#include <stdlib.h>
#include <string.h>

/* A bound for the memory that a log from a stranger can make us allocate. */
enum { SITES_MAX = 65536 };
static const size_t TEXT_BYTES_MAX = 64 * 1024 * 1024;

void tarn__site_usage_init(struct tarn__site_usage_table *sites)
{
    memset(sites, 0, sizeof *sites);
    tarn__intern_init(&sites->locations);
}

void tarn__site_usage_free(struct tarn__site_usage_table *sites)
{
    free(sites->items);
    tarn__intern_free(&sites->locations);
    tarn__site_usage_init(sites);
}

/* Have an item, all zeros, for each location and for one more. */
static bool reserve(struct tarn__site_usage_table *sites)
{
    if (sites->locations.count < sites->capacity)
        return true;
    uint32_t capacity = sites->capacity ? sites->capacity * 2 : 16;
    struct tarn__site_usage *items = realloc(sites->items, capacity * sizeof *items);
    if (!items)
        return false;
    memset(items + sites->capacity, 0, (capacity - sites->capacity) * sizeof *items);
    sites->items = items;
    sites->capacity = capacity;
    return true;
}

bool tarn__site_usage_index(struct tarn__site_usage_table *sites, const char *location,
                            uint32_t *out)
{
    static const char others[] = "<other>";
    const char *text = location ? location : "";

    if (tarn__intern_find(&sites->locations, text, strlen(text), out))
        return true;
    if (sites->locations.count >= SITES_MAX || sites->locations.bytes >= TEXT_BYTES_MAX)
        text = others;
    return reserve(sites) && tarn__intern_add(&sites->locations, text, strlen(text), out);
}

const char *tarn__site_usage_location(const struct tarn__site_usage_table *sites,
                                      uint32_t index)
{
    return (const char *)sites->locations.items[index]->bytes;
}

static void note_peak(struct tarn__site_usage *site, uint64_t peak)
{
    if (site->peak == peak)
        return;
    site->peak_bytes = site->live_bytes;
    site->peak = peak;
}

void tarn__site_usage_allocated(struct tarn__site_usage *site, uint64_t bytes,
                                uint64_t peak)
{
    note_peak(site, peak);
    site->allocations++;
    site->live_blocks++;
    site->live_bytes += bytes;
    site->total_bytes =
        bytes > UINT64_MAX - site->total_bytes ? UINT64_MAX : site->total_bytes + bytes;
}

void tarn__site_usage_freed(struct tarn__site_usage *site, uint64_t bytes, uint64_t peak)
{
    note_peak(site, peak);
    site->live_blocks--;
    site->live_bytes -= bytes;
}

uint64_t tarn__site_usage_peak_bytes(const struct tarn__site_usage *site, uint64_t peak)
{
    return site->peak == peak ? site->peak_bytes : site->live_bytes;
}
