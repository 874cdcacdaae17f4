/* rows.c -- blocks of one size that follow one another, in rows that are laid out as one. */
#include "plan/rows.h"
#include <stdlib.h>

/* The time between two blocks of a row is at most so many times the life of the second. */
enum { GAP_LIVES = 8 };

/* The start or the end of an item, among those of its kind: of its size and stream. */
struct event {
    uint64_t kind;
    uint32_t time, item;
    bool is_start;
};

struct joining {
    struct tarn__boxes *boxes;
    struct event *events;
    size_t count;
    uint32_t *row;   /* by item: the first item of its row */
    uint32_t *last;  /* by item, if it is the first of a row: the last slot */
    uint32_t *freed; /* a stack: items of one kind whose rows may go on */
};

static int compare_events(const void *a, const void *b)
{
    const struct event *x = a, *y = b;

    if (x->kind != y->kind)
        return x->kind > y->kind ? 1 : -1;
    return (x->time > y->time) - (x->time < y->time);
}

static bool can_be_in_a_row(const struct tarn__boxes *boxes,
                            const struct tarn__item *item)
{
    return boxes->next[item->first] == TARN__PLAN_NO_SLOT &&
           item->stream == item->free_stream && item->stream != TARN__PLAN_NO_STREAM;
}

/* List the events of all items that can be in a row, kind by kind, in order of time. Only
 * those at the end of the work are at one time. */
static void list_events(struct joining *joining)
{
    for (uint32_t i = 0; i < joining->boxes->count; i++) {
        const struct tarn__item *item = &joining->boxes->items[i];
        uint64_t kind = (uint64_t)item->quanta << 32 | item->stream;
        joining->row[i] = i;
        joining->last[i] = item->first;
        if (!can_be_in_a_row(joining->boxes, item))
            continue;
        joining->events[joining->count++] = (struct event){kind, item->start, i, true};
        joining->events[joining->count++] = (struct event){kind, item->end, i, false};
    }
    qsort(joining->events, joining->count, sizeof *joining->events, compare_events);
}

/* Put an item at the end of the row of another one, if the time between is short. */
static bool join(struct joining *joining, uint32_t before, uint32_t index)
{
    uint32_t first = joining->row[before];
    struct tarn__item *row = &joining->boxes->items[first];
    const struct tarn__item *item = &joining->boxes->items[index];

    if (item->start - row->end > (uint64_t)GAP_LIVES * (item->end - item->start))
        return false;
    joining->boxes->next[joining->last[first]] = item->first;
    joining->last[first] = item->first;
    joining->row[index] = first;
    row->end = item->end;
    row->is_row = true;
    return true;
}

static void join_all(struct joining *joining)
{
    size_t freed = 0;

    for (size_t i = 0; i < joining->count; i++) {
        const struct event *event = &joining->events[i];
        if (i > 0 && event->kind != event[-1].kind)
            freed = 0;
        if (!event->is_start)
            joining->freed[freed++] = event->item;
        else if (freed > 0 && join(joining, joining->freed[freed - 1], event->item))
            freed--;
    }
}

static void drop_joined(struct joining *joining)
{
    struct tarn__boxes *boxes = joining->boxes;
    size_t kept = 0;

    for (size_t i = 0; i < boxes->count; i++)
        if (joining->row[i] == i)
            boxes->items[kept++] = boxes->items[i];
    boxes->count = kept;
}

bool tarn__rows_join(struct tarn__boxes *boxes)
{
    struct joining joining = {
        .boxes = boxes,
        .events = malloc((boxes->count + 1) * 2 * sizeof *joining.events),
        .row = malloc((boxes->count + 1) * sizeof *joining.row),
        .last = malloc((boxes->count + 1) * sizeof *joining.last),
        .freed = malloc((boxes->count + 1) * sizeof *joining.freed)};
    bool has_memory = joining.events && joining.row && joining.last && joining.freed;

    if (has_memory) {
        list_events(&joining);
        join_all(&joining);
        drop_joined(&joining);
    }
    free(joining.events);
    free(joining.row);
    free(joining.last);
    free(joining.freed);
    return has_memory;
}
