/* warn.h -- warnings, for problems that are no failure: see
 * tarn_set_warning_handler(). */
#ifndef TARN_BASE_WARN_H
#define TARN_BASE_WARN_H

#include <tarn/status.h>

/* Warn in one line, `who: what, numbers`. No lock may be held. */
void tarn__warn(const char *format, ...) TARN_PRINTF(1, 2);

#endif
