/* vmm.c -- the address range of a VMM pool, and adding and removing its memory.
 *
 * The range is several times as long as the device's memory, so that a long enough
 * unmapped range always exists, wherever the memory lies. The table of pages is as long.
 * Both cost nothing where they are unused.
 *
 * Moving memory maps it at its new place first (vmm_move.c): until that is done nothing
 * has changed, and from then on nothing can be lost.
 */
#define _GNU_SOURCE
#include "resource/backed.h"
#include "pool/backing/vmm.h"
#include "pool/backing/handle_size.h"
#include "pool/backing/vmm_alias.h"
#include "pool/backing/vmm_map.h"
#include "pool/backing/vmm_table.h"
#include <sys/mman.h>

enum { TIMES_THE_DEVICE = 4 };

static int attribute(const struct tarn__calls *calls, int which, CUdevice_ device)
{
    int value = 0;

    return calls->device_get_attribute(&value, which, device) == CUDA_SUCCESS_ ? value
                                                                               : 0;
}

static bool has_calls(const struct tarn__calls *calls)
{
    return calls->mem_get_allocation_granularity && calls->mem_address_reserve &&
           calls->mem_address_free && calls->mem_create && calls->mem_release &&
           calls->mem_retain && calls->mem_map && calls->mem_unmap &&
           calls->mem_set_access;
}

/* Check that 2 MiB is a multiple of the device's mapping granularity. */
static tarn_status fits_pages(const struct tarn__calls *calls, int device, bool *out)
{
    CUmemAllocationProp_ properties = {
        .type = CU_MEM_ALLOCATION_TYPE_PINNED_,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE_, .id = device},
    };
    size_t granularity = 0;
    CUresult_ result = calls->mem_get_allocation_granularity(
        &granularity, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM_);

    if (result != CUDA_SUCCESS_)
        return tarn__driver_failed("pool", "cuMemGetAllocationGranularity", result,
                                   "device %d", device);
    *out = granularity > 0 && TARN__PAGE_BYTES % granularity == 0;
    return TARN_OK;
}

tarn_status tarn__vmm_is_supported(int device, bool *out)
{
    const struct tarn__calls *calls;
    bool has_vmm = false;
    tarn_status status = tarn__device_has(
        "pool", device, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED_,
        &has_vmm);

    if (status == TARN_OK)
        status = tarn__driver(&calls);
    if (status == TARN_OK && has_vmm && has_calls(calls))
        return fits_pages(calls, device, out);
    if (status == TARN_OK)
        *out = false;
    return status;
}

/* --- open and close --- */

static void describe(struct tarn__pages *pages, const struct tarn__calls *calls)
{
    struct tarn__vmm *vmm = &pages->vmm;
    CUmemLocation_ here = {.type = CU_MEM_LOCATION_TYPE_DEVICE_, .id = pages->device};
    CUdevice_ device = 0;

    calls->device_get(&device, pages->device);
    vmm->properties = (CUmemAllocationProp_){
        .type = CU_MEM_ALLOCATION_TYPE_PINNED_,
        .location = here,
    };
    if (attribute(calls, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED_,
                  device))
        vmm->properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_;
    if (attribute(calls, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED_,
                  device))
        vmm->properties.allocFlags.gpuDirectRDMACapable = 1;
    vmm->access[0] = (CUmemAccessDesc_){.location = here,
                                        .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE_};
    vmm->access_count = 1;
}

/* Reserve as many addresses as possible, down to once the device's memory. */
static tarn_status reserve(struct tarn__vmm *vmm, const struct tarn__calls *calls)
{
    size_t once = vmm->device_bytes & ~(TARN__HANDLE_BYTES_MAX - 1);
    CUresult_ result = CUDA_ERROR_OUT_OF_MEMORY_;
    CUdeviceptr_ address = 0;

    if (once < TARN__HANDLE_BYTES_MAX)
        once = TARN__HANDLE_BYTES_MAX;
    for (int times = TIMES_THE_DEVICE; times > 0 && result != CUDA_SUCCESS_; times /= 2) {
        vmm->range.bytes = once * (size_t)times;
        result =
            TARN__COUNTED(vmm, calls->mem_address_reserve(&address, vmm->range.bytes,
                                                          TARN__HANDLE_BYTES_MAX, 0, 0));
    }
    if (result != CUDA_SUCCESS_)
        return tarn__driver_failed("pool", "cuMemAddressReserve", result,
                                   "%zu bytes of address space", once);
    vmm->range.address = address;
    vmm->page_count = vmm->range.bytes / TARN__PAGE_BYTES;
    return TARN_OK;
}

static void unreserve(const struct tarn__vmm *vmm, const struct tarn__calls *calls)
{
    if (TARN__COUNTED(vmm, calls->mem_address_free(vmm->range.address,
                                                   vmm->range.bytes)) != CUDA_SUCCESS_)
        TARN__COUNTED(vmm, calls->mem_address_free(vmm->range.address, vmm->range.bytes));
}

static tarn_status make_table(struct tarn__vmm *vmm)
{
    size_t bytes = vmm->page_count * sizeof *vmm->table;
    void *table = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (table == MAP_FAILED)
        return tarn_error_set(TARN_OUT_OF_MEMORY,
                              "pool: no host memory for a table of %zu pages",
                              vmm->page_count);
    vmm->table = table;
    return TARN_OK;
}

/* In a scope. */
tarn_status tarn__vmm_open(struct tarn__pages *pages)
{
    struct tarn__vmm *vmm = &pages->vmm;
    const struct tarn__calls *calls;
    size_t free_bytes = 0;
    tarn_status status = tarn__driver(&calls);

    if (status != TARN_OK)
        return status;
    CUresult_ result =
        TARN__COUNTED(vmm, calls->mem_get_info(&free_bytes, &vmm->device_bytes));
    if (result != CUDA_SUCCESS_)
        return tarn__driver_failed("pool", "cuMemGetInfo", result, "device %d",
                                   pages->device);
    describe(pages, calls);
    status = reserve(vmm, calls);
    if (status != TARN_OK)
        return status;
    status = make_table(vmm);
    if (status != TARN_OK)
        unreserve(vmm, calls);
    return status;
}

static void release_all(struct tarn__pages *pages, const struct tarn__calls *calls)
{
    struct tarn__vmm *vmm = &pages->vmm;
    struct tarn__span run;

    if (!atomic_load(&pages->is_suspended))
        for (size_t cursor = 0; tarn__vmm_table_next_run(vmm, &cursor, &run);)
            tarn__vmm_map_unmap(vmm, calls, run);
    tarn__vmm_alias_unmap_all(vmm, calls);
    tarn__vmm_table_end_retiring(vmm);
    tarn__vmm_map_sweep(vmm, calls);
    unreserve(vmm, calls);
}

/* The driver needs no context for these calls, and memory of a context that was reset
 * exists until it is unmapped. */
void tarn__vmm_close(struct tarn__pages *pages)
{
    const struct tarn__calls *calls;

    if (!tarn__driver_gone() && tarn__driver(&calls) == TARN_OK)
        release_all(pages, calls);
    munmap(pages->vmm.table, pages->vmm.page_count * sizeof *pages->vmm.table);
}

/* --- grow --- */

/* Return the largest handle for the rest to map: a power of two up to `unit`. */
static size_t piece_of(size_t rest, size_t unit)
{
    while (unit > rest)
        unit /= 2;
    return unit;
}

/* Map new memory all over `span`, without access. `*done_out`: the bytes that were
 * mapped. */
static tarn_status populate(struct tarn__pages *pages, const struct tarn__calls *calls,
                            struct tarn__span span, size_t *done_out)
{
    size_t unit = tarn__handle_size(pages, span.bytes);
    tarn_status status = TARN_OK;

    for (size_t done = 0; done < span.bytes && status == TARN_OK;) {
        struct tarn__span handle = {span.address + done,
                                    piece_of(span.bytes - done, unit)};
        status = tarn__vmm_map_new(&pages->vmm, calls, handle);
        if (status != TARN_OK)
            break;
        tarn__vmm_table_add(pages, handle);
        *done_out = done += handle.bytes;
    }
    return status;
}

tarn_status tarn__vmm_check_unmapped(struct tarn__pages *pages,
                                     const struct tarn__calls *calls,
                                     struct tarn__span span)
{
    if (!tarn__vmm_table_holds(&pages->vmm, span))
        return tarn_error_set(
            TARN_INVALID_ARGUMENT,
            "pool: %zu bytes at 0x%llx are not whole pages of the pool's range",
            span.bytes, (unsigned long long)span.address);
    if (atomic_load(&pages->is_suspended))
        return tarn_error_set(TARN_SUSPENDED,
                              "pool: the pool is suspended, with %zu bytes",
                              atomic_load(&pages->suspended));
    tarn__vmm_map_sweep(&pages->vmm, calls);
    tarn__vmm_alias_unmap_in(&pages->vmm, calls, span);
    if (!tarn__vmm_table_is_unmapped(&pages->vmm, span))
        return tarn_error_set(TARN_STILL_IN_USE,
                              "pool: %zu bytes at 0x%llx are partly mapped", span.bytes,
                              (unsigned long long)span.address);
    return TARN_OK;
}

tarn_status tarn__vmm_grow(struct tarn__pages *pages, struct tarn__span span)
{
    struct tarn__scope scope;
    size_t done = 0;
    tarn_status status = tarn__backing_enter(pages, &scope);

    if (status != TARN_OK)
        return status;
    status = tarn__vmm_check_unmapped(pages, scope.calls, span);
    if (status == TARN_OK)
        status = populate(pages, scope.calls, span, &done);
    if (status == TARN_OK)
        status = tarn__vmm_map_set_access(&pages->vmm, scope.calls, span);
    if (status == TARN_OK)
        atomic_fetch_add(&pages->reserved, span.bytes);
    else
        tarn__vmm_map_undo(&pages->vmm, scope.calls,
                           (struct tarn__span){span.address, done}, true);
    tarn__scope_leave(&scope);
    return status;
}

/* --- shrink --- */

/* Return the handle that covers page `page`, which is mapped. */
static struct tarn__span handle_at(const struct tarn__vmm *vmm, size_t page)
{
    size_t first = vmm->table[page].first - 1;

    return tarn__vmm_table_span(vmm, first, first + vmm->table[first].count);
}

struct tarn__span tarn__vmm_handle_at(const struct tarn__vmm *vmm, uint64_t address)
{
    return handle_at(vmm, tarn__vmm_table_page(vmm, address));
}

/* Only entries of the span's own handles are read. They stay while the caller has the
 * span, so no lock is needed. */
struct tarn__span tarn__vmm_removable(const struct tarn__vmm *vmm, struct tarn__span idle)
{
    uint64_t offset = idle.address - vmm->range.address;
    uint64_t base = vmm->range.address;
    uint64_t start =
        base + (offset + TARN__PAGE_BYTES - 1) / TARN__PAGE_BYTES * TARN__PAGE_BYTES;
    uint64_t end = base + (offset + idle.bytes) / TARN__PAGE_BYTES * TARN__PAGE_BYTES;

    if (start >= end || vmm->table[tarn__vmm_table_page(vmm, start)].first == 0 ||
        vmm->table[tarn__vmm_table_page(vmm, end - 1)].first == 0)
        return (struct tarn__span){idle.address, 0};
    struct tarn__span low = handle_at(vmm, tarn__vmm_table_page(vmm, start));
    if (low.address != start)
        start = low.address + low.bytes;
    struct tarn__span high = handle_at(vmm, tarn__vmm_table_page(vmm, end - 1));
    if (high.address + high.bytes != end)
        end = high.address;
    return (struct tarn__span){start, start < end ? end - start : 0};
}

struct tarn__span tarn__vmm_first(const struct tarn__vmm *vmm, struct tarn__span span,
                                  size_t bytes)
{
    if (bytes == 0 || bytes >= span.bytes)
        return span;
    struct tarn__span last =
        handle_at(vmm, tarn__vmm_table_page(vmm, span.address + bytes - 1));
    return (struct tarn__span){span.address, last.address + last.bytes - span.address};
}

unsigned tarn__vmm_count(const struct tarn__vmm *vmm, struct tarn__span span)
{
    size_t page = tarn__vmm_table_page(vmm, span.address);
    size_t end = tarn__vmm_table_end_page(vmm, span);
    unsigned count = 0;

    for (; page < end; page += vmm->table[page].count)
        count++;
    return count;
}

tarn_status tarn__vmm_check_handles(const struct tarn__vmm *vmm, struct tarn__span span)
{
    size_t page = 0, end = 0;

    if (tarn__vmm_table_holds(vmm, span)) {
        page = tarn__vmm_table_page(vmm, span.address);
        end = tarn__vmm_table_end_page(vmm, span);
    }
    bool is_whole = page < end;
    while (is_whole && page < end) {
        const struct tarn__page *entry = &vmm->table[page];
        is_whole = entry->first == page + 1 && !tarn__backing_is_hidden(entry);
        page += is_whole ? entry->count : 0;
    }
    if (!is_whole || page != end)
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "pool: %zu bytes at 0x%llx are not whole physical handles",
                              span.bytes, (unsigned long long)span.address);
    return TARN_OK;
}

/* A suspended pool has no memory to release, except where the driver kept it mapped. */
static tarn_status unmap_suspended(struct tarn__pages *pages,
                                   const struct tarn__calls *calls,
                                   struct tarn__span span)
{
    tarn__vmm_map_sweep(&pages->vmm, calls);
    if (tarn__vmm_table_has_failed(&pages->vmm, span))
        return tarn_error_set(TARN_DRIVER_FAILURE,
                              "pool: the driver failed to unmap %zu bytes at 0x%llx",
                              span.bytes, (unsigned long long)span.address);
    return TARN_OK;
}

static tarn_status unmap(struct tarn__pages *pages, struct tarn__span span)
{
    const struct tarn__calls *calls;
    tarn_status status = tarn__driver(&calls);

    if (status != TARN_OK || tarn__driver_gone())
        return status;
    if (atomic_load(&pages->is_suspended))
        return unmap_suspended(pages, calls, span);
    CUresult_ result = tarn__vmm_alias_unmap_of(&pages->vmm, calls, span);
    if (result == CUDA_SUCCESS_)
        result = tarn__vmm_map_unmap(&pages->vmm, calls, span);
    if (result != CUDA_SUCCESS_)
        return tarn__driver_failed("pool", "cuMemUnmap", result, "%zu bytes at 0x%llx",
                                   span.bytes, (unsigned long long)span.address);
    return TARN_OK;
}

/* Needs no context, so it also releases the memory of a destroyed one. */
tarn_status tarn__vmm_remove(struct tarn__pages *pages, struct tarn__span span)
{
    tarn_status status = tarn__vmm_check_handles(&pages->vmm, span);

    if (status == TARN_OK)
        status = unmap(pages, span);
    if (status != TARN_OK)
        return status;
    tarn__vmm_table_remove(&pages->vmm, span);
    atomic_fetch_sub(&pages->reserved, span.bytes);
    if (atomic_load(&pages->is_suspended))
        atomic_fetch_sub(&pages->suspended, span.bytes);
    return TARN_OK;
}
