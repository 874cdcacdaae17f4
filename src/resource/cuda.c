/* cuda.c -- device memory straight from cuMemAlloc and cuMemFree: the default resource.
 *
 * cuMemFree waits until the device is idle (reference/driver.md, section 5). That makes
 * it slow, and makes it safe for memory that any stream may still be using.
 */
#include "resource/backed.h"
#include "resource/internal.h"

static CUresult_ cuda_allocate(struct tarn__backed *self, const struct tarn__calls *calls,
                               size_t bytes, tarn_stream stream, CUdeviceptr_ *out)
{
    (void)self, (void)stream;
    return calls->mem_alloc(out, bytes);
}

static CUresult_ cuda_free(const struct tarn__calls *calls, CUdeviceptr_ base,
                           tarn_stream stream)
{
    (void)stream;
    return calls->mem_free(base);
}

static const struct tarn__backed_kind cuda_kind = {
    .who = "cuda",
    .allocate_call = "cuMemAlloc",
    .free_call = "cuMemFree",
    .allocate = cuda_allocate,
    .free = cuda_free,
};

static const tarn_resource_ops cuda_ops = {
    .size = sizeof cuda_ops,
    .name = "cuda",
    .allocate = tarn__backed_allocate,
    .deallocate = tarn__backed_deallocate,
    .destroy = tarn__backed_destroy,
    .memory_info = tarn__backed_memory_info,
    .free_waits = tarn__backed_free_waits,
    .block_bytes = tarn__backed_block_bytes,
    .blocks_out = tarn__backed_blocks_out,
};

static tarn_status cuda_make(int device, tarn_resource **out)
{
    return tarn__backed_create(&cuda_kind, &cuda_ops, device, out);
}

tarn_status tarn_cuda_create(int device, tarn_resource **out)
{
    static tarn_resource *places[TARN__PLACES];
    tarn_status status = tarn__device_check("cuda", device);

    if (status != TARN_OK)
        return status;
    return tarn__resource_share(&places[device], device, cuda_make, out);
}
