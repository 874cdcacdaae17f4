/* layout.c -- lays out the blocks of a plan: the best of several orders.
 *
 * The blocks are grouped into boxes in several ways, and the boxes placed in several
 * orders: by size and life in several proportions, by time. The lowest layout wins that
 * takes few page moves in little more memory than the peak, else that of the fewest.
 * It is improved: items that end above a target come earlier in the next layout, again and
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

/* Candidates for each block; and those that take as long as to sort and place an item, and
 * as to count the moves of a page that a block uses. */
enum { CANDIDATES_A_BLOCK = 1200, CANDIDATES_AN_ITEM = 1, CANDIDATES_A_USE = 2 };

/* A way to group: blocks up to peak >> shift; 0: none. The finest come first. */
struct level {
    unsigned shift, alike;
    bool has_rows;
};
static const struct level levels[] = {{0, 0, false},  {14, 3, false}, {12, 3, false},
                                      {10, 3, false}, {10, 2, false}, {8, 2, false},
                                      {8, 1, false},  {6, 0, false},  {14, 3, true}};
enum { LEVELS = 8, LEVELS_TRIED = 4, LEVEL_OF_ROWS = LEVELS };

/* Rows are tried if they have so many items, or more, in the mean. */
enum { ITEMS_A_ROW = 2 };

/* The moves of a layout are those with the peak and such a part of it in memory. Several
 * streams complete their memory later. */
enum { ROOM_PART = 118, ROOM_PART_OF_STREAMS = 40 };
enum { PAGE_SHIFT = 12 }; /* of quanta */

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

/* One of so many allocations may need a move. */
enum { FEW_MOVES = 256 };

/* What a layout costs; the first number counts most. */
struct cost {
    uint64_t failures; /* of allocations, within the room */
    uint64_t moves;    /* that allocations need there; 0 if they are few */
    uint32_t height;   /* UINT32_MAX: there is no layout */
};

struct search {
    struct tarn_plan *plan;
    uint64_t bound;  /* quanta: no layout is lower */
    uint64_t enough; /* quanta: no lower layout is searched for */
    uint64_t room;   /* quanta: a layout that is no higher has no moves */
    uint64_t budget; /* candidates that are left */
    uint64_t
        counting;   /* candidates: to count the moves of a layout; 0: none are counted */
    uint32_t *best; /* by slot: offsets of the best layout */
    struct cost cost; /* of the best layout */
    unsigned level;   /* of the best layout */
    unsigned order;
    bool is_out_of_memory; /* moves could not be counted */
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
    if (!levels[level].has_rows || tarn__rows_join(&attempt->boxes))
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

static bool is_cheaper(struct cost a, struct cost b)
{
    if (a.failures != b.failures)
        return a.failures < b.failures;
    return a.moves != b.moves ? a.moves < b.moves : a.height < b.height;
}

static bool has_none(const struct search *search)
{
    return search->cost.height == UINT32_MAX;
}

static bool has_moves(struct cost cost)
{
    return cost.failures + cost.moves > 0;
}

/* Return what the present layout of the plan costs. */
static struct cost cost_of(struct search *search, uint32_t height)
{
    const uint64_t page = (uint64_t)TARN__PLAN_QUANTUM << PAGE_SHIFT;
    tarn_plan_moves moves = {.size = sizeof moves};
    uint64_t limit = (search->room * TARN__PLAN_QUANTUM + page - 1) / page * page;

    search->plan->height = height;
    search->is_out_of_memory =
        tarn_plan_count_moves(search->plan, limit, &moves) != TARN_OK;
    if (moves.allocations <= search->plan->count / FEW_MOVES)
        moves.allocations = 0;
    return (struct cost){moves.failures, moves.allocations, height};
}

/* Can a layout of this height be the best? One that is much higher seldom is. */
static bool can_be_best(const struct search *search, uint32_t height)
{
    uint64_t over = search->cost.height - search->bound;

    if (has_none(search))
        return true;
    if (!has_moves(search->cost))
        return height < search->cost.height;
    return height - search->bound <= over + over / 4;
}

/* Keep the present layout of the items if it is the best so far. Returns the candidates that
 * this takes as long as. */
static uint64_t keep_best(struct search *search, const struct attempt *attempt,
                          uint32_t height)
{
    struct cost cost = {.height = height};
    bool counts = height > search->room && search->counting > 0;

    if (!can_be_best(search, height))
        return 0;
    tarn__placer_unpack(attempt->placer, &attempt->boxes, search->plan);
    if (counts)
        cost = cost_of(search, height);
    if (is_cheaper(cost, search->cost)) {
        search->cost = cost;
        for (size_t i = 0; i < search->plan->count; i++)
            search->best[i] = search->plan->slots[i].offset;
    }
    return counts ? search->counting : 0;
}

/* Place the items by their keys. Returns the height, or UINT32_MAX: it is not below
 * `limit`. */
static uint32_t place(struct search *search, struct attempt *attempt, uint32_t limit)
{
    uint64_t visits = CANDIDATES_AN_ITEM * attempt->boxes.count - attempt->placer->visits;

    sort_by_keys(attempt);
    uint32_t height = tarn__placer_run(attempt->placer, attempt->order, limit);
    visits += attempt->placer->visits;
    if (height < UINT32_MAX)
        visits += keep_best(search, attempt, height);
    if (search->is_out_of_memory || visits > search->budget)
        visits = search->budget;
    search->budget -= visits;
    return height;
}

static bool is_affordable(const struct search *search, const struct attempt *attempt)
{
    return attempt->placer->pairs * 3 / 2 + attempt->boxes.count + search->counting <=
           search->budget;
}

static bool is_enough(const struct search *search)
{
    return search->cost.height <= search->enough;
}

/* Try an order, and note it if it is the best so far. */
static void try_order(struct search *search, struct attempt *attempt, unsigned level,
                      unsigned order)
{
    struct cost before = search->cost;

    set_keys(attempt, order);
    place(search, attempt, has_moves(before) ? UINT32_MAX : before.height);
    if (!is_cheaper(search->cost, before))
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
        (double)search->bound + ((double)search->cost.height - (double)search->bound) *
                                    (0.25 * (double)(round % 4));
    double root = 1.2 + 0.2 * (double)(round % 5), factor = root * root;

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

/* The pages that all blocks use: what it takes to count the moves of a layout. */
static uint64_t count_uses(const struct tarn_plan *plan)
{
    uint64_t uses = 0;

    for (size_t i = 0; i < plan->count; i++)
        uses += (plan->slots[i].quanta >> PAGE_SHIFT) + 1;
    return uses;
}

static bool has_several_streams(const struct tarn_plan *plan)
{
    for (size_t i = 0; i < plan->count; i++)
        if (plan->slots[i].stream != plan->slots[0].stream ||
            plan->slots[i].free_stream != plan->slots[0].stream)
            return true;
    return false;
}

static void set_bounds(struct search *search, const struct tarn__layout_effort *effort)
{
    uint64_t part = has_several_streams(search->plan) ? ROOM_PART_OF_STREAMS : ROOM_PART;
    uint64_t more = search->bound / part;
    uint64_t uses = count_uses(search->plan) * CANDIDATES_A_USE;

    search->enough =
        search->bound + (effort->enough_part ? search->bound / effort->enough_part : 0);
    search->room = search->bound + more;
    if (!effort->enough_part && more >> PAGE_SHIFT && uses <= search->budget / 8)
        search->counting = uses;
}

tarn_status tarn__layout_make(struct tarn_plan *plan,
                              const struct tarn__layout_effort *effort)
{
    struct search search = {.plan = plan,
                            .budget = effort->blocks * CANDIDATES_A_BLOCK,
                            .best = malloc((plan->count + 1) * sizeof *search.best),
                            .cost = {UINT64_MAX, UINT64_MAX, UINT32_MAX}};
    bool has_memory = search.best && tarn__layout_bound(plan, &search.bound);

    if (has_memory && search.bound < UINT32_MAX && plan->count > 0) {
        set_bounds(&search, effort);
        has_memory = try_rows(&search) && try_levels(&search) &&
                     (has_none(&search) || improve(&search)) && !search.is_out_of_memory;
    }
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
    plan->height = plan->count ? search.cost.height : 0;
    return TARN_OK;
}
