/* slot_checks.h -- a batch of slots: its check and its fill.
 *
 * The slots of a batch are sorted by their addresses. Each run of adjacent ones has one copy
 * and one fill.
 */
#ifndef TARN_GUARD_SLOT_CHECKS_H
#define TARN_GUARD_SLOT_CHECKS_H

#include "guard/order.h"
#include "guard/slot_sets.h"

enum tarn__slot_batch_state {
    TARN__SLOT_BATCH_OPEN, /* frees join it */
    TARN__SLOT_BATCH_UNKNOWN, /* no event could be recorded: a wait for the device has to end it */
    TARN__SLOT_BATCH_USED, /* `event` is behind the program's work; NULL: the work is complete */
    TARN__SLOT_BATCH_QUEUED /* `event` is behind the copies and the fill */
};

struct tarn__slot_batch {
    struct tarn__slot_batch *next;
    enum tarn__slot_batch_state state;
    struct tarn__order_known known; /* the stream of the frees, and the context */
    uint64_t freed_bytes;           /* the guard's at the last free: for the quarantine */
    bool is_new;                    /* of slots that were never used */
    bool is_copied, is_refilled;
    CUevent_ event;
    struct tarn__workspace_buffer *buffer;
    size_t bytes; /* of all slots */
    size_t count;
    struct tarn__guard_block *slots[TARN__SLOTS_IN_BATCH];
};

/* Queue the check and the fill of slots that no work uses. In a workspace. Returns false if
 * there is no buffer or no event for it. */
bool tarn__slot_checks_queue(struct tarn__guard *guard, struct tarn__workspace_use *use,
                             struct tarn__slot_batch *batch);

/* Compare the copies, which are complete. No lock is held. */
void tarn__slot_checks_compare(struct tarn__guard *guard,
                               const struct tarn__slot_batch *batch);

#endif
