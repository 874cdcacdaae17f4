/* segment_memory.c -- the memory of a segment: one VMM handle, mapped at one place.
 *
 * Others register this memory: NCCL, UCX, a network card. They require one handle for a
 * block, the flag for RDMA at its creation, and access of the devices that take part. All
 * of it costs nothing to request, so each block has what its device supports.
 *
 * A fabric handle needs an IMEX channel, and the device attribute does not tell whether
 * the process has one. So the driver decides at the creation. Without a channel the
 * memory has descriptors only, as NCCL's has.
 */
#include "ipc/segment_memory.h"
#include "base/size.h"
#include <stdlib.h>

enum { MIN_GRANULARITY = 2 << 20 }; /* importers of every version reckon with it */

/* Query an attribute of a device. Drivers reject attributes that are newer than they. */
static CUresult_ has(const struct tarn__calls *calls, int device, int attribute,
                     bool *out)
{
    CUdevice_ handle = 0;
    int value = 0;
    CUresult_ result = calls->device_get(&handle, device);

    if (result == CUDA_SUCCESS_)
        result = calls->device_get_attribute(&value, attribute, handle);
    *out = result == CUDA_SUCCESS_ && value != 0;
    return result == CUDA_ERROR_INVALID_VALUE_ ? CUDA_SUCCESS_ : result;
}

static CUresult_ describe(const struct tarn__calls *calls, int device,
                          CUmemAllocationProp_ *out)
{
    bool has_rdma = false, has_fabric = false;
    CUresult_ result =
        has(calls, device, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED_,
            &has_rdma);

    if (result == CUDA_SUCCESS_)
        result = has(calls, device, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED_,
                     &has_fabric);
    *out = (CUmemAllocationProp_){
        .type = CU_MEM_ALLOCATION_TYPE_PINNED_,
        .requestedHandleTypes =
            CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_ |
            (has_fabric ? CU_MEM_HANDLE_TYPE_FABRIC_ : CU_MEM_HANDLE_TYPE_NONE_),
        .location = {CU_MEM_LOCATION_TYPE_DEVICE_, device},
        .allocFlags = {.gpuDirectRDMACapable = has_rdma},
    };
    return result;
}

CUresult_ tarn__segment_memory_round(const struct tarn__calls *calls, int device,
                                     size_t bytes, size_t *out)
{
    CUmemAllocationProp_ properties;
    size_t granularity = 0;
    CUresult_ result = describe(calls, device, &properties);

    if (result == CUDA_SUCCESS_)
        result = calls->mem_get_allocation_granularity(
            &granularity, &properties, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED_);
    if (result != CUDA_SUCCESS_)
        return result;
    if (granularity == 0 || granularity % MIN_GRANULARITY != 0)
        granularity = MIN_GRANULARITY;
    return tarn__size_round_up(bytes, granularity, out) ? CUDA_SUCCESS_
                                                        : CUDA_ERROR_OUT_OF_MEMORY_;
}

/* --- undo; the second tries are for a driver that fails once --- */

static void release_handle(const struct tarn__calls *calls, CUmemHandle_ handle)
{
    if (calls->mem_release(handle) != CUDA_SUCCESS_)
        calls->mem_release(handle);
}

static void unreserve(const struct tarn__calls *calls,
                      const struct tarn__segment_memory *memory)
{
    if (calls->mem_address_free(memory->base, memory->bytes) != CUDA_SUCCESS_)
        calls->mem_address_free(memory->base, memory->bytes);
}

static void unmap(const struct tarn__calls *calls,
                  const struct tarn__segment_memory *memory)
{
    if (calls->mem_unmap(memory->base, memory->bytes) != CUDA_SUCCESS_)
        calls->mem_unmap(memory->base, memory->bytes);
}

/* --- creating --- */

/* Create the handle, with fabric handles where the driver grants them. */
static CUresult_ create_handle(const struct tarn__calls *calls,
                               struct tarn__segment_memory *memory)
{
    CUmemAllocationProp_ properties;
    CUresult_ result = describe(calls, memory->device, &properties);

    if (result != CUDA_SUCCESS_)
        return result;
    result = calls->mem_create(&memory->handle, memory->bytes, &properties, 0);
    if (properties.requestedHandleTypes & CU_MEM_HANDLE_TYPE_FABRIC_ &&
        (result == CUDA_ERROR_NOT_PERMITTED_ || result == CUDA_ERROR_NOT_SUPPORTED_)) {
        properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_;
        result = calls->mem_create(&memory->handle, memory->bytes, &properties, 0);
    }
    memory->handle_types = properties.requestedHandleTypes;
    return result;
}

/* Can `peer` access memory of `device`? */
static CUresult_ reaches(const struct tarn__calls *calls, int peer, int device, bool *out)
{
    CUdevice_ one = 0, other = 0;
    int can = peer == device;
    CUresult_ result = CUDA_SUCCESS_;

    if (peer != device && calls->device_can_access_peer) {
        result = calls->device_get(&one, peer);
        if (result == CUDA_SUCCESS_)
            result = calls->device_get(&other, device);
        if (result == CUDA_SUCCESS_)
            result = calls->device_can_access_peer(&can, one, other);
    }
    *out = result == CUDA_SUCCESS_ && can;
    return result;
}

/* Set the access of the device and of its peers. */
static CUresult_ set_access(const struct tarn__calls *calls,
                            const struct tarn__segment_memory *memory)
{
    CUmemAccessDesc_ access[TARN__DEVICES_MAX];
    size_t count = 0;
    int devices = tarn__driver_device_count();

    for (int peer = 0; peer < devices && peer < TARN__DEVICES_MAX; peer++) {
        bool can = false;
        CUresult_ result = reaches(calls, peer, memory->device, &can);
        if (result != CUDA_SUCCESS_)
            return result;
        if (can)
            access[count++] = (CUmemAccessDesc_){{CU_MEM_LOCATION_TYPE_DEVICE_, peer},
                                                 CU_MEM_ACCESS_FLAGS_PROT_READWRITE_};
    }
    return calls->mem_set_access(memory->base, memory->bytes, access, count);
}

static CUresult_ map(const struct tarn__calls *calls,
                     const struct tarn__segment_memory *memory)
{
    CUresult_ result = calls->mem_map(memory->base, memory->bytes, 0, memory->handle, 0);

    if (result != CUDA_SUCCESS_)
        return result;
    result = set_access(calls, memory);
    if (result != CUDA_SUCCESS_)
        unmap(calls, memory);
    return result;
}

static CUresult_ create_and_map(const struct tarn__calls *calls,
                                struct tarn__segment_memory *memory)
{
    CUresult_ result = create_handle(calls, memory);

    if (result != CUDA_SUCCESS_)
        return result;
    result = map(calls, memory);
    if (result != CUDA_SUCCESS_)
        release_handle(calls, memory->handle);
    return result;
}

static CUresult_ reserve_and_map(const struct tarn__calls *calls,
                                 struct tarn__segment_memory *memory)
{
    CUresult_ result =
        calls->mem_address_reserve(&memory->base, memory->bytes, MIN_GRANULARITY, 0, 0);

    if (result != CUDA_SUCCESS_)
        return result;
    result = create_and_map(calls, memory);
    if (result != CUDA_SUCCESS_)
        unreserve(calls, memory);
    return result;
}

CUresult_ tarn__segment_memory_create(const struct tarn__calls *calls, int device,
                                      size_t bytes, struct tarn__segment_memory **out)
{
    struct tarn__segment_memory *memory = calloc(1, sizeof *memory);

    if (!memory)
        return CUDA_ERROR_OUT_OF_MEMORY_;
    memory->device = device;
    memory->bytes = bytes;
    CUresult_ result = reserve_and_map(calls, memory);
    if (result != CUDA_SUCCESS_) {
        free(memory);
        return result;
    }
    *out = memory;
    return CUDA_SUCCESS_;
}

/* --- releasing --- */

CUresult_ tarn__segment_memory_unmap(const struct tarn__calls *calls,
                                     struct tarn__segment_memory *memory)
{
    CUresult_ result = CUDA_SUCCESS_;

    if (memory->handle)
        result = calls->mem_release(memory->handle);
    if (result != CUDA_SUCCESS_)
        return result;
    memory->handle = 0;
    return calls->mem_unmap(memory->base, memory->bytes);
}

void tarn__segment_memory_drop(const struct tarn__calls *calls,
                               struct tarn__segment_memory *memory)
{
    unreserve(calls, memory);
    free(memory);
}

CUresult_ tarn__segment_memory_release(const struct tarn__calls *calls,
                                       struct tarn__segment_memory *memory)
{
    CUresult_ result = tarn__segment_memory_unmap(calls, memory);

    if (result == CUDA_SUCCESS_)
        tarn__segment_memory_drop(calls, memory);
    return result;
}

/* --- is it supported? --- */

static bool has_calls(const struct tarn__calls *calls)
{
    return calls->mem_address_reserve && calls->mem_address_free && calls->mem_create &&
           calls->mem_release && calls->mem_map && calls->mem_unmap &&
           calls->mem_set_access && calls->mem_export &&
           calls->mem_get_allocation_granularity;
}

tarn_status tarn__segment_memory_check(int device)
{
    const struct tarn__calls *calls;
    bool has_vmm = false, has_files = false;
    tarn_status status = tarn__device_has(
        "exportable", device, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED_,
        &has_vmm);

    if (status == TARN_OK)
        status = tarn__device_has(
            "exportable", device,
            CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED_, &has_files);
    if (status == TARN_OK)
        status = tarn__driver(&calls);
    if (status != TARN_OK)
        return status;
    if (!has_vmm || !has_files || !has_calls(calls))
        return tarn_error_set(TARN_NOT_SUPPORTED,
                              "exportable: device %d cannot export memory as descriptors",
                              device);
    return TARN_OK;
}
