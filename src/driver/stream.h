/* stream.h -- which stream a tarn_stream value means.
 *
 * A raw handle may name another stream than the last time, so its identity is the id that
 * the driver reports. A registered stream's identity is known since its registration.
 */
#ifndef TARN_DRIVER_STREAM_H
#define TARN_DRIVER_STREAM_H

#include "driver/driver.h"
#include "driver/registration.h"

enum tarn__stream_form {
    TARN__STREAM_FORM_NONE,       /* TARN_STREAM_NONE: no stream */
    TARN__STREAM_FORM_LEGACY,     /* the legacy default stream: 0 or 1 */
    TARN__STREAM_FORM_PER_THREAD, /* the per-thread default stream: 2 */
    TARN__STREAM_FORM_REGISTERED, /* the value of a registration, which may have ended */
    TARN__STREAM_FORM_RAW,        /* any other CUstream */
};

static inline enum tarn__stream_form tarn__stream_form(tarn_stream stream)
{
    if (stream == TARN_STREAM_NONE)
        return TARN__STREAM_FORM_NONE;
    if ((uintptr_t)stream <= (uintptr_t)TARN_STREAM_LEGACY)
        return TARN__STREAM_FORM_LEGACY;
    if (stream == TARN_STREAM_PER_THREAD)
        return TARN__STREAM_FORM_PER_THREAD;
    return tarn__registration_is_value(stream) ? TARN__STREAM_FORM_REGISTERED
                                               : TARN__STREAM_FORM_RAW;
}

struct tarn__stream_identity {
    enum tarn__stream_form form;
    struct tarn__registration *registration; /* of a registered stream, else NULL */
    CUstream_ handle;                        /* NULL where there is none */
    bool is_legacy; /* it is the legacy default stream, registered or not */
};

/* Resolve a value without a driver call. Returns false, without a message, if the value
 * is that of a registered stream and is not registered. */
static inline bool tarn__stream_identify(tarn_stream stream,
                                         struct tarn__stream_identity *out)
{
    out->form = tarn__stream_form(stream);
    out->registration = NULL;
    out->handle = out->form == TARN__STREAM_FORM_NONE ? NULL : (CUstream_)stream;
    out->is_legacy = out->form == TARN__STREAM_FORM_LEGACY;
    if (out->form != TARN__STREAM_FORM_REGISTERED)
        return true;
    out->registration = tarn__registration_find(stream);
    if (!out->registration)
        return false;
    out->handle = out->registration->handle;
    out->is_legacy = (uintptr_t)out->handle <= (uintptr_t)TARN_STREAM_LEGACY;
    return true;
}

/* Query whether the stream with this handle captures. Do this before the query of the id,
 * which invalidates the capture of a stream. In a scope; not for the legacy stream. A
 * failure names `stream`. */
tarn_status tarn__stream_query_capture(const char *component,
                                       const struct tarn__scope *scope,
                                       tarn_stream stream, CUstream_ handle,
                                       CUstreamCaptureStatus_ *out);

/* Return true unless the stream with this handle certainly does not capture. In a context
 * of its device. */
static inline bool tarn__stream_may_capture(const struct tarn__calls *calls,
                                            CUstream_ handle)
{
    CUstreamCaptureStatus_ status = CU_STREAM_CAPTURE_STATUS_ACTIVE_;

    return calls->stream_is_capturing(handle, &status) != CUDA_SUCCESS_ ||
           status != CU_STREAM_CAPTURE_STATUS_NONE_;
}

/* Query the id of a stream that is not registered and not the legacy stream. It must not
 * capture. In a scope. The id of another one is that of its registration, or
 * TARN__LEGACY_ID. */
tarn_status tarn__stream_query_id(const char *component, const struct tarn__scope *scope,
                                  tarn_stream stream, unsigned long long *out);

/* Check that a stream is usable with `device`: a default stream, or a stream of its
 * primary context, raw or registered on that device. Inside a scope of that device.
 * TARN_STREAM_NONE is usable. After it tarn_stream_handle() has an answer, until the
 * stream is unregistered. */
tarn_status tarn__stream_check(const char *component, const struct tarn__scope *scope,
                               tarn_stream stream, int device);

/* Return the CUstream as a number, for logs: all bits set for TARN_STREAM_NONE; the value
 * itself where it is not registered. */
uint64_t tarn__stream_number(tarn_stream stream);

#endif
