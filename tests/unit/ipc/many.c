/* Test many exports and many segments: the work for one more does not grow with their number. */
#define _GNU_SOURCE
#include "test.h"
#include "ipc/export_table.h"
#include "pointer/pointer.h"
#include <stdlib.h>
#include <time.h>

enum { SHARES = 40000, SEGMENTS = 1000, LOOKS = 20000 };

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

/* A sweep looks at few entries, however many there are: it finds few of those that are left over. */
TEST(sweep_looks_at_few_of_many_entries)
{
    enum { MOST = 64 };

    for (size_t i = 0; i < SHARES; i++) {
        make_pointer(i);
        share_pointer(i);
        tarn__pointer_release_plain(pointers[i]);
    }
    for (size_t left = SHARES; left > 0;) {
        tarn__export_table_sweep();
        size_t now = tarn__export_table_count();
        CHECK(now < left);
        CHECK(left - now <= MOST);
        left = now;
    }
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

    CHECK_OK(tarn_exportable_create(0, NULL, &resource));
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
