/* layout.c -- lays out the blocks of a plan: the best of several orders.
 *
 * The blocks are grouped into boxes in several ways, and the boxes placed in several
 * orders: by size, by size and life, by time. The lowest layout wins. Then it is improved:
 * items that end above a target come earlier in the next layout, again and again.
 *
 * The work is bounded by a budget of candidates that the placer considers. Time would be
 * no measure: the same log must always have the same plan.
 */
#include "plan/layout.h"
#include "plan/placer.h"
#include <stdlib.h>
#include <string.h>

/* Candidates for each block; and those that take as long as to sort and place an item. */
enum { CANDIDATES_A_BLOCK = 1200, CANDIDATES_AN_ITEM = 1 };

/* A way to group: blocks up to peak >> shift; 0: none. The finest come first. */
struct level {
    unsigned shift, alike;
};
static const struct level levels[] = {{0, 0},  {14, 3}, {12, 3}, {10, 3},
                                      {10, 2}, {8, 2},  {8, 1},  {6, 0}};
enum { LEVELS = sizeof levels / sizeof levels[0], LEVELS_TRIED = 4 };

enum order { BY_SIZE, BY_SIZE_AND_ROOT, BY_START, BY_SIZE_AND_LIFE, ORDERS };

struct rank {
    double key;
    uint32_t item;
};

/* A grouping with the structures to place it. */
struct attempt {
    struct tarn__boxes boxes;
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
    enum order order;
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

static double key_of(const struct tarn__item *item, enum order order)
{
    double size = item->quanta, life = (double)item->end - item->start;

    switch (order) {
    case BY_START:
        return -(double)item->start;
    case BY_SIZE_AND_ROOT: /* size times the root of life, squared */
        return size * size * life;
    case BY_SIZE_AND_LIFE:
        return size * life;
    default:
        return size;
    }
}

static void set_keys(struct attempt *attempt, enum order order)
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

/* Place the items by their keys, and keep the layout if it is the lowest so far. */
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

static void try_orders(struct search *search, struct attempt *attempt, unsigned level)
{
    for (int order = 0; order < ORDERS && search->height > search->enough; order++) {
        uint32_t before = search->height;
        if (before < UINT32_MAX && !is_affordable(search, attempt))
            return;
        set_keys(attempt, (enum order)order);
        if (place(search, attempt, search->height) < before) {
            search->level = level;
            search->order = (enum order)order;
        }
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
            attempt->keys[i] *= factor;
    }
}

static bool improve(struct search *search)
{
    struct attempt attempt;

    if (!attempt_init(&attempt, search, search->level))
        return false;
    set_keys(&attempt, search->order == BY_START ? BY_SIZE : search->order);
    for (unsigned round = 0;
         search->height > search->enough && is_affordable(search, &attempt); round++) {
        if (place(search, &attempt, UINT32_MAX) == UINT32_MAX)
            break;
        raise_keys(search, &attempt, round);
    }
    attempt_free(&attempt);
    return true;
}

static bool try_levels(struct search *search)
{
    uint64_t budget = search->budget;
    size_t items = 0; /* of the level before: equal counts are equal items */

    for (int level = LEVELS_TRIED - 1; level >= 0; level--) {
        struct attempt attempt;
        if (search->height <= search->enough || search->budget < budget / 2)
            break;
        if (!attempt_init(&attempt, search, (unsigned)level))
            return false;
        if (attempt.boxes.count != items && is_affordable(search, &attempt))
            try_orders(search, &attempt, (unsigned)level);
        items = attempt.boxes.count;
        attempt_free(&attempt);
    }
    /* Coarser boxes for work whose blocks are too many at once. */
    for (unsigned level = LEVELS_TRIED; level < LEVELS && search->height == UINT32_MAX;
         level++) {
        struct attempt attempt;
        if (!attempt_init(&attempt, search, level))
            return false;
        if (is_affordable(search, &attempt) || level + 1 == LEVELS)
            try_orders(search, &attempt, level);
        attempt_free(&attempt);
    }
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
        has_memory =
            try_levels(&search) && (search.height == UINT32_MAX || improve(&search));
    if (has_memory && search.height < UINT32_MAX)
        for (size_t i = 0; i < plan->count; i++)
            plan->slots[i].offset = search.best[i];
    free(search.best);
    if (!has_memory)
        return tarn_error_set(TARN_OUT_OF_MEMORY,
                              "plan: no host memory to lay out %zu blocks", plan->count);
    if (plan->count > 0 && search.height == UINT32_MAX)
        return tarn_error_set(TARN_NOT_SUPPORTED,
                              "plan: %zu blocks need more than 2 TiB of addresses",
                              plan->count);
    plan->height = plan->count ? search.height : 0;
    return TARN_OK;
}
