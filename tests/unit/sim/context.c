/* Test contexts: the stack, primary contexts, the objects that end with one, and calls at
 * the wrong time. */
#define _GNU_SOURCE
#include "driver.h"
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

static void empty_stack(void)
{
    CUcontext context;

    while (driver.cuCtxPopCurrent_v2(&context) == CUDA_SUCCESS)
        ;
}

static void *without_context(void *unused)
{
    CUdeviceptr address;
    CUcontext context = (CUcontext)(uintptr_t)1;
    CUdevice device;

    CU(cuCtxGetCurrent(&context));
    CHECK(context == NULL);
    CU_IS(CUDA_ERROR_INVALID_CONTEXT, cuMemAlloc_v2(&address, 100));
    CU_IS(CUDA_ERROR_INVALID_CONTEXT, cuCtxGetDevice(&device));
    CU_IS(CUDA_ERROR_INVALID_CONTEXT, cuCtxPopCurrent_v2(&context));
    CU_IS(CUDA_ERROR_INVALID_CONTEXT, cuStreamSynchronize(NULL));
    return unused;
}

TEST(context_is_of_the_thread)
{
    pthread_t thread;

    use_device(0);
    CHECK_EQUAL(0, pthread_create(&thread, NULL, without_context, NULL));
    pthread_join(thread, NULL);
}

TEST(context_set_replaces_the_top_and_push_stacks)
{
    CUcontext first, second, got;

    CU(cuInit(0));
    empty_stack();
    first = use_device(0);
    CU(cuDevicePrimaryCtxRetain(&second, 1));
    CU(cuCtxPushCurrent_v2(second));
    CU(cuCtxSetCurrent(first));
    CU(cuCtxPopCurrent_v2(&got));
    CHECK(got == first);
    CU(cuCtxGetCurrent(&got));
    CHECK(got == first);
    CU(cuCtxSetCurrent(NULL));
    CU(cuCtxGetCurrent(&got));
    CHECK(got == NULL);
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuCtxPushCurrent_v2(NULL));
    CU(cuDevicePrimaryCtxRelease_v2(1));
    CU(cuDevicePrimaryCtxRelease_v2(0));
}

/* As an H200 answers. */
TEST(context_reset_keeps_the_handle_and_destroys_the_contents)
{
    unsigned long long live = driver.live_bytes();
    CUcontext before, after;
    CUdeviceptr address;
    CUstream stream;
    CUevent event;
    unsigned flags;
    int active = 1;

    before = use_device(0);
    CU(cuMemAlloc_v2(&address, 100));
    CU(cuEventCreate(&event, 0));
    CU(cuEventRecord(event, NULL));
    CU(cuDevicePrimaryCtxReset_v2(0));
    CHECK(driver.live_bytes() == live);
    CU(cuDevicePrimaryCtxGetState(0, &flags, &active));
    CHECK_EQUAL(0, active);
    CU_IS(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuStreamCreate(&stream, 0));
    CU_IS(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuMemFree_v2(address));
    CU_IS(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuCtxSynchronize());
    after = use_device(0); /* alive from here on, and the second of two retains */
    CHECK(before == after);
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemFree_v2(address));
    CU_IS(CUDA_ERROR_INVALID_CONTEXT, cuEventQuery(event));
    CU_IS(CUDA_ERROR_INVALID_CONTEXT, cuEventDestroy_v2(event));
    CU(cuStreamCreate(&stream, 0));
    CU(cuStreamDestroy_v2(stream));
    CU(cuDevicePrimaryCtxRelease_v2(0));
    CU(cuCtxSynchronize());
}

TEST(context_primary_dies_with_its_last_release)
{
    CUdeviceptr address;
    unsigned flags;
    int active = 0;

    CU(cuInit(0));
    empty_stack();
    while (driver.cuDevicePrimaryCtxRelease_v2(1) == CUDA_SUCCESS)
        ;
    use_device(1);
    CU(cuDevicePrimaryCtxGetState(1, &flags, &active));
    CHECK_EQUAL(1, active);
    CU(cuMemAlloc_v2(&address, 100));
    CU(cuDevicePrimaryCtxRelease_v2(1));
    CU(cuDevicePrimaryCtxGetState(1, &flags, &active));
    CHECK_EQUAL(0, active);
    CU_IS(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuMemAlloc_v2(&address, 100));
    CU_IS(CUDA_ERROR_INVALID_CONTEXT, cuDevicePrimaryCtxRelease_v2(1));
}

TEST(context_created_is_destroyed_with_its_memory)
{
    unsigned long long live = driver.live_bytes();
    CUcontext context, got;
    CUdeviceptr address;

    use_device(0);
    CU(cuCtxCreate_v2(&context, 0, 0));
    CU(cuCtxGetCurrent(&got));
    CHECK(got == context);
    CU(cuMemAlloc_v2(&address, 1000));
    CU(cuCtxDestroy_v2(context));
    CHECK(driver.live_bytes() == live);
    CU_IS(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuCtxDestroy_v2(context));
    CU(cuCtxGetCurrent(&got));
    CHECK(got != context);
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuCtxCreate_v2(&context, 0x100, 0));
    CU_IS(CUDA_ERROR_INVALID_DEVICE, cuCtxCreate_v2(&context, 0, 99));
}

TEST(context_calls_in_a_forked_child_return_not_initialized)
{
    int status;

    use_device(0);
    pid_t child = fork();
    if (child == 0) {
        CUdeviceptr address;
        bool good = driver.cuMemAlloc_v2(&address, 100) == CUDA_ERROR_NOT_INITIALIZED &&
                    driver.cuInit(0) == CUDA_ERROR_NOT_INITIALIZED;
        _exit(good ? 0 : 1);
    }
    CHECK_EQUAL(child, waitpid(child, &status, 0));
    CHECK(WIFEXITED(status));
    CHECK_EQUAL(0, WEXITSTATUS(status));
}

/* Return the number of devices that a process sees under that CUDA_VISIBLE_DEVICES; 100:
 * cuInit fails. */
static int visible_devices(const char *value)
{
    int status;

    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        setenv("CUDA_VISIBLE_DEVICES", value, 1);
        execl("/proc/self/exe", "counter", NULL);
        _exit(99);
    }
    CHECK_EQUAL(child, waitpid(child, &status, 0));
    CHECK(WIFEXITED(status));
    return WEXITSTATUS(status);
}

__attribute__((constructor(65535))) static void counter(int argc, char **argv)
{
    CUresult result;
    int count;

    if (argc != 1 || strcmp(argv[0], "counter") != 0)
        return;
    result = driver.cuInit(0);
    _exit(result != CUDA_SUCCESS            ? (int)result
          : driver.cuDeviceGetCount(&count) ? 98
                                            : count);
}

TEST(context_devices_that_are_not_visible_do_not_exist)
{
    CHECK_EQUAL(1, visible_devices("1"));
    CHECK_EQUAL(2, visible_devices("1,0"));
    CHECK_EQUAL(1, visible_devices("0,7,1"));
    CHECK_EQUAL(1, visible_devices("GPU-7461726e-2d73696d"));
    CHECK_EQUAL(CUDA_ERROR_NO_DEVICE, visible_devices(""));
    CHECK_EQUAL(CUDA_ERROR_NO_DEVICE, visible_devices("1,1"));
    CHECK_EQUAL(CUDA_ERROR_NO_DEVICE, visible_devices("none"));
}

TEST(context_peer_access_is_enabled_once)
{
    CUcontext here, there;
    int can = 0;

    there = use_device(1);
    here = use_device(0);
    CU(cuDeviceCanAccessPeer(&can, 0, 1));
    CHECK_EQUAL(1, can);
    CU(cuDeviceCanAccessPeer(&can, 0, 0));
    CHECK_EQUAL(0, can);
    CU(cuCtxEnablePeerAccess(there, 0));
    CU_IS(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, cuCtxEnablePeerAccess(there, 0));
    CU(cuCtxDisablePeerAccess(there));
    CU_IS(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, cuCtxDisablePeerAccess(there));
    CU_IS(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, cuCtxEnablePeerAccess(here, 0));
    CU_IS(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, cuCtxDisablePeerAccess(here));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuCtxEnablePeerAccess(there, 1));
}
