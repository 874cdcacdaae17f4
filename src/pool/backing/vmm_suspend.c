/* vmm_suspend.c -- suspend and resume: releasing all physical memory of a pool, and
 * restoring it.
 *
 * Suspend copies the kept bytes to page-locked host memory, holds every handle, and
 * unmaps everything. Only then does it release the handles. Until that last step
 * everything can be restored. Resume creates new memory of the same shape at the same
 * addresses, sets access for the device and its peers, and copies the bytes back. Until
 * all of that is done, an undo leaves the pool suspended.
 *
 * The copies run on a stream of their own: on a default stream they would invalidate
 * captures of blocking streams.
 */
#include "pool/backing/vmm_suspend.h"
#include "pool/backing/vmm_alias.h"
#include "pool/backing/vmm_map.h"
#include "pool/backing/vmm_table.h"
#include <stdlib.h>
#include <string.h>

/* --- bytes kept in host memory --- */

static size_t sum(const struct tarn__span *spans, size_t count)
{
    size_t bytes = 0;

    for (size_t i = 0; i < count; i++)
        bytes += spans[i].bytes;
    return bytes;
}

static bool has_memory(const struct tarn__vmm *vmm, uint64_t address)
{
    return vmm->table[tarn__vmm_table_page(vmm, address)].first != 0;
}

/* Return the part of a span from `address` on that has memory throughout, or none
 * throughout. */
static size_t part_from(const struct tarn__vmm *vmm, struct tarn__span span,
                        uint64_t address)
{
    uint64_t end = address, last = span.address + span.bytes;

    while (end < last && has_memory(vmm, end) == has_memory(vmm, address))
        end = (end / TARN__PAGE_BYTES + 1) * TARN__PAGE_BYTES;
    return (end < last ? end : last) - address;
}

static tarn_status queue_copy(const struct tarn__vmm *vmm,
                              const struct tarn__calls *calls, bool saves,
                              CUdeviceptr_ host, struct tarn__span part, CUstream_ stream)
{
    CUresult_ result = TARN__COUNTED(vmm, calls->memcpy_async(saves ? host : part.address,
                                                              saves ? part.address : host,
                                                              part.bytes, stream));

    if (result != CUDA_SUCCESS_)
        return tarn__driver_failed(
            "pool", "cuMemcpyAsync", result, "%zu bytes of 0x%llx to %s", part.bytes,
            (unsigned long long)part.address, saves ? "save" : "restore");
    return TARN_OK;
}

/* Memory that was freed and released meanwhile is not mapped any more. The driver would
 * take its address for a host address, and write there. */
static tarn_status queue_copies(const struct tarn__vmm *vmm,
                                const struct tarn__calls *calls, bool saves,
                                CUstream_ stream)
{
    const struct tarn__kept *kept = &vmm->kept;
    CUdeviceptr_ host = (uintptr_t)kept->memory;
    tarn_status status = TARN_OK;

    for (size_t i = 0; i < kept->count; host += kept->spans[i++].bytes) {
        struct tarn__span span = kept->spans[i];
        for (size_t done = 0, bytes; done < span.bytes && status == TARN_OK;
             done += bytes) {
            uint64_t address = span.address + done;
            bytes = part_from(vmm, span, address);
            if (has_memory(vmm, address))
                status = queue_copy(vmm, calls, saves, host + done,
                                    (struct tarn__span){address, bytes}, stream);
        }
    }
    return status;
}

/* Copy the bytes into host memory (saves), or back. No copy is under way at the end. */
static tarn_status copy(const struct tarn__vmm *vmm, const struct tarn__calls *calls,
                        bool saves)
{
    const struct tarn__kept *kept = &vmm->kept;
    CUstream_ stream;
    CUresult_ result =
        TARN__COUNTED(vmm, calls->stream_create(&stream, CU_STREAM_NON_BLOCKING_));

    if (result != CUDA_SUCCESS_)
        return tarn__driver_failed("pool", "cuStreamCreate", result, "for copies");
    tarn_status status = queue_copies(vmm, calls, saves, stream);
    result = TARN__COUNTED(vmm, calls->stream_synchronize(stream));
    if (result != CUDA_SUCCESS_)
        TARN__COUNTED(vmm, calls->stream_synchronize(stream));
    if (status == TARN_OK && result != CUDA_SUCCESS_)
        status = tarn__driver_failed("pool", "cuStreamSynchronize", result,
                                     "after copies of %zu bytes",
                                     sum(kept->spans, kept->count));
    if (TARN__COUNTED(vmm, calls->stream_destroy(stream)) != CUDA_SUCCESS_)
        TARN__COUNTED(vmm, calls->stream_destroy(stream));
    return status;
}

void tarn__vmm_suspend_drop_kept(struct tarn__vmm *vmm, const struct tarn__scope *scope)
{
    struct tarn__kept *kept = &vmm->kept;

    /* A reset freed it with the context. */
    if (kept->memory && scope && scope->context_generation == kept->context_generation &&
        TARN__COUNTED(vmm, scope->calls->mem_free_host(kept->memory)) != CUDA_SUCCESS_)
        TARN__COUNTED(vmm, scope->calls->mem_free_host(kept->memory));
    free(kept->spans);
    *kept = (struct tarn__kept){0};
}

static tarn_status allocate_kept(struct tarn__vmm *vmm, const struct tarn__calls *calls,
                                 const struct tarn__span *spans, size_t count)
{
    struct tarn__kept *kept = &vmm->kept;

    kept->spans = malloc(count * sizeof *spans);
    if (!kept->spans)
        return tarn_error_set(TARN_OUT_OF_MEMORY,
                              "pool: no host memory for a list of %zu blocks", count);
    memcpy(kept->spans, spans, count * sizeof *spans);
    kept->count = count;
    CUresult_ result =
        TARN__COUNTED(vmm, calls->mem_host_alloc(&kept->memory, sum(spans, count),
                                                 CU_MEMHOSTALLOC_PORTABLE_));
    if (result != CUDA_SUCCESS_) {
        kept->memory = NULL;
        return tarn__driver_failed("pool", "cuMemHostAlloc", result,
                                   "%zu bytes to save while the pool is suspended",
                                   sum(spans, count));
    }
    return TARN_OK;
}

static tarn_status keep(struct tarn__vmm *vmm, const struct tarn__scope *scope,
                        const struct tarn__span *spans, size_t count)
{
    if (sum(spans, count) == 0)
        return TARN_OK;
    vmm->kept.context_generation = scope->context_generation;
    tarn_status status = allocate_kept(vmm, scope->calls, spans, count);
    if (status == TARN_OK)
        status = copy(vmm, scope->calls, true);
    if (status != TARN_OK)
        tarn__vmm_suspend_drop_kept(vmm, scope);
    return status;
}

/* --- suspend --- */

/* Handles that the pool holds while nothing maps them. */
struct retained {
    CUmemHandle_ *handles; /* by address */
    size_t count;
};

static void release_handles(const struct tarn__vmm *vmm, struct retained *retained,
                            const struct tarn__calls *calls)
{
    for (size_t i = 0; i < retained->count; i++)
        if (TARN__COUNTED(vmm, calls->mem_release(retained->handles[i])) != CUDA_SUCCESS_)
            TARN__COUNTED(vmm, calls->mem_release(retained->handles[i]));
    free(retained->handles);
    *retained = (struct retained){0};
}

static tarn_status retain_handles(const struct tarn__vmm *vmm,
                                  const struct tarn__calls *calls,
                                  struct retained *retained)
{
    struct tarn__span handle;
    size_t count = 0;

    for (size_t cursor = 0; tarn__vmm_table_next_handle(vmm, &cursor, &handle);)
        count++;
    *retained =
        (struct retained){.handles = malloc((count + 1) * sizeof *retained->handles)};
    if (!retained->handles)
        return tarn_error_set(TARN_OUT_OF_MEMORY, "pool: no host memory for %zu handles",
                              count);
    for (size_t cursor = 0; tarn__vmm_table_next_handle(vmm, &cursor, &handle);
         retained->count++) {
        CUresult_ result =
            TARN__COUNTED(vmm, calls->mem_retain(&retained->handles[retained->count],
                                                 (void *)(uintptr_t)handle.address));
        if (result == CUDA_SUCCESS_)
            continue;
        release_handles(vmm, retained, calls);
        return tarn__driver_failed("pool", "cuMemRetainAllocationHandle", result,
                                   "0x%llx", (unsigned long long)handle.address);
    }
    return TARN_OK;
}

static bool map_back(const struct tarn__vmm *vmm, const struct tarn__calls *calls,
                     struct tarn__span span, CUmemHandle_ handle)
{
    return TARN__COUNTED(vmm, calls->mem_map(span.address, span.bytes, 0, handle, 0)) ==
               CUDA_SUCCESS_ ||
           TARN__COUNTED(vmm, calls->mem_map(span.address, span.bytes, 0, handle, 0)) ==
               CUDA_SUCCESS_;
}

/* Map the unmapped memory before page `end` again as it was. Returns false if not all of
 * it was mapped; then none of it may be used. */
static bool restore(const struct tarn__vmm *vmm, const struct tarn__calls *calls,
                    const struct retained *retained, size_t end)
{
    struct tarn__span span;
    size_t i = 0;

    for (size_t cursor = 0;
         cursor < end && tarn__vmm_table_next_handle(vmm, &cursor, &span);)
        if (!map_back(vmm, calls, span, retained->handles[i++]))
            return false;
    for (size_t cursor = 0;
         cursor < end && tarn__vmm_table_next_run(vmm, &cursor, &span);)
        if (tarn__vmm_map_set_access(vmm, calls, span) != TARN_OK &&
            tarn__vmm_map_set_access(vmm, calls, span) != TARN_OK)
            return false;
    return true;
}

/* Unmap all, or leave all as it was. Where the driver fails even to restore, the pool is
 * suspended after all, and memory that stays mapped is noted as failed. */
static tarn_status unmap_all(struct tarn__vmm *vmm, const struct tarn__calls *calls,
                             const struct retained *retained)
{
    struct tarn__span run;

    for (size_t cursor = 0, done = 0; tarn__vmm_table_next_run(vmm, &cursor, &run);
         done = cursor) {
        CUresult_ result = tarn__vmm_map_unmap(vmm, calls, run);
        if (result == CUDA_SUCCESS_)
            continue;
        if (restore(vmm, calls, retained, done))
            return tarn__driver_failed("pool", "cuMemUnmap", result,
                                       "%zu bytes at 0x%llx", run.bytes,
                                       (unsigned long long)run.address);
        cursor = 0;
        while (tarn__vmm_table_next_run(vmm, &cursor, &run))
            tarn__vmm_map_undo(vmm, calls, run, false);
        return TARN_OK;
    }
    return TARN_OK;
}

/* In a scope. */
static tarn_status suspend(struct tarn__pages *pages, const struct tarn__scope *scope,
                           const struct tarn__span *kept, size_t count)
{
    struct tarn__vmm *vmm = &pages->vmm;
    struct retained retained;
    tarn_status status = keep(vmm, scope, kept, count);

    if (status != TARN_OK)
        return status;
    status = retain_handles(vmm, scope->calls, &retained);
    if (status == TARN_OK) {
        status = unmap_all(vmm, scope->calls, &retained);
        release_handles(vmm, &retained, scope->calls);
    }
    if (status != TARN_OK) {
        tarn__vmm_suspend_drop_kept(vmm, scope);
        return status;
    }
    atomic_store(&pages->suspended, atomic_load(&pages->reserved));
    atomic_store(&pages->is_suspended, true);
    return TARN_OK;
}

tarn_status tarn__vmm_suspend(struct tarn__pages *pages, const struct tarn__span *kept,
                              size_t count)
{
    struct tarn__scope scope;

    if (atomic_load(&pages->is_suspended))
        return TARN_OK;
    tarn_status status = tarn__backing_enter(pages, &scope);
    if (status != TARN_OK)
        return status;
    tarn__vmm_map_sweep(&pages->vmm, scope.calls);
    tarn__vmm_alias_unmap_all(&pages->vmm, scope.calls);
    status = suspend(pages, &scope, kept, count);
    tarn__scope_leave(&scope);
    return status;
}

/* --- resume --- */

/* Map memory and set access for every handle that existed. `*end_out`: the page behind
 * the last one that has memory. */
static tarn_status map_all(struct tarn__vmm *vmm, const struct tarn__calls *calls,
                           size_t *end_out)
{
    struct tarn__span span;
    tarn_status status = TARN_OK;

    for (size_t cursor = 0; tarn__vmm_table_next_handle(vmm, &cursor, &span);
         *end_out = cursor) {
        status = tarn__vmm_map_new(vmm, calls, span);
        if (status != TARN_OK)
            return status;
    }
    for (size_t cursor = 0;
         status == TARN_OK && tarn__vmm_table_next_run(vmm, &cursor, &span);)
        status = tarn__vmm_map_set_access(vmm, calls, span);
    return status;
}

static void unmap_until(struct tarn__vmm *vmm, const struct tarn__calls *calls,
                        size_t end)
{
    struct tarn__span handle;

    for (size_t cursor = 0;
         cursor < end && tarn__vmm_table_next_handle(vmm, &cursor, &handle);)
        tarn__vmm_map_undo(vmm, calls, handle, false);
}

/* In a scope. */
static tarn_status resume(struct tarn__pages *pages, const struct tarn__scope *scope)
{
    struct tarn__vmm *vmm = &pages->vmm;
    size_t end = 0;

    tarn__vmm_map_sweep(vmm, scope->calls);
    if (vmm->unmap_failed_count > 0)
        return tarn_error_set(TARN_DRIVER_FAILURE,
                              "pool: the driver failed to unmap %zu retired handles",
                              vmm->unmap_failed_count);
    tarn_status status = map_all(vmm, scope->calls, &end);
    if (status == TARN_OK && vmm->kept.memory)
        status = copy(vmm, scope->calls, false);
    if (status != TARN_OK) {
        unmap_until(vmm, scope->calls, end);
        return status;
    }
    tarn__vmm_suspend_drop_kept(vmm, scope);
    atomic_store(&pages->is_suspended, false);
    atomic_store(&pages->suspended, 0);
    return TARN_OK;
}

tarn_status tarn__vmm_suspend_end(struct tarn__pages *pages)
{
    struct tarn__scope scope;

    if (!atomic_load(&pages->is_suspended))
        return TARN_OK;
    tarn_status status = tarn__backing_enter(pages, &scope);
    if (status != TARN_OK)
        return status;
    status = resume(pages, &scope);
    tarn__scope_leave(&scope);
    return status;
}
