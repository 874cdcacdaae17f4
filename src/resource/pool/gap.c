/* gap.c -- compaction: where to place moved handles, so that few of them make a block.
 *
 * A move costs per handle, so a growth that has to move memory does best where the least
 * is missing. Earlier moves left unmapped ranges (holes) all over the address range, and
 * some free memory lies beside them. A block for the request can then be made in three
 * ways:
 *
 *     behind free memory      [free][ moved ]  hole  [live]
 *     before free memory      [live]  hole  [ moved ][free]
 *     between, filling it     [free][ moved ][free]
 *
 * The pool takes large handles first. Of one size it takes those in short pieces first,
 * so that long pieces stay whole.
 */
#include "resource/pool/idle.h"
#include <stdlib.h>
#include <string.h>

enum {
    HANDLES = 1024, /* the most handles considered */
    HOLES = 256,
    /* the most blocks on one side: what tarn__heap_join() finds */
    SIDE = TARN__RUN_MAX / 2 - 1,
    TRIES = 6 /* the most places that are tried in full */
};

enum rank { READY, OWN, OTHERS };

struct handle {
    struct tarn__span span;
    uint64_t piece; /* bytes of reclaimable handles that lie together with it */
    uint64_t sum;   /* of this handle and the ones before it in the list */
    unsigned part;  /* index in `all` */
    enum rank rank;
};

struct place {
    struct tarn__span low, high; /* the used part of the free memory on both sides */
    struct tarn__span hole;
    uint64_t least, most; /* bytes to be moved there */
    bool at_end;          /* it reaches the end of the hole */
    unsigned handles;     /* number of handles that this takes, if they fit */
};

struct look {
    const struct tarn__caller *caller;
    const struct tarn__request *request;
    struct tarn__idle all;
    struct handle handles[HANDLES]; /* the best first */
    unsigned count;
    unsigned holes;
    struct place places[TRIES]; /* the best first */
    unsigned tries;
    struct place nearest; /* where the fewest bytes are missing */
    uint64_t roomy_least; /* the fewest where any growth has enough addresses */
    unsigned chosen[TARN__IDLE_MAX], best[TARN__IDLE_MAX]; /* indices in `handles` */
};

/* --- handles --- */

static int compare(uint64_t one, uint64_t other)
{
    return one < other ? -1 : one > other;
}

static int by_worth(const void *one, const void *other)
{
    const struct handle *a = one, *b = other;

    if (a->rank != b->rank)
        return compare(a->rank, b->rank);
    if (a->span.bytes != b->span.bytes)
        return compare(b->span.bytes, a->span.bytes);
    if (a->piece != b->piece)
        return compare(a->piece, b->piece);
    return compare(a->span.address, b->span.address);
}

static enum rank rank_of(const struct look *look, const struct tarn__idle_part *part)
{
    if (!part->lane)
        return READY;
    return part->lane == look->caller->lane ? OWN : OTHERS;
}

static void list_part(struct look *look, unsigned which)
{
    const struct tarn__pages *pages = look->caller->pool->pages;
    const struct tarn__idle_part *part = &look->all.parts[which];
    uint64_t end = part->span.address + part->span.bytes;

    for (uint64_t at = part->span.address; at < end && look->count < HANDLES;) {
        struct handle *handle = &look->handles[look->count++];
        *handle = (struct handle){.span = tarn__pages_handle_at(pages, at),
                                  .piece = part->span.bytes,
                                  .part = which,
                                  .rank = rank_of(look, part)};
        at += handle->span.bytes;
    }
}

/* List the reclaimable handles in `all`. */
static void list_handles(struct look *look)
{
    uint64_t sum = 0;

    look->count = 0;
    for (unsigned i = 0; i < look->all.count; i++)
        list_part(look, i);
    qsort(look->handles, look->count, sizeof *look->handles, by_worth);
    for (unsigned i = 0; i < look->count; i++)
        look->handles[i].sum = sum += look->handles[i].span.bytes;
}

/* Return how many first handles have so many bytes together; 0: all have fewer. */
static unsigned how_many(const struct look *look, uint64_t bytes)
{
    unsigned low = 0, high = look->count;

    while (low < high) {
        unsigned middle = (low + high) / 2;
        if (look->handles[middle].sum < bytes)
            low = middle + 1;
        else
            high = middle;
    }
    return low < look->count ? low + 1 : 0;
}

/* --- places --- */

static bool is_better(const struct place *one, const struct place *other)
{
    return one->handles < other->handles ||
           (one->handles == other->handles && one->least < other->least);
}

static void note_least(struct look *look, const struct place *place)
{
    bool is_roomy =
        !place->at_end && place->most >= place->least + TARN__HANDLE_BYTES_MAX;

    if (place->least < look->nearest.least)
        look->nearest = *place;
    if (is_roomy && place->least < look->roomy_least)
        look->roomy_least = place->least;
}

static void note(struct look *look, struct place place)
{
    if (place.least == 0 || place.least > place.most)
        return;
    note_least(look, &place);
    place.handles = how_many(look, place.least);
    if (place.handles == 0 ||
        (look->tries == TRIES && !is_better(&place, &look->places[TRIES - 1])))
        return;
    unsigned i = look->tries < TRIES ? look->tries++ : TRIES - 1;
    for (; i > 0 && is_better(&place, &look->places[i - 1]); i--)
        look->places[i] = look->places[i - 1];
    look->places[i] = place;
}

static bool is_at_hand(const struct look *look, tarn__index index)
{
    return tarn__lane_may_have(look->caller->lane,
                               tarn__node(&look->caller->pool->heap.nodes, index));
}

static struct tarn__span free_before(const struct look *look, tarn__index hole)
{
    const struct tarn__nodes *nodes = &look->caller->pool->heap.nodes;
    struct tarn__span free = {tarn__node(nodes, hole)->address, 0};
    tarn__index index = tarn__node(nodes, hole)->before;

    for (int i = 0; i < SIDE && index && is_at_hand(look, index); i++) {
        free.address = tarn__node(nodes, index)->address;
        index = tarn__node(nodes, index)->before;
    }
    free.bytes = tarn__node(nodes, hole)->address - free.address;
    return free;
}

static struct tarn__span free_behind(const struct look *look, tarn__index hole)
{
    const struct tarn__nodes *nodes = &look->caller->pool->heap.nodes;
    struct tarn__span free = {tarn__node_end(tarn__node(nodes, hole)), 0};
    tarn__index index = tarn__node(nodes, hole)->after;

    for (int i = 0; i < SIDE && index && is_at_hand(look, index); i++) {
        free.bytes += tarn__node_bytes(tarn__node(nodes, index));
        index = tarn__node(nodes, index)->after;
    }
    return free;
}

static bool look_at_hole(void *data, tarn__index index)
{
    struct look *look = data;
    const struct tarn__node *node = tarn__node(&look->caller->pool->heap.nodes, index);
    uint64_t bytes = (uint64_t)look->request->granules << TARN__GRANULE_SHIFT;
    uint64_t mask = look->request->alignment - 1;
    struct place place = {.hole = {node->address, tarn__node_bytes(node)},
                          .low = free_before(look, index),
                          .most = tarn__node_bytes(node)};
    struct tarn__span high = free_behind(look, index);
    uint64_t hole_end = high.address, end = high.address + high.bytes;
    uint64_t first = (place.low.address + mask) & ~mask; /* where the block would begin */

    if (first + bytes > place.hole.address) {
        place.least = tarn__to_pages(first + bytes - place.hole.address);
        note(look, place);
    }
    if (high.bytes == 0)
        return ++look->holes < HOLES;
    place.high = high;
    if (first + bytes > hole_end && first + bytes <= end) {
        place.least = place.most;
        note(look, place);
    }
    first = (end - bytes) & ~mask;
    if (bytes < end && first < hole_end) {
        place.low.bytes = 0;
        place.least = tarn__to_pages(hole_end - first);
        place.at_end = true;
        note(look, place);
    }
    return ++look->holes < HOLES;
}

/* --- which handles go where --- */

/* Choose handles for a place, as far as they fit; returns their number. */
static unsigned fill(struct look *look, const struct place *place, uint64_t *bytes_out)
{
    uint64_t bytes = 0;
    unsigned count = 0;

    for (unsigned i = 0;
         i < look->count && bytes < place->least && count < TARN__IDLE_MAX; i++) {
        struct tarn__span handle = look->handles[i].span;
        if (bytes + handle.bytes > place->most ||
            tarn__span_has(place->low, handle.address) ||
            tarn__span_has(place->high, handle.address))
            continue;
        look->chosen[count++] = i;
        bytes += handle.bytes;
    }
    *bytes_out = bytes;
    return count;
}

static uint64_t start_at(const struct place *place, uint64_t bytes)
{
    return place->at_end ? place->hole.address + place->hole.bytes - bytes
                         : place->hole.address;
}

/* Choose the place that takes the fewest handles, into `best`; 0: there is none. */
static unsigned choose_place(struct look *look, struct tarn__gap *out)
{
    unsigned fewest = 0;

    for (unsigned i = 0; i < look->tries; i++) {
        const struct place *place = &look->places[i];
        uint64_t bytes;
        unsigned count = fill(look, place, &bytes);
        if (bytes < place->least || (fewest > 0 && count >= fewest))
            continue;
        fewest = count;
        memcpy(look->best, look->chosen, count * sizeof *look->best);
        *out = (struct tarn__gap){.at = start_at(place, bytes), .bytes = bytes};
    }
    return fewest;
}

/* Return the new bytes where `least` is missing: the step that the user specified, or
 * whole handles, where the place has enough addresses for them. */
static uint64_t fresh_at(const struct look *look, const struct place *place,
                         uint64_t moved, uint64_t least)
{
    const struct tarn__pool *pool = look->caller->pool;
    uint64_t handle = tarn__pages_handle(pool->pages, 0);
    uint64_t room = place->most - moved, most = tarn__allowance(pool);
    uint64_t whole = (least + handle - 1) / handle * handle;

    most = most < room ? most : room;
    if (least == 0 || least > most || place->at_end)
        return least;
    if (pool->options.growth_bytes > 0)
        return tarn__pages_step(pool->pages, least, most);
    return whole <= most ? whole : least;
}

/* Choose a place where too little memory is reclaimable for any place. If far less is
 * missing there than at the range's end, reclaimable memory moves as far as it fits,
 * and the rest is new. Returns the number of handles, in `best`; -1: there is no such
 * place. */
static int choose_nearest(struct look *look, struct tarn__gap *out)
{
    const struct place *place = &look->nearest;
    uint64_t bytes;

    if (place->least > look->roomy_least / 2)
        return -1;
    unsigned count = fill(look, place, &bytes);
    memcpy(look->best, look->chosen, count * sizeof *look->best);
    *out = (struct tarn__gap){.bytes = bytes};
    out->least = bytes < place->least ? place->least - bytes : 0;
    out->fresh = fresh_at(look, place, bytes, out->least);
    out->at = start_at(place, out->bytes + out->fresh);
    return out->least <= tarn__allowance(look->caller->pool) ? (int)count : -1;
}

/* --- the parts that move --- */

static int by_address(const void *one, const void *other)
{
    const struct tarn__idle_part *a = one, *b = other;

    return compare(a->span.address, b->span.address);
}

/* Sort completed memory first, and then large handles first. */
static int by_order(const void *one, const void *other)
{
    const struct tarn__idle_part *a = one, *b = other;
    uint64_t mean_a = tarn__idle_mean_handle(a), mean_b = tarn__idle_mean_handle(b);

    if ((a->lane == NULL) != (b->lane == NULL))
        return a->lane == NULL ? -1 : 1;
    return mean_a != mean_b ? compare(mean_b, mean_a) : by_address(one, other);
}

/* Merge adjacent handles of one block into one part. */
static void join_parts(struct tarn__idle *idle)
{
    unsigned kept = 0;

    if (idle->count == 0)
        return;
    qsort(idle->parts, idle->count, sizeof *idle->parts, by_address);
    for (unsigned i = 1; i < idle->count; i++) {
        struct tarn__idle_part *last = &idle->parts[kept], *part = &idle->parts[i];
        if (part->node == last->node &&
            last->span.address + last->span.bytes == part->span.address) {
            last->span.bytes += part->span.bytes;
            last->handles++;
        } else {
            idle->parts[++kept] = *part;
        }
    }
    idle->count = kept + 1;
    qsort(idle->parts, idle->count, sizeof *idle->parts, by_order);
}

static void fill_idle(const struct look *look, unsigned count, uint64_t bytes,
                      struct tarn__idle *out)
{
    *out = (struct tarn__idle){
        .pool = look->caller->pool, .count = count, .bytes = bytes, .wanted = bytes};
    for (unsigned i = 0; i < count; i++) {
        const struct handle *handle = &look->handles[look->best[i]];
        out->parts[i] = look->all.parts[handle->part];
        out->parts[i].span = handle->span;
        out->parts[i].handles = 1;
    }
    join_parts(out);
    while (out->ready < out->count && out->parts[out->ready].lane == NULL)
        out->ready++;
}

/* Find the best place for the handles of `all`. Returns how many go there; 0: there are
 * too few. */
static unsigned find_place(struct look *look, struct tarn__gap *out)
{
    const struct tarn__heap *heap = &look->caller->pool->heap;

    look->holes = look->tries = 0;
    look->nearest.least = look->roomy_least = UINT64_MAX;
    list_handles(look);
    tarn__bins_visit(&heap->holes, &heap->nodes, 1, look_at_hole, look);
    return choose_place(look, out);
}

/* Try completed memory alone, and then fenced memory as well. */
static int find(struct look *look, struct tarn__gap *out)
{
    struct tarn__idle *all = &look->all;

    tarn__idle_find(look->caller->pool, UINT64_MAX, (struct tarn__span){0, 0}, all);
    unsigned count = find_place(look, out);
    if (count > 0)
        return (int)count;
    tarn__idle_find_fenced(look->caller, all);
    if (all->count > all->ready)
        count = find_place(look, out);
    return count > 0 ? (int)count : choose_nearest(look, out);
}

bool tarn__gap_find(const struct tarn__caller *caller,
                    const struct tarn__request *request, struct tarn__idle *idle_out,
                    struct tarn__gap *out)
{
    struct look *look = malloc(sizeof *look);

    if (!look)
        return false;
    look->caller = caller;
    look->request = request;
    int count = find(look, out);
    if (count >= 0)
        fill_idle(look, (unsigned)count, out->bytes, idle_out);
    free(look);
    return count >= 0;
}
