/* binary_sorted.c -- the chunks of a ring, in the order of their numbers.
 *
 * A ring is read as a whole before anything of it is passed on: its first chunk may be
 * the newest, and which checkpoint counts is known at the end alone.
 */
#include "trace/binary_sorted.h"
#include "base/map.h"
#include "trace/binary_merge.h"
#include <stdlib.h>

void tarn__binary_sorted_init(struct tarn__binary_sorted *ring)
{
    *ring = (struct tarn__binary_sorted){.chunks = NULL};
}

void tarn__binary_sorted_free(struct tarn__binary_sorted *ring)
{
    for (size_t i = 0; i < ring->count; i++)
        free(ring->chunks[i]);
    free(ring->chunks);
    free(ring->sizes);
    tarn__binary_sorted_init(ring);
}

static bool reserve(struct tarn__binary_sorted *ring)
{
    if (ring->count < ring->capacity)
        return true;
    size_t capacity = ring->capacity ? 2 * ring->capacity : 64;
    void *chunks = realloc(ring->chunks, capacity * sizeof *ring->chunks);
    if (chunks)
        ring->chunks = chunks;
    void *sizes = realloc(ring->sizes, capacity * sizeof *ring->sizes);
    if (sizes)
        ring->sizes = sizes;
    if (!chunks || !sizes)
        return false;
    ring->capacity = capacity;
    return true;
}

bool tarn__binary_sorted_add(struct tarn__binary_sorted *ring, const unsigned char *chunk,
                             size_t bytes)
{
    if (bytes > TARN__BINARY_MERGE_BYTES - ring->bytes || !reserve(ring))
        return false;
    unsigned char *copy = malloc(bytes);
    if (!copy)
        return false;
    memcpy(copy, chunk, bytes);
    ring->chunks[ring->count] = copy;
    ring->sizes[ring->count++] = bytes;
    ring->bytes += bytes;
    return true;
}

/* A chunk while they are sorted. */
struct sorted {
    uint64_t number;
    unsigned char *chunk;
    size_t bytes;
};

static int compare(const void *a, const void *b)
{
    const struct sorted *one = a, *other = b;

    return (one->number > other->number) - (one->number < other->number);
}

bool tarn__binary_sorted_sort(struct tarn__binary_sorted *ring)
{
    struct sorted *all = malloc((ring->count + 1) * sizeof *all);

    if (!all)
        return false;
    for (size_t i = 0; i < ring->count; i++)
        all[i] = (struct sorted){tarn__binary_sorted_header(ring, i)->number,
                                 ring->chunks[i], ring->sizes[i]};
    qsort(all, ring->count, sizeof *all, compare);
    for (size_t i = 0; i < ring->count; i++) {
        ring->chunks[i] = all[i].chunk;
        ring->sizes[i] = all[i].bytes;
    }
    free(all);
    return true;
}

/* The chunks of a checkpoint that the ring has. */
struct parts {
    uint64_t start_ns;
    uint32_t wanted, found;
    bool differs; /* its chunks do not agree */
};

/* Count a chunk of a checkpoint. False: no host memory. */
static bool note_part(struct tarn__map *all, const struct tarn__binary_chunk *chunk)
{
    struct parts new = {chunk->start_ns, chunk->chunks, 1, false};

    if (chunk->thread == UINT64_MAX) /* no key can be made of it */
        return true;
    struct parts *parts = tarn__map_get(all, chunk->thread + 1);
    if (!parts)
        return tarn__map_put(all, chunk->thread + 1, &new);
    parts->found++;
    parts->differs |=
        parts->start_ns != chunk->start_ns || parts->wanted != chunk->chunks;
    return true;
}

bool tarn__binary_sorted_checkpoint(const struct tarn__binary_sorted *ring,
                                    struct tarn__binary_newest *out)
{
    struct tarn__map all;
    size_t cursor = 0;
    uint64_t key;
    void *value;
    bool has_space = true;

    *out = (struct tarn__binary_newest){.exists = false};
    tarn__map_init(&all, sizeof(struct parts));
    for (size_t i = 0; i < ring->count && has_space; i++)
        if (tarn__binary_sorted_header(ring, i)->kind == TARN__BINARY_LIVE)
            has_space = note_part(&all, tarn__binary_sorted_header(ring, i));
    while (tarn__map_next(&all, &cursor, &key, &value)) {
        const struct parts *parts = value;
        if (parts->differs || parts->found != parts->wanted ||
            (out->exists && key - 1 < out->number))
            continue;
        *out = (struct tarn__binary_newest){true, key - 1, parts->start_ns};
    }
    tarn__map_free(&all);
    return has_space;
}
