/* Test virtual memory: the rules of each call, as an H200 (driver 580) answers. */
#include "vmm.h"

TEST(vmm_is_supported_with_a_granularity_of_2_mib)
{
    CUmemAllocationProp properties = properties_of(0, 0);
    size_t bytes = 0;
    int supported;

    use_device(0);
    for (int attribute = 102; attribute <= 103; attribute++) {
        CU(cuDeviceGetAttribute(&supported, attribute, 0));
        CHECK_EQUAL(1, supported);
    }
    for (int option = 0; option < 2; option++) {
        CU(cuMemGetAllocationGranularity(&bytes, &properties, option));
        CHECK_EQUAL(PIECE, bytes);
    }
    CU_IS(CUDA_ERROR_INVALID_VALUE,
          cuMemGetAllocationGranularity(&bytes, &properties, 2));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemGetAllocationGranularity(NULL, &properties, 0));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemGetAllocationGranularity(&bytes, NULL, 0));
}

/* --- memory --- */

static void expect_create_error(CUresult wanted, size_t bytes,
                                const CUmemAllocationProp *properties)
{
    handle_t handle = 77;

    CU_IS(wanted, cuMemCreate(&handle, bytes, properties, 0));
    CHECK_EQUAL(77, handle);
}

TEST(vmm_create_rejects_the_same_arguments_as_the_real_driver)
{
    CUmemAllocationProp good = properties_of(0, 0), bad;
    handle_t handle;

    use_device(0);
    expect_create_error(CUDA_ERROR_INVALID_VALUE, 0, &good);
    expect_create_error(CUDA_ERROR_INVALID_VALUE, MIB, &good);
    expect_create_error(CUDA_ERROR_INVALID_VALUE, 3 * MIB, &good);
    expect_create_error(CUDA_ERROR_INVALID_VALUE, PIECE, NULL);
    expect_create_error(CUDA_ERROR_OUT_OF_MEMORY, (size_t)1 << 40, &good);
    expect_create_error(CUDA_ERROR_OUT_OF_MEMORY, (size_t)1 << 60, &good);
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemCreate(&handle, PIECE, &good, 1));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemCreate(NULL, PIECE, &good, 0));
    for (int type = 0; type <= 2; type += 2) {
        bad = good;
        bad.type = type;
        expect_create_error(CUDA_ERROR_INVALID_VALUE, PIECE, &bad);
    }
    bad = good;
    bad.location.id = -1;
    expect_create_error(CUDA_ERROR_INVALID_DEVICE, PIECE, &bad);
    bad.location.id = 99;
    expect_create_error(CUDA_ERROR_INVALID_DEVICE, PIECE, &bad);
    bad = good;
    bad.location.type = CU_MEM_LOCATION_TYPE_INVALID;
    expect_create_error(CUDA_ERROR_INVALID_VALUE, PIECE, &bad);
    bad = good;
    bad.win32HandleMetaData = &bad;
    expect_create_error(CUDA_ERROR_INVALID_VALUE, PIECE, &bad);
    bad = good;
    bad.allocFlags.reserved[3] = 1;
    expect_create_error(CUDA_ERROR_INVALID_VALUE, PIECE, &bad);
}

TEST(vmm_create_supports_only_file_descriptors_as_shareable_handles)
{
    use_device(0);
    for (int types = 0; types < 16; types++) {
        CUmemAllocationProp properties = properties_of(0, types);
        handle_t handle;
        if (types > 1) {
            expect_create_error(types == 8 || types == 9 ? CUDA_ERROR_NOT_PERMITTED
                                                         : CUDA_ERROR_INVALID_VALUE,
                                PIECE, &properties);
            continue;
        }
        CU(cuMemCreate(&handle, PIECE, &properties, 0));
        CU(cuMemRelease(handle));
    }
}

TEST(vmm_memory_counts_from_creation_to_the_last_reference)
{
    for (int types = 0; types < 2; types++) {
        unsigned long long live = driver.live_bytes();
        CUmemAllocationProp reported;
        use_device(0);
        size_t before = free_bytes();
        handle_t handle = new_memory(8 * MIB, types);
        CHECK_EQUAL(8 * MIB, before - free_bytes());
        CHECK_EQUAL(8 * MIB, driver.live_bytes() - live);
        CU(cuMemGetAllocationPropertiesFromHandle(&reported, handle));
        CHECK_EQUAL(CU_MEM_ALLOCATION_TYPE_PINNED, reported.type);
        CHECK_EQUAL(types, reported.requestedHandleTypes);
        CHECK_EQUAL(CU_MEM_LOCATION_TYPE_DEVICE, reported.location.type);
        CHECK_EQUAL(0, reported.location.id);
        CU_IS(CUDA_ERROR_INVALID_VALUE,
              cuMemGetAllocationPropertiesFromHandle(NULL, handle));
        CU(cuMemRelease(handle));
        CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemRelease(handle));
        CU_IS(CUDA_ERROR_INVALID_VALUE,
              cuMemGetAllocationPropertiesFromHandle(&reported, handle));
        CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemRelease(0));
        CHECK_EQUAL(before, free_bytes());
        CHECK(driver.live_bytes() == live);
    }
}

TEST(vmm_create_fails_on_a_full_device_and_trims_pools)
{
    CUmemAllocationProp properties = properties_of(0, 0);
    handle_t first, second = 77;
    CUdeviceptr address;

    use_device(0);
    CHECK_EQUAL(0, driver.configure("memory=16MiB"));
    CU(cuMemCreate(&first, 10 * MIB, &properties, 0));
    CU_IS(CUDA_ERROR_OUT_OF_MEMORY, cuMemCreate(&second, 8 * MIB, &properties, 0));
    properties.requestedHandleTypes = 1;
    CU_IS(CUDA_ERROR_OUT_OF_MEMORY, cuMemCreate(&second, 8 * MIB, &properties, 0));
    CHECK_EQUAL(77, second);
    CU_IS(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc_v2(&address, 8 * MIB));
    CU(cuMemAllocAsync(&address, 6 * MIB, NULL));
    CU(cuMemFreeAsync(address, NULL));
    CU(cuMemCreate(&second, 6 * MIB, &properties, 0));
    CU(cuMemRelease(first));
    CU(cuMemRelease(second));
    CHECK_EQUAL(0, driver.configure(NULL));
}

TEST(vmm_needs_no_context)
{
    CUmemAllocationProp properties = properties_of(0, 0);
    CUdeviceptr address;
    handle_t handle;

    use_device(0);
    CU(cuCtxSetCurrent(NULL));
    CU(cuMemCreate(&handle, PIECE, &properties, 0));
    CU(cuMemAddressReserve(&address, PIECE, 0, 0, 0));
    CU(cuMemMap(address, PIECE, 0, handle, 0));
    set_read_write(address, PIECE);
    CU(cuMemUnmap(address, PIECE));
    CU(cuMemRelease(handle));
    CU(cuMemAddressFree(address, PIECE));
}

/* --- addresses --- */

TEST(vmm_reserve_rejects_the_same_arguments_as_the_real_driver)
{
    CUdeviceptr address = 77;

    use_device(0);
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemAddressReserve(&address, 0, 0, 0, 0));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemAddressReserve(&address, MIB, 0, 0, 0));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemAddressReserve(&address, 3 * MIB, 0, 0, 0));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemAddressReserve(&address, PIECE, 3 * MIB, 0, 0));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemAddressReserve(&address, PIECE, 0, 4096, 0));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemAddressReserve(&address, PIECE, 0, 0, 1));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemAddressReserve(NULL, PIECE, 0, 0, 0));
    CU_IS(CUDA_ERROR_OUT_OF_MEMORY,
          cuMemAddressReserve(&address, (size_t)1 << 60, 0, 0, 0));
    CU_IS(CUDA_ERROR_OUT_OF_MEMORY,
          cuMemAddressReserve(&address, PIECE, (size_t)1 << 48, 0, 0));
    CHECK_EQUAL(77, address);
}

TEST(vmm_addresses_are_aligned_and_follow_a_free_hint)
{
    CUdeviceptr address, hinted, other;

    use_device(0);
    for (size_t alignment = 4096; alignment <= 1024 * MIB; alignment *= 8) {
        CU(cuMemAddressReserve(&address, PIECE, alignment, 0, 0));
        CHECK_EQUAL(0, address % PIECE);
        CHECK_EQUAL(0, address % alignment);
        CU(cuMemAddressFree(address, PIECE));
    }
    CU(cuMemAddressReserve(&hinted, PIECE, 0, address, 0));
    CHECK(hinted == address);
    CU(cuMemAddressReserve(&other, PIECE, 0, address, 0));
    CHECK(other != address);
    CU(cuMemAddressFree(hinted, PIECE));
    CU(cuMemAddressFree(other, PIECE));
}

TEST(vmm_addresses_are_freed_as_a_whole_and_when_nothing_is_mapped)
{
    use_device(0);
    CUdeviceptr address = new_addresses(8 * MIB);
    handle_t handle = new_memory(PIECE, 0);

    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemAddressFree(address, 4 * MIB));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemAddressFree(address + PIECE, PIECE));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemAddressFree(address, 16 * MIB));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemAddressFree(address, 0));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemAddressFree(0, 8 * MIB));
    CU(cuMemMap(address + 6 * MIB, PIECE, 0, handle, 0));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemAddressFree(address, 8 * MIB));
    CU(cuMemUnmap(address + 6 * MIB, PIECE));
    CU(cuMemAddressFree(address, 8 * MIB));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemAddressFree(address, 8 * MIB));
    CU(cuMemRelease(handle));
}

/* --- mappings --- */

TEST(vmm_map_is_of_all_the_memory_at_free_reserved_addresses)
{
    use_device(0);
    CUdeviceptr address = new_addresses(16 * MIB);
    handle_t large = new_memory(4 * MIB, 0), small = new_memory(PIECE, 1);

    CU_IS(CUDA_ERROR_NOT_SUPPORTED, cuMemMap(address, PIECE, 0, large, 0));
    CU_IS(CUDA_ERROR_NOT_SUPPORTED, cuMemMap(address, PIECE, PIECE, large, 0));
    CU_IS(CUDA_ERROR_NOT_SUPPORTED, cuMemMap(address, 8 * MIB, 0, large, 0));
    CU_IS(CUDA_ERROR_NOT_SUPPORTED, cuMemMap(address, MIB, 0, large, 0));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemMap(address, 0, 0, large, 0));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemMap(address + 4096, 4 * MIB, 0, large, 0));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemMap(address + MIB, PIECE, 0, small, 0));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemMap(address, 4 * MIB, 0, large, 1));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemMap(address, 4 * MIB, 0, 0, 0));
    CHECK_EQUAL(0, driver.configure("dead=error")); /* otherwise it aborts */
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemMap(address, 4 * MIB, 0, 4096, 0));
    CHECK(driver.misuses() == 1);
    CHECK_EQUAL(0, driver.configure(NULL));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemMap(0, 4 * MIB, 0, large, 0));
    CU_IS(CUDA_ERROR_INVALID_VALUE,
          cuMemMap(address + 4096 * MIB * MIB, 4 * MIB, 0, large, 0));
    CU(cuMemMap(address, 4 * MIB, 0, large, 0));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemMap(address, 4 * MIB, 0, large, 0));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemMap(address + PIECE, PIECE, 0, small, 0));
    CU(cuMemMap(address + 6 * MIB, PIECE, 0, small, 0));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemMap(address + 4 * MIB, 4 * MIB, 0, large, 0));
    CU(cuMemUnmap(address, 16 * MIB));
    CU(cuMemRelease(large));
    CU(cuMemRelease(small));
    CU(cuMemAddressFree(address, 16 * MIB));
}

TEST(vmm_unmap_is_of_whole_mappings_and_takes_gaps)
{
    use_device(0);
    CUdeviceptr address = new_addresses(16 * MIB);
    handle_t large = new_memory(4 * MIB, 0), small = new_memory(PIECE, 0);

    CU(cuMemMap(address, 4 * MIB, 0, large, 0));
    CU(cuMemMap(address + 4 * MIB, PIECE, 0, small, 0));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemUnmap(address, PIECE));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemUnmap(address + PIECE, PIECE));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemUnmap(address + PIECE, 4 * MIB));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemUnmap(address, 5 * MIB));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemUnmap(address + 4096, 4 * MIB));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemUnmap(address, 0));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemUnmap(0, PIECE));
    CHECK_EQUAL(0, access_at(address, 0));
    CU(cuMemUnmap(address, 8 * MIB));
    CU(cuMemUnmap(address, 8 * MIB)); /* nothing is there now */
    CU(cuMemUnmap(address + 8 * MIB, PIECE));
    CU(cuMemRelease(large));
    CU(cuMemRelease(small));
    CU(cuMemAddressFree(address, 16 * MIB));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemUnmap(address, PIECE));
}

TEST(vmm_a_mapping_keeps_the_memory_and_its_handle_good)
{
    handle_t handle, retained = 77;
    CUmemAllocationProp reported;

    use_device(0);
    size_t before = free_bytes();
    CUdeviceptr address = new_addresses(16 * MIB);
    handle = new_memory(4 * MIB, 0);
    CU(cuMemMap(address, 4 * MIB, 0, handle, 0));
    CU(cuMemRelease(handle));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemRelease(handle));
    CU(cuMemGetAllocationPropertiesFromHandle(&reported, handle));
    CU(cuMemMap(address + 8 * MIB, 4 * MIB, 0, handle, 0));
    CHECK_EQUAL(4 * MIB, before - free_bytes());
    CU(cuMemRetainAllocationHandle(&retained,
                                   (void *)(uintptr_t)(address + 3 * MIB + 5)));
    CHECK(retained == handle);
    CU(cuMemUnmap(address, 16 * MIB));
    CHECK_EQUAL(4 * MIB, before - free_bytes());
    CU(cuMemRelease(handle));
    CHECK_EQUAL(before, free_bytes());
    CU_IS(CUDA_ERROR_INVALID_VALUE,
          cuMemRetainAllocationHandle(&retained, (void *)(uintptr_t)address));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemMap(address, 4 * MIB, 0, handle, 0));
    CU(cuMemAddressFree(address, 16 * MIB));
}

TEST(vmm_retain_works_only_for_mapped_memory)
{
    handle_t handle = 77;
    CUdeviceptr block;
    char array[8];

    use_device(0);
    CUdeviceptr address = new_addresses(PIECE);
    CU(cuMemAlloc_v2(&block, PIECE));
    CU_IS(CUDA_ERROR_INVALID_VALUE,
          cuMemRetainAllocationHandle(&handle, (void *)(uintptr_t)address));
    CU_IS(CUDA_ERROR_INVALID_VALUE,
          cuMemRetainAllocationHandle(&handle, (void *)(uintptr_t)block));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemRetainAllocationHandle(&handle, array));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemRetainAllocationHandle(&handle, NULL));
    CHECK_EQUAL(77, handle);
    CU(cuMemFree_v2(block));
    CU(cuMemAddressFree(address, PIECE));
}

TEST(vmm_memory_is_the_same_wherever_it_is_mapped)
{
    unsigned char bytes[100];

    use_device(0);
    for (int types = 0; types < 2; types++) {
        CUdeviceptr address = new_addresses(8 * MIB);
        handle_t handle = new_memory(4 * MIB, types);
        CU(cuMemMap(address, 4 * MIB, 0, handle, 0));
        CU(cuMemMap(address + 4 * MIB, 4 * MIB, 0, handle, 0));
        set_read_write(address, 8 * MIB);
        CU(cuMemcpyDtoH_v2(bytes, address + 4 * MIB - 100, 100));
        CHECK_EQUAL(0, bytes[99]); /* the previous contents are not visible */
        CU(cuMemsetD8_v2(address + 4 * MIB - 100, 42, 100));
        CU(cuMemcpyDtoH_v2(bytes, address + 8 * MIB - 100, 100));
        CHECK_EQUAL(42, bytes[0]);
        CHECK_EQUAL(42, bytes[99]);
        CU(cuMemUnmap(address, 8 * MIB));
        CU(cuMemMap(address, 4 * MIB, 0, handle, 0)); /* it has kept its contents */
        CHECK_EQUAL(0, access_at(address, 0));        /* but not the access */
        set_read_write(address, 4 * MIB);
        memset(bytes, 0, sizeof bytes);
        CU(cuMemcpyDtoH_v2(bytes, address + 4 * MIB - 100, 100));
        CHECK_EQUAL(42, bytes[50]);
        CU(cuMemUnmap(address, 4 * MIB));
        CU(cuMemRelease(handle));
        CU(cuMemAddressFree(address, 8 * MIB));
    }
}

TEST(vmm_mappings_outlive_the_context)
{
    unsigned char byte = 0;

    use_device(0);
    CUdeviceptr address = new_addresses(PIECE);
    handle_t handle = new_memory(PIECE, 0);
    CU(cuMemMap(address, PIECE, 0, handle, 0));
    set_read_write(address, PIECE);
    CU(cuMemsetD8_v2(address, 5, 100));
    CU(cuDevicePrimaryCtxReset_v2(0));
    use_device(0);
    CHECK_EQUAL(3, access_at(address, 0));
    CU(cuMemcpyDtoH_v2(&byte, address + 99, 1));
    CHECK_EQUAL(5, byte);
    CU(cuMemUnmap(address, PIECE));
    CU(cuMemRelease(handle));
    CU(cuMemAddressFree(address, PIECE));
}

TEST(vmm_each_new_call_counts_and_can_fail)
{
    CUmemAllocationProp properties = properties_of(0, 1);
    CUmemAccessDesc access = access_of(0, 3);
    CUdeviceptr address = 77;
    handle_t handle = 77;
    int file = 77;

    use_device(0);
    CHECK_EQUAL(0, driver.configure("fail=nth:1"));
    CU_IS(CUDA_ERROR_OUT_OF_MEMORY, cuMemCreate(&handle, PIECE, &properties, 0));
    CHECK_EQUAL(77, handle);
    CU(cuMemCreate(&handle, PIECE, &properties, 0));
    CHECK_EQUAL(0, driver.configure("fail=nth:1"));
    CU_IS(CUDA_ERROR_OUT_OF_MEMORY, cuMemAddressReserve(&address, PIECE, 0, 0, 0));
    CHECK_EQUAL(77, address);
    CU(cuMemAddressReserve(&address, PIECE, 0, 0, 0));
    CHECK_EQUAL(0, driver.configure("fail=nth:1"));
    CU_IS(CUDA_ERROR_OUT_OF_MEMORY, cuMemMap(address, PIECE, 0, handle, 0));
    CU(cuMemMap(address, PIECE, 0, handle, 0));
    CHECK_EQUAL(0, driver.configure("fail=nth:1"));
    CU_IS(CUDA_ERROR_OUT_OF_MEMORY, cuMemSetAccess(address, PIECE, &access, 1));
    CHECK_EQUAL(0, access_at(address, 0));
    CHECK_EQUAL(0, driver.configure("fail=nth:1"));
    CU_IS(CUDA_ERROR_UNKNOWN, cuMemExportToShareableHandle(&file, handle, 1, 0));
    CHECK_EQUAL(77, file);
    CHECK_EQUAL(0, driver.configure("fail=nth:1"));
    CU_IS(CUDA_ERROR_UNKNOWN, cuMemUnmap(address, PIECE));
    CHECK_EQUAL(0, access_at(address, 0));
    CU(cuMemUnmap(address, PIECE));
    CHECK_EQUAL(0, driver.configure("fail=nth:1"));
    CU_IS(CUDA_ERROR_UNKNOWN, cuMemAddressFree(address, PIECE));
    CU(cuMemAddressFree(address, PIECE));
    CHECK_EQUAL(0, driver.configure("fail=nth:1"));
    CU_IS(CUDA_ERROR_UNKNOWN, cuMemRelease(handle));
    CU(cuMemRelease(handle));
    CHECK_EQUAL(1, driver.faults());
    CHECK_EQUAL(0, driver.configure(NULL));
}
