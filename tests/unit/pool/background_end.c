/* Test the ends of a process and of a context while the background thread of a pool
 * runs. */
#include "pools.h"
#include "child.h"
#include <sys/wait.h>
#include <unistd.h>

static const tarn_pool_options with_thread = {.size = sizeof with_thread,
                                              .background_thread = true};

static tarn_resource *pool;

static void grow_and_fork(void)
{
    use_driver(0);
    for (unsigned i = 0; i < 20; i++) {
        int status = 0;
        CHILD_STATUS(TARN_OK, tarn_pool_create(0, NULL, &with_thread, &pool));
        tarn_device_ptr block;
        CHILD_STATUS(TARN_OK, tarn_resource_allocate(pool, 64 * MIB, 0, NULL, &block));
        usleep(i * 100);
        pid_t child = fork();
        if (child == 0) {
            alarm(20);
            CHILD_STATUS(TARN_DRIVER_FAILURE,
                         tarn_pool_suspend(pool, TARN_POOL_SUSPEND_DISCARD));
            CHILD_STATUS(TARN_OK,
                         tarn_resource_deallocate(pool, block, 64 * MIB, 0, NULL));
            CHILD_STATUS(TARN_OK, tarn_resource_release(pool));
            _exit(0);
        }
        waitpid(child, &status, 0);
        CHILD_CHECK(status == 0);
        CHILD_STATUS(TARN_OK, tarn_resource_deallocate(pool, block, 64 * MIB, 0, NULL));
        CHILD_STATUS(TARN_OK, tarn_resource_release(pool));
    }
}

static void grow_and_exit(void)
{
    tarn_device_ptr block;

    use_driver(0);
    CHILD_STATUS(TARN_OK, tarn_pool_create(0, NULL, &with_thread, &pool));
    CHILD_STATUS(TARN_OK, tarn_resource_allocate(pool, MIB, 0, NULL, &block));
    usleep((unsigned)getpid() % 2000);
    exit(0);
}

static void release_at_exit(void)
{
    tarn_resource_release(pool);
}

static void grow_and_release_at_exit(void)
{
    atexit(release_at_exit); /* before the driver is open: it runs after Tarn's handler */
    use_driver(0);
    CHILD_STATUS(TARN_OK, tarn_pool_create(0, NULL, &with_thread, &pool));
    tarn_device_ptr block;
    CHILD_STATUS(TARN_OK, tarn_resource_allocate(pool, 64 * MIB, 0, NULL, &block));
    CHILD_STATUS(TARN_OK, tarn_resource_deallocate(pool, block, 64 * MIB, 0, NULL));
    usleep((unsigned)getpid() % 2000);
    exit(0);
}

/* The thread ends by itself, and the pool releases what outlives the reset. */
static void grow_and_reset(void)
{
    tarn_device_ptr block;

    use_driver(0);
    for (unsigned i = 0; i < 10; i++) {
        CHILD_STATUS(TARN_OK, tarn_pool_create(0, NULL, &with_thread, &pool));
        CHILD_STATUS(TARN_OK, tarn_resource_allocate(pool, 64 * MIB, 0, NULL, &block));
        usleep(i * 200);
        reset_the_device();
        usleep(i % 3 * 150 * 1000);
        CHILD_STATUS(TARN_OK, tarn_resource_deallocate(pool, block, 64 * MIB, 0, NULL));
        CHILD_STATUS(TARN_OK, tarn_resource_release(pool));
        use_driver(0);
    }
}

TEST(forked_child_neither_has_the_thread_nor_waits_for_it)
{
    in_child(grow_and_fork);
}

TEST(program_may_end_while_the_thread_grows)
{
    for (int i = 0; i < 20; i++) {
        in_child(grow_and_exit);
        in_child(grow_and_release_at_exit);
    }
}

TEST(reset_of_the_context_ends_the_thread)
{
    in_child(grow_and_reset);
}
