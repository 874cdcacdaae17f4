/* view.h -- the part of an aggregate that the page shows: stacks, sites, bands,
 * snapshots.
 *
 * The page shows the stacks with the most bytes at the peak, in a shown snapshot, held
 * until exit, or in total. Any other stack counts for its nearest shown ancestor, as one
 * of "n smaller". So every sum stays that of the log.
 */
#ifndef TARN_CLI_REPORT_VIEW_H
#define TARN_CLI_REPORT_VIEW_H

#include "aggregate.h"

enum {
    VIEW_OWNERS = 4096, /* stacks with a box of their own, at least */
    VIEW_SITES = 4096,
    VIEW_SNAPSHOTS = 128,
    VIEW_BANDS = 12,
    VIEW_BANDS_MAX = 16,
    VIEW_COLOURS = 12,
    VIEW_HUES = 7 /* of paint.js: colour n has the hue n % 7 */
};

/* A node of the page's trie. */
struct view_node {
    uint32_t parent;
    uint32_t frame;   /* of the stacks; unused if `smaller` */
    uint32_t smaller; /* number of stacks in it, if it is "n smaller" */
};

/* Bytes of one node. */
struct view_entry {
    uint32_t node;
    uint64_t bytes, blocks;
};

struct view_list {
    struct view_entry *items; /* by node */
    size_t count;
};

struct view_snapshot {
    size_t column;
    uint64_t time_ns;
    struct view_list list;
};

enum band_kind { BAND_PLAIN, BAND_OTHER, BAND_UNKNOWN };

struct band {
    const char *label; /* "" for a band of a frame */
    char text[48];     /* of the label, unless it is a name of the log */
    enum band_kind kind;
    unsigned colour;
    size_t members;
    uint32_t group; /* site, name of a framework, number of a stream, or size class */
    uint64_t max;   /* in any column */
    double area, change;
    uint64_t *bytes; /* for each column */
};

struct banding {
    const char *name; /* site, framework, stream, size */
    struct band bands[VIEW_BANDS_MAX + 1];
    size_t count;
};

struct view {
    const struct aggregate *aggregate;
    struct view_node *nodes;
    size_t node_count, node_capacity;
    uint32_t *node_of;  /* node of the stacks -> node of the page + 1; 0: none */
    uint32_t *entry_of; /* series -> node of the page in which its bytes count */
    struct view_list peak, held, total;
    struct view_snapshot *snapshots;
    size_t snapshot_count;
    struct banding bandings[4];
    size_t banding_count;
    uint32_t *sites; /* shown, the largest first */
    size_t site_count;
    uint64_t *site_peak, *site_held; /* of all sites of the aggregate */
    uint64_t *site_held_blocks, *site_oldest_ns;
};

struct view *view_create(const struct aggregate *aggregate, size_t snapshots);
void view_free(struct view *view);
/* Return the node of the page for a node of the stacks, or its nearest shown ancestor. */
uint32_t view_node_of(const struct view *view, uint32_t node);

#endif
