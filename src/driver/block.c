/* block.c -- driver queries about a block of foreign code. */
#include "driver/driver.h"

enum { HOST_MEMORY = 1 }; /* CU_MEMORYTYPE_HOST */

/* Query an attribute of the memory at `address`; returns `unknown` where the driver does
 * not report it. */
static int attribute(const struct tarn__calls *calls, int which, tarn_device_ptr address,
                     int unknown)
{
    int value = unknown;

    if (!calls->pointer_get_attribute ||
        calls->pointer_get_attribute(&value, which, address) != CUDA_SUCCESS_)
        return unknown;
    return value;
}

/* Return true for memory of one device, not of the host or managed memory. */
static bool is_device_memory(const struct tarn__calls *calls, tarn_device_ptr address)
{
    return attribute(calls, CU_POINTER_ATTRIBUTE_MEMORY_TYPE_, address, HOST_MEMORY) !=
               HOST_MEMORY &&
           !attribute(calls, CU_POINTER_ATTRIBUTE_IS_MANAGED_, address, 1);
}

/* Return true if the memory may have been mapped in parts (cuMemMap). Then the driver
 * reports the part alone. Other device memory has a legacy IPC handle or belongs to a
 * driver pool. */
static bool may_be_mapped(const struct tarn__calls *calls, tarn_device_ptr address)
{
    void *pool = NULL;

    if (!calls->pointer_get_attribute)
        return true;
    if (!is_device_memory(calls, address) ||
        attribute(calls, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE_, address, 0))
        return false;
    calls->pointer_get_attribute(&pool, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE_, address);
    return pool == NULL;
}

static tarn_status check_length(const struct tarn__calls *calls, tarn_device_ptr address,
                                size_t bytes)
{
    CUdeviceptr_ base = 0;
    size_t length = 0;

    if (calls->mem_get_address_range(&base, &length, address) != CUDA_SUCCESS_)
        return TARN_OK; /* for example system memory */
    size_t left = length - (size_t)(address - base);
    if (bytes <= left || may_be_mapped(calls, address))
        return TARN_OK;
    return tarn_error_set(TARN_INVALID_ARGUMENT,
                          "driver: %zu bytes at 0x%llx extend beyond their allocation, "
                          "which has %zu bytes from that address",
                          bytes, address, left);
}

static tarn_status check_owner(const struct tarn__calls *calls, int device,
                               tarn_device_ptr address, size_t bytes)
{
    int owner = attribute(calls, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL_, address, device);

    if (owner == device || !is_device_memory(calls, address))
        return TARN_OK;
    return tarn_error_set(
        TARN_INVALID_ARGUMENT,
        "driver: %zu bytes at 0x%llx are memory of device %d, not of device %d", bytes,
        address, owner, device);
}

tarn_status tarn_driver_check_allocation(int device, tarn_device_ptr address,
                                         size_t bytes)
{
    struct tarn__scope scope;
    tarn_status status = tarn__scope_enter(device, &scope);

    if (status != TARN_OK)
        return status;
    status = check_owner(scope.calls, device, address, bytes);
    if (status == TARN_OK)
        status = check_length(scope.calls, address, bytes);
    tarn__scope_leave(&scope);
    return status;
}

/* In a scope: the type of the memory, as far as the driver reports it. */
static tarn_memory_type memory_type(const struct tarn__calls *calls,
                                    tarn_device_ptr address)
{
    int type = attribute(calls, CU_POINTER_ATTRIBUTE_MEMORY_TYPE_, address, 0);

    if (type == 0)
        return TARN_MEMORY_UNKNOWN;
    if (attribute(calls, CU_POINTER_ATTRIBUTE_IS_MANAGED_, address, 0))
        return TARN_MEMORY_MANAGED;
    return type == HOST_MEMORY ? TARN_MEMORY_HOST : TARN_MEMORY_DEVICE;
}

tarn_status tarn_driver_memory_type(int device, tarn_device_ptr address,
                                    tarn_memory_type *type_out, int *device_out)
{
    struct tarn__scope scope;

    if (!type_out || !device_out)
        return tarn_error_set(TARN_INVALID_ARGUMENT, "driver: memory_type: %s is NULL",
                              type_out ? "device_out" : "type_out");
    tarn_status status = tarn__scope_enter(device, &scope);
    if (status != TARN_OK)
        return status;
    *type_out = memory_type(scope.calls, address);
    *device_out =
        attribute(scope.calls, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL_, address, device);
    tarn__scope_leave(&scope);
    return TARN_OK;
}
