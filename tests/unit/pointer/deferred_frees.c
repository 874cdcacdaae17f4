/* Test deferred frees: memory whose free failed is kept, counted and freed later. */
#include "fake.h"
#include <pthread.h>
#include <stdatomic.h>

static tarn_pointer *allocate(tarn_resource *resource)
{
    tarn_pointer *pointer;

    CHECK_OK(tarn_pointer_allocate(resource, 100, TARN_STREAM_LEGACY, &pointer));
    return pointer;
}

TEST(failed_free_is_kept_and_retried_at_the_next_release)
{
    struct fake fake = {.failing_frees = 1};
    tarn_resource *resource = make_fake(&fake, 0);
    tarn_pointer *one = allocate(resource), *other = allocate(resource);

    tarn_pointer_release(one);
    CHECK_EQUAL(0, fake.frees);
    CHECK_EQUAL(1, tarn_pointer_deferred_count());
    CHECK_MESSAGE("fake: keep your 100 bytes");
    tarn_pointer_release(other);
    CHECK_EQUAL(2, fake.frees);
    CHECK_EQUAL(0x20000, fake.freed[0]);
    CHECK_EQUAL(0x10000, fake.freed[1]);
    CHECK_EQUAL(0, tarn_pointer_deferred_count());
    CHECK_OK(tarn_resource_release(resource));
}

TEST(failed_free_is_retried_at_the_next_allocation)
{
    struct fake fake = {.failing_frees = 1};
    tarn_resource *resource = make_fake(&fake, 0);
    tarn_pointer *pointer = allocate(resource);

    tarn_pointer_release(pointer);
    pointer = allocate(resource);
    CHECK_EQUAL(1, fake.frees);
    CHECK_EQUAL(0, tarn_pointer_deferred_count());
    tarn_pointer_release(pointer);
    CHECK_OK(tarn_resource_release(resource));
}

TEST(deferred_free_keeps_its_resource)
{
    struct fake fake = {.failing_frees = 1};
    tarn_resource *resource = make_fake(&fake, 0);

    tarn_pointer *pointer = allocate(resource);
    CHECK_OK(tarn_resource_release(resource));
    tarn_pointer_release(pointer);
    CHECK_EQUAL(0, fake.destroyed);
    CHECK_OK(tarn_pointer_reclaim_deferred());
    CHECK_EQUAL(1, fake.frees);
    CHECK_EQUAL(1, fake.destroyed);
}

TEST(block_is_freed_once_if_its_resource_is_released_later)
{
    struct fake fake = {0};
    tarn_resource *resource = make_fake(&fake, 0);
    tarn_pointer *pointer = allocate(resource);
    tarn_device_ptr block;

    CHECK_OK(tarn_resource_allocate(resource, 100, 0, TARN_STREAM_LEGACY, &block));
    CHECK_OK(tarn_resource_release(resource)); /* the pointer has the last reference */
    tarn_pointer_release(pointer);
    CHECK_EQUAL(1, tarn_pointer_deferred_count());
    CHECK_STATUS(TARN_STILL_IN_USE, tarn_pointer_reclaim_deferred());
    CHECK_MESSAGE("the last reference was released while 1 blocks are live");
    CHECK_EQUAL(1, fake.frees);
    CHECK_OK(tarn_resource_deallocate(resource, block, 100, 0, TARN_STREAM_LEGACY));
    CHECK_OK(tarn_pointer_reclaim_deferred());
    CHECK_EQUAL(2, fake.frees);
    CHECK_EQUAL(1, fake.destroyed);
}

TEST(each_call_retries_one_failed_free_and_keeps_the_rest)
{
    struct fake fake = {.failing_frees = 3};
    tarn_resource *resource = make_fake(&fake, 0);
    tarn_pointer *pointers[3];

    for (int i = 0; i < 3; i++)
        pointers[i] = allocate(resource);
    for (int i = 0; i < 3; i++)
        tarn_pointer_release(pointers[i]);
    CHECK_EQUAL(3, tarn_pointer_deferred_count());
    CHECK_EQUAL(3, fake.failed_frees);

    fake.failing_frees = 1;
    tarn_pointer *last = allocate(resource);
    CHECK_EQUAL(4, fake.failed_frees);
    CHECK_EQUAL(3, tarn_pointer_deferred_count());
    tarn_pointer_release(last);
    CHECK_EQUAL(0, tarn_pointer_deferred_count());
    CHECK_EQUAL(4, fake.frees);
    CHECK_OK(tarn_resource_release(resource));
}

TEST(reclaim_retries_all_and_returns_the_first_failure)
{
    struct fake fake = {.failing_frees = 3};
    tarn_resource *resource = make_fake(&fake, 0);
    tarn_pointer *pointers[3];

    for (int i = 0; i < 3; i++)
        pointers[i] = allocate(resource);
    for (int i = 0; i < 3; i++)
        tarn_pointer_release(pointers[i]);
    fake.failing_frees = 1;
    CHECK_STATUS(TARN_DRIVER_FAILURE, tarn_pointer_reclaim_deferred());
    CHECK_MESSAGE("fake: keep your 100 bytes");
    CHECK_EQUAL(2, fake.frees);
    CHECK_EQUAL(1, tarn_pointer_deferred_count());
    CHECK_OK(tarn_pointer_reclaim_deferred());
    CHECK_EQUAL(0, tarn_pointer_deferred_count());
    CHECK_OK(tarn_pointer_reclaim_deferred());
    CHECK_OK(tarn_resource_release(resource));
}

TEST(allocation_that_finds_no_memory_reclaims_and_tries_again)
{
    struct fake fake = {.failing_frees = 2};
    tarn_resource *resource = make_fake(&fake, 0);
    tarn_pointer *pointer = allocate(resource);

    tarn_pointer_release(pointer); /* failed, and failed again before the allocation */
    fake.failing_allocations = 1;
    CHECK_OK(tarn_pointer_allocate(resource, 50, TARN_STREAM_LEGACY, &pointer));
    CHECK_EQUAL(2, fake.failed_frees);
    CHECK_EQUAL(1, fake.frees);
    tarn_pointer_release(pointer);
    CHECK_OK(tarn_resource_release(resource));
}

TEST(allocation_that_succeeds_after_a_reclaim_keeps_the_last_error_message)
{
    struct fake fake = {.failing_frees = 3};
    tarn_resource *resource = make_fake(&fake, 0);
    tarn_pointer *pointer = allocate(resource);

    tarn_pointer_release(pointer);
    tarn_error_set_native(TARN_BAD_FORMAT, 17, "an older failure");
    fake.failing_allocations = 1;
    CHECK_OK(tarn_pointer_allocate(resource, 50, TARN_STREAM_LEGACY, &pointer));
    CHECK_EQUAL(3, fake.failed_frees); /* the last one in the reclaim */
    CHECK_MESSAGE("an older failure");
    CHECK_EQUAL(17, tarn_error_last()->native);
    tarn_pointer_release(pointer);
    CHECK_OK(tarn_pointer_reclaim_deferred());
    CHECK_OK(tarn_resource_release(resource));
}

TEST(allocation_that_fails_after_a_reclaim_reports_its_own_failure)
{
    struct fake fake = {.failing_frees = 3};
    tarn_resource *resource = make_fake(&fake, 0);
    tarn_pointer *pointer = allocate(resource);

    tarn_pointer_release(pointer);
    fake.failing_allocations = 2;
    CHECK_STATUS(TARN_OUT_OF_MEMORY,
                 tarn_pointer_allocate(resource, 50, TARN_STREAM_LEGACY, &pointer));
    CHECK_EQUAL(3, fake.failed_frees);
    CHECK_MESSAGE("fake: no 50 bytes");
    CHECK_OK(tarn_pointer_reclaim_deferred());
    CHECK_OK(tarn_resource_release(resource));
}

TEST(retry_that_fails_keeps_the_last_error_message)
{
    struct fake fake = {.failing_frees = 2};
    tarn_resource *resource = make_fake(&fake, 0);
    tarn_pointer *pointer = allocate(resource);

    tarn_pointer_release(pointer);
    tarn_error_set_native(TARN_BAD_FORMAT, 17, "an older failure");
    pointer = allocate(resource);
    CHECK_EQUAL(2, fake.failed_frees);
    CHECK_MESSAGE("an older failure");
    CHECK_EQUAL(17, tarn_error_last()->native);
    tarn_pointer_release(pointer);
    CHECK_EQUAL(0, tarn_pointer_deferred_count());
    CHECK_OK(tarn_resource_release(resource));
}

static tarn_deferred_frees deferred(void)
{
    tarn_deferred_frees frees = {.size = sizeof frees};

    CHECK_OK(tarn_pointer_deferred_frees(&frees));
    return frees;
}

TEST(failed_free_is_reported_once)
{
    struct fake fake = {.failing_frees = 2};
    tarn_resource *resource = make_fake(&fake, 0);
    tarn_pointer *one = allocate(resource), *other = allocate(resource);

    CHECK_STATUS(TARN_DRIVER_FAILURE, tarn_pointer_release_checked(one));
    CHECK_MESSAGE("fake: keep your 100 bytes");
    tarn_pointer_release(allocate(resource)); /* fails again, and then succeeds */
    CHECK_EQUAL(2, fake.failed_frees);
    CHECK_OK(tarn_pointer_release_checked(other));
    CHECK_EQUAL(3, fake.frees);
    CHECK_OK(tarn_resource_release(resource));
}

TEST(retry_that_fails_again_is_not_reported)
{
    struct fake fake = {.failing_frees = 1}, good = {0};
    tarn_resource *resource = make_fake(&fake, 0), *other = make_fake(&good, 0);
    tarn_pointer *pointer = allocate(other);

    CHECK_STATUS(TARN_DRIVER_FAILURE, tarn_pointer_release_checked(allocate(resource)));
    fake.failing_frees = 1;
    CHECK_OK(tarn_pointer_release_checked(pointer));
    CHECK_EQUAL(2, fake.failed_frees);
    CHECK_OK(tarn_pointer_reclaim_deferred());
    CHECK_OK(tarn_resource_release(resource));
    CHECK_OK(tarn_resource_release(other));
}

static void release_another(void *data, tarn_device_ptr address, size_t bytes)
{
    (void)address;
    (void)bytes;
    tarn_pointer_release(data);
}

static void release_owner(void *owner)
{
    tarn_pointer_release(owner);
}

TEST(failed_free_of_a_finalizer_or_an_owner_is_reported)
{
    struct fake fake = {0};
    tarn_resource *resource = make_fake(&fake, 0);
    tarn_pointer_options options = {.size = sizeof options, .address = 8, .bytes = 8};
    tarn_pointer *pointer;

    options.finalizer = release_another;
    options.finalizer_data = allocate(resource);
    CHECK_OK(tarn_pointer_create(&options, &pointer));
    fake.failing_frees = 1;
    CHECK_STATUS(TARN_DRIVER_FAILURE, tarn_pointer_release_checked(pointer));
    CHECK_OK(tarn_pointer_reclaim_deferred());

    options.finalizer = NULL;
    options.owner = allocate(resource);
    options.owner_release = release_owner;
    CHECK_OK(tarn_pointer_create(&options, &pointer));
    fake.failing_frees = 1;
    CHECK_STATUS(TARN_DRIVER_FAILURE, tarn_pointer_release_checked(pointer));
    CHECK_OK(tarn_pointer_reclaim_deferred());
    CHECK_OK(tarn_resource_release(resource));
}

TEST(release_that_succeeds_reports_no_failure)
{
    struct fake fake = {0};
    tarn_resource *resource = make_fake(&fake, 0);
    tarn_pointer *pointer = allocate(resource), *view;

    CHECK_OK(tarn_pointer_release_checked(NULL));
    CHECK_OK(tarn_pointer_view(pointer, 0, 10, &view));
    fake.failing_frees = 1;
    CHECK_OK(tarn_pointer_release_checked(pointer)); /* the view still has it */
    CHECK_STATUS(TARN_DRIVER_FAILURE, tarn_pointer_release_checked(view));
    CHECK_OK(tarn_pointer_reclaim_deferred());
    CHECK_OK(tarn_resource_release(resource));
}

TEST(failed_frees_are_counted_until_they_are_done)
{
    struct fake fake = {.failing_frees = 3};
    tarn_resource *resource = make_fake(&fake, 0);
    tarn_pointer *one = allocate(resource), *other = allocate(resource);

    CHECK_EQUAL(0, deferred().failed_count);
    tarn_pointer_release(one);
    CHECK_EQUAL(1, deferred().failed_count);
    CHECK_EQUAL(100, deferred().failed_bytes);
    tarn_pointer_release(other);
    CHECK_EQUAL(2, deferred().failed_count);
    CHECK_EQUAL(200, deferred().failed_bytes);
    CHECK_STATUS(TARN_DRIVER_FAILURE, tarn_pointer_reclaim_deferred());
    CHECK_EQUAL(1, deferred().failed_count);
    CHECK_EQUAL(100, deferred().failed_bytes);
    CHECK_OK(tarn_pointer_reclaim_deferred());
    CHECK_EQUAL(0, deferred().failed_count);
    CHECK_EQUAL(0, deferred().failed_bytes);
    CHECK_EQUAL(0, deferred().waiting_count);
    CHECK_OK(tarn_resource_release(resource));
}

TEST(failed_free_is_counted_until_its_block_is_returned_even_if_its_resource_is_not)
{
    struct fake fake = {.failing_frees = 1};
    tarn_resource *resource = make_fake(&fake, 0);
    tarn_pointer *pointer = allocate(resource);
    tarn_device_ptr block;

    CHECK_OK(tarn_resource_allocate(resource, 100, 0, TARN_STREAM_LEGACY, &block));
    CHECK_OK(tarn_resource_release(resource)); /* the pointer has the last reference */
    tarn_pointer_release(pointer);
    CHECK_EQUAL(1, deferred().failed_count);
    CHECK_STATUS(TARN_STILL_IN_USE, tarn_pointer_reclaim_deferred());
    CHECK_EQUAL(1, tarn_pointer_deferred_count()); /* for the reference alone */
    CHECK_EQUAL(0, deferred().failed_count);
    CHECK_EQUAL(0, deferred().failed_bytes);
    CHECK_OK(tarn_resource_deallocate(resource, block, 100, 0, TARN_STREAM_LEGACY));
    CHECK_OK(tarn_pointer_reclaim_deferred());
    CHECK_EQUAL(0, deferred().failed_count);
    CHECK_EQUAL(0, deferred().failed_bytes);
    CHECK_EQUAL(1, fake.destroyed);
}

TEST(failed_free_of_host_memory_is_counted_until_it_is_done)
{
    tarn_manager *manager;
    tarn_pointer *pointer;

    if (!on_sim())
        skip();
    CHECK_OK(tarn_manager_create(tarn_resource_manager_ops(), NULL, 0, &manager));
    CHECK_OK(tarn_manager_memhostalloc(manager, 64, TARN_HOST_MAPPED, &pointer));
    sim_configure("fail=call:cuMemFreeHost");
    CHECK_STATUS(TARN_DRIVER_FAILURE, tarn_pointer_release_checked(pointer));
    sim_configure(NULL);
    CHECK_EQUAL(1, deferred().failed_count);
    CHECK_EQUAL(64, deferred().failed_bytes);
    CHECK_OK(tarn_pointer_reclaim_deferred());
    CHECK_EQUAL(0, deferred().failed_count);
    CHECK_EQUAL(0, deferred().failed_bytes);
    tarn_manager_release(manager);
}

TEST(deferred_frees_need_a_place_of_the_right_size)
{
    tarn_deferred_frees frees = {.size = 8, .failed_count = 77};

    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_pointer_deferred_frees(NULL));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_pointer_deferred_frees(&frees));
    CHECK_MESSAGE("out.size is 8, it has to be 40");
    CHECK_EQUAL(77, frees.failed_count);
}

enum { THREADS = 4, ROUNDS = 400 };

static void *allocate_and_release(void *resource)
{
    for (int i = 0; i < ROUNDS; i++)
        tarn_pointer_release(allocate(resource));
    return NULL;
}

static atomic_int every_third;

/* Like the fake, but usable from several threads: every third free fails. */
static tarn_status shared_allocate(void *self, size_t bytes, size_t alignment,
                                   tarn_stream stream, tarn_device_ptr *out)
{
    (void)bytes;
    (void)alignment;
    (void)stream;
    *out = 0x1000u * (1u + (tarn_device_ptr)atomic_fetch_add((atomic_int *)self, 1));
    return TARN_OK;
}

static tarn_status shared_deallocate(void *self, tarn_device_ptr block, size_t bytes,
                                     size_t alignment, tarn_stream stream)
{
    (void)self;
    (void)block;
    (void)bytes;
    (void)alignment;
    (void)stream;
    if (atomic_fetch_add(&every_third, 1) % 3 == 0)
        return tarn_error_set(TARN_DRIVER_FAILURE, "shared: not now");
    return TARN_OK;
}

static void shared_destroy(void *self)
{
    (void)self;
}

TEST(blocks_of_many_threads_are_all_freed_in_the_end)
{
    static const tarn_resource_ops ops = {.size = sizeof ops,
                                          .name = "shared",
                                          .allocate = shared_allocate,
                                          .deallocate = shared_deallocate,
                                          .destroy = shared_destroy};
    atomic_int next = 0;
    tarn_resource *resource;
    pthread_t threads[THREADS];

    CHECK_OK(tarn_resource_create(&ops, &next, 0, &resource));
    for (int i = 0; i < THREADS; i++)
        CHECK_EQUAL(0, pthread_create(&threads[i], NULL, allocate_and_release, resource));
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    CHECK_EQUAL(tarn_pointer_deferred_count(), deferred().failed_count);
    CHECK_EQUAL(100 * tarn_pointer_deferred_count(), deferred().failed_bytes);
    while (tarn_pointer_deferred_count() > 0)
        tarn_pointer_reclaim_deferred();
    CHECK_EQUAL(0, deferred().failed_bytes);
    CHECK_EQUAL(THREADS * ROUNDS, next);
    CHECK_OK(tarn_resource_release(resource));
}
