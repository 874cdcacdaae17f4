/* binary_writer.h -- the writer of a binary log. */
#ifndef TARN_TRACE_BINARY_WRITER_H
#define TARN_TRACE_BINARY_WRITER_H

#include <tarn/trace.h>

struct tarn__binary_writer;

/* What a writer is made from. */
struct tarn__binary_options {
    uint64_t made_ns; /* CLOCK_MONOTONIC at time 0 of the log */
    unsigned stack_depth;
    uint64_t ring_bytes; /* 0: not a ring */
};

/* Create a log in a new file. */
tarn_status tarn__binary_writer_open(const char *path,
                                     const struct tarn__binary_options *options,
                                     struct tarn__binary_writer **out);

/* Write a pool row, or a mark. */
tarn_status tarn__binary_writer_pool(struct tarn__binary_writer *writer,
                                     const tarn_trace_pool_row *row);
tarn_status tarn__binary_writer_mark(struct tarn__binary_writer *writer, const char *name,
                                     uint64_t time_ns);

/* Return TARN_OK if the log is whole so far, for a caller that looks at the status. */
tarn_status tarn__binary_writer_check(struct tarn__binary_writer *writer);

/* End the log and free the writer. */
tarn_status tarn__binary_writer_end(struct tarn__binary_writer *writer);

/* Return the space behind the last chunk of each log to the file system. */
void tarn__binary_writer_trim_all(void);

#endif
