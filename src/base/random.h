/* random.h -- a small seeded generator (splitmix64), for tests and the driver
 * simulator. */
#ifndef TARN_BASE_RANDOM_H
#define TARN_BASE_RANDOM_H

#include <stdint.h>

static inline uint64_t tarn__random_next(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Return a number below `limit`, which is not 0. The bias is far below what a test can
 * see. */
static inline uint64_t tarn__random_below(uint64_t *state, uint64_t limit)
{
    return tarn__random_next(state) % limit;
}

#endif
