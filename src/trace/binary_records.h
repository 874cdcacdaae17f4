/* binary_records.h -- writes the records of a binary log: definitions, pool rows, marks,
 * lost rows. */
#ifndef TARN_TRACE_BINARY_RECORDS_H
#define TARN_TRACE_BINARY_RECORDS_H

#include "trace/binary_chunks.h"
#include <tarn/trace.h>

/* More numbers than the process's table of stacks can have. */
enum { TARN__BINARY_NUMBERS = (1 << 20) + 64 };

/* The open chunk of a sequence of chunks with records. */
struct tarn__binary_stream {
    struct tarn__binary_part part;
    size_t at; /* offset of the next record in `part` */
    uint64_t last_ns;
};

struct tarn__binary_records {
    /* A bit for each number of the process's table (stack_table.h): the log has it. */
    atomic_uint_least64_t *defined;
    /* guarded by the lock of the chunks */
    struct tarn__binary_stream definitions, events;
    bool has_lost; /* the record of lost rows is at `definitions.at` */
};

/* Allocate `defined`. Return false if there is no host memory. */
bool tarn__binary_records_init(struct tarn__binary_records *records);
void tarn__binary_records_free(struct tarn__binary_records *records);
/* Clear the state before another file begins. */
void tarn__binary_records_reset(struct tarn__binary_records *records);

/* Take the first chunk of definitions. It has space for the record of lost rows. `lock`
 * of the chunks held. */
enum tarn__binary_take tarn__binary_records_begin(struct tarn__binary_records *records,
                                                  struct tarn__binary_chunks *chunks);
/* Close the chunks. `lock` of the chunks held. */
void tarn__binary_records_end(struct tarn__binary_records *records,
                              struct tarn__binary_chunks *chunks);

/* Return true if the log has the definition of a number. Any thread, without a lock. */
static inline bool tarn__binary_records_has(const struct tarn__binary_records *records,
                                            uint32_t number)
{
    if (number >= TARN__BINARY_NUMBERS)
        return false;
    uint64_t bits =
        atomic_load_explicit(&records->defined[number / 64], memory_order_acquire);

    return bits >> number % 64 & 1;
}

/* Write the definition of a stack with its frames and strings, or of a string, unless the
 * log has it. TARN__BINARY_FULL: there is no such stack, or a ring has no space for more.
 * This and the functions below take the lock of the chunks. */
enum tarn__binary_take tarn__binary_records_define_stack(
    struct tarn__binary_records *records, struct tarn__binary_chunks *chunks,
    tarn_stack stack);
enum tarn__binary_take tarn__binary_records_define_string(
    struct tarn__binary_records *records, struct tarn__binary_chunks *chunks,
    uint32_t string);

/* Write a pool row. It has no blocks if there is no space for them. The caller has
 * defined its stack. */
enum tarn__binary_take tarn__binary_records_add_pool(struct tarn__binary_records *records,
                                                     struct tarn__binary_chunks *chunks,
                                                     const tarn_trace_pool_row *row);
/* Write a mark. The caller has defined the string of its name. */
enum tarn__binary_take tarn__binary_records_add_mark(struct tarn__binary_records *records,
                                                     struct tarn__binary_chunks *chunks,
                                                     uint32_t string, uint64_t time_ns);
/* Write or replace the record of lost rows. No definition may be written after it. */
void tarn__binary_records_set_lost(struct tarn__binary_records *records,
                                   struct tarn__binary_chunks *chunks, uint64_t time_ns,
                                   uint64_t rows);

#endif
