/* binary_process.h -- the header of a binary log. */
#ifndef TARN_TRACE_BINARY_PROCESS_H
#define TARN_TRACE_BINARY_PROCESS_H

#include "trace/binary.h"
#include "trace/delivery.h"
#include "trace/input.h"

/* Take and check the header, and pass the process on. */
tarn_status tarn__binary_process_read(struct tarn__input *input,
                                      const struct tarn__delivery *delivery,
                                      struct tarn__binary_header *out);

#endif
