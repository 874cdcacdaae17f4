/* physical.c -- create, release, retain, export and import of physical memory. */
#define _GNU_SOURCE
#include "sim/memory/physical.h"
#include "base/map.h"
#include "sim/core/api.h"
#include "sim/core/call.h"
#include "sim/core/device.h"
#include "sim/core/handles.h"
#include "sim/core/thread.h"
#include "sim/memory/block.h"
#include "sim/memory/fabric.h"
#include "sim/memory/pool.h"
#include "sim/memory/shared_file.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static struct sim_handles handles = SIM_HANDLES;

/* From a file's id to its struct sim_physical_file. */
static struct tarn__map files = {.value_bytes = sizeof(void *), .stride = 16};

struct sim_physical *sim_physical_find(CUmemGenericAllocationHandle handle)
{
    void *slot = (void *)(uintptr_t)handle;
    struct sim_physical *physical = handle ? sim_handles_find(&handles, slot) : NULL;

    if (!physical && handle && !sim_handles_is_known(&handles, slot))
        sim_misuse(sim_thread.call,
                   "%p is not a memory handle; a real driver crashes here", slot);
    return physical;
}

/* --- where the memory comes from --- */

/* Charge `bytes` to the device. Unused memory of pools is released for it. */
static bool charge(CUdevice device, size_t bytes)
{
    return sim_device_charge(&sim_devices[device], bytes) ||
           (sim_pool_trim_all(device) && sim_device_charge(&sim_devices[device], bytes));
}

/* Create a struct for an open file, and add it to the map. NULL: no host memory. */
static struct sim_physical_file *list_file(int file, const struct sim_shared_page *page)
{
    struct sim_physical_file *listed = calloc(1, sizeof *listed);

    if (!listed)
        return NULL;
    *listed = (struct sim_physical_file){
        .file = file,
        .id = page->id,
        .bytes = (size_t)page->bytes,
        .device = sim_shared_file_device(page),
        .references = 1,
    };
    if (tarn__map_put(&files, page->id, &listed))
        return listed;
    free(listed);
    return NULL;
}

static CUresult make_file(CUdevice device, size_t bytes, struct sim_physical_file **out)
{
    struct sim_shared_page page;
    CUresult result;
    int file;

    if (!charge(device, bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    result = sim_shared_file_create(SHARED_MEMORY, device, bytes, &file, &page);
    if (result != CUDA_SUCCESS) {
        sim_device_refund(&sim_devices[device], bytes);
        return result;
    }
    *out = list_file(file, &page);
    if (!*out) {
        close(file);
        sim_device_refund(&sim_devices[device], bytes);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    (*out)->is_ours = true;
    return CUDA_SUCCESS;
}

static void drop_file(struct sim_physical_file *file)
{
    if (--file->references > 0)
        return;
    tarn__map_take(&files, file->id, NULL);
    close(file->file); /* frees the memory, unless another process has the file */
    if (file->is_ours) {
        sim_device_refund(&sim_devices[file->device], file->bytes);
        sim_live_bytes -= file->bytes;
    }
    free(file);
}

static CUresult make_piece(CUdevice device, size_t bytes, struct sim_range **out)
{
    *out = sim_device_take_pieces(&sim_devices[device], bytes);
    if (!*out && sim_pool_trim_all(device))
        *out = sim_device_take_pieces(&sim_devices[device], bytes);
    return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* Its pages are dropped without the lock, because that is slow. */
static void drop_piece(CUdevice device, struct sim_range *piece)
{
    sim_lock_release();
    sim_device_drop_pieces(&sim_devices[device], piece);
    sim_lock();
    sim_live_bytes -= piece->bytes;
    sim_device_return_pieces(&sim_devices[device], piece);
}

/* Create a handle with one reference; the caller adds the memory. NULL: no host
 * memory. */
static struct sim_physical *create_handle(CUdevice device, size_t bytes)
{
    struct sim_physical *physical = calloc(1, sizeof *physical);
    void *handle = physical ? sim_handles_create(&handles, physical) : NULL;

    if (!handle) {
        free(physical);
        return NULL;
    }
    physical->handle = (uintptr_t)handle;
    physical->id = sim_lock_next_id();
    physical->device = device;
    physical->bytes = bytes;
    physical->handle_references = 1;
    return physical;
}

static void destroy_handle(struct sim_physical *physical)
{
    sim_handles_release(&handles, (void *)(uintptr_t)physical->handle);
    free(physical);
}

/* Free it if it has neither references nor mappings. */
static void drop_if_unused(struct sim_physical *physical)
{
    struct sim_physical_file *file = physical->file;
    struct sim_range *piece = physical->memory;
    CUdevice device = physical->device;

    if (physical->handle_references > 0 || physical->mappings > 0)
        return;
    destroy_handle(physical);
    if (file)
        drop_file(file);
    else
        drop_piece(device, piece);
}

bool sim_physical_map(const struct sim_physical *physical, uintptr_t address)
{
    const struct sim_device *device = &sim_devices[physical->device];
    int file = physical->file ? physical->file->file : device->file;
    off_t offset = physical->file ? 0 : (off_t)(physical->memory->start - device->base);

    return mmap((void *)address, physical->bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, file,
                offset) != MAP_FAILED;
}

void sim_physical_unmapped(struct sim_physical *physical)
{
    physical->mappings--;
    drop_if_unused(physical);
}

/* --- create and release --- */

/* As the real driver does, it checks the option and not the properties. */
CUresult cuMemGetAllocationGranularity(size_t *out, const CUmemAllocationProp *properties,
                                       CUmemAllocationGranularity_flags option)
{
    ENTER(CALL_PLAIN);
    if (!out || !properties ||
        (option != CU_MEM_ALLOC_GRANULARITY_MINIMUM &&
         option != CU_MEM_ALLOC_GRANULARITY_RECOMMENDED))
        return CUDA_ERROR_INVALID_VALUE;
    *out = SIM_PIECE_BYTES;
    return CUDA_SUCCESS;
}

/* Other bits of the types are ignored. */
enum { KNOWN_HANDLE_TYPES = 0xf };

/* Fabric handles need an IMEX channel. Host memory is not supported. */
static CUresult check_properties(const CUmemAllocationProp *properties)
{
    static const unsigned char none[sizeof properties->allocFlags.reserved];
    CUmemAllocationHandleType types =
        properties->requestedHandleTypes & KNOWN_HANDLE_TYPES;

    if (properties->type != CU_MEM_ALLOCATION_TYPE_PINNED ||
        properties->win32HandleMetaData ||
        memcmp(properties->allocFlags.reserved, none, sizeof none) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (types & ~(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR | CU_MEM_HANDLE_TYPE_FABRIC))
        return CUDA_ERROR_INVALID_VALUE;
    if (types & CU_MEM_HANDLE_TYPE_FABRIC && !sim_fabric_has_channel())
        return CUDA_ERROR_NOT_PERMITTED;
    if (types == CU_MEM_HANDLE_TYPE_NONE &&
        properties->location.type >= CU_MEM_LOCATION_TYPE_HOST &&
        properties->location.type <= CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    return sim_device_exists(properties->location.id) ? CUDA_SUCCESS
                                                      : CUDA_ERROR_INVALID_DEVICE;
}

static CUresult create(const CUmemAllocationProp *properties, size_t bytes,
                       CUmemGenericAllocationHandle *out)
{
    CUdevice device = properties->location.id;
    struct sim_physical *physical = create_handle(device, bytes);
    CUresult result;

    if (!physical)
        return CUDA_ERROR_OUT_OF_MEMORY;
    physical->handle_types = properties->requestedHandleTypes & KNOWN_HANDLE_TYPES;
    physical->is_for_rdma = properties->allocFlags.gpuDirectRDMACapable;
    result = physical->handle_types ? make_file(device, bytes, &physical->file)
                                    : make_piece(device, bytes, &physical->memory);
    if (result != CUDA_SUCCESS) {
        destroy_handle(physical);
        return result;
    }
    sim_live_bytes += bytes;
    *out = physical->handle;
    return CUDA_SUCCESS;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *out, size_t bytes,
                     const CUmemAllocationProp *properties, unsigned long long flags)
{
    CUresult result;

    ENTER(CALL_ALLOCATES);
    if (!out || !properties || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    result = check_properties(properties);
    if (result != CUDA_SUCCESS)
        return result;
    if (bytes == 0 || bytes % SIM_PIECE_BYTES != 0)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    return sim_lock_leave(create(properties, bytes, out));
}

/* A mapping keeps the memory, and the handle stays valid for it, without a reference. */
CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
    ENTER(CALL_PLAIN);
    sim_lock();
    struct sim_physical *physical = sim_physical_find(handle);
    if (!physical || physical->handle_references == 0)
        return sim_lock_leave(CUDA_ERROR_INVALID_VALUE);
    physical->handle_references--;
    drop_if_unused(physical);
    return sim_lock_leave(CUDA_SUCCESS);
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *out, void *address)
{
    ENTER(CALL_PLAIN);
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    const struct sim_block *block = sim_block_find((uintptr_t)address);
    if (!block || block->kind != BLOCK_MAPPED)
        return sim_lock_leave(CUDA_ERROR_INVALID_VALUE);
    block->physical->handle_references++;
    *out = block->physical->handle;
    return sim_lock_leave(CUDA_SUCCESS);
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *out,
                                                CUmemGenericAllocationHandle handle)
{
    ENTER(CALL_PLAIN);
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    const struct sim_physical *physical = sim_physical_find(handle);
    if (!physical)
        return sim_lock_leave(CUDA_ERROR_INVALID_VALUE);
    *out = (CUmemAllocationProp){
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .requestedHandleTypes = physical->handle_types,
        .location = {CU_MEM_LOCATION_TYPE_DEVICE, physical->device},
        .allocFlags = {.gpuDirectRDMACapable = physical->is_for_rdma},
    };
    return sim_lock_leave(CUDA_SUCCESS);
}

/* --- export and import --- */

static CUresult export_file(const struct sim_physical *physical, int *out)
{
    int file = fcntl(physical->file->file, F_DUPFD_CLOEXEC, 0);

    if (file < 0)
        return CUDA_ERROR_OPERATING_SYSTEM;
    *out = file;
    return CUDA_SUCCESS;
}

CUresult cuMemExportToShareableHandle(void *out, CUmemGenericAllocationHandle handle,
                                      CUmemAllocationHandleType type,
                                      unsigned long long flags)
{
    ENTER(CALL_PLAIN);
    if (!out || flags != 0 ||
        (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR &&
         type != CU_MEM_HANDLE_TYPE_FABRIC))
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    const struct sim_physical *physical = sim_physical_find(handle);
    if (!physical || !(physical->handle_types & type))
        return sim_lock_leave(CUDA_ERROR_INVALID_VALUE);
    if (type == CU_MEM_HANDLE_TYPE_FABRIC)
        return sim_lock_leave(
            sim_fabric_export(physical->file->file, physical->file->id, out));
    return sim_lock_leave(export_file(physical, out));
}

/* Open the file that `page` describes: reuse the process's own struct, or duplicate the
 * descriptor, because the caller may close his. */
static CUresult open_file(int file, const struct sim_shared_page *page,
                          struct sim_physical_file **out)
{
    struct sim_physical_file **known = tarn__map_get(&files, page->id);
    int own;

    if (known) {
        if ((*known)->bytes != page->bytes)
            return CUDA_ERROR_UNKNOWN; /* another process changed the page */
        (*known)->references++;
        *out = *known;
        return CUDA_SUCCESS;
    }
    own = fcntl(file, F_DUPFD_CLOEXEC, 0);
    if (own < 0)
        return CUDA_ERROR_OPERATING_SYSTEM;
    *out = list_file(own, page);
    if (*out)
        return CUDA_SUCCESS;
    close(own);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

/* Create a handle of the memory in `file`. */
static CUresult import_file(int file, const struct sim_shared_page *page,
                            CUmemGenericAllocationHandle *out)
{
    struct sim_physical *physical =
        create_handle(sim_shared_file_device(page), (size_t)page->bytes);

    if (!physical)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = open_file(file, page, &physical->file);
    if (result != CUDA_SUCCESS) {
        destroy_handle(physical);
        return result;
    }
    *out = physical->handle;
    return CUDA_SUCCESS;
}

static CUresult import_descriptor(int file, CUmemGenericAllocationHandle *out)
{
    struct sim_shared_page page;
    CUresult result = sim_shared_file_identify(file, SHARED_MEMORY, &page);

    return result == CUDA_SUCCESS ? import_file(file, &page, out) : result;
}

static CUresult import_fabric(const CUmemFabricHandle *handle,
                              CUmemGenericAllocationHandle *out)
{
    struct sim_shared_page page;
    int file;

    if (!sim_fabric_has_channel())
        return CUDA_ERROR_NOT_SUPPORTED; /* as an H200; its cuMemCreate: NOT_PERMITTED */
    CUresult result = sim_fabric_open(handle, &file, &page);
    if (result != CUDA_SUCCESS)
        return result;
    result = import_file(file, &page, out);
    close(file);
    return result;
}

/* Each import returns a handle of its own. */
CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *out, void *handle,
                                        CUmemAllocationHandleType type)
{
    ENTER(CALL_PLAIN);
    if (!out || (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR &&
                 type != CU_MEM_HANDLE_TYPE_FABRIC))
        return CUDA_ERROR_INVALID_VALUE;
    if (type == CU_MEM_HANDLE_TYPE_FABRIC && !handle)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    return sim_lock_leave(type == CU_MEM_HANDLE_TYPE_FABRIC
                              ? import_fabric(handle, out)
                              : import_descriptor((int)(intptr_t)handle, out));
}
