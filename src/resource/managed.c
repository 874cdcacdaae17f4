/* managed.c -- memory that the host and the device see at one address, moved on demand.
 */
#include "resource/backed.h"
#include "resource/internal.h"

static CUresult_ managed_allocate(struct tarn__backed *self,
                                  const struct tarn__calls *calls, size_t bytes,
                                  tarn_stream stream, CUdeviceptr_ *out)
{
    (void)self, (void)stream;
    return calls->mem_alloc_managed(out, bytes, CU_MEM_ATTACH_GLOBAL_);
}

/* As of device memory, this waits for the device (reference/driver.md, section 5). */
static CUresult_ managed_free(const struct tarn__calls *calls, CUdeviceptr_ base,
                              tarn_stream stream)
{
    (void)stream;
    return calls->mem_free(base);
}

static const struct tarn__backed_kind managed_kind = {
    .who = "managed",
    .allocate_call = "cuMemAllocManaged",
    .free_call = "cuMemFree",
    .allocate = managed_allocate,
    .free = managed_free,
};

static const tarn_resource_ops managed_ops = {
    .size = sizeof managed_ops,
    .name = "managed",
    .allocate = tarn__backed_allocate,
    .deallocate = tarn__backed_deallocate,
    .destroy = tarn__backed_destroy,
    .memory_info = tarn__backed_memory_info,
    .free_waits = tarn__backed_free_waits,
    .block_bytes = tarn__backed_block_bytes,
    .blocks_out = tarn__backed_blocks_out,
};

static tarn_status managed_make(int device, tarn_resource **out)
{
    bool has_managed = false;
    tarn_status status = tarn__device_has(
        "managed", device, CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY_, &has_managed);

    if (status != TARN_OK)
        return status;
    if (!has_managed)
        return tarn_error_set(TARN_NOT_SUPPORTED,
                              "managed: device %d has no managed memory", device);
    return tarn__backed_create(&managed_kind, &managed_ops, device, out);
}

tarn_status tarn_managed_create(int device, tarn_resource **out)
{
    static tarn_resource *places[TARN__PLACES];
    tarn_status status = tarn__device_check("managed", device);

    if (status != TARN_OK)
        return status;
    return tarn__resource_share(&places[device], device, managed_make, out);
}
