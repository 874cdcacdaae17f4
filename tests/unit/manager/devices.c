/* Test a manager for each of two devices: each serves its own, with any current context.
 */
#define _GNU_SOURCE
#include "cu.h"
#include <stdlib.h>

/* Before the driver is opened, so that the simulator has two devices; a GPU machine may
 * have one. */
__attribute__((constructor)) static void ask_for_two_devices(void)
{
    setenv("TARN_SIM", "devices=2", 1);
}

static bool has_two(void)
{
    tarn_driver_info info;

    CHECK_OK(tarn_driver_get_info(&info));
    return info.device_count >= 2;
}

static tarn_manager *make(int device)
{
    tarn_manager *manager;

    CHECK_OK(tarn_manager_create(tarn_resource_manager_ops(), NULL, device, &manager));
    return manager;
}

/* The driver's device of an address. */
static int device_of(const tarn_pointer *pointer)
{
    enum { CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL = 9 };
    int (*ask)(void *, int, unsigned long long) =
        (int (*)(void *, int, unsigned long long))driver_call("cuPointerGetAttribute");
    int device = -1;

    CHECK_EQUAL(0, ask(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                       tarn_pointer_address(pointer)));
    return device;
}

TEST(manager_uses_its_own_device_and_restores_the_context)
{
    tarn_pointer *device, *host;

    if (!has_two())
        return;
    tarn_manager *manager = make(1);
    enter_context(); /* of device 0 */
    void *before = current_context();
    CHECK_OK(tarn_manager_memalloc(manager, 4096, TARN_STREAM_NONE, &device));
    CHECK_OK(tarn_manager_memhostalloc(manager, 4096, TARN_HOST_MAPPED, &host));
    CHECK(current_context() == before);
    CHECK_EQUAL(1, tarn_pointer_device(device));
    CHECK_EQUAL(1, device_of(device));
    tarn_pointer_release(host);
    tarn_pointer_release(device);
    CHECK(current_context() == before);
    leave_context();
    tarn_manager_release(manager);
}

TEST(managers_defer_cleanup_of_their_own_device_alone)
{
    tarn_pointer *pointers[2];

    if (!has_two())
        return;
    tarn_manager *managers[2] = {make(0), make(1)};
    for (int i = 0; i < 2; i++)
        CHECK_OK(
            tarn_manager_memalloc(managers[i], 4096, TARN_STREAM_NONE, &pointers[i]));
    CHECK_OK(tarn_manager_defer_cleanup_begin(managers[0]));
    CHECK_OK(tarn_manager_defer_cleanup_begin(managers[1]));
    tarn_pointer_release(pointers[0]);
    tarn_pointer_release(pointers[1]);
    CHECK_EQUAL(2, tarn_pointer_deferred_count());
    CHECK_OK(tarn_manager_defer_cleanup_end(managers[1]));
    CHECK_EQUAL(1, tarn_pointer_deferred_count());
    CHECK_OK(tarn_manager_defer_cleanup_end(managers[0]));
    CHECK_EQUAL(0, tarn_pointer_deferred_count());
    tarn_manager_release(managers[0]);
    tarn_manager_release(managers[1]);
}

TEST(manager_exports_no_memory_of_another_device)
{
    tarn_pointer *pointer;
    tarn_ipc_handle handle;

    if (!has_two())
        return;
    tarn_manager *one = make(0), *other = make(1);
    CHECK_OK(tarn_manager_memalloc(one, 4096, TARN_STREAM_NONE, &pointer));
    CHECK_STATUS(TARN_INVALID_ARGUMENT,
                 tarn_manager_get_ipc_handle(other, pointer, &handle));
    CHECK_MESSAGE("pointer is of device 0");
    tarn_pointer_release(pointer);
    tarn_manager_release(one);
    tarn_manager_release(other);
}

TEST(pool_manager_has_a_pool_on_its_own_device)
{
    tarn_manager *manager;
    tarn_pointer *device, *pinned;

    if (!has_two())
        return;
    CHECK_OK(tarn_manager_create(tarn_pool_manager_ops(), NULL, 1, &manager));
    CHECK_OK(tarn_manager_memalloc(manager, 4096, TARN_STREAM_LEGACY, &device));
    CHECK_OK(tarn_manager_memhostalloc(manager, 4096, TARN_HOST_MAPPED, &pinned));
    CHECK_EQUAL(1, tarn_pointer_device(device));
    CHECK_EQUAL(1, device_of(device));
    CHECK_EQUAL(1, tarn_pointer_device(pinned));
    tarn_pointer_release(device);
    tarn_pointer_release(pinned);
    tarn_manager_release(manager);
}
