/* Test the address map: a removal keeps every other probe sequence unbroken. */
#define _GNU_SOURCE
#include "colliding_keys.h"
#include "test.h"
#include "base/map.h"
#include "base/random.h"
#include <time.h>

enum { KEYS = 4096 };

TEST(map_returns_the_stored_value)
{
    struct tarn__map map;
    uint64_t value = 7, got = 0;

    tarn__map_init(&map, sizeof value);
    CHECK(tarn__map_put(&map, 0x1000, &value));
    CHECK(!tarn__map_put(&map, 0x1000, &value));
    CHECK(!tarn__map_take(&map, 0x2000, &got));
    CHECK(tarn__map_take(&map, 0x1000, &got));
    CHECK_EQUAL(7, got);
    CHECK_EQUAL(0, map.count);
    tarn__map_free(&map);
}

/* Against a plain array, with many keys that collide. */
TEST(map_agrees_with_a_plain_array)
{
    static uint64_t model[KEYS];
    struct tarn__map map;
    uint64_t random = 1;

    memset(model, 0, sizeof model);
    tarn__map_init(&map, sizeof(uint64_t));
    for (int i = 0; i < 400000; i++) {
        uint64_t index = tarn__random_below(&random, KEYS), key = (index + 1) << 8;
        uint64_t value = tarn__random_next(&random) | 1, got = 0;
        if (model[index]) {
            CHECK(tarn__map_take(&map, key, &got));
            CHECK(got == model[index]);
            model[index] = 0;
        } else {
            CHECK(tarn__map_put(&map, key, &value));
            model[index] = value;
        }
    }
    for (uint64_t index = 0; index < KEYS; index++) {
        uint64_t *value = tarn__map_get(&map, (index + 1) << 8);
        CHECK(value ? *value == model[index] : model[index] == 0);
    }
    tarn__map_free(&map);
}

/* CPU time of inserting keys into a map and removing them. */
static double fill(const uint64_t *keys, size_t count)
{
    struct timespec before, after;
    struct tarn__map map;

    tarn__map_init(&map, 0);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
    for (size_t i = 0; i < count; i++)
        CHECK(tarn__map_put(&map, keys[i], NULL));
    for (size_t i = 0; i < count; i++)
        CHECK(tarn__map_take(&map, keys[i], NULL));
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
    tarn__map_free(&map);
    return (double)(after.tv_sec - before.tv_sec) +
           1e-9 * (double)(after.tv_nsec - before.tv_nsec);
}

/* If all keys hash to one slot, this takes a thousand times as long. */
TEST(map_takes_no_longer_for_keys_that_were_prepared_for_a_known_hash)
{
    enum { COUNT = 40000 };
    static uint64_t keys[3][COUNT];
    uint64_t random = 1;

    for (uint64_t i = 0; i < COUNT; i++) {
        uint64_t product = (i + 1) << 44 | (i + 1) >> 20; /* bits 20 to 43 are 0 */
        keys[0][i] = tarn__random_next(&random) | 1;
        keys[1][i] = product * GOLDEN_RATIO_INVERSE;
        keys[2][i] = (i + 1) << 40;
    }
    double usual = fill(keys[0], COUNT);
    CHECK(fill(keys[1], COUNT) < 30 * usual);
    CHECK(fill(keys[2], COUNT) < 30 * usual);
}
