/* site_usage.c -- the live and peak bytes of each place of the program.
 *
 * A place's share of the overall peak would need a copy of all places at every new peak.
 * Instead each place records its own figure when it changes for the first time after a
 * peak. Until then the figure is still that of the peak.
 */
#define _GNU_SOURCE
#include "trace/site_usage.h"
#include "base/hash.h"
#include <stdlib.h>
#include <string.h>

/* A bound for the memory that a log from a stranger can make us allocate. */
enum { SITES_MAX = 65536 };
static const size_t TEXT_BYTES_MAX = 64 * 1024 * 1024;

void tarn__site_usage_init(struct tarn__site_usage_table *sites)
{
    memset(sites, 0, sizeof *sites);
    tarn__map_init(&sites->by_hash, sizeof(uint32_t));
}

void tarn__site_usage_free(struct tarn__site_usage_table *sites)
{
    for (uint32_t i = 0; i < sites->count; i++)
        free(sites->items[i].location);
    free(sites->items);
    tarn__map_free(&sites->by_hash);
    tarn__site_usage_init(sites);
}

/* Never 0, which the map uses itself. */
static uint64_t hash_of(const char *text)
{
    uint64_t hash = tarn__hash_bytes(text, strlen(text));

    return hash ? hash : 1;
}

static bool reserve(struct tarn__site_usage_table *sites)
{
    if (sites->count < sites->capacity)
        return true;
    uint32_t capacity = sites->capacity ? sites->capacity * 2 : 16;
    struct tarn__site_usage *items = realloc(sites->items, capacity * sizeof *items);
    if (!items)
        return false;
    sites->items = items;
    sites->capacity = capacity;
    return true;
}

/* A new place under `hash`, which is not in the map. */
static bool add(struct tarn__site_usage_table *sites, uint64_t hash, const char *location,
                uint32_t *out)
{
    char *copy = strdup(location);

    if (!copy || !reserve(sites) ||
        !tarn__map_put(&sites->by_hash, hash, &sites->count)) {
        free(copy);
        return false;
    }
    sites->items[sites->count] = (struct tarn__site_usage){.location = copy};
    sites->text_bytes += strlen(location) + 1;
    *out = sites->count++;
    return true;
}

bool tarn__site_usage_index(struct tarn__site_usage_table *sites, const char *location,
                            uint32_t *out)
{
    static const char others[] = "<other>";
    const char *text = location ? location : "";
    uint64_t hash = hash_of(text);
    const uint32_t *index;

    /* Different texts with one hash use the next free hash. */
    while ((index = tarn__map_get(&sites->by_hash, hash)) != NULL) {
        if (strcmp(sites->items[*index].location, text) == 0) {
            *out = *index;
            return true;
        }
        hash = hash + 1 ? hash + 1 : 1;
    }
    bool full = sites->count >= SITES_MAX || sites->text_bytes >= TEXT_BYTES_MAX;
    if (full && strcmp(text, others) != 0)
        return tarn__site_usage_index(sites, others, out);
    return add(sites, hash, text, out);
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
