/* clock.c -- monotonic time, and the id of the calling thread. */
#define _GNU_SOURCE
#include "base/clock.h"
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

uint64_t tarn__clock_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t tarn__thread_id(void)
{
    static _Thread_local uint64_t id;

    if (id == 0)
        id = (uint64_t)syscall(SYS_gettid);
    return id;
}
