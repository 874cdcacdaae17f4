/* order.c -- what orders the work on a block: a stream, or nothing. */
#include "guard/order.h"
#include "driver/stream.h"
#include "resource/internal.h"

enum tarn__order tarn__order_find(const tarn_resource *resource,
                                  const struct tarn__scope *scope, tarn_stream stream,
                                  CUstream_ *out)
{
    CUstreamCaptureStatus_ status = CU_STREAM_CAPTURE_STATUS_NONE_;
    struct tarn__stream_identity identity;

    if (!tarn_resource_supports_streams(resource) ||
        (stream == TARN_STREAM_NONE && !resource->none_is_default &&
         tarn_resource_supports_no_stream(resource)))
        return TARN__ORDER_NONE;
    if (tarn__stream_check("guard", scope, stream, tarn_resource_device(resource)) !=
            TARN_OK ||
        !tarn__stream_identify(stream, &identity) ||
        scope->calls->stream_is_capturing(identity.handle, &status) != CUDA_SUCCESS_ ||
        status != CU_STREAM_CAPTURE_STATUS_NONE_)
        return TARN__ORDER_CAPTURED;
    *out = identity.handle;
    return TARN__ORDER_STREAM;
}
