/* samples.h -- samples that are served from slots. */
#ifndef TARN_GUARD_SAMPLES_H
#define TARN_GUARD_SAMPLES_H

#include "guard/order.h"
#include "guard/workspace.h"

/* A slot in the guard is found by its address: see slot_sets.h. */

/* Allocate a slot for a block, if one is free and its stream is known without a scope.
 * Returns NULL otherwise. The caller enters the site, and calls tarn__samples_begin(). */
struct tarn__guard_block *tarn__samples_take_quickly(struct tarn__guard *guard,
                                                     const tarn_resource *resource,
                                                     size_t bytes, size_t alignment,
                                                     tarn_stream stream);

/* Allocate a slot for a block. Makes slots and checks freed ones where that is due. In a
 * workspace. NULL: none is free, or no slot is large enough. The caller enters the site, and
 * calls tarn__samples_begin(). */
struct tarn__guard_block *tarn__samples_take(struct tarn__guard *guard,
                                             struct tarn__workspace_use *use,
                                             tarn_resource *resource, size_t bytes,
                                             size_t alignment);

/* Make a slot live. */
void tarn__samples_begin(struct tarn__guard *guard, struct tarn__guard_block *slot);

/* Take a live slot for its free. NULL with TARN_OK: there is none. A second free sets
 * `*site_out`. */
tarn_status tarn__samples_take_live(struct tarn__guard *guard,
                                    const tarn_resource *resource,
                                    tarn_device_ptr address, size_t bytes,
                                    struct tarn__guard_block **out,
                                    struct tarn__guard_site *site_out);

/* Free a slot whose stream is known without a scope. Returns false if it is not, or if the
 * free needs a call of the driver: then the slot is as before. */
bool tarn__samples_free_quickly(struct tarn__guard *guard, struct tarn__guard_block *slot,
                                tarn_stream stream);

/* Free a block whose record was taken, if it is a slot. In a workspace. Returns false if it
 * is an ordinary block, which is not freed. */
bool tarn__samples_free(struct tarn__guard *guard, struct tarn__workspace_use *use,
                        struct tarn__guard_block *block, enum tarn__order order,
                        tarn_stream stream, CUstream_ handle);

/* Make a block an ordinary one if it is a slot. */
void tarn__samples_leave(struct tarn__guard *guard, struct tarn__guard_block *block);

/* Check all freed slots. Waits for their devices. */
tarn_status tarn__samples_settle(struct tarn__guard *guard);

/* Check all freed slots, and move those of `resource` (NULL: of all) to the quarantine. */
void tarn__samples_flush(struct tarn__guard *guard, tarn_resource *resource);

/* Return the number of freed slots that are not checked yet, and their bytes. `lock` held. */
size_t tarn__samples_waiting(const struct tarn__guard *guard, uint64_t *bytes_out);

/* Find the requested bytes of a live slot. False: there is none. `lock` held. */
bool tarn__samples_requested_bytes(const struct tarn__guard *guard,
                                   tarn_device_ptr address, size_t *out);

/* Forget all freed slots: they are in quarantine. No thread uses the guard any more. */
void tarn__samples_drop(struct tarn__guard *guard);

#endif
