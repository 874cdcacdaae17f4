/* Test a pool whose memory consists of blocks of another resource. */
#include "memory.h"
#include "pool/backing/handle_size.h"
#include "scripted.h"
#include <sys/wait.h>
#include <unistd.h>

static struct tarn__pages *open_on(tarn_resource *upstream, int device)
{
    struct tarn__pages *pages;

    CHECK_OK(tarn__pages_open(device, upstream, 0, &pages));
    CHECK(!tarn__pages_is_vmm(pages));
    CHECK_EQUAL(0, tarn__pages_range(pages).bytes);
    return pages;
}

TEST(pages_of_an_upstream_are_its_blocks)
{
    tarn_resource *cuda;
    struct tarn__span one, two, three;

    CHECK_OK(tarn_cuda_create(0, &cuda));
    struct tarn__pages *pages = open_on(cuda, 0);
    CHECK(!tarn__pages_is_ordered(pages));
    CHECK_OK(tarn__pages_grow(pages, 77, 3 * PAGE, NULL, &one));
    CHECK_OK(tarn__pages_grow(pages, 77, PAGE, NULL, &two));
    CHECK_OK(tarn__pages_grow(pages, 77, 9 * PAGE, NULL, &three));
    CHECK_EQUAL(3, tarn_resource_live_blocks(cuda));
    CHECK_EQUAL(13 * PAGE, tarn__pages_reserved(pages));
    CHECK_EQUAL(3 * PAGE, one.bytes);
    CHECK_EQUAL(0, (one.address | two.address | three.address) % PAGE);
    CHECK_OK(tarn__pages_remove(pages, one));
    CHECK_EQUAL(2, tarn_resource_live_blocks(cuda));
    CHECK_EQUAL(10 * PAGE, tarn__pages_reserved(pages));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn__pages_remove(pages, one));
    tarn__pages_close(pages);
    CHECK_EQUAL(0, tarn_resource_live_blocks(cuda));
    CHECK_OK(tarn_resource_release(cuda));
}

TEST(steps_of_segments_are_as_large_however_old_the_pool_is)
{
    tarn_resource *cuda;
    struct tarn__span segment;

    CHECK_OK(tarn_cuda_create(0, &cuda));
    struct tarn__pages *pages = open_on(cuda, 0);
    CHECK_OK(tarn__pages_grow(pages, 0, 4096 * MIB, NULL, &segment));
    pages->opened_ns = 0;
    CHECK_EQUAL(32 * MIB, tarn__handle_size_step(pages, 1, SIZE_MAX));
    tarn__pages_close(pages);
    CHECK_OK(tarn_resource_release(cuda));
}

static void grow_behind_a_small_block(void)
{
    tarn_resource *async, *pool;
    tarn_device_ptr small, block;
    tarn_stream stream;

    CHECK_OK(tarn_async_create(0, NULL, &async));
    CHECK_OK(tarn_stream_create(0, true, &stream));
    CHECK_OK(tarn_resource_allocate(async, 1, 0, NULL, &small));
    CHECK_OK(tarn_pool_create(0, async, NULL, &pool));
    CHECK_OK(tarn_resource_allocate(pool, 1, 0, stream, &block));
    /* The segment that was not aligned is back. */
    CHECK_EQUAL(2, tarn_resource_live_blocks(async));
    CHECK_OK(tarn_resource_deallocate(pool, block, 1, 0, stream));
    CHECK_OK(tarn_resource_deallocate(async, small, 1, 0, NULL));
    CHECK_OK(tarn_resource_release(pool));
    CHECK_OK(tarn_stream_destroy(0, stream));
    CHECK_OK(tarn_resource_release(async));
}

TEST(segment_that_is_not_aligned_goes_back_on_the_stream_of_its_allocation)
{
    if (!on_sim())
        skip(); /* it finds the race */
    seeds(20, grow_behind_a_small_block);
}

TEST(pages_of_an_upstream_go_whole_or_not)
{
    tarn_resource *cuda;
    struct tarn__span segment;

    CHECK_OK(tarn_cuda_create(0, &cuda));
    struct tarn__pages *pages = open_on(cuda, 0);
    CHECK_OK(tarn__pages_grow(pages, 0, 4 * PAGE, NULL, &segment));
    CHECK_EQUAL(4 * PAGE, tarn__pages_removable(pages, segment).bytes);
    struct tarn__span part = {segment.address, 3 * PAGE};
    CHECK_EQUAL(0, tarn__pages_removable(pages, part).bytes);
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn__pages_remove(pages, part));
    part.address += PAGE;
    CHECK_EQUAL(0, tarn__pages_removable(pages, part).bytes);
    CHECK_STATUS(TARN_NOT_SUPPORTED, tarn__pages_move(pages, &segment, 1, 1, 0));
    CHECK_STATUS(TARN_NOT_SUPPORTED, tarn__pages_suspend(pages, NULL, 0));
    CHECK_STATUS(TARN_NOT_SUPPORTED, tarn__pages_resume(pages));
    CHECK_STATUS(TARN_NOT_SUPPORTED, tarn__pages_set_peer(pages, 1, true));
    CHECK_OK(tarn__pages_wait_for_device(pages));
    tarn__pages_close(pages);
    CHECK_OK(tarn_resource_release(cuda));
}

TEST(pages_of_an_upstream_with_streams_are_ordered)
{
    tarn_resource *async;
    struct tarn__span segment;
    tarn_stream stream;

    CHECK_OK(tarn_async_create(0, NULL, &async));
    CHECK_OK(tarn_stream_create(0, true, &stream));
    struct tarn__pages *pages = open_on(async, 0);
    CHECK(tarn__pages_is_ordered(pages));
    CHECK_OK(tarn__pages_grow(pages, 0, 4 * PAGE, stream, &segment));
    CHECK_EQUAL(0, segment.address % PAGE);
    CHECK_OK(tarn__pages_remove(pages, segment));
    tarn__pages_close(pages);
    CHECK_OK(tarn_stream_destroy(0, stream));
    CHECK_OK(tarn_resource_release(async));
}

/* Host memory has any alignment unless one is specified. */
TEST(pages_of_an_upstream_that_does_not_align_are_asked_for_aligned)
{
    struct scripted script;
    struct tarn__span segments[40];

    scripted_begin(&script, 0);
    struct tarn__pages *pages = open_on(script.resource, 0);
    for (int i = 0; i < 40; i++) {
        CHECK_OK(tarn__pages_grow(pages, 0, PAGE, (tarn_stream)2, &segments[i]));
        CHECK_EQUAL(0, segments[i].address % PAGE);
        CHECK(script.stream == (tarn_stream)2);
    }
    CHECK_EQUAL(40, script.allocations - script.frees);
    script.free_fails = TARN_DRIVER_FAILURE;
    CHECK_STATUS(TARN_DRIVER_FAILURE, tarn__pages_remove(pages, segments[3]));
    CHECK_EQUAL(40 * PAGE, tarn__pages_reserved(pages));
    CHECK_EQUAL(PAGE, tarn__pages_removable(pages, segments[3]).bytes);
    script.free_fails = TARN_OK;
    for (int i = 39; i >= 0; i -= 2)
        CHECK_OK(tarn__pages_remove(pages, segments[i]));
    CHECK_EQUAL(20 * PAGE, tarn__pages_reserved(pages));
    script.allocate_fails = TARN_OUT_OF_MEMORY;
    CHECK_STATUS(TARN_OUT_OF_MEMORY,
                 tarn__pages_grow(pages, 0, PAGE, NULL, &segments[39]));
    CHECK_MESSAGE("scripted");
    tarn__pages_close(pages);
    CHECK_EQUAL(script.allocations - 2, script.frees - 1); /* the failed ones */
    scripted_end(&script);
}

/* Open on memory of the host, with one segment. */
static struct tarn__pages *open_on_host(tarn_resource **host, struct tarn__span *segment)
{
    CHECK_OK(tarn_host_create(host));
    struct tarn__pages *pages = open_on(*host, TARN_DEVICE_NONE);
    CHECK_OK(tarn__pages_grow(pages, 0, PAGE, NULL, segment));
    return pages;
}

static void close_on_host(struct tarn__pages *pages, tarn_resource *host)
{
    tarn__pages_close(pages);
    CHECK_EQUAL(0, tarn_resource_live_blocks(host));
    CHECK_OK(tarn_resource_release(host));
}

TEST(pages_of_an_upstream_may_be_no_devices)
{
    tarn_resource *host;
    struct tarn__span segment;

    struct tarn__pages *pages = open_on_host(&host, &segment);
    memset((void *)(uintptr_t)segment.address, 1, segment.bytes);
    CHECK_OK(tarn__pages_wait_for_device(pages));
    CHECK_EQUAL(PAGE, tarn__handle_size_step(pages, 1, SIZE_MAX));
    close_on_host(pages, host);
}

/* A forked child has no driver; memory of the host needs none. */
TEST(pages_of_an_upstream_of_no_device_are_returned_in_a_forked_child)
{
    tarn_resource *host;
    struct tarn__span segment;

    struct tarn__pages *pages = open_on_host(&host, &segment);
    pid_t child = fork();
    if (child == 0) {
        tarn__pages_close(pages);
        _exit(tarn_resource_live_blocks(host) == 0 ? 0 : 1);
    }
    int status = 1;
    waitpid(child, &status, 0);
    CHECK_EQUAL(0, status);
    close_on_host(pages, host);
}

TEST(pages_of_an_upstream_of_another_device_are_refused)
{
    struct tarn__pages *pages = (struct tarn__pages *)77;
    tarn_resource *cuda, *host;

    if (has_second_device()) {
        CHECK_OK(tarn_cuda_create(1, &cuda));
        CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn__pages_open(0, cuda, 0, &pages));
        CHECK_MESSAGE("upstream cuda is of device 1");
        CHECK_OK(tarn_resource_release(cuda));
    }
    CHECK_OK(tarn_host_create(&host));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn__pages_open(0, host, 0, &pages));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn__pages_open(99, NULL, 0, &pages));
    CHECK_STATUS(TARN_INVALID_ARGUMENT,
                 tarn__pages_open(TARN_DEVICE_NONE, NULL, 0, &pages));
    CHECK(pages == (struct tarn__pages *)77);
    CHECK_OK(tarn_resource_release(host));
}

static void grow_and_remove_with_one_failure(void)
{
    struct tarn__pages *pages;
    struct tarn__span one, two;
    tarn_resource *cuda;

    if (tarn_cuda_create(0, &cuda) != TARN_OK)
        CHECK_OK(tarn_cuda_create(0, &cuda));
    if (tarn__pages_open(0, cuda, 0, &pages) != TARN_OK)
        CHECK_OK(tarn__pages_open(0, cuda, 0, &pages));
    if (tarn__pages_grow(pages, 0, PAGE, NULL, &one) != TARN_OK)
        CHECK_OK(tarn__pages_grow(pages, 0, PAGE, NULL, &one));
    if (tarn__pages_grow(pages, 0, 2 * PAGE, NULL, &two) != TARN_OK)
        CHECK_OK(tarn__pages_grow(pages, 0, 2 * PAGE, NULL, &two));
    if (tarn__pages_remove(pages, one) != TARN_OK) {
        CHECK_EQUAL(3 * PAGE, tarn__pages_reserved(pages));
        CHECK_OK(tarn__pages_remove(pages, one));
    }
    tarn__pages_close(pages);
    CHECK_EQUAL(0, tarn_resource_live_blocks(cuda));
    CHECK_OK(tarn_resource_release(cuda));
}

TEST(pages_of_an_upstream_survive_any_driver_call_failing)
{
    if (!on_sim())
        skip(); /* its calls do not fail on request */
    torture(grow_and_remove_with_one_failure);
}
