/* Test the hash of bytes: known values, and strings that were made to collide. */
#include "test.h"
#include "base/hash.h"
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
