/* Test one manager with many threads: allocations, deferred cleanup and resets at once,
 * while some frees fail.
 *
 * TSan reports unordered accesses.
 */
#define _GNU_SOURCE
#include "test.h"
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { THREADS = 4, ROUNDS = 300 };

/* A resource over another one that fails every seventh free. */
struct moody {
    tarn_resource *below; /* retained */
    atomic_int frees;
};

static tarn_status moody_allocate(void *self, size_t bytes, size_t alignment,
                                  tarn_stream stream, tarn_device_ptr *out)
{
    return tarn_resource_allocate(((struct moody *)self)->below, bytes, alignment, stream,
                                  out);
}

static tarn_status moody_deallocate(void *self, tarn_device_ptr block, size_t bytes,
                                    size_t alignment, tarn_stream stream)
{
    struct moody *moody = self;

    if (atomic_fetch_add(&moody->frees, 1) % 7 == 0)
        return tarn_error_set(TARN_DRIVER_FAILURE, "moody: not now");
    return tarn_resource_deallocate(moody->below, block, bytes, alignment, stream);
}

static void moody_destroy(void *self)
{
    tarn_resource_release(((struct moody *)self)->below);
}

static bool moody_deallocate_synchronizes(const void *self)
{
    (void)self;
    return true;
}

static void install(struct moody *moody)
{
    static const tarn_resource_ops ops = {.size = sizeof ops,
                                          .name = "moody",
                                          .allocate = moody_allocate,
                                          .deallocate = moody_deallocate,
                                          .destroy = moody_destroy,
                                          .deallocate_synchronizes =
                                              moody_deallocate_synchronizes};
    tarn_resource *resource;

    CHECK_OK(tarn_cuda_create(0, &moody->below));
    CHECK_OK(tarn_resource_create(&ops, moody, 0, &resource));
    CHECK_OK(tarn_device_set_resource(0, resource, NULL));
    CHECK_OK(tarn_resource_release(resource));
}

static void *work(void *data)
{
    tarn_manager *manager = data;
    tarn_pointer *pointer, *view;

    for (int i = 0; i < ROUNDS; i++) {
        CHECK_OK(tarn_manager_initialize(manager));
        CHECK_OK(tarn_manager_memalloc(manager, 512, TARN_STREAM_NONE, &pointer));
        CHECK_OK(tarn_pointer_view(pointer, 100, 100, &view));
        if (i % 3 == 0)
            CHECK_OK(tarn_manager_defer_cleanup_begin(manager));
        tarn_pointer_release(pointer);
        tarn_pointer_release(view);
        if (i % 3 == 0 && tarn_manager_defer_cleanup_end(manager) != TARN_OK)
            CHECK_MESSAGE("moody: not now"); /* it ended, a free failed */
        if (i % 50 == 0)
            (void)tarn_manager_reset(manager); /* may report a free that fails again */
    }
    tarn_manager_release(manager);
    return NULL;
}

TEST(manager_shared_by_threads_frees_everything)
{
    struct moody moody = {.below = NULL};
    tarn_manager *manager;
    tarn_runtime_counts counts;
    pthread_t threads[THREADS];

    install(&moody);
    CHECK_OK(tarn_manager_create(tarn_resource_manager_ops(), NULL, 0, &manager));
    for (int i = 0; i < THREADS; i++)
        CHECK_EQUAL(
            0, pthread_create(&threads[i], NULL, work, tarn_manager_retain(manager)));
    tarn_manager_release(manager);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    while (tarn_pointer_reclaim_deferred() != TARN_OK)
        ;
    CHECK_EQUAL(0, tarn_pointer_deferred_count());
    tarn_pointer_counts(&counts);
    CHECK_EQUAL(2 * THREADS * ROUNDS, counts.created);
    CHECK_EQUAL(counts.created, counts.destroyed);
    CHECK_EQUAL(0, tarn_resource_live_blocks(moody.below));
    CHECK_OK(tarn_device_set_resource(0, NULL, NULL));
}

/* --- threads that meet at the first call --- */

/* A plugin whose first initialize() ends when another thread sleeps in its own call of the
 * manager, or is in initialize(), too. */
struct slow {
    tarn_manager *manager;
    pthread_t thread;        /* calls the manager meanwhile */
    atomic_int thread_id;    /* 0 before it begins */
    atomic_int initializing; /* calls of initialize() */
};

static bool is_asleep(int thread)
{
    char path[64], line[256] = "";

    snprintf(path, sizeof path, "/proc/self/task/%d/stat", thread);
    FILE *file = fopen(path, "r");
    if (!file)
        return false; /* it has not begun */
    CHECK(fgets(line, sizeof line, file) != NULL);
    fclose(file);
    const char *end_of_name = strrchr(line, ')');
    return end_of_name && end_of_name[2] == 'S';
}

static void *initialize_too(void *data)
{
    struct slow *slow = data;

    atomic_store(&slow->thread_id, (int)syscall(SYS_gettid));
    CHECK_OK(tarn_manager_initialize(slow->manager));
    return NULL;
}

static tarn_status slow_create(void *config, int device, void *context, void **self_out)
{
    (void)device;
    (void)context;
    *self_out = config;
    return TARN_OK;
}

static void slow_destroy(void *self)
{
    (void)self;
}

static tarn_status slow_initialize(void *self)
{
    struct slow *slow = self;

    if (atomic_fetch_add(&slow->initializing, 1) != 0)
        return TARN_OK;
    CHECK_EQUAL(0, pthread_create(&slow->thread, NULL, initialize_too, slow));
    while (atomic_load(&slow->initializing) == 1 &&
           !is_asleep(atomic_load(&slow->thread_id)))
        sched_yield();
    return TARN_OK;
}

TEST(manager_is_initialized_once_while_another_thread_waits)
{
    tarn_manager_ops ops = *tarn_resource_manager_ops();
    struct slow slow = {.manager = NULL};

    ops.create = slow_create;
    ops.destroy = slow_destroy;
    ops.initialize = slow_initialize;
    CHECK_OK(tarn_manager_create(&ops, &slow, 0, &slow.manager));
    CHECK_OK(tarn_manager_initialize(slow.manager));
    pthread_join(slow.thread, NULL);
    CHECK_EQUAL(1, slow.initializing);
    tarn_manager_release(slow.manager);
}
