/* open_logs.h -- all logs of this process: rows that wait, exit, and forks. */
#ifndef TARN_TRACE_OPEN_LOGS_H
#define TARN_TRACE_OPEN_LOGS_H

#include "trace/text_buffer.h"

/* Have all logs written out at the exit of the program. It is called before the first log
 * is created. */
void tarn__open_logs_watch_exit(void);
/* Return true if the program exits: from now on nothing may stay in a buffer. */
bool tarn__open_logs_are_exiting(void);

/* Add the buffer of a file to those that are flushed at exit and by the flusher; remove
 * it. */
void tarn__open_logs_add(struct tarn__text_buffer *buffer);
void tarn__open_logs_remove(struct tarn__text_buffer *buffer);

/* Have all buffers flushed a short time from now. Return false if there is no thread for
 * it. It may be called under the lock of a buffer. */
bool tarn__open_logs_flush_soon(void);

#endif
