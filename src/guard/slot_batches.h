/* slot_batches.h -- batches of freed slots: their event, their check and their fill.
 *
 * A batch is open while frees of its stream join it. The free that fills it records an
 * event, and the batch is closed. Frees without a stream have a batch that ends with a wait
 * for the device. So has each open batch when all blocks are checked.
 */
#ifndef TARN_GUARD_SLOT_BATCHES_H
#define TARN_GUARD_SLOT_BATCHES_H

#include "guard/order.h"
#include "guard/slot_sets.h"

/* Add a freed slot to the batch of its stream. `order` and `handle` are those of the free.
 * In a workspace. Returns false if the slot is as before: there is no host memory, or a
 * call failed. */
bool tarn__slot_batches_add(struct tarn__guard *guard, struct tarn__workspace_use *use,
                            struct tarn__guard_block *slot, enum tarn__order order,
                            tarn_stream stream, CUstream_ handle);

/* Add a freed slot to the open batch of its stream, if there is one, and if it stays open.
 * Returns false otherwise. */
bool tarn__slot_batches_join(struct tarn__guard *guard, struct tarn__guard_block *slot,
                             const struct tarn__order_known *known);

/* Make new slots, which are free when their fill is complete. In a workspace. */
void tarn__slot_batches_make(struct tarn__guard *guard, struct tarn__workspace_use *use,
                             tarn_resource *resource, size_t stride);

/* Query the events of a few batches. Check and fill those that are complete. No lock is
 * held. */
void tarn__slot_batches_poll(struct tarn__guard *guard);

/* Check all freed slots of a device. Waits for the device. */
tarn_status tarn__slot_batches_settle(struct tarn__guard *guard, int device);

/* Forget all batches; no thread uses the guard any more. Their slots are in quarantine. */
void tarn__slot_batches_drop(struct tarn__guard *guard);

#endif
