/* ownership.c -- ownership transfer: on a path that raises, may another owner hold the
 * reference? */
#include "prune/ownership.h"
#include "prune/raise_metadata.h"
#include <stdlib.h>

/* An incref during sorting. */
struct entry {
    uint32_t value, enter, refop;
};

static int in_order(const void *a, const void *b)
{
    const struct entry *left = a, *right = b;

    if (left->value != right->value)
        return left->value < right->value ? -1 : 1;
    return (left->enter > right->enter) - (left->enter < right->enter);
}

bool tarn__ownership_open(struct tarn__ownership *ownership,
                          struct tarn__fanout_regions *regions)
{
    const struct tarn__function_index *function_index = regions->function_index;
    struct tarn__arena *arena = &function_index->pruning->arena;
    struct entry *entries = TARN__TAKE(arena, struct entry, function_index->incref_count);
    uint32_t count = 0;

    *ownership = (struct tarn__ownership){
        .regions = regions,
        .increfs = TARN__TAKE(arena, uint32_t, function_index->incref_count),
        .before_raise = TARN__TAKE(arena, bool, function_index->block_count),
        .stored = TARN__TAKE(arena, unsigned char, function_index->value_count),
        .next = TARN__TAKE(arena, uint32_t, function_index->incref_count),
        .first = TARN__TAKE(arena, uint32_t, (size_t)function_index->value_count + 1),
    };
    if (arena->failed)
        return false;
    for (uint32_t i = 0; i < function_index->refop_count; i++) {
        const struct tarn__refop *refop = &function_index->refops[i];
        if (refop->incref && refop->call)
            entries[count++] = (struct entry){refop->value_number,
                                              regions->dominators.enter[refop->block], i};
    }
    if (count > 0)
        qsort(entries, count, sizeof *entries, in_order);
    for (uint32_t i = 0; i < count; i++) {
        ownership->increfs[i] = entries[i].refop;
        ownership->next[i] = i + 1;
        ownership->first[entries[i].value + 1]++;
    }
    for (uint32_t v = 0; v < function_index->value_count; v++)
        ownership->first[v + 1] += ownership->first[v];
    return true;
}

static uint32_t enter_of(const struct tarn__ownership *ownership, uint32_t place)
{
    const struct tarn__function_index *function_index =
        ownership->regions->function_index;

    return ownership->regions->dominators
        .enter[function_index->refops[ownership->increfs[place]].block];
}

static bool is_gone(const struct tarn__ownership *ownership, uint32_t place)
{
    return ownership->regions->function_index->refops[ownership->increfs[place]].call ==
           NULL;
}

/* The first place from here on whose incref still exists, or `end`. */
static uint32_t next_place(struct tarn__ownership *ownership, uint32_t place,
                           uint32_t end)
{
    uint32_t *next = ownership->next;

    while (place < end && is_gone(ownership, place)) {
        if (next[place] < end && is_gone(ownership, next[place]))
            next[place] = next[next[place]]; /* shorten the path for later calls */
        place = next[place];
    }
    return place < end ? place : end;
}

/* Does an incref of the value still exist in a block that the walk of the dominator tree
 * enters from `enter` to `leave`? */
static bool is_taken(struct tarn__ownership *ownership, uint32_t value, uint32_t enter,
                     uint32_t leave)
{
    uint32_t low = ownership->first[value], end = ownership->first[value + 1], high = end;

    while (low < high) { /* the first that does not come before `enter` */
        uint32_t middle = low + (high - low) / 2;
        if (enter_of(ownership, middle) < enter)
            low = middle + 1;
        else
            high = middle;
    }
    low = next_place(ownership, low, end);
    return low < end && enter_of(ownership, low) <= leave;
}

/* Does this block of the region shift references? If it is no exit, continue behind it
 * later. A block that leads to no decref is on no path to an exit. */
static bool shifts(struct tarn__ownership *ownership, uint32_t value, uint32_t block)
{
    struct tarn__fanout_regions *regions = ownership->regions;
    uint32_t enter = regions->dominators.enter[block];

    regions->steps++;
    if (regions->seen[block] == regions->search || regions->releases_nothing[block])
        return false;
    regions->seen[block] = regions->search;
    if (is_taken(ownership, value, enter, enter))
        return true;
    if (regions->function_index->decrefs_in[block] > 0)
        return false;
    regions->stack[regions->depth++] = block;
    return tarn__function_index_had_decref(regions->function_index, value, block);
}

static uint32_t walk(struct tarn__ownership *ownership,
                     const struct tarn__fanout_region *region, uint32_t value)
{
    struct tarn__fanout_regions *regions = ownership->regions;
    const struct tarn__cfg *cfg = regions->cfg;

    regions->search++;
    regions->depth = 0;
    regions->stack[regions->depth++] = region->head;
    while (regions->depth > 0) {
        uint32_t block = regions->stack[--regions->depth];
        for (size_t i = cfg->first_out[block]; i < cfg->first_out[block + 1]; i++)
            if (shifts(ownership, value, cfg->targets[i]))
                return cfg->targets[i];
    }
    return TARN__NONE;
}

/* --- is the value stored? -------------------------------------------------------------
 */

enum { STORED = 1, NOT_STORED = 2 };

/* Find the blocks that lead to a raise, or have one. */
static void find_before_raise(struct tarn__ownership *ownership)
{
    struct tarn__fanout_regions *regions = ownership->regions;
    const struct tarn__cfg *cfg = regions->cfg;
    bool *before_raise = ownership->before_raise;
    size_t depth = 0;

    for (uint32_t b = 0; b < cfg->blocks; b++) {
        before_raise[b] = tarn__raise_metadata_block_raises(regions->function_index, b);
        if (before_raise[b])
            regions->stack[depth++] = b;
    }
    while (depth > 0) {
        uint32_t block = regions->stack[--depth];
        for (size_t i = cfg->first_in[block]; i < cfg->first_in[block + 1]; i++) {
            uint32_t source = cfg->sources[i];
            if (before_raise[source])
                continue;
            before_raise[source] = true;
            regions->stack[depth++] = source;
        }
    }
}

static bool is_before_raise(struct tarn__ownership *ownership, LLVMValueRef instruction)
{
    LLVMBasicBlockRef block = LLVMGetInstructionParent(instruction);

    if (!ownership->know_before_raise)
        find_before_raise(ownership);
    ownership->know_before_raise = true;
    return ownership->before_raise[tarn__cfg_number(ownership->regions->cfg, block)];
}

static bool has_use_that_stores(struct tarn__ownership *ownership, LLVMValueRef value,
                                bool is_cast);

/* Can the reference leave the function through this use before a raise, or continue under
 * another name? */
static bool use_stores(struct tarn__ownership *ownership, LLVMValueRef user,
                       LLVMValueRef value, bool is_cast)
{
    switch (LLVMGetInstructionOpcode(user)) {
    case LLVMCall: /* a callee may borrow it, and counts for itself if it keeps it */
    case LLVMLoad:
    case LLVMICmp:
    case LLVMGetElementPtr:
        return false;
    case LLVMStore:
        return LLVMGetOperand(user, 0) == value && is_before_raise(ownership, user);
    case LLVMBitCast: /* where pointers have types */
        if (!is_cast)
            return has_use_that_stores(ownership, user, true);
        break;
    default:
        break;
    }
    return is_before_raise(ownership, user);
}

static bool has_use_that_stores(struct tarn__ownership *ownership, LLVMValueRef value,
                                bool is_cast)
{
    for (LLVMUseRef use = LLVMGetFirstUse(value); use; use = LLVMGetNextUse(use))
        if (use_stores(ownership, LLVMGetUser(use), value, is_cast))
            return true;
    return false;
}

static bool is_stored(struct tarn__ownership *ownership, uint32_t number,
                      LLVMValueRef value)
{
    if (ownership->stored[number] == 0) {
        bool local = LLVMIsAInstruction(value) || LLVMIsAArgument(value);
        bool stored = !local || has_use_that_stores(ownership, value, false);
        ownership->stored[number] = stored ? STORED : NOT_STORED;
    }
    return ownership->stored[number] == STORED;
}

uint32_t tarn__ownership_transferred(struct tarn__ownership *ownership,
                                     const struct tarn__fanout_region *region,
                                     uint32_t incref)
{
    const struct tarn__refop *refop = &ownership->regions->function_index->refops[incref];

    if (!is_stored(ownership, refop->value_number, refop->value))
        return TARN__NONE;
    return walk(ownership, region, refop->value_number);
}
