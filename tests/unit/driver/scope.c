/* Test the context scope: contexts become current and are restored; wrong devices and
 * streams are rejected. */
#define _GNU_SOURCE
#include "driver_calls.h"
#include "test.h"

static int (*ctx_get_current)(void **out);
static int (*ctx_set_current)(void *context);
static int (*primary_retain)(void **out, int device);
static int (*ctx_create)(void **out, unsigned flags, int device);
static int (*ctx_destroy)(void *context);
static int (*stream_create)(void **out, unsigned flags);
static int (*stream_destroy)(void *stream);
static int device_count;

static void find_calls(void)
{
    tarn_driver_info info;

    CHECK_OK(tarn_driver_get_info(&info));
    device_count = info.device_count;
    find_call("cuCtxGetCurrent", &ctx_get_current);
    find_call("cuCtxSetCurrent", &ctx_set_current);
    find_call("cuDevicePrimaryCtxRetain", &primary_retain);
    find_call("cuCtxCreate_v2", &ctx_create);
    find_call("cuCtxDestroy_v2", &ctx_destroy);
    find_call("cuStreamCreate", &stream_create);
    find_call("cuStreamDestroy_v2", &stream_destroy);
}

static void *current(void)
{
    void *context = NULL;

    CHECK_EQUAL(0, ctx_get_current(&context));
    return context;
}

static void *primary(int device)
{
    void *context = NULL;

    CHECK_EQUAL(0, primary_retain(&context, device));
    return context;
}

/* Each call that works on a device, with right and wrong arguments. */
static void use_device(int device)
{
    tarn_device_info info;

    CHECK_OK(tarn_driver_device_info(device, &info));
    CHECK_OK(tarn_driver_synchronize(device));
    CHECK_OK(tarn_stream_synchronize(device, TARN_STREAM_LEGACY));
}

TEST(scope_restores_no_context)
{
    find_calls();
    CHECK_EQUAL(0, ctx_set_current(NULL));
    use_device(0);
    CHECK(current() == NULL);
}

TEST(scope_restores_any_context)
{
    void *other = NULL;

    find_calls();
    for (int device = 0; device < device_count; device++) {
        CHECK_EQUAL(0, ctx_set_current(primary(device)));
        use_device(0);
        CHECK(current() == primary(device));
    }
    CHECK_EQUAL(0, ctx_set_current(NULL));
    CHECK_EQUAL(0, ctx_create(&other, 0, 0)); /* not the primary one */
    CHECK_EQUAL(0, ctx_set_current(other));
    use_device(0);
    CHECK(current() == other);
    CHECK_EQUAL(0, ctx_set_current(NULL));
    CHECK_EQUAL(0, ctx_destroy(other));
}

TEST(current_device_is_the_one_of_the_current_context)
{
    int device = 77;

    find_calls();
    CHECK_EQUAL(0, ctx_set_current(NULL));
    CHECK_OK(tarn_driver_current_device(&device));
    CHECK_EQUAL(0, device);
    for (int i = 0; i < device_count; i++) {
        CHECK_EQUAL(0, ctx_set_current(primary(i)));
        CHECK_OK(tarn_driver_current_device(&device));
        CHECK_EQUAL(i, device);
    }
    CHECK_EQUAL(0, ctx_set_current(NULL));
}

TEST(device_that_does_not_exist_is_rejected_with_a_message)
{
    static const int wrong[] = {-1, 99, 1 << 30, -2147483647};
    tarn_device_info info;

    memset(&info, 0x5a, sizeof info);
    for (int i = 0; i < 4; i++) {
        CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_driver_device_info(wrong[i], &info));
        CHECK_MESSAGE("does not exist");
        CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_driver_synchronize(wrong[i]));
        CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_stream_synchronize(wrong[i], NULL));
        CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_memcpy_async(wrong[i], 8, 8, 1, NULL));
        CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_memset_async(wrong[i], 8, 0, 1, NULL));
    }
    CHECK_EQUAL(0x5a, info.name[0]);
}

TEST(stream_of_another_context_is_rejected)
{
    void *stream = NULL, *other = NULL;

    find_calls();
    CHECK_EQUAL(0, ctx_create(&other, 0, 0));
    CHECK_EQUAL(0, ctx_set_current(other));
    CHECK_EQUAL(0, stream_create(&stream, 0));
    CHECK_EQUAL(0, ctx_set_current(NULL));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_stream_synchronize(0, stream));
    CHECK_MESSAGE("belongs to context");
    CHECK_EQUAL(0, stream_destroy(stream));
    CHECK_EQUAL(0, ctx_destroy(other));
}

TEST(stream_handle_is_the_driver_s)
{
    CHECK(tarn_stream_handle(TARN_STREAM_NONE) == NULL);
    CHECK(tarn_stream_handle(TARN_STREAM_PER_THREAD) == (void *)2);
    CHECK(tarn_stream_handle((tarn_stream)0x1234) == (void *)0x1234);
}
