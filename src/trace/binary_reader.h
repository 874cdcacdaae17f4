/* binary_reader.h -- the reader of binary logs. */
#ifndef TARN_TRACE_BINARY_READER_H
#define TARN_TRACE_BINARY_READER_H

#include "trace/binary.h"
#include "trace/delivery.h"
#include "trace/input.h"

/* Read a binary log and pass its contents on. */
tarn_status tarn__binary_reader_read(struct tarn__input *input,
                                     const struct tarn__delivery *delivery);

#endif
