/* binary_sorted.h -- the chunks of a ring, in the order of their numbers. */
#ifndef TARN_TRACE_BINARY_SORTED_H
#define TARN_TRACE_BINARY_SORTED_H

#include <stdbool.h>
#include "trace/binary.h"

struct tarn__binary_sorted {
    unsigned char **chunks; /* each with its header; owned */
    size_t *sizes;          /* bytes of each */
    size_t count, capacity;
    size_t bytes;
};

void tarn__binary_sorted_init(struct tarn__binary_sorted *ring);
void tarn__binary_sorted_free(struct tarn__binary_sorted *ring);

/* Keep a copy of a chunk. False: no space. */
bool tarn__binary_sorted_add(struct tarn__binary_sorted *ring, const unsigned char *chunk,
                             size_t bytes);

static inline const struct tarn__binary_chunk *tarn__binary_sorted_header(
    const struct tarn__binary_sorted *ring, size_t i)
{
    return (const void *)ring->chunks[i];
}

/* Sort the chunks by their numbers. False: no host memory. */
bool tarn__binary_sorted_sort(struct tarn__binary_sorted *ring);

/* The newest checkpoint of which the ring has all chunks. */
struct tarn__binary_newest {
    bool exists;
    uint64_t number, start_ns;
};
/* False: no host memory. */
bool tarn__binary_sorted_checkpoint(const struct tarn__binary_sorted *ring,
                                    struct tarn__binary_newest *out);

#endif
