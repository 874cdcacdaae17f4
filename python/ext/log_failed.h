/* log_failed.h -- frees that failed: their rows are written once a retry has succeeded. */
#ifndef TARN_PYTHON_LOG_FAILED_H
#define TARN_PYTHON_LOG_FAILED_H

#include "log_call.h"

/* Keep a free that failed. Lock of the rows held. */
void tarn__log_failed_keep(const struct tarn__log_call *call);
/* An address is allocated: if its free failed, it has succeeded since, so append its row.
 * Lock of the rows held. */
void tarn__log_failed_settle_address(const struct tarn__log_call *call);
/* Append and write the rows of all that have succeeded since. It takes the lock of the
 * rows. */
void tarn__log_failed_settle_all(void);
/* Forget all, in a forked child. Lock of the rows held. */
void tarn__log_failed_forget(void);

#endif
