/* record.c -- a step of the program in host memory. */
#include "pool/follow/record.h"
#include "pool/blocks/stream_state.h"
#include <stdlib.h>
#include <string.h>

void tarn__record_init(struct tarn__record *record)
{
    *record = (struct tarn__record){.is_whole = true};
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

bool tarn__record_copy(const struct tarn__record *record, struct tarn__record *out)
{
    const size_t bytes = TARN__RECORD_CHUNK * sizeof *record->chunks[0];

    *out = *record;
    memset(out->chunks, 0, sizeof out->chunks);
    tarn__ordinals_init(&out->threads);
    tarn__ordinals_init(&out->streams);
    out->threads.next = record->threads.next;
    out->streams.next = record->streams.next;
    for (uint32_t i = 0; i * TARN__RECORD_CHUNK < record->count; i++) {
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
    record->count = record->operations = 0;
    record->parity ^= 1;
    record->begin_allocated = record->peak_allocated = allocated;
    record->peak_reserved = 0;
    record->is_whole = true;
    record->has_places_alone = false;
}

size_t tarn__record_metadata(const struct tarn__record *record)
{
    size_t bytes = 0;

    for (int i = 0; i < TARN__RECORD_CHUNKS && record->chunks[i]; i++)
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

/* Provide the memory of the next block. */
static bool has_room(struct tarn__record *record)
{
    uint32_t chunk = record->count / TARN__RECORD_CHUNK;

    if (chunk == TARN__RECORD_CHUNKS)
        return false;
    if (!record->chunks[chunk])
        record->chunks[chunk] = calloc(TARN__RECORD_CHUNK, sizeof *record->chunks[chunk]);
    return record->chunks[chunk];
}

void tarn__record_allocate(struct tarn__record *record, struct tarn__node *node,
                           tarn__index index, uint64_t key, uint64_t thread)
{
    record->is_whole = record->is_whole && has_room(record);
    if (!record->is_whole)
        return;
    struct tarn__record_block *block = tarn__record_at(record, record->count);
    block->start = record->operations++;
    if (!record->has_places_alone) {
        block->end = TARN__RECORD_LIVE;
        block->quanta = node->quanta;
        block->stream = block->free_stream = tarn__record_stream(record, key);
        block->thread = tarn__record_thread(record, thread);
    }
    block->node[record->parity] = index;
    if (block->node[!record->parity]) /* it may be freed later in this step */
        block->wrapped_end = 0;
    node->previous = record->count++;
}

void tarn__record_deallocate(struct tarn__record *record, const struct tarn__node *node,
                             tarn__index index, uint64_t key)
{
    uint32_t place = node->previous;

    if (!record->is_whole || place >= TARN__RECORD_MOST ||
        !record->chunks[place / TARN__RECORD_CHUNK])
        return;
    struct tarn__record_block *block = tarn__record_at(record, place);
    if (tarn__record_has(record, node, index)) {
        block->end = record->operations++;
        if (!record->has_places_alone)
            block->free_stream = tarn__record_stream(record, key);
        block->node[record->parity] = 0;
    } else if (block->node[!record->parity] == index) {
        block->wrapped_end = ++record->operations;
        block->node[!record->parity] = 0;
    }
}

void tarn__record_skip(struct tarn__record *record, uint64_t count)
{
    for (; count > 0; count--) {
        record->is_whole = record->is_whole && has_room(record);
        if (!record->is_whole)
            return;
        tarn__record_at(record, record->count++)->node[record->parity] = 0;
        record->operations += 2;
    }
}
