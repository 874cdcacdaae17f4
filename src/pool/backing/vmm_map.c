/* vmm_map.c -- the mappings in a pool's range, and the driver calls that change them.
 *
 * The pool creates a handle, maps it and releases it at once: then the mapping alone
 * keeps the memory. Releasing memory is therefore one cuMemUnmap, which either happens or
 * does not. Where the pool needs a handle again (to move memory, or to restore it), it
 * retrieves it from the driver by the address.
 *
 * An undo may fail, too. The pool tries it again. It notes memory that the driver still
 * keeps mapped as failed, and unmaps it at a later call or at the end. So a failure loses
 * memory only as long as the driver fails.
 */
#include "pool/backing/vmm_map.h"
#include "pool/backing/vmm_table.h"

/* --- mapping --- */

/* A failed release is tried again: else the memory would stay for good. */
static void release(const struct tarn__vmm *vmm, const struct tarn__calls *calls,
                    CUmemHandle_ handle)
{
    if (TARN__COUNTED(vmm, calls->mem_release(handle)) != CUDA_SUCCESS_)
        TARN__COUNTED(vmm, calls->mem_release(handle));
}

/* Return true if a failure means that such memory cannot be exported here. */
static bool is_about_export(CUresult_ result)
{
    return result == CUDA_ERROR_INVALID_VALUE_ || result == CUDA_ERROR_NOT_SUPPORTED_ ||
           result == CUDA_ERROR_NOT_PERMITTED_;
}

/* Create memory that can be exported later, where the driver supports it; else plain
 * memory. */
static CUresult_ create(struct tarn__vmm *vmm, const struct tarn__calls *calls,
                        size_t bytes, CUmemHandle_ *out)
{
    CUmemAllocationProp_ plain = vmm->properties;
    CUresult_ result =
                  TARN__COUNTED(vmm, calls->mem_create(out, bytes, &vmm->properties, 0)),
              again;

    if (result == CUDA_SUCCESS_ || result == CUDA_ERROR_OUT_OF_MEMORY_ ||
        plain.requestedHandleTypes == CU_MEM_HANDLE_TYPE_NONE_)
        return result;
    plain.requestedHandleTypes = CU_MEM_HANDLE_TYPE_NONE_;
    plain.allocFlags.gpuDirectRDMACapable = 0;
    again = TARN__COUNTED(vmm, calls->mem_create(out, bytes, &plain, 0));
    if (again == CUDA_SUCCESS_ && is_about_export(result))
        vmm->properties = plain;
    return again;
}

tarn_status tarn__vmm_map_new(struct tarn__vmm *vmm, const struct tarn__calls *calls,
                              struct tarn__span span)
{
    CUmemHandle_ handle = 0;
    CUresult_ result = create(vmm, calls, span.bytes, &handle);

    if (result != CUDA_SUCCESS_)
        return tarn__driver_failed("pool", "cuMemCreate", result,
                                   "%zu bytes on device %d", span.bytes,
                                   vmm->properties.location.id);
    result = TARN__COUNTED(vmm, calls->mem_map(span.address, span.bytes, 0, handle, 0));
    release(vmm, calls, handle);
    if (result != CUDA_SUCCESS_)
        return tarn__driver_failed("pool", "cuMemMap", result, "%zu bytes at 0x%llx",
                                   span.bytes, (unsigned long long)span.address);
    return TARN_OK;
}

tarn_status tarn__vmm_map_again(const struct tarn__vmm *vmm,
                                const struct tarn__calls *calls, uint64_t from,
                                struct tarn__span span)
{
    CUmemHandle_ handle = 0;
    CUresult_ result =
        TARN__COUNTED(vmm, calls->mem_retain(&handle, (void *)(uintptr_t)from));

    if (result != CUDA_SUCCESS_)
        return tarn__driver_failed("pool", "cuMemRetainAllocationHandle", result,
                                   "0x%llx", (unsigned long long)from);
    result = TARN__COUNTED(vmm, calls->mem_map(span.address, span.bytes, 0, handle, 0));
    release(vmm, calls, handle);
    if (result != CUDA_SUCCESS_)
        return tarn__driver_failed(
            "pool", "cuMemMap", result, "%zu bytes of 0x%llx at 0x%llx", span.bytes,
            (unsigned long long)from, (unsigned long long)span.address);
    return TARN_OK;
}

tarn_status tarn__vmm_map_set_access(const struct tarn__vmm *vmm,
                                     const struct tarn__calls *calls,
                                     struct tarn__span span)
{
    CUresult_ result =
        TARN__COUNTED(vmm, calls->mem_set_access(span.address, span.bytes, vmm->access,
                                                 vmm->access_count));

    if (result != CUDA_SUCCESS_)
        return tarn__driver_failed("pool", "cuMemSetAccess", result,
                                   "%zu bytes at 0x%llx for %zu devices", span.bytes,
                                   (unsigned long long)span.address, vmm->access_count);
    return TARN_OK;
}

/* --- unmapping --- */

CUresult_ tarn__vmm_map_unmap(const struct tarn__vmm *vmm,
                              const struct tarn__calls *calls, struct tarn__span span)
{
    CUresult_ result = TARN__COUNTED(vmm, calls->mem_unmap(span.address, span.bytes));

    return result == CUDA_SUCCESS_
               ? result
               : TARN__COUNTED(vmm, calls->mem_unmap(span.address, span.bytes));
}

/* Note the handles of a span that the driver does not unmap as failed. */
static void note_unmap_failed(struct tarn__vmm *vmm, struct tarn__span span, bool hidden)
{
    size_t page = tarn__vmm_table_page(vmm, span.address);
    size_t end = tarn__vmm_table_end_page(vmm, span);

    for (; page < end; page += vmm->table[page].count) {
        vmm->unmap_failed_count += !tarn__backing_unmap_failed(&vmm->table[page]);
        vmm->table[page].state = hidden ? TARN__PAGE_ABANDONED : TARN__PAGE_UNMAP_FAILED;
    }
}

void tarn__vmm_map_undo(struct tarn__vmm *vmm, const struct tarn__calls *calls,
                        struct tarn__span span, bool hidden)
{
    if (span.bytes == 0)
        return;
    if (tarn__vmm_map_unmap(vmm, calls, span) != CUDA_SUCCESS_)
        note_unmap_failed(vmm, span, hidden);
    else if (hidden)
        tarn__vmm_table_remove(vmm, span);
}

void tarn__vmm_map_sweep(struct tarn__vmm *vmm, const struct tarn__calls *calls)
{
    for (size_t page = vmm->low; page < vmm->high && vmm->unmap_failed_count > 0;
         page++) {
        struct tarn__page *entry = &vmm->table[page];
        struct tarn__span handle = tarn__vmm_table_span(vmm, page, page + entry->count);
        if (!tarn__backing_unmap_failed(entry) ||
            tarn__vmm_map_unmap(vmm, calls, handle) != CUDA_SUCCESS_)
            continue;
        if (entry->state == TARN__PAGE_ABANDONED) {
            tarn__vmm_table_remove(vmm, handle);
        } else {
            entry->state = TARN__PAGE_IN_USE;
            vmm->unmap_failed_count--;
        }
    }
}
