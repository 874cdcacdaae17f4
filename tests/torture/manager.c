/* Run managers with each driver call failing in turn: nothing leaks, outputs are
 * unchanged, owners are released exactly once, and the next call succeeds. */
#define _GNU_SOURCE
#include "driver_calls.h"
#include "test.h"
#include <stdlib.h>

static const tarn_manager_ops *ops; /* the manager under test */

static tarn_manager *make(void)
{
    tarn_manager *manager = NULL;
    tarn_status status = tarn_manager_create(ops, NULL, 0, &manager);

    if (status != TARN_OK) {
        CHECK(manager == NULL);
        CHECK_OK(tarn_manager_create(ops, NULL, 0, &manager));
    }
    return manager;
}

static void end(tarn_manager *manager)
{
    tarn_manager_release(manager);
    if (tarn_pointer_reclaim_deferred() != TARN_OK)
        CHECK_OK(tarn_pointer_reclaim_deferred());
    CHECK_EQUAL(0, tarn_pointer_deferred_count());
}

/* A failed call leaves the output unchanged and succeeds at the second try. */
#define TWICE(call, pointer)          \
    do {                              \
        if ((call) != TARN_OK) {      \
            CHECK((pointer) == NULL); \
            CHECK_OK(call);           \
        }                             \
    } while (0)

static void serve_device_memory(void)
{
    tarn_manager *manager = make();
    tarn_pointer *pointer = NULL, *view = NULL;

    TWICE(tarn_manager_memalloc(manager, 1000, TARN_STREAM_NONE, &pointer), pointer);
    CHECK_OK(tarn_pointer_view(pointer, 10, 10, &view));
    tarn_pointer_release(pointer);
    tarn_pointer_release(view);
    end(manager);
}

static void serve_host_memory(void)
{
    tarn_manager *manager = make();
    tarn_pointer *pointer = NULL;

    TWICE(tarn_manager_memhostalloc(manager, 4096, TARN_HOST_MAPPED, &pointer), pointer);
    memset(tarn_pointer_host(pointer), 1, 4096);
    tarn_pointer_release(pointer);
    pointer = NULL;
    TWICE(tarn_manager_memallocmanaged(manager, 4096, true, &pointer), pointer);
    memset(tarn_pointer_host(pointer), 1, 4096);
    tarn_pointer_release(pointer);
    end(manager);
}

static void count_release(void *owner)
{
    ++*(int *)owner;
}

/* The second try can only pin if the first one has not left the memory pinned. It retries
 * the deferred frees first. */
static void pin_memory(void)
{
    tarn_manager *manager = make();
    void *memory = aligned_alloc(4096, 4096);
    tarn_pointer *pointer = NULL;
    int released = 0;

    CHECK(memory != NULL);
    TWICE(tarn_manager_mempin(manager, memory, 4096, TARN_HOST_MAPPED, &released,
                              count_release, &pointer),
          pointer);
    CHECK_EQUAL(0, released);
    tarn_pointer_release(pointer);
    end(manager);
    CHECK_EQUAL(1, released);
    free(memory);
}

static void export_memory(void)
{
    tarn_manager *manager = make();
    tarn_pointer *pointer = NULL;
    tarn_ipc_handle handle = {.bytes = 77};

    TWICE(tarn_manager_memalloc(manager, 1000, TARN_STREAM_NONE, &pointer), pointer);
    if (tarn_manager_get_ipc_handle(manager, pointer, &handle) != TARN_OK) {
        CHECK_EQUAL(77, handle.bytes);
        CHECK_OK(tarn_manager_get_ipc_handle(manager, pointer, &handle));
    }
    CHECK_EQUAL(1000, handle.bytes);
    tarn_pointer_release(pointer);
    end(manager);
}

static void prepare_and_reset(void)
{
    tarn_manager *manager = make();
    tarn_pointer *pointer = NULL;
    size_t free_bytes = 1, total_bytes = 0;

    if (tarn_manager_reset(manager) != TARN_OK)
        CHECK_OK(tarn_manager_reset(manager));
    if (tarn_manager_initialize(manager) != TARN_OK)
        CHECK_OK(tarn_manager_initialize(manager));
    TWICE(tarn_manager_memalloc(manager, 1000, TARN_STREAM_NONE, &pointer), pointer);
    if (tarn_manager_reset(manager) != TARN_OK)
        CHECK_OK(tarn_manager_reset(manager));
    tarn_pointer_release(pointer);
    if (tarn_manager_get_memory_info(manager, &free_bytes, &total_bytes) != TARN_OK) {
        CHECK_EQUAL(1, free_bytes + total_bytes);
        CHECK_OK(tarn_manager_get_memory_info(manager, &free_bytes, &total_bytes));
    }
    end(manager);
}

static void defer_cleanup(void)
{
    tarn_manager *manager = make();
    tarn_pointer *device = NULL, *host = NULL;

    TWICE(tarn_manager_memalloc(manager, 1000, TARN_STREAM_NONE, &device), device);
    TWICE(tarn_manager_memhostalloc(manager, 64, 0, &host), host);
    if (tarn_manager_defer_cleanup_begin(manager) != TARN_OK)
        CHECK_OK(tarn_manager_defer_cleanup_begin(manager));
    tarn_pointer_release(device);
    tarn_pointer_release(host);
    if (tarn_manager_defer_cleanup_end(manager) != TARN_OK) /* it ended, a free failed */
        CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_manager_defer_cleanup_end(manager));
    end(manager);
}

static void serve_from_the_drivers_pool(void)
{
    tarn_resource *resource = NULL;

    TWICE(tarn_async_create(0, NULL, &resource), resource);
    if (tarn_device_set_resource(0, resource, NULL) != TARN_OK)
        CHECK_OK(tarn_device_set_resource(0, resource, NULL));
    serve_device_memory();
    if (tarn_device_set_resource(0, NULL, NULL) != TARN_OK)
        CHECK_OK(tarn_device_set_resource(0, NULL, NULL));
    CHECK_OK(tarn_resource_release(resource));
}

/* Deferred cleanup, until its limit and until a flush. */
static void fill_what_is_pending(void)
{
    tarn_manager *manager = make();

    CHECK_OK(tarn_manager_set_pending_deallocs_limits(2, 1));
    for (int i = 0; i < 4; i++) {
        tarn_pointer *pointer = NULL;
        TWICE(tarn_manager_memalloc(manager, 1000, TARN_STREAM_NONE, &pointer), pointer);
        tarn_pointer_release(pointer);
    }
    CHECK_OK(tarn_manager_set_pending_deallocs_limits(10, 0.2));
    end(manager);
}

/* Whatever fails, the instance works after a reset of the context. */
static void reset_the_context(void)
{
    int (*reset)(int);
    tarn_manager *manager = make();
    tarn_pointer *before = NULL, *after = NULL;

    find_call("cuDevicePrimaryCtxReset_v2", &reset);
    TWICE(tarn_manager_memalloc(manager, 1000, TARN_STREAM_NONE, &before), before);
    if (reset(0) != 0)
        CHECK_EQUAL(0, reset(0));
    tarn_pointer_release(before);
    TWICE(tarn_manager_memalloc(manager, 1000, TARN_STREAM_NONE, &after), after);
    tarn_pointer_release(after);
    end(manager);
}

enum { RESOURCE = 1, NATIVE = 2, POOL = 4 };

#ifdef __SANITIZE_THREAD__ /* one pool per try exceeds its addresses */
enum { CAN = RESOURCE | NATIVE };
#else
enum { CAN = RESOURCE | NATIVE | POOL };
#endif

/* The driver is open and the context exists before calls begin to fail. Run each manager
 * in turn. */
static void torture_managers(void (*scenario)(void), int which)
{
    const tarn_manager_ops *all[] = {tarn_resource_manager_ops(),
                                     tarn_native_manager_ops(), tarn_pool_manager_ops()};

    CHECK_OK(tarn_driver_synchronize(0));
    for (int i = 0; i < 3; i++) {
        ops = all[i];
        if (which & CAN & 1 << i)
            torture(scenario);
    }
}

#define TORTURE(name, scenario, which)     \
    TEST(name)                             \
    {                                      \
        torture_managers(scenario, which); \
    }

TORTURE(device_memory_survives_any_failing_call, serve_device_memory, RESOURCE | NATIVE)
TORTURE(host_and_managed_memory_survive_any_failing_call, serve_host_memory,
        RESOURCE | NATIVE)
TORTURE(pinning_survives_any_failing_call, pin_memory, RESOURCE | NATIVE)
TORTURE(ipc_handles_survive_any_failing_call, export_memory, RESOURCE | NATIVE)
TORTURE(reset_and_info_survive_any_failing_call, prepare_and_reset,
        RESOURCE | NATIVE | POOL)
TORTURE(deferred_cleanup_survives_any_failing_call, defer_cleanup, RESOURCE | NATIVE)
TORTURE(pending_memory_survives_any_failing_call, fill_what_is_pending, NATIVE)
TORTURE(reset_context_survives_any_failing_call, reset_the_context,
        RESOURCE | NATIVE | POOL)
TORTURE(memory_of_the_drivers_pool_survives_any_failing_call, serve_from_the_drivers_pool,
        RESOURCE)
