/* Test the properties of exportable memory that others register: one handle for a block,
 * access of all peers, the flag for RDMA, and the kinds of handles that the driver grants.
 */
#include "test.h"
#include "driver/driver.h"
#include "ipc/segment.h"
#include "ipc/segment_memory.h"
#include <dlfcn.h>

enum { MIB = 1 << 20 };

static tarn_resource *resource;
static tarn_device_ptr block;

static void begin(const char *options, int device)
{
    CHECK_OK(tarn_exportable_create(device, NULL, &resource));
    if (options)
        sim_configure(options);
    CHECK_OK(tarn_resource_allocate(resource, 5 * MIB, 0, TARN_STREAM_NONE, &block));
}

static void end(void)
{
    CHECK_OK(tarn_resource_deallocate(resource, block, 5 * MIB, 0, TARN_STREAM_NONE));
    CHECK_OK(tarn_resource_release(resource));
    sim_configure(NULL);
    CHECK(sim_live_bytes() == 0);
}

static const struct tarn__calls *driver(void)
{
    const struct tarn__calls *calls;

    CHECK_OK(tarn__driver(&calls));
    return calls;
}

/* The bytes of memory from `address` on that one physical handle has. */
static size_t bytes_of_one_handle(tarn_device_ptr address)
{
    struct tarn__scope scope;
    CUdeviceptr_ base = 0;
    size_t bytes = 0;

    CHECK_OK(tarn__scope_enter(0, &scope));
    CHECK_EQUAL(CUDA_SUCCESS_,
                scope.calls->mem_get_address_range(&base, &bytes, address));
    tarn__scope_leave(&scope);
    return bytes - (size_t)(address - base);
}

TEST(exportable_block_is_one_handle_of_whole_granules)
{
    if (!on_sim())
        skip();
    begin(NULL, 0);
    CHECK(bytes_of_one_handle(block) == 6 * MIB);
    CHECK(sim_live_bytes() == 6 * MIB);
    end();
}

static size_t driver_granularity;

static CUresult_ get_granularity(size_t *out, const CUmemAllocationProp_ *properties,
                                 CUmemAllocationGranularity_ option)
{
    (void)properties;
    (void)option;
    *out = driver_granularity;
    return CUDA_SUCCESS_;
}

TEST(exportable_granules_are_those_of_the_driver_or_of_2_mib)
{
    static const struct {
        size_t granularity, rounded;
    } cases[] = {{0, 6 * MIB},
                 {64 << 10, 6 * MIB},
                 {2 * MIB, 6 * MIB},
                 {4 * MIB, 8 * MIB},
                 {32 * MIB, 32 * MIB}};

    if (!on_sim())
        skip();
    struct tarn__calls calls = *driver();
    calls.mem_get_allocation_granularity = get_granularity;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t rounded = 0;
        driver_granularity = cases[i].granularity;
        CHECK_EQUAL(CUDA_SUCCESS_,
                    tarn__segment_memory_round(&calls, 0, 5 * MIB, &rounded));
        CHECK_EQUAL(cases[i].rounded, rounded);
    }
}

/* Fill the block on one device, and compare it on the other. */
static void use_from(int device)
{
    static unsigned char host[5 * MIB];

    CHECK_OK(tarn_memset_async(device, block, (unsigned char)(40 + device), 5 * MIB,
                               TARN_STREAM_NONE));
    CHECK_OK(tarn_driver_synchronize(device));
    CHECK_OK(
        tarn_memcpy_async(device, (uintptr_t)host, block, 5 * MIB, TARN_STREAM_NONE));
    CHECK_EQUAL(40 + device, host[0]);
    CHECK_EQUAL(40 + device, host[5 * MIB - 1]);
}

TEST(exportable_block_is_accessible_from_all_peers)
{
    if (!on_sim())
        skip();
    for (int owner = 0; owner < 2; owner++) {
        begin(NULL, owner);
        use_from(0);
        use_from(1);
        end();
    }
}

TEST(exportable_block_has_no_access_from_devices_that_cannot_reach_it)
{
    if (!on_sim())
        skip();
    begin("peers=off", 0);
    CHECK(tarn_memset_async(1, block, 1, 5 * MIB, TARN_STREAM_NONE) != TARN_OK);
    end();
}

/* --- what the memory was created with --- */

typedef CUresult_ get_properties_fn(CUmemAllocationProp_ *, CUmemHandle_);

/* Not among the calls of Tarn. */
static get_properties_fn *get_properties_of_driver(void)
{
    tarn_driver_info info;

    CHECK_OK(tarn_driver_get_info(&info));
    void *library = dlopen(info.path, RTLD_NOW | RTLD_NOLOAD);
    CHECK(library != NULL);
    void *symbol = dlsym(library, "cuMemGetAllocationPropertiesFromHandle");
    CHECK(symbol != NULL);
    dlclose(library);
    return (get_properties_fn *)(uintptr_t)symbol;
}

static CUmemAllocationProp_ properties_of_block(void)
{
    get_properties_fn *get_properties = get_properties_of_driver();
    CUmemAllocationProp_ properties;
    CUmemHandle_ handle = 0;

    CHECK_EQUAL(CUDA_SUCCESS_, driver()->mem_retain(&handle, (void *)(uintptr_t)block));
    CHECK_EQUAL(CUDA_SUCCESS_, get_properties(&properties, handle));
    CHECK_EQUAL(CUDA_SUCCESS_, driver()->mem_release(handle));
    return properties;
}

TEST(exportable_block_is_for_rdma_where_the_device_is)
{
    if (!on_sim())
        skip();
    begin(NULL, 0);
    CHECK_EQUAL(0, properties_of_block().allocFlags.gpuDirectRDMACapable);
    end();
    begin("attribute=110:1", 0);
    CHECK_EQUAL(1, properties_of_block().allocFlags.gpuDirectRDMACapable);
    end();
}

TEST(exportable_block_is_memory_of_its_device)
{
    if (!on_sim())
        skip();
    for (int device = 0; device < 2; device++) {
        begin(NULL, device);
        CHECK_EQUAL(device, properties_of_block().location.id);
        end();
    }
}

TEST(exportable_block_has_fabric_handles_where_the_driver_grants_them)
{
    static const struct {
        const char *options;
        int types;
    } cases[] = {{"fabric=off", 1}, {"fabric=on", 9}, {"fabric=no-channel", 1}};

    if (!on_sim())
        skip();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        begin(cases[i].options, 0);
        CHECK_EQUAL(cases[i].types, properties_of_block().requestedHandleTypes);
        end();
    }
}

/* Out of memory is no reason to try without fabric handles. */
TEST(exportable_memory_that_is_scarce_is_requested_once)
{
    tarn_device_ptr none = 77;

    if (!on_sim())
        skip();
    CHECK_OK(tarn_exportable_create(0, NULL, &resource));
    sim_configure("fabric=on,fail=call:cuMemCreate:1");
    CHECK_STATUS(TARN_OUT_OF_MEMORY,
                 tarn_resource_allocate(resource, 1, 0, TARN_STREAM_NONE, &none));
    CHECK(none == 77);
    CHECK(sim_faults() == 1);
    sim_configure(NULL);
    CHECK_OK(tarn_resource_release(resource));
}
