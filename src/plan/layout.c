/* layout.c -- lays out the blocks of a plan: the best of several orders.
 *
 * The blocks are grouped into boxes in several ways, and the boxes placed in several
 * orders: by size and life in several proportions, by time. The lowest layout wins. Then
 * it is improved: items that end above a target come earlier in the next layout, again and
 * again.
 *
 * The work is bounded by a budget of candidates that the placer considers. Time would be
 * no measure: the same log must always have the same plan.
 */
#include "plan/layout.h"
#include "plan/placer.h"
#include "plan/rows.h"
#include <stdlib.h>
#include <string.h>

/* Candidates for each block; and those that take as long as to sort and place an item. */
enum { CANDIDATES_A_BLOCK = 1200, CANDIDATES_AN_ITEM = 1 };

/* A way to group: blocks up to peak >> shift; 0: none. The finest come first. The last one
 * has rows, too. */
struct level {
    unsigned shift, alike;
};
static const struct level levels[] = {{0, 0}, {14, 3}, {12, 3}, {10, 3}, {10, 2},
                                      {8, 2}, {8, 1},  {6, 0},  {14, 3}};
enum { LEVELS = 8, LEVELS_TRIED = 4, LEVEL_OF_ROWS = LEVELS };

/* Rows are tried if they have so many items, or more, in the mean. */
enum { ITEMS_A_ROW = 2 };

/* The orders, in the order of their trial: by size times so many fourth roots of the life,
 * or by start. */
enum { BY_SIZE = 0, BY_START = 4 };
static const unsigned orders[] = {1, 2, BY_SIZE, 3, BY_START};
enum { ORDERS = sizeof orders / sizeof *orders };

struct rank {
    double key;
    uint32_t item;
};

/* A grouping with the structures to place it. */
struct attempt {
    struct tarn__boxes boxes;
    size_t grouped; /* items, before they were joined into rows */
    struct tarn__placer *placer;
    double *keys; /* by item: the largest is placed first */
    struct rank *ranks;
    uint32_t *order;
};

struct search {
    struct tarn_plan *plan;
    uint64_t bound;  /* quanta: no layout is lower */
    uint64_t enough; /* quanta: no lower layout is searched for */
    uint64_t budget; /* candidates that are left */
    uint32_t *best;  /* by slot: offsets of the best layout */
    uint32_t height; /* of the best layout; UINT32_MAX: there is none */
    unsigned level;  /* of the best layout */
    unsigned order;
};

/* --- attempts ---------------------------------------------------------------------------- */

static void attempt_free(struct attempt *attempt)
{
    free(attempt->keys);
    free(attempt->ranks);
    free(attempt->order);
    tarn__placer_free(attempt->placer);
    tarn__boxes_free(&attempt->boxes);
}

static bool attempt_init(struct attempt *attempt, const struct search *search,
                         unsigned level)
{
    struct tarn__boxing boxing = {.alike = levels[level].alike};

    if (levels[level].shift)
        boxing.quanta = (uint32_t)(search->bound >> levels[level].shift);
    *attempt = (struct attempt){.keys = NULL};
    if (!tarn__boxes_make(&attempt->boxes, search->plan, boxing))
        return false;
    attempt->grouped = attempt->boxes.count;
    if (level != LEVEL_OF_ROWS || tarn__rows_join(&attempt->boxes))
        attempt->placer = tarn__placer_create(&attempt->boxes, &search->plan->rules);
    if (!attempt->placer) {
        tarn__boxes_free(&attempt->boxes);
        return false;
    }
    attempt->keys = malloc((attempt->boxes.count + 1) * sizeof *attempt->keys);
    attempt->ranks = malloc((attempt->boxes.count + 1) * sizeof *attempt->ranks);
    attempt->order = malloc((attempt->boxes.count + 1) * sizeof *attempt->order);
    if (attempt->keys && attempt->ranks && attempt->order)
        return true;
    attempt_free(attempt);
    return false;
}

/* The key is to the fourth: no root has to be found. */
static double key_of(const struct tarn__item *item, unsigned order)
{
    double size = item->quanta, life = (double)item->end - item->start;
    double key = size * size * size * size;

    if (order == BY_START)
        return -(double)item->start;
    for (unsigned i = 0; i < order; i++)
        key *= life;
    return key;
}

static void set_keys(struct attempt *attempt, unsigned order)
{
    for (size_t i = 0; i < attempt->boxes.count; i++)
        attempt->keys[i] = key_of(&attempt->boxes.items[i], order);
}

static int compare_ranks(const void *a, const void *b)
{
    const struct rank *x = a, *y = b;

    if (x->key != y->key)
        return x->key > y->key ? -1 : 1;
    return (x->item > y->item) - (x->item < y->item);
}

static void sort_by_keys(struct attempt *attempt)
{
    for (uint32_t i = 0; i < attempt->boxes.count; i++)
        attempt->ranks[i] = (struct rank){attempt->keys[i], i};
    qsort(attempt->ranks, attempt->boxes.count, sizeof *attempt->ranks, compare_ranks);
    for (size_t i = 0; i < attempt->boxes.count; i++)
        attempt->order[i] = attempt->ranks[i].item;
}

/* --- the search -------------------------------------------------------------------------- */

/* Place the items by their keys, and keep the layout if it is the lowest so far. Returns
 * its height, or UINT32_MAX: it is not below `limit`. */
static uint32_t place(struct search *search, struct attempt *attempt, uint32_t limit)
{
    uint64_t before = attempt->placer->visits;

    sort_by_keys(attempt);
    uint32_t height = tarn__placer_run(attempt->placer, attempt->order, limit);
    uint64_t visits =
        attempt->placer->visits - before + CANDIDATES_AN_ITEM * attempt->boxes.count;
    search->budget -= visits < search->budget ? visits : search->budget;
    if (height < search->height) {
        search->height = height;
        tarn__placer_unpack(attempt->placer, &attempt->boxes, search->plan, search->best);
    }
    return height;
}

static bool is_affordable(const struct search *search, const struct attempt *attempt)
{
    return attempt->placer->pairs * 3 / 2 + attempt->boxes.count <= search->budget;
}

static bool has_none(const struct search *search)
{
    return search->height == UINT32_MAX;
}

static bool is_enough(const struct search *search)
{
    return search->height <= search->enough;
}

/* Try an order, and note it if its layout is the lowest so far. */
static void try_order(struct search *search, struct attempt *attempt, unsigned level,
                      unsigned order)
{
    set_keys(attempt, order);
    if (place(search, attempt, search->height) == UINT32_MAX)
        return;
    search->level = level;
    search->order = order;
}

/* Try rows, if they are long. Then they take little time. Returns false without host memory. */
static bool try_rows(struct search *search)
{
    struct attempt attempt;

    if (!attempt_init(&attempt, search, LEVEL_OF_ROWS))
        return false;
    if (attempt.boxes.count * ITEMS_A_ROW <= attempt.grouped &&
        attempt.placer->pairs <= search->budget)
        try_order(search, &attempt, LEVEL_OF_ROWS, BY_SIZE);
    attempt_free(&attempt);
    return true;
}

/* Try the orders one after another, while there is time. */
static void try_orders(struct search *search, struct attempt *attempt, unsigned level)
{
    for (unsigned i = 0; i < ORDERS && !is_enough(search); i++) {
        if (!has_none(search) && !is_affordable(search, attempt))
            return;
        try_order(search, attempt, level, orders[i]);
    }
}

/* Let the items that end above the target come earlier. */
static void raise_keys(const struct search *search, struct attempt *attempt,
                       unsigned round)
{
    double target =
        (double)search->bound +
        ((double)search->height - (double)search->bound) * (0.25 * (double)(round % 4));
    double factor = 1.2 + 0.2 * (double)(round % 5);

    for (size_t i = 0; i < attempt->boxes.count; i++) {
        double end =
            (double)attempt->placer->places[i].offset + attempt->boxes.items[i].quanta;
        if (end > target)
            attempt->keys[i] *= factor * factor;
    }
}

static bool improve(struct search *search)
{
    struct attempt attempt;

    if (!attempt_init(&attempt, search, search->level))
        return false;
    set_keys(&attempt, search->order == BY_START ? BY_SIZE : search->order);
    for (unsigned round = 0; !is_enough(search) && is_affordable(search, &attempt);
         round++) {
        if (place(search, &attempt, UINT32_MAX) == UINT32_MAX)
            break;
        raise_keys(search, &attempt, round);
    }
    attempt_free(&attempt);
    return true;
}

/* Try a level, if there is time, unless it has as many items as the one before: then it has
 * the same. */
static bool try_level(struct search *search, unsigned level, size_t *items)
{
    struct attempt attempt;

    if (!attempt_init(&attempt, search, level))
        return false;
    if (attempt.boxes.count != *items &&
        (is_affordable(search, &attempt) || level + 1 == LEVELS))
        try_orders(search, &attempt, level);
    *items = attempt.boxes.count;
    attempt_free(&attempt);
    return true;
}

static bool try_levels(struct search *search)
{
    uint64_t budget = search->budget;
    size_t items = 0;

    for (unsigned level = LEVELS_TRIED; level-- > 0;) {
        if (is_enough(search) || search->budget < budget / 2)
            break;
        if (!try_level(search, level, &items))
            return false;
    }
    /* Coarser boxes for work whose blocks are too many at once. */
    for (unsigned level = LEVELS_TRIED; level < LEVELS && has_none(search); level++)
        if (!try_level(search, level, &items))
            return false;
    return true;
}

bool tarn__layout_bound(const struct tarn_plan *plan, uint64_t *out)
{
    int64_t *change = calloc((size_t)plan->operations + 1, sizeof *change);
    int64_t live = 0, most = 0;

    if (!change)
        return false;
    for (size_t i = 0; i < plan->count; i++) {
        change[plan->slots[i].start] += plan->slots[i].quanta;
        change[plan->slots[i].end] -= plan->slots[i].quanta;
    }
    for (size_t i = 0; i <= plan->operations; i++) {
        live += change[i];
        most = live > most ? live : most;
    }
    free(change);
    *out = (uint64_t)most;
    return true;
}

tarn_status tarn__layout_make(struct tarn_plan *plan,
                              const struct tarn__layout_effort *effort)
{
    struct search search = {.plan = plan,
                            .budget = effort->blocks * CANDIDATES_A_BLOCK,
                            .best = malloc((plan->count + 1) * sizeof *search.best),
                            .height = UINT32_MAX};
    bool has_memory = search.best && tarn__layout_bound(plan, &search.bound);

    search.enough =
        search.bound + (effort->enough_part ? search.bound / effort->enough_part : 0);
    if (has_memory && search.bound < UINT32_MAX && plan->count > 0)
        has_memory = try_rows(&search) && try_levels(&search) &&
                     (has_none(&search) || improve(&search));
    if (has_memory && !has_none(&search))
        for (size_t i = 0; i < plan->count; i++)
            plan->slots[i].offset = search.best[i];
    free(search.best);
    if (!has_memory)
        return tarn_error_set(TARN_OUT_OF_MEMORY,
                              "plan: no host memory to lay out %zu blocks", plan->count);
    if (plan->count > 0 && has_none(&search))
        return tarn_error_set(TARN_NOT_SUPPORTED,
                              "plan: %zu blocks need more than 2 TiB of addresses",
                              plan->count);
    plan->height = plan->count ? search.height : 0;
    return TARN_OK;
}
