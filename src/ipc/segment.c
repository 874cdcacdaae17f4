/* segment.c -- the resource `exportable`: each block is one allocation made for export.
 *
 * A pool's own VMM memory is moved, suspended and trimmed in physical handles that do not
 * follow the bounds of blocks. A handle of it would be stale before it arrived. So memory
 * that others may map has a resource of its own without these operations. A pool over it
 * serves small blocks.
 *
 * The table tells which segment lies around an address. The server requests a descriptor
 * from the driver while the segment's owner may be freeing it. `users` delays the free
 * until then. So the exported memory is never what came after it at the same address.
 */
#define _GNU_SOURCE
#include "ipc/segment.h"
#include "base/mutex_assert.h"
#include "base/size.h"
#include "driver/quiesce.h"
#include "ipc/descriptor.h"
#include "ipc/owner.h"
#include "ipc/slots.h"
#include "resource/backed.h"
#include <pthread.h>
#include <search.h>
#include <stdlib.h>

enum { GRANULARITY = 2 << 20 };

struct segment {
    CUdeviceptr_ base;
    CUmemHandle_ handle; /* kept for exports; 0: released, only the mapping is left */
    size_t bytes;        /* a multiple of GRANULARITY */
    int device;
    uint32_t slot;
    uint64_t generation;
    unsigned users; /* threads that export its memory now */
    bool ending;    /* a free waits for the users, or runs */
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
    const struct segment *a = one, *b = other;

    if (a->base >= b->base + b->bytes)
        return 1;
    return a->base + a->bytes <= b->base ? -1 : 0;
}

/* Return the segment around an address. `tarn__owner_mutex` held. */
static struct segment *around(tarn_device_ptr address)
{
    tarn__assert_mutex_held(&tarn__owner_mutex);

    const struct segment place = {.base = address, .bytes = 1};
    struct segment *const *found = tfind(&place, &segments.by_address, compare);

    return found ? *found : NULL;
}

bool tarn__segment_around(tarn_device_ptr address, struct tarn__segment_name *out)
{
    tarn__owner_lock();
    const struct segment *segment = around(address);
    if (segment)
        *out = (struct tarn__segment_name){segment->slot, segment->generation,
                                           segment->base, segment->bytes};
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
    if (segment)
        segment->users++;
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
        return tarn_error_set(
            TARN_NOT_FOUND,
            "ipc: the memory was freed: segment %u has no generation %llu", slot,
            (unsigned long long)generation);
    size_t bytes = segment->bytes;
    CUresult_ result = export_file(calls, segment->handle, &file);
    end_use(segment);
    if (result != CUDA_SUCCESS_)
        return tarn__driver_failed("ipc", "cuMemExportToShareableHandle", result,
                                   "a segment of %zu bytes", bytes);
    *bytes_out = bytes;
    *file_out = file;
    return TARN_OK;
}

/* --- the resource --- */

/* Undo a failed allocation. The second tries are for a driver that fails once. */
static void release(const struct tarn__calls *calls, CUmemHandle_ handle)
{
    if (calls->mem_release(handle) != CUDA_SUCCESS_)
        calls->mem_release(handle);
}

static void unreserve(const struct tarn__calls *calls, const struct segment *segment)
{
    if (calls->mem_address_free(segment->base, segment->bytes) != CUDA_SUCCESS_)
        calls->mem_address_free(segment->base, segment->bytes);
}

static void unmap(const struct tarn__calls *calls, const struct segment *segment)
{
    if (calls->mem_unmap(segment->base, segment->bytes) != CUDA_SUCCESS_)
        calls->mem_unmap(segment->base, segment->bytes);
}

static CUresult_ create(const struct tarn__calls *calls, struct segment *segment)
{
    CUmemAllocationProp_ properties = {
        .type = CU_MEM_ALLOCATION_TYPE_PINNED_,
        .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_,
        .location = {CU_MEM_LOCATION_TYPE_DEVICE_, segment->device},
    };

    return calls->mem_create(&segment->handle, segment->bytes, &properties, 0);
}

static CUresult_ map(const struct tarn__calls *calls, const struct segment *segment)
{
    CUmemAccessDesc_ access = {{CU_MEM_LOCATION_TYPE_DEVICE_, segment->device},
                               CU_MEM_ACCESS_FLAGS_PROT_READWRITE_};
    CUresult_ result =
        calls->mem_map(segment->base, segment->bytes, 0, segment->handle, 0);

    if (result != CUDA_SUCCESS_)
        return result;
    result = calls->mem_set_access(segment->base, segment->bytes, &access, 1);
    if (result != CUDA_SUCCESS_)
        unmap(calls, segment);
    return result;
}

static CUresult_ create_and_map(const struct tarn__calls *calls, struct segment *segment)
{
    CUresult_ result = create(calls, segment);

    if (result != CUDA_SUCCESS_)
        return result;
    result = map(calls, segment);
    if (result != CUDA_SUCCESS_)
        release(calls, segment->handle);
    return result;
}

static CUresult_ reserve_and_map(const struct tarn__calls *calls, struct segment *segment)
{
    CUresult_ result =
        calls->mem_address_reserve(&segment->base, segment->bytes, GRANULARITY, 0, 0);

    if (result != CUDA_SUCCESS_)
        return result;
    result = create_and_map(calls, segment);
    if (result != CUDA_SUCCESS_)
        unreserve(calls, segment);
    return result;
}

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

static CUresult_ exportable_allocate(struct tarn__backed *self,
                                     const struct tarn__calls *calls, size_t bytes,
                                     tarn_stream stream, CUdeviceptr_ *out)
{
    struct segment *segment = calloc(1, sizeof *segment);
    CUresult_ result = CUDA_ERROR_OUT_OF_MEMORY_;

    (void)stream;
    if (!segment || !tarn__size_round_up(bytes, GRANULARITY, &segment->bytes)) {
        free(segment);
        return result;
    }
    segment->device = self->device;
    result = reserve_and_map(calls, segment);
    if (result == CUDA_SUCCESS_ && !list(segment)) {
        unmap(calls, segment);
        release(calls, segment->handle);
        unreserve(calls, segment);
        result = CUDA_ERROR_OUT_OF_MEMORY_;
    }
    if (result != CUDA_SUCCESS_) {
        free(segment);
        return result;
    }
    *out = segment->base;
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

/* First the handle, then the mapping: each is released or stays, and a second free
 * continues where the first one failed. Without the handle the segment cannot be exported
 * any more. */
static CUresult_ release_and_unmap(const struct tarn__calls *calls,
                                   struct segment *segment)
{
    CUresult_ result = CUDA_SUCCESS_;

    if (segment->handle)
        result = calls->mem_release(segment->handle);
    if (result != CUDA_SUCCESS_)
        return result;
    segment->handle = 0;
    return calls->mem_unmap(segment->base, segment->bytes);
}

static CUresult_ end(const struct tarn__calls *calls, struct segment *segment)
{
    CUresult_ result = tarn__quiesce_device(calls);

    if (result == CUDA_SUCCESS_)
        result = release_and_unmap(calls, segment);
    tarn__owner_lock();
    if (result == CUDA_SUCCESS_) {
        tarn__slots_take(&segments.table, segment->slot);
        tdelete(segment, &segments.by_address, compare);
    }
    segment->ending = segment->handle == 0;
    tarn__owner_unlock();
    if (result != CUDA_SUCCESS_)
        return result;
    unreserve(calls, segment);
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

/* --- is it supported? --- */

static bool has_calls(const struct tarn__calls *calls)
{
    return calls->mem_address_reserve && calls->mem_address_free && calls->mem_create &&
           calls->mem_release && calls->mem_map && calls->mem_unmap &&
           calls->mem_set_access && calls->mem_export;
}

static tarn_status exportable_make(int device, tarn_resource **out)
{
    const struct tarn__calls *calls;
    bool has_vmm = false, has_files = false;
    tarn_status status = tarn__device_has(
        "exportable", device, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED_,
        &has_vmm);

    if (status == TARN_OK)
        status = tarn__device_has(
            "exportable", device,
            CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED_, &has_files);
    if (status == TARN_OK)
        status = tarn__driver(&calls);
    if (status != TARN_OK)
        return status;
    if (!has_vmm || !has_files || !has_calls(calls))
        return tarn_error_set(TARN_NOT_SUPPORTED,
                              "exportable: device %d cannot export memory as descriptors",
                              device);
    return tarn__backed_create(&exportable_kind, device, out);
}

tarn_status tarn_exportable_create(int device, tarn_resource **out)
{
    static tarn_resource *places[TARN__DEVICES_MAX];

    return tarn__backed_share(&exportable_kind, places, device, exportable_make, out);
}
