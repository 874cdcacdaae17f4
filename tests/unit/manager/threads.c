/* Test one manager with many threads: allocations, deferred cleanup and resets at once,
 * while some frees fail.
 *
 * TSan reports unordered accesses.
 */
#include "test.h"
#include <pthread.h>
#include <stdatomic.h>

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
