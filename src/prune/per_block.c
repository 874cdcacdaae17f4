/* per_block.c -- pairs within one block.
 *
 * Decrefs stand behind increfs by now, in each part of the block between releasing calls.
 * The increfs are processed from the last to the first. Each forms a pair with the first
 * decref of its value behind it, so that the longest-held references stay. A pair around
 * a releasing call stays, unless the caller holds the object. A refop on null does
 * nothing and is removed alone.
 */
#include "prune/per_block.h"

static bool prune_nulls(struct tarn__function_index *function_index)
{
    uint32_t before = function_index->removed;

    for (uint32_t i = 0;
         i < function_index->refop_count && function_index->null_count > 0; i++)
        if (function_index->refops[i].call &&
            LLVMIsAConstantPointerNull(function_index->refops[i].value)) {
            tarn__function_index_remove(function_index, i);
            function_index->null_count--;
        }
    function_index->pruning->report.per_block += function_index->removed - before;
    return function_index->removed != before;
}

static bool prune_pair(struct tarn__function_index *function_index, uint32_t incref)
{
    struct tarn__refop *refop = &function_index->refops[incref];
    uint32_t decref;

    if (!refop->incref || !refop->call)
        return false;
    decref = tarn__function_index_decref_behind(function_index, incref);
    if (decref == TARN__NONE ||
        (function_index->refops[decref].calls_before != refop->calls_before &&
         !tarn__function_index_caller_holds(function_index, refop->value)))
        return false;
    tarn__function_index_remove(function_index, incref);
    tarn__function_index_remove(function_index, decref);
    function_index->pruning->report.per_block += 2;
    return true;
}

bool tarn__per_block_prune(struct tarn__function_index *function_index)
{
    bool changed = prune_nulls(function_index);

    for (uint32_t b = 0; b < function_index->block_count; b++)
        for (uint32_t i = function_index->first_refop[b + 1];
             i-- > function_index->first_refop[b];)
            changed |= prune_pair(function_index, i);
    return changed;
}
