/* Run pointers with each driver call failing in turn: nothing leaks, outputs are
 * unchanged, and the next call succeeds. */
#include "test.h"

/* A failure has a status of Tarn and a message, and the output is unchanged. */
static void check_failure(tarn_status status, const tarn_pointer *out)
{
    CHECK_STATUS(status, tarn_error_last()->status);
    CHECK(tarn_error_last()->message[0] != 0);
    CHECK(out == NULL);
}

/* Each call fails once: freeing the rest succeeds, at the second try at most. */
static void leave_nothing(void)
{
    if (tarn_pointer_reclaim_deferred() != TARN_OK)
        CHECK_OK(tarn_pointer_reclaim_deferred());
    CHECK_EQUAL(0, tarn_pointer_deferred_count());
}

static void allocate_and_release(tarn_resource *resource, tarn_stream stream)
{
    tarn_pointer *pointer = NULL, *next = NULL;
    tarn_status status = tarn_pointer_allocate(resource, 1000, stream, &pointer);

    if (status != TARN_OK) {
        check_failure(status, pointer);
        CHECK_OK(tarn_pointer_allocate(resource, 1000, stream, &pointer));
    }
    status = tarn_pointer_allocate(resource, 1000, stream, &next);
    if (status != TARN_OK)
        check_failure(status, next);
    tarn_pointer_release(next);
    tarn_pointer_release(pointer);
}

static tarn_status make_cuda(tarn_resource **out)
{
    return tarn_cuda_create(0, out);
}

static tarn_status make_async(tarn_resource **out)
{
    return tarn_async_create(0, NULL, out);
}

/* Create and end a resource and its pointers; a failed creation is retried. */
static void live(tarn_status (*make)(tarn_resource **out), tarn_stream stream)
{
    tarn_resource *resource = NULL;
    tarn_status status = make(&resource);

    if (status != TARN_OK) {
        CHECK(resource == NULL);
        CHECK_OK(make(&resource));
    }
    allocate_and_release(resource, stream);
    leave_nothing();
    CHECK_OK(tarn_resource_release(resource));
}

static void pointer_of_cuda(void)
{
    live(make_cuda, TARN_STREAM_NONE);
}

static void pointer_of_async_without_a_stream(void)
{
    live(make_async, TARN_STREAM_NONE);
}

static void pointer_of_async_on_a_stream(void)
{
    live(make_async, TARN_STREAM_LEGACY);
}

/* The resource is released first, so that a deferred free is its last reference. */
static void pointer_that_outlives_its_owner(void)
{
    tarn_resource *resource = NULL;
    tarn_pointer *pointer = NULL;

    if (make_async(&resource) != TARN_OK)
        CHECK_OK(make_async(&resource));
    if (tarn_pointer_allocate(resource, 500, TARN_STREAM_NONE, &pointer) != TARN_OK)
        CHECK_OK(tarn_pointer_allocate(resource, 500, TARN_STREAM_NONE, &pointer));
    CHECK_OK(tarn_resource_release(resource));
    tarn_pointer_release(pointer);
    leave_nothing();
}

/* The driver is open and the contexts exist before calls begin to fail. */
static void warm_up(void)
{
    CHECK_OK(tarn_driver_synchronize(0));
}

TEST(pointers_of_cuda_survive_any_failing_call)
{
    warm_up();
    torture(pointer_of_cuda);
}

TEST(pointers_without_a_stream_survive_any_failing_call)
{
    warm_up();
    torture(pointer_of_async_without_a_stream);
}

TEST(pointers_on_a_stream_survive_any_failing_call)
{
    warm_up();
    torture(pointer_of_async_on_a_stream);
}

TEST(pointers_that_outlive_their_owner_survive_any_failing_call)
{
    warm_up();
    torture(pointer_that_outlives_its_owner);
}
