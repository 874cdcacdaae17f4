/* log_file.h -- the file of the log: its name, its format, and when it is opened. */
#ifndef TARN_PYTHON_LOG_FILE_H
#define TARN_PYTHON_LOG_FILE_H

#include "state.h"

/* Return true if a file is set, and this process has not opened it yet. Lock of the log
 * held, as for the functions below. */
bool tarn__log_file_is_due(void);

/* Open the file under the name for this process. `*out` is the writer, with one reference
 * for the caller. On failure the file is not tried again. */
tarn_status tarn__log_file_open(tarn_trace_writer **out);

/* Return true if rows have the device's free memory: a binary log does not keep it. Any
 * thread, with or without the lock. */
bool tarn__log_file_has_figures(void);

/* Make a forked child open a file of its own with its next row. */
void tarn__log_file_forget(void);

/* Set the file; one that is set already stays open. `owner` is the id of the process that
 * uses the name without a suffix. */
void tarn__log_file_set(const char *path, long owner,
                        const tarn_trace_writer_options *options);

#endif
