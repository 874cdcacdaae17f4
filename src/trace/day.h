/* day.h -- the time of day. */
#ifndef TARN_TRACE_DAY_H
#define TARN_TRACE_DAY_H

#include <stdint.h>

/* Return the nanoseconds since midnight, local time. A forked child counts in the time
 * zone that its parent had at the fork. */
uint64_t tarn__day_now_ns(void);

#endif
