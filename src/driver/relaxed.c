/* relaxed.c -- calls that end no capture.
 *
 * While some stream captures in global mode, cuMemAlloc and many others are errors in
 * every thread, and the capture is lost by them; in thread-local mode in its own thread.
 * A thread says that it knows better by exchanging its capture mode: between two
 * exchanges these calls do no harm (seen on an H200, reference/driver.md, section 2). An
 * allocator knows better: the memory that it asks for is no part of what is captured.
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

/* An exchange that fails is tried once more: the thread's own mode must come back. */
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
