/* Test pools in another process: the pool by descriptor, its pointers by value. */
#define _GNU_SOURCE
#include "processes.h"
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>

enum { SECRET = 0x5a, MIB = 1 << 20, SMALL = 1000, LARGE = 4 * MIB };

/* The exporter's message behind the descriptor. */
struct exports {
    CUmemPoolPtrExportData small, large;
};

static bool begin(void)
{
    CUcontext context;

    return !driver.cuInit(0) && !driver.cuDevicePrimaryCtxRetain(&context, 0) &&
           !driver.cuCtxSetCurrent(context);
}

static bool holds(CUdeviceptr address, size_t bytes, unsigned char value)
{
    static unsigned char content[LARGE];

    if (driver.cuMemcpyDtoH_v2(content, address, bytes))
        return false;
    for (size_t i = 0; i < bytes; i++)
        if (content[i] != value)
            return false;
    return true;
}

static CUresult create_pool(CUmemoryPool *out, int handle_types)
{
    CUmemPoolProps properties = {
        .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
        .handleTypes = handle_types,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
    };

    return driver.cuMemPoolCreate(out, &properties);
}

static CUmemoryPool new_pool(int handle_types)
{
    CUmemoryPool pool;

    CHECK_EQUAL(CUDA_SUCCESS, create_pool(&pool, handle_types));
    return pool;
}

static uint64_t attribute(CUmemoryPool pool, int which)
{
    uint64_t value = 0;

    CU(cuMemPoolGetAttribute(pool, which, &value));
    return value;
}

/* --- the other process --- */

/* Allocate two blocks with a pattern. Then free the small one on command, and stay until
 * commanded. */
static int exporter(int peer)
{
    CUdeviceptr small, large, again;
    struct exports exports;
    CUmemoryPool pool;
    int file;

    if (!begin() || create_pool(&pool, 1) ||
        driver.cuMemAllocFromPoolAsync(&small, SMALL, pool, NULL) ||
        driver.cuMemAllocFromPoolAsync(&large, LARGE, pool, NULL) ||
        driver.cuMemsetD8Async(small, SECRET, SMALL, NULL) ||
        driver.cuMemsetD8Async(large, SECRET + 1, LARGE, NULL) ||
        driver.cuCtxSynchronize())
        return 100;
    if (driver.cuMemPoolExportToShareableHandle(&file, pool, 1, 0) ||
        driver.cuMemPoolExportPointer(&exports.small, small) ||
        driver.cuMemPoolExportPointer(&exports.large, large) || !send_file(peer, file) ||
        write(peer, &exports, sizeof exports) != sizeof exports)
        return 101;
    if (!wait_for_peer(peer))
        return 0;
    if (driver.cuMemFreeAsync(small, NULL) || driver.cuMemFreeAsync(large, NULL) ||
        driver.cuCtxSynchronize() || driver.cuMemPoolTrimTo(pool, 0) ||
        driver.cuMemAllocFromPoolAsync(&again, SMALL, pool, NULL))
        return 102;
    notify_peer(peer);
    wait_for_peer(peer);
    return 0;
}

/* Import, check, change, free; stay until commanded. */
static int importer(int peer)
{
    int file = receive_file(peer);
    struct exports exports;
    CUmemoryPool pool;
    CUdeviceptr small;

    if (file < 0 || read(peer, &exports, sizeof exports) != sizeof exports || !begin() ||
        driver.cuMemPoolImportFromShareableHandle(&pool, (void *)(intptr_t)file, 1, 0) ||
        driver.cuMemPoolImportPointer(&small, pool, &exports.small))
        return 100;
    close(file);
    if (!holds(small, SMALL, SECRET))
        return 101;
    if (driver.cuMemsetD8_v2(small, SECRET + 7, SMALL) || driver.cuCtxSynchronize())
        return 102;
    notify_peer(peer);
    wait_for_peer(peer);
    return driver.cuMemFreeAsync(small, NULL) || driver.cuCtxSynchronize() ||
                   driver.cuMemPoolDestroy(pool)
               ? 103
               : 0;
}

ROLES({"exporter", exporter}, {"importer", importer})

/* --- importing --- */

static CUmemoryPool import_pool(int file)
{
    CUmemoryPool pool;

    CU(cuMemPoolImportFromShareableHandle(&pool, (void *)(intptr_t)file, 1, 0));
    return pool;
}

/* Import the exporter's pool twice, and read its message. */
static CUmemoryPool receive(struct process other, struct exports *exports)
{
    int file = receive_file(other.peer);

    CHECK(file >= 0);
    CHECK_EQUAL(sizeof *exports, read(other.peer, exports, sizeof *exports));
    CUmemoryPool pool = import_pool(file), again = import_pool(file);
    CHECK(pool == again);
    CU(cuMemPoolDestroy(again)); /* each import is destroyed once */
    close(file);
    return pool;
}

TEST(pool_share_pointers_of_another_process_are_read_changed_and_freed)
{
    struct exports exports;
    CUdeviceptr small, again, large, start_address;
    CUmemoryPool pool, reported_pool;
    uint64_t types = 7;
    size_t bytes;

    use_device(0);
    struct process other = start("exporter");
    pool = receive(other, &exports);
    CU(cuMemPoolImportPointer(&small, pool, &exports.small));
    CU(cuMemPoolImportPointer(&again, pool, &exports.small));
    CU(cuMemPoolImportPointer(&large, pool, &exports.large));
    CHECK(again == small && large != small);
    CHECK(holds(small, SMALL, SECRET));
    CHECK(holds(large, LARGE, SECRET + 1));
    CU(cuMemGetAddressRange_v2(&start_address, &bytes, small + 10));
    CHECK(start_address == small);
    CHECK_EQUAL(SMALL, bytes);
    CU(cuPointerGetAttribute(&reported_pool, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, small));
    CHECK(reported_pool == pool);
    CU(cuPointerGetAttribute(&types, CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, small));
    CHECK_EQUAL(0, types);
    CHECK_EQUAL(0, driver.live_bytes());
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH_v2(&bytes, small + SMALL - 1, 2));
    CU_IS(CUDA_ERROR_INVALID_VALUE,
          cuMemsetD8_v2(small + 100 * MIB, 0, 1));           /* of no process */
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemPoolDestroy(pool)); /* while it has pointers */
    CU(cuMemFreeAsync(small, NULL)); /* after any number of imports */
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemFreeAsync(small, NULL));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemsetD8_v2(small, 0, 1));
    CU(cuMemFree_v2(large));
    CU(cuMemPoolImportPointer(&again, pool, &exports.small));
    CHECK(holds(again, SMALL, SECRET));
    CU(cuMemFreeAsync(again, NULL));
    CU(cuMemPoolDestroy(pool));
    CHECK_EQUAL(0, end(other));
}

/* Work on the pointer in another stream must come before its free: then the pool may be
 * destroyed, and the process may end. */
TEST(pool_share_a_free_that_nothing_orders_is_a_race)
{
    struct exports exports;
    CUstream copies, frees;
    CUdeviceptr small;
    CUmemoryPool pool;
    CUevent event;

    use_device(0);
    struct process other = start("exporter");
    pool = receive(other, &exports);
    CU(cuStreamCreate(&copies, CU_STREAM_NON_BLOCKING));
    CU(cuStreamCreate(&frees, CU_STREAM_NON_BLOCKING));
    CU(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    CHECK_EQUAL(0, driver.configure("races=on"));
    for (int is_ordered = 0; is_ordered < 2; is_ordered++) {
        CU(cuMemPoolImportPointer(&small, pool, &exports.small));
        CU(cuMemsetD8Async(small, SECRET, SMALL, copies));
        CU(cuEventRecord(event, copies));
        if (is_ordered)
            CU(cuStreamWaitEvent(frees, event, 0));
        CU(cuMemFreeAsync(small, frees));
        CU(cuCtxSynchronize());
        CHECK(driver.races() == 1);
    }
    CHECK(strstr(driver.race(), "cuMemFreeAsync"));
    driver.configure(NULL);
    CU(cuMemPoolDestroy(pool));
    CU(cuEventDestroy_v2(event));
    CU(cuStreamDestroy_v2(copies));
    CU(cuStreamDestroy_v2(frees));
    CHECK_EQUAL(0, end(other));
}

TEST(pool_share_memory_outlives_its_exporter)
{
    CUdeviceptr small, large;
    struct exports exports;

    use_device(0);
    struct process other = start("exporter");
    CUmemoryPool pool = receive(other, &exports);
    CU(cuMemPoolImportPointer(&small, pool, &exports.small));
    end_killed(other);
    CHECK(holds(small, SMALL, SECRET));
    CU(cuMemPoolImportPointer(&large, pool, &exports.large)); /* also after its death */
    CHECK(holds(large, LARGE, SECRET + 1));
    CU(cuMemFreeAsync(small, NULL));
    CU(cuMemFreeAsync(large, NULL));
    CU(cuCtxSynchronize());
    CU(cuMemPoolDestroy(pool));
}

TEST(pool_share_memory_stays_readable_where_the_exporter_freed_first)
{
    CUdeviceptr large;
    struct exports exports;

    use_device(0);
    struct process other = start("exporter");
    CUmemoryPool pool = receive(other, &exports);
    CU(cuMemPoolImportPointer(&large, pool, &exports.large));
    CHECK(notify_peer(other.peer) && wait_for_peer(other.peer));
    CHECK(holds(large + MIB, LARGE - MIB, SECRET + 1)); /* it is reused from its start */
    CU(cuMemFreeAsync(large, NULL));
    CU(cuMemPoolDestroy(pool));
    CHECK_EQUAL(0, end(other));
}

TEST(pool_share_memory_outlives_an_importer_that_is_killed)
{
    CUmemoryPool pool;
    CUdeviceptr small;
    struct exports exports;
    int file;

    use_device(0);
    pool = new_pool(1);
    CU(cuMemAllocFromPoolAsync(&small, SMALL, pool, NULL));
    CU(cuMemsetD8_v2(small, SECRET, SMALL));
    CU(cuCtxSynchronize());
    CU(cuMemPoolExportToShareableHandle(&file, pool, 1, 0));
    CU(cuMemPoolExportPointer(&exports.small, small));
    for (int round = 0; round < 2; round++) {
        struct process other = start("importer");
        CU(cuMemsetD8_v2(small, SECRET, SMALL));
        CU(cuCtxSynchronize());
        CHECK(send_file(other.peer, file));
        CHECK_EQUAL(sizeof exports, write(other.peer, &exports, sizeof exports));
        CHECK(wait_for_peer(other.peer));
        if (round == 0)
            end_killed(other);
        else
            CHECK_EQUAL(0, end(other));
        CHECK(holds(small, SMALL, SECRET + 7));
    }
    close(file);
    CU(cuMemFreeAsync(small, NULL));
    CU(cuCtxSynchronize());
    CU(cuMemPoolDestroy(pool));
    CHECK_EQUAL(0, driver.live_bytes());
}

TEST(pool_share_an_imported_pool_can_do_nothing_else)
{
    CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, 3};
    CUmemPoolPtrExportData data;
    CUmemAccess_flags flags = 0;
    CUdeviceptr small, address = 77;
    CUipcMemHandle handle;
    struct exports exports;
    uint64_t value = 0;
    int file;

    use_device(0);
    struct process other = start("exporter");
    CUmemoryPool pool = receive(other, &exports);
    CU(cuMemPoolImportPointer(&small, pool, &exports.small));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemAllocFromPoolAsync(&address, 10, pool, NULL));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuDeviceSetMemPool(0, pool));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemPoolTrimTo(pool, 0));
    for (int which = 1; which <= 8; which++) {
        CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemPoolGetAttribute(pool, which, &value));
        CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemPoolSetAttribute(pool, which, &value));
    }
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemPoolExportToShareableHandle(&file, pool, 1, 0));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemPoolExportPointer(&data, small));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuIpcGetMemHandle(&handle, small));
    CU(cuMemPoolGetAccess(&flags, pool, &access.location));
    CHECK_EQUAL(3, flags);
    CU(cuMemPoolSetAccess(pool, &access, 1));
    CHECK_EQUAL(0, address);
    CU(cuMemFreeAsync(small, NULL));
    CU(cuMemPoolDestroy(pool));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemPoolDestroy(pool));
    CHECK_EQUAL(0, end(other));
}

/* --- rejected arguments --- */

TEST(pool_share_requires_a_pool_created_with_handle_types)
{
    unsigned long long wide = ~0ull;
    CUmemoryPool usual, plain, pool, none;
    int file = -7;

    use_device(0);
    CU(cuDeviceGetDefaultMemPool(&usual, 0));
    plain = new_pool(0);
    pool = new_pool(1);
    CHECK_EQUAL(CUDA_ERROR_INVALID_VALUE, create_pool(&none, 2));
    CHECK_EQUAL(CUDA_ERROR_INVALID_VALUE, create_pool(&none, 3));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemPoolExportToShareableHandle(&file, usual, 1, 0));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemPoolExportToShareableHandle(&file, plain, 1, 0));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemPoolExportToShareableHandle(&file, pool, 0, 0));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemPoolExportToShareableHandle(&file, pool, 8, 0));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemPoolExportToShareableHandle(&file, pool, 1, 1));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemPoolExportToShareableHandle(NULL, pool, 1, 0));
    CHECK_EQUAL(-7, file);
    CU(cuMemPoolExportToShareableHandle(&wide, pool, 1, 0));
    CHECK_EQUAL(0xffffffff, wide >> 32);
    close((int)wide);
    CU(cuMemPoolDestroy(plain));
    CU(cuMemPoolDestroy(pool));
}

static CUresult try_import(int file)
{
    CUmemoryPool pool = NULL;
    CUresult result =
        driver.cuMemPoolImportFromShareableHandle(&pool, (void *)(intptr_t)file, 1, 0);

    if (result != CUDA_SUCCESS)
        CHECK(pool == NULL);
    return result;
}

TEST(pool_share_rejects_files_without_a_pool_and_pools_as_memory)
{
    CUmemAllocationProp properties = {
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .requestedHandleTypes = 1,
        .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0},
    };
    CUmemGenericAllocationHandle memory, handle;
    CUmemoryPool pool, imported;
    int file;

    use_device(0);
    file = open("/dev/null", O_RDWR | O_CLOEXEC);
    CHECK_EQUAL(CUDA_ERROR_UNKNOWN, try_import(file));
    close(file);
    CHECK_EQUAL(CUDA_ERROR_UNKNOWN, try_import(9999));
    CHECK_EQUAL(CUDA_ERROR_UNKNOWN, try_import(-1));
    CU(cuMemCreate(&memory, 2 * MIB, &properties, 0));
    CU(cuMemExportToShareableHandle(&file, memory, 1, 0));
    CHECK_EQUAL(CUDA_ERROR_NOT_SUPPORTED, try_import(file));
    close(file);
    CU(cuMemRelease(memory));
    pool = new_pool(1);
    CU(cuMemPoolExportToShareableHandle(&file, pool, 1, 0));
    CU_IS(CUDA_ERROR_NOT_SUPPORTED,
          cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)file, 1));
    CU_IS(CUDA_ERROR_INVALID_VALUE,
          cuMemPoolImportFromShareableHandle(NULL, (void *)(intptr_t)file, 1, 0));
    CU_IS(CUDA_ERROR_INVALID_VALUE,
          cuMemPoolImportFromShareableHandle(&imported, (void *)(intptr_t)file, 0, 0));
    CU_IS(CUDA_ERROR_INVALID_VALUE,
          cuMemPoolImportFromShareableHandle(&imported, (void *)(intptr_t)file, 1, 1));
    close(file);
    CU(cuMemPoolDestroy(pool));
}

TEST(pool_share_pointers_are_exact_and_of_their_pool)
{
    CUdeviceptr own, other, block, address = 77;
    CUmemPoolPtrExportData data, junk;
    CUmemoryPool pool, plain, imported;
    int file;

    use_device(0);
    pool = new_pool(1);
    plain = new_pool(0);
    CU(cuMemAllocFromPoolAsync(&own, SMALL, pool, NULL));
    CU(cuMemAllocFromPoolAsync(&other, SMALL, plain, NULL));
    CU(cuMemAlloc_v2(&block, SMALL));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemPoolExportPointer(&data, own + 8));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemPoolExportPointer(&data, other));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemPoolExportPointer(&data, block));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemPoolExportPointer(&data, 0));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemPoolExportPointer(NULL, own));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemPoolExportPointer(&data, own)); /* not yet */
    CU(cuMemPoolExportToShareableHandle(&file, pool, 1, 0));
    CU(cuMemPoolExportPointer(&data, own));
    imported = import_pool(file); /* in the same process: another pool */
    close(file);
    CHECK(imported != pool);
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemPoolImportPointer(&address, pool, &data));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemPoolImportPointer(&address, plain, &data));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemPoolImportPointer(NULL, imported, &data));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemPoolImportPointer(&address, imported, NULL));
    for (size_t i = 0; i < 32; i++) { /* all used bytes of it */
        junk = data;
        junk.reserved[i] ^= 0x80;
        if (driver.cuMemPoolImportPointer(&address, imported, &junk) == CUDA_SUCCESS)
            CU(cuMemFree_v2(address)); /* another address in the same pool: no harm */
    }
    memset(&junk, 0, sizeof junk);
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemPoolImportPointer(&address, imported, &junk));
    CU(cuMemPoolImportPointer(&address, imported, &data));
    CU(cuMemsetD8_v2(own, 42, SMALL));
    CHECK(holds(address, SMALL, 42));
    CU(cuMemFreeAsync(address, NULL));
    CU(cuMemPoolDestroy(imported));
    CU(cuMemFreeAsync(own, NULL));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemPoolExportPointer(&data, own));
    CU(cuMemFreeAsync(other, NULL));
    CU(cuMemFree_v2(block));
    CU(cuCtxSynchronize());
    CU(cuMemPoolDestroy(pool));
    CU(cuMemPoolDestroy(plain));
}

/* --- the exporter's pool is a pool as any other --- */

TEST(pool_share_attributes_are_those_of_any_pool)
{
    uint64_t none = 0, five = 5, threshold = UINT64_MAX;
    CUmemoryPool pool;
    CUdeviceptr block;

    use_device(0);
    pool = new_pool(1);
    CU(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
    CHECK(attribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD) == UINT64_MAX);
    for (int which = CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES;
         which <= CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES; which++) {
        CHECK_EQUAL(1, (int)attribute(pool, which));
        CU(cuMemPoolSetAttribute(pool, which, &none));
        CHECK_EQUAL(0, (int)attribute(pool, which));
    }
    CU(cuMemAllocFromPoolAsync(&block, SMALL, pool, NULL));
    CHECK_EQUAL(SMALL, attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT));
    CHECK_EQUAL(SMALL, attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH));
    CHECK_EQUAL(32 * MIB, attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT));
    CHECK_EQUAL(SMALL, driver.live_bytes());
    CU(cuMemFreeAsync(block, NULL));
    CU(cuCtxSynchronize());
    CHECK_EQUAL(0, attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT));
    CHECK_EQUAL(SMALL, attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH));
    CHECK_EQUAL(32 * MIB, attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT));
    CU(cuMemPoolTrimTo(pool, 0));
    CHECK_EQUAL(0, attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT));
    CHECK_EQUAL(32 * MIB, attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH));
    for (int which = CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT;
         which <= CU_MEMPOOL_ATTR_USED_MEM_HIGH; which++) {
        bool is_high = which == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH ||
                       which == CU_MEMPOOL_ATTR_USED_MEM_HIGH;
        CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemPoolSetAttribute(pool, which, &five));
        CU_IS(is_high ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE,
              cuMemPoolSetAttribute(pool, which, &none));
    }
    CHECK_EQUAL(0, attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH));
    CHECK_EQUAL(0, attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH));
    CU(cuMemPoolDestroy(pool));
}

TEST(pool_share_memory_counts_against_the_device_until_released)
{
    size_t before, after, total;
    CUdeviceptr block, none = 77;

    use_device(0);
    CHECK_EQUAL(0, driver.configure("memory=16MiB"));
    CU(cuMemGetInfo_v2(&before, &total));
    for (int round = 0; round < 100; round++) { /* addresses are reused, too */
        CUmemoryPool pool = new_pool(1);
        CU(cuMemAllocFromPoolAsync(&block, 10 * MIB, pool, NULL));
        CU_IS(CUDA_ERROR_OUT_OF_MEMORY,
              cuMemAllocFromPoolAsync(&none, 8 * MIB, pool, NULL));
        CU(cuMemGetInfo_v2(&after, &total));
        CHECK_EQUAL(10 * MIB, before - after);
        CU(cuMemPoolDestroy(pool)); /* it ends with its last block */
        CHECK(holds(block + MIB, MIB, 0));
        CU(cuMemsetD8_v2(block, 1, 10 * MIB));
        CU(cuMemFreeAsync(block, NULL));
        CU(cuCtxSynchronize());
        CU(cuMemGetInfo_v2(&after, &total));
        CHECK_EQUAL(before, after);
    }
    CHECK_EQUAL(0, driver.configure(NULL));
}

static void wait_at(void *data)
{
    while (!atomic_load((atomic_bool *)data))
        sched_yield();
}

TEST(pool_share_queued_work_keeps_its_memory_after_the_pool_is_destroyed)
{
    static atomic_bool open;
    CUdeviceptr small, target;
    struct exports exports;
    CUstream stream;

    use_device(0);
    struct process other = start("exporter");
    CUmemoryPool pool = receive(other, &exports);
    CU(cuMemPoolImportPointer(&small, pool, &exports.small));
    CU(cuMemAlloc_v2(&target, SMALL));
    CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    atomic_store(&open, false);
    CU(cuLaunchHostFunc(stream, wait_at, &open));
    CU(cuMemcpyDtoDAsync_v2(target, small, SMALL, stream));
    CU(cuMemFreeAsync(small, stream));
    CU(cuMemPoolDestroy(pool));
    atomic_store(&open, true);
    CU(cuStreamSynchronize(stream));
    CHECK(holds(target, SMALL, SECRET));
    CU(cuMemFree_v2(target));
    CU(cuStreamDestroy_v2(stream));
    CHECK_EQUAL(0, end(other));
}

/* On an H200 the bytes arrive, though nothing orders the free, which `races=on` reports. */
TEST(pool_share_queued_work_arrives_after_a_free_on_another_stream)
{
    static atomic_bool open;
    struct exports exports;
    CUdeviceptr small;
    CUstream stream;

    use_device(0);
    struct process other = start("exporter");
    int file = receive_file(other.peer);
    CHECK(file >= 0);
    CHECK_EQUAL(sizeof exports, read(other.peer, &exports, sizeof exports));
    CUmemoryPool pool = import_pool(file);
    CU(cuMemPoolImportPointer(&small, pool, &exports.small));
    CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    atomic_store(&open, false);
    CU(cuLaunchHostFunc(stream, wait_at, &open));
    CU(cuMemsetD8Async(small, SECRET + 9, SMALL, stream));
    CU(cuMemFreeAsync(small, NULL));
    CU(cuStreamSynchronize(NULL));
    CU(cuMemPoolDestroy(pool));
    atomic_store(&open, true);
    CU(cuStreamSynchronize(stream));
    pool = import_pool(file);
    CU(cuMemPoolImportPointer(&small, pool, &exports.small));
    CHECK(holds(small, SMALL, SECRET + 9));
    CU(cuMemFreeAsync(small, NULL));
    CU(cuMemPoolDestroy(pool));
    CU(cuStreamDestroy_v2(stream));
    close(file);
    CHECK_EQUAL(0, end(other));
}

/* A free of an import returns when ready work is complete: a GPU is done by then. */
TEST(pool_share_a_free_finds_ready_work_done)
{
    struct exports exports;
    CUdeviceptr small;
    CUstream streams[8];

    use_device(0);
    struct process other = start("exporter");
    CUmemoryPool pool = receive(other, &exports);
    for (unsigned i = 0; i < 8; i++)
        CU(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
    for (unsigned round = 0; round < 20; round++) {
        CU(cuMemPoolImportPointer(&small, pool, &exports.small));
        for (unsigned i = 0; i < 8; i++)
            CU(cuMemsetD8Async(small + 100 * i, SECRET, 100, streams[i]));
        CU(cuMemFreeAsync(small, NULL));
        for (unsigned i = 0; i < 8; i++)
            CU(cuStreamQuery(streams[i]));
    }
    for (unsigned i = 0; i < 8; i++)
        CU(cuStreamDestroy_v2(streams[i]));
    CU(cuMemPoolDestroy(pool));
    CHECK_EQUAL(0, end(other));
}
