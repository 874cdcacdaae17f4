/* cuda.c -- device memory straight from cuMemAlloc and cuMemFree: the default resource.
 *
 * cuMemFree waits until the device is idle. That makes it slow, and makes it safe for
 * memory that any stream may still be using.
 */
#include "resource/backed.h"

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
    .component = "cuda",
    .allocate_call = "cuMemAlloc",
    .free_call = "cuMemFree",
    .allocate = cuda_allocate,
    .free = cuda_free,
};

static tarn_status cuda_make(int device, tarn_resource **out)
{
    return tarn__backed_create(&cuda_kind, device, out);
}

tarn_status tarn_cuda_create(int device, tarn_resource **out)
{
    static tarn_resource *places[TARN__DEVICES_MAX];

    return tarn__backed_share(&cuda_kind, places, device, cuda_make, out);
}
