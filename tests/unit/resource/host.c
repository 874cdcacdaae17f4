/* Test host memory as a resource, which needs no driver. */
#define _GNU_SOURCE
#include "test.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef __SANITIZE_ADDRESS__ /* its malloc may itself be locked in a forked child */
static bool come_and_go(void)
{
    tarn_resource *host;
    tarn_device_ptr block;

    if (tarn_host_create(&host) != TARN_OK)
        return false;
    return tarn_resource_allocate(host, 100, 0, NULL, &block) == TARN_OK &&
           tarn_resource_deallocate(host, block, 100, 0, NULL) == TARN_OK &&
           tarn_resource_release(host) == TARN_OK;
}

struct visitors {
    atomic_bool stop;
    atomic_uint failures;
};

static void *come_and_go_until_stopped(void *argument)
{
    struct visitors *visitors = argument;

    while (!atomic_load(&visitors->stop))
        atomic_fetch_add(&visitors->failures, !come_and_go());
    return NULL;
}

/* Each thread is sometimes the last owner while others have live blocks. When two threads
 * find no resource and create one each, one of the two is dropped. */
TEST(host_ends_rightly_while_other_threads_come_and_go)
{
    enum { THREADS = 4, ROUNDS = 3000 };
    pthread_t threads[THREADS];
    struct visitors visitors = {0};

    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, come_and_go_until_stopped, &visitors) ==
              0);
    for (int i = 0; i < ROUNDS; i++)
        atomic_fetch_add(&visitors.failures, !come_and_go());
    atomic_store(&visitors.stop, true);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    CHECK_EQUAL(0, atomic_load(&visitors.failures));
}

/* A lock that another thread holds at the fork would stay held in the child. */
TEST(host_works_in_a_child_forked_while_other_threads_use_it)
{
    enum { THREADS = 4, FORKS = 60 };
    pthread_t threads[THREADS];
    struct visitors visitors = {0};
    int failures = 0;

    CHECK(come_and_go());
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, come_and_go_until_stopped, &visitors) ==
              0);
    for (int i = 0; i < FORKS && failures == 0; i++) {
        int status = 0;
        pid_t child = fork();
        if (child == 0) {
            alarm(20); /* ends a child that hangs */
            for (int turn = 0; turn < 20; turn++)
                if (!come_and_go())
                    _exit(1);
            _exit(0);
        }
        waitpid(child, &status, 0);
        failures += status != 0;
    }
    atomic_store(&visitors.stop, true);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    CHECK_EQUAL(0, failures);
    CHECK_EQUAL(0, atomic_load(&visitors.failures)); /* a fork widens every gap */
}
#endif

TEST(host_needs_no_driver)
{
    tarn_resource *host;
    tarn_device_ptr block;

    setenv("TARN_DRIVER", "/nowhere/libcuda.so.1", 1);
    CHECK_OK(tarn_host_create(&host));
    CHECK_EQUAL(TARN_DEVICE_NONE, tarn_resource_device(host));
    CHECK_TEXT("host", tarn_resource_name(host));
    CHECK_OK(tarn_resource_allocate(host, 1000, 4096, NULL, &block));
    CHECK_EQUAL(0, block % 4096);
    memset((void *)(uintptr_t)block, 0xab, 1000);
    CHECK_OK(tarn_resource_deallocate(host, block, 1000, 4096, NULL));
    CHECK_OK(tarn_resource_release(host));
}

TEST(host_is_unique_in_a_process_while_it_has_references)
{
    tarn_resource *one, *two;
    tarn_device_ptr block;

    CHECK_OK(tarn_host_create(&one));
    CHECK_OK(tarn_host_create(&two));
    CHECK(one == two);
    CHECK_OK(tarn_resource_allocate(one, 10, 0, NULL, &block));
    CHECK_OK(tarn_resource_release(one));
    CHECK_STATUS(TARN_STILL_IN_USE, tarn_resource_release(two));
    CHECK_OK(tarn_resource_deallocate(two, block, 10, 0, NULL));
    CHECK_OK(tarn_resource_release(two));
    CHECK_OK(tarn_host_create(&one)); /* a new one, after the end of the old */
    CHECK_EQUAL(0, tarn_resource_live_blocks(one));
    CHECK_OK(tarn_resource_release(one));
}

TEST(host_rejects_requests_that_do_not_fit)
{
    tarn_resource *host;
    tarn_device_ptr block = 7;

    CHECK_OK(tarn_host_create(&host));
    CHECK_STATUS(TARN_OUT_OF_MEMORY,
                 tarn_resource_allocate(host, SIZE_MAX / 4, 0, NULL, &block));
    CHECK_MESSAGE("host: no memory for");
    CHECK_STATUS(TARN_OUT_OF_MEMORY,
                 tarn_resource_allocate(host, 1, (size_t)1 << 62, NULL, &block));
    CHECK_EQUAL(7, block);
    CHECK_OK(tarn_resource_release(host));
}
