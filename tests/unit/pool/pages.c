/* Test the memory beneath a pool: growth, sizes of steps, removal, and the device-wide
 * wait. */
#include "memory.h"
#include "base/clock.h"
#include "pool/backing/backing.h"
#include "pool/backing/handle_size.h"
#include "capturing.h"
#include <pthread.h>
#include <stdatomic.h>

TEST(pages_reserve_several_times_the_memory_and_map_none)
{
    unsigned long long before = live_bytes();
    struct tarn__pages *pages = open_pages();
    struct tarn__span range = tarn__pages_range(pages);
    tarn_device_info info;

    CHECK_OK(tarn_driver_device_info(0, &info));
    CHECK(tarn__pages_is_vmm(pages) && !tarn__pages_is_ordered(pages));
    CHECK(range.address % PAGE == 0 && range.bytes >= 3 * info.total_bytes);
    CHECK_EQUAL(0, tarn__pages_reserved(pages));
    CHECK(tarn__pages_metadata(pages) < 8192);
    CHECK(live_bytes() - before <= PAGE); /* the reserve block */
    tarn__pages_close(pages);
    CHECK_EQUAL(before, live_bytes());
}

TEST(pages_that_grow_can_be_used_and_go_back)
{
    unsigned long long before = live_bytes();
    struct tarn__pages *pages = open_pages();

    CHECK_OK(grow_at(pages, 3, 5));
    CHECK_EQUAL(5 * PAGE, tarn__pages_reserved(pages));
    write_bytes(span_at(pages, 3, 5), 9);
    check_bytes(span_at(pages, 3, 5), 9);
    CHECK(!is_usable(0, span_at(pages, 2, 1)));
    CHECK(!is_usable(0, span_at(pages, 8, 1)));
    CHECK_OK(tarn__pages_remove(pages, span_at(pages, 3, 5)));
    CHECK_EQUAL(0, tarn__pages_reserved(pages));
    CHECK(!is_usable(0, span_at(pages, 3, 1)));
    CHECK_OK(grow_at(pages, 4, 1));
    tarn__pages_close(pages);
    CHECK_EQUAL(before, live_bytes());
}

TEST(pages_grow_only_into_holes_of_the_range)
{
    struct tarn__pages *pages = open_pages();
    struct tarn__span range = tarn__pages_range(pages), got;
    size_t last = range.bytes / PAGE - 1;

    CHECK_OK(grow_at(pages, 4, 2));
    CHECK_STATUS(TARN_STILL_IN_USE, grow_at(pages, 4, 1));
    CHECK_STATUS(TARN_STILL_IN_USE, grow_at(pages, 3, 2));
    CHECK_STATUS(TARN_STILL_IN_USE, grow_at(pages, 0, 16));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, grow_at(pages, last, 2));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, grow_at(pages, last + 1, 1));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, grow_at(pages, 0, 0));
    CHECK_STATUS(TARN_INVALID_ARGUMENT,
                 tarn__pages_grow(pages, range.address + 512, PAGE, NULL, &got));
    CHECK_STATUS(TARN_INVALID_ARGUMENT,
                 tarn__pages_grow(pages, range.address - PAGE, PAGE, NULL, &got));
    CHECK_STATUS(TARN_INVALID_ARGUMENT,
                 tarn__pages_grow(pages, range.address, PAGE + 512, NULL, &got));
    CHECK_STATUS(
        TARN_INVALID_ARGUMENT,
        tarn__pages_grow(pages, range.address + PAGE, SIZE_MAX - PAGE + 1, NULL, &got));
    CHECK_EQUAL(2 * PAGE, tarn__pages_reserved(pages));
    CHECK_OK(grow_at(pages, last, 1)); /* far apart costs nothing in between */
    write_bytes(span_at(pages, last, 1), 1);
    tarn__pages_close(pages);
}

/* The growth takes all memory of the device before it fails. */
TEST(pages_that_find_no_memory_leave_none_behind)
{
    unsigned long long before = live_bytes();
    struct tarn__pages *pages = open_pages();
    tarn_device_info info;

    CHECK_OK(tarn_driver_device_info(0, &info));
    CHECK_OK(grow_at(pages, 0, 8));
    CHECK_STATUS(TARN_OUT_OF_MEMORY, grow_at(pages, 8, info.total_bytes / PAGE));
    CHECK_MESSAGE("pool: cuMemCreate failed with CUDA_ERROR_OUT_OF_MEMORY");
    CHECK_EQUAL(8 * PAGE, tarn__pages_reserved(pages));
    CHECK(live_bytes() - before <= 9 * PAGE);
    CHECK_OK(grow_at(pages, 8, 100));
    tarn__pages_close(pages);
    CHECK_EQUAL(before, live_bytes());
}

/* --- steps --- */

TEST(pages_step_is_what_is_needed_in_whole_pages)
{
    struct tarn__pages *pages = open_pages();

    CHECK_EQUAL(PAGE, tarn__handle_size_step(pages, 1, SIZE_MAX));
    CHECK_EQUAL(PAGE, tarn__handle_size_step(pages, PAGE, PAGE));
    CHECK_EQUAL(2 * PAGE, tarn__handle_size_step(pages, PAGE + 1, SIZE_MAX));
    CHECK_EQUAL(0, tarn__handle_size_step(pages, PAGE + 1, 2 * PAGE - 1));
    CHECK_EQUAL(0, tarn__handle_size_step(pages, 1, PAGE - 1));
    CHECK_EQUAL(0, tarn__handle_size_step(pages, SIZE_MAX, SIZE_MAX));
    CHECK_EQUAL(0, tarn__handle_size_step(pages, SIZE_MAX - PAGE + 2, SIZE_MAX));
    tarn__pages_close(pages);
}

TEST(pages_step_grows_with_the_pool_and_shrinks_near_the_limit)
{
    struct tarn__pages *pages = open_pages();
    size_t step;

    CHECK_OK(grow_at(pages, 0, 512 * MIB / PAGE));
    CHECK_EQUAL(4 * MIB, tarn__handle_size_step(pages, 1, SIZE_MAX));
    CHECK_EQUAL(100 * MIB, tarn__handle_size_step(pages, 100 * MIB, SIZE_MAX));
    step = tarn__handle_size_step(pages, 1, 8 * MIB + 5);
    CHECK_EQUAL(2 * MIB, step);
    CHECK_EQUAL(PAGE, tarn__handle_size_step(pages, 1, 3 * MIB));
    CHECK_OK(grow_at(pages, 512 * MIB / PAGE, 6144 * MIB / PAGE));
    CHECK_EQUAL(64 * MIB, tarn__handle_size_step(pages, 1, SIZE_MAX));
    CHECK_EQUAL(32 * MIB, tarn__handle_size(pages, 0));
    CHECK_EQUAL(128 * MIB, tarn__handle_size_step(pages, 100 * MIB, SIZE_MAX));
    CHECK_EQUAL(100 * MIB, tarn__handle_size_step(pages, 100 * MIB, 101 * MIB));
    tarn__pages_close(pages);
}

/* Whatever the pool's size, but not near its limit, and not where each page moves by itself. */
TEST(large_handles_are_of_32_mib)
{
    struct tarn__pages *pages = open_pages();

    tarn__pages_set_tight(pages, true);
    tarn__pages_set_large(pages, true);
    CHECK_EQUAL(32 * MIB, tarn__handle_size(pages, 64 * MIB));
    tarn__pages_set_maximum(pages, 2048 * MIB);
    CHECK_EQUAL(2 * MIB, tarn__handle_size(pages, 64 * MIB));
    tarn__pages_set_maximum(pages, UINT64_MAX);
    tarn__pages_set_single(pages, true);
    CHECK_EQUAL(PAGE, tarn__handle_size(pages, 64 * MIB));
    tarn__pages_set_single(pages, false);
    tarn__pages_set_large(pages, false);
    CHECK(tarn__handle_size(pages, 8192 * MIB) <= 4 * MIB);
    tarn__pages_close(pages);
}

/* Live blocks pin only a small part of the pool's maximum. */
TEST(pages_of_a_pool_that_has_little_of_a_large_device_have_larger_handles)
{
    const size_t gib = (size_t)1 << 30;
    struct tarn__pages *pages = open_pages();

    pages->vmm.device_bytes = 141 * gib;
    CHECK_EQUAL(4 * MIB, tarn__handle_size(pages, gib)); /* no maximum was set */
    tarn__pages_set_maximum(pages, UINT64_MAX);
    CHECK_EQUAL(2 * MIB, tarn__handle_size(pages, 128 * MIB));
    CHECK_EQUAL(8 * MIB, tarn__handle_size(pages, 512 * MIB));
    CHECK_EQUAL(16 * MIB, tarn__handle_size(pages, gib));
    CHECK_EQUAL(32 * MIB, tarn__handle_size(pages, 2 * gib));
    CHECK_EQUAL(32 * MIB, tarn__handle_size(pages, 6 * gib));
    tarn__pages_set_maximum(pages, 128 * gib);
    CHECK_EQUAL(16 * MIB, tarn__handle_size(pages, gib));
    tarn__pages_set_maximum(pages, 32 * gib);
    CHECK_EQUAL(8 * MIB, tarn__handle_size(pages, gib));
    tarn__pages_set_maximum(pages, 2 * gib);
    CHECK_EQUAL(2 * MIB, tarn__handle_size(pages, gib));
    tarn__pages_close(pages);
}

/* Free memory that a live block pins is no more than the block, or 4 MiB. */
TEST(pages_of_a_pool_with_an_eighth_of_its_maximum_have_handles_of_half_a_block)
{
    const size_t gib = (size_t)1 << 30;
    struct tarn__pages *pages = open_pages();

    pages->vmm.device_bytes = 40 * gib;
    tarn__pages_set_maximum(pages, UINT64_MAX);
    tarn__pages_set_block(pages, 18000000);
    CHECK_EQUAL(16 * MIB, tarn__handle_size(pages, 5 * gib));
    CHECK_EQUAL(8 * MIB, tarn__handle_size(pages, 5 * gib + PAGE));
    CHECK_EQUAL(8 * MIB, tarn__handle_size(pages, 20 * gib));
    tarn__pages_set_block(pages, 16 * MIB - 1);
    CHECK_EQUAL(4 * MIB, tarn__handle_size(pages, 20 * gib));
    tarn__pages_set_block(pages, 512);
    CHECK_EQUAL(4 * MIB, tarn__handle_size(pages, 20 * gib));
    tarn__pages_set_block(pages, gib);
    CHECK_EQUAL(32 * MIB, tarn__handle_size(pages, 20 * gib));
    tarn__pages_set_block(pages, 0);
    CHECK_EQUAL(32 * MIB, tarn__handle_size(pages, 20 * gib));
    tarn__pages_close(pages);
}

/* A 4096th of the headroom, if that is less than the device's free memory. */
TEST(pages_of_a_pool_near_its_limit_have_small_handles)
{
    const size_t gib = (size_t)1 << 30;
    struct tarn__pages *pages = open_pages();

    pages->vmm.device_bytes = 141 * gib;
    tarn__pages_set_maximum(pages, 141 * gib);
    CHECK_EQUAL(32 * MIB, tarn__handle_size(pages, 6 * gib));
    tarn__pages_set_maximum(pages, 8 * gib);
    CHECK_EQUAL(2 * MIB, tarn__handle_size(pages, 6 * gib));
    tarn__pages_set_maximum(pages, 16 * gib);
    CHECK_EQUAL(4 * MIB, tarn__handle_size(pages, 6 * gib));
    tarn__pages_set_maximum(pages, MIB);
    CHECK_EQUAL(2 * MIB, tarn__handle_size(pages, 6 * gib));
    tarn__pages_set_maximum(pages, UINT64_MAX);
    tarn__pages_set_tight(pages, true);
    CHECK_EQUAL(4 * MIB, tarn__handle_size(pages, 6 * gib));
    tarn__pages_close(pages);
}

TEST(pages_that_were_open_for_long_have_smaller_handles_and_steps)
{
    const size_t gib = (size_t)1 << 30;
    const uint64_t second = 1000 * 1000 * 1000;
    struct tarn__pages *pages = open_pages();

    pages->vmm.device_bytes = 141 * gib;
    tarn__pages_set_maximum(pages, UINT64_MAX);
    pages->opened_ns = tarn__clock_now_ns() - second / 10 * 9;
    CHECK_EQUAL(16 * MIB, tarn__handle_size(pages, 6 * gib));
    CHECK_EQUAL(32 * MIB, tarn__handle_size(pages, 16 * gib));
    pages->opened_ns = 0; /* when the machine started */
    CHECK_EQUAL(2 * MIB, tarn__handle_size(pages, 128 * MIB));
    CHECK_EQUAL(8 * MIB, tarn__handle_size(pages, 6 * gib));
    CHECK_EQUAL(16 * MIB, tarn__handle_size(pages, 13 * gib));
    CHECK_EQUAL(32 * MIB, tarn__handle_size(pages, 48 * gib));
    tarn__pages_set_block(pages, 300 * MIB);
    CHECK_EQUAL(16 * MIB, tarn__handle_size(pages, 6 * gib));
    tarn__pages_set_block(pages, 100 * MIB);
    CHECK_EQUAL(8 * MIB, tarn__handle_size(pages, 6 * gib));
    CHECK_OK(grow_at(pages, 0, 2 * gib / PAGE));
    CHECK_EQUAL(8 * MIB, tarn__handle_size_step(pages, 1, SIZE_MAX));
    pages->opened_ns = UINT64_MAX;
    CHECK_EQUAL(16 * MIB, tarn__handle_size_step(pages, 1, SIZE_MAX));
    tarn__pages_close(pages);
}

TEST(pages_step_is_at_least_the_growth_that_was_asked_for)
{
    struct tarn__pages *pages;

    CHECK_OK(tarn__pages_open(0, NULL, 5 * MIB, &pages));
    CHECK_EQUAL(6 * MIB, tarn__handle_size_step(pages, 1, SIZE_MAX));
    CHECK_EQUAL(8 * MIB, tarn__handle_size_step(pages, 7 * MIB, SIZE_MAX));
    CHECK_EQUAL(4 * MIB, tarn__handle_size_step(pages, 1, 5 * MIB));
    tarn__pages_close(pages);
    CHECK_OK(tarn__pages_open(0, NULL, SIZE_MAX, &pages));
    CHECK_EQUAL(4 * MIB, tarn__handle_size_step(pages, 1, 5 * MIB));
    tarn__pages_close(pages);
}

/* --- handles --- */

/* A pool whose handles have 32 MiB while memory is available. */
static struct tarn__pages *open_with_big_handles(void)
{
    struct tarn__pages *pages;

    CHECK_OK(tarn__pages_open(0, NULL, 32 * MIB, &pages));
    CHECK_OK(grow_at(pages, 0, 512 * MIB / PAGE));
    CHECK_OK(grow_at(pages, 1024, 38)); /* 32, 32, 8 and 4 MiB */
    return pages;
}

static void check_removable(const struct tarn__pages *pages, struct tarn__span idle,
                            size_t first, size_t count)
{
    struct tarn__span got = tarn__pages_removable(pages, idle);

    CHECK_EQUAL(count * PAGE, got.bytes);
    if (count > 0)
        CHECK_EQUAL(page_at(pages, first), got.address);
}

TEST(pages_can_remove_whole_handles_alone)
{
    struct tarn__pages *pages = open_with_big_handles();
    struct tarn__span odd = span_at(pages, 1024, 38);

    check_removable(pages, odd, 1024, 38);
    check_removable(pages, span_at(pages, 1025, 37), 1040, 22);
    check_removable(pages, span_at(pages, 1024, 37), 1024, 36);
    check_removable(pages, span_at(pages, 1025, 30), 0, 0);
    check_removable(pages, span_at(pages, 1025, 35), 1040, 20);
    check_removable(pages, span_at(pages, 1041, 10), 0, 0);
    odd.address += 512; /* a page that is not entirely idle */
    odd.bytes -= 1024;
    check_removable(pages, odd, 1040, 20);
    check_removable(pages, (struct tarn__span){page_at(pages, 1030) + 512, 1024}, 0, 0);
    tarn__pages_close(pages);
}

TEST(pages_refuse_to_remove_part_of_a_handle)
{
    struct tarn__pages *pages = open_with_big_handles();
    size_t before = tarn__pages_reserved(pages);

    CHECK_STATUS(TARN_INVALID_ARGUMENT,
                 tarn__pages_remove(pages, span_at(pages, 1024, 15)));
    CHECK_STATUS(TARN_INVALID_ARGUMENT,
                 tarn__pages_remove(pages, span_at(pages, 1025, 15)));
    CHECK_STATUS(TARN_INVALID_ARGUMENT,
                 tarn__pages_remove(pages, span_at(pages, 1024, 39)));
    CHECK_STATUS(TARN_INVALID_ARGUMENT,
                 tarn__pages_remove(pages, span_at(pages, 2000, 1)));
    CHECK_STATUS(TARN_INVALID_ARGUMENT,
                 tarn__pages_remove(pages, span_at(pages, 1024, 0)));
    CHECK_EQUAL(before, tarn__pages_reserved(pages));
    CHECK_OK(tarn__pages_remove(pages, span_at(pages, 1040, 16)));
    CHECK(is_usable(0, span_at(pages, 1024, 16)));
    CHECK(is_usable(0, span_at(pages, 1056, 6)));
    CHECK(!is_usable(0, span_at(pages, 1055, 1)));
    tarn__pages_close(pages);
}

/* --- the device-wide wait --- */

TEST(pages_barrier_waits_for_streams_of_every_kind)
{
    struct tarn__pages *pages = open_pages();
    tarn_stream stream;
    unsigned char seen;

    CHECK_OK(grow_at(pages, 0, 32));
    CHECK_OK(tarn_stream_create(0, true, &stream));
    for (int i = 0; i < 20; i++)
        CHECK_OK(
            tarn_memset_async(0, page_at(pages, 0), (unsigned char)i, 32 * PAGE, stream));
    CHECK_OK(tarn_stream_destroy(0, stream));
    CHECK_OK(tarn__pages_wait_for_device(pages));
    seen = byte_at(page_at(pages, 32) - 1);
    CHECK_EQUAL(19, seen);
    tarn__pages_close(pages);
}

TEST(pages_barrier_works_when_memory_is_out)
{
    enum { BLOCKS_MAX = 1000 };
    static tarn_device_ptr blocks[BLOCKS_MAX];
    static size_t sizes[BLOCKS_MAX];
    struct tarn__pages *pages = open_pages();
    size_t page = 0, count = 0;
    tarn_resource *cuda;

    while (grow_at(pages, page, 64) == TARN_OK)
        page += 64;
    while (grow_at(pages, page, 1) == TARN_OK)
        page++;
    CHECK_OK(tarn_cuda_create(0, &cuda));
    for (size_t bytes = MIB; bytes >= 256; bytes /= 2)
        while (count < BLOCKS_MAX &&
               tarn_resource_allocate(cuda, bytes, 0, NULL, &blocks[count]) == TARN_OK)
            sizes[count++] = bytes;
    for (int i = 0; i < 3; i++)
        CHECK_OK(tarn__pages_wait_for_device(pages));
    for (size_t i = 0; i < count; i++)
        CHECK_OK(tarn_resource_deallocate(cuda, blocks[i], sizes[i], 0, NULL));
    CHECK_OK(tarn_resource_release(cuda));
    CHECK_OK(tarn__pages_wait_for_device(pages));
    tarn__pages_close(pages);
}

static struct tarn__pages *captured;

static tarn_status use_all(void)
{
    struct tarn__span got, kept = span_at(captured, 16, 1);
    tarn_status status =
        tarn__pages_grow(captured, page_at(captured, 0), 4 * PAGE, NULL, &got);

    if (status == TARN_OK)
        status = tarn__pages_move(captured, &got, 1, 1, page_at(captured, 8));
    if (status == TARN_OK)
        status = tarn__pages_wait_for_device(captured);
    if (status == TARN_OK)
        status = tarn__pages_remove(captured, span_at(captured, 8, 4));
    if (status == TARN_OK && has_second_device())
        status = tarn__pages_set_peer(captured, 1, true);
    if (status == TARN_OK)
        status = tarn__pages_suspend(captured, &kept, 1);
    if (status == TARN_OK)
        status = tarn__pages_resume(captured);
    if (status == TARN_OK && has_second_device())
        status = tarn__pages_set_peer(captured, 1, false);
    return status;
}

static tarn_status open_and_close(void)
{
    struct tarn__pages *pages;
    tarn_status status = tarn__pages_open(0, NULL, 0, &pages);

    if (status == TARN_OK)
        tarn__pages_close(pages);
    return status;
}

TEST(pages_end_no_capture)
{
    captured = open_pages();
    CHECK_OK(grow_at(captured, 16, 4));
    capture_survives(use_all);
    capture_survives(open_and_close);
    tarn__pages_close(captured);
}

/* --- threads --- */

static atomic_bool is_over;

/* Query the caller's own idle span while other threads grow and shrink the pool. */
static void *ask(void *data)
{
    struct tarn__pages *pages = data;
    size_t wrong = 0;

    while (!atomic_load(&is_over)) {
        struct tarn__span got = tarn__pages_removable(pages, span_at(pages, 300, 4));
        wrong += got.bytes != 4 * PAGE;
        wrong += tarn__pages_reserved(pages) < 4 * PAGE;
        wrong += tarn__pages_suspended(pages) != 0 || tarn__pages_metadata(pages) == 0;
    }
    return (void *)wrong;
}

TEST(pages_answer_while_they_change)
{
    struct tarn__pages *pages = open_pages();
    pthread_t thread;
    void *wrong;

    CHECK_OK(grow_at(pages, 300, 4));
    atomic_store(&is_over, false);
    CHECK_EQUAL(0, pthread_create(&thread, NULL, ask, pages));
    for (size_t i = 0; i < 50; i++) {
        CHECK_OK(grow_at(pages, 296, 4));
        CHECK_OK(grow_at(pages, 304 + 8 * i, 8));
        CHECK_OK(tarn__pages_remove(pages, span_at(pages, 296, 4)));
    }
    atomic_store(&is_over, true);
    pthread_join(thread, &wrong);
    CHECK(wrong == NULL);
    tarn__pages_close(pages);
}
