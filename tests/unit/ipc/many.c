/* Test many exports and many segments: one more costs the same as the first ones. */
#define _GNU_SOURCE
#include "test.h"
#include "ipc/export_table.h"
#include "pointer/pointer.h"
#include <stdlib.h>
#include <time.h>

enum { SHARES = 40000, MEASURED = 1000, SEGMENTS = 1000, LOOKS = 20000 };

static double cpu_seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static tarn_pointer *pointers[SHARES];

static void make_pointer(size_t i)
{
    const tarn_pointer_options options = {
        .size = sizeof options, .address = (i + 1) << 8, .bytes = 256};

    CHECK_OK(tarn_pointer_create(&options, &pointers[i]));
}

static void share_pointer(size_t i)
{
    const struct tarn__export_memory memory = {.backing = TARN__BACKING_CUDA};
    uint64_t generation;
    uint32_t slot;

    CHECK_OK(tarn__export_table_find_or_add(pointers[i], &memory, &slot, &generation));
}

/* The steps of an export of a served handle, except the driver's part. */
static double share_from(size_t first)
{
    double before = cpu_seconds();

    for (size_t i = first; i < first + MEASURED; i++) {
        tarn__export_table_sweep();
        share_pointer(i);
    }
    return cpu_seconds() - before;
}

/* Share all pointers, and return the time of the last ones as a multiple of the first's. */
static double share_all(void)
{
    double first = 0, last = 0;

    for (size_t i = 0; i < SHARES; i++)
        make_pointer(i);
    for (size_t i = 0; i < SHARES; i += MEASURED) {
        last = share_from(i);
        first = i == 0 ? last : first;
    }
    CHECK_EQUAL(SHARES, tarn__export_table_count());
    for (size_t i = 0; i < SHARES; i++)
        tarn_pointer_release(pointers[i]);
    CHECK_EQUAL(0, tarn__export_table_count());
    return last / first;
}

/* If each one scanned all the others, the last ones would always take 40 times as long. Page
 * faults of a busy machine disturb some attempts. */
TEST(export_takes_no_longer_with_many_entries)
{
    bool is_quick = false;

    for (int i = 0; i < 8 && !is_quick; i++)
        is_quick = share_all() < 10;
    CHECK(is_quick);
}

/* Sweeps find exports whose owner released them unnoticed, in any slot. */
TEST(sweeps_come_by_every_share)
{
    enum { FEW = 500 };

    for (size_t i = 0; i < FEW; i++) {
        make_pointer(i);
        share_pointer(i);
    }
    for (size_t i = 0; i < FEW; i += 2)
        tarn__pointer_release_plain(pointers[i]); /* one that began before the export */
    for (int i = 0; i < FEW / 10; i++)
        tarn__export_table_sweep();
    CHECK_EQUAL(FEW / 2, tarn__export_table_count());
    for (size_t i = 1; i < FEW; i += 2)
        tarn_pointer_release(pointers[i]);
    CHECK_EQUAL(0, tarn__export_table_count());
}

static double look_for_segments(const tarn_device_ptr *blocks, size_t count)
{
    struct tarn__segment_name name;
    double before = cpu_seconds();

    for (size_t i = 0; i < LOOKS; i++) {
        CHECK(tarn__segment_around(blocks[i % count] + 300, &name));
        CHECK(name.base == blocks[i % count]);
        CHECK(!tarn__segment_around(4096, &name));
    }
    return cpu_seconds() - before;
}

TEST(segment_is_found_as_soon_where_there_are_many)
{
    static tarn_device_ptr blocks[SEGMENTS];
    tarn_resource *resource;

    CHECK_OK(tarn_exportable_create(0, &resource));
    CHECK_OK(tarn_resource_allocate(resource, 1000, 0, NULL, &blocks[0]));
    double few = look_for_segments(blocks, 1);
    for (size_t i = 1; i < SEGMENTS; i++)
        CHECK_OK(tarn_resource_allocate(resource, 1000, 0, NULL, &blocks[i]));
    double many = look_for_segments(blocks, SEGMENTS);
    for (int i = 0; i < 4; i++) {
        double again = look_for_segments(blocks, SEGMENTS);
        many = again < many ? again : many;
    }
    CHECK(many < 20 * few);
    for (size_t i = 0; i < SEGMENTS; i++)
        CHECK_OK(tarn_resource_deallocate(resource, blocks[i], 1000, 0, NULL));
    CHECK_EQUAL(0, tarn__segment_count());
    CHECK_OK(tarn_resource_release(resource));
}
