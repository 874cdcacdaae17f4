/* Use a block on another stream than the one of its allocation. The simulator's race
 * finder reports unordered use; an event or a wait gives the required order. */
#define _GNU_SOURCE
#include "driver_calls.h"
#include "test.h"

enum { BYTES = 4096 };

static int (*cuEventCreate)(void **out, unsigned flags);
static int (*cuEventRecord)(void *event, tarn_stream stream);
static int (*cuEventDestroy_v2)(void *event);
static int (*cuStreamWaitEvent)(tarn_stream stream, void *event, unsigned flags);

static int (*cuDevicePrimaryCtxRetain)(void **context, int device);
static int (*cuCtxSetCurrent)(void *context);

/* The context is current, as in any program that has queued work itself. */
static void find_calls(void)
{
    void *context;

    find_call("cuDevicePrimaryCtxRetain", &cuDevicePrimaryCtxRetain);
    find_call("cuCtxSetCurrent", &cuCtxSetCurrent);
    CHECK_EQUAL(0, cuDevicePrimaryCtxRetain(&context, 0));
    CHECK_EQUAL(0, cuCtxSetCurrent(context));
    find_call("cuEventCreate", &cuEventCreate);
    find_call("cuEventRecord", &cuEventRecord);
    find_call("cuEventDestroy_v2", &cuEventDestroy_v2);
    find_call("cuStreamWaitEvent", &cuStreamWaitEvent);
}

typedef tarn_status create_fn(tarn_resource **out);

static tarn_status create_pool(tarn_resource **out)
{
    return tarn_pool_create(0, NULL, NULL, out);
}

static tarn_status create_async(tarn_resource **out)
{
    return tarn_async_create(0, NULL, out);
}

static tarn_device_ptr take(tarn_resource *resource, tarn_stream stream)
{
    tarn_device_ptr block;

    CHECK_OK(tarn_resource_allocate(resource, BYTES, 0, stream, &block));
    return block;
}

static void free_block(tarn_resource *resource, tarn_device_ptr block, tarn_stream stream)
{
    CHECK_OK(tarn_resource_deallocate(resource, block, BYTES, 0, stream));
}

static void order_by_event(tarn_stream first, tarn_stream second)
{
    void *event;

    CHECK_EQUAL(0, cuEventCreate(&event, 0));
    CHECK_EQUAL(0, cuEventRecord(event, first));
    CHECK_EQUAL(0, cuStreamWaitEvent(second, event, 0));
    CHECK_EQUAL(0, cuEventDestroy_v2(event));
}

static void order_by_wait(tarn_stream first, tarn_stream second)
{
    (void)second;
    CHECK_OK(tarn_stream_synchronize(0, first));
}

static void leave_unordered(tarn_stream first, tarn_stream second)
{
    (void)first;
    (void)second;
}

/* Write a block on `second` that has work behind it on `first`, the stream on which it
 * may be used at once. Return the number of races. */
static unsigned long long use_elsewhere(create_fn *create,
                                        void (*order)(tarn_stream, tarn_stream))
{
    tarn_stream first, second;
    tarn_resource *resource;

    find_calls();
    sim_configure("mode=seeded,races=on");
    CHECK_OK(tarn_stream_create(0, true, &first));
    CHECK_OK(tarn_stream_create(0, true, &second));
    CHECK_OK(create(&resource));
    tarn_device_ptr before = take(resource, first);
    CHECK_OK(tarn_memset_async(0, before, 1, BYTES, first));
    free_block(resource, before, first);
    tarn_device_ptr block = take(resource, first);
    CHECK(block == before); /* otherwise the pool's case shows nothing */
    CHECK_OK(tarn_memset_async(0, block, 2, BYTES / 2, first));
    CHECK_EQUAL(0, sim_races());
    order(first, second);
    CHECK_OK(tarn_memset_async(0, block + BYTES / 2, 3, BYTES / 2, second));
    unsigned long long races = sim_races();
    CHECK_OK(tarn_driver_synchronize(0));
    free_block(resource, block, first);
    CHECK_OK(tarn_resource_release(resource));
    CHECK_OK(tarn_stream_destroy(0, second));
    CHECK_OK(tarn_stream_destroy(0, first));
    sim_configure(NULL);
    return races;
}

TEST(use_on_another_stream_needs_an_order_e13)
{
    create_fn *const creates[] = {create_pool, create_async};

    if (!on_sim())
        skip();
    for (int i = 0; i < 2; i++) {
        CHECK_EQUAL(1, use_elsewhere(creates[i], leave_unordered));
        CHECK_EQUAL(0, use_elsewhere(creates[i], order_by_event));
        CHECK_EQUAL(0, use_elsewhere(creates[i], order_by_wait));
    }
}
