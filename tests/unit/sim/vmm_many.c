/* Test as many mappings as a large pool of the smallest handles has. A step that is
 * quadratic in them would exceed the time limit of a test. */
#include "vmm.h"

/* TSan leaves a process 512 GiB of contiguous addresses when the kernel places its stacks
 * badly. The simulator takes four times the memory of a device. */
#ifdef __SANITIZE_THREAD__
#define MEMORY "32GiB"
enum { COUNT = 10000 };
#else
#define MEMORY "256GiB"
enum { COUNT = 100000 };
#endif

TEST(vmm_many_mappings_are_created_queried_and_removed)
{
    static handle_t handles[COUNT];
    CUmemAllocationProp properties = properties_of(0, 0);
    CUdeviceptr address, start;
    size_t bytes;

    CHECK_EQUAL(0, driver.configure("memory=" MEMORY ",devices=1"));
    use_device(0);
    CU(cuMemAddressReserve(&address, COUNT * PIECE, 0, 0, 0));
    for (size_t i = 0; i < COUNT; i++) {
        CU(cuMemCreate(&handles[i], PIECE, &properties, 0));
        CU(cuMemMap(address + i * PIECE, PIECE, 0, handles[i], 0));
    }
    CHECK_EQUAL(COUNT * PIECE, driver.live_bytes());
    set_read_write(address, COUNT * PIECE);
    for (size_t i = 0; i < COUNT; i++) {
        CU(cuMemsetD32Async(address + i * PIECE + 4, (unsigned)i, i % 100 == 0, NULL));
        CU(cuMemGetAddressRange_v2(&start, &bytes, address + i * PIECE + 7));
        CHECK(start == address + i * PIECE && bytes == PIECE);
    }
    for (size_t i = 0; i < COUNT; i += 10000) {
        unsigned word;
        CU(cuMemcpyDtoH_v2(&word, address + i * PIECE + 4, sizeof word));
        CHECK_EQUAL(i, word);
    }
    for (size_t i = COUNT; i-- > COUNT / 2;) {
        CU(cuMemUnmap(address + i * PIECE, PIECE));
        CU(cuMemRelease(handles[i]));
    }
    CU(cuMemUnmap(address, COUNT / 2 * PIECE));
    for (size_t i = 0; i < COUNT / 2; i++)
        CU(cuMemRelease(handles[i]));
    CU(cuMemAddressFree(address, COUNT * PIECE));
    CHECK_EQUAL(0, driver.live_bytes());
}
