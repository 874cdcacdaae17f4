/* size.h -- sums and roundings that report an overflow.
 *
 * RMM's rounding turns a request near SIZE_MAX into 0 bytes. Every size that comes from a
 * user goes through these functions instead.
 */
#ifndef TARN_BASE_SIZE_H
#define TARN_BASE_SIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline bool tarn__size_is_power_of_two(size_t n)
{
    return n != 0 && (n & (n - 1)) == 0;
}

static inline uint64_t tarn__size_least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Set *out to a + b. Returns false, with *out untouched, on overflow. */
static inline bool tarn__size_add(size_t a, size_t b, size_t *out)
{
    if (b > SIZE_MAX - a)
        return false;
    *out = a + b;
    return true;
}

/* Set *out to `bytes` rounded up to a multiple of `alignment`, a power of two. */
static inline bool tarn__size_round_up(size_t bytes, size_t alignment, size_t *out)
{
    size_t sum;

    if (!tarn__size_add(bytes, alignment - 1, &sum))
        return false;
    *out = sum & ~(alignment - 1);
    return true;
}

#endif
