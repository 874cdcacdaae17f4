/* binary_rows.h -- the rows of a binary log: a chunk for each thread. */
#ifndef TARN_TRACE_BINARY_ROWS_H
#define TARN_TRACE_BINARY_ROWS_H

#include <tarn/trace.h>

struct tarn__binary_writer;

/* Write the row of an event. */
tarn_status tarn__binary_rows_add(struct tarn__binary_writer *writer,
                                  const tarn_trace_event *event);

#endif
