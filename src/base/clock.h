/* clock.h -- monotonic time. */
#ifndef TARN_BASE_CLOCK_H
#define TARN_BASE_CLOCK_H

#include <stdint.h>

/* Return CLOCK_MONOTONIC in nanoseconds. */
uint64_t tarn__clock_now_ns(void);

#endif
