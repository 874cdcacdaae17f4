/* relaxed.c -- calls that invalidate no capture.
 *
 * While a stream captures in global mode, cuMemAlloc and many other calls fail in every
 * thread and invalidate the capture. In thread-local mode they do so in the capturing
 * thread. A thread opts out by exchanging its capture mode: between two exchanges these
 * calls invalidate no capture (measured on an H200). This is correct for an allocator:
 * the memory that it requests is not part of what is captured.
 */
#include "driver/driver.h"

tarn_status tarn__relaxed_enter(const struct tarn__calls *calls,
                                CUstreamCaptureMode_ *mode_out)
{
    CUstreamCaptureMode_ mode = CU_STREAM_CAPTURE_MODE_RELAXED_;
    CUresult_ result = calls->thread_exchange_capture_mode(&mode);

    if (result != CUDA_SUCCESS_)
        return tarn__driver_failed("driver", "cuThreadExchangeStreamCaptureMode", result,
                                   "to mode %d", CU_STREAM_CAPTURE_MODE_RELAXED_);
    *mode_out = mode;
    return TARN_OK;
}

/* A failed exchange is tried once more: the thread's own mode must be restored. */
void tarn__relaxed_leave(const struct tarn__calls *calls, CUstreamCaptureMode_ mode)
{
    CUstreamCaptureMode_ back = mode;

    if (mode == CU_STREAM_CAPTURE_MODE_RELAXED_)
        return;
    if (calls->thread_exchange_capture_mode(&back) != CUDA_SUCCESS_) {
        back = mode;
        calls->thread_exchange_capture_mode(&back);
    }
}
