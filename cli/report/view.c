/* view.c -- what of an aggregate goes into the page: stacks, sites and snapshots. */
#include "view.h"
#include "bands.h"
#include "memory.h"
#include <stdlib.h>

static const double LEAST_SHARE = 0.0005; /* of a snapshot, for a box of its own */

/* --- which snapshots ---------------------------------------------------------------- */

/* Choose the largest column of each group of adjacent ones; the peak is one of them. */
static void choose_snapshots(struct view *view, size_t most)
{
    const struct columns *columns = &view->aggregate->columns;
    size_t groups = columns->count < most ? columns->count : most;

    view->snapshots = memory_new(groups, sizeof *view->snapshots);
    for (size_t group = 0; group < groups; group++) {
        size_t first = group * columns->count / groups;
        size_t end = (group + 1) * columns->count / groups, best = first;
        for (size_t i = first; i < end; i++)
            if (columns->items[i].max > columns->items[best].max)
                best = i;
        struct view_snapshot *snapshot = &view->snapshots[view->snapshot_count++];
        snapshot->column = best;
        snapshot->time_ns =
            columns->start_ns + best * columns->width_ns + columns->items[best].max_ns;
    }
}

/* --- which stacks ------------------------------------------------------------------- */

static double share(uint64_t part, uint64_t whole)
{
    return whole ? (double)part / (double)whole : 0;
}

/* The largest share of each series of a stack in what the page shows. */
static double *shares_of(const struct view *view)
{
    const struct aggregate *aggregate = view->aggregate;
    const struct series_set *set = &aggregate->series;
    double *shares = memory_new(set->count, sizeof *shares);

    for (size_t i = 0; i < set->count; i++) {
        const struct series *series = &set->items[i];
        double held = share(series->held, aggregate->held_bytes);
        double total = share(series->total, aggregate->total_bytes);
        shares[i] = share(series_at_peak(set, series), aggregate->peak_bytes);
        shares[i] = held > shares[i] ? held : shares[i];
        shares[i] = total > shares[i] ? total : shares[i];
    }
    for (size_t i = 0; i < view->snapshot_count; i++) {
        const struct column *column =
            &aggregate->columns.items[view->snapshots[i].column];
        for (uint32_t k = 0; k < column->values->count; k++) {
            double now = share(column->values->bytes[k], column->max);
            double *most = &shares[column->values->series[k]];
            *most = now > *most ? now : *most;
        }
    }
    return shares;
}

static int falling(const void *a, const void *b)
{
    double first = *(const double *)a, second = *(const double *)b;

    return (first < second) - (first > second);
}

/* The share from which on a stack has a box: LEAST_SHARE, or less if few stacks are. */
static double least_share(const struct view *view, const double *shares)
{
    const struct series_set *set = &view->aggregate->series;
    double *sorted = memory_new(set->count, sizeof *sorted), least = 0;
    size_t count = 0;

    for (size_t i = 0; i < set->count; i++)
        if (set->items[i].kind == SERIES_NODE)
            sorted[count++] = shares[i];
    if (count > VIEW_OWNERS) {
        qsort(sorted, count, sizeof *sorted, falling);
        least =
            sorted[VIEW_OWNERS - 1] < LEAST_SHARE ? sorted[VIEW_OWNERS - 1] : LEAST_SHARE;
    }
    free(sorted);
    return least;
}

static uint32_t add_node(struct view *view, uint32_t parent, uint32_t frame,
                         uint32_t smaller)
{
    view->nodes = memory_grow(view->nodes, &view->node_capacity, view->node_count + 1,
                              sizeof *view->nodes);
    view->nodes[view->node_count] = (struct view_node){parent, frame, smaller};
    return (uint32_t)view->node_count++;
}

uint32_t view_node_of(const struct view *view, uint32_t node)
{
    while (view->node_of[node] == 0)
        node = view->aggregate->stacks.nodes[node].parent;
    return view->node_of[node] - 1;
}

/* Show a node and its ancestors. */
static void show_node(struct view *view, uint32_t node)
{
    for (; node != 0 && view->node_of[node] == 0;
         node = view->aggregate->stacks.nodes[node].parent)
        view->node_of[node] = 1;
}

/* Number the shown nodes, with those of failures: parents have smaller numbers than their children. */
static void number_nodes(struct view *view, const double *shares, double least)
{
    const struct aggregate *aggregate = view->aggregate;
    const struct trie *stacks = &aggregate->stacks;

    view->node_of = memory_new(stacks->node_count, sizeof *view->node_of);
    for (size_t i = 0; i < aggregate->series.count; i++) {
        const struct series *series = &aggregate->series.items[i];
        if (series->kind == SERIES_NODE && shares[i] >= least)
            show_node(view, series->of);
    }
    for (size_t i = 0; i < pools_failures(&aggregate->pools); i++)
        show_node(view, pools_failure(&aggregate->pools, i)->node);
    view->node_of[0] = add_node(view, 0, 0, 0) + 1;
    for (uint32_t i = 1; i < stacks->node_count; i++)
        if (view->node_of[i] != 0)
            view->node_of[i] = add_node(view, view->node_of[stacks->nodes[i].parent] - 1,
                                        stacks->nodes[i].frame, 0) +
                               1;
}

/* Find the node in which the bytes of each series count. */
static void find_entries(struct view *view, const double *shares, double least)
{
    const struct series_set *set = &view->aggregate->series;
    size_t shown = view->node_count;
    uint32_t *smaller = memory_new(shown, sizeof *smaller); /* node + 1 */

    view->entry_of = memory_new(set->count, sizeof *view->entry_of);
    for (size_t i = 0; i < set->count; i++) {
        if (set->items[i].kind != SERIES_NODE)
            continue;
        uint32_t node = view_node_of(view, set->items[i].of);
        if (shares[i] < least) {
            if (smaller[node] == 0)
                smaller[node] = add_node(view, node, 0, 0) + 1;
            node = smaller[node] - 1;
            view->nodes[node].smaller++;
        }
        view->entry_of[i] = node;
    }
    free(smaller);
}

/* --- lists -------------------------------------------------------------------------- */

/* Sums by node; `touched` lists the nodes of the present list. */
struct sums {
    uint64_t *bytes, *blocks;
};

static void add_to(struct sums *sums, uint32_t node, uint64_t bytes, uint64_t blocks)
{
    sums->bytes[node] += bytes;
    sums->blocks[node] += blocks;
}

/* Turn the sums into a list, and clear them. */
static struct view_list list_of(const struct view *view, struct sums *sums)
{
    struct view_list list = {NULL, 0};
    size_t capacity = 0;

    for (uint32_t i = 0; i < view->node_count; i++) {
        if (sums->bytes[i] == 0 && sums->blocks[i] == 0)
            continue;
        list.items =
            memory_grow(list.items, &capacity, list.count + 1, sizeof *list.items);
        list.items[list.count++] =
            (struct view_entry){i, sums->bytes[i], sums->blocks[i]};
        sums->bytes[i] = sums->blocks[i] = 0;
    }
    return list;
}

static void make_lists(struct view *view)
{
    const struct aggregate *aggregate = view->aggregate;
    const struct series_set *set = &aggregate->series;
    struct sums sums = {memory_new(view->node_count, sizeof *sums.bytes),
                        memory_new(view->node_count, sizeof *sums.blocks)};
    struct view_list *lists[] = {&view->peak, &view->held, &view->total};

    for (int which = 0; which < 3; which++) {
        for (size_t i = 0; i < set->count; i++) {
            const struct series *series = &set->items[i];
            uint64_t bytes[] = {series_at_peak(set, series), series->held, series->total};
            uint64_t blocks[] = {series_blocks_at_peak(set, series), series->held_blocks,
                                 series->allocations};
            if (series->kind == SERIES_NODE)
                add_to(&sums, view->entry_of[i], bytes[which], blocks[which]);
        }
        *lists[which] = list_of(view, &sums);
    }
    for (size_t i = 0; i < view->snapshot_count; i++) {
        struct view_snapshot *shown = &view->snapshots[i];
        const struct snapshot *values = aggregate->columns.items[shown->column].values;
        for (uint32_t k = 0; k < values->count; k++)
            if (set->items[values->series[k]].kind == SERIES_NODE)
                add_to(&sums, view->entry_of[values->series[k]], values->bytes[k], 0);
        shown->list = list_of(view, &sums);
    }
    free(sums.bytes);
    free(sums.blocks);
}

/* --- sites -------------------------------------------------------------------------- */

static void sum_up_sites(struct view *view)
{
    const struct aggregate *aggregate = view->aggregate;
    size_t count = aggregate->sites.count;

    view->site_peak = memory_new(count, sizeof *view->site_peak);
    view->site_held = memory_new(count, sizeof *view->site_held);
    view->site_held_blocks = memory_new(count, sizeof *view->site_held_blocks);
    view->site_oldest_ns = memory_new(count, sizeof *view->site_oldest_ns);
    for (uint32_t i = 0; i < aggregate->series.count; i++) {
        const struct series *series = &aggregate->series.items[i];
        if (series->kind != SERIES_NODE)
            continue;
        uint32_t site = aggregate->owner_sites[i];
        if (series->held_blocks > 0 &&
            (view->site_held_blocks[site] == 0 ||
             series->oldest_held_ns < view->site_oldest_ns[site]))
            view->site_oldest_ns[site] = series->oldest_held_ns;
        view->site_peak[site] += series_at_peak(&aggregate->series, series);
        view->site_held[site] += series->held;
        view->site_held_blocks[site] += series->held_blocks;
    }
}

static const struct view *sorted_view; /* of the comparison below; one thread */

static int larger_first(const void *a, const void *b)
{
    const struct view *view = sorted_view;
    uint32_t first = *(const uint32_t *)a, second = *(const uint32_t *)b;
    uint64_t one = view->site_peak[first], other = view->site_peak[second];

    if (one == other) {
        one = view->aggregate->sites.items[first]->total;
        other = view->aggregate->sites.items[second]->total;
    }
    if (one == other)
        return (first > second) - (first < second);
    return one < other ? 1 : -1;
}

static void choose_sites(struct view *view)
{
    size_t count = view->aggregate->sites.count;

    sum_up_sites(view);
    view->sites = memory_new(count, sizeof *view->sites);
    for (uint32_t i = 0; i < count; i++)
        view->sites[i] = i;
    sorted_view = view;
    qsort(view->sites, count, sizeof *view->sites, larger_first);
    view->site_count = count < VIEW_SITES ? count : VIEW_SITES;
}

/* --- the whole ---------------------------------------------------------------------- */

struct view *view_create(const struct aggregate *aggregate, size_t snapshots)
{
    struct view *view = memory_new(1, sizeof *view);

    view->aggregate = aggregate;
    choose_snapshots(view, snapshots);
    double *shares = shares_of(view);
    double least = least_share(view, shares);
    number_nodes(view, shares, least);
    find_entries(view, shares, least);
    free(shares);
    make_lists(view);
    choose_sites(view);
    bands_make(view);
    return view;
}

void view_free(struct view *view)
{
    for (size_t i = 0; i < view->snapshot_count; i++)
        free(view->snapshots[i].list.items);
    for (size_t i = 0; i < view->banding_count; i++)
        for (size_t k = 0; k < view->bandings[i].count; k++)
            free(view->bandings[i].bands[k].bytes);
    free(view->snapshots);
    free(view->nodes);
    free(view->node_of);
    free(view->entry_of);
    free(view->peak.items);
    free(view->held.items);
    free(view->total.items);
    free(view->sites);
    free(view->site_peak);
    free(view->site_held);
    free(view->site_held_blocks);
    free(view->site_oldest_ns);
    free(view);
}
