/* fanout_region.c -- fan-out regions: the paths from a block to the first decrefs behind
 * it. */
#include "prune/fanout_region.h"
#include "prune/raise_metadata.h"
#include <stdlib.h>
#include <string.h>

#define PART_IS_REGION \
    (UINT32_C(1) << 31) /* the other bits are the index of the region */

/* A region of up to this many parts is expanded by the regions around it. */
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

static bool has_incref(const struct tarn__function_index *function_index, uint32_t block)
{
    for (uint32_t i = function_index->first_refop[block];
         i < function_index->first_refop[block + 1]; i++)
        if (function_index->refops[i].incref && function_index->refops[i].call)
            return true;
    return false;
}

/* One region for each reachable block with an incref, in the order in which a walk of the
 * dominator tree enters them: an inner region comes after the regions around it. */
static bool list_regions(struct tarn__fanout_regions *regions)
{
    const struct tarn__function_index *function_index = regions->function_index;
    struct tarn__arena *arena = &function_index->pruning->arena;
    uint64_t *heads = TARN__TAKE(arena, uint64_t, function_index->block_count);

    regions->region_of = TARN__TAKE(arena, uint32_t, function_index->block_count);
    if (arena->failed)
        return false;
    for (uint32_t b = 0; b < function_index->block_count; b++) {
        regions->region_of[b] = TARN__NONE;
        if (tarn__dominators_tree_reached(&regions->dominators, b) &&
            has_incref(function_index, b))
            heads[regions->region_count++] =
                (uint64_t)regions->dominators.enter[b] << 32 | b;
    }
    qsort(heads, regions->region_count, sizeof *heads, by_depth);
    regions->regions =
        TARN__TAKE(arena, struct tarn__fanout_region, regions->region_count);
    regions->open = TARN__TAKE(arena, uint32_t, regions->region_count);
    if (arena->failed)
        return false;
    for (uint32_t i = 0; i < regions->region_count; i++) {
        regions->regions[i].head = (uint32_t)heads[i];
        regions->region_of[regions->regions[i].head] = i;
    }
    return true;
}

/* Did the original function release something in this block? */
static bool released(const struct tarn__function_index *function_index, uint32_t block)
{
    for (uint32_t i = function_index->first_refop[block];
         i < function_index->first_refop[block + 1]; i++)
        if (!function_index->refops[i].incref &&
            !LLVMIsAConstantPointerNull(function_index->refops[i].value))
            return true;
    return false;
}

/* Find the blocks that lead to no decref. All original decrefs count. Code that raises
 * and still releases keeps its own accounting, whatever part of it could be removed. */
static void find_releasing_blocks(struct tarn__fanout_regions *regions)
{
    const struct tarn__cfg *cfg = regions->cfg;
    size_t depth = 0;

    for (uint32_t b = 0; b < cfg->blocks; b++) {
        regions->releases_nothing[b] = !released(regions->function_index, b);
        if (!regions->releases_nothing[b])
            regions->stack[depth++] = b;
    }
    while (depth > 0) {
        uint32_t block = regions->stack[--depth];
        for (size_t i = cfg->first_in[block]; i < cfg->first_in[block + 1]; i++) {
            uint32_t source = cfg->sources[i];
            if (!regions->releases_nothing[source])
                continue;
            regions->releases_nothing[source] = false;
            regions->stack[depth++] = source;
        }
    }
}

/* Find the releasing calls behind each block that leads to no decref. */
static void find_calls_behind(struct tarn__fanout_regions *regions)
{
    const struct tarn__cfg *cfg = regions->cfg;
    size_t depth = 0;

    for (uint32_t b = 0; b < cfg->blocks; b++) {
        if (!regions->releases_nothing[b] || regions->function_index->calls_in[b] == 0)
            continue;
        regions->call_from[b] = b + 1;
        regions->stack[depth++] = b;
    }
    while (depth > 0) {
        uint32_t block = regions->stack[--depth];
        for (size_t i = cfg->first_in[block]; i < cfg->first_in[block + 1]; i++) {
            uint32_t source = cfg->sources[i];
            if (!regions->releases_nothing[source] || regions->call_from[source] != 0)
                continue;
            regions->call_from[source] = regions->call_from[block];
            regions->stack[depth++] = source;
        }
    }
}

bool tarn__fanout_region_open(struct tarn__fanout_regions *regions,
                              struct tarn__function_index *function_index,
                              const struct tarn__cfg *cfg)
{
    struct tarn__arena *arena = &function_index->pruning->arena;
    uint32_t blocks = cfg->blocks;

    *regions = (struct tarn__fanout_regions){
        .function_index = function_index,
        .cfg = cfg,
        .releases_nothing = TARN__TAKE(arena, bool, blocks),
        .call_from = TARN__TAKE(arena, uint32_t, blocks),
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
    find_releasing_blocks(regions);
    find_calls_behind(regions);
    return tarn__dominators_find(&regions->dominators, cfg, arena) &&
           tarn__cycles_open(&regions->cycles, blocks, arena) && list_regions(regions);
}

void tarn__fanout_region_close(struct tarn__fanout_regions *regions)
{
    struct tarn__arena *arena = &regions->function_index->pruning->arena;
    size_t both = arena->held_bytes + regions->arena.peak_bytes;

    tarn__arena_free(&regions->arena);
    if (both > arena->peak_bytes)
        arena->peak_bytes = both;
}

void tarn__fanout_region_renew(struct tarn__fanout_regions *regions)
{
    tarn__arena_reset(&regions->arena);
    for (uint32_t i = 0; i < regions->region_count; i++)
        regions->regions[i] =
            (struct tarn__fanout_region){.head = regions->regions[i].head};
    tarn__cycles_find(&regions->cycles, regions->cfg, regions->function_index->decrefs_in,
                      regions->cyclic);
    regions->steps += regions->cfg->edges + regions->cfg->blocks;
}

/* --- one search --------------------------------------------------------------------- */

static bool reject_region(struct tarn__fanout_region *region, tarn_prune_rule rule,
                          uint32_t block, bool final)
{
    region->why = tarn__verdict_reject(rule, block);
    region->final = final;
    return false;
}

/* Does a path end at this block, by a raise that releases nothing? */
static bool ends_in_raise(struct tarn__fanout_regions *regions, uint32_t block)
{
    if (!(regions->function_index->pruning->options.shapes & TARN_PRUNE_FANOUT_RAISE))
        return false;
    if (regions->releases_nothing[block])
        return tarn__raise_metadata_block_raises(regions->function_index, block);
    if (regions->explaining && regions->releasing_raise == TARN__NONE &&
        regions->function_index->decrefs_in[block] == 0 &&
        tarn__raise_metadata_block_raises(regions->function_index, block))
        regions->releasing_raise = block;
    return false;
}

static void add_part(struct tarn__fanout_regions *regions,
                     struct tarn__fanout_region *region, uint32_t part, uint32_t exits)
{
    regions->found[regions->found_count++] = part;
    region->exit_count += exits;
}

/* The paths of the region lead through this block. */
static void note_call(const struct tarn__fanout_regions *regions,
                      struct tarn__fanout_region *region, uint32_t block)
{
    if (region->call == TARN__NONE && regions->function_index->calls_in[block] > 0)
        region->call = block;
}

/* Continue behind this block later. */
static void go_through(struct tarn__fanout_regions *regions,
                       struct tarn__fanout_region *region, uint32_t block)
{
    note_call(regions, region, block);
    regions->inside[block] = regions->search;
    regions->stack[regions->depth++] = block;
}

/* Handle an exit of an inner region. If it has lost its decrefs since, paths continue
 * behind it. */
static bool take_exit(struct tarn__fanout_regions *regions,
                      struct tarn__fanout_region *region, uint32_t block)
{
    if (regions->seen[block] == regions->search)
        return true;
    regions->seen[block] = regions->search;
    if (regions->function_index->decrefs_in[block] > 0)
        add_part(regions, region, block, 1);
    else if (regions->cfg->first_out[block] == regions->cfg->first_out[block + 1])
        return reject_region(region, TARN_PRUNE_NOT_RELEASED, block, true);
    else
        go_through(regions, region, block);
    return true;
}

/* The exits of an inner region are exits of this one. Large regions stay one part, as
 * long as no block lost its decrefs since they were found. */
static bool take_over(struct tarn__fanout_regions *regions,
                      struct tarn__fanout_region *region, uint32_t index)
{
    uint32_t count = 0;
    bool good = true;

    region->raises |= regions->regions[index].raises;
    note_call(regions, region, regions->regions[index].head);
    if (region->call == TARN__NONE)
        region->call = regions->regions[index].call;
    regions->open[count++] = index;
    while (good && count > 0) {
        uint32_t at = regions->open[--count];
        const struct tarn__fanout_region *inner = &regions->regions[at];
        if (inner->age == regions->freed && inner->part_count > FEW_PARTS) {
            add_part(regions, region, PART_IS_REGION | at, inner->exit_count);
            continue;
        }
        regions->steps += inner->part_count;
        for (uint32_t i = 0; good && i < inner->part_count; i++) {
            if (inner->parts[i] & PART_IS_REGION)
                regions->open[count++] = inner->parts[i] & ~PART_IS_REGION;
            else
                good = take_exit(regions, region, inner->parts[i]);
        }
    }
    return good;
}

/* Does the cause of this region's failure make every region around it fail, or this one?
 */
static bool fails_here_too(const struct tarn__fanout_regions *regions,
                           const struct tarn__fanout_region *inner,
                           const struct tarn__fanout_region *region)
{
    return inner->final || (inner->why.rule == TARN_PRUNE_NOT_TAKEN &&
                            !tarn__dominators_tree_above(&regions->dominators,
                                                         region->head, inner->why.block));
}

/* A block without a decref, visited for the first time: is it the head of a known region?
 */
static bool pass(struct tarn__fanout_regions *regions, struct tarn__fanout_region *region,
                 uint32_t block)
{
    uint32_t index = regions->region_of[block];
    const struct tarn__fanout_region *inner =
        index == TARN__NONE ? NULL : &regions->regions[index];

    regions->entered[regions->entered_count++] = block;
    if (regions->cfg->first_out[block] == regions->cfg->first_out[block + 1])
        return reject_region(region, TARN_PRUNE_NOT_RELEASED, block, true);
    if (inner && inner->known && inner->holds)
        return take_over(regions, region, index);
    if (inner && inner->known && fails_here_too(regions, inner, region))
        return reject_region(region, inner->why.rule, inner->why.block, inner->final);
    go_through(regions, region, block);
    return true;
}

/* A path leads from the head to this block. */
static bool meet(struct tarn__fanout_regions *regions, struct tarn__fanout_region *region,
                 uint32_t block)
{
    regions->steps++;
    if (block == region->head)
        return reject_region(region, TARN_PRUNE_TAKEN_AGAIN, block, false);
    if (regions->seen[block] == regions->search)
        return true;
    regions->seen[block] = regions->search;
    if (ends_in_raise(regions, block)) {
        region->raises = true;
        if (region->call == TARN__NONE && regions->call_from[block] != 0)
            region->call = regions->call_from[block] - 1;
        return true;
    }
    if (!tarn__dominators_tree_above(&regions->dominators, region->head, block))
        return reject_region(region, TARN_PRUNE_NOT_TAKEN, block, false);
    if (regions->function_index->decrefs_in[block] == 0)
        return pass(regions, region, block);
    regions->entered[regions->entered_count++] = block;
    add_part(regions, region, block, 1);
    return true;
}

static bool meet_targets(struct tarn__fanout_regions *regions,
                         struct tarn__fanout_region *region, uint32_t block)
{
    const struct tarn__cfg *cfg = regions->cfg;
    bool good = true;

    for (size_t i = cfg->first_out[block]; good && i < cfg->first_out[block + 1]; i++)
        good = meet(regions, region, cfg->targets[i]);
    return good;
}

/* A path into the region that does not come from its head comes from behind an exit: the
 * head dominates the block that it enters. */
static bool only_head_leads_in(struct tarn__fanout_regions *regions,
                               struct tarn__fanout_region *region)
{
    const struct tarn__cfg *cfg = regions->cfg;

    for (uint32_t n = 0; n < regions->entered_count; n++) {
        uint32_t block = regions->entered[n];
        for (size_t i = cfg->first_in[block]; i < cfg->first_in[block + 1]; i++) {
            uint32_t source = cfg->sources[i];
            regions->steps++;
            if (source != region->head && regions->inside[source] != regions->search &&
                tarn__dominators_tree_reached(&regions->dominators, source))
                return reject_region(region, TARN_PRUNE_RELEASED_AGAIN, source, true);
        }
    }
    return true;
}

static bool search(struct tarn__fanout_regions *regions,
                   struct tarn__fanout_region *region)
{
    bool good;

    if (regions->cyclic[region->head])
        return reject_region(region, TARN_PRUNE_TAKEN_AGAIN, region->head, false);
    if (regions->cfg->first_out[region->head] ==
        regions->cfg->first_out[region->head + 1])
        return reject_region(region, TARN_PRUNE_NOT_RELEASED, region->head, true);
    good = meet_targets(regions, region, region->head);
    while (good && regions->depth > 0) {
        if (regions->steps > regions->most_steps)
            return reject_region(region, TARN_PRUNE_TOO_LARGE, region->head, true);
        good = meet_targets(regions, region, regions->stack[--regions->depth]);
    }
    if (good && region->exit_count == 0)
        return reject_region(region, TARN_PRUNE_NOT_RELEASED, TARN__NONE, true);
    return good && only_head_leads_in(regions, region);
}

static bool keep_parts(struct tarn__fanout_regions *regions,
                       struct tarn__fanout_region *region)
{
    region->parts = TARN__TAKE(&regions->arena, uint32_t, regions->found_count);
    if (!region->parts) {
        regions->function_index->pruning->arena.failed = true;
        return false;
    }
    memcpy(region->parts, regions->found, regions->found_count * sizeof *region->parts);
    region->part_count = regions->found_count;
    return true;
}

struct tarn__fanout_region *tarn__fanout_region_find(struct tarn__fanout_regions *regions,
                                                     struct tarn__fanout_region *region)
{
    if (region->known && (!region->holds || region->age == regions->freed))
        return region;
    *region = (struct tarn__fanout_region){
        .head = region->head, .known = true, .call = TARN__NONE, .age = regions->freed};
    regions->search++;
    regions->depth = 0;
    regions->entered_count = regions->found_count = 0;
    regions->releasing_raise = TARN__NONE;
    region->holds = search(regions, region) && keep_parts(regions, region);
    if (!region->holds && region->why.rule == TARN_PRUNE_TOO_LARGE)
        regions->function_index->pruning->report.gave_up++;
    return region;
}

uint32_t tarn__fanout_region_releasing_raise(struct tarn__fanout_regions *regions,
                                             struct tarn__fanout_region *region)
{
    region->known = false;
    regions->explaining = true;
    tarn__fanout_region_find(regions, region);
    regions->explaining = false;
    return regions->releasing_raise;
}

uint32_t *tarn__fanout_region_exits(struct tarn__fanout_regions *regions,
                                    const struct tarn__fanout_region *region,
                                    uint32_t *count_out)
{
    uint32_t *exits = regions->found, *open = regions->stack;
    size_t depth = 0;
    uint32_t count = 0;

    open[depth++] = (uint32_t)(region - regions->regions);
    while (depth > 0) {
        const struct tarn__fanout_region *at = &regions->regions[open[--depth]];
        regions->steps += at->part_count;
        for (uint32_t i = 0; i < at->part_count; i++) {
            if (at->parts[i] & PART_IS_REGION)
                open[depth++] = at->parts[i] & ~PART_IS_REGION;
            else
                exits[count++] = at->parts[i];
        }
    }
    *count_out = count;
    return exits;
}
