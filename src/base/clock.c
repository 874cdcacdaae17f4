/* clock.c -- monotonic time. */
#define _GNU_SOURCE
#include "base/clock.h"
#include <time.h>

uint64_t tarn__clock_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}
