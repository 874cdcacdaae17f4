/* per_block.c -- pairs within one block.
 *
 * Decrefs stand behind increfs by now. The increfs are processed from the last to the
 * first. Each forms a pair with the first decref of its value, so that the longest-held
 * references stay. A refop on null does nothing and is removed alone.
 */
#include "prune/shapes.h"

static bool prune_nulls(struct tarn__view *view)
{
    uint32_t before = view->removed;

    for (uint32_t i = 0; i < view->refop_count && view->null_count > 0; i++)
        if (view->refops[i].call && LLVMIsAConstantPointerNull(view->refops[i].value)) {
            tarn__view_remove(view, i);
            view->null_count--;
        }
    view->pruning->report.per_block += view->removed - before;
    return view->removed != before;
}

static bool prune_pair(struct tarn__view *view, uint32_t incref)
{
    struct tarn__refop *refop = &view->refops[incref];
    uint32_t decref;

    if (!refop->incref || !refop->call)
        return false;
    decref = tarn__view_decref(view, refop->value_number, refop->block);
    if (decref == TARN__NONE)
        return false;
    tarn__view_remove(view, incref);
    tarn__view_remove(view, decref);
    view->pruning->report.per_block += 2;
    return true;
}

bool tarn__prune_per_block(struct tarn__view *view)
{
    bool changed = prune_nulls(view);

    for (uint32_t b = 0; b < view->block_count; b++)
        for (uint32_t i = view->first_refop[b + 1]; i-- > view->first_refop[b];)
            changed |= prune_pair(view, i);
    return changed;
}
