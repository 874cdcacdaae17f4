/* binary_merge.h -- the rows and records of a binary log that wait for their turn. */
#ifndef TARN_TRACE_BINARY_MERGE_H
#define TARN_TRACE_BINARY_MERGE_H

#include <stdbool.h>
#include "trace/binary.h"

/* Most bytes that wait at once. */
#define TARN__BINARY_MERGE_BYTES ((size_t)512 * 1024 * 1024)

/* What comes next: a row, or a record. */
struct tarn__binary_item {
    uint64_t time_ns;
    uint64_t thread;                    /* of the row */
    const struct tarn__binary_row *row; /* NULL: a record */
    uint32_t kind;                      /* of the record */
    uint32_t bytes;                     /* of the payload */
    const unsigned char *payload;       /* aligned for uint64_t */
};

struct tarn__binary_run; /* the rows of a chunk, or a record */

struct tarn__binary_merge {
    struct tarn__binary_run *heap; /* the earliest first */
    size_t count, capacity;
    size_t bytes;  /* of all that waits */
    bool is_taken; /* the first item was returned, and its successor is next */
};

void tarn__binary_merge_init(struct tarn__binary_merge *merge);
void tarn__binary_merge_free(struct tarn__binary_merge *merge);

/* Add the rows of chunk `number`, which are in the order of their times. The merge takes
 * `rows`, from malloc(), in any case. `count` is not 0. False: no space. */
bool tarn__binary_merge_add_rows(struct tarn__binary_merge *merge,
                                 struct tarn__binary_row *rows, size_t count,
                                 uint64_t thread, uint64_t number);
/* Add a copy of a record. False: no space. */
bool tarn__binary_merge_add_record(struct tarn__binary_merge *merge,
                                   const struct tarn__binary_item *record,
                                   uint64_t number);

/* Take the next item of a time not after `last_ns`; it is valid until the next call.
 * False: there is none. */
bool tarn__binary_merge_next(struct tarn__binary_merge *merge, uint64_t last_ns,
                             struct tarn__binary_item *out);

#endif
