/* handed.c -- ownership transfer: on a path that raises, may another owner hold the
 * reference? */
#include "prune/handed.h"
#include "prune/marks.h"
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

bool tarn__handed_open(struct tarn__handed *handed, struct tarn__fans *fans)
{
    const struct tarn__view *view = fans->view;
    struct tarn__arena *arena = &view->pruning->arena;
    struct entry *entries = TARN__TAKE(arena, struct entry, view->incref_count);
    uint32_t count = 0;

    *handed = (struct tarn__handed){
        .fans = fans,
        .increfs = TARN__TAKE(arena, uint32_t, view->incref_count),
        .before_raise = TARN__TAKE(arena, bool, view->block_count),
        .stored = TARN__TAKE(arena, unsigned char, view->value_count),
        .next = TARN__TAKE(arena, uint32_t, view->incref_count),
        .first = TARN__TAKE(arena, uint32_t, (size_t)view->value_count + 1),
    };
    if (arena->failed)
        return false;
    for (uint32_t i = 0; i < view->refop_count; i++) {
        const struct tarn__refop *refop = &view->refops[i];
        if (refop->incref && refop->call)
            entries[count++] = (struct entry){refop->value_number,
                                              fans->dominators.enter[refop->block], i};
    }
    if (count > 0)
        qsort(entries, count, sizeof *entries, in_order);
    for (uint32_t i = 0; i < count; i++) {
        handed->increfs[i] = entries[i].refop;
        handed->next[i] = i + 1;
        handed->first[entries[i].value + 1]++;
    }
    for (uint32_t v = 0; v < view->value_count; v++)
        handed->first[v + 1] += handed->first[v];
    return true;
}

static uint32_t enter_of(const struct tarn__handed *handed, uint32_t place)
{
    const struct tarn__view *view = handed->fans->view;

    return handed->fans->dominators.enter[view->refops[handed->increfs[place]].block];
}

static bool is_gone(const struct tarn__handed *handed, uint32_t place)
{
    return handed->fans->view->refops[handed->increfs[place]].call == NULL;
}

/* The first place from here on whose incref still exists, or `end`. */
static uint32_t next_place(struct tarn__handed *handed, uint32_t place, uint32_t end)
{
    uint32_t *next = handed->next;

    while (place < end && is_gone(handed, place)) {
        if (next[place] < end && is_gone(handed, next[place]))
            next[place] = next[next[place]]; /* shorten the path for later calls */
        place = next[place];
    }
    return place < end ? place : end;
}

/* Does an incref of the value still exist in a block that the walk of the dominator tree
 * enters from `enter` to `leave`? */
static bool is_taken(struct tarn__handed *handed, uint32_t value, uint32_t enter,
                     uint32_t leave)
{
    uint32_t low = handed->first[value], end = handed->first[value + 1], high = end;

    while (low < high) { /* the first that does not come before `enter` */
        uint32_t middle = low + (high - low) / 2;
        if (enter_of(handed, middle) < enter)
            low = middle + 1;
        else
            high = middle;
    }
    low = next_place(handed, low, end);
    return low < end && enter_of(handed, low) <= leave;
}

/* Does this block of the fan shift references? If it is no exit, continue behind it
 * later. A block that leads to no decref is on no path to an exit. */
static bool shifts(struct tarn__handed *handed, uint32_t value, uint32_t block)
{
    struct tarn__fans *fans = handed->fans;
    uint32_t enter = fans->dominators.enter[block];

    fans->steps++;
    if (fans->seen[block] == fans->search || fans->quiet[block])
        return false;
    fans->seen[block] = fans->search;
    if (is_taken(handed, value, enter, enter))
        return true;
    if (fans->view->decrefs_in[block] > 0)
        return false;
    fans->stack[fans->depth++] = block;
    return tarn__view_had_decref(fans->view, value, block);
}

static uint32_t walk(struct tarn__handed *handed, const struct tarn__fan *fan,
                     uint32_t value)
{
    struct tarn__fans *fans = handed->fans;
    const struct tarn__cfg *cfg = fans->cfg;

    fans->search++;
    fans->depth = 0;
    fans->stack[fans->depth++] = fan->head;
    while (fans->depth > 0) {
        uint32_t block = fans->stack[--fans->depth];
        for (size_t i = cfg->first_out[block]; i < cfg->first_out[block + 1]; i++)
            if (shifts(handed, value, cfg->targets[i]))
                return cfg->targets[i];
    }
    return TARN__NONE;
}

/* --- is the value stored? -------------------------------------------------------------
 */

enum { STORED = 1, NOT_STORED = 2 };

/* Find the blocks that lead to a raise, or have one. */
static void find_before_raise(struct tarn__handed *handed)
{
    struct tarn__fans *fans = handed->fans;
    const struct tarn__cfg *cfg = fans->cfg;
    bool *before_raise = handed->before_raise;
    size_t depth = 0;

    for (uint32_t b = 0; b < cfg->blocks; b++) {
        before_raise[b] = tarn__block_raises(fans->view, b);
        if (before_raise[b])
            fans->stack[depth++] = b;
    }
    while (depth > 0) {
        uint32_t block = fans->stack[--depth];
        for (size_t i = cfg->first_in[block]; i < cfg->first_in[block + 1]; i++) {
            uint32_t source = cfg->sources[i];
            if (before_raise[source])
                continue;
            before_raise[source] = true;
            fans->stack[depth++] = source;
        }
    }
}

static bool is_before_raise(struct tarn__handed *handed, LLVMValueRef instruction)
{
    LLVMBasicBlockRef block = LLVMGetInstructionParent(instruction);

    if (!handed->know_before_raise)
        find_before_raise(handed);
    handed->know_before_raise = true;
    return handed->before_raise[tarn__cfg_number(handed->fans->cfg, block)];
}

static bool has_use_that_stores(struct tarn__handed *handed, LLVMValueRef value,
                                bool is_cast);

/* Can the reference leave the function through this use before a raise, or continue under
 * another name? */
static bool use_stores(struct tarn__handed *handed, LLVMValueRef user, LLVMValueRef value,
                       bool is_cast)
{
    switch (LLVMGetInstructionOpcode(user)) {
    case LLVMCall: /* a callee may borrow it, and counts for itself if it keeps it */
    case LLVMLoad:
    case LLVMICmp:
    case LLVMGetElementPtr:
        return false;
    case LLVMStore:
        return LLVMGetOperand(user, 0) == value && is_before_raise(handed, user);
    case LLVMBitCast: /* where pointers have types */
        if (!is_cast)
            return has_use_that_stores(handed, user, true);
        break;
    default:
        break;
    }
    return is_before_raise(handed, user);
}

static bool has_use_that_stores(struct tarn__handed *handed, LLVMValueRef value,
                                bool is_cast)
{
    for (LLVMUseRef use = LLVMGetFirstUse(value); use; use = LLVMGetNextUse(use))
        if (use_stores(handed, LLVMGetUser(use), value, is_cast))
            return true;
    return false;
}

static bool is_stored(struct tarn__handed *handed, uint32_t number, LLVMValueRef value)
{
    if (handed->stored[number] == 0) {
        bool local = LLVMIsAInstruction(value) || LLVMIsAArgument(value);
        bool stored = !local || has_use_that_stores(handed, value, false);
        handed->stored[number] = stored ? STORED : NOT_STORED;
    }
    return handed->stored[number] == STORED;
}

uint32_t tarn__handed_over(struct tarn__handed *handed, const struct tarn__fan *fan,
                           uint32_t incref)
{
    const struct tarn__refop *refop = &handed->fans->view->refops[incref];

    if (!is_stored(handed, refop->value_number, refop->value))
        return TARN__NONE;
    return walk(handed, fan, refop->value_number);
}
