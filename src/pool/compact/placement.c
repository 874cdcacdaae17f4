/* placement.c -- compaction: where to place moved handles, so that few of them make a
 * block.
 *
 * A move costs per handle, so a growth that has to move memory does best where the least
 * is missing. Earlier moves left unmapped ranges all over the address range, and some
 * free memory lies beside them. A block for the request can then be made in three ways:
 *
 *     behind free memory      [free][ moved ]  unmapped  [live]
 *     before free memory      [live]  unmapped  [ moved ][free]
 *     between, filling it     [free][ moved ][free]
 *
 * The pool takes large handles first, but those at addresses of a followed plan last. Of
 * one size it takes those in short pieces first, so that long pieces stay whole.
 */
#include "pool/compact/placement.h"
#include "pool/blocks/runs.h"
#include "pool/backing/handle_size.h"
#include "pool/blocks/take.h"
#include "pool/compact/budget.h"
#include "pool/compact/reclaimable.h"
#include <stdlib.h>
#include <string.h>

enum {
    HANDLES = 1024, /* the most handles considered */
    UNMAPPED_MAX = 256,
    HOLD = 4, /* unmapped ranges in one hold of the lock */
    TRIES = 6 /* the most places that are tried in full */
};

enum rank { COMPLETED, SAME_STREAM, OTHER_STREAMS };

struct handle {
    struct tarn__span span;
    uint64_t piece;  /* bytes of reclaimable handles that lie together with it */
    uint64_t sum;    /* of this handle and the ones before it in the list */
    unsigned part;   /* index in `all` */
    bool is_planned; /* a plan that is followed has its addresses */
    enum rank rank;
};

struct candidate {
    struct tarn__span low, high; /* the used part of the free memory on both sides */
    struct tarn__span range;
    tarn__index unmapped; /* node of the range */
    uint64_t least, most; /* bytes to be moved there */
    bool at_end;          /* it reaches the end of the unmapped range */
    unsigned handles;     /* number of handles that this takes, if they fit */
};

struct look {
    const struct tarn__caller *caller;
    const struct tarn__request *request;
    struct tarn__reclaimable all;
    struct handle handles[HANDLES]; /* the best first */
    unsigned count;
    unsigned unmapped;
    uint64_t headroom;                  /* of the pool's limit */
    struct candidate candidates[TRIES]; /* the best first */
    unsigned tries;
    struct candidate nearest; /* where the fewest bytes are missing */
    uint64_t least_with_room; /* the fewest where any growth has enough addresses */
    unsigned chosen[TARN__RECLAIMABLE_MAX],
        best[TARN__RECLAIMABLE_MAX]; /* indices in `handles` */
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
    if (a->is_planned != b->is_planned)
        return a->is_planned ? 1 : -1;
    if (a->span.bytes != b->span.bytes)
        return compare(b->span.bytes, a->span.bytes);
    if (a->piece != b->piece)
        return compare(a->piece, b->piece);
    return compare(a->span.address, b->span.address);
}

static enum rank rank_of(const struct look *look,
                         const struct tarn__reclaimable_part *part)
{
    if (!part->stream_state)
        return COMPLETED;
    return part->stream_state == look->caller->stream_state ? SAME_STREAM : OTHER_STREAMS;
}

static void list_part(struct look *look, unsigned which)
{
    const struct tarn__pages *pages = look->caller->pool->pages;
    const struct tarn__reclaimable_part *part = &look->all.parts[which];
    uint64_t end = part->span.address + part->span.bytes;

    for (uint64_t at = part->span.address; at < end && look->count < HANDLES;) {
        struct handle *handle = &look->handles[look->count++];
        *handle = (struct handle){.span = tarn__pages_handle_at(pages, at),
                                  .piece = part->span.bytes,
                                  .part = which,
                                  .is_planned = part->is_planned,
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

static bool is_better(const struct candidate *one, const struct candidate *other)
{
    return one->handles < other->handles ||
           (one->handles == other->handles && one->least < other->least);
}

static void note_least(struct look *look, const struct candidate *candidate)
{
    bool is_roomy = !candidate->at_end &&
                    candidate->most >= candidate->least + TARN__HANDLE_BYTES_MAX;

    if (candidate->least < look->nearest.least)
        look->nearest = *candidate;
    if (is_roomy && candidate->least < look->least_with_room)
        look->least_with_room = candidate->least;
}

static void note(struct look *look, struct candidate candidate)
{
    if (candidate.least == 0 || candidate.least > candidate.most)
        return;
    note_least(look, &candidate);
    candidate.handles = how_many(look, candidate.least);
    if (candidate.handles == 0 ||
        (look->tries == TRIES && !is_better(&candidate, &look->candidates[TRIES - 1])))
        return;
    unsigned i = look->tries < TRIES ? look->tries++ : TRIES - 1;
    for (; i > 0 && is_better(&candidate, &look->candidates[i - 1]); i--)
        look->candidates[i] = look->candidates[i - 1];
    look->candidates[i] = candidate;
}

/* Note the ways to make a block at an unmapped range. */
static void note_range(struct look *look, tarn__index index) TARN__REQUIRES(pool_lock)
{
    const struct tarn__heap *heap = &look->caller->pool->heap;
    const struct tarn__stream_state *stream_state = look->caller->stream_state;
    const struct tarn__node *node = tarn__node(&heap->nodes, index);
    uint64_t bytes = (uint64_t)look->request->quanta << TARN__QUANTUM_SHIFT;
    uint64_t mask = look->request->alignment - 1;
    uint64_t begin = tarn__runs_begin(heap, stream_state, index),
             end = tarn__runs_end(heap, stream_state, index),
             unmapped_end = tarn__node_end(node);
    struct candidate candidate = {.range = {node->address, tarn__node_bytes(node)},
                                  .unmapped = index,
                                  .low = {begin, node->address - begin},
                                  .most = tarn__node_bytes(node)};
    uint64_t first = (begin + mask) & ~mask; /* where the block would begin */

    if (first + bytes > candidate.range.address) {
        candidate.least = tarn__pages_round_up(first + bytes - candidate.range.address);
        note(look, candidate);
    }
    if (end == unmapped_end)
        return;
    candidate.high = (struct tarn__span){unmapped_end, end - unmapped_end};
    if (first + bytes > unmapped_end && first + bytes <= end) {
        candidate.least = candidate.most;
        note(look, candidate);
    }
    first = (end - bytes) & ~mask;
    if (bytes < end && first < unmapped_end) {
        candidate.low.bytes = 0;
        candidate.least = tarn__pages_round_up(unmapped_end - first);
        candidate.at_end = true;
        note(look, candidate);
    }
}

/* The unmapped ranges stay as they are while the lock is released, under `growth`. */
static bool visit_unmapped(void *data, tarn__index index) TARN__REQUIRES(pool_lock)
{
    struct look *look = data;
    const struct tarn__heap *heap = &look->caller->pool->heap;

    if (tarn__heap_may_serve(heap, tarn__node(&heap->nodes, index),
                             look->request->quanta))
        note_range(look, index);
    if (++look->unmapped % HOLD == 0)
        tarn__pool_relock(look->caller->pool);
    return look->unmapped < UNMAPPED_MAX;
}

/* --- which handles go where --- */

/* Choose handles for a place, as far as they fit; returns their number. */
static unsigned fill(struct look *look, const struct candidate *candidate,
                     uint64_t *bytes_out)
{
    uint64_t bytes = 0;
    unsigned count = 0;

    for (unsigned i = 0;
         i < look->count && bytes < candidate->least && count < TARN__RECLAIMABLE_MAX;
         i++) {
        struct tarn__span handle = look->handles[i].span;
        if (bytes + handle.bytes > candidate->most ||
            tarn__pages_span_has(candidate->low, handle.address) ||
            tarn__pages_span_has(candidate->high, handle.address))
            continue;
        look->chosen[count++] = i;
        bytes += handle.bytes;
    }
    *bytes_out = bytes;
    return count;
}

static uint64_t start_at(const struct candidate *candidate, uint64_t bytes)
{
    return candidate->at_end ? candidate->range.address + candidate->range.bytes - bytes
                             : candidate->range.address;
}

/* Choose the place that takes the fewest handles, into `best`; 0: there is none. */
static unsigned choose_candidate(struct look *look, struct tarn__placement *out)
{
    unsigned fewest = 0;

    for (unsigned i = 0; i < look->tries; i++) {
        const struct candidate *candidate = &look->candidates[i];
        uint64_t bytes;
        unsigned count = fill(look, candidate, &bytes);
        if (bytes < candidate->least || (fewest > 0 && count >= fewest))
            continue;
        fewest = count;
        memcpy(look->best, look->chosen, count * sizeof *look->best);
        *out = (struct tarn__placement){.range = candidate->unmapped,
                                        .at = start_at(candidate, bytes),
                                        .bytes = bytes};
    }
    return fewest;
}

/* Return the new bytes where `least` is missing, which is not 0: the step that the user
 * specified, or whole handles, where the place has enough addresses for them. */
static uint64_t new_bytes_at(const struct look *look, const struct candidate *candidate,
                             uint64_t moved, uint64_t least)
{
    const struct tarn__pool *pool = look->caller->pool;
    uint64_t handle = tarn__handle_size(pool->pages, 0);
    uint64_t available = candidate->most - moved, most = look->headroom;
    uint64_t whole = (least + handle - 1) / handle * handle;

    most = most < available ? most : available;
    if (least > most || candidate->at_end)
        return least;
    if (pool->options.growth_bytes > 0)
        return tarn__handle_size_step(pool->pages, least, most);
    return whole <= most ? whole : least;
}

/* Choose a place where too little memory is reclaimable for any place. If far less is
 * missing there than at the range's end, reclaimable memory moves as far as it fits,
 * and the rest is new. Returns the number of handles, in `best`; -1: there is no such
 * place. */
static int choose_nearest(struct look *look, struct tarn__placement *out)
{
    const struct candidate *candidate = &look->nearest;
    uint64_t bytes;

    if (candidate->least > look->least_with_room / 2)
        return -1;
    unsigned count = fill(look, candidate, &bytes);
    memcpy(look->best, look->chosen, count * sizeof *look->best);
    *out = (struct tarn__placement){.range = candidate->unmapped, .bytes = bytes};
    out->least = candidate->least - bytes; /* no place could be filled */
    out->new_bytes = new_bytes_at(look, candidate, bytes, out->least);
    out->at = start_at(candidate, out->bytes + out->new_bytes);
    return out->least <= look->headroom ? (int)count : -1;
}

/* --- the parts that move --- */

static int by_address(const void *one, const void *other)
{
    const struct tarn__reclaimable_part *a = one, *b = other;

    return compare(a->span.address, b->span.address);
}

/* Sort completed memory first, and then large handles first. */
static int by_order(const void *one, const void *other)
{
    const struct tarn__reclaimable_part *a = one, *b = other;
    uint64_t mean_a = tarn__reclaimable_mean_handle(a),
             mean_b = tarn__reclaimable_mean_handle(b);

    if ((a->stream_state == NULL) != (b->stream_state == NULL))
        return a->stream_state == NULL ? -1 : 1;
    return mean_a != mean_b ? compare(mean_b, mean_a) : by_address(one, other);
}

/* Merge adjacent handles of one block into one part. */
static void merge_parts(struct tarn__reclaimable *reclaimable)
{
    unsigned kept = 0;

    if (reclaimable->count == 0)
        return;
    qsort(reclaimable->parts, reclaimable->count, sizeof *reclaimable->parts, by_address);
    for (unsigned i = 1; i < reclaimable->count; i++) {
        struct tarn__reclaimable_part *last = &reclaimable->parts[kept],
                                      *part = &reclaimable->parts[i];
        if (part->node == last->node &&
            last->span.address + last->span.bytes == part->span.address) {
            last->span.bytes += part->span.bytes;
            last->handles++;
        } else {
            reclaimable->parts[++kept] = *part;
        }
    }
    reclaimable->count = kept + 1;
    qsort(reclaimable->parts, reclaimable->count, sizeof *reclaimable->parts, by_order);
}

static void fill_reclaimable(const struct look *look, unsigned count, uint64_t bytes,
                             struct tarn__reclaimable *out)
{
    *out = (struct tarn__reclaimable){
        .pool = look->caller->pool, .count = count, .bytes = bytes, .wanted = bytes};
    for (unsigned i = 0; i < count; i++) {
        const struct handle *handle = &look->handles[look->best[i]];
        out->parts[i] = look->all.parts[handle->part];
        out->parts[i].span = handle->span;
        out->parts[i].handles = 1;
    }
    merge_parts(out);
}

/* Find the best place for the handles of `all`. Returns how many go there; 0: there are
 * too few. */
static unsigned find_candidate(struct look *look, struct tarn__placement *out)
{
    struct tarn__pool *pool = look->caller->pool;

    look->unmapped = look->tries = 0;
    look->nearest.least = look->least_with_room = UINT64_MAX;
    list_handles(look);
    tarn__pool_lock(pool);
    look->headroom = tarn__budget_headroom(pool);
    tarn__bins_visit(&pool->heap.unmapped, &pool->heap.nodes, 1, visit_unmapped, look);
    tarn__pool_unlock(pool);
    return choose_candidate(look, out);
}

/* Try completed memory alone, and then fenced memory as well. */
static int find(struct look *look, struct tarn__placement *out) TARN__REQUIRES(growth)
{
    struct tarn__reclaimable *all = &look->all;

    tarn__reclaimable_find(look->caller->pool, UINT64_MAX, UINT64_MAX,
                           (struct tarn__span){0, 0}, all);
    unsigned count = find_candidate(look, out);
    if (count > 0)
        return (int)count;
    tarn__reclaimable_find_fenced(look->caller, all);
    if (all->count > all->completed)
        count = find_candidate(look, out);
    return count > 0 ? (int)count : choose_nearest(look, out);
}

bool tarn__placement_find(const struct tarn__caller *caller,
                          const struct tarn__request *request,
                          struct tarn__reclaimable *reclaimable_out,
                          struct tarn__placement *out)
{
    tarn__assert_held(&caller->pool->growth);

    struct look *look = malloc(sizeof *look);

    if (!look)
        return false;
    look->caller = caller;
    look->request = request;
    int count = find(look, out);
    if (count >= 0)
        fill_reclaimable(look, (unsigned)count, out->bytes, reclaimable_out);
    free(look);
    return count >= 0;
}
