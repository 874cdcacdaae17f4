/* normalize.c -- move the decrefs of a block behind its increfs.
 *
 * A decref that runs later keeps its object alive longer, which is harmless. Once all of
 * a block's decrefs stand behind everything else, any of them may form a pair with an
 * incref of the block: nothing lies between an early release and the removed one.
 *
 * A decref does not move behind a releasing call: a pair around that call would be kept.
 * So the calls divide the block, and the decrefs of each part move to its end.
 */
#include "prune/normalize.h"
#include <llvm/Config/llvm-config.h>

static bool has_incref(const struct tarn__function_index *function_index, uint32_t block)
{
    for (uint32_t i = function_index->first_refop[block];
         i < function_index->first_refop[block + 1]; i++)
        if (function_index->refops[i].incref)
            return true;
    return false;
}

/* Debug info records are attached to instructions and move along when one is removed. */
static bool has_records(LLVMValueRef instruction)
{
#if LLVM_VERSION_MAJOR >= 22
    return LLVMGetFirstDbgRecord(instruction) != NULL;
#elif LLVM_VERSION_MAJOR >= 19
    (void)instruction;
    return true; /* LLVM-C cannot query it: in 20 it crashes for an instruction without any */
#else
    (void)instruction;
    return false;
#endif
}

/* Do the block's decrefs already stand in a row before its end? */
static bool is_normal(const struct tarn__function_index *function_index, uint32_t block,
                      LLVMValueRef end)
{
    LLVMValueRef expected = end;

    if (has_records(end))
        return false;
    for (uint32_t i = function_index->first_refop[block + 1];
         i-- > function_index->first_refop[block];) {
        if (function_index->refops[i].incref)
            continue;
        expected = LLVMGetPreviousInstruction(expected);
        if (expected != function_index->refops[i].call || has_records(expected))
            return false;
    }
    return true;
}

static void move_before(struct tarn__pruning *pruning, LLVMValueRef call,
                        LLVMValueRef end)
{
    if (!pruning->builder)
        pruning->builder = LLVMCreateBuilderInContext(pruning->context);
    LLVMInstructionRemoveFromParent(call);
    LLVMPositionBuilderBefore(pruning->builder, end);
    /* Otherwise the builder would give the call the source place of `end`. */
    LLVMSetCurrentDebugLocation2(pruning->builder, NULL);
    LLVMInsertIntoBuilder(pruning->builder, call);
}

/* Does this call have to be a tail call? LLVM-C before version 18 cannot tell the kinds
 * of tail calls apart; then any tail call that is no refop may be one. */
static bool is_musttail(const struct tarn__function_index *function_index, uint32_t block,
                        LLVMValueRef call)
{
    if (LLVMGetInstructionOpcode(call) != LLVMCall)
        return false;
#if LLVM_VERSION_MAJOR >= 18
    (void)function_index, (void)block;
    return LLVMGetTailCallKind(call) == LLVMTailCallKindMustTail;
#else
    for (uint32_t i = function_index->first_refop[block];
         i < function_index->first_refop[block + 1]; i++)
        if (function_index->refops[i].call == call)
            return false;
    return LLVMIsTailCall(call);
#endif
}

/* Nothing may stand between a call that must be a tail call and the ret, so decrefs stay
 * before it. llvmlite's pass puts them behind it, which no verifier accepts. */
static LLVMValueRef where_to(const struct tarn__function_index *function_index,
                             uint32_t block)
{
    LLVMValueRef end = LLVMGetBasicBlockTerminator(function_index->blocks[block]);
    LLVMValueRef before = LLVMGetPreviousInstruction(end);

    if (function_index->pruning->options.mode == TARN_PRUNE_LLVMLITE ||
        LLVMGetInstructionOpcode(end) != LLVMRet)
        return end;
    if (before && LLVMGetInstructionOpcode(before) == LLVMBitCast)
        before = LLVMGetPreviousInstruction(before);
    return before && is_musttail(function_index, block, before) ? before : end;
}

/* Move the decrefs that stand before each releasing call, and then those behind the
 * last. */
static void normalize_parts(struct tarn__function_index *function_index, uint32_t block,
                            LLVMValueRef end)
{
    const struct tarn__refop *refop =
        &function_index->refops[function_index->first_refop[block]];
    const struct tarn__refop *last =
        &function_index->refops[function_index->first_refop[block + 1]];
    LLVMValueRef at = LLVMGetFirstInstruction(function_index->blocks[block]);

    for (uint32_t part = 0; at; at = LLVMGetNextInstruction(at)) {
        if (at != end && !tarn__function_index_is_call(function_index, at))
            continue;
        for (; refop < last && refop->calls_before == part; refop++)
            if (!refop->incref && refop->call != at)
                move_before(function_index->pruning, refop->call, at);
        if (at == end)
            return;
        part++;
    }
}

static void normalize_block(struct tarn__function_index *function_index, uint32_t block)
{
    LLVMValueRef end = where_to(function_index, block);

    if (function_index->calls_in[block] > 0) {
        normalize_parts(function_index, block, end);
        return;
    }
    if (is_normal(function_index, block, end))
        return;
    for (uint32_t i = function_index->first_refop[block];
         i < function_index->first_refop[block + 1]; i++)
        if (!function_index->refops[i].incref && function_index->refops[i].call != end)
            move_before(function_index->pruning, function_index->refops[i].call, end);
}

void tarn__normalize(struct tarn__function_index *function_index)
{
    if (function_index->incref_count == 0)
        return;
    for (uint32_t b = 0; b < function_index->block_count; b++)
        if (has_incref(function_index, b))
            normalize_block(function_index, b);
}
