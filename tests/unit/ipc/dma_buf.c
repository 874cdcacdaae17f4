/* Test dma-buf descriptors: the range around a block, which memory has them, and faults.
 */
#define _GNU_SOURCE
#include "test.h"
#include <fcntl.h>
#include <unistd.h>

enum { MIB = 1 << 20, PAGE = 4096 };

static tarn_resource *resource;

static void begin(void)
{
    CHECK_OK(tarn_exportable_create(0, NULL, &resource));
}

/* The number that the next descriptor of this process would have. */
static int lowest_free_descriptor(void)
{
    int file = open("/dev/null", O_RDONLY | O_CLOEXEC);

    CHECK(file >= 0);
    close(file);
    return file;
}

static void end(void)
{
    CHECK_OK(tarn_resource_release(resource));
    sim_configure(NULL);
    CHECK(sim_live_bytes() == 0);
}

static tarn_pointer *allocate(size_t bytes)
{
    tarn_pointer *pointer;

    CHECK_OK(tarn_pointer_allocate(resource, bytes, TARN_STREAM_NONE, &pointer));
    return pointer;
}

TEST(dma_buf_covers_the_pages_around_a_block)
{
    tarn_ipc_dma_buf out;
    tarn_pointer *view;

    if (!on_sim())
        skip();
    begin();
    tarn_pointer *pointer = allocate(3 * MIB);
    CHECK_OK(tarn_ipc_export_dma_buf(pointer, false, &out));
    CHECK_EQUAL(0, out.offset);
    CHECK(out.bytes == 3 * MIB);
    CHECK(lseek(out.file, 0, SEEK_END) == 3 * MIB);
    CHECK(fcntl(out.file, F_GETFD) & FD_CLOEXEC);
    CHECK_EQUAL(0, close(out.file));
    CHECK_OK(tarn_pointer_view(pointer, PAGE + 300, PAGE, &view));
    sim_configure("dma-buf=pcie");
    CHECK_OK(tarn_ipc_export_dma_buf(view, true, &out));
    CHECK_EQUAL(300, out.offset);
    CHECK_EQUAL(2 * PAGE, out.bytes);
    close(out.file);
    tarn_pointer_release(view);
    tarn_pointer_release(pointer);
    end();
}

/* The blocks of a pool over exportable memory lie in one handle each. */
TEST(dma_buf_of_a_pool_over_exportable_memory)
{
    tarn_resource *upstream = NULL;
    tarn_pointer *pointers[40];
    tarn_ipc_dma_buf out;

    if (!on_sim())
        skip();
    begin();
    upstream = resource;
    CHECK_OK(tarn_pool_create(0, upstream, NULL, &resource));
    for (size_t i = 0; i < 40; i++) {
        pointers[i] = allocate((i % 7 + 1) * MIB - 100 * i);
        CHECK_OK(tarn_ipc_export_dma_buf(pointers[i], false, &out));
        close(out.file);
    }
    for (size_t i = 0; i < 40; i++)
        tarn_pointer_release(pointers[i]);
    CHECK_OK(tarn_resource_release(resource));
    resource = upstream;
    end();
}

/* A block of an ordinary pool has a range of many physical handles. */
TEST(dma_buf_of_a_block_that_spans_handles)
{
    const tarn_pool_options options = {.size = sizeof options,
                                       .initial_bytes = 512 * (size_t)MIB};
    tarn_ipc_dma_buf out;
    tarn_resource *upstream;

    if (!on_sim())
        skip();
    begin();
    upstream = resource;
    CHECK_OK(tarn_pool_create(0, NULL, &options, &resource));
    tarn_pointer *pointer = allocate(500 * (size_t)MIB);
    CHECK_OK(tarn_ipc_export_dma_buf(pointer, false, &out));
    CHECK(lseek(out.file, 0, SEEK_END) == 500 * (off_t)MIB);
    CHECK_EQUAL(0, close(out.file));
    tarn_pointer_release(pointer);
    CHECK_OK(tarn_resource_release(resource));
    resource = upstream;
    end();
}

/* A pool over it has no descriptor for its blocks either. */
TEST(dma_buf_of_cuMemAlloc_is_rejected)
{
    tarn_ipc_dma_buf out = {.file = 77};
    tarn_resource *exportable, *cuda;

    if (!on_sim())
        skip();
    begin();
    exportable = resource;
    CHECK_OK(tarn_cuda_create(0, &cuda));
    CHECK_OK(tarn_pool_create(0, cuda, NULL, &resource));
    tarn_pointer *pointer = allocate(MIB);
    int before = lowest_free_descriptor();
    CHECK_STATUS(TARN_NOT_SUPPORTED, tarn_ipc_export_dma_buf(pointer, false, &out));
    CHECK_MESSAGE("1048576 bytes at 0x");
    CHECK_MESSAGE("have no dma-buf: the driver rejects the range; it accepts memory of "
                  "cuMemCreate");
    CHECK_STATUS(TARN_NOT_SUPPORTED, tarn_ipc_export_dma_buf(pointer, true, &out));
    CHECK_MESSAGE("the driver rejects the range, or mappings over PCIe");
    CHECK_EQUAL(77, out.file);
    CHECK_EQUAL(before, lowest_free_descriptor());
    tarn_pointer_release(pointer);
    CHECK_OK(tarn_resource_release(resource));
    CHECK_OK(tarn_resource_release(cuda));
    resource = exportable;
    end();
}

TEST(dma_buf_has_clear_errors)
{
    tarn_ipc_dma_buf out = {.file = 77};

    if (!on_sim())
        skip();
    begin();
    tarn_pointer *pointer = allocate(MIB);
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_ipc_export_dma_buf(NULL, false, &out));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_ipc_export_dma_buf(pointer, false, NULL));
    CHECK_STATUS(TARN_NOT_SUPPORTED, tarn_ipc_export_dma_buf(pointer, true, &out));
    CHECK_MESSAGE("the driver does not support it over PCIe");
    CHECK_EQUAL(77, out.file); /* the driver has changed its own output */
    sim_configure("dma-buf=off");
    CHECK_STATUS(TARN_NOT_SUPPORTED, tarn_ipc_export_dma_buf(pointer, false, &out));
    CHECK_MESSAGE("the driver does not support it");
    sim_configure("fail=call:cuMemGetHandleForAddressRange:1");
    CHECK(tarn_ipc_export_dma_buf(pointer, false, &out) != TARN_OK);
    CHECK_EQUAL(77, out.file);
    tarn_pointer_release(pointer);
    end();
}

TEST(device_info_reports_what_others_can_register)
{
    tarn_device_info info;

    if (!on_sim())
        skip();
    CHECK_OK(tarn_driver_device_info(0, &info));
    CHECK(!info.has_rdma && info.has_dma_buf && !info.has_fabric);
    sim_configure("dma-buf=off,fabric=on,attribute=110:1");
    CHECK_OK(tarn_driver_device_info(0, &info));
    CHECK(info.has_rdma && !info.has_dma_buf && info.has_fabric);
    sim_configure("fabric=on,attribute=110:1");
    CHECK_OK(tarn_driver_device_info(0, &info));
    CHECK(info.has_rdma && info.has_dma_buf && info.has_fabric);
    sim_configure(NULL);
}
