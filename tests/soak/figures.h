/* figures.h -- what a soak samples: the memory, descriptors, threads and times of a process. */
#ifndef SOAK_FIGURES_H
#define SOAK_FIGURES_H

#include <stddef.h>
#include <stdint.h>

struct figures {
    uint64_t rss_bytes;  /* resident memory of the process, from /proc/self/statm */
    uint64_t heap_bytes; /* bytes in blocks of malloc() */
    uint64_t descriptors, threads;
};

/* Return the figures of this process. */
struct figures figures_now(void);

/* Return the CPU time of the calling thread in nanoseconds. */
uint64_t thread_ns(void);

enum { TIMES_MOST = 4096 };

/* The times of one window, of which the median counts. */
struct times {
    uint64_t values[TIMES_MOST];
    size_t count; /* of all times; the oldest are overwritten */
};

void times_add(struct times *times, uint64_t ns);

/* Return the median of the times since the last call, and forget them; 0 without a time. */
uint64_t times_take_median(struct times *times);

/* Print what is wrong to stderr, with Tarn's last error, and end the process with 1. */
void fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

/* Fail unless a call returned TARN_OK. */
#define NEED(call)                                        \
    do {                                                  \
        if ((call) != TARN_OK)                            \
            fail("%s:%d: %s", __FILE__, __LINE__, #call); \
    } while (0)

#endif
