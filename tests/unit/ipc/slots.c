/* Test the table of the owner's entries: a name finds the entry that it was made for. */
#include "test.h"
#include "ipc/slots.h"
#include <stdlib.h>

enum { ITEMS = 40 }; /* the table grows twice */

struct name {
    uint32_t slot;
    uint64_t generation;
};

static struct tarn__slots table;
static int items[ITEMS];
static struct name names[ITEMS];

static void fill_table(void)
{
    table = (struct tarn__slots){0};
    for (int i = 0; i < ITEMS; i++) {
        CHECK(tarn__slots_reserve(&table));
        tarn__slots_put(&table, &items[i], &names[i].slot, &names[i].generation);
    }
    CHECK_EQUAL(ITEMS, table.count);
}

TEST(each_name_finds_its_item_alone)
{
    fill_table();
    for (int i = 0; i < ITEMS; i++)
        for (int k = 0; k < ITEMS; k++) {
            void *found = tarn__slots_find(&table, names[i].slot, names[k].generation);
            CHECK(found == (i == k ? &items[i] : NULL));
        }
    free(table.slots);
}

TEST(name_of_an_item_that_is_gone_finds_nothing_though_its_slot_is_used_again)
{
    struct name later;
    int item;

    fill_table();
    tarn__slots_take(&table, names[7].slot);
    CHECK(!tarn__slots_find(&table, names[7].slot, names[7].generation));
    CHECK(tarn__slots_reserve(&table));
    tarn__slots_put(&table, &item, &later.slot, &later.generation);
    CHECK_EQUAL(names[7].slot, later.slot);
    CHECK(!tarn__slots_find(&table, names[7].slot, names[7].generation));
    CHECK(tarn__slots_find(&table, later.slot, later.generation) == &item);
    CHECK_EQUAL(ITEMS, table.count);
    free(table.slots);
}

/* The memory behind the table may have any bytes, also those of an item. */
TEST(slot_behind_the_end_of_the_table_finds_nothing)
{
    fill_table();
    for (int i = 0; i < ITEMS; i++) {
        struct tarn__slots shorter = table;
        shorter.length = names[i].slot;
        CHECK(!tarn__slots_find(&shorter, names[i].slot, names[i].generation));
        CHECK(!tarn__slots_find(&shorter, UINT32_MAX, names[i].generation));
    }
    free(table.slots);
}
