/* encode.c -- the data block of one log: its figures, stacks, columns and snapshots. */
#include "encode.h"
#include "encode_pictures.h"
#include "encode_pool.h"
#include "memory.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* --- META --------------------------------------------------------------------------- */

struct meta {
    struct bytes pairs;
    size_t count;
};

static void add_text(struct meta *meta, const char *key, const char *value)
{
    bytes_add_number(&meta->pairs, strlen(key));
    bytes_add(&meta->pairs, key, strlen(key));
    bytes_add_number(&meta->pairs, strlen(value));
    bytes_add(&meta->pairs, value, strlen(value));
    meta->count++;
}

static void add_figure(struct meta *meta, const char *key, uint64_t value)
{
    char text[24];

    snprintf(text, sizeof text, "%" PRIu64, value);
    add_text(meta, key, text);
}

static void add_process(struct meta *meta, const struct aggregate *aggregate)
{
    const struct names *names = &aggregate->stacks.names;

    if (!aggregate->has_process)
        return;
    add_text(meta, "command", names_text(names, aggregate->command));
    add_text(meta, "host", names_text(names, aggregate->host));
    add_text(meta, "tarn", names_text(names, aggregate->tarn));
    add_text(meta, "driver", names_text(names, aggregate->driver));
    add_text(meta, "gpu", names_text(names, aggregate->gpu));
    add_figure(meta, "pid", aggregate->pid);
    add_figure(meta, "parent_pid", aggregate->parent_pid);
    add_figure(meta, "start_unix_ns", aggregate->start_unix_ns);
}

static void add_figures(struct meta *meta, const struct aggregate *aggregate)
{
    add_figure(meta, "rows", aggregate->rows);
    add_figure(meta, "duration_ns", aggregate->latest_ns - aggregate->first_ns);
    add_figure(meta, "peak_bytes", aggregate->peak_bytes);
    add_figure(meta, "peak_ns", aggregate->peak_ns);
    if (aggregate->pools.has_rows)
        add_figure(meta, "reserved_peak_bytes", aggregate->pools.reserved_peak);
    if (aggregate->device_total)
        add_figure(meta, "device_total_bytes", aggregate->device_total);
    add_figure(meta, "end_bytes", aggregate->live_bytes);
    add_figure(meta, "held_bytes", aggregate->held_bytes);
    add_figure(meta, "total_bytes", aggregate->total_bytes);
    add_figure(meta, "allocations", aggregate->allocations);
    add_figure(meta, "frees", aggregate->frees);
    add_figure(meta, "failures", aggregate->failures);
    add_figure(meta, "torn", aggregate->torn);
    add_figure(meta, "lost", aggregate->lost);
    add_figure(meta, "moved", aggregate->moved);
    add_figure(meta, "unmatched_frees", aggregate->unmatched);
    add_figure(meta, "double_allocations", aggregate->doubled);
    add_figure(meta, "problems", aggregate->problems);
    add_figure(meta, "begin_ns", aggregate->begin_ns);
    add_figure(meta, "other_sites", aggregate->other_rows);
    add_figure(meta, "column_ns", aggregate->columns.width_ns);
}

static void add_meta(const struct view *view, const char *program,
                     struct data_block *block)
{
    static const char *const formats[] = {"NBEP 7", "RMM", "binary"};
    const struct aggregate *aggregate = view->aggregate;
    struct bytes *out = data_block_section(block, "META");
    struct meta meta = {.count = 0};

    add_text(&meta, "program", program);
    add_text(&meta, "format", formats[aggregate->format]);
    add_process(&meta, aggregate);
    add_figures(&meta, aggregate);
    add_figure(&meta, "is_cut", aggregate->is_cut);
    add_figure(&meta, "is_ring", aggregate->is_ring);
    add_figure(&meta, "has_stacks", aggregate->stack_depth > 1);
    add_figure(&meta, "has_streams", aggregate->has_stream);
    add_figure(&meta, "has_reserved", aggregate->pools.has_rows);
    add_figure(&meta, "has_maps", aggregate->pools.map_count > 0);
    bytes_add_number(out, meta.count);
    bytes_add(out, meta.pairs.data, meta.pairs.count);
    bytes_free(&meta.pairs);
}

/* --- FRAM and TRIE ------------------------------------------------------------------ */

/* The frames of the page, and their numbers there. */
struct shown_frames {
    uint32_t *number_of; /* frame of the stacks -> number + 1 */
    uint32_t *frames;
    size_t count;
};

static void show_frame(struct shown_frames *shown, uint32_t frame)
{
    if (shown->number_of[frame] != 0)
        return;
    shown->frames[shown->count++] = frame;
    shown->number_of[frame] = (uint32_t)shown->count;
}

static struct shown_frames choose_frames(const struct view *view)
{
    const struct aggregate *aggregate = view->aggregate;
    size_t most = aggregate->stacks.frame_count;
    struct shown_frames shown = {.number_of = memory_new(most, sizeof *shown.number_of),
                                 .frames = memory_new(most, sizeof *shown.frames)};

    for (size_t i = 1; i < view->node_count; i++)
        if (view->nodes[i].smaller == 0)
            show_frame(&shown, view->nodes[i].frame);
    for (size_t i = 0; i < view->site_count; i++) {
        uint32_t frame = aggregate->sites.items[view->sites[i]]->frame;
        if (frame != 0)
            show_frame(&shown, frame);
    }
    return shown;
}

static const struct names *sorted_names; /* of the comparison below; one thread */

static int by_text(const void *a, const void *b)
{
    return strcmp(names_text(sorted_names, *(const uint32_t *)a),
                  names_text(sorted_names, *(const uint32_t *)b));
}

/* Add the names of frames to the table of strings; sorted, neighbours share much. */
static void add_sorted_names(const struct view *view, const struct shown_frames *shown,
                             struct data_block *block)
{
    const struct trie *stacks = &view->aggregate->stacks;
    uint32_t *sorted = memory_new(2 * shown->count, sizeof *sorted);

    for (size_t i = 0; i < shown->count; i++) {
        sorted[2 * i] = stacks->frames[shown->frames[i]].function;
        sorted[2 * i + 1] = stacks->frames[shown->frames[i]].file;
    }
    sorted_names = &stacks->names;
    qsort(sorted, 2 * shown->count, sizeof *sorted, by_text);
    for (size_t i = 0; i < 2 * shown->count; i++)
        names_add(&block->strings, names_text(&stacks->names, sorted[i]));
    free(sorted);
}

/* The number of a site's frame; that behind the last for a site without a location. */
static uint64_t frame_number(const struct shown_frames *shown, uint32_t frame)
{
    return frame == 0 || shown->number_of[frame] == 0 ? shown->count
                                                      : shown->number_of[frame] - 1;
}

static void add_frames(const struct view *view, const struct shown_frames *shown,
                       struct data_block *block)
{
    const struct trie *stacks = &view->aggregate->stacks;
    struct bytes *out = data_block_section(block, "FRAM");

    bytes_add_number(out, shown->count);
    for (int field = 0; field < 5; field++)
        for (size_t i = 0; i < shown->count; i++) {
            const struct frame *frame = &stacks->frames[shown->frames[i]];
            const char *names[] = {names_text(&stacks->names, frame->function),
                                   names_text(&stacks->names, frame->file)};
            if (field < 2)
                data_block_string(block, out, names[field]);
            else if (field == 2)
                bytes_add_number(out, frame->line > 0 ? (uint64_t)frame->line : 0);
            else if (field == 3)
                bytes_add_number(out, frame->flags & 7);
            else
                data_block_string(block, out,
                                  names_text(&stacks->names, frame->framework));
        }
}

static void add_trie(const struct view *view, const struct shown_frames *shown,
                     struct data_block *block)
{
    struct bytes *out = data_block_section(block, "TRIE");

    bytes_add_number(out, view->node_count);
    for (size_t i = 1; i < view->node_count; i++)
        bytes_add_number(out, i - view->nodes[i].parent);
    for (size_t i = 1; i < view->node_count; i++) {
        if (view->nodes[i].smaller == 0) {
            bytes_add_number(out, shown->number_of[view->nodes[i].frame] - 1);
            continue;
        }
        bytes_add_number(out, shown->count);
        bytes_add_number(out, view->nodes[i].smaller);
    }
}

/* --- SITE --------------------------------------------------------------------------- */

/* The maximum of a site in the part `i` of 64 equal parts of the columns. */
static uint64_t part_max(const struct view *view, const struct site *site, size_t i)
{
    size_t columns = view->aggregate->columns.count;
    size_t from = i * columns / SITES_WINDOWS, end = (i + 1) * columns / SITES_WINDOWS;
    uint64_t max = 0;

    if (end > from)
        end--;
    for (size_t k = from / SITES_WINDOW_COLUMNS; k <= end / SITES_WINDOW_COLUMNS; k++)
        if (k < SITES_WINDOWS && site->max[k] > max)
            max = site->max[k];
    return max;
}

static uint64_t site_field(const struct view *view, uint32_t number, int field)
{
    const struct site *site = view->aggregate->sites.items[number];

    switch (field) {
    case 0:
        return view->site_peak[number];
    case 1:
        return site->now;
    case 2:
        return view->site_held[number];
    case 3:
        return site->total;
    case 4:
        return site->allocations;
    case 5:
        return site->frees;
    case 6:
        return site->largest;
    case 7:
        return sites_addresses(site);
    case 8:
        return histogram_quantile(&site->lifetimes, 0.5);
    case 9:
        return histogram_quantile(&site->lifetimes, 0.99);
    }
    return site->most_in_second;
}
enum { SITE_FIELDS = 11 };

static void add_sites(const struct view *view, const struct shown_frames *shown,
                      struct data_block *block)
{
    const struct aggregate *aggregate = view->aggregate;
    struct bytes *out = data_block_section(block, "SITE");

    bytes_add_number(out, view->site_count);
    for (size_t i = 0; i < view->site_count; i++)
        bytes_add_number(
            out, frame_number(shown, aggregate->sites.items[view->sites[i]]->frame));
    for (size_t i = 0; i < view->site_count; i++)
        data_block_string(block, out,
                          names_text(&aggregate->stacks.names,
                                     aggregate->sites.items[view->sites[i]]->framework));
    for (int field = 0; field < SITE_FIELDS; field++)
        for (size_t i = 0; i < view->site_count; i++)
            bytes_add_number(out, site_field(view, view->sites[i], field));
    for (size_t i = 0; i < view->site_count; i++)
        for (size_t k = 0; k < SITES_WINDOWS; k++)
            bytes_add_number(out,
                             part_max(view, aggregate->sites.items[view->sites[i]], k));
}

/* --- COLS and BAND ------------------------------------------------------------------ */

static uint64_t column_field(const struct column *column, int field)
{
    const uint64_t fields[] = {column->max,         column->max_ns, column->min,
                               column->allocations, column->frees,  column->reserved,
                               column->used};

    return fields[field];
}
enum { COLUMN_FIELDS = 7 };

static void add_columns(const struct columns *columns, struct data_block *block)
{
    struct bytes *out = data_block_section(block, "COLS");

    bytes_add_number(out, columns->count);
    bytes_add_number(out, columns->width_ns);
    bytes_add_number(out, columns->start_ns);
    for (int field = 0; field < COLUMN_FIELDS; field++)
        for (size_t i = 0; i < columns->count; i++)
            bytes_add_number(out, column_field(&columns->items[i], field));
}

static void add_bands(const struct view *view, const struct shown_frames *shown,
                      struct data_block *block)
{
    const struct aggregate *aggregate = view->aggregate;
    struct bytes *out = data_block_section(block, "BAND");

    bytes_add_number(out, view->banding_count);
    for (size_t i = 0; i < view->banding_count; i++) {
        const struct banding *banding = &view->bandings[i];
        bool of_sites = strcmp(banding->name, "site") == 0;
        data_block_string(block, out, banding->name);
        bytes_add_number(out, banding->count);
        for (size_t k = 0; k < banding->count; k++) {
            const struct band *band = &banding->bands[k];
            uint32_t frame = of_sites && band->kind == BAND_PLAIN
                                 ? aggregate->sites.items[band->group]->frame
                                 : 0;
            data_block_string(block, out, band->label);
            bytes_add_number(out, band->kind);
            bytes_add_number(out, band->colour);
            bytes_add_number(out, band->members);
            bytes_add_number(out, frame ? shown->number_of[frame] : 0);
            for (size_t c = 0; c < aggregate->columns.count; c++)
                bytes_add_change(out, c ? band->bytes[c - 1] : 0, band->bytes[c]);
        }
    }
}

/* --- SNAP, PEAK, EXIT, TOTL --------------------------------------------------------- */

/* The nodes whose bytes differ between two lists: the node and both values. */
static size_t differences(const struct view_list *before, const struct view_list *after,
                          struct view_entry *out)
{
    size_t i = 0, k = 0, count = 0;

    while (i < before->count || k < after->count) {
        uint32_t old = i < before->count ? before->items[i].node : UINT32_MAX;
        uint32_t new = k < after->count ? after->items[k].node : UINT32_MAX;
        uint32_t node = old < new ? old : new;
        uint64_t from = old == node ? before->items[i++].bytes : 0;
        uint64_t to = new == node ? after->items[k++].bytes : 0;
        if (from != to)
            out[count++] = (struct view_entry){node, from, to};
    }
    return count;
}

static void add_snapshots(const struct view *view, struct data_block *block)
{
    struct bytes *out = data_block_section(block, "SNAP");
    struct view_entry *changed = memory_new(2 * view->node_count, sizeof *changed);
    struct view_list none = {NULL, 0};

    bytes_add_number(out, view->snapshot_count);
    for (size_t i = 0; i < view->snapshot_count; i++) {
        const struct view_snapshot *snapshot = &view->snapshots[i];
        size_t count =
            differences(i ? &snapshot[-1].list : &none, &snapshot->list, changed);
        uint32_t last = 0;
        bytes_add_number(out, snapshot->column);
        bytes_add_number(out, snapshot->time_ns);
        bytes_add_number(out, count);
        for (size_t k = 0; k < count; k++) {
            bytes_add_number(out, changed[k].node - last);
            bytes_add_change(out, changed[k].bytes, changed[k].blocks);
            last = changed[k].node;
        }
    }
    free(changed);
}

static void add_list(const struct view_list *list, const char *tag,
                     struct data_block *block)
{
    struct bytes *out = data_block_section(block, tag);
    uint32_t last = 0;

    bytes_add_number(out, list->count);
    for (size_t i = 0; i < list->count; i++) {
        bytes_add_number(out, list->items[i].node - last);
        bytes_add_number(out, list->items[i].bytes);
        bytes_add_number(out, list->items[i].blocks);
        last = list->items[i].node;
    }
}

/* --- FIND --------------------------------------------------------------------------- */

void encode_findings(const struct findings *findings, struct data_block *block)
{
    struct bytes *out = data_block_section(block, "FIND");

    bytes_add_number(out, findings->count);
    for (size_t i = 0; i < findings->count; i++) {
        const struct finding *finding = &findings->items[i];
        data_block_string(block, out, finding->rule);
        bytes_add_number(out, finding->is_hint);
        data_block_string(block, out, finding->sentence);
        bytes_add_number(out, finding->evidence_count);
        for (size_t k = 0; k < finding->evidence_count; k++)
            data_block_string(block, out, finding->evidence[k]);
        data_block_string(block, out, finding->advice);
        bytes_add_number(out, finding->node == FINDING_NO_NODE ? 0 : finding->node + 1);
        bytes_add_number(out, finding->time_ns + 1); /* FINDING_NO_TIME becomes 0 */
        bytes_add_number(out, finding->bytes);
        data_block_string(block, out, finding->allow);
    }
}

void encode_view(const struct view *view, const char *program, struct data_block *block)
{
    struct shown_frames shown = choose_frames(view);

    add_sorted_names(view, &shown, block);
    add_meta(view, program, block);
    add_frames(view, &shown, block);
    add_trie(view, &shown, block);
    add_sites(view, &shown, block);
    add_columns(&view->aggregate->columns, block);
    add_bands(view, &shown, block);
    add_snapshots(view, block);
    add_list(&view->peak, "PEAK", block);
    add_list(&view->held, "EXIT", block);
    add_list(&view->total, "TOTL", block);
    encode_pool_sections(view, block);
    encode_pictures(view, block);
    free(shown.number_of);
    free(shown.frames);
}
