/* csv_reader.h -- the reader of logs of text. */
#ifndef TARN_TRACE_CSV_READER_H
#define TARN_TRACE_CSV_READER_H

#include "trace/delivery.h"
#include "trace/input.h"

/* Read a log and pass its rows on. `*format_out` is set before the end is passed on. */
tarn_status tarn__csv_reader_read(struct tarn__input *input,
                                  const tarn_trace_limits *limits,
                                  const struct tarn__delivery *delivery,
                                  tarn_trace_format *format_out);

#endif
