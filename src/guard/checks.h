/* checks.h -- copies of red zones and freed blocks that wait for their events. */
#ifndef TARN_GUARD_CHECKS_H
#define TARN_GUARD_CHECKS_H

#include "guard/workspace.h"

/* Which bytes of a block a check copies. */
enum tarn__checks_part {
    TARN__CHECKS_ZONES = 1,
    TARN__CHECKS_POISON = 2,   /* the first and the last of the caller's bytes */
    TARN__CHECKS_REPEATED = 4, /* a later check of the block copies them again */
};

/* Queue the copies of a block on a stream, and an event behind them. Returns false if a
 * call failed; then the block is not checked. Without bytes to copy it returns true. */
bool tarn__checks_queue(struct tarn__guard *guard, struct tarn__workspace_use *use,
                        struct tarn__guard_block *block, CUstream_ stream,
                        unsigned parts);

/* Compare a copy of a whole slot, whose block is freed. No lock is held. */
void tarn__checks_compare(struct tarn__guard *guard,
                          const struct tarn__guard_block *block,
                          const unsigned char *copy);

/* Query the oldest events, and compare the copies that have arrived. No lock is held. */
void tarn__checks_poll(struct tarn__guard *guard);

/* Wait for all events of checks that have been queued, and compare. */
tarn_status tarn__checks_finish(struct tarn__guard *guard);

/* Forget all checks; no thread uses the guard any more. */
void tarn__checks_drop(struct tarn__guard *guard);

#endif
