/* clock.h -- monotonic time. */
#ifndef TARN_BASE_CLOCK_H
#define TARN_BASE_CLOCK_H

#include <stdint.h>

/* Nanoseconds of CLOCK_MONOTONIC. */
uint64_t tarn__clock_now_ns(void);

/* The system's id of the calling thread, asked once a thread. */
uint64_t tarn__thread_id(void);

#endif
