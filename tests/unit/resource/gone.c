/* Check that no driver call is made after exit began or in a forked child. A free there
 * only forgets the block, which is no failure. */
#define _GNU_SOURCE
#include "test.h"
#include "child.h"
#include "driver_calls.h"
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static tarn_resource *cuda, *async, *limiter;
static tarn_device_ptr blocks[3];

static void make_all(void)
{
    CHILD_STATUS(TARN_OK, tarn_cuda_create(0, &cuda));
    CHILD_STATUS(TARN_OK, tarn_async_create(0, NULL, &async));
    CHILD_STATUS(TARN_OK, tarn_limiter_create(async, 4096, &limiter));
    CHILD_STATUS(TARN_OK, tarn_resource_allocate(cuda, 10, 0, NULL, &blocks[0]));
    CHILD_STATUS(TARN_OK, tarn_resource_allocate(async, 10, 0, NULL, &blocks[1]));
    CHILD_STATUS(TARN_OK, tarn_resource_allocate(limiter, 10, 0, NULL, &blocks[2]));
}

static void end_all_without_a_driver(void)
{
    tarn_device_ptr block = 77;
    tarn_resource *resource = NULL;
    size_t used = 77, free_bytes = 77;

    CHILD_STATUS(TARN_DRIVER_FAILURE, tarn_async_create(0, NULL, &resource));
    CHILD_CHECK(resource == NULL);

    CHILD_STATUS(TARN_DRIVER_FAILURE, tarn_resource_allocate(cuda, 10, 0, NULL, &block));
    CHILD_MESSAGE("the driver of device 0 can no longer be called");
    CHILD_STATUS(TARN_DRIVER_FAILURE,
                 tarn_resource_memory_info(async, NULL, &free_bytes, &free_bytes));
    CHILD_CHECK(block == 77 && free_bytes == 77);
    CHILD_STATUS(TARN_OK, tarn_resource_deallocate(limiter, blocks[2], 10, 0, NULL));
    CHILD_STATUS(TARN_OK, tarn_limiter_used_bytes(limiter, &used));
    CHILD_CHECK(used == 0);
    CHILD_STATUS(TARN_OK, tarn_resource_deallocate(cuda, blocks[0], 10, 0, NULL));
    CHILD_STATUS(TARN_OK, tarn_resource_release(limiter));
    CHILD_STATUS(TARN_OK, tarn_resource_release(async)); /* with a live block */
    CHILD_STATUS(TARN_OK, tarn_resource_release(cuda));
}

static void free_after_a_fork(void)
{
    int status = 0;
    pid_t child;

    make_all();
    child = fork();
    if (child == 0) {
        end_all_without_a_driver();
        _exit(0);
    }
    waitpid(child, &status, 0);
    CHILD_CHECK(status == 0);
    /* The parent sees no effect. */
    CHILD_STATUS(TARN_OK, tarn_resource_deallocate(limiter, blocks[2], 10, 0, NULL));
    CHILD_STATUS(TARN_OK, tarn_resource_deallocate(async, blocks[1], 10, 0, NULL));
    CHILD_STATUS(TARN_OK, tarn_resource_deallocate(cuda, blocks[0], 10, 0, NULL));
    CHILD_STATUS(TARN_OK, tarn_resource_release(limiter));
    CHILD_STATUS(TARN_OK, tarn_resource_release(async));
    CHILD_STATUS(TARN_OK, tarn_resource_release(cuda));
}

TEST(forked_child_may_free_everything)
{
    in_child(free_after_a_fork);
}

static void end_and_leave(void)
{
    end_all_without_a_driver();
    fflush(NULL);
    _exit(0); /* the marker that in_child() looks for: only exit() may reach this line */
}

static void free_at_exit(void)
{
    /* Registered before the driver is opened, so it runs after Tarn has noticed the exit.
     */
    if (atexit(end_and_leave) != 0)
        child_fail("no atexit");
    make_all();
    exit(1);
}

TEST(ending_program_may_free_everything)
{
    in_child(free_at_exit);
}

/* A pool's memory belongs to the device and stays; all other memory ends with the
 * context. */
static void free_after_a_reset(void)
{
    tarn_resource *managed, *pinned;
    tarn_device_ptr managed_block, pinned_block, later;

    CHILD_STATUS(TARN_OK, tarn_cuda_create(0, &cuda));
    CHILD_STATUS(TARN_OK, tarn_managed_create(0, &managed));
    CHILD_STATUS(TARN_OK, tarn_pinned_create(0, &pinned));
    CHILD_STATUS(TARN_OK, tarn_async_create(0, NULL, &async));
    CHILD_STATUS(TARN_OK, tarn_resource_allocate(cuda, 10, 0, NULL, &blocks[0]));
    CHILD_STATUS(TARN_OK, tarn_resource_allocate(async, 10, 0, NULL, &blocks[1]));
    CHILD_STATUS(TARN_OK, tarn_resource_allocate(managed, 10, 0, NULL, &managed_block));
    CHILD_STATUS(TARN_OK, tarn_resource_allocate(pinned, 10, 0, NULL, &pinned_block));
    reset_the_device();
    CHILD_STATUS(TARN_OK, tarn_resource_deallocate(cuda, blocks[0], 10, 0, NULL));
    CHILD_STATUS(TARN_OK, tarn_resource_deallocate(managed, managed_block, 10, 0, NULL));
    CHILD_STATUS(TARN_OK, tarn_resource_deallocate(pinned, pinned_block, 10, 0, NULL));
    CHILD_STATUS(TARN_OK, tarn_resource_deallocate(async, blocks[1], 10, 0, NULL));
    CHILD_CHECK(tarn_resource_live_blocks(cuda) == 0);
    /* The device works as before. */
    CHILD_STATUS(TARN_OK, tarn_resource_allocate(cuda, 10, 0, NULL, &later));
    CHILD_STATUS(TARN_OK, tarn_memset_async(0, later, 7, 10, TARN_STREAM_NONE));
    CHILD_STATUS(TARN_OK, tarn_resource_deallocate(cuda, later, 10, 0, NULL));
    CHILD_STATUS(TARN_OK, tarn_resource_release(async));
    CHILD_STATUS(TARN_OK, tarn_resource_release(cuda));
    CHILD_STATUS(TARN_OK, tarn_resource_release(managed));
    CHILD_STATUS(TARN_OK, tarn_resource_release(pinned));
}

TEST(blocks_of_a_reset_context_may_be_freed)
{
    in_child(free_after_a_reset);
}
