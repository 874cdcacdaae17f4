/* log.h -- the log of this process: rows for the calls to managers and to resources.
 *
 * A manager reports its calls to the log. The observer of resources reports all other
 * calls (log_observer.c). The log keeps the newest rows in memory. It also writes all
 * rows to a file if one was requested.
 */
#ifndef TARN_PYTHON_LOG_H
#define TARN_PYTHON_LOG_H

#include "log_call.h"

/* Add the row of an allocation that has ended or failed. */
void tarn__log_add(const struct tarn__log_call *call);

/* Reserve the row of a free that is about to begin, and return its number. The order of
 * rows is fixed here, because another thread may get the same address before the free
 * returns. The second function completes the row; `is_back`: the free succeeded. A failed
 * free has no row. Tarn retries it. The observer reports the retry as another free. For a
 * manager the log adds the row once a retry has succeeded. */
uint64_t tarn__log_free_begin(const struct tarn__log_call *call);
void tarn__log_free_end(uint64_t row, const struct tarn__log_call *call, bool is_back);

/* The writer of the file, retained; NULL: there is none. */
tarn_trace_writer *tarn__log_pool_writer(void);

#endif
