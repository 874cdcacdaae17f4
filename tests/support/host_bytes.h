/* host_bytes.h -- the growth of the host memory of this process. */
#ifndef TARN_TEST_HOST_BYTES_H
#define TARN_TEST_HOST_BYTES_H

#include <malloc.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

size_t __sanitizer_get_current_allocated_bytes(void) __attribute__((weak));

/* Less than a leak of some bytes in each of thousands of calls. */
enum { HOST_GROWTH_NOISE = 16 << 10 };

static inline size_t host_resident_bytes(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    size_t pages = 0;

    if (file && fscanf(file, "%*u %zu", &pages) != 1)
        pages = 0;
    if (file)
        fclose(file);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

/* Under a sanitizer mallinfo2() does not change. LeakSanitizer alone has no exact count. */
static inline size_t host_bytes(void)
{
    if (!__sanitizer_get_current_allocated_bytes)
        return mallinfo2().uordblks;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return __sanitizer_get_current_allocated_bytes();
#else
    return host_resident_bytes();
#endif
}

/* Call `use` in several rounds. Return the growth in the round in which it was least: a leak
 * grows in each. */
static inline size_t host_growth(void (*use)(void))
{
    enum { ROUNDS = 4 };
    size_t least = SIZE_MAX;

    for (int i = 0; i < ROUNDS; i++) {
        size_t before = host_bytes();
        use();
        size_t after = host_bytes(), growth = after > before ? after - before : 0;
        least = growth < least ? growth : least;
    }
    return least;
}

#endif
