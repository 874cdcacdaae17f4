/* Test dma-buf descriptors of address ranges: ranges over several handles, and faults. */
#include "vmm.h"
#include <fcntl.h>
#include <unistd.h>

/* Map 2 MiB of `device` at `address`, without access rights. */
static void map_piece(CUdevice device, CUdeviceptr address)
{
    CUmemAllocationProp properties = properties_of(device, 0);
    handle_t handle;

    CU(cuMemCreate(&handle, PIECE, &properties, 0));
    CU(cuMemMap(address, PIECE, 0, handle, 0));
    CU(cuMemRelease(handle));
}

/* Get a descriptor, and close it; return what the call returned. `*file` is its output. */
static CUresult try_range(CUdeviceptr address, size_t bytes, int *file)
{
    *file = -77;
    CUresult result =
        driver.cuMemGetHandleForAddressRange(file, address, bytes, 1, /*flags*/ 0);

    if (result == CUDA_SUCCESS) {
        CHECK(lseek(*file, 0, SEEK_END) == (off_t)bytes);
        CHECK_EQUAL(0, close(*file));
    }
    return result;
}

TEST(vmm_dma_buf_of_handles_of_one_device)
{
    int file;

    use_device(0);
    CUdeviceptr address = new_addresses(4 * PIECE);
    map_piece(0, address);
    map_piece(0, address + PIECE);
    map_piece(1, address + 2 * PIECE);
    CHECK_EQUAL(CUDA_SUCCESS, try_range(address + PIECE - 4096, 8192, &file));
    CHECK_EQUAL(CUDA_SUCCESS, try_range(address + 2 * PIECE, PIECE, &file));
    CHECK_EQUAL(CUDA_ERROR_INVALID_VALUE, try_range(address, 3 * PIECE, &file));
    CHECK_EQUAL(CUDA_ERROR_INVALID_VALUE,
                try_range(address + 2 * PIECE, 2 * PIECE, &file));
    CHECK_EQUAL(-1, file);
    CHECK_EQUAL(CUDA_ERROR_INVALID_VALUE, try_range(address + 3 * PIECE, PIECE, &file));
    CHECK_EQUAL(-77, file);
    CHECK_EQUAL(CUDA_ERROR_INVALID_VALUE,
                try_range(address, ~(size_t)0 - 4095, &file)); /* past the last address */
    CU(cuMemUnmap(address, 3 * PIECE));
    CU(cuMemAddressFree(address, 4 * PIECE));
}

/* Each call makes a descriptor of its own, which outlives the mapping. */
TEST(vmm_dma_buf_descriptors_are_separate)
{
    int one = -1, two = -1;

    use_device(0);
    CUdeviceptr address = new_addresses(PIECE);
    map_piece(0, address);
    CU(cuMemGetHandleForAddressRange(&one, address, PIECE, 1, 0));
    CU(cuMemGetHandleForAddressRange(&two, address, PIECE, 1, 0));
    CHECK(one != two);
    CHECK_EQUAL(0, close(one));
    CU(cuMemUnmap(address, PIECE));
    CHECK(fcntl(two, F_GETFD) & FD_CLOEXEC);
    CHECK_EQUAL(0, close(two));
    CU(cuMemAddressFree(address, PIECE));
}

TEST(vmm_dma_buf_over_pcie_is_an_option)
{
    static const struct {
        const char *options;
        CUresult plain, over_pcie;
    } cases[] = {
        {"", CUDA_SUCCESS, CUDA_ERROR_NOT_SUPPORTED},
        {"dma-buf=on", CUDA_SUCCESS, CUDA_ERROR_NOT_SUPPORTED},
        {"dma-buf=pcie", CUDA_SUCCESS, CUDA_SUCCESS},
        {"dma-buf=off", CUDA_ERROR_NOT_SUPPORTED, CUDA_ERROR_NOT_SUPPORTED},
    };

    use_device(0);
    CUdeviceptr address = new_addresses(PIECE);
    map_piece(0, address);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int file = -77, supported = -1;
        CHECK_EQUAL(0, driver.configure(cases[i].options));
        CU(cuDeviceGetAttribute(&supported, 124, 0));
        CHECK_EQUAL(cases[i].plain == CUDA_SUCCESS, supported);
        CHECK_EQUAL(cases[i].plain, try_range(address, PIECE, &file));
        file = -77;
        CU_IS(cases[i].over_pcie,
              cuMemGetHandleForAddressRange(&file, address, PIECE, 1, 1));
        if (cases[i].over_pcie == CUDA_SUCCESS)
            CHECK_EQUAL(0, close(file));
    }
    CHECK_EQUAL(0, driver.configure(NULL));
    CU(cuMemUnmap(address, PIECE));
    CU(cuMemAddressFree(address, PIECE));
}
