/* day.c -- the time of day, in forked children too.
 *
 * glibc takes a lock to find the time zone. In a forked child that lock may be held
 * forever. So a process notes its zone before it forks, and a child uses that.
 */
#define _GNU_SOURCE
#include "trace/day.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>

static const uint64_t SECOND_NS = 1000000000u;
static const int64_t DAY_SECONDS = 24 * 60 * 60;

static atomic_llong zone; /* local time minus UTC, in seconds */
static bool is_child;     /* of a fork */

static void note_zone(void)
{
    time_t now = time(NULL);
    struct tm local;

    if (!is_child && localtime_r(&now, &local))
        atomic_store(&zone, (local.tm_hour * 60 + local.tm_min) * 60 + local.tm_sec -
                                now % DAY_SECONDS);
}

static void become_child(void)
{
    is_child = true;
}

__attribute__((constructor)) static void watch_forks(void)
{
    pthread_atfork(note_zone, NULL, become_child);
}

uint64_t tarn__day_now_ns(void)
{
    struct timespec now;

    note_zone();
    clock_gettime(CLOCK_REALTIME, &now);
    int64_t seconds = (now.tv_sec + atomic_load(&zone) + DAY_SECONDS) % DAY_SECONDS;
    return (uint64_t)seconds * SECOND_NS + (uint64_t)now.tv_nsec;
}
