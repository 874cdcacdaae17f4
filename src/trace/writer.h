/* writer.h -- what other modules of the library need of a log writer. */
#ifndef TARN_TRACE_WRITER_H
#define TARN_TRACE_WRITER_H

#include <tarn/trace.h>

/* Return true if the writer writes to a file. It then warns by itself, once, when its log
 * becomes incomplete. */
bool tarn__writer_has_file(const tarn_trace_writer *writer);

#endif
