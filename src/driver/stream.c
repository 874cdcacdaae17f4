/* stream.c -- streams that Tarn creates and destroys, for callers without another
 * library to create one: the Python class Stream, C examples, tests.
 */
#include "driver/registration.h"

enum { STREAM_DEFAULT_FLAGS = 0, STREAM_NON_BLOCKING = 1 }; /* CUstream_flags */

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
    struct tarn__scope scope;

    if ((uintptr_t)stream <= (uintptr_t)TARN_STREAM_PER_THREAD ||
        stream == TARN_STREAM_NONE)
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "stream: %p is a default stream, which cannot be destroyed",
                              (void *)stream);
    if (tarn__registration_is_value(stream))
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
