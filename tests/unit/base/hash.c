/* Test the hashes: known values, and strings and numbers that were made to collide. */
#include "test.h"
#include "base/hash.h"
#include "base/random.h"
#include "colliding_keys.h"
#include "colliding_strings.h"
#include <stdlib.h>

/* The values are those of CPython's hash(bytes) with a key of zeros. */
TEST(hash_of_bytes_is_siphash)
{
    static const struct {
        size_t count;
        uint64_t hash;
    } known[] = {{1, 0x68a914128e01e473},  {7, 0x2f098ab0c751325a},
                 {8, 0xead411e67ebe2eea},  {9, 0x75927f9d95124362},
                 {15, 0xf30eb725bb91c9ea}, {16, 0x8972188433a5c5b7},
                 {63, 0x385d3e39e5f37359}};
    const uint64_t key[2] = {0, 0};
    unsigned char bytes[63];

    for (unsigned i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)i;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        CHECK(tarn__hash_sip(key, bytes, known[i].count) == known[i].hash);
}

TEST(hash_depends_on_both_halves_of_its_key)
{
    const uint64_t keys[3][2] = {{1, 2}, {1, 3}, {2, 2}};

    CHECK(tarn__hash_sip(keys[0], "a", 1) != tarn__hash_sip(keys[1], "a", 1));
    CHECK(tarn__hash_sip(keys[0], "a", 1) != tarn__hash_sip(keys[2], "a", 1));
    CHECK(tarn__hash_bytes("a", 1) == tarn__hash_bytes("a", 1));
    CHECK(tarn__hash_bytes("a", 1) != tarn__hash_sip((uint64_t[2]){0, 0}, "a", 1));
}

static int compare(const void *one, const void *two)
{
    uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)two;

    return a < b ? -1 : a > b;
}

TEST(hash_of_bytes_differs_for_strings_made_to_collide)
{
    enum { STRINGS = 4096 };
    static uint64_t hashes[STRINGS];
    struct colliding_string string;

    for (unsigned i = 0; i < STRINGS; i++) {
        string = colliding_string(i);
        hashes[i] = tarn__hash_bytes(string.words, sizeof string.words);
    }
    qsort(hashes, STRINGS, sizeof *hashes, compare);
    for (unsigned i = 1; i < STRINGS; i++)
        CHECK(hashes[i] != hashes[i - 1]);
}

/* --- Numbers --- */

enum { NUMBERS = 10000, SLOT_BITS = 14 };

/* Return how many full slots a key meets on average, in a table with 2^14 slots. A good
 * hash meets fewer than one. */
static double full_slots(uint64_t factor, const uint64_t keys[NUMBERS])
{
    static bool full[1 << SLOT_BITS];
    uint64_t met = 0;

    memset(full, 0, sizeof full);
    for (int i = 0; i < NUMBERS; i++) {
        size_t slot = (size_t)(tarn__hash_number(factor, keys[i]) >> (64 - SLOT_BITS));
        for (; full[slot]; slot = (slot + 1) & ((1 << SLOT_BITS) - 1))
            met++;
        full[slot] = true;
    }
    return (double)met / NUMBERS;
}

TEST(hash_of_numbers_spreads_keys_of_every_distance)
{
    static const uint64_t multiples[] = {1, 3, 5, 65537, 2097151};
    static uint64_t keys[NUMBERS];
    uint64_t random = 1;

    for (unsigned shift = 0; shift < 46; shift++)
        for (int m = 0; m < 5; m++) {
            for (uint64_t i = 0; i < NUMBERS; i++)
                keys[i] = ((i + 1) * multiples[m] << shift) + (UINT64_C(1) << 46);
            CHECK(full_slots(tarn__hash_factor(), keys) < 3);
            for (int i = 0; i < 4; i++)
                CHECK(full_slots(tarn__hash_make_factor(tarn__random_next(&random)),
                                 keys) < 3);
        }
}

/* Keys that a hash with the golden ratio puts into one slot. */
TEST(hash_of_numbers_spreads_keys_that_were_prepared_for_a_known_factor)
{
    static uint64_t keys[NUMBERS];

    for (uint64_t i = 0; i < NUMBERS; i++) {
        uint64_t product = (i + 1) << 44 | (i + 1) >> 20; /* bits 20 to 43 are 0 */
        keys[i] = product * GOLDEN_RATIO_INVERSE;
    }
    CHECK(full_slots(tarn__hash_factor(), keys) < 3);
}
