/* view.c -- the function index: one function's blocks with numbers, and their refops. */
#include "prune/view.h"
#include <stdlib.h>
#include <string.h>

enum kind { OTHER, INCREF, DECREF };

static enum kind kind_of_name(LLVMValueRef callee)
{
    size_t length;
    const char *name = LLVMGetValueName2(callee, &length);

    if (length != strlen("NRT_incref"))
        return OTHER;
    if (memcmp(name, "NRT_incref", length) == 0)
        return INCREF;
    return memcmp(name, "NRT_decref", length) == 0 ? DECREF : OTHER;
}

/* The name of the called function decides, whatever kind of value it is. A global is
 * known by its address; an argument or an instruction's result has to be queried. */
static enum kind kind_of_call(const struct tarn__pruning *pruning, LLVMValueRef call)
{
    LLVMValueRef callee = LLVMGetCalledValue(call);

    if (callee == pruning->incref)
        return INCREF;
    if (callee == pruning->decref)
        return DECREF;
    switch (LLVMGetValueKind(callee)) {
    case LLVMArgumentValueKind:
    case LLVMInstructionValueKind:
        return kind_of_name(callee);
    default:
        return OTHER;
    }
}

static enum kind kind_of(const struct tarn__pruning *pruning, LLVMValueRef instruction)
{
    if (LLVMGetInstructionOpcode(instruction) != LLVMCall)
        return OTHER;
    enum kind kind = kind_of_call(pruning, instruction);
    if (kind == OTHER)
        return OTHER;
    /* A refop without an argument counts nothing; one whose result is used cannot be
     * removed. */
    if (LLVMGetNumArgOperands(instruction) == 0 || LLVMGetFirstUse(instruction))
        return OTHER;
    return kind;
}

/* Make space for one more element of `size` bytes behind `count`. */
static bool room_for_one(void *array, size_t size, size_t count, size_t *capacity)
{
    void **at = array;

    if (count < *capacity)
        return true;
    size_t larger = *capacity ? 2 * *capacity : 64;
    void *moved = realloc(*at, larger * size);
    if (!moved)
        return false;
    *at = moved;
    *capacity = larger;
    return true;
}

static bool add_refop(struct tarn__view *view, LLVMValueRef call, enum kind kind)
{
    struct tarn__pruning *pruning = view->pruning;

    if (!room_for_one(&pruning->refops, sizeof *pruning->refops, view->refop_count,
                      &pruning->refop_capacity))
        return false;
    LLVMValueRef value = LLVMGetOperand(call, 0);
    pruning->refops[view->refop_count++] = (struct tarn__refop){
        .call = call,
        .value = value,
        .block = view->block_count - 1,
        .incref = kind == INCREF,
    };
    if (LLVMIsAConstantPointerNull(value))
        view->null_count++;
    if (kind == INCREF)
        view->incref_count++;
    return true;
}

static bool add_block(struct tarn__view *view, LLVMBasicBlockRef block)
{
    struct tarn__pruning *pruning = view->pruning;
    size_t capacity = pruning->block_capacity;

    /* Two arrays of one length; the second has one more, for the end. */
    if (!room_for_one(&pruning->blocks, sizeof *pruning->blocks, view->block_count,
                      &capacity))
        return false;
    if (capacity != pruning->block_capacity) {
        uint32_t *moved =
            realloc(pruning->first_refop, (capacity + 1) * sizeof *pruning->first_refop);
        if (!moved)
            return false;
        pruning->first_refop = moved;
        pruning->block_capacity = capacity;
    }
    pruning->blocks[view->block_count] = block;
    pruning->first_refop[view->block_count] = view->refop_count;
    view->block_count++;
    return true;
}

static bool add_refops_of(struct tarn__view *view, LLVMBasicBlockRef block)
{
    LLVMValueRef instruction = LLVMGetFirstInstruction(block);

    for (; instruction; instruction = LLVMGetNextInstruction(instruction)) {
        enum kind kind = kind_of(view->pruning, instruction);
        if (kind != OTHER && !add_refop(view, instruction, kind))
            return false;
    }
    return true;
}

bool tarn__view_open(struct tarn__view *view, struct tarn__pruning *pruning,
                     LLVMValueRef function)
{
    *view = (struct tarn__view){.pruning = pruning, .function = function};
    for (LLVMBasicBlockRef block = LLVMGetFirstBasicBlock(function); block;
         block = LLVMGetNextBasicBlock(block))
        if (!add_block(view, block) || !add_refops_of(view, block))
            return false;
    view->blocks = pruning->blocks;
    view->refops = pruning->refops;
    view->first_refop = pruning->first_refop;
    if (view->first_refop)
        view->first_refop[view->block_count] = view->refop_count;
    return true;
}

static size_t hash(LLVMValueRef value)
{
    return (size_t)(((uintptr_t)value >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 20);
}

/* Number the values in the order of appearance. */
static bool number_values(struct tarn__view *view)
{
    size_t slots = 16;

    while (slots < 2 * (size_t)view->refop_count)
        slots *= 2;
    uint32_t *seen = TARN__TAKE(&view->pruning->arena, uint32_t, slots); /* refop + 1 */
    if (!seen)
        return false;
    for (uint32_t i = 0; i < view->refop_count; i++) {
        struct tarn__refop *refop = &view->refops[i];
        size_t slot = hash(refop->value) & (slots - 1);
        while (seen[slot] && view->refops[seen[slot] - 1].value != refop->value)
            slot = (slot + 1) & (slots - 1);
        refop->value_number =
            seen[slot] ? view->refops[seen[slot] - 1].value_number : view->value_count++;
        seen[slot] = seen[slot] ? seen[slot] : i + 1;
    }
    return true;
}

/* List the decrefs by value: count, sum up, put each in its place. */
static bool list_decrefs(struct tarn__view *view)
{
    struct tarn__arena *arena = &view->pruning->arena;
    uint32_t *first = TARN__TAKE(arena, uint32_t, (size_t)view->value_count + 2);

    view->by_value = TARN__TAKE(arena, uint32_t, view->refop_count);
    view->next_place = TARN__TAKE(arena, uint32_t, (size_t)view->refop_count + 1);
    if (arena->failed)
        return false;
    for (uint32_t i = 0; i < view->refop_count; i++)
        if (view->refops[i].call && !view->refops[i].incref)
            first[view->refops[i].value_number + 2]++;
    for (uint32_t v = 0; v < view->value_count; v++)
        first[v + 2] += first[v + 1];
    for (uint32_t i = 0; i < view->refop_count; i++) {
        struct tarn__refop *refop = &view->refops[i];
        if (!refop->call || refop->incref)
            continue;
        refop->place = first[refop->value_number + 1]++;
        view->by_value[refop->place] = i;
    }
    for (uint32_t place = 0; place <= view->refop_count; place++)
        view->next_place[place] = place;
    view->first_place = first;
    return true;
}

bool tarn__view_number_values(struct tarn__view *view)
{
    view->decrefs_in = TARN__TAKE(&view->pruning->arena, uint32_t, view->block_count);
    view->raising = TARN__TAKE(&view->pruning->arena, unsigned char, view->block_count);
    if (view->pruning->arena.failed || !number_values(view) || !list_decrefs(view))
        return false;
    for (uint32_t i = 0; i < view->refop_count; i++)
        if (view->refops[i].call && !view->refops[i].incref)
            view->decrefs_in[view->refops[i].block]++;
    return true;
}

uint32_t tarn__view_next_place(struct tarn__view *view, uint32_t value_number,
                               uint32_t place)
{
    uint32_t end = view->first_place[value_number + 1];
    uint32_t *next = view->next_place;

    while (place < end && next[place] != place) {
        next[place] = next[next[place]]; /* shorten the path for later calls */
        place = next[place];
    }
    return place < end ? place : end;
}

/* The first place of the value whose block is not before this one, or the end. */
static uint32_t place_for(const struct tarn__view *view, uint32_t value_number,
                          uint32_t block)
{
    uint32_t low = view->first_place[value_number];
    uint32_t high = view->first_place[value_number + 1];

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (view->refops[view->by_value[middle]].block < block)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool is_in(const struct tarn__view *view, uint32_t value_number, uint32_t place,
                  uint32_t block)
{
    return place < view->first_place[value_number + 1] &&
           view->refops[view->by_value[place]].block == block;
}

bool tarn__view_had_decref(const struct tarn__view *view, uint32_t value_number,
                           uint32_t block)
{
    return is_in(view, value_number, place_for(view, value_number, block), block);
}

uint32_t tarn__view_decref(struct tarn__view *view, uint32_t value_number, uint32_t block)
{
    if (view->decrefs_in[block] == 0)
        return TARN__NONE;
    uint32_t place =
        tarn__view_next_place(view, value_number, place_for(view, value_number, block));
    return is_in(view, value_number, place, block) ? view->by_value[place] : TARN__NONE;
}

void tarn__view_remove(struct tarn__view *view, uint32_t index)
{
    struct tarn__refop *refop = &view->refops[index];

    LLVMInstructionEraseFromParent(refop->call);
    refop->call = NULL;
    view->removed++;
    if (!refop->incref && view->decrefs_in) {
        view->decrefs_in[refop->block]--;
        view->next_place[refop->place] = refop->place + 1;
    }
}
