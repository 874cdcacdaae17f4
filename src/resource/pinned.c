/* pinned.c -- page-locked host memory that every device can access.
 *
 * It is portable and mapped, so with the unified address space of 64-bit systems the host
 * address is the device address too. Allocating it is slow (0.36 ms a MiB), so programs
 * should keep it.
 */
#include "base/host_checker.h"
#include "base/size.h"
#include "nvtx/heaps.h"
#include "nvtx/tool.h"
#include "resource/backed.h"

enum { TAIL_BYTES = 512 };

static CUresult_ pinned_allocate(struct tarn__backed *self,
                                 const struct tarn__calls *calls, size_t bytes,
                                 tarn_stream stream, CUdeviceptr_ *out)
{
    void *memory = NULL;

    /* A checker of host memory reports accesses to the bytes behind the block. */
    if (tarn__host_checker_is_present() && !tarn__size_add(bytes, TAIL_BYTES, &bytes))
        return CUDA_ERROR_OUT_OF_MEMORY_;
    CUresult_ result = calls->mem_host_alloc(
        &memory, bytes, CU_MEMHOSTALLOC_PORTABLE_ | CU_MEMHOSTALLOC_DEVICEMAP_);

    (void)self, (void)stream;
    if (result == CUDA_SUCCESS_) {
        *out = (uintptr_t)memory;
        tarn__heaps_add_host(*out, bytes);
    }
    return result;
}

/* Waits for the device. */
static CUresult_ pinned_free(const struct tarn__calls *calls, CUdeviceptr_ base,
                             tarn_stream stream)
{
    (void)stream;
    tarn__heaps_remove(base, 1);
    return calls->mem_free_host((void *)(uintptr_t)base);
}

static const struct tarn__backed_kind pinned_kind = {
    .component = "pinned",
    .allocate_call = "cuMemHostAlloc",
    .free_call = "cuMemFreeHost",
    .has_no_info = true,
    .allocate = pinned_allocate,
    .free = pinned_free,
};

static tarn_status pinned_make(int device, tarn_resource **out)
{
    return tarn__backed_create(&pinned_kind, device, out);
}

tarn_status tarn_pinned_create(int device, tarn_resource **out)
{
    static tarn_resource *places[TARN__DEVICES_MAX];

    tarn__tool_attach_host_checker();
    return tarn__backed_share(&pinned_kind, places, device, pinned_make, out);
}
