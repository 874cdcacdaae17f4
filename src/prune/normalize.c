/* normalize.c -- move the decrefs of a block behind its increfs.
 *
 * A decref that runs later keeps its object alive longer, which is harmless. Once all of
 * a block's decrefs stand behind everything else, any of them may form a pair with an
 * incref of the block: nothing lies between an early release and the removed one.
 */
#include "prune/shapes.h"
#include <llvm/Config/llvm-config.h>

static bool has_incref(const struct tarn__view *view, uint32_t block)
{
    for (uint32_t i = view->first_refop[block]; i < view->first_refop[block + 1]; i++)
        if (view->refops[i].incref)
            return true;
    return false;
}

/* Debug info records are attached to instructions and move along when one is removed. */
static bool has_records(LLVMValueRef instruction)
{
#if LLVM_VERSION_MAJOR >= 20
    return LLVMGetFirstDbgRecord(instruction) != NULL;
#elif LLVM_VERSION_MAJOR == 19
    (void)instruction;
    return true; /* LLVM-C cannot query it */
#else
    (void)instruction;
    return false;
#endif
}

/* Do the block's decrefs already stand in a row before its end? */
static bool is_normal(const struct tarn__view *view, uint32_t block, LLVMValueRef end)
{
    LLVMValueRef expected = end;

    if (has_records(end))
        return false;
    for (uint32_t i = view->first_refop[block + 1]; i-- > view->first_refop[block];) {
        if (view->refops[i].incref)
            continue;
        expected = LLVMGetPreviousInstruction(expected);
        if (expected != view->refops[i].call || has_records(expected))
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
static bool is_musttail(const struct tarn__view *view, uint32_t block, LLVMValueRef call)
{
    if (LLVMGetInstructionOpcode(call) != LLVMCall)
        return false;
#if LLVM_VERSION_MAJOR >= 18
    (void)view, (void)block;
    return LLVMGetTailCallKind(call) == LLVMTailCallKindMustTail;
#else
    for (uint32_t i = view->first_refop[block]; i < view->first_refop[block + 1]; i++)
        if (view->refops[i].call == call)
            return false;
    return LLVMIsTailCall(call);
#endif
}

/* Nothing may stand between a call that must be a tail call and the ret, so decrefs stay
 * before it. llvmlite's pass puts them behind it, which no verifier accepts. */
static LLVMValueRef where_to(const struct tarn__view *view, uint32_t block)
{
    LLVMValueRef end = LLVMGetBasicBlockTerminator(view->blocks[block]);
    LLVMValueRef before = LLVMGetPreviousInstruction(end);

    if (view->pruning->options.mode == TARN_PRUNE_LLVMLITE ||
        LLVMGetInstructionOpcode(end) != LLVMRet)
        return end;
    if (before && LLVMGetInstructionOpcode(before) == LLVMBitCast)
        before = LLVMGetPreviousInstruction(before);
    return before && is_musttail(view, block, before) ? before : end;
}

static void normalize_block(struct tarn__view *view, uint32_t block)
{
    LLVMValueRef end = where_to(view, block);

    if (is_normal(view, block, end))
        return;
    for (uint32_t i = view->first_refop[block]; i < view->first_refop[block + 1]; i++)
        if (!view->refops[i].incref && view->refops[i].call != end)
            move_before(view->pruning, view->refops[i].call, end);
}

void tarn__normalize(struct tarn__view *view)
{
    if (view->incref_count == 0)
        return;
    for (uint32_t b = 0; b < view->block_count; b++)
        if (has_incref(view, b))
            normalize_block(view, b);
}
