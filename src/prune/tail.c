/* tail.c -- tail decrefs: may a decref be removed, given the code before it in its own
 * block? */
#include "prune/tail.h"
#include <string.h>

bool tarn__tails_open(struct tarn__tails *tails, struct tarn__view *view)
{
    struct tarn__arena *arena = &view->pruning->arena;

    *tails = (struct tarn__tails){
        .view = view,
        .first = TARN__TAKE(arena, uint32_t, view->block_count),
        .blocked = TARN__TAKE(arena, uint32_t, view->block_count),
    };
    if (arena->failed)
        return false;
    for (uint32_t b = 0; b < view->block_count; b++)
        tails->first[b] = view->first_refop[b];
    tarn__tails_renew(tails);
    return true;
}

void tarn__tails_renew(struct tarn__tails *tails)
{
    for (uint32_t b = 0; b < tails->view->block_count; b++)
        tails->blocked[b] = TARN__NONE;
}

static bool is_decref(const struct tarn__view *view, uint32_t refop)
{
    return view->refops[refop].call && !view->refops[refop].incref;
}

/* The first decref of a block that still exists; there is one. */
static uint32_t first_decref(struct tarn__tails *tails, uint32_t block)
{
    while (!is_decref(tails->view, tails->first[block]))
        tails->first[block]++;
    return tails->first[block];
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
static uint32_t walk(struct tarn__tails *tails, uint32_t block, LLVMValueRef *use_out)
{
    struct tarn__view *view = tails->view;
    uint32_t end = view->first_refop[block + 1];
    uint32_t refop = first_decref(tails, block);
    LLVMValueRef at = view->refops[refop].call;

    *use_out = NULL;
    for (; at && refop < end; at = LLVMGetNextInstruction(at)) {
        while (refop < end && !is_decref(view, refop))
            refop++;
        if (refop < end && at == view->refops[refop].call)
            refop++;
        else if (touches_memory(at)) {
            *use_out = at;
            return refop;
        }
    }
    return end;
}

bool tarn__tail_blocked(struct tarn__tails *tails, uint32_t decref)
{
    uint32_t block = tails->view->refops[decref].block;
    LLVMValueRef use;

    if (first_decref(tails, block) == decref)
        return false;
    if (tails->blocked[block] == TARN__NONE)
        tails->blocked[block] = walk(tails, block, &use);
    return decref >= tails->blocked[block];
}

LLVMValueRef tarn__tail_use(struct tarn__tails *tails, uint32_t decref)
{
    LLVMValueRef use;

    walk(tails, tails->view->refops[decref].block, &use);
    return use;
}
