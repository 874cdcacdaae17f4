/* managed.c -- managed memory: the host and the device use one address, and the driver
 * migrates it on demand.
 */
#include "resource/backed.h"

static CUresult_ managed_allocate(struct tarn__backed *self,
                                  const struct tarn__calls *calls, size_t bytes,
                                  tarn_stream stream, CUdeviceptr_ *out)
{
    (void)self, (void)stream;
    return calls->mem_alloc_managed(out, bytes, CU_MEM_ATTACH_GLOBAL_);
}

/* This waits for the device, as freeing device memory does. */
static CUresult_ managed_free(const struct tarn__calls *calls, CUdeviceptr_ base,
                              tarn_stream stream)
{
    (void)stream;
    return calls->mem_free(base);
}

static const struct tarn__backed_kind managed_kind = {
    .component = "managed",
    .allocate_call = "cuMemAllocManaged",
    .free_call = "cuMemFree",
    .allocate = managed_allocate,
    .free = managed_free,
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
    return tarn__backed_create(&managed_kind, device, out);
}

tarn_status tarn_managed_create(int device, tarn_resource **out)
{
    static tarn_resource *places[TARN__DEVICES_MAX];

    return tarn__backed_share(&managed_kind, places, device, managed_make, out);
}
