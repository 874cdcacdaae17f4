/* guard.h -- whether a plan pays.
 *
 * A step is what lies between two marks of the program, or as many allocations as the plan
 * has. A step does not pay if less than 90 % of its bytes are planned. It does not pay
 * either if the pool had more memory than a plain pool would have: for a learned plan, than
 * the pool had while it recorded. After two such steps in
 * a row the pool stops to follow the plan. A pool that learns makes another one, at most
 * TARN__LEARN_FAILURES times.
 */
#ifndef TARN_POOL_FOLLOW_GUARD_H
#define TARN_POOL_FOLLOW_GUARD_H

#include "pool/pool.h"

/* Note an allocation of so many quanta, which may begin a step. Returns false if the pool
 * follows no plan any more. */
bool tarn__guard_note_allocation(struct tarn__pool *pool, uint32_t quanta)
    TARN__REQUIRES(pool_lock);
/* Note that it got a planned address. */
void tarn__guard_note_planned(struct tarn__pool *pool, uint32_t quanta)
    TARN__REQUIRES(pool_lock);
/* Note that it is a slot outside of the layout: it counts neither as planned nor as
 * missed. */
void tarn__guard_note_outside(struct tarn__pool *pool, uint32_t quanta)
    TARN__REQUIRES(pool_lock);
/* Note `count` allocations of `quanta` quanta each, which got planned addresses. */
void tarn__guard_note_repeats(struct tarn__pool *pool, uint32_t quanta, uint64_t count)
    TARN__REQUIRES(pool_lock);
/* Note whether the plan has a slot for it. */
void tarn__guard_note_slot(struct tarn__pool *pool, bool has_slot)
    TARN__REQUIRES(pool_lock);
/* Return true if the step has become other work: too many requests had no slot. An evaluation
 * behind the mark of a training step may begin as that does. A plan that is followed on would
 * keep its memory from the other work, and the same memory would move there and back. */
bool tarn__guard_is_other_work(const struct tarn__pool *pool) TARN__REQUIRES(pool_lock);
/* End a step. If the plan did not pay twice, the pool follows it no longer. */
void tarn__guard_end_step(struct tarn__pool *pool) TARN__REQUIRES(pool_lock);
/* Warn if a plan has ended since the last call. No lock held. */
void tarn__guard_warn(struct tarn__pool *pool);

#endif
