/* colliding_strings.h -- strings with equal hashes in tables that hash each word with
 * `hash = (hash ^ word) * factor; hash ^= hash >> 32`, whatever the odd factor is.
 *
 * A difference in the topmost bit stays there in the product, and the shift copies it to
 * bit 31. A next word with these two bits cancels it. So each pair of words has two
 * values for one hash.
 */
#ifndef TARN_TEST_COLLIDING_STRINGS_H
#define TARN_TEST_COLLIDING_STRINGS_H

#include <stdint.h>

enum { COLLIDING_PAIRS = 20 };

struct colliding_string {
    uint64_t words[2 * COLLIDING_PAIRS];
};

/* String number `number`, below 2^20. */
static inline struct colliding_string colliding_string(unsigned number)
{
    const uint64_t top = UINT64_C(1) << 63, half = UINT64_C(1) << 31;
    struct colliding_string string;

    for (int i = 0; i < COLLIDING_PAIRS; i++) {
        uint64_t bit = number >> i & 1;
        string.words[2 * i] = bit * top;
        string.words[2 * i + 1] = bit * (top | half);
    }
    return string;
}

#endif
