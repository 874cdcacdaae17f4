/* fan.c -- fan-out regions: the paths from a block to the first decrefs behind it. */
#include "prune/fan.h"
#include "prune/marks.h"
#include <stdlib.h>
#include <string.h>

#define PART_IS_FAN (UINT32_C(1) << 31) /* the other bits are the index of the fan */

/* A fan of up to this many parts is expanded by the fans around it. */
enum { FEW_PARTS = 4 };

/* The limit guards against graphs built to be slow; compilers' functions are far below
 * it. */
enum { STEPS_PER_BLOCK = 256, STEPS_ALWAYS = 1 << 22 };

/* --- opening ------------------------------------------------------------------------ */

static int by_depth(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;

    return (left > right) - (left < right);
}

static bool has_incref(const struct tarn__view *view, uint32_t block)
{
    for (uint32_t i = view->first_refop[block]; i < view->first_refop[block + 1]; i++)
        if (view->refops[i].incref && view->refops[i].call)
            return true;
    return false;
}

/* One fan for each reachable block with an incref, in the order in which a walk of the
 * dominator tree enters them: an inner fan comes after the fans around it. */
static bool list_fans(struct tarn__fans *fans)
{
    const struct tarn__view *view = fans->view;
    struct tarn__arena *arena = &view->pruning->arena;
    uint64_t *heads = TARN__TAKE(arena, uint64_t, view->block_count);

    fans->fan_of = TARN__TAKE(arena, uint32_t, view->block_count);
    if (arena->failed)
        return false;
    for (uint32_t b = 0; b < view->block_count; b++) {
        fans->fan_of[b] = TARN__NONE;
        if (tarn__tree_reached(&fans->dominators, b) && has_incref(view, b))
            heads[fans->fan_count++] = (uint64_t)fans->dominators.enter[b] << 32 | b;
    }
    qsort(heads, fans->fan_count, sizeof *heads, by_depth);
    fans->fans = TARN__TAKE(arena, struct tarn__fan, fans->fan_count);
    fans->open = TARN__TAKE(arena, uint32_t, fans->fan_count);
    if (arena->failed)
        return false;
    for (uint32_t i = 0; i < fans->fan_count; i++) {
        fans->fans[i].head = (uint32_t)heads[i];
        fans->fan_of[fans->fans[i].head] = i;
    }
    return true;
}

/* Did the original function release something in this block? */
static bool released(const struct tarn__view *view, uint32_t block)
{
    for (uint32_t i = view->first_refop[block]; i < view->first_refop[block + 1]; i++)
        if (!view->refops[i].incref && !LLVMIsAConstantPointerNull(view->refops[i].value))
            return true;
    return false;
}

/* Find the blocks that lead to no decref. All original decrefs count. Code that raises
 * and still releases keeps its own accounting, whatever part of it could be removed. */
static void find_quiet(struct tarn__fans *fans)
{
    const struct tarn__cfg *cfg = fans->cfg;
    size_t depth = 0;

    for (uint32_t b = 0; b < cfg->blocks; b++) {
        fans->quiet[b] = !released(fans->view, b);
        if (!fans->quiet[b])
            fans->stack[depth++] = b;
    }
    while (depth > 0) {
        uint32_t block = fans->stack[--depth];
        for (size_t i = cfg->first_in[block]; i < cfg->first_in[block + 1]; i++) {
            uint32_t source = cfg->sources[i];
            if (!fans->quiet[source])
                continue;
            fans->quiet[source] = false;
            fans->stack[depth++] = source;
        }
    }
}

bool tarn__fans_open(struct tarn__fans *fans, struct tarn__view *view,
                     const struct tarn__cfg *cfg)
{
    struct tarn__arena *arena = &view->pruning->arena;
    uint32_t blocks = cfg->blocks;

    *fans = (struct tarn__fans){
        .view = view,
        .cfg = cfg,
        .quiet = TARN__TAKE(arena, bool, blocks),
        .cyclic = TARN__TAKE(arena, bool, blocks),
        .seen = TARN__TAKE(arena, uint32_t, blocks),
        .inside = TARN__TAKE(arena, uint32_t, blocks),
        .stack = TARN__TAKE(arena, uint32_t, (size_t)blocks + 1),
        .entered = TARN__TAKE(arena, uint32_t, blocks),
        .found = TARN__TAKE(arena, uint32_t, blocks),
        .most_steps = STEPS_ALWAYS + STEPS_PER_BLOCK * (cfg->edges + blocks),
    };
    if (arena->failed)
        return false;
    find_quiet(fans);
    return tarn__dominators(&fans->dominators, cfg, arena) &&
           tarn__cycles_open(&fans->cycles, blocks, arena) && list_fans(fans);
}

void tarn__fans_close(struct tarn__fans *fans)
{
    struct tarn__arena *arena = &fans->view->pruning->arena;
    size_t both = arena->held_bytes + fans->arena.peak_bytes;

    tarn__arena_free(&fans->arena);
    if (both > arena->peak_bytes)
        arena->peak_bytes = both;
}

void tarn__fans_renew(struct tarn__fans *fans)
{
    tarn__arena_reset(&fans->arena);
    for (uint32_t i = 0; i < fans->fan_count; i++)
        fans->fans[i] = (struct tarn__fan){.head = fans->fans[i].head};
    tarn__cycles_find(&fans->cycles, fans->cfg, fans->view->decrefs_in, fans->cyclic);
    fans->steps += fans->cfg->edges + fans->cfg->blocks;
}

/* --- one search --------------------------------------------------------------------- */

static bool refuse(struct tarn__fan *fan, tarn_prune_rule rule, uint32_t block,
                   bool final)
{
    fan->why = tarn__refuse(rule, block);
    fan->final = final;
    return false;
}

/* Does a path end at this block, by a raise that releases nothing? */
static bool ends_in_raise(struct tarn__fans *fans, uint32_t block)
{
    if (!(fans->view->pruning->options.shapes & TARN_PRUNE_FANOUT_RAISE))
        return false;
    if (fans->quiet[block])
        return tarn__block_raises(fans->view, block);
    if (fans->explaining && fans->loud_raise == TARN__NONE &&
        fans->view->decrefs_in[block] == 0 && tarn__block_raises(fans->view, block))
        fans->loud_raise = block;
    return false;
}

static void add_part(struct tarn__fans *fans, struct tarn__fan *fan, uint32_t part,
                     uint32_t exits)
{
    fans->found[fans->found_count++] = part;
    fan->exit_count += exits;
}

/* Continue behind this block later. */
static void go_through(struct tarn__fans *fans, uint32_t block)
{
    fans->inside[block] = fans->search;
    fans->stack[fans->depth++] = block;
}

/* Handle an exit of an inner fan. If it has lost its decrefs since, paths continue behind
 * it. */
static bool take_exit(struct tarn__fans *fans, struct tarn__fan *fan, uint32_t block)
{
    if (fans->seen[block] == fans->search)
        return true;
    fans->seen[block] = fans->search;
    if (fans->view->decrefs_in[block] > 0)
        add_part(fans, fan, block, 1);
    else if (fans->cfg->first_out[block] == fans->cfg->first_out[block + 1])
        return refuse(fan, TARN_PRUNE_NOT_RELEASED, block, true);
    else
        go_through(fans, block);
    return true;
}

/* The exits of an inner fan are exits of this one. Large fans stay one part, as long as
 * no block lost its decrefs since they were found. */
static bool take_over(struct tarn__fans *fans, struct tarn__fan *fan, uint32_t index)
{
    uint32_t count = 0;
    bool good = true;

    fan->raises |= fans->fans[index].raises;
    fans->open[count++] = index;
    while (good && count > 0) {
        uint32_t at = fans->open[--count];
        const struct tarn__fan *inner = &fans->fans[at];
        if (inner->age == fans->freed && inner->part_count > FEW_PARTS) {
            add_part(fans, fan, PART_IS_FAN | at, inner->exit_count);
            continue;
        }
        fans->steps += inner->part_count;
        for (uint32_t i = 0; good && i < inner->part_count; i++) {
            if (inner->parts[i] & PART_IS_FAN)
                fans->open[count++] = inner->parts[i] & ~PART_IS_FAN;
            else
                good = take_exit(fans, fan, inner->parts[i]);
        }
    }
    return good;
}

/* Does the cause of this fan's failure make every fan around it fail, or this one? */
static bool fails_here_too(const struct tarn__fans *fans, const struct tarn__fan *inner,
                           const struct tarn__fan *fan)
{
    return inner->final ||
           (inner->why.rule == TARN_PRUNE_NOT_TAKEN &&
            !tarn__tree_above(&fans->dominators, fan->head, inner->why.block));
}

/* A block without a decref, visited for the first time: is it the head of a known fan? */
static bool pass(struct tarn__fans *fans, struct tarn__fan *fan, uint32_t block)
{
    uint32_t index = fans->fan_of[block];
    const struct tarn__fan *inner = index == TARN__NONE ? NULL : &fans->fans[index];

    fans->entered[fans->entered_count++] = block;
    if (fans->cfg->first_out[block] == fans->cfg->first_out[block + 1])
        return refuse(fan, TARN_PRUNE_NOT_RELEASED, block, true);
    if (inner && inner->known && inner->holds)
        return take_over(fans, fan, index);
    if (inner && inner->known && fails_here_too(fans, inner, fan))
        return refuse(fan, inner->why.rule, inner->why.block, inner->final);
    go_through(fans, block);
    return true;
}

/* A path leads from the head to this block. */
static bool meet(struct tarn__fans *fans, struct tarn__fan *fan, uint32_t block)
{
    fans->steps++;
    if (block == fan->head)
        return refuse(fan, TARN_PRUNE_TAKEN_AGAIN, block, false);
    if (fans->seen[block] == fans->search)
        return true;
    fans->seen[block] = fans->search;
    if (ends_in_raise(fans, block)) {
        fan->raises = true;
        return true;
    }
    if (!tarn__tree_above(&fans->dominators, fan->head, block))
        return refuse(fan, TARN_PRUNE_NOT_TAKEN, block, false);
    if (fans->view->decrefs_in[block] == 0)
        return pass(fans, fan, block);
    fans->entered[fans->entered_count++] = block;
    add_part(fans, fan, block, 1);
    return true;
}

static bool meet_targets(struct tarn__fans *fans, struct tarn__fan *fan, uint32_t block)
{
    const struct tarn__cfg *cfg = fans->cfg;
    bool good = true;

    for (size_t i = cfg->first_out[block]; good && i < cfg->first_out[block + 1]; i++)
        good = meet(fans, fan, cfg->targets[i]);
    return good;
}

/* A path into the fan that does not come from its head comes from behind an exit: the
 * head dominates the block that it enters. */
static bool only_head_leads_in(struct tarn__fans *fans, struct tarn__fan *fan)
{
    const struct tarn__cfg *cfg = fans->cfg;

    for (uint32_t n = 0; n < fans->entered_count; n++) {
        uint32_t block = fans->entered[n];
        for (size_t i = cfg->first_in[block]; i < cfg->first_in[block + 1]; i++) {
            uint32_t source = cfg->sources[i];
            fans->steps++;
            if (source != fan->head && fans->inside[source] != fans->search &&
                tarn__tree_reached(&fans->dominators, source))
                return refuse(fan, TARN_PRUNE_RELEASED_AGAIN, source, true);
        }
    }
    return true;
}

static bool search(struct tarn__fans *fans, struct tarn__fan *fan)
{
    bool good;

    if (fans->cyclic[fan->head])
        return refuse(fan, TARN_PRUNE_TAKEN_AGAIN, fan->head, false);
    if (fans->cfg->first_out[fan->head] == fans->cfg->first_out[fan->head + 1])
        return refuse(fan, TARN_PRUNE_NOT_RELEASED, fan->head, true);
    good = meet_targets(fans, fan, fan->head);
    while (good && fans->depth > 0) {
        if (fans->steps > fans->most_steps)
            return refuse(fan, TARN_PRUNE_TOO_LARGE, fan->head, true);
        good = meet_targets(fans, fan, fans->stack[--fans->depth]);
    }
    if (good && fan->exit_count == 0)
        return refuse(fan, TARN_PRUNE_NOT_RELEASED, TARN__NONE, true);
    return good && only_head_leads_in(fans, fan);
}

static bool keep_parts(struct tarn__fans *fans, struct tarn__fan *fan)
{
    fan->parts = TARN__TAKE(&fans->arena, uint32_t, fans->found_count);
    if (!fan->parts) {
        fans->view->pruning->arena.failed = true;
        return false;
    }
    memcpy(fan->parts, fans->found, fans->found_count * sizeof *fan->parts);
    fan->part_count = fans->found_count;
    return true;
}

struct tarn__fan *tarn__fan_find(struct tarn__fans *fans, struct tarn__fan *fan)
{
    if (fan->known && (!fan->holds || fan->age == fans->freed))
        return fan;
    *fan = (struct tarn__fan){.head = fan->head, .known = true, .age = fans->freed};
    fans->search++;
    fans->depth = 0;
    fans->entered_count = fans->found_count = 0;
    fans->loud_raise = TARN__NONE;
    fan->holds = search(fans, fan) && keep_parts(fans, fan);
    if (!fan->holds && fan->why.rule == TARN_PRUNE_TOO_LARGE)
        fans->view->pruning->report.gave_up++;
    return fan;
}

uint32_t tarn__fan_loud_raise(struct tarn__fans *fans, struct tarn__fan *fan)
{
    fan->known = false;
    fans->explaining = true;
    tarn__fan_find(fans, fan);
    fans->explaining = false;
    return fans->loud_raise;
}

uint32_t *tarn__fan_exits(struct tarn__fans *fans, const struct tarn__fan *fan,
                          uint32_t *count_out)
{
    uint32_t *exits = fans->found, *open = fans->stack;
    size_t depth = 0;
    uint32_t count = 0;

    open[depth++] = (uint32_t)(fan - fans->fans);
    while (depth > 0) {
        const struct tarn__fan *at = &fans->fans[open[--depth]];
        fans->steps += at->part_count;
        for (uint32_t i = 0; i < at->part_count; i++) {
            if (at->parts[i] & PART_IS_FAN)
                open[depth++] = at->parts[i] & ~PART_IS_FAN;
            else
                exits[count++] = at->parts[i];
        }
    }
    *count_out = count;
    return exits;
}
