/* Test copies and fills of all shapes against loops. */
#include "driver.h"
#include "base/random.h"

enum { BYTES = 8192 };

static void scramble(unsigned char *bytes, size_t count, uint64_t seed)
{
    for (size_t i = 0; i < count; i++)
        bytes[i] = (unsigned char)tarn__random_next(&seed);
}

static void read_back(unsigned char *host, CUdeviceptr address)
{
    CU(cuMemcpyDtoH_v2(host, address, BYTES));
}

TEST(copy_box_equals_three_loops)
{
    static unsigned char host[BYTES], expected[BYTES], got[BYTES];
    CUdeviceptr address;
    CUDA_MEMCPY3D copy = {
        .srcXInBytes = 3,
        .srcY = 1,
        .srcZ = 2,
        .srcMemoryType = CU_MEMORYTYPE_HOST,
        .srcHost = host,
        .srcPitch = 32,
        .srcHeight = 8,
        .dstXInBytes = 5,
        .dstY = 2,
        .dstZ = 1,
        .dstMemoryType = CU_MEMORYTYPE_DEVICE,
        .dstPitch = 40,
        .dstHeight = 9,
        .WidthInBytes = 17,
        .Height = 4,
        .Depth = 3,
    };

    use_device(0);
    CU(cuMemAlloc_v2(&address, BYTES));
    scramble(host, BYTES, 1);
    scramble(expected, BYTES, 2);
    CU(cuMemcpyHtoD_v2(address, expected, BYTES));
    copy.dstDevice = address;
    CU(cuMemcpy3D_v2(&copy));
    for (size_t z = 0; z < 3; z++)
        for (size_t y = 0; y < 4; y++)
            for (size_t x = 0; x < 17; x++)
                expected[((z + 1) * 9 + y + 2) * 40 + x + 5] =
                    host[((z + 2) * 8 + y + 1) * 32 + x + 3];
    read_back(got, address);
    CHECK(memcmp(expected, got, BYTES) == 0);
    CU(cuMemFree_v2(address));
}

TEST(copy_rows_go_both_ways_and_within_the_device)
{
    static unsigned char host[BYTES], got[BYTES];
    CUdeviceptr first, second;
    CUDA_MEMCPY2D up = {
        .srcMemoryType = CU_MEMORYTYPE_HOST,
        .srcHost = host,
        .srcPitch = 64,
        .dstMemoryType = CU_MEMORYTYPE_DEVICE,
        .dstPitch = 128,
        .WidthInBytes = 60,
        .Height = 20,
    };
    CUDA_MEMCPY2D across = {
        .srcMemoryType = CU_MEMORYTYPE_DEVICE,
        .srcPitch = 128,
        .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
        .dstPitch = 64,
        .WidthInBytes = 60,
        .Height = 20,
    };

    use_device(0);
    CU(cuMemAlloc_v2(&first, BYTES));
    CU(cuMemAlloc_v2(&second, BYTES));
    scramble(host, BYTES, 3);
    up.dstDevice = across.srcDevice = first;
    across.dstDevice = second;
    CU(cuMemcpy2DUnaligned_v2(&up));
    CU(cuMemcpy2DAsync_v2(&across, NULL));
    read_back(got, second);
    for (size_t y = 0; y < 20; y++)
        CHECK(memcmp(host + y * 64, got + y * 64, 60) == 0);
    CU(cuMemFree_v2(first));
    CU(cuMemFree_v2(second));
}

TEST(copy_beyond_its_memory_is_rejected)
{
    static unsigned char host[BYTES];
    CUdeviceptr address;
    CUDA_MEMCPY2D copy = {
        .srcMemoryType = CU_MEMORYTYPE_HOST,
        .srcHost = host,
        .srcPitch = 64,
        .dstMemoryType = CU_MEMORYTYPE_DEVICE,
        .dstPitch = 64,
        .WidthInBytes = 64,
        .Height = BYTES / 64,
    };

    use_device(0);
    CU(cuMemAlloc_v2(&address, BYTES));
    copy.dstDevice = address;
    CU(cuMemcpy2D_v2(&copy));
    copy.dstXInBytes = 1;
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemcpy2D_v2(&copy));
    copy.dstXInBytes = 0;
    copy.dstY = 1;
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemcpy2D_v2(&copy));
    copy.dstY = SIZE_MAX / 2;
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemcpy2D_v2(&copy));
    copy.dstY = 0;
    copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemcpy2D_v2(&copy)); /* no array */
    copy.dstMemoryType = 9;
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemcpy2D_v2(&copy));
    CU(cuMemFree_v2(address));
}

TEST(copy_fills_have_the_width_of_their_value)
{
    unsigned char got[BYTES];
    CUdeviceptr address;

    use_device(0);
    CU(cuMemAlloc_v2(&address, BYTES));
    CU(cuMemsetD8_v2(address, 0, BYTES));
    CU(cuMemsetD8_v2(address + 1, 0x11, 1));
    CU(cuMemsetD16Async(address + 2, 0x2233, 1, NULL));
    CU(cuMemsetD32_v2(address + 4, 0x44556677, 1));
    CU(cuMemsetD2D32Async(address + 512, 64, 0x01020304, 2, 3, NULL));
    read_back(got, address);
    CHECK(memcmp(got, "\0\x11\x33\x22\x77\x66\x55\x44\0", 9) == 0);
    for (size_t row = 0; row < 3; row++)
        CHECK(memcmp(got + 512 + row * 64, "\4\3\2\1\4\3\2\1\0", 9) == 0);
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemsetD16_v2(address + 1, 0, 1));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemsetD32_v2(address + 2, 0, 1));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemsetD32_v2(address, 0, SIZE_MAX / 2));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemsetD2D8_v2(address, SIZE_MAX / 2, 0, 1, 8));
    CU(cuMemFree_v2(address));
}

TEST(copy_between_devices_needs_live_contexts)
{
    unsigned char out[100] = "over there", in[100];
    CUcontext here, there;
    CUdeviceptr to, from;
    int count;

    CU(cuInit(0));
    CU(cuDeviceGetCount(&count));
    CHECK(count > 1);
    there = use_device(1);
    CU(cuMemAlloc_v2(&to, 100));
    here = use_device(0);
    CU(cuMemAlloc_v2(&from, 100));
    CU(cuMemcpyHtoD_v2(from, out, 100));
    CU(cuMemcpyPeer(to, there, from, here, 100));
    CU(cuMemcpyPeer(to, there, from, NULL, 100)); /* the current one */
    CU(cuCtxSynchronize());
    CU(cuMemcpyDtoH_v2(in, to, 100));
    CHECK(memcmp(out, in, 100) == 0);
    CU(cuMemFree_v2(to));
    CU(cuMemFree_v2(from));
}
