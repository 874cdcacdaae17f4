/* Test memory that another process has open: it stays unchanged, whatever its owner does.
 */
#define _GNU_SOURCE
#include "processes.h"

enum { MIB = 1 << 20, SECRET = 0x5a };

/* Open each received handle, and check it again once the owner has freed it. */
static int keeper(int peer)
{
    unsigned char byte = 0;
    CUipcMemHandle handle;
    CUdeviceptr address;
    CUcontext context;

    if (driver.cuInit(0) || driver.cuDevicePrimaryCtxRetain(&context, 0) ||
        driver.cuCtxSetCurrent(context) ||
        read(peer, &handle, sizeof handle) != sizeof handle ||
        driver.cuIpcOpenMemHandle_v2(&address, handle, 1) || !notify_peer(peer) ||
        !wait_for_peer(peer))
        return 100;
    if (driver.cuMemcpyDtoH_v2(&byte, address + 5, 1) || byte != SECRET)
        return 101;
    if (driver.cuMemsetD8_v2(address, SECRET + 1, 100) || driver.cuCtxSynchronize() ||
        driver.cuIpcCloseMemHandle(address) || !notify_peer(peer))
        return 102;
    wait_for_peer(peer);
    return 0;
}

ROLES({"keeper", keeper})

static size_t free_bytes(void)
{
    size_t bytes, total;

    CU(cuMemGetInfo_v2(&bytes, &total));
    return bytes;
}

static void defer_free(size_t bytes)
{
    size_t before = free_bytes();
    CUipcMemHandle handle;
    CUdeviceptr address;

    CU(cuMemAlloc_v2(&address, bytes));
    CU(cuMemsetD8_v2(address, SECRET, bytes));
    CU(cuIpcGetMemHandle(&handle, address));
    CU(cuCtxSynchronize());
    struct process other = start("keeper");
    CHECK_EQUAL(sizeof handle, write(other.peer, &handle, sizeof handle));
    CHECK(wait_for_peer(other.peer));
    CU(cuMemFree_v2(address));
    CHECK(free_bytes() < before);
    for (int i = 0; i < 100; i++) { /* no allocation gets it meanwhile */
        CUdeviceptr next;
        CU(cuMemAlloc_v2(&next, bytes));
        CHECK(next != address);
        CU(cuMemsetD8_v2(next, 0, bytes));
        CU(cuMemFree_v2(next));
    }
    CHECK(notify_peer(other.peer));
    CHECK(wait_for_peer(other.peer)); /* it has closed it */
    CHECK_EQUAL(before, free_bytes());
    CHECK_EQUAL(0, end(other));
}

TEST(ipc_open_memory_outlives_the_free_of_its_owner)
{
    use_device(0);
    defer_free(4 * MIB);
    defer_free(3000); /* of a page shared with others */
}

TEST(ipc_memory_is_reclaimed_after_the_importer_is_killed)
{
    size_t before;
    CUipcMemHandle handle;
    CUdeviceptr address;

    use_device(0);
    before = free_bytes();
    CU(cuMemAlloc_v2(&address, 4 * MIB));
    CU(cuIpcGetMemHandle(&handle, address));
    struct process other = start("keeper");
    CHECK_EQUAL(sizeof handle, write(other.peer, &handle, sizeof handle));
    CHECK(wait_for_peer(other.peer));
    CU(cuMemFree_v2(address));
    CHECK(free_bytes() < before);
    end_killed(other);
    CHECK_EQUAL(before, free_bytes());
}
