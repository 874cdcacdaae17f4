/* colliding_keys.h -- keys that all belong into one place of a table that multiplies them by the
 * golden ratio, as 0.1 did, and uses any of the upper bits of the product.
 */
#ifndef TARN_TEST_COLLIDING_KEYS_H
#define TARN_TEST_COLLIDING_KEYS_H

#include <stdint.h>

/* The golden ratio's inverse modulo 2^64. */
#define GOLDEN_RATIO_INVERSE UINT64_C(0xf1de83e19937733d)

/* The next key below 2^56 whose product is below 2^28. Begin with 0. */
static inline uint64_t next_colliding_key(uint64_t *product)
{
    uint64_t key;

    do
        key = ++*product * GOLDEN_RATIO_INVERSE;
    while (key >> 56);
    return key;
}

#endif
