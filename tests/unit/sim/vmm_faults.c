/* Test virtual memory and shared pools with each call, and each host allocation, failing
 * in turn: outputs are unchanged and nothing leaks. */
#include "vmm.h"
#include <unistd.h>

enum { NONE = 77 };

/* Only one call fails, so an undo succeeds at the second try. */
#define RETRY_ONCE(call) CHECK(driver.call == CUDA_SUCCESS || driver.call == CUDA_SUCCESS)

/* A call that may fail; then its output is unchanged. */
#define TRY(output, untouched, call)      \
    do {                                  \
        if (driver.call != CUDA_SUCCESS)  \
            CHECK((output) == untouched); \
    } while (0)

static void use_mapping(CUdeviceptr address, handle_t handle)
{
    CUmemAccessDesc access = access_of(0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    unsigned char byte = 0;

    if (driver.cuMemMap(address, PIECE, 0, handle, 0) != CUDA_SUCCESS)
        return;
    if (driver.cuMemSetAccess(address, PIECE, &access, 1) == CUDA_SUCCESS &&
        driver.cuMemsetD8_v2(address, 5, 100) == CUDA_SUCCESS &&
        driver.cuMemcpyDtoH_v2(&byte, address + 99, 1) == CUDA_SUCCESS)
        CHECK_EQUAL(5, byte);
    RETRY_ONCE(cuCtxSynchronize());
    RETRY_ONCE(cuMemUnmap(address, PIECE));
}

static void share_memory(handle_t handle)
{
    handle_t imported = NONE;
    int file = NONE;

    TRY(file, NONE, cuMemExportToShareableHandle(&file, handle, 1, 0));
    if (file == NONE)
        return;
    TRY(imported, NONE,
        cuMemImportFromShareableHandle(&imported, (void *)(intptr_t)file, 1));
    close(file);
    if (imported != NONE)
        RETRY_ONCE(cuMemRelease(imported));
}

static void memory_scenario(void)
{
    CUmemAllocationProp properties = properties_of(0, 1);
    CUdeviceptr address = NONE;
    handle_t handle = NONE;

    TRY(handle, NONE, cuMemCreate(&handle, PIECE, &properties, 0));
    TRY(address, NONE, cuMemAddressReserve(&address, PIECE, 0, 0, 0));
    if (handle != NONE && address != NONE)
        use_mapping(address, handle);
    if (handle != NONE)
        share_memory(handle);
    if (handle != NONE)
        RETRY_ONCE(cuMemRelease(handle));
    if (address != NONE)
        RETRY_ONCE(cuMemAddressFree(address, PIECE));
}

static void share_pointer(CUmemoryPool pool, CUdeviceptr block)
{
    CUmemoryPool imported = NULL;
    CUmemPoolPtrExportData data;
    CUdeviceptr there = NONE;
    int file = NONE;

    TRY(file, NONE, cuMemPoolExportToShareableHandle(&file, pool, 1, 0));
    if (file == NONE)
        return;
    TRY(imported, NULL,
        cuMemPoolImportFromShareableHandle(&imported, (void *)(intptr_t)file, 1, 0));
    close(file);
    if (!imported)
        return;
    if (driver.cuMemPoolExportPointer(&data, block) == CUDA_SUCCESS)
        TRY(there, NONE, cuMemPoolImportPointer(&there, imported, &data));
    if (there != NONE)
        RETRY_ONCE(cuMemFreeAsync(there, NULL));
    RETRY_ONCE(cuMemPoolDestroy(imported));
}

static void pool_scenario(void)
{
    CUmemPoolProps properties = {
        .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
        .handleTypes = 1,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
    };
    CUmemoryPool pool = NULL;
    CUdeviceptr block = 0;

    TRY(pool, NULL, cuMemPoolCreate(&pool, &properties));
    if (!pool)
        return;
    TRY(block, 0, cuMemAllocFromPoolAsync(&block, 1000, pool, NULL));
    if (block) {
        share_pointer(pool, block);
        RETRY_ONCE(cuMemFreeAsync(block, NULL));
    }
    RETRY_ONCE(cuCtxSynchronize());
    RETRY_ONCE(cuMemPoolDestroy(pool));
}

/* Run until no fault is needed. Return the number of faults. */
static unsigned torture_with(const char *option, void (*scenario)(void))
{
    use_device(0);
    size_t before = free_bytes();
    for (unsigned nth = 1;; nth++) {
        char options[64];
        snprintf(options, sizeof options, "%s:%u", option, nth);
        CHECK_EQUAL(0, driver.configure(options));
        scenario();
        unsigned long long faults = driver.faults();
        CHECK_EQUAL(0, driver.configure(NULL));
        CU(cuCtxSynchronize());
        CHECK_EQUAL(0, driver.live_bytes());
        CHECK_EQUAL(before, free_bytes());
        if (faults == 0)
            return nth - 1;
    }
}

TEST(vmm_leaks_nothing_whichever_call_fails)
{
    CHECK_EQUAL(13, torture_with("fail=nth", memory_scenario));
    CHECK_EQUAL(11, torture_with("fail=nth", pool_scenario));
}

TEST(vmm_leaks_nothing_without_host_memory)
{
    CHECK(torture_with("host-memory=fail", memory_scenario) >= 6);
    CHECK(torture_with("host-memory=fail", pool_scenario) >= 8);
}
