/* pages_places.c -- memory with more than one mapping (aliases).
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
 * The others are retired (left), or retiring until queued work is done, or the driver
 * failed to unmap them.
 */
#include "resource/pool/pages_inside.h"

#define NOWHERE SIZE_MAX

static size_t next_place(const struct tarn__vmm *vmm, size_t page)
{
    return vmm->table[page].next ? vmm->table[page].next - 1 : page;
}

void tarn__places_join(struct tarn__vmm *vmm, uint64_t from, uint64_t to)
{
    size_t one = tarn__vmm_page(vmm, from), other = tarn__vmm_page(vmm, to);

    vmm->table[other].next = (uint32_t)next_place(vmm, one) + 1;
    vmm->table[one].next = (uint32_t)other + 1;
}

void tarn__places_part(struct tarn__vmm *vmm, size_t page)
{
    size_t after = next_place(vmm, page), before = page;

    while (next_place(vmm, before) != page)
        before = next_place(vmm, before);
    vmm->table[before].next = after == before ? 0 : (uint32_t)after + 1;
    vmm->table[page].next = 0;
}

/* Return the place where the memory of this place is in use. */
static size_t place_in_use(const struct tarn__vmm *vmm, size_t page)
{
    size_t place = page;

    do {
        if (!vmm->table[place].unknown)
            return place;
        place = next_place(vmm, place);
    } while (place != page);
    return NOWHERE;
}

static bool is_left(const struct tarn__vmm *vmm, size_t page)
{
    return page < vmm->high && vmm->table[page].first == page + 1 &&
           vmm->table[page].left;
}

/* Return a retired mapping of the memory at `page`. */
static size_t left_place(const struct tarn__vmm *vmm, size_t page)
{
    for (size_t place = next_place(vmm, page); place != page;
         place = next_place(vmm, place))
        if (is_left(vmm, place))
            return place;
    return NOWHERE;
}

/* The most retired mappings of one handle. The pool walks the ring, and makes one call
 * for each mapping when the memory is released. */
enum { LEFT_MAX = 16 };

/* Unmap the oldest one if these are too many. The ring is in their order, and begins
 * behind the place that is in use. */
static void bound_left(struct tarn__vmm *vmm, const struct tarn__calls *calls,
                       size_t in_use)
{
    size_t oldest = left_place(vmm, in_use), count = 0;

    for (size_t place = next_place(vmm, in_use); place != in_use;
         place = next_place(vmm, place))
        count += is_left(vmm, place);
    if (count > LEFT_MAX)
        tarn__vmm_undo(vmm, calls,
                       tarn__vmm_span(vmm, oldest, oldest + vmm->table[oldest].count),
                       true);
}

void tarn__places_leave(struct tarn__vmm *vmm, const struct tarn__calls *calls,
                        struct tarn__span span)
{
    size_t page = tarn__vmm_page(vmm, span.address), end = tarn__vmm_end_page(vmm, span),
           after;

    for (; page < end; page = after) {
        after = page + vmm->table[page].count;
        vmm->table[page].unknown = 1;
        size_t in_use = place_in_use(vmm, page);
        if (in_use == NOWHERE) { /* it was released meanwhile, or must not stay here */
            tarn__vmm_undo(vmm, calls, tarn__vmm_span(vmm, page, after), true);
            continue;
        }
        vmm->table[page].left = 1;
        bound_left(vmm, calls, in_use);
    }
}

void tarn__places_clear(struct tarn__vmm *vmm, const struct tarn__calls *calls,
                        struct tarn__span span)
{
    size_t page = tarn__vmm_page(vmm, span.address), end = tarn__vmm_end_page(vmm, span),
           after;

    for (; page < end; page = after) {
        after = page + 1;
        if (vmm->table[page].first == 0)
            continue;
        page = vmm->table[page].first - 1; /* it may begin before the span */
        after = page + vmm->table[page].count;
        if (!is_left(vmm, page))
            continue;
        while (after < end && is_left(vmm, after))
            after += vmm->table[after].count;
        tarn__vmm_undo(vmm, calls, tarn__vmm_span(vmm, page, after), true);
    }
}

void tarn__places_clear_all(struct tarn__vmm *vmm, const struct tarn__calls *calls)
{
    tarn__places_clear(vmm, calls, tarn__vmm_span(vmm, vmm->low, vmm->high));
}

void tarn__places_part_lingering(struct tarn__vmm *vmm)
{
    for (size_t page = vmm->low; page < vmm->high; page++) {
        const struct tarn__page *entry = &vmm->table[page];
        if (entry->unknown && !entry->left && !entry->stuck && entry->next)
            tarn__places_part(vmm, page);
    }
}

/* Return the end of the adjacent retired mappings of handles of `span`, from this one
 * on. */
static size_t end_of_left(const struct tarn__vmm *vmm, size_t place,
                          struct tarn__span span)
{
    size_t first = tarn__vmm_page(vmm, span.address), end = tarn__vmm_end_page(vmm, span);

    do {
        place += vmm->table[place].count;
    } while (is_left(vmm, place) && place_in_use(vmm, place) >= first &&
             place_in_use(vmm, place) < end);
    return place;
}

CUresult_ tarn__places_end(struct tarn__vmm *vmm, const struct tarn__calls *calls,
                           struct tarn__span span)
{
    size_t page = tarn__vmm_page(vmm, span.address), end = tarn__vmm_end_page(vmm, span),
           place;
    CUresult_ result = CUDA_SUCCESS_;

    for (; page < end; page += vmm->table[page].count)
        while ((place = left_place(vmm, page)) != NOWHERE) {
            struct tarn__span left =
                tarn__vmm_span(vmm, place, end_of_left(vmm, place, span));
            result = tarn__vmm_unmap(calls, left);
            if (result != CUDA_SUCCESS_)
                return result;
            tarn__vmm_forget(vmm, left);
        }
    return result;
}
