/* system.c -- ordinary host memory that the device reads and writes by itself.
 *
 * A device with pageable memory access translates the addresses of the process, so the
 * pointers of malloc() are valid on it. The driver neither allocates nor frees this
 * memory, and nothing orders its end after the device's work. So a free waits for the
 * device first, as cuMemFree does, and in a way that ends no capture: by the allocation
 * and the free of a small block.
 *
 * With headroom, the beginning of a block is advised to the device and the rest to the
 * host, so that the device keeps that many bytes free for others.
 */
#include "resource/backed.h"
#include "base/options.h"
#include "driver/quiesce.h"
#include <stdlib.h>
#include <unistd.h>

struct system {
    struct tarn__backed backed; /* first: the shared operations see this member */
    bool advises;
    size_t headroom_bytes;
};

static CUresult_ advise(const struct tarn__calls *calls, CUdeviceptr_ address,
                        size_t bytes, CUdevice_ where)
{
    if (bytes == 0)
        return CUDA_SUCCESS_;
    return calls->mem_advise(address, bytes, CU_MEM_ADVISE_SET_PREFERRED_LOCATION_,
                             where);
}

/* Return how many of `bytes` fit on a device with `free_bytes`: whole pages, or all. */
static size_t bytes_on_device(const struct system *self, size_t bytes, size_t free_bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t room =
        free_bytes > self->headroom_bytes ? free_bytes - self->headroom_bytes : 0;

    return bytes <= room ? bytes : room - room % page;
}

/* Advise the driver where each part of a block should be. */
static CUresult_ place(const struct system *self, const struct tarn__calls *calls,
                       CUdeviceptr_ base, size_t bytes)
{
    size_t free_bytes = 0, total_bytes = 0;
    CUdevice_ device = 0;
    CUresult_ result = calls->mem_get_info(&free_bytes, &total_bytes);

    if (result == CUDA_SUCCESS_)
        result = calls->device_get(&device, self->backed.device);
    if (result != CUDA_SUCCESS_)
        return result;
    size_t near = bytes_on_device(self, bytes, free_bytes);
    result = advise(calls, base, near, device);
    if (result == CUDA_SUCCESS_)
        result = advise(calls, base + near, bytes - near, CU_DEVICE_CPU_);
    return result;
}

static CUresult_ system_allocate(struct tarn__backed *backed,
                                 const struct tarn__calls *calls, size_t bytes,
                                 tarn_stream stream, CUdeviceptr_ *out)
{
    const struct system *self = (struct system *)(void *)backed;
    size_t whole = (bytes + TARN_ALIGNMENT - 1) & ~((size_t)TARN_ALIGNMENT - 1);
    void *memory = whole >= bytes ? aligned_alloc(TARN_ALIGNMENT, whole) : NULL;
    CUresult_ result = CUDA_SUCCESS_;

    (void)stream;
    if (!memory)
        return CUDA_ERROR_OUT_OF_MEMORY_;
    if (self->advises)
        result = place(self, calls, (uintptr_t)memory, bytes);
    if (result == CUDA_SUCCESS_)
        *out = (uintptr_t)memory;
    else
        free(memory);
    return result;
}

static CUresult_ system_free(const struct tarn__calls *calls, CUdeviceptr_ base,
                             tarn_stream stream)
{
    CUresult_ result = tarn__quiesce_device(calls);

    (void)stream;
    if (result == CUDA_SUCCESS_)
        free((void *)(uintptr_t)base);
    return result;
}

static const struct tarn__backed_kind system_kind = {
    .component = "system",
    .allocate_call = "aligned_alloc and cuMemAdvise",
    .free_call = "cuMemFree, to wait for the device,",
    .has_no_info = true,
    .survives_reset = true,
    .allocate = system_allocate,
    .free = system_free,
};

static bool free_waits(const void *self)
{
    (void)self;
    return true;
}

static const tarn_resource_ops system_ops = {
    .size = sizeof system_ops,
    .name = "system",
    .allocate = tarn__backed_allocate,
    .deallocate = tarn__backed_deallocate,
    .destroy = tarn__backed_destroy,
    .deallocate_synchronizes = free_waits,
    .requested_bytes = tarn__backed_requested_bytes,
    .live_blocks = tarn__backed_live_blocks,
};

static tarn_status make(int device, const tarn_system_options *options,
                        tarn_resource **out)
{
    struct system *self = calloc(1, sizeof *self);

    if (!self)
        return tarn_error_set(TARN_OUT_OF_MEMORY, "system: no host memory");
    tarn__backed_init(&self->backed, &system_kind, device);
    self->advises = options->advise;
    self->headroom_bytes = options->headroom_bytes;
    tarn_status status = tarn_resource_create(&system_ops, self, device, out);
    if (status != TARN_OK)
        tarn__backed_destroy(self);
    return status;
}

static tarn_status make_plain(int device, tarn_resource **out)
{
    return make(device, &(tarn_system_options){.size = sizeof(tarn_system_options)}, out);
}

static tarn_status check(int device, const tarn_system_options *options)
{
    const struct tarn__calls *calls;
    bool has_access = false;
    tarn_status status = tarn__device_has(
        "system", device, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_, &has_access);

    if (status == TARN_OK)
        status = tarn__driver(&calls);
    if (status != TARN_OK)
        return status;
    if (!has_access || (options->advise && !calls->mem_advise))
        return tarn_error_set(TARN_NOT_SUPPORTED,
                              "system: device %d cannot access pageable host memory",
                              device);
    if (options->headroom_bytes > 0 && !options->advise)
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "system: headroom_bytes %zu requires advise",
                              options->headroom_bytes);
    return TARN_OK;
}

tarn_status tarn_system_create(int device, const tarn_system_options *options,
                               tarn_resource **out)
{
    static tarn_resource *places[TARN__DEVICES_MAX];
    tarn_system_options requested;

    if (!out)
        return tarn_error_set(TARN_INVALID_ARGUMENT, "system: create: out is NULL");
    tarn_status status = tarn__options_read("system", options, sizeof requested,
                                            &requested, sizeof requested);
    if (status == TARN_OK)
        status = check(device, &requested);
    if (status != TARN_OK)
        return status;
    return requested.advise
               ? make(device, &requested, out)
               : tarn__backed_share(&system_kind, places, device, make_plain, out);
}
