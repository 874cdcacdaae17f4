/* segment.c -- the resource `exportable`: each block is one allocation made for export.
 *
 * A pool's own VMM memory is moved, suspended and trimmed in physical handles that do not
 * follow the bounds of blocks. A handle of it would be stale before it arrived. So memory
 * that others may map or register has a resource of its own without these operations. A
 * pool over it serves small blocks.
 *
 * The table tells which segment lies around an address. The server requests a descriptor
 * from the driver while the segment's owner may be freeing it. `users` delays the free
 * until then. So the exported memory is never what came after it at the same address.
 *
 * Memory that was exported is not cached: a process may have it open, and would see the
 * next block.
 */
#define _GNU_SOURCE
#include "ipc/segment.h"
#include "base/mutex_assert.h"
#include "base/options.h"
#include "base/warn.h"
#include "driver/quiesce.h"
#include "ipc/descriptor.h"
#include "ipc/owner.h"
#include "ipc/segment_cache.h"
#include "ipc/slots.h"
#include "resource/backed.h"
#include <pthread.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

struct segment {
    struct tarn__segment_memory *memory;
    struct tarn__segment_cache *cache; /* of its resource */
    uint32_t slot;
    uint64_t generation;
    unsigned users;    /* threads that export its memory now */
    bool was_exported; /* another process may have its memory open */
    bool ending;       /* a free waits for the users, or runs */
};

struct exportable {
    struct tarn__backed backed; /* first: the shared operations see this member */
    struct tarn__segment_cache cache;
};

static struct {
    pthread_cond_t idle; /* signalled when a segment has no users any more */
    struct tarn__slots table;
    void *by_address; /* the same segments, as a tree of tsearch() */
} segments = {.idle = PTHREAD_COND_INITIALIZER}; /* under tarn__owner_lock() */

size_t tarn__segment_count(void)
{
    tarn__owner_lock();
    size_t count = segments.table.count;
    tarn__owner_unlock();
    return count;
}

/* Segments do not overlap, so two that overlap are the same. */
static int compare(const void *one, const void *other)
{
    const struct tarn__segment_memory *a = ((const struct segment *)one)->memory;
    const struct tarn__segment_memory *b = ((const struct segment *)other)->memory;

    if (a->base >= b->base + b->bytes)
        return 1;
    return a->base + a->bytes <= b->base ? -1 : 0;
}

/* Return the segment around an address. `tarn__owner_mutex` held. */
static struct segment *around(tarn_device_ptr address)
{
    tarn__assert_mutex_held(&tarn__owner_mutex.mutex);

    struct tarn__segment_memory byte = {.base = address, .bytes = 1};
    const struct segment place = {.memory = &byte};
    struct segment *const *found = tfind(&place, &segments.by_address, compare);

    return found ? *found : NULL;
}

bool tarn__segment_around(tarn_device_ptr address, struct tarn__segment_name *out)
{
    tarn__owner_lock();
    const struct segment *segment = around(address);
    if (segment)
        *out = (struct tarn__segment_name){segment->slot, segment->generation,
                                           segment->memory->base, segment->memory->bytes};
    tarn__owner_unlock();
    return segment != NULL;
}

/* --- a descriptor --- */

/* Return the segment and add a user; NULL: it is gone, or about to go. */
static struct segment *begin_use(uint32_t slot, uint64_t generation)
{
    tarn__owner_lock();
    struct segment *segment = tarn__slots_find(&segments.table, slot, generation);
    if (segment && segment->ending)
        segment = NULL;
    if (segment) {
        segment->users++;
        segment->was_exported = true;
    }
    tarn__owner_unlock();
    return segment;
}

static void end_use(struct segment *segment)
{
    tarn__owner_lock();
    if (--segment->users == 0)
        pthread_cond_broadcast(&segments.idle);
    tarn__owner_unlock();
}

static tarn_status gone(uint32_t slot, uint64_t generation)
{
    return tarn_error_set(TARN_NOT_FOUND,
                          "ipc: the memory was freed: segment %u has no generation %llu",
                          slot, (unsigned long long)generation);
}

static CUresult_ export_file(const struct tarn__calls *calls, CUmemHandle_ handle,
                             int *out)
{
    int file = -1;

    tarn__descriptor_lock();
    CUresult_ result =
        calls->mem_export(&file, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_, 0);
    return tarn__descriptor_record_exported(result, file, out);
}

tarn_status tarn__segment_open(uint32_t slot, uint64_t generation, size_t *bytes_out,
                               int *file_out)
{
    const struct tarn__calls *calls;
    tarn_status status = tarn__driver(&calls);
    int file = -1;

    if (status != TARN_OK)
        return status;
    struct segment *segment = begin_use(slot, generation);
    if (!segment)
        return gone(slot, generation);
    size_t bytes = segment->memory->bytes;
    CUresult_ result = export_file(calls, segment->memory->handle, &file);
    end_use(segment);
    if (result != CUDA_SUCCESS_)
        return tarn__driver_failed("ipc", "cuMemExportToShareableHandle", result,
                                   "a segment of %zu bytes", bytes);
    *bytes_out = bytes;
    *file_out = file;
    return TARN_OK;
}

/* The lock of descriptors also installs the fork handlers, which a child of an exporter
 * needs. */
static CUresult_ export_fabric(const struct tarn__calls *calls, CUmemHandle_ handle,
                               CUmemFabricHandle_ *out)
{
    tarn__descriptor_lock();
    CUresult_ result = calls->mem_export(out, handle, CU_MEM_HANDLE_TYPE_FABRIC_, 0);
    tarn__descriptor_unlock();
    return result;
}

tarn_status tarn__segment_fabric(uint32_t slot, uint64_t generation,
                                 unsigned char out[64])
{
    const struct tarn__calls *calls;
    tarn_status status = tarn__driver(&calls);
    CUresult_ result = CUDA_ERROR_NOT_SUPPORTED_;
    CUmemFabricHandle_ fabric;

    if (status != TARN_OK)
        return status;
    struct segment *segment = begin_use(slot, generation);
    if (!segment)
        return gone(slot, generation);
    if (segment->memory->handle_types & CU_MEM_HANDLE_TYPE_FABRIC_)
        result = export_fabric(calls, segment->memory->handle, &fabric);
    end_use(segment);
    if (result == CUDA_ERROR_NOT_SUPPORTED_ || result == CUDA_ERROR_NOT_PERMITTED_)
        return tarn_error_set_native(
            TARN_NOT_SUPPORTED, result,
            "fabric: the memory has no fabric handle: the device has none, or this "
            "process had no IMEX channel when the memory was created");
    if (result != CUDA_SUCCESS_)
        return tarn__driver_failed("fabric", "cuMemExportToShareableHandle", result,
                                   "segment %u", slot);
    memcpy(out, fabric.data, sizeof fabric.data);
    return TARN_OK;
}

/* --- the resource --- */

/* Enter it into the table and the tree. False: no host memory. */
static bool list(struct segment *segment)
{
    struct segment **entered = NULL;

    tarn__owner_lock();
    if (tarn__slots_reserve(&segments.table))
        entered = tsearch(segment, &segments.by_address, compare);
    bool is_in = entered && *entered == segment; /* no other segment is at that address */
    if (is_in)
        tarn__slots_put(&segments.table, segment, &segment->slot, &segment->generation);
    tarn__owner_unlock();
    return is_in;
}

/* Take cached memory, or create some. While memory is scarce, the cache is released. */
static CUresult_ obtain(struct exportable *self, const struct tarn__calls *calls,
                        size_t bytes, struct tarn__segment_memory **out)
{
    size_t released = 0;

    *out = tarn__segment_cache_take(&self->cache, bytes);
    if (*out)
        return CUDA_SUCCESS_;
    CUresult_ result =
        tarn__segment_memory_create(calls, self->backed.device, bytes, out);
    if (result != CUDA_ERROR_OUT_OF_MEMORY_)
        return result;
    tarn__segment_cache_trim(&self->cache, calls, 0, &released);
    return released ? tarn__segment_memory_create(calls, self->backed.device, bytes, out)
                    : result;
}

/* Release memory that no caller has yet; the second try is for a driver that fails
 * once. */
static void discard(const struct tarn__calls *calls, struct tarn__segment_memory *memory)
{
    if (tarn__segment_memory_release(calls, memory) != CUDA_SUCCESS_)
        tarn__segment_memory_release(calls, memory);
}

static CUresult_ exportable_allocate(struct tarn__backed *self,
                                     const struct tarn__calls *calls, size_t bytes,
                                     tarn_stream stream, CUdeviceptr_ *out)
{
    struct exportable *exportable = (struct exportable *)(void *)self;
    struct segment *segment = calloc(1, sizeof *segment);
    CUresult_ result = segment ? CUDA_SUCCESS_ : CUDA_ERROR_OUT_OF_MEMORY_;
    size_t rounded = 0;

    (void)stream;
    if (result == CUDA_SUCCESS_)
        result = tarn__segment_memory_round(calls, self->device, bytes, &rounded);
    if (result == CUDA_SUCCESS_)
        result = obtain(exportable, calls, rounded, &segment->memory);
    if (result != CUDA_SUCCESS_) {
        free(segment);
        return result;
    }
    segment->cache = &exportable->cache;
    if (!list(segment)) {
        discard(calls, segment->memory);
        free(segment);
        return CUDA_ERROR_OUT_OF_MEMORY_;
    }
    *out = segment->memory->base;
    return CUDA_SUCCESS_;
}

/* Mark the segment so that no thread exports it from now on. Wait for those that do. */
static struct segment *begin_end(CUdeviceptr_ base)
{
    tarn__owner_lock();
    struct segment *segment = around(base);
    if (segment) {
        segment->ending = true;
        while (segment->users > 0)
            tarn__owner_wait(&segments.idle);
    }
    tarn__owner_unlock();
    return segment;
}

/* Take the segment out of the table, so that it cannot be exported any more. */
static void unlist(const struct segment *segment)
{
    tarn__owner_lock();
    tarn__slots_take(&segments.table, segment->slot);
    tdelete(segment, &segments.by_address, compare);
    tarn__owner_unlock();
}

/* After a free that failed the segment is live again, unless its handle is gone. */
static CUresult_ revive(struct segment *segment, CUresult_ result)
{
    tarn__owner_lock();
    segment->ending = segment->memory->handle == 0;
    tarn__owner_unlock();
    return result;
}

/* The segment leaves the table before its addresses are free: another thread may get
 * them at once. */
static CUresult_ release(const struct tarn__calls *calls, struct segment *segment)
{
    CUresult_ result = tarn__segment_memory_unmap(calls, segment->memory);

    if (result != CUDA_SUCCESS_)
        return revive(segment, result);
    unlist(segment);
    tarn__segment_memory_drop(calls, segment->memory);
    free(segment);
    return CUDA_SUCCESS_;
}

static bool may_be_cached(const struct segment *segment)
{
    return !segment->was_exported && segment->memory->handle &&
           segment->memory->bytes <= segment->cache->maximum_bytes;
}

/* Keep the memory in the cache, or release it. */
static CUresult_ end(const struct tarn__calls *calls, struct segment *segment)
{
    CUresult_ result = tarn__quiesce_device(calls);

    if (result != CUDA_SUCCESS_)
        return revive(segment, result);
    if (!may_be_cached(segment))
        return release(calls, segment);
    unlist(segment);
    tarn__segment_cache_put(segment->cache, calls, segment->memory);
    free(segment);
    return CUDA_SUCCESS_;
}

static CUresult_ exportable_free(const struct tarn__calls *calls, CUdeviceptr_ base,
                                 tarn_stream stream)
{
    struct segment *segment = begin_end(base);

    (void)stream;
    return segment ? end(calls, segment) : CUDA_ERROR_INVALID_VALUE_;
}

static const struct tarn__backed_kind exportable_kind = {
    .component = "exportable",
    .allocate_call = "cuMemCreate",
    .free_call = "cuMemUnmap",
    .survives_reset = true,
    .allocate = exportable_allocate,
    .free = exportable_free,
};

/* --- creating and ending the resource --- */

static tarn_status exportable_trim(void *self, size_t keep_bytes, size_t *released_out)
{
    struct exportable *exportable = self;
    struct tarn__scope scope;
    tarn_status status = tarn__backed_enter(&exportable->backed, &scope);

    if (status != TARN_OK)
        return status;
    CUresult_ result = tarn__segment_cache_trim(&exportable->cache, scope.calls,
                                                keep_bytes, released_out);
    if (result != CUDA_SUCCESS_)
        status =
            tarn__driver_failed("exportable", "cuMemUnmap", result,
                                "cached memory of device %d", exportable->backed.device);
    tarn__scope_leave(&scope);
    return status;
}

/* The function cannot return a status, so it tries once more. */
static void exportable_destroy(void *self)
{
    struct exportable *exportable = self;

    if (exportable->cache.newest && exportable_trim(self, 0, NULL) != TARN_OK &&
        exportable_trim(self, 0, NULL) != TARN_OK && !tarn__driver_gone())
        tarn__warn("exportable: the driver failed to release %zu cached bytes of device "
                   "%d, which are leaked",
                   exportable->cache.bytes, exportable->backed.device);
    tarn__segment_cache_free(&exportable->cache);
    tarn__backed_destroy(self);
}

static bool exportable_free_waits(const void *self)
{
    (void)self;
    return true;
}

static const tarn_resource_ops exportable_ops = {
    .size = sizeof exportable_ops,
    .name = "exportable",
    .allocate = tarn__backed_allocate,
    .deallocate = tarn__backed_deallocate,
    .destroy = exportable_destroy,
    .memory_info = tarn__backed_memory_info,
    .deallocate_synchronizes = exportable_free_waits,
    .trim = exportable_trim,
    .requested_bytes = tarn__backed_requested_bytes,
    .live_blocks = tarn__backed_live_blocks,
};

static tarn_status make(int device, size_t cache_bytes, tarn_resource **out)
{
    tarn_status status = tarn__segment_memory_check(device);

    if (status != TARN_OK)
        return status;
    struct exportable *exportable = malloc(sizeof *exportable);
    if (!exportable)
        return tarn_error_set(TARN_OUT_OF_MEMORY, "exportable: no host memory");
    tarn__backed_init(&exportable->backed, &exportable_kind, device);
    tarn__segment_cache_init(&exportable->cache, cache_bytes);
    status = tarn_resource_create(&exportable_ops, exportable, device, out);
    if (status != TARN_OK)
        tarn__backed_destroy(exportable);
    return status;
}

static tarn_status make_shared(int device, tarn_resource **out)
{
    return make(device, 0, out);
}

tarn_status tarn_exportable_create(int device, const tarn_exportable_options *options,
                                   tarn_resource **out)
{
    static tarn_resource *places[TARN__DEVICES_MAX];
    tarn_exportable_options requested;
    tarn_status status = tarn__options_read("exportable", options, sizeof requested,
                                            &requested, sizeof requested);

    if (status == TARN_OK && !out)
        status = tarn_error_set(TARN_INVALID_ARGUMENT, "exportable: out is NULL");
    if (status != TARN_OK)
        return status;
    if (requested.cache_bytes == 0)
        return tarn__backed_share(&exportable_kind, places, device, make_shared, out);
    return make(device, requested.cache_bytes, out);
}
