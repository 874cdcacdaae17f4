/* llvmlite.c -- pairs across blocks, found and rejected exactly as llvmlite's pass does.
 *
 * Diamond: the incref dominates the decref, the decref post-dominates the incref, and no
 * block from the one up to the other has a decref of anything. Fan-out: every path from
 * the incref reaches a block with a decref of the same value or, in the raising kind, a
 * block that raises. No path reaches those blocks without passing the incref.
 *
 * The fan-out search visits a block once for every path to it. It gives up on paths of
 * more than 15 blocks and after a number of visits. It remembers the incref's block as
 * bad for some failures and not for others, which affects the block's other increfs. All
 * this shows in the result, so it is reproduced unchanged. Only querying a block's
 * contents is cheap here: the counts are kept up to date.
 */
#include "prune/llvmlite.h"
#include "prune/raise_metadata.h"
#include "prune/cfg.h"
#include "prune/dominators.h"
#include "prune/verdict.h"

enum { LONGEST_PATH = 15 };

struct tarn__llvmlite {
    struct tarn__function_index *function_index;
    const struct tarn__cfg *cfg;
    struct tarn__tree dominators, post_dominators; /* made when first needed */
    bool trees_made;

    /* By block. A mark is set where it equals the number of the search. */
    uint32_t search;
    uint32_t *visited;
    uint32_t *tail; /* one of the blocks that a search ended at */
    uint32_t *bad;  /* no fan-out starts here; equals `pass` */
    uint32_t pass;
    uint32_t *stack; /* space for every edge and one more */

    /* Data of the current fan-out search: */
    uint32_t value, head;
    bool raise;
    size_t visits;
    uint32_t path[LONGEST_PATH]; /* from the head to the current block */
    unsigned path_length;
    uint32_t *decref_blocks, decref_block_count; /* where paths ended */
    uint32_t *raise_blocks, raise_block_count;
    struct tarn__verdict why; /* of the last failure */
};

struct tarn__llvmlite *tarn__llvmlite_open(struct tarn__function_index *function_index,
                                           const struct tarn__cfg *cfg)
{
    struct tarn__arena *arena = &function_index->pruning->arena;
    struct tarn__llvmlite *search = TARN__TAKE(arena, struct tarn__llvmlite, 1);

    if (!search)
        return NULL;
    search->function_index = function_index;
    search->cfg = cfg;
    search->visited = TARN__TAKE(arena, uint32_t, cfg->blocks);
    search->tail = TARN__TAKE(arena, uint32_t, cfg->blocks);
    search->bad = TARN__TAKE(arena, uint32_t, cfg->blocks);
    search->stack = TARN__TAKE(arena, uint32_t, cfg->edges + cfg->blocks + 1);
    search->decref_blocks = TARN__TAKE(arena, uint32_t, cfg->blocks);
    search->raise_blocks = TARN__TAKE(arena, uint32_t, cfg->blocks);
    return arena->failed ? NULL : search;
}

const struct tarn__function_index *tarn__llvmlite_function_index(
    const struct tarn__llvmlite *search)
{
    return search->function_index;
}

static bool fail(struct tarn__llvmlite *search, tarn_prune_rule rule, uint32_t block)
{
    search->why = tarn__verdict_reject(rule, block);
    return false;
}

/* Fail, and skip all other increfs of the head in this pass. */
static bool fail_for_all(struct tarn__llvmlite *search, tarn_prune_rule rule,
                         uint32_t block)
{
    search->bad[search->head] = search->pass;
    return fail(search, rule, block);
}

/* --- the walk back ------------------------------------------------------------------ */

/* Do all reverse paths from the blocks marked as tails, `count` of which are on the
 * stack, reach `head` before the entry or another tail? Blocks that raise are skipped in
 * a search for raising fan-outs; llvmlite does so since 0.43. */
static bool held_by_head(struct tarn__llvmlite *search, uint32_t head, size_t count,
                         bool raise)
{
    const struct tarn__cfg *cfg = search->cfg;

    raise = raise && !tarn__llvmlite_is_old(&search->function_index->pruning->options);
    while (count > 0) {
        uint32_t block = search->stack[--count];
        if ((raise && tarn__raise_metadata_block_raises(search->function_index, block)) ||
            search->visited[block] == search->search)
            continue;
        if (block == 0)
            return fail(search, TARN_PRUNE_NOT_TAKEN, block);
        search->visited[block] = search->search;
        for (size_t i = cfg->first_in[block]; i < cfg->first_in[block + 1]; i++) {
            uint32_t source = cfg->sources[i];
            if (search->tail[source] == search->search)
                return fail(search, TARN_PRUNE_RELEASED_AGAIN, source);
            if (source != head && search->visited[source] != search->search)
                search->stack[count++] = source;
        }
    }
    return true;
}

/* --- diamond ------------------------------------------------------------------------ */

static bool make_trees(struct tarn__llvmlite *search)
{
    struct tarn__arena *arena = &search->function_index->pruning->arena;

    if (!search->trees_made)
        search->trees_made =
            tarn__dominators_find(&search->dominators, search->cfg, arena) &&
            tarn__dominators_find_post(&search->post_dominators, search->cfg, arena);
    return search->trees_made;
}

/* An unreachable block is dominated by every block and dominates no reachable one. */
static bool dominates(const struct tarn__tree *tree, uint32_t above, uint32_t block)
{
    if (!tarn__dominators_tree_reached(tree, block))
        return true;
    return tarn__dominators_tree_reached(tree, above) &&
           tarn__dominators_tree_above(tree, above, block);
}

static bool has_decref_before(struct tarn__llvmlite *search, uint32_t head, uint32_t tail)
{
    const struct tarn__cfg *cfg = search->cfg;
    size_t count = 0;

    search->search++;
    search->stack[count++] = head;
    while (count > 0) {
        uint32_t block = search->stack[--count];
        if (search->visited[block] == search->search)
            continue;
        search->visited[block] = search->search;
        if (search->function_index->decrefs_in[block] > 0)
            return true;
        for (size_t i = cfg->first_out[block]; i < cfg->first_out[block + 1]; i++)
            if (cfg->targets[i] != tail)
                search->stack[count++] = cfg->targets[i];
    }
    return false;
}

static bool is_diamond(struct tarn__llvmlite *search, uint32_t head, uint32_t tail)
{
    if (head == tail || !dominates(&search->dominators, head, tail) ||
        !dominates(&search->post_dominators, tail, head))
        return false;
    search->search++;
    search->tail[tail] = search->search;
    search->stack[0] = tail;
    return held_by_head(search, head, 1, false) && !has_decref_before(search, head, tail);
}

/* Remove the first decref of the incref's value that makes a diamond with it. */
static bool prune_diamond(struct tarn__llvmlite *search, uint32_t incref)
{
    struct tarn__function_index *function_index = search->function_index;
    const struct tarn__refop *refop = &function_index->refops[incref];
    uint32_t value = refop->value_number;
    uint32_t end = function_index->first_place[value + 1];
    uint32_t place = tarn__function_index_next_place(function_index, value,
                                                     function_index->first_place[value]);

    while (place < end) {
        uint32_t decref = function_index->by_value[place];
        if (is_diamond(search, refop->block, function_index->refops[decref].block)) {
            tarn__function_index_remove(function_index, incref);
            tarn__function_index_remove(function_index, decref);
            function_index->pruning->report.diamond += 2;
            return true;
        }
        place = tarn__function_index_next_place(function_index, value, place + 1);
    }
    return false;
}

bool tarn__llvmlite_diamond(struct tarn__llvmlite *search)
{
    struct tarn__function_index *function_index = search->function_index;
    bool changed = false;

    if (!make_trees(search))
        return false;
    for (uint32_t i = 0; i < function_index->refop_count; i++)
        if (function_index->refops[i].incref && function_index->refops[i].call)
            changed |= prune_diamond(search, i);
    return changed;
}

/* --- fan-out ------------------------------------------------------------------------ */

static bool is_on_path(const struct tarn__llvmlite *search, uint32_t block)
{
    for (unsigned i = 0; i < search->path_length; i++)
        if (search->path[i] == block)
            return true;
    return false;
}

static void end_at(struct tarn__llvmlite *search, uint32_t block, uint32_t *list,
                   uint32_t *count)
{
    if (search->tail[block] == search->search)
        return;
    search->tail[block] = search->search;
    list[(*count)++] = block;
}

static bool walk_on(struct tarn__llvmlite *search, uint32_t block);

/* Does every path through this block end well? */
static bool walk(struct tarn__llvmlite *search, uint32_t block)
{
    if (search->path_length >= LONGEST_PATH) {
        search->function_index->pruning->report.gave_up++;
        return fail(search, TARN_PRUNE_TOO_DEEP, block);
    }
    if (++search->visits > search->function_index->pruning->options.subgraph_limit) {
        search->function_index->pruning->report.gave_up++;
        return fail_for_all(search, TARN_PRUNE_TOO_LARGE, block);
    }
    if (block == search->head)
        return fail_for_all(search, TARN_PRUNE_TAKEN_AGAIN, block);
    if (is_on_path(search, block))
        return true;
    if (tarn__function_index_decref(search->function_index, search->value, block) !=
        TARN__NONE) {
        end_at(search, block, search->decref_blocks, &search->decref_block_count);
        return true;
    }
    if (search->function_index->decrefs_in[block] > 0)
        return fail_for_all(search, TARN_PRUNE_OTHER_DECREF, block);
    if (search->raise &&
        tarn__raise_metadata_block_raises(search->function_index, block)) {
        end_at(search, block, search->raise_blocks, &search->raise_block_count);
        return true;
    }
    return walk_on(search, block);
}

static bool walk_on(struct tarn__llvmlite *search, uint32_t block)
{
    const struct tarn__cfg *cfg = search->cfg;
    bool good = true;

    if (cfg->first_out[block] == cfg->first_out[block + 1])
        return fail(search, TARN_PRUNE_NOT_RELEASED, block);
    search->path[search->path_length++] = block;
    for (size_t i = cfg->first_out[block]; good && i < cfg->first_out[block + 1]; i++)
        good = walk(search, cfg->targets[i]);
    search->path_length--;
    return good;
}

static size_t stack_tails(struct tarn__llvmlite *search)
{
    size_t count = 0;

    for (uint32_t i = 0; i < search->decref_block_count; i++)
        search->stack[count++] = search->decref_blocks[i];
    for (uint32_t i = 0; i < search->raise_block_count; i++)
        search->stack[count++] = search->raise_blocks[i];
    return count;
}

static bool is_fanout(struct tarn__llvmlite *search, uint32_t incref, bool raise)
{
    const struct tarn__refop *refop = &search->function_index->refops[incref];

    search->search++;
    search->value = refop->value_number;
    search->head = refop->block;
    search->raise = raise;
    search->visits = 0;
    search->path_length = 0;
    search->decref_block_count = search->raise_block_count = 0;
    if (!walk_on(search, refop->block))
        return false;
    if (search->decref_block_count == 0)
        return fail(search, TARN_PRUNE_NOT_RELEASED, TARN__NONE);
    if (raise && search->raise_block_count == 0)
        return fail(search, TARN_PRUNE_NO_RAISE, TARN__NONE);
    return held_by_head(search, search->head, stack_tails(search), raise);
}

static void prune_fanout(struct tarn__llvmlite *search, uint32_t incref)
{
    struct tarn__function_index *function_index = search->function_index;
    uint64_t removed = search->decref_block_count + 1;

    for (uint32_t i = 0; i < search->decref_block_count; i++)
        tarn__function_index_remove(
            function_index, tarn__function_index_decref(function_index, search->value,
                                                        search->decref_blocks[i]));
    tarn__function_index_remove(function_index, incref);
    if (search->raise)
        function_index->pruning->report.fanout_raise += removed;
    else
        function_index->pruning->report.fanout += removed;
}

bool tarn__llvmlite_fanout(struct tarn__llvmlite *search, bool raise)
{
    struct tarn__function_index *function_index = search->function_index;
    bool changed = false;

    search->pass++;
    for (uint32_t i = 0; i < function_index->refop_count; i++) {
        const struct tarn__refop *refop = &function_index->refops[i];
        if (!refop->incref || !refop->call || search->bad[refop->block] == search->pass ||
            function_index->decrefs_in[refop->block] > 0 || !is_fanout(search, i, raise))
            continue;
        prune_fanout(search, i);
        changed = true;
    }
    return changed;
}

struct tarn__verdict tarn__llvmlite_explain(struct tarn__llvmlite *search,
                                            uint32_t incref, bool raise)
{
    const struct tarn__function_index *function_index = search->function_index;
    uint32_t block = function_index->refops[incref].block;
    uint64_t gave_up = function_index->pruning->report.gave_up;

    if (function_index->decrefs_in[block] > 0)
        return tarn__verdict_reject(TARN_PRUNE_DECREF_BESIDE, block);
    bool good = is_fanout(search, incref, raise);
    search->function_index->pruning->report.gave_up =
        gave_up; /* counted when it was searched */
    return good ? tarn__verdict_allow() : search->why;
}
