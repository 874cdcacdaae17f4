/* driver.h -- the internal interface to the driver, for all other components.
 *
 * The order of calls in a function that reaches the driver:
 *
 *     const struct tarn__calls *cu;
 *     tarn__driver(&cu) -> tarn__scope_enter(device) -> calls -> tarn__scope_leave()
 */
#ifndef TARN_DRIVER_DRIVER_H
#define TARN_DRIVER_DRIVER_H

#include <tarn/driver.h>
#include "driver/calls.h"
#include <stdatomic.h>

/* Return the table of calls; opens the driver in the default order if none is open. */
tarn_status tarn__driver(const struct tarn__calls **out);

/* Return the number of devices of the open driver; 0 before it is open. */
int tarn__driver_device_count(void);

/* Exit has begun, or this is a forked child. Then no driver call may be started: a free
 * releases nothing and returns TARN_OK. */
extern atomic_bool tarn__driver_is_gone __attribute__((visibility("hidden")));

static inline bool tarn__driver_gone(void)
{
    return atomic_load_explicit(&tarn__driver_is_gone, memory_order_relaxed);
}

/* TARN_DRIVER_FAILURE if the driver is gone. */
tarn_status tarn__driver_check(void);

/* Record the failure of a driver call and return its status. `who` is the function that
 * fails, `call` the driver's name of the call; the numbers follow.
 * CUDA_ERROR_OUT_OF_MEMORY becomes TARN_OUT_OF_MEMORY. NOT_SUPPORTED, INVALID_VALUE and
 * the like keep their meaning; all others become TARN_DRIVER_FAILURE. */
tarn_status tarn__driver_failed(const char *component, const char *call, CUresult_ result,
                                const char *format, ...) TARN_PRINTF(4, 5);

/* Check that `device` is one of the driver's, else TARN_INVALID_ARGUMENT with a message
 * that names `who`. */
tarn_status tarn__device_check(const char *component, int device);

/* Return the primary context of a device, which is retained once and never released. */
tarn_status tarn__context_primary(int device, CUcontext_ *out);

/* Find the device of which `context` is the primary context, where Tarn has retained
 * it. */
bool tarn__context_device(CUcontext_ context, int *out);

/* A scope: a device's primary context is current between enter and leave. Leave restores
 * the previous context. If the context was reset since, enter retains it anew. */
struct tarn__scope {
    const struct tarn__calls *calls;
    uint64_t
        context_generation; /* the context's id, its generation: another one after each reset */
    bool pushed;            /* another context was current, so leave has to pop */
    bool relaxed; /* the capture mode was exchanged, so leave has to restore it */
    CUstreamCaptureMode_ mode; /* the previous mode */
};
tarn_status tarn__scope_enter(int device, struct tarn__scope *out);
void tarn__scope_leave(struct tarn__scope *scope);

/* Enter a scope whose calls end no capture, of this thread or another, in any mode.
 * Otherwise cuMemAlloc, cuMemFree, cuMemHostAlloc, cuEventQuery and similar calls would.
 * cuCtxSynchronize, cuCtxRecordEvent and calls on a capturing stream still do. */
tarn_status tarn__scope_enter_relaxed(int device, struct tarn__scope *out);

/* Do the same for calls that need no context. Leave takes the mode from enter; pairs may
 * nest. */
tarn_status tarn__relaxed_enter(const struct tarn__calls *calls,
                                CUstreamCaptureMode_ *mode_out);
void tarn__relaxed_leave(const struct tarn__calls *calls, CUstreamCaptureMode_ mode);

/* Return the current generation of a device's primary context; 0 where it has none.
 * Creates no context. */
uint64_t tarn__context_generation(int device);

/* Return true if the primary context of `device` still has the generation of a scope. (0
 * is unknown and counts as current.) If not, the reset freed all its memory, and the
 * addresses may be another owner's by now. Costs 8 ns, and creates no context. */
bool tarn__context_generation_is_current(int device, uint64_t context_generation);

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
