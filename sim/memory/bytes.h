/* bytes.h -- the work of a device on memory, hidden from memory checkers of the host.
 *
 * A checker such as AddressSanitizer knows which host memory the program may touch now. Queued
 * work of a device may touch pinned memory later, after a free in the order of its stream.
 */
#ifndef TARN_SIM_BYTES_H
#define TARN_SIM_BYTES_H

#include <stddef.h>
#include <string.h>

#if defined(__SANITIZE_ADDRESS__) && defined(__x86_64__)

/* The checker replaces memset() and memmove(), and no instructions. */
static inline void sim_bytes_fill(void *to, int value, size_t count)
{
    __asm__ volatile("rep stosb" : "+D"(to), "+c"(count) : "a"(value) : "memory");
}

static inline void sim_bytes_copy(void *to, const void *from, size_t count)
{
    if ((const char *)to <= (const char *)from ||
        (const char *)to >= (const char *)from + count) {
        __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(count) : : "memory");
        return;
    }
    to = (char *)to + count - 1;
    from = (const char *)from + count - 1;
    __asm__ volatile("std; rep movsb; cld"
                     : "+D"(to), "+S"(from), "+c"(count)
                     :
                     : "memory");
}

#else

static inline void sim_bytes_fill(void *to, int value, size_t count)
{
    memset(to, value, count);
}

static inline void sim_bytes_copy(void *to, const void *from, size_t count)
{
    memmove(to, from, count);
}

#endif

#endif
