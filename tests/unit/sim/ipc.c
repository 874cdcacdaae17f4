/* Test legacy IPC: another process sees the same memory, and only through a valid handle.
 */
#include "driver.h"
#include <sys/wait.h>
#include <unistd.h>

enum { BYTES = 5000, SECRET = 0x5a };

/* Run this program again as importer of `handle`; its exit status is the result. */
static int import_in_child(const CUipcMemHandle *handle)
{
    int ends[2], status;

    CHECK_EQUAL(0, pipe(ends));
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[0], 0);
        execl("/proc/self/exe", "importer", NULL);
        _exit(100);
    }
    CHECK_EQUAL(sizeof *handle, write(ends[1], handle, sizeof *handle));
    close(ends[0]);
    close(ends[1]);
    CHECK_EQUAL(child, waitpid(child, &status, 0));
    CHECK(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* Opens the handle on stdin twice, reads, writes, closes twice. */
static int import(void)
{
    unsigned char bytes[BYTES];
    CUipcMemHandle handle, again;
    CUdeviceptr address, second, start;
    CUcontext context;
    size_t size;
    CUresult result;

    if (read(0, &handle, sizeof handle) != sizeof handle || driver.cuInit(0) ||
        driver.cuDevicePrimaryCtxRetain(&context, 0) || driver.cuCtxSetCurrent(context))
        return 101;
    result = driver.cuIpcOpenMemHandle_v2(&address, handle, 1);
    if (result != CUDA_SUCCESS)
        return (int)result;
    if (driver.cuIpcOpenMemHandle_v2(&second, handle, 1) || second != address ||
        driver.cuMemGetAddressRange_v2(&start, &size, address + 7) || start != address ||
        size != BYTES || driver.cuMemcpyDtoH_v2(bytes, address, BYTES) ||
        bytes[0] != SECRET || bytes[BYTES - 1] != SECRET)
        return 102;
    if (driver.cuIpcGetMemHandle(&again, address) != CUDA_ERROR_INVALID_VALUE ||
        driver.cuMemFree_v2(address) != CUDA_ERROR_INVALID_VALUE ||
        driver.cuMemcpyDtoH_v2(bytes, address, BYTES + 1) != CUDA_ERROR_INVALID_VALUE)
        return 103;
    if (driver.cuMemsetD8_v2(address, SECRET + 1, BYTES) ||
        driver.cuIpcCloseMemHandle(address) ||
        driver.cuMemsetD8_v2(address, SECRET + 2, 1) ||
        driver.cuIpcCloseMemHandle(address) ||
        driver.cuIpcCloseMemHandle(address) != CUDA_ERROR_INVALID_VALUE)
        return 104;
    return 0;
}

__attribute__((constructor(65535))) static void importer(int argc, char **argv)
{
    if (argc == 1 && strcmp(argv[0], "importer") == 0)
        exit(import());
}

TEST(ipc_memory_is_seen_and_changed_by_another_process)
{
    unsigned char bytes[BYTES];
    CUipcMemHandle handle, again;
    CUdeviceptr before, address;

    use_device(0);
    CU(cuMemAlloc_v2(&before, 700));
    CU(cuMemAlloc_v2(&address, BYTES));
    CU(cuMemsetD8_v2(address, SECRET, BYTES));
    CU(cuIpcGetMemHandle(&handle, address + 10)); /* of the whole block */
    CU(cuIpcGetMemHandle(&again, address));
    CHECK(memcmp(&handle, &again, sizeof handle) == 0);
    CU(cuCtxSynchronize());
    CHECK_EQUAL(0, import_in_child(&handle));
    CU(cuMemcpyDtoH_v2(bytes, address, BYTES));
    CHECK_EQUAL(SECRET + 2, bytes[0]);
    CHECK_EQUAL(SECRET + 1, bytes[BYTES - 1]);
    CU(cuMemFree_v2(address));
    CHECK_EQUAL(CUDA_ERROR_INVALID_VALUE, import_in_child(&handle));
    CU(cuMemFree_v2(before));
}

TEST(ipc_forged_handle_is_rejected)
{
    CUipcMemHandle handle, forged;
    CUdeviceptr address;

    use_device(0);
    CU(cuMemAlloc_v2(&address, BYTES));
    CU(cuIpcGetMemHandle(&handle, address));
    for (size_t i = 0; i < sizeof handle; i++) {
        forged = handle;
        forged.reserved[i] ^= 1;
        if (i < 36) /* all used bytes of it */
            CHECK(import_in_child(&forged) != 0);
    }
    memset(&forged, 0, sizeof forged);
    CHECK_EQUAL(CUDA_ERROR_INVALID_VALUE, import_in_child(&forged));
    CU(cuMemFree_v2(address));
}

TEST(ipc_exporter_may_not_open_its_own_handle)
{
    CUipcMemHandle handle;
    CUdeviceptr address, opened = 77;

    use_device(0);
    CU(cuMemAlloc_v2(&address, BYTES));
    CU(cuIpcGetMemHandle(&handle, address));
    CU_IS(CUDA_ERROR_INVALID_CONTEXT, cuIpcOpenMemHandle_v2(&opened, handle, 1));
    CHECK(opened == 77);
    CU(cuMemFree_v2(address));
}

TEST(ipc_works_only_for_memory_of_cumemalloc)
{
    CUipcMemHandle handle;
    CUdeviceptr address;
    void *pinned;

    use_device(0);
    CU(cuMemAllocAsync(&address, 100, NULL));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuIpcGetMemHandle(&handle, address));
    CU(cuMemFreeAsync(address, NULL));
    CU(cuMemAllocManaged(&address, 100, CU_MEM_ATTACH_GLOBAL));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuIpcGetMemHandle(&handle, address));
    CU(cuMemFree_v2(address));
    CU(cuMemHostAlloc(&pinned, 100, 0));
    CU_IS(CUDA_ERROR_INVALID_VALUE,
          cuIpcGetMemHandle(&handle, (CUdeviceptr)(uintptr_t)pinned));
    CU(cuMemFreeHost(pinned));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuIpcGetMemHandle(&handle, 4096));
}
