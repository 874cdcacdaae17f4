/* counter.c -- counters: code that counts how often an incref runs.
 *
 * A counter is an atomic addition with metadata of its own, by which it is found again.
 */
#include "prune/counter.h"
#include <string.h>

static const char mark[] = "tarn_counter";

static unsigned kind_of_mark(const struct tarn__pruning *pruning)
{
    return LLVMGetMDKindIDInContext(pruning->context, mark, (unsigned)strlen(mark));
}

void tarn__counter_insert(struct tarn__function_index *function_index,
                          const struct tarn__refop *incref, const uint64_t *counter)
{
    struct tarn__pruning *pruning = function_index->pruning;
    LLVMTypeRef word = LLVMInt64TypeInContext(pruning->context);

    if (!pruning->builder)
        pruning->builder = LLVMCreateBuilderInContext(pruning->context);
    LLVMPositionBuilderBefore(pruning->builder, incref->call);
    LLVMSetCurrentDebugLocation2(pruning->builder, NULL);
    LLVMValueRef object = LLVMBuildICmp(pruning->builder, LLVMIntNE, incref->value,
                                        LLVMConstNull(LLVMTypeOf(incref->value)), "");
    LLVMValueRef one = LLVMBuildZExt(pruning->builder, object, word, "");
    LLVMValueRef address = LLVMConstIntToPtr(
        LLVMConstInt(word, (unsigned long long)(uintptr_t)counter, false),
        LLVMPointerType(word, 0));
    LLVMValueRef add =
        LLVMBuildAtomicRMW(pruning->builder, LLVMAtomicRMWBinOpAdd, address, one,
                           LLVMAtomicOrderingMonotonic, false);
    LLVMSetMetadata(add, kind_of_mark(pruning),
                    LLVMMDNodeInContext(pruning->context, NULL, 0));
}

void tarn__counter_remove_all(struct tarn__pruning *pruning, LLVMValueRef function)
{
    unsigned kind = kind_of_mark(pruning);

    for (LLVMBasicBlockRef block = LLVMGetFirstBasicBlock(function); block;
         block = LLVMGetNextBasicBlock(block)) {
        LLVMValueRef next, at = LLVMGetFirstInstruction(block);
        for (; at; at = next) {
            next = LLVMGetNextInstruction(at);
            if (LLVMIsAAtomicRMWInst(at) && LLVMGetMetadata(at, kind))
                LLVMInstructionEraseFromParent(at);
        }
    }
}
