/* next_use.h -- when a plan needs its addresses again.
 *
 * A plan that is higher than the pool's aim moves pages. The fewest move if those go first
 * that are needed last. The list of the slots of each page has at most two entries a slot.
 */
#ifndef TARN_POOL_NEXT_USE_H
#define TARN_POOL_NEXT_USE_H

#include "plan/page_uses.h"

struct tarn__next_uses {
    struct tarn__page_uses pages; /* `count` 0: there is no table */
    uint32_t *times;              /* by slot of the sequences: its number in the plan */
    uint32_t slots;               /* of the plan */
};

/* Make the table. `times` belongs to it from now on. Returns false without host memory. */
bool tarn__next_uses_init(struct tarn__next_uses *uses, const tarn_plan *plan,
                          uint32_t *times);
void tarn__next_uses_free(struct tarn__next_uses *uses);
/* Return the bytes of host memory. */
size_t tarn__next_uses_bytes(const struct tarn__next_uses *uses);

/* Return how many slots of the plan begin from the slot `now` on before the first one that
 * has some of these quanta. Behind its last slot a plan begins anew. UINT32_MAX: none has any. */
uint32_t tarn__next_uses_distance(const struct tarn__next_uses *uses, uint64_t offset,
                                  uint64_t quanta, uint32_t now);

#endif
