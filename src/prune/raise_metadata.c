/* raise_metadata.c -- raise metadata: does a block raise?
 *
 * Numba marks the store that tells its caller what was raised; before version 0.57 it
 * marked the ret that follows. Exceptions from inner calls have no mark.
 */
#include "prune/raise_metadata.h"
#include <string.h>

static unsigned kind_of_metadata(struct tarn__pruning *pruning, const char *name,
                                 unsigned *known)
{
    if (*known == 0)
        *known = LLVMGetMDKindIDInContext(pruning->context, name, (unsigned)strlen(name));
    return *known;
}

/* Queried without LLVMGetMetadata(), which leaves a wrapper behind in the context. */
static bool has_metadata(LLVMValueRef instruction, unsigned kind)
{
    size_t count;
    LLVMValueMetadataEntry *entries =
        LLVMInstructionGetAllMetadataOtherThanDebugLoc(instruction, &count);
    bool found = false;

    for (unsigned i = 0; i < count && !found; i++)
        found = LLVMValueMetadataEntriesGetKind(entries, i) == kind;
    LLVMDisposeValueMetadataEntries(entries);
    return found;
}

static bool is_marked_store(struct tarn__pruning *pruning, LLVMValueRef store)
{
    size_t length;
    const char *name = LLVMGetValueName2(LLVMGetOperand(store, 1), &length);

    if (length != strlen("excinfo") || memcmp(name, "excinfo", length) != 0 ||
        !LLVMHasMetadata(store))
        return false;
    return has_metadata(
        store, kind_of_metadata(pruning, "numba_exception_output", &pruning->store_mark));
}

/* The mark has to be one constant that is 1. */
static bool is_marked_ret(struct tarn__pruning *pruning, LLVMValueRef ret)
{
    LLVMValueRef mark, one;

    if (!LLVMHasMetadata(ret))
        return false;
    mark = LLVMGetMetadata(ret,
                           kind_of_metadata(pruning, "ret_is_raise", &pruning->ret_mark));
    if (!mark || LLVMGetMDNodeNumOperands(mark) != 1)
        return false;
    LLVMGetMDNodeOperands(mark, &one);
    return one && LLVMIsAConstantInt(one) && LLVMConstIntGetZExtValue(one) == 1;
}

static bool has_mark(struct tarn__pruning *pruning, LLVMBasicBlockRef block)
{
    LLVMValueRef at;

    if (pruning->options.raise_metadata & TARN_PRUNE_RAISE_RET) {
        LLVMValueRef end = LLVMGetBasicBlockTerminator(block);
        if (LLVMGetInstructionOpcode(end) == LLVMRet && is_marked_ret(pruning, end))
            return true;
    }
    if (!(pruning->options.raise_metadata & TARN_PRUNE_RAISE_STORE))
        return false;
    for (at = LLVMGetFirstInstruction(block); at; at = LLVMGetNextInstruction(at))
        if (LLVMGetInstructionOpcode(at) == LLVMStore && is_marked_store(pruning, at))
            return true;
    return false;
}

enum { RAISES = 1, RAISES_NOT = 2 };

bool tarn__raise_metadata_block_raises(struct tarn__function_index *function_index,
                                       uint32_t block)
{
    if (function_index->raising[block] == 0)
        function_index->raising[block] =
            has_mark(function_index->pruning, function_index->blocks[block]) ? RAISES
                                                                             : RAISES_NOT;
    return function_index->raising[block] == RAISES;
}
