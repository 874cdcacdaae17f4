/* Managers with each driver call failing in turn: nothing leaks, outputs stay, owners are
 * let go exactly once, and the next call works. */
#include "test.h"
#include <stdlib.h>

static tarn_manager *make(void)
{
    tarn_manager *manager = NULL;
    tarn_status status =
        tarn_manager_create(tarn_resource_manager_ops(), NULL, 0, &manager);

    if (status != TARN_OK) {
        CHECK(manager == NULL);
        CHECK_OK(tarn_manager_create(tarn_resource_manager_ops(), NULL, 0, &manager));
    }
    return manager;
}

static void end(tarn_manager *manager)
{
    tarn_manager_release(manager);
    if (tarn_pointer_reclaim() != TARN_OK)
        CHECK_OK(tarn_pointer_reclaim());
    CHECK_EQUAL(0, tarn_pointer_unreturned());
}

/* A call that failed has left the output alone and works at the second try. */
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

/* The second try can only pin if the first one has not left the memory pinned; the way
 * there leads through the list of what could not be given back. */
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
    CHECK_OK(tarn_manager_defer_cleanup_end(manager));
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

/* The driver is open and the context is there before calls begin to fail. */
#define TORTURE(name, scenario)               \
    TEST(name)                                \
    {                                         \
        CHECK_OK(tarn_driver_synchronize(0)); \
        torture(scenario);                    \
    }

TORTURE(device_memory_survives_any_failing_call, serve_device_memory)
TORTURE(host_and_managed_memory_survive_any_failing_call, serve_host_memory)
TORTURE(pinning_survives_any_failing_call, pin_memory)
TORTURE(ipc_handles_survive_any_failing_call, export_memory)
TORTURE(reset_and_info_survive_any_failing_call, prepare_and_reset)
TORTURE(deferred_cleanup_survives_any_failing_call, defer_cleanup)
TORTURE(memory_of_the_drivers_pool_survives_any_failing_call, serve_from_the_drivers_pool)
