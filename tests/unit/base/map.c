/* Test the address map: a removal keeps every other probe sequence unbroken. */
#include "test.h"
#include "base/map.h"
#include "base/random.h"

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

/* 0 marks an empty slot. */
TEST(map_has_nothing_under_the_key_0)
{
    struct tarn__map map;
    uint64_t value = 7, got = 77;

    tarn__map_init(&map, sizeof value);
    CHECK(tarn__map_put(&map, 0x1000, &value));
    CHECK(tarn__map_get(&map, 0) == NULL);
    CHECK(!tarn__map_take(&map, 0, &got));
    CHECK_EQUAL(77, got);
    CHECK_EQUAL(1, map.count);
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
