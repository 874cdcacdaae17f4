/* pages.c -- the page moves that a plan needs under a limit of physical memory.
 *
 * The addresses of a plan are cut into pages. A block uses the pages that it touches. A
 * page is present if physical memory is mapped there. Before an allocation its missing
 * pages get memory that is in no use: first what was never mapped, then that of the
 * present page without blocks which the plan needs again last. That order makes the
 * fewest moves. The second kind counts as a move.
 */
#include "base/options.h"
#include "plan/page_uses.h"
#include <stdlib.h>

/* Small pages would cost memory: all blocks together touch no more than these. */
static const uint64_t TOUCHES_MAX = (uint64_t)1 << 24;

#define NO_USE UINT32_MAX

/* A page without blocks, by its next use; the heap may have outdated ones. */
struct idle {
    uint32_t next_use, page;
};

struct pages {
    const tarn_plan *plan;
    struct tarn__page_uses uses;
    uint32_t *live;    /* by page: blocks on it */
    bool *present;     /* by page */
    uint32_t *use_at;  /* by page: the next of its uses */
    struct idle *heap; /* the latest next use first */
    size_t heap_count, heap_capacity;
    uint32_t unmapped; /* pages of physical memory that are nowhere */
    tarn_plan_moves *out;
};

/* --- the heap ---------------------------------------------------------------------------- */

static bool is_before(struct idle a, struct idle b)
{
    return a.next_use != b.next_use ? a.next_use > b.next_use : a.page < b.page;
}

static void sift_down(struct pages *pages, size_t at)
{
    struct idle moved = pages->heap[at];

    for (size_t child; (child = 2 * at + 1) < pages->heap_count; at = child) {
        if (child + 1 < pages->heap_count &&
            is_before(pages->heap[child + 1], pages->heap[child]))
            child++;
        if (!is_before(pages->heap[child], moved))
            break;
        pages->heap[at] = pages->heap[child];
    }
    pages->heap[at] = moved;
}

static uint32_t next_use(const struct pages *pages, uint32_t page)
{
    uint32_t at = pages->use_at[page];

    return at < pages->uses.ends[page] ? pages->uses.slots[at] : NO_USE;
}

static bool is_current(const struct pages *pages, struct idle idle)
{
    return pages->present[idle.page] && pages->live[idle.page] == 0 &&
           next_use(pages, idle.page) == idle.next_use;
}

/* Drop the outdated entries. At most one entry of a page is current. */
static void tidy(struct pages *pages)
{
    size_t kept = 0;

    for (size_t i = 0; i < pages->heap_count; i++)
        if (is_current(pages, pages->heap[i]))
            pages->heap[kept++] = pages->heap[i];
    pages->heap_count = kept;
    for (size_t i = kept / 2; i-- > 0;)
        sift_down(pages, i);
}

static void push(struct pages *pages, struct idle idle)
{
    if (pages->heap_count == pages->heap_capacity)
        tidy(pages);
    size_t at = pages->heap_count++;
    for (; at > 0 && is_before(idle, pages->heap[(at - 1) / 2]); at = (at - 1) / 2)
        pages->heap[at] = pages->heap[(at - 1) / 2];
    pages->heap[at] = idle;
}

/* Take the page that is needed last. false: all are in use. */
static bool pop(struct pages *pages, uint32_t *out)
{
    while (pages->heap_count > 0) {
        struct idle first = pages->heap[0];
        pages->heap[0] = pages->heap[--pages->heap_count];
        if (pages->heap_count > 0)
            sift_down(pages, 0);
        if (is_current(pages, first)) {
            *out = first.page;
            return true;
        }
    }
    return false;
}

/* --- pages ------------------------------------------------------------------------------- */

/* Give a missing page memory. false: there is none. */
static bool map_page(struct pages *pages, uint32_t page, bool *has_moved)
{
    uint32_t from;

    if (pages->unmapped > 0) {
        pages->unmapped--;
    } else if (pop(pages, &from)) {
        pages->present[from] = false;
        pages->out->pages++;
        *has_moved = true;
    } else {
        return false;
    }
    pages->present[page] = true;
    return true;
}

static void allocate(struct pages *pages, const struct tarn__plan_slot *slot)
{
    uint32_t first = tarn__page_uses_first(&pages->uses, slot),
             last = tarn__page_uses_last(&pages->uses, slot);
    bool has_moved = false, fits = true;

    for (uint32_t page = first; page <= last; page++) {
        pages->live[page]++; /* also keeps the page from moving */
        pages->use_at[page]++;
    }
    for (uint32_t page = first; page <= last; page++)
        if (!pages->present[page])
            fits = map_page(pages, page, &has_moved) && fits;
    pages->out->allocations += has_moved;
    pages->out->failures += !fits;
}

static void release(struct pages *pages, const struct tarn__plan_slot *slot)
{
    uint32_t last = tarn__page_uses_last(&pages->uses, slot);

    for (uint32_t page = tarn__page_uses_first(&pages->uses, slot); page <= last; page++)
        if (--pages->live[page] == 0 && pages->present[page])
            push(pages, (struct idle){next_use(pages, page), page});
}

/* Make the operations of the plan, in their order. `freed_by` has the slot that each
 * operation frees, or TARN__PLAN_NO_SLOT. */
static void play(struct pages *pages, const uint32_t *freed_by)
{
    const tarn_plan *plan = pages->plan;
    size_t next = 0;

    for (uint32_t operation = 0; operation < plan->operations; operation++) {
        if (freed_by[operation] != TARN__PLAN_NO_SLOT)
            release(pages, &plan->slots[freed_by[operation]]);
        if (next < plan->count && plan->slots[next].start == operation)
            allocate(pages, &plan->slots[next++]);
    }
}

static uint32_t *list_frees(const tarn_plan *plan)
{
    uint32_t *frees = malloc(((size_t)plan->operations + 1) * sizeof *frees);

    if (!frees)
        return NULL;
    for (size_t i = 0; i <= plan->operations; i++)
        frees[i] = TARN__PLAN_NO_SLOT;
    for (size_t i = 0; i < plan->count; i++)
        frees[plan->slots[i].end] = (uint32_t)i;
    return frees;
}

/* Allocate what the play needs, with the lists of uses made. Returns false without host
 * memory. */
static bool prepare(struct pages *pages)
{
    uint32_t count = pages->uses.count;

    pages->heap_capacity = 2 * (size_t)count;
    pages->live = calloc(count, sizeof *pages->live);
    pages->present = calloc(count, sizeof *pages->present);
    pages->use_at = malloc(count * sizeof *pages->use_at);
    pages->heap = malloc(pages->heap_capacity * sizeof *pages->heap);
    if (!pages->live || !pages->present || !pages->use_at || !pages->heap)
        return false;
    for (uint32_t page = 0; page < count; page++)
        pages->use_at[page] = tarn__page_uses_begin(&pages->uses, page);
    return true;
}

static tarn_status count_moves(struct pages *pages)
{
    uint64_t most = 2 * (uint64_t)pages->plan->count;
    tarn_plan_moves *out = pages->out;
    uint32_t *frees = NULL;
    bool has_memory = tarn__page_uses_init(&pages->uses, pages->plan,
                                           most > TOUCHES_MAX ? most : TOUCHES_MAX) &&
                      prepare(pages) && (frees = list_frees(pages->plan)) != NULL;

    if (has_memory) {
        out->page_bytes = (uint64_t)TARN__PLAN_QUANTUM << pages->uses.shift;
        uint64_t limit = out->limit_bytes / out->page_bytes;
        pages->unmapped = limit < pages->uses.count ? (uint32_t)limit : pages->uses.count;
        out->limit_bytes = limit * out->page_bytes;
        play(pages, frees);
    }
    free(pages->live);
    free(pages->present);
    free(pages->use_at);
    free(pages->heap);
    free(frees);
    tarn__page_uses_free(&pages->uses);
    return has_memory
               ? TARN_OK
               : tarn_error_set(TARN_OUT_OF_MEMORY,
                                "plan: no host memory to count moves of %zu blocks",
                                pages->plan->count);
}

tarn_status tarn_plan_count_moves(const tarn_plan *plan, uint64_t limit_bytes,
                                  tarn_plan_moves *out)
{
    if (!plan || !out)
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "plan: count_moves: plan or out is NULL");
    tarn_plan_moves moves = {.size = out->size, .limit_bytes = limit_bytes};
    struct pages pages = {.plan = plan, .out = &moves};
    tarn_status status =
        tarn__options_check("plan: count_moves", out, sizeof moves, sizeof moves);
    if (status == TARN_OK)
        status = count_moves(&pages);
    if (status == TARN_OK)
        *out = moves;
    return status;
}
