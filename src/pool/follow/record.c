/* record.c -- a step of the program in host memory. */
#include "pool/follow/record.h"
#include "base/thread.h"
#include "pool/blocks/stream_state.h"
#include <stdlib.h>
#include <string.h>

/* above all epochs of streams, which begin with 0 */
#define FIRST_STEP (UINT64_C(1) << 63)

void tarn__record_init(struct tarn__record *record)
{
    *record = (struct tarn__record){.step = FIRST_STEP, .is_whole = true};
    tarn__ordinals_init(&record->threads);
    tarn__ordinals_init(&record->streams);
}

void tarn__record_free(struct tarn__record *record)
{
    for (int i = 0; i < TARN__RECORD_CHUNKS; i++)
        free(record->chunks[i]);
    tarn__ordinals_free(&record->threads);
    tarn__ordinals_free(&record->streams);
}

/* Return how many places have a block of this step, or of the one before. */
static uint32_t places_of(const struct tarn__record *record)
{
    return record->count > record->previous_count ? record->count
                                                  : record->previous_count;
}

bool tarn__record_copy(const struct tarn__record *record, struct tarn__record *out)
{
    const size_t bytes = TARN__RECORD_CHUNK * sizeof *record->chunks[0];

    *out = *record;
    memset(out->chunks, 0, sizeof out->chunks);
    tarn__ordinals_init(&out->threads);
    tarn__ordinals_init(&out->streams);
    out->threads.next = record->threads.next;
    out->streams.next = record->streams.next;
    for (uint32_t i = 0; i * TARN__RECORD_CHUNK < places_of(record); i++) {
        if (!record->chunks[i])
            continue;
        out->chunks[i] = malloc(bytes);
        if (!out->chunks[i])
            return false;
        memcpy(out->chunks[i], record->chunks[i], bytes);
    }
    return true;
}

void tarn__record_restart(struct tarn__record *record, uint64_t allocated)
{
    tarn__ordinals_clear(&record->threads);
    tarn__ordinals_clear(&record->streams);
    record->previous_count =
        record->count < TARN__RECORD_MOST ? record->count : TARN__RECORD_MOST;
    record->previous_freed = 0;
    record->count = record->operations = 0;
    record->step++;
    record->begin_allocated = record->peak_allocated = allocated;
    record->peak_reserved = 0;
    record->is_whole = true;
    record->has_places_alone = false;
}

size_t tarn__record_metadata(const struct tarn__record *record)
{
    size_t bytes = 0;

    for (int i = 0; i < TARN__RECORD_CHUNKS; i++)
        if (record->chunks[i])
            bytes += TARN__RECORD_CHUNK * sizeof *record->chunks[i];
    return bytes;
}

/* --- ordinals --- */

static uint16_t ordinal(struct tarn__record *record, struct tarn__ordinals *ordinals,
                        uint64_t id)
{
    const uint32_t *known = tarn__ordinals_find(ordinals, id);

    if (known)
        return (uint16_t)*known;
    if (ordinals->next < TARN__ORDINALS_IDS &&
        tarn__ordinals_add(ordinals, id, ordinals->next))
        return (uint16_t)(ordinals->next - 1);
    record->is_whole = false;
    return 0;
}

uint16_t tarn__record_stream(struct tarn__record *record, uint64_t key)
{
    return key == TARN__KEY_NO_STREAM ? TARN__RECORD_NO_STREAM
                                      : ordinal(record, &record->streams, key);
}

uint16_t tarn__record_thread(struct tarn__record *record, uint64_t id)
{
    return ordinal(record, &record->threads, id);
}

/* --- blocks --- */

/* Provide the memory of a place. */
static bool has_room(struct tarn__record *record, uint32_t place)
{
    uint32_t chunk = place / TARN__RECORD_CHUNK;

    if (!record->chunks[chunk])
        record->chunks[chunk] = calloc(TARN__RECORD_CHUNK, sizeof *record->chunks[chunk]);
    return record->chunks[chunk];
}

/* Give the node the next place. */
static uint32_t give_place(struct tarn__record *record, struct tarn__node *node)
{
    node->step = record->step;
    node->previous = record->count++;
    return node->previous;
}

void tarn__record_allocate(struct tarn__record *record, struct tarn__node *node,
                           uint64_t key)
{
    if (record->has_places_alone) {
        give_place(record, node);
        return;
    }
    record->is_whole = record->is_whole && record->count < TARN__RECORD_MOST &&
                       has_room(record, record->count);
    if (!record->is_whole)
        return;
    struct tarn__record_block *block = tarn__record_at(record, give_place(record, node));
    block->start = record->operations++;
    block->end = TARN__RECORD_LIVE;
    block->quanta = node->quanta;
    block->stream = block->free_stream = tarn__record_stream(record, key);
    block->thread = tarn__record_thread(record, tarn__thread_id());
}

static uint16_t size_hash(uint32_t quanta)
{
    return (uint16_t)(quanta ^ quanta >> 16);
}

/* Note the free of a block that has a place in this record, or in that of the step before. */
static void note_end(struct tarn__record *record, const struct tarn__node *node,
                     uint64_t key)
{
    if (node->previous >= TARN__RECORD_MOST)
        return;
    record->is_whole = record->is_whole && has_room(record, node->previous);
    if (!record->is_whole)
        return;
    struct tarn__record_block *block = tarn__record_at(record, node->previous);
    if (tarn__record_has(record, node)) {
        block->end = record->operations++;
        block->free_stream = tarn__record_stream(record, key);
    } else {
        block->wrapped_end = record->operations++;
        block->wrapped_step = record->step;
        block->wrapped_size = size_hash(node->quanta);
        record->previous_freed += node->quanta;
    }
}

void tarn__record_deallocate(struct tarn__record *record, struct tarn__node *node,
                             uint64_t key)
{
    bool is_noted = node->step == record->step || node->step == record->step - 1;

    if (is_noted && !record->has_places_alone)
        note_end(record, node, key);
    node->step = 0;
}

/* --- ends in the next step --- */

/* A block that was live when its step ended. */
struct survivor {
    uint16_t size;
    uint32_t place;
    /* the operation that freed it, in the present step */
    uint32_t end;
};

static int last_first(const void *one, const void *other)
{
    const struct survivor *a = one, *b = other;

    if (a->size != b->size)
        return a->size < b->size ? -1 : 1;
    return a->place < b->place ? 1 : -1;
}

/* List the blocks of the step before that were freed in this one; returns their number. */
static uint32_t list_freed(const struct tarn__record *record, struct survivor *out)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < record->previous_count; i++) {
        if (!record->chunks[i / TARN__RECORD_CHUNK])
            continue;
        const struct tarn__record_block *block = tarn__record_at(record, i);
        if (block->wrapped_step == record->step)
            out[count++] = (struct survivor){block->wrapped_size, i, block->wrapped_end};
    }
    qsort(out, count, sizeof *out, last_first);
    return count;
}

/* List the blocks that are live; returns their number. They have no wrapped ends for now. */
static uint32_t list_live(const struct tarn__record *record, struct survivor *out)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < record->count; i++) {
        struct tarn__record_block *block = tarn__record_at(record, i);
        if (block->end != TARN__RECORD_LIVE)
            continue;
        block->wrapped_step = 0;
        out[count++] = (struct survivor){.size = size_hash(block->quanta), .place = i};
    }
    qsort(out, count, sizeof *out, last_first);
    return count;
}

void tarn__record_align(struct tarn__record *record)
{
    uint32_t most = places_of(record);
    struct survivor *freed, *live;

    if (record->previous_count == record->count)
        return;
    freed = malloc(2 * (size_t)most * sizeof *freed);
    if (!freed)
        return;
    live = freed + most;
    uint32_t freed_count = list_freed(record, freed),
             live_count = list_live(record, live);
    for (uint32_t i = 0, j = 0; i < freed_count && j < live_count;) {
        if (freed[i].size == live[j].size) {
            struct tarn__record_block *block = tarn__record_at(record, live[j++].place);
            block->wrapped_end = freed[i++].end;
            block->wrapped_step = record->step;
        } else if (freed[i].size < live[j].size) {
            i++;
        } else {
            j++;
        }
    }
    free(freed);
}

void tarn__record_skip(struct tarn__record *record, uint64_t count)
{
    record->count += (uint32_t)count;
}
