/* Test the registry: the current resource of each device. */
#include "test.h"
#include "scripted.h"
#include <pthread.h>

static tarn_resource *resource_of(int device)
{
    tarn_resource *resource = NULL;

    CHECK_OK(tarn_device_resource(device, &resource));
    return resource;
}

TEST(device_uses_the_cuda_resource_by_default)
{
    tarn_resource *resource = resource_of(0), *cuda;
    tarn_device_ptr block;

    CHECK_OK(tarn_cuda_create(0, &cuda));
    CHECK(resource == cuda);
    CHECK_EQUAL(0, tarn_resource_device(resource));
    CHECK_OK(tarn_resource_release(cuda));
    CHECK_OK(tarn_resource_allocate(resource, 100, 0, NULL, &block));
    CHECK_OK(tarn_resource_deallocate(resource, block, 100, 0, NULL));
    CHECK_OK(tarn_resource_release(resource));
}

TEST(device_returns_the_set_resource_and_the_previous_one)
{
    struct scripted one, two;
    tarn_resource *previous = NULL, *got, *cuda;

    scripted_begin(&one, 0);
    scripted_begin(&two, 0);
    CHECK_OK(tarn_device_set_resource(0, one.resource, &previous));
    CHECK_TEXT("cuda", tarn_resource_name(previous));
    CHECK_OK(tarn_resource_release(previous));
    CHECK_OK(tarn_device_set_resource(0, two.resource, &previous));
    CHECK(previous == one.resource);
    CHECK_OK(tarn_resource_release(previous));
    got = resource_of(0);
    CHECK(got == two.resource);
    CHECK_OK(tarn_resource_release(got));
    CHECK_OK(tarn_device_set_resource(0, NULL, NULL));
    CHECK_OK(tarn_cuda_create(0, &cuda));
    got = resource_of(0);
    CHECK(got == cuda);
    CHECK_OK(tarn_resource_release(got));
    CHECK_OK(tarn_resource_release(cuda));
    scripted_end(&one);
    scripted_end(&two);
}

TEST(device_keeps_a_reference_of_its_own)
{
    struct scripted script;
    tarn_resource *got;

    scripted_begin(&script, 0);
    CHECK_OK(tarn_device_set_resource(0, script.resource, NULL));
    CHECK_OK(tarn_resource_release(script.resource));
    CHECK_EQUAL(0, script.destroyed);
    got = resource_of(0);
    CHECK_OK(tarn_device_set_resource(0, NULL, NULL));
    CHECK_EQUAL(0, script.destroyed);
    CHECK_OK(tarn_resource_release(got));
    CHECK_EQUAL(1, script.destroyed);
}

TEST(device_is_not_served_by_a_resource_of_another)
{
    struct scripted other, host;
    tarn_resource *previous = (tarn_resource *)&other, *got;

    scripted_begin(&other, 1);
    scripted_begin(&host, TARN_DEVICE_NONE);
    CHECK_STATUS(TARN_INVALID_ARGUMENT,
                 tarn_device_set_resource(0, other.resource, &previous));
    CHECK_MESSAGE("scripted is a resource of device 1, not of device 0");
    CHECK_STATUS(TARN_INVALID_ARGUMENT,
                 tarn_device_set_resource(0, host.resource, &previous));
    CHECK(previous == (tarn_resource *)&other);
    got = resource_of(0);
    CHECK_TEXT("cuda", tarn_resource_name(got));
    CHECK_OK(tarn_resource_release(got));
    scripted_end(&other);
    scripted_end(&host);
}

TEST(device_that_does_not_exist_is_rejected)
{
    tarn_resource *resource = (tarn_resource *)&resource_of;

    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_device_resource(-1, &resource));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_device_resource(99, &resource));
    CHECK_MESSAGE("device 99 does not exist");
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_device_set_resource(99, NULL, &resource));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_device_resource(0, NULL));
    CHECK(resource == (tarn_resource *)&resource_of);
}

/* The previous one has no other owner, but has live blocks. */
TEST(device_keeps_a_resource_with_live_blocks)
{
    struct scripted first, second;
    tarn_resource *got;
    tarn_device_ptr block;

    scripted_begin(&first, 0);
    scripted_begin(&second, 0);
    CHECK_OK(tarn_device_set_resource(0, first.resource, NULL));
    CHECK_OK(tarn_resource_allocate(first.resource, 10, 0, NULL, &block));
    CHECK_OK(tarn_resource_release(first.resource));
    CHECK_STATUS(TARN_STILL_IN_USE, tarn_device_set_resource(0, second.resource, NULL));
    CHECK_MESSAGE("was not replaced");
    CHECK_MESSAGE("1 blocks");
    got = resource_of(0);
    CHECK(got == first.resource);
    CHECK_OK(tarn_resource_deallocate(got, block, 10, 0, NULL));
    CHECK_OK(tarn_resource_release(got));
    CHECK_OK(tarn_device_set_resource(0, NULL, NULL));
    CHECK_EQUAL(1, first.destroyed);
    scripted_end(&second);
}

TEST(current_is_device_0_without_a_context)
{
    struct scripted script;
    tarn_resource *got, *previous;

    scripted_begin(&script, 0);
    CHECK_OK(tarn_set_current_device_resource(script.resource, &previous));
    CHECK_OK(tarn_current_device_resource(&got));
    CHECK(got == script.resource);
    CHECK_OK(tarn_resource_release(got));
    CHECK_OK(tarn_set_current_device_resource(previous, &got));
    CHECK(got == script.resource);
    CHECK_OK(tarn_resource_release(got));
    CHECK_OK(tarn_resource_release(previous));
    scripted_end(&script);
}

enum { THREADS = 4, ROUNDS = 500 };

/* Set a resource and use the current one; each is destroyed once, at the end. */
static void *set_and_get(void *data)
{
    tarn_resource *found, *previous;
    tarn_device_ptr block;
    uintptr_t broken = 0;

    for (int i = 0; i < ROUNDS; i++) {
        broken |= tarn_device_set_resource(1, data, &previous) != TARN_OK;
        broken |= tarn_device_resource(1, &found) != TARN_OK;
        broken |= tarn_resource_allocate(found, 10, 0, NULL, &block) != TARN_OK;
        broken |= tarn_resource_deallocate(found, block, 10, 0, NULL) != TARN_OK;
        broken |= tarn_resource_release(found) != TARN_OK;
        broken |= tarn_resource_release(previous) != TARN_OK;
    }
    return (void *)broken;
}

TEST(device_is_set_and_queried_by_many_threads)
{
    tarn_driver_info info;
    pthread_t threads[THREADS];
    tarn_resource *limiters[THREADS], *cuda;
    void *broken;

    CHECK_OK(tarn_driver_get_info(&info));
    if (info.device_count < 2)
        skip();
    CHECK_OK(tarn_cuda_create(1, &cuda));
    for (int i = 0; i < THREADS; i++) {
        CHECK_OK(tarn_limiter_create(cuda, 1 << 20, &limiters[i]));
        CHECK_EQUAL(0, pthread_create(&threads[i], NULL, set_and_get, limiters[i]));
    }
    for (int i = 0; i < THREADS; i++) {
        CHECK_EQUAL(0, pthread_join(threads[i], &broken));
        CHECK(broken == NULL);
    }
    CHECK_OK(tarn_device_set_resource(1, NULL, NULL));
    for (int i = 0; i < THREADS; i++)
        CHECK_OK(tarn_resource_release(limiters[i]));
    CHECK_OK(tarn_resource_release(cuda));
}
