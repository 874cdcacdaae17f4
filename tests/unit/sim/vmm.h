/* vmm.h -- helpers of the tests of virtual memory. */
#ifndef TARN_TESTS_SIM_VMM_H
#define TARN_TESTS_SIM_VMM_H

#include "driver.h"

#define MIB ((size_t)1 << 20)
#define PIECE (2 * MIB)

typedef CUmemGenericAllocationHandle handle_t;

static inline CUmemAllocationProp properties_of(CUdevice device, int handle_types)
{
    return (CUmemAllocationProp){
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .requestedHandleTypes = handle_types,
        .location = {CU_MEM_LOCATION_TYPE_DEVICE, device},
    };
}

static inline CUmemAccessDesc access_of(CUdevice device, int flags)
{
    return (CUmemAccessDesc){{CU_MEM_LOCATION_TYPE_DEVICE, device}, flags};
}

static inline handle_t new_memory(size_t bytes, int handle_types)
{
    CUmemAllocationProp properties = properties_of(0, handle_types);
    handle_t handle;

    CU(cuMemCreate(&handle, bytes, &properties, 0));
    return handle;
}

static inline CUdeviceptr new_addresses(size_t bytes)
{
    CUdeviceptr address;

    CU(cuMemAddressReserve(&address, bytes, 0, 0, 0));
    return address;
}

static inline CUresult set_access(CUdeviceptr address, size_t bytes, CUdevice device,
                                  int flags)
{
    CUmemAccessDesc access = access_of(device, flags);

    return driver.cuMemSetAccess(address, bytes, &access, 1);
}

static inline void set_read_write(CUdeviceptr address, size_t bytes)
{
    CHECK_EQUAL(CUDA_SUCCESS,
                set_access(address, bytes, 0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
}

static inline unsigned long long access_at(CUdeviceptr address, CUdevice device)
{
    CUmemLocation location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
    unsigned long long flags = 77;

    CU(cuMemGetAccess(&flags, &location, address));
    return flags;
}

static inline size_t free_bytes(void)
{
    size_t bytes, total;

    CU(cuMemGetInfo_v2(&bytes, &total));
    return bytes;
}

#endif
