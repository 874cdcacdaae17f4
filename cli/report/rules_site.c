/* rules_site.c -- the rules about sites: growth, what exit frees, collection, spikes. */
#include "rules_site.h"
#include "memory.h"
#include "text.h"
#include <stdlib.h>
#include <string.h>

enum { WINDOWS = 16, STEPS = WINDOWS - 1, LEAST_STEPS = 12, LAST_STEPS = 3 };
enum { LINES = 3 };
static const uint64_t MIB = 1 << 20;

static uint64_t duration_of(const struct aggregate *aggregate)
{
    return aggregate->latest_ns > aggregate->first_ns
               ? aggregate->latest_ns - aggregate->first_ns
               : 1;
}

/* What counts as much: 1 % of the peak, and no less than 16 MiB. */
static uint64_t threshold(const struct aggregate *aggregate)
{
    uint64_t share = aggregate->peak_bytes / 100;

    return share > 16 * MIB ? share : 16 * MIB;
}

static double seconds(uint64_t ns)
{
    return (double)ns / 1e9;
}

/* --- F1: a site keeps more and more ------------------------------------------------- */

/* The minima of a site in 16 equal windows, up to the begin of exit. They begin after the
 * first fifth of the time. They begin later if the site does not grow at first, at half of
 * the time at the latest: a program may compile its kernels after its first array. */
struct growth {
    uint64_t minima[WINDOWS];
    double window_ns;
};

/* The windows of sites up to the end of the log, or to the begin of exit. */
static double windows_of(const struct aggregate *aggregate)
{
    const struct columns *columns = &aggregate->columns;
    double count = (double)columns->count;

    if (aggregate->has_exit) {
        double before = aggregate->exit_ns > columns->start_ns
                            ? (double)(aggregate->exit_ns - columns->start_ns)
                            : 0;
        if (before / (double)columns->width_ns < count)
            count = before / (double)columns->width_ns;
    }
    return count / SITES_WINDOW_COLUMNS;
}

/* The window in which the growth of a site may begin. */
static double start_of(const struct site *site, double windows)
{
    double first = windows / 5, last = windows / 2;
    uint64_t least = site->min[(unsigned)first];

    last = last > windows - WINDOWS ? windows - WINDOWS : last;
    while (first + 1 <= last && site->min[(unsigned)first + 1] <= least)
        first++;
    return first;
}

static bool measure_growth(const struct view *view, const struct site *site,
                           struct growth *growth)
{
    const struct columns *columns = &view->aggregate->columns;
    double windows = windows_of(view->aggregate);
    double first = start_of(site, windows), each = (windows - first) / WINDOWS;
    unsigned last = sites_windows(columns);

    growth->window_ns = each * SITES_WINDOW_COLUMNS * (double)columns->width_ns;
    if (each < 1)
        return false;
    for (int i = 0; i < WINDOWS; i++) {
        unsigned from = (unsigned)(first + i * each);
        unsigned end = (unsigned)(first + (i + 1) * each);
        growth->minima[i] = UINT64_MAX;
        for (unsigned k = from; k < end && k < last; k++)
            if (site->min[k] < growth->minima[i])
                growth->minima[i] = site->min[k];
    }
    return true;
}

static bool rises(const struct growth *growth)
{
    int steps = 0, last_steps = 0;

    for (int i = 0; i < STEPS; i++) {
        bool up = growth->minima[i + 1] > growth->minima[i];
        steps += up;
        last_steps += up && i >= STEPS - LAST_STEPS;
    }
    return steps >= LEAST_STEPS && last_steps == LAST_STEPS;
}

static int rising(const void *a, const void *b)
{
    double first = *(const double *)a, second = *(const double *)b;

    return (first > second) - (first < second);
}

/* Theil and Sen's slope, the median of the slopes of all pairs: bytes a window. */
static double slope_of(const struct growth *growth)
{
    double slopes[WINDOWS * STEPS / 2];
    int count = 0;

    for (int i = 0; i < WINDOWS; i++)
        for (int k = i + 1; k < WINDOWS; k++)
            slopes[count++] =
                ((double)growth->minima[k] - (double)growth->minima[i]) / (k - i);
    qsort(slopes, (size_t)count, sizeof *slopes, rising);
    return slopes[count / 2];
}

/* The share of the variance that a straight line explains. */
static double fit_of(const struct growth *growth)
{
    double sum_x = 0, sum_y = 0, xx = 0, yy = 0, xy = 0;

    for (int i = 0; i < WINDOWS; i++) {
        double y = (double)growth->minima[i];
        sum_x += i;
        sum_y += y;
        xx += (double)i * i;
        yy += y * y;
        xy += i * y;
    }
    double covariance = xy - sum_x * sum_y / WINDOWS;
    double spread = (xx - sum_x * sum_x / WINDOWS) * (yy - sum_y * sum_y / WINDOWS);
    return spread > 0 ? covariance * covariance / spread : 0;
}

static void note_oldest(const struct view *view, uint32_t site, struct finding *finding)
{
    const struct aggregate *aggregate = view->aggregate;
    const struct live *live = &aggregate->live;
    uint64_t oldest = UINT64_MAX;

    for (size_t i = 0; i < live->by_address.capacity; i++) {
        if (live->by_address.values[i] == 0)
            continue;
        const struct block *block = &live->blocks[live->by_address.values[i] - 1];
        if (block->site == site && block->time_ns < oldest)
            oldest = block->time_ns;
    }
    if (oldest < aggregate->latest_ns)
        finding_note(finding, "the oldest of its live blocks is %s old",
                     text_time(aggregate->latest_ns - oldest).text);
}

static void note_forecast(const struct aggregate *aggregate, const struct growth *growth,
                          double a_minute, struct finding *finding)
{
    double left = (double)aggregate->device_total - (double)aggregate->live_bytes;

    if (aggregate->device_total == 0 || left <= 0 || fit_of(growth) < 0.9)
        return;
    finding_note(finding, "at this rate the device's %s are full in %.3g minutes",
                 text_bytes(aggregate->device_total).text, left / a_minute);
}

static void find_growth(const struct view *view, uint32_t number,
                        struct findings *findings)
{
    const struct aggregate *aggregate = view->aggregate;
    const struct site *site = aggregate->sites.items[number];
    struct growth growth;

    if (!measure_growth(view, site, &growth) || !rises(&growth) ||
        growth.minima[STEPS] < growth.minima[0] + threshold(aggregate))
        return;
    if (site->lifetimes.weight > 0 &&
        growth.window_ns < 4 * (double)histogram_quantile(&site->lifetimes, 0.5))
        return; /* a window must see several generations of blocks */
    double a_minute = slope_of(&growth) * 60e9 / growth.window_ns;
    struct finding *finding = finding_begin(
        findings, "F1",
        "Something keeps the blocks of this line: a list or dictionary that is never "
        "emptied, a cache without a bound, or results that keep their history. Drop the "
        "references when a step is over.",
        growth.minima[STEPS] - growth.minima[0]);
    finding_at_site(finding, view, number);
    finding_say(finding, "%s grows by %s a minute", finding_place(view, number).text,
                text_bytes((uint64_t)(a_minute > 0 ? a_minute : 0)).text);
    finding_note(finding, "its least live bytes rose from %s to %s, in 16 windows of %s",
                 text_bytes(growth.minima[0]).text, text_bytes(growth.minima[STEPS]).text,
                 text_time((uint64_t)growth.window_ns).text);
    finding_note_callers(finding, view, &number, 1, false);
    if (site->blocks > 0)
        finding_note(finding, "when the log ends, %s%s of it live",
                     text_count(site->blocks).text,
                     site->blocks == 1 ? " block is" : " blocks are");
    note_forecast(aggregate, &growth, a_minute, finding);
    note_oldest(view, number, finding);
}

void rules_site_grows(const struct view *view, struct findings *findings)
{
    for (uint32_t i = 0; i < view->aggregate->sites.count; i++)
        find_growth(view, i, findings);
}

/* --- F2: only exit frees it --------------------------------------------------------- */

/* The sites of one function, those that hold most first. A log without functions has one
 * site in each. */
struct holders {
    const uint32_t *sites;
    size_t count;
    uint64_t bytes, blocks, oldest_ns, exit_freed, exit_collected;
};

static const struct view *sorted_view; /* of the comparison below; one thread */

static int compare_functions(uint32_t a, uint32_t b)
{
    const struct aggregate *aggregate = sorted_view->aggregate;
    uint32_t one = aggregate->sites.items[a]->frame;
    uint32_t other = aggregate->sites.items[b]->frame;
    const struct frame *first = &aggregate->stacks.frames[one];
    const struct frame *second = &aggregate->stacks.frames[other];

    if (first->file != second->file)
        return first->file < second->file ? -1 : 1;
    if (first->function != second->function)
        return first->function < second->function ? -1 : 1;
    return first->function == 0 ? (one > other) - (one < other) : 0;
}

static int by_function(const void *a, const void *b)
{
    uint32_t first = *(const uint32_t *)a, second = *(const uint32_t *)b;
    uint64_t one = sorted_view->site_held[first];
    uint64_t other = sorted_view->site_held[second];
    int order = compare_functions(first, second);

    if (order != 0)
        return order;
    if (one != other)
        return one < other ? 1 : -1;
    return (first > second) - (first < second);
}

static struct holders sum_holders(const struct view *view, const uint32_t *sites,
                                  size_t count)
{
    struct holders all = {.sites = sites, .count = count, .oldest_ns = UINT64_MAX};

    for (size_t i = 0; i < count; i++) {
        const struct site *site = view->aggregate->sites.items[sites[i]];
        uint64_t oldest = view->site_oldest_ns[sites[i]];
        all.bytes += view->site_held[sites[i]];
        all.blocks += view->site_held_blocks[sites[i]];
        all.oldest_ns = oldest < all.oldest_ns ? oldest : all.oldest_ns;
        all.exit_freed += site->exit_freed;
        all.exit_collected += site->exit_collected;
    }
    return all;
}

/* The place of a function: with its line, if it has one site. */
static struct finding_place place_of(const struct view *view, const struct holders *all)
{
    const struct trie *stacks = &view->aggregate->stacks;
    const struct frame *frame =
        &stacks->frames[view->aggregate->sites.items[all->sites[0]]->frame];
    struct finding_place place;

    if (all->count == 1)
        return finding_place(view, all->sites[0]);
    snprintf(place.text, sizeof place.text, "%.120s %.60s",
             trie_file(names_text(&stacks->names, frame->file)),
             names_text(&stacks->names, frame->function));
    return place;
}

static struct text count_blocks(uint64_t count)
{
    struct text text;

    snprintf(text.text, sizeof text.text, "%.24s block%s", text_count(count).text,
             count == 1 ? "" : "s");
    return text;
}

static void note_lines(const struct view *view, const struct holders *all,
                       struct finding *finding)
{
    const struct aggregate *aggregate = view->aggregate;
    uint64_t rest = all->bytes;

    for (size_t i = 0; all->count > 1 && i < all->count && i < LINES; i++) {
        uint32_t site = all->sites[i];
        const struct frame *frame =
            &aggregate->stacks.frames[aggregate->sites.items[site]->frame];
        finding_note(finding, "line %d: %s in %s", frame->line,
                     text_bytes(view->site_held[site]).text,
                     count_blocks(view->site_held_blocks[site]).text);
        rest -= view->site_held[site];
    }
    if (all->count > LINES)
        finding_note(finding, "%zu more line%s: %s", all->count - LINES,
                     all->count == LINES + 1 ? "" : "s", text_bytes(rest).text);
}

static void find_held(const struct view *view, const uint32_t *sites, size_t count,
                      struct findings *findings)
{
    const struct aggregate *aggregate = view->aggregate;
    struct holders all = sum_holders(view, sites, count);
    uint64_t nobody = all.bytes - all.exit_freed - all.exit_collected;
    bool is_open = aggregate->is_cut && !aggregate->has_exit;

    if (all.bytes < MIB || all.bytes < aggregate->peak_bytes / 1000)
        return;
    struct finding *finding = finding_begin(
        findings, "F2",
        is_open
            ? "The log ends while the program runs, so this may be in use. Log until "
              "the program's exit to know."
            : "A module variable, a cache or a reference cycle holds the blocks. That "
              "is right for data that the program needs to its end; put such a site "
              "on the allow-list.",
        all.bytes);
    finding->is_hint = is_open || all.bytes < threshold(aggregate);
    finding_at_site(finding, view, sites[0]);
    finding_say(finding, "%s of %s are %s", text_bytes(all.bytes).text,
                place_of(view, &all).text,
                is_open ? "live when the log ends" : "held until exit");
    finding_note(finding, "%s, the oldest is %s old", count_blocks(all.blocks).text,
                 text_time(aggregate->latest_ns - all.oldest_ns).text);
    note_lines(view, &all, finding);
    finding_note_callers(finding, view, sites, count, true);
    if (all.exit_freed)
        finding_note(finding, "the exit of the interpreter freed %s",
                     text_bytes(all.exit_freed).text);
    if (all.exit_collected)
        finding_note(finding, "a collection of cycles during exit freed %s",
                     text_bytes(all.exit_collected).text);
    if (nobody && !is_open)
        finding_note(finding, "nothing freed %s", text_bytes(nobody).text);
}

void rules_site_held(const struct view *view, struct findings *findings)
{
    size_t count = 0, end;
    uint32_t *sites = memory_new(view->aggregate->sites.count, sizeof *sites);

    for (uint32_t i = 0; i < view->aggregate->sites.count; i++)
        if (view->site_held_blocks[i] > 0)
            sites[count++] = i;
    sorted_view = view;
    if (count > 0)
        qsort(sites, count, sizeof *sites, by_function);
    for (size_t first = 0; first < count; first = end) {
        for (end = first + 1; end < count; end++)
            if (compare_functions(sites[first], sites[end]) != 0)
                break;
        find_held(view, sites + first, end - first, findings);
    }
    free(sites);
}

/* --- F3: the collector frees it --------------------------------------------- */

/* The median lifetime of the blocks that the collector did not free. */
static uint64_t other_median(const struct site *site)
{
    struct histogram others = {.count = 0};
    size_t k = 0;

    for (size_t i = 0; i < site->lifetimes.count; i++) {
        struct histogram_slot slot = site->lifetimes.slots[i];
        while (k < site->collected.count && site->collected.slots[k].number < slot.number)
            k++;
        if (k < site->collected.count && site->collected.slots[k].number == slot.number)
            slot.weight -= site->collected.slots[k].weight;
        histogram_add_slot(&others, slot);
    }
    uint64_t median = others.weight ? histogram_quantile(&others, 0.5) : 0;
    histogram_free(&others);
    return median;
}

static void find_collected(const struct view *view, uint32_t number,
                           struct findings *findings)
{
    const struct aggregate *aggregate = view->aggregate;
    const struct site *site = aggregate->sites.items[number];
    bool is_current = site->gc_peak_clock == aggregate->series.peak_clock;
    uint64_t at_peak = is_current ? site->gc_at_peak : 0;

    if (site->collected.weight < 20 || site->gc_freed < site->freed / 5 ||
        at_peak < threshold(aggregate))
        return;
    uint64_t median = histogram_quantile(&site->collected, 0.5);
    uint64_t other = other_median(site);
    if (median < 10 * other)
        return;
    struct finding *finding = finding_begin(
        findings, "F3",
        "The blocks are part of reference cycles. Break the cycle (weakref, or delete "
        "the "
        "attribute that closes it), or free the arrays before the cycle is dropped.",
        at_peak);
    finding_at_site(finding, view, number);
    finding_say(finding,
                "%s waits for Python's cycle collector, which has %s of it at the peak",
                finding_place(view, number).text, text_bytes(at_peak).text);
    finding_note(finding,
                 "the collector freed %s blocks, %s of the bytes that were freed",
                 text_count(site->collected.weight).text,
                 text_share((double)site->gc_freed / (double)site->freed).text);
    finding_note(finding, "half of them lived longer than about %s",
                 text_time(median).text);
    if (other)
        finding_note(finding, "half of the others lived at most %s",
                     text_time(other).text);
}

void rules_site_collected(const struct view *view, struct findings *findings)
{
    for (uint32_t i = 0; i < view->aggregate->sites.count; i++)
        find_collected(view, i, findings);
}

/* --- F4: a short peak --------------------------------------------------------------- */

/* Name the sites that grew most from two columns before the peak up to it. */
static void note_growers(const struct view *view, struct finding *finding)
{
    const struct aggregate *aggregate = view->aggregate;
    const struct columns *columns = &aggregate->columns;
    size_t peak = (size_t)((aggregate->peak_ns - columns->start_ns) / columns->width_ns);
    int64_t *grown = calloc(aggregate->sites.count + 1, sizeof *grown);

    if (!grown)
        return;
    for (size_t i = 0; i < aggregate->sites.count; i++)
        grown[i] = (int64_t)view->site_peak[i];
    const struct snapshot *before = peak >= 2 ? columns->items[peak - 2].values : NULL;
    for (uint32_t i = 0; before && i < before->count; i++)
        if (aggregate->series.items[before->series[i]].kind == SERIES_NODE)
            grown[aggregate->owner_sites[before->series[i]]] -= (int64_t)before->bytes[i];
    for (int round = 0; round < 3; round++) {
        size_t most = 0;
        for (size_t i = 1; i < aggregate->sites.count; i++)
            if (grown[i] > grown[most])
                most = i;
        if (grown[most] <= 0)
            break;
        if (round == 0)
            finding_at_site(finding, view, (uint32_t)most);
        finding_note(finding, "%s grew by %s in it",
                     finding_place(view, (uint32_t)most).text,
                     text_bytes((uint64_t)grown[most]).text);
        grown[most] = 0;
    }
    free(grown);
}

void rules_site_spike(const struct view *view, struct findings *findings)
{
    const struct aggregate *aggregate = view->aggregate;
    uint64_t duration = duration_of(aggregate), peak = aggregate->peak_bytes;
    uint64_t usual = histogram_quantile(&aggregate->levels, 0.95);
    uint64_t above = histogram_above(&aggregate->levels, usual + usual / 10);
    bool is_early = aggregate->peak_ns - aggregate->columns.start_ns < duration / 100;
    bool stays = aggregate->live_bytes > usual + usual / 10; /* it is no spike */
    bool is_near = aggregate->device_total && peak > aggregate->device_total / 10 * 8;

    if (peak < usual + usual / 2 || peak - usual < 64 * MIB || above >= duration / 100 ||
        stays || (is_early && !is_near))
        return;
    struct finding *finding = finding_begin(
        findings, "F4",
        "The peak decides how much memory the program needs. Look at the flame graph at "
        "the peak: free temporary arrays earlier, or do that step in parts.",
        peak - usual);
    finding->time_ns = aggregate->peak_ns;
    finding_say(finding, "a short peak needs %s more than the program needs otherwise",
                text_bytes(peak - usual).text);
    finding_note(finding, "the peak of %s is at %.3f s", text_bytes(peak).text,
                 seconds(aggregate->peak_ns - aggregate->columns.start_ns));
    finding_note(finding, "95 %% of the time at most %s are live",
                 text_bytes(usual).text);
    finding_note(finding, "%s in all are spent more than 10 %% above that",
                 text_time(above).text);
    note_growers(view, finding);
}

/* --- F6: a hot loop ----------------------------------------------------------------- */

static void note_costs(const struct aggregate *aggregate, struct finding *finding)
{
    const struct histogram *without = &aggregate->call_ns[0];
    const struct histogram *with = &aggregate->call_ns[1];

    if (without->weight < 100 || with->weight < 100)
        return;
    finding_note(finding,
                 "in this log half of the allocations take at most %s without a stream, "
                 "and at most %s with one",
                 text_time(histogram_quantile(without, 0.5)).text,
                 text_time(histogram_quantile(with, 0.5)).text);
}

static void find_hot(const struct view *view, uint32_t number, struct findings *findings)
{
    const struct aggregate *aggregate = view->aggregate;
    const struct site *site = aggregate->sites.items[number];
    double busy = (double)site->busy_ns / (double)duration_of(aggregate);

    if (site->most_in_second < 10000 ||
        (double)site->usual_votes < 0.8 * (double)site->allocations ||
        site->lifetimes.weight == 0 ||
        histogram_quantile(&site->lifetimes, 0.99) > 10000000)
        return;
    struct finding *finding = finding_begin(
        findings, "F6",
        "Allocate the block once and use it in each round. If that is not possible, "
        "register the stream and pass it to each call.",
        site->total);
    finding->is_hint = busy < 0.02;
    finding_at_site(finding, view, number);
    finding_say(finding, "%s allocates %s times a second",
                finding_place(view, number).text, text_count(site->most_in_second).text);
    finding_note(finding, "nearly all blocks have %s",
                 text_bytes(site->usual_bytes).text);
    finding_note(finding, "99 %% of them live at most %s",
                 text_time(histogram_quantile(&site->lifetimes, 0.99)).text);
    if (site->busy_ns)
        finding_note(finding, "its calls take %s of the time of the log",
                     text_share(busy).text);
    else
        finding_note(finding, "the log does not have the durations of its calls");
    note_costs(aggregate, finding);
}

void rules_site_hot(const struct view *view, struct findings *findings)
{
    for (uint32_t i = 0; i < view->aggregate->sites.count; i++)
        find_hot(view, i, findings);
}
