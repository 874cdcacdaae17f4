/* Test the manager over resources: the resource that serves, its waits, and its deferred
 * frees. */
#define _GNU_SOURCE
#include "cu.h"
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* A resource over real memory with properties and failures that the test chooses. */
struct shell {
    tarn_resource *below; /* retained */
    bool deallocate_synchronizes;
    bool supports_no_stream; /* as far as its waiting free allows */
    int frees;
    int full;          /* this many of the next allocations are out of memory */
    int failing_frees; /* this many of the next frees fail */
    int trims;
    atomic_int *done; /* must be set before a free comes; NULL: do not check */
    int too_early;
};

static tarn_status shell_allocate(void *self, size_t bytes, size_t alignment,
                                  tarn_stream stream, tarn_device_ptr *out)
{
    struct shell *shell = self;

    if (shell->full > 0) {
        shell->full--;
        return tarn_error_set(TARN_OUT_OF_MEMORY, "shell: full");
    }
    return tarn_resource_allocate(shell->below, bytes, alignment, stream, out);
}

static tarn_status shell_deallocate(void *self, tarn_device_ptr block, size_t bytes,
                                    size_t alignment, tarn_stream stream)
{
    struct shell *shell = self;

    if (shell->failing_frees > 0) {
        shell->failing_frees--;
        return tarn_error_set(TARN_DRIVER_FAILURE, "shell: keep your %zu bytes", bytes);
    }
    shell->frees++;
    if (shell->done && !atomic_load(shell->done))
        shell->too_early++;
    return tarn_resource_deallocate(shell->below, block, bytes, alignment, stream);
}

static void shell_destroy(void *self)
{
    tarn_resource_release(((struct shell *)self)->below);
}

static bool shell_deallocate_synchronizes(const void *self)
{
    return ((const struct shell *)self)->deallocate_synchronizes;
}

static bool shell_supports_no_stream(const void *self)
{
    const struct shell *shell = self;

    return shell->supports_no_stream || shell->deallocate_synchronizes;
}

static tarn_status shell_trim(void *self, size_t keep_bytes, size_t *released_out)
{
    ((struct shell *)self)->trims++;
    return tarn_resource_trim(((struct shell *)self)->below, keep_bytes, released_out);
}

/* Put an adaptor around `below`, whose reference it takes, and make it current for device
 * 0. */
static void install(struct shell *shell, tarn_resource *below)
{
    static const tarn_resource_ops ops = {.size = sizeof ops,
                                          .name = "shell",
                                          .allocate = shell_allocate,
                                          .deallocate = shell_deallocate,
                                          .destroy = shell_destroy,
                                          .deallocate_synchronizes =
                                              shell_deallocate_synchronizes,
                                          .trim = shell_trim,
                                          .supports_no_stream = shell_supports_no_stream};
    tarn_resource *resource;

    shell->below = below;
    CHECK_OK(tarn_resource_create(&ops, shell, 0, &resource));
    CHECK_OK(tarn_device_set_resource(0, resource, NULL));
    CHECK_OK(tarn_resource_release(resource));
}

static tarn_resource *cuda(void)
{
    tarn_resource *resource;

    CHECK_OK(tarn_cuda_create(0, &resource));
    return resource;
}

static void uninstall(void)
{
    CHECK_OK(tarn_device_set_resource(0, NULL, NULL));
}

static tarn_manager *make(void)
{
    tarn_manager *manager;

    CHECK_OK(tarn_manager_create(tarn_resource_manager_ops(), NULL, 0, &manager));
    return manager;
}

static tarn_pointer *allocate(tarn_manager *manager, size_t bytes)
{
    tarn_pointer *pointer;

    CHECK_OK(tarn_manager_memalloc(manager, bytes, TARN_STREAM_NONE, &pointer));
    return pointer;
}

TEST(manager_serves_memory_that_can_be_used)
{
    tarn_manager *manager = make();
    tarn_pointer *pointer = allocate(manager, 1000);
    unsigned char bytes[1000] = {0};

    CHECK_OK(tarn_memset_async(0, tarn_pointer_address(pointer), 0xa5, 1000,
                               TARN_STREAM_LEGACY));
    CHECK_OK(tarn_memcpy_async(0, (tarn_device_ptr)(uintptr_t)bytes,
                               tarn_pointer_address(pointer), 1000, TARN_STREAM_NONE));
    CHECK_EQUAL(0xa5, bytes[0]);
    CHECK_EQUAL(0xa5, bytes[999]);
    tarn_pointer_release(pointer);
    tarn_manager_release(manager);
}

TEST(manager_allocates_from_the_current_device_resource)
{
    struct shell one = {.deallocate_synchronizes = true},
                 other = {.deallocate_synchronizes = true};
    tarn_manager *manager = make();

    install(&one, cuda());
    tarn_pointer *first = allocate(manager, 100);
    install(&other, cuda());
    tarn_pointer *second = allocate(manager, 100);
    tarn_pointer_release(first);
    CHECK_EQUAL(1, one.frees);
    CHECK_EQUAL(0, other.frees);
    tarn_pointer_release(second);
    CHECK_EQUAL(1, other.frees);
    uninstall();
    tarn_manager_release(manager);
}

TEST(pointer_outlives_its_manager_and_a_reset)
{
    tarn_manager *manager = make();
    tarn_pointer *pointer = allocate(manager, 64);
    unsigned char byte = 0;

    CHECK_OK(tarn_manager_reset(manager));
    tarn_manager_release(manager);
    CHECK_OK(
        tarn_memset_async(0, tarn_pointer_address(pointer), 7, 64, TARN_STREAM_LEGACY));
    CHECK_OK(tarn_memcpy_async(0, (tarn_device_ptr)(uintptr_t)&byte,
                               tarn_pointer_address(pointer), 1, TARN_STREAM_NONE));
    CHECK_EQUAL(7, byte);
    tarn_pointer_release(pointer);
}

TEST(reset_may_come_before_initialize_and_trims)
{
    struct shell shell = {.deallocate_synchronizes = true};
    tarn_manager *manager = make();

    install(&shell, cuda());
    CHECK(current_context() == NULL);
    CHECK_OK(tarn_manager_reset(manager));
    CHECK_EQUAL(1, shell.trims);
    tarn_pointer_release(allocate(manager, 8));
    CHECK_OK(tarn_manager_reset(manager));
    uninstall();
    tarn_manager_release(manager);
}

TEST(initialize_makes_no_driver_call_but_for_the_context)
{
    tarn_manager *manager = make();

    if (on_sim()) {
        CHECK_OK(tarn_manager_initialize(manager));
        unsigned long long before = sim_calls();
        for (int i = 0; i < 1000; i++)
            CHECK_OK(tarn_manager_initialize(manager));
        CHECK(sim_calls() - before <= 1000); /* the context's id */
    }
    tarn_manager_release(manager);
}

TEST(memory_info_is_the_devices)
{
    tarn_manager *manager = make();
    size_t free_before, free_after, total;
    tarn_device_info info;

    CHECK_OK(tarn_driver_device_info(0, &info));
    CHECK_OK(tarn_manager_get_memory_info(manager, &free_before, &total));
    CHECK_EQUAL(info.total_bytes, total);
    tarn_pointer *pointer = allocate(manager, 1 << 20);
    CHECK_OK(tarn_manager_get_memory_info(manager, &free_after, &total));
    CHECK(free_before <= total);
    if (on_sim())
        CHECK(free_after + (1 << 20) <= free_before);
    tarn_pointer_release(pointer);
    tarn_manager_release(manager);
}

TEST(memory_info_is_the_devices_where_the_resource_has_none)
{
    struct shell shell = {.deallocate_synchronizes = true};
    tarn_manager *manager = make();
    size_t free_bytes, total, devices_total;

    CHECK_OK(tarn_manager_get_memory_info(manager, &free_bytes, &devices_total));
    install(&shell, cuda());
    CHECK_OK(tarn_manager_get_memory_info(manager, &free_bytes, &total));
    CHECK_EQUAL(devices_total, total);
    uninstall();
    tarn_manager_release(manager);
}

/* Work on a stream that no default stream waits for, slow enough to be late. */
static void finish_late(void *done)
{
    struct timespec while_ = {.tv_nsec = 30 * 1000 * 1000};

    nanosleep(&while_, NULL);
    atomic_store((atomic_int *)done, 1);
}

/* Work that is not done before the test completes it. */
static void finish_when_released(void *released)
{
    struct timespec while_ = {.tv_nsec = 1000 * 1000};

    while (!atomic_load((atomic_int *)released))
        nanosleep(&while_, NULL);
}

static void *queue_work(void (*call)(void *), atomic_int *data)
{
    int (*create)(void **, unsigned) =
        (int (*)(void **, unsigned))driver_call("cuStreamCreate");
    int (*launch)(void *, void (*)(void *), void *) =
        (int (*)(void *, void (*)(void *), void *))driver_call("cuLaunchHostFunc");
    void *stream;

    enter_context();
    CHECK_EQUAL(0, create(&stream, 1));
    CHECK_EQUAL(0, launch(stream, call, data));
    leave_context();
    return stream;
}

static void *queue_late_work(atomic_int *done)
{
    return queue_work(finish_late, done);
}

static void end_stream(void *stream)
{
    int (*destroy)(void *) = (int (*)(void *))driver_call("cuStreamDestroy_v2");

    CHECK_OK(tarn_stream_synchronize(0, stream));
    CHECK_EQUAL(0, destroy(stream));
}

TEST(release_without_a_stream_waits_for_work_on_every_stream)
{
    atomic_int done = 0;
    struct shell shell = {.deallocate_synchronizes = false, .done = &done};
    tarn_manager *manager = make();

    install(&shell, cuda());
    tarn_pointer *pointer = allocate(manager, 100);
    void *stream = queue_late_work(&done);
    tarn_pointer_release(pointer);
    CHECK_EQUAL(1, shell.frees);
    CHECK_EQUAL(0, shell.too_early);
    end_stream(stream);
    uninstall();
    tarn_manager_release(manager);
}

TEST(no_stream_allocation_has_no_pending_work)
{
    atomic_int done = 0;
    struct shell shell = {.deallocate_synchronizes = false};
    tarn_manager *manager = make();

    install(&shell, cuda());
    void *stream = queue_late_work(&done);
    tarn_pointer *pointer = allocate(manager, 100);
    CHECK_EQUAL(1, done);
    tarn_pointer_release(pointer);
    end_stream(stream);
    uninstall();
    tarn_manager_release(manager);
}

TEST(memory_of_the_drivers_pool_is_ready_for_every_stream)
{
    tarn_resource *resource;
    tarn_manager *manager = make();
    tarn_device_info info;
    unsigned char bytes[256];

    CHECK_OK(tarn_driver_device_info(0, &info));
    CHECK(info.has_memory_pools);
    CHECK_OK(tarn_async_create(0, NULL, &resource));
    CHECK_OK(tarn_device_set_resource(0, resource, NULL));
    for (int i = 1; i < 50; i++) {
        tarn_pointer *pointer = allocate(manager, sizeof bytes);
        CHECK_OK(tarn_memset_async(0, tarn_pointer_address(pointer), (unsigned char)i,
                                   sizeof bytes, TARN_STREAM_PER_THREAD));
        CHECK_OK(tarn_memcpy_async(0, (tarn_device_ptr)(uintptr_t)bytes,
                                   tarn_pointer_address(pointer), sizeof bytes,
                                   TARN_STREAM_PER_THREAD));
        CHECK_OK(tarn_stream_synchronize(0, TARN_STREAM_PER_THREAD));
        CHECK_EQUAL(i, bytes[255]);
        tarn_pointer_release(pointer);
    }
    uninstall();
    CHECK_OK(tarn_resource_release(resource));
    tarn_manager_release(manager);
}

TEST(deferred_cleanup_keeps_frees_that_would_wait_until_the_last_end)
{
    struct shell shell = {.deallocate_synchronizes = true};
    tarn_manager *manager = make();

    install(&shell, cuda());
    tarn_pointer *one = allocate(manager, 100), *other = allocate(manager, 100);
    CHECK_OK(tarn_manager_defer_cleanup_begin(manager));
    CHECK_OK(tarn_manager_defer_cleanup_begin(manager));
    tarn_pointer_release(one);
    tarn_pointer_release(other);
    CHECK_EQUAL(0, shell.frees);
    CHECK_EQUAL(2, tarn_pointer_deferred_count());
    CHECK_OK(tarn_manager_defer_cleanup_end(manager));
    CHECK_EQUAL(0, shell.frees);
    CHECK_OK(tarn_manager_defer_cleanup_end(manager));
    CHECK_EQUAL(2, shell.frees);
    CHECK_EQUAL(0, tarn_pointer_deferred_count());
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_manager_defer_cleanup_end(manager));
    CHECK_MESSAGE("without a matching defer_cleanup_begin");
    uninstall();
    tarn_manager_release(manager);
}

static tarn_deferred_frees deferred(void)
{
    tarn_deferred_frees frees = {.size = sizeof frees};

    CHECK_OK(tarn_pointer_deferred_frees(&frees));
    return frees;
}

TEST(deferred_cleanup_that_cannot_free_reports_it_and_has_ended)
{
    struct shell shell = {.deallocate_synchronizes = true};
    tarn_manager *manager = make();

    install(&shell, cuda());
    CHECK_OK(tarn_manager_defer_cleanup_begin(manager));
    for (int i = 0; i < 2; i++)
        tarn_pointer_release(allocate(manager, 100));
    CHECK_EQUAL(2, deferred().waiting_count);
    CHECK_EQUAL(200, deferred().waiting_bytes);
    CHECK_EQUAL(0, deferred().failed_count);
    shell.failing_frees = 1;
    CHECK_STATUS(TARN_DRIVER_FAILURE, tarn_manager_defer_cleanup_end(manager));
    CHECK_MESSAGE("shell: keep your 100 bytes");
    CHECK_EQUAL(1, deferred().failed_count);
    CHECK_EQUAL(100, deferred().failed_bytes);
    CHECK_EQUAL(0, deferred().waiting_count);
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_manager_defer_cleanup_end(manager));

    /* A failure that was reported before does not belong to this end. */
    CHECK_OK(tarn_manager_defer_cleanup_begin(manager));
    shell.failing_frees = 1;
    CHECK_OK(tarn_manager_defer_cleanup_end(manager));
    CHECK_EQUAL(1, deferred().failed_count);
    CHECK_OK(tarn_pointer_reclaim_deferred());
    CHECK_EQUAL(0, deferred().failed_count);
    uninstall();
    tarn_manager_release(manager);
}

TEST(deferred_cleanup_frees_at_once_if_the_free_does_not_wait)
{
    struct shell shell = {.deallocate_synchronizes = false};
    tarn_manager *manager = make();
    tarn_pointer *pointer;

    install(&shell, cuda());
    CHECK_OK(tarn_manager_memalloc(manager, 100, TARN_STREAM_LEGACY, &pointer));
    CHECK_OK(tarn_manager_defer_cleanup_begin(manager));
    tarn_pointer_release(pointer);
    CHECK_EQUAL(1, shell.frees);
    CHECK_OK(tarn_manager_defer_cleanup_end(manager));
    uninstall();
    tarn_manager_release(manager);
}

TEST(deferred_cleanup_keeps_no_memory_of_resources_that_support_no_stream)
{
    struct shell shell = {.supports_no_stream = true};
    tarn_manager *manager = make();

    install(&shell, cuda());
    tarn_pointer *pointer = allocate(manager, 100);
    CHECK_OK(tarn_manager_defer_cleanup_begin(manager));
    tarn_pointer_release(pointer);
    CHECK_EQUAL(1, shell.frees);
    CHECK_OK(tarn_manager_defer_cleanup_end(manager));
    uninstall();
    tarn_manager_release(manager);
}

TEST(release_to_a_resource_that_supports_no_stream_does_not_wait)
{
    atomic_int released = 0;
    struct shell shell = {.supports_no_stream = true};
    tarn_manager *manager = make();
    tarn_resource *pool;

    CHECK_OK(tarn_pool_create(0, NULL, NULL, &pool));
    install(&shell, pool);
    tarn_pointer *pointer = allocate(manager, 100);
    void *stream = queue_work(finish_when_released, &released);
    tarn_pointer_release(pointer);
    pointer = allocate(manager, 100);
    atomic_store(&released, 1); /* this call returns, though the work is not done */
    tarn_pointer_release(pointer);
    end_stream(stream);
    uninstall();
    tarn_manager_release(manager);
}

TEST(deferred_cleanup_ends_where_memory_runs_out)
{
    struct shell shell = {.deallocate_synchronizes = true};
    tarn_manager *manager = make();

    install(&shell, cuda());
    tarn_pointer *pointer = allocate(manager, 100);
    CHECK_OK(tarn_manager_defer_cleanup_begin(manager));
    tarn_pointer_release(pointer);
    shell.full = 1;
    pointer = allocate(manager, 100);
    CHECK_EQUAL(1, shell.frees);
    CHECK_OK(tarn_manager_defer_cleanup_end(manager));
    tarn_pointer_release(pointer);
    uninstall();
    tarn_manager_release(manager);
}

/* Return 0 if everything is as expected, else the number of the failed step. */
static int use_in_child(tarn_manager *manager, tarn_pointer *pointer)
{
    tarn_pointer *none = NULL;

    tarn_pointer_release(pointer);
    if (tarn_pointer_deferred_count() != 0)
        return 1;
    if (tarn_manager_reset(manager) != TARN_OK)
        return 2;
    if (tarn_manager_memalloc(manager, 8, TARN_STREAM_NONE, &none) != TARN_DRIVER_FAILURE)
        return 3;
    if (!strstr(tarn_error_last()->message, "forked child"))
        return 4;
    if (tarn_manager_defer_cleanup_end(manager) != TARN_OK)
        return 5;
    tarn_manager_release(manager);
    return 0;
}

TEST(forked_child_frees_nothing_and_gets_an_error)
{
    tarn_manager *manager = make();
    tarn_pointer *pointer = allocate(manager, 100);
    int how = -1;

    CHECK_OK(tarn_manager_defer_cleanup_begin(manager));
    pid_t child = fork();
    if (child == 0)
        _exit(use_in_child(manager, pointer));
    CHECK(child > 0);
    CHECK_EQUAL(child, waitpid(child, &how, 0));
    CHECK(WIFEXITED(how));
    CHECK_EQUAL(0, WEXITSTATUS(how));
    CHECK_OK(tarn_manager_defer_cleanup_end(manager));
    tarn_pointer_release(pointer);
    tarn_manager_release(manager);
}
