/* match.h -- which slot of its sequence an allocation is.
 *
 * An allocation is the slot at the cursor if the sizes are equal. Else it is the nearest
 * unused slot of its size within 64 places; then the cursor follows it. Else it is the
 * slot to which the last eight sizes lead; then the cursor goes there. Else it is none.
 * With `takes_larger` an allocation is the slot at the cursor if that is at most 16 times as
 * large, before all else; and a larger one ahead, if none of its size is near.
 *
 * The cursor begins anew behind the last slot. The functions know sizes alone. The caller
 * rejects a slot whose addresses are in use, and asks for the next one.
 */
#ifndef TARN_POOL_MATCH_H
#define TARN_POOL_MATCH_H

#include "pool/follow/sequences.h"

/* Places ahead of the cursor that are searched, the cursor included; and behind it. */
enum { TARN__MATCH_WINDOW = 64 };

/* One search; zeros but for the first four members. */
struct tarn__match {
    struct tarn__sequences *sequences;
    struct tarn__sequence *sequence;
    uint32_t quanta;
    bool takes_larger;  /* the step borrows the plan (learn.h): larger slots will do */
    uint32_t look;      /* how many places were looked at */
    bool is_realigned;  /* the slot was found by the last sizes */
    bool has_realigned; /* this was tried */
    uint32_t place;     /* of the slot that was found */
};

/* Begin to search for an allocation of so many quanta, which is then the last size. */
void tarn__match_begin(struct tarn__match *match);
/* Find the next candidate, which is not live: `match->place`. Returns false if there is
 * none. */
bool tarn__match_next(struct tarn__match *match);
/* The allocation is the slot that was found: the cursor goes behind it. */
void tarn__match_accept(struct tarn__match *match);
/* The allocation gets no slot. Returns true if it is that at the cursor, whose addresses are in
 * use. Then the cursor goes behind it. */
bool tarn__match_reject(struct tarn__match *match);

/* Return how many of the next slots, at most `most`, have these addresses, one after the
 * other. */
uint32_t tarn__match_run(const struct tarn__sequence *sequence, uint64_t offset,
                         uint32_t quanta, uint32_t most);
/* The last `count` allocations, of so many quanta each, were the next slots. */
void tarn__match_pass(struct tarn__sequence *sequence, uint32_t quanta, uint32_t count);

/* Return the slot that was found. */
static inline const struct tarn__sequences_slot *tarn__match_slot(
    const struct tarn__match *match)
{
    return &match->sequence->slots[match->place];
}

#endif
