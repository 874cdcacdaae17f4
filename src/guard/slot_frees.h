/* slot_frees.h -- frees of slots, and the open batches of their streams. */
#ifndef TARN_GUARD_SLOT_FREES_H
#define TARN_GUARD_SLOT_FREES_H

#include "guard/order.h"
#include "guard/slot_sets.h"

/* Add a freed slot to the batch of its stream. `order` and `handle` are those of the free.
 * In a workspace. Returns false if the slot is as before: there is no host memory, or a
 * call failed. */
bool tarn__slot_frees_add(struct tarn__guard *guard, struct tarn__workspace_use *use,
                          struct tarn__guard_block *slot, enum tarn__order order,
                          tarn_stream stream, CUstream_ handle);

/* Add a freed slot to the open batch of its stream, if there is one, and if it stays open.
 * Returns false otherwise. */
bool tarn__slot_frees_join(struct tarn__guard *guard, struct tarn__guard_block *slot,
                           const struct tarn__order_known *known);

#endif
