/* binary_chunk.h -- the intact rows and records of a chunk. */
#ifndef TARN_TRACE_BINARY_CHUNK_H
#define TARN_TRACE_BINARY_CHUNK_H

#include <stdbool.h>
#include "trace/binary.h"

/* What is at the begin of a chunk. */
enum tarn__binary_chunk_state {
    TARN__BINARY_CHUNK_UNUSED,
    TARN__BINARY_CHUNK_VALID,
    TARN__BINARY_CHUNK_DAMAGED
};
enum tarn__binary_chunk_state tarn__binary_chunk_judge(
    const struct tarn__binary_chunk *chunk, uint64_t id);

/* Copy the intact rows of a chunk of `bytes` bytes to `rows`, which has space for all
 * that fit. Returns their number.
 *
 * `*torn` is raised by the number of rows that are neither intact nor unused. With
 * `is_reused` those behind the last intact one do not count: an earlier use of the chunk
 * left them. */
size_t tarn__binary_chunk_rows(const unsigned char *chunk, size_t bytes, bool is_reused,
                               struct tarn__binary_row *rows, uint64_t *torn);

/* Where a walk over the records of a chunk is. */
struct tarn__binary_walk {
    const unsigned char *chunk; /* aligned for uint64_t */
    size_t bytes, at;
    uint64_t torn;     /* records that are neither intact nor unused, before `at` */
    uint64_t doubtful; /* the same behind the last intact one */
};
/* Start with `at` 0. False: no intact record follows. */
bool tarn__binary_chunk_next(struct tarn__binary_walk *walk,
                             const struct tarn__binary_record **record,
                             const unsigned char **payload);

#endif
