/* hash.c -- the factor that keys are multiplied by, drawn once for each process.
 *
 * Any random number would protect against chosen keys. But a number close to a simple
 * fraction puts consecutive addresses into few slots. How evenly x, 2x, 3x ... are spread
 * modulo 1 depends on x as a continued fraction: the smaller its terms, the better. All
 * terms of the golden ratio are 1. Here each is 1 or 2, at random.
 */
#define _GNU_SOURCE
#include "base/hash.h"
#include "base/random.h"
#include <pthread.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/random.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static uint64_t drawn;

/* Where the system has no random numbers yet, those that it gave the program at its start
 * serve instead. */
static uint64_t random_bits(void)
{
    const void *at_start = (const void *)(uintptr_t)getauxval(AT_RANDOM);
    uint64_t bits = (uintptr_t)&bits;

    if (getrandom(&bits, sizeof bits, GRND_NONBLOCK) != (ssize_t)sizeof bits && at_start)
        memcpy(&bits, at_start, sizeof bits);
    return bits;
}

static void draw(void)
{
    uint64_t state = random_bits(), bits = tarn__random_next(&state);
    long double x = 1;

    /* The last terms count most; the first ones are lost in rounding. */
    for (int i = 0; i < 64; i++)
        x = 1 / ((long double)(1 + (bits >> i & 1)) + x);
    drawn = (uint64_t)(x * 0x1p64L) | 1;
}

uint64_t tarn__hash_factor(void)
{
    pthread_once(&once, draw);
    return drawn;
}

uint64_t tarn__hash_bytes(const void *bytes, size_t count)
{
    const unsigned char *next = bytes;
    uint64_t by = tarn__hash_factor(), hash = by ^ count;

    for (size_t left = count; left > 0;) {
        uint64_t word = 0;
        size_t part = left < sizeof word ? left : sizeof word;
        memcpy(&word, next, part);
        hash = (hash ^ word) * by;
        hash ^= hash >> 32;
        next += part;
        left -= part;
    }
    return hash;
}
