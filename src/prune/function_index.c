/* function_index.c -- the function index: one function's blocks with numbers, and their
 * refops. */
#include "prune/function_index.h"
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

/* The module's globals of these names count. For llvmlite's pass the name alone decides, so
 * an argument or an instruction's result may have it too: what such a pointer calls is
 * unknown, and the other modes do not count it. */
static enum kind kind_of_call(const struct tarn__pruning *pruning, LLVMValueRef call)
{
    LLVMValueRef callee = LLVMGetCalledValue(call);

    if (callee == pruning->incref)
        return INCREF;
    if (callee == pruning->decref)
        return DECREF;
    if (pruning->options.mode != TARN_PRUNE_LLVMLITE)
        return OTHER;
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
static bool reserve_one(void *array, size_t size, size_t count, size_t *capacity)
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

static bool add_refop(struct tarn__function_index *function_index, LLVMValueRef call,
                      enum kind kind)
{
    struct tarn__pruning *pruning = function_index->pruning;

    if (!reserve_one(&pruning->refops, sizeof *pruning->refops,
                     function_index->refop_count, &pruning->refop_capacity))
        return false;
    LLVMValueRef value = LLVMGetOperand(call, 0);
    pruning->refops[function_index->refop_count++] = (struct tarn__refop){
        .call = call,
        .value = value,
        .block = function_index->block_count - 1,
        .incref = kind == INCREF,
    };
    if (LLVMIsAConstantPointerNull(value))
        function_index->null_count++;
    if (kind == INCREF)
        function_index->incref_count++;
    return true;
}

static bool add_block(struct tarn__function_index *function_index,
                      LLVMBasicBlockRef block)
{
    struct tarn__pruning *pruning = function_index->pruning;
    size_t capacity = pruning->block_capacity;

    /* Two arrays of one length; the second has one more, for the end. */
    if (!reserve_one(&pruning->blocks, sizeof *pruning->blocks,
                     function_index->block_count, &capacity))
        return false;
    if (capacity != pruning->block_capacity) {
        uint32_t *moved =
            realloc(pruning->first_refop, (capacity + 1) * sizeof *pruning->first_refop);
        if (!moved)
            return false;
        pruning->first_refop = moved;
        pruning->block_capacity = capacity;
    }
    pruning->blocks[function_index->block_count] = block;
    pruning->first_refop[function_index->block_count] = function_index->refop_count;
    function_index->block_count++;
    return true;
}

static bool add_refops_of(struct tarn__function_index *function_index,
                          LLVMBasicBlockRef block)
{
    LLVMValueRef instruction = LLVMGetFirstInstruction(block);

    for (; instruction; instruction = LLVMGetNextInstruction(instruction)) {
        enum kind kind = kind_of(function_index->pruning, instruction);
        if (kind != OTHER && !add_refop(function_index, instruction, kind))
            return false;
    }
    return true;
}

bool tarn__function_index_open(struct tarn__function_index *function_index,
                               struct tarn__pruning *pruning, LLVMValueRef function)
{
    *function_index =
        (struct tarn__function_index){.pruning = pruning, .function = function};
    for (LLVMBasicBlockRef block = LLVMGetFirstBasicBlock(function); block;
         block = LLVMGetNextBasicBlock(block))
        if (!add_block(function_index, block) || !add_refops_of(function_index, block))
            return false;
    function_index->blocks = pruning->blocks;
    function_index->refops = pruning->refops;
    function_index->first_refop = pruning->first_refop;
    if (function_index->first_refop)
        function_index->first_refop[function_index->block_count] =
            function_index->refop_count;
    return true;
}

bool tarn__function_index_is_call(struct tarn__function_index *function_index,
                                  LLVMValueRef instruction)
{
    struct tarn__pruning *pruning = function_index->pruning;

    return !pruning->release.calls_keep && kind_of(pruning, instruction) == OTHER &&
           tarn__release_by(&pruning->release, instruction);
}

static void find_calls_of(struct tarn__function_index *function_index, uint32_t block)
{
    struct tarn__release *release = &function_index->pruning->release;
    LLVMValueRef at = LLVMGetFirstInstruction(function_index->blocks[block]);
    uint32_t refop = function_index->first_refop[block];

    for (; at; at = LLVMGetNextInstruction(at)) {
        struct tarn__refop *next = &function_index->refops[refop];
        if (refop < function_index->first_refop[block + 1] && next->call == at) {
            next->calls_before = function_index->calls_in[block];
            refop++;
        } else {
            bool releases = tarn__release_by(release, at);
            function_index->calls_in[block] += releases;
            function_index->releases_argument |=
                releases && tarn__release_of_argument(at);
        }
    }
}

bool tarn__function_index_find_calls(struct tarn__function_index *function_index)
{
    struct tarn__pruning *pruning = function_index->pruning;

    function_index->calls_in =
        TARN__TAKE(&pruning->arena, uint32_t, function_index->block_count);
    if (pruning->arena.failed)
        return false;
    if (pruning->release.calls_keep)
        return true;
    for (uint32_t b = 0; b < function_index->block_count; b++)
        find_calls_of(function_index, b);
    return !pruning->release.arena.failed;
}

LLVMValueRef tarn__function_index_call(struct tarn__function_index *function_index,
                                       uint32_t block, uint32_t before)
{
    LLVMValueRef at = LLVMGetFirstInstruction(function_index->blocks[block]);

    while (at && (!tarn__function_index_is_call(function_index, at) || before-- > 0))
        at = LLVMGetNextInstruction(at);
    return at;
}

static size_t hash(LLVMValueRef value)
{
    return (size_t)(((uintptr_t)value >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 20);
}

/* Number the values in the order of appearance. */
static bool number_values(struct tarn__function_index *function_index)
{
    size_t slots = 16;

    while (slots < 2 * (size_t)function_index->refop_count)
        slots *= 2;
    uint32_t *seen =
        TARN__TAKE(&function_index->pruning->arena, uint32_t, slots); /* refop + 1 */
    if (!seen)
        return false;
    for (uint32_t i = 0; i < function_index->refop_count; i++) {
        struct tarn__refop *refop = &function_index->refops[i];
        size_t slot = hash(refop->value) & (slots - 1);
        while (seen[slot] && function_index->refops[seen[slot] - 1].value != refop->value)
            slot = (slot + 1) & (slots - 1);
        refop->value_number = seen[slot]
                                  ? function_index->refops[seen[slot] - 1].value_number
                                  : function_index->value_count++;
        seen[slot] = seen[slot] ? seen[slot] : i + 1;
    }
    return true;
}

/* List the decrefs by value: count, sum up, put each in its place. */
static bool list_decrefs(struct tarn__function_index *function_index)
{
    struct tarn__arena *arena = &function_index->pruning->arena;
    uint32_t *first =
        TARN__TAKE(arena, uint32_t, (size_t)function_index->value_count + 2);

    function_index->by_value = TARN__TAKE(arena, uint32_t, function_index->refop_count);
    function_index->next_place =
        TARN__TAKE(arena, uint32_t, (size_t)function_index->refop_count + 1);
    if (arena->failed)
        return false;
    for (uint32_t i = 0; i < function_index->refop_count; i++)
        if (function_index->refops[i].call && !function_index->refops[i].incref)
            first[function_index->refops[i].value_number + 2]++;
    for (uint32_t v = 0; v < function_index->value_count; v++)
        first[v + 2] += first[v + 1];
    for (uint32_t i = 0; i < function_index->refop_count; i++) {
        struct tarn__refop *refop = &function_index->refops[i];
        if (!refop->call || refop->incref)
            continue;
        refop->place = first[refop->value_number + 1]++;
        function_index->by_value[refop->place] = i;
    }
    for (uint32_t place = 0; place <= function_index->refop_count; place++)
        function_index->next_place[place] = place;
    function_index->first_place = first;
    return true;
}

bool tarn__function_index_number_values(struct tarn__function_index *function_index)
{
    function_index->decrefs_in = TARN__TAKE(&function_index->pruning->arena, uint32_t,
                                            function_index->block_count);
    function_index->raising = TARN__TAKE(&function_index->pruning->arena, unsigned char,
                                         function_index->block_count);
    if (function_index->pruning->arena.failed || !number_values(function_index) ||
        !list_decrefs(function_index))
        return false;
    for (uint32_t i = 0; i < function_index->refop_count; i++)
        if (function_index->refops[i].call && !function_index->refops[i].incref)
            function_index->decrefs_in[function_index->refops[i].block]++;
    return true;
}

uint32_t tarn__function_index_next_place(struct tarn__function_index *function_index,
                                         uint32_t value_number, uint32_t place)
{
    uint32_t end = function_index->first_place[value_number + 1];
    uint32_t *next = function_index->next_place;

    while (place < end && next[place] != place) {
        next[place] = next[next[place]]; /* shorten the path for later calls */
        place = next[place];
    }
    return place < end ? place : end;
}

/* The first place of the value whose block is not before this one, or the end. */
static uint32_t place_for(const struct tarn__function_index *function_index,
                          uint32_t value_number, uint32_t block)
{
    uint32_t low = function_index->first_place[value_number];
    uint32_t high = function_index->first_place[value_number + 1];

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (function_index->refops[function_index->by_value[middle]].block < block)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool is_in(const struct tarn__function_index *function_index,
                  uint32_t value_number, uint32_t place, uint32_t block)
{
    return place < function_index->first_place[value_number + 1] &&
           function_index->refops[function_index->by_value[place]].block == block;
}

bool tarn__function_index_had_decref(const struct tarn__function_index *function_index,
                                     uint32_t value_number, uint32_t block)
{
    return is_in(function_index, value_number,
                 place_for(function_index, value_number, block), block);
}

uint32_t tarn__function_index_decref(struct tarn__function_index *function_index,
                                     uint32_t value_number, uint32_t block)
{
    if (function_index->decrefs_in[block] == 0)
        return TARN__NONE;
    uint32_t place = tarn__function_index_next_place(
        function_index, value_number, place_for(function_index, value_number, block));
    return is_in(function_index, value_number, place, block)
               ? function_index->by_value[place]
               : TARN__NONE;
}

uint32_t tarn__function_index_decref_behind(struct tarn__function_index *function_index,
                                            uint32_t incref)
{
    const struct tarn__refop *refop = &function_index->refops[incref];
    uint32_t value = refop->value_number, block = refop->block;

    if (function_index->decrefs_in[block] == 0)
        return TARN__NONE;
    uint32_t place = place_for(function_index, value, block);
    do {
        place = tarn__function_index_next_place(function_index, value, place);
        if (!is_in(function_index, value, place, block))
            return TARN__NONE;
    } while (function_index->refops[function_index->by_value[place++]].calls_before <
             refop->calls_before);
    return function_index->by_value[place - 1];
}

bool tarn__function_index_caller_holds(const struct tarn__function_index *function_index,
                                       LLVMValueRef value)
{
    return LLVMIsAArgument(value) && !function_index->releases_argument;
}

void tarn__function_index_remove(struct tarn__function_index *function_index,
                                 uint32_t index)
{
    struct tarn__refop *refop = &function_index->refops[index];

    LLVMInstructionEraseFromParent(refop->call);
    refop->call = NULL;
    function_index->removed++;
    if (!refop->incref && function_index->decrefs_in) {
        function_index->decrefs_in[refop->block]--;
        function_index->next_place[refop->place] = refop->place + 1;
    }
}
