/* tail_decref.c -- tail decrefs: may a decref be removed, given the code before it in
 * its own block? */
#include "prune/tail_decref.h"
#include <string.h>

bool tarn__tail_decref_open(struct tarn__tail_decrefs *tail_decrefs,
                            struct tarn__function_index *function_index)
{
    struct tarn__arena *arena = &function_index->pruning->arena;

    *tail_decrefs = (struct tarn__tail_decrefs){
        .function_index = function_index,
        .first = TARN__TAKE(arena, uint32_t, function_index->block_count),
        .blocked = TARN__TAKE(arena, uint32_t, function_index->block_count),
    };
    if (arena->failed)
        return false;
    for (uint32_t b = 0; b < function_index->block_count; b++)
        tail_decrefs->first[b] = function_index->first_refop[b];
    tarn__tail_decref_renew(tail_decrefs);
    return true;
}

void tarn__tail_decref_renew(struct tarn__tail_decrefs *tail_decrefs)
{
    for (uint32_t b = 0; b < tail_decrefs->function_index->block_count; b++)
        tail_decrefs->blocked[b] = TARN__NONE;
}

static bool is_decref(const struct tarn__function_index *function_index, uint32_t refop)
{
    return function_index->refops[refop].call && !function_index->refops[refop].incref;
}

/* The first decref of a block that still exists; there is one. */
static uint32_t first_decref(struct tarn__tail_decrefs *tail_decrefs, uint32_t block)
{
    while (!is_decref(tail_decrefs->function_index, tail_decrefs->first[block]))
        tail_decrefs->first[block]++;
    return tail_decrefs->first[block];
}

/* Intrinsics that LLVM knows to generate no call. */
static bool is_note(LLVMValueRef call)
{
    static const char *const notes[] = {"llvm.dbg.", "llvm.lifetime."};
    size_t length;
    const char *name = LLVMGetValueName2(LLVMGetCalledValue(call), &length);

    for (size_t i = 0; i < sizeof notes / sizeof notes[0]; i++)
        if (strncmp(name, notes[i], strlen(notes[i])) == 0)
            return true;
    return false;
}

/* Can the instruction touch memory? Unknown instructions can. */
static bool touches_memory(LLVMValueRef instruction)
{
    LLVMOpcode opcode = LLVMGetInstructionOpcode(instruction);

    switch (opcode) {
    case LLVMPHI:
    case LLVMSelect:
    case LLVMICmp:
    case LLVMFCmp:
    case LLVMGetElementPtr:
    case LLVMExtractValue:
    case LLVMInsertValue:
    case LLVMExtractElement:
    case LLVMInsertElement:
    case LLVMShuffleVector:
    case LLVMFreeze:
    case LLVMAlloca:
    case LLVMFNeg:
        return false;
    case LLVMCall:
        return !is_note(instruction);
    default:
        break;
    }
    bool arithmetic = opcode >= LLVMAdd && opcode <= LLVMXor;
    bool cast = opcode >= LLVMTrunc && opcode <= LLVMBitCast;
    return !arithmetic && !cast && opcode != LLVMAddrSpaceCast;
}

/* Walk from the block's first decref. *use_out is the first instruction that touches
 * memory; the result is the refop behind it, or the end of the block's refops. */
static uint32_t walk(struct tarn__tail_decrefs *tail_decrefs, uint32_t block,
                     LLVMValueRef *use_out)
{
    struct tarn__function_index *function_index = tail_decrefs->function_index;
    uint32_t end = function_index->first_refop[block + 1];
    uint32_t refop = first_decref(tail_decrefs, block);
    LLVMValueRef at = function_index->refops[refop].call;

    *use_out = NULL;
    for (; at && refop < end; at = LLVMGetNextInstruction(at)) {
        while (refop < end && !is_decref(function_index, refop))
            refop++;
        if (refop < end && at == function_index->refops[refop].call)
            refop++;
        else if (touches_memory(at)) {
            *use_out = at;
            return refop;
        }
    }
    return end;
}

bool tarn__tail_decref_is_blocked(struct tarn__tail_decrefs *tail_decrefs,
                                  uint32_t decref)
{
    uint32_t block = tail_decrefs->function_index->refops[decref].block;
    LLVMValueRef use;

    if (first_decref(tail_decrefs, block) == decref)
        return false;
    if (tail_decrefs->blocked[block] == TARN__NONE)
        tail_decrefs->blocked[block] = walk(tail_decrefs, block, &use);
    return decref >= tail_decrefs->blocked[block];
}

bool tarn__tail_decref_use_between(LLVMValueRef first, LLVMValueRef last)
{
    for (LLVMValueRef at = LLVMGetNextInstruction(first); at && at != last;
         at = LLVMGetNextInstruction(at))
        if (touches_memory(at))
            return true;
    return false;
}

LLVMValueRef tarn__tail_decref_use(struct tarn__tail_decrefs *tail_decrefs,
                                   uint32_t decref)
{
    LLVMValueRef use;

    walk(tail_decrefs, tail_decrefs->function_index->refops[decref].block, &use);
    return use;
}
