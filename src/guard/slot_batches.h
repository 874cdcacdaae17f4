/* slot_batches.h -- the closed batches of slots, which wait for their events.
 *
 * A batch is open while frees of its stream join it (slot_frees.h). The free that fills it
 * records an event, and the batch is closed. Frees without a stream have a batch that ends
 * with a wait for the device. So has each open batch when all blocks are checked.
 */
#ifndef TARN_GUARD_SLOT_BATCHES_H
#define TARN_GUARD_SLOT_BATCHES_H

#include "guard/slot_checks.h"

/* Create a batch. NULL: no host memory. */
struct tarn__slot_batch *tarn__slot_batches_new(enum tarn__slot_batch_state state,
                                                const struct tarn__order_known *known);

/* Return true if a slot of any stride can join a batch; and have one join it. */
bool tarn__slot_batches_has_capacity(const struct tarn__slot_batch *batch);
void tarn__slot_batches_join(struct tarn__slot_batch *batch,
                             struct tarn__guard_block *slot);

/* Append a closed batch to the list. */
void tarn__slot_batches_append(struct tarn__guard *guard, struct tarn__slot_batch *batch);

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
