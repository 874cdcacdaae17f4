/* stream.c -- streams: which one a value means, and the public functions that create,
 * register and destroy them.
 *
 * Tarn creates streams for callers without another library to create one: the Python
 * class Stream, C examples, tests.
 */
#include "driver/stream.h"

enum { STREAM_DEFAULT_FLAGS = 0, STREAM_NON_BLOCKING = 1 }; /* CUstream_flags */

/* --- identity --- */

tarn_status tarn__stream_query_capture(const char *component,
                                       const struct tarn__scope *scope,
                                       tarn_stream stream, CUstream_ handle,
                                       CUstreamCaptureStatus_ *out)
{
    CUresult_ result = scope->calls->stream_is_capturing(handle, out);

    if (result != CUDA_SUCCESS_)
        return tarn__driver_failed(component, "cuStreamIsCapturing", result, "stream %p",
                                   (void *)stream);
    return TARN_OK;
}

tarn_status tarn__stream_query_id(const char *component, const struct tarn__scope *scope,
                                  tarn_stream stream, unsigned long long *out)
{
    CUresult_ result = scope->calls->stream_get_id((CUstream_)stream, out);

    if (result != CUDA_SUCCESS_)
        return tarn__driver_failed(component, "cuStreamGetId", result, "stream %p",
                                   (void *)stream);
    return TARN_OK;
}

void *tarn_stream_handle(tarn_stream stream)
{
    struct tarn__stream_identity identity;

    if (tarn__stream_identify(stream, &identity))
        return (void *)identity.handle;
    tarn_error_set(TARN_INVALID_ARGUMENT,
                   "stream: %p is not a registered stream and has no handle",
                   (void *)stream);
    return NULL;
}

uint64_t tarn__stream_number(tarn_stream stream)
{
    struct tarn__stream_identity identity;

    return tarn__stream_form(stream) == TARN__STREAM_FORM_REGISTERED &&
                   tarn__stream_identify(stream, &identity)
               ? (uintptr_t)identity.handle
               : (uintptr_t)stream;
}

/* --- checks --- */

/* Check without a driver call: all is known since the registration. */
static tarn_status check_registered(const char *component,
                                    const struct tarn__scope *scope, tarn_stream stream,
                                    int device)
{
    const struct tarn__registration *registration = tarn__registration_find(stream);

    if (!registration)
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "%s: stream %p is not a registered stream: it was "
                              "unregistered, or is not a stream",
                              component, (void *)stream);
    if (registration->device != device)
        return tarn_error_set(
            TARN_INVALID_ARGUMENT,
            "%s: stream %p was registered on device %d, this is device %d", component,
            (void *)stream, registration->device, device);
    if (registration->id != TARN__LEGACY_ID &&
        registration->context_generation != scope->context_generation)
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "%s: stream %p was destroyed by the reset of device %d",
                              component, (void *)stream, device);
    return TARN_OK;
}

static tarn_status check_raw(const char *component, const struct tarn__scope *scope,
                             tarn_stream stream, int device)
{
    CUcontext_ wanted, context = NULL;
    tarn_status status = tarn__context_primary(device, &wanted);

    if (status != TARN_OK)
        return status;
    CUresult_ result = scope->calls->stream_get_ctx((CUstream_)stream, &context);
    if (result == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED_)
        /* more is unknown until its capture ends; memory may be freed on it */
        return TARN_OK;
    if (result != CUDA_SUCCESS_)
        return tarn__driver_failed(component, "cuStreamGetCtx", result, "stream %p",
                                   (void *)stream);
    if (context != wanted)
        return tarn_error_set(
            TARN_INVALID_ARGUMENT,
            "%s: stream %p belongs to context %p, the primary context of "
            "device %d is %p",
            component, (void *)stream, (void *)context, device, (void *)wanted);
    return TARN_OK;
}

tarn_status tarn__stream_check(const char *component, const struct tarn__scope *scope,
                               tarn_stream stream, int device)
{
    switch (tarn__stream_form(stream)) {
    case TARN__STREAM_FORM_REGISTERED:
        return check_registered(component, scope, stream, device);
    case TARN__STREAM_FORM_RAW:
        return check_raw(component, scope, stream, device);
    default:
        return TARN_OK;
    }
}

/* --- registering --- */

/* In a scope: query the id of a stream that does not capture; the query would end its
 * capture. */
static tarn_status query_id(const struct tarn__scope *scope, tarn_stream raw,
                            unsigned long long *out)
{
    CUstreamCaptureStatus_ capture = CU_STREAM_CAPTURE_STATUS_NONE_;
    tarn_status status =
        tarn__stream_query_capture("stream", scope, raw, (CUstream_)raw, &capture);

    if (status != TARN_OK)
        return status;
    if (capture != CU_STREAM_CAPTURE_STATUS_NONE_)
        return tarn_error_set(
            TARN_STREAM_CAPTURING,
            "stream: %p is capturing; register it before or after the capture",
            (void *)raw);
    return tarn__stream_query_id("stream", scope, raw, out);
}

static bool can_be_registered(tarn_stream raw)
{
    enum tarn__stream_form form = tarn__stream_form(raw);

    return form == TARN__STREAM_FORM_RAW || form == TARN__STREAM_FORM_LEGACY;
}

tarn_status tarn_stream_register(int device, tarn_stream raw, tarn_stream *out)
{
    struct tarn__registration made = {.device = device, .handle = (CUstream_)raw};
    struct tarn__scope scope;

    if (!out || !can_be_registered(raw))
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "stream: %p cannot be registered%s; a CUstream of the "
                              "caller and the default stream (0, 1) can",
                              (void *)raw, out ? "" : ", out is NULL");
    tarn_status status = tarn__scope_enter(device, &scope);
    if (status != TARN_OK)
        return status;
    made.context_generation = scope.context_generation;
    made.id = TARN__LEGACY_ID;
    status = tarn__stream_check("stream", &scope, raw, device);
    if (status == TARN_OK && tarn__stream_form(raw) == TARN__STREAM_FORM_RAW)
        status = query_id(&scope, raw, &made.id);
    tarn__scope_leave(&scope);
    return status == TARN_OK ? tarn__registration_add(&made, out) : status;
}

/* --- creating and destroying --- */

tarn_status tarn_stream_create(int device, bool non_blocking, tarn_stream *out)
{
    struct tarn__scope scope;
    CUstream_ stream = NULL;

    if (!out)
        return tarn_error_set(TARN_INVALID_ARGUMENT, "stream: create: out is NULL");
    tarn_status status = tarn__scope_enter(device, &scope);
    if (status != TARN_OK)
        return status;
    CUresult_ result = scope.calls->stream_create(
        &stream, non_blocking ? STREAM_NON_BLOCKING : STREAM_DEFAULT_FLAGS);
    if (result == CUDA_SUCCESS_)
        *out = (tarn_stream)stream;
    else
        status =
            tarn__driver_failed("stream", "cuStreamCreate", result, "device %d", device);
    tarn__scope_leave(&scope);
    return status;
}

tarn_status tarn_stream_destroy(int device, tarn_stream stream)
{
    enum tarn__stream_form form = tarn__stream_form(stream);
    struct tarn__scope scope;

    if (form != TARN__STREAM_FORM_RAW && form != TARN__STREAM_FORM_REGISTERED)
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "stream: %p is a default stream, which cannot be destroyed",
                              (void *)stream);
    if (form == TARN__STREAM_FORM_REGISTERED)
        return tarn_error_set(
            TARN_INVALID_ARGUMENT,
            "stream: %p is a registered stream; unregister it, then destroy the CUstream",
            (void *)stream);
    if (tarn__driver_gone())
        return TARN_OK;
    if (tarn__registration_exists(device, (CUstream_)stream))
        return tarn_error_set(
            TARN_STILL_IN_USE,
            "stream: %p of device %d is registered; unregister it before destroying it",
            (void *)stream, device);
    tarn_status status = tarn__scope_enter(device, &scope);
    if (status != TARN_OK)
        return status;
    CUresult_ result = scope.calls->stream_destroy((CUstream_)stream);
    if (result != CUDA_SUCCESS_)
        status = tarn__driver_failed("stream", "cuStreamDestroy", result,
                                     "stream %p of device %d", (void *)stream, device);
    tarn__scope_leave(&scope);
    return status;
}
