/* Test access rights of mapped memory, and work without access, or whose access ends. */
#define _GNU_SOURCE
#include "vmm.h"
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>

/* 4 MiB and 2 MiB, mapped side by side at the start of 16 MiB of addresses. */
static CUdeviceptr base;
static handle_t large, small;

static void set_up(void)
{
    use_device(0);
    base = new_addresses(16 * MIB);
    large = new_memory(4 * MIB, 0);
    small = new_memory(PIECE, 0);
    CU(cuMemMap(base, 4 * MIB, 0, large, 0));
    CU(cuMemMap(base + 4 * MIB, PIECE, 0, small, 0));
}

static void tear_down(void)
{
    CU(cuMemUnmap(base, 16 * MIB));
    CU(cuMemRelease(large));
    CU(cuMemRelease(small));
    CU(cuMemAddressFree(base, 16 * MIB));
}

/* --- cuMemSetAccess, cuMemGetAccess --- */

TEST(vmm_access_is_set_for_whole_mappings_without_gaps)
{
    set_up();
    CHECK_EQUAL(0, access_at(base, 0));
    CHECK_EQUAL(1, set_access(base, 8 * MIB, 0, 3));         /* a gap at the end */
    CHECK_EQUAL(1, set_access(base, PIECE, 0, 3));           /* part of a mapping */
    CHECK_EQUAL(1, set_access(base + PIECE, 4 * MIB, 0, 3)); /* parts of two */
    CHECK_EQUAL(1, set_access(base, 0, 0, 3));
    CHECK_EQUAL(1, set_access(base, MIB, 0, 3));
    CHECK_EQUAL(1, set_access(0, 4 * MIB, 0, 3));
    CHECK_EQUAL(1, set_access(base + 8 * MIB, PIECE, 0, 3));
    CHECK_EQUAL(0, access_at(base, 0));
    CHECK_EQUAL(0, set_access(base, 6 * MIB, 0, 3));
    CHECK_EQUAL(3, access_at(base, 0));
    CHECK_EQUAL(3, access_at(base + 5 * MIB + 1, 0));
    CHECK_EQUAL(0, access_at(base, 1));
    tear_down();
}

TEST(vmm_access_rejects_the_same_arguments_as_the_real_driver)
{
    CUmemAccessDesc access = access_of(0, 3), both[2] = {access, access};
    CUmemLocation location = access.location;
    unsigned long long flags = 77;
    CUdeviceptr block;

    set_up();
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemSetAccess(base, 4 * MIB, &access, 0));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemSetAccess(base, 4 * MIB, NULL, 1));
    CHECK_EQUAL(1, set_access(base, 4 * MIB, 0, 2));
    CHECK_EQUAL(1, set_access(base, 4 * MIB, 99, 3));
    access.location.type = CU_MEM_LOCATION_TYPE_HOST;
    CU_IS(CUDA_ERROR_NOT_SUPPORTED, cuMemSetAccess(base, 4 * MIB, &access, 1));
    access.location.type = CU_MEM_LOCATION_TYPE_INVALID;
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemSetAccess(base, 4 * MIB, &access, 1));
    both[1].flags = 1;
    CU(cuMemSetAccess(base, 6 * MIB, both, 2)); /* the last word counts */
    CHECK_EQUAL(1, access_at(base, 0));

    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemGetAccess(&flags, &location, base + 8 * MIB));
    CHECK_EQUAL(0, flags);
    flags = 77;
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemGetAccess(NULL, &location, base));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemGetAccess(&flags, NULL, base));
    location.id = 99;
    CU_IS(CUDA_ERROR_INVALID_DEVICE, cuMemGetAccess(&flags, &location, base));
    CHECK_EQUAL(77, flags);
    CU(cuMemAlloc_v2(&block, PIECE));
    CHECK_EQUAL(0, access_at(block, 0));
    CHECK_EQUAL(1, set_access(block, PIECE, 0, 3));
    CU(cuMemFree_v2(block));
    tear_down();
}

/* --- copies and fills --- */

static char host[1000];

/* Check that every way to write, or to read, `bytes` at `address` returns `wanted`. */
static void check_writes(CUresult wanted, CUdeviceptr address, size_t bytes)
{
    CUDA_MEMCPY2D shape = {
        .srcMemoryType = CU_MEMORYTYPE_HOST,
        .srcHost = host,
        .srcPitch = bytes,
        .dstMemoryType = CU_MEMORYTYPE_DEVICE,
        .dstDevice = address,
        .dstPitch = bytes,
        .WidthInBytes = bytes,
        .Height = 1,
    };
    CUdeviceptr block;

    CU(cuMemAlloc_v2(&block, bytes));
    CU_IS(wanted, cuMemcpyHtoD_v2(address, host, bytes));
    CU_IS(wanted, cuMemcpyHtoDAsync_v2(address, host, bytes, NULL));
    CU_IS(wanted, cuMemcpyDtoD_v2(address, block, bytes));
    CU_IS(wanted, cuMemcpyDtoDAsync_v2(address, block, bytes, NULL));
    CU_IS(wanted, cuMemcpy(address, block, bytes));
    CU_IS(wanted, cuMemcpyAsync(address, block, bytes, NULL));
    CU_IS(wanted, cuMemsetD8_v2(address, 1, bytes));
    CU_IS(wanted, cuMemsetD8Async(address, 1, bytes, NULL));
    CU_IS(wanted, cuMemcpy2D_v2(&shape));
    CU_IS(wanted, cuMemcpy2DAsync_v2(&shape, NULL));
    CU(cuCtxSynchronize());
    CU(cuMemFree_v2(block));
}

static void check_reads(CUresult wanted, CUdeviceptr address, size_t bytes)
{
    CUdeviceptr block;

    CU(cuMemAlloc_v2(&block, bytes));
    CU_IS(wanted, cuMemcpyDtoH_v2(host, address, bytes));
    CU_IS(wanted, cuMemcpyDtoHAsync_v2(host, address, bytes, NULL));
    CU_IS(wanted, cuMemcpyDtoD_v2(block, address, bytes));
    CU_IS(wanted, cuMemcpyDtoDAsync_v2(block, address, bytes, NULL));
    CU(cuCtxSynchronize());
    CU(cuMemFree_v2(block));
}

TEST(vmm_copies_need_memory_and_access_when_they_are_called)
{
    set_up();
    set_read_write(base, 4 * MIB);
    check_writes(CUDA_ERROR_INVALID_VALUE, base + 8 * MIB, 100); /* not mapped */
    check_reads(CUDA_ERROR_INVALID_VALUE, base + 8 * MIB, 100);
    check_writes(CUDA_ERROR_INVALID_VALUE, base + 4 * MIB, 100); /* no access */
    check_reads(CUDA_ERROR_INVALID_VALUE, base + 4 * MIB, 100);
    check_writes(CUDA_ERROR_INVALID_VALUE, base + 4 * MIB - 50, 100);
    set_read_write(base + 4 * MIB, PIECE);
    check_writes(CUDA_SUCCESS, base + 4 * MIB - 50, 100); /* over two mappings */
    check_reads(CUDA_SUCCESS, base + 4 * MIB - 50, 100);
    check_writes(CUDA_ERROR_INVALID_VALUE, base + 6 * MIB - 50, 100); /* and beyond */
    check_reads(CUDA_ERROR_INVALID_VALUE, base + 6 * MIB - 50, 100);
    CHECK_EQUAL(0, set_access(base, 4 * MIB, 0, CU_MEM_ACCESS_FLAGS_PROT_READ));
    check_writes(CUDA_ERROR_INVALID_VALUE, base, 100);
    check_writes(CUDA_ERROR_INVALID_VALUE, base + 4 * MIB - 50, 100);
    check_reads(CUDA_SUCCESS, base + 4 * MIB - 50, 100);
    CHECK_EQUAL(0, set_access(base, 4 * MIB, 0, CU_MEM_ACCESS_FLAGS_PROT_NONE));
    check_reads(CUDA_ERROR_INVALID_VALUE, base, 100);
    set_read_write(base, 4 * MIB);
    check_writes(CUDA_SUCCESS, base, 100);
    tear_down();
}

TEST(vmm_rows_of_a_fill_must_stay_in_mapped_memory)
{
    set_up();
    set_read_write(base, 6 * MIB);
    CU(cuMemsetD2D8_v2(base, MIB, 1, 10, 6));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemsetD2D8_v2(base, MIB, 1, 10, 7));
    CU(cuMemsetD2D32_v2(base + 4 * MIB - 512, 512, 7, 10, 2));
    CU(cuMemcpyDtoH_v2(host, base + 4 * MIB - 512, 552));
    CHECK_EQUAL(7, host[0]);
    CHECK_EQUAL(0, host[40]);
    CHECK_EQUAL(7, host[512]);
    CU(cuCtxSynchronize());
    tear_down();
}

TEST(vmm_access_is_that_of_the_device_that_copies)
{
    CUcontext second;

    set_up();
    CU(cuDevicePrimaryCtxRetain(&second, 1));
    CHECK_EQUAL(0, set_access(base, 4 * MIB, 1, 3));
    CHECK_EQUAL(0, access_at(base, 0));
    CHECK_EQUAL(3, access_at(base, 1));
    check_writes(CUDA_ERROR_INVALID_VALUE, base, 100);
    CU(cuCtxSetCurrent(second));
    check_writes(CUDA_SUCCESS, base, 100);
    CHECK_EQUAL(0, set_access(base, 4 * MIB, 0, 1));
    check_reads(CUDA_SUCCESS, base, 100);
    use_device(0);
    check_reads(CUDA_SUCCESS, base, 100);
    check_writes(CUDA_ERROR_INVALID_VALUE, base, 100);
    CHECK_EQUAL(1, access_at(base, 0));
    tear_down();
}

TEST(vmm_memory_is_rejected_by_calls_for_other_memory)
{
    CUipcMemHandle handle;
    int yes = 1;

    set_up();
    set_read_write(base, 6 * MIB);
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuIpcGetMemHandle(&handle, base));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemFree_v2(base));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemFreeAsync(base, NULL));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemFreeHost((void *)(uintptr_t)base));
    for (size_t i = 0; i < 3; i++)
        CU_IS(CUDA_ERROR_INVALID_VALUE,
              cuMemHostRegister_v2((void *)(uintptr_t)(base + i * 4 * MIB), PIECE, 0));
    CU_IS(CUDA_ERROR_NOT_SUPPORTED,
          cuPointerSetAttribute(&yes, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, base));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemAdvise(base, PIECE, 1, 0));
    tear_down();
}

/* --- attributes of an address --- */

static uint64_t pointer_attribute(int attribute, CUdeviceptr address)
{
    uint64_t value = 0, plural = 0;
    void *values[] = {&plural};

    CU(cuPointerGetAttribute(&value, attribute, address));
    CU(cuPointerGetAttributes(1, &attribute, values, address));
    CHECK(value == plural);
    return value;
}

TEST(vmm_pointer_attributes_name_the_mapping_and_the_reservation)
{
    CUdeviceptr start;
    uint64_t value;
    size_t bytes;

    set_up();
    set_read_write(base, 4 * MIB);
    CU(cuMemGetAddressRange_v2(&start, &bytes, base + 3 * MIB + 7));
    CHECK(start == base);
    CHECK_EQUAL(4 * MIB, bytes);
    CHECK_EQUAL(CU_MEMORYTYPE_DEVICE,
                pointer_attribute(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, base));
    CHECK(pointer_attribute(CU_POINTER_ATTRIBUTE_DEVICE_POINTER, base + 9) == base + 9);
    CHECK(pointer_attribute(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, base + MIB) == base);
    CHECK_EQUAL(16 * MIB,
                pointer_attribute(CU_POINTER_ATTRIBUTE_RANGE_SIZE, base + 5 * MIB));
    CHECK(pointer_attribute(CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR, base + 5 * MIB) ==
          base + 4 * MIB);
    CHECK_EQUAL(PIECE,
                pointer_attribute(CU_POINTER_ATTRIBUTE_MAPPING_SIZE, base + 5 * MIB));
    CHECK_EQUAL(0, pointer_attribute(CU_POINTER_ATTRIBUTE_CONTEXT, base));
    CHECK_EQUAL(0, pointer_attribute(CU_POINTER_ATTRIBUTE_IS_MANAGED, base));
    CHECK_EQUAL(0,
                pointer_attribute(CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, base));
    CHECK_EQUAL(0, pointer_attribute(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, base));
    CHECK_EQUAL(0, pointer_attribute(CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, base));
    CHECK_EQUAL(1, pointer_attribute(CU_POINTER_ATTRIBUTE_MAPPED, base));
    CHECK_EQUAL(3, pointer_attribute(CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, base));
    CHECK_EQUAL(0, pointer_attribute(CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, base + 4 * MIB));
    CHECK(pointer_attribute(CU_POINTER_ATTRIBUTE_BUFFER_ID, base) !=
          pointer_attribute(CU_POINTER_ATTRIBUTE_BUFFER_ID, base + 4 * MIB));
    CHECK(pointer_attribute(CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID, base) !=
          pointer_attribute(CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID, base + 4 * MIB));
    CU_IS(CUDA_ERROR_NOT_FOUND, cuMemGetAddressRange_v2(&start, &bytes, base + 4 * MIB));
    CU_IS(CUDA_ERROR_INVALID_VALUE,
          cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
                                base + 4 * MIB));
    CU_IS(CUDA_ERROR_INVALID_VALUE,
          cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_HOST_POINTER, base));
    tear_down();
}

TEST(vmm_addresses_that_are_only_reserved_have_no_attributes)
{
    int attributes[] = {
        CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, CU_POINTER_ATTRIBUTE_RANGE_SIZE,
        CU_POINTER_ATTRIBUTE_MAPPING_SIZE, CU_POINTER_ATTRIBUTE_MEMORY_TYPE};
    uint64_t start = 0, bytes = 0, mapped = 7, value = 7;
    unsigned type = 7;
    void *values[] = {&start, &bytes, &mapped, &type};

    set_up();
    for (int i = CU_POINTER_ATTRIBUTE_CONTEXT;
         i <= CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE; i++)
        CU_IS(CUDA_ERROR_INVALID_VALUE, cuPointerGetAttribute(&value, i, base + 8 * MIB));
    CHECK_EQUAL(7, value);
    CU(cuPointerGetAttributes(4, attributes, values, base + 8 * MIB));
    CHECK(start == base);
    CHECK_EQUAL(16 * MIB, bytes);
    CHECK_EQUAL(0, mapped);
    CHECK_EQUAL(0, type);
    tear_down();
}

/* --- memory unmapped under queued work --- */

static void wait_at(void *data)
{
    while (!atomic_load((atomic_bool *)data))
        sched_yield();
}

enum pull { UNMAP, WITHDRAW, UNMAP_AND_RELEASE, MAP_ANOTHER };

static void pull_memory(enum pull how)
{
    if (how == WITHDRAW) {
        CHECK_EQUAL(0, set_access(base, 4 * MIB, 0, 0));
        return;
    }
    CU(cuMemUnmap(base, 4 * MIB));
    if (how == UNMAP_AND_RELEASE)
        CU(cuMemRelease(large));
    if (how == MAP_ANOTHER) {
        CU(cuMemRelease(large));
        large = new_memory(4 * MIB, 0);
        CU(cuMemMap(base, 4 * MIB, 0, large, 0));
        set_read_write(base, 4 * MIB);
    }
}

/* Queue a copy and a fill, unmap the memory, and then let them run. */
static void queue_and_pull(enum pull how, CUstream *stream, CUevent *event)
{
    static atomic_bool open;
    CUdeviceptr block;

    atomic_store(&open, false);
    set_up();
    set_read_write(base, 4 * MIB);
    CU(cuMemAlloc_v2(&block, PIECE));
    CU(cuStreamCreate(stream, CU_STREAM_NON_BLOCKING));
    CU(cuEventCreate(event, CU_EVENT_DISABLE_TIMING));
    CU(cuLaunchHostFunc(*stream, wait_at, &open));
    CU(cuMemcpyDtoDAsync_v2(block, base, PIECE, *stream));
    CU(cuMemsetD8Async(base + PIECE, 9, PIECE, *stream));
    CU(cuEventRecord(*event, *stream));
    pull_memory(how);
    CU_IS(CUDA_ERROR_NOT_READY, cuStreamQuery(*stream));
    atomic_store(&open, true);
}

static void check_lost(CUstream stream, CUevent event)
{
    CUdeviceptr block = 77;
    CUstream other;

    CU_IS(CUDA_ERROR_ILLEGAL_ADDRESS, cuStreamSynchronize(stream));
    CU_IS(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize());
    CU_IS(CUDA_ERROR_ILLEGAL_ADDRESS, cuEventQuery(event));
    CU_IS(CUDA_ERROR_ILLEGAL_ADDRESS, cuEventSynchronize(event));
    CU_IS(CUDA_ERROR_ILLEGAL_ADDRESS, cuStreamQuery(stream));
    CU_IS(CUDA_ERROR_ILLEGAL_ADDRESS, cuMemAlloc_v2(&block, 100));
    CU_IS(CUDA_ERROR_ILLEGAL_ADDRESS, cuMemAllocAsync(&block, 100, stream));
    CU_IS(CUDA_ERROR_ILLEGAL_ADDRESS, cuStreamCreate(&other, 0));
    CU_IS(CUDA_ERROR_ILLEGAL_ADDRESS, cuStreamDestroy_v2(stream));
    CU_IS(CUDA_ERROR_ILLEGAL_ADDRESS, cuEventDestroy_v2(event));
    CHECK_EQUAL(0, block); /* and no address */
}

TEST(vmm_unmapping_under_queued_work_loses_the_context)
{
    for (enum pull how = UNMAP; how <= UNMAP_AND_RELEASE; how++) {
        CUstream stream;
        CUevent event;
        queue_and_pull(how, &stream, &event);
        check_lost(stream, event);
        CU(cuMemUnmap(base + 4 * MIB, PIECE)); /* these need no context */
        CU(cuMemRelease(small));
        CU(cuDevicePrimaryCtxReset_v2(0)); /* valid again, once it is retained */
        use_device(0);
        CU(cuCtxSynchronize());
        CU(cuMemUnmap(base, 16 * MIB));
        if (how != UNMAP_AND_RELEASE)
            CU(cuMemRelease(large));
        CU(cuMemAddressFree(base, 16 * MIB));
    }
}

TEST(vmm_queued_work_uses_the_mappings_of_its_start)
{
    CUstream stream;
    CUevent event;
    unsigned char bytes[2];

    queue_and_pull(MAP_ANOTHER, &stream, &event);
    CU(cuStreamSynchronize(stream));
    CU(cuMemcpyDtoH_v2(bytes, base + PIECE - 1, 2));
    CHECK_EQUAL(0, bytes[0]);
    CHECK_EQUAL(9, bytes[1]);
    CU(cuStreamDestroy_v2(stream));
    CU(cuEventDestroy_v2(event));
    tear_down();
}

/* In the seeded mode work runs inside calls, so the same must hold there. */
TEST(vmm_unmapping_under_seeded_work_loses_the_context_for_some_seeds)
{
    enum { SEEDS = 40 };
    int lost = 0;

    for (int seed = 0; seed < SEEDS; seed++) {
        CUresult result;
        char options[64];
        snprintf(options, sizeof options, "mode=seeded,seed=%d", seed);
        CHECK_EQUAL(0, driver.configure(options));
        set_up();
        set_read_write(base, 4 * MIB);
        CU(cuMemsetD8Async(base, 9, 100, NULL));
        CU(cuMemUnmap(base, 4 * MIB));
        result = driver.cuCtxSynchronize();
        CHECK(result == CUDA_SUCCESS || result == CUDA_ERROR_ILLEGAL_ADDRESS);
        lost += result != CUDA_SUCCESS;
        CU(cuDevicePrimaryCtxReset_v2(0));
        use_device(0);
        tear_down();
        CHECK_EQUAL(0, driver.configure(NULL));
    }
    CHECK(lost > 0 && lost < SEEDS);
}

TEST(vmm_unmapping_without_a_wait_is_a_race)
{
    for (int waits = 0; waits < 2; waits++) {
        CHECK_EQUAL(0, driver.configure("races=on"));
        set_up();
        set_read_write(base, 4 * MIB);
        CU(cuMemsetD8Async(base, 9, 100, NULL));
        if (waits)
            CU(cuStreamSynchronize(NULL));
        CU(cuMemUnmap(base, 4 * MIB));
        CHECK_EQUAL(!waits, driver.races());
        CHECK_EQUAL(0, driver.configure(NULL));
        CU(cuDevicePrimaryCtxReset_v2(0)); /* the fill may have come too late */
        use_device(0);
        tear_down();
    }
}

/* --- threads --- */

static atomic_bool stop;
static CUcontext shared;

/* It may be rejected, lose the context, or run while the context is reset. */
static bool is_expected(CUresult result)
{
    return result == CUDA_SUCCESS || result == CUDA_ERROR_INVALID_VALUE ||
           result == CUDA_ERROR_ILLEGAL_ADDRESS ||
           result == CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

static void *use_memory(void *unused)
{
    static char bytes[100];

    (void)unused;
    CU(cuCtxSetCurrent(shared));
    while (!atomic_load(&stop)) {
        CHECK(is_expected(driver.cuMemsetD8_v2(base, 3, PIECE)));
        CHECK(is_expected(driver.cuMemcpyDtoD_v2(base + MIB, base, MIB)));
        CHECK(is_expected(driver.cuMemcpyHtoDAsync_v2(base, bytes, 100, NULL)));
    }
    return NULL;
}

TEST(vmm_unmapping_under_running_copies_is_survived)
{
    enum { THREADS = 3, ROUNDS = 300 };
    pthread_t threads[THREADS];

    set_up();
    shared = use_device(0);
    atomic_store(&stop, false);
    for (int i = 0; i < THREADS; i++)
        CHECK_EQUAL(0, pthread_create(&threads[i], NULL, use_memory, NULL));
    for (int i = 0; i < ROUNDS; i++) {
        set_read_write(base, 4 * MIB);
        nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
        if (i % 2)
            CHECK_EQUAL(0, set_access(base, 4 * MIB, 0, i % 4 == 1));
        CU(cuMemUnmap(base, 4 * MIB));
        CU(cuMemMap(base, 4 * MIB, 0, large, 0));
        if (driver.cuCtxSynchronize() != CUDA_SUCCESS) {
            CU(cuDevicePrimaryCtxReset_v2(0));
            use_device(0);
        }
    }
    atomic_store(&stop, true);
    for (int i = 0; i < THREADS; i++)
        CHECK_EQUAL(0, pthread_join(threads[i], NULL));
    CU(cuDevicePrimaryCtxReset_v2(0));
    use_device(0);
    tear_down();
}
