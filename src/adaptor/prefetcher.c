/* prefetcher.c -- a resource that prefetches each block of its upstream to the device.
 *
 * It is for managed memory, which otherwise migrates page by page at the first use. The
 * driver ignores the prefetch of other memory.
 */
#include "adaptor/forward.h"
#include "base/error.h"
#include "base/warn.h"
#include <stdlib.h>

struct prefetcher {
    struct tarn__adaptor adaptor; /* does the real work */
    int device;
};

static tarn_status prefetcher_allocate(void *self, size_t bytes, size_t alignment,
                                       tarn_stream stream, tarn_device_ptr *out)
{
    const struct prefetcher *prefetcher = self;
    tarn_resource *upstream = prefetcher->adaptor.upstream;
    tarn_device_ptr block = 0;
    tarn_status status =
        tarn_resource_allocate(upstream, bytes, alignment, stream, &block);

    if (status == TARN_OK && prefetcher->device != TARN_DEVICE_NONE)
        status = tarn_prefetch_async(prefetcher->device, block, bytes, prefetcher->device,
                                     stream);
    if (status == TARN_OK) {
        *out = block;
        return TARN_OK;
    }
    if (block == 0)
        return status;
    struct tarn__kept_error why = tarn__error_keep();
    if (tarn_resource_deallocate(upstream, block, bytes, alignment, stream) != TARN_OK &&
        tarn_resource_deallocate(upstream, block, bytes, alignment, stream) != TARN_OK)
        tarn__warn("prefetcher: a block of %zu bytes is leaked: %s", bytes,
                   tarn_error_last()->message);
    return tarn__error_restore(&why);
}

const tarn_resource_ops tarn__prefetcher_ops = {
    .size = sizeof tarn__prefetcher_ops,
    .name = "prefetcher",
    .allocate = prefetcher_allocate,
    .deallocate = tarn__forward_deallocate,
    .destroy = tarn__forward_destroy,
    TARN__FORWARD_QUERIES(tarn__forward_empty_request, tarn__forward_trim),
};

tarn_status tarn_prefetcher_create(tarn_resource *upstream, tarn_resource **out)
{
    if (!upstream || !out)
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "prefetcher: create: upstream or out is NULL");
    struct prefetcher *prefetcher = calloc(1, sizeof *prefetcher);
    if (!prefetcher)
        return tarn_error_set(TARN_OUT_OF_MEMORY, "prefetcher: no host memory");
    prefetcher->device = tarn_resource_device(upstream);
    tarn_status status =
        tarn__forward_create(&tarn__prefetcher_ops, &prefetcher->adaptor, upstream, out);
    if (status != TARN_OK)
        free(prefetcher);
    return status;
}
