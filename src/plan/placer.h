/* placer.h -- gives items their offsets, one after another in any order.
 *
 * Two items conflict if they overlap in time, or if less than the margin lies between the
 * end of one and the start of the other (plan.h). An item goes into the smallest gap
 * between the placed items that conflict with it, else on top of them.
 *
 * The placed items that may conflict are found by the start: a set of those that are
 * placed, and for every `stride` items the list of those that still live there. With a
 * stride of about the number of items alive, one search reads as many candidates as
 * there are conflicts, and all lists have about as many entries as there are items.
 */
#ifndef TARN_PLAN_PLACER_H
#define TARN_PLAN_PLACER_H

#include "plan/bits.h"
#include "plan/boxes.h"

/* An item and its place, together: a search reads many, each at a place of its own. */
struct tarn__place {
    uint32_t start, end, quanta, offset; /* the offset is valid once it is placed */
    uint32_t stream, free_stream;
    bool never_waits;
};

/* What a list has of an item: all that a search reads, so that it reads one array. */
struct tarn__listed {
    uint32_t end, offset, top; /* top: the offset behind it */
    uint32_t free_stream;
};

struct tarn__placer {
    struct tarn__place *places; /* by item */
    size_t count;
    const struct tarn__plan_rules *rules;
    uint32_t lag;     /* the largest margin between two of the items */
    uint32_t *behind; /* by item: the first that starts its margin after its end */
    uint64_t pairs;   /* of items that may conflict: what one layout costs */
    uint32_t stride;  /* items from one list to the next */
    struct tarn__listed *lists; /* the entries of all lists */
    size_t *list_begin;         /* by list, and the end of the last */
    uint32_t *list_count;
    struct tarn__bits placed;
    uint64_t *conflicts; /* of the present item: offset << 32 | end */
    uint64_t *scratch;   /* as many, for sorting */
    uint64_t visits;     /* candidates so far: a measure of the time */
};

/* Create a placer of these items; NULL: no host memory. The rules are borrowed. */
struct tarn__placer *tarn__placer_create(const struct tarn__boxes *boxes,
                                         const struct tarn__plan_rules *rules);
void tarn__placer_free(struct tarn__placer *placer);

/* Place all items in this order. Stops as soon as the height reaches `limit`. Returns the
 * height, in quanta, or UINT32_MAX: it is at least `limit`. */
uint32_t tarn__placer_run(struct tarn__placer *placer, const uint32_t *order,
                          uint32_t limit);

/* Write the offset of each slot of each item, by slot. */
void tarn__placer_unpack(const struct tarn__placer *placer,
                         const struct tarn__boxes *boxes, const struct tarn_plan *plan,
                         uint32_t *offsets);

#endif
