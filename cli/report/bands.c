/* bands.c -- the bands of the chart: the largest groups, and the sum of all others. */
#include "bands.h"
#include "memory.h"
#include <stdlib.h>
#include <string.h>

#define NO_GROUP UINT32_MAX
static const double LARGE_SHARE = 0.05; /* of the peak: a band beyond the usual number */

/* All groups of one grouping. */
struct groups {
    const struct view *view;
    uint32_t *of; /* series -> group, or NO_GROUP */
    size_t count;
    uint64_t *max, *sum; /* in any column; in the present one */
    double *area;
    uint32_t *touched; /* groups of the present column */
    size_t touched_count;
    uint32_t *order;
};

/* --- labels ------------------------------------------------------------------------- */

static void label_size(struct band *band)
{
    static const char units[] = " KMGTPE";
    unsigned unit = band->group / 10;

    snprintf(band->text, sizeof band->text, "%s%u %s", band->group ? "up to " : "",
             1u << band->group % 10, unit ? "" : "B");
    if (unit) {
        size_t length = strlen(band->text);
        snprintf(band->text + length, sizeof band->text - length, "%ciB", units[unit]);
    }
    band->label = band->text;
}

static void label_stream(const struct aggregate *aggregate, struct band *band)
{
    static const char *const defaults[] = {"default stream", "legacy default stream",
                                           "per-thread default stream"};
    uint64_t value = band->group < AGGREGATE_STREAMS
                         ? aggregate->stream_values[band->group]
                         : UINT64_MAX;

    band->label = band->text;
    if (band->group >= AGGREGATE_STREAMS)
        band->label = "further streams";
    else if (value == UINT64_MAX)
        band->label = "no stream";
    else if (value < 3)
        band->label = defaults[value];
    else
        snprintf(band->text, sizeof band->text, "stream 0x%llx",
                 (unsigned long long)value);
}

/* A hash that is the same in every log: FNV-1a. */
static uint32_t colour_hash(uint32_t hash, const char *text)
{
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * 16777619u;
    return hash;
}

static unsigned colour_of(const struct view *view, const char *grouping,
                          const struct band *band)
{
    const struct trie *stacks = &view->aggregate->stacks;
    uint32_t hash = 2166136261u;

    if (strcmp(grouping, "site") == 0) {
        uint32_t site = view->aggregate->sites.items[band->group]->frame;
        const struct frame *frame = &stacks->frames[site];
        hash = colour_hash(hash, trie_file(names_text(&stacks->names, frame->file)));
        hash = colour_hash(hash, names_text(&stacks->names, frame->function));
    } else {
        hash = colour_hash(hash, band->label);
    }
    return hash % VIEW_COLOURS;
}

static void label(const struct view *view, const char *grouping, struct band *band)
{
    const struct aggregate *aggregate = view->aggregate;

    band->label = "";
    if (strcmp(grouping, "size") == 0)
        label_size(band);
    else if (strcmp(grouping, "stream") == 0)
        label_stream(aggregate, band);
    else if (strcmp(grouping, "framework") == 0)
        band->label =
            band->group ? names_text(&aggregate->stacks.names, band->group) : "own code";
    else if (aggregate->sites.items[band->group]->frame == 0)
        band->kind = BAND_UNKNOWN;
}

/* --- which groups ------------------------------------------------------------------- */

/* Sum a column by groups. */
static void sum_column(struct groups *groups, const struct column *column)
{
    for (size_t i = 0; i < groups->touched_count; i++)
        groups->sum[groups->touched[i]] = 0;
    groups->touched_count = 0;
    for (uint32_t i = 0; i < column->values->count; i++) {
        uint32_t group = groups->of[column->values->series[i]];
        if (group == NO_GROUP)
            continue;
        if (groups->sum[group] == 0)
            groups->touched[groups->touched_count++] = group;
        groups->sum[group] += column->values->bytes[i];
    }
}

static void measure(struct groups *groups)
{
    const struct columns *columns = &groups->view->aggregate->columns;

    for (size_t i = 0; i < columns->count; i++) {
        sum_column(groups, &columns->items[i]);
        for (size_t k = 0; k < groups->touched_count; k++) {
            uint32_t group = groups->touched[k];
            uint64_t sum = groups->sum[group];
            groups->area[group] += (double)sum;
            groups->max[group] = sum > groups->max[group] ? sum : groups->max[group];
        }
    }
}

static const struct groups *sorted_groups; /* of the comparison below; one thread */

static int larger_first(const void *a, const void *b)
{
    const struct groups *groups = sorted_groups;
    uint32_t first = *(const uint32_t *)a, second = *(const uint32_t *)b;

    if (groups->max[first] != groups->max[second])
        return groups->max[first] < groups->max[second] ? 1 : -1;
    if (groups->area[first] != groups->area[second])
        return groups->area[first] < groups->area[second] ? 1 : -1;
    return (first > second) - (first < second);
}

/* The number of groups that get a band, the first of `order`. */
static size_t count_bands(const struct groups *groups)
{
    double least = LARGE_SHARE * (double)groups->view->aggregate->peak_bytes;
    size_t count = 0;

    while (count < groups->count && groups->max[groups->order[count]] > 0 &&
           (count < VIEW_BANDS || (count < VIEW_BANDS_MAX &&
                                   (double)groups->max[groups->order[count]] >= least)))
        count++;
    return count;
}

/* --- the bands ---------------------------------------------------------------------- */

static void fill(struct groups *groups, struct banding *banding)
{
    const struct columns *columns = &groups->view->aggregate->columns;
    struct band *other = &banding->bands[banding->count - 1];

    for (size_t i = 0; i < columns->count; i++) {
        uint64_t rest = columns->items[i].max;
        sum_column(groups, &columns->items[i]);
        for (struct band *band = banding->bands; band < other; band++) {
            band->bytes[i] = groups->sum[band->group];
            rest -= band->bytes[i];
        }
        other->bytes[i] = rest;
    }
}

static void measure_change(struct band *band, size_t columns)
{
    for (size_t i = 1; i < columns; i++) {
        double change = (double)band->bytes[i] - (double)band->bytes[i - 1];
        band->change += change < 0 ? -change : change;
    }
    band->change /= band->area > 0 ? band->area : 1;
}

static int calmer_first(const void *a, const void *b)
{
    const struct band *first = a, *second = b;

    if (first->change != second->change)
        return first->change > second->change ? 1 : -1;
    return first->max < second->max ? 1 : first->max > second->max ? -1 : 0;
}

/* Give each of the largest bands the colour of its name, or else one that is free. Its hue
 * is free too, if there is such a one. */
static void colour(const struct view *view, struct banding *banding)
{
    bool taken[VIEW_COLOURS] = {false}, hues[VIEW_HUES] = {false};

    for (size_t i = 0; i + 1 < banding->count; i++)
        banding->bands[i].colour = VIEW_COLOURS;
    for (size_t i = 0; i + 1 < banding->count && i < VIEW_COLOURS; i++) {
        struct band *band = &banding->bands[i];
        unsigned slot = colour_of(view, banding->name, band);
        while (i < VIEW_HUES ? hues[slot % VIEW_HUES] : taken[slot])
            slot = (slot + 1) % VIEW_COLOURS;
        taken[slot] = hues[slot % VIEW_HUES] = true;
        band->colour = slot;
    }
}

/* Give each band that has no colour yet one whose hue its neighbours do not have. */
static void colour_rest(const struct view *view, struct banding *banding)
{
    for (size_t i = 0; i + 1 < banding->count; i++) {
        struct band *band = &banding->bands[i];
        if (band->colour != VIEW_COLOURS)
            continue;
        unsigned slot = colour_of(view, banding->name, band);
        while ((i > 0 && band[-1].colour % VIEW_HUES == slot % VIEW_HUES) ||
               band[1].colour % VIEW_HUES == slot % VIEW_HUES)
            slot = (slot + 1) % VIEW_COLOURS;
        band->colour = slot;
    }
}

static void add_bands(struct view *view, struct groups *groups, const char *name)
{
    struct banding *banding = &view->bandings[view->banding_count++];
    size_t columns = view->aggregate->columns.count;

    banding->name = name;
    banding->count = count_bands(groups) + 1; /* and the other ones */
    for (size_t i = 0; i < banding->count; i++) {
        struct band *band = &banding->bands[i];
        band->bytes = memory_new(columns, sizeof *band->bytes);
        band->kind = BAND_OTHER;
        band->label = "other";
        if (i + 1 == banding->count)
            break;
        band->group = groups->order[i];
        band->kind = BAND_PLAIN;
        band->members = 1;
        band->max = groups->max[band->group];
        band->area = groups->area[band->group];
        label(view, name, band);
    }
    fill(groups, banding);
    colour(view, banding);
    struct band *other = &banding->bands[banding->count - 1];
    for (size_t i = banding->count - 1; i < groups->count; i++)
        other->members += groups->max[groups->order[i]] > 0;
    for (size_t i = 0; i + 1 < banding->count; i++)
        measure_change(&banding->bands[i], columns);
    /* A label may lie in its band, so it moves with it. */
    qsort(banding->bands, banding->count - 1, sizeof *banding->bands, calmer_first);
    for (size_t i = 0; i + 1 < banding->count; i++)
        label(view, name, &banding->bands[i]);
    colour_rest(view, banding);
}

static void group_by(struct view *view, struct groups *groups, const char *name)
{
    size_t count = groups->count;

    groups->view = view;
    groups->max = memory_new(count, sizeof *groups->max);
    groups->sum = memory_new(count, sizeof *groups->sum);
    groups->area = memory_new(count, sizeof *groups->area);
    groups->touched = memory_new(count, sizeof *groups->touched);
    groups->order = memory_new(count, sizeof *groups->order);
    for (uint32_t i = 0; i < count; i++)
        groups->order[i] = i;
    measure(groups);
    sorted_groups = groups;
    qsort(groups->order, count, sizeof *groups->order, larger_first);
    add_bands(view, groups, name);
    free(groups->max);
    free(groups->sum);
    free(groups->area);
    free(groups->touched);
    free(groups->order);
}

/* --- the four groupings ------------------------------------------------------------- */

static uint32_t group_of(const struct aggregate *aggregate, uint32_t number,
                         const char *name)
{
    const struct series *series = &aggregate->series.items[number];
    bool is_node = series->kind == SERIES_NODE;
    uint32_t framework = 0;

    if (strcmp(name, "site") == 0)
        return is_node ? aggregate->owner_sites[number] : NO_GROUP;
    if (strcmp(name, "framework") == 0) {
        if (is_node)
            trie_site_of(&aggregate->stacks, series->of, &framework);
        return is_node ? framework : NO_GROUP;
    }
    if (strcmp(name, "stream") == 0)
        return series->kind == SERIES_STREAM ? series->of : NO_GROUP;
    return series->kind == SERIES_SIZE ? series->of : NO_GROUP;
}

static bool has_frameworks(const struct aggregate *aggregate)
{
    for (size_t i = 0; i < aggregate->sites.count; i++)
        if (aggregate->sites.items[i]->framework != 0)
            return true;
    return false;
}

void bands_make(struct view *view)
{
    const struct aggregate *aggregate = view->aggregate;
    const struct {
        const char *name;
        bool is_there;
        size_t groups;
    } groupings[] = {
        {"site", true, aggregate->sites.count},
        {"framework", has_frameworks(aggregate), aggregate->stacks.names.count},
        {"stream", aggregate->has_stream, AGGREGATE_STREAMS + 1},
        {"size", true, AGGREGATE_SIZES},
    };
    struct groups groups = {0};

    if (aggregate->columns.count == 0)
        return;
    groups.of = memory_new(aggregate->series.count, sizeof *groups.of);
    for (int i = 0; i < 4; i++) {
        if (!groupings[i].is_there)
            continue;
        groups.count = groupings[i].groups;
        for (uint32_t k = 0; k < aggregate->series.count; k++)
            groups.of[k] = group_of(aggregate, k, groupings[i].name);
        group_by(view, &groups, groupings[i].name);
        groups.touched_count = 0;
    }
    free(groups.of);
}
