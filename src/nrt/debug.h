/* debug.h -- output of the mode TARN_NRT_TRACE. */
#ifndef TARN_NRT_DEBUG_H
#define TARN_NRT_DEBUG_H

#include "nrt/runtime.h"

/* Print a line of TARN_NRT_TRACE. */
void tarn__debug_trace(const char *format, ...) TARN_PRINTF(1, 2);

#endif
