/* next_use.h -- when a plan needs its addresses again.
 *
 * A plan that is higher than the pool's aim moves pages. The fewest move if those go first
 * that are needed last. The table has the slots of each stretch of addresses, in order of
 * time: their numbers in the plan. A stretch is one page, or more if the blocks are large:
 * the table has at most two entries a slot.
 */
#ifndef TARN_POOL_NEXT_USE_H
#define TARN_POOL_NEXT_USE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tarn__sequences_slot;

struct tarn__next_uses {
    uint32_t *times; /* by slot: its number in the plan */
    uint32_t *ends;  /* by stretch: the end of its entries in `users` */
    uint32_t *users; /* times of slots, by stretch, in their order */
    uint32_t count;  /* stretches; 0: there is no table */
    uint32_t slots;  /* of the plan */
    unsigned shift;  /* of a stretch, in quanta */
};

/* Make the table of slots below `height` quanta; `times` has the number of each in the plan,
 * and belongs to the table from now on. Returns false without host memory. */
bool tarn__next_uses_init(struct tarn__next_uses *uses,
                          const struct tarn__sequences_slot *slots, uint32_t *times,
                          uint32_t count, uint32_t height);
void tarn__next_uses_free(struct tarn__next_uses *uses);
/* Return the bytes of host memory. */
size_t tarn__next_uses_bytes(const struct tarn__next_uses *uses);

/* Return how many slots of the plan begin from the slot `now` on before the first one that
 * has some of these quanta. Behind its last slot a plan begins anew. UINT32_MAX: none has any. */
uint32_t tarn__next_uses_distance(const struct tarn__next_uses *uses, uint64_t offset,
                                  uint64_t quanta, uint32_t now);

#endif
