/* Test interned strings: one number for equal strings, and no slow table for any input. */
#include "colliding_strings.h"
#include "test.h"
#include <stdlib.h>

static int allocations_left = -1; /* -1: no limit */

static bool may_allocate(void)
{
    if (allocations_left < 0)
        return true;
    bool may = allocations_left > 0;
    allocations_left -= may;
    return may;
}

static void *limited_malloc(size_t bytes)
{
    return may_allocate() ? malloc(bytes) : NULL;
}

static void *limited_realloc(void *old, size_t bytes)
{
    return may_allocate() ? realloc(old, bytes) : NULL;
}

#define malloc limited_malloc
#define realloc limited_realloc
#include "base/intern.c"
#undef malloc
#undef realloc

TEST(equal_strings_have_one_number)
{
    struct tarn__intern table;
    uint32_t one, two, again = 77;

    tarn__intern_init(&table);
    CHECK(!tarn__intern_find(&table, "abc", 3, &again));
    CHECK_EQUAL(77, again);
    CHECK(tarn__intern_add(&table, "abc", 3, &one));
    CHECK(tarn__intern_add(&table, "", 0, &two));
    CHECK(tarn__intern_add(&table, "abc", 3, &again));
    CHECK(one == 0 && two == 1 && again == 0);
    CHECK(tarn__intern_find(&table, "", 0, &again) && again == 1);
    CHECK_TEXT("abc", (const char *)table.items[one]->bytes);
    CHECK_EQUAL(3, table.items[one]->count);
    CHECK_EQUAL(5, table.bytes);
    tarn__intern_free(&table);
    CHECK_EQUAL(0, table.count);
}

TEST(strings_keep_their_number_and_address_while_the_table_grows)
{
    enum { STRINGS = 5000 };
    static const unsigned char *addresses[STRINGS];
    struct tarn__intern table;
    uint32_t number;

    tarn__intern_init(&table);
    for (uint32_t i = 0; i < STRINGS; i++) {
        CHECK(tarn__intern_add(&table, &i, sizeof i, &number));
        CHECK_EQUAL(i, number);
        addresses[i] = table.items[i]->bytes;
    }
    for (uint32_t i = 0; i < STRINGS; i++) {
        CHECK(tarn__intern_find(&table, &i, sizeof i, &number));
        CHECK(number == i && table.items[i]->bytes == addresses[i]);
        CHECK(memcmp(addresses[i], &i, sizeof i) == 0);
    }
    tarn__intern_free(&table);
}

/* A lookup compares the string that it finds and, by chance alone, another one. */
TEST(strings_made_to_collide_are_not_compared_with_each_other)
{
    enum { STRINGS = 20000 };
    struct tarn__intern table;
    uint32_t number;

    tarn__intern_init(&table);
    for (unsigned i = 0; i < STRINGS; i++) {
        struct colliding_string string = colliding_string(i);
        CHECK(tarn__intern_add(&table, string.words, sizeof string.words, &number));
        CHECK_EQUAL(i, number);
    }
    CHECK_EQUAL(0, table.comparisons);
    for (unsigned i = 0; i < STRINGS; i++) {
        struct colliding_string string = colliding_string(i);
        CHECK(tarn__intern_find(&table, string.words, sizeof string.words, &number));
    }
    CHECK_EQUAL(STRINGS, table.comparisons);
    tarn__intern_free(&table);
}

TEST(a_string_for_which_there_is_no_memory_changes_nothing)
{
    for (int allocations = 0; allocations < 2; allocations++) {
        struct tarn__intern table;
        uint32_t number = 77;
        tarn__intern_init(&table);
        for (uint32_t i = 0; i < FIRST_CAPACITY; i++)
            CHECK(tarn__intern_add(&table, &i, sizeof i, &number));
        allocations_left = allocations;
        bool added = tarn__intern_add(&table, "def", 3, &number);
        allocations_left = -1;
        CHECK(!added && number == FIRST_CAPACITY - 1);
        CHECK(table.count == FIRST_CAPACITY && table.bytes == FIRST_CAPACITY * 5);
        CHECK(!tarn__intern_find(&table, "def", 3, &number));
        CHECK(tarn__intern_add(&table, "def", 3, &number));
        CHECK_EQUAL(FIRST_CAPACITY, number);
        tarn__intern_free(&table);
    }
}
