/* sites.c -- the sites of a log: what each allocates, how long its blocks live, when. */
#include "sites.h"
#include "memory.h"
#include <math.h>
#include <stdlib.h>

static const uint64_t HALF_NS = 500000000;

uint32_t sites_add(struct sites *sites, uint32_t frame, uint32_t framework)
{
    uint32_t number = map_get(&sites->by_frame, frame);

    if (number != MAP_NONE)
        return number;
    sites->items = memory_grow(sites->items, &sites->capacity, sites->count + 1,
                               sizeof *sites->items);
    struct site *site = memory_new(1, sizeof *site);
    site->frame = frame;
    site->framework = framework;
    sites->items[sites->count] = site;
    map_put(&sites->by_frame, frame, (uint32_t)sites->count);
    return (uint32_t)sites->count++;
}

/* --- windows ------------------------------------------------------------------------ */

static void merge_windows(struct site *site)
{
    unsigned last = site->window;

    for (unsigned i = 0; i <= last; i += 2) {
        uint64_t max = site->max[i], min = site->min[i];
        if (i < last) {
            max = site->max[i + 1] > max ? site->max[i + 1] : max;
            min = site->min[i + 1] < min ? site->min[i + 1] : min;
        }
        site->max[i / 2] = max;
        site->min[i / 2] = min;
    }
    site->window = last / 2;
    site->doublings++;
}

/* Bring the windows up to `window`; the value has not changed since the last change. */
static void advance(struct site *site, const struct columns *columns, unsigned window)
{
    while (site->doublings < columns->doublings)
        merge_windows(site);
    while (site->window < window) {
        site->window++;
        site->max[site->window] = site->min[site->window] = site->now;
    }
}

static unsigned window_now(const struct columns *columns)
{
    return (unsigned)(columns->count / SITES_WINDOW_COLUMNS);
}

/* Change the live bytes, and the windows with them. */
static void set_now(struct site *site, const struct columns *columns, uint64_t now)
{
    if (columns->is_begun)
        advance(site, columns, window_now(columns));
    site->now = now;
    if (now > site->max[site->window])
        site->max[site->window] = now;
    if (now < site->min[site->window])
        site->min[site->window] = now;
}

void sites_start(struct sites *sites)
{
    for (size_t i = 0; i < sites->count; i++)
        sites->items[i]->max[0] = sites->items[i]->min[0] = sites->items[i]->now;
}

unsigned sites_windows(const struct columns *columns)
{
    return (unsigned)((columns->count + SITES_WINDOW_COLUMNS - 1) / SITES_WINDOW_COLUMNS);
}

void sites_finish(struct site *site, const struct columns *columns)
{
    unsigned windows = sites_windows(columns);

    if (windows > 0)
        advance(site, columns, windows - 1);
}

/* --- rows --------------------------------------------------------------------------- */

/* HyperLogLog: a register has the most leading zeros of the hashes that chose it. */
static void note_address(struct site *site, uint64_t address)
{
    uint64_t hash = map_hash(address);
    uint64_t rest = hash >> 6 | 1;
    uint8_t rank = (uint8_t)(__builtin_clzll(rest) - 6 + 1);
    uint8_t *at = &site->registers[hash % SITES_REGISTERS];

    if (rank > *at)
        *at = rank;
}

uint64_t sites_addresses(const struct site *site)
{
    double sum = 0, zeros = 0;

    for (int i = 0; i < SITES_REGISTERS; i++) {
        sum += ldexp(1, -site->registers[i]);
        zeros += site->registers[i] == 0;
    }
    double estimate = 0.709 * SITES_REGISTERS * SITES_REGISTERS / sum;
    if (estimate <= 2.5 * SITES_REGISTERS && zeros > 0)
        estimate = SITES_REGISTERS * log(SITES_REGISTERS / zeros);
    if (estimate > (double)site->allocations)
        return site->allocations;
    return estimate < 1 ? site->allocations > 0 : (uint64_t)(estimate + 0.5);
}

/* Count the allocation for every second that begins at a half second. */
static void note_rate(struct site *site, uint64_t time_ns)
{
    uint64_t half = time_ns / HALF_NS;

    if (half != site->half) {
        site->in_last_half = half == site->half + 1 ? site->in_half : 0;
        site->in_half = 0;
        site->half = half;
    }
    site->in_half++;
    if (site->in_half + site->in_last_half > site->most_in_second)
        site->most_in_second = site->in_half + site->in_last_half;
}

/* Boyer and Moore's vote: a size that more than half of the blocks have, remains. */
static void note_size(struct site *site, uint64_t bytes)
{
    if (site->usual_votes == 0)
        site->usual_bytes = bytes;
    site->usual_votes += site->usual_bytes == bytes ? 1 : (uint64_t)-1;
}

void sites_begin(struct site *site, const struct columns *columns,
                 const struct site_event *event)
{
    set_now(site, columns, site->now + event->bytes);
    site->blocks++;
    if (!columns->is_begun)
        return;
    site->allocations++;
    site->total =
        event->bytes > UINT64_MAX - site->total ? UINT64_MAX : site->total + event->bytes;
    if (event->bytes > site->largest)
        site->largest = event->bytes;
    site->busy_ns += event->duration_ns;
    note_address(site, event->address);
    note_rate(site, columns->now_ns - columns->start_ns);
    note_size(site, event->bytes);
}

void sites_end(struct site *site, const struct columns *columns,
               const struct site_event *event)
{
    set_now(site, columns, site->now - event->bytes);
    site->blocks--;
    if (!columns->is_begun)
        return;
    site->frees++;
    site->freed += event->bytes;
    site->busy_ns += event->duration_ns;
    site->unordered_frees += event->is_unordered;
    if (event->is_held)
        return;
    histogram_add(&site->lifetimes, event->lifetime_ns, 1);
    if (event->is_collected) {
        site->gc_freed += event->bytes;
        histogram_add(&site->collected, event->lifetime_ns, 1);
    }
}

void sites_collected_at_peak(struct site *site, uint64_t peak_clock, uint64_t bytes)
{
    if (site->gc_peak_clock != peak_clock)
        site->gc_at_peak = 0;
    site->gc_peak_clock = peak_clock;
    site->gc_at_peak += bytes;
}

void sites_free(struct sites *sites)
{
    for (size_t i = 0; i < sites->count; i++) {
        histogram_free(&sites->items[i]->lifetimes);
        histogram_free(&sites->items[i]->collected);
        free(sites->items[i]);
    }
    free(sites->items);
    map_free(&sites->by_frame);
}
