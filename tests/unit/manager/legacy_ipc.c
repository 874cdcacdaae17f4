/* Test IPC handles: which memory has one, the offset of the block, and memory without a
 * handle. */
#include "cu.h"

static tarn_manager *make(void)
{
    tarn_manager *manager;

    CHECK_OK(tarn_manager_create(tarn_resource_manager_ops(), NULL, 0, &manager));
    return manager;
}

TEST(handle_names_the_allocation_and_where_the_block_lies)
{
    tarn_manager *manager = make();
    tarn_pointer *pointer, *view;
    tarn_ipc_handle whole, part;

    CHECK_OK(tarn_manager_memalloc(manager, 4096, TARN_STREAM_NONE, &pointer));
    CHECK_OK(tarn_pointer_view(pointer, 1024, 100, &view));
    CHECK_OK(tarn_manager_get_ipc_handle(manager, pointer, &whole));
    CHECK_OK(tarn_manager_get_ipc_handle(manager, view, &part));
    CHECK_EQUAL(4096, whole.bytes);
    CHECK_EQUAL(100, part.bytes);
    CHECK_EQUAL(1024, part.offset - whole.offset);
    CHECK_EQUAL(0, whole.device);
    CHECK(memcmp(whole.reserved, part.reserved, sizeof whole.reserved) == 0);
    tarn_pointer_release(view);
    tarn_pointer_release(pointer);
    tarn_manager_release(manager);
}

static void check_rejected(tarn_manager *manager, const tarn_pointer *pointer,
                           tarn_status wanted, const char *message)
{
    tarn_ipc_handle handle = {.bytes = 77};

    CHECK_STATUS(wanted, tarn_manager_get_ipc_handle(manager, pointer, &handle));
    CHECK_MESSAGE(message);
    CHECK_EQUAL(77, handle.bytes);
}

TEST(handle_of_nothing_is_rejected)
{
    tarn_manager *manager = make();
    tarn_pointer *empty;

    CHECK_OK(tarn_manager_memalloc(manager, 0, TARN_STREAM_NONE, &empty));
    check_rejected(manager, empty, TARN_INVALID_ARGUMENT, "empty pointer");
    check_rejected(manager, NULL, TARN_INVALID_ARGUMENT, "empty pointer");
    tarn_pointer_release(empty);
    tarn_manager_release(manager);
}

TEST(handle_of_another_devices_memory_is_rejected)
{
    tarn_pointer_options options = {
        .size = sizeof options, .device = 1, .address = 0x1000, .bytes = 8};
    tarn_manager *manager = make();
    tarn_pointer *pointer;

    CHECK_OK(tarn_pointer_create(&options, &pointer));
    check_rejected(manager, pointer, TARN_INVALID_ARGUMENT, "pointer is of device 1");
    tarn_pointer_release(pointer);
    tarn_manager_release(manager);
}

TEST(handle_of_host_memory_is_not_supported)
{
    tarn_manager *manager = make();
    tarn_pointer *pointer;

    CHECK_OK(tarn_manager_memhostalloc(manager, 64, TARN_HOST_MAPPED, &pointer));
    check_rejected(manager, pointer, TARN_NOT_SUPPORTED, "not plain device memory");
    tarn_pointer_release(pointer);
    CHECK_OK(tarn_manager_memallocmanaged(manager, 64, true, &pointer));
    check_rejected(manager, pointer, TARN_NOT_SUPPORTED, "not plain device memory");
    tarn_pointer_release(pointer);
    tarn_manager_release(manager);
}

TEST(handle_of_pool_memory_is_not_supported_and_the_message_names_the_alternative)
{
    tarn_manager *manager = make();
    tarn_resource *resource;
    tarn_pointer *pointer;

    CHECK_OK(tarn_async_create(0, NULL, &resource));
    CHECK_OK(tarn_device_set_resource(0, resource, NULL));
    CHECK_OK(tarn_manager_memalloc(manager, 4096, TARN_STREAM_NONE, &pointer));
    check_rejected(manager, pointer, TARN_NOT_SUPPORTED, "exportable are the cuda");
    tarn_pointer_release(pointer);
    CHECK_OK(tarn_device_set_resource(0, NULL, NULL));
    CHECK_OK(tarn_resource_release(resource));
    tarn_manager_release(manager);
}
