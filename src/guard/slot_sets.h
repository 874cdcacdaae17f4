/* slot_sets.h -- the slots of a guard: blocks that it keeps for samples.
 *
 *     base                address            address + bytes        base + the stride
 *      |      red zone     | the caller's bytes | red zone            |
 *
 * A set has the slots of one resource with one stride, a power of two. A free slot has no
 * work under way, and all of its bytes are the fill. So the red zone behind a block begins
 * at its last byte, whatever its size.
 */
#ifndef TARN_GUARD_SLOT_SETS_H
#define TARN_GUARD_SLOT_SETS_H

#include "guard/workspace.h"
#include <stdatomic.h>

enum {
    TARN__SLOTS_MOST_STRIDE = 64 << 10,
    TARN__SLOTS_IN_BATCH = 64, /* most slots of a batch */
    TARN__SLOTS_STREAMS = 16   /* streams with an open batch */
};

struct tarn__slot_set {
    struct tarn__slot_set *next;
    tarn_resource *resource; /* borrowed */
    size_t stride;
    size_t count; /* of all slots of the set */
    /* Adjacent slots are allocations of the driver: no call can span two. */
    atomic_bool is_split;
    struct tarn__guard_list ready;
};

struct tarn__slot_batch; /* slot_checks.h */

/* `lock` of the guard guards it. */
struct tarn__slots {
    struct tarn__slot_set *sets;
    struct tarn__map
        by_address; /* address -> each struct tarn__guard_block * of a slot */
    struct tarn__slot_batch *open[TARN__SLOTS_STREAMS];
    struct tarn__slot_batch *first, **end; /* closed batches */
    size_t waiting;                        /* slots in batches, open or closed */
    uint64_t waiting_bytes;
    uint64_t freed_bytes; /* of all slots that were ever freed */
};

/* Create the slots of a guard, which has none yet. NULL: no host memory. */
struct tarn__slots *tarn__slot_sets_create(void);
/* Free them. No slot is left. */
void tarn__slot_sets_destroy(struct tarn__slots *slots);

/* Find the stride for a block; 0: it is too large for a slot, or its alignment is. */
size_t tarn__slot_sets_stride(const struct tarn__guard *guard, size_t bytes,
                              size_t alignment);

/* Take a free slot of this context, if more than `keep` are free. Slots that are not
 * usable any more are retired. NULL: there is none. */
struct tarn__guard_block *tarn__slot_sets_take(struct tarn__guard *guard,
                                               const tarn_resource *resource,
                                               size_t stride, uint64_t context_generation,
                                               size_t keep);

/* Lay a block of `bytes` out in a slot. */
void tarn__slot_sets_lay_out(const struct tarn__guard *guard,
                             struct tarn__guard_block *slot, size_t bytes);

/* Find the slot with this address. NULL: there is none. `lock` held. */
struct tarn__guard_block *tarn__slot_sets_find(const struct tarn__guard *guard,
                                               tarn_device_ptr address);

/* Add a slot to the free ones. `lock` held. */
void tarn__slot_sets_put(struct tarn__guard *guard, struct tarn__guard_block *slot);

/* Allocate a slot on the guard's own stream. Its bytes are not filled yet. In a workspace.
 * NULL: no memory. */
struct tarn__guard_block *tarn__slot_sets_make(struct tarn__guard *guard,
                                               struct tarn__workspace_use *use,
                                               tarn_resource *resource, size_t stride);

/* Make a slot an ordinary block: it is in no set any more. */
void tarn__slot_sets_leave(struct tarn__guard *guard, struct tarn__guard_block *slot);

/* Make a slot without work an ordinary block in quarantine, which has no check. */
void tarn__slot_sets_retire(struct tarn__guard *guard, struct tarn__guard_block *slot);

/* Retire the free slots of `resource` (NULL: of all). */
void tarn__slot_sets_retire_ready(struct tarn__guard *guard,
                                  const tarn_resource *resource);

#endif
