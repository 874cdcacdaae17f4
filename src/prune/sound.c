/* sound.c -- pairs across blocks, by sound rules that hold for every program.
 *
 * Take an incref and one decref of the same value in each exit of its block's region
 * (fanout_region.h). Whenever the incref runs, one of the decrefs runs before it runs
 * again, and none of them runs otherwise. Without them the object's count is lower by
 * one in between, and nowhere else. The count was at least one before the incref, as no
 * code may count a dead object. From there to the exits nothing counts down. So the
 * object lives as long as before, except for what happens in an exit before its decref.
 * tail_decref.h checks that. A call in between may count down unseen (release.h); then
 * another reference has to keep the object (keeper.h).
 *
 * A path may end at a raise instead of an exit. Compiled code releases nothing when it
 * raises: its references leak. Without the incref this reference does not leak any more.
 * The rule does not apply if anything is released behind the raise, as in an `except`
 * clause. Nor does it apply where the reference may have been taken for another owner,
 * which keeps it (ownership.h).
 */
#include "prune/sound.h"

/* Nested pairs need one sweep per level, outside first; few functions have more levels.
 */
enum { SWEEPS_OUTSIDE_FIRST = 8 };

bool tarn__sound_open(struct tarn__sound *sound,
                      struct tarn__function_index *function_index,
                      const struct tarn__cfg *cfg)
{
    sound->function_index = function_index;
    return tarn__fanout_region_open(&sound->regions, function_index, cfg) &&
           tarn__tail_decref_open(&sound->tail_decrefs, function_index) &&
           tarn__ownership_open(&sound->ownership, &sound->regions) &&
           tarn__keeper_open(&sound->keeper, function_index, cfg);
}

void tarn__sound_close(struct tarn__sound *sound)
{
    tarn__fanout_region_close(&sound->regions);
}

/* --- may this incref be removed?
 * --------------------------------------------------------- */

/* The requested shape that a region has; 0 if it has none of them. */
static unsigned shape_of(const struct tarn__sound *sound,
                         const struct tarn__fanout_region *region)
{
    unsigned wanted = sound->function_index->pruning->options.shapes;

    if (region->raises)
        return wanted & TARN_PRUNE_FANOUT_RAISE;
    if (region->exit_count == 1 && wanted & TARN_PRUNE_DIAMOND)
        return TARN_PRUNE_DIAMOND;
    return wanted & TARN_PRUNE_FANOUT;
}

static struct tarn__verdict check_exit(struct tarn__sound *sound, uint32_t value,
                                       uint32_t exit)
{
    uint32_t decref = tarn__function_index_decref(sound->function_index, value, exit);

    if (decref == TARN__NONE)
        return tarn__verdict_reject(TARN_PRUNE_OTHER_DECREF, exit);
    if (tarn__tail_decref_is_blocked(&sound->tail_decrefs, decref))
        return tarn__verdict_reject(TARN_PRUNE_USED_IN_BETWEEN, exit);
    return tarn__verdict_allow();
}

/* A block with a releasing call between the incref and its decrefs, or behind a raise; or
 * TARN__NONE. */
static uint32_t block_with_call(struct tarn__sound *sound, uint32_t incref,
                                const struct tarn__fanout_region *region,
                                const uint32_t *exits, uint32_t count)
{
    struct tarn__function_index *function_index = sound->function_index;
    const struct tarn__refop *refop = &function_index->refops[incref];

    if (refop->calls_before < function_index->calls_in[refop->block])
        return refop->block;
    for (uint32_t i = 0; i < count && region->call == TARN__NONE; i++)
        if (function_index
                ->refops[tarn__function_index_decref(function_index, refop->value_number,
                                                     exits[i])]
                .calls_before > 0)
            return exits[i];
    return region->call;
}

/* Does each exit have a removable decref of the value, does no call on the way release it,
 * and is that right where paths raise? */
static struct tarn__verdict check_region(struct tarn__sound *sound, uint32_t incref,
                                         const struct tarn__fanout_region *region,
                                         const uint32_t *exits, uint32_t count)
{
    uint32_t value = sound->function_index->refops[incref].value_number;
    struct tarn__verdict verdict = tarn__verdict_allow();

    for (uint32_t i = 0; i < count && verdict.allowed; i++)
        verdict = check_exit(sound, value, exits[i]);
    sound->regions.steps += count;
    if (!verdict.allowed)
        return verdict;
    uint32_t where = block_with_call(sound, incref, region, exits, count);
    if (where != TARN__NONE && (tarn__ownership_is_stored(&sound->ownership, incref) ||
                                !tarn__keeper_holds(&sound->keeper, incref)))
        return tarn__verdict_reject(TARN_PRUNE_RELEASING_CALL, where);
    if (!region->raises)
        return verdict;
    if (sound->regions.steps > sound->regions.most_steps) {
        sound->function_index->pruning->report.gave_up++;
        return tarn__verdict_reject(TARN_PRUNE_TOO_LARGE, region->head);
    }
    where = tarn__ownership_transferred(&sound->ownership, region, incref);
    return where == TARN__NONE
               ? verdict
               : tarn__verdict_reject(TARN_PRUNE_OWNERSHIP_TRANSFERRED, where);
}

static uint32_t decrefs_of(const struct tarn__function_index *function_index,
                           uint32_t value)
{
    return function_index->first_place[value + 1] - function_index->first_place[value];
}

/* --- removing
 * ------------------------------------------------------------------------------ */

static void remove_decref(struct tarn__sound *sound, uint32_t value, uint32_t exit)
{
    tarn__function_index_remove(
        sound->function_index,
        tarn__function_index_decref(sound->function_index, value, exit));
    if (sound->function_index->decrefs_in[exit] == 0)
        sound->regions.freed++;
}

static void take(struct tarn__sound *sound, uint32_t incref, const uint32_t *exits,
                 uint32_t count, unsigned shape)
{
    tarn_prune_report *report = &sound->function_index->pruning->report;

    tarn__function_index_remove(sound->function_index, incref);
    for (uint32_t i = 0; i < count; i++)
        remove_decref(sound, sound->function_index->refops[incref].value_number,
                      exits[i]);
    if (shape == TARN_PRUNE_DIAMOND)
        report->diamond += count + 1;
    else if (shape == TARN_PRUNE_FANOUT)
        report->fanout += count + 1;
    else
        report->fanout_raise += count + 1;
}

/* Remove all removable increfs of one head. */
static bool prune_head(struct tarn__sound *sound, struct tarn__fanout_region *region)
{
    struct tarn__function_index *function_index = sound->function_index;
    unsigned shape = shape_of(sound, region);
    uint32_t before = function_index->removed, count = 0;
    const uint32_t *exits = NULL;

    for (uint32_t i = function_index->first_refop[region->head];
         shape && i < function_index->first_refop[region->head + 1]; i++) {
        uint32_t value = function_index->refops[i].value_number;
        if (!function_index->refops[i].incref || !function_index->refops[i].call ||
            decrefs_of(function_index, value) < region->exit_count)
            continue;
        if (!exits)
            exits = tarn__fanout_region_exits(&sound->regions, region, &count);
        if (check_region(sound, i, region, exits, count).allowed)
            take(sound, i, exits, count, shape);
    }
    return function_index->removed != before;
}

/* The region at this place in the list, if pairs may be removed from its head. */
static struct tarn__fanout_region *region_at(struct tarn__sound *sound, uint32_t index)
{
    struct tarn__fanout_region *region = &sound->regions.regions[index];

    if (sound->function_index->decrefs_in[region->head] > 0 ||
        !tarn__fanout_region_find(&sound->regions, region)->holds)
        return NULL;
    return region;
}

/* Find all regions from the inside out, then remove from the outside in. Of two increfs
 * that need the same decref, the one with more paths behind it gets it. */
static bool sweep_outside_first(struct tarn__sound *sound)
{
    struct tarn__fanout_regions *regions = &sound->regions;
    bool changed = false;

    for (uint32_t i = regions->region_count; i-- > 0;)
        region_at(sound, i);
    for (uint32_t i = 0; i < regions->region_count; i++)
        if (regions->regions[i].holds)
            changed |= prune_head(sound, &regions->regions[i]);
    return changed;
}

/* Find and remove from the inside out: nested pairs are removed in one sweep, at any
 * depth. */
static bool sweep_inside_first(struct tarn__sound *sound)
{
    bool changed = false;

    for (uint32_t i = sound->regions.region_count; i-- > 0;) {
        struct tarn__fanout_region *region = region_at(sound, i);
        if (!region || !prune_head(sound, region))
            continue;
        changed = true;
        tarn__fanout_region_find(&sound->regions,
                                 region); /* its exits may be different now */
    }
    return changed;
}

/* Remove the pairs within a block around a releasing call whose object is kept. */
static void prune_kept_in_blocks(struct tarn__sound *sound)
{
    struct tarn__function_index *function_index = sound->function_index;

    for (uint32_t i = function_index->refop_count; i-- > 0;) {
        if (!function_index->refops[i].incref || !function_index->refops[i].call)
            continue;
        uint32_t decref = tarn__function_index_decref_behind(function_index, i);
        if (decref == TARN__NONE || !tarn__keeper_holds(&sound->keeper, i))
            continue;
        tarn__function_index_remove(function_index, i);
        tarn__function_index_remove(function_index, decref);
        function_index->pruning->report.per_block += 2;
    }
}

bool tarn__sound_prune(struct tarn__sound *sound)
{
    struct tarn__fanout_regions *regions = &sound->regions;
    bool changed = true;

    if (sound->function_index->pruning->options.shapes & TARN_PRUNE_PER_BLOCK)
        prune_kept_in_blocks(sound);
    for (int sweep = 0; changed && regions->steps <= regions->most_steps; sweep++) {
        tarn__fanout_region_renew(regions);
        tarn__tail_decref_renew(&sound->tail_decrefs);
        changed = sweep < SWEEPS_OUTSIDE_FIRST ? sweep_outside_first(sound)
                                               : sweep_inside_first(sound);
    }
    return !sound->function_index->pruning->arena.failed;
}

/* --- explaining --------------------------------------------------------------------- */

/* The reason for a block with a decref: that of the incref's own stays if a call is
 * between the two. */
static struct tarn__verdict explain_decref_beside(
    struct tarn__function_index *function_index, uint32_t incref)
{
    const struct tarn__refop *refop = &function_index->refops[incref];
    uint32_t decref = tarn__function_index_decref_behind(function_index, incref);
    bool around_call = decref != TARN__NONE &&
                       function_index->refops[decref].calls_before > refop->calls_before;
    struct tarn__verdict verdict = tarn__verdict_reject(
        around_call ? TARN_PRUNE_RELEASING_CALL : TARN_PRUNE_DECREF_BESIDE, refop->block);

    if (around_call)
        verdict.instruction =
            tarn__function_index_call(function_index, refop->block, refop->calls_before);
    return verdict;
}

struct tarn__verdict tarn__sound_explain(struct tarn__sound *sound, uint32_t incref)
{
    struct tarn__function_index *function_index = sound->function_index;
    uint32_t block = function_index->refops[incref].block,
             value = function_index->refops[incref].value_number;
    uint32_t count;

    if (!tarn__dominators_tree_reached(&sound->regions.dominators, block))
        return tarn__verdict_reject(TARN_PRUNE_NOT_REACHED, block);
    if (function_index->decrefs_in[block] > 0)
        return explain_decref_beside(function_index, incref);
    struct tarn__fanout_region *region =
        &sound->regions.regions[sound->regions.region_of[block]];
    if (!tarn__fanout_region_find(&sound->regions, region)->holds)
        return region->why;
    if (!shape_of(sound, region))
        return tarn__verdict_reject(TARN_PRUNE_NO_SHAPE, TARN__NONE);
    const uint32_t *exits = tarn__fanout_region_exits(&sound->regions, region, &count);
    struct tarn__verdict verdict = check_region(sound, incref, region, exits, count);
    if (!verdict.allowed && verdict.rule == TARN_PRUNE_OTHER_DECREF) {
        uint32_t raise = tarn__fanout_region_releasing_raise(&sound->regions, region);
        if (raise != TARN__NONE)
            return tarn__verdict_reject(TARN_PRUNE_RELEASED_AFTER_RAISE, raise);
    }
    if (!verdict.allowed && verdict.rule == TARN_PRUNE_USED_IN_BETWEEN)
        verdict.instruction = tarn__tail_decref_use(
            &sound->tail_decrefs,
            tarn__function_index_decref(function_index, value, verdict.block));
    if (!verdict.allowed && verdict.rule == TARN_PRUNE_RELEASING_CALL)
        verdict.instruction = tarn__function_index_call(
            function_index, verdict.block,
            verdict.block == block ? function_index->refops[incref].calls_before : 0);
    return verdict;
}
