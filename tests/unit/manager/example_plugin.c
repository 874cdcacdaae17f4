/* Load the plugin of examples/plugins, and check its documented behaviour.
 *
 * Each test is a process of its own, as a plugin stays loaded.
 */
#define _GNU_SOURCE
#include "test.h"
#include "child.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CACHED_MAX = 16 };

static tarn_manager *manager;

static void load(void)
{
    const tarn_manager_ops *ops;
    char path[600];

    snprintf(path, sizeof path, "%s/examples/cache_manager.so", getenv("TARN_BUILD"));
    CHILD_STATUS(TARN_OK, tarn_manager_load(path, NULL, &ops));
    CHILD_STATUS(TARN_OK, tarn_set_memory_manager(ops, NULL));
    CHILD_STATUS(TARN_OK, tarn_memory_manager(0, &manager));
    CHILD_CHECK(strcmp(tarn_manager_name(manager), "cache") == 0);
}

static tarn_pointer *allocate(size_t bytes)
{
    tarn_pointer *pointer;

    CHILD_STATUS(TARN_OK,
                 tarn_manager_memalloc(manager, bytes, TARN_STREAM_NONE, &pointer));
    CHILD_STATUS(TARN_OK, tarn_memset_async(0, tarn_pointer_address(pointer), 7, bytes,
                                            TARN_STREAM_LEGACY));
    return pointer;
}

/* The number of bytes that the driver has allocated. */
static size_t live_blocks(void)
{
    tarn_resource *cuda;

    CHILD_STATUS(TARN_OK, tarn_cuda_create(0, &cuda));
    size_t count = tarn_resource_live_blocks(cuda);
    tarn_resource_release(cuda);
    return count;
}

static void give_same_block_again(void)
{
    load();
    tarn_pointer *pointer = allocate(1000), *view;
    tarn_device_ptr address = tarn_pointer_address(pointer);
    CHILD_STATUS(TARN_OK, tarn_pointer_view(pointer, 500, 100, &view));
    tarn_pointer_release(pointer);
    pointer = allocate(1000); /* the view still has the first one */
    CHILD_CHECK(tarn_pointer_address(pointer) != address);
    tarn_pointer_release(pointer);
    tarn_pointer_release(view);
    pointer = allocate(1000); /* the last one that was freed */
    CHILD_CHECK(tarn_pointer_address(pointer) == address);
    tarn_pointer_release(pointer);
    tarn_pointer_release(allocate(2000));
    CHILD_CHECK(live_blocks() == 3);
    CHILD_STATUS(TARN_OK, tarn_manager_reset(manager));
    CHILD_CHECK(live_blocks() == 0);
    tarn_pointer_release(allocate(1000)); /* and on */
    CHILD_CHECK(live_blocks() == 1);
}

TEST(plugin_keeps_blocks_until_it_is_reset)
{
    in_child(give_same_block_again);
}

static void release_many(void)
{
    tarn_pointer *pointers[20];

    for (int i = 0; i < 20; i++)
        pointers[i] = allocate(1000);
    for (int i = 0; i < 20; i++)
        tarn_pointer_release(pointers[i]);
}

static void defer_cleanup(void)
{
    load();
    release_many();
    CHILD_CHECK(live_blocks() == CACHED_MAX);
    CHILD_STATUS(TARN_OK, tarn_manager_defer_cleanup_begin(manager));
    CHILD_STATUS(TARN_OK, tarn_manager_defer_cleanup_begin(manager));
    release_many();
    CHILD_STATUS(TARN_OK, tarn_manager_defer_cleanup_end(manager));
    CHILD_CHECK(live_blocks() == 20);
    CHILD_STATUS(TARN_OK, tarn_manager_defer_cleanup_end(manager));
    CHILD_CHECK(live_blocks() == CACHED_MAX);
}

TEST(plugin_keeps_everything_while_cleanup_is_deferred)
{
    in_child(defer_cleanup);
}

static void reset_the_context(void)
{
    load();
    tarn_pointer *before = allocate(1000), *after;
    tarn_pointer_release(allocate(3000));
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    int (*reset)(int) = (int (*)(int))dlsym(library, "cuDevicePrimaryCtxReset_v2");
    CHILD_CHECK(reset && reset(0) == 0);
    after = allocate(3000); /* not the cached one: that is gone */
    tarn_pointer_release(before);
    tarn_pointer_release(allocate(1000));
    tarn_pointer_release(after);
    CHILD_STATUS(TARN_OK, tarn_manager_reset(manager));
    CHILD_CHECK(live_blocks() == 0);
    CHILD_CHECK(tarn_pointer_deferred_count() == 0);
}

TEST(plugin_forgets_memory_of_a_lost_context)
{
    in_child(reset_the_context);
}

static tarn_pointer *live_pointer;

static void end_and_leave(void)
{
    tarn_pointer_release(live_pointer);
    CHILD_STATUS(TARN_OK, tarn_manager_reset(manager));
    _exit(0);
}

static void exit_with_one_live(void)
{
    /* Registered before the driver is opened, so it runs after Tarn has noticed the exit.
     */
    if (atexit(end_and_leave) != 0)
        child_fail("no atexit");
    load();
    live_pointer = allocate(1000);
    tarn_pointer_release(allocate(2000));
    exit(1);
}

TEST(plugin_accepts_frees_when_exit_has_begun)
{
    in_child(exit_with_one_live);
}

static void fork_with_one_live(void)
{
    int status = 0;

    load();
    live_pointer = allocate(1000);
    pid_t child = fork();
    if (child == 0) {
        tarn_pointer_release(live_pointer);
        CHILD_STATUS(TARN_OK, tarn_manager_reset(manager));
        _exit(0);
    }
    CHILD_CHECK(waitpid(child, &status, 0) == child && status == 0);
    tarn_pointer_release(live_pointer);
    CHILD_CHECK(live_blocks() == 1);
}

TEST(plugin_accepts_frees_in_a_forked_child)
{
    in_child(fork_with_one_live);
}

enum { THREADS = 4, ROUNDS = 100 };

static void *come_and_go(void *data)
{
    size_t bytes = *(size_t *)data;

    for (int i = 0; i < ROUNDS; i++) {
        if (i % 10 == 0)
            CHILD_STATUS(TARN_OK, tarn_manager_defer_cleanup_begin(manager));
        tarn_pointer_release(allocate(bytes));
        if (i % 10 == 0)
            CHILD_STATUS(TARN_OK, tarn_manager_defer_cleanup_end(manager));
        if (i % 50 == 0)
            CHILD_STATUS(TARN_OK, tarn_manager_reset(manager));
    }
    return NULL;
}

static void share_between_threads(void)
{
    pthread_t threads[THREADS];
    size_t bytes[THREADS] = {100, 100, 200, 300};

    load();
    for (int i = 0; i < THREADS; i++)
        CHILD_CHECK(pthread_create(&threads[i], NULL, come_and_go, &bytes[i]) == 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    CHILD_STATUS(TARN_OK, tarn_manager_reset(manager));
    CHILD_CHECK(live_blocks() == 0);
}

TEST(plugin_is_shared_by_threads)
{
    in_child(share_between_threads);
}
