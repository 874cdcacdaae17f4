/* page_uses.h -- the slots of a plan that use each page of its addresses, in order of time.
 *
 * A page has 2 MiB, or more if the blocks are so large that the list would be long.
 */
#ifndef TARN_PLAN_PAGE_USES_H
#define TARN_PLAN_PAGE_USES_H

#include "plan/plan.h"

struct tarn__page_uses {
    uint32_t *ends;  /* by page: the end of its slots in `slots` */
    uint32_t *slots; /* by page, then by start: numbers in the plan */
    uint32_t count;  /* of pages; 0: there is no list */
    unsigned shift;  /* of a page, in quanta */
};

/* Make the list of a plan, of at most `most` entries where larger pages can have that. Slots
 * outside of the layout, behind its height, have none. Returns false without host memory. */
bool tarn__page_uses_init(struct tarn__page_uses *uses, const tarn_plan *plan,
                          uint64_t most);
void tarn__page_uses_free(struct tarn__page_uses *uses);

/* Return where the slots of a page begin in `slots`. */
static inline uint32_t tarn__page_uses_begin(const struct tarn__page_uses *uses,
                                             uint32_t page)
{
    return page > 0 ? uses->ends[page - 1] : 0;
}

/* Return the first and the last page of a slot in the layout. */
static inline uint32_t tarn__page_uses_first(const struct tarn__page_uses *uses,
                                             const struct tarn__plan_slot *slot)
{
    return slot->offset >> uses->shift;
}

static inline uint32_t tarn__page_uses_last(const struct tarn__page_uses *uses,
                                            const struct tarn__plan_slot *slot)
{
    return (slot->offset + (slot->quanta - 1)) >> uses->shift;
}

#endif
