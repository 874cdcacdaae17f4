/* binary_merge.c -- the rows and records of a binary log that wait for their turn.
 *
 * The rows of a chunk are in order already, so a heap of chunks gives the next row. Rows
 * of equal times come in the order of their chunks.
 */
#include "trace/binary_merge.h"
#include <stdlib.h>

struct tarn__binary_run {
    uint64_t time_ns; /* of the next row; does not decrease */
    uint64_t number;  /* of the chunk */
    uint64_t thread;
    void *items; /* rows, or the payload of a record; owned */
    uint32_t at, count;
    uint32_t kind; /* 0: rows */
};

void tarn__binary_merge_init(struct tarn__binary_merge *merge)
{
    *merge = (struct tarn__binary_merge){.heap = NULL};
}

void tarn__binary_merge_free(struct tarn__binary_merge *merge)
{
    for (size_t i = 0; i < merge->count; i++)
        free(merge->heap[i].items);
    free(merge->heap);
    tarn__binary_merge_init(merge);
}

/* Return the bytes of host memory that a run takes. */
static size_t size_of(const struct tarn__binary_run *run)
{
    size_t item = run->kind ? 1 : sizeof(struct tarn__binary_row);

    return sizeof *run + run->count * item;
}

static bool is_before(const struct tarn__binary_run *a, const struct tarn__binary_run *b)
{
    return a->time_ns != b->time_ns ? a->time_ns < b->time_ns : a->number < b->number;
}

/* Move the run at the top down to its place. */
static void sift_down(struct tarn__binary_merge *merge)
{
    struct tarn__binary_run *heap = merge->heap, moved = heap[0];
    size_t at = 0, child;

    while ((child = 2 * at + 1) < merge->count) {
        if (child + 1 < merge->count && is_before(&heap[child + 1], &heap[child]))
            child++;
        if (!is_before(&heap[child], &moved))
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = moved;
}

/* Go on behind the item at the top. */
static void advance(struct tarn__binary_merge *merge)
{
    struct tarn__binary_run *top = &merge->heap[0];

    if (!top->kind && ++top->at < top->count) {
        const struct tarn__binary_row *rows = top->items;
        if (rows[top->at].time_ns > top->time_ns)
            top->time_ns = rows[top->at].time_ns;
    } else {
        merge->bytes -= size_of(top);
        free(top->items);
        *top = merge->heap[--merge->count];
    }
    if (merge->count > 1)
        sift_down(merge);
}

static bool push(struct tarn__binary_merge *merge, const struct tarn__binary_run *run)
{
    if (merge->is_taken) { /* what was returned need not stay valid */
        merge->is_taken = false;
        advance(merge);
    }
    if (size_of(run) > TARN__BINARY_MERGE_BYTES - merge->bytes)
        return false;
    if (merge->count == merge->capacity) {
        size_t capacity = merge->capacity ? 2 * merge->capacity : 64;
        void *grown = realloc(merge->heap, capacity * sizeof *merge->heap);
        if (!grown)
            return false;
        merge->heap = grown;
        merge->capacity = capacity;
    }
    size_t at = merge->count++;
    for (; at > 0 && is_before(run, &merge->heap[(at - 1) / 2]); at = (at - 1) / 2)
        merge->heap[at] = merge->heap[(at - 1) / 2];
    merge->heap[at] = *run;
    merge->bytes += size_of(run);
    return true;
}

bool tarn__binary_merge_add_rows(struct tarn__binary_merge *merge,
                                 struct tarn__binary_row *rows, size_t count,
                                 uint64_t thread, uint64_t number)
{
    const struct tarn__binary_run run = {.time_ns = rows[0].time_ns,
                                         .number = number,
                                         .thread = thread,
                                         .items = rows,
                                         .count = (uint32_t)count};

    if (push(merge, &run))
        return true;
    free(rows);
    return false;
}

bool tarn__binary_merge_add_record(struct tarn__binary_merge *merge,
                                   const struct tarn__binary_item *record,
                                   uint64_t number)
{
    struct tarn__binary_run run = {.time_ns = record->time_ns,
                                   .number = number,
                                   .count = record->bytes,
                                   .kind = record->kind};

    run.items = malloc(record->bytes ? record->bytes : 1);
    if (!run.items)
        return false;
    memcpy(run.items, record->payload, record->bytes);
    if (push(merge, &run))
        return true;
    free(run.items);
    return false;
}

bool tarn__binary_merge_next(struct tarn__binary_merge *merge, uint64_t last_ns,
                             struct tarn__binary_item *out)
{
    if (merge->is_taken)
        advance(merge);
    merge->is_taken = false;
    while (merge->count > 0 && merge->heap[0].time_ns <= last_ns) {
        struct tarn__binary_run *top = &merge->heap[0];
        const struct tarn__binary_row *row =
            top->kind ? NULL : (const struct tarn__binary_row *)top->items + top->at;
        if (row && row->action == TARN__BINARY_THREAD) {
            top->thread = row->address;
            advance(merge);
            continue;
        }
        *out = (struct tarn__binary_item){.time_ns = row ? row->time_ns : top->time_ns,
                                          .thread = top->thread,
                                          .row = row,
                                          .kind = top->kind,
                                          .bytes = row ? 0 : top->count,
                                          .payload = row ? NULL : top->items};
        merge->is_taken = true;
        return true;
    }
    return false;
}
