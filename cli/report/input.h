/* input.h -- reads a log into an aggregate. */
#ifndef TARN_CLI_REPORT_INPUT_H
#define TARN_CLI_REPORT_INPUT_H

#include "aggregate.h"

/* Read a whole log and finish the aggregate. On failure the status and the message of
 * the thread are those of the reader. */
tarn_status input_read(struct aggregate *aggregate, const char *name,
                       tarn_trace_read_fn read, void *data);

#endif
