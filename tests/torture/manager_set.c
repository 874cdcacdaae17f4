/* Run the process's manager with each driver call failing in turn. A process decides on
 * its manager once, so each try is a process of its own. */
#define _GNU_SOURCE
#include "test.h"
#include "child.h"
#include <stdlib.h>
#include <sys/mman.h>

/* Shared with the children. */
static struct {
    unsigned nth;  /* the call that fails */
    bool is_whole; /* no call had to fail */
} *shared;

static const tarn_manager_ops *ops; /* the manager under test */
static void (*scenario)(void);

static void try_one(void)
{
    char options[64];

    CHILD_STATUS(TARN_OK, tarn_driver_synchronize(0));
    unsigned long long before = sim_live_bytes();
    snprintf(options, sizeof options, "fail=nth:%u", shared->nth);
    sim_configure(options);
    scenario();
    shared->is_whole = sim_faults() == 0;
    sim_configure(NULL);
    if (tarn_pointer_reclaim_deferred() != TARN_OK)
        CHILD_STATUS(TARN_OK, tarn_pointer_reclaim_deferred());
    CHILD_CHECK(tarn_pointer_deferred_count() == 0);
    if (ops != tarn_pool_manager_ops()) /* whose pool exists until the end */
        CHILD_CHECK(sim_live_bytes() == before);
}

static void torture_in_children(void (*what)(void))
{
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared != MAP_FAILED);
    scenario = what;
    for (shared->is_whole = false, shared->nth = 1; !shared->is_whole; shared->nth++)
        in_child(try_one);
    munmap(shared, sizeof *shared);
}

/* A failed call leaves the output unchanged and succeeds at the second try. */
#define TWICE(call, pointer)                \
    do {                                    \
        if ((call) != TARN_OK) {            \
            CHILD_CHECK((pointer) == NULL); \
            CHILD_STATUS(TARN_OK, call);    \
        }                                   \
    } while (0)

static void serve(void)
{
    tarn_manager *manager = NULL, *again = NULL;
    tarn_pointer *pointer = NULL;

    if (ops)
        CHILD_STATUS(TARN_OK, tarn_set_memory_manager(ops, NULL));
    TWICE(tarn_memory_manager(0, &manager), manager);
    for (int i = 0; i < 3; i++)
        if (tarn_manager_initialize(manager) != TARN_OK)
            CHILD_STATUS(TARN_OK, tarn_manager_initialize(manager));
    TWICE(tarn_memory_manager(0, &again), again);
    CHILD_CHECK(again == manager);
    TWICE(tarn_manager_memalloc(manager, 1000, TARN_STREAM_NONE, &pointer), pointer);
    tarn_pointer_release(pointer);
    if (tarn_manager_reset(manager) != TARN_OK)
        CHILD_STATUS(TARN_OK, tarn_manager_reset(manager));
    tarn_manager_release(manager);
    tarn_manager_release(again);
}

TEST(manager_of_the_process_survives_any_failing_call)
{
    ops = NULL;
    torture_in_children(serve);
    ops = tarn_native_manager_ops();
    torture_in_children(serve);
}

static void load_and_serve(void)
{
    char path[600];

    snprintf(path, sizeof path, "%s/examples/cache_manager.so", getenv("TARN_BUILD"));
    CHILD_STATUS(TARN_OK, tarn_manager_load(path, NULL, &ops));
    serve();
    ops = NULL;
}

TEST(manager_from_a_plugin_survives_any_failing_call)
{
    torture_in_children(load_and_serve);
}

#ifndef __SANITIZE_THREAD__ /* pools make it slow, and there is one thread */

TEST(pool_manager_of_the_process_survives_any_failing_call)
{
    ops = tarn_pool_manager_ops();
    torture_in_children(serve);
}

/* Segments are released in between, which makes driver calls at other times. */
static void trim_in_between(void)
{
    static const tarn_pool_manager_options options = {.size = sizeof options,
                                                      .keep_bytes = 1};
    tarn_manager *manager = NULL;
    tarn_pointer *one = NULL, *other = NULL;

    CHILD_STATUS(TARN_OK,
                 tarn_set_memory_manager(tarn_pool_manager_ops(), (void *)&options));
    TWICE(tarn_memory_manager(0, &manager), manager);
    TWICE(tarn_manager_memalloc(manager, 1000, TARN_STREAM_LEGACY, &one), one);
    TWICE(tarn_manager_memalloc(manager, 1 << 22, TARN_STREAM_LEGACY, &other), other);
    tarn_pointer_release(one);
    if (tarn_manager_defer_cleanup_begin(manager) != TARN_OK)
        CHILD_STATUS(TARN_OK, tarn_manager_defer_cleanup_begin(manager));
    tarn_pointer_release(other);
    CHILD_STATUS(TARN_OK, tarn_manager_defer_cleanup_end(manager));
    tarn_manager_release(manager);
}

TEST(segments_that_are_released_survive_any_failing_call)
{
    ops = tarn_pool_manager_ops();
    torture_in_children(trim_in_between);
}

#endif
