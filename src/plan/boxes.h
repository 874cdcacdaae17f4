/* boxes.h -- small blocks of alike lives, grouped into boxes that are laid out as one.
 *
 * A box has blocks side by side, of one stream, that begin and end at nearly the same
 * times. It lives from the first begin to the last end. So a box wastes little, and there
 * are far fewer boxes than blocks. A block that no box suits is an item of its own.
 *
 * A row has blocks of one size and one stream, one after another at one address.
 */
#ifndef TARN_PLAN_BOXES_H
#define TARN_PLAN_BOXES_H

#include "plan/plan.h"

struct tarn__item {
    uint32_t start, end, quanta; /* as in a slot */
    uint32_t stream, free_stream;
    uint32_t first;   /* its first slot; the others follow in `next` */
    bool never_waits; /* one of its slots does not */
    bool is_row;      /* its slots are in a row; else side by side */
};

struct tarn__boxes {
    struct tarn__item *items; /* sorted by start; no two have the same */
    size_t count;
    uint32_t *next; /* by slot: the next one of its item, or TARN__PLAN_NO_SLOT */
};

/* How blocks are grouped. */
struct tarn__boxing {
    uint32_t quanta; /* only blocks up to this size go into boxes; 0: none does */
    unsigned alike;  /* lives agree to 1/2^alike of their length */
};

/* Group the slots of a plan, whose offsets are not yet known. false: no host memory. */
bool tarn__boxes_make(struct tarn__boxes *boxes, const struct tarn_plan *plan,
                      struct tarn__boxing boxing);
void tarn__boxes_free(struct tarn__boxes *boxes);

#endif
