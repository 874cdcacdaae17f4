/* binary_output.h -- the file of a binary log: its begin, forked children, failures. */
#ifndef TARN_TRACE_BINARY_OUTPUT_H
#define TARN_TRACE_BINARY_OUTPUT_H

#include "trace/binary_header.h"
#include "trace/binary_records.h"
#include "trace/binary_ring.h"
#include "trace/binary_slots.h"
#include <sys/queue.h>

/* A log that is being written. Threads that end leave their chunk, so a file need not be
 * much longer than its rows. */
struct tarn__binary_writer {
    struct tarn__binary_chunks chunks; /* first: it is aligned to cache lines */
    struct tarn__binary_slots slots;
    struct tarn__binary_records records;
    struct tarn__binary_ring ring;
    struct tarn__binary_head head;
    char *path; /* owned */
    bool is_ring;

    atomic_uint_least64_t lost; /* rows that found no space */
    atomic_uint_least64_t lost_ns;
    atomic_bool told; /* a warning or a caller knows that the log is broken */

    /* under the lock of the chunks */
    int broken;        /* errno of the failure; 0: none */
    bool is_inherited; /* this is a forked child, and its log is not open yet */
    bool has_folder;   /* a thread folds, or has ended and is not joined */
    bool folder_runs;
    pthread_t folder;

    LIST_ENTRY(tarn__binary_writer)
    link; /* in the list of binary_writer.c; under its lock */
};

/* Begin a file. Returns false on failure: errno has the reason. `lock` of the chunks
 * held. */
bool tarn__binary_output_begin(struct tarn__binary_writer *writer, const char *path);
/* Open the log of a forked child, if this is one. Returns false if the log is broken. */
bool tarn__binary_output_open_in_child(struct tarn__binary_writer *writer);
/* Return true if the log is ready for a record, which it may be after this call. */
bool tarn__binary_output_is_ready(struct tarn__binary_writer *writer);

/* Return a stack that the log has, after it is defined; TARN_STACK_UNKNOWN: the log cannot
 * have it. */
tarn_stack tarn__binary_output_define_stack(struct tarn__binary_writer *writer,
                                            tarn_stack stack);

/* Break the log: no row goes into it any more. `why` is an errno; 0: unknown. */
void tarn__binary_output_break(struct tarn__binary_writer *writer, int why);
/* Return the errno of the failure that broke the log; 0: none. */
int tarn__binary_output_why_broken(struct tarn__binary_writer *writer);
/* Return the status of a log that is broken for the reason `why`. */
tarn_status tarn__binary_output_reject(const struct tarn__binary_writer *writer, int why);
/* Fail because the log is broken, with a warning if nobody knows yet. No lock is held. */
tarn_status tarn__binary_output_fail(struct tarn__binary_writer *writer);
/* Count a row of a broken log as lost, and fail. */
tarn_status tarn__binary_output_lose(struct tarn__binary_writer *writer,
                                     uint64_t time_ns);
/* Write how many rows are lost, if there are any. */
void tarn__binary_output_write_lost(struct tarn__binary_writer *writer);

#endif
