/* order.c -- what orders the work on a block: a stream, or nothing. */
#include "guard/order.h"
#include "driver/stream.h"
#include "resource/internal.h"

/* Return true if no stream orders the blocks of a call with `stream`. */
static bool is_unordered(const tarn_resource *resource, tarn_stream stream)
{
    return !tarn_resource_supports_streams(resource) ||
           (stream == TARN_STREAM_NONE && !resource->none_is_default &&
            tarn_resource_supports_no_stream(resource));
}

enum tarn__order tarn__order_find(const tarn_resource *resource,
                                  const struct tarn__scope *scope, tarn_stream stream,
                                  CUstream_ *out)
{
    struct tarn__stream_identity identity;

    if (is_unordered(resource, stream))
        return TARN__ORDER_NONE;
    if (tarn__stream_check("guard", scope, stream, tarn_resource_device(resource)) !=
            TARN_OK ||
        !tarn__stream_identify(stream, &identity) ||
        tarn__stream_may_capture(scope->calls, identity.handle))
        return TARN__ORDER_CAPTURED;
    *out = identity.handle;
    return TARN__ORDER_STREAM;
}

/* Return true if a registered stream captures, or cannot be asked. */
static bool may_capture(const struct tarn__registration *registration)
{
    const struct tarn__calls *calls;

    return tarn__driver(&calls) != TARN_OK ||
           tarn__stream_may_capture(calls, registration->handle);
}

bool tarn__order_find_quickly(const tarn_resource *resource, tarn_stream stream,
                              struct tarn__order_known *out)
{
    int device = tarn_resource_device(resource);
    struct tarn__order_known known = {device, TARN__ORDER_NO_STREAM, 0};

    if (tarn__driver_gone())
        return false;
    known.context_generation = tarn__context_generation(device);
    if (!is_unordered(resource, stream)) {
        const struct tarn__registration *registration =
            tarn__stream_form(stream) == TARN__STREAM_FORM_REGISTERED
                ? tarn__registration_find(stream)
                : NULL;
        if (!registration || registration->device != device ||
            registration->id == TARN__LEGACY_ID ||
            registration->context_generation != known.context_generation ||
            may_capture(registration))
            return false;
        known.stream_id = registration->id;
    }
    *out = known;
    return known.context_generation != 0;
}
