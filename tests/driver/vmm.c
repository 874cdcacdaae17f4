/* vmm.c -- facts about virtual memory: reserve, create, map, rights, unmap, export. */
#include "facts.h"

#include <string.h>
#include <unistd.h>

#define UNIT (2 * MIB) /* the granularity; a fact of its own prints it */

static void granularity_fact(const char *name, CUmemAllocationProp prop, int option)
{
    size_t out = 77;
    CUresult result = cuMemGetAllocationGranularity(&out, &prop, option);

    fact(name, "%s, %zu", result_name(result), out);
}

static void granularity(void)
{
    CUmemAllocationProp prop = vmm_prop();
    size_t out = 77;

    granularity_fact("granularity.minimum", prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
    granularity_fact("granularity.recommended", prop,
                     CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
    granularity_fact("granularity.option_7", prop, 7);
    prop.location.id = 99;
    granularity_fact("granularity.bad_device", prop, 0);
    prop = vmm_prop(), prop.location.type = 0;
    granularity_fact("granularity.location_type_0", prop, 0);
    prop = vmm_prop(), prop.type = 0;
    granularity_fact("granularity.type_0", prop, 0);
    prop = vmm_prop(), prop.requestedHandleTypes = 1;
    granularity_fact("granularity.posix_handles", prop, 0);
    fact_result("granularity.null_props", cuMemGetAllocationGranularity(&out, NULL, 0));
    prop = vmm_prop();
    fact_result("granularity.null_output", cuMemGetAllocationGranularity(NULL, &prop, 0));
}

static void reserve_fact(const char *name, size_t bytes, size_t alignment,
                         CUdeviceptr hint, unsigned long long flags)
{
    CUdeviceptr out = 7;
    CUresult result = cuMemAddressReserve(&out, bytes, alignment, hint, flags);

    fact_output(name, result, out == 7);
    if (result != CUDA_SUCCESS)
        return;
    size_t expected = alignment > UNIT ? alignment : UNIT;
    fact_bool(named("%s.aligned", name), out % expected == 0);
    cuMemAddressFree(out, bytes);
}

static void reserving(void)
{
    CUdeviceptr out = 0;

    reserve_fact("reserve.2MiB", UNIT, 0, 0, 0);
    reserve_fact("reserve.bytes_0", 0, 0, 0, 0);
    reserve_fact("reserve.bytes_4KiB", 4096, 0, 0, 0);
    reserve_fact("reserve.bytes_odd", UNIT + 1, 0, 0, 0);
    reserve_fact("reserve.64GiB", 64 * GIB, 0, 0, 0);
    reserve_fact("reserve.bytes_2^60", (size_t)1 << 60, 0, 0, 0);
    reserve_fact("reserve.alignment_1GiB", UNIT, GIB, 0, 0);
    reserve_fact("reserve.alignment_4KiB", UNIT, 4096, 0, 0);
    reserve_fact("reserve.alignment_3MiB", UNIT, 3 * MIB, 0, 0);
    reserve_fact("reserve.flags_1", UNIT, 0, 0, 1);
    fact_result("reserve.null", cuMemAddressReserve(NULL, UNIT, 0, 0, 0));
    cuMemAddressReserve(&out, 4 * UNIT, 0, 0, 0);
    cuMemAddressFree(out, 4 * UNIT);
    CUdeviceptr again = 0;
    cuMemAddressReserve(&again, 4 * UNIT, 0, out, 0);
    fact_bool("reserve.wish_granted", again == out);
    CUdeviceptr taken = 0;
    fact_result("reserve.wish_taken", cuMemAddressReserve(&taken, UNIT, 0, again, 0));
    fact_bool("reserve.wish_taken_elsewhere", taken != again);
    cuMemAddressFree(taken, UNIT);
    fact_result("unreserve.part", cuMemAddressFree(again, UNIT));
    fact_result("unreserve.from_the_middle", cuMemAddressFree(again + UNIT, 3 * UNIT));
    fact_result("unreserve.too_much", cuMemAddressFree(again, 8 * UNIT));
    fact_result("unreserve", cuMemAddressFree(again, 4 * UNIT));
    fact_result("unreserve.twice", cuMemAddressFree(again, 4 * UNIT));
    fact_result("unreserve.null", cuMemAddressFree(0, UNIT));
    fact_result("unreserve.bytes_0", cuMemAddressFree(again, 0));
}

static void create_fact(const char *name, size_t bytes, CUmemAllocationProp prop,
                        unsigned long long flags)
{
    CUmemGenericAllocationHandle out = 77;
    CUresult result = cuMemCreate(&out, bytes, &prop, flags);

    fact_output(name, result, out == 77);
    if (result == CUDA_SUCCESS)
        cuMemRelease(out);
}

static void creating(void)
{
    CUmemAllocationProp prop = vmm_prop(), back = {0};
    CUmemGenericAllocationHandle handle = 0;

    create_fact("create.2MiB", UNIT, prop, 0);
    create_fact("create.bytes_0", 0, prop, 0);
    create_fact("create.bytes_4KiB", 4096, prop, 0);
    create_fact("create.bytes_3MiB", 3 * MIB, prop, 0);
    create_fact("create.bytes_2^50", (size_t)1 << 50, prop, 0);
    create_fact("create.flags_1", UNIT, prop, 1);
    prop.location.id = 99;
    create_fact("create.bad_device", UNIT, prop, 0);
    prop = vmm_prop(), prop.location.type = 0;
    create_fact("create.location_type_0", UNIT, prop, 0);
    prop = vmm_prop(), prop.location.type = 77;
    create_fact("create.location_type_77", UNIT, prop, 0);
    prop = vmm_prop(), prop.type = 0;
    create_fact("create.type_0", UNIT, prop, 0);
    prop = vmm_prop(), prop.requestedHandleTypes = 1;
    create_fact("create.posix_handles", UNIT, prop, 0);
    prop = vmm_prop(), prop.requestedHandleTypes = 2;
    create_fact("create.win32_handles", UNIT, prop, 0);
    prop = vmm_prop(), prop.requestedHandleTypes = 0x40;
    create_fact("create.bad_handles", UNIT, prop, 0);
    prop = vmm_prop();
    fact_result("create.null", cuMemCreate(NULL, UNIT, &prop, 0));
    fact_result("create.null_props", cuMemCreate(&handle, UNIT, NULL, 0));
    cuMemCreate(&handle, UNIT, &prop, 0);
    fact_result("props", cuMemGetAllocationPropertiesFromHandle(&back, handle));
    fact("props.values", "type %d, handles %d, location %d %d", back.type,
         back.requestedHandleTypes, back.location.type, back.location.id);
    fact_result("props.null", cuMemGetAllocationPropertiesFromHandle(NULL, handle));
    fact_result("release", cuMemRelease(handle));
    fact_result("release.twice", cuMemRelease(handle));
    fact_result("release.0", cuMemRelease(0));
    fact_result("release.garbage", cuMemRelease(0x1234560));
}

static void released(void)
{
    CUmemAllocationProp prop = vmm_prop();
    CUmemGenericAllocationHandle handle = 0;

    cuMemCreate(&handle, UNIT, &prop, 0);
    cuMemRelease(handle);
    fact_result("props.released", cuMemGetAllocationPropertiesFromHandle(&prop, handle));
}

static void mapping(void)
{
    CUmemAllocationProp prop = vmm_prop();
    CUmemGenericAllocationHandle one = 0, two = 0;
    CUdeviceptr at = 0;

    cuMemAddressReserve(&at, 8 * UNIT, 0, 0, 0);
    cuMemCreate(&one, UNIT, &prop, 0);
    cuMemCreate(&two, 2 * UNIT, &prop, 0);
    fact_result("map.unreserved", cuMemMap(0x1200000000, UNIT, 0, one, 0));
    fact_result("map.null", cuMemMap(0, UNIT, 0, one, 0));
    fact_result("map.unaligned", cuMemMap(at + 4096, UNIT, 0, one, 0));
    fact_result("map.bytes_0", cuMemMap(at, 0, 0, one, 0));
    fact_result("map.more_than_the_handle", cuMemMap(at, 2 * UNIT, 0, one, 0));
    fact_result("map.less_than_the_handle", cuMemMap(at, UNIT, 0, two, 0));
    cuMemUnmap(at, UNIT);
    fact_result("map.offset", cuMemMap(at, UNIT, UNIT, two, 0));
    cuMemUnmap(at, UNIT);
    fact_result("map.offset_odd", cuMemMap(at, UNIT, 4096, two, 0));
    fact_result("map.flags_1", cuMemMap(at, UNIT, 0, one, 1));
    fact_result("map.garbage_handle", cuMemMap(at, UNIT, 0, 0x1234560, 0));
}

/* Past the end of the range is not queried: another range may lie there. */
static void mapping_on(void)
{
    CUmemAllocationProp prop = vmm_prop();
    CUmemGenericAllocationHandle one = 0, two = 0;
    CUdeviceptr at = 0;

    cuMemAddressReserve(&at, 8 * UNIT, 0, 0, 0);
    cuMemCreate(&one, UNIT, &prop, 0);
    cuMemCreate(&two, 2 * UNIT, &prop, 0);
    fact_result("map", cuMemMap(at, UNIT, 0, one, 0));
    fact_result("map.same_place", cuMemMap(at, UNIT, 0, one, 0));
    fact_result("map.overlapping", cuMemMap(at, 2 * UNIT, 0, two, 0));
    fact_result("map.second_place", cuMemMap(at + UNIT, UNIT, 0, one, 0));
    fact_result("map.third", cuMemMap(at + 2 * UNIT, 2 * UNIT, 0, two, 0));
    fact_result("unreserve.mapped", cuMemAddressFree(at, 8 * UNIT));
    fact_result("unmap.half_a_handle", cuMemUnmap(at + 2 * UNIT, UNIT));
    fact_result("unmap.bytes_0", cuMemUnmap(at, 0));
    fact_result("unmap.unaligned", cuMemUnmap(at + 4096, UNIT));
    fact_result("unmap.two_handles", cuMemUnmap(at, 2 * UNIT));
    fact_result("unmap.twice", cuMemUnmap(at, UNIT));
    fact_result("unmap.with_a_gap", cuMemUnmap(at + UNIT, 3 * UNIT));
    fact_result("unmap.beyond", cuMemUnmap(at + 2 * UNIT, 4 * UNIT));
    fact_result("unmap.third", cuMemUnmap(at + 2 * UNIT, 2 * UNIT));
    fact_result("unmap.null", cuMemUnmap(0, UNIT));
    cuMemRelease(one);
    cuMemRelease(two);
    fact_result("unreserve.all_unmapped", cuMemAddressFree(at, 8 * UNIT));
}

static void set_access_fact(const char *name, CUdeviceptr at, size_t bytes,
                            CUmemAccessDesc access)
{
    fact_result(name, cuMemSetAccess(at, bytes, &access, 1));
}

static void get_access_fact(const char *name, CUdeviceptr at)
{
    CUmemLocation here = {CU_MEM_LOCATION_TYPE_DEVICE, device};
    unsigned long long flags = 77;
    CUresult result = cuMemGetAccess(&flags, &here, at);

    fact(name, "%s, %llu", result_name(result), flags);
}

static void rights(void)
{
    CUmemAllocationProp prop = vmm_prop();
    CUmemAccessDesc both = vmm_access(3), access = both;
    CUmemGenericAllocationHandle handle = 0;
    CUdeviceptr at = 0;

    cuMemAddressReserve(&at, 4 * UNIT, 0, 0, 0);
    cuMemCreate(&handle, 2 * UNIT, &prop, 0);
    cuMemMap(at, 2 * UNIT, 0, handle, 0);
    get_access_fact("access.at_first", at);
    set_access_fact("access.set", at, 2 * UNIT, both);
    get_access_fact("access.then", at);
    get_access_fact("access.interior", at + UNIT + 100);
    get_access_fact("access.unmapped", at + 2 * UNIT);
    get_access_fact("access.null", 0);
    get_access_fact("access.unreserved", 0x1200000000);
    set_access_fact("access.set_half", at, UNIT, both);
    set_access_fact("access.set_unmapped", at + 2 * UNIT, UNIT, both);
    set_access_fact("access.set_too_far", at, 4 * UNIT, both);
    set_access_fact("access.set_unaligned", at + 4096, UNIT, both);
    set_access_fact("access.set_bytes_0", at, 0, both);
    access.flags = 1;
    set_access_fact("access.set_read", at, 2 * UNIT, access);
    get_access_fact("access.read", at);
    access.flags = 2;
    set_access_fact("access.set_flags_2", at, 2 * UNIT, access);
    access.flags = 4;
    set_access_fact("access.set_flags_4", at, 2 * UNIT, access);
    access = both, access.location.id = 99;
    set_access_fact("access.set_bad_device", at, 2 * UNIT, access);
    access = both, access.location.type = CU_MEM_LOCATION_TYPE_HOST;
    set_access_fact("access.set_host", at, 2 * UNIT, access);
    access = both, access.location.type = 77;
    set_access_fact("access.set_location_77", at, 2 * UNIT, access);
    fact_result("access.set_count_0", cuMemSetAccess(at, 2 * UNIT, &both, 0));
    fact_result("access.set_null", cuMemSetAccess(at, 2 * UNIT, NULL, 1));
    access.flags = 0, access.location = both.location;
    set_access_fact("access.set_none", at, 2 * UNIT, access);
    get_access_fact("access.none", at);
    cuMemUnmap(at, 2 * UNIT);
    cuMemRelease(handle);
    cuMemAddressFree(at, 4 * UNIT);
}

/* Memory lives as long as a mapping or a handle. */
static void living(void)
{
    struct range r = vmm_range(UNIT);
    CUmemAccessDesc access = vmm_access(3);
    CUmemGenericAllocationHandle again = 0, third = 0;
    size_t before = 0, during = 0, total;
    CUdeviceptr other = 0;

    cuMemsetD8(r.pointer, 5, UNIT);
    cuCtxSynchronize();
    fact("live.written", "%d", peek(r.pointer + UNIT - 1));
    fact_result("live.retain",
                cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)(r.pointer + 5)));
    fact_bool("live.retain_is_the_handle", again == r.handle);
    fact_result("live.release_retained", cuMemRelease(again));
    fact_result("live.release_while_mapped", cuMemRelease(r.handle));
    fact("live.still_there", "%d", peek(r.pointer));
    fact_result("live.retain_after_release",
                cuMemRetainAllocationHandle(&third, (void *)(uintptr_t)r.pointer));
    fact_result("live.map_elsewhere", (cuMemAddressReserve(&other, UNIT, 0, 0, 0),
                                       cuMemMap(other, UNIT, 0, third, 0)));
    cuMemSetAccess(other, UNIT, &access, 1);
    cuMemsetD8(other, 6, UNIT);
    cuCtxSynchronize();
    fact("live.seen_through_the_first", "%d", peek(r.pointer));
    cuMemUnmap(r.pointer, UNIT);
    fact("live.through_the_second", "%d", peek(other));
    cuMemUnmap(other, UNIT);
    cuMemMap(r.pointer, UNIT, 0, third, 0);
    cuMemSetAccess(r.pointer, UNIT, &access, 1);
    fact("live.mapped_again", "%d", peek(r.pointer));
    cuMemUnmap(r.pointer, UNIT);
    fact_result("live.last_release", cuMemRelease(third));
    fact_result("live.retain_unmapped",
                cuMemRetainAllocationHandle(&third, (void *)(uintptr_t)r.pointer));
    fact_result("live.retain_plain_memory",
                cuMemRetainAllocationHandle(&third, (void *)(uintptr_t)block(256)));
    cuMemAddressFree(r.pointer, UNIT);
    cuMemAddressFree(other, UNIT);
    cuMemGetInfo(&before, &total);
    r = vmm_range(64 * UNIT);
    cuMemGetInfo(&during, &total);
    vmm_end(&r);
    fact("live.free_falls_by_MiB", "%lld",
         (long long)(before / MIB) - (long long)(during / MIB));
}

static void other_calls(void)
{
    struct range r = vmm_range(UNIT);
    CUipcMemHandle handle;

    fact_result("other.cuMemFree", cuMemFree(r.pointer));
    fact_result("other.cuMemFreeAsync", cuMemFreeAsync(r.pointer, NULL));
    fact_result("other.cuMemFreeHost", cuMemFreeHost((void *)(uintptr_t)r.pointer));
    fact_result("other.cuIpcGetMemHandle", cuIpcGetMemHandle(&handle, r.pointer));
    fact_result("other.still_good", cuMemsetD8(r.pointer, 1, UNIT));
    cuCtxSynchronize(); /* before the following calls free the memory */
    vmm_end(&r);
}

/* One copy across the border of two handles. */
static void border(void)
{
    CUmemAllocationProp prop = vmm_prop();
    CUmemAccessDesc access = vmm_access(3);
    CUmemGenericAllocationHandle h[2];
    CUdeviceptr at = 0;

    cuMemAddressReserve(&at, 2 * UNIT, 0, 0, 0);
    for (int i = 0; i < 2; i++) {
        cuMemCreate(&h[i], UNIT, &prop, 0);
        cuMemMap(at + i * UNIT, UNIT, 0, h[i], 0);
    }
    fact_result("border.access_of_both", cuMemSetAccess(at, 2 * UNIT, &access, 1));
    fact_result("border.memset", cuMemsetD8(at, 5, 2 * UNIT));
    CUdeviceptr copy = block(2 * UNIT);
    fact_result("border.copy", cuMemcpyDtoD(copy, at, 2 * UNIT));
    cuCtxSynchronize();
    fact_bool("border.bytes", all_are(copy + UNIT - 1000, 2000, 5));
    fact_result("border.unmap_both", cuMemUnmap(at, 2 * UNIT));
    cuMemRelease(h[0]);
    cuMemRelease(h[1]);
    cuMemAddressFree(at, 2 * UNIT);
    cuMemFree(copy);
}

/* A process needs an IMEX channel for fabric handles. */
static void fabric(void)
{
    CUmemAllocationProp prop = vmm_prop();
    CUmemGenericAllocationHandle out = 77;
    unsigned char garbage[64] = {0};

    prop.requestedHandleTypes = 8;
    create_fact("fabric.create", UNIT, prop, 0);
    prop.requestedHandleTypes = 9;
    create_fact("fabric.create_with_posix", UNIT, prop, 0);
    fact_output("fabric.import_zeros", cuMemImportFromShareableHandle(&out, garbage, 8),
                out == 77);
    memset(garbage, 0x5a, sizeof garbage);
    fact_output("fabric.import_garbage", cuMemImportFromShareableHandle(&out, garbage, 8),
                out == 77);
    fact_output("fabric.import_null", cuMemImportFromShareableHandle(&out, NULL, 8),
                out == 77);
}

/* What a network card needs. */
static void rdma(void)
{
    CUmemAllocationProp prop = vmm_prop(), back = {0};
    CUmemGenericAllocationHandle handle = 0;

    prop.allocFlags.gpuDirectRDMACapable = 1;
    create_fact("rdma.create", UNIT, prop, 0);
    if (cuMemCreate(&handle, UNIT, &prop, 0) != CUDA_SUCCESS)
        return;
    cuMemGetAllocationPropertiesFromHandle(&back, handle);
    fact("rdma.props", "%d", back.allocFlags.gpuDirectRDMACapable);
    cuMemRelease(handle);
}

static void dma_buf_fact(const char *name, CUdeviceptr at, size_t bytes, int type,
                         unsigned long long flags)
{
    int fd = -77;
    CUresult result = cuMemGetHandleForAddressRange(&fd, at, bytes, type, flags);

    fact_output(name, result, fd == -77);
    if (result == CUDA_SUCCESS && fd >= 0)
        close(fd);
}

static void dma_buf(void)
{
    struct range r = vmm_range(2 * UNIT);
    CUdeviceptr plain = block(8192);

    dma_buf_fact("dma_buf.handle", r.pointer, 2 * UNIT, 1, 0);
    dma_buf_fact("dma_buf.page_of_it", r.pointer + 4096, 4096, 1, 0);
    dma_buf_fact("dma_buf.odd_address", r.pointer + 256, 4096, 1, 0);
    dma_buf_fact("dma_buf.odd_bytes", r.pointer, 256, 1, 0);
    dma_buf_fact("dma_buf.bytes_0", r.pointer, 0, 1, 0);
    dma_buf_fact("dma_buf.too_far", r.pointer, 4 * UNIT, 1, 0);
    dma_buf_fact("dma_buf.type_0", r.pointer, UNIT, 0, 0);
    dma_buf_fact("dma_buf.over_pcie", r.pointer, UNIT, 1, 1);
    dma_buf_fact("dma_buf.flags_2", r.pointer, UNIT, 1, 2);
    dma_buf_fact("dma_buf.of_cuMemAlloc", plain, 8192, 1, 0);
    fact_result("dma_buf.null", cuMemGetHandleForAddressRange(NULL, plain, 8192, 1, 0));
    cuMemUnmap(r.pointer, 2 * UNIT);
    cuMemRelease(r.handle);
    cuMemAddressFree(r.pointer, 2 * UNIT);
    cuMemFree(plain);
}

/* One range over two handles: what a pool's block can be. */
static void dma_buf_of_two_handles(void)
{
    CUmemAllocationProp prop = vmm_prop();
    CUmemAccessDesc access = vmm_access(3);
    CUmemGenericAllocationHandle one = 0, two = 0;
    CUdeviceptr at = 0;

    cuMemAddressReserve(&at, 2 * UNIT, 0, 0, 0);
    cuMemCreate(&one, UNIT, &prop, 0);
    cuMemCreate(&two, UNIT, &prop, 0);
    cuMemMap(at, UNIT, 0, one, 0);
    cuMemMap(at + UNIT, UNIT, 0, two, 0);
    cuMemSetAccess(at, 2 * UNIT, &access, 1);
    dma_buf_fact("dma_buf.two_handles", at, 2 * UNIT, 1, 0);
    cuMemUnmap(at, 2 * UNIT);
    cuMemRelease(one);
    cuMemRelease(two);
    cuMemAddressFree(at, 2 * UNIT);
}

/* What a call that fails writes, and the size of a descriptor as lseek() reports it. */
static void dma_buf_outputs(void)
{
    struct range r = vmm_range(2 * UNIT);
    int too_far = -77, over_pcie = -77, good = -77;

    cuMemGetHandleForAddressRange(&too_far, r.pointer, 4 * UNIT, 1, 0);
    fact_bool("dma_buf.too_far.output_is_-1", too_far == -1);
    cuMemGetHandleForAddressRange(&over_pcie, r.pointer, UNIT, 1, 1);
    fact_bool("dma_buf.over_pcie.output_is_-1", over_pcie == -1);
    cuMemGetHandleForAddressRange(&good, r.pointer, UNIT, 1, 0);
    fact_bool("dma_buf.size", lseek(good, 0, SEEK_END) == (off_t)UNIT);
    close(good);
    cuMemUnmap(r.pointer, 2 * UNIT);
    cuMemRelease(r.handle);
    dma_buf_fact("dma_buf.unmapped", r.pointer, UNIT, 1, 0);
    cuMemAddressFree(r.pointer, 2 * UNIT);
}

/* Memory that is not of cuMemMap, by size. */
static void dma_buf_of_others(void)
{
    static const struct {
        const char *name;
        size_t bytes;
    } sizes[] = {{"64KiB", 64 << 10}, {"2MiB", UNIT}, {"32MiB", 16 * UNIT}};

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        CUdeviceptr at = block(sizes[i].bytes);
        dma_buf_fact(named("dma_buf.of_cuMemAlloc_%s", sizes[i].name), at, sizes[i].bytes,
                     1, 0);
        cuMemFree(at);
    }
    CUdeviceptr pooled = 0;
    cuMemAllocAsync(&pooled, UNIT, NULL);
    dma_buf_fact("dma_buf.of_cuMemAllocAsync", pooled, UNIT, 1, 0);
    cuMemFreeAsync(pooled, NULL);
    cuStreamSynchronize(NULL);
}

static void exporting(void)
{
    CUmemAllocationProp prop = vmm_prop();
    CUmemAccessDesc access = vmm_access(3);
    CUmemGenericAllocationHandle plain = 0, shared = 0, back = 77;
    int fd = -77;

    cuMemCreate(&plain, UNIT, &prop, 0);
    fact_output("export.not_asked_for", cuMemExportToShareableHandle(&fd, plain, 1, 0),
                fd == -77);
    prop.requestedHandleTypes = 1;
    cuMemCreate(&shared, UNIT, &prop, 0);
    fact_output("export.flags_1", cuMemExportToShareableHandle(&fd, shared, 1, 1),
                fd == -77);
    fact_output("export.type_0", cuMemExportToShareableHandle(&fd, shared, 0, 0),
                fd == -77);
    fact_output("export.type_2", cuMemExportToShareableHandle(&fd, shared, 2, 0),
                fd == -77);
    fact_result("export.null", cuMemExportToShareableHandle(NULL, shared, 1, 0));
    fact_result("export", cuMemExportToShareableHandle(&fd, shared, 1, 0));
    fact_bool("export.fd", fd >= 0);
    fact_output("import.bad_fd",
                cuMemImportFromShareableHandle(&back, (void *)(uintptr_t)999, 1),
                back == 77);
    fact_output("import.fd_of_stdout",
                cuMemImportFromShareableHandle(&back, (void *)(uintptr_t)1, 1),
                back == 77);
    fact_output("import.type_0",
                cuMemImportFromShareableHandle(&back, (void *)(uintptr_t)fd, 0),
                back == 77);
    fact_result("import",
                cuMemImportFromShareableHandle(&back, (void *)(uintptr_t)fd, 1));
    fact_bool("import.is_the_handle", back == shared);
    CUmemAllocationProp got = {0};
    cuMemGetAllocationPropertiesFromHandle(&got, back);
    fact("import.props", "type %d, handles %d, location %d %d", got.type,
         got.requestedHandleTypes, got.location.type, got.location.id);
    CUdeviceptr a = 0, b = 0;
    cuMemAddressReserve(&a, UNIT, 0, 0, 0);
    cuMemAddressReserve(&b, UNIT, 0, 0, 0);
    cuMemMap(a, UNIT, 0, shared, 0);
    fact_result("import.map", cuMemMap(b, UNIT, 0, back, 0));
    cuMemSetAccess(a, UNIT, &access, 1);
    cuMemSetAccess(b, UNIT, &access, 1);
    cuMemsetD8(a, 9, UNIT);
    cuCtxSynchronize();
    fact("import.same_memory", "%d", peek(b));
    close(fd);
    fact_result("export.after_close", cuMemExportToShareableHandle(&fd, shared, 1, 0));
    close(fd);
    cuMemUnmap(a, UNIT);
    cuMemUnmap(b, UNIT);
    cuMemAddressFree(a, UNIT);
    cuMemAddressFree(b, UNIT);
    fact_result("import.release", cuMemRelease(back));
    cuMemRelease(shared);
    cuMemRelease(plain);
}

/* --- copies to memory without access: a process each --- */

static void to_reserved(void)
{
    CUdeviceptr at = 0;

    cuMemAddressReserve(&at, UNIT, 0, 0, 0);
    fact_result("to_reserved.memset", cuMemsetD8(at, 1, 256));
    fact_result("to_reserved.htod", cuMemcpyHtoD(at, &(char[64]){0}, 64));
    fact_result("to_reserved.dtod", cuMemcpyDtoD(at, block(256), 256));
    fact_result("to_reserved.then", cuCtxSynchronize());
}

static void without_access(const char *name, int flags, CUresult (*act)(CUdeviceptr))
{
    CUmemAllocationProp prop = vmm_prop();
    CUmemAccessDesc access = vmm_access(flags);
    CUmemGenericAllocationHandle handle = 0;
    CUdeviceptr at = 0;

    cuMemAddressReserve(&at, UNIT, 0, 0, 0);
    cuMemCreate(&handle, UNIT, &prop, 0);
    cuMemMap(at, UNIT, 0, handle, 0);
    if (flags != CU_MEM_ACCESS_FLAGS_PROT_NONE)
        cuMemSetAccess(at, UNIT, &access, 1);
    fact_result(name, act(at));
    fact_result(named("%s.then", name), cuCtxSynchronize());
    fact_result(named("%s.and_then", name), cuMemAlloc(&at, 256));
}

static CUresult act_memset(CUdeviceptr at)
{
    return cuMemsetD8Async(at, 1, 256, NULL);
}

static CUresult act_write(CUdeviceptr at)
{
    static char bytes[64];
    return cuMemcpyHtoD(at, bytes, sizeof bytes);
}

static CUresult act_read(CUdeviceptr at)
{
    static char bytes[64];
    return cuMemcpyDtoH(bytes, at, sizeof bytes);
}

static CUresult act_copy_from(CUdeviceptr at)
{
    return cuMemcpyDtoDAsync(block(256), at, 256, NULL);
}

static void no_access_memset(void)
{
    without_access("no_access.memset", 0, act_memset);
}

static void no_access_htod(void)
{
    without_access("no_access.htod", 0, act_write);
}

static void no_access_dtoh(void)
{
    without_access("no_access.dtoh", 0, act_read);
}

static void no_access_dtod(void)
{
    without_access("no_access.dtod", 0, act_copy_from);
}

static void read_only_memset(void)
{
    without_access("read_only.memset", 1, act_memset);
}

static void read_only_htod(void)
{
    without_access("read_only.htod", 1, act_write);
}

static void read_only_dtoh(void)
{
    without_access("read_only.dtoh", 1, act_read);
}

static void read_only_dtod(void)
{
    without_access("read_only.dtod", 1, act_copy_from);
}

/* Work that is queued when its memory is unmapped. */
static void unmapped_under_work(void)
{
    struct range r = vmm_range(UNIT);
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    struct gate gate;

    gate_close(&gate, stream);
    cuMemsetD8Async(r.pointer, 1, UNIT, stream);
    fact_result("under_work.unmap", cuMemUnmap(r.pointer, UNIT));
    atomic_store(&gate.open, true);
    fact_result("under_work.synchronize", cuStreamSynchronize(stream));
    fact_result("under_work.then", cuMemAlloc(&(CUdeviceptr){0}, 256));
}

static const struct part parts[] = {
    {"granularity", granularity, TOGETHER},
    {"reserving", reserving, TOGETHER},
    {"creating", creating, TOGETHER},
    {"mapping", mapping, TOGETHER},
    {"released", released, TOGETHER},
    {"mapping_on", mapping_on, TOGETHER},
    {"rights", rights, TOGETHER},
    {"living", living, TOGETHER},
    {"other_calls", other_calls, TOGETHER},
    {"border", border, TOGETHER},
    {"exporting", exporting, TOGETHER},
    {"fabric", fabric, TOGETHER},
    {"rdma", rdma, TOGETHER},
    {"dma_buf", dma_buf, TOGETHER},
    {"dma_buf_of_two_handles", dma_buf_of_two_handles, TOGETHER},
    {"dma_buf_outputs", dma_buf_outputs, TOGETHER},
    {"dma_buf_of_others", dma_buf_of_others, TOGETHER},
    {"to_reserved", to_reserved, RISKY},
    {"no_access.memset", no_access_memset, RISKY},
    {"no_access.htod", no_access_htod, RISKY},
    {"no_access.dtoh", no_access_dtoh, RISKY},
    {"no_access.dtod", no_access_dtod, RISKY},
    {"read_only.memset", read_only_memset, RISKY},
    {"read_only.htod", read_only_htod, RISKY},
    {"read_only.dtoh", read_only_dtoh, RISKY},
    {"read_only.dtod", read_only_dtod, RISKY},
    {"under_work", unmapped_under_work, RISKY},
    END_OF_PARTS,
};
const struct theme theme_vmm = {"vmm", parts, false};
