/* Test the search for the driver. Each test is a process of its own, because a process
 * opens one driver. */
#define _GNU_SOURCE
#include "test.h"
#include "child.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *in_build(const char *path)
{
    static char whole[4][600];
    static int next;
    char *text = whole[next++ % 4];

    snprintf(text, sizeof whole[0], "%s/%s", getenv("TARN_BUILD"), path);
    return text;
}

static const char *fake(void)
{
    return in_build("tests/fake/libcuda.so.1");
}

static const char *sim(void)
{
    return in_build("lib/tarn/sim/libcuda.so.1");
}

/* --- files that are no driver --- */

static void open_wrong_path(void)
{
    tarn_driver_info info = {.version = 77};

    CHILD_STATUS(TARN_NO_DRIVER, tarn_driver_open("/nowhere/libcuda.so.1"));
    CHILD_MESSAGE("cannot load /nowhere/libcuda.so.1");
    setenv("TARN_DRIVER", "/nowhere/else", 1);
    CHILD_STATUS(TARN_NO_DRIVER, tarn_driver_get_info(&info));
    CHILD_MESSAGE("/nowhere/else");
    CHILD_CHECK(info.version == 77);
    CHILD_STATUS(TARN_OK, tarn_driver_open("sim")); /* that decided nothing */
}

TEST(driver_at_a_wrong_path_is_named)
{
    in_child(open_wrong_path);
}

static void open_other_library(void)
{
    CHILD_STATUS(TARN_NO_DRIVER, tarn_driver_open("libm.so.6"));
    CHILD_MESSAGE("libm.so.6 is not a CUDA driver");
    CHILD_STATUS(TARN_NO_DRIVER, tarn_driver_open("/etc/passwd"));
    CHILD_MESSAGE("/etc/passwd");
}

TEST(driver_that_is_another_library_is_rejected)
{
    in_child(open_other_library);
}

static void open_none(void)
{
    tarn_resource *resource = NULL;

    unsetenv("TARN_DRIVER");
    if (dlopen("libcuda.so.1", RTLD_LAZY))
        return; /* this machine has one */
    CHILD_STATUS(TARN_NO_DRIVER, tarn_driver_open(NULL));
    CHILD_MESSAGE("TARN_DRIVER=sim");
    CHILD_STATUS(TARN_NO_DRIVER, tarn_cuda_create(0, &resource));
    CHILD_MESSAGE("TARN_DRIVER=sim");
    setenv("TARN_DRIVER", "", 1); /* as if it were not set */
    CHILD_STATUS(TARN_NO_DRIVER, tarn_driver_open(NULL));
    CHILD_MESSAGE("TARN_DRIVER=sim");
    CHILD_CHECK(resource == NULL);
}

TEST(missing_driver_is_no_silent_fall_back)
{
    in_child(open_none);
}

static void open_long_path(void)
{
    char path[1000];

    memset(path, 'x', sizeof path - 1);
    path[sizeof path - 1] = 0;
    CHILD_STATUS(TARN_NO_DRIVER, tarn_driver_open(path));
    CHILD_MESSAGE("the path has 999 bytes");
}

TEST(driver_path_that_is_too_long_is_rejected)
{
    in_child(open_long_path);
}

/* --- drivers that do not meet the requirements --- */

static void open_old(void)
{
    setenv("FAKE_CUDA_VERSION", "11040", 1);
    CHILD_STATUS(TARN_NO_DRIVER, tarn_driver_open(fake()));
    CHILD_MESSAGE("supports CUDA 11.4, Tarn requires 12.0 or newer");
    setenv("FAKE_CUDA_VERSION", "12000", 1);
    CHILD_STATUS(TARN_OK, tarn_driver_open(fake()));
}

TEST(driver_older_than_12_0_is_rejected)
{
    in_child(open_old);
}

static void open_without_devices(void)
{
    setenv("FAKE_CUDA_DEVICES", "0", 1);
    CHILD_STATUS(TARN_NO_DRIVER, tarn_driver_open(fake()));
    CHILD_MESSAGE("found no GPU");
    CHILD_MESSAGE("TARN_DRIVER=sim");
    setenv("FAKE_CUDA_INIT", "100", 1); /* CUDA_ERROR_NO_DEVICE */
    CHILD_STATUS(TARN_NO_DRIVER, tarn_driver_open(fake()));
    CHILD_MESSAGE("found no GPU");
    CHILD_CHECK(tarn_error_last()->native == 100);
}

TEST(driver_without_devices_is_rejected)
{
    in_child(open_without_devices);
}

static void open_one_that_does_not_start(void)
{
    setenv("FAKE_CUDA_INIT", "803", 1); /* CUDA_ERROR_SYSTEM_DRIVER_MISMATCH */
    CHILD_STATUS(TARN_NO_DRIVER, tarn_driver_open(fake()));
    CHILD_MESSAGE("cuInit failed with error 803");
    CHILD_CHECK(tarn_error_last()->native == 803);
}

TEST(driver_that_does_not_start_is_rejected_with_its_error)
{
    in_child(open_one_that_does_not_start);
}

static void open_without_a_call(void)
{
    setenv("FAKE_CUDA_LACKS", "cuMemAlloc", 1);
    CHILD_STATUS(TARN_NO_DRIVER, tarn_driver_open(fake()));
    CHILD_MESSAGE("has no cuMemAlloc");
}

TEST(driver_that_lacks_a_needed_call_is_rejected_by_its_name)
{
    in_child(open_without_a_call);
}

static void open_without_pools(void)
{
    tarn_resource *resource = NULL;

    setenv("FAKE_CUDA_LACKS", "cuMemPoolCreate", 1);
    CHILD_STATUS(TARN_OK, tarn_driver_open(fake()));
    CHILD_STATUS(TARN_NOT_SUPPORTED, tarn_async_create(0, NULL, &resource));
    CHILD_MESSAGE("device 0 has no memory pools");
    CHILD_STATUS(TARN_NOT_SUPPORTED, tarn_managed_create(0, &resource));
    CHILD_CHECK(resource == NULL);
    CHILD_STATUS(TARN_OK, tarn_cuda_create(0, &resource));
    CHILD_STATUS(TARN_OK, tarn_resource_release(resource));
}

TEST(driver_without_an_optional_call_supports_the_rest)
{
    in_child(open_without_pools);
}

static void make_a_pool_without_virtual_memory(void)
{
    tarn_resource *pool;
    tarn_device_ptr block;

    setenv("FAKE_CUDA_BASE", sim(), 1);
    CHILD_STATUS(TARN_OK, tarn_driver_open(fake()));
    CHILD_STATUS(TARN_OK, tarn_pool_create(0, NULL, NULL, &pool));
    CHILD_STATUS(TARN_OK,
                 tarn_resource_allocate(pool, 8 << 20, 0, TARN_STREAM_LEGACY, &block));
    CHILD_STATUS(TARN_NOT_SUPPORTED, tarn_pool_suspend(pool, TARN_POOL_SUSPEND_DISCARD));
    CHILD_STATUS(TARN_OK,
                 tarn_resource_deallocate(pool, block, 8 << 20, 0, TARN_STREAM_LEGACY));
    CHILD_STATUS(TARN_OK, tarn_resource_release(pool));
}

TEST(pool_needs_no_virtual_memory_where_the_driver_lacks_one_of_its_calls)
{
    static const char *const calls[] = {"cuMemGetAllocationGranularity",
                                        "cuMemAddressReserve",
                                        "cuMemAddressFree",
                                        "cuMemCreate",
                                        "cuMemRelease",
                                        "cuMemRetainAllocationHandle",
                                        "cuMemMap",
                                        "cuMemUnmap",
                                        "cuMemSetAccess"};

    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        setenv("FAKE_CUDA_LACKS", calls[i], 1);
        in_child(make_a_pool_without_virtual_memory);
    }
    unsetenv("FAKE_CUDA_LACKS");
}

/* --- one a process --- */

static void open_twice(void)
{
    tarn_driver_info info;

    CHILD_STATUS(TARN_OK, tarn_driver_open("sim"));
    CHILD_STATUS(TARN_OK, tarn_driver_open("sim"));
    CHILD_STATUS(TARN_OK, tarn_driver_open(NULL));
    CHILD_STATUS(TARN_OK, tarn_driver_open(sim())); /* the same file by another name */
    CHILD_STATUS(TARN_ALREADY_SET, tarn_driver_open(fake()));
    CHILD_MESSAGE("is already open");
    CHILD_STATUS(TARN_ALREADY_SET, tarn_driver_open("/nowhere/libcuda.so.1"));
    CHILD_STATUS(TARN_OK, tarn_driver_get_info(&info));
    CHILD_CHECK(info.is_simulator && info.device_count >= 1 && info.version >= 12000);
    CHILD_CHECK(strstr(info.path, "tarn/sim/libcuda.so.1") != NULL);
}

TEST(driver_is_opened_once_and_no_second_one)
{
    in_child(open_twice);
}

static void open_beside_another(void)
{
    CHILD_CHECK(dlopen(fake(), RTLD_NOW) != NULL);
    CHILD_STATUS(TARN_NO_DRIVER, tarn_driver_open("sim"));
    CHILD_MESSAGE("two drivers in one process");
    CHILD_MESSAGE("tests/fake/libcuda.so.1");
}

static void open_what_is_there(void)
{
    CHILD_CHECK(dlopen(fake(), RTLD_NOW) != NULL);
    CHILD_STATUS(TARN_OK, tarn_driver_open(fake()));
}

TEST(driver_beside_another_one_that_is_loaded_is_rejected)
{
    in_child(open_beside_another);
    in_child(open_what_is_there);
}

static void open_the_one_that_is_loaded(void)
{
    CHILD_CHECK(dlopen(in_build("lib/tarn/sim/libcuda.so"), RTLD_NOW) != NULL);
    CHILD_STATUS(TARN_OK, tarn_driver_open("sim")); /* Numba opens libcuda.so first */
}

TEST(driver_that_is_loaded_under_its_other_name_is_no_other_one)
{
    in_child(open_the_one_that_is_loaded);
}

static void open_by_environment(void)
{
    tarn_driver_info info;

    setenv("TARN_DRIVER", "sim", 1);
    CHILD_STATUS(TARN_OK, tarn_driver_get_info(&info));
    CHILD_CHECK(info.is_simulator);
}

TEST(driver_is_named_by_the_environment)
{
    in_child(open_by_environment);
}

static void open_against_environment(void)
{
    tarn_driver_info info;

    setenv("TARN_DRIVER", "sim", 1);
    CHILD_STATUS(TARN_OK, tarn_driver_open(fake()));
    CHILD_STATUS(TARN_OK, tarn_driver_get_info(&info));
    CHILD_CHECK(!info.is_simulator && info.version == 13000 && info.device_count == 1);
}

TEST(requested_driver_comes_before_the_environment)
{
    in_child(open_against_environment);
}

static void *open_it(void *data)
{
    tarn_driver_info info;

    (void)data;
    return (void *)(uintptr_t)(tarn_driver_get_info(&info) != TARN_OK ||
                               !info.is_simulator);
}

static void open_in_threads(void)
{
    pthread_t threads[4];
    void *broken;

    setenv("TARN_DRIVER", "sim", 1);
    for (int i = 0; i < 4; i++)
        CHILD_CHECK(pthread_create(&threads[i], NULL, open_it, NULL) == 0);
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], &broken);
        CHILD_CHECK(broken == NULL);
    }
}

TEST(driver_is_opened_by_many_threads_at_once)
{
    in_child(open_in_threads);
}

static void *open_fake(void *data)
{
    (void)data;
    return (void *)(uintptr_t)tarn_driver_open(fake());
}

/* A half-opened driver is useless to a child; calls without a driver work there. */
static void use_half_opened(void)
{
    tarn_driver_info info;
    tarn_resource *resource;

    alarm(60); /* ends a child that hangs */
    CHILD_STATUS(TARN_DRIVER_FAILURE, tarn_driver_open(fake()));
    CHILD_MESSAGE("is a forked child");
    CHILD_STATUS(TARN_DRIVER_FAILURE, tarn_driver_get_info(&info));
    CHILD_STATUS(TARN_DRIVER_FAILURE, tarn_cuda_create(0, &resource));
    CHILD_STATUS(TARN_OK, tarn_host_create(&resource));
    CHILD_STATUS(TARN_OK, tarn_resource_release(resource));
    _exit(0);
}

static void fork_while_it_is_opened(void)
{
    char file[] = "/tmp/tarn-opens-XXXXXX";
    pthread_t thread;
    int status = 0;
    void *opened;

    close(mkstemp(file));
    unlink(file);
    setenv("FAKE_CUDA_WAITS", file, 1);
    CHILD_CHECK(pthread_create(&thread, NULL, open_fake, NULL) == 0);
    while (access(file, F_OK) != 0)
        usleep(1000);
    pid_t child = fork();
    if (child == 0)
        use_half_opened();
    CHILD_CHECK(waitpid(child, &status, 0) == child);
    unlink(file);
    pthread_join(thread, &opened);
    CHILD_CHECK(status == 0);
    CHILD_CHECK(opened == NULL);
}

TEST(child_that_was_forked_while_the_driver_was_opened_has_none)
{
    in_child(fork_while_it_is_opened);
}
