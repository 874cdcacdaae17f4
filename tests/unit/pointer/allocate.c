/* Test pointers over blocks of a resource: their owners, streams and waits. */
#include "driver_calls.h"
#include "fake.h"

TEST(pointer_from_a_resource_returns_its_block)
{
    struct fake fake = {.deallocate_synchronizes = true};
    tarn_resource *resource = make_fake(&fake, 0);
    tarn_pointer *pointer;

    CHECK_OK(tarn_pointer_allocate(resource, 100, TARN_STREAM_LEGACY, &pointer));
    CHECK_EQUAL(0x10000, tarn_pointer_address(pointer));
    CHECK_EQUAL(100, tarn_pointer_bytes(pointer));
    CHECK(fake.stream == TARN_STREAM_LEGACY);
    fake.stream = NULL;
    tarn_pointer_release(pointer);
    CHECK_EQUAL(1, fake.frees);
    CHECK(fake.stream == TARN_STREAM_LEGACY);
    CHECK_OK(tarn_resource_release(resource));
    CHECK_EQUAL(1, fake.destroyed);
}

TEST(pointer_keeps_its_resource)
{
    struct fake fake = {.deallocate_synchronizes = true};
    tarn_resource *resource = make_fake(&fake, 0);
    tarn_pointer *pointer, *view;

    CHECK_OK(tarn_pointer_allocate(resource, 100, TARN_STREAM_NONE, &pointer));
    CHECK_OK(tarn_resource_release(resource));
    CHECK_OK(tarn_pointer_view(pointer, 0, 1, &view));
    tarn_pointer_release(pointer);
    CHECK_EQUAL(0, fake.destroyed);
    tarn_pointer_release(view);
    CHECK_EQUAL(1, fake.frees);
    CHECK_EQUAL(1, fake.destroyed);
}

TEST(pointer_of_zero_bytes_calls_no_resource)
{
    struct fake fake = {0};
    tarn_resource *resource = make_fake(&fake, 0);
    tarn_pointer *pointer;

    CHECK_OK(tarn_pointer_allocate(resource, 0, TARN_STREAM_NONE, &pointer));
    CHECK_EQUAL(0, tarn_pointer_address(pointer));
    tarn_pointer_release(pointer);
    CHECK_EQUAL(0, fake.allocations + fake.frees);
    CHECK_OK(tarn_resource_release(resource));
}

TEST(pointer_is_not_made_where_the_resource_is_full)
{
    struct fake fake = {.failing_allocations = 1};
    tarn_resource *resource = make_fake(&fake, 0);
    tarn_pointer *pointer = NULL;

    CHECK_STATUS(TARN_OUT_OF_MEMORY,
                 tarn_pointer_allocate(resource, 100, TARN_STREAM_NONE, &pointer));
    CHECK_MESSAGE("fake: no 100 bytes");
    CHECK(pointer == NULL);
    CHECK_STATUS(TARN_INVALID_ARGUMENT,
                 tarn_pointer_allocate(NULL, 100, TARN_STREAM_NONE, &pointer));
    CHECK_OK(tarn_resource_release(resource));
    CHECK_EQUAL(1, fake.destroyed);
}

TEST(pointer_that_is_not_made_reports_why_even_if_its_block_is_not_freed)
{
    struct fake fake = {.supports_streams = true, .failing_frees = 1};
    tarn_resource *resource = make_fake(&fake, 0);
    tarn_pointer *pointer = NULL;

    if (on_sim()) {
        sim_configure("fail=call:cuStreamSynchronize");
        CHECK_STATUS(TARN_DRIVER_FAILURE,
                     tarn_pointer_allocate(resource, 100, TARN_STREAM_NONE, &pointer));
        sim_configure(NULL);
        CHECK_MESSAGE("cuStreamSynchronize");
        CHECK(pointer == NULL);
        CHECK_EQUAL(1, fake.failed_frees);
        CHECK_OK(tarn_pointer_reclaim_deferred());
        CHECK_EQUAL(1, fake.frees);
    }
    CHECK_OK(tarn_resource_release(resource));
}

TEST(pointer_frees_on_the_stream_that_was_set)
{
    struct fake fake = {.supports_streams = true};
    tarn_resource *resource = make_fake(&fake, 0);
    tarn_pointer *pointer, *view;

    CHECK_OK(tarn_pointer_allocate(resource, 100, TARN_STREAM_LEGACY, &pointer));
    CHECK_OK(tarn_pointer_view(pointer, 0, 1, &view));
    CHECK_OK(tarn_pointer_set_stream(view, TARN_STREAM_PER_THREAD));
    tarn_pointer_release(view);
    tarn_pointer_release(pointer);
    CHECK(fake.stream == TARN_STREAM_PER_THREAD);
    CHECK_OK(tarn_resource_release(resource));
}

TEST(pointer_of_host_memory_takes_any_stream)
{
    struct fake fake = {.supports_streams = true};
    tarn_resource *resource = make_fake(&fake, TARN_DEVICE_NONE);
    tarn_pointer *pointer;

    CHECK_OK(tarn_pointer_allocate(resource, 100, TARN_STREAM_LEGACY, &pointer));
    CHECK_OK(tarn_pointer_set_stream(pointer, TARN_STREAM_PER_THREAD));
    tarn_pointer_release(pointer);
    CHECK(fake.stream == TARN_STREAM_PER_THREAD);
    CHECK_OK(tarn_resource_release(resource));
}

TEST(pointer_rejects_a_stream_that_is_not_registered_any_more)
{
    struct fake fake = {.supports_streams = true};
    tarn_resource *resource = make_fake(&fake, 0);
    tarn_pointer *pointer;
    tarn_stream stream;

    CHECK_OK(tarn_stream_register(0, TARN_STREAM_DEFAULT, &stream));
    CHECK_OK(tarn_stream_unregister(stream));
    CHECK_OK(tarn_pointer_allocate(resource, 100, TARN_STREAM_LEGACY, &pointer));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_pointer_set_stream(pointer, stream));
    CHECK_MESSAGE("it was unregistered");
    tarn_pointer_release(pointer);
    CHECK(fake.stream == TARN_STREAM_LEGACY);
    CHECK_OK(tarn_resource_release(resource));
}

static void *current_context(void)
{
    int (*get)(void **) = (int (*)(void **))driver_call("cuCtxGetCurrent");
    void *context = NULL;

    CHECK_EQUAL(0, get(&context));
    return context;
}

TEST(pointer_leaves_the_current_context_as_its_stream_is_set)
{
    struct fake fake = {.supports_streams = true};
    tarn_resource *resource = make_fake(&fake, 0);
    tarn_pointer *pointer;

    CHECK_OK(tarn_pointer_allocate(resource, 100, TARN_STREAM_LEGACY, &pointer));
    CHECK(current_context() == NULL);
    CHECK_OK(tarn_pointer_set_stream(pointer, TARN_STREAM_PER_THREAD));
    CHECK(current_context() == NULL);
    tarn_pointer_release(pointer);
    CHECK_OK(tarn_resource_release(resource));
}

/* A pointer to device memory checks the generation of its context twice: cuCtxGetId. */
enum { LOOKS = 2 };

/* The driver calls of one pointer's lifetime; the fake resource makes none itself. */
static unsigned long long calls_of_a_lifetime(struct fake *fake, int device,
                                              tarn_stream stream)
{
    tarn_resource *resource = make_fake(fake, device);
    tarn_pointer *pointer;

    CHECK_OK(tarn_driver_synchronize(0)); /* the context exists before the count */
    unsigned long long before = sim_calls();
    CHECK_OK(tarn_pointer_allocate(resource, 100, stream, &pointer));
    tarn_pointer_release(pointer);
    unsigned long long calls = sim_calls() - before;
    CHECK_EQUAL(1, fake->frees);
    CHECK_OK(tarn_resource_release(resource));
    return calls;
}

TEST(no_stream_pointer_waits_where_the_resource_does_not)
{
    struct fake waits = {.deallocate_synchronizes = true},
                ordered = {.supports_streams = true};
    struct fake neither = {0}, named = {.supports_streams = true}, host = {0};
    struct fake promises = {.supports_streams = true, .supports_no_stream = true};

    if (!on_sim())
        return; /* the simulator counts the calls */
    CHECK_EQUAL(LOOKS, calls_of_a_lifetime(&waits, 0, TARN_STREAM_NONE));
    CHECK(calls_of_a_lifetime(&ordered, 0, TARN_STREAM_NONE) >= LOOKS + 2);
    CHECK(calls_of_a_lifetime(&neither, 0, TARN_STREAM_NONE) >= LOOKS + 2);
    CHECK_EQUAL(LOOKS, calls_of_a_lifetime(&promises, 0, TARN_STREAM_NONE));
    CHECK_EQUAL(LOOKS, calls_of_a_lifetime(&named, 0, TARN_STREAM_LEGACY));
    CHECK_EQUAL(0, calls_of_a_lifetime(&host, TARN_DEVICE_NONE, TARN_STREAM_NONE));
}

TEST(pointer_of_host_memory_has_a_host_address)
{
    tarn_resource *resource;
    tarn_pointer *pointer;

    CHECK_OK(tarn_host_create(&resource));
    CHECK_OK(tarn_pointer_allocate(resource, 100, TARN_STREAM_NONE, &pointer));
    CHECK(tarn_pointer_host(pointer) == (void *)(uintptr_t)tarn_pointer_address(pointer));
    memset(tarn_pointer_host(pointer), 1, 100);
    tarn_pointer_release(pointer);
    CHECK_OK(tarn_resource_release(resource));
}
