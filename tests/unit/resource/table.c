/* Test the table of live blocks. Internals are not exported, so it is compiled in here.
 */
#define _GNU_SOURCE
#include "colliding_keys.h"
#include "test.h"
#include "base/hash.c"
#include "base/mutex_assert.c"
#include "resource/table.c"

enum { RECORDS = 5000 };

static struct tarn__record *record_at(uint64_t block, size_t bytes, size_t alignment)
{
    struct tarn__record *record = tarn__table_record_new(bytes, alignment);

    CHECK(record != NULL);
    record->block = record->base = block;
    return record;
}

TEST(table_returns_the_record_that_was_put)
{
    struct tarn__table table;
    struct tarn__record *record = record_at(0x1000, 10, 256), *taken = NULL;
    size_t bytes = 0;

    tarn__table_init(&table);
    tarn__table_put(&table, record);
    CHECK_OK(tarn__table_bytes(&table, "test", 0x1000, &bytes));
    CHECK_EQUAL(10, bytes);
    CHECK_EQUAL(1, tarn__table_count(&table));
    CHECK_OK(tarn__table_take(&table, "test", 0x1000, 10, 256, 0, &taken));
    CHECK(taken == record);
    CHECK_EQUAL(0, tarn__table_count(&table));
    tarn__table_record_drop(taken);
    tarn__table_free(&table);
}

TEST(table_reports_errors_and_changes_nothing)
{
    struct tarn__table table;
    struct tarn__record *taken = NULL;
    size_t bytes = 7;

    tarn__table_init(&table);
    tarn__table_put(&table, record_at(0x1000, 10, 512));
    CHECK_STATUS(TARN_INVALID_ARGUMENT,
                 tarn__table_take(&table, "test", 0x2000, 10, 512, 0, &taken));
    CHECK_MESSAGE("test: 0x2000 is not a live allocation of this resource");
    CHECK_STATUS(TARN_INVALID_ARGUMENT,
                 tarn__table_take(&table, "test", 0x1000, 11, 512, 0, &taken));
    CHECK_MESSAGE("0x1000 was allocated with 10 bytes, freed with 11");
    CHECK_STATUS(TARN_INVALID_ARGUMENT,
                 tarn__table_take(&table, "test", 0x1000, 10, 256, 0, &taken));
    CHECK_MESSAGE("512");
    CHECK_STATUS(TARN_INVALID_ARGUMENT,
                 tarn__table_bytes(&table, "test", 0x1001, &bytes));
    CHECK(taken == NULL && bytes == 7);
    CHECK_EQUAL(1, tarn__table_count(&table));
    tarn__table_free(&table); /* with the record in it */
}

TEST(table_finds_each_of_many_while_it_grows)
{
    struct tarn__table table;
    struct tarn__record *taken;
    size_t bytes = 0;

    tarn__table_init(&table);
    for (uint64_t i = 1; i <= RECORDS; i++)
        tarn__table_put(&table, record_at(i << 9, i, 256));
    for (uint64_t i = 1; i <= RECORDS; i += 2) {
        CHECK_OK(tarn__table_take(&table, "test", i << 9, i, 256, 0, &taken));
        tarn__table_record_drop(taken);
    }
    CHECK_EQUAL(RECORDS / 2, tarn__table_count(&table));
    for (uint64_t i = 1; i <= RECORDS; i++) {
        bool out = tarn__table_bytes(&table, "test", i << 9, &bytes) == TARN_OK;
        CHECK_EQUAL(i % 2 == 0, out);
        CHECK(!out || bytes == i);
    }
    tarn__table_free(&table);
}

static size_t longest_bucket(const struct tarn__table *table)
{
    size_t longest = 0;

    for (int i = 0; i < TARN__SHARDS; i++)
        for (size_t j = 0; j < table->shards[i].bucket_count; j++) {
            size_t length = 0;
            for (struct tarn__record *record = table->shards[i].buckets[j]; record;
                 record = record->next)
                length++;
            longest = length > longest ? length : longest;
        }
    return longest;
}

TEST(table_spreads_addresses_that_were_prepared_for_a_known_hash)
{
    struct tarn__table table;
    uint64_t product = 0;

    tarn__table_init(&table);
    for (int i = 0; i < RECORDS; i++)
        tarn__table_put(&table, record_at(next_colliding_key(&product) << 8, 1, 256));
    CHECK(longest_bucket(&table) < 50); /* all 5,000, with that hash */
    tarn__table_free(&table);
}

/* Consecutive addresses spread evenly, whatever number a process draws. */
TEST(number_of_a_process_is_a_good_one_whichever_it_is)
{
    enum { PLACES = 4096, DRAWS = 500 };

    tarn__hash_factor();
    for (int i = 0; i < DRAWS; i++) {
        unsigned char count[PLACES] = {0};
        draw();
        CHECK(drawn % 2 == 1);
        for (uint64_t key = 0; key < PLACES; key++)
            CHECK(++count[(key * drawn) >> 52] <= 5);
    }
}
