/* figures.c -- what a soak samples: the memory, descriptors, threads and times of a process. */
#define _GNU_SOURCE
#include "figures.h"
#include <dirent.h>
#include <malloc.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tarn/tarn.h>
#include <time.h>
#include <unistd.h>

void fail(const char *format, ...)
{
    va_list arguments;

    fprintf(stderr, "soak: ");
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fprintf(stderr, " (last error: %s)\n", tarn_error_last()->message);
    exit(1);
}

/* Count the entries of a folder of /proc, without the one that counts them. */
static uint64_t entries(const char *path, unsigned own)
{
    DIR *folder = opendir(path);
    uint64_t count = 0;

    if (!folder)
        fail("%s is unreadable", path);
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;)
        count += entry->d_name[0] != '.';
    closedir(folder);
    return count - own;
}

static uint64_t resident_bytes(void)
{
    FILE *file = fopen("/proc/self/statm", "re");
    unsigned long pages = 0;

    if (!file || fscanf(file, "%*u %lu", &pages) != 1)
        fail("/proc/self/statm is unreadable");
    fclose(file);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

struct figures figures_now(void)
{
    struct mallinfo2 heap = mallinfo2();

    return (struct figures){.rss_bytes = resident_bytes(),
                            .heap_bytes = heap.uordblks + heap.hblkhd,
                            .descriptors = entries("/proc/self/fd", 1),
                            .threads = entries("/proc/self/task", 0)};
}

uint64_t thread_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void times_add(struct times *times, uint64_t ns)
{
    times->values[times->count++ % TIMES_MOST] = ns;
}

static int compare(const void *one, const void *other)
{
    uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)other;

    return (a > b) - (a < b);
}

uint64_t times_take_median(struct times *times)
{
    size_t count = times->count < TIMES_MOST ? times->count : TIMES_MOST;

    times->count = 0;
    if (count == 0)
        return 0;
    qsort(times->values, count, sizeof times->values[0], compare);
    return times->values[count / 2];
}
