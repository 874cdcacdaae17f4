/* vmm_alias.c -- memory with more than one mapping (aliases).
 *
 * Moved memory is mapped at its new place, and nothing forces the pool to unmap the old
 * one. Unmapping is most of the cost of a move: on an H200 70 us a call, while a second
 * mapping and its access take 26 us a handle. Most old places are not reused for long. So
 * an old place that no work uses any more stays mapped, as a retired mapping. For the
 * pool it is an unmapped range. The pool unmaps it only in these cases:
 *
 * - Other memory is to come there.
 * - Its own memory is to be released; the driver has it back when no mapping is left.
 * - The pool is suspended, ends, or revokes a peer's access.
 *
 * The mappings of a handle form a ring through the table. At most one of them is in use.
 * The others are retired, or retiring until queued work is done, or the driver
 * failed to unmap them.
 */
#include "pool/backing/vmm_alias.h"
#include "pool/backing/vmm_map.h"
#include "pool/backing/vmm_table.h"

#define NOWHERE SIZE_MAX

/* Return the place where the memory of this place is in use. */
static size_t alias_in_use(const struct tarn__vmm *vmm, size_t page)
{
    size_t alias = page;

    do {
        if (!tarn__backing_is_hidden(&vmm->table[alias]))
            return alias;
        alias = tarn__vmm_table_next_alias(vmm, alias);
    } while (alias != page);
    return NOWHERE;
}

static bool is_retired(const struct tarn__vmm *vmm, size_t page)
{
    return page < vmm->high && vmm->table[page].first == page + 1 &&
           vmm->table[page].state == TARN__PAGE_RETIRED;
}

/* Return a retired mapping of the memory at `page`. */
static size_t retired_alias(const struct tarn__vmm *vmm, size_t page)
{
    for (size_t alias = tarn__vmm_table_next_alias(vmm, page); alias != page;
         alias = tarn__vmm_table_next_alias(vmm, alias))
        if (is_retired(vmm, alias))
            return alias;
    return NOWHERE;
}

/* The most retired mappings of one handle. The pool walks the ring, and makes one call
 * for each mapping when the memory is released. */
enum { RETIRED_MAX = 16 };

/* Unmap the oldest one if these are too many. The ring is in their order, and begins
 * behind the place that is in use. */
static void bound_retired(struct tarn__vmm *vmm, const struct tarn__calls *calls,
                          size_t in_use)
{
    size_t oldest = retired_alias(vmm, in_use), count = 0;

    for (size_t alias = tarn__vmm_table_next_alias(vmm, in_use); alias != in_use;
         alias = tarn__vmm_table_next_alias(vmm, alias))
        count += is_retired(vmm, alias);
    if (count > RETIRED_MAX)
        tarn__vmm_map_undo(
            vmm, calls,
            tarn__vmm_table_span(vmm, oldest, oldest + vmm->table[oldest].count), true);
}

void tarn__vmm_alias_retire(struct tarn__vmm *vmm, const struct tarn__calls *calls,
                            struct tarn__span span)
{
    size_t page = tarn__vmm_table_page(vmm, span.address),
           end = tarn__vmm_table_end_page(vmm, span), after;

    for (; page < end; page = after) {
        after = page + vmm->table[page].count;
        vmm->table[page].state = TARN__PAGE_RETIRING;
        size_t in_use = alias_in_use(vmm, page);
        if (in_use == NOWHERE) { /* it was released meanwhile, or must not stay here */
            tarn__vmm_map_undo(vmm, calls, tarn__vmm_table_span(vmm, page, after), true);
            continue;
        }
        vmm->table[page].state = TARN__PAGE_RETIRED;
        bound_retired(vmm, calls, in_use);
    }
}

void tarn__vmm_alias_unmap_in(struct tarn__vmm *vmm, const struct tarn__calls *calls,
                              struct tarn__span span)
{
    size_t page = tarn__vmm_table_page(vmm, span.address),
           end = tarn__vmm_table_end_page(vmm, span), after;

    for (; page < end; page = after) {
        after = page + 1;
        if (vmm->table[page].first == 0)
            continue;
        page = vmm->table[page].first - 1; /* it may begin before the span */
        after = page + vmm->table[page].count;
        if (!is_retired(vmm, page))
            continue;
        while (after < end && is_retired(vmm, after))
            after += vmm->table[after].count;
        tarn__vmm_map_undo(vmm, calls, tarn__vmm_table_span(vmm, page, after), true);
    }
}

void tarn__vmm_alias_unmap_all(struct tarn__vmm *vmm, const struct tarn__calls *calls)
{
    tarn__vmm_alias_unmap_in(vmm, calls, tarn__vmm_table_span(vmm, vmm->low, vmm->high));
}

void tarn__vmm_alias_unlink_retiring(struct tarn__vmm *vmm)
{
    for (size_t page = vmm->low; page < vmm->high; page++) {
        const struct tarn__page *entry = &vmm->table[page];
        if (entry->state == TARN__PAGE_RETIRING && entry->next)
            tarn__vmm_table_unlink(vmm, page);
    }
}

/* Return the end of the adjacent retired mappings of handles of `span`, from this one
 * on. */
static size_t end_of_retired(const struct tarn__vmm *vmm, size_t alias,
                             struct tarn__span span)
{
    size_t first = tarn__vmm_table_page(vmm, span.address),
           end = tarn__vmm_table_end_page(vmm, span);

    do {
        alias += vmm->table[alias].count;
    } while (is_retired(vmm, alias) && alias_in_use(vmm, alias) >= first &&
             alias_in_use(vmm, alias) < end);
    return alias;
}

CUresult_ tarn__vmm_alias_unmap_of(struct tarn__vmm *vmm, const struct tarn__calls *calls,
                                   struct tarn__span span)
{
    size_t page = tarn__vmm_table_page(vmm, span.address),
           end = tarn__vmm_table_end_page(vmm, span), alias;
    CUresult_ result = CUDA_SUCCESS_;

    for (; page < end; page += vmm->table[page].count)
        while ((alias = retired_alias(vmm, page)) != NOWHERE) {
            struct tarn__span retired =
                tarn__vmm_table_span(vmm, alias, end_of_retired(vmm, alias, span));
            result = tarn__vmm_map_unmap(vmm, calls, retired);
            if (result != CUDA_SUCCESS_)
                return result;
            tarn__vmm_table_remove(vmm, retired);
        }
    return result;
}
