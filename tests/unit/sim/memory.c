/* Test device memory: valid allocations, rejected requests, and rounding. */
#include "driver.h"

enum { MIB = 1 << 20 };

TEST(memory_keeps_copied_bytes)
{
    unsigned char out[1000], in[1000];
    CUdeviceptr address;

    use_device(0);
    for (size_t i = 0; i < sizeof out; i++)
        out[i] = (unsigned char)(i * 7);
    CU(cuMemAlloc_v2(&address, sizeof out));
    CU(cuMemcpyHtoD_v2(address, out, sizeof out));
    CU(cuMemcpyDtoH_v2(in, address, sizeof in));
    CHECK(memcmp(out, in, sizeof out) == 0);
    CU(cuMemFree_v2(address));
}

TEST(memory_is_aligned_to_512_bytes_and_large_blocks_to_2_mib)
{
    CUdeviceptr small[10], large;

    use_device(0);
    for (size_t i = 0; i < 10; i++) {
        CU(cuMemAlloc_v2(&small[i], 1 + i * 100));
        CHECK_EQUAL(0, small[i] % 512);
    }
    CU(cuMemAlloc_v2(&large, 3 * MIB));
    CHECK_EQUAL(0, large % (2 * MIB));
    CU(cuMemFree_v2(large));
    for (size_t i = 0; i < 10; i++)
        CU(cuMemFree_v2(small[i]));
}

TEST(memory_range_is_the_block_itself)
{
    CUdeviceptr address, start;
    size_t bytes;

    use_device(0);
    CU(cuMemAlloc_v2(&address, 1000));
    CU(cuMemGetAddressRange_v2(&start, &bytes, address + 999));
    CHECK(start == address);
    CHECK_EQUAL(1000, bytes);
    CU_IS(CUDA_ERROR_NOT_FOUND, cuMemGetAddressRange_v2(&start, &bytes, address + 1000));
    CU(cuMemFree_v2(address));
    CU_IS(CUDA_ERROR_NOT_FOUND, cuMemGetAddressRange_v2(&start, &bytes, address));
}

TEST(memory_freed_twice_or_from_the_middle_is_rejected)
{
    CUdeviceptr address;

    use_device(0);
    CU(cuMemAlloc_v2(&address, 4096));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemFree_v2(address + 512));
    CU(cuMemFree_v2(address));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemFree_v2(address));
    CU(cuMemFree_v2(0));
}

TEST(memory_info_counts_memory_taken_from_the_device)
{
    size_t before, after, total;
    CUdeviceptr address;

    use_device(0);
    CU(cuMemGetInfo_v2(&before, &total));
    CHECK(before <= total);
    CU(cuMemAlloc_v2(&address, 10 * MIB));
    CU(cuMemGetInfo_v2(&after, &total));
    CHECK_EQUAL(10 * MIB, before - after);
    CU(cuMemFree_v2(address));
    CU(cuMemGetInfo_v2(&after, &total));
    CHECK_EQUAL(before, after);
}

TEST(memory_runs_out_at_the_limit_and_no_address_is_given)
{
    CUdeviceptr first, second = 77;

    use_device(0);
    CHECK_EQUAL(0, driver.configure("memory=16MiB"));
    CU(cuMemAlloc_v2(&first, 10 * MIB));
    CU_IS(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc_v2(&second, 8 * MIB));
    CU_IS(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc_v2(&second, SIZE_MAX));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemAlloc_v2(&second, 0));
    CHECK(second == 0);
    CU(cuMemFree_v2(first));
    CU(cuMemAlloc_v2(&second, 16 * MIB));
    CU(cuMemFree_v2(second));
    CHECK_EQUAL(0, driver.configure(NULL));
}

TEST(memory_copies_outside_a_block_are_rejected)
{
    char host[64] = {0};
    CUdeviceptr address;

    use_device(0);
    CU(cuMemAlloc_v2(&address, 64));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD_v2(address + 1, host, 64));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH_v2(host, address, 65));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemsetD8_v2(address, 0, 65));
    CU_IS(CUDA_ERROR_INVALID_VALUE,
          cuMemcpyHtoD_v2((CUdeviceptr)(uintptr_t)host, host, 8));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD_v2(address, NULL, 8));
    CU(cuMemFree_v2(address));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD_v2(address, host, 64));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH_v2(host, address, 64));
}

TEST(memory_many_blocks_do_not_overlap_and_all_are_released)
{
    enum { BLOCKS = 2000 };
    static CUdeviceptr blocks[BLOCKS];
    unsigned long long live = driver.live_bytes();
    size_t before, after, total;

    use_device(0);
    CU(cuMemGetInfo_v2(&before, &total));
    for (unsigned i = 0; i < BLOCKS; i++) {
        CU(cuMemAlloc_v2(&blocks[i], 100 + i % 37 * 300));
        CU(cuMemsetD32_v2(blocks[i], i, 25));
    }
    for (unsigned i = 0; i < BLOCKS; i += 2)
        CU(cuMemFree_v2(blocks[i]));
    for (unsigned i = 0; i < BLOCKS; i += 2) {
        CU(cuMemAlloc_v2(&blocks[i], 100));
        CU(cuMemsetD32_v2(blocks[i], i, 25));
    }
    for (unsigned i = 0; i < BLOCKS; i++) {
        unsigned words[25];
        CU(cuMemcpyDtoH_v2(words, blocks[i], sizeof words));
        CHECK_EQUAL(i, words[0]);
        CHECK_EQUAL(i, words[24]);
        CU(cuMemFree_v2(blocks[i]));
    }
    CU(cuMemGetInfo_v2(&after, &total));
    CHECK_EQUAL(before, after);
    CHECK(driver.live_bytes() == live);
}

TEST(memory_pitched_rows_are_aligned)
{
    CUdeviceptr address;
    size_t pitch;

    use_device(0);
    CU(cuMemAllocPitch_v2(&address, &pitch, 1000, 10, 4));
    CHECK_EQUAL(1024, pitch);
    CU(cuMemsetD2D8_v2(address, pitch, 1, 1000, 10));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemsetD2D8_v2(address, pitch, 1, 1000, 11));
    CU(cuMemFree_v2(address));
}

TEST(memory_managed_is_seen_by_host_and_device)
{
    CUdeviceptr address;
    int managed = 0;

    use_device(0);
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemAllocManaged(&address, 4096, 0));
    CU(cuMemAllocManaged(&address, 4096, CU_MEM_ATTACH_GLOBAL));
    CU(cuMemsetD8_v2(address, 42, 4096));
    CHECK_EQUAL(42, ((char *)(uintptr_t)address)[4095]);
    CU(cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, address + 5));
    CHECK_EQUAL(1, managed);
    CU(cuMemFree_v2(address));
}

TEST(memory_pinned_and_registered_host_memory_has_a_device_address)
{
    char array[300];
    void *pinned;
    CUdeviceptr address;

    use_device(0);
    CU(cuMemHostAlloc(&pinned, 1000, CU_MEMHOSTALLOC_DEVICEMAP));
    CU(cuMemHostGetDevicePointer_v2(&address, pinned, 0));
    CU(cuMemsetD8_v2(address, 9, 1000));
    CHECK_EQUAL(9, ((char *)pinned)[999]);
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemFree_v2(address));
    CU(cuMemFreeHost(pinned));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemFreeHost(pinned));

    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemHostGetDevicePointer_v2(&address, array, 0));
    CU(cuMemHostRegister_v2(array, sizeof array, CU_MEMHOSTREGISTER_DEVICEMAP));
    CU_IS(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
          cuMemHostRegister_v2(array + 10, 5, 0));
    CU(cuMemHostGetDevicePointer_v2(&address, array, 0));
    CU(cuMemHostUnregister(array));
    CU_IS(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, cuMemHostUnregister(array));
}
