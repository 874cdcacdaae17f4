/* hash.c -- the numbers that keys are hashed with, drawn once for each process.
 *
 * Numbers are multiplied by a factor. Any random number would protect against chosen
 * keys. But a number close to a simple fraction puts consecutive addresses into few
 * slots. How evenly x, 2x, 3x ... are spread modulo 1 depends on x as a continued
 * fraction: the smaller its terms, the better. All terms of the golden ratio are 1. Here
 * each is 1 or 2, at random.
 *
 * A product alone does not protect strings of several words. It keeps a difference in the
 * topmost bit as it is, whatever the factor is, and the next word can cancel it. So bytes
 * are hashed with SipHash (Aumasson and Bernstein): one round for each word, and three at
 * the end.
 */
#define _GNU_SOURCE
#include "base/hash.h"
#include "base/random.h"
#include <endian.h>
#include <pthread.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/random.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static uint64_t drawn;        /* the factor */
static uint64_t bytes_key[2]; /* of tarn__hash_bytes() */

/* Where the system has no random numbers yet, those that it gave the program at its start
 * serve instead. */
static void fill_random(uint64_t words[3])
{
    const void *at_start = (const void *)(uintptr_t)getauxval(AT_RANDOM); /* 16 bytes */
    const size_t bytes = 3 * sizeof *words;

    if (getrandom(words, bytes, GRND_NONBLOCK) == (ssize_t)bytes)
        return;
    for (int i = 0; i < 3; i++)
        words[i] = (uintptr_t)words;
    if (at_start)
        memcpy(words, at_start, 16);
}

uint64_t tarn__hash_make_factor(uint64_t bits)
{
    long double x = 1;

    /* The last terms count most; the first ones are lost in rounding. */
    for (int i = 0; i < 64; i++)
        x = 1 / ((long double)(1 + (bits >> i & 1)) + x);
    return (uint64_t)(x * 0x1p64L) | 1;
}

static void draw(void)
{
    uint64_t words[3];

    fill_random(words);
    bytes_key[0] = words[0];
    bytes_key[1] = words[1];
    drawn = tarn__hash_make_factor(tarn__random_next(&words[2]));
}

uint64_t tarn__hash_factor(void)
{
    pthread_once(&once, draw);
    return drawn;
}

/* --- SipHash --- */

struct sip {
    uint64_t a, b, c, d;
};

static inline uint64_t rotate(uint64_t word, int bits)
{
    return word << bits | word >> (64 - bits);
}

static inline void sip_round(struct sip *sip)
{
    sip->a += sip->b;
    sip->c += sip->d;
    sip->b = rotate(sip->b, 13) ^ sip->a;
    sip->d = rotate(sip->d, 16) ^ sip->c;
    sip->a = rotate(sip->a, 32);
    sip->c += sip->b;
    sip->a += sip->d;
    sip->b = rotate(sip->b, 17) ^ sip->c;
    sip->d = rotate(sip->d, 21) ^ sip->a;
    sip->c = rotate(sip->c, 32);
}

static inline void sip_word(struct sip *sip, uint64_t word)
{
    sip->d ^= word;
    sip_round(sip);
    sip->a ^= word;
}

/* Read `count` <= 8 bytes as a little-endian number. */
static inline uint64_t read_word(const unsigned char *bytes, size_t count)
{
    uint64_t word = 0;

    memcpy(&word, bytes, count);
    return le64toh(word);
}

uint64_t tarn__hash_sip(const uint64_t key[2], const void *bytes, size_t count)
{
    const unsigned char *next = bytes;
    struct sip sip = {key[0] ^ 0x736f6d6570736575u, key[1] ^ 0x646f72616e646f6du,
                      key[0] ^ 0x6c7967656e657261u, key[1] ^ 0x7465646279746573u};
    size_t left = count;

    for (; left >= 8; left -= 8, next += 8)
        sip_word(&sip, read_word(next, 8));
    sip_word(&sip, (uint64_t)count << 56 | read_word(next, left));
    sip.c ^= 0xff;
    for (int i = 0; i < 3; i++)
        sip_round(&sip);
    return sip.a ^ sip.b ^ sip.c ^ sip.d;
}

uint64_t tarn__hash_bytes(const void *bytes, size_t count)
{
    pthread_once(&once, draw);
    return tarn__hash_sip(bytes_key, bytes, count);
}
