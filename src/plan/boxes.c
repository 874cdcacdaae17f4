/* boxes.c -- small blocks of alike lives, grouped into boxes that are laid out as one. */
#include "plan/boxes.h"
#include <stdlib.h>

/* A box has at most this many times the size of the largest block in boxes. */
enum { BOX_BLOCKS = 4 };

/* Slots of one group can share a box. */
struct group {
    uint64_t streams, life, begin, end;
    uint32_t slot;
};

static struct group group_of(const struct tarn__plan_slot *slot, unsigned alike)
{
    uint32_t life = slot->end - slot->start;
    unsigned log = 31 - (unsigned)__builtin_clz(life);
    uint32_t unit = log > alike ? (uint32_t)1 << (log - alike) : 1;

    return (struct group){.streams = (uint64_t)slot->stream << 32 | slot->free_stream,
                          .life = log,
                          .begin = slot->start / unit,
                          .end = slot->end / unit};
}

static int compare_numbers(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

static int compare_groups(const struct group *x, const struct group *y)
{
    int order = compare_numbers(x->streams, y->streams);

    if (order == 0)
        order = compare_numbers(x->life, y->life);
    if (order == 0)
        order = compare_numbers(x->begin, y->begin);
    return order ? order : compare_numbers(x->end, y->end);
}

static int compare_small(const void *a, const void *b)
{
    const struct group *x = a, *y = b;
    int order = compare_groups(x, y);

    return order ? order : compare_numbers(x->slot, y->slot);
}

static int compare_items(const void *a, const void *b)
{
    return compare_numbers(((const struct tarn__item *)a)->start,
                           ((const struct tarn__item *)b)->start);
}

static void begin_item(struct tarn__boxes *boxes, const struct tarn_plan *plan,
                       uint32_t index)
{
    const struct tarn__plan_slot *slot = &plan->slots[index];

    boxes->items[boxes->count++] = (struct tarn__item){
        .start = slot->start,
        .end = slot->end,
        .quanta = slot->quanta,
        .stream = slot->stream,
        .free_stream = slot->free_stream,
        .first = index,
        .never_waits = tarn__plan_never_waits(&plan->rules, slot->quanta)};
}

/* Put a slot into the latest box. */
static void join(struct tarn__boxes *boxes, const struct tarn_plan *plan, uint32_t index)
{
    const struct tarn__plan_slot *slot = &plan->slots[index];
    struct tarn__item *box = &boxes->items[boxes->count - 1];

    boxes->next[index] = box->first;
    box->first = index;
    box->start = slot->start < box->start ? slot->start : box->start;
    box->end = slot->end > box->end ? slot->end : box->end;
    box->quanta += slot->quanta;
    box->never_waits |= tarn__plan_never_waits(&plan->rules, slot->quanta);
}

static void fill(struct tarn__boxes *boxes, const struct tarn_plan *plan,
                 const struct group *small, size_t small_count, uint32_t limit)
{
    for (size_t i = 0; i < small_count; i++) {
        uint32_t quanta = plan->slots[small[i].slot].quanta;
        if (i > 0 && compare_groups(&small[i - 1], &small[i]) == 0 &&
            boxes->items[boxes->count - 1].quanta <= limit - quanta)
            join(boxes, plan, small[i].slot);
        else
            begin_item(boxes, plan, small[i].slot);
    }
}

bool tarn__boxes_make(struct tarn__boxes *boxes, const struct tarn_plan *plan,
                      struct tarn__boxing boxing)
{
    struct group *small = malloc((plan->count + 1) * sizeof *small);
    uint32_t most = UINT32_MAX / BOX_BLOCKS;
    size_t small_count = 0;

    *boxes =
        (struct tarn__boxes){.items = malloc((plan->count + 1) * sizeof *boxes->items),
                             .next = malloc((plan->count + 1) * sizeof *boxes->next)};
    if (!small || !boxes->items || !boxes->next) {
        free(small);
        tarn__boxes_free(boxes);
        return false;
    }
    boxing.quanta = boxing.quanta < most ? boxing.quanta : most;
    for (uint32_t i = 0; i < plan->count; i++) {
        boxes->next[i] = TARN__PLAN_NO_SLOT;
        if (plan->slots[i].quanta > boxing.quanta) {
            begin_item(boxes, plan, i);
            continue;
        }
        small[small_count] = group_of(&plan->slots[i], boxing.alike);
        small[small_count++].slot = i;
    }
    qsort(small, small_count, sizeof *small, compare_small);
    fill(boxes, plan, small, small_count, boxing.quanta * BOX_BLOCKS);
    free(small);
    qsort(boxes->items, boxes->count, sizeof *boxes->items, compare_items);
    return true;
}

void tarn__boxes_free(struct tarn__boxes *boxes)
{
    free(boxes->items);
    free(boxes->next);
    *boxes = (struct tarn__boxes){.items = NULL};
}
