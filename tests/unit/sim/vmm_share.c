/* Test memory of cuMemCreate in another process, by descriptor. */
#define _GNU_SOURCE
#include "vmm.h"
#include "processes.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

enum { SECRET = 0x5a };
#define BYTES (4 * MIB)

/* Map the memory behind `handle` at new addresses, for device 0; 0: rejected. */
static CUdeviceptr map_anywhere(handle_t handle)
{
    CUmemAccessDesc access = access_of(0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    CUdeviceptr address;

    if (driver.cuMemAddressReserve(&address, BYTES, 0, 0, 0) ||
        driver.cuMemMap(address, BYTES, 0, handle, 0) ||
        driver.cuMemSetAccess(address, BYTES, &access, 1))
        return 0;
    return address;
}

static bool holds(CUdeviceptr address, unsigned char value)
{
    unsigned char bytes[200] = {0};

    if (driver.cuMemcpyDtoH_v2(bytes, address, 100) ||
        driver.cuMemcpyDtoH_v2(bytes + 100, address + BYTES - 100, 100))
        return false;
    for (size_t i = 0; i < sizeof bytes; i++)
        if (bytes[i] != value)
            return false;
    return true;
}

static bool begin(void)
{
    CUcontext context;

    return !driver.cuInit(0) && !driver.cuDevicePrimaryCtxRetain(&context, 0) &&
           !driver.cuCtxSetCurrent(context);
}

/* Import each received handle, check it, change it, and wait for the command to end;
 * 1..99: rejected. */
static int importer(int peer)
{
    int file = receive_file(peer), again;
    CUdeviceptr address;
    handle_t handle;
    CUresult result;

    if (file < 0 || !begin())
        return 100;
    result = driver.cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)file, 1);
    if (result != CUDA_SUCCESS)
        return result < 100 ? (int)result : 99;
    close(file);
    address = map_anywhere(handle);
    if (!address || !holds(address, SECRET))
        return 101;
    if (driver.cuMemExportToShareableHandle(&again, handle, 1, 0) !=
        CUDA_ERROR_INVALID_VALUE)
        return 102;
    if (driver.live_bytes() != 0 || driver.cuMemsetD8_v2(address, SECRET + 1, BYTES) ||
        driver.cuCtxSynchronize())
        return 103;
    if (!notify_peer(peer))
        return 104;
    wait_for_peer(peer);
    if (!holds(address, SECRET + 2))
        return 105;
    return driver.cuMemUnmap(address, BYTES) || driver.cuMemRelease(handle) ? 106 : 0;
}

/* Create memory, send it, and stay until commanded. */
static int exporter(int peer)
{
    CUmemAllocationProp properties = properties_of(0, 1);
    CUdeviceptr address;
    handle_t handle;
    int file;

    if (!begin() || driver.cuMemCreate(&handle, BYTES, &properties, 0))
        return 100;
    address = map_anywhere(handle);
    if (!address || driver.cuMemsetD8_v2(address, SECRET, BYTES) ||
        driver.cuCtxSynchronize() ||
        driver.cuMemExportToShareableHandle(&file, handle, 1, 0) ||
        !send_file(peer, file))
        return 101;
    wait_for_peer(peer);
    return 0;
}

/* The same as a user without rights, for whom the leak check at exit is off. */
static int stranger(int peer)
{
    _exit(setegid(65534) || seteuid(65534) ? 110 : exporter(peer));
}

ROLES({"importer", importer}, {"exporter", exporter}, {"stranger", stranger})

static handle_t import(int file)
{
    handle_t handle;

    CU(cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)file, 1));
    close(file);
    return handle;
}

static CUresult try_import(int file)
{
    handle_t handle = 77;
    CUresult result =
        driver.cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)file, 1);

    if (result != CUDA_SUCCESS)
        CHECK_EQUAL(77, handle);
    return result;
}

static void unmap_and_release(CUdeviceptr address, handle_t handle)
{
    CU(cuMemUnmap(address, BYTES));
    CU(cuMemAddressFree(address, BYTES));
    CU(cuMemRelease(handle));
}

TEST(vmm_share_another_process_sees_the_memory_and_changes_it)
{
    int file;

    use_device(0);
    handle_t handle = new_memory(BYTES, 1);
    CUdeviceptr address = map_anywhere(handle);
    CU(cuMemsetD8_v2(address, SECRET, BYTES));
    CU(cuCtxSynchronize());
    CU(cuMemExportToShareableHandle(&file, handle, 1, 0));
    struct process other = start("importer");
    CHECK(send_file(other.peer, file));
    close(file);
    CHECK(wait_for_peer(other.peer));
    CHECK(holds(address, SECRET + 1));
    CU(cuMemsetD8_v2(address, SECRET + 2, BYTES));
    CU(cuCtxSynchronize());
    CHECK_EQUAL(0, end(other));
    unmap_and_release(address, handle);
}

TEST(vmm_share_memory_outlives_an_exporter_that_is_killed)
{
    CUmemAllocationProp reported;
    struct process other;

    use_device(0);
    size_t before = free_bytes();
    other = start("exporter");
    int file = receive_file(other.peer), second = fcntl(file, F_DUPFD_CLOEXEC, 0);
    handle_t handle = import(file);
    CUdeviceptr address = map_anywhere(handle);
    CHECK(holds(address, SECRET));
    end_killed(other);
    CHECK(holds(address, SECRET));
    CU(cuMemsetD8_v2(address, 3, BYTES));
    handle_t again = import(second); /* also after its death */
    CHECK(again != handle);
    CUdeviceptr other_address = map_anywhere(again);
    CHECK(holds(other_address, 3));
    CU(cuMemGetAllocationPropertiesFromHandle(&reported, again));
    CHECK_EQUAL(0, reported.requestedHandleTypes);
    CHECK_EQUAL(0, reported.location.id);
    CHECK_EQUAL(before, free_bytes()); /* the exporter's memory is not counted here */
    unmap_and_release(address, handle);
    unmap_and_release(other_address, again);
}

TEST(vmm_share_memory_outlives_an_importer_that_is_killed)
{
    int file;

    use_device(0);
    handle_t handle = new_memory(BYTES, 1);
    CUdeviceptr address = map_anywhere(handle);
    CU(cuMemsetD8_v2(address, SECRET, BYTES));
    CU(cuCtxSynchronize());
    CU(cuMemExportToShareableHandle(&file, handle, 1, 0));
    struct process other = start("importer");
    CHECK(send_file(other.peer, file));
    close(file);
    CHECK(wait_for_peer(other.peer));
    end_killed(other);
    CHECK(holds(address, SECRET + 1));
    unmap_and_release(address, handle);
    CHECK_EQUAL(0, driver.live_bytes());
}

TEST(vmm_share_one_process_may_import_its_own)
{
    int file, second;

    use_device(0);
    size_t before = free_bytes();
    handle_t handle = new_memory(BYTES, 1);
    CUdeviceptr address = map_anywhere(handle);
    CU(cuMemExportToShareableHandle(&file, handle, 1, 0));
    CU(cuMemExportToShareableHandle(&second, handle, 1, 0));
    CHECK(file != second);
    CHECK(fcntl(file, F_GETFD) & FD_CLOEXEC);
    handle_t again = import(file);
    CHECK(again != handle);
    CUdeviceptr there = map_anywhere(again);
    CU(cuMemsetD8_v2(address, 42, BYTES));
    CHECK(holds(there, 42));
    CHECK_EQUAL(BYTES, before - free_bytes());
    unmap_and_release(address, handle);
    CHECK(holds(there, 42));
    CHECK_EQUAL(BYTES, before - free_bytes()); /* the import keeps it */
    CHECK_EQUAL(BYTES, driver.live_bytes());
    unmap_and_release(there, again);
    CHECK_EQUAL(before, free_bytes());
    CHECK_EQUAL(0, driver.live_bytes());
    close(second);
}

TEST(vmm_share_export_rejects_the_same_arguments_as_the_real_driver)
{
    unsigned long long wide = ~0ull;
    int file = -7;

    use_device(0);
    handle_t plain = new_memory(BYTES, 0), handle = new_memory(BYTES, 1);
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemExportToShareableHandle(&file, plain, 1, 0));
    for (int type = 0; type <= 8; type++)
        if (type != 1)
            CU_IS(CUDA_ERROR_INVALID_VALUE,
                  cuMemExportToShareableHandle(&file, handle, type, 0));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemExportToShareableHandle(&file, handle, 1, 1));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemExportToShareableHandle(NULL, handle, 1, 0));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemExportToShareableHandle(&file, 0, 1, 0));
    CHECK_EQUAL(-7, file);
    CU(cuMemExportToShareableHandle(&wide, handle, 1, 0)); /* four bytes of it */
    CHECK_EQUAL(0xffffffff, wide >> 32);
    close((int)wide);
    CU(cuMemRelease(plain));
    CU(cuMemRelease(handle));
}

TEST(vmm_share_a_foreign_descriptor_is_rejected)
{
    handle_t handle = 77;
    int file, ends[2];

    use_device(0);
    CHECK_EQUAL(CUDA_ERROR_UNKNOWN, try_import(-1));
    CHECK_EQUAL(CUDA_ERROR_UNKNOWN, try_import(9999));
    file = open("/dev/null", O_RDWR | O_CLOEXEC);
    CHECK_EQUAL(CUDA_ERROR_UNKNOWN, try_import(file));
    close(file);
    file = memfd_create("tarn-sim-memory", MFD_CLOEXEC);
    CHECK_EQUAL(0, ftruncate(file, (off_t)BYTES + 4096));
    CHECK_EQUAL(CUDA_ERROR_UNKNOWN, try_import(file));
    close(file);
    CHECK_EQUAL(0, pipe(ends));
    CHECK_EQUAL(CUDA_ERROR_UNKNOWN, try_import(ends[0]));
    close(ends[0]);
    close(ends[1]);
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemImportFromShareableHandle(NULL, NULL, 1));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemImportFromShareableHandle(&handle, NULL, 0));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemImportFromShareableHandle(&handle, NULL, 8));
}

/* A copy of `file` with `word` in the given 8 bytes of its last page. */
static int forge(int file, unsigned place, uint64_t word, int seals)
{
    int forged = memfd_create("tarn-sim-memory", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    char page[4096];

    CHECK_EQUAL(sizeof page, pread(file, page, sizeof page, (off_t)BYTES));
    memcpy(page + 8 * place, &word, 8);
    CHECK_EQUAL(0, ftruncate(forged, (off_t)(BYTES + sizeof page)));
    CHECK_EQUAL(sizeof page, pwrite(forged, page, sizeof page, (off_t)BYTES));
    CHECK_EQUAL(0, fcntl(forged, F_ADD_SEALS, seals));
    return forged;
}

TEST(vmm_share_a_file_with_false_contents_is_rejected)
{
    enum { SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL };
    static const uint64_t words[] = {1, 7, 0, 8 * 1024 * 1024, 99}; /* of each 8 bytes */
    struct stat status;
    int file, forged;

    use_device(0);
    handle_t handle = new_memory(BYTES, 1);
    CU(cuMemExportToShareableHandle(&file, handle, 1, 0));
    CHECK_EQUAL(-1, ftruncate(file, 0)); /* it cannot be truncated either */
    for (unsigned place = 0; place < 5; place++) {
        forged = forge(file, place, words[place], SEALS);
        CHECK(try_import(forged) != CUDA_SUCCESS);
        close(forged);
    }
    forged = forge(file, 2, 12345, F_SEAL_SHRINK); /* it could still grow */
    CHECK_EQUAL(CUDA_ERROR_UNKNOWN, try_import(forged));
    close(forged);
    CHECK_EQUAL(0, fstat(file, &status));
    CHECK_EQUAL(BYTES + 4096, status.st_size);
    close(file);
    CU(cuMemRelease(handle));
}

/* Only root can act as another user. */
TEST(vmm_share_memory_of_another_user_is_rejected)
{
    struct process other;

    use_device(0);
    if (geteuid() != 0)
        return;
    other = start("stranger");
    int file = receive_file(other.peer);
    CHECK(file >= 0);
    CHECK_EQUAL(CUDA_ERROR_NOT_PERMITTED, try_import(file));
    close(file);
    CHECK_EQUAL(0, end(other));
}
