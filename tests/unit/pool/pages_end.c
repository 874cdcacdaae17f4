/* Test a pool's memory after a fork, at exit, after a reset of the context, and after the
 * loss of the device. */
#define _GNU_SOURCE
#include "memory.h"
#include "child.h"
#include "driver_calls.h"
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static struct tarn__pages *vmm, *on_cuda;
static tarn_resource *cuda;
static struct tarn__span segment, kept, got;
static bool has_peer;

static void make_both(void)
{
    has_peer = has_second_device();
    CHILD_STATUS(TARN_OK, tarn_cuda_create(0, &cuda));
    CHILD_STATUS(TARN_OK, tarn__pages_open(0, NULL, 0, &vmm));
    CHILD_STATUS(TARN_OK, tarn__pages_open(0, cuda, 0, &on_cuda));
    CHILD_STATUS(TARN_OK, tarn__pages_grow(vmm, page_at(vmm, 0), 4 * PAGE, NULL, &got));
    CHILD_STATUS(TARN_OK, tarn__pages_grow(on_cuda, 0, 4 * PAGE, NULL, &segment));
    kept = span_at(vmm, 1, 1);
}

static void end_both_without_a_driver(void)
{
    CHILD_STATUS(TARN_DRIVER_FAILURE,
                 tarn__pages_grow(vmm, page_at(vmm, 8), PAGE, NULL, &got));
    CHILD_MESSAGE("the driver of device 0 can no longer be called");
    CHILD_STATUS(TARN_DRIVER_FAILURE, tarn__pages_grow(on_cuda, 0, PAGE, NULL, &got));
    CHILD_STATUS(TARN_DRIVER_FAILURE, tarn__pages_suspend(vmm, &kept, 1));
    CHILD_STATUS(TARN_DRIVER_FAILURE, tarn__pages_wait_for_device(vmm));
    CHILD_STATUS(TARN_DRIVER_FAILURE,
                 tarn__pages_move(vmm, &kept, 1, 1, page_at(vmm, 9)));
    if (has_peer)
        CHILD_STATUS(TARN_DRIVER_FAILURE, tarn__pages_set_peer(vmm, 1, true));
    CHILD_STATUS(TARN_OK, tarn__pages_remove(vmm, span_at(vmm, 0, 2)));
    CHILD_STATUS(TARN_OK, tarn__pages_remove(on_cuda, segment));
    CHILD_CHECK(tarn__pages_reserved(vmm) == 2 * PAGE);
    CHILD_CHECK(tarn__pages_reserved(on_cuda) == 0);
    tarn__pages_close(vmm);
    tarn__pages_close(on_cuda);
    CHILD_STATUS(TARN_OK, tarn_resource_release(cuda));
}

static void give_back_after_a_fork(void)
{
    unsigned long long live;
    int status = 0;
    pid_t child;

    make_both();
    live = live_bytes();
    child = fork();
    if (child == 0) {
        end_both_without_a_driver();
        _exit(0);
    }
    waitpid(child, &status, 0);
    CHILD_CHECK(status == 0);
    CHILD_CHECK(live_bytes() == live); /* the parent sees no effect */
    CHILD_STATUS(TARN_OK, tarn_memset_async(0, page_at(vmm, 3), 1, 8, TARN_STREAM_NONE));
    CHILD_STATUS(TARN_OK, tarn_driver_synchronize(0));
    tarn__pages_close(vmm);
    tarn__pages_close(on_cuda);
    CHILD_CHECK(live_bytes() == 0);
}

TEST(pages_may_be_closed_in_a_forked_child)
{
    in_child(give_back_after_a_fork);
}

static void end_and_leave(void)
{
    end_both_without_a_driver();
    fflush(NULL);
    _exit(0); /* the marker that in_child() looks for: only exit() may reach this line */
}

static void give_back_at_exit(void)
{
    /* Registered before the driver is opened, so it runs after Tarn has noticed the exit.
     */
    if (atexit(end_and_leave) != 0)
        child_fail("no atexit");
    make_both();
    exit(1);
}

TEST(pages_may_be_closed_when_the_program_ends)
{
    in_child(give_back_at_exit);
}

static bool has_context(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    int (*state)(int, unsigned *, int *) =
        (int (*)(int, unsigned *, int *))dlsym(library, "cuDevicePrimaryCtxGetState");
    unsigned flags;
    int active = -1;

    CHILD_CHECK(state && state(0, &flags, &active) == 0);
    return active != 0;
}

/* Physical memory outlives the context, and the pool creates no new context to return it.
 */
static void give_back_after_a_reset(void)
{
    make_both();
    reset_the_device();
    CHILD_CHECK(!on_sim() || sim_live_bytes() >= 4 * PAGE);
    CHILD_STATUS(TARN_DRIVER_FAILURE,
                 tarn__pages_grow(vmm, page_at(vmm, 8), PAGE, NULL, &got));
    CHILD_MESSAGE("the context of device 0 was reset");
    CHILD_STATUS(TARN_DRIVER_FAILURE, tarn__pages_suspend(vmm, &kept, 1));
    CHILD_STATUS(TARN_DRIVER_FAILURE, tarn__pages_wait_for_device(vmm));
    CHILD_STATUS(TARN_OK, tarn__pages_remove(vmm, span_at(vmm, 0, 2)));
    CHILD_STATUS(TARN_OK, tarn__pages_remove(on_cuda, segment));
    tarn__pages_close(vmm);
    tarn__pages_close(on_cuda);
    CHILD_CHECK(!has_context());
    CHILD_CHECK(live_bytes() == 0);
    CHILD_STATUS(TARN_OK, tarn_resource_release(cuda));
}

TEST(pages_go_back_after_a_reset)
{
    in_child(give_back_after_a_reset);
}

/* The kept bytes ended with the context, and another allocation may have their address by
 * now. */
static void wake_after_a_reset(void)
{
    make_both();
    CHILD_STATUS(TARN_OK, tarn__pages_suspend(vmm, &kept, 1));
    reset_the_device();
    CHILD_STATUS(TARN_DRIVER_FAILURE, tarn__pages_resume(vmm));
    CHILD_CHECK(tarn__pages_suspended(vmm) == 4 * PAGE);
    tarn__pages_close(vmm);
    tarn__pages_close(on_cuda);
    CHILD_CHECK(live_bytes() == 0);
}

TEST(pages_do_not_wake_after_a_reset)
{
    in_child(wake_after_a_reset);
}

static void use_a_lost_device(void)
{
    make_both();
    if (!on_sim())
        return;
    sim_configure("lost=1");
    CHILD_STATUS(TARN_DRIVER_FAILURE,
                 tarn__pages_grow(vmm, page_at(vmm, 8), PAGE, NULL, &got));
    CHILD_STATUS(TARN_DRIVER_FAILURE, tarn__pages_suspend(vmm, &kept, 1));
    CHILD_STATUS(TARN_DRIVER_FAILURE, tarn__pages_wait_for_device(vmm));
    CHILD_STATUS(TARN_DRIVER_FAILURE,
                 tarn__pages_move(vmm, &kept, 1, 1, page_at(vmm, 9)));
    CHILD_STATUS(TARN_DRIVER_FAILURE, tarn__pages_remove(vmm, span_at(vmm, 0, 2)));
    CHILD_CHECK(tarn__pages_reserved(vmm) == 4 * PAGE);
    tarn__pages_close(vmm);
    tarn__pages_close(on_cuda);
}

/* The test may not query the driver before the child, because the child has to open its
 * own. */
TEST(pages_of_a_lost_device_are_refused_in_words)
{
    in_child(use_a_lost_device);
}
