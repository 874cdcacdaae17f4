/* ownership.c -- ownership transfer: on a path that raises, may another owner hold the
 * reference? */
#include "prune/ownership.h"
#include "prune/raise_metadata.h"
#include <stdlib.h>
#include <string.h>

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
        .leads = TARN__TAKE(arena, bool, function_index->block_count),
        .stored_in = TARN__TAKE(arena, uint32_t, function_index->block_count),
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

/* --- where is the value stored?
 * ------------------------------------------------------ */

/* Bits of `stored`. */
enum {
    KNOWN = 1,
    BEFORE_RAISE = 2, /* in a block that leads to a raise, or has one */
    IN_DEAD_END = 4,  /* in a block that leads to no decref */
    ANYWHERE = 8      /* under this name */
};

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

bool tarn__ownership_may_store(LLVMValueRef user, LLVMValueRef value)
{
    switch (LLVMGetInstructionOpcode(user)) {
    case LLVMCall: /* a callee may borrow it, and counts for itself if it keeps it */
    case LLVMLoad:
    case LLVMICmp:
    case LLVMGetElementPtr:
        return false;
    case LLVMStore:
        return LLVMGetOperand(user, 0) == value;
    default:
        return true;
    }
}

static bool merges(LLVMValueRef user)
{
    LLVMOpcode opcode = LLVMGetInstructionOpcode(user);

    return opcode == LLVMPHI || opcode == LLVMSelect;
}

/* Does the reference stay in the function, or leave it at its end? A phi takes it over, and
 * a select that was a phi once. Their results may give it away. Where those are merged
 * again, they count as if they did. */
static bool goes_on(struct tarn__ownership *ownership, LLVMValueRef user)
{
    if (!merges(user))
        return LLVMGetInstructionOpcode(user) == LLVMRet;
    for (LLVMUseRef use = LLVMGetFirstUse(user); use; use = LLVMGetNextUse(use)) {
        LLVMValueRef next = LLVMGetUser(use);
        ownership->regions->steps++;
        if (next != user && LLVMGetInstructionOpcode(next) != LLVMRet &&
            tarn__ownership_may_store(next, user))
            return false;
    }
    return true;
}

/* Find the blocks that lead to a decref of the value, one that was removed included. */
static void find_leads(struct tarn__ownership *ownership, uint32_t value)
{
    struct tarn__fanout_regions *regions = ownership->regions;
    const struct tarn__function_index *function_index = regions->function_index;
    const struct tarn__cfg *cfg = regions->cfg;
    size_t depth = 0;

    memset(ownership->leads, 0, cfg->blocks * sizeof *ownership->leads);
    regions->steps += cfg->blocks;
    for (uint32_t place = function_index->first_place[value];
         place < function_index->first_place[value + 1]; place++) {
        uint32_t block = function_index->refops[function_index->by_value[place]].block;
        if (!ownership->leads[block])
            regions->stack[depth++] = block;
        ownership->leads[block] = true;
    }
    while (depth > 0) {
        uint32_t block = regions->stack[--depth];
        for (size_t k = cfg->first_in[block]; k < cfg->first_in[block + 1]; k++) {
            uint32_t source = cfg->sources[k];
            if (!ownership->leads[source])
                regions->stack[depth++] = source;
            ownership->leads[source] = true;
        }
    }
}

/* Mark the blocks in which the value is stored that lead to no decref of it. Return the bits of
 * `stored`. */
static unsigned mark_stores(struct tarn__ownership *ownership, uint32_t number,
                            LLVMValueRef value, bool is_cast)
{
    struct tarn__fanout_regions *regions = ownership->regions;
    unsigned stored = KNOWN;

    for (LLVMUseRef use = LLVMGetFirstUse(value); use; use = LLVMGetNextUse(use)) {
        LLVMValueRef user = LLVMGetUser(use);
        regions->steps++;
        if (LLVMGetInstructionOpcode(user) == LLVMBitCast && !is_cast) {
            stored |= mark_stores(ownership, number, user, true); /* typed pointers */
            continue;
        }
        if (!tarn__ownership_may_store(user, value))
            continue;
        stored |= goes_on(ownership, user) ? 0 : ANYWHERE;
        uint32_t block = tarn__cfg_number(regions->cfg, LLVMGetInstructionParent(user));
        stored |= ownership->before_raise[block] ? BEFORE_RAISE : 0;
        if (ownership->leads[block])
            continue;
        ownership->stored_in[block] = number + 1;
        stored |= IN_DEAD_END;
    }
    return stored;
}

/* A global may be stored anywhere. */
static void mark_everywhere(struct tarn__ownership *ownership, uint32_t number)
{
    for (uint32_t b = 0; b < ownership->regions->cfg->blocks; b++)
        if (!ownership->leads[b])
            ownership->stored_in[b] = number + 1;
    ownership->stored[number] = KNOWN | BEFORE_RAISE | IN_DEAD_END | ANYWHERE;
}

/* The bits of `stored` for the value. The blocks for walk() are marked, if there are any.
 */
static unsigned find_stores(struct tarn__ownership *ownership, uint32_t number,
                            LLVMValueRef value)
{
    unsigned known = ownership->stored[number];

    if (known != 0 && !(known & IN_DEAD_END))
        return known;
    if (!ownership->know_before_raise)
        find_before_raise(ownership);
    ownership->know_before_raise = true;
    find_leads(ownership, number);
    if (LLVMIsAInstruction(value) || LLVMIsAArgument(value))
        ownership->stored[number] =
            (unsigned char)mark_stores(ownership, number, value, false);
    else
        mark_everywhere(ownership, number);
    return ownership->stored[number];
}

/* --- are references shifted? -------------------------------------------------------- */

/* Does this block of the region shift references? If it is no exit, continue behind it
 * later. A block that leads to no decref is on no path to an exit: of its paths only
 * stores count, before the raise and behind it. */
static bool shifts(struct tarn__ownership *ownership, uint32_t value, uint32_t block)
{
    struct tarn__fanout_regions *regions = ownership->regions;
    uint32_t enter = regions->dominators.enter[block];

    regions->steps++;
    if (regions->seen[block] == regions->search)
        return false;
    regions->seen[block] = regions->search;
    if (regions->releases_nothing[block]) {
        regions->stack[regions->depth++] = block;
        return ownership->stored_in[block] == value + 1;
    }
    if (ownership->stored[value] & IN_DEAD_END &&
        ownership->stored_in[block] == value + 1)
        return true; /* it leads to a decref of another value alone */
    if (ownership->stored[value] & BEFORE_RAISE &&
        is_taken(ownership, value, enter, enter))
        return true;
    if (regions->function_index->decrefs_in[block] > 0)
        return false;
    regions->stack[regions->depth++] = block;
    return ownership->stored[value] & BEFORE_RAISE &&
           tarn__function_index_had_decref(regions->function_index, value, block);
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

uint32_t tarn__ownership_transferred(struct tarn__ownership *ownership,
                                     const struct tarn__fanout_region *region,
                                     uint32_t incref)
{
    const struct tarn__refop *refop = &ownership->regions->function_index->refops[incref];

    if (!(find_stores(ownership, refop->value_number, refop->value) &
          (BEFORE_RAISE | IN_DEAD_END)))
        return TARN__NONE;
    return walk(ownership, region, refop->value_number);
}

bool tarn__ownership_is_stored(struct tarn__ownership *ownership, uint32_t incref)
{
    const struct tarn__refop *refop = &ownership->regions->function_index->refops[incref];

    return find_stores(ownership, refop->value_number, refop->value) & ANYWHERE;
}
