/* mapping.c -- allocations of other processes that are mapped here, once each.
 *
 * Opening costs a millisecond and more, and blocks of one allocation come many at a time.
 * So an open mapping is found by the contents of its handle. The lock for that covers no
 * driver call but the check that the context is still the same. A second lock lets one
 * allocation be opened or closed at a time; a thread that waits for it would wait for the
 * driver anyway.
 */
#include "ipc/mapping.h"
#include "base/mutex_assert.h"
#include "base/hash.h"
#include "base/size.h"
#include "driver/driver.h"
#include "driver/quiesce.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { BUCKETS = 1024, GRANULARITY = 2 << 20 };

static struct {
    pthread_mutex_t lock; /* for the buckets and the references */
    pthread_mutex_t work; /* held while the driver opens or closes; before `lock` */
    struct tarn__mapping *buckets[BUCKETS];
    atomic_size_t count; /* open mappings, those about to be closed included */
} mappings = {.lock = PTHREAD_MUTEX_INITIALIZER, .work = PTHREAD_MUTEX_INITIALIZER};

size_t tarn__mapping_count(void)
{
    return atomic_load(&mappings.count); /* a forked child calls this, too: no lock */
}

static struct tarn__mapping **bucket_of(const struct tarn__origin *origin)
{
    return &mappings
                .buckets[tarn__hash_bytes(origin->bytes, sizeof origin->bytes) % BUCKETS];
}

/* A context reset ended what the driver had opened. */
static bool is_alive(const struct tarn__mapping *mapping)
{
    return mapping->origin.backing != TARN__BACKING_CUDA ||
           tarn__context_generation_is_current(mapping->device,
                                               mapping->context_generation);
}

struct tarn__mapping *tarn__mapping_find(const struct tarn__origin *origin, int device)
{
    pthread_mutex_lock(&mappings.lock);
    struct tarn__mapping *found = *bucket_of(origin);
    while (found &&
           (found->device != device || found->origin.backing != origin->backing ||
            memcmp(found->origin.bytes, origin->bytes, sizeof origin->bytes) ||
            !is_alive(found)))
        found = found->next;
    if (found)
        found->references++;
    pthread_mutex_unlock(&mappings.lock);
    return found;
}

static void list(struct tarn__mapping *mapping)
{
    struct tarn__mapping **bucket = bucket_of(&mapping->origin);

    pthread_mutex_lock(&mappings.lock);
    mapping->next = *bucket;
    mapping->references = 1;
    *bucket = mapping;
    pthread_mutex_unlock(&mappings.lock);
    atomic_fetch_add(&mappings.count, 1);
}

static void unlist(struct tarn__mapping *mapping)
{
    struct tarn__mapping **link = bucket_of(&mapping->origin);

    while (*link != mapping)
        link = &(*link)->next;
    *link = mapping->next;
}

/* --- a CUDA handle --- */

static tarn_status cuda_failed(const struct tarn__mapping *mapping, CUresult_ result)
{
    if (result == CUDA_ERROR_INVALID_CONTEXT_)
        return tarn_error_set_native(
            TARN_INVALID_ARGUMENT, result,
            "ipc: the handle was exported by this process; use the pointer");
    if (result == CUDA_ERROR_INVALID_VALUE_ || result == CUDA_ERROR_MAP_FAILED_ ||
        result == CUDA_ERROR_INVALID_HANDLE_)
        return tarn_error_set_native(
            TARN_NOT_FOUND, result,
            "ipc: the driver does not know this memory: it was freed, its process ended, "
            "or the handle is invalid");
    return tarn__driver_failed("ipc", "cuIpcOpenMemHandle", result, "on device %d",
                               mapping->device);
}

static tarn_status measure(const struct tarn__calls *calls, struct tarn__mapping *mapping)
{
    CUdeviceptr_ base = 0;
    size_t bytes = 0;
    CUresult_ result = calls->mem_get_address_range(&base, &bytes, mapping->base);

    if (result != CUDA_SUCCESS_)
        return tarn__driver_failed("ipc", "cuMemGetAddressRange", result,
                                   "opened memory at 0x%llx", mapping->base);
    mapping->bytes = bytes - (size_t)(mapping->base - base);
    return TARN_OK;
}

static tarn_status open_cuda(const struct tarn__calls *calls,
                             struct tarn__mapping *mapping)
{
    CUipcMemHandle_ handle;

    if (!calls->ipc_open_mem_handle || !calls->ipc_close_mem_handle)
        return tarn_error_set(TARN_NOT_SUPPORTED,
                              "ipc: the driver has no cuIpcOpenMemHandle");
    memcpy(handle.reserved, mapping->origin.bytes, sizeof handle.reserved);
    CUresult_ result = calls->ipc_open_mem_handle(&mapping->base, handle,
                                                  CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS_);
    if (result != CUDA_SUCCESS_)
        return cuda_failed(mapping, result);
    tarn_status status = measure(calls, mapping);
    if (status != TARN_OK && calls->ipc_close_mem_handle(mapping->base) != CUDA_SUCCESS_)
        calls->ipc_close_mem_handle(mapping->base);
    return status;
}

/* --- a segment --- */

static CUresult_ map_at(const struct tarn__calls *calls,
                        const struct tarn__mapping *mapping, CUmemHandle_ handle)
{
    CUmemAccessDesc_ access = {{CU_MEM_LOCATION_TYPE_DEVICE_, mapping->device},
                               CU_MEM_ACCESS_FLAGS_PROT_READWRITE_};
    CUresult_ result = calls->mem_map(mapping->base, mapping->bytes, 0, handle, 0);

    if (result != CUDA_SUCCESS_)
        return result;
    result = calls->mem_set_access(mapping->base, mapping->bytes, &access, 1);
    if (result != CUDA_SUCCESS_ &&
        calls->mem_unmap(mapping->base, mapping->bytes) != CUDA_SUCCESS_)
        calls->mem_unmap(mapping->base, mapping->bytes);
    return result;
}

static void unreserve(const struct tarn__calls *calls,
                      const struct tarn__mapping *mapping)
{
    if (calls->mem_address_free(mapping->base, mapping->bytes) != CUDA_SUCCESS_)
        calls->mem_address_free(mapping->base, mapping->bytes);
}

static CUresult_ reserve_and_map(const struct tarn__calls *calls,
                                 struct tarn__mapping *mapping, CUmemHandle_ handle)
{
    CUresult_ result =
        calls->mem_address_reserve(&mapping->base, mapping->bytes, GRANULARITY, 0, 0);

    if (result != CUDA_SUCCESS_)
        return result;
    result = map_at(calls, mapping, handle);
    if (result != CUDA_SUCCESS_)
        unreserve(calls, mapping);
    return result;
}

static bool has_calls(const struct tarn__calls *calls)
{
    return calls->mem_import && calls->mem_release && calls->mem_address_reserve &&
           calls->mem_address_free && calls->mem_map && calls->mem_unmap &&
           calls->mem_set_access;
}

static tarn_status check_import(const struct tarn__calls *calls,
                                const struct tarn__mapping *mapping)
{
    if (!has_calls(calls))
        return tarn_error_set(TARN_NOT_SUPPORTED, "ipc: the driver cannot import memory");
    if (mapping->bytes == 0 || mapping->bytes % GRANULARITY != 0)
        return tarn_error_set(
            TARN_SYSTEM_FAILURE,
            "ipc: the owner sent an invalid answer: a segment of %zu bytes",
            mapping->bytes);
    return TARN_OK;
}

/* The mapping alone keeps the memory; the handle is released at once. */
static tarn_status map_imported(const struct tarn__calls *calls,
                                struct tarn__mapping *mapping, CUmemHandle_ handle)
{
    CUresult_ result = reserve_and_map(calls, mapping, handle);

    if (calls->mem_release(handle) != CUDA_SUCCESS_)
        calls->mem_release(handle);
    if (result != CUDA_SUCCESS_)
        return tarn__driver_failed("ipc", "cuMemMap", result,
                                   "a segment of %zu bytes on device %d", mapping->bytes,
                                   mapping->device);
    return TARN_OK;
}

static tarn_status open_segment(const struct tarn__calls *calls,
                                struct tarn__mapping *mapping, int memory)
{
    CUmemHandle_ handle = 0;
    tarn_status status = check_import(calls, mapping);

    if (status != TARN_OK)
        return status;
    CUresult_ result = calls->mem_import(&handle, (void *)(intptr_t)memory,
                                         CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_);
    if (result != CUDA_SUCCESS_)
        return tarn__driver_failed("ipc", "cuMemImportFromShareableHandle", result,
                                   "a segment of %zu bytes", mapping->bytes);
    return map_imported(calls, mapping, handle);
}

/* --- a segment, by its fabric handle --- */

static tarn_status fabric_failed(const struct tarn__mapping *mapping, CUresult_ result)
{
    /* An H200 without a channel returns NOT_SUPPORTED here, and NOT_PERMITTED at a create. */
    if (result == CUDA_ERROR_NOT_PERMITTED_ || result == CUDA_ERROR_NOT_SUPPORTED_)
        return tarn_error_set_native(
            TARN_NOT_SUPPORTED, result,
            "fabric: this process lacks the IMEX channel of the memory's owner "
            "(/dev/nvidia-caps-imex-channels)");
    if (result == CUDA_ERROR_INVALID_VALUE_ || result == CUDA_ERROR_INVALID_HANDLE_)
        return tarn_error_set_native(
            TARN_NOT_FOUND, result,
            "fabric: the driver does not know this memory: it was released, its process "
            "ended, or the handle is invalid");
    return tarn__driver_failed("fabric", "cuMemImportFromShareableHandle", result,
                               "a segment of %zu bytes", mapping->bytes);
}

static tarn_status open_fabric(const struct tarn__calls *calls,
                               struct tarn__mapping *mapping)
{
    CUmemFabricHandle_ fabric;
    CUmemHandle_ handle = 0;
    tarn_status status = check_import(calls, mapping);

    if (status != TARN_OK)
        return status;
    memcpy(fabric.data, mapping->origin.bytes, sizeof fabric.data);
    CUresult_ result = calls->mem_import(&handle, &fabric, CU_MEM_HANDLE_TYPE_FABRIC_);
    if (result != CUDA_SUCCESS_)
        return fabric_failed(mapping, result);
    return map_imported(calls, mapping, handle);
}

/* --- a block of a driver's pool --- */

static tarn_status open_driver_pool(const struct tarn__calls *calls,
                                    struct tarn__mapping *mapping,
                                    const struct tarn__source *source)
{
    struct tarn__import_offer offer = {.file = source->memory, .pool = source->pool};

    memcpy(&offer.encoding, mapping->origin.bytes, sizeof offer.encoding);
    memcpy(offer.pointer, source->pointer, sizeof offer.pointer);
    tarn_status status =
        tarn__imported_open(calls, mapping->device, &offer, &mapping->imported);
    if (status != TARN_OK)
        return status;
    mapping->base = tarn__imported_base(mapping->imported);
    mapping->bytes = tarn__imported_bytes(mapping->imported);
    return TARN_OK;
}

/* --- making --- */

static tarn_status open_in_scope(const struct tarn__calls *calls,
                                 struct tarn__mapping *mapping,
                                 const struct tarn__source *source)
{
    if (mapping->origin.backing == TARN__BACKING_SEGMENT)
        return open_segment(calls, mapping, source->memory);
    if (mapping->origin.backing == TARN__BACKING_DRIVER_POOL)
        return open_driver_pool(calls, mapping, source);
    if (mapping->origin.backing == TARN__BACKING_FABRIC)
        return open_fabric(calls, mapping);
    return open_cuda(calls, mapping);
}

/* Open a mapping that has its origin and its device. `work` held. */
static tarn_status open_new(struct tarn__mapping *mapping,
                            const struct tarn__source *source)
{
    tarn__assert_mutex_held(&mappings.work);

    struct tarn__scope scope;
    tarn_status status = tarn__scope_enter_relaxed(mapping->device, &scope);

    if (status != TARN_OK)
        return status;
    mapping->context_generation = scope.context_generation;
    status = open_in_scope(scope.calls, mapping, source);
    tarn__scope_leave(&scope);
    return status;
}

static tarn_status make_new(const struct tarn__origin *origin, int device,
                            const struct tarn__source *source, struct tarn__mapping **out)
{
    struct tarn__mapping *mapping = calloc(1, sizeof *mapping);

    if (!mapping)
        return tarn_error_set(TARN_OUT_OF_MEMORY, "ipc: no host memory for a mapping");
    mapping->origin = *origin;
    mapping->device = device;
    mapping->bytes = source->bytes;
    tarn_status status = open_new(mapping, source);
    if (status != TARN_OK) {
        free(mapping);
        return status;
    }
    list(mapping);
    *out = mapping;
    return TARN_OK;
}

tarn_status tarn__mapping_make(const struct tarn__origin *origin, int device,
                               const struct tarn__source *source,
                               struct tarn__mapping **out)
{
    tarn_status status = TARN_OK;

    pthread_mutex_lock(&mappings.work);
    struct tarn__mapping *found = tarn__mapping_find(origin, device);
    if (found)
        *out = found;
    else
        status = make_new(origin, device, source, out);
    pthread_mutex_unlock(&mappings.work);
    return status;
}

/* --- ending --- */

static CUresult_ close_segment(const struct tarn__calls *calls,
                               const struct tarn__mapping *mapping)
{
    CUresult_ result = tarn__quiesce_device(calls);

    if (result == CUDA_SUCCESS_)
        result = calls->mem_unmap(mapping->base, mapping->bytes);
    if (result == CUDA_SUCCESS_)
        unreserve(calls, mapping);
    return result;
}

/* Closing a CUDA handle is not known to wait, so this function waits. */
static CUresult_ close_cuda(const struct tarn__calls *calls,
                            const struct tarn__mapping *mapping)
{
    CUresult_ result = tarn__quiesce_device(calls);

    return result == CUDA_SUCCESS_ ? calls->ipc_close_mem_handle(mapping->base) : result;
}

/* A free of memory of a driver's pool does not wait, so this function waits. */
static CUresult_ close_driver_pool(const struct tarn__calls *calls,
                                   const struct tarn__mapping *mapping)
{
    CUresult_ result = tarn__quiesce_device(calls);

    return result == CUDA_SUCCESS_ ? tarn__imported_close(calls, mapping->imported)
                                   : result;
}

/* How each kind of mapping ends, by its tarn__backing. */
static const struct {
    CUresult_ (*close)(const struct tarn__calls *, const struct tarn__mapping *);
    const char *call;
} endings[] = {
    [TARN__BACKING_SEGMENT] = {close_segment, "cuMemUnmap"},
    [TARN__BACKING_CUDA] = {close_cuda, "cuIpcCloseMemHandle"},
    [TARN__BACKING_DRIVER_POOL] = {close_driver_pool, "cuMemFree"},
    [TARN__BACKING_FABRIC] = {close_segment, "cuMemUnmap"},
};

static tarn_status close_in_scope(const struct tarn__mapping *mapping)
{
    struct tarn__scope scope;
    tarn_status status = tarn__scope_enter_relaxed(mapping->device, &scope);

    if (status != TARN_OK)
        return status;
    CUresult_ result = endings[mapping->origin.backing].close(scope.calls, mapping);
    if (result != CUDA_SUCCESS_)
        status = tarn__driver_failed("ipc", endings[mapping->origin.backing].call, result,
                                     "%zu bytes at 0x%llx of another process",
                                     mapping->bytes, mapping->base);
    tarn__scope_leave(&scope);
    return status;
}

static tarn_status close_last(struct tarn__mapping *mapping)
{
    tarn_status status = TARN_OK;

    pthread_mutex_lock(&mappings.work);
    if (is_alive(mapping))
        status = close_in_scope(mapping);
    pthread_mutex_unlock(&mappings.work);
    if (status != TARN_OK)
        return status;
    atomic_fetch_sub(&mappings.count, 1);
    free(mapping);
    return TARN_OK;
}

tarn_status tarn__mapping_release(struct tarn__mapping *mapping)
{
    pthread_mutex_lock(&mappings.lock);
    bool is_used = mapping->references > 1;
    if (mapping->references == 1)
        unlist(mapping);
    if (mapping->references > 0)
        mapping->references--;
    pthread_mutex_unlock(&mappings.lock);
    return is_used ? TARN_OK : close_last(mapping);
}
